"""Transpose and TransDataTo5HD as a kernel calls them (spec pyasc.md 6.3, 13).

They belong to the vector core: elsewhere a call does nothing. Errors as in `api_vector`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aicore_sim.dtypes import DataType, uint64
from aicore_sim.errors import ParameterError
from aicore_sim.instructions import trans_data
from aicore_sim.instructions import transpose as turning
from aicore_sim.instructions.base import Op, Pipe, ScalarWork
from aicore_sim.instructions.trans_data import LIST, TransDataTo5HDParams
from aicore_sim.instructions.transpose import TransposeParamsExt
from aicore_sim.kernel.addresses import LocalAddress, Place, element_of_table, known_table
from aicore_sim.kernel.context import Recorder, current
from aicore_sim.kernel.vector_forms import emit_cached, nothing, operands, whole

__all__ = ["TransDataTo5HDParams", "TransposeParamsExt", "trans_data_to_5hd", "transpose"]

_TABLE_BYTES = LIST * 8


def transpose(dst: Any, src: Any, shared_tmp_buffer: Any = None, params: TransposeParamsExt | None = None) -> None:
    """Transpose: `(dst, src)`, a 16 x 16 matrix of 16-bit elements; `(dst, src, shared_tmp_buffer, params)` also NCHW to
    NHWC and back, with a uint8 buffer that is left undefined.
    """
    rec = current()
    if not rec.on_aiv:
        return
    if (shared_tmp_buffer is None) != (params is None) or not isinstance(params, TransposeParamsExt | None):
        raise ParameterError("transpose takes (dst, src) or (dst, src, shared_tmp_buffer, params)", field="params",
                             value=type(params).__name__, allowed="TransposeParamsExt", card=rec.card.name)  # fmt: skip
    what = operands(turning.API, (dst, src))
    if dst.dtype is not src.dtype:
        raise ParameterError("Transpose: destination and source have one element type", field="dtype",
                             value=f"{dst.dtype.name}, {src.dtype.name}", card=rec.card.name)  # fmt: skip
    if params is None:
        kinds = (dst.kind, src.kind)
        emit_cached(rec, ("transpose", what), lambda: turning.build(dst.dtype, kinds, rec.card), dst, src)
        return
    tensors = (dst, src, shared_tmp_buffer)
    kinds = tuple(kind for _, kind in operands(turning.API, tensors))
    if shared_tmp_buffer.dtype.name != "uint8":
        raise ParameterError("Transpose: shared_tmp_buffer is a uint8 tensor", field="shared_tmp_buffer",
                             value=shared_tmp_buffer.dtype.name, allowed="uint8", card=rec.card.name)  # fmt: skip
    key = ("transpose", what, kinds, params)
    emit_cached(rec, key, lambda: turning.build_ext(params, dst.dtype, kinds, rec.card), *tensors)


def trans_data_to_5hd(dst: Any, src: Any, params: TransDataTo5HDParams, dtype: DataType | None = None) -> None:
    """TransDataTo5HD: 16 blocks of 32 B into 16 blocks, transposed; addresses are given once for all repeats.

    `dst` and `src` are lists of 16 tensors, lists of 16 addresses (`get_phy_addr()`), or two uint64 tensors that hold 16
    such addresses, which are read when the call is reached and suspend the recording. The element type of addresses is
    that of the tensor they were taken from; `dtype` (the C++ template parameter) says it where that is lost.

    Raises ParameterError for other lists, mixed types, or addresses of an unknown type.
    """
    rec = current()
    if not rec.on_aiv:
        return
    if not isinstance(params, TransDataTo5HDParams):
        raise ParameterError(f"{trans_data.API}: params", field="params", value=type(params).__name__,
                             allowed="TransDataTo5HDParams", card=rec.card.name)  # fmt: skip
    if hasattr(dst, "dtype") and hasattr(src, "dtype"):
        element, places = _of_tables(rec, dst, src, dtype)
    else:
        element, places = _of_lists(rec, dst, src, dtype)
    kinds = tuple(place.kind for place in places)
    key = ("trans_data_to_5hd", element, kinds, params)
    if emit_cached(rec, key, lambda: trans_data.build(params, element, kinds, rec.card), *places) is None:
        nothing(rec, trans_data.API)


def _of_lists(rec: Recorder, dst: Any, src: Any, dtype: DataType | None) -> tuple[DataType, list[Any]]:
    for name, given in (("dst", dst), ("src", src)):
        if not isinstance(given, (list, tuple)) or len(given) != LIST:
            raise ParameterError(f"{trans_data.API}: lists of {LIST} tensors or addresses", field=name, value=given,
                                 allowed=f"{LIST} entries", card=rec.card.name)  # fmt: skip
    entries = [*dst, *src]
    if all(hasattr(entry, "kind") for entry in entries):
        types = {entry.dtype for entry in entries}
        if len(types) != 1:
            raise ParameterError(f"{trans_data.API}: all tensors have one element type", field="dtype",
                                 value=", ".join(sorted(t.name for t in types)), card=rec.card.name)  # fmt: skip
        return types.pop(), entries
    addresses = [whole(trans_data.API, "address", entry) for entry in entries]
    types = {entry.element for entry in entries if isinstance(entry, LocalAddress) and entry.element is not None}
    element = _element(rec, dtype, types.pop() if len(types) == 1 else None)
    return element, [Place(rec.buffers.get("UB"), address, element) for address in addresses]


def _element(rec: Recorder, given: DataType | None, known: DataType | None) -> DataType:
    element = given if given is not None else known
    if element is None:
        raise ParameterError(f"{trans_data.API}: the element type behind these addresses is not known",
                             field="dtype", value=None, allowed="addresses straight from get_phy_addr(), or dtype=",
                             card=rec.card.name)  # fmt: skip
    return element


def _of_tables(rec: Recorder, dst: Any, src: Any, dtype: DataType | None) -> tuple[DataType, list[Any]]:
    """The 32 places whose addresses two uint64 tensors hold, as the scalar unit reads them."""
    for name, table in (("dst", dst), ("src", src)):
        if table.dtype is not uint64 or table.kind != "UB":
            raise ParameterError(f"{trans_data.API}: a tensor of addresses is uint64 and lies in UB", field=name,
                                 value=f"{table.dtype.name} in {table.kind}", card=rec.card.name)  # fmt: skip
    known = element_of_table(rec, dst, LIST) or element_of_table(rec, src, LIST)
    element = _element(rec, dtype, known)
    op = rec.ops.get("trans_data_addresses")
    if op is None:
        op = rec.ops["trans_data_addresses"] = Op(
            trans_data.API, Pipe.S, ScalarWork("local_access"), nbytes=2 * _TABLE_BYTES,
            reads=((0, 0, _TABLE_BYTES), (1, 0, _TABLE_BYTES)), detail="addresses",
        )  # fmt: skip
    bufs, offs = (dst.buffer, src.buffer), (dst.offset, src.offset)
    if not rec.session.data:
        addresses = [*known_table(rec, dst, LIST), *known_table(rec, src, LIST)]
    else:

        def read(_device: Any) -> list[int]:
            words = [b.bytes()[at : at + _TABLE_BYTES].view(np.uint64) for b, at in zip(bufs, offs, strict=True)]
            return [int(word) for table in words for word in table]

        addresses = rec.ask(op, read, bufs=bufs, offs=offs)
    return element, [Place(rec.buffers.get("UB"), address, element) for address in addresses]
