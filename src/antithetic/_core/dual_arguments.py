"""What the SDCA kernels take, and when a row's dual variable is at rest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core.losses import HINGE

# rows looked up at a time; both kernels must agree, or they would not make the same visits
QUEUE = np.uintp(64)
FURTHER = 1.2  # how much further than now the weights may go while a queue is worked off


class DualRows(NamedTuple):
    """The rows to visit, and labels, weights and squared norms of all rows.

    Row numbers are unsigned, the rest is float64. Without weights, ``weight`` has length 0.
    """

    order: NDArray[Any]
    y: NDArray[np.float64]
    weight: NDArray[np.float64]
    squares: NDArray[np.float64]


class Entries(NamedTuple):
    """Entries of CSR rows, their features and where each row begins; indices are unsigned."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]


class DualRule(NamedTuple):
    """The rule of the dual steps, and how far the weights have moved.

    ``loss`` is the code of the loss, ``share`` the factor 1 / (l2 n) of a row in the weights, and
    ``watch`` says whether to add up the losses met.

    ``gone`` is their squared distance from the reference of :class:`_Resting`, ``gone_at_least``
    what it is taken for at least.
    """

    loss: int
    share: float
    watch: bool
    gone: float
    gone_at_least: float


class DualModel(NamedTuple):
    """Arrays that a kernel changes: weights, dual variables, and ``limits``.

    ``signed`` is only read. See :class:`_Resting`.
    """

    coef: NDArray[Any]
    duals: NDArray[np.float64]
    signed: NDArray[np.float64]
    limits: NDArray[np.float64]


def rest_limit(loss: int, y: float, weight: float, a: float, signed: float) -> float:
    """How far the weights must move from the reference before a row's dual variable can move.

    Below 0 where the dual variable is free to move.
    """
    if a == 0.0:
        return signed
    return -signed if loss == HINGE and a == y * weight else -1.0
