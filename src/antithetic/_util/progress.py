"""Progress of a long job on stderr: a bar if rich is installed, else occasional lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def progress_bar(description: str, total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how much of ``total`` is done."""
    if not show:
        yield lambda _done: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield _lines(description, total)
        return
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)


def _lines(description: str, total: int) -> Callable[[int], None]:
    last = time.monotonic()

    def update(done: int) -> None:
        nonlocal last
        if done == total or time.monotonic() - last > _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{description}: {done} of {total}", file=sys.stderr, flush=True)

    return update
