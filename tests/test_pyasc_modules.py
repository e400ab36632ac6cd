"""The package `asc` that programs written for pyasc import: its modules and names, the runtime, torch."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aicore_sim.cards import load_card
from aicore_sim.kernel.arguments import as_numpy, is_array
from aicore_sim.pyasc_runner import COMPAT
from aicore_sim.pyasc_settings import settings
from aicore_sim.pyasc_torch import npu_on_cpu
from tests.pyasc_programs import program_in


@pytest.fixture
def program(tmp_path: Path) -> Any:
    return program_in(tmp_path)


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
        assert set(asc.__all__) <= set(space) and len(set(asc.__all__)) == len(asc.__all__)
        for name in ("range", "property", "max", "min", "abs", "jit", "TPipe", "GlobalAddress", "LocalTensorAuto"):
            assert space[name] is getattr(asc, name), name
            assert space[name] is not getattr(__builtins__, name, None), name
        for name in ("np", "Any", "dataclass", "annotations", "simulate", "Run", "Card", "AiCoreError", "settings"):
            assert name not in space, name
        from asc.language.core.array import array
        from asc.language.core.types import BinaryRepeatParams, UnaryRepeatParams
        assert asc.core.array is array is asc.array and asc.core.range is asc.range
        assert asc.runtime.config.Platform and asc.lib.runtime is rt and asc.core is asc.language.core
        assert callable(asc.language.core.utils.static_assert) and asc.language.fwk.tpipe.TQue is asc.TQue
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
    "asc.mrg_sort4(1, 2)", "asc.GatherRepeatParams(dst_blk_stride=1)", "asc.IterateMode.ITERATE_MODE_ALL",
])  # fmt: skip
def test_what_is_not_modelled_says_so(program: Any, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program(text.replace("asc.adv", "asc.language.adv"))[0] == 1
    assert "UnsupportedError" in capsys.readouterr().err


def test_names_that_pyasc_lacks_are_attribute_errors(program: Any) -> None:
    status, _ = program(
        """
        import asc.lib.runtime as rt
        for owner in (asc, rt, asc.language.core):
            assert not hasattr(owner, "no_such_name"), owner
        """
    )
    assert status == 0


def test_the_runtime_tells_the_number_of_cores(program: Any) -> None:
    text = """
        import asc.lib.runtime as rt
        from asc.lib.runtime.support import DeviceInfoType, DeviceModuleType
        config.set_platform("NPU", config.Platform.Ascend910B4)
        kinds = DeviceModuleType.RT_MODULE_TYPE_VECTOR_CORE, DeviceModuleType.RT_MODULE_TYPE_AICORE
        found = [rt.device_info(kind, DeviceInfoType.INFO_TYPE_CORE_NUM) for kind in kinds]
        assert found == CORES, found
        assert rt.get_soc_version() is config.Platform.Ascend910B4
        try:
            rt.device_info(kinds[0], DeviceInfoType.INFO_TYPE_IP)
        except NotImplementedError as error:
            assert "INFO_TYPE_IP" in str(error)
        else:
            raise AssertionError
    """
    assert program(text.replace("CORES", "[40, 20]"))[0] == 0
    card = load_card("atlas_350")
    assert program(text.replace("CORES", f"[{card.vectors}, {card.cubes}]"), card="atlas_350")[0] == 0


def test_a_replaced_launcher_gets_the_launch_and_nothing_runs(program: Any) -> None:
    status, runs = program(
        """
        from unittest.mock import patch
        from asc.runtime.jit import MockTensor

        @asc.jit
        def kernel(x: asc.GlobalAddress):
            asc.data_copy(x, x, asc.DataCopyEnhancedParams())

        with patch("asc.runtime.launcher.Launcher.run", return_value=None) as mock:
            kernel[1](MockTensor(asc.float16))
        assert mock.call_count == 1
        """
    )
    assert (status, runs) == (0, [])


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


class _Mode:
    """The base that torch offers for contexts like this."""

    entered = 0

    def __enter__(self) -> _Mode:
        type(self).entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        type(self).entered -= 1


def _fake_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    torch = types.SimpleNamespace(Tensor=type("Tensor", (), {}))
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch.overrides", types.SimpleNamespace(TorchFunctionMode=_Mode))  # type: ignore[arg-type]
    return torch


def test_device_npu_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_torch(monkeypatch)
    mode: Any = npu_on_cpu()
    seen = mode.__torch_function__(lambda *args, **named: (args, named), (), ("npu:0", 3, "x"), {"device": "npu"})
    assert seen == (("cpu", 3, "x"), {"device": "cpu"})
    assert mode.__torch_function__(lambda: "none given", ()) == "none given"
    monkeypatch.delitem(sys.modules, "torch")
    assert npu_on_cpu() is None


def test_torch_is_itself_again_after_the_program(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_torch(monkeypatch)
    monkeypatch.setattr(_Mode, "entered", 0)
    text = """
        import sys
        import torch
        import torch_npu
        mode = sys.modules["torch.overrides"].TorchFunctionMode
        inside = [kind.entered for kind in mode.__subclasses__()][-1]
        assert inside == 1, inside
        config.set_platform("NPU")
        assert [kind.entered for kind in mode.__subclasses__()][-1] == 1
        torch.npu.set_device(0)
        assert torch.npu.is_available() and torch.npu.device_count() == 1
        tensor = torch.Tensor()
        assert tensor.npu() is tensor
        raise SystemExit(4)
    """
    assert program(text)[0] == 4
    assert [kind.entered for kind in _Mode.__subclasses__()][-1] == 0
    assert settings._npu is None


def test_the_package_is_where_the_runner_says() -> None:
    assert (COMPAT / "asc" / "__init__.py").is_file()
