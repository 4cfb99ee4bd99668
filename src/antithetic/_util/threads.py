"""Work shared between threads, with results that do not depend on their number.

To that end the matrix products inside each thread use one thread.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from threadpoolctl import ThreadpoolController

from antithetic._util.validation import check_count

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

# extension modules that are linked to the BLAS of NumPy and to that of SciPy
_LINKED = (
    ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"),
    ("scipy.linalg._fblas",),
)
_NAMES = [
    (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
]

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


def in_shares(
    function: Callable[[Sequence[Item]], Outcome], items: Sequence[Item], threads: int
) -> list[Outcome]:
    """Call a function with equal shares of the items, each in a thread of its own.

    Neighbours stay together, and results are in the order of the shares. If functions raise errors,
    the first share's error is raised once all of them have ended.
    """
    many = max(1, min(threads, len(items)))
    if many == 1:
        return [function(items)]
    ends = [len(items) * share // many for share in range(many + 1)]
    shares = [items[start:end] for start, end in pairwise(ends)]
    later: list[Future[Outcome]] = [Future() for _ in shares[1:]]
    workers = [
        threading.Thread(target=copy_context().run, args=(_fulfil, future, function, share))
        for future, share in zip(later, shares[1:], strict=True)
    ]
    with limit_blas(1):
        for worker in workers:
            worker.start()
        try:
            first = function(shares[0])
        finally:
            for worker in workers:
                worker.join()
    return [first, *(future.result() for future in later)]


def _fulfil(
    future: Future[Outcome], function: Callable[[Sequence[Item]], Outcome], share: Sequence[Item]
) -> None:
    try:
        future.set_result(function(share))
    except BaseException as error:  # raised in the thread that waits for it
        future.set_exception(error)


class _Library(NamedTuple):
    """A BLAS library whose threads can be counted and limited."""

    get_num_threads: Callable[[], int]
    set_num_threads: Callable[[int], object]


@lru_cache(maxsize=1)
def _blas() -> list[Any]:
    """Libraries of NumPy and SciPy if both use OpenBLAS; otherwise all that can be found.

    To look at every loaded library takes as long as a fit of thousands of rows, some 30 ms.
    """
    found = [_openblas(names) for names in _LINKED]
    if all(library is not None for library in found):
        return found
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _openblas(names: tuple[str, ...]) -> _Library | None:
    """OpenBLAS that one of these modules is linked to; None if it has another library, or none."""
    for name in names:
        try:
            path = import_module(name).__file__
        except ImportError:
            continue
        module = ctypes.CDLL(path)  # already loaded; its symbols include those of its libraries
        for getter, setter in _NAMES:
            if hasattr(module, getter) and hasattr(module, setter):
                return _Library(getattr(module, getter), getattr(module, setter))
    return None
