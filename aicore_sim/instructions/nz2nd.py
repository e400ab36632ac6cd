"""DataCopy UB -> GM from NZ to row-major: Nz2NdParamsFull (spec api_semantics.md 8.8).

Software of the vendor's library: one store of 16 elements for every row of every column block. A column block has 16
columns whatever the type.
"""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.cards import Card
from aicore_sim.dtypes import BLOCK_BYTES, DataType
from aicore_sim.errors import ParameterError
from aicore_sim.instructions.base import GmTraffic, Op, Range, cached_hash, describe, movement, taken
from aicore_sim.instructions.data_copy import API, ARCH_950, route
from aicore_sim.instructions.offer import check_offer
from aicore_sim.transfer import Transfer, strided_copy, strided_runs

COLUMNS = 16
MATRIX_UNIT = 256
"""Elements of one unit of srcNdMatrixStride."""
U16 = 65535


@dataclass(frozen=True)
class Nz2NdParamsFull:
    """nd_num matrices of n_value rows and d_value columns.

    src_nd_matrix_stride counts 256 elements, src_n_stride (from one column block to the next) 16 elements; dst_d_stride
    (from row to row) and dst_nd_matrix_stride count elements of the destination.
    """

    nd_num: int
    n_value: int
    d_value: int
    src_nd_matrix_stride: int
    src_n_stride: int
    dst_d_stride: int
    dst_nd_matrix_stride: int

    __hash__ = cached_hash


def build(params: Nz2NdParamsFull, dtype: DataType, card: Card) -> Op | None:
    """The Op of DataCopy(GM tensor, UB tensor, Nz2NdParamsFull); None for a NOP (ndNum 0).

    Raises ParameterError for a field outside its range or columns that are no whole blocks, UnsupportedError where card
    or type do not offer it.
    """
    check_offer(card, API, "UB to GM NZ2ND", dtype)
    pipe, path = route(API, "UB", "GM", card)
    # With one matrix the strides between matrices are not used.
    least = 0 if params.nd_num == 1 else 1
    ranges: dict[str, Range] = {
        "nd_num": (0, 4095, 16),
        "n_value": (1, 8192, 16),
        "d_value": (1, 8192, 16),
        "src_nd_matrix_stride": (least, 512, 16),
        "src_n_stride": (0, 4096, 16),
        "dst_d_stride": (1, U16),
        "dst_nd_matrix_stride": (least, U16),
    }
    warnings: list[str] = []
    params = taken(API, params, ranges, card, warnings)
    if params.d_value % COLUMNS:
        raise ParameterError(f"{API}: Nz2NdParamsFull.d_value (dValue) counts whole column blocks", field="d_value",
                             value=params.d_value, allowed=f"multiples of {COLUMNS}", card=card.name)  # fmt: skip
    if params.nd_num == 0:
        return None
    size = dtype.sizeof()
    src_matrix = params.src_nd_matrix_stride * MATRIX_UNIT * size
    if card.npu_arch != ARCH_950 and params.nd_num > 1 and params.src_nd_matrix_stride * MATRIX_UNIT % (params.n_value * size):
        warnings.append("the debug check of this card wants src_nd_matrix_stride * 256 to be a multiple of n_value * bytes")
    if params.n_value > 1 and params.dst_d_stride < params.d_value:
        warnings.append(f"rows {params.dst_d_stride} elements apart overlap: a row has {params.d_value}")
    blocks, piece = params.d_value // COLUMNS, COLUMNS * size
    shape = (params.nd_num, blocks, params.n_value)
    dst_strides = (params.dst_nd_matrix_stride * size, piece, params.dst_d_stride * size)
    steps = strided_copy(piece, shape, 0, (src_matrix, params.src_n_stride * piece, piece), 0, dst_strides)
    rows = params.nd_num * blocks * params.n_value
    cost = GmTraffic(path, rows * piece, rows, is_read=False)
    op = movement(API, pipe, path, Transfer(steps), cost, aligns=(size, BLOCK_BYTES), detail=describe(params),
                  warnings=warnings)  # fmt: skip
    op.gm_runs = strided_runs(piece, shape, 0, dst_strides)
    return op
