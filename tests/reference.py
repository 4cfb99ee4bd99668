"""Plain NumPy twins of the kernels: slow and short, to read beside the paper's algorithm boxes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import reference_losses


def sgd_steps(
    problem,
    batches,
    size,
    eta,
    *,
    coef,
    intercept=0.0,
    average_from=0,
    linear=False,
    row_eta=None,
    path=None,
):
    """SGD on given batches of rows, with the cumulative step of the L1 penalty, and averaging.

    ``eta(steps, samples)`` is the step size after so many steps and samples; ``row_eta(losses,
    squares)``, if given, those of the rows, and ``eta`` is the penalty's alone. ``path``, a list,
    gets coef and intercept after each step. Returns coef, intercept and their averages (None before
    any), and the mean loss met in all.
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
            moves = (
                row_eta(problem.loss.value(y, p), np.sum(X[rows] ** 2, axis=1))
                * slopes
                * len(rows)
                / size
            )
        shrink = max(0.0, 1.0 - step * problem.penalty.l2)
        w = shrink * w - np.mean(moves[:, None] * X[rows], axis=0)
        received, charged = shrink * received, shrink * charged + step * problem.penalty.l1
        left = np.where(
            w > 0.0,
            np.maximum(0.0, w - (charged + received)),
            np.minimum(0.0, w + (charged - received)),
        )
        w, received = left, received + left - w
        if problem.fit_intercept:
            b -= moves.mean()
        steps, samples = steps + 1, samples + len(rows)
        if path is not None:
            path.append((w, b))
        if 0 < average_from <= samples:
            gain = steps if linear else 1
            total += gain
            mean += gain / total * (w - mean)
            mean_b += gain / total * (b - mean_b)
    return (w, b), ((mean, mean_b) if total else None), met / samples


def passive_aggressive(name, eta0, losses, squares):
    """Step sizes PA-I and PA-II of Crammer et al. (2006), with eta0 their C.

    PA-I leaves a row without entries alone.
    """
    if name == "pa2":
        return losses / (squares + 1.0 / (2.0 * eta0))
    return np.array(
        [
            min(eta0, loss / square) if square > 0.0 else 0.0
            for loss, square in zip(losses, squares, strict=True)
        ]
    )


def split(batches):
    """Rows of each batch, as a list."""
    return np.split(batches.rows, batches.starts[1:-1])


def balanced_order(order, gradients, unit):
    """Order that follows an epoch in this order, in which row i had ``gradients[i]``.

    Units of so many rows stay together.
    """
    front, back, signed = [], [], np.zeros(gradients.shape[1])
    paired = len(order) // (2 * unit) * 2 * unit
    for start in range(0, paired, 2 * unit):
        a, b = order[start : start + unit], order[start + unit : start + 2 * unit]
        apart = gradients[a].sum(axis=0) - gradients[b].sum(axis=0)
        if signed @ apart <= 0.0:
            front, back, signed = [*front, a], [b, *back], signed + apart
        else:
            front, back, signed = [*front, b], [a, *back], signed - apart
    whole = len(order) // unit * unit
    # A unit without a second one comes in the middle.
    return np.concatenate([*front, order[paired:whole], *back, order[whole:]])


def balanced_sgd_steps(problem, order, size, unit, epochs, eta, **given):
    """`sgd_steps` with each epoch in the order that the gradients met in the one before lead to.

    Also returns the order that follows.
    """
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    rows, met = np.hstack([X, np.full((len(X), 1), float(problem.fit_intercept))]), []

    def slope(y, p):
        met.append(problem.loss.slope(y, p))
        return met[-1]

    def batches():
        nonlocal order
        for _ in range(epochs):
            met.clear()
            yield from (order[start : start + size] for start in range(0, len(order), size))
            slopes = np.empty(len(order))
            slopes[order] = np.concatenate(met)
            slopes *= 1.0 if problem.weight is None else problem.weight
            order = balanced_order(order, slopes[:, None] * rows, unit)

    watched = SimpleNamespace(
        **{
            name: getattr(problem, name)
            for name in ("X", "y", "weight", "penalty", "fit_intercept")
        }
    )
    watched.loss = SimpleNamespace(slope=slope, value=problem.loss.value)
    last, mean, _ = sgd_steps(watched, batches(), size, eta, **given)
    return last, mean, order


