"""Draws with replacement inside strata, so many of each in every batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches
from antithetic.orders.units import Units, cumulative, draw, lay_out


@dataclass(frozen=True, slots=True, eq=False)
class Stratified:
    r"""A batch has :math:`K_h` units of stratum h, whose mean gradients are multiplied by :math:`Q_h K / K_h`.

    :math:`Q_h` is the sum of the priors of the stratum and :math:`K = \sum_h K_h`, so the batch gradient is unbiased and has no
    variance between strata. An epoch is ``ceil(n / batch_size)`` batches. Of an odd batch of pairs
    one row comes alone, from all rows.

    Attributes
    ----------
    units : Units
    batch_size : int
    seed : int
    strata : ndarray of intp of shape (units,)
        Stratum of each unit, from 0.
    counts : ndarray of intp of shape (strata,)
        Units of a batch that each stratum gives, at least 1.
    """

    units: Units
    batch_size: int
    seed: int
    strata: NDArray[np.intp]
    counts: NDArray[np.intp]

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002 - nothing is learnt from an epoch
        """Batches of an epoch, a pure function of the seed and the epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        prior, draws, drawn = self.units.prior, self.units.draws(self.batch_size), []
        for index, count in zip(members(self.strata, len(self.counts)), self.counts, strict=True):
            drawn.append(index[draw(rng, cumulative(prior[index]), (draws, int(count)))])
        shares = np.bincount(self.strata, weights=prior) * self.counts.sum() / self.counts
        weights = np.tile(np.repeat(shares, self.counts), (draws, 1))
        return lay_out(self.units, self.batch_size, np.concatenate(drawn, axis=1), weights, rng)


def members(strata: NDArray[np.intp], n_strata: int) -> list[NDArray[np.intp]]:
    """Units of each stratum."""
    ends = np.cumsum(np.bincount(strata, minlength=n_strata))
    return np.split(np.argsort(strata, kind="stable"), ends[:-1])
