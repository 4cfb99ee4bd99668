"""How rows and pairs are drawn: the batches of an epoch as a pure function of seed and epoch, and their exact variance."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from antithetic.pairing.groups import GroupTable
from antithetic.pairing.table import AntitheticTable
from antithetic.sampling.balanced import Balanced
from antithetic.sampling.batches import Batches
from antithetic.sampling.in_order import InOrder
from antithetic.sampling.nested import Nested
from antithetic.sampling.shuffle import Shuffle, ShufflePairs
from antithetic.sampling.uniform import Uniform
from antithetic.sampling.variance import batch_variance, gradient_variance, largest_partial_sum, order_variance

__all__ = [
    "ONCE_PER_EPOCH",
    "SAMPLINGS",
    "Batches",
    "Sampler",
    "batch_variance",
    "gradient_variance",
    "largest_partial_sum",
    "make_sampler",
    "order_variance",
]

SAMPLINGS = ("uniform", "shuffle", "balanced")
ONCE_PER_EPOCH = ("shuffle", "balanced")  # these need a matching


class Sampler(Protocol):
    """Whatever gives the batches of an epoch."""

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:
        """Batches of an epoch, a pure function of the seed, the epoch, and the order that the solver left behind, if any."""


def make_sampler(
    sampling: str, n: int, batch_size: int, seed: int, table: AntitheticTable | GroupTable | None = None, *, to_the_top: bool = False
) -> Sampler:
    """Return a sampler by name: of rows, of the pairs of a table (where each is visited once, a matching), or of groups.

    ``"in order"`` takes the rows as they come. Groups that are nested ``to_the_top`` are an order: with ``"shuffle"`` that of every epoch,
    with ``"balanced"`` that of the first.
    """
    if sampling == "in order":
        return InOrder(n, batch_size)
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling {sampling!r} is not known; use one of {', '.join(SAMPLINGS)}")
    if sampling == "uniform":
        if isinstance(table, GroupTable):
            raise ValueError('nested groups are an order, which draws with replacement have not; use sampling="shuffle" or "balanced"')
        return Uniform(n, batch_size, seed, None if table is None else table.partner)
    if isinstance(table, GroupTable):
        nested = Nested(table.order, table.size, batch_size, seed)
        return nested if sampling == "shuffle" else Balanced(nested.rows(0), batch_size, 1 if to_the_top else table.size)
    if sampling == "shuffle":
        return Shuffle(n, batch_size, seed) if table is None else ShufflePairs(table.pairs, table.single, batch_size, seed)
    rng = np.random.default_rng((seed, 0))
    if table is None:
        return Balanced(rng.permutation(n), batch_size)
    rows = table.pairs[rng.permutation(n // 2)].ravel()
    return Balanced(rows if table.single is None else np.append(rows, table.single), batch_size, unit=2)
