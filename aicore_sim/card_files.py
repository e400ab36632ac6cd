"""Card files on their way to a `Card`: reading, validation with readable errors, dotted keys, overrides.

Dotted keys work on the parsed TOML, before validation: a replaced number passes the same checks as the file's own.
"""

from __future__ import annotations

import contextlib
import difflib
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from aicore_sim import card_model as cm
from aicore_sim.errors import ConfigError

Raw = dict[str, Any]
SOC_UNITS = {"cubes": "count", "vectors": "count", "clock_mhz": "MHz", "l2_bytes": "B", "memory_bytes": "B"}
"""Plain numbers of a SoC and their units."""
SHORT = {**{key: key for key in (*SOC_UNITS, "memory_rate")}, "hbm.nominal_rate": "memory_rate"}
"""Short key -> key of the chosen SoC."""


@lru_cache(maxsize=32)
def read_card(file: Path, mtime_ns: int) -> tuple[Raw, cm.CardFile]:
    """Parsed and validated file; `mtime_ns` makes an edited file a new cache entry. Callers copy before they change."""
    del mtime_ns
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the card file cannot be read: {error}", file=str(file)) from error
    model = validated(raw, str(file))
    for path, fact in walk(model, ()):
        if fact.basis == "override":
            raise ConfigError(
                "this basis is set by overrides only",
                file=str(file), field=f"{path}.basis", value="override",
                allowed="documented, measured, derived, fitted, assumed",
            )  # fmt: skip
    for name, soc in model.socs.items():
        for path in soc.numbers:
            leaf(raw, path, str(file), f"socs.{name}.numbers.{path}")
    return raw, model


def validated(raw: Raw, file: str) -> cm.CardFile:
    """The model of a parsed file, or a ConfigError with the file and the dotted key."""
    try:
        return cm.CardFile.model_validate(raw)
    except ValidationError as error:
        raise _as_config_error(error, file) from error


def _as_config_error(error: ValidationError, file: str) -> ConfigError:
    """The first failure in full, the keys of the others."""
    details = error.errors(include_url=False)
    paths = [".".join(str(part) for part in detail["loc"]) for detail in details]
    first, path = details[0], paths[0]
    allowed: str | None = None
    value: object = first["input"]
    if first["type"] == "extra_forbidden":
        known = _keys_at(first["loc"][:-1])
        message = f"unknown key{near(str(first['loc'][-1]), known)}"
        allowed = ", ".join(known)
    elif first["type"] == "missing":
        message, value = "missing key", None
    else:
        message = first["msg"].removeprefix("Value error, ")
        allowed = str(first.get("ctx", {}).get("expected", "")) or None
    if isinstance(value, (dict, list)):
        value = None
    if len(paths) > 1:
        message += f" (also wrong: {', '.join(paths[1:4])}{', ...' if len(paths) > 4 else ''})"
    return ConfigError(message, file=file, field=path or "(whole file)", value=value, allowed=allowed)


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    """Keys that the model knows at a location of the file."""
    kind: Any = cm.CardFile
    for part in location:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            known = kind.model_fields.get(str(part))
            kind = known.annotation if known is not None else None
        else:
            kind = get_args(kind)[-1] if get_args(kind) else None
        if type(None) in get_args(kind):  # Number | None
            kind = get_args(kind)[0]
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def walk(node: object, path: tuple[str, ...]) -> Iterator[tuple[str, cm.Fact]]:
    """All facts below a model or table, in file order. The API list has none; a SoC's `numbers` are replacements."""
    if isinstance(node, cm.Fact):
        yield ".".join(path), node
    elif isinstance(node, BaseModel):
        for key in type(node).model_fields:
            if key not in ("support", "numbers"):
                yield from walk(getattr(node, key), (*path, key))
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from walk(child, (*path, str(key)))


def fact_at(model: cm.CardFile, path: str) -> cm.Fact:
    """The fact at a dotted key that is known to hold one."""
    node: Any = model
    for part in path.split("."):
        node = node[part] if isinstance(node, dict) else getattr(node, part)
    assert isinstance(node, cm.Fact)
    return node


