"""bilinear_interpolation as a kernel calls it (spec pyasc.md 6.3, 13)."""

from __future__ import annotations

from typing import Any

from aicore_sim.errors import ParameterError
from aicore_sim.instructions import bilinear
from aicore_sim.kernel.context import current
from aicore_sim.kernel.vector_forms import emit_cached, leave_mask, mask_of, nothing, operands, whole

__all__ = ["bilinear_interpolation"]


def bilinear_interpolation(
    dst: Any, src0: Any, src0_offset: Any, src1: Any, mask: int | list[int], h_repeat: int, repeat_mode: bool,
    dst_blk_stride: int, v_r_offset: int, v_repeat: int, shared_tmp_buffer: Any,
) -> None:  # fmt: skip
    """BilinearInterpolation: dst of vertical step k = sum over h_repeat of 8 gathered blocks of src0 times src1.

    `src0_offset` (uint32) holds 8 byte offsets a step; `repeat_mode` True takes 8 weights a step, one a block, else one.
    On A2 and A3 `shared_tmp_buffer` (uint8) is left undefined. Raises as `api_vector`; an offset that is no whole block
    of UB is found when the instruction runs.
    """
    rec = current()
    if not rec.on_aiv:
        return
    api = bilinear.API
    if not isinstance(repeat_mode, (bool, int)):
        raise ParameterError(f"{api}: repeat_mode", field="repeat_mode", value=repeat_mode, allowed="bool", card=rec.card.name)
    form = bilinear.BilinearForm(
        mask_of(api, mask), whole(api, "h_repeat", h_repeat), bool(repeat_mode),
        whole(api, "dst_blk_stride", dst_blk_stride), whole(api, "v_r_offset", v_r_offset), whole(api, "v_repeat", v_repeat),
    )  # fmt: skip
    tensors = (dst, src0, src0_offset, src1, shared_tmp_buffer)
    what = operands(api, tensors)
    sizes = (src0.get_length(), src1.get_size())
    dtypes, kinds = [dtype for dtype, _ in what], [kind for _, kind in what]
    op = emit_cached(rec, ("bilinear", what, form, sizes),
                     lambda: bilinear.build(form, dtypes, kinds, *sizes, rec.card), *tensors)  # fmt: skip
    if op is None:
        nothing(rec, api)
        return
    leave_mask(rec, getattr(op.effect, "register", None))
    if rec.card.npu_arch == 2201 and "mask_mode" in rec.state:
        rec.state["mask_mode"] = "normal"
