"""What a Newton step would gain, by conjugate gradients: no matrix is formed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from antithetic.exact.sums import Vector

_MOST_PRODUCTS = 12
_ENOUGH = 0.02  # of what conjugate gradients have gained, in one step or in all that would follow


def newton_gain(
    times: Callable[[Vector], Vector], gradient: Vector, solve: Callable[[Vector], Vector]
) -> float:
    r"""Half of :math:`g^T H^{-1} g`, from below, by at most 12 products with H.

    Parameters
    ----------
    times : callable
        Multiplies a vector by H.
    gradient : ndarray
    solve : callable
        Multiplies a vector by the inverse of a matrix near H.

    Examples
    --------
    >>> import numpy as np
    >>> newton_gain(lambda v: 2.0 * v, np.array([2.0, 0.0]), lambda v: v)
    1.0
    """
    left = gradient.copy()
    direction, gained, before = solve(left), 0.0, 0.0
    length = float(left @ direction)
    for _ in range(_MOST_PRODUCTS):
        product = times(direction)
        curved = float(direction @ product)
        if not curved > 0.0:
            break
        step = length / curved
        more = 0.5 * step * length
        gained += more
        # as a rule, later steps gain less, and by about the same factor each
        if min(more, _still_to_gain(before, more)) <= _ENOUGH * gained:
            break
        before = more
        left -= step * product
        scaled = solve(left)
        longer = float(left @ scaled)
        direction *= longer / length
        direction += scaled
        length = longer
    return gained


def _still_to_gain(before: float, more: float) -> float:
    """What all further steps would gain, if each gains less by the factor of the last two."""
    return more * more / (before - more) if more < before else np.inf
