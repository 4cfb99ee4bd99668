"""Algorithm 1 of the paper: each row in turn takes the free row that opposes it most.

The products of a block of rows with all free rows are computed in tiles that stay in the cache. Of
each row only its ``_CANDIDATES`` smallest products are kept. The rows of the block then choose in
turn: as long as a row's list holds a row that the rows before it left free, the first such row is
what the whole scan would have found. At the first list that is used up, the block ends and a new
one begins, so the result is exact for all block sizes. Time O(n^2 d), memory two to three copies of
the rows and a few tiles.

Dense float64 rows are scanned in float32, which takes half the time. The products of those listed
are then computed in float64, and a list ends where rounding in the scan might have hidden a smaller
product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._util.threads import thread_map
from antithetic._util.validation import power_of_two_near
from antithetic.pairing.rows import Rows

_CANDIDATES = 12
# rows of a block that one thread takes at a time; fixed, so that the number of threads changes
# nothing
_SHARE = 64
# columns of a tile: 128 kB of float64 products for one share, which stay in the cache of a core
_TILE = 256
_SMALLEST_BLOCK, _LARGEST_BLOCK, _GROWTH = 16, 256, 1.25
_PANEL = 32  # rows of a panel, as the kernel has them
_LARGEST_WHOLE = 2**24  # float32 has all whole numbers below
_LARGEST_UNIT = 2.0**500  # float64 can hold its square
_TAKEN = 1 / 8  # share of the rows in panels that may be taken before these are rebuilt
_MOST_HIDDEN = 1 / 4  # share of the lists that rounding may spoil before float64 is used throughout


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
    free = _FreeRows(rows)
    start, size = 0, _LARGEST_BLOCK
    with thread_map(n_jobs) as threads:
        while start < n:
            block = np.arange(start, min(start + size, n))
            chosen = kernels.choose(free.candidates(block, threads), len(free.numbers))
            _require_progress(chosen)
            partner[start : start + len(chosen)] = free.numbers[chosen]
            start += len(chosen)
            size = _next_size(size, len(chosen))
            free.remove(chosen, _TAKEN)
            progress(start)
    return partner


def greedy_pairs(rows: Rows, n_jobs: int | None = None) -> NDArray[np.intp]:
    """Return pairs of an even number of rows, shape (n // 2, 2).

    Each row in turn takes the free row that opposes it most.

    The same as Algorithm 1, but the two rows leave together, so that the result is a matching.
    """
    free = _FreeRows(rows)
    pairs, size = [np.empty((0, 2), dtype=np.intp)], _LARGEST_BLOCK
    with thread_map(n_jobs) as threads:
        while len(free.numbers):
            found = free.candidates(free.numbers[:size], threads)
            chosen = kernels.choose_pairs(found, len(free.numbers)).reshape(-1, 2)
            _require_progress(chosen)
            pairs.append(free.numbers[chosen])
            size = _next_size(size, 2 * len(chosen))
            free.remove(chosen, 0.0)  # rows of a block are the first free ones
    return np.concatenate(pairs)


def _require_progress(chosen: NDArray[np.intp]) -> None:
    """Fail rather than loop for ever if products overflow in spite of the scaling."""
    if not len(chosen):
        raise FloatingPointError("the products of some rows are not finite; scale the features")


def _next_size(size: int, resolved: int) -> int:
    """Next block size: shrink to the part that the lists covered, otherwise grow.

    Products of rows that are not resolved were computed in vain.
    """
    if resolved < size:
        return max(_SMALLEST_BLOCK, resolved)
    return min(_LARGEST_BLOCK, int(_GROWTH * size) + 1)


class _FreeRows:
    """Rows that no row has taken yet, and lists of those that oppose a row most.

    Attributes
    ----------
    numbers : ndarray of intp
        Numbers of the rows by their position. Some that were taken may still be among them; they
        are in no list.
    """

    def __init__(self, rows: Rows) -> None:
        self.numbers = np.arange(len(rows))
        self._rows, self._vectors = rows, rows.take(slice(None))
        self._is_taken = np.zeros(len(rows), dtype=bool)
        has_panels = rows.codes is None and not sparse.issparse(self._vectors)
        self._panels = _Panels.of_all(self._vectors) if has_panels else None

    def remove(self, positions: NDArray[np.intp], most_taken: float) -> None:
        """Take rows away; leave them out for good once more than a share of all is taken."""
        self._is_taken[positions] = True
        if self._panels is not None:
            self._panels.remove(positions)
            if np.count_nonzero(self._is_taken) <= most_taken * len(self.numbers):
                return
        kept = ~self._is_taken
        self.numbers, self._vectors = self.numbers[kept], self._vectors[kept]
        self._is_taken = np.zeros(len(self.numbers), dtype=bool)
        if self._panels is not None:
            self._panels = self._panels.of_rest(self._vectors)

    def candidates(self, block: NDArray[np.intp], threads: Any) -> NDArray[np.intp]:
        """Positions of the smallest products of each row of a block, smallest first.

        They are -1 where there are no more.
        """
        if self._panels is None:
            return self._in_shares(self._exact_candidates, block, threads)
        found = self._in_shares(self._rounded_candidates, block, threads)
        hidden = np.flatnonzero(found[:, 0] < 0)  # by rounding: many products are nearly equal
        if len(hidden):
            found[hidden] = self._in_shares(self._exact_candidates, block[hidden], threads)
        if len(hidden) > _MOST_HIDDEN * len(block):
            self._panels = None
        return found

    @staticmethod
    def _in_shares(
        find: Callable[[NDArray[np.intp]], NDArray[np.intp]],
        block: NDArray[np.intp],
        threads: Any,
    ) -> NDArray[np.intp]:
        shares = [block[start : start + _SHARE] for start in range(0, len(block), _SHARE)]
        return np.concatenate(threads(find, shares))

    def _rounded_candidates(self, share: NDArray[np.intp]) -> NDArray[np.intp]:
        assert self._panels is not None
        return self._panels.candidates(self._rows.take(share), self._vectors)

    def _exact_candidates(self, share: NDArray[np.intp]) -> NDArray[np.intp]:
        block = self._rows.take(share)
        block = block.toarray() if sparse.issparse(block) else block
        values, positions = _empty_lists(len(share), block.dtype)
        columns = np.ascontiguousarray(block.T)
        for start in range(0, self._vectors.shape[0], _TILE):
            tile = slice(start, start + _TILE)
            vectors, is_taken = self._vectors[tile], self._is_taken[tile]
            if sparse.issparse(vectors) or self._rows.codes is not None:
                agreement = self._rows.agreement(share[:, None], self.numbers[None, tile])
                products = np.ascontiguousarray((vectors @ columns).T * agreement)
            else:
                products = block @ vectors.T
            if is_taken.any():
                products[:, is_taken] = np.inf
            kernels.offer(products, start, values, positions)
        return positions


class _Panels:
    """Free rows in float32, laid out for `kernels.offer_panels`.

    A panel has 32 slots for rows, and holds one coordinate after the other. One more coordinate is
    0 for rows that are free and infinite for others; rows whose products are wanted have a 1 there.

    Rows are in random order: lists change most often where products get smaller and smaller, as
    they may in a series of measurements. Where equal products are told apart by their place alone,
    the order stays.
    """

    def __init__(self, vectors: NDArray[np.floating], unit: float, is_exact: bool) -> None:
        n, d = vectors.shape
        self._unit, self._is_exact = unit, is_exact
        self._order = np.arange(n) if self._is_exact else np.random.default_rng(0).permutation(n)
        self._slots = np.empty(n, dtype=np.intp)
        self._slots[self._order] = np.arange(n)
        padded = np.full((-(-n // _PANEL) * _PANEL, d + 1), np.inf, dtype=np.float32)
        rounded = self._rounded(vectors, 0.0)
        np.take(rounded, self._order, axis=0, out=padded[:n], mode="clip")  # "raise" copies twice
        del rounded
        padded[n:, :d] = 0.0
        self._longest = float(_lengths(padded[:n, :d]).max(initial=0.0))
        self._panels = np.ascontiguousarray(padded.reshape(-1, _PANEL, d + 1).swapaxes(1, 2))

    @classmethod
    def of_all(cls, vectors: NDArray[np.floating]) -> _Panels:
        """Panels of all rows.

        A row that was taken may still choose. Its products, too, must be in the range of float32,
        and exact where they are said to be, so all rows decide on both.
        """
        if vectors.dtype == np.float32:
            return cls(vectors, 1.0, True)
        unit = min(power_of_two_near(vectors), _LARGEST_UNIT)
        return cls(vectors, unit, _has_exact_products(vectors))

    def of_rest(self, vectors: NDArray[np.floating]) -> _Panels:
        """Panels of those rows that are left."""
        return _Panels(vectors, self._unit, self._is_exact)

    def _rounded(self, rows: NDArray[np.floating], last: float) -> NDArray[np.float32]:
        rounded = np.full((len(rows), rows.shape[1] + 1), last, dtype=np.float32)
        np.multiply(rows, self._unit, out=rounded[:, :-1], casting="same_kind")
        return rounded

    def remove(self, positions: NDArray[np.intp]) -> None:
        """Take rows away."""
        slots = self._slots[positions]
        self._panels[slots // _PANEL, -1, slots % _PANEL] = np.inf

    def candidates(self, block: NDArray[Any], vectors: NDArray[Any]) -> NDArray[np.intp]:
        """Positions of the smallest products of each row, as far as they are certain."""
        rounded = self._rounded(block, 1.0)
        values, slots = _empty_lists(len(block), rounded.dtype)
        kernels.offer_panels(rounded, self._panels.reshape(-1, _PANEL), values, slots)
        positions = np.where(slots < 0, -1, self._order[slots])
        if not self._is_exact:
            slack = self._slack(rounded[:, :-1])
            kernels.sharpen(block, vectors, values, slack, self._unit**2, positions)
        return positions

    def _slack(self, rounded: NDArray[np.float32]) -> NDArray[np.float64]:
        """By how much products of rounded rows differ from exact ones, at most.

        The sums and both factors are rounded to 24 digits, and what is below 2^-126 may be zero. A
        few more digits are for the lengths themselves.
        """
        terms = rounded.shape[1] + 8
        slack: NDArray[np.float64] = terms * (
            2.0**-24 * self._longest * _lengths(rounded) + 2.0**-122
        )
        return slack


def _has_exact_products(vectors: NDArray[np.floating]) -> bool:
    """Whether float32 has all products: those of small whole numbers, many of which are equal."""
    largest = float(np.abs(vectors).max(initial=0.0))
    is_small = vectors.shape[1] * largest**2 < _LARGEST_WHOLE
    return is_small and bool((vectors == np.rint(vectors)).all())


def _lengths(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return lengths


def _empty_lists(many: int, kind: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Products and positions of lists without entries."""
    return (
        np.full((many, _CANDIDATES), np.inf, dtype=kind),
        np.full((many, _CANDIDATES), -1, dtype=np.intp),
    )
