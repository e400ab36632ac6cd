"""The command line `aicore-sim`: parse, call, print. Each command lives in a `cli_*` module or beside what it calls."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from aicore_sim import (
    __version__,
    cli_bench,
    cli_cards,
    cli_check,
    cli_estimate,
    cli_explain,
    cli_fit,
    cli_pyasc,
    cli_run,
    cli_validate,
)
from aicore_sim.cli_output import describe_error, emit_json, error_dict, stderr_console
from aicore_sim.cli_run import BAD_INPUT, WRONG
from aicore_sim.errors import AiCoreError, DeadlockError

log = logging.getLogger(__name__)

app = typer.Typer(
    name="aicore-sim", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        print(f"aicore-sim {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Simulate data movement on Ascend AI Cores, for kernels in pyasc's Python interface.

    \b
    Start with:
      aicore-sim scenarios
      aicore-sim run hello
      aicore-sim run matmul M=1024 --card all
    """


app.command("run")(cli_run.run)
app.command("check")(cli_check.check_command)
app.command("scenarios")(cli_run.scenarios)
app.command("cards")(cli_cards.cards)
app.command("explain")(cli_explain.explain_command)
app.command("estimate")(cli_estimate.estimate_command)
app.command("pyasc")(cli_pyasc.pyasc)
app.command("bench")(cli_bench.bench)
app.command("validate")(cli_validate.validate)
app.command("fit")(cli_fit.fit)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done; 1 wrong result, error-severity hazard or deadlock; 2 bad input."""
    words = list(sys.argv[1:] if argv is None else argv)
    own = words[: words.index("--")] if "--" in words else words
    try:
        status = get_command(app).main(args=words or ["--help"], prog_name="aicore-sim", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        # The reader has what it wanted (`| head`). Python flushes stdout once more at exit; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        stderr_console().print("interrupted")
        return 130
    except Exception as error:
        return _report(error, as_json="--json" in own)


def _report(error: Any, *, as_json: bool) -> int:
    """Say what went wrong, as text on stderr or as JSON on stdout, and return the exit status."""
    usage = hasattr(error, "format_message")  # an error in the command line; Typer's own classes are private to it
    if as_json:
        emit_json({"error": {**error_dict(error), **({"message": error.format_message()} if usage else {})}})
    elif isinstance(error, AiCoreError):
        stderr_console().print(describe_error(error))
    elif usage:
        stderr_console().print(_usage_text(error), style="red", markup=False)
    if not usage and not isinstance(error, AiCoreError):
        # Neither the command line nor the package foresaw it: a fault in a scenario file, or in the package.
        traceback.print_exception(error)
    return WRONG if isinstance(error, DeadlockError) else BAD_INPUT


def _usage_text(error: Any) -> str:
    message = str(error.format_message())
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    hint = " Arguments of the program go behind --." if context.command_path.endswith(" pyasc") else ""
    return f"{context.get_usage()}\n{message}\nTry '{context.command_path} --help'.{hint}"
