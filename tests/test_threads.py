"""Limits on the threads of BLAS."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import permutations

import pytest
from threadpoolctl import threadpool_limits

from antithetic._util import threads
from antithetic._util.threads import limit_blas
from antithetic.dask.tasks import one_thread


def threads_of_blas():
    """Those of the libraries that were loaded when limits were first asked for."""
    return {library.get_num_threads() for library in threads._blas()}


@pytest.mark.parametrize("leaving", list(permutations(range(3))))
def test_whoever_leaves_last_restores_the_threads_of_blas(leaving):
    """Threads that overlap leave in any order; meanwhile the least limit counts."""
    limits, asked = [ExitStack() for _ in range(3)], [1, 3, 1]
    with threadpool_limits(2, user_api="blas"):
        for stack, most in zip(limits, asked, strict=True):
            stack.enter_context(one_thread() if most == 1 else limit_blas(most))
            assert threads_of_blas() == {1}
        for left, place in enumerate(leaving, 1):
            limits[place].close()
            inside = [asked[other] for other in leaving[left:]]
            assert threads_of_blas() == {min(inside, default=2)}
