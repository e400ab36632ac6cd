"""Cards: loading, SoC variants, overrides, and look-up of numbers by dotted key.

A card is a TOML file (`card_model.CardFile`). `load_card` picks a SoC, puts the SoC's own numbers in place, applies
overrides and validates the result; every failure is a `ConfigError` that names the file and the dotted key.

Dotted keys are those of the file (`gm.GM-UB.latency`). Keys of the chosen SoC may be written short: `clock_mhz`,
`cubes`, `vectors`, `l2_bytes`, `memory_bytes`, `memory_rate`; `hbm.nominal_rate` is another name of `memory_rate`.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeVar

from aicore_sim import card_model as cm
from aicore_sim.card_files import (
    SHORT,
    SOC_UNITS,
    Raw,
    apply_override,
    leaf,
    near,
    read_card,
    unknown_key,
    validated,
    walk,
)
from aicore_sim.errors import ConfigError, ParameterError
from aicore_sim.quirks import QUIRKS, chosen
from aicore_sim.resources import config_dir

FactT = TypeVar("FactT", bound=cm.Fact)


@dataclass(frozen=True)
class Card:
    """One card with one SoC chosen; frozen, compared and hashed by content."""

    model: cm.CardFile = field(compare=False, repr=False)
    soc: str
    file: str
    overrides: tuple[tuple[str, str], ...] = ()
    fingerprint: str = ""
    """Hash of everything that can change a result: file content, SoC, overrides."""
    quirks: frozenset[str] = frozenset()
    """Where calls are read as the vendor's implementation does instead of as its pages say (`quirks.QUIRKS`)."""
    wrap: bool = False
    """Whether a value too wide for its field loses its high bits, as in the hardware's word, instead of being refused."""
    asked: set[str] | None = field(default=None, compare=False, repr=False)
    """Keys asked for so far, where somebody wants to know (`tracking`)."""

    def tracking(self) -> tuple[Card, set[str]]:
        """A copy that notes every key of a number or fact it is asked for, and the set that it notes them in."""
        asked: set[str] = set()
        return replace(self, asked=asked), asked

    def changed(self, overrides: Mapping[str, object]) -> Card:
        """This card with further overrides. Raises ConfigError as `load_card` does."""
        file = Path(self.file)
        card = _loaded(file, file.stat().st_mtime_ns, self.soc, {**dict(self.overrides), **overrides})
        return replace(card, quirks=self.quirks, wrap=self.wrap)

    def reading(self, quirks: str | Iterable[str] = "documented", wrap: str = "refuse") -> Card:
        """This card with another reading of calls: `quirks` as `quirks.chosen`, `wrap` "refuse" or "hardware".

        Raises ParameterError for an unknown name.
        """
        if wrap not in ("refuse", "hardware"):
            raise ParameterError("unknown way to treat values too wide for their field", field="wrap", value=wrap,
                                 allowed="refuse, hardware")  # fmt: skip
        named, wraps = chosen(quirks), wrap == "hardware"
        if (named, wraps) == (self.quirks, self.wrap):
            return self  # with what it has looked up so far
        return replace(self, quirks=named, wrap=wraps)

    def quirk(self, name: str) -> bool:
        """Whether calls are read as the implementation of this card does, at the place that `name` in QUIRKS describes."""
        return name in self.quirks and self.name in QUIRKS[name].cards

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def title(self) -> str:
        return self.model.title

    @property
    def label(self) -> str:
        """`name:SoC`, as `load_card` takes it."""
        return f"{self.model.name}:{self.soc}"

    @property
    def npu_arch(self) -> int:
        return self.model.npu_arch

    @property
    def coupled(self) -> bool:
        """True where cube and vector units share one core and one scalar unit."""
        return self.model.coupled

    @property
    def soc_data(self) -> cm.Soc:
        return self.model.socs[self.soc]

    @property
    def clock_mhz(self) -> float:
        return self.value("clock_mhz")

    @property
    def cubes(self) -> int:
        return self.soc_data.cubes

    @property
    def vectors(self) -> int:
        return self.soc_data.vectors

    @property
    def vectors_per_cube(self) -> int:
        return self.model.vectors_per_cube

    @property
    def l2_bytes(self) -> int:
        return int(self.value("l2_bytes"))

    @property
    def memory_rate_gbps(self) -> float:
        """Nominal memory bandwidth of the SoC, 1e9 bytes per second."""
        return self.value("memory_rate")

    @property
    def memory_attainable_gbps(self) -> float:
        """Memory bandwidth that kernels reach, 1e9 bytes per second (section 11.4)."""
        return self.memory_rate_gbps * self.value("hbm.attainable")

    @property
    def buffers(self) -> Mapping[str, cm.Buffer]:
        return self.model.buffers

    @property
    def paths(self) -> Mapping[str, cm.OnChipPath]:
        return self.model.paths

    @property
    def gm(self) -> Mapping[str, cm.GmPath]:
        return self.model.gm

    def position(self, tposition: str) -> str:
        """Physical buffer of a TPosition ("GM" for global memory), "" where the card has none."""
        return self.model.positions.get(tposition, "")

    def has_path(self, path: str) -> bool:
        """Whether pages offer the path ("L1-L0A", "GM-UB"); those that only headers emit do not count."""
        found = self.model.paths.get(path) or self.model.gm.get(path)
        return found is not None and not found.header_only

    def path_names(self) -> list[str]:
        """The paths that `has_path` knows, in file order."""
        return [path for path in (*self.model.gm, *self.model.paths) if self.has_path(path)]

    def api(self, name: str, variant: str | None = None) -> list[cm.ApiSupport]:
        """Rows of the API list with this name; several pages may share one. Empty when the list does not know it."""
        return [row for row in self._apis.get(name, ()) if variant is None or row.variant == variant]

    @cached_property
    def _apis(self) -> dict[str, list[cm.ApiSupport]]:
        rows: dict[str, list[cm.ApiSupport]] = {}
        for row in self.model.support.apis:
            rows.setdefault(row.name, []).append(row)
        return rows

    @cached_property
    def _facts(self) -> dict[str, cm.Fact]:
        facts = dict(walk(self.model, ()))
        overridden = dict(self.overrides)
        for soc_name, soc in self.model.socs.items():
            for key, unit in SOC_UNITS.items():
                value = getattr(soc, key)
                if value is not None:
                    path = f"socs.{soc_name}.{key}"
                    basis = "override" if path in overridden else "documented"
                    facts[path] = cm.Number.model_validate(
                        {"value": value, "unit": unit, "basis": basis, "source": soc.source, "note": soc.note}
                    )
        return facts

    def _key(self, path: str) -> str:
        return f"socs.{self.soc}.{SHORT[path]}" if path in SHORT else path

    def _fact(self, path: str) -> cm.Fact:
        if self.asked is not None:
            self.asked.add(self._key(path))
        found = self._facts.get(self._key(path))
        if found is None:
            raise unknown_key(f"card {self.name} has no number {path!r}", self.file, path, [*self._facts, *SHORT])
        return found

    def _of(self, kind: type[FactT], path: str) -> FactT:
        found = self._fact(path)
        if not isinstance(found, kind):
            held = f"a {type(found).__name__}, not a {kind.__name__}"
            raise ConfigError(f"the key holds {held}", file=self.file, field=path)
        return found

    def number(self, path: str) -> cm.Number:
        """The number at a dotted key, with unit and provenance."""
        return self._of(cm.Number, path)

    def value(self, path: str) -> float:
        """The bare value at a dotted key, in the unit of the file."""
        return float(self._of(cm.Number, path).value)

    def flag(self, path: str) -> bool:
        """A yes-or-no fact, e.g. `l2.write_allocate`."""
        return self._of(cm.Flag, path).value

    def text(self, path: str) -> str:
        """A policy, e.g. `l2.replacement`."""
        return self._of(cm.PolicyFact, path).value

    def ids(self, path: str) -> tuple[int, ...]:
        """A set of ids, e.g. `sync.reserved_event_ids`."""
        return self._of(cm.Ids, path).values

    def names(self, path: str) -> tuple[str, ...]:
        """A set of names, e.g. `sync.pairs.aic`; empty where the card leaves the key out."""
        found = self._facts.get(path)
        return found.values if isinstance(found, cm.Names) else ()

    def has(self, path: str) -> bool:
        """Whether the card has a fact at this dotted key."""
        return self._key(path) in self._facts

    def facts(self, all_socs: bool = False) -> Iterator[tuple[str, cm.Fact]]:
        """Every fact with its dotted key, in file order; of the SoCs only the chosen one unless `all_socs`."""
        for path, fact in self._facts.items():
            if all_socs or _soc_of(path) in ("", self.soc):
                yield path, fact

    def numbers(self, all_socs: bool = False) -> Iterator[tuple[str, cm.Number]]:
        """As `facts`, numbers only."""
        for path, fact in self.facts(all_socs):
            if isinstance(fact, cm.Number):
                yield path, fact

    def path_number(self, path: str, key: str, api: str | None = None) -> float:
        """`rate`, `latency` or `occupancy_head` of an on-chip path, the API's own figure where it has one."""
        own = f"paths.{path}.api.{api}.{key}"
        return self.value(own if api is not None and own in self._facts else f"paths.{path}.{key}")


