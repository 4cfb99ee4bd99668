"""Algorithm 1 of the paper: each row in turn takes the free row that opposes it most.

The products of a block of rows with all free rows are computed in tiles that stay in the cache. Of
each row only its ``_CANDIDATES`` smallest products are kept. The rows of the block then choose in
turn: as long as a row's list holds a row that the rows before it left free, the first such row is
what the whole scan would have found. At the first list that is used up, the block ends and a new
one begins, so the result is exact for all block sizes. Time O(n^2 d), memory one copy of the
rows and a few tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._util.threads import thread_map
from antithetic._util.validation import Matrix
from antithetic.pairing.rows import Rows

_CANDIDATES = 24
# rows of a block that one thread takes at a time; fixed, so that the number of threads changes
# nothing
_SHARE = 64
# columns of a tile: 128 kB of float64 products for one share, which stay in the cache of a core
_TILE = 256
_SMALLEST_BLOCK, _LARGEST_BLOCK = 32, 256


def greedy_table(
    rows: Rows, n_jobs: int | None, progress: Callable[[int], None]
) -> NDArray[np.intp]:
    """Return the antithetic table S of Algorithm 1, shape (n,).

    ``S[i]`` minimises the product with row i over the free rows.

    Ties go to the lowest index. ``progress`` is called with the number of rows that have their
    partner.
    """
    n = len(rows)
    partner = np.empty(n, dtype=np.intp)
    free, vectors = np.arange(n), rows.take(slice(None))
    start, size = 0, _LARGEST_BLOCK
    with thread_map(n_jobs) as threads:
        while start < n:
            block = np.arange(start, min(start + size, n))
            chosen = kernels.choose(_candidates(rows, block, free, vectors, threads), len(free))
            _require_progress(chosen)
            partner[start : start + len(chosen)] = free[chosen]
            start += len(chosen)
            size = _next_size(size, len(chosen))
            free, vectors = _without(free, vectors, chosen)
            progress(start)
    return partner


def greedy_pairs(rows: Rows, n_jobs: int | None = None) -> NDArray[np.intp]:
    """Return pairs of an even number of rows, shape (n // 2, 2).

    Each row in turn takes the free row that opposes it most.

    The same as Algorithm 1, but the two rows leave together, so that the result is a matching.
    """
    free, vectors = np.arange(len(rows)), rows.take(slice(None))
    pairs, size = [np.empty((0, 2), dtype=np.intp)], _LARGEST_BLOCK
    with thread_map(n_jobs) as threads:
        while len(free):
            found = _candidates(rows, free[:size], free, vectors, threads)
            chosen = kernels.choose_pairs(found, len(free)).reshape(-1, 2)
            _require_progress(chosen)
            pairs.append(free[chosen])
            size = _next_size(size, 2 * len(chosen))
            free, vectors = _without(free, vectors, chosen)
    return np.concatenate(pairs)


def _require_progress(chosen: NDArray[np.intp]) -> None:
    """Fail rather than loop for ever if products overflow in spite of the scaling."""
    if not len(chosen):
        raise FloatingPointError("the products of some rows are not finite; scale the features")


def _without(
    free: NDArray[np.intp], vectors: Matrix, positions: NDArray[np.intp]
) -> tuple[NDArray[np.intp], Matrix]:
    kept = np.ones(len(free), dtype=bool)
    kept[positions] = False
    return free[kept], vectors[kept]


def _next_size(size: int, resolved: int) -> int:
    """Next block size: shrink to the part that the lists covered, otherwise grow.

    Products of rows that are not resolved were computed in vain.
    """
    if resolved < size:
        return max(_SMALLEST_BLOCK, resolved)
    return min(_LARGEST_BLOCK, 2 * size)


def _candidates(
    rows: Rows, block: NDArray[np.intp], free: NDArray[np.intp], vectors: Matrix, threads: Any
) -> NDArray[np.intp]:
    """Positions in ``free`` of the smallest products of each block row, smallest first.

    They are -1 where there are no more.
    """
    shares = [block[start : start + _SHARE] for start in range(0, len(block), _SHARE)]
    return np.concatenate(
        threads(lambda share: _candidates_of_share(rows, share, free, vectors), shares)
    )


def _candidates_of_share(
    rows: Rows, share: NDArray[np.intp], free: NDArray[np.intp], vectors: Matrix
) -> NDArray[np.intp]:
    block = rows.take(share)
    block = block.toarray() if sparse.issparse(block) else block
    values = np.full((len(share), _CANDIDATES), np.inf, dtype=block.dtype)
    positions = np.full((len(share), _CANDIDATES), -1, dtype=np.intp)
    if not sparse.issparse(vectors) and rows.codes is None:
        room = np.empty(len(share) * _TILE, dtype=block.dtype)
        for start in range(0, len(vectors), _TILE):
            tile = vectors[start : start + _TILE].T
            products = room[: len(share) * tile.shape[1]].reshape(len(share), -1)
            kernels.offer(np.matmul(block, tile, out=products), start, values, positions)
        return positions
    columns = np.ascontiguousarray(block.T)
    for start in range(0, vectors.shape[0], _TILE):
        tile = slice(start, start + _TILE)
        products = (vectors[tile] @ columns).T * rows.agreement(share[:, None], free[None, tile])
        kernels.offer(np.ascontiguousarray(products), start, values, positions)
    return positions
