"""`aicore-sim explain`: where each element of one call lands."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aicore_sim.cards import Card, load_card
from aicore_sim.cli_output import emit_json, stdout_console
from aicore_sim.cli_run import Quirks, Wrap
from aicore_sim.errors import ParameterError
from aicore_sim.explain import Side, explain
from aicore_sim.explain.forms import fields_text, form_of, known_structs
from aicore_sim.layouts import LAYOUTS
from aicore_sim.report.placement import Placement, place
from aicore_sim.report.placement_grid import Shape
from aicore_sim.report.placement_json import as_dict, json_text
from aicore_sim.report.placement_text import print_placement

MATRIX_LAYOUTS = tuple(name for name in LAYOUTS if name != "NC1HWC0")
_TEXT_WIDTH = 120
"""Columns of a text file."""

Rows = Annotated[int | None, typer.Option("--rows", metavar="R", help="Rows of the matrix that the source holds.")]
Columns = Annotated[int | None, typer.Option("--cols", metavar="C", help="Its columns.")]
Layout = Annotated[
    str | None, typer.Option("--layout", metavar="|".join(MATRIX_LAYOUTS), help="Its layout; default by the buffer.")
]


def explain_command(
    struct: Annotated[str | None, typer.Argument(metavar="[STRUCT]", help="Parameter struct of the call.")] = None,
    words: Annotated[list[str] | None, typer.Argument(metavar="FIELD=VALUE", help="Fields of the struct.")] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", metavar="T", help="Element type. Default half; Fixpipe: float.")
    ] = None,
    card: Annotated[str, typer.Option("--card", metavar="NAME[:SOC]|FILE.toml", help="Card.")] = "atlas_350",
    src: Annotated[
        str | None, typer.Option("--src", metavar="POS", help="TPosition of the source; default by struct.")
    ] = None,
    dst: Annotated[str | None, typer.Option("--dst", metavar="POS", help="TPosition of the destination.")] = None,
    rows: Rows = None,
    cols: Columns = None,
    layout: Layout = None,
    dst_rows: Annotated[
        int | None, typer.Option("--dst-rows", metavar="R", help="The same for the destination; default as the source.")
    ] = None,
    dst_cols: Annotated[int | None, typer.Option("--dst-cols", metavar="C")] = None,
    dst_layout: Annotated[str | None, typer.Option("--dst-layout", metavar="|".join(MATRIX_LAYOUTS))] = None,
    quirks: Quirks = "documented",
    wrap: Wrap = "refuse",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write a picture (.png), text (.txt) or .json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout: the exact map.")] = False,
) -> int:
    """Show where each element of one call lands, source and destination side by side.

    Without STRUCT: the structs that can be explained, with their fields. Fields are written in snake_case or as in C++;
    those that a card or page does not allow are refused as in a kernel.

    \b
    Examples:
      aicore-sim explain LoadData2DParamsV2 m_step=2 k_step=3 src_stride=5 dst_stride=3
      aicore-sim explain LoadData2DParams repeatTimes=4 srcStride=2 ifTranspose=true --card atlas_a2 --out t.png
      aicore-sim explain NdDmaParams loop_src_stride=1,8 loop_dst_stride=1,16 loop_size=8,2 --dtype float --json
      aicore-sim explain DataCopyExtParams block_count=2 block_len=46 is_pad=true right_padding=2 padding_value=1
    """
    if struct is None:
        _list(as_json)
        return 0
    _check_out(out)
    chosen = load_card(card).reading(quirks, wrap)
    found = explain(struct, words or [], card=chosen, dtype=dtype, src=src, dst=dst)
    source = _shape(chosen, found.source, "", rows, cols, layout)
    if dst_layout is not None and source is not None:
        dst_rows, dst_cols = dst_rows or source.rows, dst_cols or source.columns
    destination = _shape(chosen, found.destination, "dst-", dst_rows, dst_cols, dst_layout)
    placement = place(found, source, destination)
    if out is not None:
        _write(placement, out)
    if as_json:
        sys.stdout.write(json_text({**as_dict(placement), "files": [] if out is None else [str(out)]}))
        return 0
    console = stdout_console()
    if not sys.stdout.isatty():
        console.width = shutil.get_terminal_size().columns  # COLUMNS, or 80
    print_placement(placement, console)
    if out is not None:
        console.print(Text(f"file {out}"))
    return 0


def _shape(card: Card, side: Side, prefix: str, rows: int | None, cols: int | None, layout: str | None) -> Shape | None:
    """The matrix of one side. Raises ParameterError for options that do not go together."""
    if rows is None and cols is None and layout is None:
        return None
    if rows is None or cols is None:
        missing = "rows" if rows is None else "cols"
        raise ParameterError("a matrix has rows and columns", field=f"{prefix}{missing}",
                             allowed=f"--{prefix}rows R --{prefix}cols C")  # fmt: skip
    name = (layout or _usual_layout(card, side)).upper()
    if name not in MATRIX_LAYOUTS:
        raise ParameterError("unknown layout of a matrix", field=f"{prefix}layout", value=layout,
                             allowed=", ".join(MATRIX_LAYOUTS))  # fmt: skip
    return Shape(rows, cols, name)


def _usual_layout(card: Card, side: Side) -> str:
    """What a buffer holds if nobody says otherwise (spec api_semantics.md 1.5)."""
    if side.buffer == "L0A":
        return "NZ" if card.npu_arch == 3510 else "ZZ"
    return {"L1": "NZ", "L0B": "ZN", "L0C": "L0C"}.get(side.buffer, "ND")


def _check_out(out: Path | None) -> None:
    if out is not None and out.suffix.lower() not in (".png", ".txt", ".json"):
        raise ParameterError("the kind of a file is told by its ending", field="out", value=str(out),
                             allowed=".png, .txt, .json")  # fmt: skip


def _write(placement: Placement, out: Path) -> None:
    try:
        if out.suffix.lower() == ".png":
            # matplotlib takes longer to load than the text takes to print.
            from aicore_sim.report.placement_draw import draw

            draw(placement, out)
        elif out.suffix.lower() == ".json":
            out.write_text(json_text(as_dict(placement)), encoding="utf-8")
        else:
            with out.open("w", encoding="utf-8") as file:
                print_placement(placement, Console(file=file, width=_TEXT_WIDTH, highlight=False))
    except OSError as error:
        raise ParameterError(f"the file cannot be written: {error.strerror or error}", field="out", value=str(out),
                             allowed="a file in a folder that exists") from error  # fmt: skip


def _list(as_json: bool) -> None:
    """The structs with their call, default path and fields."""
    forms = [form_of(name) for name in known_structs()]
    if as_json:
        rows: list[dict[str, Any]] = [
            {"struct": form.name, "api": form.api, "src": form.src, "dst": form.dst, "dtype": form.dtype,
             "fields": fields_text(form).split(", ")} for form in forms
        ]  # fmt: skip
        emit_json(rows)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("struct", "call", "default path"):
        table.add_column(name, no_wrap=True)
    table.add_column("fields (defaults)", overflow="fold")
    for form in forms:
        table.add_row(form.name, form.call, f"{form.src} to {form.dst}", Text(fields_text(form)))
    stdout_console().print(table)
