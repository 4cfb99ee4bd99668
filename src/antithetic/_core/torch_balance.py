"""Pair balancing of rows that are observed a few at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._core.jit import jit_sums


@jit_sums
def balance(
    rows: NDArray[np.intp],
    vectors: NDArray[np.float32],
    slopes: NDArray[np.float32],
    placed: NDArray[np.bool_],
    following: NDArray[np.intp],
    marks: NDArray[np.int64],
    signed: NDArray[np.float64],
    held: NDArray[np.float64],
) -> None:
    """Put rows to the front or the back of ``following``.

    The rule is that of :class:`antithetic.orders.balanced.Balanced`.

    The vector of a row is the product of its slopes and what ``vectors`` has, formed here as it is
    needed. ``marks`` are the ends of front and back, and the row that waits for another, whose
    vector is ``held``; -1 for none. Rows that were placed already are passed over.
    """
    width, n_slopes = vectors.shape[1], slopes.shape[1]
    for k in range(len(rows)):
        row = rows[k]
        if placed[row]:
            continue
        placed[row] = True
        if marks[2] < 0:
            marks[2] = row
            for j in range(n_slopes):
                for c in range(width):
                    held[j * width + c] = slopes[k, j] * vectors[k, c]
            continue
        lean = 0.0
        for j in range(n_slopes):
            for c in range(width):
                held[j * width + c] -= slopes[k, j] * vectors[k, c]
                lean += signed[j * width + c] * held[j * width + c]
        sign = 1.0 if lean <= 0.0 else -1.0
        for c in range(len(held)):
            signed[c] += sign * held[c]
        marks[1] -= 1
        following[marks[0] if sign > 0.0 else marks[1]] = marks[2]
        following[marks[1] if sign > 0.0 else marks[0]] = row
        marks[0] += 1
        marks[2] = -1
