"""`jit`: kernel functions, their options, how they are launched, and how their arguments are read.

The launch itself lives above this module; it is installed with `set_launcher` (spec pyasc.md 2, 13).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aicore_sim.kernel import context
from aicore_sim.kernel.arguments import check_argument, const_kinds, unwrap_struct
from aicore_sim.kernel.enums import KernelType
from aicore_sim.kernel.structs import Struct
from aicore_sim.kernel.values import RuntimeFloat, RuntimeInt, runtime_value

CODEGEN_OPTIONS: dict[str, Any] = {"capture_exceptions": True, "ir_multithreading": True}
COMPILE_OPTIONS: dict[str, Any] = {
    "debug": False, "strip_loc": False, "verify_sync": False, "print_ir_before_all": False, "run_passes": True,
    "kernel_type": None, "opt_level": 3, "auto_sync": True, "auto_sync_log": "", "bisheng_options": None,
    "always_compile": False, "matmul_cube_only": False, "insert_sync": None,
}  # fmt: skip
LAUNCH_OPTIONS: dict[str, Any] = {"core_num": 0, "stream": None}
_CALL_OPTIONS = {**CODEGEN_OPTIONS, **COMPILE_OPTIONS}

Launcher = Callable[["JitFunction", tuple[int, Any], Sequence[Any], dict[str, Any]], None]
_launcher: Launcher | None = None


def set_launcher(launcher: Launcher) -> None:
    """Install the function that `kernel[blocks](...)` calls: `launcher(jit_fn, (blocks, stream), args, kwargs)`.

    `args` and `kwargs` are those of the call, options included (`JitFunction.split_options` takes them out).
    """
    global _launcher
    _launcher = launcher


class JitFunction:
    """A function decorated with `jit`: a kernel when launched, an ordinary call inside another kernel.

    `fn` is the Python function, `options` what the decorator was given, `kernel_type` the option of that name or None.
    """

    def __init__(self, fn: Callable[..., Any], **options: Any) -> None:
        names = {*CODEGEN_OPTIONS, *COMPILE_OPTIONS, *LAUNCH_OPTIONS}
        self.signature = inspect.signature(fn)
        clash = sorted(names.intersection(self.signature.parameters))
        if clash:
            raise RuntimeError("these parameters have names of jit options: " + ", ".join(clash))
        unknown = sorted(set(options) - names)
        if unknown:
            raise RuntimeError("unknown jit options: " + ", ".join(unknown) + "; known: " + ", ".join(sorted(names)))
        self.fn = fn
        self.body = fn
        """What a call runs: `fn`, unless a front end gives its names another meaning."""
        self.options = options
        self._kinds: dict[str, Any] | None = None
        self._order: list[tuple[str, bool, Any]] = []
        functools.update_wrapper(self, fn)

    def __repr__(self) -> str:
        return f"<jit {self.fn.__qualname__}>"

    @property
    def kernel_type(self) -> KernelType | None:
        found = self.options.get("kernel_type")
        return found if isinstance(found, KernelType) else None

    def with_options(self, options: dict[str, Any]) -> JitFunction:
        """The same function with options that go before those of the decorator; itself if nothing changes."""
        changed = {name: value for name, value in options.items() if self.options.get(name) != value}
        return type(self)(self.fn, **{**self.options, **changed}) if changed else self

    def const_kinds(self) -> dict[str, Any]:
        """Parameters annotated ConstExpr: name -> checked type (None: any). Read once, at the first use."""
        if self._kinds is None:
            self._kinds = const_kinds(self.fn)
            self._order = [(name, name in self._kinds, self._kinds.get(name)) for name in self.signature.parameters]
        return self._kinds

    # ---- launch -----------------------------------------------------------------------------------------------------
    def __getitem__(self, launch: Any) -> Callable[..., None]:
        """`kernel[blocks]` or `kernel[blocks, stream]`: the callable that launches.

        Raises TypeError for what is neither an int nor one or two values.
        """
        if isinstance(launch, int):
            blocks, stream = launch, None
        elif isinstance(launch, (tuple, list)) and len(launch) in (1, 2):
            blocks, stream = launch[0], launch[1] if len(launch) == 2 else None
        else:
            raise TypeError(f"kernel[...] takes a number of blocks, or blocks and stream, not {launch!r}")
        return functools.partial(self._launch, (blocks, stream))

    def _launch(self, launch: tuple[int, Any], /, *args: Any, **kwargs: Any) -> None:
        self.check_blocks(launch[0])
        if _launcher is None:
            raise RuntimeError("no launcher is installed: import aicore_sim")
        _launcher(self, launch, args, kwargs)

    @staticmethod
    def check_blocks(blocks: Any) -> None:
        """Raises TypeError unless the number of blocks is an int, ValueError unless it is positive."""
        if not isinstance(blocks, int):
            raise TypeError(f"the number of blocks must be an int, not {type(blocks).__name__}")
        if blocks <= 0:
            raise ValueError(f"the number of blocks must be positive, not {blocks}")

    def split_options(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """(options of this call, the other keywords): decorator options, then those given as keywords of the call.

        Raises TypeError for `core_num` or `stream`, RuntimeError for a bad kernel_type or opt_level.
        """
        options = {**_CALL_OPTIONS, **self.options}
        rest = {}
        for name, value in kwargs.items():
            if name in _CALL_OPTIONS:
                options[name] = value
            else:
                rest[name] = value
        for name in LAUNCH_OPTIONS:
            if name in options or (name in rest and name not in self.signature.parameters):
                raise TypeError(f"{name} belongs into the brackets: kernel[core_num, stream](...)")
        if options["kernel_type"] is not None and not isinstance(options["kernel_type"], KernelType):
            raise RuntimeError(f"kernel_type must be a KernelType, not {options['kernel_type']!r}")
        if options["opt_level"] not in (1, 2, 3):
            raise RuntimeError(f"opt_level must be 1, 2 or 3, not {options['opt_level']!r}")
        return options, rest

    # ---- nested call ------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside a running kernel: call the body; plain numbers become run-time values unless ConstExpr.

        Raises RuntimeError outside a kernel or for a ConstExpr argument of another type.
        """
        context.current()
        self.const_kinds()
        order = self._order
        if kwargs or len(args) < len(order):
            return self._call_bound(args, kwargs)
        return self.body(*[_nested(value, *slot) for value, slot in zip(args, order, strict=False)], *args[len(order) :])

    def _call_bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kinds = self.const_kinds()
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            bound.arguments[name] = _nested(value, name, name in kinds, kinds.get(name))
        return self.body(*bound.args, **bound.kwargs)


