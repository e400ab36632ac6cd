"""Which cores a kernel needs, jit options, launches and arguments."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import aicore_sim.kernel.api_copy as asc_copy
from aicore_sim import dtypes
from aicore_sim.kernel import jit as jit_module
from aicore_sim.kernel.arguments import MockTensor, as_numpy, is_array
from aicore_sim.kernel.enums import KernelType, PipeID, TPosition
from aicore_sim.kernel.framework import TQue
from aicore_sim.kernel.jit import JitFunction, bind_arguments, jit
from aicore_sim.kernel.kind import kernel_kind, scheduler_on, vectors_per_block
from aicore_sim.kernel.structs import Field, Struct
from aicore_sim.kernel.sync import pipe_barrier
from aicore_sim.kernel.values import ConstExpr, RuntimeFloat, RuntimeInt
from tests.kernel.kernel_recording import record

LEFT = TPosition.A2


# ---- inference: these bodies are read, never run --------------------------------------------------------------------
@jit
def names_vector_position(x: Any) -> None:
    TQue(TPosition.VECIN, 1)


@jit
def names_cube_position(x: Any) -> None:
    TQue(TPosition.CO1, 1)


@jit
def names_cube_constant(x: Any) -> None:
    TQue(LEFT, 1)


@jit
def names_nothing(x: Any) -> None:
    pipe_barrier(PipeID.PIPE_ALL)


@jit
def calls_both(x: Any) -> None:
    names_vector_position(x)
    if x:
        names_cube_position(x)


@jit
def calls_itself(x: Any) -> None:
    calls_itself(x)
    names_cube_constant(x)


@jit
def uses_a_module(x: Any) -> None:
    asc_copy.nd_dma_dci()


@pytest.mark.parametrize(("kernel", "kind"), [
    (names_vector_position, "aiv"), (names_cube_position, "aic"), (names_cube_constant, "aic"), (names_nothing, "aiv"),
    (calls_both, "mix"), (calls_itself, "aic"), (uses_a_module, "aiv"),
])  # fmt: skip
def test_the_source_decides(kernel: JitFunction, kind: str) -> None:
    assert kernel_kind(kernel.fn) == kind
    assert kernel_kind(kernel) == kind


def test_functions_in_a_closure_count() -> None:
    @jit
    def inner() -> None:
        TQue(TPosition.B1, 1)

    @jit
    def outer() -> None:
        inner()

    assert kernel_kind(outer) == "aic"


@pytest.mark.parametrize(("kernel_type", "kind"), [
    (KernelType.AIV_ONLY, "aiv"), (KernelType.AIC_ONLY, "aic"), (KernelType.MIX_AIV_1_0, "aiv"),
    (KernelType.MIX_AIC_1_0, "aic"), (KernelType.MIX_AIC_1_1, "mix"), (KernelType.MIX_AIC_1_2, "mix"),
])  # fmt: skip
def test_the_kernel_type_wins(kernel_type: KernelType, kind: str) -> None:
    assert kernel_kind(names_vector_position, kernel_type) == kind
    assert kernel_kind(names_cube_position, kernel_type) == kind


def test_what_else_a_kernel_type_says() -> None:
    assert (vectors_per_block(KernelType.MIX_AIC_1_1), vectors_per_block(None)) == (1, 2)
    assert [scheduler_on(t) for t in (None, KernelType.AIV_ONLY, KernelType.MIX_AIV_1_0)] == [True, False, True]


def test_without_source_a_kernel_is_a_vector_kernel(caplog: pytest.LogCaptureFixture) -> None:
    space: dict[str, Any] = {"TQue": TQue, "TPosition": TPosition}
    exec("def hidden():\n    TQue(TPosition.A1, 1)\n", space)
    with caplog.at_level(logging.WARNING):
        assert kernel_kind(space["hidden"]) == "aiv"
    assert "hidden" in caplog.text


# ---- options and launch ---------------------------------------------------------------------------------------------
def body(x: Any, n: int, tile: ConstExpr[int] = 4) -> None:  # type: ignore[valid-type]
    """A kernel."""


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(jit_module, "_launcher", lambda *call: calls.append(call))
    return calls


def test_launch_forms(launches: list[tuple[Any, ...]]) -> None:
    kernel = jit(body)
    kernel[4](1, n=2)
    kernel[4, "stream"](1, 2)
    kernel[(4,)](1, 2)
    assert [(c[0], c[1]) for c in launches] == [(kernel, (4, None)), (kernel, (4, "stream")), (kernel, (4, None))]
    assert launches[0][2:] == ((1,), {"n": 2})
    assert kernel.__doc__ == "A kernel."


@pytest.mark.parametrize(("launch", "error"), [
    (np.int64(4), TypeError), ("4", TypeError), ((1, 2, 3), TypeError), ((), TypeError), (2.0, TypeError),
    ((2.0,), TypeError), (0, ValueError), (-3, ValueError),
])  # fmt: skip
def test_bad_brackets(launches: list[tuple[Any, ...]], launch: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        jit(body)[launch](1, 2)
    assert launches == []


def test_options_of_decorator_and_call() -> None:
    kernel = jit(kernel_type=KernelType.AIC_ONLY, auto_sync=False)(body)
    assert kernel.kernel_type is KernelType.AIC_ONLY
    options, rest = kernel.split_options({"n": 3, "auto_sync": True, "debug": True})
    assert rest == {"n": 3}
    assert (options["auto_sync"], options["debug"], options["opt_level"]) == (True, True, 3)
    assert options["kernel_type"] is KernelType.AIC_ONLY


def test_option_mistakes() -> None:
    with pytest.raises(RuntimeError, match="fast_math"):
        jit(fast_math=True)(body)
    with pytest.raises(RuntimeError, match="debug"):
        jit(lambda x, debug: None)
    with pytest.raises(TypeError, match="brackets"):
        jit(body).split_options({"core_num": 3})
    with pytest.raises(TypeError, match="brackets"):
        jit(stream=None)(body).split_options({})
    with pytest.raises(RuntimeError, match="kernel_type"):
        jit(kernel_type="aiv")(body).split_options({})
    with pytest.raises(RuntimeError, match="opt_level"):
        jit(body).split_options({"opt_level": 4})


def test_a_call_without_brackets_is_refused_outside_kernels() -> None:
    with pytest.raises(RuntimeError, match="kernel"):
        jit(body)(1, 2)


# ---- arguments ------------------------------------------------------------------------------------------------------
def test_binding_of_host_values() -> None:
    x = np.arange(4, dtype=np.float16)
    found = bind_arguments(jit(body), (x, 7), {})
    assert [(name, const) for name, _, const in found] == [("x", False), ("n", False), ("tile", True)]
    assert found[0][1] is x
    assert isinstance(found[1][1], RuntimeInt)
    assert found[2][1] == 4 and not isinstance(found[2][1], RuntimeInt)


@pytest.mark.parametrize(("value", "error"), [
    ("text", TypeError), ([1, 2], TypeError), (None, TypeError), (np.zeros(2, bool), ValueError),
    (np.bool_(True), ValueError), (dtypes.float16, TypeError),
])  # fmt: skip
def test_values_a_kernel_cannot_take(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        bind_arguments(jit(body), (value, 1), {})


def test_const_arguments_are_checked() -> None:
    kernel = jit(body)
    assert bind_arguments(kernel, (1, 2, True), {})[2][1] is True
    for value in (1.0, np.int64(3), "4"):
        with pytest.raises(RuntimeError, match="tile"):
            bind_arguments(kernel, (1, 2), {"tile": value})
    with pytest.raises(TypeError):
        bind_arguments(kernel, (1,), {})


def test_bare_const_takes_anything() -> None:
    def kernel(kind: ConstExpr, size: "ConstExpr[list]") -> None:  # type: ignore[valid-type, type-arg]  # noqa: UP037
        pass

    found = bind_arguments(jit(kernel), (dtypes.float16, [1]), {})
    assert found == [("kind", dtypes.float16, True), ("size", [1], True)]
    with pytest.raises(RuntimeError):
        bind_arguments(jit(kernel), (1, 2), {})


def test_structs_arrive_as_the_kernels_copy() -> None:
    class Plan(Struct):
        count = Field(dtype=dtypes.uint16, default=3)

    plan = Plan()
    ((_, seen, _),) = bind_arguments(jit(lambda plan: None), (plan,), {})
    assert isinstance(seen.count, RuntimeInt) and seen.count.dtype == dtypes.uint16
    plan.count = 9
    assert seen.count == 3
    assert bind_arguments(jit(lambda x: None), (MockTensor(dtypes.int8),), {})[0][1] == MockTensor(dtypes.int8)


def test_nested_calls_turn_numbers_into_run_time_values() -> None:
    seen: list[Any] = []

    @jit
    def inner(a: int, b: ConstExpr[int], c: float = 1.5, d: int = 2) -> int:  # type: ignore[valid-type]
        seen.extend((a, b, c, d))
        return a + b

    def outer() -> None:
        assert inner(1, 2) == 3
        inner(1, b=RuntimeInt(2), c=0.5, d=7)
        inner(True, 2, "tag", 3)
        with pytest.raises(RuntimeError, match="b is ConstExpr"):
            inner(1, 2.0)

    record(outer)
    kinds = [type(v) for v in seen]
    assert kinds == [RuntimeInt, int, RuntimeFloat, RuntimeInt] * 2 + [bool, int, str, RuntimeInt]
    assert seen[:4] == [1, 2, 1.5, 2]


def test_arrays_are_shared_not_copied() -> None:
    x = np.zeros((3, 4))[:, ::2]
    assert as_numpy(x) is x
    assert is_array(x) and not is_array([1])
    with pytest.raises(TypeError):
        as_numpy([1, 2])