def corrected_steps(problem, epochs, size, eta, kind, *, coef, intercept=0.0, memory=None):
    """Proximal SGD, SVRG or SAGA on given epochs, each a list of (rows, factors or None).

    The kind "given" keeps the memory that it is given. Returns coef, intercept, and what is
    remembered of each row.
    """
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    w, b, steps, samples = np.array(coef, dtype=float), intercept, 0, 0
    memory = np.zeros(len(X)) if memory is None else memory
    for epoch, batches in enumerate(epochs):
        # At zero weights nothing is remembered.
        if (kind == "svrg" or (kind == "saga" and epoch == 0)) and (epoch or w.any() or b):
            memory = problem.slopes(w, b)
        for rows, factors in batches:
            part = len(rows) / size if factors is None else 1.0
            factors = np.ones(len(rows)) if factors is None else factors
            slopes, step = problem.slopes(w, b)[rows], eta(steps, samples)
            moves = factors * (slopes - memory[rows]) / size
            gradient, gradient_b = (
                moves @ X[rows] + part * memory @ X / len(X),
                moves.sum() + part * memory.mean(),
            )
            w = max(0.0, 1.0 - step * part * problem.penalty.l2) * w - step * gradient
            w = problem.penalty.nonsmooth_prox(w, step * part)
            if problem.fit_intercept:
                b -= step * gradient_b
            if kind == "saga":
                memory[rows] = slopes
            steps, samples = steps + 1, samples + len(rows)
    return (w, b), memory


def grab_order(order, gradients, stale_mean):
    """Order after an epoch by mean balancing (GraB, Lu et al. 2022), and the epoch's mean.

    Each row's gradient, less the mean of the epoch before, gets the sign that keeps the signed sum
    small; rows of sign + come first, in order, and rows of sign - last, reversed.
    """
    front, back, signed = [], [], np.zeros(gradients.shape[1])
    for row in order:
        centred = gradients[row] - stale_mean
        if signed @ centred <= 0.0:
            front, signed = [*front, row], signed + centred
        else:
            back, signed = [row, *back], signed - centred
    return np.array(front + back, dtype=np.intp), gradients[order].mean(axis=0)


def cumulative_threshold(weight, received, charged):
    r"""Bring a weight nearer to zero by the penalty that it still owes, at most to zero.

    The difference is what it then has received.

    Every step charges each weight with :math:`\tau = \eta\, l_1`. The proximal step takes
    :math:`\tau` from a weight and drops what is left when that is at zero, so any single gradient
    above the penalty moves the weight away again, and on noisy data hardly one stays. Here, charges
    not yet applied are carried forward: with u the sum of all charges and q what a weight has
    received of them (negative while it was positive), it owes u + q as a positive and u - q as a
    negative weight. A weight away from zero takes exactly the proximal step; one at zero leaves
    when the sum of its gradients, in which noise cancels, exceeds that of its charges. This is the
    cumulative penalty of Tsuruoka et al. (2009), which scikit-learn uses too.

    Parameters
    ----------
    weight : float
        The weight after the gradient's step.
    received : float
        q. Where nothing moves the weight in between, several charges may be added up before they
        are collected.
    charged : float
        u, at least 0.
    """
    if weight > 0.0:
        return max(0.0, weight - max(0.0, charged + received))
    if weight < 0.0:  # NaN is neither, and is left for the divergence check
        return min(0.0, weight + max(0.0, charged - received))
    return weight


def evaluate(X, y, weight, loss, coef, intercept):
    """Weighted loss, slope, squared slope and curvature in all; those of rows; the gradient."""
    X = np.asarray(X, dtype=float)
    p = X @ coef + intercept
    losses, slopes = loss.value(y, p), loss.slope(y, p)
    curvatures = curvature(loss, y, p)
    if weight is not None:
        losses, slopes, curvatures = weight * losses, weight * slopes, weight * curvatures
    totals = losses.sum(), slopes.sum(), slopes @ slopes, curvatures.sum()
    return totals, slopes, curvatures, p, X.T @ slopes


def curvature(loss, y, p):
    """Second derivative of each loss."""
    one = reference_losses.curvature
    return np.array([one(loss.code, loss.epsilon, *pair) for pair in zip(y, p, strict=True)])


def descend(hessian, l1, start, gradient, sweeps):
    """Coordinate descent on <g, s> + s' H s / 2 + sum_j l1_j |start_j + s_j|, from s = 0."""
    at, slopes = start.copy(), gradient.copy()
    for _ in range(sweeps):
        for j in range(len(at)):
            wanted = hessian[j, j] * at[j] - slopes[j]
            after = np.sign(wanted) * max(0.0, abs(wanted) - l1[j]) / hessian[j, j]
            slopes += hessian[j] * (after - at[j])
            at[j] = after
    return at - start, slopes


def preconditioned_sgd(problem, batches, size, eta, centre, metric, *, coef, intercept=0.0):
    """SGD in centred columns and a metric, with the L1 penalty's cumulative step.

    Takes and returns the weights and the intercept of the columns as they are.
    """
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    rows, l1 = X - centre, problem.penalty.l1
    w, b = np.array(coef, dtype=float), intercept + centre @ coef
    received, charged = np.zeros_like(w), 0.0
    for steps, batch in enumerate(batches):
        slopes = problem.loss.slope(problem.y[batch], rows[batch] @ w + b)
        slopes = slopes if problem.weight is None else slopes * problem.weight[batch]
        step, part = eta(steps), len(batch) / size
        gradient = slopes @ rows[batch] / size + part * problem.penalty.l2 * w
        w = w - step * metric * gradient
        b -= step * slopes.sum() / size
        charged += step * part * l1
        left = np.where(
            w > 0.0,
            np.maximum(0.0, w - np.maximum(0.0, metric * charged + received)),
            np.minimum(0.0, w + np.maximum(0.0, metric * charged - received)),
        )
        w, received = left, received + left - w
    return w, b - centre @ w


