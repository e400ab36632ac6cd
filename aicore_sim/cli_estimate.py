"""`aicore-sim estimate`: how long a movement or one call takes, with an interval and what stands behind it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from aicore_sim.cards import Card
from aicore_sim.cli_cards import load_cards
from aicore_sim.cli_output import emit_json, stderr_console, stdout_console
from aicore_sim.cli_run import BAD_INPUT, DONE, Json, Quiet
from aicore_sim.dtypes import DataType
from aicore_sim.errors import ParameterError
from aicore_sim.estimate import Estimate, Request, estimate, estimate_call

_SHAPE = re.compile(r"(\d+)[xX](\d+)")
_NUMBERS = 3
"""Alternatives and numbers of the card that the text names."""


def estimate_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="SRC DST | FIELD=VALUE...", help="TPositions or buffers; with --api fields of the struct."),
    ] = None,
    shape: Annotated[str | None, typer.Option("--shape", metavar="RxC", help="Rows and columns at the source.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", metavar="T", help="Type of the elements that arrive.")] = None,
    src_layout: Annotated[
        str, typer.Option("--src-layout", metavar="ND|DN|NZ|ZN", help="Layout of the source. Default: its usual one.")
    ] = "",
    transpose: Annotated[
        bool, typer.Option("--transpose", help="The transpose of what is given arrives (see above).")
    ] = False,
    blocks: Annotated[int, typer.Option("--blocks", metavar="N", help="Cores that share the rows.")] = 1,
    warm: Annotated[bool, typer.Option("--warm", help="The source is in L2 already.")] = False,
    api: Annotated[
        str | None, typer.Option("--api", metavar="STRUCT", help="One call, by its parameter struct as in `explain`.")
    ] = None,
    src: Annotated[str | None, typer.Option("--src", metavar="POS", help="With --api: TPosition of the source.")] = None,
    dst: Annotated[str | None, typer.Option("--dst", metavar="POS", help="With --api: of the destination.")] = None,
    card: Annotated[
        list[str] | None,
        typer.Option("--card", metavar="NAME[:SOC]|all|FILE.toml", help="Card; repeatable. Default atlas_350."),
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option("--override", metavar="KEY=VALUE", help="Change a number of the card; repeatable.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Estimate a movement by its fastest legal chain of calls, or one call, with an interval and its basis.

    SRC holds a matrix of R rows and C columns. It arrives in the usual layout of DST: L1 NZ, L0A ZZ (950: NZ), L0B ZN, GM
    and UB ND. For a product A x B give A as [M,K] to A2 and B as [K,N] to B2. With --transpose the source holds the
    transpose of what arrives: A^T [K,M] for A2, B^T [N,K] for B2. The time counts from the first issue to the last byte
    usable, without the launch. L2 is cold and one core works unless told otherwise.

    \b
    Examples:
      aicore-sim estimate GM B1 --shape 128x1024 --dtype half --card all
      aicore-sim estimate GM B2 --shape 256x64 --dtype half --transpose --card atlas_a2
      aicore-sim estimate GM UB --shape 4096x4096 --dtype float --blocks 40 --card atlas_350 --json
      aicore-sim estimate --api LoadData2DParams repeat_times=8 src_stride=1 --dtype half --card atlas_a2
    """
    if api is None:
        _refuse("goes with --api", src=src, dst=dst)
        request = _request(words or [], shape, dtype, src_layout, transpose, blocks, warm)

        def answer(one: Card) -> Estimate:
            return estimate(request, one)

    else:
        _refuse("goes with SRC and DST, not with --api", shape=shape, src_layout=src_layout or None,
                transpose=transpose or None, blocks=None if blocks == 1 else blocks)  # fmt: skip
        struct = api

        def answer(one: Card) -> Estimate:
            return estimate_call(struct, words or [], one, dtype=dtype, src=src, dst=dst, warm=warm)

    cards = load_cards(card or ["atlas_350"], override or [])
    with _progress(quiet) as tell:
        rows = []
        for one in cards:
            tell(f"{one.label}: both ends of every open number")
            rows.append(answer(one))
    if as_json:
        emit_json({"results": [row.as_dict() for row in rows]})
    else:
        _print(rows, stdout_console())
    return DONE if api is None or any(row.supported for row in rows) else BAD_INPUT


def _refuse(why: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise ParameterError(f"this option {why}", field=name.replace("_", "-"), value=value)


def _request(
    words: list[str], shape: str | None, dtype: str | None, layout: str, transpose: bool, blocks: int, warm: bool
) -> Request:
    if len(words) != 2:
        raise ParameterError("a movement has a source and a destination", field="SRC DST", value=" ".join(words),
                             allowed="two TPositions or buffers, as in GM B1; or --api STRUCT")  # fmt: skip
    found = _SHAPE.fullmatch(shape or "")
    if found is None:
        raise ParameterError("a movement needs the shape of its matrix", field="shape", value=shape,
                             allowed="--shape RxC, as in 128x1024")  # fmt: skip
    kind = DataType(dtype or "half")
    return Request(words[0], words[1], int(found[1]), int(found[2]), kind, layout.upper(), transpose, blocks, warm)


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Which card is being looked at, on stderr."""
    if quiet:
        yield lambda text: None
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=stderr_console(), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text: bar.update(task, description=text)


# ---- text -----------------------------------------------------------------------------------------------------------
def _print(rows: list[Estimate], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("card", "chain"):
        table.add_column(name)
    for name in ("cycles", "us", "low", "high", "GB/s", "of peak", "stream GB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    for row in rows:
        name = f"{row.card}:{row.soc}"
        if not row.supported:
            table.add_row(name, "not possible", *[""] * 8)
            continue
        table.add_row(
            name, "\n".join(row.apis or []), f"{row.cycles:,.0f}", f"{row.time_us:.3f}", f"{row.low_us:.3f}",
            f"{row.high_us:.3f}", f"{row.gbps:.1f}", f"{(row.peak_share or 0) * 100:.0f} %",
            f"{row.throughput_gbps:.1f}", row.bound_by or "",
        )  # fmt: skip
    console.print(table)
    for row in rows:
        console.print(Text(f"{row.card}:{row.soc}", style="bold"))
        for title, text in _lines(row):
            console.print(Text(f"  {title:13s}{text}"))


def _lines(row: Estimate) -> Iterator[tuple[str, str]]:
    if not row.supported:
        yield "not possible", str(row.reason)
        return
    numbers = ", ".join(f"{part.key} ({part.at_low:.3f} to {part.at_high:.3f} us)" for part in (row.parts or [])[:_NUMBERS])
    yield "interval", f"{row.low_us:.3f} to {row.high_us:.3f} us" + (f", by {numbers}" if numbers else ": nothing is open")
    if row.stream_low_us is not None:
        yield "stream", f"{row.stream_us:.3f} us a call, {row.stream_low_us:.3f} to {row.stream_high_us:.3f} us"
    yield "basis", str(row.measured_basis)
    others = "; ".join(f"{', '.join(one.apis)}: {one.time_us:.3f} us" for one in (row.alternatives or [])[:_NUMBERS])
    yield "alternatives", others or "none"
    yield "launch", f"{row.launch_us:.3f} us, not in the time"
    if row.note:
        yield "note", row.note
