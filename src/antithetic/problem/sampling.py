r"""Samples of the rows, drawn by how much each row could matter.

A row can matter in two ways: it may hold much of the variance of a column, as rows of a rare
feature or outliers do, or much of the weight of its class. Its *importance* is

.. math:: q_i = \max\Bigl(\frac1d \max_j \frac{s_i (x_{ij} - \mu_j)^2}{S v_j},\
          \frac{s_i}{2 S_{k(i)}}\Bigr)

with the weight of all rows :math:`S` and that of a class :math:`S_k`, and it is drawn with
probability :math:`\pi_i = \min(1, m\,(s_i / 2S + q_i / 2))`. Divided by that, weights make sums
over a sample unbiased. This is leverage sampling (Xu et al. 2016), with the leverage of each column
alone: combinations of columns are not seen.

Whether a row is drawn is decided by a hash of its number. So a sample is part of each larger one,
the same whatever the order of the file, and the same on one machine and on many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic.problem.columns import Columns
from antithetic.problem.objective import Problem

_Vector = NDArray[np.float64]
_LEAST = 1e-300  # weight of a class that has none
_FAIR = 0.5  # of an equal share of the weight: classes that have so much are drawn as they come


class DrawShares(NamedTuple):
    """How likely each row is drawn.

    Attributes
    ----------
    share : ndarray of shape (n,)
        Probability of each row, divided by the size of the sample.
    seed : int
    first : int
        Number of the first of these rows among all.
    """

    share: _Vector
    seed: int
    first: int

    def draw(self, size: float) -> tuple[NDArray[np.intp], _Vector]:
        """Draw about ``size`` rows; return them and the probability that each had.

        They are between half and one and a half times as many.
        """
        rows = kernels.draw_by_hash(self.share, size, self.seed, self.first)
        return rows, np.minimum(1.0, size * self.share[rows])


def importance_of(
    problem: Problem,
    columns: Columns,
    seed: int,
    first: int = 0,
    *,
    enough: float | None = None,
) -> DrawShares:
    """Return how likely rows are drawn; visits them only if some matter much more than others.

    Parameters
    ----------
    problem : Problem
        Of all rows, or of some.
    columns : Columns
        Of all rows.
    seed : int
    first : int, default=0
        Number of the first of these rows among all.
    enough : float or None, default=None
        Largest squared distance of an entry from its column's centre, in units of the variance, up
        to which rows are drawn evenly: a column may then be known from as few rows as a sample has
        times so many. None means four per column, and at least 40.

    Examples
    --------
    >>> from antithetic.problem.columns import columns_of
    >>> problem = Problem.build([[0.0], [1.0], [9.0]], [-1, 1, 1])
    >>> importance_of(problem, columns_of(problem), 0).draw(1000.0)[0].tolist()
    [0, 1, 2]
    """
    n, d, weight, size = problem.n, problem.d, problem.weight, columns.weight
    counted = 1.0 if weight is None else weight
    share: Any = 1.0 / max(size, _LEAST)
    matter: Any = share
    if len(columns.counts) and columns.counts.min() < _FAIR * size / len(columns.counts):
        part = 1.0 / (len(columns.counts) * np.maximum(columns.counts, _LEAST))
        matter = part[problem.codes]
    if columns.furthest > (max(4.0 * d, 40.0) if enough is None else enough):
        reach = np.empty(n)
        problem.rows.reach(columns.centre, columns.scale, reach)
        reach *= share / d
        matter = np.maximum(reach, matter, out=reach)
    share = np.broadcast_to(0.5 * counted * (matter + share), n)
    return DrawShares(np.ascontiguousarray(share), seed, first)
