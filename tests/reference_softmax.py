"""Plain NumPy twins of the softmax kernel: SGD on all classes together, and the balancing rule."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


def probabilities(scores):
    """Softmax of each row."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def softmax_sgd(problem, batches, size, eta, *, coef, intercept, every=0, start=1, linear=False):
    """SGD on given batches of rows; ``eta(steps)`` is the step size after so many steps.

    Weights after every ``every``-th step are averaged, from so many samples on. Returns weights,
    intercepts, their averages (None before any), the mean loss met, and the slopes of the rows in
    the order they were met.
    """
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    codes = problem.y.astype(int)
    weight = np.ones(problem.n) if problem.weight is None else problem.weight
    w, b, samples, met, slopes_met = np.array(coef, float), np.array(intercept, float), 0, 0.0, []
    mean, mean_b, total = np.zeros_like(w), np.zeros_like(b), 0.0
    for step, rows in enumerate(batches):
        shares = probabilities(X[rows] @ w.T + b)
        own = np.arange(len(rows)), codes[rows]
        met -= weight[rows] @ np.log(shares[own])
        shares[own] -= 1.0
        slopes = weight[rows, None] * shares
        slopes_met.extend(slopes)
        w = max(0.0, 1.0 - eta(step) * len(rows) / size * problem.penalty.l2) * w
        w = w - eta(step) / size * slopes.T @ X[rows]
        if problem.fit_intercept:
            b = b - eta(step) / size * slopes.sum(axis=0)
        samples += len(rows)
        if every and samples >= start and (step + 1) % every == 0:
            gain = step + 1 if linear else 1
            total += gain
            mean += gain / total * (w - mean)
            mean_b += gain / total * (b - mean_b)
    averages = (mean, mean_b) if total else None
    return SimpleNamespace(
        coef=w, intercept=b, averages=averages, met=met / samples, slopes=np.array(slopes_met)
    )


def balanced_order(gradients, order, unit=1):
    """Order of the next epoch, from the gradients of the rows in the order they were met."""
    n = len(order) - len(order) % unit
    units = [np.arange(k, k + unit) for k in range(0, n, unit)]
    front, back, signed_sum = [], [], np.zeros_like(gradients[0])
    for first, second in zip(units[::2], units[1::2], strict=False):
        difference = gradients[first].sum(axis=0) - gradients[second].sum(axis=0)
        if np.vdot(signed_sum, difference) <= 0.0:
            signed_sum += difference
        else:
            signed_sum -= difference
            first, second = second, first
        front.append(first)
        back.append(second)
    middle = units[-1:] if len(units) % 2 else []
    places = [*front, *middle, *reversed(back), np.arange(n, len(order))]
    return order[np.concatenate(places)]


def softmax_sgd_in_units(
    problem, batches, size, eta, centre, metric, *, coef, intercept, every=0, late=False
):
    """SGD in centred columns and a metric: weights, intercepts, and their averages.

    The L2 penalty divides each column by 1 + P_j l2 (sum of steps): after every fourth step and
    where weights are averaged or returned, or if it comes late, when the column is met again.
    """
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    met = X != 0.0
    Z, codes = X - centre, problem.y.astype(int)
    weight = np.ones(problem.n) if problem.weight is None else problem.weight
    w = np.array(coef, float)
    b, owed, steps_owed = np.array(intercept, float) + w @ centre, np.zeros(problem.d), 0
    mean, mean_b, points = np.zeros_like(w), np.zeros_like(b), 0
    for step, rows in enumerate(batches):
        if late:
            columns = met[rows].any(axis=0)
            w[:, columns] /= 1.0 + metric[columns] * owed[columns]
            owed[columns] = 0.0
        shares = probabilities(Z[rows] @ w.T + b)
        shares[np.arange(len(rows)), codes[rows]] -= 1.0
        slopes = weight[rows, None] * shares
        w = w - eta(step) / size * metric * (slopes.T @ Z[rows])
        b = b - eta(step) / size * slopes.sum(axis=0)
        owed += eta(step) * len(rows) / size * problem.penalty.l2
        steps_owed += 1
        is_averaged = every and (step + 1) % every == 0
        if is_averaged or step + 1 == len(batches) or (not late and steps_owed == 4):
            w, owed, steps_owed = w / (1.0 + metric * owed), np.zeros(problem.d), 0
        if is_averaged:
            points += 1
            mean += (w - mean) / points
            mean_b += (b - mean_b) / points
    return SimpleNamespace(
        coef=w, intercept=b - w @ centre, averages=(mean, mean_b - mean @ centre)
    )
