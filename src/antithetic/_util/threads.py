"""Work shared between threads, with results that do not depend on their number.

To that end the matrix products inside each thread use one thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from antithetic._util.validation import check_count

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_lock = threading.Lock()
_limits: list[tuple[int, int]] = []  # threads that have set a limit, and their limits
_before: list[int] = []  # numbers of threads of each library, without any limit
_set: list[int] = []  # and now


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads: None and -1 mean all the cores this process may use."""
    if n_jobs is None or n_jobs == -1:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    return check_count(n_jobs, "n_jobs", least=1)


def default_threads() -> int:
    """Return the default number of threads: as many as BLAS would use."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        given = os.environ.get(name, "")
        if given.isdecimal() and int(given) > 0:
            return min(int(given), count_threads(None))
    return count_threads(None)


@contextmanager
def limit_blas(threads: int) -> Iterator[None]:
    """Let BLAS use this many threads.

    Their number belongs to the process, so where several threads set limits at the same time the
    least counts, and the last to leave restores what was there before the first.
    """
    own = threading.get_ident(), threads
    with _lock:
        if not _limits:
            _before[:] = _set[:] = [library.get_num_threads() for library in _blas()]
        _limits.append(own)
        _set_least()
    try:
        yield
    finally:
        with _lock:
            _limits.remove(own)
            _set_least()


def _set_least() -> None:
    """Set the least limit, or what was there before; nothing where that is in force already."""
    least = min((threads for _, threads in _limits), default=None)
    for place, library in enumerate(_blas()):
        threads = _before[place] if least is None else least
        if _set[place] != threads:
            library.set_num_threads(threads)
            _set[place] = threads


def _after_fork() -> None:
    """Drop the limits of other threads: in the new process only the one that forked goes on."""
    global _lock
    _lock = threading.Lock()  # another thread may have held it
    if _limits:
        _limits[:] = [limit for limit in _limits if limit[0] == threading.get_ident()]
        _set[:] = [0] * len(_set)  # not known: OpenBLAS forgets its number in a fork
        _set_least()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def thread_map(
    n_jobs: int | None,
) -> Iterator[Callable[[Callable[[Item], Outcome], list[Item]], list[Outcome]]]:
    """Give a ``map`` that runs in threads, in which BLAS uses one thread each."""
    threads = count_threads(n_jobs)
    with limit_blas(1):
        if threads == 1:
            yield lambda function, items: [function(item) for item in items]
            return
        with ThreadPoolExecutor(threads) as pool:
            yield lambda function, items: list(pool.map(function, items))


@lru_cache(maxsize=1)
def _blas() -> list[Any]:
    # looks at every loaded library, some 10 ms: once
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
