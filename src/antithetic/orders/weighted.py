"""Draws with replacement by given probabilities, with factors that keep them unbiased."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.batches import Batches
from antithetic.orders.units import Units, cumulative, draw, drawable, lay_out


@dataclass(frozen=True, slots=True, eq=False)
class WeightedDraws:
    r"""Draws of unit k with probability :math:`p_k`, unbiased by their factors.

    Its mean gradient is multiplied by :math:`q_k / p_k`, with q the prior.
    With the priors for probabilities this is the uniform draw of units of different sizes: a group
    is drawn by drawing a row, and takes the full step. An epoch is ``ceil(n / batch_size)``
    batches. Of an odd batch of pairs one row comes alone, drawn uniformly; with a batch of one row,
    the members of a drawn pair follow each other.

    Attributes
    ----------
    units : Units
    batch_size : int
    seed : int
    probabilities : ndarray of shape (units,)
        They sum to 1. What has probability 0 is never drawn, and must have no gradient.
    """

    units: Units
    batch_size: int
    seed: int
    probabilities: NDArray[np.float64]

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002
        """Batches of an epoch, a pure function of the seed and the epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        size = self.units.draws(self.batch_size), self.units.in_batch(self.batch_size)
        drawn = draw(rng, cumulative(drawable(self.probabilities)), size)
        return lay_out(
            self.units,
            self.batch_size,
            drawn,
            factors_of(self.units, self.probabilities)[drawn],
            rng,
        )


def factors_of(units: Units, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``q / p`` of each unit; 0 for those that are never drawn."""
    chances = drawable(probabilities)
    return np.divide(units.prior, chances, out=np.zeros(len(units)), where=chances > 0.0)
