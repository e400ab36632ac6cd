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
    """A window of the img2col matrix of a map of `channels`: rows from m_start, columns from k_start (a multiple of C0).

    The map is (C1, h, w, C0); where `channels` is no multiple of C0, the last group is (h, w, rest) and has as many
    columns, without padding. `wo` x `ho` output positions make the rows (none: nothing of the map is known, every row is
    undefined); `left` and `top` are the paddings that shift coordinates. `m_times` and `k_times` windows that start
    `m_step` rows and `k_step` columns apart make up one matrix.
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
    channels: int
    m_times: int = 1
    m_step: int = 0
    k_times: int = 1
    k_step: int = 0

    @property
    def rows(self) -> int:
        """Rows of the whole matrix."""
        return self.wo * self.ho

    @property
    def columns(self) -> int:
        """Columns of the whole matrix."""
        return self.channels * self.fw * self.fh

    @property
    def m_total(self) -> int:
        """Rows of all windows together."""
        return self.m_times * self.m_extension

    @property
    def k_total(self) -> int:
        """Columns of all windows together."""
        return self.k_times * self.k_extension

    @property
    def segments(self) -> list[tuple[int, int, int]]:
        """(first row in the destination, first row in the matrix, rows that are output positions) of every window."""
        starts = [(t * self.m_extension, self.m_start + t * self.m_step) for t in range(self.m_times)]
        return [(row, start, max(min(self.rows - start, self.m_extension), 0)) for row, start in starts]

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """(first column in the matrix, columns asked for) of every column block of the destination."""
        offsets = range(0, self.k_extension, self.c0)
        return [(self.k_start + t * self.k_step + at, min(self.c0, self.k_extension - at))
                for t in range(self.k_times) for at in offsets]  # fmt: skip

    @property
    def kernel_rows(self) -> int:
        """Kernel rows that the windows slide over."""
        return max(len({piece.kh for k, width in self.blocks for piece in _pieces(self, k, width)}), 1)


@dataclass(frozen=True)
class _Piece:
    """Part of a column block: channels `lo`.. of its 32 B lines, from one kernel position of one group of the map.

    `pixel`: bytes from one position of the group to the next; `src`: where the group starts.
    """

    kh: int
    kw: int
    pixel: int
    lo: int
    width: int
    src: int


def _pieces(win: Window, k: int, width: int) -> list[_Piece]:
    """What column k.. of the matrix (a multiple of C0) is made of: a kernel position, several in a narrow last group."""
    kernel = win.fw * win.fh
    whole, rest = divmod(win.channels, win.c0)
    group = win.h * win.w * BLOCK_BYTES
    if k < whole * kernel * win.c0:
        c1, position = divmod(k // win.c0, kernel)
        return [_Piece(*divmod(position, win.fw), BLOCK_BYTES, 0, width, c1 * group)]
    if not rest:
        return []
    first, last = k - whole * kernel * win.c0, k - whole * kernel * win.c0 + width
    pixel = BLOCK_BYTES * rest // win.c0
    positions = range(first // rest, min(ceil_div(last, rest), kernel))
    return [_Piece(*divmod(p, win.fw), pixel, p * rest - first, min(rest, last - p * rest), whole * group)
            for p in positions]  # fmt: skip


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


def _positions(win: Window, place: Place, kh: int, kw: int, pixel: int) -> tuple[list[_Box], list[_Box]]:
    """Rows of the windows for one kernel position: read from the map (source relative to the group), and padding."""
    h_shift, w_shift = kh * win.dilation_h - win.top, kw * win.dilation_w - win.left
    first_wo = max(ceil_div(-w_shift, win.stride_w), 0)
    last_wo = min((win.w - 1 - w_shift) // win.stride_w, win.wo - 1)
    step = win.stride_w * pixel
    inside: list[_Box] = []
    outside: list[_Box] = []
    for first, start, valid in win.segments:
        if not valid:
            continue
        end = start + valid
        for ho in range(start // win.wo, ceil_div(end, win.wo)):
            base = ho * win.wo
            lo, hi = max(start - base, 0), min(end - base, win.wo)
            h = ho * win.stride_h + h_shift
            a, b = max(lo, first_wo), min(hi, last_wo + 1)
            if not 0 <= h < win.h or a >= b:
                a = b = hi
            row = first + base - start
            if a > lo:
                outside += _rows(place, row + lo, a - lo, 0, 0)
            if b > a:
                src = (h * win.w + a * win.stride_w + w_shift) * pixel
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

    def copy(self, column: _Box, rows: _Box, lo: int, width: int) -> tuple[Step, ...]:
        dims = column.dims + rows.dims
        item, start = self._bytes(width), self._bytes(lo)
        if self.apart:
            item, start = self.size, lo * BLOCK_BYTES
            dims += ((width, self.size, BLOCK_BYTES),)
        return strided_copy(item, [n for n, _, _ in dims], column.src + rows.src, [s for _, s, _ in dims],
                            column.dst + rows.dst + start, [d for _, _, d in dims])  # fmt: skip

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


def lower(win: Window, place: Place, pad: bytes | None, fill_lines: bool) -> Transfer:
    """The steps of a window; `pad` is 32 B of the padding value, None where it is not known: undefined.

    `fill_lines`: transposed b32 columns that end in the middle of a fractal leave the rest of that fractal undefined
    (otherwise it keeps its content). Sources are relative to the feature map, destinations to the window's place.
    """
    channels = _Channels(place, win.size, win.c0)
    columns: dict[tuple[int, int, int, int, int], list[_Box]] = {}
    for j, (k, width) in enumerate(win.blocks):
        for piece in _pieces(win, k, width):
            key = (piece.kh, piece.kw, piece.pixel, piece.lo, piece.width)
            columns.setdefault(key, []).append(_Box(piece.src, place.column_block(j), ()))
    steps: list[Step] = []
    block = bytes(BLOCK_BYTES) if pad is None else pad
    for (kh, kw, pixel, lo, width), blocks_of in columns.items():
        inside, outside = _positions(win, place, kh, kw, pixel)
        for column in _joined(blocks_of):
            steps += [s for rows in inside for s in channels.copy(column, rows, lo, width)]
            steps += [s for rows in outside for s in channels.fill(column, rows, lo, lo + width, block, pad is None)]
    steps += _undefined(win, place, channels, fill_lines)
    return Transfer(tuple(steps))


def _undefined(win: Window, place: Place, channels: _Channels, fill_lines: bool) -> list[Step]:
    """Marks for rows past the last output position and for the rest of the last fractals."""
    steps: list[Step] = []
    none = bytes(BLOCK_BYTES)
    blocks = len(win.blocks)
    last = win.m_total - win.m_extension
    below: list[_Box] = []
    above: list[_Box] = []
    for first, _, valid in win.segments:
        end = place.rows - first if first == last else win.m_extension
        below += _rows(place, first + valid, end - valid, 0, 0)
        above += _rows(place, first, valid, 0, 0)
    every = _joined([_Box(0, place.column_block(j), ()) for j in range(blocks)])
    steps += [s for column in every for rows in _joined(below)
              for s in channels.fill(column, rows, 0, win.c0, none, True)]  # fmt: skip
    for j, (k, width) in enumerate(win.blocks):
        known = min(width, win.columns - k)
        if known < win.c0:
            column = _Box(0, place.column_block(j), ())
            steps += [s for rows in _joined(above) for s in channels.fill(column, rows, known, win.c0, none, True)]
    if fill_lines and channels.apart and blocks * win.c0 % SIDE:
        column = _Box(0, place.column_block(blocks), ())
        every_row = _rows(place, 0, place.rows, 0, 0)
        steps += [s for rows in every_row for s in channels.fill(column, rows, 0, win.c0, none, True)]
    return steps
