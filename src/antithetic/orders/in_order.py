"""Each row once per epoch, in the order given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches, cut


@dataclass(frozen=True, slots=True, eq=False)
class InOrder:
    """Rows as they come, cut into batches; the last one is shorter if need be.

    This is scikit-learn's ``shuffle=False``.
    """

    n: int
    batch_size: int

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002 - nothing is learnt from an epoch
        """Batches of an epoch."""
        return cut(np.arange(self.n), self.batch_size)
