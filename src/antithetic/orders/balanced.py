"""Each row once per epoch, in an order that follows the gradients of the epoch before so that partial sums stay small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches, cut


@dataclass(frozen=True, slots=True, eq=False)
class Balanced:
    r"""Rows, pairs or groups in the order that the solver's last epoch left behind.

    While it walks through an epoch, the solver keeps a signed sum s of gradients, zero at first. Of
    every two units with gradients a and b it adds a - b to s if :math:`\langle s, a - b\rangle \le
    0` and sends a to the front of the next epoch and b to its back, else b - a and the other way
    round; the back fills from the end. The signed sum stays small, hence so do, read from either
    end, the partial sums of what deviates from the mean. A unit without another comes between front
    and back, and rows that are not a whole unit stay last. This is pair balancing (Lu et al. 2022,
    Cooper et al. 2023) with the two gradients of one step: one product and one sum per two rows.

    Attributes
    ----------
    first : ndarray of shape (n,)
        Rows of the first epoch in order, unit after unit.
    batch_size : int
    unit : int, default=1
        Rows that stay together: 1, or those of a pair or group.
    """

    first: NDArray[np.intp]
    batch_size: int
    unit: int = 1

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002 - the order says it all
        """Batches of an epoch, a pure function of the order that the last one left behind.

        None before the first.
        """
        return cut(self.first if order is None else order, self.batch_size)._replace(unit=self.unit)
