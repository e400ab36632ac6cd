"""Programs written for pyasc, run unmodified over the simulator: results, platforms, errors, exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aicore_sim.errors import ConfigError
from aicore_sim.launch import Run
from aicore_sim.pyasc_runner import run_file, run_module
from aicore_sim.pyasc_settings import card_of, settings
from tests.pyasc_programs import program_in

PROGRAMS = Path(__file__).parent / "data" / "pyasc"
ROOT = Path(__file__).parent.parent


@pytest.fixture
def program(tmp_path: Path) -> Any:
    return program_in(tmp_path)


# ---- whole programs: each checks its own result and fails if it is wrong ------------------------------------------------
@pytest.mark.parametrize(("name", "card", "kernel", "blocks"), [
    ("scale_add", "atlas_a2:Ascend910B3", "scale_add", 4), ("double_flags", "atlas_a3:Ascend910_9391", "double", 2),
    ("auto_tensors", "atlas_a2:Ascend910B1", "shift", 4), ("struct_tiling", "atlas_a2:Ascend910B1", "copy_through", 2),
    ("leaky_exp", "atlas_a2:Ascend910B1", "leaky_exp_kernel", 8), ("quantise", "atlas_a2:Ascend910B4", "quantise", 4),
    ("branches", "atlas_a2:Ascend910B1", "choose", 4), ("star_import", "atlas_a2:Ascend910B1", "relu6", 2),
    ("scalars", "atlas_a2:Ascend910B1", "scalars", 1),
])  # fmt: skip
def test_programs(name: str, card: str, kernel: str, blocks: int) -> None:
    runs: list[Run] = []
    assert run_file(PROGRAMS / f"{name}.py", on_run=runs.append) == 0
    assert [(run.card.label, run.kernel, run.blocks) for run in runs] == [(card, kernel, blocks)]
    assert runs[0].cycles > 0


def test_every_launch_of_a_program_is_a_run() -> None:
    runs: list[Run] = []
    assert run_file(PROGRAMS / "several_launches.py", on_run=runs.append) == 0
    assert [(run.kernel, run.blocks) for run in runs] == [("scale", 4), ("scale", 4), ("sum_blocks", 8)]
    assert run_file(PROGRAMS / "pad_rows.py", on_run=runs.append) == 0
    assert [run.blocks for run in runs[3:]] == [4, 3, 4, 7]
    assert all(run.warnings == [] for run in runs)


def test_a_program_does_not_see_the_platform_of_the_one_before() -> None:
    runs: list[Run] = []
    run_file(PROGRAMS / "quantise.py", on_run=runs.append)  # chooses Ascend910B4
    run_file(PROGRAMS / "leaky_exp.py", ["-r", "NPU"], on_run=runs.append)
    assert [run.card.label for run in runs] == ["atlas_a2:Ascend910B4", "atlas_a2:Ascend910B1"]
    assert "asc" not in sys.modules


@pytest.mark.parametrize("card", ["atlas_350", "atlas_a3", "atlas_200i"])
def test_a_given_card_wins_over_the_platform(card: str) -> None:
    runs: list[Run] = []
    assert run_file(PROGRAMS / "scale_add.py", card=card, on_run=runs.append) == 0
    assert [run.card.name for run in runs] == [card]


def test_arguments_and_status_reach_the_program() -> None:
    runs: list[Run] = []
    assert run_file(PROGRAMS / "double_flags.py", ["-n", "256", "-v", "Ascend910B2"], on_run=runs.append) == 0
    assert runs[0].card.label == "atlas_a2:Ascend910B2"
    assert run_file(PROGRAMS / "double_flags.py", ["--no-such-option"]) == 2


def test_same_program_same_cycles() -> None:
    runs: list[Run] = []
    for _ in range(2):
        run_file(PROGRAMS / "auto_tensors.py", on_run=runs.append)
    assert runs[0].columns.length == runs[1].columns.length
    assert np.array_equal(runs[0].columns.start, runs[1].columns.start)


QUEUE_OF_64 = """
@asc.jit
def kernel(x: asc.GlobalAddress, n: asc.ConstExpr[int]):
    xs = asc.GlobalTensor()
    xs.set_global_buffer(x)
    pipe = asc.TPipe()
    que = asc.TQue(asc.TPosition.VECIN, 1)
    pipe.init_buffer(que, 2, 64)
    local = que.alloc_tensor(x.dtype)
    asc.data_copy(local, xs, n)
    que.enque(local)
    que.free_tensor(que.deque(x.dtype))

