r"""All classes in one problem: mean cross-entropy of a softmax over classes, plus a penalty.

With one row of weights :math:`w_k` and one intercept :math:`b_k` for each of K classes, the
objective is

.. math:: f(W, b) = \frac1n \sum_i s_i \left(\log \sum_k e^{\langle w_k, x_i\rangle + b_k}
    - \langle w_{y_i}, x_i\rangle - b_{y_i}\right) + r(W).

The gradient of a row is the row times a vector of slopes, one per class: the probabilities, less 1
for the row's own class. Weights are one vector, class after class, so that penalties, steps and
stopping rules work as for other losses. There is one intercept per class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._util.validation import (
    BLOCK_ENTRIES,
    block_rows,
    check_classes,
    check_coef,
    check_rows,
    check_weights,
)
from antithetic.problem.losses import SOFTMAX, Loss
from antithetic.problem.objective import Problem
from antithetic.problem.penalties import make_penalty

Intercepts = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxProblem(Problem):
    """A classification with one row of weights per class.

    ``y`` holds codes from 0, and ``classes`` the labels they stand for. Weights are vectors of
    shape (n_classes * d,), or of shape (n_classes, d); intercepts have shape (n_classes,).

    Attributes
    ----------
    n_classes : int
        At least 2. Some classes may have no rows.
    """

    n_classes: int

    def __post_init__(self) -> None:
        Problem.__post_init__(self)
        if self.n_classes < 2:
            raise ValueError(f"softmax needs at least two classes; got {self.n_classes}")

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.X, self.y, self.loss, self.penalty, self.weight, self.fit_intercept)
        return SoftmaxProblem, (*given, self.classes, self.n_classes)

    @property
    def n_weights(self) -> int:
        """Number of weights of all classes."""
        return self.n_classes * self.d

    @property
    def codes(self) -> NDArray[np.intp]:
        """Class of each row, from 0."""
        return self.y.astype(np.intp)

    @property
    def class_targets(self) -> kernels.ClassTargets:
        """Class codes and row weights in the form that the kernels take."""
        weight = np.empty(0) if self.weight is None else np.ascontiguousarray(self.weight)
        return kernels.ClassTargets(self.codes, weight, self.n_classes)

    @classmethod
    def build(
        cls,
        X: Any,
        y: Any,
        *,
        loss: str | Loss = "softmax",  # noqa: ARG003 - there is one
        l2: float = 0.0,
        l1: float = 0.0,
        penalty: Any = None,
        sample_weight: Any = None,
        fit_intercept: bool = False,
    ) -> SoftmaxProblem:
        """Check the arguments and build the problem."""
        X = check_rows(X)
        n, d = X.shape
        codes, classes = check_classes(y, n)
        return cls(
            X,
            codes.astype(np.float64),
            SOFTMAX,
            make_penalty(penalty, d, l2=l2, l1=l1),
            check_weights(sample_weight, n),
            bool(fit_intercept),
            classes,
            len(classes),
        )

    def predictions(self, coef: Any, intercept: Any = 0.0) -> NDArray[np.float64]:
        """Scores of all rows and classes, shape (n, n_classes)."""
        return np.concatenate([scores for _, scores in self._scores(coef, intercept)])

    def slopes(self, coef: Any = None, intercept: Any = 0.0) -> NDArray[np.float64]:
        """Weighted slopes of each row's loss in its scores, shape (n, n_classes)."""
        slopes = np.empty((self.n, self.n_classes))
        for part, scores in self._scores(coef, intercept):
            slopes[part] = self._slopes(part, scores)
        return slopes

    def objective(self, coef: Any, intercept: Any = 0.0) -> float:
        """Mean loss plus penalty."""
        total = sum(
            self._total_loss(part, scores) for part, scores in self._scores(coef, intercept)
        )
        return total / self.n + self.penalty.value(self._flat(coef))

    def objective_of(self, coef: NDArray[Any], intercept: Any) -> float:
        """Mean loss plus penalty of weights that a solver made."""
        return self.objective(coef, intercept)

    def objectives_of(
        self, one: tuple[NDArray[Any], Any], other: tuple[NDArray[Any], Any]
    ) -> tuple[float, float]:
        """Objectives of two solutions."""
        return self.objective(*one), self.objective(*other)

    def mean_loss(self, predictions: NDArray[np.float64]) -> float:
        """Weighted mean loss of the given scores, shape (n, n_classes)."""
        return self._total_loss(slice(None), np.array(predictions)) / self.n

    def loss_at_zero(self) -> float:
        """Weighted mean loss where every score is zero."""
        share = 1.0 if self.weight is None else float(self.weight.mean())
        return float(np.log(self.n_classes)) * share

    def gradient(self, coef: Any, intercept: Any = 0.0) -> tuple[NDArray[np.float64], Any]:
        """Gradient in coef and intercept of the mean loss and the penalty."""
        data, constants = np.zeros((self.n_classes, self.d)), np.zeros(self.n_classes)
        for part, scores in self._scores(coef, intercept):
            slopes = self._slopes(part, scores)
            data += self._products(slopes, part)
            constants += slopes.sum(axis=0)
        smooth = self.penalty.smooth_gradient(self._flat(coef))
        constants = constants / self.n if self.fit_intercept else np.zeros(self.n_classes)
        return data.ravel() / self.n + smooth, constants

    def gradient_norm(self, coef: Any, intercept: Any = 0.0) -> float:
        """Euclidean norm of the gradient, computed in float64."""
        weights = self._flat(coef).reshape(self.n_classes, self.d)
        data = self.penalty.smooth_gradient(weights) * self.n
        constants = np.zeros(self.n_classes)
        for part in self._blocks():
            rows = self.X[part].astype(np.float64)
            slopes = self._slopes(part, np.asarray(rows @ weights.T) + intercept)
            data += (rows.T @ slopes).T
            constants += slopes.sum(axis=0)
        square = float((data**2).sum()) + self.fit_intercept * float(constants @ constants)
        return float(np.sqrt(square)) / self.n

    def data_gradient(self, slopes: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any]:
        """Mean over all rows of their gradients, in coef and intercept (0 without one)."""
        data = self._products(slopes, slice(None)).ravel() / self.n
        constants = slopes.mean(axis=0) if self.fit_intercept else np.zeros(self.n_classes)
        return data, constants

    def _flat(self, coef: Any) -> NDArray[np.float64]:
        given = None if coef is None else np.asarray(coef, dtype=np.float64).ravel()
        return check_coef(given, self.n_weights)

    def _blocks(self) -> Iterator[slice]:
        block = min(block_rows(self.X), max(1, BLOCK_ENTRIES // self.n_classes))
        for start in range(0, self.n, block):
            yield slice(start, min(start + block, self.n))

    def _scores(self, coef: Any, intercept: Any) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Scores of some rows at a time, which may be changed."""
        weights = self._flat(coef).reshape(self.n_classes, self.d).astype(self.X.dtype, copy=False)
        for part in self._blocks():
            scores = np.asarray(self.X[part] @ weights.T).astype(np.float64, copy=False)
            scores += intercept
            yield part, scores

    def _total_loss(self, part: slice, scores: NDArray[np.float64]) -> float:
        own = scores[np.arange(len(scores)), self.y[part].astype(np.intp)]
        top = scores.max(axis=1)
        scores -= top[:, None]
        losses = np.log(np.exp(scores, out=scores).sum(axis=1)) + (top - own)
        if self.weight is None:
            return float(losses.sum())
        weight = self.weight[part]
        return float(losses[weight > 0.0] @ weight[weight > 0.0])  # weight 0 beats an infinite loss

    def _slopes(self, part: slice, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[np.arange(len(scores)), self.y[part].astype(np.intp)] -= 1.0
        if self.weight is not None:
            weight = self.weight[part]
            scores *= weight[:, None]
            scores[weight == 0.0] = 0.0
        return scores

    def _products(self, slopes: NDArray[np.float64], part: slice) -> NDArray[np.float64]:
        """Sum of the rows, each times its slopes, shape (n_classes, d)."""
        slopes = slopes.astype(self.X.dtype, copy=False)
        rows = self.X[part]
        product = (rows.T @ slopes).T if sparse.issparse(rows) else slopes.T @ rows
        return np.asarray(product, dtype=np.float64)


def build_problem(X: Any, y: Any, *, loss: str | Loss, **given: Any) -> Problem:
    """Check the arguments and build a problem with one score, or with one score per class."""
    kind = SoftmaxProblem if loss in ("softmax", SOFTMAX) else Problem
    return kind.build(X, y, loss=loss, **given)
