"""A placement as JSON: the exact map in runs, the fractals, a few elements with their addresses (docs/explain.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aicore_sim.explain import FILL, UNDEFINED, UNTOUCHED, ElementMap
from aicore_sim.explain.runs import runs
from aicore_sim.report.placement import Placement, Spot


def as_dict(placement: Placement) -> dict[str, Any]:
    """The placement as `aicore-sim explain --json` prints it.

    `map` lists runs of the destination in order; `unit` says whether they count elements or bytes, from the start of the
    tensors. {"dst": [first, last], "src": [first, last], "step": s}: destination first + i comes from source
    first + i * s. {"dst": [first, last], "fill": "0x.."}: the raw word of every element; {"dst": [first, last],
    "undefined": true}. What no run names is untouched.
    """
    found = placement.found
    return {
        "api": found.form.api,
        "struct": found.form.name,
        "fields": dict(found.fields),
        "card": found.card.name,
        "soc": found.card.soc,
        "dtype": found.dtype.name,
        "path": found.path,
        "pipe": found.pipe or None,
        "bytes": found.moved,
        "rewritten_bytes": found.rewritten,
        "headline": placement.headline(),
        "source": _side(placement, 0),
        "destination": {**_side(placement, 1), "fractals": _fractals(placement)},
        "unit": "element" if found.by_element else "byte",
        "unit_bits": found.cell_bits,
        "map": list(_map(found)),
        "elements": [_element(found, spot) for spot in placement.spots],
        "warnings": list(found.warnings),
        "notes": placement.notes(),
    }


def json_text(result: Mapping[str, Any]) -> str:
    """A document of `as_dict` with one line for each entry of its lists: readable, and still small."""
    lines = []
    for key, value in result.items():
        text = json.dumps(value, allow_nan=False)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n    " + ",\n    ".join(json.dumps(item, allow_nan=False) for item in value) + "\n  ]"
        lines.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _side(placement: Placement, index: int) -> dict[str, Any]:
    found = placement.found
    side, grid = ((found.source, placement.source), (found.destination, placement.destination))[index]
    shape = placement.shapes[index]
    used = np.flatnonzero(found.read if index == 0 else found.origin != UNTOUCHED)
    reach = None
    if used.size:
        reach = [found.byte(int(used[0]) + side.first), found.byte(int(used[-1]) + 1 + side.first) - 1]
    return {
        "position": side.position, "buffer": side.buffer, "byte_range": reach,
        "bytes": int(used.size) * found.cell_bits // 8, "shape": None if shape is None else [shape.rows, shape.columns],
        "layout": None if shape is None else shape.layout, "unit": "fractal" if grid.fractal else "row",
        "unit_bytes": found.byte(grid.unit_cells) if grid.fractal else None,
        "row_pitch": None if grid.fractal or not used.size else grid.pitch,
    }  # fmt: skip


def _fractals(placement: Placement) -> list[dict[str, Any]] | None:
    """Destination fractals that are written, in order of their numbers: the source fractals in them, the source cell of
    their first copied cell; None where the destination has no fractals.
    """
    grid, units, origin = placement.destination, placement.units, placement.origin_in_units
    if not grid.fractal:
        return None
    size = placement.source.unit_cells
    numbers = grid.blocks[:, :, 0].reshape(-1) // grid.unit_cells
    rows = []
    for i in np.argsort(numbers, kind="stable"):
        if numbers[i] < 0 or not units.copied[i] + units.filled[i] + units.undefined[i]:
            continue
        sources = [int(n) for n in np.unique(origin[i][origin[i] >= 0] // size)] if size else None
        rows.append({
            "id": int(numbers[i]), "from": sources, "first": int(units.first[i]) if units.copied[i] else None,
            "transposed": bool(units.transposed[i]), "copied": int(units.copied[i]), "filled": int(units.filled[i]),
            "undefined": int(units.undefined[i]),
        })  # fmt: skip
    return rows


def _map(found: ElementMap) -> Iterator[dict[str, Any]]:
    base, width = found.destination.first, max(found.cell_bits // 4, 1)
    for run in runs(found.origin):
        dst = [base + run.dst, base + run.dst + run.cells - 1]
        if run.src >= 0:
            yield {"dst": dst, "src": [run.src, run.src + (run.cells - 1) * run.step], "step": run.step}
        elif run.src == UNDEFINED:
            yield {"dst": dst, "undefined": True}
        elif run.src == FILL:
            for first, last, word in _equal(found.words[run.dst : run.dst + run.cells]):
                yield {"dst": [dst[0] + first, dst[0] + last], "fill": f"0x{word:0{width}x}"}


def _equal(words: NDArray[np.uint64]) -> Iterator[tuple[int, int, int]]:
    """(first, last, word) of stretches of equal words."""
    edges = [0, *(int(i) + 1 for i in np.flatnonzero(words[1:] != words[:-1])), words.size]
    for first, last in pairwise(edges):
        yield first, last - 1, int(words[first])


def _element(found: ElementMap, spot: Spot) -> dict[str, Any]:
    return {
        "element": [spot.row, spot.column], "source": spot.source, "source_byte": found.byte(spot.source),
        "destination": list(spot.targets), "destination_byte": [found.byte(cell) for cell in spot.targets],
    }  # fmt: skip
