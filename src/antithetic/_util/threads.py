"""Work shared between threads, with results that do not depend on their number.

To that end the matrix products inside each thread use one thread.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from threadpoolctl import ThreadpoolController

from antithetic._util.validation import check_count

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Sums = TypeVar("Sums", bound=tuple[Any, ...])

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

_SECONDS_BETWEEN_LOOKS = 0.1  # for Ctrl-C, while waiting for a thread
_WORK_PER_THREAD = 1 << 23  # multiplications; fewer are done before a thread has started
_MOST_ENTRIES = 1 << 27  # of the sums of all threads


@dataclass(frozen=True, slots=True, eq=False)
class _Limit:
    """A limit and the thread that set it, compared by identity."""

    owner: int
    threads: int


_lock = threading.Lock()
_limits: list[_Limit] = []
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


def threads_of(n_jobs: int | None) -> int:
    """Number of threads; -2 means all cores but one, as in joblib."""
    if n_jobs is None:
        return default_threads()
    if n_jobs < -1:
        return max(1, count_threads(None) + 1 + n_jobs)
    return count_threads(n_jobs)


@contextmanager
def limit_blas(threads: int) -> Iterator[None]:
    """Let BLAS use this many threads.

    Their number belongs to the process, so where several threads set limits at the same time the
    least counts, and the last to leave restores what was there before the first.
    """
    own = _Limit(threading.get_ident(), threads)
    try:
        with _lock:
            if not _limits and _set == _before:  # else Ctrl-C came while these were restored
                _before[:] = _set[:] = [library.get_num_threads() for library in _blas()]
            _limits.append(own)
            _set_least()
        yield
    finally:
        with _lock:
            if own in _limits:  # Ctrl-C may have come before
                _limits.remove(own)
                _set_least()


def _set_least() -> None:
    """Set the least limit, or what was there before; nothing where that is in force already."""
    least = min((limit.threads for limit in _limits), default=None)
    for place, library in enumerate(_blas()):
        threads = _before[place] if least is None else least
        if _set[place] != threads:
            _set[place] = 0  # not known, if Ctrl-C comes now
            library.set_num_threads(threads)
            _set[place] = threads


def _after_fork() -> None:
    """Drop the limits of other threads: in the new process only the one that forked goes on."""
    global _lock
    _lock = threading.Lock()  # another thread may have held it
    if _limits:
        _limits[:] = [limit for limit in _limits if limit.owner == threading.get_ident()]
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
    the first share's error is raised once all of them have ended. After Ctrl-C, all of them end at
    their next item. All threads use the caller's ``np.errstate``.
    """
    many = max(1, min(threads, len(items)))
    if many == 1:
        return [function(items)]
    ends = [len(items) * share // many for share in range(many + 1)]
    stopped = threading.Event()
    shares = [_Items(items[start:end], stopped) for start, end in pairwise(ends)]
    later: list[_Share[Outcome]] = []
    with limit_blas(1):
        try:
            later.extend(_Share(partial(function, share)) for share in shares[1:])
            first = function(shares[0])
        except KeyboardInterrupt:
            stopped.set()
            raise
        finally:
            for one in later:
                one.wait()
    return [first, *(one.result() for one in later)]


class _Items(Sequence[Item]):
    """Items of a share, which can no longer be read once an event is set."""

    def __init__(self, items: Sequence[Item], stopped: threading.Event) -> None:
        self._items, self._stopped = items, stopped

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, place: Any) -> Any:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        return self._items[place]


def interruptibly(call: Callable[[], Outcome]) -> Outcome:
    """Make a call in a thread of its own, so that Ctrl-C raises KeyboardInterrupt at once.

    For long calls of other packages, which release Python's lock but do not look for Ctrl-C. The
    interrupted call goes on in its thread, and its result is dropped.
    """
    share = _Share(call)
    share.wait()
    return share.result()


class _Share(Generic[Outcome]):
    """A call in a thread of its own.

    The thread waits for nothing, so Ctrl-C in the caller cannot leave it waiting for ever.
    ``threading.Thread.start`` can: the new thread and its caller share a lock.
    """

    def __init__(self, call: Callable[[], Outcome]) -> None:
        self._call = call
        self._found: Outcome | None = None
        self._error: BaseException | None = None
        self._ended = threading.Lock()
        self._ended.acquire()
        treatment = {**np.geterr(), "call": np.geterrcall()}
        try:
            _thread.start_new_thread(self._run, (treatment,))
        except RuntimeError:  # the system allows no more threads: the caller makes the call itself
            self._run(treatment)

    def _run(self, treatment: dict[str, Any]) -> None:
        try:
            with np.errstate(**treatment):  # NumPy 1 has one for each thread
                self._found = self._call()
        except BaseException as error:  # raised in the thread that asks for the result
            self._error = error
        finally:
            self._ended.release()

    def wait(self) -> None:
        """Wait until the call has ended, once."""
        # Ctrl-C does not end this on Windows, nor if another thread receives the signal
        while not self._ended.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
            pass

    def result(self) -> Outcome:
        """What the call returned, or raised, once it has ended."""
        if self._error is None:
            return cast("Outcome", self._found)
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error  # whose traceback refers to it: a cycle would keep its frames


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
            # already loaded; its symbols include those of its libraries
            module = ctypes.CDLL(import_module(name).__file__)
        except (ImportError, AttributeError, OSError):  # AttributeError: a part of the interpreter
            continue
        for getter, setter in _NAMES:
            if hasattr(module, getter) and hasattr(module, setter):
                return _Library(getattr(module, getter), getattr(module, setter))
    return None


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
