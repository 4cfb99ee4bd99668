"""Fisher and Yates's shuffle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._core.jit import jit

_LOW, _HIGH, _WORDS = np.uint64(2**32 - 1), np.uint64(32), np.uint64(2**32)


@jit
def shuffle(order: NDArray[np.intp], words: NDArray[np.uint32]) -> bool:
    """Shuffle in place by random words of 32 bits, without a bias (Lemire 2019).

    False if there are too few of them.
    """
    at = 0
    for i in range(len(order) - 1, 0, -1):
        bound = np.uint64(i + 1)
        product = np.uint64(words[at]) * bound
        at += 1
        # Perhaps one of the few words that would make small numbers more likely.
        if product & _LOW < bound:
            least = (_WORDS - bound) % bound
            while product & _LOW < least:
                if at + i > len(words):
                    return False
                product = np.uint64(words[at]) * bound
                at += 1
        j = np.intp(product >> _HIGH)
        order[i], order[j] = order[j], order[i]
    return True