kernel[1](np.zeros(64, np.float32), N)
"""


def test_past_the_end_of_a_queue_buffer_warns_and_is_an_error_if_strict(
    program: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    status, runs = program(QUEUE_OF_64.replace("N)", "32)"))
    assert status == 0
    assert [text for text, *_ in runs[0].warnings] == ["DataCopy: touches 128 B of a UB tensor of 16 float"]
    assert program(QUEUE_OF_64.replace("N)", "16)"), strict=True)[0] == 0
    assert program(QUEUE_OF_64.replace("N)", "32)"), strict=True)[0] == 1
    assert "OutOfBoundsError: DataCopy: touches 128 B" in capsys.readouterr().err


def test_past_the_end_of_an_array_warns_and_is_an_error_if_strict() -> None:
    runs: list[Run] = []
    assert run_file(PROGRAMS / "struct_tiling.py", on_run=runs.append) == 0
    assert any("behind the end of x" in text for text, *_ in runs[0].warnings)
    assert run_file(PROGRAMS / "struct_tiling.py", strict=True, on_run=runs.append) == 1
    assert len(runs) == 1


@pytest.mark.parametrize("argv", [[], ["--backend", "NPU", "--platform", "Ascend910_9382"]])
def test_pytest_over_programs(tmp_path: Path, argv: list[str]) -> None:
    shutil.copy(PROGRAMS / "scale_add.py", tmp_path / "test_scale_add.py")
    shutil.copy(PROGRAMS / "errors_suite.py", tmp_path / "test_errors.py")
    shutil.copy(PROGRAMS / "programs_conftest.py", tmp_path / "conftest.py")
    code = (
        "import sys; from aicore_sim.pyasc_runner import run_module; runs = [];"
        "status = run_module('pytest', sys.argv[1:], on_run=runs.append);"
        "print('RUNS', *[run.card.label for run in runs]); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *argv],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    expected = "atlas_a3:Ascend910_9382" if "--platform" in argv else "atlas_a2:Ascend910B1"
    runs = done.stdout.split("RUNS ")[1].split()
    assert expected in runs and len(runs) == 2  # the suite of errors launches one kernel that is right


def test_children_of_a_program_find_the_package(program: Any) -> None:
    status, _ = program(
        """
        import subprocess, sys
        child = "import asc.lib.runtime as rt; from aicore_sim.pyasc_settings import settings;"
        child += "assert (settings.card, settings.strict) == ('atlas_350', True), settings; print(rt.device_count())"
        sys.exit(subprocess.run([sys.executable, "-c", child]).returncode)
        """,
        card="atlas_350", strict=True,
    )  # fmt: skip
    assert status == 0


# ---- exit status ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("text", "status"), [
    ("", 0), ("raise SystemExit(3)", 3), ("raise SystemExit('no')", 1), ("raise SystemExit", 0), ("1 / 0", 1),
])  # fmt: skip
def test_exit_status(program: Any, text: str, status: int) -> None:
    assert program(text)[0] == status


def test_a_program_leaves_the_process_as_it_was(program: Any) -> None:
    before = sys.argv, list(sys.path), dict(os.environ), settings.card, settings.strict
    program("import sys, os\nsys.path.append('x')\nos.environ['LEFT_OVER'] = '1'\nraise KeyError", card="atlas_350")
    assert (sys.argv, list(sys.path), dict(os.environ), settings.card, settings.strict) == before


def test_missing_program_and_unknown_platform() -> None:
    with pytest.raises(ConfigError, match="no such program"):
        run_file("does/not/exist.py")
    with pytest.raises(ConfigError, match="platform"):
        card_of("Kirin9000")
    assert run_module("no_such_module_at_all") == 1


# ---- errors -----------------------------------------------------------------------------------------------------------
CATCH = """
from asc.codegen.errors import CodegenError

