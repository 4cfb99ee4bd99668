"""Threads of the kernels: they end together, and only the main thread is told of Ctrl-C."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from antithetic._core import kernels

HERE = Path(__file__).parent
CORE = HERE.parent / "src" / "antithetic" / "_core" / "cpp"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
D = 4096
ENTRIES_BETWEEN_CHECKS = 1 << 24


@pytest.mark.skipif(COMPILER is None or sys.platform == "win32", reason="needs a Unix compiler")
def test_threads_whose_start_fails_are_joined_and_the_error_is_raised(tmp_path):
    """Each allocation fails in turn: of lists, and of the state of each of three threads.

    The program also checks that an exception in one part ends the others.
    """
    program = tmp_path / "threads"
    sources = [HERE / "threads.cpp", CORE / "threads.cpp"]
    options = ["-std=c++20", "-pthread", "-Wall", "-Wextra", "-Werror", "-I", CORE]
    subprocess.run([COMPILER, *options, *sources, "-o", program], check=True)
    done = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True)
    failures = [int(number) for number in done.stdout.split()]
    assert len(failures) == 2
    assert min(failures) > 3


def evaluate(n, slopes, threads):
    """Visit n rows of zeros, which take no memory until they are written to; note each visit."""
    rows = kernels.Rows.dense(np.zeros((n, D), dtype=np.float32))
    targets = kernels.Targets(np.ones(n), np.empty(0))
    empty, found = np.empty(0), np.empty(D)
    rows.evaluate(targets, 0, 0.0, np.zeros(D), 0.0, slopes, empty, empty, found, threads)


def test_only_the_main_thread_takes_the_lock_to_look_for_ctrl_c():
    """A kernel in another thread goes on while the main thread keeps Python's lock."""
    n = 2 * ENTRIES_BETWEEN_CHECKS // D
    slopes = np.full(n, np.nan)
    kernel = threading.Thread(target=evaluate, args=(n, slopes, 1))
    before = sys.getswitchinterval()
    kernel.start()
    while np.isnan(slopes[0]):
        time.sleep(0.001)
    try:
        sys.setswitchinterval(1000.0)
        give_up = time.monotonic() + 10.0  # so that a test that fails also ends
        while np.isnan(slopes[-1]) and time.monotonic() < give_up:
            pass
        visited = not np.isnan(slopes[-1])
    finally:
        sys.setswitchinterval(before)
        kernel.join()
    assert visited


@pytest.mark.skipif(sys.platform == "win32", reason="there the signal ends the process")
def test_ctrl_c_ends_the_shares_of_all_threads():
    """The second thread does not visit the rest of its rows."""
    n = 16 * ENTRIES_BETWEEN_CHECKS // D
    slopes = np.full(n, np.nan)

    def press():
        while np.isnan(slopes[0]):
            time.sleep(0.001)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            evaluate(n, slopes, 2)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert np.isnan(slopes[-1])
