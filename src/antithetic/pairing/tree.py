r"""A near-linear pairing: transport of the cloud of rows to its own reflection, bucket by bucket.

Minimising :math:`\sum_i \langle z_i, z_{S(i)} \rangle` means to move each centred row to the reflection :math:`-z_j` of another, at the least
total squared distance. A first tree cuts rows and reflections at the same medians into buckets of ``LEAF`` rows, and each bucket's assignment
problem is solved exactly. Then, round after round, the pairs are cut into buckets anew, by where their middles lie, along axes turned at
random, and each bucket is solved again, which can only improve it. Up to ``ONE_LEAF`` rows there is one bucket: the optimum.

O(n log n) time. Memory: some 130 bytes a row. Buckets are independent of each other, so the number of threads changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._threads import thread_map
from antithetic.pairing.coordinates import principal_coordinates
from antithetic.pairing.rows import Rows

LEAF = 32
ONE_LEAF = 1500
ROUNDS = 5
_SHARES = 16  # subtrees that threads take one by one
_LEAST_GAIN = 1e-3  # with a budget: a round that lowers the sum of products by less, relatively, is the last


def tree_table(
    rows: Rows, *, init: NDArray[np.intp] | None, budget: float | None, n_jobs: int | None, seed: int, progress: Callable[[int], None]
) -> NDArray[np.intp]:
    """Return a permutation with a nearly minimal sum of products, shape (n,).

    Parameters
    ----------
    rows : Rows
    init : ndarray of shape (n,) or None
        A permutation to polish by one round instead of building a tree.
    budget : float or None
        Seconds: rounds go on until they are spent or nothing is gained. None means a fixed number of rounds, and a result that depends on
        nothing but the rows and the seed.
    n_jobs : int or None
    seed : int
    progress : callable
        Called with the number of rounds that are done, of ``ROUNDS + 1``.
    """
    n, begun = len(rows), time.monotonic()
    if n <= ONE_LEAF:
        partner = np.arange(n) if init is None else init.copy()
        solve = _solver(rows)
        solve(np.arange(n), partner.copy(), np.array([0, n]), partner)
        return partner
    points = principal_coordinates(rows, seed)
    with thread_map(n_jobs) as threads:
        if init is None:
            partner = np.empty(n, dtype=np.intp)
            order, reflected = np.arange(n), np.arange(n)
            _solve_buckets(rows, points, order, reflected, partner, threads)
            rounds = ROUNDS
        else:
            partner, rounds = init.copy(), 1
        progress(1)
        spent = 0
        before = rows.products(partner).sum() if budget is not None else 0.0
        while spent < rounds if budget is None else time.monotonic() - begun < budget:
            middles = _turned_middles(points, partner, np.random.default_rng((seed, spent)))
            _solve_buckets(rows, middles, np.arange(n), None, partner, threads)
            spent += 1
            progress(1 + spent)
            if budget is not None:
                after = rows.products(partner).sum()
                if before - after < _LEAST_GAIN * abs(after):
                    break
                before = after
    return partner


def _turned_middles(points: NDArray[np.float32], partner: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.float32]:
    """Twice the middle between each row and its partner's reflection, along axes turned at random."""
    axes = points.shape[1]
    turn = np.linalg.qr(rng.standard_normal((axes, axes)))[0].astype(np.float32)
    middles = np.empty_like(points)
    for start in range(0, len(points), 1 << 14):
        part = slice(start, start + (1 << 14))
        np.matmul(points[part] - points[partner[part]], turn, out=middles[part])
    return middles


def _solve_buckets(
    rows: Rows, points: NDArray[np.float32], order: NDArray[np.intp], reflected: NDArray[np.intp] | None, partner: NDArray[np.intp], threads: Any
) -> None:
    """Cut into buckets and solve each; with ``reflected`` rows and reflections are cut apart, else partners stay where their rows are."""
    from antithetic.pairing._tree_kernels import buckets

    n = len(order)
    others = np.empty(0, dtype=np.intp) if reflected is None else reflected
    solve = _solver(rows)
    ends = buckets(points, 0, n, -(-n // _SHARES), order, others)

    def solve_share(bounds: tuple[int, int]) -> None:
        low, high = bounds
        starts = np.concatenate([[low], buckets(points, low, high, LEAF, order, others)])
        partners = partner[order[low:high]] if reflected is None else reflected[low:high]
        solve(order[low:high], partners, starts - low, partner)

    threads(solve_share, list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)))


def _solver(rows: Rows) -> Callable[..., None]:
    """Return the kernel that solves buckets, bound to the rows."""
    from antithetic._jit import read_only
    from antithetic.pairing._tree_kernels import Weighing, solve_csr, solve_dense

    real = rows.X.dtype
    weighing = Weighing(
        read_only(np.empty(0, real) if rows.scale is None else rows.scale.astype(real, copy=False)),
        read_only(np.empty(0, np.intp) if rows.codes is None else rows.codes),
        1.0 / rows.classes,
        float(rows.constant),
    )
    if sparse.issparse(rows.X):
        X = rows.X
        return lambda *lists: solve_csr(read_only(X.data), read_only(X.indices), read_only(X.indptr), X.shape[1], weighing, *lists)
    return lambda *lists: solve_dense(read_only(rows.X), weighing, *lists)
