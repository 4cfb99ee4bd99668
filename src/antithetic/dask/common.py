"""What all blocks of a fit have in common, and the problem and the run of one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.blocks import Block
from antithetic.estimators.one_vs_rest import AllClasses, OneVsRest
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.row_sums import RowSums
from antithetic.orders import Order
from antithetic.orders.units import Table
from antithetic.problem import Problem
from antithetic.problem.losses import Loss
from antithetic.problem.penalties import ElasticNet, Penalty
from antithetic.solvers import Solver
from antithetic.solvers.steps import Steps
from antithetic.training.spec import Spec, make_spec

_STRIDE = 0x9E3779B1  # between the seeds of two blocks


@dataclass(frozen=True, slots=True, eq=False)
class Common:
    """What all blocks of a fit have in common.

    Attributes
    ----------
    loss : Loss
    penalty : Penalty
    fit_intercept : bool
    parts : OneVsRest
        The problems that the labels are split into.
    rows : int
        Rows of all blocks.
    batch_size : int
    order : Order
        How each block draws its rows; its ``pairs`` are built within the block.
    seeds : tuple of int
        One per problem.
    """

    loss: Loss
    penalty: Penalty
    fit_intercept: bool
    parts: OneVsRest
    rows: int
    batch_size: int
    order: Order
    seeds: tuple[int, ...]

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return self.parts.n_problems

    @property
    def heaviest(self) -> float:
        """Largest weight of a class."""
        return 1.0 if self.parts.weights is None else float(np.max(self.parts.weights))

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

    def groups(self, target: NDArray[np.float64]) -> NDArray[np.intp]:
        """Group of each row for sampling: its class, +1 first; 0 for regression."""
        if self.parts.classes is None:
            return np.zeros(len(target), np.intp)
        return target.astype(np.intp) if self.is_classed else (target < 0.0).astype(np.intp)

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
        problem = Problem(X, target, self.loss, ElasticNet(), weight, self.fit_intercept, None)
        return RowSums(problem, centre)

    def problem(self, block: Block, number: int) -> Problem:
        """Problem of a block's rows."""
        target, weight = self.target_and_weight(block, number)
        return Problem(block.X, target, self.loss, self.penalty, weight, self.fit_intercept, None)

    def seed(self, problem: int, block: int) -> int:
        """Seed of a block; that of the first is the problem's own."""
        return (self.seeds[problem] + block * _STRIDE) % (1 << 31)

    def spec(self, solver: Solver, steps: Steps, table: Table | None, seed: int) -> Spec:
        """Return the run of a block, with a solver that was made for it.

        It is checked as a run of plain steps: what SVRG refuses on one machine does not apply,
        since a search over all blocks rejects steps that go too far. If a block has no table, its
        rows are drawn one by one.
        """
        order, problem = self.order, solver.problem
        if table is None and order.pairs is not None:
            order = order.but(pairs=None)
        spec = make_spec(
            problem,
            problem.y,
            order=order,
            solver="sgd",
            steps=steps,
            batch_size=self.batch_size,
            seed=seed,
        )
        return replace(spec, solver=solver)
