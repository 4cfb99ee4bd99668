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

from antithetic.exact.linear_algebra import Root
from antithetic.exact.sums import Vector
from antithetic.inference.fitted import Fitted

KINDS = ("classical", "HC0", "HC1", "HC2", "HC3", "clustered")
_NOTHING = 1e-9  # of a row whose leverage is that close to 1


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
    """Return the trace of ``H^-1`` times the Hessian of the data: the weights, less shrinkage."""
    flat = fitted.p * (fitted.n_classes - 1) if fitted.n_classes > 1 else fitted.p
    if not fitted.penalty.any():
        return float(flat)
    inverse = np.diag(root.inverse()).reshape(fitted.n_classes, fitted.p)
    free = int((fitted.penalty == 0.0).sum())
    lost = 1 if fitted.n_classes > 1 else 0  # of free columns, one class is determined by others
    return fitted.n_classes * fitted.p - lost * free - float((inverse * fitted.penalty).sum())


def dispersion(fitted: Fitted, counts: Counts) -> float:
    """Return Pearson's estimate of the dispersion; 1 for classes and counts, where it is known."""
    if fitted.loss.has_known_dispersion:
        return 1.0
    squares = fitted.loss.pearson(fitted.y, fitted.scores)
    return float(fitted.weight @ squares) / counts.check_left("the dispersion")


def expected_root(fitted: Fitted, root: Root) -> Root:
    """Factor of the expected information; for most losses ``root``, that of the Hessian."""
    if fitted.loss.name not in ("gamma", "tweedie"):
        return root
    return fitted.root(fitted.weight * np.exp((2.0 - fitted.loss.epsilon) * fitted.scores))


def middle(
    fitted: Fitted,
    root: Root,
    counts: Counts,
    kind: str,
    clusters: NDArray[np.intp] | None = None,
) -> Vector:
    """Return the sum of squared gradients of rows or clusters, in the units of the root.

    With T the inverse root of the Hessian, the covariance is T' times this times T. In these units
    columns that nearly depend on each other lose no digits.
    """
    # a row that stands for m equal ones has m of their gradients, not m^2 of one
    each = np.divide(
        fitted.weight, counts.copies, out=np.zeros(fitted.n), where=counts.copies > 0.0
    )
    total: Vector = np.zeros((fitted.n_classes * fitted.p,) * 2)
    if kind == "clustered":
        assert clusters is not None
        for sums in _sums_of_clusters(fitted, root, clusters):
            total += sums.T @ sums
        groups = count_groups(fitted, clusters)
        factor = groups / (groups - 1.0) * (counts.rows - 1.0)
        return total * (factor / counts.check_left("clustered errors"))
    share = np.sqrt(counts.copies) * each
    if kind in ("HC2", "HC3"):
        share *= _without_own_part(fitted, root, each, kind)
    for _, gradients in _row_gradients(fitted, share):
        halves = root.halves(gradients)
        total += halves.T @ halves
    if kind == "HC1":
        total *= counts.rows / counts.check_left("HC1")
    return total


def count_groups(fitted: Fitted, clusters: NDArray[np.intp]) -> int:
    """Count the clusters with a row of positive weight; ValueError if there are fewer than two."""
    found = len(np.unique(clusters[fitted.weight > 0.0]))
    if found < 2:
        raise ValueError("groups has one group only; clustered errors need at least two")
    return found


def _without_own_part(fitted: Fitted, root: Root, each: Vector, kind: str) -> Vector:
    """Return the factors of the slopes for HC2 and HC3.

    Each row has drawn its own prediction towards its target; the factors make up for that.
    """
    if fitted.n_classes > 1:
        raise ValueError(f"{kind} is not supported for more than two classes; use HC0 or HC1")
    left = 1.0 - each * fitted.curvatures * fitted.leverages(root)
    if (left <= _NOTHING).any():
        raise ValueError(
            f"{kind} is not defined: row {int(np.argmin(left))} has leverage 1, it is alone in"
            " determining a weight; use HC0 or HC1"
        )
    return 1.0 / np.sqrt(left) if kind == "HC2" else 1.0 / left


def _sums_of_clusters(fitted: Fitted, root: Root, clusters: NDArray[np.intp]) -> Iterator[Vector]:
    """Yield sums of the gradients of each cluster, many clusters at a time."""
    order = np.argsort(clusters, kind="stable")
    unfinished, cluster = np.zeros((1, fitted.n_classes * fitted.p)), -1
    for place, gradients in _row_gradients(fitted, fitted.weight, order):
        found = clusters[order[place]]
        starts = np.flatnonzero(np.diff(found, prepend=-1))
        sums = np.add.reduceat(root.halves(gradients), starts, axis=0)
        if found[0] == cluster:
            sums[0] += unfinished[0]
        else:
            yield unfinished
        unfinished, cluster = sums[-1:], found[-1]
        yield sums[:-1]
    yield unfinished


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
    """Return the matrix from weights of centred columns to those of the given, intercept first."""
    d = len(fitted.centre)
    if not fitted.fit_intercept:
        return np.eye(d)
    found = np.zeros((d + 1, d + 1))
    found[0, :d], found[0, d] = -fitted.centre, 1.0
    found[1:, :d] = np.eye(d)
    return found


def contrasts(k: int, reference: int | None) -> Vector:
    """Return the matrix from weights of k classes to differences from one, or from their mean."""
    if reference is None:
        return np.eye(k) - 1.0 / k
    found = np.eye(k)
    found[:, reference] -= 1.0
    return np.delete(found, reference, axis=0)
