"""Sums over parts of the rows, shared between threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from antithetic._util.threads import in_shares

Item = TypeVar("Item")
Sums = TypeVar("Sums", bound=tuple[Any, ...])

_WORK_PER_THREAD = 1 << 23  # multiplications; fewer are done before a thread has started
_MOST_ENTRIES = 1 << 27  # of the sums of all threads


def add_up(
    sums: Callable[[Sequence[Item]], Sums],
    parts: Sequence[Item],
    threads: int,
    work: float,
    entries: int = 1,
) -> Sums:
    """Add up arrays that a function gives for some of the parts.

    Parameters
    ----------
    sums : callable
        Called with neighbouring parts; gives a tuple of new arrays.
    parts : sequence
    threads : int
        Threads to use if there is enough work for them. With the same number of threads, sums are
        the same to the last bit.
    work : float
        Multiplications that all parts take.
    entries : int, default=1
        Entries of the arrays: those of all threads are kept at the same time.
    """
    first, *others = in_shares(sums, parts, threads_worth(threads, work, entries))
    for other in others:
        for total, more in zip(first, other, strict=True):
            total += more
    return first


def threads_worth(threads: int, work: float, entries: int = 1) -> int:
    """Number of threads worth starting; the parameters are those of :func:`add_up`."""
    most = min(work / _WORK_PER_THREAD, _MOST_ENTRIES / max(1, entries))
    return max(1, min(threads, int(most)))
