"""Strata of the units that are drawn, and how many units of a batch each gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._threads import thread_map
from antithetic._validate import check_count
from antithetic.pairing.coordinates import sketch
from antithetic.pairing.groups import GroupTable
from antithetic.pairing.rows import Rows
from antithetic.problem import Problem
from antithetic.sampling.importance import scaled_rows
from antithetic.sampling.stratified import members
from antithetic.sampling.units import Table, Units

ALLOCATIONS = ("proportional", "optimal")
_AXES = 32  # the sums of pairs are small where rows are widest, so more axes than for pairing
_SAMPLE_UNITS = 20_000  # from which the centres are found
_ROUNDS = 30
_BLOCK = 1 << 14


def make_strata(
    problem: Problem,
    table: Table | None,
    given: Any,
    n_strata: int | None,
    slopes: NDArray[np.float64] | None = None,
    seed: int = 0,
    *,
    batch_size: int | None = None,
) -> NDArray[np.intp]:
    """Stratum of each unit of a table (rows without one), numbered from 0, none of them empty.

    Parameters
    ----------
    problem : Problem
    table : AntitheticTable, GroupTable or None
    given : array-like of shape (n,) or None
        Labels of the rows, of any kind that can be sorted; a pair ``(i, S[i])`` has the label of row i. Groups have none.
    n_strata : int or None
        Or so many clusters of the units' gradients, by k-means in a few principal coordinates: what k-means makes small, the mean squared
        distance inside clusters, is the variance that remains with a proportional allocation. There may be fewer where units coincide.
    slopes : ndarray of shape (n,), default=None
        The gradients are those at these slopes; None means signed rows (for regression, the gradients at weights of zero).
    seed : int, default=0
    batch_size : int, default=None
        Where neither labels nor a number are given, there are as many strata as a batch of this size has units.

    Returns
    -------
    ndarray of intp of shape (units,)
    """
    units = Units.of_table(problem.n, table)
    if given is not None:
        if n_strata is not None:
            raise ValueError("give either strata, labels of one's own, or n_strata, a number of clusters; got both")
        return _own_strata(given, problem.n, isinstance(table, GroupTable))
    if n_strata is None:
        n_strata = _as_many_as_units(units, batch_size)
    if check_count(n_strata, "n_strata", least=1) > len(units):
        raise ValueError(f"n_strata must be at most the number of units drawn from, {len(units)}; got {n_strata}")
    rows = Rows.of_problem(problem) if slopes is None else scaled_rows(problem, slopes)
    with thread_map(1):  # one thread of BLAS: the strata must not depend on their number
        points = sketch(rows, _AXES, seed)
        sums = np.add.reduceat(points[units.rows], units.starts[:-1], axis=0, dtype=np.float64)
        return _clusters(sums / units.sizes[:, None], n_strata, np.random.default_rng(seed))


def _own_strata(given: Any, n: int, grouped: bool) -> NDArray[np.intp]:
    if grouped:
        raise ValueError("strata are labels of rows, and groups mix rows of several; use n_strata=, or rows or pairs")
    labels = np.asarray(given)
    if labels.shape != (n,):
        raise ValueError(f"strata must have shape ({n},), one label per row of X; got {labels.shape}")
    if (labels != labels).any():  # NaN differs from itself
        raise ValueError(f"strata has NaN, first in row {int(np.argmax(labels != labels))}")
    try:
        codes = np.unique(labels, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError("strata mixes labels that cannot be compared (numbers with strings, or None); use one kind") from error
    return codes.ravel().astype(np.intp, copy=False)


def _as_many_as_units(units: Units, batch_size: int | None) -> int:
    in_batch = 1 if batch_size is None else units.in_batch(batch_size)
    if in_batch < 2:
        raise ValueError(
            f"a batch of one unit has no room for two strata; use batch_size of at least {units.least_batch(2)}, or give strata or n_strata"
        )
    return min(in_batch, len(units))


def _clusters(points: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Labels of k-means (Lloyd's rounds from k-means++ centres, found on a sample); clusters that stay empty are left out."""
    sample = points
    if len(points) > _SAMPLE_UNITS:
        sample = points[np.sort(rng.choice(len(points), _SAMPLE_UNITS, replace=False))]
    centres = _first_centres(sample, count, rng)
    labels = _nearest(sample, centres)
    for _ in range(_ROUNDS):
        sizes = np.bincount(labels, minlength=len(centres))
        sums = np.stack([np.bincount(labels, weights=column, minlength=len(centres)) for column in sample.T], axis=1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        before, labels = labels, _nearest(sample, centres)
        if np.array_equal(before, labels):
            break
    found: NDArray[np.intp] = np.unique(_nearest(points, centres), return_inverse=True)[1]
    return found.ravel().astype(np.intp, copy=False)


def _first_centres(points: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Points far from each other, each drawn by its squared distance from those before; fewer where points coincide."""
    centres = [points[rng.integers(len(points))]]
    distances = np.full(len(points), np.inf)
    while len(centres) < count:
        apart = points - centres[-1]
        distances = np.minimum(distances, np.einsum("ij,ij->i", apart, apart))
        sums = np.cumsum(distances)
        if sums[-1] == 0.0:
            break
        centres.append(points[np.searchsorted(sums, rng.random() * sums[-1], side="right").clip(max=len(points) - 1)])
    return np.array(centres)


def _nearest(points: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.intp]:
    """Number of the nearest centre of each point."""
    offsets, found = np.einsum("ij,ij->i", centres, centres), np.empty(len(points), dtype=np.intp)
    for start in range(0, len(points), _BLOCK):
        part = slice(start, start + _BLOCK)
        found[part] = np.argmin(offsets - 2.0 * (points[part] @ centres.T), axis=1)
    return found


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
        In proportion to the prior :math:`Q_h` of a stratum, or (Neyman) to :math:`Q_h \sigma_h`, with the standard deviation of the units'
        mean gradients inside it: the least variance there is, at the slopes given.
    slopes : ndarray of shape (n,), default=None
        For ``"optimal"``; None means those at weights of zero.

    Returns
    -------
    ndarray of intp of shape (strata,)
        They sum to ``n_units``.
    """
    if allocation not in ALLOCATIONS:
        raise ValueError(f"allocation {allocation!r} is not known; use one of {', '.join(ALLOCATIONS)}")
    units = Units.of_table(problem.n, table)
    share: NDArray[np.float64] = np.bincount(strata, weights=units.prior).astype(np.float64, copy=False)
    check_room(units, n_units, len(share))
    if allocation == "optimal":
        slopes = problem.slopes() if slopes is None else slopes
        deviation = np.sqrt(stratum_variances(problem, slopes * problem.safe_unit(slopes), units, strata))
        share = share * deviation if (share * deviation).any() else share
    return _apportion(share, n_units)


def check_room(units: Units, n_units: int, n_strata: int) -> None:
    """Raise ValueError where a batch has fewer units than there are strata."""
    if n_units < n_strata:
        kind = "pairs" if units.paired else "rows" if units.size == 1 else f"groups of {units.size}"
        raise ValueError(
            f"a batch must have a unit of each of the {n_strata} strata, and has {n_units} ({kind}); "
            f"use batch_size of at least {units.least_batch(n_strata)}, or fewer strata"
        )


def stratum_variances(problem: Problem, slopes: NDArray[np.float64], units: Units, strata: NDArray[np.intp]) -> NDArray[np.float64]:
    """Variance of the mean gradient of a unit drawn from each stratum, shape (strata,), in O(n d)."""
    prior, found = units.prior, []
    for index in members(strata, int(strata.max()) + 1):
        rows, starts = units.take(index)
        found.append(problem.unit_variance(slopes, rows, starts, prior[index] / prior[index].sum()))
    return np.array(found)


def _apportion(shares: NDArray[np.float64], total: int) -> NDArray[np.intp]:
    """Whole numbers in proportion to shares, at least 1 each, with a given sum."""
    counts, free = np.ones(len(shares), dtype=np.intp), np.ones(len(shares), dtype=bool)
    left = total
    while free.any():  # what is due less than one gets one, and the others share what is left
        due = np.where(free, shares * (left / shares[free].sum()), 0.0)
        small = free & (due < 1.0)
        if not small.any():
            counts[free] = due[free].astype(np.intp)
            most = np.argsort(-(due - np.floor(due))[free], kind="stable")[: total - int(counts.sum())]
            counts[np.flatnonzero(free)[most]] += 1
            break
        free &= ~small
        left -= int(small.sum())
    return counts
