"""Draws by cumulative probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._core.jit import jit


@jit
def invert(
    sums: NDArray[np.float64], numbers: NDArray[np.float64], drawn: NDArray[np.intp]
) -> None:
    """Write for each number the first unit whose cumulative probability is above it.

    A guide says where to begin for each of as many cells as there are units; a binary search would
    miss the cache at every turn.
    """
    cells, unit = len(sums), 0
    guide = np.empty(cells, np.intp)
    for k in range(cells):
        while sums[unit] <= k / cells:
            unit += 1
        guide[k] = unit
    for k in range(len(numbers)):
        unit = guide[min(cells - 1, int(numbers[k] * cells))]
        while sums[unit] <= numbers[k]:
            unit += 1
        # The product was rounded up to the next cell.
        while unit > 0 and sums[unit - 1] > numbers[k]:
            unit -= 1
        drawn[k] = unit
