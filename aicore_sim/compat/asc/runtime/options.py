"""Options of jit and launch, with their defaults (spec pyasc.md 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aicore_sim.kernel.enums import KernelType


@dataclass
class CodegenOptions:
    capture_exceptions: bool = True
    ir_multithreading: bool = True


@dataclass
class CompileOptions:
    debug: bool = False
    strip_loc: bool = False
    verify_sync: bool = False
    print_ir_before_all: bool = False
    run_passes: bool = True
    kernel_type: KernelType | None = None
    opt_level: int = 3
    auto_sync: bool = True
    auto_sync_log: str = ""
    bisheng_options: Any = None
    always_compile: bool = False
    matmul_cube_only: bool = False
    insert_sync: bool | None = None


@dataclass
class LaunchOptions:
    core_num: int = 0
    stream: Any = None