@asc.jit
def kernel(x: asc.GlobalAddress, n: asc.ConstExpr[int] = 1):
    xs = asc.GlobalTensor()
    xs.set_global_buffer(x)
    BODY

def attempt(call):
    try:
        call()
    except Exception as error:
        return error

x = np.zeros(64, np.float32)
"""


def test_errors_inside_a_kernel_become_codegen_errors(program: Any) -> None:
    status, runs = program(
        CATCH.replace("BODY", "asc.set_flag(asc.HardEvent.MTE2_V, 8)") +
        """
error = attempt(lambda: kernel[1](x))
assert type(error) is CodegenError, error
assert "ParameterError" in str(error) and "event_id = 8" in str(error)
assert "asc.set_flag(asc.HardEvent.MTE2_V, 8)" in str(error)
assert error.__cause__.field == "event_id"
raw = attempt(lambda: kernel[1](x, capture_exceptions=False))
assert type(raw).__name__ == "ParameterError"
"""
    )
    assert (status, runs) == (0, [])


def test_python_errors_inside_a_kernel_become_codegen_errors_too(program: Any) -> None:
    text = CATCH.replace("BODY", "xs.no_such_method()") + "\nerror = attempt(lambda: kernel[1](x))\n"
    status, _ = program(text + "assert type(error) is CodegenError and 'no_such_method()' in str(error), error\n")
    assert status == 0


def test_errors_of_the_launch_keep_their_types(program: Any) -> None:
    status, _ = program(
        CATCH.replace("BODY", "pass") +
        """
cases = {
    TypeError: [lambda: kernel[1]("text"), lambda: kernel[np.int64(1)](x), lambda: kernel[1](), lambda: kernel[1, 2, 3](x),
                lambda: kernel[1](x, stream=None)],
    RuntimeError: [lambda: kernel[1](x, n=1.5), lambda: kernel(x), lambda: asc.jit(nothing=1)(print),
                   lambda: kernel[1](x, kernel_type=3)],
    ValueError: [lambda: kernel[0](x), lambda: kernel[1](np.zeros(2, bool))],
}
for kind, calls in cases.items():
    for number, call in enumerate(calls):
        error = attempt(call)
        assert type(error) is kind, (kind, number, error)
"""
    )
    assert status == 0


def test_a_deadlock_stays_a_deadlock(program: Any) -> None:
    status, _ = program(
        CATCH.replace("BODY", "asc.wait_flag(asc.HardEvent.MTE2_V, 0)") +
        "\nerror = attempt(lambda: kernel[1](x))\nassert type(error).__name__ == 'DeadlockError', error\n"
    )
    assert status == 0


def test_options_of_a_call(program: Any) -> None:
    status, runs = program(
        """
        @asc.jit
        def kernel(x: asc.GlobalAddress):
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)

        x = np.zeros(8, np.float32)
        kernel[2](x)
        kernel[2](x, kernel_type=config.KernelType.AIC_ONLY, always_compile=True)
        kernel[2](x, kernel_type=config.KernelType.MIX_AIC_1_2)
        """
    )
    assert status == 0
    assert [sorted({core.kind for core in run.columns.cores}) for run in runs] == [["aiv"], ["aic"], ["aic", "aiv"]]
    assert [len(run.columns.cores) for run in runs] == [2, 2, 6]


def test_range_of_the_host_stays_python_s(program: Any) -> None:
    status, _ = program(
        """
        @asc.jit
        def kernel(out: asc.GlobalAddress, n: asc.ConstExpr[int] = 3):
            o = asc.GlobalTensor()
            o.set_global_buffer(out)
            for i in range(n):
                o.set_value(i, (i - 1) // 2)
            asc.data_cache_clean_and_invalid(asc.CacheLine.ENTIRE_DATA_CACHE, o)

        out = np.full(8, 7, np.int32)
        kernel[1](out)
        assert out.tolist() == [0, 0, 0, 7, 7, 7, 7, 7], out  # C++ rounds -1 / 2 to 0
        assert [i / 2 for i in range(3)] == [0.0, 0.5, 1.0] and isinstance(range(3), range)
        """
    )
    assert status == 0
