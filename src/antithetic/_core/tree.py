"""Kernels of the tree pairing.

They cut clouds of points into small buckets, and solve each bucket's assignment problem exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core.jit import jit

_SAMPLE = 128  # points looked at to find the widest axis of a node
_DEPTH = 64  # more than the deepest tree has levels


@jit
def buckets(
    points: NDArray[np.float32],
    low: int,
    high: int,
    leaf: int,
    rows: NDArray[np.intp],
    others: NDArray[np.intp],
) -> NDArray[np.intp]:
    """Cut ``rows[low:high]`` into buckets of at most ``leaf`` rows, and return their ends.

    Cuts are at medians of ``points``, along the widest axis.

    Both lists are reordered in place. If ``others`` is not empty, it holds the points' reflections:
    each node sends as many of them to the lower side as rows, those with the smallest reflected
    values.
    """
    ends = np.empty(2 * (high - low) // leaf + 4, dtype=np.intp)
    count = 0
    nodes = np.empty((_DEPTH, 2), dtype=np.intp)
    nodes[0, 0], nodes[0, 1] = low, high
    pending = 1
    while pending > 0:
        pending -= 1
        first, last = nodes[pending]
        if last - first <= leaf:
            ends[count] = last
            count += 1
            continue
        middle = (first + last) // 2
        axis = _widest_axis(points, rows, first, last)
        _select(points, axis, 1.0, rows, first, last, middle)
        if len(others) > 0:
            _select(points, axis, -1.0, others, first, last, middle)
        nodes[pending, 0], nodes[pending, 1] = middle, last
        nodes[pending + 1, 0], nodes[pending + 1, 1] = first, middle
        pending += 2
    return ends[:count]


@jit
def _widest_axis(points: NDArray[np.float32], rows: NDArray[np.intp], first: int, last: int) -> int:
    step = max(1, (last - first) // _SAMPLE)
    widest, axis = -1.0, 0
    for c in range(points.shape[1]):
        total, squares, count = 0.0, 0.0, 0
        for k in range(first, last, step):
            value = float(points[rows[k], c])
            total += value
            squares += value * value
            count += 1
        spread = squares / count - (total / count) ** 2
        if spread > widest:
            widest, axis = spread, c
    return axis


@jit
def _select(
    points: NDArray[np.float32],
    axis: int,
    sign: float,
    rows: NDArray[np.intp],
    first: int,
    last: int,
    middle: int,
) -> None:
    """Reorder ``rows[first:last]`` so that the smallest values come before ``middle``.

    The values are ``sign * points[row, axis]``; the method is Hoare's selection.
    """
    low, high = first, last - 1
    while low < high:
        a, b, c = (
            sign * points[rows[low], axis],
            sign * points[rows[(low + high) // 2], axis],
            sign * points[rows[high], axis],
        )
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while sign * points[rows[i], axis] < pivot:
                i += 1
            while sign * points[rows[j], axis] > pivot:
                j -= 1
            if i <= j:
                rows[i], rows[j] = rows[j], rows[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


class Weighing(NamedTuple):
    """What turns the product of two rows of X into that of the vectors that are paired.

    The latter is ``(classes agree - 1/K) scale_i scale_j (product + constant)``.

    ``scale`` and ``codes`` may be empty: all scales are 1, all rows of one class.
    """

    scale: NDArray[Any]
    codes: NDArray[np.intp]
    share: float  # 1/K
    constant: float


@jit
def solve_dense(
    X: NDArray[Any],
    weighing: Weighing,
    rows: NDArray[np.intp],
    partners: NDArray[np.intp],
    starts: NDArray[np.intp],
    partner: NDArray[np.intp],
) -> None:
    """Give the rows of each bucket the partners with the smallest sum of products.

    Partners come from ``partners`` of the same bucket.
    """
    largest = np.max(np.diff(starts))
    left, right = np.empty((largest, X.shape[1]), X.dtype), np.empty((largest, X.shape[1]), X.dtype)
    products, work = np.empty((largest, largest), X.dtype), _make_work(largest)
    for k in range(len(starts) - 1):
        low, m = starts[k], starts[k + 1] - starts[k]
        for i in range(m):
            left[i] = X[rows[low + i]]
            right[i] = X[partners[low + i]]
            if len(weighing.scale) > 0:
                left[i] *= weighing.scale[rows[low + i]]
                right[i] *= weighing.scale[partners[low + i]]
        if len(weighing.codes) == 0:
            _centre(left, right, m)
        products[:m, :m] = np.dot(left[:m], right[:m].T)
        _give_partners(products, weighing, rows, partners, low, m, work, partner)


@jit
def solve_csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    d: int,
    weighing: Weighing,
    rows: NDArray[np.intp],
    partners: NDArray[np.intp],
    starts: NDArray[np.intp],
    partner: NDArray[np.intp],
) -> None:
    """Do the same as :func:`solve_dense` for sparse rows.

    Each row is scattered once, and the entries of its possible partners are looked up in it.
    """
    largest = np.max(np.diff(starts))
    scattered, scale = np.zeros(d), weighing.scale
    products, work = np.empty((largest, largest)), _make_work(largest)
    for k in range(len(starts) - 1):
        low, m = starts[k], starts[k + 1] - starts[k]
        for i in range(m):
            begin, end = indptr[rows[low + i]], indptr[rows[low + i] + 1]
            for place in range(begin, end):
                scattered[indices[place]] = data[place] * (
                    scale[rows[low + i]] if len(scale) > 0 else 1.0
                )
            for j in range(m):
                product = 0.0
                for place in range(indptr[partners[low + j]], indptr[partners[low + j] + 1]):
                    product += scattered[indices[place]] * data[place]
                products[i, j] = product * (scale[partners[low + j]] if len(scale) > 0 else 1.0)
            for place in range(begin, end):
                scattered[indices[place]] = 0.0
        _give_partners(products, weighing, rows, partners, low, m, work, partner)


@jit
def _give_partners(
    products: NDArray[Any],
    weighing: Weighing,
    rows: NDArray[np.intp],
    partners: NDArray[np.intp],
    low: int,
    m: int,
    work: Any,
    partner: NDArray[np.intp],
) -> None:
    """Solve a bucket whose products are known, and write its rows' partners."""
    _weigh(products, weighing, rows, partners, low, m)
    _assign(products, m, work)
    for i in range(m):
        partner[rows[low + i]] = partners[low + work.column_of[i]]


