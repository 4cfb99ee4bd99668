"""What is minimised: one set with one loss, and the minimum that all gaps refer to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.paper.optimum import find_optimum
from antithetic.problem import Problem, SoftmaxProblem

TARGETS = tuple(10.0**-k for k in range(2, 11))
"""Relative suboptimalities: (f - f*) / (f(0) - f*)."""
_HELD_OUT = 0.2
_SECONDS_OF_HINGE = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One set with one loss.

    Attributes
    ----------
    name, loss : str
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,)
        -1 and 1; with many classes their codes from 0; with a squared error numbers.
    problem : Problem
        The objective that all solvers share: mean loss + l2 / 2 |w|^2, no intercept.
    least, error : float
        The minimum, and a bound on how much too large it may be.
    threads : int
        How many each solver may use.
    fit_intercept : bool
        False in all races of this package.
    """

    name: str
    loss: str
    X: Any
    y: NDArray[Any]
    problem: Problem
    least: float
    error: float
    threads: int = 1
    fit_intercept: bool = False

    @classmethod
    def build(cls, name: str, loss: str, X: Any, y: Any, l2: float, threads: int = 1) -> Task:
        """Find the minimum, which takes a while."""
        kind = SoftmaxProblem if loss == "softmax" else Problem
        if loss == "softmax":
            y = np.unique(y, return_inverse=True)[1]
        elif loss != "squared_error":
            y = np.where(y == np.max(y), 1.0, -1.0)
        problem = kind.build(X, y, loss=loss, l2=l2)
        optimum = find_optimum(problem, seconds=_SECONDS_OF_HINGE)
        return cls(name, loss, problem.X, y, problem, optimum.value, optimum.error, threads)

    @property
    def n_weights(self) -> int:
        """Number of weights of all classes."""
        return self.problem.n_weights

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.problem.n

    @property
    def d(self) -> int:
        """Number of features."""
        return self.problem.d

    @property
    def l2(self) -> float:
        """Lambda."""
        return float(self.problem.penalty.l2)

    @property
    def certain(self) -> float:
        """The smallest gap that can be distinguished from zero."""
        return 2.0 * self.error / (self.problem.loss_at_zero() - self.least)

    def gap(self, coef: Any) -> float:
        """Relative suboptimality of weights; infinite where they overflowed."""
        w = np.asarray(coef, dtype=np.float64).ravel()
        if not np.isfinite(w).all():
            return np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            gap = (self.problem.objective(w) - self.least) / (
                self.problem.loss_at_zero() - self.least
            )
        return float(gap) if np.isfinite(gap) else np.inf

    def scores(self, coef: Any, X: Any, y: NDArray[Any]) -> dict[str, float]:
        """Mean loss of weights on other rows, and the share that they predict correctly."""
        other = replace(self.problem, X=X, y=np.asarray(y, dtype=np.float64))
        predictions = other.predictions(np.asarray(coef, dtype=np.float64).ravel())
        found = {self.loss: other.mean_loss(predictions)}
        if self.loss == "softmax":
            found["accuracy"] = float(np.mean(predictions.argmax(axis=1) == y))
        elif self.problem.loss.classification:
            found["accuracy"] = float(np.mean(np.where(predictions > 0.0, 1.0, -1.0) == y))
        return found


def hold_out(X: Any, y: NDArray[Any], seed: int = 0) -> tuple[Any, NDArray[Any], Any, NDArray[Any]]:
    """Rows to train on, a random four fifths, and the rest."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(_HELD_OUT * len(y))
    held, kept = np.sort(order[:cut]), np.sort(order[cut:])
    return X[kept], y[kept], X[held], y[held]
