"""Measures at the weights of a run: variances, second moments, bias and inner products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.orders.variance import uniform_variance
from antithetic.pairing import AntitheticTable
from antithetic.pairing.table import matched, pair_ratio
from antithetic.paper.workbench import BATCH_SIZE, Array, at_each
from antithetic.problem import Problem

_PAIRS = 4000  # drawn at random for the rank correlations


def variances(
    problem: Problem,
    table: AntitheticTable | None,
    weights: Array,
    batch_size: int = BATCH_SIZE,
) -> Array:
    """Exact variance at weights (..., d): of the pairs of a table, or of independent rows."""
    return at_each(
        problem,
        weights,
        lambda coef: uniform_variance(problem, problem.slopes(coef), table, batch_size),
    )


def squared_gradients(problem: Problem, weights: Array) -> Array:
    """``|grad f|^2``, penalty included.

    The second moment of an unbiased estimator is this plus its variance.
    """

    def square(coef: Array) -> float:
        gradient = problem.gradient(coef)[0]
        return float(gradient @ gradient)

    return at_each(problem, weights, square)


def bias(problem: Problem, table: AntitheticTable, weights: Array) -> Array:
    """Bias of the pair gradient, relative to the root mean square of a row's gradient; (m,).

    It is the norm of the mean over all draws minus the gradient.

    The n draws of SGD-as are enumerated one by one; nothing is taken from the theory.
    """
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    found = []
    for coef in weights:
        rows = problem.slopes(coef)[:, None] * X
        deviation = (0.5 * (rows + rows[table.partner])).mean(axis=0) - rows.mean(axis=0)
        size = float(np.sqrt((rows * rows).sum(axis=1).mean()))
        found.append(float(np.linalg.norm(deviation)) / size if size > 0.0 else 0.0)
    return np.array(found)


def label_shares(problem: Problem, table: AntitheticTable) -> dict[str, float]:
    """Share of rows whose partner has the opposite label.

    Also the largest such share of any permutation, and that of random partners.
    """
    positive = float((problem.y > 0).mean())
    return {
        "opposite": float((problem.y != problem.y[table.partner]).mean()),
        "possible": 2.0 * min(positive, 1.0 - positive),
        "random": 2.0 * positive * (1.0 - positive),
    }


def products(problem: Problem, first: NDArray[np.intp], second: NDArray[np.intp]) -> Array:
    """``y_i y_j <x_i, x_j>``: the paper's bound of the product of two gradients."""
    X, y = problem.X, problem.y
    if sparse.issparse(X):
        inner = np.asarray(X[first].multiply(X[second]).sum(axis=1)).ravel()
    else:
        inner = np.einsum("ij,ij->i", X[first], X[second])
    return np.asarray(y[first] * y[second] * inner)


def partner_products(problem: Problem, table: AntitheticTable, weights: Array) -> dict[str, Array]:
    """Follow the products of partners that are negative at zero.

    The result has the share of rows still negative, and that of reversed sign, (m,) each.

    ``"bounds"`` is the share of all rows whose bound is negative, one number; 1 is the paper's
    ideal case.
    """
    rows = np.arange(problem.n)
    bounds = products(problem, rows, table.partner)
    inner = bounds * problem.y * problem.y[table.partner]
    slopes_at_zero = problem.slopes(np.zeros(problem.d))
    below = slopes_at_zero * slopes_at_zero[table.partner] * inner < 0.0
    now = []
    for coef in weights:
        slopes = problem.slopes(coef)
        now.append((slopes * slopes[table.partner] * inner)[below])
    count = max(1, int(np.count_nonzero(below)))
    return {
        "negative": np.array([np.count_nonzero(values < 0.0) / count for values in now]),
        "reversed": np.array([np.count_nonzero(values > 0.0) / count for values in now]),
        "bounds": np.array([np.mean(bounds < 0.0)]),
    }


def negative_pairs(problem: Problem, table: AntitheticTable, weights: Array) -> dict[str, Array]:
    """Variance ratio on the rows of mutual pairs with a negative product.

    That is the ideal case, as far as the set has it.

    The paper's implication is about a table all of whose products are negative. Few sets have one,
    so it is tested on the largest part of the data that has: pairs of the table, cut into a
    matching, with a negative product.
    """
    pairs = matched(table, problem).pairs
    kept = pairs[products(problem, pairs[:, 0], pairs[:, 1]) < 0.0]
    if not len(kept):
        return {"share": np.array([0.0]), "ratio": np.full(len(weights), np.nan)}
    rows = kept.T.ravel()  # first members, then second ones
    half = len(kept)
    some = Problem(
        problem.X[rows],
        problem.y[rows],
        problem.loss,
        problem.penalty,
        None,
        False,
        problem.classes,
    )
    partner = np.concatenate([np.arange(half, 2 * half), np.arange(half)])
    ratios = [pair_ratio(some, some.slopes(coef), partner) for coef in weights]
    return {"share": np.array([len(rows) / problem.n]), "ratio": np.array(ratios)}


def rank_correlations(problem: Problem, weights: Array) -> dict[str, Array]:
    """Spearman's correlation between bound and product over random pairs of rows; (m,).

    It is given for all pairs, and for those with a bound of either sign.

    Both always have the same sign, which alone gives a correlation; within one sign it does not.
    """
    rng = np.random.default_rng(0)
    first = rng.integers(problem.n, size=_PAIRS)
    second = (first + rng.integers(1, problem.n, size=_PAIRS)) % problem.n  # never the row itself
    bounds = products(problem, first, second)
    inner = bounds * problem.y[first] * problem.y[second]
    kinds = {"all": np.full(_PAIRS, True), "negative": bounds < 0.0, "positive": bounds > 0.0}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for coef in weights:
        slopes = problem.slopes(coef)
        now = slopes[first] * slopes[second] * inner
        for kind, those in kinds.items():
            found[kind].append(spearman(bounds[those], now[those]))
    return {kind: np.array(values) for kind, values in found.items()}


def spearman(a: Array, b: Array) -> float:
    """Rank correlation, ties ranked by their mean.

    0 where either is constant or there are fewer than two.
    """
    from scipy.stats import rankdata  # half a second of import that only this needs

    if len(a) < 2:
        return 0.0
    ranks = [rankdata(values) - (len(values) + 1) / 2.0 for values in (a, b)]
    size = float(np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1])))
    return float(ranks[0] @ ranks[1]) / size if size > 0.0 else 0.0
