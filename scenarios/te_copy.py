"""The Tensor API by example: a half matrix of 128 x 64 from L1 to L0A, in the three call styles of the API page.

Source and destination are NZ, so the copy is one LoadData of 8 x 4 fractals, 16 KB byte for byte. A plain data_copy brings
the matrix into L1; an Mmad with the identity and a Fixpipe bring L0A back to GM, element by element as NZ defines it. Only
Atlas 350 has the Tensor API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import aicore_sim as asc
from aicore_sim.cards import Card
from aicore_sim.instructions.offer import check_offer
from aicore_sim.kernel.arguments import GmSpec
from aicore_sim.layouts import to_layout
from aicore_sim.scenario import Job, param

M, K = 128, 64
te = asc.te


@dataclass(frozen=True)
class Parameters:
    style: str = param("atom", "Copy(CopyAtom<...>{}, dst, src), CopyAtom<...>{}.Call(dst, src), or MakeCopy(...).Call(dst, src)",
                       ("atom", "call", "make_copy"))  # fmt: skip


@asc.jit
def copy(x: asc.GlobalAddress, eye: asc.GlobalAddress, y: asc.GlobalAddress, style: asc.ConstExpr) -> None:
    x_gm, eye_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    eye_gm.set_global_buffer(eye)
    y_gm.set_global_buffer(y)
    l1 = asc.LocalTensor(x.dtype, asc.TPosition.A1, 0, M * K)
    l1_eye = asc.LocalTensor(x.dtype, asc.TPosition.B1, M * K * 2, K * K)
    l0a = asc.LocalTensor(x.dtype, asc.TPosition.A2, 0, M * K)
    l0b = asc.LocalTensor(x.dtype, asc.TPosition.B2, 0, K * K)
    l0c = asc.LocalTensor(y.dtype, asc.TPosition.CO1, 0, M * K)
    asc.data_copy(l1, x_gm, M * K)
    asc.data_copy(l1_eye, eye_gm, K * K)
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)

    dst_layout = te.make_nz_layout(x.dtype, M, K)
    src_layout = te.make_nz_layout(x.dtype, M, K)
    src = te.make_tensor(te.make_l1_mem_ptr(l1) + 0, src_layout)
    dst = te.make_tensor(te.make_l0a_mem_ptr(l0a) + 0, dst_layout)
    if style == "atom":
        te.copy(te.CopyAtom(te.CopyTraits(te.CopyL12L0, te.LoadDataTraitDefault)), dst, src)
    elif style == "call":
        te.CopyAtom(te.CopyTraits(te.CopyL12L0, te.LoadDataTraitDefault)).call(dst, src)
    else:
        atom = te.make_copy(te.CopyL12L0(), te.LoadDataTraitDefault())
        atom.call(dst, src)

    asc.load_data(l0b, l1_eye, asc.LoadData2DParamsV2(m_step=K // 16, k_step=K // 16, src_stride=K // 16, dst_stride=K // 16))
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    asc.mmad(l0c, l0a, l0b, asc.MmadParams(M, K, K, cmatrix_init_val=True))
    asc.set_flag(asc.HardEvent.M_FIX, 0)
    asc.wait_flag(asc.HardEvent.M_FIX, 0)
    asc.fixpipe(y_gm, l0c, asc.FixpipeParamsArch3510(K, M, M, K))


def _show(args: tuple[Any, ...]) -> str:
    return f"x (GM, L1), NZ, first elements:\n{args[0][:20]}\nL0A as a matrix of {M} x {K}:\n{args[2]}"


def build(card: Card, p: Parameters, data: bool) -> Job:
    """x is the matrix as it lies in L1: its elements are numbered 0, 1 ... 2047 and again. Raises UnsupportedError on cards
    without the Tensor API."""
    check_offer(card, "Copy", "Tensor API, L1 to L0A", None)
    if not data:
        specs = (GmSpec((M * K,), asc.float16), GmSpec((K * K,), asc.float16), GmSpec((M, K), asc.float32))
        return Job(copy, (*specs, p.style), 1, dict(vars(p)))
    x = (np.arange(M * K) % 2048).astype(np.float16)
    eye = to_layout(np.eye(K, dtype=np.float16), "ZN", asc.float16).view(np.float16)

    def expect(args: tuple[Any, ...]) -> bool:
        # NZ: columns of fractals of 16 x 16, each row-major
        r, c = np.indices((M, K))
        return np.array_equal(args[2], args[0][(c // 16 * (M // 16) + r // 16) * 256 + r % 16 * 16 + c % 16])

    return Job(copy, (x, eye, np.zeros((M, K), np.float32), p.style), 1, dict(vars(p)), expect=expect, show=_show)
