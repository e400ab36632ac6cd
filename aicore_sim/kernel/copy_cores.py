"""Which core performs a copy, and copies between the cores of one group (spec api_semantics.md 9.1, 11.1)."""

from __future__ import annotations

from typing import Any

from aicore_sim.errors import ParameterError, UnsupportedError
from aicore_sim.instructions import data_copy as blocks
from aicore_sim.instructions.offer import not_offered
from aicore_sim.kernel.context import Recorder

VECTORS = 2
"""Vector cores beside the cube core where L1 reaches UB."""


def operands(rec: Recorder, api: str, dst: Any, src: Any) -> tuple[Any, Any] | None:
    """The operands of a copy whose buffers are not all on this core; None where another core performs it.

    UB -> L1 is issued by a vector core into the L1 of its group. Raises ParameterError for a tensor without memory,
    UnsupportedError for copies that no path joins. A kernel without cores of the other kind warns, for the copy takes
    place nowhere.
    """
    for field, tensor in (("dst", dst), ("src", src)):
        if not tensor.kind:
            raise ParameterError(f"{api}: the tensor has no memory yet", field=field, value="unbound LocalTensor")
    kinds = {dst.kind, src.kind}
    if kinds == {"UB", "L1"}:
        blocks.route(api, src.kind, dst.kind, rec.card)
        if src.kind == "L1":
            raise UnsupportedError(f"{api}: it does not copy from L1 to UB here", field="path", value="L1-UB",
                                   allowed="data_copy_l1_to_ub, on the cube core", card=rec.card.name)  # fmt: skip
        if rec.on_aiv:
            if rec.group_l1 is None:
                raise UnsupportedError(f"{api}: this kernel has no cube core whose L1 could be written", field="path",
                                       value="UB-L1", allowed="a mix kernel", card=rec.card.name)  # fmt: skip
            return placed(dst, rec.group_l1), src
    elif "UB" in kinds and "GM" not in kinds and kinds != {"UB"}:
        path = f"{src.kind}-{dst.kind}"
        if path == "L0C-UB":
            raise not_offered(rec.card, "DataCopy", "DataCopy", "L0C to UB", "path", path)
        blocks.route(api, src.kind, dst.kind, rec.card)
    if not rec.mix:
        away = dst.kind if dst.kind != "GM" and dst.kind not in rec.buffers else src.kind
        rec.session.warn(f"{api}: moves nothing, the cores of this kernel have no {away}", rec.line(3))
    return None


def of_vector_core(rec: Recorder, api: str, dst: Any, sub_block_id: Any) -> Any:
    """The place of `dst` in the UB of a vector core of this cube core's group, which must have two.

    Raises ParameterError for another id than 0 and 1, UnsupportedError where the group is another.
    """
    if type(sub_block_id) is not int or not 0 <= sub_block_id < VECTORS:
        raise ParameterError(f"{api}: no such vector core", field="sub_block_id", value=sub_block_id, allowed="0, 1",
                             card=rec.card.name)  # fmt: skip
    if len(rec.group_ub) != VECTORS:
        raise UnsupportedError(f"{api}: only kernels with two vector cores beside each cube core have it", field="api",
                               value=f"{len(rec.group_ub)} vector cores", allowed="a mix kernel 1:2",
                               card=rec.card.name)  # fmt: skip
    return placed(dst, rec.group_ub[sub_block_id])


def placed(tensor: Any, buffer: Any) -> Any:
    """The tensor at the same address of another core's buffer."""
    view = tensor[0]
    view.buffer = buffer
    return view
