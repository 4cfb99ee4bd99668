"""The batches of one epoch, and how rows and pairs are laid out in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_FACTORS = np.empty(0)


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
