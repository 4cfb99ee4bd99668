"""Plain NumPy twins of the kernels: slow, short, and to be read beside the paper's algorithm boxes."""

from __future__ import annotations

import numpy as np


def algorithm_2(problem, batches, size, eta, *, coef, intercept=0.0, average_from=0, linear=False):
    """SGD on given batches of rows, with the proximal step of the L1 penalty and averaging.

    ``eta(steps, samples)`` is the step size after so many steps and samples. Returns coef, intercept and their averages (None before any).
    """
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    w, b, steps, samples = np.array(coef, dtype=float), intercept, 0, 0
    mean, mean_b, total = np.zeros_like(w), 0.0, 0.0
    for rows in batches:
        slopes = problem.loss.slope(problem.y[rows], X[rows] @ w + b)
        if problem.weight is not None:
            slopes = slopes * problem.weight[rows]
        step = eta(steps, samples) * len(rows) / size
        w = max(0.0, 1.0 - step * problem.penalty.l2) * w - step * np.mean(slopes[:, None] * X[rows], axis=0)
        w = np.sign(w) * np.maximum(np.abs(w) - step * problem.penalty.l1, 0.0)
        if problem.fit_intercept:
            b -= step * slopes.mean()
        steps, samples = steps + 1, samples + len(rows)
        if 0 < average_from <= samples:
            gain = steps if linear else 1
            total += gain
            mean += gain / total * (w - mean)
            mean_b += gain / total * (b - mean_b)
    return (w, b), ((mean, mean_b) if total else None)


def split(batches):
    """Rows of each batch, as a list."""
    return np.split(batches.rows, batches.starts[1:-1])
