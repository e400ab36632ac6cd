"""The wheel stands on its own: built, installed into a clean environment and used from outside the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROGRAM = """
import numpy as np
import asc

@asc.jit
def copy(x: asc.GlobalAddress, y: asc.GlobalAddress):
    x_gm, y_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    ub = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 64)
    asc.data_copy(ub, x_gm, 64)
    asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.data_copy(y_gm, ub, 64)

x = np.arange(64, dtype=np.float32)
y = np.zeros_like(x)
copy[1](x, y)
print(y.sum())
"""


def _call(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, env={"PATH": "/usr/bin:/bin"}, capture_output=True,
                          text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _call(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "--no-index", "-q", "-w", folder,
          cwd=folder)  # fmt: skip
    (built,) = folder.glob("aicore_sim-*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the package from the wheel only, and everything else from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("clean") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    _call(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-deps", "--no-index", "-q",
          wheel, cwd=folder)  # fmt: skip
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder


def test_wheel_carries_cards_scenarios_and_nothing_foreign(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for card in (ROOT / "configs").glob("*.toml"):
        assert f"aicore_sim/_data/configs/{card.name}" in names
    for scenario in (ROOT / "scenarios").glob("*.py"):
        assert f"aicore_sim/_data/scenarios/{scenario.name}" in names
    assert "aicore_sim/compat/asc/__init__.py" in names
    assert {"aicore_sim/validation/points.csv", "aicore_sim/validation/reasons.csv"} <= names
    assert {name.split("/")[0] for name in names} == {
        "aicore_sim",
        wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info",
    }


def test_package_and_data_come_from_the_wheel(clean: Path, tmp_path: Path) -> None:
    script = ("import aicore_sim, aicore_sim.resources as r;"
              "print(aicore_sim.__file__, r.config_dir(), r.scenario_dir(), sep='\\n')")  # fmt: skip
    for place in _call(clean / "bin" / "python", "-c", script, cwd=tmp_path).split():
        assert Path(place).is_relative_to(clean)


def test_module_runs_a_scenario_outside_the_checkout(clean: Path, tmp_path: Path) -> None:
    words = ("run", "hello", "--card", "atlas_a2", "--json")
    document = json.loads(_call(clean / "bin" / "python", "-m", "aicore_sim", *words, cwd=tmp_path))
    (row,) = document["results"]
    assert (row["card"], row["correct"]) == ("atlas_a2", True)
    assert (tmp_path / "aicore-sim-out" / "hello-atlas_a2" / "timeline.png").is_file()


def test_console_script_finds_the_cards_of_the_wheel(clean: Path, tmp_path: Path) -> None:
    cards = json.loads(_call(clean / "bin" / "aicore-sim", "cards", "--json", cwd=tmp_path))
    assert [card["name"] for card in cards] == ["atlas_a2", "atlas_a3", "atlas_350", "atlas_200i"]
    assert all(Path(card["file"]).is_relative_to(clean) for card in cards)


def test_console_script_validates_points_that_are_in_the_wheel(clean: Path, tmp_path: Path) -> None:
    script = "from aicore_sim.validation.points import PUBLISHED, load_points; print(PUBLISHED, len(load_points()))"
    place, count = _call(clean / "bin" / "python", "-c", script, cwd=tmp_path).split()
    assert Path(place).is_relative_to(clean) and int(count) > 70


def test_console_script_runs_a_pyasc_program(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    printed = _call(clean / "bin" / "aicore-sim", "pyasc", "program.py", "--no-files", cwd=tmp_path)
    assert float(printed) == 63 * 64 / 2
