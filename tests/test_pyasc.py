"""Programs written for pyasc, run unmodified over the simulator: results, platforms, errors, exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aicore_sim.errors import ConfigError
from aicore_sim.kernel.arguments import as_numpy, is_array
from aicore_sim.launch import Run
from aicore_sim.pyasc_runner import COMPAT, run_file, run_module
from aicore_sim.pyasc_settings import card_of, settings

PROGRAMS = Path(__file__).parent / "data" / "pyasc"
ROOT = Path(__file__).parent.parent


@pytest.fixture
def program(tmp_path: Path) -> Any:
    """Write a program and run it: (exit status, runs)."""

    def run(text: str, *argv: str, **options: Any) -> tuple[int, list[Run]]:
        file = tmp_path / "program.py"
        file.write_text("import asc\nimport numpy as np\nimport asc.runtime.config as config\n" + textwrap.dedent(text))
        runs: list[Run] = []
        return run_file(file, argv, on_run=runs.append, **options), runs

    return run


# ---- whole programs: each checks its own result and fails if it is wrong ------------------------------------------------
@pytest.mark.parametrize(("name", "card", "kernel", "blocks"), [
    ("scale_add", "atlas_a2:Ascend910B3", "scale_add", 4), ("double_flags", "atlas_a3:Ascend910_9391", "double", 2),
    ("auto_tensors", "atlas_a2:Ascend910B1", "shift", 4), ("struct_tiling", "atlas_a2:Ascend910B1", "copy_through", 2),
])  # fmt: skip
def test_programs(name: str, card: str, kernel: str, blocks: int) -> None:
    runs: list[Run] = []
    assert run_file(PROGRAMS / f"{name}.py", on_run=runs.append) == 0
    assert [(run.card.label, run.kernel, run.blocks) for run in runs] == [(card, kernel, blocks)]
    assert runs[0].cycles > 0


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


def test_past_the_end_of_an_array_warns_and_is_an_error_if_strict() -> None:
    runs: list[Run] = []
    assert run_file(PROGRAMS / "struct_tiling.py", on_run=runs.append) == 0
    assert any("behind the end of x" in text for text, *_ in runs[0].warnings)
    assert run_file(PROGRAMS / "struct_tiling.py", strict=True, on_run=runs.append) == 1
    assert len(runs) == 1


@pytest.mark.parametrize("argv", [[], ["--backend", "NPU", "--platform", "Ascend910_9382"]])
def test_pytest_over_programs(tmp_path: Path, argv: list[str]) -> None:
    shutil.copy(PROGRAMS / "scale_add.py", tmp_path / "test_scale_add.py")
    shutil.copy(PROGRAMS / "programs_conftest.py", tmp_path / "conftest.py")
    code = (
        "import sys; from aicore_sim.pyasc_runner import run_module; runs = [];"
        "status = run_module('pytest', sys.argv[1:], on_run=runs.append);"
        "print('RUNS', *[run.card.label for run in runs]); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", "test_scale_add.py", *argv],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    expected = "atlas_a3:Ascend910_9382" if "--platform" in argv else "atlas_a2:Ascend910B1"
    assert f"RUNS {expected}" in done.stdout


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


# ---- modules and names ------------------------------------------------------------------------------------------------
def test_module_layout(program: Any) -> None:
    status, _ = program(
        """
        import asc.language, asc.codegen.errors, asc.runtime.jit, asc.runtime.launcher, asc.runtime.compiler
        import asc.lib.host, asc.lib.runtime as rt
        from asc.language.core.dtype import KnownTypes as KT
        from asc.language.core.struct import Field, Struct, StructField
        from asc.language.fwk.tpipe import TQueBind
        assert asc.__name__ == "asc" and asc.language.__name__ == "asc.language"
        assert KT.bool_ is asc.int8 and KT.half is asc.float16 and asc.DataType("float32") == asc.float32
        assert issubclass(asc.TBuf, TQueBind) and issubclass(asc.TQue, TQueBind)
        assert issubclass(asc.codegen.errors.UnsupportedSyntaxError, asc.codegen.errors.CodegenError)
        space = {}
        exec("from asc import *", space)
        for name in ("range", "property", "max", "min", "abs", "jit", "TPipe", "GlobalAddress", "LocalTensorAuto"):
            assert space[name] is getattr(asc, name), name
            assert space[name] is not getattr(__builtins__, name, None), name
        assert rt.is_available() and rt.is_model() and rt.current_stream() is rt.current_stream()
        """
    )
    assert status == 0


def test_platform_module(program: Any) -> None:
    status, _ = program(
        """
        import asc.lib.runtime as rt
        assert [b.value for b in config.Backend] == ["Model", "NPU"]
        assert config.Platform("Ascend910B4-1") is config.Platform.Ascend910B4_1 and len(config.Platform) == 12
        assert config.KernelType.MIX_AIC_1_2.value == 7
        config.set_platform("NPU", config.Platform.Ascend910_9362, device_id=0)
        assert rt.current_platform() == "Ascend910_9362" and not rt.is_model()
        config.set_platform(config.Backend.Model)
        assert rt.current_platform() == "Ascend910B1"
        for bad in (("GPU",), ("Model", "Ascend310P")):
            try:
                config.set_platform(*bad)
            except ValueError:
                continue
            raise AssertionError(bad)
        config.rt.is_available = lambda: False
        try:
            config.set_platform("Model", config.Platform.Ascend910B3)
        except RuntimeError as error:
            assert "simulator/Ascend910B3/lib" in str(error)
        else:
            raise AssertionError("no error")
        finally:
            config.rt.is_available = lambda: True
        """
    )
    assert status == 0


@pytest.mark.parametrize("text", [
    "from asc.adv import Matmul\nMatmul()", "import asc.adv as adv\nadv.get_matmul_api_tiling(1)",
    "import asc.lib.host as host\nhost.get_ascendc_platform().x", "import asc.lib.runtime as rt\nrt.malloc(32)",
])  # fmt: skip
def test_what_is_not_modelled_says_so(program: Any, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program(text.replace("asc.adv", "asc.language.adv"))[0] == 1
    assert "UnsupportedError" in capsys.readouterr().err


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


# ---- arrays -----------------------------------------------------------------------------------------------------------
class _Tensor:
    """The few members of a torch tensor that are used."""

    def __init__(self, array: np.ndarray, dtype: str, device: str = "cpu") -> None:
        self._array, self.dtype, self.device = array, dtype, types.SimpleNamespace(type=device)

    def detach(self) -> _Tensor:
        return self

    def view(self, dtype: Any) -> _Tensor:
        return _Tensor(self._array.view(dtype), str(dtype))

    def numpy(self) -> np.ndarray:
        return self._array


def test_tensors_share_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=_Tensor, int16=np.int16))  # type: ignore[arg-type]
    memory = np.zeros(4, np.float32)
    tensor = _Tensor(memory, "torch.float32")
    assert is_array(tensor)
    as_numpy(tensor)[1] = 5
    assert memory[1] == 5
    half = _Tensor(np.array([0x3F80, 0x4000], np.uint16), "torch.bfloat16")
    assert as_numpy(half).astype(np.float32).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="CPU"):
        as_numpy(_Tensor(memory, "torch.float32", "npu"))


def test_the_package_is_where_the_runner_says() -> None:
    assert (COMPAT / "asc" / "__init__.py").is_file()
