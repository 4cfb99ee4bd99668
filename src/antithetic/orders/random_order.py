"""A random order, four times as fast as NumPy's: short epochs spend much time on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels

_FEW = 2000  # numbers below which NumPy is as fast
_WORDS = 2**32


def random_order(rng: np.random.Generator, n: int) -> NDArray[np.intp]:
    """Numbers below n in random order, all orders equally likely.

    Four words from ``rng`` seed the kernel's own generator.
    """
    if not _FEW <= n < _WORDS:
        return rng.permutation(n)
    order = np.empty(n, np.intp)
    kernels.draw_order(order, rng.bit_generator.random_raw(4))
    return order
