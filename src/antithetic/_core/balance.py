"""The next epoch's balanced order, for solvers that do not balance during an epoch.

It is made from the gradients that the rows had in the last epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core.arguments import Balance, CsrRows, DenseRows
from antithetic._core.jit import jit, jit_sums

_ONE = np.uintp(1)


@jit_sums
def dense_balance(
    rows: DenseRows,
    order: NDArray[Any],
    pulls: NDArray[np.float64],
    intercept: bool,
    balance: Balance,
) -> None:
    """Write ``balance.following`` from the gradients ``pulls[k] * X[order[k]]``.

    The rule is that of :class:`antithetic.orders.balanced.Balanced`.
    """
    X, real = rows.X, rows.X.dtype.type
    unit, following, signed = balance.unit, balance.following, balance.signed
    d, held = np.uintp(X.shape[1]), np.zeros(len(signed), X.dtype)
    whole = len(order) // unit * unit
    front, back = 0, whole
    for start in range(0, whole - whole % (2 * unit), 2 * unit):
        held[:] = real(0.0)
        for k in range(2 * unit):
            i, pull = order[start + k], real(pulls[start + k] if k < unit else -pulls[start + k])
            for c in range(d):
                held[c] += pull * X[i, c]
            if intercept:
                held[d] += pull
        lean = 0.0
        for c in range(len(signed)):
            lean += signed[c] * held[c]
        sign = real(1.0 if lean <= 0.0 else -1.0)
        for c in range(len(signed)):
            signed[c] += sign * held[c]
        back -= unit
        _place_two(
            following,
            order,
            start,
            unit,
            front if sign > 0.0 else back,
            back if sign > 0.0 else front,
        )
        front += unit
    _place_the_rest(following, order, front, back, whole)


@jit
def csr_balance(
    rows: CsrRows,
    order: NDArray[Any],
    pulls: NDArray[np.float64],
    intercept: bool,
    balance: Balance,
) -> None:
    """Do the same for sparse rows."""
    data, indices, indptr, real = rows.data, rows.indices, rows.indptr, rows.data.dtype.type
    unit, following, signed = balance.unit, balance.following, balance.signed
    last = len(signed) - 1
    whole = len(order) // unit * unit
    front, back = 0, whole
    for start in range(0, whole - whole % (2 * unit), 2 * unit):
        lean = 0.0
        for k in range(2 * unit):
            i, along = order[start + k], float(signed[last]) if intercept else 0.0
            for place in range(indptr[i], indptr[i + _ONE]):
                along += float(signed[indices[place]]) * float(data[place])
            lean += along * (pulls[start + k] if k < unit else -pulls[start + k])
        sign = 1.0 if lean <= 0.0 else -1.0
        for k in range(2 * unit):
            i, pull = (
                order[start + k],
                real(sign * (pulls[start + k] if k < unit else -pulls[start + k])),
            )
            for place in range(indptr[i], indptr[i + _ONE]):
                signed[indices[place]] += pull * data[place]
            if intercept:
                signed[last] += pull
        back -= unit
        _place_two(
            following,
            order,
            start,
            unit,
            front if sign > 0.0 else back,
            back if sign > 0.0 else front,
        )
        front += unit
    _place_the_rest(following, order, front, back, whole)


@jit
def _place_two(
    following: NDArray[Any], order: NDArray[Any], start: int, unit: int, first: int, second: int
) -> None:
    """Put two units that follow each other where they belong."""
    for k in range(unit):
        following[first + k] = order[start + k]
        following[second + k] = order[start + unit + k]


@jit
def _place_the_rest(
    following: NDArray[Any], order: NDArray[Any], front: int, back: int, whole: int
) -> None:
    """Put a unit without another between front and back.

    Rows that are not a whole unit stay last.
    """
    for k in range(front, back):
        following[k] = order[whole - back + k]
    for k in range(whole, len(order)):
        following[k] = order[k]
