"""`asc.jit`: as `aicore_sim.jit`, with pyasc's exceptions around a launch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from aicore_sim.errors import DeadlockError
from aicore_sim.kernel.arguments import MockTensor, MockValue
from aicore_sim.kernel.jit import JitFunction, bind_arguments
from asc.codegen.errors import CodegenError, wrapped
from asc.runtime import launcher
from asc.runtime.options import LaunchOptions

__all__ = ["JITFunction", "MockTensor", "MockValue", "jit"]


class JITFunction(JitFunction):
    """A kernel of a pyasc program.

    Errors of arguments, brackets and options keep their types; errors inside the kernel become CodegenError. A deadlock
    of the simulated device is no error of tracing and stays a DeadlockError.
    """

    def _launch(self, launch: tuple[int, Any], /, *args: Any, **kwargs: Any) -> None:
        self.check_blocks(launch[0])
        options, rest = self.split_options(kwargs)
        bind_arguments(self, args, rest)
        kernel = self.with_options({name: options[name] for name in kwargs if name in options})
        try:
            launcher.Launcher(LaunchOptions(*launch)).run(kernel, self.fn.__name__, args, rest)
        except (DeadlockError, CodegenError):
            raise
        except Exception as error:
            if not options["capture_exceptions"]:
                raise
            raise wrapped(error) from error


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`@asc.jit` or `@asc.jit(option=value, ...)`. Raises RuntimeError for unknown options."""
    if fn is None:
        return functools.partial(JITFunction, **options)
    return JITFunction(fn, **options)
