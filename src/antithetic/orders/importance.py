"""Draws with replacement in which rows with large gradients come more often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import Order
from antithetic.orders.pairs import Pairs
from antithetic.orders.pool import Draws, Pool
from antithetic.orders.probabilities import (
    IMPORTANCES,
    PRIOR_SHARE,
    normalised,
    unit_probabilities,
)
from antithetic.orders.variance import weighted_variance
from antithetic.orders.weighted import WeightedDraws
from antithetic.problem.smoothness import squared_norms


@dataclass(frozen=True, eq=False, repr=False)
class Importance(Order):
    """Rows, pairs or groups drawn with replacement by probabilities.

    Gradients are divided by their probabilities, so that a batch stays unbiased.

    Parameters
    ----------
    by : {"bounds", "gradients"} or array-like of shape (units,), default="bounds"
        Probabilities in proportion to bounds on the gradients (for SVRG and SAGA, on how fast they
        change), to the gradients before each epoch, or to your own numbers: one per row, pair
        (i, partner[i]) or group.
    pairs : Pairs, str, callable, AntitheticTable, GroupTable or None, default=None
        Which rows are used together; None draws single rows.

    Examples
    --------
    >>> from antithetic.orders import Importance
    >>> Importance(by=[0.5, 1.0, 2.0])
    Importance(by=[0.5, 1. , 2. ])
    """

    once: ClassVar[bool] = False
    has_partial_sums: ClassVar[bool] = False
    by: Any = "bounds"
    pairs: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", Pairs.of(self.pairs))
        if isinstance(self.by, str):
            if self.by not in IMPORTANCES:
                raise ValueError(
                    f"by {self.by!r} is not known; use one of {', '.join(IMPORTANCES)}, or one"
                    " number per row, pair or group"
                )
            return
        try:
            numbers = np.array(self.by, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "by must be a word, or real numbers, one per row, pair or group"
            ) from error
        if numbers.ndim != 1:
            raise ValueError(
                f"by must be a one-dimensional array of numbers; got shape {numbers.shape}"
            )
        normalised(numbers, len(numbers), "by")  # NaN and the like are refused here
        numbers.flags.writeable = False
        object.__setattr__(self, "by", numbers)

    def check_length(self, n: int) -> None:
        """Raise ValueError if there are numbers of other than n rows."""
        if self._has_numbers_of_rows:
            normalised(self.by, n, "by")

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Cut numbers to some of the rows."""
        return self.but(by=self.by[rows]) if self._has_numbers_of_rows else self

    @property
    def _has_numbers_of_rows(self) -> bool:
        """Whether there is a number for each row or, which are as many, each pair (i, S[i])."""
        has_groups = self.pairs is not None and self.pairs.nest is not None
        return isinstance(self.by, np.ndarray) and not has_groups

    def draw_from(self, pool: Pool) -> Draws:
        """Apply the order to a pool."""
        follows = isinstance(self.by, str) and self.by == "gradients"
        draws = ImportanceDraws(
            pool, by=self.by, squares=squared_norms(pool.problem) if follows else None
        )
        draws.probabilities(None)  # numbers that do not fit are refused before the first step
        return draws


@dataclass(frozen=True, slots=True, eq=False)
class ImportanceDraws(Draws):
    """Importance applied to a pool; ``squares`` are those of the rows, to follow gradients."""

    by: Any = field(kw_only=True)
    squares: NDArray[np.float64] | None = field(kw_only=True)

    @property
    def is_draw(self) -> bool:
        """True: each batch is drawn."""
        return True

    @property
    def follows(self) -> bool:
        """Whether the probabilities are those of the gradients before each epoch."""
        return self.squares is not None

    def probabilities(self, slopes: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Probability of each unit, at these slopes where gradients are followed."""
        pool = self.pool
        return unit_probabilities(
            pool.problem, pool.table, self.by, slopes, smooth=pool.corrected, squares=self.squares
        )

    def sampler(self, slopes: NDArray[np.float64] | None = None) -> WeightedDraws:
        """Return what draws the batches."""
        pool = self.pool
        return WeightedDraws(pool.units, pool.batch_size, pool.seed, self.probabilities(slopes))

    def variance(
        self,
        slopes: NDArray[np.float64],
        epoch: int,  # noqa: ARG002
        order: NDArray[np.intp] | None,  # noqa: ARG002
    ) -> float:
        """Exact variance of the mean gradient of a batch."""
        pool = self.pool
        chances = self.probabilities(slopes)
        return weighted_variance(pool.problem, slopes, pool.units, pool.batch_size, chances)

    def drawn_squares(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean square of each unit, times the largest factor that its draw can give it."""
        units = self.pool.units
        means = units.means(squares)
        if self.follows:  # the variance is at most this many times that of uniform draws
            return means / (1.0 - PRIOR_SHARE)
        factors = np.divide(
            units.prior, self.probabilities(None), out=np.zeros(len(units)), where=means > 0.0
        )
        drawn: NDArray[np.float64] = means * factors
        return drawn
