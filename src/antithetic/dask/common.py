"""What all blocks have in common, and the problem of one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.blocks import Block
from antithetic.estimators.one_vs_rest import AllClasses, OneVsRest
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.row_sums import RowSums
from antithetic.problem import Problem
from antithetic.problem.losses import SOFTMAX, Loss
from antithetic.problem.penalties import ElasticNet, Penalty
from antithetic.problem.softmax import SoftmaxProblem


@dataclass(frozen=True, slots=True, eq=False)
class Common:
    """What all blocks of a fit, or of a table, have in common.

    Attributes
    ----------
    loss : Loss
    penalty : Penalty
    fit_intercept : bool
    parts : OneVsRest
        The problems that the labels are split into.
    rows : int
        Rows of all blocks.
    """

    loss: Loss
    penalty: Penalty
    fit_intercept: bool
    parts: OneVsRest
    rows: int

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return self.parts.n_problems

    @property
    def is_classed(self) -> bool:
        """Whether one problem has all of many classes."""
        return isinstance(self.parts, AllClasses)

    def target_and_weight(
        self, block: Block, number: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Targets and weights of a block's rows in a problem."""
        assert block.y is not None
        target = self.parts.target(block.y, number)
        return target, self.parts.weigh(target, block.weight, number)

    def sums(
        self,
        X: Any,
        target: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        centre: NDArray[np.float64] | None,
        kind: Any,
    ) -> RowSums | ClassSums:
        """Sums over some rows, without the penalty; ``kind`` is the float type of products."""
        if isinstance(self.parts, AllClasses):
            codes, many = target.astype(np.intp), self.parts.n_classes
            return ClassSums(X, codes, many, ElasticNet(), weight, centre, kind=kind)
        return RowSums(self.problem_of(X, target, weight), centre)

    def problem_of(
        self, X: Any, target: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> Any:
        """Problem of some rows, without the penalty."""
        if isinstance(self.parts, AllClasses):
            given = (weight, self.fit_intercept, None, self.parts.n_classes)
            return SoftmaxProblem(X, target, SOFTMAX, ElasticNet(), *given)
        return Problem(X, target, self.loss, ElasticNet(), weight, self.fit_intercept, None)

    def problem(self, block: Block) -> Problem:
        """Problem of a block's rows, of two classes or of a regression."""
        target, weight = self.target_and_weight(block, 0)
        return Problem(block.X, target, self.loss, self.penalty, weight, self.fit_intercept, None)
