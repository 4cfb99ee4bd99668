"""What all commands share: their common options, and errors in one sentence with an exit code."""

from __future__ import annotations

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

from antithetic._cli import console
from antithetic.problem.losses import ALL_LOSSES

P = ParamSpec("P")
ERROR, INTERRUPTED = 1, 130

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
LabelledFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Labelled data.", show_default=False)
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="Column with the labels: its name, or its number from 0.",
        show_default="target, label, class or y, else the last",
    ),
]
OneHot = Annotated[
    bool, typer.Option("--one-hot", help="Turn columns of words into columns of zeros and ones.")
]


Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        metavar="COLUMN",
        help="A column to use, by name or number; repeat it for more.",
        show_default="all but the target",
    ),
]
LeaveOut = Annotated[
    list[str] | None,
    typer.Option(
        "--leave-out",
        metavar="COLUMN",
        help="A column to leave out, by name or number; repeat it for more.",
        show_default=False,
    ),
]
Dates = Annotated[
    bool, typer.Option("--dates", help="Turn columns of ISO 8601 dates into days since 1970.")
]
DecimalComma = Annotated[
    bool, typer.Option("--decimal-comma", help="Numbers in FILE are written as 1,5.")
]
MaxBytes = Annotated[
    str,
    typer.Option(
        "--max-bytes",
        metavar="SIZE",
        help="Maximum size after decompression: bytes, or a number with K, M or G.",
    ),
]
LossName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"One of {', '.join(ALL_LOSSES)}.",
        show_default="log_loss for classes, squared_error for numbers",
    ),
]


class InterruptedWithAdvice(KeyboardInterrupt):
    """Ctrl-C; its message says what was kept and how to go on."""


def guarded(command: Callable[P, dict[str, Any]]) -> Callable[P, None]:
    """Make a command of a function that returns what ``--json`` prints.

    Errors are reported in one sentence on the error stream, with exit code 1; Ctrl-C gives
    130. With ``--json`` the sentence is also the value of ``"error"`` in the object on the standard
    output.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json, debug = bool(kwargs.get("as_json")), bool(kwargs.get("debug"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what concerns programmers
            for kind in (UserWarning, RuntimeWarning):
                warnings.simplefilter("default", kind)
            warnings.showwarning = lambda message, *_args, **_kwargs: console.warn(str(message))
            try:
                result = command(*args, **kwargs)
                if as_json:
                    console.print_json(result)
                sys.stdout.flush()
            except KeyboardInterrupt as stop:
                _end(
                    str(stop) if isinstance(stop, InterruptedWithAdvice) else "interrupted",
                    INTERRUPTED,
                    as_json,
                    debug,
                )
            except typer.Exit:
                raise
            except BrokenPipeError:  # `| head` has seen enough
                forget_output()
                raise typer.Exit(ERROR) from None
            except Exception as error:
                _end(_sentence(error), ERROR, as_json, debug)

    return run


def _end(text: str, code: int, as_json: bool, debug: bool) -> None:
    if debug:
        typer.echo(console.clean(traceback.format_exc()), err=True)
    console.complain(text)
    try:
        if as_json:
            console.print_json({"error": console.plain(text)})
        sys.stdout.flush()
    except OSError:  # nowhere to say it
        forget_output()
    raise typer.Exit(code)


def forget_output() -> None:
    """Drop what could not be written: Python would try again at the end, and print an error."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # none, as in tests
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return (
            f"there is not enough memory for this ({error})"
            if str(error)
            else "there is not enough memory for this"
        )
    if isinstance(error, OSError | ValueError | ImportError | ArithmeticError | RuntimeError):
        return str(error) or type(error).__name__
    return (
        f"{type(error).__name__}: {error} (this is a bug in antithetic; --debug shows where it"
        " happened)"
    )
