"""Draws with replacement within strata, a fixed number from each in every batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from antithetic._util.threads import thread_map
from antithetic._util.validation import check_count, power_of_two_near
from antithetic.orders.order import Draws, Order, Pool
from antithetic.orders.pairs import Pairs
from antithetic.orders.units import (
    Batches,
    Table,
    Units,
    cumulative,
    draw,
    lay_out,
    members,
    scaled_rows,
)
from antithetic.orders.variance import stratified_variance, stratum_variances
from antithetic.pairing.groups import GroupTable
from antithetic.pairing.rows import Rows, sketch
from antithetic.problem import Problem
from antithetic.problem.variance import safe_unit

ALLOCATIONS = ("proportional", "optimal")
_AXES = 32  # the sums of pairs are small where rows are widest, so more axes than for pairing
_SAMPLE_UNITS = 20_000  # from which the widest direction is found
_BLOCK = 1 << 14


def make_strata(
    problem: Problem,
    table: Table | None,
    strata: Any,
    seed: int = 0,
    *,
    slopes: NDArray[np.float64] | None = None,
    batch_size: int | None = None,
) -> NDArray[np.intp]:
    """Stratum of each unit of a table (rows without one), numbered from 0, none of them empty.

    Parameters
    ----------
    problem : Problem
    table : AntitheticTable, GroupTable or None
    strata : array-like of shape (n,), int or None
        Labels of the rows, of any kind that can be sorted; a pair ``(i, S[i])`` has the label of
        row i. Groups have none. Or how many clusters of the units' mean gradients to make, all of
        one size or, with ``batch_size``, of the sizes that its units can be allocated to in exact
        proportion. In a few principal coordinates the units are cut across their widest direction,
        and the parts again. None means as many as a batch has units.
    seed : int, default=0
        Seed of the sample from which the coordinates are found, if there are many rows.
    slopes : ndarray of shape (n,), default=None
        The gradients of clusters are those at these slopes; None means signed rows (for regression,
        the gradients at weights of zero).
    batch_size : int, default=None
        Rows of a batch. Where neither labels nor a number are given, there are as many strata as it
        has units.

    Returns
    -------
    ndarray of intp of shape (units,)

    Notes
    -----
    With counts in exact proportion, strata never have more variance than uniform draws,
    for any slopes. Clusters of arbitrary size can: a large one that contributes one unit to a batch
    is drawn from too rarely. Measured on the six sets (8000 rows of ijcnn1.tr; batches of 2 to 16
    units, rows and pairs, as many strata as units, made and measured at zero and after four
    epochs), k-means had 0.30 to 0.76 of the variance of uniform draws in the geometric mean, and at
    worst 4.7 times as much; this has 0.30 to 0.71, and at worst 0.98.
    """
    units = Units.of_table(problem.n, table)
    if not (strata is None or isinstance(strata, (int, np.integer))):
        if isinstance(table, GroupTable):
            raise ValueError(
                "strata are labels of rows, and a group may mix several; give the number of strata"
                " instead, or use rows or pairs"
            )
        return own_strata(strata, problem.n)
    n_strata = _as_many_as_units(units, batch_size) if strata is None else int(strata)
    if n_strata > len(units):
        raise ValueError(
            "the number of strata must be at most the number of rows, pairs or groups,"
            f" {len(units)}; got {n_strata}"
        )
    in_batch = n_strata if batch_size is None else max(n_strata, units.in_batch(batch_size))
    counts = _apportion(np.ones(n_strata), in_batch)
    rows = Rows.of_problem(problem) if slopes is None else scaled_rows(problem, slopes)
    with thread_map(1):  # one thread of BLAS: the strata must not depend on their number
        return _cells(_unit_points(sketch(rows, _AXES, seed), units), counts)


def own_strata(given: Any, n: int) -> NDArray[np.intp]:
    """Number labels of n rows from 0; ValueError for labels that do not fit."""
    labels = np.asarray(given)
    if labels.shape != (n,):
        raise ValueError(
            f"strata must have shape ({n},), one label per row of X; got {labels.shape}; in"
            " cross-validation pass them to fit(strata=), where they are cut to each fold"
        )
    if (labels != labels).any():  # NaN differs from itself
        raise ValueError(f"strata has NaN, first in row {int(np.argmax(labels != labels))}")
    try:
        codes = np.unique(labels, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError(
            "strata mixes labels that cannot be compared (numbers with strings, or None); use one"
            " kind"
        ) from error
    return codes.ravel().astype(np.intp, copy=False)


def _as_many_as_units(units: Units, batch_size: int | None) -> int:
    in_batch = 1 if batch_size is None else units.in_batch(batch_size)
    if in_batch < 2:
        raise ValueError(
            "a batch of one unit has no room for two strata; use a batch_size of at least"
            f" {units.least_batch(2)}, or give the strata"
        )
    return min(in_batch, len(units))


def _unit_points(points: NDArray[np.float32], units: Units) -> NDArray[np.float32]:
    """Mean of the coordinates of each unit's rows: coordinates are linear."""
    found = np.empty((len(units), points.shape[1]), dtype=np.float32)
    sizes = units.sizes.astype(np.float32)
    for start in range(0, len(units), _BLOCK):
        part = slice(start, min(start + _BLOCK, len(units)))
        begins = units.starts[part.start : part.stop + 1]
        found[part] = (
            np.add.reduceat(points[units.rows[begins[0] : begins[-1]]], begins[:-1] - begins[0])
            / sizes[part, None]
        )
    return found


