"""Subsets of the rows: drawn evenly from each class, or the most important ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from antithetic.exact.sums import Vector
from antithetic.problem.objective import Problem

_SHARE_OF_RARE = 0.2  # of a sample


def rows_by_class(problem: Problem) -> list[NDArray[np.intp]]:
    """Rows of each class that occurs, in order; for a regression, all rows."""
    if not problem.loss.classification:
        return [np.arange(problem.n)]
    positive = problem.y > 0.0
    return [part for part in map(np.flatnonzero, (positive, ~positive)) if len(part)]


def draw_places(
    lengths: Sequence[int], size: int, seed: int
) -> tuple[list[NDArray[np.intp]], list[float]] | None:
    """Evenly spread places among the rows of each class, and how much a row of each counts.

    A class has its share of ``size``. Of two, the rare one has a fifth of it, or all its rows,
    since most of the noise comes from there; its rows then count less. Fewer than five of a class
    are too few, and give None.
    """
    rng, n = np.random.default_rng(seed), sum(lengths)
    counts = [round(size * length / n) for length in lengths]
    factors = [1.0] * len(lengths)
    if len(lengths) == 2:
        rare = int(lengths[1] < lengths[0])
        many = min(lengths[rare], int(_SHARE_OF_RARE * size))
        if many > counts[rare]:
            counts[rare], counts[1 - rare] = many, size - many
            factors = [
                length / n * (size / count) for length, count in zip(lengths, counts, strict=True)
            ]
    chosen = []
    for length, many in zip(lengths, counts, strict=True):
        if many < min(5, length):
            return None
        cells = (np.arange(many) + rng.random(many)) * (length / many)
        chosen.append(np.minimum(cells.astype(np.intp), length - 1))
    return chosen, factors


def thin_out(weight: Vector, size: int) -> tuple[NDArray[np.intp], Vector]:
    """About ``size`` rows, drawn in proportion to their weights, and the chance of each.

    Weights divided by these chances make sums over the rows that are kept as large, on average, as
    those over all rows. The same weights always give the same rows.

    Examples
    --------
    >>> kept, chances = thin_out(np.array([1.0, 0.0, 3.0]), 2)
    >>> kept.tolist(), chances.tolist()
    ([2], [1.0])
    """
    total = float(weight.sum())
    if not 0.0 < total < np.inf:
        return np.arange(len(weight)), np.ones(len(weight))
    chances = np.minimum(1.0, weight * (size / total))
    kept = np.flatnonzero(np.random.default_rng(0).random(len(weight)) < chances)
    return kept, chances[kept]
