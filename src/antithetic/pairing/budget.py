"""What `"auto"` does with a budget: it tries the methods that fit, and keeps the best table.

Which methods fit depends on the number of rows, the features and the sparsity.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.pairing.greedy import greedy_table
from antithetic.pairing.optimal import OPTIMAL_MAX_ROWS, optimal_table
from antithetic.pairing.rows import Rows, pair_variance
from antithetic.pairing.tree import ONE_LEAF, tree_table

# Products of entries a second in Algorithm 1, and seconds of an assignment of 1000 rows, as seen on
# two cores: rough, so doubled in use.
_DENSE_RATE, _SPARSE_RATE, _ASSIGNMENT_SECONDS = 2.4e10, 1e9, 0.15
_TREE_SHARE = 1 / 3  # share of the budget for the tree


def best_within(
    rows: Rows, budget: float, n_jobs: int | None, seed: int, progress: Callable[[int], None]
) -> tuple[NDArray[np.intp], str, str]:
    """Return the best table found within some seconds, the name of its method, and a sentence why.

    The best table itself, if there is time for it. Otherwise the tree, or, if Algorithm 1 fits into
    the time left, the better of the tree's table and that of Algorithm 1 on centred rows, polished
    by the tree's rounds: the latter is better on rows with many directions of similar spread.
    """
    n, begun = len(rows), time.monotonic()
    if n <= ONE_LEAF or (n <= OPTIMAL_MAX_ROWS and 2.0 * assignment_seconds(n) <= budget):
        return (
            optimal_table(rows),
            "optimal",
            f"auto chose the best table, since {n} rows are few enough for {budget:g} s",
        )
    table = tree_table(
        rows, init=None, budget=_TREE_SHARE * budget, n_jobs=n_jobs, seed=seed, progress=progress
    )
    left = budget - (time.monotonic() - begun)
    if 2.0 * greedy_seconds(rows) > left:
        return (
            table,
            "tree",
            (
                f"auto chose the tree: Algorithm 1 on {n} rows of {entries(rows)} entries does not"
                f" fit into {budget:g} s"
            ),
        )
    greedy = greedy_table(_centred(rows), n_jobs, lambda _: None)
    left = max(1e-9, budget - (time.monotonic() - begun))
    greedy = tree_table(
        rows, init=greedy, budget=left, n_jobs=n_jobs, seed=seed, progress=lambda _: None
    )
    by_tree, by_greedy = pair_variance(rows, table), pair_variance(rows, greedy)
    if by_greedy < by_tree:
        return (
            greedy,
            "greedy",
            (
                f"auto chose Algorithm 1, centred and polished: variance {by_greedy:.4g} against"
                f" {by_tree:.4g} for the tree"
            ),
        )
    return (
        table,
        "tree",
        (
            f"auto chose the tree: variance {by_tree:.4g} against {by_greedy:.4g} for Algorithm 1,"
            " centred and polished"
        ),
    )


def assignment_seconds(n: int) -> float:
    """Rough time of the assignment problem of n rows."""
    return float(_ASSIGNMENT_SECONDS * (n / 1000.0) ** 2.5)


def greedy_seconds(rows: Rows) -> float:
    """Rough time of Algorithm 1."""
    products: float = float(len(rows)) ** 2 * entries(rows)
    return products / (_SPARSE_RATE if sparse.issparse(rows.X) else _DENSE_RATE)


def entries(rows: Rows) -> int:
    """Entries of a row: the stored ones, of sparse rows."""
    return max(1, int(rows.X.nnz // len(rows) if sparse.issparse(rows.X) else rows.X.shape[1]))


def _centred(rows: Rows) -> Rows:
    """Dense rows minus their mean, on which greedy choices are better.

    Sparse rows and those of several classes are returned unchanged.
    """
    if sparse.issparse(rows.X) or rows.codes is not None:
        return rows
    vectors = rows.take(slice(None))
    return Rows(vectors - vectors.mean(axis=0))