def near(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name; empty when nothing known resembles it."""
    matches = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f", did you mean {' or '.join(matches)}?" if matches else ""


def unknown_key(message: str, file: str, path: str, known: Iterable[str]) -> ConfigError:
    """Error for a dotted key that does not exist; other SoCs' keys would only crowd the near matches."""
    known = [key for key in known if not key.startswith("socs.") or path.startswith("socs.")]
    close = difflib.get_close_matches(path, known, n=5, cutoff=0.4)
    table = path.split(".")[0]
    allowed = close or [key for key in known if key.startswith(f"{table}.")][:8]
    return ConfigError(message, file=file, field=path, allowed=f"near: {', '.join(allowed)}" if allowed else None)


def _raw_leaves(node: Raw, prefix: str = "") -> Iterator[str]:
    for key, child in node.items():
        if isinstance(child, dict) and key not in ("support", "numbers"):
            if "value" in child:
                yield f"{prefix}{key}"
            else:
                yield from _raw_leaves(child, f"{prefix}{key}.")


def leaf(raw: Raw, path: str, file: str, named: str) -> Raw:
    """The inline table of a fact at a dotted key; `named` is how an error calls the key."""
    node: Any = raw
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if isinstance(node, dict) and "value" in node:
        return node
    what = "the key is a table, not a number" if isinstance(node, dict) else "unknown key"
    error = unknown_key(what, file, path, [*_raw_leaves(raw), *SHORT])
    error.field = named
    raise error


def opened(model: cm.CardFile, paths: Iterable[str]) -> Raw:
    """The model as a parsed file that `apply_override` can change: tables along the dotted `paths` as dictionaries.

    The rest stays as it is, and validation takes finished models unchecked: one new number costs a millisecond.
    """
    raw: Raw = _table(model)
    for path in paths:
        node = raw
        for part in path.split("."):
            if not isinstance(node.get(part), (BaseModel, dict)):
                break
            node[part] = _table(node[part])
            node = node[part]
    return raw


def _table(node: BaseModel | Raw) -> Raw:
    """A table of its own, one level deep; keys that the file leaves out are left out."""
    if isinstance(node, BaseModel):
        return {key: value for key in type(node).model_fields if (value := getattr(node, key)) is not None}
    return dict(node)


def apply_override(raw: Raw, path: str, value: object, file: str) -> object:
    """Replace one value in the parsed file, in place; returns it typed. New cube counts take their vector cores along."""
    parts = path.split(".")
    if len(parts) == 3 and parts[0] == "socs" and parts[2] in SOC_UNITS and parts[1] in raw["socs"]:
        soc = raw["socs"][parts[1]]
        soc[parts[2]] = _typed(value, soc.get(parts[2], 0), path, file)
        if parts[2] == "cubes" and soc["cubes"] is not None:
            soc["vectors"] = soc["cubes"] * raw["vectors_per_cube"]
        return soc[parts[2]]
    node = leaf(raw, path, file, path)
    new = _typed(value, node["value"], path, file)
    was_file = node["basis"] != "override"
    note = f"card file: {node['value']} ({node['basis']}, {node['source']})" if was_file else node["note"]
    unit = {"unit": node["unit"]} if "unit" in node else {}
    node.clear()
    node.update(value=new, **unit, basis="override", source="override", note=note)
    return new


def _typed(value: object, old: object, path: str, file: str) -> object:
    """Text from a command line in the type of the value it replaces; other values pass to validation unchanged."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if isinstance(old, bool):
        if text.lower() not in ("true", "false"):
            raise ConfigError("a yes or no is needed", file=file, field=path, value=value, allowed="true, false")
        return text.lower() == "true"
    if isinstance(old, str):
        return text
    with contextlib.suppress(ValueError):
        return int(text, 0)
    with contextlib.suppress(ValueError):
        return int(float(text)) if float(text).is_integer() else float(text)
    raise ConfigError("a number is needed", file=file, field=path, value=value)
