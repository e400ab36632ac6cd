"""`aicore-sim cards`: the cards, the numbers of one card with their sources, and what each API offers on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aicore_sim import card_model as cm
from aicore_sim.cards import Card, card_names, load_card
from aicore_sim.cli_output import emit_json, stdout_console
from aicore_sim.errors import ConfigError
from aicore_sim.instructions.other_ways import other_ways
from aicore_sim.model_gaps import gap

ORDER = ("atlas_a2", "atlas_a3", "atlas_350", "atlas_200i")
"""Order of the known cards in tables and for `--card all`; others follow by name."""


def all_cards() -> list[str]:
    """Names of the cards that come with the package."""
    return sorted(card_names(), key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def load_cards(specs: Sequence[str], overrides: Sequence[str]) -> list[Card]:
    """The cards of `--card` options ("all" stands for every card that comes with the package), overridden."""
    changes = parse_overrides(overrides)
    names = [name for spec in specs for name in (all_cards() if spec == "all" else [spec])]
    return [load_card(name, changes) for name in dict.fromkeys(names)]


def parse_overrides(words: Sequence[str]) -> dict[str, object]:
    """`key.path=value` words; the card's model says what the values must be."""
    changes: dict[str, object] = {}
    for word in words:
        key, mark, value = word.partition("=")
        if not mark or not key:
            raise ConfigError("an override is a word of the form key.path=value", field="override", value=word)
        changes[key] = value
    return changes


