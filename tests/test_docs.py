"""The documentation against the package: its examples run and print what it says, its commands, keys and links exist."""

from __future__ import annotations

import importlib
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from aicore_sim.cards import Card, card_names, load_card
from aicore_sim.cli import app
from aicore_sim.engine.columns import CAUSE_NAMES
from aicore_sim.launch import Options
from aicore_sim.scenario import load_scenario, scenario_names

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "aicore_sim"
PAGES = [page for page in (ROOT / "README.md", PACKAGE / "ARCHITECTURE.md", *sorted((PACKAGE / "docs").glob("*.md")))
         if page.is_file()]  # fmt: skip
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TICKED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")
STAND_INS = {"TYPE": "half", "OP": "exp"}
"""What the pages write for a part of a card key; PATH and API are tried with every path and its rows."""


def text_of(name: str) -> str:
    return (PACKAGE / "docs" / name).read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def examples() -> Iterator[tuple[str, str, str | None]]:
    """(page and number, code, printed text or None) of every python block that starts with the line `# runs`.

    A text block right behind it is what it prints.
    """
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = list(FENCE.finditer(text))
        for number, block in enumerate(blocks):
            if block[1] != "python" or not block[2].startswith("# runs\n"):
                continue
            after = blocks[number + 1] if number + 1 < len(blocks) else None
            follows = after is not None and after[1] == "text" and not text[block.end() : after.start()].strip()
            yield f"{page.stem}-{number}", block[2], after[2] if after is not None and follows else None


def commands() -> Iterator[tuple[str, str]]:
    """(page, command line) of everything the pages write as a call of aicore-sim."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [
            line
            for block in FENCE.finditer(text)
            if block[1] not in ("python", "text")
            for line in block[2].splitlines()
        ]
        lines += TICKED.findall(prose(page))
        for line in lines:
            call = line.strip().removeprefix("$ ")
            if call.startswith("aicore-sim "):
                yield page.stem, re.split(r" [|>#&] ?", call)[0].rstrip(".")


EXAMPLES = {name: (code, printed) for name, code, printed in examples()}
COMMANDS = sorted(set(commands()))


def test_there_is_something_to_check() -> None:
    assert len(EXAMPLES) >= 5
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs_and_prints_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = EXAMPLES[name]
    file = tmp_path / "example.py"
    file.write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    if "def build(card" in code:
        scenario = load_scenario(str(file))
        for data in (True, False):
            run, _ = scenario.run(load_card("atlas_350"), scenario.parse([]), Options(data=data))
            assert run.correct is (True if data else None)
            assert run.time_us > 0
        return
    runpy.run_path(str(file), run_name="__main__")
    out = capsys.readouterr().out
    if printed is not None:
        assert out == printed


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_command_line_exists(page: str, line: str) -> None:
    """Command and options exist; complete lines parse, and their scenarios, parameters, cards and overrides are real."""
    words = shlex.split(line)[1:]
    top: Any = get_command(app)
    if words[0].startswith("-"):
        assert words[0] in {option for parameter in top.params for option in parameter.opts} | {"-h", "--help"}
        return
    command = top.commands[words[0]]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    for word in own:
        if word.startswith("-"):
            assert word.partition("=")[0] in known | {"-h", "--help"}, f"{words[0]} has no option {word}"
    if any(mark in line for mark in ("[", "...", "--help", " -h", "NAME", "SCENARIO", "FILE", "DIR")) or not own:
        return  # a pattern, not a call
    found = command.make_context(words[0], list(words[1:])).params
    given = found.get("card")
    specs = given if isinstance(given, list) else [given] if given else []
    changes = dict(word.split("=", 1) for word in found.get("override") or [])
    for spec in specs:
        for name in card_names() if spec == "all" else [spec]:
            load_card(name, changes)
    if words[0] == "run" and not found["scenario"].endswith(".py"):
        load_scenario(found["scenario"]).parse(found["words"] or [])
    if words[0] == "scenarios" and found["name"]:
        load_scenario(found["name"])


def test_every_command_and_scenario_is_mentioned() -> None:
    everything = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    top: Any = get_command(app)
    for name in top.commands:
        assert f"aicore-sim {name}" in everything
    listed = set(re.findall(r"^\| `(\w+)` \|", text_of("scenarios.md").split("## A file")[0], re.MULTILINE))
    assert listed == set(scenario_names())


def test_causes_on_the_page_are_the_closed_list() -> None:
    table = text_of("time.md").split("## Where a pipe's ticks go")[1].split("\n\n")[2]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == CAUSE_NAMES


def _variants(key: str, card: Card) -> Iterator[str]:
    """A key as the page writes it, with its stand-ins replaced in every way that the card may know."""
    for path in (*card.model.gm, *card.model.paths):
        onchip = card.model.paths.get(path)
        for api in ("", *(onchip.api if onchip is not None else ())):
            stand_ins = {**STAND_INS, "PATH": path, "API": api}
            yield ".".join(stand_ins.get(part, part) for part in key.split("."))


@pytest.mark.parametrize("page", ["time.md", "limits.md", "cards.md"])
def test_card_keys_exist(page: str) -> None:
    """Every `table.key` of a card's table, on one card at least."""
    cards = [load_card(name) for name in card_names()]
    tables = set(type(cards[0].model).model_fields) - {"support"}
    keys = {key for key in TICKED.findall(FENCE.sub("", text_of(page))) if key.split(".")[0] in tables and "." in key}
    keys = {key for key in keys if "*" not in key and " " not in key}
    for key in keys:
        assert any(card.has(name) for card in cards for name in _variants(key, card)), f"no card has {key}"
    assert len(keys) >= (1 if page == "cards.md" else 15)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_and_modules_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(TICKED.sub("", prose(page))):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{target} is not there"
    for name in re.findall(r"\b(?:[a-z_0-9]+/)*[a-z_0-9]+\.py\b", text):
        name = re.sub(r"^[ab]/", "", name)  # as the head of a diff has it
        places = (ROOT / name, PACKAGE / name, *PACKAGE.glob(f"*/{name}"), ROOT / "scenarios" / name)
        assert name in ("add.py", "fill.py", "example.py") or any(place.is_file() for place in places), (
            f"{name} is not there"
        )


def test_public_names_on_the_pages_exist() -> None:
    """`asc.NAME` in the pages is a name of the package; `asc.adv` and `asc.lib` belong to pyasc programs."""
    package = importlib.import_module("aicore_sim")
    for page in PAGES:
        for name in set(re.findall(r"\basc\.([A-Za-z_]\w*)", page.read_text(encoding="utf-8"))) - {"adv", "lib"}:
            assert hasattr(package, name), f"{page.name}: asc.{name}"
