"""Say how much growing samples bring: LogisticRegression with and without them.

Six sets in ten forms, raw or standardised, dense or sparse, are fitted with C = 1 and an intercept
to gaps of 1e-2, 1e-4 and 1e-8 by its own certificate. Both ways take turns, one thread, and the
least CPU seconds of the repeats count. *Visits* are all readings of the rows: a Hessian of all rows
counts 1.4 + d / 54 of them, and the work on samples is in the seconds alone.

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

import numpy as np
from common import Figure, best_seconds, close, load, machine, report
from scipy import sparse

import antithetic
from antithetic.exact import row_sums
from antithetic.exact.row_sums import RowSums
from antithetic.solvers.newton import iterations

GAPS = (1e-2, 1e-4, 1e-8)
# a name, whether its columns are standardised, and whether its rows stay sparse
SETS = (
    ("ijcnn1.tr", False, False),
    ("ijcnn1.tr", True, False),
    ("cod-rna_scale", True, False),
    ("skin_nonskin", False, False),
    ("phishing", False, False),
    ("phishing", True, False),
    ("a9a", False, True),
    ("a9a", True, False),
    ("w8a", False, True),
    ("w8a", True, False),
)
QUICK = SETS[4:6]


def rows_of(name: str, standardised: bool, thin: bool) -> tuple | None:
    """Rows and labels in the form in which they are fitted."""
    found = load(name)
    if found is None:
        return None
    X, y = found
    if thin:
        return sparse.csr_array(X), y
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    if standardised:
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return X, y


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
    for name, standardised, thin in QUICK if quick else SETS:
        data = rows_of(name, standardised, thin)
        if data is None:
            continue
        words = f"{name}{', standardised' * standardised}{', sparse' * thin}"
        for gap in GAPS:

            def fit(gap: float = gap, data: tuple = data) -> None:
                antithetic.LogisticRegression(tol=gap, random_state=0, n_jobs=1).fit(*data)

            def plain(fit: Callable[[], None] = fit) -> None:
                with without_samples():
                    fit()

            seconds = best_seconds([fit, plain], 2 if quick else 5, time.process_time)
            visits = []
            for job in (fit, plain):
                with counted(data[0].shape[0]) as total:
                    job()
                visits.append(total[0])
            ratios[gap].append(seconds[1] / seconds[0])
            all_visits[gap].append(visits)
            print(
                f"{words:<34}{gap:>7.0e}{1e3 * seconds[0]:>9.1f}{1e3 * seconds[1]:>9.1f}"
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