def cards(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME[:SOC]|FILE.toml]", help="Show this card's numbers.")
    ] = None,
    apis: Annotated[bool, typer.Option("--apis", help="What each API offers on the card; without NAME on every card.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> int:
    """List the cards, or show one: every number with unit, basis and source, or with --apis what each API offers.

    \b
    Examples:
      aicore-sim cards
      aicore-sim cards atlas_a2
      aicore-sim cards atlas_a2:Ascend910B4 --json
      aicore-sim cards atlas_350 --apis
      aicore-sim cards --apis --json
    """
    if apis:
        shown = [load_card(one) for one in (all_cards() if name is None else [name])]
        if as_json:
            # One card's list has no need to say whose it is.
            whose = [{} if name is not None else {"card": card.name} for card in shown]
            emit_json([one | row for one, card in zip(whose, shown, strict=True) for row in api_rows(card)])
        else:
            for card in shown:
                _print_apis(card, stdout_console())
    elif name is None:
        known = [load_card(one) for one in all_cards()]
        if as_json:
            emit_json([_overview(card) for card in known])
        else:
            _print_overview(known, stdout_console())
    else:
        card = load_card(name)
        if as_json:
            emit_json({**_overview(card), "numbers": list(_facts(card))})
        else:
            _print_card(card, stdout_console())
    return 0


def _overview(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "title": card.title,
        "soc": card.soc,
        "socs": list(card.model.socs),
        "default_soc": card.model.default_soc,
        "aliases": list(card.model.aliases),
        "npu_arch": card.npu_arch,
        "cubes": card.cubes,
        "vectors": card.vectors,
        "clock_mhz": card.clock_mhz,
        "buffers": {name: int(buffer.size.value) for name, buffer in card.buffers.items()},
        "l2_bytes": card.l2_bytes,
        "memory_bytes": card.soc_data.memory_bytes,
        "memory_gbps": card.memory_rate_gbps,
        "file": card.file,
    }


def _facts(card: Card) -> Iterable[dict[str, Any]]:
    """Every fact of the card as a row: key, value, unit, range, basis, source, note."""
    for key, fact in card.facts():
        yield {
            "key": key,
            "value": _value(fact),
            "unit": fact.unit if isinstance(fact, cm.Number) else None,
            "range": list(fact.range) if isinstance(fact, cm.Number) and fact.range is not None else None,
            "basis": fact.basis,
            "source": fact.source,
            "note": fact.note,
        }


def _value(fact: cm.Fact) -> Any:
    if isinstance(fact, (cm.Number, cm.PolicyFact, cm.Flag)):
        return fact.value
    return list(fact.values) if isinstance(fact, (cm.Names, cm.Ids)) else None


def api_rows(card: Card) -> list[dict[str, Any]]:
    """The API list of the card, one row per API, form and path: api, params, path, dtypes, supported, reason."""
    rows = []
    for row in card.model.support.apis:
        for path in row.paths or (None,):
            rows.append({
                "api": row.name, "params": row.variant, "path": path, "dtypes": list(row.dtypes),
                "supported": row.supported, "reason": _reason(card, row),
            })  # fmt: skip
    return rows


def _reason(card: Card, row: cm.ApiSupport) -> str | None:
    """Why an API is not offered, by the card or by this model, and what to use; else what the list says beyond yes."""
    words = [row.note, f"headers: {row.header_differs}" if row.header_differs else ""]
    if not row.supported:
        instead = other_ways(card, row.name, row.variant)
        words.insert(0, f"the API's page does not offer it on {card.name}" + (f": use {instead}" if instead else ""))
    elif gap(card, row):
        words.insert(0, f"not in this model: {gap(card, row)}")
    return "; ".join(word for word in words if word) or None


def _print_overview(known: Sequence[Card], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("card", no_wrap=True)
    table.add_column("title")
    table.add_column("default SoC", no_wrap=True)
    for name in ("cores", "MHz"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("buffers of a core, KB")
    for name in ("L2 MB", "memory GB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for card in known:
        cores = f"{card.cubes} coupled" if card.coupled else f"{card.cubes} AIC, {card.vectors} AIV"
        table.add_row(card.name, Text(card.title), card.soc, cores, f"{card.clock_mhz:g}", _sizes(card),
                      f"{card.l2_bytes / 2**20:g}", f"{card.memory_rate_gbps:g}")  # fmt: skip
    console.print(table)


def _sizes(card: Card) -> str:
    return " ".join(f"{name} {float(buffer.size.value) / 1024:g}" for name, buffer in card.buffers.items())


def _print_card(card: Card, console: Console) -> None:
    console.print(Text.assemble((card.label, "bold"), f"  {card.title}  npu_arch {card.npu_arch}"))
    console.print(Text(f"file {card.file}"))
    if card.model.aliases:
        console.print(Text(f"aliases {', '.join(card.model.aliases)}"))
    console.print(_socs(card))
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in _facts(card):
        groups.setdefault(row["key"].split(".")[0], []).append(row)
    for group, rows in groups.items():
        console.print(_section(group, rows))


def _socs(card: Card) -> Table:
    table = Table(title="SoC variants", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("SoC", no_wrap=True)
    for name in ("AIC", "AIV", "MHz", "L2 MB", "memory GB", "memory GB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("note")
    for name, soc in card.model.socs.items():
        mark = {card.soc: " (shown)"}.get(name, "")
        memory = "" if soc.memory_bytes is None else f"{soc.memory_bytes / 2**30:g}"
        table.add_row(name + mark, str(soc.cubes), str(soc.vectors), f"{soc.clock_mhz:g}", f"{soc.l2_bytes / 2**20:g}",
                      memory, f"{float(soc.memory_rate):g}", Text(soc.note))  # fmt: skip
    return table


def _section(group: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=group, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("key", overflow="fold")
    table.add_column("value", justify="right", overflow="fold")
    table.add_column("unit", no_wrap=True)
    table.add_column("basis", no_wrap=True)
    table.add_column("source", overflow="fold")
    for row in rows:
        value = row["value"]
        text = ", ".join(map(str, value)) if isinstance(value, list) else _figure(value)
        if row["range"] is not None:
            text += f" ({_figure(row['range'][0])}..{_figure(row['range'][1])})"
        words = Text(row["source"])
        if row["note"]:
            words.append(f" - {row['note']}", style="dim")
        table.add_row(row["key"], text, row["unit"] or "", row["basis"], words)
    return table


def _figure(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_apis(card: Card, console: Console) -> None:
    table = Table(title=f"APIs on {card.name}", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
                  pad_edge=False)  # fmt: skip
    table.add_column("api", overflow="fold")
    table.add_column("variant", overflow="fold")
    table.add_column("offered", no_wrap=True)
    table.add_column("dtypes", overflow="fold")
    table.add_column("paths", overflow="fold")
    table.add_column("note", overflow="fold")
    for row in card.model.support.apis:
        note = _reason(card, row) or ""
        offered = "no" if not row.supported else "not modelled" if gap(card, row) else "yes"
        table.add_row(Text(row.name), Text(row.variant), offered, Text(" ".join(row.dtypes)),
                      Text(", ".join(row.paths)), Text(note))  # fmt: skip
    console.print(table)
    console.print(Text(f"source: {card.model.support.source}", style="dim"))
