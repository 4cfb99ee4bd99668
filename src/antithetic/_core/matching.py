"""Kernels that walk along the cycles of a permutation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._core.jit import jit


@jit
def alternate_links(partner: NDArray[np.intp], products: NDArray[np.float64]) -> NDArray[np.intp]:
    """Keep every other link of each cycle, those with the smallest sum.

    -1 marks the row that an odd cycle leaves out.
    """
    n = len(partner)
    mates = np.full(n, -1, dtype=np.intp)
    seen = np.zeros(n, dtype=np.bool_)
    cycle = np.empty(n, dtype=np.intp)
    for start in range(n):
        if seen[start]:
            continue
        length, row = 0, start
        while not seen[row]:
            seen[row] = True
            cycle[length] = row
            length += 1
            row = partner[row]
        first = _best_first_link(cycle, length, products)
        for k in range(length // 2):
            a = cycle[(first + 2 * k) % length]
            b = cycle[(first + 2 * k + 1) % length]
            mates[a] = b
            mates[b] = a
    return mates


@jit
def _best_first_link(cycle: NDArray[np.intp], length: int, products: NDArray[np.float64]) -> int:
    """Position of the first kept link.

    Position k is the link from cycle[k] to the next row of the cycle.
    """
    if length < 3:
        return 0
    if length % 2 == 0:
        difference = 0.0
        for k in range(0, length, 2):
            difference += products[cycle[k]] - products[cycle[k + 1]]
        return 0 if difference <= 0.0 else 1
    # leaving out cycle[k] keeps the links k + 1, k + 3, ...; going from k to k + 2 swaps link k + 1
    # for link k
    total = 0.0
    for k in range(1, length, 2):
        total += products[cycle[k]]
    best, best_left_out, left_out = total, 0, 0
    for _ in range(length - 1):
        total += products[cycle[left_out]] - products[cycle[(left_out + 1) % length]]
        left_out = (left_out + 2) % length
        if total < best:
            best, best_left_out = total, left_out
    return (best_left_out + 1) % length


@jit
def skip_missing(
    partner: NDArray[np.intp], kept: NDArray[np.intp], place: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Follow each kept row's cycle to the next kept row; rows are numbered by their place."""
    out = np.empty(len(kept), dtype=np.intp)
    for k in range(len(kept)):
        row = partner[kept[k]]
        while place[row] < 0:
            row = partner[row]
        out[k] = place[row]
    return out
