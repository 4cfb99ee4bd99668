r"""Covariances of fitted weights: classical, robust (HC0 to HC3) and clustered.

With the Hessian H of the summed objective, the row gradients :math:`u_i x_i` (:math:`u_i` is the
slope of row i) and the dispersion :math:`\hat\phi`:

- *classical*: :math:`\hat\phi H^{-1}`, with the expected information, which differs from the
  Hessian for gamma and Tweedie losses;
- *robust*: :math:`H^{-1} \bigl(\sum_i u_i^2 x_i x_i'\bigr) H^{-1}`, with the Hessian itself. HC1
  multiplies it by n / (n - k); HC2 and HC3 divide :math:`u_i^2` by :math:`1 - h_i` and its square,
  :math:`h_i` the row's leverage;
- *clustered*: the sum of squares over clusters of rows, of the sums of their gradients, times
  :math:`\frac{G}{G-1} \frac{n-1}{n-k}` for G clusters.

Everything is for centred columns, the intercept last; `to_given_columns` translates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.inference.fitted import Fitted, Root, Vector

KINDS = ("classical", "HC0", "HC1", "HC2", "HC3", "clustered")
_ONE = 1e-9  # a leverage this close to 1 leaves nothing of its row


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How rows count.

    Attributes
    ----------
    copies : ndarray of shape (n,)
        Number of observations that a row stands for: its weight, if weights are frequencies.
    rows : float
        Number of observations.
    weights : float
        Number of weights that were estimated; with a penalty, their effective number.
    """

    copies: Vector
    rows: float
    weights: float

    @property
    def left(self) -> float:
        """Degrees of freedom that are left."""
        return self.rows - self.weights

    def check_left(self, what: str) -> float:
        """Return the degrees of freedom; ValueError if there are none."""
        if not self.left > 0.0:
            raise ValueError(
                f"{what} needs more observations than weights; got {self.rows:g} observations and"
                f" {self.weights:g} weights"
            )
        return self.left


def effective_weights(fitted: Fitted, root: Root) -> float:
    """Trace of ``H^-1`` times the Hessian of the data: the number of weights, less shrinkage."""
    flat = fitted.p * (fitted.n_classes - 1) if fitted.n_classes > 1 else fitted.p
    if not fitted.penalty.any():
        return float(flat)
    inverse = np.diag(root.inverse()).reshape(fitted.n_classes, fitted.p)
    free = int((fitted.penalty == 0.0).sum())
    lost = 1 if fitted.n_classes > 1 else 0  # of free columns, one class is determined by others
    return fitted.n_classes * fitted.p - lost * free - float((inverse * fitted.penalty).sum())


def dispersion(fitted: Fitted, counts: Counts) -> float:
    """Pearson's estimate of the dispersion; 1 for classes and counts, where it is known."""
    if not has_dispersion(fitted):
        return 1.0
    means = fitted.loss.means(fitted.scores)
    squares = fitted.weight * (fitted.y - means) ** 2 / variances(fitted, means)
    return float(squares.sum()) / counts.check_left("the dispersion")


def has_dispersion(fitted: Fitted) -> bool:
    """Whether the loss has a dispersion that is estimated."""
    return fitted.loss.name in ("squared_error", "gamma", "tweedie")


def variances(fitted: Fitted, means: Vector) -> Vector:
    """Variance of each target, over the dispersion."""
    return means**fitted.loss.epsilon if fitted.loss.has_log_link else np.ones_like(means)


def expected_root(fitted: Fitted, root: Root) -> Root:
    """Factor of the expected information; for most losses ``root``, that of the Hessian."""
    if fitted.loss.name not in ("gamma", "tweedie"):
        return root
    means = fitted.loss.means(fitted.scores)
    return fitted.root(fitted.weight * means**2 / variances(fitted, means))


def sandwich(
    fitted: Fitted,
    root: Root,
    counts: Counts,
    kind: str,
    clusters: NDArray[np.intp] | None = None,
) -> Vector:
    """Return the robust or clustered covariance, shape (p, p), or (K p, K p) by classes."""
    if kind == "clustered":
        assert clusters is not None
        meat = _clustered_meat(fitted, counts, clusters)
    else:
        meat = _meat(fitted, root, counts, kind)
    if kind == "HC1":
        meat *= counts.rows / counts.check_left("HC1")
    half = root.solve(meat)
    covariance = root.solve(half.T)
    return (covariance + covariance.T) / 2.0


