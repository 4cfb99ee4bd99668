"""What an order draws from, and an order applied to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches
from antithetic.orders.units import Table, Units
from antithetic.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Rows, and how they are drawn: everything that an order may look at.

    Attributes
    ----------
    problem : Problem
    table : AntitheticTable, GroupTable or None
        Which rows are used together; a matching for orders that visit each row once.
    batch_size : int
        Rows of a batch, at most n.
    seed : int
    corrected : bool, default=False
        Whether the solver corrects gradients, so that it matters how fast these change.
    """

    problem: Problem
    table: Table | None
    batch_size: int
    seed: int
    corrected: bool = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.problem.n

    @property
    def units(self) -> Units:
        """What is drawn: rows, the pairs ``(i, S[i])``, or groups."""
        return Units.of_table(self.n, self.table)


class Sampler(Protocol):
    """Anything that gives the batches of an epoch."""

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:
        """Batches of an epoch, a pure function of the seed, the epoch, and ``order``.

        ``order`` is what the solver left behind for the next epoch of a balanced order, if any.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """An order applied to a pool.

    Attributes
    ----------
    pool : Pool
    fixed : Sampler or None
        The sampler, where it is the same for all epochs.
    """

    pool: Pool
    fixed: Sampler | None = None

    @property
    def is_draw(self) -> bool:
        """Whether batches are drawn at random, so that their gradient has a variance."""
        return False

    @property
    def follows(self) -> bool:
        """Whether the draws of an epoch depend on the gradients before it."""
        return False

    def sampler(self, slopes: NDArray[np.float64] | None = None) -> Sampler:  # noqa: ARG002
        """Return what draws the batches; ``slopes`` are those of the gradients to follow."""
        assert self.fixed is not None
        return self.fixed

    def variance(
        self, slopes: NDArray[np.float64], epoch: int, order: NDArray[np.intp] | None
    ) -> float:
        """Exact variance of the mean gradient of a batch of an epoch.

        For an order that is not random, it is the mean over its full batches.
        """
        from antithetic.orders.variance import order_variance

        batches = self.sampler(slopes).batches(epoch, order)
        return order_variance(self.pool.problem, slopes, batches)

    def drawn_squares(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weighted squares of the units, times the largest factor that a draw can give them."""
        return squares
