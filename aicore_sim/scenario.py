"""Scenarios: runnable kernels with typed parameters, an expectation, and published measurements where there are any.

A scenario is a Python file in `scenarios/` with

    '''One line that says what it shows. (the docstring; further lines are printed by `scenarios NAME`)'''
    @dataclass(frozen=True)
    class Parameters:
        M: int = param(512, "rows of C")
    def build(card: Card, p: Parameters, data: bool) -> Job: ...

and, for the commands that run many of them, where it helps

    def size(card: Card, p: Parameters) -> int: ...         # about how many instructions a run executes
    def short(card: Card, p: Parameters) -> Parameters: ... # the same pattern, less of it: same cores, same tile
    def short_card(card: Card, p: Parameters) -> dict: ...  # overrides of the card that go with it, e.g. less L2

`short` is used to see how much a result moves with a number of the card, never for the result itself.
`build` raises UnsupportedError where the card cannot run it, ConfigError for parameters that do not fit each other.
"""

from __future__ import annotations

import importlib.util
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from aicore_sim.cards import Card
from aicore_sim.errors import ConfigError
from aicore_sim.launch import Options, Run, run_kernel
from aicore_sim.resources import scenario_dir


def param(default: Any, help: str, choices: Sequence[str] = ()) -> Any:
    """A scenario parameter: default, one line of help, and the legal words of an enumeration. 0 or "" as default may
    mean "chosen by the scenario"; say so in the help."""
    return field(default=default, metadata={"help": help, "choices": tuple(choices)})


@dataclass(frozen=True)
class Measured:
    """A published value to print beside the simulated one. `metric` is a path into the result: "time_us",
    "pipes.aic.MTE2.time_us", "metrics.per_copy_ns"."""

    metric: str
    value: float
    unit: str


@dataclass(frozen=True)
class Job:
    """What `build` returns: kernel, arguments (numpy arrays with data, GmSpec without), blocks, and what to say of the result.

    `parameters` are the resolved parameters (defaults filled in). `expect(args)` compares the arguments after the run with
    an expectation made independently; None: nothing to compare. `metrics(run)` computes the scenario's own figures.
    `clock_note` and the like go to `notes`.
    """

    kernel: Any
    args: tuple[Any, ...]
    blocks: int
    parameters: Mapping[str, Any]
    expect: Callable[[tuple[Any, ...]], bool] | None = None
    metrics: Callable[[Run], dict[str, Any]] | None = None
    measured: tuple[Measured, ...] = ()
    show: Callable[[tuple[Any, ...]], str] | None = None
    """Text to print after the run (for example the result array)."""
    auto_sync: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A loaded scenario file."""

    name: str
    module: ModuleType
    parameters: type
    build: Callable[[Card, Any, bool], Job]

    @property
    def summary(self) -> str:
        return (self.module.__doc__ or "").strip().splitlines()[0]

    def describe(self) -> list[tuple[str, str, Any, str, tuple[str, ...]]]:
        """(name, type name, default, help, choices) of every parameter."""
        types = typing.get_type_hints(self.parameters)
        return [(f.name, getattr(types[f.name], "__name__", str(types[f.name])), f.default, f.metadata.get("help", ""),
                 f.metadata.get("choices", ())) for f in fields(self.parameters)]  # fmt: skip

    def size(self, card: Card, parameters: Any) -> int:
        """About how many instructions a run executes; 0 where the scenario does not say, for it is small then."""
        own = getattr(self.module, "size", None)
        return int(own(card, parameters)) if own is not None else 0

    def short(self, card: Card, parameters: Any) -> Any:
        """Parameters of a shorter run of the same pattern; `parameters` where the scenario has none."""
        own = getattr(self.module, "short", None)
        return own(card, parameters) if own is not None else parameters

    def short_card(self, card: Card, parameters: Any) -> Card:
        """The card for that shorter run, `parameters` being those of the full one."""
        own = getattr(self.module, "short_card", None)
        changes = own(card, parameters) if own is not None and self.short(card, parameters) != parameters else {}
        return card.changed(changes) if changes else card

    def parse(self, words: Sequence[str]) -> Any:
        """`key=value` words as a Parameters object. Raises ConfigError naming the key and what is known."""
        types = typing.get_type_hints(self.parameters)
        known = {f.name: f for f in fields(self.parameters)}
        values: dict[str, Any] = {}
        for word in words:
            key, mark, text = word.partition("=")
            if not mark:
                raise ConfigError(f"scenario parameters are words of the form key=value, not {word!r}", field=word,
                                  allowed=self._known())  # fmt: skip
            if key not in known:
                raise ConfigError(f"scenario {self.name} has no parameter {key!r}", field=key, value=text,
                                  allowed=self._known())  # fmt: skip
            values[key] = _typed(self.name, key, text, types[key], known[key].metadata.get("choices", ()))
        return self.parameters(**values)

    def _known(self) -> str:
        return ", ".join(f"{name}={default}" for name, _, default, _, _ in self.describe())

    def run(self, card: Card, parameters: Any, options: Options, blocks: int | None = None) -> tuple[Run, Job]:
        """Build, run and judge. `blocks` overrides the scenario's own choice."""
        job = self.build(card, parameters, options.data)
        count = job.blocks if blocks is None else blocks
        if not job.auto_sync and options.auto_sync:
            options = Options(**{**{f.name: getattr(options, f.name) for f in fields(Options)}, "auto_sync": False})
        run = run_kernel(job.kernel, job.args, {}, count, card, options)
        if options.data and options.checks and job.expect is not None:
            run.correct = bool(job.expect(job.args))
        if job.metrics is not None:
            run.metrics = job.metrics(run)
        return run, job


def _typed(scenario: str, key: str, text: str, kind: Any, choices: Sequence[str]) -> Any:
    """One value as its declared type: ints (also negative, 0x.., 1e6), floats, true|false, words, comma lists of ints."""
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        if kind is int:
            return _integer(text)
        if kind is float:
            return float(text)
        if typing.get_origin(kind) is tuple:
            return tuple(_integer(part) for part in text.split(",") if part)
    except (ValueError, KeyError):
        name = "true|false" if kind is bool else getattr(kind, "__name__", "a,b,c of ints")
        raise ConfigError(f"scenario {scenario}: {key} is not a valid {name}", field=key, value=text, allowed=name) from None
    if choices and text not in choices:
        raise ConfigError(f"scenario {scenario}: {key} has no value {text!r}", field=key, value=text,
                          allowed="|".join(choices))  # fmt: skip
    return text


def _integer(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        value = float(text)
        if value != int(value):
            raise
        return int(value)


def scenario_names() -> list[str]:
    """Names of the scenarios that come with the package."""
    return sorted(path.stem for path in scenario_dir().glob("*.py") if not path.stem.startswith("_"))


def load_scenario(name: str) -> Scenario:
    """A scenario by name, or by the path of a Python file. Raises ConfigError that lists the known ones."""
    path = Path(name) if name.endswith(".py") else scenario_dir() / f"{name}.py"
    if not path.is_file():
        raise ConfigError(f"no scenario {name!r}", field="scenario", value=name, allowed=", ".join(scenario_names()))
    spec = importlib.util.spec_from_file_location(f"aicore_sim_scenario_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for needed in ("Parameters", "build"):
        if not hasattr(module, needed):
            raise ConfigError(f"{path.name} defines no {needed}", field=needed, file=str(path))
    return Scenario(path.stem, module, module.Parameters, module.build)
