"""Errors as pyasc programs expect them; pytest runs it."""

import asc
import asc.runtime.config as config
import numpy as np
import pytest
from asc.codegen.errors import CodegenError


@asc.jit
def good(x: asc.GlobalAddress, n: asc.ConstExpr[int]):
    gm = asc.GlobalTensor()
    gm.set_global_buffer(x)
    t = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, n)
    asc.data_copy(t, gm, n)


@asc.jit
def wrong_type(x: asc.GlobalAddress, n: asc.ConstExpr[int]):
    a = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, n)
    b = asc.LocalTensor(asc.half, asc.TPosition.VECIN, 1024, n)
    asc.add(a, a, b, n)


@asc.jit
def no_such(x: asc.GlobalAddress):
    asc.no_such_function(x)


@asc.jit
def no_form(x: asc.GlobalAddress):
    gm = asc.GlobalTensor()
    gm.set_global_buffer(x)
    t = asc.LocalTensor(x.dtype, asc.TPosition.VECIN, 0, 64)
    asc.data_copy(t, gm, "many")


@pytest.fixture(autouse=True)
def platform():
    config.set_platform(config.Backend.Model)


@pytest.fixture
def x():
    return np.zeros(64, np.float32)


@pytest.mark.parametrize("kernel, args", [(wrong_type, (64,)), (no_such, ()), (no_form, ())])
def test_errors_in_kernels(kernel, args, x):
    with pytest.raises(CodegenError) as info:
        kernel[1](x, *args)
    assert "asc." in str(info.value)


def test_launch_errors(x):
    good[1](x, 64)
    with pytest.raises(TypeError):
        good[1](x, 64, 3)
    with pytest.raises(TypeError):
        good[1]([1, 2, 3], 64)
    with pytest.raises(TypeError):
        good[1](x)
    with pytest.raises(RuntimeError):
        good[1](x, 6.5)
    with pytest.raises(RuntimeError):
        good(x, 64)
    with pytest.raises(ValueError):
        good[0](x, 64)
    with pytest.raises(TypeError):
        good[1.5](x, 64)
    with pytest.raises(TypeError):
        good["x"](x, 64)
    with pytest.raises(RuntimeError):
        asc.jit(optimize=3)(lambda: None)
    with pytest.raises(RuntimeError):
        good[1](x, 64, opt_level=7)
    with pytest.raises(ValueError):
        config.Platform("Ascend310")
