"""Rounds over all blocks on many kinds of generated data: part i of ``scale.py``.

Rounds do not depend on the machine or its load. Rows are sorted by label and cut into unequal
blocks, one of them empty; the L2 penalty is ALPHA.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import dask
import numpy as np
from common import Figure
from distributed import Client
from scale_cluster import ALPHA
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from antithetic.dask import LogisticRegression

TOLERANCES = (1e-4, 1e-8)
HELD: list[tuple] = []  # rows and labels of blocks, which the workers, threads of this process, see


def labels_of(rng: np.random.Generator, scores: np.ndarray, shift: float = 0.0) -> np.ndarray:
    """Labels of two classes, with logistic noise."""
    noise = rng.logistic(size=len(scores))
    return (2.0 * scores / scores.std() + shift + noise > 0.0).astype(np.int8)


def two_classes(n: int) -> Iterator[tuple[str, object, np.ndarray]]:
    """Name, rows and labels of dense data, easy ones first."""
    rng, d = np.random.default_rng(5), 40
    Z, w = rng.normal(size=(n, d)), rng.normal(size=d)
    y = labels_of(rng, Z @ w)
    yield "normal columns", Z, y
    yield "labels of noise", Z, (rng.random(n) < 0.5).astype(np.int8)
    yield "one positive row of 1000", Z, labels_of(rng, Z @ w, -9.0)
    yield "scales 1e-4 to 1e4, offsets", (Z + 3.0) * 10.0 ** rng.uniform(-4.0, 4.0, d), y
    yield "means of 1000 standard deviations", Z + 1000.0 * rng.normal(size=d), y
    axes = rng.normal(size=(d, d)) * 10.0 ** -np.linspace(0.0, 4.0, d)
    yield "condition number 1e8", Z @ axes, y
    twins = Z.copy()
    twins[:, 1], twins[:, 2], twins[:, 3] = twins[:, 0], 0.0, 7.0
    yield "equal, zero and constant columns", twins, y
    often = 10.0 ** rng.uniform(-4.5, -0.5, 200)
    rare = (rng.random((n, 200)) < often).astype(np.float64)
    yield "rare binary columns", rare, labels_of(rng, rare @ rng.normal(size=200))
    heavy = rng.standard_t(2.0, size=(n, d))
    yield "t distribution, 2 degrees of freedom", heavy, labels_of(rng, heavy @ w)
    cauchy = rng.standard_cauchy(size=(n, d))
    yield "Cauchy distribution", cauchy, labels_of(rng, np.tanh(cauchy) @ w)
    long, wrong, five = Z.copy(), y.copy(), rng.integers(n, size=5)
    long[five] *= 1e4
    wrong[five] = 1 - wrong[five]
    yield "five rows 10,000 times as long, wrong labels", long, wrong


def very_wide(n: int) -> Iterator[tuple[str, object, np.ndarray]]:
    """Sparse rows of so many columns that no matrix is formed."""
    rng, d, many = np.random.default_rng(6), 5000, 20
    often = np.arange(1.0, d + 1.0) ** -0.7
    columns = rng.choice(d, size=n * many, p=often / often.sum())
    places = (np.repeat(np.arange(n), many), columns)
    X = sparse.csr_array((np.abs(rng.normal(size=n * many)) + 0.1, places), shape=(n, d))
    X.sum_duplicates()
    yield f"sparse, {d} columns", X, labels_of(rng, X @ rng.normal(size=d))


def many_classes(n: int) -> Iterator[tuple[str, object, np.ndarray]]:
    """Classes of very different sizes, with a matrix of all weights or one that they share.

    The last has so many rows that systems are solved with a sample.
    """
    rng = np.random.default_rng(7)
    for d, classes, times in ((10, 5, 1), (40, 10, 1), (60, 20, 1), (300, 10, 1), (210, 10, 9)):
        Z = rng.normal(size=(times * n, d))
        scores = 2.0 * Z @ rng.normal(size=(d, classes)) / np.sqrt(d)
        scores -= np.linspace(0.0, 6.0, classes)
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
        yield f"{classes} classes, {classes * d} weights, {len(y):,} rows", Z, y


def _part(number: int, column: int):
    return HELD[number][column]


def rounds(client: Client, X, y: np.ndarray, **given) -> tuple[int, LogisticRegression]:
    """Rounds of a fit of sorted rows in unequal blocks."""
    n = len(y)
    order = np.argsort(y, kind="stable")
    ends = [n // 10, n // 10, n // 10 + 5, n // 2]
    HELD[:] = [(X[part], y[part]) for part in np.split(order, ends)]
    part = dask.delayed(_part, pure=False)  # by name: pickled whole, it would take HELD along
    held = [[part(k, column) for k in range(len(HELD))] for column in (0, 1)]
    chosen = {"C": 1.0 / (ALPHA * n)} | given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = LogisticRegression(**chosen, client=client).fit(*held)
    return fitted.n_rounds_, fitted


def other_data(quick: bool) -> Iterator[Figure]:
    """Rounds to certified gaps of 1e-4 and 1e-8, first look included, on data of many kinds."""
    n = 20_000 if quick else 100_000
    with Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as client:
        for name, X, y in (*two_classes(n), *very_wide(2 * n), *many_classes(n)):
            for tol in TOLERANCES:
                many, fitted = rounds(client, X, y, tol=tol)
                assert fitted.gap_certified_
                yield Figure(
                    f"{name}, to {tol:g}",
                    many,
                    remark=f"gap {fitted.gap_:.1e}, {fitted.plan_.method}",
                )
        _, X, y = next(two_classes(n))
        for ratio in (0.5, 1.0):
            many, fitted = rounds(client, X, y, tol=1e-8, l1_ratio=ratio)
            yield Figure(
                f"normal columns, l1_ratio={ratio}, to 1e-08", many, remark=f"{fitted.gap_:.1e}"
            )
