"""Each row once per epoch, in the order given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import Order
from antithetic.orders.pool import Pool


@dataclass(frozen=True, eq=False, repr=False)
class InOrder(Order):
    """Rows as they come. This is scikit-learn's ``shuffle=False``."""

    def rows(self, pool: Pool, epoch: int) -> NDArray[np.intp]:  # noqa: ARG002
        """All rows, first to last."""
        return np.arange(pool.n)
