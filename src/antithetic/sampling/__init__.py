"""How rows and pairs are drawn: the batches of an epoch as a pure function of seed and epoch, and their exact variance."""

from __future__ import annotations

from typing import Protocol

from antithetic.pairing.table import AntitheticTable
from antithetic.sampling.batches import Batches
from antithetic.sampling.shuffle import Shuffle, ShufflePairs
from antithetic.sampling.uniform import Uniform
from antithetic.sampling.variance import batch_variance, gradient_variance

__all__ = ["SAMPLINGS", "Batches", "Sampler", "batch_variance", "gradient_variance", "make_sampler"]

SAMPLINGS = ("uniform", "shuffle")


class Sampler(Protocol):
    """Whatever gives the batches of an epoch."""

    def batches(self, epoch: int) -> Batches:
        """Batches of an epoch, a pure function of the seed and the epoch."""


def make_sampler(sampling: str, n: int, batch_size: int, seed: int, table: AntitheticTable | None = None) -> Sampler:
    """Return a sampler by name: of rows, or of the pairs of a table (for ``"shuffle"``, a matching)."""
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling {sampling!r} is not known; use one of {', '.join(SAMPLINGS)}")
    if sampling == "uniform":
        return Uniform(n, batch_size, seed, None if table is None else table.partner)
    if table is None:
        return Shuffle(n, batch_size, seed)
    return ShufflePairs(table.pairs, table.single, batch_size, seed)
