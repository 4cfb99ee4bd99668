"""Progress of a long job on stderr: a bar if rich is installed, otherwise occasional lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def progress_bar(
    description: str, total: int, show: bool, after: float = 0.0
) -> Iterator[Callable[[int], None]]:
    """Return a function that receives how much of ``total`` is done.

    The bar appears ``after`` this many seconds, so that short jobs show nothing.
    """
    if not show:
        yield lambda _done: None
        return
    if after > 0.0:
        with ExitStack() as stack:
            yield _late(stack, description, total, after)
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


def _late(stack: ExitStack, description: str, total: int, after: float) -> Callable[[int], None]:
    began = time.monotonic()
    shown: list[Callable[[int], None]] = []

    def update(done: int) -> None:
        if not shown and time.monotonic() - began >= after:
            shown.append(stack.enter_context(progress_bar(description, total, True)))
        for tell in shown:
            tell(done)

    return update


def _lines(description: str, total: int) -> Callable[[int], None]:
    last = time.monotonic()

    def update(done: int) -> None:
        nonlocal last
        if done == total or time.monotonic() - last > _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{description}: {done} of {total}", file=sys.stderr, flush=True)

    return update
