"""Programs of pyasc that copy under masks, transpose, interpolate and convert, run over the simulator as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pyasc_programs import program_in


@pytest.fixture
def program(tmp_path: Path) -> Any:
    return program_in(tmp_path)


# A kernel of one core: x through UB into z, BODY between.
FRAME = """
import asc.lib.runtime as rt

@asc.jit
def kernel(x: asc.GlobalAddress, z: asc.GlobalAddress, n: asc.ConstExpr[int]):
    xs = asc.GlobalTensor()
    xs.set_global_buffer(x)
    zs = asc.GlobalTensor()
    zs.set_global_buffer(z)
    pipe = asc.TPipe()
    inq = asc.TQue(asc.TPosition.VECIN, 1)
    outq = asc.TQue(asc.TPosition.VECOUT, 1)
    words = asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(que=inq, num=1, len=n * x.dtype.sizeof())
    pipe.init_buffer(que=outq, num=1, len=n * z.dtype.sizeof())
    pipe.init_buffer(buf=words, num=32768)
    a = inq.alloc_tensor(x.dtype)
    asc.data_copy(a, xs, count=n)
    inq.enque(a)
    src = inq.deque(x.dtype)
    dst = outq.alloc_tensor(z.dtype)
BODY
    outq.enque(dst)
    inq.free_tensor(src)
    b = outq.deque(z.dtype)
    asc.data_copy(zs, b, count=n)
    outq.free_tensor(b)

"""


def framed(body: str, host: str) -> str:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return FRAME.replace("BODY", lines) + host


FIVE_HD_HOST = """
c, h, w = 16, 2, 16
x = np.arange(c * h * w, dtype=np.float16)
z = np.zeros_like(x)
kernel[1, rt.current_stream()](x, z, x.size)
assert np.array_equal(z.reshape(h, w, c), x.reshape(c, h, w).transpose(1, 2, 0))
"""
FIVE_HD_PARAMS = "params = asc.TransDataTo5HDParams(repeat_times=2, dst_rep_stride=16, src_rep_stride=1)\n"


@pytest.mark.parametrize("body", [
    # A list of tensors.
    FIVE_HD_PARAMS + "asc.trans_data_to_5hd([dst[16 * i] for i in range(16)], [src[32 * i] for i in range(16)], params)",
    # Lists of addresses.
    FIVE_HD_PARAMS + """
to = [dst[16 * i].get_phy_addr() for i in range(16)]
at = [src[32 * i].get_phy_addr() for i in range(16)]
asc.trans_data_to_5hd(to, at, params)
""",
    # Tensors of addresses, in one buffer.
    FIVE_HD_PARAMS + """
table = words.get(asc.uint64, 32)
for i in range(16):
    table.set_value(i, dst[16 * i].get_phy_addr())
    table.set_value(16 + i, src[32 * i].get_phy_addr())
asc.trans_data_to_5hd(table, table[16], params)
""",
])  # fmt: skip
@pytest.mark.parametrize("card", ["atlas_a2", "atlas_350", "atlas_200i"])
def test_five_hd_in_its_three_forms(program: Any, body: str, card: str) -> None:
    status, runs = program(framed(body, FIVE_HD_HOST), card=card)
    assert status == 0 and len(runs) == 1


def test_tables_of_addresses_of_unknown_type(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    body = FIVE_HD_PARAMS + """
table = words.get(asc.uint64, 32)
for i in range(16):
    table.set_value(i, dst[16 * i].get_phy_addr() + 0)
    table.set_value(16 + i, src[32 * i].get_phy_addr() + 0)
asc.trans_data_to_5hd(table, table[16], paramsTYPE)
"""
    status, _ = program(framed(body.replace("TYPE", ""), FIVE_HD_HOST))
    assert status == 1 and "element type behind these addresses is not known" in capsys.readouterr().err
    # The C++ template parameter helps.
    assert program(framed(body.replace("TYPE", ", dtype=asc.float16"), FIVE_HD_HOST))[0] == 0


def test_copy_transpose_and_brcb(program: Any) -> None:
    status, _ = program(framed(
        """
