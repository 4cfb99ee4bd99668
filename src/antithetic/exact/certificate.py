r"""Bounds on how far the objective is from its minimum.

**From a step.** Let :math:`\delta` be a step from :math:`w`, and :math:`v_i` the slope of row i
that the quadratic model at :math:`w` expects at its end, :math:`\phi_i' + \phi_i'' \langle x_i,
\delta \rangle`, cut to what the loss allows. For *any* slopes :math:`v` that the loss allows and
whose weighted sum over the rows is zero if there is an intercept, with :math:`u = \frac1n \sum_i
s_i v_i x_i`, Fenchel's inequality gives

.. math:: f(w) - f^* \le \frac1n \sum_i s_i \bigl(\phi_i(p_i) + \phi_i^*(v_i) - v_i p_i\bigr)
          + r(w) + r^*(-u) + \langle w, u \rangle.

All terms are sums of numbers that are not negative, so no digits cancel. With the Hessian of all
rows, :math:`-u` is the gradient of the penalty at :math:`w + \delta`, and the bound is the gap
itself up to the third order of the step. With that of a sample it is looser, and still a bound.

**At a point.** The same with a step of length zero, for a point that no step has left yet.

**With a sample.** A gradient :math:`\rho = u + l_2 (w + \delta)` that is left costs :math:`|\rho|^2
/ (2 l_2)`, which may be thousands of times the gap: its parts in directions of much curvature are
divided by the penalty's. But slopes may be changed as one likes. A change of :math:`\phi_i''
\langle x_i, e \rangle` in the rows of a sample alone, with :math:`e = -(H_S + l_2)^{-1} \rho` and
the Hessian :math:`H_S` of just these rows, leaves a bound with :math:`\tfrac12 \rho^\top (H_S +
l_2)^{-1} \rho` in place of that. With m of n rows it is at most about n / m times what the best
slopes would give, whatever the penalty, and takes no visit to the other rows. At a point itself
:math:`\rho` is the gradient, and the bound at most about n / m times the gap.

**From self-concordance.** Without a penalty there is no such bound; see ``reach``. It also
bounds the error of each weight, and proves that there is an optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antithetic.exact.linear_algebra import NotDefiniteError, Root, dependent_columns
from antithetic.exact.sums import Evaluation, Sample, Sums, Vector, Visit, rounding_of
from antithetic.problem.loss import Loss
from antithetic.problem.penalties import Penalty

_MOST_CROWDED = 0.999  # closer to 1, rounding of this very number would matter
_SERIES = 1e-3  # below it, digits of the closed form cancel
_SLACK = 1e-8  # rounding of a triangle's inverse and of its products, relative
_DEPENDENT = 1e-10  # of the size of a column: what is left of one that depends on others
_MOST_DEPENDENT = 500  # columns among which dependent ones are looked for
_LESS = 0.5  # times what it was: a bound that falls less has come to its end
_CLOSE = 2.0  # times what is allowed: a rough bound above it is not worth the exact one


def gap_of_start(
    sums: Sums, point: Evaluation, visit: Visit, allowed: float
) -> tuple[float, float]:
    """Return a bound on the gap at the start of a step, and an estimate of that bound.

    The bound is infinite if the estimate, which takes no further sums over the rows, is far above
    what is allowed.

    Parameters
    ----------
    sums : Sums
        Whose penalty has an L2 or an L1 part.
    point : Evaluation
        The start.
    visit : Visit
        To the end of the step.
    allowed : float
        Distance from the minimum that is of interest.
    """
    l2, coef = sums.penalty.l2, point.theta[: sums.d]
    estimate = _penalty_gap(sums.penalty, coef, visit.expected[: sums.d])[0] + 0.5 * visit.square
    is_costly = point.scores is None  # elsewhere, so that a cost may be another visit
    if (l2 > 0.0 or is_costly) and not estimate <= (1.0 if is_costly else _CLOSE) * allowed:
        return np.inf, estimate
    bound = np.inf
    for restored in sums.dual_points(point, visit):
        of_penalty, kept = _penalty_gap(sums.penalty, coef, restored.gradient)
        bound = min(bound, of_penalty + sums.restored_cost(point, visit, restored, kept))
        if bound < np.inf and bound <= allowed:
            break
    return bound, max(bound, estimate)


def _penalty_gap(penalty: Penalty, coef: Vector, gradient: Vector) -> tuple[float, float]:
    """Return what the penalty adds to a bound, and what all slopes are multiplied by for it."""
    l1, toward = penalty.l1, -gradient
    if penalty.l2 > 0.0:
        return _elastic_gap(coef, toward, l1, penalty.l2), 1.0
    # the dual of L1 alone is finite only if no entry exceeds l1
    largest = float(np.abs(toward).max(initial=0.0))
    kept = min(1.0, l1 / largest) if largest > 0.0 else 1.0
    return float(l1 * np.abs(coef).sum() - kept * (toward @ coef)), kept


def quick_gap(sums: Sums, point: Evaluation) -> float:
    """Estimate what :func:`certified_gap` will be; no sums over the rows are needed."""
    penalty, d = sums.penalty, sums.d
    coef = point.theta[:d]
    of_penalty, kept = _penalty_gap(penalty, coef, point.gradient[:d] - penalty.l2 * coef)
    return of_penalty + (1.0 - kept) * abs(point.objective)  # about what smaller slopes cost


def certified_gap(
    sums: Sums, point: Evaluation, sample: Sample | None = None, allowed: float = np.inf
) -> float:
    """Bound the objective's distance from its minimum; infinite without a penalty.

    With a sample, slopes of its rows are changed until the bound is what is allowed, or hardly
    falls.
    """
    if sums.penalty.l2 == 0.0 and sums.penalty.l1 == 0.0:
        return np.inf
    visit, bound = sums.stay(point), np.inf
    if sample is not None and quick_gap(sums, point) > allowed:
        for tighter in sample.tightened(point, visit):
            before, bound = bound, min(bound, gap_of_start(sums, point, tighter, np.inf)[0])
            if bound <= allowed or bound > _LESS * before:
                break
    return bound if bound < np.inf else gap_of_start(sums, point, visit, np.inf)[0]


def _elastic_gap(coef: Vector, toward: Vector, l1: float, l2: float) -> float:
    r""":math:`r(w) + r^*(v) - \langle w, v\rangle`, as a sum of terms that are not negative."""
    if l1 == 0.0:
        apart = l2 * coef - toward
        return float(apart @ apart) / (2.0 * l2)
    beyond = np.maximum(0.0, np.abs(toward) - l1)
    sign = np.sign(toward)
    apart = l2 * coef - sign * beyond
    # where |v| <= l1 the point of the dual is zero, and the straight part costs l1 |w| - v w
    along = np.where(beyond > 0.0, l1 * sign, toward) * coef
    return float(apart @ apart) / (2.0 * l2) + float((l1 * np.abs(coef) - along).sum())


# ---- from self-concordance


class Closeness(NamedTuple):
    """How near a point is to the optimum.

    Attributes
    ----------
    distance : float
        From the minimum, at most or by estimate.
    certified : bool, default=False
        Whether that is a bound. Without a penalty it then also proves that there is an optimum.
    coef_error : float, default=nan
        Bound on the error of each weight, and of each linear combination of weights, in units of
        its standard error; NaN if there is none.
    crowding : float, default=nan
        What must be below 1 for a proof; infinite if the Hessian is not definite for sure, NaN if
        no proof was tried.
    """

    distance: float
    certified: bool = False
    coef_error: float = np.nan
    crowding: float = np.nan


class Reach(NamedTuple):
    """What self-concordance proves, in units of the sum of the losses.

    Attributes
    ----------
    gap : float
        Bound on the distance from the minimum.
    distance : float
        Bound on that of the weights from the optimal ones, in the norm of the Hessian.
    """

    gap: float
    distance: float


def reach(decrement: float, kappa: float) -> Reach | None:
    r"""Return what self-concordance proves near an optimum; None if it proves nothing.

    Let a loss have :math:`|\phi'''| \le c \phi''`, let :math:`F` be the sum of the losses and the
    penalty, g its gradient and H its Hessian at w, or a matrix below that, :math:`\nu^2 = g^\top
    H^{-1} g` and :math:`\kappa = c \max_i \sqrt{x_i^\top H^{-1} x_i}`. Along a direction of length
    1 in the norm of H no prediction changes faster than :math:`\kappa / c`, so the curvature at a
    distance s is at least :math:`e^{-\kappa s}`, and the slope at least :math:`-\nu + (1 -
    e^{-\kappa s}) / \kappa`. If :math:`q = \kappa \nu < 1`, that is positive from :math:`t =
    -\log(1 - q) / \kappa` on, in all directions: there is an optimum, no further away than t, and
    integrating the slope,

    .. math:: F(w) - F^* \le \nu^2 \psi(q), \qquad \psi(q) = (q + (1 - q) \log(1 - q)) / q^2.

    Weights of the rows do not change c. No penalty is needed. With an L1 part of the penalty, g has
    the subgradient of the least size.

    Parameters
    ----------
    decrement : float
        The number :math:`\nu`.
    kappa : float

    Examples
    --------
    >>> reach(0.1, 0.0)
    Reach(gap=0.005000000000000001, distance=0.1)
    >>> reach(0.5, 2.0) is None
    True
    """
    q = kappa * decrement
    if not q <= _MOST_CROWDED:
        return None
    if q < _SERIES:
        half = 0.5 + q / 6.0 + q * q / 12.0
        return Reach(decrement**2 * half, decrement * (1.0 + q * (0.5 + q / 3.0)))
    log = float(np.log1p(-q))
    return Reach(decrement**2 * (q + (1.0 - q) * log) / (q * q), -log / kappa)


def prove(sums: Sums, point: Evaluation, hessian: Vector, estimate: float) -> Closeness:
    r"""Return what the Hessian of all rows in float64 proves of a point: one visit to the rows.

    The visit finds the largest leverage :math:`x_i^\top H^{-1} x_i`, and the gradient once more,
    in float64 and of centred columns. Rounding is allowed for: that of the Hessian's sums and its
    factor lowers its diagonal, that of the gradient's is added to its norm, and that of the
    predictions raises all of it. Where nothing is proved, the distance is an estimate.

    Columns that depend on those before them are left out, which changes no prediction: in each row
    they must be the same combination of others up to 1e-10 of their size, which is another visit.

    Parameters
    ----------
    sums : Sums
    point : Evaluation
    hessian : ndarray
        Of :meth:`antithetic.exact.sums.Sums.hessian` at the point, with ``exact=True``.
    estimate : float
        Distance from the minimum that is returned if there is no proof.
    """
    c, n, penalty = sums.loss.concordance, sums.n, sums.penalty
    if not c < np.inf:
        return Closeness(estimate)
    columns = len(point.theta)
    share = columns * (rounding_of(n) + rounding_of(columns))
    diagonal = hessian.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        lowered = share * sums.rounded_diagonal(hessian) / diagonal
    try:
        root = _inverse_root(sums, point, hessian, lowered)
    except NotDefiniteError:
        return Closeness(estimate, crowding=np.inf)
    seen = sums.largest_leverage(point, root)
    gradient = _subgradient(penalty, point.theta, seen.gradient, sums.d)
    rounding = seen.rounding.copy()
    rounding[: sums.d] += _SLACK * penalty.l2 * np.abs(point.theta[: sums.d])
    # the user's weights give predictions that differ by rounding, and so do curvatures
    stretch = float(np.exp(c * seen.of_scores)) * (1.0 + _SLACK)
    size = np.linalg.norm(root @ gradient) + np.linalg.norm(np.abs(root) @ rounding)
    decrement = float(stretch * np.sqrt(n) * size)
    kappa = float(stretch * c * np.sqrt(seen.largest / n))
    crowding = kappa * decrement
    found = reach(decrement, kappa)
    if found is None:
        return Closeness(estimate, crowding=crowding if crowding >= 0.0 else np.inf)
    error = in_standard_errors(found.distance, seen.pearson, n, columns, sums.loss)
    return Closeness(found.gap / n, True, error, crowding)


def _inverse_root(sums: Sums, point: Evaluation, hessian: Vector, lowered: Vector) -> Vector:
    """Triangle whose square is above the inverse, with zeros for columns that depend on others."""
    try:
        return Root(hessian, lowered).inverse_root()
    except NotDefiniteError:
        if len(hessian) > _MOST_DEPENDENT:
            raise
    kept, combinations = dependent_columns(hessian, max(1e-12, float(lowered.max())))
    root, own = np.zeros_like(hessian), np.ix_(kept, kept)
    root[own] = Root(hessian[own], lowered[kept]).inverse_root()
    left = sums.largest_leverage(point, combinations).largest
    if not left <= _DEPENDENT**2:
        raise NotDefiniteError("columns depend on others in most rows, but not in all")
    return root


def in_standard_errors(
    distance: float, pearson: float, rows: int, columns: int, loss: Loss
) -> float:
    """Return a distance in the norm of the Hessian, in standard errors.

    The inverse of the Hessian is the covariance of the weights, times the dispersion where the loss
    has one: the squared residuals in units of the variance function, per degree of freedom. NaN if
    there is no degree of freedom.
    """
    if loss.has_known_dispersion:
        return distance
    if rows <= columns or not pearson > 0.0:
        return np.nan
    return distance / float(np.sqrt(rows * pearson / (rows - columns)))


def error_of_squares(
    loss: Loss, rows: int, columns: int, mean_loss: float, distance: float
) -> float:
    """Return what a bound on the gap of squared errors says of the weights, in standard errors.

    Half the squared distance of the weights from the optimal ones, in the norm of the Hessian, is
    the gap, or less with an L1 penalty.
    """
    moved = float(np.sqrt(2.0 * rows * distance))
    return in_standard_errors(moved, 2.0 * mean_loss, rows, columns, loss)


def _subgradient(penalty: Penalty, theta: Vector, data: Vector, d: int) -> Vector:
    """Subgradient of the least size at a point, from the gradient of the mean loss."""
    gradient, coef = data.copy(), theta[:d]
    gradient[:d] += penalty.l2 * coef
    if penalty.l1 > 0.0:
        own = gradient[:d]
        at_zero = np.sign(own) * np.maximum(np.abs(own) - penalty.l1, 0.0)
        gradient[:d] = np.where(coef != 0.0, own + penalty.l1 * np.sign(coef), at_zero)
    return gradient
