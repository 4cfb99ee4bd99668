"""Kernels of the greedy pairing: keep the smallest products, then choose in turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._core.jit import jit

_CHUNK = 32


@jit
def offer(
    products: NDArray[np.floating],
    first: int,
    values: NDArray[np.floating],
    positions: NDArray[np.intp],
) -> None:
    """Merge a tile of products into each row's sorted list of smallest ones.

    Equal products keep the order of their columns.
    """
    rows, columns = products.shape
    for r in range(rows):
        for start in range(0, columns, _CHUNK):
            stop = min(start + _CHUNK, columns)
            worst = values[r, -1]
            smaller = 0
            for c in range(start, stop):  # vectorised: most chunks hold nothing that counts
                smaller += products[r, c] < worst
            if smaller > 0:
                for c in range(start, stop):
                    if products[r, c] < values[r, -1]:
                        _insert(values[r], positions[r], products[r, c], first + c)


@jit
def _insert(
    values: NDArray[np.floating], positions: NDArray[np.intp], product: float, position: int
) -> None:
    k = len(values) - 1
    while k > 0 and values[k - 1] > product:
        values[k] = values[k - 1]
        positions[k] = positions[k - 1]
        k -= 1
    values[k] = product
    positions[k] = position


@jit
def offer_all(
    share: NDArray[np.floating],
    vectors: NDArray[np.floating],
    tile: int,
    values: NDArray[np.floating],
    positions: NDArray[np.intp],
) -> None:
    """Offer the products of dense rows with all vectors, a tile at a time.

    One call, so that threads need not wait for Python.
    """
    for start in range(0, len(vectors), tile):
        offer(np.dot(share, vectors[start : start + tile].T), start, values, positions)


@jit
def choose(positions: NDArray[np.intp], n_free: int) -> NDArray[np.intp]:
    """Let each row in turn take its first free candidate.

    Stop at the first row whose list is used up.
    """
    rows, candidates = positions.shape
    taken = np.zeros(n_free, dtype=np.bool_)
    chosen = np.empty(rows, dtype=np.intp)
    for r in range(rows):
        k = 0
        while k < candidates and positions[r, k] >= 0 and taken[positions[r, k]]:
            k += 1
        if k == candidates or positions[r, k] < 0:
            return chosen[:r]
        chosen[r] = positions[r, k]
        taken[chosen[r]] = True
    return chosen


@jit
def choose_pairs(positions: NDArray[np.intp], n_free: int) -> NDArray[np.intp]:
    """Pair the row at each position, if it is still free, with its first free candidate.

    A row is never paired with itself.
    """
    rows, candidates = positions.shape
    taken = np.zeros(n_free, dtype=np.bool_)
    chosen = np.empty((rows, 2), dtype=np.intp)
    count = 0
    for r in range(rows):
        if taken[r]:
            continue
        taken[r] = True
        k = 0
        while k < candidates and positions[r, k] >= 0 and taken[positions[r, k]]:
            k += 1
        if k == candidates or positions[r, k] < 0:
            break
        chosen[count, 0] = r
        chosen[count, 1] = positions[r, k]
        taken[positions[r, k]] = True
        count += 1
    return chosen[:count]
