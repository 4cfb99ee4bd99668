"""Each row once per epoch, in an order of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches, cut


@dataclass(frozen=True, slots=True, eq=False)
class OwnOrder:
    """Rows in the order that a function gives for each epoch, cut into batches.

    The last one is shorter if need be.

    Attributes
    ----------
    n : int
    batch_size : int
    order : callable
        From the number of an epoch, 0 for the first, to all row numbers, each once. It must depend
        on nothing else: a run that is traced or resumed asks for an epoch more than once.
    """

    n: int
    batch_size: int
    order: Callable[[int], Any]

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002 - nothing is learnt from an epoch
        """Batches of an epoch, or ValueError unless each row is in them once."""
        rows = np.asarray(self.order(epoch))
        if rows.shape != (self.n,) or rows.dtype.kind not in "iu":
            raise ValueError(
                f"the order of epoch {epoch} must be {self.n} whole numbers, one for each row; got"
                f" shape {rows.shape} of {rows.dtype}"
            )
        if not np.array_equal(np.sort(rows), np.arange(self.n)):
            raise ValueError(
                f"the order of epoch {epoch} must have each of 0..{self.n - 1} once, or rows would"
                " count more than others"
            )
        return cut(rows.astype(np.intp), self.batch_size)
