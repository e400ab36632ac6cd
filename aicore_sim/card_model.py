"""The shape of a card file: one frozen pydantic model per TOML table.

Units unless a number says otherwise: rates in bytes per core clock cycle and core (``B/cycle``), latencies in core
clock cycles (``cycle``). Section numbers are those of the specification's hardware chapter. The models check shape and
plausibility only; what the numbers mean for time is in `timing` and `engine`.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Basis = Literal["documented", "measured", "derived", "fitted", "assumed", "override"]
"""Where a number comes from. ``override`` is set by `cards.load_card` only and refused in files."""

Unit = Literal[
    "cycle", "B/cycle", "elements/cycle", "elements", "B", "GB/s", "MHz", "us", "ns", "count", "fraction", "factor"
]  # fmt: skip
WHOLE_UNITS = frozenset({"B", "count", "elements"})
"""Units of sizes and depths: whole numbers from 1 on, for they divide and index."""
_RATES = frozenset({"B/cycle", "elements/cycle", "GB/s", "MHz", "fraction"})
"""Units of what time is divided by: greater than 0."""
Pipe = Literal["S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"]
Policy = Literal["lru", "fifo", "random"]
MmadType = Literal["int4", "int8", "fp8", "half", "bf16", "float", "hf32", "mxfp8", "mxfp4"]
LoadApi = Literal[
    "LoadData2D", "LoadData2DV2", "LoadData3DV2", "LoadDataWithTranspose", "LoadData2DMx", "LoadDataWithSparse"
]  # fmt: skip


def _plain_number(value: object) -> object:
    """Refuse what Python or pydantic would silently turn into a number (bool, text, nan)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError("a finite number >= 0 is needed")
    return value


Value = Annotated[int | float, BeforeValidator(_plain_number)]
Count = Annotated[int, BeforeValidator(_plain_number), Field(gt=0)]
Text = Annotated[str, Field(min_length=1)]


