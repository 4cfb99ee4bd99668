"""Plain NumPy twins of the kernels: slow, short, and to be read beside the paper's algorithm boxes."""

from __future__ import annotations

import numpy as np


def algorithm_2(problem, batches, size, eta, *, coef, intercept=0.0, average_from=0, linear=False, row_eta=None):
    """SGD on given batches of rows, with the cumulative step of the L1 penalty, and averaging.

    ``eta(steps, samples)`` is the step size after so many steps and samples; ``row_eta(losses, squares)``, if given, those of the rows, and
    ``eta`` is the penalty's alone. Returns coef, intercept and their averages (None before any), and the mean loss met in all.
    """
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    w, b, steps, samples = np.array(coef, dtype=float), intercept, 0, 0
    mean, mean_b, total = np.zeros_like(w), 0.0, 0.0
    received, charged, met = np.zeros_like(w), 0.0, 0.0
    for rows in batches:
        y, p = problem.y[rows], X[rows] @ w + b
        slopes = problem.loss.slope(y, p)
        weight = np.ones(len(rows)) if problem.weight is None else problem.weight[rows]
        slopes = slopes * weight
        met += weight @ problem.loss.value(y, p)
        step = eta(steps, samples) * len(rows) / size
        moves = step * slopes
        if row_eta is not None:
            moves = row_eta(problem.loss.value(y, p), np.sum(X[rows] ** 2, axis=1)) * slopes * len(rows) / size
        shrink = max(0.0, 1.0 - step * problem.penalty.l2)
        w = shrink * w - np.mean(moves[:, None] * X[rows], axis=0)
        received, charged = shrink * received, shrink * charged + step * problem.penalty.l1
        left = np.where(w > 0.0, np.maximum(0.0, w - (charged + received)), np.minimum(0.0, w + (charged - received)))
        w, received = left, received + left - w
        if problem.fit_intercept:
            b -= moves.mean()
        steps, samples = steps + 1, samples + len(rows)
        if 0 < average_from <= samples:
            gain = steps if linear else 1
            total += gain
            mean += gain / total * (w - mean)
            mean_b += gain / total * (b - mean_b)
    return (w, b), ((mean, mean_b) if total else None), met / samples


def passive_aggressive(name, eta0, losses, squares):
    """Step sizes PA-I and PA-II of Crammer et al. (2006), with eta0 their C; PA-I leaves a row without entries alone."""
    if name == "pa2":
        return losses / (squares + 1.0 / (2.0 * eta0))
    return np.array([min(eta0, loss / square) if square > 0.0 else 0.0 for loss, square in zip(losses, squares, strict=True)])


def split(batches):
    """Rows of each batch, as a list."""
    return np.split(batches.rows, batches.starts[1:-1])
