"""Where the package finds its card files and scenarios.

In a checkout `configs/` and `scenarios/` lie beside the package; a wheel carries them inside it, under `_data/`. The
published measurements are a file of the package itself (`validation.points.PUBLISHED`).
"""

from __future__ import annotations

from pathlib import Path

from aicore_sim.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent


def _data_dir(name: str) -> Path:
    """The wheel's copy is looked for first: where it exists, a `configs` beside the package is somebody else's."""
    tried = (_PACKAGE / "_data" / name, _PACKAGE.parent / name)
    for folder in tried:
        if folder.is_dir():
            return folder
    raise ConfigError(
        f"folder {name!r} of aicore_sim not found: reinstall the package, or run it from a checkout",
        value=" | ".join(str(path) for path in tried),
        field=name,
    )


def config_dir() -> Path:
    """Folder of the card files, one TOML per card."""
    return _data_dir("configs")


def scenario_dir() -> Path:
    """Folder of the runnable example kernels."""
    return _data_dir("scenarios")
