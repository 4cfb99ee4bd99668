"""Say how much growing samples bring: LogisticRegression with and without them.

Ten sets of two classes with at least 1500 rows, fewer than which are never sampled, are fitted as
they are (three are sparse, and not sampled either), and all but the two that are made also with
standardised, dense columns: 18 forms, each with C = 1 and an intercept to gaps of 1e-2, 1e-4 and
1e-8 by its own certificate. Both ways take turns, one thread, and the least CPU seconds of the
repeats count. *Visits* are all readings of the rows: a Hessian of all rows counts 1.4 + d / 54 of
them, and the work on samples is in the seconds alone.

Run ``python benchmarks/samples.py``, two minutes; ``--quick`` leaves out sets and repeats. Sets
that are not in the package need the environment variable ANTITHETIC_DATA.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from common import Figure, best_seconds, close, load, machine, report
from logistic_peers import made
from scipy import sparse

import antithetic
from antithetic.exact import row_sums
from antithetic.exact.row_sums import RowSums
from antithetic.solvers.newton import iterations

GAPS = (1e-2, 1e-4, 1e-8)
REAL = (
    "ijcnn1.tr",
    "cod-rna_scale",
    "skin_nonskin",
    "phishing",
    "mushrooms",
    "splice.t",
    "a9a",
    "w8a",
)
MADE = {
    "made 300000 x 50": lambda: made(300_000, 50),
    "made 20000 x 500, condition 1e4": lambda: made(20_000, 500, condition=1e4),
}
QUICK = ("phishing", "splice.t")


def forms(names: tuple[str, ...], more: dict[str, Callable[[], tuple]]) -> Iterator[tuple]:
    """Name, rows and labels of each set, as it is and with standardised columns."""
    for name in names:
        if (found := load(name)) is None:
            continue
        X, y = found
        thin = sparse.issparse(X)
        yield f"{name}{', sparse' * thin}", X, y
        X = X.toarray() if thin else np.asarray(X)
        spread = X.std(axis=0)
        yield f"{name}, standardised", (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), y
    for name, make in more.items():
        yield name, *make()


@contextmanager
def without_samples() -> Iterator[None]:
    """Start on all rows."""
    kept = iterations.sizes_for
    iterations.sizes_for = lambda _sums: []
    try:
        yield
    finally:
        iterations.sizes_for = kept


@contextmanager
def counted(n: int) -> Iterator[list[float]]:
    """Add up the visits to all n rows."""
    visits = [0.0]
    kept = {name: getattr(RowSums, name) for name in ("_gram", "times", "diagonal", "scales")}
    visit = row_sums.visit

    def counting(method: Callable, cost: Callable[[RowSums], float]) -> Callable:
        def call(sums: RowSums, *given: object, **named: object) -> object:
            visits[0] += cost(sums) if sums.n == n else 0.0
            return method(sums, *given, **named)

        return call

    row_sums.visit = counting(visit, lambda _sums: 1.0)
    for name, method in kept.items():
        hessian = name == "_gram"
        setattr(
            RowSums,
            name,
            counting(method, lambda sums, h=hessian: 1.4 + sums.d / 54.0 if h else 1.0),
        )
    try:
        yield visits
    finally:
        row_sums.visit = visit
        for name, method in kept.items():
            setattr(RowSums, name, method)


def remark_of(ratios: list[float], visits: list[list[float]]) -> str:
    """Say between what the ratios are, and how many visits there were with samples and without."""
    sampled, plain = np.median(visits, axis=0)
    return (
        f"{len(ratios)} forms of sets, {min(ratios):.2f} to {max(ratios):.2f}; visits, median:"
        f" {sampled:.3g} with, {plain:.3g} without"
    )


def main() -> int:
    """Print a line for each set and gap, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sets and fewer repeats")
    quick = parser.parse_args().quick
    print(machine())
    print(f"{'set':<34}{'gap':>7}{'ms':>9}{'without':>9}{'ratio':>7}{'visits':>8}{'without':>9}")
    ratios: dict[float, list[float]] = {gap: [] for gap in GAPS}
    all_visits: dict[float, list[list[float]]] = {gap: [] for gap in GAPS}
    for name, X, y in forms(QUICK, {}) if quick else forms(REAL, MADE):
        for gap in GAPS:

            def fit(gap: float = gap, X: Any = X, y: Any = y) -> None:
                antithetic.LogisticRegression(tol=gap, random_state=0, n_jobs=1).fit(X, y)

            def plain(fit: Callable[[], None] = fit) -> None:
                with without_samples():
                    fit()

            seconds = best_seconds([fit, plain], 2 if quick else 5, time.process_time)
            visits = []
            for job in (fit, plain):
                with counted(X.shape[0]) as total:
                    job()
                visits.append(total[0])
            ratios[gap].append(seconds[1] / seconds[0])
            all_visits[gap].append(visits)
            print(
                f"{name:<34}{gap:>7.0e}{1e3 * seconds[0]:>9.1f}{1e3 * seconds[1]:>9.1f}"
                f"{ratios[gap][-1]:>7.2f}{visits[0]:>8.1f}{visits[1]:>9.1f}",
                flush=True,
            )
    print()
    return close(
        report(
            Figure(
                f"seconds without samples / with them, median, to {gap:g}",
                float(np.median(found)),
                remark=remark_of(found, all_visits[gap]),
            )
            for gap, found in ratios.items()
            if found
        )
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
