"""Draws with replacement: the paper's SGD (rows) and SGD-as (pairs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import Draws, Order, Pool
from antithetic.orders.pairs import Pairs
from antithetic.orders.units import Batches, WeightedDraws, cut
from antithetic.pairing import GroupTable


@dataclass(frozen=True, eq=False, repr=False)
class Uniform(Order):
    """Rows, pairs or groups drawn with replacement, each row as likely as any other.

    ``Uniform()`` is the paper's SGD, ``Uniform(pairs="greedy")`` its SGD-as. An epoch is
    ``ceil(n / batch_size)`` batches.

    Parameters
    ----------
    pairs : Pairs, str, callable, AntitheticTable, GroupTable or None, default=None
        Which rows are used together; None draws single rows.
    """

    once: ClassVar[bool] = False
    pairs: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", Pairs.of(self.pairs))

    def draw_from(self, pool: Pool) -> Draws:
        """Apply the order to a pool."""
        if isinstance(pool.table, GroupTable):
            units = pool.units
            units.in_batch(pool.batch_size)
            return _UniformDraws(
                pool, WeightedDraws(units, pool.batch_size, pool.seed, units.prior)
            )
        partner = None if pool.table is None else pool.table.partner
        return _UniformDraws(pool, RowDraws(pool.n, pool.batch_size, pool.seed, partner))


@dataclass(frozen=True, slots=True, eq=False)
class _UniformDraws(Draws):
    @property
    def is_draw(self) -> bool:
        return True

    def variance(
        self,
        slopes: NDArray[np.float64],
        epoch: int,  # noqa: ARG002
        order: NDArray[np.intp] | None,  # noqa: ARG002
    ) -> float:
        from antithetic.orders.variance import uniform_variance

        pool = self.pool
        return uniform_variance(pool.problem, slopes, pool.table, pool.batch_size)


@dataclass(frozen=True, slots=True, eq=False)
class RowDraws:
    """Row i is drawn uniformly, with replacement, and with a table its partner ``S[i]`` as well.

    An epoch is ``ceil(n / batch_size)`` batches. Of an odd batch of pairs, one row comes alone;
    with a batch of one row, a row and its partner follow each other.

    Attributes
    ----------
    n : int
        Number of rows.
    batch_size : int
    seed : int
    partner : ndarray of shape (n,) or None
        Any permutation.
    """

    n: int
    batch_size: int
    seed: int
    partner: NDArray[np.intp] | None = None

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002
        """Batches of an epoch, a pure function of the seed and the epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        steps = -(-self.n // self.batch_size)
        if self.partner is None:
            return cut(rng.integers(self.n, size=steps * self.batch_size), self.batch_size)
        if self.batch_size == 1:
            first = rng.integers(self.n, size=-(-steps // 2))
            return cut(np.column_stack([first, self.partner[first]]).ravel()[:steps], 1)
        drawn = rng.integers(self.n, size=(steps, (self.batch_size + 1) // 2))
        pairs = drawn[:, : self.batch_size // 2]
        rows = np.concatenate(
            [
                np.stack([pairs, self.partner[pairs]], axis=2).reshape(steps, -1),
                drawn[:, pairs.shape[1] :],
            ],
            axis=1,
        )
        return cut(rows.ravel(), self.batch_size)