asc.duplicate(dst, 0, n)
asc.copy(dst, src, mask=[0xFFFF, 0], repeat_time=4, repeat_params=asc.CopyRepeatParams(1, 1, 2, 4))
asc.transpose(dst[256], src[256])
asc.brcb(dst[512], src, 2, asc.BrcbRepeatParams(1, 8))
""", """
x = np.arange(1024, dtype=np.int16)
z = np.full_like(x, -1)
kernel[1](x, z, x.size)
expected = np.zeros(1024, np.int16)
for r in range(4):
    expected[32 * r : 32 * r + 16] = x[64 * r : 64 * r + 16]
expected[256:512] = x[256:512].reshape(16, 16).T.reshape(-1)
expected[512:768] = np.repeat(x[:16], 16)
assert np.array_equal(z, expected), np.flatnonzero(z != expected)
"""))  # fmt: skip
    assert status == 0


def test_images_change_their_order(program: Any) -> None:
    status, _ = program(framed(
        """
tmp = words.get(asc.uint8, 32768)
there = asc.TransposeParamsExt(2, 3, 4, 8, asc.TransposeType.TRANSPOSE_NCHW2NHWC)
asc.transpose(dst, src, tmp, there)
""", """
x = np.arange(192, dtype=np.float32)
z = np.zeros_like(x)
kernel[1](x, z, x.size)
assert np.array_equal(z.reshape(2, 4, 8, 3), x.reshape(2, 3, 4, 8).transpose(0, 2, 3, 1))
"""))  # fmt: skip
    assert status == 0


def test_fused_functions_and_the_scale(program: Any) -> None:
    status, _ = program(framed(
        """
half = words.get(asc.half, 64)
asc.set_deq_scale(0.5)
asc.cast(half, src, asc.RoundMode.CAST_NONE, 64)
asc.muls(half, half, 2.0, 64)
asc.cast(dst, half, asc.RoundMode.CAST_RINT, 64)
asc.add(dst, dst, src, count=64)
asc.set_deq_scale(1.0, 3, True)
""", """
x = np.arange(-32, 32, dtype=np.int32)
z = np.zeros_like(x)
kernel[1](x, z, x.size)
assert np.array_equal(z, 2 * x), z
"""))  # fmt: skip
    assert status == 0


def test_a_table_of_scales_is_written_by_the_scalar_unit(program: Any) -> None:
    status, _ = program(framed(
        """
table = words.get(asc.uint64, 16)
scales = [0.5] * 8 + [1.0] * 8
asc.set_deq_scale(table, asc.VdeqInfo(scales, [1] * 16, [True] * 16))
eight = dst.reinterpret_cast(asc.int8)
asc.duplicate(dst, 0, n)
asc.cast_deq(eight, src, 32, is_vec_deq=True, half_block=False)
""", """
x = np.arange(0, 64, dtype=np.int16)
z = np.zeros_like(x)
kernel[1](x, z, x.size)
got = z.view(np.int8).reshape(-1, 32)
for block in range(2):
    row = x[16 * block : 16 * block + 16]
    expected = [round(v * (0.5 if k < 8 else 1.0) + 1) for k, v in enumerate(row.tolist())]
    assert got[block, :16].tolist() == expected and not got[block, 16:].any(), got[block]
assert not got[2:].any()
"""))  # fmt: skip
    assert status == 0


def test_interpolation_and_image_settings(program: Any) -> None:
    status, runs = program(framed(
        """
asc.set_aipp_functions(xs, asc.AippInputFormat.RGB888_U8, asc.AippParams(asc.int8, swap_params=asc.AippSwapParams(True)))
offsets = words.get(asc.uint32, 16)
for i in range(16):
    offsets.set_value(i, 32 * (15 - i))
weights = words.get_with_offset(16, 256, asc.half)
asc.duplicate(weights, 3, 16)
asc.bilinear_interpolation(dst, src, offsets, weights, 128, 2, False, 1, 128, 1, words.get_with_offset(8192, 512, asc.uint8))
""", """
x = np.arange(256, dtype=np.float16)
z = np.zeros_like(x)
kernel[1](x, z, 256)
blocks = x.reshape(16, 16)
assert np.array_equal(z[:128].reshape(8, 16), 3 * (blocks[15:7:-1] + blocks[7::-1])), z[:128]
"""))  # fmt: skip
    assert status == 0, runs
