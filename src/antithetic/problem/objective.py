r"""The objective :math:`f(w) = \frac1n \sum_i s_i\,\phi(y_i, \langle w, x_i \rangle) + r(w)`.

The data gradient of a row is one number times the row, :math:`g_i = c_i x_i` with :math:`c_i = s_i
\phi'`, so everything here is computed from the slopes :math:`c` and from products with X. The
penalty adds no variance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._util.validation import (
    Matrix,
    block_rows,
    check_coef,
    check_column,
    check_labels,
    check_number,
    check_rows,
    check_weights,
    power_of_two_near,
)
from antithetic.problem.losses import Loss, get_loss
from antithetic.problem.penalties import Penalty, make_penalty

# Sums that overflow become infinite or NaN without a warning: callers check for this.
_may_overflow = np.errstate(over="ignore", invalid="ignore")
_Solution = tuple[NDArray[Any], float]


@cache
def _loss_of_zero(loss: Loss) -> float:
    """Loss of the prediction zero for the label 1."""
    return float(loss.value(1.0, 0.0)[0])


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows, labels, weights, a loss and a penalty: the objective mean loss + penalty.

    It also has the gradient, and the variance of drawn gradients.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows, float32 or float64.
    y : ndarray of shape (n,)
        Signs -1 and +1 for a classification loss, numbers for regression.
    loss : Loss
    penalty : ElasticNet, GroupNorms or OwnPenalty
    weight : ndarray of shape (n,) or None
        Weights of the rows; None where all are 1.
    fit_intercept : bool
        Whether predictions have an intercept, which is not penalised.
    classes : ndarray of shape (2,) or None
        The labels that became -1 and +1.
    """

    X: Matrix
    y: NDArray[np.float64]
    loss: Loss
    penalty: Penalty
    weight: NDArray[np.float64] | None
    fit_intercept: bool
    classes: NDArray[Any] | None
    # rows, labels and weights as the kernels see them, checked once
    rows: kernels.Rows = field(init=False, repr=False)
    targets: kernels.Targets = field(init=False, repr=False)
    _at_zero: list[float] = field(init=False, repr=False, default_factory=list)  # once it is known

    def __post_init__(self) -> None:
        self.loss.check_targets(self.y)
        weight = np.empty(0) if self.weight is None else np.ascontiguousarray(self.weight)
        targets = kernels.Targets(np.ascontiguousarray(self.y), weight)
        object.__setattr__(self, "rows", kernel_rows(self.X))
        object.__setattr__(self, "targets", targets)

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.X, self.y, self.loss, self.penalty, self.weight, self.fit_intercept)
        return Problem, (*given, self.classes)

    @classmethod
    def build(
        cls,
        X: Any,
        y: Any,
        *,
        loss: str | Loss = "log_loss",
        l2: float = 0.0,
        l1: float = 0.0,
        penalty: Any = None,
        sample_weight: Any = None,
        fit_intercept: bool = False,
    ) -> Problem:
        """Check the user's input and make a problem from it."""
        loss = get_loss(loss)
        X = check_rows(X)
        n, d = X.shape
        found = make_penalty(penalty, d, l2=l2, l1=l1)
        signs, classes = (
            check_labels(y, n) if loss.classification else (check_column(y, n, "y"), None)
        )
        return cls(
            X, signs, loss, found, check_weights(sample_weight, n), bool(fit_intercept), classes
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def codes(self) -> NDArray[np.intp]:
        """Class of each row of a classification, from 0."""
        return (self.y > 0.0).astype(np.intp)

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return self.d

    def predictions(self, coef: Any, intercept: float = 0.0) -> NDArray[np.float64]:
        """Linear predictions of all rows, shape (n,)."""
        return self._predictions(check_coef(coef, self.d), intercept)

    @_may_overflow
    def _predictions(self, coef: NDArray[np.float64], intercept: float) -> NDArray[np.float64]:
        p: NDArray[np.float64] = (self.X @ coef.astype(self.X.dtype, copy=False)).astype(
            np.float64, copy=False
        )
        if intercept != 0.0:
            p += intercept
        return p

    @_may_overflow
    def slopes(self, coef: Any = None, intercept: float = 0.0) -> NDArray[np.float64]:
        """Weighted slope of each row's loss, (n,): row i has the gradient ``slopes[i] * X[i]``."""
        intercept = check_number(intercept, "intercept")
        p = np.full(self.n, intercept) if coef is None else self.predictions(coef, intercept)
        return self._weigh(self.loss.slope(self.y, p))

    def objective(self, coef: Any, intercept: float = 0.0) -> float:
        """Mean loss plus penalty."""
        return self.objective_of(check_coef(coef, self.d), intercept)

    def objective_of(self, coef: NDArray[Any], intercept: float) -> float:
        """Mean loss plus penalty of weights that a solver made: they are not checked again."""
        kind, loss = self.X.dtype, (self.loss.code, self.loss.epsilon)
        weights, none = np.ascontiguousarray(coef, kind), np.empty(0, kind)
        total, _ = self.rows.losses_at(self.targets, *loss, weights, intercept, none, 0.0)
        return total / len(self.y) + self.penalty.value(coef)

    def objectives_of(self, one: _Solution, other: _Solution) -> tuple[float, float]:
        """Objectives of two solutions, in one visit to the rows."""
        kind, loss = self.X.dtype, (self.loss.code, self.loss.epsilon)
        first, second = (np.ascontiguousarray(coef, kind) for coef, _ in (one, other))
        totals = self.rows.losses_at(self.targets, *loss, first, one[1], second, other[1])
        own, others = (total / self.n for total in totals)
        return own + self.penalty.value(one[0]), others + self.penalty.value(other[0])

    def mean_loss(self, predictions: NDArray[np.float64]) -> float:
        """Weighted mean loss of the given predictions, shape (n,)."""
        return self.loss.mean(self.y, predictions, self.weight)

    def loss_at_zero(self) -> float:
        """Weighted mean loss where every prediction is zero."""
        if not self.loss.classification:
            if not self._at_zero:
                self._at_zero.append(self.mean_loss(np.zeros(self.n)))
            return self._at_zero[0]
        one = _loss_of_zero(self.loss)  # the same for both signs
        return one if self.weight is None else one * float(self.weight.mean())

    def _weigh(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.weight is None:
            return values
        # An infinite loss of weight 0 counts as 0.
        return np.multiply(values, self.weight, out=np.zeros(self.n), where=self.weight > 0.0)

    def gradient(self, coef: Any, intercept: float = 0.0) -> tuple[NDArray[np.float64], float]:
        """Gradient in coef and intercept of the mean loss and the quadratic part of the penalty."""
        data, constant = self.data_gradient(self.slopes(coef, intercept))
        return data + self.penalty.smooth_gradient(check_coef(coef, self.d)), constant

    @_may_overflow
    def data_gradient(self, slopes: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Mean over all rows of their gradients, in coef and intercept (0 without one)."""
        data = (self.X.T @ slopes.astype(self.X.dtype, copy=False)).astype(
            np.float64, copy=False
        ) / self.n
        return data, float(slopes.mean()) if self.fit_intercept else 0.0

    @_may_overflow
    def centred_gradient(self, slopes: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Mean gradient of the rows, corrected for rounding.

        Rows that are all equal do not deviate from it.
        """
        centre, constant = self.data_gradient(slopes)
        left, block = np.zeros(self.d), block_rows(self.X)
        everyone = np.arange(self.n)[:, None]
        for start in range(0, self.n, block):
            part = slice(start, start + block)
            left += deviations(self._group_gradients(slopes[part, None], everyone[part]), centre)[1]
        return centre + left / self.n, constant

    @_may_overflow
    def group_variance(
        self,
        slopes: NDArray[np.float64],
        groups: NDArray[np.intp] | None = None,
        *,
        halves: bool = False,
    ) -> float:
        r"""Exact variance of the mean gradient of a group that is drawn uniformly.

        This is :math:`\frac1K \sum_k |u_k - \bar u|^2` with the mean gradient :math:`u_k` of group
        k.

        Parameters
        ----------
        slopes : ndarray of shape (n,)
            See :meth:`slopes`.
        groups : ndarray of shape (K, m) or None
            Rows of each group; None means that each row is its own.
        halves : bool, default=False
            For groups of two: the mean square of half the difference of the two gradients instead,
            the variance inside the groups.

        Notes
        -----
        O(n d) time (stored entries for CSR) and one bounded block of memory. Rows are added
        first and centred next, so that gradients which cancel lose no digits. A variance below what
        rounding alone can make of equal groups is given as 0.
        """
        if groups is None:
            groups = np.arange(self.n)[:, None]
        if halves:
            return self.group_spread(
                slopes, groups, (np.zeros(self.d), 0.0), signs=np.array([1.0, -1.0])
            )
        drawn = np.bincount(groups.ravel(), minlength=self.n) * (self.n / groups.size)
        return self.group_spread(slopes, groups, self.data_gradient(slopes * drawn), is_mean=True)

    @_may_overflow
    def group_spread(
        self,
        slopes: NDArray[np.float64],
        groups: NDArray[np.intp],
        centre: tuple[NDArray[np.float64], float],
        *,
        signs: NDArray[np.float64] | None = None,
        is_mean: bool = False,
    ) -> float:
        """Mean squared distance of the groups' mean gradients from a centre (coef and intercept).

        Members may be given signs.

        Where the centre is meant to be the mean, what rounding made of it is taken out again.
        """
        shares = slopes[groups] / groups.shape[1]
        if signs is not None:
            shares = shares * signs
        block = max(1, block_rows(self.X) // groups.shape[1])
        total, left = 0.0, np.zeros(self.d)
        for start in range(0, len(groups), block):
            part = slice(start, start + block)
            squares, sums = deviations(self._group_gradients(shares[part], groups[part]), centre[0])
            total += squares
            left += sums
        if self.fit_intercept:
            total += float(((shares.sum(axis=1) - centre[1]) ** 2).sum())
        spread = total / len(groups)
        if is_mean:
            spread -= float(left @ left) / len(groups) ** 2  # NaN where both overflow
        # what rounding alone can make of groups that are all equal: less than this is zero
        square = spread + centre[0] @ centre[0] + centre[1] * centre[1]
        rounding = square * (4.0 * np.finfo(self.X.dtype).eps) ** 2
        return 0.0 if spread <= rounding < np.inf else spread

    @_may_overflow
    def unit_variance(
        self,
        slopes: NDArray[np.float64],
        rows: NDArray[np.intp],
        starts: NDArray[np.intp],
        chances: NDArray[np.float64],
        factors: NDArray[np.float64] | None = None,
    ) -> float:
        r"""Exact variance of the mean gradient of a drawn unit, times a factor.

        This is :math:`\sum_k p_k |a_k u_k - \sum_l p_l a_l u_l|^2` with the mean gradient
        :math:`u_k` of unit k.

        Parameters
        ----------
        slopes : ndarray of shape (n,)
            See :meth:`slopes`.
        rows : ndarray of intp
            Rows of all units, one unit after the other.
        starts : ndarray of intp of shape (K + 1,)
            Unit k is ``rows[starts[k]:starts[k + 1]]``; units may have different numbers of rows,
            at least one each.
        chances : ndarray of shape (K,)
            Probability :math:`p_k` that unit k is drawn; they sum to 1.
        factors : ndarray of shape (K,) or None
            What the unit's mean gradient is multiplied by; None means 1.

        Notes
        -----
        O(n d) time in two passes (stored entries for CSR) and one bounded block of memory;
        nothing cancels, as in :meth:`group_variance`.
        """
        sizes = np.diff(starts)
        scale = 1.0 / sizes if factors is None else factors / sizes
        shares = slopes[rows] * np.repeat(scale, sizes)
        block = max(1, block_rows(self.X) // int(sizes.max()))
        parts = [
            slice(start, min(start + block, len(sizes))) for start in range(0, len(sizes), block)
        ]

        def vectors(part: slice) -> Matrix:
            within = slice(starts[part.start], starts[part.stop])
            return self._sums(
                shares[within],
                rows[within],
                starts[part.start : part.stop + 1] - starts[part.start],
            )

        centre = sum((vectors(part).T @ chances[part] for part in parts), np.zeros(self.d))
        total, left, square = 0.0, np.zeros(self.d), float(centre @ centre)
        for part in parts:
            squares, sums = weighted_deviations(vectors(part), centre, chances[part])
            total += squares
            left += sums
        total -= float(left @ left)  # what rounding made of the centre
        if self.fit_intercept:
            constants = np.add.reduceat(shares, starts[:-1])
            constant = float(chances @ constants)
            total += float(
                chances @ (constants - constant) ** 2 - (chances @ (constants - constant)) ** 2
            )
            square += constant * constant
        # what rounding alone can make of units that are all equal, factors included: less than this
        # is zero
        rounding = (total + square) * (8.0 * np.finfo(self.X.dtype).eps) ** 2
        return 0.0 if total <= rounding < np.inf else total

    def row_curvature(self) -> float:
        """Curvature of the objective along a mean row.

        The loss's bound times the mean of ``s |x|^2``, plus the curvature of the penalty.

        A loss with a kink counts as one of curvature 1. Infinite where the squares overflow.
        """
        entries = self.X.data if sparse.issparse(self.X) else self.X.ravel()
        with np.errstate(over="ignore"):
            if self.weight is None:
                square = float(np.einsum("i,i->", entries, entries, dtype=np.float64))
            elif sparse.issparse(self.X):
                square = float(
                    np.einsum(
                        "i,i,i->", np.repeat(self.weight, np.diff(self.X.indptr)), entries, entries
                    )
                )
            else:
                square = float(np.einsum("i,ij,ij->", self.weight, self.X, self.X))
        weight = self.n if self.weight is None else float(self.weight.sum())
        curvature = self.loss.typical_curvature(self.y, self.fit_intercept)
        return curvature * (square + self.fit_intercept * weight) / self.n + self.penalty.l2

    def safe_unit(self, slopes: NDArray[np.float64]) -> float:
        """Power of two that scales gradients so that their squares neither overflow nor vanish."""
        values = self.X.data if sparse.issparse(self.X) else self.X
        return power_of_two_near(values, float(self.fit_intercept)) * power_of_two_near(slopes)

    def _group_gradients(self, shares: NDArray[np.float64], groups: NDArray[np.intp]) -> Matrix:
        return self._sums(
            shares.ravel(), groups.ravel(), np.arange(0, groups.size + 1, groups.shape[1])
        )

    def _sums(
        self, shares: NDArray[np.float64], rows: NDArray[np.intp], starts: NDArray[np.intp]
    ) -> Matrix:
        # one sparse row per group; its product with X adds the group's rows without gathering them
        selector = sparse.csr_array(
            (shares.astype(self.X.dtype, copy=False), rows, starts), shape=(len(starts) - 1, self.n)
        )
        return selector @ self.X


def kernel_rows(X: Matrix) -> kernels.Rows:
    """Rows as the kernels see them; no copy is made of C-contiguous or CSR rows."""
    if not sparse.issparse(X):
        return kernels.Rows.dense(np.ascontiguousarray(X))
    kind = np.result_type(X.indices, X.indptr)
    indices, indptr = (part.astype(kind, copy=False) for part in (X.indices, X.indptr))
    return kernels.Rows.csr(X.data, indices, indptr, X.shape[1])


def deviations(vectors: Matrix, centre: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Sum over the rows of ``|row - centre|^2``, and of ``row - centre``.

    Only terms of one sign are added: no digit cancels.
    """
    if sparse.issparse(vectors):  # the zeros of a column all deviate alike
        stored = vectors.data - centre[vectors.indices]
        zeros = vectors.shape[0] - np.bincount(vectors.indices, minlength=len(centre))
        sums = np.bincount(vectors.indices, weights=stored, minlength=len(centre)) - zeros * centre
        return float(stored @ stored + zeros @ (centre * centre)), sums
    centred = vectors - centre
    return float(np.einsum("ij,ij->", centred, centred)), centred.sum(axis=0)


def weighted_deviations(
    vectors: Matrix, centre: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """:func:`deviations` with a weight for each row."""
    if sparse.issparse(vectors):
        stored = vectors.data - centre[vectors.indices]
        weighted = np.repeat(weights, np.diff(vectors.indptr)) * stored
        there = np.bincount(vectors.indices, minlength=len(centre))
        weight = np.bincount(
            vectors.indices,
            weights=np.repeat(weights, np.diff(vectors.indptr)),
            minlength=len(centre),
        )
        # a column without zeros has exactly none: the difference of two sums would leave what
        # rounding made of it
        zeros = np.where(there == vectors.shape[0], 0.0, np.maximum(0.0, weights.sum() - weight))
        sums = (
            np.bincount(vectors.indices, weights=weighted, minlength=len(centre)) - zeros * centre
        )
        return float(stored @ weighted + zeros @ (centre * centre)), sums
    centred = vectors - centre
    return float(np.einsum("i,ij,ij->", weights, centred, centred)), weights @ centred
