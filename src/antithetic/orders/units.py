"""What is drawn with replacement: a row, a pair, or a group.

And how the drawn units are laid out in batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._util.validation import power_of_two_near
from antithetic.pairing.groups import GroupTable
from antithetic.pairing.rows import Rows
from antithetic.pairing.table import AntitheticTable
from antithetic.problem import Problem

NO_FACTORS = np.empty(0)
Table = AntitheticTable | GroupTable
_SMALLEST = 2.0**-53  # a generator's numbers are multiples of this


class Batches(NamedTuple):
    """Rows of one epoch in order, and where each batch begins; all arrays are contiguous.

    Attributes
    ----------
    rows : ndarray of intp
        Row numbers, one batch after the other.
    starts : ndarray of intp of shape (batches + 1,)
        Batch k is ``rows[starts[k]:starts[k + 1]]``.
    size : int
        Rows of a full batch; one with m rows takes the step ``eta * m / size``.
    factors : ndarray of float64, default=()
        What each row's gradient is multiplied by, so that the sum over a batch, divided by
        ``size``, is unbiased; empty where that is 1. A batch with factors always takes the full
        step, however many rows it has.
    unit : int, default=0
        Rows that stay together when the solver is to balance the order of the next epoch; 0 where
        it is not.
    sketched : bool, default=False
        Whether gradients that are much larger than a row may be compared by sketches where the
        order of the next epoch is balanced.
    """

    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    size: int
    factors: NDArray[np.float64] = NO_FACTORS
    unit: int = 0
    sketched: bool = False


def cut(rows: NDArray[np.intp], size: int) -> Batches:
    """Cut rows into batches of ``size``, the last one possibly shorter."""
    return Batches(rows, starts_of(len(rows), size), size)


def starts_of(n: int, size: int) -> NDArray[np.intp]:
    """Where batches of ``size`` begin in n rows, and where the last one ends; not to be changed."""
    starts = np.arange(0, n + size, size)
    starts[-1] = n
    starts.flags.writeable = False
    return starts


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    r"""Units of rows with mean gradients :math:`u_k` and priors :math:`q_k`.

    The gradient is :math:`\sum_k q_k u_k`.

    Attributes
    ----------
    n : int
        Number of rows.
    rows : ndarray of intp
        Rows of all units, one unit after the other.
    starts : ndarray of intp of shape (units + 1,)
        Unit k is ``rows[starts[k]:starts[k + 1]]``.
    size : int
        Rows of a unit; those that are left over by groups form one more unit, of fewer rows.
    paired : bool
        Whether unit i is the pair of row i and its partner, so that every row is in two units.
    """

    n: int
    rows: NDArray[np.intp]
    starts: NDArray[np.intp]
    size: int
    paired: bool = False

    @classmethod
    def of_table(cls, n: int, table: Table | None) -> Units:
        """Rows without a table, the pairs ``(i, S[i])`` of any permutation, or groups."""
        if table is None:
            return cls(n, np.arange(n), np.arange(n + 1), 1)
        if isinstance(table, AntitheticTable):
            return cls(
                n,
                np.column_stack([np.arange(n), table.partner]).ravel(),
                np.arange(0, 2 * n + 1, 2),
                2,
                paired=True,
            )
        starts = np.arange(0, n + 1, table.size)
        return cls(
            n, table.order, starts if starts[-1] == n else np.append(starts, n), int(table.size)
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Rows of each unit."""
        return np.diff(self.starts)

    @property
    def prior(self) -> NDArray[np.float64]:
        """Probability of each unit when a row is drawn uniformly: ``q``."""
        return self.sizes / len(self.rows)

    def take(self, index: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of some units, one unit after the other, and where each begins."""
        sizes = self.sizes[index]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return (
            self.rows[np.repeat(self.starts[index] - starts[:-1], sizes) + np.arange(starts[-1])],
            starts,
        )

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean of the rows' values over each unit."""
        sums: NDArray[np.float64] = np.add.reduceat(values[self.rows], self.starts[:-1])
        return sums / self.sizes

    def in_batch(self, batch_size: int) -> int:
        """Number of units of a batch; of an odd batch of pairs, one row comes alone."""
        if self.paired:
            return max(1, batch_size // 2)
        if batch_size % self.size == 0:
            return batch_size // self.size
        below = batch_size // self.size * self.size
        nearest = " or ".join(
            str(size) for size in (below, below + self.size) if 0 < size <= self.n
        )
        raise ValueError(
            f"a batch of {batch_size} rows is not a whole number of groups of {self.size}, which"
            " sampling with replacement needs; "
            f'use batch_size={nearest}, or order="shuffle"'
        )

    def draws(self, batch_size: int) -> int:
        """How many batches are drawn in an epoch; a pair fills two batches of one row."""
        steps = -(-self.n // batch_size)
        return -(-steps // 2) if self.paired and batch_size == 1 else steps

    def least_batch(self, n_strata: int) -> int:
        """Smallest batch that has a unit of each stratum."""
        return n_strata * self.size if n_strata > 1 or not self.paired else 1


def drawable(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Set chances that a generator's numbers cannot resolve to 0, so that no factor is huge."""
    return np.where(chances < _SMALLEST, 0.0, chances)


def cumulative(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums of probabilities, the last of them exactly 1."""
    sums: NDArray[np.float64] = np.cumsum(chances)
    sums /= sums[-1]
    return sums


def draw(
    rng: np.random.Generator, sums: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.intp]:
    """Draw by cumulative probabilities; never what has probability 0, whose cell is empty."""
    numbers, drawn = rng.random(size), np.empty(size, np.intp)
    kernels.invert(sums, numbers.ravel(), drawn.reshape(-1))
    return drawn


def lay_out(
    units: Units,
    batch_size: int,
    drawn: NDArray[np.intp],
    weights: NDArray[np.float64],
    rng: np.random.Generator,
) -> Batches:
    """Batches of drawn units, each unit's mean gradient multiplied by its weight.

    ``drawn`` has shape (draws, units of a batch).

    The lone row of an odd batch of pairs is drawn uniformly here and has the factor 1.
    """
    if units.paired and batch_size == 1:
        rows, _ = units.take(drawn.ravel())
        return cut(rows[: units.n], 1)._replace(factors=np.repeat(weights.ravel(), 2)[: units.n])
    if units.size == 1:
        return cut(drawn.ravel(), batch_size)._replace(factors=weights.ravel())
    alone = batch_size % 2 if units.paired else 0
    steps, count = drawn.shape
    rows, starts = units.take(drawn.ravel())
    factors = np.repeat(
        (batch_size - alone) / count * weights.ravel() / np.diff(starts), np.diff(starts)
    )
    starts = starts[::count]
    if alone:
        rows = np.column_stack([rows.reshape(steps, -1), rng.integers(units.n, size=steps)]).ravel()
        factors = np.column_stack([factors.reshape(steps, -1), np.ones(steps)]).ravel()
        starts = starts + np.arange(steps + 1)
    return Batches(rows, np.ascontiguousarray(starts), batch_size, factors)


def members(strata: NDArray[np.intp], n_strata: int) -> list[NDArray[np.intp]]:
    """Units of each stratum."""
    ends = np.cumsum(np.bincount(strata, minlength=n_strata))
    return np.split(np.argsort(strata, kind="stable"), ends[:-1])


def weighted_batches(
    units: Units, batch_size: int, probabilities: NDArray[np.float64], rng: np.random.Generator
) -> Batches:
    r"""Draw unit k with probability :math:`p_k`, unbiased by factors.

    Its mean gradient is multiplied by :math:`q_k / p_k`, with q the prior.
    With the priors for probabilities this is the uniform draw of units of different sizes: a group
    is drawn by drawing a row, and takes the full step. An epoch is ``ceil(n / batch_size)``
    batches. Of an odd batch of pairs one row comes alone, drawn uniformly; with a batch of one row,
    the members of a drawn pair follow each other.

    Parameters
    ----------
    units : Units
    batch_size : int
    probabilities : ndarray of shape (units,)
        They sum to 1. What has probability 0 is never drawn, and must have no gradient.
    rng : Generator
    """
    size = units.draws(batch_size), units.in_batch(batch_size)
    drawn = draw(rng, cumulative(drawable(probabilities)), size)
    return lay_out(units, batch_size, drawn, factors_of(units, probabilities)[drawn], rng)


def factors_of(units: Units, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``q / p`` of each unit; 0 for those that are never drawn."""
    chances = drawable(probabilities)
    return np.divide(units.prior, chances, out=np.zeros(len(units)), where=chances > 0.0)


def scaled_rows(problem: Problem, scale: NDArray[np.float64] | None) -> Rows:
    """Rows times numbers that may be too large for the type of X, up to a common factor."""
    if scale is not None:
        scale = (scale * power_of_two_near(scale)).astype(problem.X.dtype, copy=False)
    return Rows(problem.X, scale, float(problem.fit_intercept)).tamed()
