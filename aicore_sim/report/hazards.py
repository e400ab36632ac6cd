"""Findings for people: one block each, with the lines of the kernel they are about and the line that mends them."""

from __future__ import annotations

import io
import linecache
import os
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from aicore_sim.hazards.model import ERROR, NOTE, POSSIBLE, WARNING, Hazard, Insertion, Party

MOST_BLOCKS = 20
"""Findings shown before "and n more"."""
STYLES = {ERROR: "bold red", WARNING: "bold yellow", NOTE: "bold cyan"}
TEXT_WIDTH = 120
"""Columns of a report as plain text."""
_LABEL = 11


def print_hazards(hazards: Sequence[Hazard], console: Console, most: int | None = MOST_BLOCKS) -> None:
    """One block for each finding, the first `most` of them (None: all)."""
    shown = hazards if most is None else hazards[:most]
    for hazard in shown:
        console.print(_headline(hazard))
        for line in _lines(hazard, console):
            console.print(line)
    if len(shown) < len(hazards):
        console.print(Text(f"and {len(hazards) - len(shown):,} more: {tally(hazards[len(shown) :])}", style="bold"))


def as_text(hazards: Sequence[Hazard], width: int = TEXT_WIDTH) -> str:
    """All of them as plain text."""
    out = io.StringIO()
    print_hazards(hazards, Console(file=out, width=width, force_terminal=False, color_system=None, highlight=False), None)
    return out.getvalue()


def tally(hazards: Iterable[Hazard]) -> str:
    """How many of each severity: "2 errors, 1 note"; "no hazards" for none."""
    severities = [hazard.severity for hazard in hazards]
    counts = [(severity, severities.count(severity)) for severity in (ERROR, WARNING, NOTE)]
    words = [f"{count:,} {severity}{'s' if count > 1 else ''}" for severity, count in counts if count]
    return ", ".join(words) or "no hazards"


def one_line(hazard: Hazard) -> str:
    """What, where, with whom and how often, for a summary."""
    verdict = f" ({hazard.verdict})" if hazard.severity != NOTE else ""
    text = f"{hazard.severity} {hazard.kind}{verdict}: {f'{_who(hazard.at)} at '.lstrip()}{_place(hazard.at)}"
    if hazard.other is not None:
        text += f" with {_who(hazard.other)} at {_place(hazard.other)}"
    where = _memory(hazard)
    text += f"; {where}" if where else ""
    return text + (f"; {hazard.count:,} times" if hazard.count > 1 else "")


def shown_path(file: str) -> str:
    """The file from the current folder where it lies below it, else as it is."""
    if not os.path.isabs(file):
        return file
    near = os.path.relpath(file)
    return file if near.startswith("..") else near


def source_line(file: str, line: int) -> str:
    """The line of source without its indentation; "" if it cannot be read."""
    return linecache.getline(file, line).strip() if line > 0 else ""


# ---- a block --------------------------------------------------------------------------------------------------------
def _headline(hazard: Hazard) -> Text:
    text = Text.assemble((hazard.severity, STYLES[hazard.severity]), "  ", (hazard.kind, "bold"))
    if hazard.severity != NOTE:
        text.append(f"  {hazard.verdict}")
        text.append(" (nothing prevents it)" if hazard.verdict == POSSIBLE else "", "dim")
    if hazard.count > 1:
        text.append(f"  {hazard.count:,} times, the first:")
    return text


def _lines(hazard: Hazard, console: Console) -> Iterator[Text]:
    """The block as wide as the console at most; a line of source is cut, all else goes on in the next line."""
    width = max(console.width - _LABEL, _LABEL)
    for label, text in _rows(hazard):
        if text.no_wrap:
            text.truncate(width, overflow="ellipsis")
        for number, part in enumerate(text.wrap(console, width, overflow="fold")):
            part.rstrip()
            yield Text.assemble((f"  {label if number == 0 else ''}".ljust(_LABEL), "dim"), part)


def _rows(hazard: Hazard) -> Iterator[tuple[str, Text]]:
    if hazard.detail:
        yield "what", Text(hazard.detail)
    yield from _party("at", hazard.at, hazard.count > 1)
    if hazard.other is not None:
        yield from _party("other", hazard.other, hazard.count > 1)
    where = _memory(hazard)
    if where:
        yield "bytes", Text(where)
    answers = [f"{name}: {'yes' if answer else 'NO'}" for name, answer in (("ordered", hazard.ordered), ("visible", hazard.visible))
               if answer is not None]  # fmt: skip
    if answers:
        yield "order", Text(", ".join(answers))
    if hazard.old or hazard.new:
        yield "value", Text(f"delivered {_bytes(hazard.old)}, should be {_bytes(hazard.new)}")
    if hazard.fix:
        yield "fix", Text(hazard.fix, style="green")
        yield from _fixed_source(hazard.insert)


def _party(label: str, party: Party, in_loop: bool) -> Iterator[tuple[str, Text]]:
    who = _who(party)
    text = Text.assemble((who, "bold"), f"{' at ' if who else ''}{_place(party)}")
    if in_loop or party.iteration:
        text.append(f", iteration {party.iteration:,}")
    if party.core:
        text.append(f", {party.time_us:,.3f} us", "dim")
    yield label, text
    source = source_line(party.file, party.line)
    if source:
        yield "", _source(f"{source}")


def _fixed_source(insertions: Sequence[Insertion]) -> Iterator[tuple[str, Text]]:
    """The new lines, marked, with the line of source that they go before or behind."""
    places: dict[tuple[str, int, bool], list[str]] = {}
    for one in insertions:
        places.setdefault((one.file, one.line, one.after), []).append(one.code)
    for (file, line, after), codes in places.items():
        number = str(line)
        beside = _source(f"{number} {source_line(file, line) or '(source not found)'}")
        new = [_source(f"{'+':>{len(number)}} {code}", "green") for code in codes]
        yield from (("", text) for text in ([beside, *new] if after else [*new, beside]))


def _source(text: str, style: str = "dim") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _who(party: Party) -> str:
    return " ".join(word for word in (party.core, party.pipe, party.api) if word)  # none is known of some deadlocks


def _place(party: Party) -> str:
    return f"{shown_path(party.file)}:{party.line}" if party.file else "an unknown line"


def _memory(hazard: Hazard) -> str:
    """"4,096 B of x at byte 1,024 (0x400)", as far as it is known."""
    size = f"{hazard.bytes:,} B" if hazard.bytes else ""
    tensor = f"{'of ' if size else ''}{hazard.tensor}" if hazard.tensor else ""
    address = "" if hazard.address is None else f"at byte {hazard.address:,} ({hazard.address:#x})"
    return " ".join(word for word in (size, tensor, address) if word)


def _bytes(digits: str) -> str:
    return digits or "undefined"
