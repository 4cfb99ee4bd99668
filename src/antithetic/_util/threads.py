"""Work shared between threads, with results that do not depend on their number.

To that end the matrix products inside each thread use one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from antithetic._util.validation import check_count

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


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

    Where it does so already nothing is set: that takes longer than a small fit.
    """
    blas = _blas()
    if all(library.get_num_threads() == threads for library in blas.lib_controllers):
        yield
        return
    with blas.limit(limits=threads):
        yield


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
def _blas() -> Any:
    # looks at every loaded library, some 10 ms: once
    return ThreadpoolController().select(user_api="blas")