def newton_on_table(table, problem, offset, ridge, point, *, steps, enough, least_ridge):
    """Newton's steps on mean loss + ridge, halved where the objective rises; and the Hessian."""
    weight = np.ones(len(table)) if problem.weight is None else problem.weight

    def predictions(w):
        return offset + table @ w

    def objective(w):
        losses = problem.loss.value(problem.y, predictions(w))
        return weight @ losses / len(table) + 0.5 * ridge @ w**2

    def hessian(w):
        curvatures = weight * problem.loss.curvature(problem.y, predictions(w))
        return (table * curvatures[:, None]).T @ table / len(table) + np.diag(ridge)

    last = objective(point)
    for _ in range(steps):
        slopes = weight * problem.loss.slope(problem.y, predictions(point))
        matrix = hessian(point)
        matrix += least_ridge * np.trace(matrix) * np.eye(len(point))
        step = np.linalg.solve(matrix, slopes @ table / len(table) + ridge * point)
        falling = [s for s in 0.5 ** np.arange(steps) if objective(point - s * step) <= last]
        if not falling:
            break
        point = point - falling[0] * step
        gained, last = last - objective(point), objective(point)
        if gained <= enough * abs(last):
            break
    return point, hessian(point)


def bound_of_table(table, y, weight, l2, point, *, has_intercept):
    """Objective at a point of a logistic table, and a bound on its distance from the minimum.

    With an intercept, the last column, slopes above or below zero are scaled until they sum to
    zero. What that costs is the mean divergence of the new probabilities from the old ones.
    """
    d = len(point) - has_intercept
    margins = y * (table @ point)
    wrong = np.exp(-np.logaddexp(0.0, margins))  # probability of the other class
    objective = weight @ np.logaddexp(0.0, -margins) / len(y) + 0.5 * l2 * point[:d] @ point[:d]
    kept = wrong
    if has_intercept:
        up, down = (weight * wrong)[y < 0.0].sum(), (weight * wrong)[y > 0.0].sum()
        kept = wrong * np.where(y < 0.0, min(1.0, down / up), min(1.0, up / down))
    right, now = 1.0 - wrong, 1.0 - kept
    divergence = kept * np.log(kept / wrong) + now * np.log(now / right)
    apart = l2 * point[:d] - (weight * y * kept) @ table[:, :d] / len(y)
    return objective, weight @ divergence / len(y) + apart @ apart / (2.0 * l2)


def minimum_of_table(table, y, weight, l2, *, has_intercept):
    """The point of least objective, by Newton's steps until nothing changes."""
    ridge = np.full(table.shape[1], l2)
    ridge[table.shape[1] - has_intercept :] = 0.0
    point = np.zeros(table.shape[1])
    for _ in range(100):
        chance = 1.0 / (1.0 + np.exp(y * (table @ point)))
        gradient = ridge * point - (weight * y * chance) @ table / len(y)
        curvatures = weight * chance * (1.0 - chance)
        hessian = (table * curvatures[:, None]).T @ table / len(y) + np.diag(ridge)
        point = point - np.linalg.solve(hessian, gradient)
    return point


def squares(X, y, weight, centre, target_centre, has_intercept):
    """Sums of the products of all columns: centred ones, ones for an intercept, and targets."""
    columns = [X - centre, y[:, None] - target_centre]
    if has_intercept:
        columns.insert(1, np.ones((len(y), 1)))
    table = np.column_stack(columns).astype(np.float64)
    return (table.T * (np.ones(len(y)) if len(weight) == 0 else weight)) @ table


def minimum_of_products(products, l2, has_intercept, rounding):
    """Minimum of squared errors, its objective and that of the best constant, and a gap.

    The gap is that of a gradient which is as large as rounding may make it.
    """
    matrix, b, square = products[:-1, :-1], products[:-1, -1], products[-1, -1]
    d = len(b) - has_intercept
    hessian = matrix + np.diag(np.where(np.arange(len(b)) < d, l2, 0.0))
    theta = np.linalg.solve(hessian, b)
    theta = theta - np.linalg.solve(hessian, hessian @ theta - b)
    lengths = np.sqrt(matrix.diagonal())
    size = lengths @ np.abs(theta) + np.sqrt(square)
    off = np.abs(hessian @ theta - b) + rounding * size * lengths
    zero, cost, own = 0.5 * square, 0.0, off[:d]
    if has_intercept:
        zero -= 0.5 * b[-1] ** 2 / matrix[-1, -1]
        own = own + np.abs(matrix[-1, :d]) * off[-1] / matrix[-1, -1]
        cost = 0.5 * off[-1] ** 2 / matrix[-1, -1]
    objective = 0.5 * theta @ hessian @ theta - b @ theta + 0.5 * square
    return theta, (objective, zero, own @ own / (2.0 * l2) + cost)
