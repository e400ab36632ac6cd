"""`asc.jit`: as `aicore_sim.jit`, with pyasc's exceptions around a launch."""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from aicore_sim.errors import ConfigError, DeadlockError
from aicore_sim.kernel.arguments import MockTensor, MockValue
from aicore_sim.kernel.jit import JitFunction, bind_arguments
from aicore_sim.kernel.values import range as run_time_range
from asc.codegen.errors import wrapped
from asc.runtime import launcher
from asc.runtime.options import LaunchOptions

__all__ = ["JITFunction", "MockTensor", "MockValue", "jit"]


class JITFunction(JitFunction):
    """A kernel of a pyasc program.

    Errors of arguments, brackets and options keep their types; errors inside the kernel become CodegenError. A deadlock
    of the simulated device (DeadlockError) and a bad card or folder (ConfigError) are no errors of tracing. `range` in
    the body is the run-time loop.
    """

    def __init__(self, fn: Callable[..., Any], **options: Any) -> None:
        super().__init__(fn, **options)
        self.body = _with_run_time_range(fn)

    def _launch(self, launch: tuple[int, Any], /, *args: Any, **kwargs: Any) -> None:
        self.check_blocks(launch[0])
        options, rest = self.split_options(kwargs)
        bind_arguments(self, args, rest)
        kernel = self.with_options({name: options[name] for name in kwargs if name in options})
        try:
            launcher.Launcher(LaunchOptions(*launch)).run(kernel, self.fn.__name__, args, rest)
        except (DeadlockError, ConfigError):
            raise
        except Exception as error:
            if not options["capture_exceptions"]:
                raise
            raise wrapped(error) from error


def _with_run_time_range(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function with `asc.range` in place of the builtin of that name, which pyasc reads so (spec pyasc.md 3).

    Its variable then follows the device's rules: `i / 2` is a whole number, `(i - 1) % 2` may be -1. A function takes its
    builtins from `__builtins__` of its globals when it is made, and keeps them.
    """
    if not inspect.isfunction(fn):
        return fn
    scope = fn.__globals__
    usual = scope.get("__builtins__", builtins)
    scope["__builtins__"] = {**vars(builtins), "range": run_time_range}
    try:
        made = types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, fn.__closure__)
    finally:
        scope["__builtins__"] = usual
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`@asc.jit` or `@asc.jit(option=value, ...)`. Raises RuntimeError for unknown options."""
    if fn is None:
        return functools.partial(JITFunction, **options)
    return JITFunction(fn, **options)
