"""Limits on the threads of BLAS."""

from __future__ import annotations

import _thread
import gc
import os
import signal
import subprocess
import sys
import weakref
from contextlib import ExitStack, suppress
from itertools import permutations
from unittest.mock import Mock

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from antithetic import LogisticRegression
from antithetic._util import threads
from antithetic._util.threads import in_shares, limit_blas
from antithetic.dask.blocks import one_thread
from antithetic.exact import path


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


def test_libraries_are_found_without_a_search():
    """A search of all that is loaded takes longer than many a fit."""
    found = threads._blas()
    known = ThreadpoolController().select(user_api="blas")
    if {library.internal_api for library in known.lib_controllers} != {"openblas"}:
        pytest.skip("NumPy or SciPy uses another library than OpenBLAS")
    if sys.platform != "win32":
        assert all(isinstance(library, threads._Library) for library in found)
    for number in (1, 2):
        with threadpool_limits(number, user_api="blas"):
            assert threads_of_blas() == {number}
    with limit_blas(1):
        assert {library.num_threads for library in known.lib_controllers} == {1}


def test_other_libraries_are_searched_for(monkeypatch):
    linked = (("antithetic.no_such_module", "sys"), ("math",))
    monkeypatch.setattr(threads, "_LINKED", linked)
    found = threads._blas.__wrapped__()
    known = ThreadpoolController().select(user_api="blas").lib_controllers
    assert [library.filepath for library in found] == [library.filepath for library in known]


class Interrupted:
    """A library that Ctrl-C interrupts in a call that sets its number of threads."""

    def __init__(self, call, *, is_late):
        self.number, self.calls, self.call, self.is_late = 4, 0, call, is_late

    def get_num_threads(self):
        return self.number

    def set_num_threads(self, number):
        self.calls += 1
        if self.calls == self.call and not self.is_late:
            raise KeyboardInterrupt
        self.number = number
        if self.calls == self.call:
            raise KeyboardInterrupt


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_interrupt_while_a_limit_is_set_or_lifted_loses_no_thread(monkeypatch, call, is_late):
    """The next limit holds, and all threads are back after it."""
    library = Interrupted(call, is_late=is_late)
    monkeypatch.setattr(threads, "_blas", lambda: [library])
    monkeypatch.setattr(threads, "_before", [])
    monkeypatch.setattr(threads, "_set", [])
    with pytest.raises(KeyboardInterrupt), limit_blas(1):
        pass
    with limit_blas(1):
        assert library.number == 1
    assert library.number == 4


def test_a_share_whose_thread_cannot_start_is_not_lost(monkeypatch):
    """The caller does its work, with the same results."""
    monkeypatch.setattr(_thread, "start_new_thread", Mock(side_effect=RuntimeError("no more")))
    assert in_shares(list, range(5), 3) == [[0], [1, 2], [3, 4]]


def test_shares_call_the_function_of_the_caller_for_overflow():
    seen = []
    with np.errstate(over="call", call=lambda *given: seen.append(given)):
        in_shares(lambda share: np.full(1, 1e300) * 10.0 ** (200 * share[0]), range(2), 2)
    assert len(seen) == 1


def test_an_error_of_a_share_keeps_nothing_alive():
    """The rows of a fit that failed are freed at once."""
    kept = weakref.WeakSet()

    class Rows:
        pass

    def work(share):
        if share[0]:
            rows = Rows()
            kept.add(rows)
            raise ValueError("no")

    gc.disable()
    try:
        with suppress(ValueError):
            in_shares(work, range(2), 2)
        assert not kept
    finally:
        gc.enable()


INTERRUPTS = """
import signal, time
from antithetic._util import threads

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
for library in threads._blas():
    library.set_num_threads(2)
end, many = time.monotonic() + 2.0, 0
while time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-4 + 1e-6 * (many % 100))
        while True:
            assert threads.in_shares(sum, range(9), 3) == [3, 12, 21]
    except KeyboardInterrupt:
        many += 1
signal.setitimer(signal.ITIMER_REAL, 0.0)
assert many > 100, many
threads._limits.clear()  # of an interrupt in the very moment in which a limit ends
threads.in_shares(sum, range(9), 3)
assert {library.get_num_threads() for library in threads._blas()} == {2}
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
def test_interrupts_leave_no_thread_that_the_program_waits_for():
    """Ctrl-C raises KeyboardInterrupt, and nothing else, at any moment; then the program ends."""
    subprocess.run([sys.executable, "-c", INTERRUPTS], check=True, timeout=60)


FORK = """
import os, signal, threading
from threadpoolctl import threadpool_limits
from antithetic._util import threads

def number():
    return {library.get_num_threads() for library in threads._blas()}

threads._blas()  # loads all of them
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


def test_a_fit_leaves_the_threads_of_blas_as_they_were(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(4000, 30))
    labels = (rows[:, 0] + rows[:, 1] > np.random.default_rng(1).normal(size=4000)).astype(int)
    before = threads_of_blas()
    inside, step = [], path.step

    def watched(*given):
        inside.append(threads_of_blas())
        return step(*given)

    monkeypatch.setattr(path, "step", watched)
    LogisticRegression(n_jobs=2).fit(rows, labels)
    assert inside
    assert all(threads == {1} for threads in inside)
    assert threads_of_blas() == before
    rows[3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LogisticRegression(n_jobs=2).fit(rows, labels)
    assert threads_of_blas() == before
