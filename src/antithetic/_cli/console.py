"""Output: tables and messages for people, one JSON object for machines, progress on stderr."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_SECONDS_BETWEEN_LINES = 5.0
_ANY_WIDTH = 10_000  # columns, wider than any table
_STYLES = {
    "holds": "green",
    "holds in part": "yellow",
    "does not hold": "red",
    "not measured": "dim",
}


def console(*, error: bool = False) -> Console:
    """Make a console for one of the two streams as they are now.

    With NO_COLOR set it writes no escape codes.
    """
    return Console(
        stderr=error,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def plain(value: object) -> str:
    """Text on one line without control characters: names in a file may hold escape codes."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in " ".join(str(value).split())
    )


def clean(text: str) -> str:
    """Lines as they are, but without control codes of terminals."""
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def say(text: str = "", style: str = "") -> None:
    """Print a sentence."""
    console().print(Text(text, style=style))


def say_code(code: str) -> None:
    """Print lines as they are, to be copied."""
    console().print(Text(code), soft_wrap=True)


def warn(text: str) -> None:
    """Print a sentence on the error stream."""
    console(error=True).print(Text.assemble(("note: ", "yellow"), plain(text)))


def complain(text: str) -> None:
    """Say what went wrong, on the error stream."""
    console(error=True).print(Text.assemble(("error: ", "bold red"), plain(text)), soft_wrap=True)


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    marked: int | None = None,
    digits: int = 3,
) -> None:
    """Print a table that fits the terminal, with one row marked if wanted.

    Numbers are aligned to the right and never broken.

    Where the terminal is too narrow for that, each row becomes a block of lines.
    """
    screen = console()
    broken = [name.replace(" ", "\n") for name in columns]
    for heads, frame in ((columns, box.SIMPLE_HEAD), (broken, box.SIMPLE_HEAD), (broken, None)):
        table = _table(heads, rows, marked, digits, frame)
        if (
            Measurement.get(screen, screen.options.update(max_width=_ANY_WIDTH), table).maximum
            <= screen.width
        ):
            screen.print(table)
            return
    for place, row in enumerate(rows):
        screen.print(Text(short(row[0], digits), style="bold" if place == marked else ""))
        for name, cell in zip(columns[1:], row[1:], strict=True):
            screen.print(
                Text(f"  {name}: {short(cell, digits)}" if name else f"  {short(cell, digits)}")
            )


def _table(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    marked: int | None,
    digits: int,
    frame: box.Box | None,
) -> Table:
    table = Table(box=frame, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(heads):
        number = bool(rows) and all(_is_number(row[place]) for row in rows)
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for place, row in enumerate(rows):
        table.add_row(
            *(Text(short(cell, digits)) for cell in row), style="bold" if place == marked else None
        )
    return table


def show_claims(claims: Sequence[Any]) -> None:
    """Print each claim with its verdict and the numbers that decide."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_header=False)
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for claim in claims:
        verdict = Text(claim.verdict, style=_STYLES[claim.verdict])
        table.add_row(
            str(claim.number),
            verdict,
            Text.assemble(plain(claim.claim), "\n", (plain(claim.measured), "dim")),
        )
    console().print(table)


def short(cell: object, digits: int = 3) -> str:
    """Show a cell: numbers with a few digits, a dash for what was not measured."""
    if isinstance(cell, float | np.floating):
        return (
            f"{cell:.{digits}g}"
            if math.isfinite(cell)
            else "\N{EN DASH}"
            if math.isnan(cell)
            else "diverged"
        )
    return plain(cell)


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | np.integer | np.floating) and not isinstance(cell, bool)


def print_json(value: object) -> None:
    """Print one JSON object on the standard output."""
    sys.stdout.write(json.dumps(as_json(value), indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def as_json(value: Any) -> Any:
    """Make plain lists, dicts, strings and finite numbers of a value.

    What is not finite becomes null.
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Return a function that receives what is being done, and how much of how much is done.

    On a terminal it moves a bar, elsewhere it prints a line now and then; always on the error
    stream.
    """
    screen = console(error=True)
    if not screen.is_terminal:
        yield _lines(screen)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(
            task, description=plain(what)[:44], completed=done, total=total
        )


def _lines(screen: Console) -> Callable[[str, int, int], None]:
    last = -math.inf

    def tell(what: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > _SECONDS_BETWEEN_LINES or done == total:
            last = time.monotonic()
            screen.print(Text(f"{plain(what)} ({done} of {total})"))

    return tell
