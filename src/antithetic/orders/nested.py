"""Each row once per epoch, in nested groups whose aligned blocks nearly cancel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches, cut
from antithetic.orders.random_order import random_order


@dataclass(frozen=True, slots=True, eq=False)
class NestedGroups:
    """Groups in random order, with fresh random flips of the halves of every block.

    Blocks that were left over at some level come last, the largest first, their halves flipped too.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Rows as in :class:`~antithetic.GroupTable`: groups of ``size``, then what was left over.
    size : int
        Rows of a group, a power of two.
    batch_size : int
    seed : int
    """

    order: NDArray[np.intp]
    size: int
    batch_size: int
    seed: int

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002
        """Batches of an epoch, a pure function of the seed and the epoch."""
        return cut(self.rows(epoch), self.batch_size)

    def rows(self, epoch: int) -> NDArray[np.intp]:
        """Rows of an epoch in order."""
        rng = np.random.default_rng((self.seed, epoch))
        n_groups, left = divmod(len(self.order), self.size)
        groups = self.order[: n_groups * self.size].reshape(n_groups, self.size)[
            random_order(rng, n_groups)
        ]
        parts, start = [_flip(groups, rng)], n_groups * self.size
        for level in reversed(
            range(left.bit_length())
        ):  # what is left over has at most one block of each size
            if left >> level & 1:
                parts.append(
                    _flip(self.order[start : start + (1 << level)].reshape(1, -1).copy(), rng)
                )
                start += 1 << level
        return np.concatenate(parts)


def _flip(blocks: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Swap the halves of each block or not, at random, then those of the halves, and so on."""
    rows, size = blocks.ravel(), blocks.shape[1]
    while size > 1:
        halves = rows.reshape(-1, 2, size // 2)
        flipped = rng.random(len(halves)) < 0.5
        halves[flipped] = halves[flipped, ::-1]
        size //= 2
    return rows
