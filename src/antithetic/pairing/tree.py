r"""A near-linear pairing: transport of the cloud of rows to its own reflection, bucket by bucket.

Minimising :math:`\sum_i \langle z_i, z_{S(i)} \rangle` means moving each centred row to the
reflection :math:`-z_j` of another, at the smallest total squared distance. A first tree cuts rows
and reflections at the same medians into buckets of at most ``LEAF`` rows, and each bucket's
assignment problem is solved exactly. Then the pairs are put into new buckets, round after round,
and solved again, which can only improve them: alternately at random, which corrects the first tree
on a large scale, and by where their midpoints lie along random axes, which corrects it on a small
scale (two pairs gain by exchanging partners if their midpoints are close and their distances
differ). A round takes only the pairs that make up most of the remaining distance. Up to
``ONE_LEAF`` rows there is one bucket: the optimum.

O(n log n) time; besides the rows, about 150 bytes per row. Buckets are independent of each other,
so the result does not depend on the number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._util.threads import thread_map
from antithetic.pairing.optimal import optimal_table
from antithetic.pairing.rows import Rows, pair_variance, principal_coordinates
from antithetic.problem.objective import kernel_rows

LEAF = 32
ONE_LEAF = 1500
FEW, ROUNDS_OF_FEW, ROUNDS, ROUNDS_OF_MANY, MANY = 4000, 40, 7, 4, 300_000
_SHARES = 16  # parts of the work that threads take one by one
_DISTANCE_SHARE = 0.9  # share of the remaining squared distance in the pairs that a round takes
# with a budget: when two rounds lower the variance of a pair by less, relatively, it is enough
_LEAST_GAIN = 1e-3
_BLOCK = 1 << 14

Partners = NDArray[np.intp]


def tree_table(
    rows: Rows,
    *,
    init: Partners | None,
    budget: float | None,
    n_jobs: int | None,
    seed: int,
    progress: Callable[[int], None],
) -> Partners:
    """Return a permutation with a nearly minimal sum of products, shape (n,).

    Parameters
    ----------
    rows : Rows
    init : ndarray of shape (n,) or None
        A permutation to polish by one round instead of building a tree.
    budget : float or None
        Seconds: rounds continue until they are used up or nothing is gained. None means a fixed
        number of rounds, and a result that depends only on the rows and the seed.
    n_jobs : int or None
    seed : int
    progress : callable
        Called with the number of steps done: the tree, and each round.
    """
    n, begun = len(rows), time.monotonic()
    everyone = np.arange(n)
    if n <= ONE_LEAF:
        return optimal_table(rows)
    points = principal_coordinates(rows, seed)
    partner = np.empty(n, dtype=np.intp) if init is None else init.copy()
    with thread_map(n_jobs) as threads:
        if init is None:
            order, reflected = everyone.copy(), everyone.copy()
            starts = _cut(points, order, reflected, threads)
            _solve(rows, order, reflected, starts, partner, threads)
            progress(1)
        for number in _rounds(rows, partner, init is not None, budget, begun):
            _improve(
                rows,
                points,
                partner,
                local=init is not None or number % 2 == 1,
                rng=np.random.default_rng((seed, number)),
                threads=threads,
            )
            progress(number + 1 + (init is None))
    return partner


def count_rounds(n: int) -> int:
    """Number of rounds after the tree without a budget: a similar time for all n, within limits."""
    if n > MANY:
        return ROUNDS_OF_MANY
    return max(ROUNDS, min(ROUNDS_OF_FEW, ROUNDS_OF_FEW * FEW // n))


def _rounds(
    rows: Rows, partner: Partners, polish: bool, budget: float | None, begun: float
) -> Iterator[int]:
    """Number the rounds: a fixed number, or while the budget lasts and the table improves."""
    if budget is None:
        yield from range(1 if polish else count_rounds(len(rows)))
        return
    before = np.inf
    for number in count():
        if time.monotonic() - begun >= budget:
            return
        if number % 2 == 0:
            now = pair_variance(rows, partner)
            if before - now <= _LEAST_GAIN * now:
                return
            before = now
        yield number


def _improve(
    rows: Rows,
    points: NDArray[np.float32],
    partner: Partners,
    *,
    local: bool,
    rng: np.random.Generator,
    threads: Any,
) -> None:
    """Put the pairs that are farthest apart into buckets, by place or at random; solve each."""
    order = _far_pairs(points, partner)
    if local:
        starts = _cut(
            _turned_middles(points, partner, rng), order, np.empty(0, dtype=np.intp), threads
        )
    else:
        order = rng.permutation(order)
        starts = np.linspace(0, len(order), -(-len(order) // LEAF) + 1).astype(np.intp)
    _solve(rows, order, partner[order], starts, partner, threads)


def _far_pairs(points: NDArray[np.float32], partner: Partners) -> NDArray[np.intp]:
    """Rows farthest from their partner's reflection, which have most of the squared distance."""
    left = np.empty(len(points))
    for start in range(0, len(points), _BLOCK):
        part = slice(start, start + _BLOCK)
        gap = points[part] + points[partner[part]]
        np.einsum("ij,ij->i", gap, gap, out=left[part], casting="same_kind")
    falling = np.sort(left)[::-1]
    reached = np.searchsorted(np.cumsum(falling), _DISTANCE_SHARE * falling.sum())
    return np.flatnonzero(left >= falling[min(reached, len(falling) - 1)])


def _turned_middles(
    points: NDArray[np.float32], partner: Partners, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Twice the middle between each row and its partner's reflection, along random axes."""
    axes = points.shape[1]
    turn = np.linalg.qr(rng.standard_normal((axes, axes)))[0].astype(np.float32)
    middles = np.empty_like(points)
    for start in range(0, len(points), _BLOCK):
        part = slice(start, start + _BLOCK)
        np.matmul(points[part] - points[partner[part]], turn, out=middles[part])
    return middles


def _cut(
    points: NDArray[np.float32], order: NDArray[np.intp], reflected: NDArray[np.intp], threads: Any
) -> NDArray[np.intp]:
    """Reorder rows, and reflections if any, into buckets, and return where these begin."""
    ends = kernels.buckets(
        points, 0, len(order), -(-len(order) // _SHARES), order, reflected
    ).tolist()
    subtrees = list(zip([0, *ends[:-1]], ends, strict=True))
    return np.concatenate(
        [
            [0],
            *threads(
                lambda bounds: kernels.buckets(
                    points, bounds[0], bounds[1], LEAF, order, reflected
                ),
                subtrees,
            ),
        ]
    )


def _solve(
    rows: Rows,
    order: NDArray[np.intp],
    partners: Partners,
    starts: NDArray[np.intp],
    partner: Partners,
    threads: Any,
) -> None:
    """Solve each bucket's assignment problem, and write the rows' new partners."""
    solve = _solver(rows)
    cuts = np.unique(np.linspace(0, len(starts) - 1, _SHARES + 1).astype(np.intp)).tolist()
    threads(
        lambda part: solve(order, partners, starts[part[0] : part[1] + 1], partner),
        list(pairwise(cuts)),
    )


def _solver(rows: Rows) -> Callable[..., None]:
    """Return the kernel that solves buckets, bound to the rows."""
    real, held = rows.X.dtype, kernel_rows(rows.X)
    scale = np.empty(0, real) if rows.scale is None else rows.scale.astype(real)
    codes = np.empty(0, np.intp) if rows.codes is None else rows.codes
    return partial(held.solve_buckets, scale, codes, 1.0 / rows.classes, float(rows.constant**2))