def _nested(value: Any, name: str, is_const: bool, kind: Any) -> Any:
    """One argument of a jit function called from a kernel."""
    if is_const:
        if isinstance(value, RuntimeInt):
            return int(value)
        check_const(name, value, kind)
        return value
    if type(value) is int:
        return RuntimeInt(value)
    return RuntimeFloat(value) if type(value) is float else value


def check_const(name: str, value: Any, kind: Any) -> None:
    """Raises RuntimeError if a ConstExpr argument is not of the annotated type."""
    if kind is not None and not isinstance(value, kind):
        shown = getattr(kind, "__name__", kind)
        raise RuntimeError(f"{name} is ConstExpr[{shown}], got {type(value).__name__}")


def bind_arguments(jit_fn: JitFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[str, Any, bool]]:
    """The arguments of a launch as (parameter, value, is ConstExpr), in parameter order; `kwargs` without options.

    Numbers come as run-time values, Structs as a copy with such (each core takes its own: `for_block`), arrays
    unchanged (`as_numpy` reads them).
    Raises TypeError for a missing or surplus argument and for types a kernel cannot take, ValueError for numpy bools,
    RuntimeError for a ConstExpr argument of another type (spec pyasc.md 2, 13).
    """
    kinds = jit_fn.const_kinds()
    bound = jit_fn.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    found = []
    for name, value in bound.arguments.items():
        if jit_fn.signature.parameters[name].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            if value:
                raise TypeError(f"a kernel has no *{name}")
            continue
        if name in kinds:
            check_const(name, value, kinds[name])
            found.append((name, value, True))
        else:
            check_argument(name, value)
            is_array = isinstance(value, np.ndarray)
            found.append((name, value if is_array else unwrap_struct(runtime_value(value)), False))
    return found


def for_block(bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments of one block: Structs are its own copies, what a core stores into them stays there."""
    return {name: value.copy() if isinstance(value, Struct) else value for name, value in bound.items()}


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`@jit` or `@jit(option=value, ...)`: make a kernel or device function of a Python function.

    Raises RuntimeError for an unknown option or a parameter named like one (spec pyasc.md 2).
    """
    if fn is None:
        return functools.partial(JitFunction, **options)
    return JitFunction(fn, **options)
