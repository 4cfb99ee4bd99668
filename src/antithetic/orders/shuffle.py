"""Each row once per epoch, in random order: rows, or antithetic pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches, cut
from antithetic.orders.random_order import random_order


@dataclass(frozen=True, slots=True, eq=False)
class Shuffle:
    """Rows in random order, cut into batches; the last one is shorter if need be."""

    n: int
    batch_size: int
    seed: int

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002 - nothing is learnt from an epoch
        """Batches of an epoch, a pure function of the seed and the epoch."""
        return cut(random_order(np.random.default_rng((self.seed, epoch)), self.n), self.batch_size)


@dataclass(frozen=True, slots=True, eq=False)
class ShufflePairs:
    """Antithetic pairs in random order, either member first, and the single row of an odd number wherever it falls.

    At every step each row is equally likely to be in the batch, so the expected step is along the
    gradient:

    - an even batch takes ``batch_size / 2`` units, a unit being a pair or the single row, and all
      units are shuffled together;
    - an odd batch takes ``(batch_size - 1) / 2`` pairs and one row; the pairs that are broken up to
      give these rows are drawn anew each epoch, and the batches, the short one among them, come in
      random order;
    - a batch of one row walks along the shuffled pairs, and the single row stands at any place with
      equal probability.

    Attributes
    ----------
    pairs : ndarray of shape (n // 2, 2)
        The pairs of a matching.
    single : int or None
        Its single row.
    batch_size : int
    seed : int
    """

    pairs: NDArray[np.intp]
    single: int | None
    batch_size: int
    seed: int

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002 - nothing is learnt from an epoch
        """Batches of an epoch, a pure function of the seed and the epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        pairs = self.pairs[random_order(rng, len(self.pairs))]
        if (
            self.batch_size % 2 == 0
        ):  # both members are in one batch: their order is of no consequence
            return self._even(rng, pairs)
        flipped = rng.random(len(pairs)) < 0.5
        pairs[flipped] = pairs[flipped, ::-1]
        if self.batch_size == 1:
            rows = pairs.ravel()
            return cut(
                (
                    rows
                    if self.single is None
                    else np.insert(rows, rng.integers(len(rows) + 1), self.single)
                ),
                1,
            )
        return self._odd(rng, pairs)

    def _even(self, rng: np.random.Generator, pairs: NDArray[np.intp]) -> Batches:
        if self.single is None:
            return cut(pairs.ravel(), self.batch_size)
        place = rng.integers(len(pairs) + 1)  # the single row is unit number `place`
        rows = np.insert(pairs.ravel(), 2 * place, self.single)
        units = np.arange(0, len(pairs) + 1, self.batch_size // 2)
        starts = np.append(2 * units - (units > place), len(rows))
        return Batches(rows, starts, self.batch_size)

    def _odd(self, rng: np.random.Generator, pairs: NDArray[np.intp]) -> Batches:
        n = 2 * len(pairs) + (self.single is not None)
        full, rest = divmod(n, self.batch_size)
        broken = (full - (self.single is not None) + 1) // 2
        alone = pairs[:broken].ravel()  # the pairs are in random order already
        if self.single is not None:
            alone = np.append(alone, self.single)
        alone, whole = rng.permutation(alone), pairs[broken:].ravel()
        per_batch = self.batch_size - 1
        batches = np.column_stack(
            [whole[: full * per_batch].reshape(full, per_batch), alone[:full]]
        )
        left_over = np.concatenate([whole[full * per_batch :], alone[full:]])
        if not rest:
            return cut(rng.permutation(batches).ravel(), self.batch_size)
        place = rng.integers(full + 1)  # the short batch is number `place`
        rows = np.insert(rng.permutation(batches).ravel(), place * self.batch_size, left_over)
        starts = np.arange(full + 2) * self.batch_size
        starts[place + 1 :] -= self.batch_size - rest
        return Batches(rows, starts, self.batch_size)
