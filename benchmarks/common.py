"""Helpers shared by the benchmarks: figures with bars, timings that take turns, the machine."""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from numbers import Integral
from pathlib import Path

import numpy as np

import antithetic
from antithetic.orders import Order
from antithetic.orders.order import Pool
from antithetic.problem import Problem
from antithetic.steps import InverseTime
from antithetic.stochastic.sgd import make_sgd


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number, and the interval in which it must lie (None: no bar)."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None
    remark: str = ""

    @property
    def passed(self) -> bool:
        """Whether it lies there."""
        return (self.least is None or self.value >= self.least) and (
            self.most is None or self.value <= self.most
        )

    def line(self) -> str:
        """Format it as one line of the report."""
        bars = [
            f"{word} {bar:.4g}"
            for word, bar in (("at least", self.least), ("at most", self.most))
            if bar is not None
        ]
        verdict = ("pass" if self.passed else "FAIL") if bars else ""
        return (
            f"{self.name:<61} {_digits(self.value):>9}  "
            f" {', '.join(bars) or 'no bar':<31}{verdict:<6}{self.remark}".rstrip()
        )


def _digits(value: float) -> str:
    """Counts without decimals; small numbers with three digits, since 0.000 says nothing."""
    if isinstance(value, Integral):
        return str(value)
    return f"{value:.3g}" if 0.0 < abs(value) < 0.1 else f"{value:.3f}"


def next_epoch(
    X, y, order: Order, *, average: bool | str = False, l2: float = 1e-4
) -> Callable[[], object]:
    """Return a function that orders and runs the next epoch of SGD with batches of 2."""
    problem, table = Problem.build(X, y, l2=l2), None
    if order.pairs is not None:
        table = order.pairs.first_table(problem, y, once=order.once, seed=0)
    draws = order.draw_from(Pool(problem, table, 2, 0))
    solver = make_sgd(problem, average)
    schedule = InverseTime(0.1).schedule(problem.loss, problem.penalty)
    (state, own), left = solver.init(), None

    def epoch() -> object:
        nonlocal state, own, left
        after = solver.epoch(state, own, draws.batches(state.epochs, left), schedule)
        state, own, left = after.state, after.own, after.order
        return after

    return epoch


def report(figures: Iterable[Figure]) -> int:
    """Print figures as they come; return how many missed their bar."""
    missed = 0
    for figure in figures:
        print(figure.line(), flush=True)
        missed += not figure.passed
    return missed


def close(missed: int) -> int:
    """Print the verdict and return the exit status."""
    print(f"\n{missed} missed" if missed else "\nall bars met")
    return int(missed > 0)


def run_parts(
    description: str,
    parts: dict[str, Callable[[bool], Iterator[Figure]]],
    *,
    keep: Callable[[Path], None] | None = None,
) -> int:
    """Print the figures of the parts that the command line names, all if none.

    With ``keep``, a function that is told the file of finished runs, there is an option for it.
    Return the exit status.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", help=f"some of {', '.join(parts)}; all if none is named"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer seeds, sets and repeats, less to be trusted"
    )
    if keep:
        parser.add_argument("--keep", metavar="FILE", type=Path, help="file of finished runs")
    options = parser.parse_args()
    if keep and options.keep:
        keep(options.keep)
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    print(machine())
    missed = 0
    for letter in options.parts or parts:
        print(f"\n{letter}. {parts[letter].__doc__.splitlines()[0]}")
        missed += report(parts[letter](options.quick))
    return close(missed)


def best_seconds(
    jobs: list[Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Run the jobs in turn, over and over; return the least seconds of each."""
    best = [np.inf] * len(jobs)
    for _ in range(repeats):
        for j, job in enumerate(jobs):
            start = clock()
            job()
            best[j] = min(best[j], clock() - start)
    return best


@cache
def load(name: str) -> tuple | None:
    """Rows and labels of a set, or None and a message if it is not available."""
    try:
        return antithetic.datasets.load(name, return_X_y=True)
    except FileNotFoundError:
        print(
            f"left out: {name}, which is not in the package; set ANTITHETIC_DATA to a folder that"
            " holds it"
        )
        return None


def machine() -> str:
    """Describe the machine, how busy it is, and the versions."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.processor() or "unknown CPU",
    )
    versions = ", ".join(
        f"{package} {version(package)}"
        for package in ("antithetic", "numpy", "scipy", "scikit-learn")
    )
    busy = (
        f"load of the last minute {os.getloadavg()[0]:.2f}"
        if hasattr(os, "getloadavg")
        else "load unknown"
    )
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()}, {busy}\nPython"
        f" {platform.python_version()}, {versions}\n"
    )