class Table(BaseModel):
    """A TOML table: unknown keys are errors, instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Fact(Table):
    """Provenance carried by every hardware fact."""

    basis: Basis
    source: Text
    note: str = ""

    @model_validator(mode="after")
    def _assumption_is_explained(self) -> Self:
        if self.basis == "assumed" and not self.note:
            raise ValueError("an assumed value needs a note that says why this value")
        return self


class Number(Fact):
    """A number with unit and provenance; `range` (lo, hi) is the interval that sources or bounds leave open."""

    value: Value
    unit: Unit
    range: tuple[Value, Value] | None = None

    @model_validator(mode="after")
    def _fits_its_unit(self) -> Self:
        if self.unit in WHOLE_UNITS and (self.value < 1 or self.value != int(self.value)):
            raise ValueError(f"a whole number >= 1 is needed, not {self.value} {self.unit}")
        if self.unit in _RATES and self.value <= 0:
            raise ValueError(f"a number > 0 is needed, not {self.value} {self.unit}")
        return self

    @model_validator(mode="after")
    def _inside_range(self) -> Self:
        if self.range is not None and not self.range[0] <= self.value <= self.range[1]:
            raise ValueError(f"value {self.value} is outside its range {list(self.range)}")
        return self

    @model_validator(mode="after")
    def _guess_has_a_range(self) -> Self:
        """The interval of a result is made of the ranges of the numbers behind it (`uncertainty.spread`)."""
        if self.range is None and self.basis in ("fitted", "assumed"):
            raise ValueError(f"a number that is {self.basis} needs a range: add range = [lo, hi], the smallest and the largest "
                             "value that sources leave open; both equal to the value where it cannot be another")  # fmt: skip
        return self

    def __float__(self) -> float:
        return float(self.value)


class Charge(Number):
    """A number that is added to others and divides nothing: 0 takes the charge away, whatever the unit."""

    @model_validator(mode="after")
    def _fits_its_unit(self) -> Self:
        return self


class PolicyFact(Fact):
    """A replacement policy."""

    value: Policy


class Flag(Fact):
    """A yes or no."""

    value: bool


class Names(Fact):
    """A set of names, in the order of the file."""

    values: tuple[Text, ...]


class Ids(Fact):
    """A set of small integers."""

    values: tuple[int, ...]


class Soc(Table):
    """One SoC of the card (sections 1.2, 11.4). Plain numbers share `source` and are documented."""

    cubes: Count
    vectors: Count
    clock_mhz: Annotated[Value, Field(gt=0)]
    l2_bytes: Count
    memory_bytes: Count | None = None
    # Nominal memory bandwidth of the whole SoC, GB/s; `hbm.attainable` is the part that kernels reach.
    memory_rate: Number
    source: Text
    note: str = ""
    # Dotted key -> number that replaces the card's number on this SoC.
    numbers: dict[str, Number] = Field(default_factory=dict)


class Buffer(Table):
    """A local buffer of one core (section 2): physical size and start alignment in bytes."""

    size: Number
    align: Number
    # What the TPipe framework leaves to the kernel; the physical size counts for kernels without TPipe.
    user_size: Number | None = None
    block_align: Number | None = None  # Granularity of a block's length and address where it is coarser than `align`
    note: str = ""


class PathApi(Table):
    """Numbers of a path that differ for one API."""

    rate: Number | None = None
    latency: Number | None = None
    occupancy_head: Number | None = None
    scale_rate: Number | None = None  # Rate of the scale part of an MX load; its term adds to the data term


class OnChipPath(Table):
    """An on-chip path (section 4): an isolated instruction ends after latency + bytes / rate."""

    pipe: Pipe
    rate: Number
    latency: Number
    # Cycles for which an instruction holds the pipe besides bytes / rate when instructions stream.
    occupancy_head: Number
    header_only: bool = False  # No API page offers it, the headers emit it: off unless the user asks for it
    note: str = ""
    api: dict[LoadApi, PathApi] = Field(default_factory=dict)


class GmPath(Table):
    """A path between global memory and a core (sections 7, 11)."""

    pipe: Pipe
    core: Literal["aic", "aiv"]
    port_rate: Number  # What a lone core reaches when L2 hits
    latency: Number  # The part of an isolated copy that is not bytes / port_rate, L2 hit
    miss_latency: Number  # Extra latency when L2 misses
    issue: Number  # Cycles for which a small copy holds the pipe when copies are deeply pipelined
    row: Number  # Cycles per burst of a copy of many bursts, besides its bytes
    nd2nz_head: Number | None = None
    nd2nz_row: Number | None = None  # ND2NZ: cycles per instruction and per source row, besides bytes / port_rate
    rate_beside_bypass: Number | None = None  # Stores: bytes per cycle while loads of the core go past L2
    nd2nz_unaligned_rate: Number | None = None  # ND2NZ: bytes per cycle and core when rows start at unaligned addresses
    header_only: bool = False
    note: str = ""


class L1Ports(Table):
    """What readers and writers of L1 take from each other (section 4)."""

    read_share: Number  # What is left of the rates into L0A and L0B while a transfer from GM fills L1


class Load3d(Table):
    """Img2col rate (section 5): numerator / (stride_factor * s + offset + (n if n > 1 else 0)), at least floor.

    s = stride in W when it is one of `fast_strides`, else the floor rate holds; n = kernel rows slid in H.
    """

    numerator: Number
    stride_factor: Number
    offset_l0a: Number
    offset_l0b: Number
    floor_l0a: Number
    floor_l0b: Number
    fast_strides: Ids

    @model_validator(mode="after")
    def _can_be_divided_by(self) -> Self:
        if self.stride_factor.value <= 0:
            raise ValueError(f"stride_factor must be > 0, not {self.stride_factor.value}")
        return self


class L2(Table):
    """The shared second-level cache (sections 3, 11.4 - 11.6); its capacity belongs to the SoC."""

    line: Number
    sector: Number
    ways: Number
    set_spread: Number  # How far the set moves on, beside one a line, after every `set_spread_lines` lines
    set_spread_lines: Number
    access_bytes: Number  # What one request costs at least of the total rate: a short burst is charged as a full unit
    replacement: PolicyFact
    write_allocate: Flag
    read_rate: Number
    write_rate: Number
    same_line_cost: Number  # What a line costs the rate when several cores ask for it at the same time; 1: nothing more
    same_line_bypass_cost: Number  # The same for memory's rate, where the requests go past L2
    same_line_window: Number  # Within so many cycles of each other they do


class Hbm(Table):
    """Memory behind L2 (section 11.4); the nominal rate belongs to the SoC (`memory_rate`)."""

    attainable: Number
    run_cost: Charge  # Bytes of its time that every stretch of missed bytes takes besides its own
    write_cost: Number  # What a byte written takes of the rate, a byte read taking 1: turning the bus round costs time
    shared_read_write: Flag
    access_bytes: Number


class CubeType(Table):
    """Block of one cube step and depth unit of an element type (section 6)."""

    cm: Number
    cn: Number
    ck: Number
    k0: Number


class Mmad(Table):
    """Matrix unit (section 6)."""

    latency: Number  # Cycles above the step count until an isolated Mmad's result can be used; a stream does not pay it
    issue_min: Number
    accumulate_head: Number  # Cycles per streamed Mmad that accumulates onto the tile of the Mmad before it
    sparse_k_divisor: Number | None = None
    types: dict[MmadType, CubeType]


class Fixpipe(Table):
    """L0C out (section 7): rates per path and destination type, in destination bytes per cycle."""

    latency: Number
    head: Number
    rates: dict[str, dict[str, Number]]


class Vector(Table):
    """Vector unit (section 8)."""

    bytes_per_cycle: Number
    repeat_bytes: Number
    latency_dependent: Number
    issue_min: Number
    bytes_noncontiguous: Number | None = None
    bytes_unaligned: Number | None = None
    keeps_order: Flag  # A dependent vector instruction waits for the one before it without PipeBarrier<PIPE_V>
    elements_per_cycle: dict[str, Number]


class UbBanks(Table):
    """Bank geometry of UB (section 10). `address_bits` maps a field to (highest, lowest) bit of the byte address; without
    it no conflicts are charged."""

    banks: Number
    bank_bytes: Number
    groups: Number
    row_bytes: Number
    # What a group does in one cycle: reads, writes, and both together; a bank takes one access.
    reads_per_group: Number
    writes_per_group: Number
    accesses_per_group: Number
    write_delay: Number  # Cycles from the last read of a repeat to its write
    merges_repeats: Flag  # A source that every repeat reads at the same place is read once
    splits_operands: Flag  # Blocks of a second source move beside the first where they can; else all of it waits
    sub_banks: Number | None = None
    address_bits: dict[str, tuple[int, int]] = Field(default_factory=dict)
    note: str = ""


class Scalar(Table):
    """Scalar unit and its data cache (sections 3, 8, 9, 11.1)."""

    issue: Number
    multiply_add: Number
    local_access: Number
    dcache_aic_bytes: Number
    dcache_aiv_bytes: Number
    dcache_line: Number
    dcache_hit: Number
    dcache_miss: Number
    flush_at_end: Flag  # The compiler ends a kernel with DCCI of the whole data cache; without, its dirty lines are lost
    dcci_line: Number
    dcci_all: Number
    dsb: Number


class Pairs(Table):
    """HardEvents per core kind. `header` events have no page but an implementation; `no_effect` ones emit nothing."""

    aic: Names
    aiv: Names
    aic_header: Names | None = None
    aic_no_effect: Names | None = None
    aiv_no_effect: Names | None = None


class Sync(Table):
    """Flags, barriers and cross-core synchronisation (section 9). Costs are cycles of the pipe that executes them."""

    set_flag: Number
    wait_flag: Number
    barrier: Number
    barrier_all: Number
    event_ids: Number
    reserved_event_ids: Ids
    tpipe_event_ids: Ids
    cross_core_set: Number | None = None
    cross_core_wait: Number | None = None
    sync_all: Number | None = None
    cross_core_modes: Ids
    cross_core_ids: Ids
    sync_all_ids: Ids
    mode4_aic_ids: Ids | None = None
    mode4_aiv_ids: Ids | None = None
    cross_core_counter_max: Number | None = None
    mutex_ids: Number | None = None
    system_counter_mhz: Number | None = None
    pairs: Pairs
    barrier_no_effect_aic: Names
    barrier_no_effect_aiv: Names


class Nddma(Table):
    """Multi-dimensional copy into UB and its private cache (section 12)."""

    cache_bytes: Number
    line: Number
    ways: Number
    policy: PolicyFact
    prefetch: Flag
    gather_rate: Number  # Bytes per cycle while the innermost dimension is contiguous on both sides
    element_rate: Number  # Elements per cycle while it is not
    run_head: Number  # Cycles per run of the innermost dimension
    misses_in_flight: Number
    dci: Number
    dci_queued: Flag  # NdDmaDci takes its turn on MTE2; else it acts when the scalar unit issues it
    dci_waits: Flag  # It also drops the lines that copies in flight still bring; else those stay

    @model_validator(mode="after")
    def _sets_fill_the_cache(self) -> Self:
        if self.cache_bytes.value % (self.line.value * self.ways.value):
            raise ValueError(f"cache_bytes {self.cache_bytes.value} is no whole number of sets of {self.ways.value} "
                             f"lines of {self.line.value} B")  # fmt: skip
        return self


class Launch(Table):
    """Head and tail of a kernel (section 14)."""

    base_us: Number
    per_block_us: Number
    core_start_cycles: Number
    sched_per_core_ns: Number
    hw_init_ns: Number
    sw_init_us: Number
    completion_ns: Number


class ApiSupport(Table):
    """What one page and variant of an API offers on this card."""

    name: Text
    page: Text
    variant: str = ""
    supported: bool
    dtypes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    header_differs: str = ""
    note: str = ""


class Support(Table):
    """The API list of the card, in the order of the API pages."""

    source: Text
    apis: tuple[ApiSupport, ...]


class CardFile(Table):
    """A whole card file."""

    name: Text
    title: Text
    aliases: tuple[Text, ...] = ()
    npu_arch: Literal[2201, 3002, 3510]
    coupled: bool
    vectors_per_cube: Count
    default_soc: Text
    socs: dict[str, Soc]
    buffers: dict[str, Buffer]
    positions: dict[str, str]
    layout: dict[Literal["L0A", "L0B", "L0C", "L1"], Literal["ZZ", "NZ", "ZN"]]
    paths: dict[str, OnChipPath]
    l1: L1Ports
    load3d: Load3d
    gm: dict[str, GmPath]
    l2: L2
    hbm: Hbm
    mmad: Mmad
    fixpipe: Fixpipe
    vector: Vector
    ub_banks: UbBanks
    scalar: Scalar
    queues: dict[Pipe, Number]
    sync: Sync
    nddma: Nddma | None = None
    launch: Launch
    support: Support

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        """References between tables must resolve, so that a typo fails here and not in a run."""
        if self.default_soc not in self.socs:
            raise ValueError(f"default_soc {self.default_soc!r} is none of socs: {', '.join(self.socs)}")
        places = {*self.buffers, "GM"}
        for position, buffer in self.positions.items():
            if buffer and buffer not in places:
                raise ValueError(f"positions.{position} = {buffer!r} is none of buffers: {', '.join(sorted(places))}")
        for name in (*self.paths, *self.gm):
            if len(ends := name.split("-")) != 2 or not places.issuperset(ends):
                raise ValueError(f"path {name!r}: SOURCE-DESTINATION of {', '.join(sorted(places))} is needed")
        for name, soc in self.socs.items():
            if soc.vectors != soc.cubes * self.vectors_per_cube:
                raise ValueError(f"socs.{name}: vectors must be {self.vectors_per_cube} * cubes")
        return self
