"""Step sizes as scalar functions of an integer code; the kernels have the same in C++."""

from __future__ import annotations

import math

CONSTANT, INVERSE_TIME, OPTIMAL, INVSCALING, PA1, PA2 = range(6)


def step_size(code: int, eta0: float, rate: float, start: float, steps: int, samples: int) -> float:
    """Length of the next step after a number of steps and samples."""
    if code == INVERSE_TIME:
        return eta0 / (1.0 + eta0 * rate * (steps + 1.0))
    if code == OPTIMAL:
        return 1.0 / (rate * (start + samples))
    if code == INVSCALING:
        return eta0 / math.pow(samples + 1.0, rate)
    return eta0


def row_step_size(code: int, eta0: float, loss: float, square: float) -> float:
    """Length of a passive-aggressive step along one row, from its loss and its squared norm."""
    if code == PA2:
        return loss / (square + 0.5 / eta0)
    if square == 0.0:
        return 0.0  # nothing in the row can lower its loss
    length = loss / square
    return eta0 if length > eta0 else length  # min() would hide a NaN from the divergence check
