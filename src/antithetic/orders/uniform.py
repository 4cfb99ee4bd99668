"""Draws with replacement: the paper's SGD (rows) and SGD-as (pairs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import Draws, Order, Pool
from antithetic.orders.pairs import Pairs
from antithetic.orders.units import Batches, cut, weighted_batches
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
            pool.units.in_batch(pool.batch_size)  # a size that does not fit is refused at once
        return UniformDraws(pool)


@dataclass(frozen=True, slots=True, eq=False)
class UniformDraws(Draws):
    """Row i is drawn uniformly, with replacement, and with a table its partner or group as well.

    An epoch is ``ceil(n / batch_size)`` batches. Of an odd batch of pairs, one row comes alone;
    with a batch of one row, a row and its partner follow each other.
    """

    def batches(
        self,
        epoch: int,
        order: NDArray[np.intp] | None = None,  # noqa: ARG002
        slopes: NDArray[np.float64] | None = None,  # noqa: ARG002
    ) -> Batches:
        """Batches of an epoch, a pure function of the seed and the epoch."""
        pool, rng = self.pool, self.pool.generator(epoch)
        n, size, table = pool.n, pool.batch_size, pool.table
        if isinstance(table, GroupTable):
            units = pool.units
            return weighted_batches(units, size, units.prior, rng)
        steps = -(-n // size)
        if table is None:
            return cut(rng.integers(n, size=steps * size), size)
        if size == 1:
            first = rng.integers(n, size=-(-steps // 2))
            return cut(np.column_stack([first, table.partner[first]]).ravel()[:steps], 1)
        drawn = rng.integers(n, size=(steps, (size + 1) // 2))
        pairs = drawn[:, : size // 2]
        rows = np.concatenate(
            [
                np.stack([pairs, table.partner[pairs]], axis=2).reshape(steps, -1),
                drawn[:, pairs.shape[1] :],
            ],
            axis=1,
        )
        return cut(rows.ravel(), size)

    @property
    def is_draw(self) -> bool:
        """True: each batch is drawn."""
        return True

    def variance(
        self,
        slopes: NDArray[np.float64],
        epoch: int,  # noqa: ARG002
        order: NDArray[np.intp] | None,  # noqa: ARG002
    ) -> float:
        """Exact variance of the mean gradient of a batch."""
        from antithetic.orders.variance import uniform_variance

        pool = self.pool
        return uniform_variance(pool.problem, slopes, pool.table, pool.batch_size)
