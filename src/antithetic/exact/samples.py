r"""Samples of the rows that come before all of them, and whose Hessian serves all of them.

A few hundred rows per column, drawn by importance, know the curvature of all rows, so that a
handful of visits to these end at the optimum. Early on noise is cheap, and few rows are enough:
each sample is solved to its statistical accuracy, beyond which more digits would be noise.
"""

from __future__ import annotations

from typing import NamedTuple

from antithetic.exact.sums import hessian_visits

_LEAST_ROWS = 1500  # fewer are not worth a sample
_ROWS_PER_COLUMN, _LEAST_SAMPLE = 400.0, 2000.0
_FEW_PER_COLUMN = 150.0  # if the Hessian of so many costs more than a visit to all rows
# Visits that a Hessian of all rows may cost to be taken in any case; more with an L1 penalty, whose
# bound on the gap is loose with the Hessian of a sample.
_CHEAP_VISITS, _CHEAP_WITH_L1 = 1.2, 4.0
_LARGEST_SHARE = 1.0 / 3.0  # of the rows in a sample
_LARGEST_WITH_HESSIANS = 1.0 / 6.0  # in one whose Hessians cost less than one of all rows
_LEAST_PER_COLUMN = 2.0
_FIRST_ROWS, _FIRST_PER_COLUMN, _FIRST_SHARE = 500.0, 20.0, 1.0 / 64.0
_LEAST_GROWTH = 1.5  # from the first sample to the second


class SamplePlan(NamedTuple):
    """Which samples are drawn.

    Attributes
    ----------
    sizes : tuple of float
        Of the samples that are solved, in turn; empty if rows are too few.
    gives_hessians : bool
        Whether the Hessian of the last sample serves all rows.
    """

    sizes: tuple[float, ...]
    gives_hessians: bool


def plan_samples(n: int, d: int, *, has_l1: bool = False) -> SamplePlan:
    """Choose the samples of n rows.

    Examples
    --------
    >>> plan_samples(1_000_000, 50)
    SamplePlan(sizes=(20000.0,), gives_hessians=True)
    >>> plan_samples(1000, 50).sizes
    ()
    """
    most, visits = _LARGEST_SHARE * n, hessian_visits(d)
    size = max(_ROWS_PER_COLUMN * d, _LEAST_SAMPLE)
    gives_hessians = size <= most and visits > (_CHEAP_WITH_L1 if has_l1 else _CHEAP_VISITS)
    if gives_hessians and visits * size > n:
        size = max(_FEW_PER_COLUMN * d, _LEAST_SAMPLE)
    gives_hessians = gives_hessians and size <= _LARGEST_WITH_HESSIANS * n
    size = min(size, most)
    if n < _LEAST_ROWS or most < _LEAST_PER_COLUMN * d:
        return SamplePlan((), gives_hessians=False)
    first = max(_FIRST_ROWS, _FIRST_PER_COLUMN * d, _FIRST_SHARE * n)
    sizes = (first, size) if _LEAST_GROWTH * first < size else (size,)
    return SamplePlan(sizes, gives_hessians)
