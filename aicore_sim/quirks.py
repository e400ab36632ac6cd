"""Readings of an API where the vendor's implementation differs from its pages.

The page is the default (`quirks="documented"`). `quirks="implementation"`, or a list of names out of `QUIRKS`, selects
the other reading. A reading belongs to the card that a run gets (`Card.quirk`), so that whatever lowers a call can ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aicore_sim.errors import ParameterError

A2_A3 = ("atlas_a2", "atlas_a3")
A350 = ("atlas_350",)


@dataclass(frozen=True)
class Quirk:
    """One place where page and implementation differ: on which cards, for which API, and what either says.

    `section` is that of the specification's api_semantics.md.
    """

    name: str
    api: str
    cards: tuple[str, ...]
    page: str
    implementation: str
    section: str


_TABLE = (
    Quirk("load2d-950", "LoadData (LoadData2DParams)", A350,
          "start_index counts fractals; one fractal a repeat; dst_gap has no effect from L1",
          "one 2D-V2 instruction: the start is start_index * src_stride, GM to L1 moves src_stride fractals a repeat,"
          " dst_gap spreads plain fractals, transposed loads into L0B ignore start_index", "2.5"),
    Quirk("addr-mode", "LoadData (LoadData2DParams), LoadDataWithTranspose", (*A2_A3, *A350, "atlas_200i"),
          "addr_mode 1 decrements (LoadData2D: from GM to L1)",
          "it increments, but for LoadData2D from GM to L1 on A2, A3 and 200I", "2.3, 6.2"),
    Quirk("transpose-v1-16-bit", "LoadDataWithTranspose (LoadData2dTransposeParams)", A350,
          "start_index and src_stride count squares up to 65535",
          "both are doubled for 8 and 32 bits and kept in 16 bits: 32768 becomes 0", "6.2"),
    Quirk("bit-mode-b1", "LoadData (Load2DBitModeParam)", A350,
          "A1 to A2 and B1 to B2", "the debug check refuses a source in B1", "4.3"),
    Quirk("mx-nop-parts", "LoadData (LoadData2DMxParams)", A350,
          "a step of 0 makes the whole call a no-operation",
          "x_step or y_step 0 leaves out the scales, m_step or k_step 0 the data", "3.5"),
    Quirk("load3d-pad-16-bit", "LoadData (LoadData3DParamsV2), SetLoadDataPaddingValue", A350,
          "the padding value may have 32 bits", "its low 16 bits are kept", "5.7"),
    Quirk("load3d-repeat-pitch", "LoadData (LoadData3DParamsV2)", A350,
          "the pitch in L0 is dst_stride of SetLoadDataRepeat, where one is given",
          "dst_stride is ignored: the call computes its own pitch", "5.6"),
    Quirk("fmatrix-left", "LoadData (LoadData3DParamsV2)", A2_A3,
          "is_set_f_matrix programs the register that f_matrix_ctrl names",
          "the left register is programmed whatever f_matrix_ctrl says", "5.7"),
    Quirk("nd2nz-matrix-pitch-16-bit", "DataCopy (Nd2NzParams, Dn2NzParams)", A350,
          "dst_nz_matrix_stride as given", "its number of 32 B blocks is kept in 16 bits", "8.5"),
    Quirk("ub-nd2nz-once", "DataCopy (Nd2NzParams, GM to UB)", A350,
          "matrix i starts i matrix strides on", "the strides are added once, whatever i is", "15 p"),
    Quirk("slice-burst-16-bit", "DataCopy (SliceInfo)", A350,
          "burst_len blocks of 32 B", "the bytes of a burst are kept in 16 bits: 2048 blocks become 0", "9.6"),
    Quirk("pad-stride-2-39", "DataCopyPad", A350,
          "strides on the GM side up to 2^40 - 1", "the debug check refuses more than 2^39", "9.2"),
    Quirk("nddma-b64-config-pads", "DataCopy (NdDmaParams), 64-bit types", A350,
          "pads of NdDmaConfig count elements", "up to four dimensions they also pad inside an element", "10.5"),
    Quirk("te-coord", "LoadData of the Tensor API with a coordinate", A350,
          "a coordinate is a multiple of the fractal; it counts elements",
          "a coordinate is rounded down to a fractal; with 4-bit NZ to NZ the column start is halved", "7.4"),
    Quirk("fixpipe-v220-unscaled", "Fixpipe (FixpipeParamsV220)", A350,
          "units of the struct's own page: NZ dst_stride 32 B, src_nd_stride 1024 B",
          "both numbers are passed on: dst_stride counts elements, src_nd_stride 64 B", "12.2"),
    Quirk("fixpipe-table-chunks", "Fixpipe with a table of scales", (*A2_A3, *A350),
          "a table of any width", "beyond one load of the table (256 columns, 350: 1024) the NZ pitch of later chunks"
          " is wrong: twice the merged pitch on A2 and A3 for 8 bits, times 32 B / element on 350", "12.3"),
)  # fmt: skip
QUIRKS = {quirk.name: quirk for quirk in _TABLE}


def chosen(quirks: str | Iterable[str]) -> frozenset[str]:
    """Names out of `QUIRKS` for "documented" (none), "implementation" (all), one name, or several (also "a,b").

    Raises ParameterError for an unknown name.
    """
    words = quirks.split(",") if isinstance(quirks, str) else list(quirks)
    names: set[str] = set()
    for word in words:
        if word == "implementation":
            names.update(QUIRKS)
        elif word in QUIRKS:
            names.add(word)
        elif word != "documented":
            raise ParameterError("unknown quirk", field="quirks", value=word,
                                 allowed=f"documented, implementation, {', '.join(QUIRKS)}")  # fmt: skip
    return frozenset(names)
