"""Limits on the threads of BLAS."""

from __future__ import annotations

import os
import subprocess
import sys
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


FORK = """
import os, signal, threading
from threadpoolctl import threadpool_limits
from antithetic._util import threads

def number():
    return {library.get_num_threads() for library in threads._blas()}

threadpool_limits(2, user_api="blas")
inside, leave = threading.Event(), threading.Event()

def limit():
    with threads.limit_blas(1):
        with threads._lock:
            inside.set()
            leave.wait()

other = threading.Thread(target=limit)
other.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)  # ends a child that waits for ever
    found = [number()]
    with threads.limit_blas(1):
        found.append(number())
    found.append(number())
    os._exit(0 if found == [{2}, {1}, {2}] else 1)
leave.set()
other.join()
assert os.waitpid(child, 0)[1] == 0
assert number() == {2}
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_limits_of_other_threads_end_in_a_fork():
    """There they would never be lifted, and their lock never be released."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=60)
