"""Plain NumPy twin of the SDCA kernels, and the dual objective that they climb."""

from __future__ import annotations

import numpy as np
from reference_losses import slope


def dense(problem):
    return np.asarray(
        problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray(), dtype=float
    )


def weights_of(problem):
    return np.ones(problem.n) if problem.weight is None else problem.weight


def best_dual(problem, row, a, p, q):
    """The dual variable b with b = -s phi'(p + q (b - a)).

    It comes from the closed formula, or for log_loss from bisection over all of [0, s].
    """
    y, s = problem.y[row], weights_of(problem)[row]
    if s == 0.0:
        return 0.0
    if problem.loss.name == "squared_error":
        return (s * (y - p) + s * q * a) / (1.0 + s * q)
    if problem.loss.name == "squared_hinge":
        return y * max(0.0, (2.0 * s * (1.0 - y * p) + 2.0 * s * q * y * a) / (1.0 + 2.0 * s * q))
    if problem.loss.name == "hinge":
        return y * (np.clip(y * a + (1.0 - y * p) / q, 0.0, s) if q > 0.0 else s)
    low, high = 0.0, s
    for _ in range(200):
        b = 0.5 * (low + high)
        push = -s * y * slope(problem.loss.code, 0.0, y, p + q * (y * b - a))  # falls as b grows
        low, high = (b, high) if push > b else (low, b)
    return y * 0.5 * (low + high)


def sdca(problem, rows, duals):
    """Visit the rows in order; returns weights, dual variables and the mean loss met."""
    X, duals, met = dense(problem), np.array(duals, dtype=float), 0.0
    share = 1.0 / (problem.penalty.l2 * problem.n)
    w = share * X.T @ duals
    for row in rows:
        p, weight = X[row] @ w, weights_of(problem)[row]
        met += weight * problem.loss.value(problem.y[row], p)[0]
        b = best_dual(problem, row, duals[row], p, share * X[row] @ X[row])
        w = w + share * (b - duals[row]) * X[row]
        duals[row] = b
    return w, duals, met / len(rows)


def dual_objective(problem, duals):
    """D(a), from the conjugates."""
    s, X = weights_of(problem), dense(problem)
    counted = s > 0.0
    values = s[counted] * problem.loss.conjugate(problem.y[counted], -duals[counted] / s[counted])
    v = X.T @ duals / problem.n
    return -values.sum() / problem.n - v @ v / (2.0 * problem.penalty.l2)
