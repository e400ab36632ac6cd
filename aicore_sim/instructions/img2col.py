"""img2col as strided steps (spec api_semantics.md 5.3): what LoadData3D moves, apart from API fields and cards.

For one kernel position a run of output positions is a strided run of the feature map. A window of the img2col matrix
thus lowers to a few strided copies for every kernel position, fills for what the padding covers, and marks for what the
hardware leaves undefined.
"""

from __future__ import annotations

from dataclasses import dataclass

from aicore_sim.dtypes import BLOCK_BYTES
from aicore_sim.instructions.cube_layout import SIDE, ceil_div
from aicore_sim.transfer import Step, Transfer, strided_copy, strided_fill


@dataclass(frozen=True)
class Window:
    """A window of the img2col matrix of a (C1, h, w, C0) map: rows from m_start, columns from k_start (a multiple of C0).

    `wo` x `ho` output positions make the rows; `left` and `top` are the paddings that shift coordinates.
    """

    w: int
    h: int
    left: int
    top: int
    stride_w: int
    stride_h: int
    dilation_w: int
    dilation_h: int
    fw: int
    fh: int
    wo: int
    ho: int
    m_start: int
    m_extension: int
    k_start: int
    k_extension: int
    c0: int
    size: int
    """Bytes of one element (1 for 4-bit elements, which never lie apart)."""

    @property
    def rows(self) -> int:
        """Rows of the whole matrix."""
        return self.wo * self.ho

    @property
    def valid(self) -> int:
        """Rows of the window that are output positions; the others are undefined."""
        return min(self.rows - self.m_start, self.m_extension)

    @property
    def kernel_rows(self) -> int:
        """Kernel rows that the window slides over."""
        blocks = range(self.k_start // self.c0, ceil_div(self.k_start + self.k_extension, self.c0))
        return min(len({block // self.fw % self.fh for block in blocks}), self.fh)


@dataclass(frozen=True)
class Place:
    """Where the window lands, in bytes: row i at `i // unit * outer + i % unit * inner`, plus column blocks of C0.

    Column block j starts at `j // pair * block + j % pair * half`; its channels are `channel` bytes apart (the
    element's size: a row of 32 B; 32: transposed). `rows` is the row extent that whole fractals round up to.
    """

    unit: int
    outer: int
    inner: int
    pair: int
    block: int
    half: int
    channel: int
    rows: int

    def column_block(self, j: int) -> int:
        return j // self.pair * self.block + j % self.pair * self.half


@dataclass(frozen=True)
class _Box:
    """A strided group of items: start and dimensions (extent, source stride, destination stride) in bytes."""

    src: int
    dst: int
    dims: tuple[tuple[int, int, int], ...]


def _joined(boxes: list[_Box]) -> list[_Box]:
    """Neighbours of equal shape at constant distances become one box with one dimension more, until nothing joins."""
    while True:
        out: list[_Box] = []
        i = 0
        while i < len(boxes):
            first, j = boxes[i], i + 1
            if j < len(boxes) and boxes[j].dims == first.dims:
                ds, dd = boxes[j].src - first.src, boxes[j].dst - first.dst
                while (
                    j < len(boxes)
                    and boxes[j].dims == first.dims
                    and boxes[j].src - boxes[j - 1].src == ds
                    and boxes[j].dst - boxes[j - 1].dst == dd
                ):
                    j += 1
                out.append(_Box(first.src, first.dst, ((j - i, ds, dd), *first.dims)))
            else:
                out.append(first)
            i = j
        if len(out) == len(boxes):
            return out
        boxes = out


def _rows(place: Place, i: int, n: int, src: int, step: int) -> list[_Box]:
    """Window rows i..i+n-1, read from `src` on at every `step` bytes, cut where the destination jumps."""
    unit = place.unit
    if place.outer == unit * place.inner:
        return [_Box(src, i * place.inner, ((n, step, place.inner),))]
    boxes = []
    while n:
        count = min(n, unit - i % unit)
        dims: tuple[tuple[int, int, int], ...] = ((count, step, place.inner),)
        if i % unit == 0 and n >= 2 * unit:
            blocks = n // unit
            count = blocks * unit
            dims = ((blocks, unit * step, place.outer), (unit, step, place.inner))
        boxes.append(_Box(src, i // unit * place.outer + i % unit * place.inner, dims))
        i, n, src = i + count, n - count, src + count * step
    return boxes


def _positions(win: Window, place: Place, kh: int, kw: int) -> tuple[list[_Box], list[_Box]]:
    """Rows of the window for one kernel position: read from the map (source relative to the C1 group), and padding."""
    h_shift, w_shift = kh * win.dilation_h - win.top, kw * win.dilation_w - win.left
    first_wo = max(ceil_div(-w_shift, win.stride_w), 0)
    last_wo = min((win.w - 1 - w_shift) // win.stride_w, win.wo - 1)
    step = win.stride_w * BLOCK_BYTES
    inside: list[_Box] = []
    outside: list[_Box] = []
    start, end = win.m_start, win.m_start + win.valid
    for ho in range(start // win.wo, ceil_div(end, win.wo)):
        base = ho * win.wo
        lo, hi = max(start - base, 0), min(end - base, win.wo)
        h = ho * win.stride_h + h_shift
        a, b = max(lo, first_wo), min(hi, last_wo + 1)
        if not 0 <= h < win.h or a >= b:
            a = b = hi
        row = base - start
        if a > lo:
            outside += _rows(place, row + lo, a - lo, 0, 0)
        if b > a:
            src = (h * win.w + a * win.stride_w + w_shift) * BLOCK_BYTES
            inside += _rows(place, row + a, b - a, src, step)
        if hi > b:
            outside += _rows(place, row + b, hi - b, 0, 0)
    return _joined(inside), _joined(outside)


@dataclass(frozen=True)
class _Channels:
    """Turns (column blocks x rows) into steps: one 32 B line an index, or one element where channels are apart."""

    place: Place
    size: int
    c0: int

    @property
    def apart(self) -> bool:
        return self.place.channel == BLOCK_BYTES

    def _bytes(self, channels: int) -> int:
        return ceil_div(BLOCK_BYTES * channels, self.c0)

    def copy(self, column: _Box, rows: _Box, width: int) -> tuple[Step, ...]:
        dims = column.dims + rows.dims
        item = self._bytes(width)
        if self.apart:
            item = self.size
            dims += ((width, self.size, BLOCK_BYTES),)
        return strided_copy(item, [n for n, _, _ in dims], column.src + rows.src, [s for _, s, _ in dims],
                            column.dst + rows.dst, [d for _, _, d in dims])  # fmt: skip

    def fill(self, column: _Box, rows: _Box, lo: int, hi: int, block: bytes, undefined: bool) -> tuple[Step, ...]:
        dims = [(n, d) for n, _, d in column.dims + rows.dims]
        start = self._bytes(lo)
        pattern = block[start : self._bytes(hi)]
        if self.apart:
            start, pattern = lo * BLOCK_BYTES, block[: self.size]
            dims.append((hi - lo, BLOCK_BYTES))
        return strided_fill(
            pattern, [n for n, _ in dims], column.dst + rows.dst + start, [d for _, d in dims], undefined
        )


def lower(win: Window, place: Place, pad: bytes, fill_lines: bool) -> Transfer:
    """The steps of a window; `pad` is 32 B of the padding value.

    `fill_lines`: transposed b32 columns that end in the middle of a fractal leave the rest of that fractal undefined
    (otherwise it keeps its content). Sources are relative to the feature map, destinations to the window's place.
    """
    blocks, ragged = divmod(win.k_extension, win.c0)
    first = win.k_start // win.c0
    group = win.h * win.w * BLOCK_BYTES
    channels = _Channels(place, win.size, win.c0)
    columns: dict[tuple[int, int, int], list[_Box]] = {}
    for j in range(blocks + (1 if ragged else 0)):
        c1, position = divmod(first + j, win.fw * win.fh)
        key = (*divmod(position, win.fw), ragged if j == blocks else win.c0)
        columns.setdefault(key, []).append(_Box(c1 * group, place.column_block(j), ()))
    steps: list[Step] = []
    for (kh, kw, width), blocks_of in columns.items():
        inside, outside = _positions(win, place, kh, kw)
        for column in _joined(blocks_of):
            steps += [s for rows in inside for s in channels.copy(column, rows, width)]
            steps += [s for rows in outside for s in channels.fill(column, rows, 0, width, pad, False)]
    steps += _undefined(win, place, channels, fill_lines)
    return Transfer(tuple(steps))


def _undefined(win: Window, place: Place, channels: _Channels, fill_lines: bool) -> list[Step]:
    """Marks for rows past the last output position and for the rest of the last fractals."""
    steps: list[Step] = []
    whole, ragged = divmod(win.k_extension, win.c0)
    blocks = whole + (1 if ragged else 0)
    none = bytes(BLOCK_BYTES)
    below = _rows(place, win.valid, place.rows - win.valid, 0, 0)
    every = _joined([_Box(0, place.column_block(j), ()) for j in range(blocks)])
    steps += [s for column in every for rows in below for s in channels.fill(column, rows, 0, win.c0, none, True)]
    if ragged:
        column = _Box(0, place.column_block(whole), ())
        above = _rows(place, 0, win.valid, 0, 0)
        steps += [s for rows in above for s in channels.fill(column, rows, ragged, win.c0, none, True)]
    if fill_lines and channels.apart and blocks * win.c0 % SIDE:
        column = _Box(0, place.column_block(blocks), ())
        every_row = _rows(place, 0, place.rows, 0, 0)
        steps += [s for rows in every_row for s in channels.fill(column, rows, 0, win.c0, none, True)]
    return steps
