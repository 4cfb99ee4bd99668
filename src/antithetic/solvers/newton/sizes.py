"""How many rows the samples have that come before all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from antithetic.exact.sums import Sums
from antithetic.solvers.newton.models import hessian_passes

_LEAST_ROWS = 1500  # fewer are not worth a sample
_GROWTH = 8.0
_LEAST_GROWTH = 5.0  # from a sample that is worth solving to the next
_DIGITS_OF_A_FIT = 18.0  # logarithm of what a fit divides the distance by: a gap of 1e-8


def level_sizes(n: int, d: int, most: float = math.inf) -> list[int]:
    """Sizes of the samples, at most so large; none where all rows are few."""
    top = min(n / 3.0, max(n / 8.0, 20.0 * d), most)
    if n < _LEAST_ROWS or top < 2.0 * d:
        return []
    first = max(500.0, 5.0 * d, min(n / 64.0, top / 8.0))
    if top <= 1.5 * first:
        return [int(top)]
    steps = math.ceil(math.log(top / first) / math.log(_GROWTH))
    return [int(first * (top / first) ** (k / steps)) for k in range(steps + 1)]


def sizes_for(sums: Sums) -> list[int]:
    """Sizes of the samples of some rows; none where a Hessian of all rows is cheaper.

    Of a quadratic objective one Hessian leads to the optimum. That of a sample costs less, but
    leaves about 2 d / m at each step, and steps cost a pass each.
    """
    sizes = level_sizes(sums.n, sums.d, sums.most_sampled)
    if not sizes or not getattr(sums, "is_quadratic", False):
        return sizes
    saved = hessian_passes(sums) * (1.0 - sizes[-1] / sums.n)
    steps = _DIGITS_OF_A_FIT / max(1.0, math.log(sizes[-1] / (2.0 * sums.d)))
    return [] if saved <= steps else sizes


def solves_first(sizes: Sequence[int]) -> bool:
    """Whether the first sample is solved; else it lends its Hessian to the second.

    Its solution is hardly better than none where the second is not much larger: with 5 rows per
    column most of it is noise. Its Hessian still makes for fast steps, and costs less than one of
    the second.
    """
    return len(sizes) == 1 or sizes[1] >= _LEAST_GROWTH * sizes[0]


def hessian_sizes(sizes: Sequence[int]) -> list[int]:
    """Rows of the Hessians: of the first sample at zero, and of each where it is solved."""
    return [sizes[0], *sizes] if solves_first(sizes) else list(sizes)
