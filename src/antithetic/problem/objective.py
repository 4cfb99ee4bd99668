r"""The objective :math:`f(w) = \frac1n \sum_i s_i\,\phi(y_i, \langle w, x_i \rangle) + r(w)`.

The data gradient of a row is one number times the row, :math:`g_i = c_i x_i` with :math:`c_i = s_i
\phi'`, so everything here is computed from the slopes :math:`c` and from products with X. The
penalty adds no variance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._util.validation import (
    Matrix,
    check_coef,
    check_column,
    check_labels,
    check_number,
    check_rows,
    check_weights,
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
    n, d : int
        Numbers of rows and features.
    """

    X: Matrix
    y: NDArray[np.float64]
    loss: Loss
    penalty: Penalty
    weight: NDArray[np.float64] | None
    fit_intercept: bool
    classes: NDArray[Any] | None
    n: int = field(init=False, repr=False)
    d: int = field(init=False, repr=False)
    # rows, labels and weights as the kernels see them, checked once
    rows: kernels.Rows = field(init=False, repr=False)
    targets: kernels.Targets = field(init=False, repr=False)
    _at_zero: list[float] = field(init=False, repr=False, default_factory=list)  # once it is known

    def __post_init__(self) -> None:
        self.loss.check_targets(self.y)
        weight = np.empty(0) if self.weight is None else np.ascontiguousarray(self.weight)
        targets = kernels.Targets(np.ascontiguousarray(self.y), weight)
        n, d = self.X.shape
        object.__setattr__(self, "n", int(n))
        object.__setattr__(self, "d", int(d))
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
    def codes(self) -> NDArray[np.intp]:
        """Class of each row of a classification, from 0."""
        return (self.y > 0.0).astype(np.intp)

    def take(self, rows: NDArray[np.intp], factor: NDArray[np.float64] | None = None) -> Self:
        """Return some of the rows, whose weights may be multiplied."""
        weight = factor
        if self.weight is not None:
            weight = self.weight[rows] * (1.0 if factor is None else factor)
        X = self.X[rows] if sparse.issparse(self.X) else self.X.take(rows, axis=0)
        return replace(self, X=X, y=self.y[rows], weight=weight)

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
        first = np.ascontiguousarray(one[0], kind)
        second = np.ascontiguousarray(other[0], kind)
        own, others = self.rows.losses_at(self.targets, *loss, first, one[1], second, other[1])
        n, value = len(self.y), self.penalty.value
        return own / n + value(one[0]), others / n + value(other[0])

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


def kernel_rows(X: Matrix) -> kernels.Rows:
    """Rows as the kernels see them; no copy is made of C-contiguous or CSR rows."""
    if not sparse.issparse(X):
        return kernels.Rows.dense(np.ascontiguousarray(X))
    kind = np.result_type(X.indices, X.indptr)
    indices, indptr = (part.astype(kind, copy=False) for part in (X.indices, X.indptr))
    return kernels.Rows.csr(X.data, indices, indptr, X.shape[1])
