"""Draws with replacement within strata, a fixed number from each in every batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_count
from antithetic.orders.batches import Batches
from antithetic.orders.order import Order
from antithetic.orders.pairs import Pairs
from antithetic.orders.pool import Draws, Pool
from antithetic.orders.strata import ALLOCATIONS, allocate, make_strata, own_strata
from antithetic.orders.units import Units, cumulative, draw, lay_out, members
from antithetic.orders.variance import stratified_variance


@dataclass(frozen=True, eq=False, repr=False)
class Stratified(Order):
    """Some rows, pairs or groups of each stratum in every batch, drawn with replacement.

    Parameters
    ----------
    strata : array-like of shape (n,), int or None, default=None
        Labels of the rows (a pair has the label of its first row), or the number of strata to
        make by cutting the rows, pairs or groups along their widest directions. None makes as
        many as a batch has units, unless ``fit(strata=)`` gives labels.
    allocation : {"proportional", "optimal"}, default="proportional"
        How many of a batch come from each stratum: by its size, or also by the spread of its
        gradients before each epoch.
    pairs : Pairs, str, callable, AntitheticTable, GroupTable or None, default=None
        Which rows are used together; None draws single rows.
    """

    once: ClassVar[bool] = False
    has_partial_sums: ClassVar[bool] = False
    strata: Any = None
    allocation: str = "proportional"
    pairs: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", Pairs.of(self.pairs))
        if not isinstance(self.allocation, str) or self.allocation not in ALLOCATIONS:
            raise ValueError(
                f"allocation {self.allocation!r} is not known; use one of {', '.join(ALLOCATIONS)}"
            )
        if self.strata is None:
            return
        if isinstance(self.strata, str):
            raise ValueError(
                "strata must be labels of the rows, or the number of strata to make; got"
                f" {self.strata!r}"
            )
        try:
            labels = np.array(self.strata)
        except ValueError as error:
            raise ValueError("strata must be one label per row, or the number to make") from error
        if labels.ndim == 0:
            object.__setattr__(self, "strata", check_count(self.strata, "strata", least=1))
            return
        if labels.ndim != 1:
            raise ValueError(f"strata must be one label per row; got shape {labels.shape}")
        labels.flags.writeable = False
        object.__setattr__(self, "strata", labels)

    def check_length(self, n: int) -> None:
        """Raise ValueError if there are labels of other than n rows."""
        if isinstance(self.strata, np.ndarray):
            own_strata(self.strata, n)

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Cut labels to some of the rows."""
        return self.but(strata=self.strata[rows]) if isinstance(self.strata, np.ndarray) else self

    def draw_from(self, pool: Pool) -> Draws:
        """Apply the order to a pool."""
        # from signed rows, not gradients: a run that is resumed has the same strata
        strata = make_strata(
            pool.problem, pool.table, self.strata, pool.seed, batch_size=pool.batch_size
        )
        draws = StratifiedDraws(pool, strata=strata, allocation=self.allocation)
        draws.counts(None)  # strata that do not fit into a batch are refused before the first step
        return draws


@dataclass(frozen=True, slots=True, eq=False)
class StratifiedDraws(Draws):
    """Stratified draws from a pool, with the stratum of each unit."""

    strata: NDArray[np.intp] = field(kw_only=True)
    allocation: str = field(kw_only=True)

    @property
    def is_draw(self) -> bool:
        """True: each batch is drawn."""
        return True

    @property
    def follows(self) -> bool:
        """Whether the allocation depends on the gradients before each epoch."""
        return self.allocation == "optimal"

    def counts(self, slopes: NDArray[np.float64] | None) -> NDArray[np.intp]:
        """Units of a batch that each stratum gives."""
        pool = self.pool
        in_batch = pool.units.in_batch(pool.batch_size)
        return allocate(pool.problem, pool.table, self.strata, in_batch, self.allocation, slopes)

    def sampler(self, slopes: NDArray[np.float64] | None = None) -> StratumDraws:
        """Return what draws the batches."""
        pool = self.pool
        counts = self.counts(slopes)
        return StratumDraws(pool.units, pool.batch_size, pool.seed, self.strata, counts)

    def variance(
        self,
        slopes: NDArray[np.float64],
        epoch: int,  # noqa: ARG002
        order: NDArray[np.intp] | None,  # noqa: ARG002
    ) -> float:
        """Exact variance of the mean gradient of a batch."""
        pool, counts = self.pool, self.counts(slopes)
        return stratified_variance(
            pool.problem, slopes, pool.units, pool.batch_size, self.strata, counts
        )

    def drawn_squares(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean square of each unit, times the largest factor that its draw can give it."""
        units, counts = self.pool.units, self.counts(None)
        least = np.ones_like(counts) if self.follows else counts
        shares = np.bincount(self.strata, weights=units.prior)
        drawn: NDArray[np.float64] = (
            units.means(squares) * ((shares * counts.sum() / least)[self.strata])
        )
        return drawn


@dataclass(frozen=True, slots=True, eq=False)
class StratumDraws:
    r"""Batches with :math:`K_h` units of stratum h, and factors that keep them unbiased.

    Their mean gradients are multiplied by :math:`Q_h K / K_h`, where :math:`Q_h` is the sum of the
    priors of the stratum and :math:`K = \sum_h K_h`. So the batch gradient is unbiased and has no
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

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002
        """Batches of an epoch, a pure function of the seed and the epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        prior, draws, drawn = self.units.prior, self.units.draws(self.batch_size), []
        for index, count in zip(members(self.strata, len(self.counts)), self.counts, strict=True):
            drawn.append(index[draw(rng, cumulative(prior[index]), (draws, int(count)))])
        shares = np.bincount(self.strata, weights=prior) * self.counts.sum() / self.counts
        weights = np.tile(np.repeat(shares, self.counts), (draws, 1))
        return lay_out(self.units, self.batch_size, np.concatenate(drawn, axis=1), weights, rng)