def card_names() -> list[str]:
    """Names of the cards that come with the package, sorted."""
    return sorted(path.stem for path in config_dir().glob("*.toml"))


def load_card(spec: str | Path, overrides: Mapping[str, object] | None = None) -> Card:
    """Load a card.

    `spec` is a card name, an alias or the path of a TOML file, each with an optional `:SoC`. `overrides` maps dotted
    keys to values (numbers or text as typed on a command line); an overridden number gets the basis "override".
    """
    file, soc = _find(spec)
    written = file.stat().st_mtime_ns
    return _loaded(file, written, soc, overrides) if overrides else _plain(file, written, soc)


@lru_cache(maxsize=32)
def _plain(file: Path, mtime_ns: int, soc: str) -> Card:
    """The card as its file has it: every run by name asks for it."""
    return _loaded(file, mtime_ns, soc, {})


def _loaded(file: Path, mtime_ns: int, soc: str, overrides: Mapping[str, object]) -> Card:
    raw, model = read_card(file, mtime_ns)
    soc = soc or model.default_soc
    where = str(file)
    if soc not in model.socs:
        raise ConfigError(
            f"card {model.name} has no SoC of this name{near(soc, model.socs)}",
            file=where, field="socs", value=soc, allowed=", ".join(model.socs),
        )  # fmt: skip
    given = {f"socs.{soc}.{SHORT[key]}" if key in SHORT else key: value for key, value in overrides.items()}
    # A copy; copy.deepcopy takes ten times as long, which every run would pay.
    changed: Raw = pickle.loads(pickle.dumps({key: value for key, value in raw.items() if key != "support"}))
    for path, number in model.socs[soc].numbers.items():
        node = leaf(changed, path, where, f"socs.{soc}.numbers.{path}")
        node.clear()
        node.update(number.model_dump(exclude_none=True))
    for path, value in given.items():
        apply_override(changed, path, value, where)
    chosen = validated({**changed, "support": model.support}, where)
    content = json.dumps([changed, raw["support"], soc], sort_keys=True, default=str)
    return Card(
        model=chosen,
        soc=soc,
        file=where,
        overrides=tuple((path, str(value)) for path, value in sorted(given.items())),
        fingerprint=hashlib.sha256(content.encode()).hexdigest()[:16],
    )


def _find(spec: str | Path) -> tuple[Path, str]:
    """File and SoC ("" = default) of a card spec."""
    text = str(spec)
    if Path(text).is_file():
        return Path(text), ""
    name, _, soc = text.rpartition(":")
    if not name:
        name, soc = text, ""
    if Path(name).is_file():
        return Path(name), soc
    if name.endswith(".toml"):
        raise ConfigError("no such card file", file=name, field="card", value=text)
    aliases: dict[str, Path] = {}
    for known in card_names():
        file = config_dir() / f"{known}.toml"
        if known == name:
            return file, soc
        for alias in read_card(file, file.stat().st_mtime_ns)[1].aliases:
            aliases[alias.lower()] = file
    if name.lower() in aliases:
        return aliases[name.lower()], soc
    raise ConfigError(
        f"unknown card{near(name, [*card_names(), *aliases])}",
        field="card",
        value=text,
        allowed=f"{', '.join(card_names())}; aliases {', '.join(sorted(aliases))}; or a TOML file; each with :SoC",
    )


def _soc_of(path: str) -> str:
    return path.split(".")[1] if path.startswith("socs.") else ""