def _meat(fitted: Fitted, root: Root, counts: Counts, kind: str) -> Vector:
    """Sum of squared row gradients."""
    # a row that stands for m equal ones has m of their gradients, not m^2 of one
    each = np.divide(
        fitted.weight, counts.copies, out=np.zeros(fitted.n), where=counts.copies > 0.0
    )
    if fitted.n_classes == 1:
        squares = (each * fitted.slopes) ** 2
        if kind in ("HC2", "HC3"):
            leverages = each * fitted.curvatures * fitted.leverages(root)
            if (leverages >= 1.0 - _ONE).any():
                raise ValueError(
                    f"{kind} is not defined: row {int(np.argmax(leverages))} has leverage 1, it is"
                    " alone in determining a weight; use HC0 or HC1"
                )
            squares /= (1.0 - leverages) ** (1 if kind == "HC2" else 2)
        return fitted.gram(counts.copies * squares)
    if kind in ("HC2", "HC3"):
        raise ValueError(f"{kind} is not supported for more than two classes; use HC0 or HC1")
    total = np.zeros((fitted.n_classes * fitted.p,) * 2)
    for place, gradients in _row_gradients(fitted, each):
        total += (gradients * counts.copies[place][:, None]).T @ gradients
    return total


def _clustered_meat(fitted: Fitted, counts: Counts, clusters: NDArray[np.intp]) -> Vector:
    """Sum of squared gradients of clusters, with the correction for few of them."""
    used = np.unique(clusters[fitted.weight > 0.0])
    if len(used) < 2:
        raise ValueError("groups has one group only; clustered errors need at least two")
    order, size = np.argsort(clusters, kind="stable"), fitted.n_classes * fitted.p
    total, open_sum, open_cluster = np.zeros((size, size)), np.zeros(size), -1
    for place, gradients in _row_gradients(fitted, fitted.weight, order):
        found = clusters[order[place]]
        starts = np.flatnonzero(np.diff(found, prepend=-1))
        sums = np.add.reduceat(gradients, starts, axis=0)
        if found[0] == open_cluster:
            sums[0] += open_sum
        else:
            total += np.outer(open_sum, open_sum)
        open_sum, open_cluster = sums[-1], found[-1]
        total += sums[:-1].T @ sums[:-1]
    total += np.outer(open_sum, open_sum)
    factor = len(used) / (len(used) - 1) * (counts.rows - 1.0)
    return total * (factor / counts.check_left("clustered errors"))


def _row_gradients(
    fitted: Fitted, weight: Vector, chosen: NDArray[np.intp] | None = None
) -> Iterator[tuple[slice, Vector]]:
    """Yield places and gradients of rows, of many classes one class after the other."""
    slopes = fitted.slopes.reshape(fitted.n, -1) * weight[:, None]
    for place, block in fitted.blocks(chosen):
        size = max(1, len(block) // fitted.n_classes)
        for start in range(0, len(block), size):
            part = slice(place.start + start, min(place.start + start + size, place.stop))
            of_rows = slopes[part if chosen is None else chosen[part]]
            rows = block[start : start + size]
            yield part, (of_rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


def to_given_columns(fitted: Fitted) -> Vector:
    """Matrix that turns weights of centred columns to those of the given, intercept first."""
    d = len(fitted.centre)
    if not fitted.fit_intercept:
        return np.eye(d)
    found = np.zeros((d + 1, d + 1))
    found[0, :d], found[0, d] = -fitted.centre, 1.0
    found[1:, :d] = np.eye(d)
    return found


def contrasts(k: int, reference: int | None) -> Vector:
    """Matrix that takes weights of k classes to differences from one, or from their mean."""
    if reference is None:
        return np.eye(k) - 1.0 / k
    found = np.eye(k)
    found[:, reference] -= 1.0
    return np.delete(found, reference, axis=0)
