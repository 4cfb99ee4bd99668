"""Each row once per epoch, in an order that keeps partial sums of the gradients small."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import Draws, Order, Pool, random_order
from antithetic.orders.pairs import Pairs
from antithetic.orders.shuffle import nested_rows
from antithetic.orders.units import Batches, starts_of
from antithetic.pairing import GroupTable


@dataclass(frozen=True, eq=False, repr=False)
class Balanced(Order):
    """Each row once per epoch, in an order chosen from the gradients of the epoch before.

    Partial sums of deviations from the mean gradient then stay small, so an epoch ends nearly
    where full gradient steps would. The rule is that of GraB (Lu et al. 2022) and CD-GraB (Cooper
    et al. 2023); see :class:`antithetic.orders.balanced.BalancedDraws`. The first epoch is
    shuffled.

    Parameters
    ----------
    pairs : Pairs, str, callable, AntitheticTable, GroupTable or None, default=None
        Which rows are used together; None orders single rows.
    sketch : {None, "auto"}, default=None
        None compares whole gradients. "auto" compares sketches of at most 16 KB where gradients are
        larger than a row, as those of ``loss="softmax"`` are: one row for each class. Other
        gradients are one row, which is never shortened.
    """

    balances: ClassVar[bool] = True
    pairs: Any = None
    sketch: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", Pairs.of(self.pairs))
        if not (self.sketch is None or (isinstance(self.sketch, str) and self.sketch == "auto")):
            raise ValueError(f'sketch must be None or "auto"; got {self.sketch!r}')

    def draw_from(self, pool: Pool) -> Draws:
        """Apply the order to a pool."""
        table, rng = pool.table, pool.generator(0)
        if isinstance(table, GroupTable):
            first = nested_rows(table.order, table.size, rng)
            to_the_top = self.pairs is not None and self.pairs.nest is True
            return BalancedDraws(pool, first, unit=1 if to_the_top else table.size)
        if table is None:
            first = random_order(rng, pool.n)
            return BalancedDraws(pool, first, sketched=self.sketch == "auto")
        rows = table.pairs[random_order(rng, pool.n // 2)].ravel()
        rows = rows if table.single is None else np.append(rows, table.single)
        return BalancedDraws(pool, rows, unit=2)


@dataclass(frozen=True, slots=True, eq=False)
class BalancedDraws(Draws):
    r"""Rows, pairs or groups in the order that the solver's last epoch left behind.

    While it walks through an epoch, the solver keeps a signed sum s of gradients, zero at first. Of
    every two units with gradients a and b it adds a - b to s if :math:`\langle s, a - b\rangle \le
    0` and sends a to the front of the next epoch and b to its back, else b - a and the other way
    round; the back fills from the end. The signed sum stays small, and so do the partial sums of
    deviations from the mean, counted from either end. A unit without another comes between front
    and back, and rows that are not a whole unit stay last. This is pair balancing (GraB, Lu et al.
    2022; CD-GraB, Cooper et al. 2023) with the two gradients of one step: one product and one sum
    per two rows.

    Attributes
    ----------
    pool : Pool
    first : ndarray of shape (n,)
        Rows of the first epoch in order, unit after unit.
    unit : int, default=1
        Rows that stay together: 1, or those of a pair or group.
    sketched : bool, default=False
        Whether sketches of gradients may be compared.
    """

    first: NDArray[np.intp]
    unit: int = 1
    sketched: bool = False
    starts: NDArray[np.intp] = field(init=False, repr=False)  # the same for every epoch

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", starts_of(len(self.first), self.pool.batch_size))

    def batches(
        self,
        epoch: int,  # noqa: ARG002
        order: NDArray[np.intp] | None = None,
        slopes: NDArray[np.float64] | None = None,  # noqa: ARG002
    ) -> Batches:
        """Batches of an epoch, a pure function of the order that the last one left behind.

        None before the first.
        """
        rows, size = self.first if order is None else order, self.pool.batch_size
        return Batches(rows, self.starts, size, unit=self.unit, sketched=self.sketched)
