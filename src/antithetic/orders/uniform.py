"""Draws with replacement: the paper's SGD (rows) and SGD-as (pairs)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches, cut


@dataclass(frozen=True, slots=True, eq=False)
class Uniform:
    """Each row of a batch is drawn from all rows.

    With a table, ``i`` is drawn and brings ``partner[i]`` along.

    An epoch is ``ceil(n / batch_size)`` full batches. Of an odd batch with a table, one row comes
    alone. With a batch of one row, the drawn row and its partner follow each other.

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

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002 - nothing is learnt from an epoch
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