def _cells(points: NDArray[np.float32], counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Cut points across their widest direction, and each part again, in proportion to counts."""
    labels, parts = np.empty(len(points), dtype=np.intp), [(np.arange(len(points)), 0, len(counts))]
    while parts:
        index, low, high = parts.pop()
        if high - low == 1:
            labels[index] = low
            continue
        middle = (low + high) // 2
        first = round(len(index) * float(counts[low:middle].sum() / counts[low:high].sum()))
        first = min(
            max(first, middle - low), len(index) - (high - middle)
        )  # a point at least for each cell
        order = np.argsort(
            points[index] @ _widest(points[index[:: -(-len(index) // _SAMPLE_UNITS)]]),
            kind="stable",
        )
        parts += [(index[order[:first]], low, middle), (index[order[first:]], middle, high)]
    return labels


def _widest(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Direction in which points vary most."""
    centred = points - points.mean(axis=0, dtype=np.float64)
    widest: NDArray[np.float32] = np.linalg.eigh(centred.T @ centred)[1][:, -1].astype(np.float32)
    return widest


def allocate(
    problem: Problem,
    table: Table | None,
    strata: NDArray[np.intp],
    n_units: int,
    allocation: str = "proportional",
    slopes: NDArray[np.float64] | None = None,
) -> NDArray[np.intp]:
    r"""How many of the units of a batch each stratum gives: at least one, by largest remainders.

    Parameters
    ----------
    problem : Problem
    table : AntitheticTable, GroupTable or None
    strata : ndarray of intp of shape (units,)
    n_units : int
        Units of a batch.
    allocation : {"proportional", "optimal"}
        In proportion to the prior :math:`Q_h` of a stratum, or (Neyman) to :math:`Q_h \sigma_h`,
        with the standard deviation of the units' mean gradients inside it: the smallest possible
        variance at the given slopes.
    slopes : ndarray of shape (n,), default=None
        For ``"optimal"``; None means those at weights of zero.

    Returns
    -------
    ndarray of intp of shape (strata,)
        They sum to ``n_units``.
    """
    if allocation not in ALLOCATIONS:
        raise ValueError(
            f"allocation {allocation!r} is not known; use one of {', '.join(ALLOCATIONS)}"
        )
    units = Units.of_table(problem.n, table)
    share: NDArray[np.float64] = np.bincount(strata, weights=units.prior).astype(
        np.float64, copy=False
    )
    check_room(units, n_units, len(share))
    if allocation == "optimal":
        slopes = problem.slopes() if slopes is None else slopes
        deviation = np.sqrt(
            stratum_variances(problem, slopes * safe_unit(problem, slopes), units, strata)
        )
        if (share * deviation).any():
            return _least_variance(share * deviation, n_units)
    return _apportion(share, n_units)


def check_room(units: Units, n_units: int, n_strata: int) -> None:
    """Raise ValueError where a batch has fewer units than there are strata."""
    if n_units < n_strata:
        kind = "pairs" if units.paired else "rows" if units.size == 1 else f"groups of {units.size}"
        raise ValueError(
            f"a batch needs at least one unit from each of the {n_strata} strata, but has only"
            f" {n_units} ({kind}); use a batch_size of at least {units.least_batch(n_strata)}, or"
            " fewer strata"
        )


def _least_variance(spreads: NDArray[np.float64], total: int) -> NDArray[np.intp]:
    """Whole numbers, at least 1 each, with a given sum and least ``sum(spreads**2 / counts)``."""
    counts = np.ones(len(spreads), dtype=np.intp)
    for _ in range(total - len(spreads)):
        counts[np.argmax(spreads**2 / (counts * (counts + 1.0)))] += 1
    return counts


def _apportion(shares: NDArray[np.float64], total: int) -> NDArray[np.intp]:
    """Whole numbers in proportion to shares, at least 1 each, with a given sum."""
    shares = shares * power_of_two_near(shares)  # a sum that is next to nothing is not divided by
    counts, free = np.ones(len(shares), dtype=np.intp), np.ones(len(shares), dtype=bool)
    left = total
    while free.any():  # a share below one becomes one, and the others divide what is left
        due = np.where(free, shares * (left / shares[free].sum()), 0.0)
        small = free & (due < 1.0)
        if not small.any():
            counts[free] = due[free].astype(np.intp)
            most = np.argsort(-(due - np.floor(due))[free], kind="stable")[
                : total - int(counts.sum())
            ]
            counts[np.flatnonzero(free)[most]] += 1
            break
        free &= ~small
        left -= int(small.sum())
    return counts


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
        follows = self.allocation == "optimal"
        draws = StratifiedDraws(pool, strata=strata, allocation=self.allocation, follows=follows)
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

    def counts(self, slopes: NDArray[np.float64] | None) -> NDArray[np.intp]:
        """Units of a batch that each stratum gives."""
        pool = self.pool
        in_batch = pool.units.in_batch(pool.batch_size)
        return allocate(pool.problem, pool.table, self.strata, in_batch, self.allocation, slopes)

    def batches(
        self,
        epoch: int,
        order: NDArray[np.intp] | None = None,  # noqa: ARG002
        slopes: NDArray[np.float64] | None = None,
    ) -> Batches:
        """Batches of an epoch, a pure function of the seed, the epoch and the slopes."""
        pool, counts = self.pool, self.counts(slopes if self.follows else None)
        rng = pool.generator(epoch)
        return stratum_batches(pool.units, pool.batch_size, self.strata, counts, rng)

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


def stratum_batches(
    units: Units,
    batch_size: int,
    strata: NDArray[np.intp],
    counts: NDArray[np.intp],
    rng: np.random.Generator,
) -> Batches:
    r"""Batches with :math:`K_h` units of stratum h, and factors that keep them unbiased.

    Their mean gradients are multiplied by :math:`Q_h K / K_h`, where :math:`Q_h` is the sum of the
    priors of the stratum and :math:`K = \sum_h K_h`. So the batch gradient is unbiased and has no
    variance between strata. An epoch is ``ceil(n / batch_size)`` batches. Of an odd batch of pairs
    one row comes alone, from all rows.

    Parameters
    ----------
    units : Units
    batch_size : int
    strata : ndarray of intp of shape (units,)
        Stratum of each unit, from 0.
    counts : ndarray of intp of shape (strata,)
        Units of a batch that each stratum gives, at least 1.
    rng : Generator
    """
    prior, draws, drawn = units.prior, units.draws(batch_size), []
    for index, count in zip(members(strata, len(counts)), counts, strict=True):
        drawn.append(index[draw(rng, cumulative(prior[index]), (draws, int(count)))])
    shares = np.bincount(strata, weights=prior) * counts.sum() / counts
    weights = np.tile(np.repeat(shares, counts), (draws, 1))
    return lay_out(units, batch_size, np.concatenate(drawn, axis=1), weights, rng)
