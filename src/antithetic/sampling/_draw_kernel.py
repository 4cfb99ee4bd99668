"""Draws by cumulative probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._jit import jit


@jit
def invert(sums: NDArray[np.float64], guide: NDArray[np.intp], numbers: NDArray[np.float64], drawn: NDArray[np.intp]) -> None:
    """Write for each number the first unit whose cumulative probability is above it.

    ``guide[k]`` is that of ``k / len(guide)``, from which a few steps lead on; a binary search would miss the cache at every turn.
    """
    cells = len(guide)
    for k in range(len(numbers)):
        unit = guide[min(cells - 1, int(numbers[k] * cells))]
        while sums[unit] <= numbers[k]:
            unit += 1
        while unit > 0 and sums[unit - 1] > numbers[k]:  # the product was rounded up to the next cell
            unit -= 1
        drawn[k] = unit