@jit
def _centre(left: NDArray[Any], right: NDArray[Any], m: int) -> None:
    """Subtract the mean of the left rows from both sides.

    No choice depends on the mean, and rows that share a large offset keep their digits.
    """
    for c in range(left.shape[1]):
        mean = 0.0
        for i in range(m):
            mean += left[i, c]
        shift = left.dtype.type(mean / m)
        for i in range(m):
            left[i, c] -= shift
            right[i, c] -= shift


@jit
def _weigh(
    products: NDArray[Any],
    weighing: Weighing,
    rows: NDArray[np.intp],
    partners: NDArray[np.intp],
    low: int,
    m: int,
) -> None:
    """Add the product of the constant features, and multiply by the agreement of classes."""
    scale, codes, share, constant = weighing
    if constant == 0.0 and len(codes) == 0:
        return
    for i in range(m):
        for j in range(m):
            weight = 1.0
            if len(scale) > 0:
                weight = float(scale[rows[low + i]]) * float(scale[partners[low + j]])
            product = products[i, j] + weight * constant
            if len(codes) > 0:
                product *= (
                    1.0 if codes[rows[low + i]] == codes[partners[low + j]] else 0.0
                ) - share
            products[i, j] = product


class _Work(NamedTuple):
    """Arrays of the assignment solver, allocated once.

    They are the duals, the two sides of the assignment, and the search tree.
    """

    row_dual: NDArray[np.float64]
    column_dual: NDArray[np.float64]
    column_of: NDArray[np.intp]
    row_of: NDArray[np.intp]
    distance: NDArray[np.float64]
    came_from: NDArray[np.intp]
    row_seen: NDArray[np.bool_]
    column_seen: NDArray[np.bool_]
    open_columns: NDArray[np.intp]


@jit
def _make_work(n: int) -> Any:
    return _Work(
        np.empty(n),
        np.empty(n),
        np.empty(n, np.intp),
        np.empty(n, np.intp),
        np.empty(n),
        np.empty(n, np.intp),
        np.empty(n, np.bool_),
        np.empty(n, np.bool_),
        np.empty(n, np.intp),
    )


@jit
def row_duals(cost: NDArray[np.float64]) -> Any:
    """Dual values of the rows of an assignment problem.

    With those of the columns they never exceed the cost, and equal it where a row is assigned.
    """
    work = _make_work(len(cost))
    _assign(cost, len(cost), work)
    return work.row_dual


@jit
def _assign(cost: NDArray[Any], n: int, work: Any) -> None:
    """Solve the assignment problem of ``cost[:n, :n]`` by shortest augmenting paths.

    The result is in ``work.column_of``.
    """
    row_dual, column_dual, column_of, row_of = (
        work.row_dual,
        work.column_dual,
        work.column_of,
        work.row_of,
    )
    row_dual[:n] = 0.0
    column_of[:n] = -1
    row_of[:n] = -1
    # The cheapest row of each column takes it, if the row is free: this gives feasible duals, and
    # often half the assignment.
    for j in range(n):
        cheapest = 0
        for i in range(1, n):
            if cost[i, j] < cost[cheapest, j]:
                cheapest = i
        column_dual[j] = cost[cheapest, j]
        if column_of[cheapest] < 0:
            column_of[cheapest] = j
            row_of[j] = cheapest
    for row in range(n):
        if column_of[row] < 0:
            _augment(cost, n, row, work)


@jit
def _augment(cost: NDArray[Any], n: int, start: int, work: Any) -> None:
    """Change the assignment along the shortest path of reduced costs (Dijkstra).

    The path leads from a free row to a free column.
    """
    (
        row_dual,
        column_dual,
        column_of,
        row_of,
        distance,
        came_from,
        row_seen,
        column_seen,
        open_columns,
    ) = work
    for j in range(n):
        open_columns[j], row_seen[j], column_seen[j], distance[j] = n - 1 - j, False, False, np.inf
    reached, i, sink, remaining = 0.0, start, -1, n
    while sink < 0:
        row_seen[i] = True
        nearest, lowest = -1, np.inf
        for k in range(remaining):
            j = open_columns[k]
            through = reached + cost[i, j] - row_dual[i] - column_dual[j]
            if through < distance[j]:
                distance[j] = through
                came_from[j] = i
            if distance[j] < lowest or (distance[j] == lowest and row_of[j] < 0):
                nearest, lowest = k, distance[j]
        reached = lowest
        j = open_columns[nearest]
        column_seen[j] = True
        remaining -= 1
        open_columns[nearest] = open_columns[remaining]
        if row_of[j] < 0:
            sink = j
        else:
            i = row_of[j]
    row_dual[start] += reached
    for k in range(n):
        if row_seen[k] and k != start:
            row_dual[k] += reached - distance[column_of[k]]
        if column_seen[k]:
            column_dual[k] -= reached - distance[k]
    j = sink
    while True:
        i = came_from[j]
        row_of[j] = i
        column_of[i], j = j, column_of[i]
        if i == start:
            return
