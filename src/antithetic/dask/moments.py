"""What Newton's method needs to know before its first round: sums over each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import Block
from antithetic.dask.common import Common
from antithetic.problem.columns import ColumnMoments, Columns, columns_from, joined, moments_of
from antithetic.problem.constant import best_constant
from antithetic.problem.losses import Loss

Vector = NDArray[np.float64]


class BlockMoments(NamedTuple):
    """Sums over a block.

    Attributes
    ----------
    weights, squares : ndarray of shape (n_classes,) or (1,)
        Sums of the weights of each class, or of all rows for regression, and of their squares.
    columns : tuple of ColumnMoments
        Of the rows of each class, if there are at most two; otherwise of all rows.
    mean, spread, loss : float
        For regression: weighted mean of the targets, and sums of the losses if it is predicted for
        all rows, and at zero predictions.
    entries : float
        Stored entries per row.
    """

    weights: Vector
    squares: Vector
    columns: tuple[ColumnMoments, ...]
    mean: float
    spread: float
    loss: float
    entries: float


def sums_of(block: Block, codes: NDArray[np.intp], many: int, loss: Loss) -> BlockMoments:
    """Sums over a block whose rows have the classes ``codes``, of ``many`` classes."""
    n, weight = block.X.shape[0], block.weight
    ones = np.bincount(codes, minlength=many).astype(np.float64)
    weights, squares = ones, ones
    if weight is not None:
        weights = np.bincount(codes, weight, many).astype(np.float64)
        squares = np.bincount(codes, weight * weight, many).astype(np.float64)
    mean = spread = at_zero = 0.0
    if not loss.classification:
        assert block.y is not None
        y = block.y.astype(np.float64)
        weight = np.ones(n) if weight is None else weight
        total = float(weight.sum())
        mean = float(weight @ y) / total if total > 0.0 else 0.0
        constant = np.full(n, loss.best_constant(np.array([mean]), None))
        spread = loss.mean(y, constant, weight) * n
        at_zero = loss.mean(y, np.zeros(n), weight) * n
    entries = block.X.nnz / n if sparse.issparse(block.X) else float(block.X.shape[1])
    return BlockMoments(weights, squares, _columns(block, codes), mean, spread, at_zero, entries)


def _columns(block: Block, codes: NDArray[np.intp]) -> tuple[ColumnMoments, ...]:
    many = int(codes.max()) + 1
    if many != 2:
        return (moments_of(block.X, block.weight),)
    weight = np.ones(len(codes)) if block.weight is None else block.weight
    return tuple(moments_of(block.X, weight * (codes == k)) for k in range(2))


def join_means(loss: Loss, parts: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Mean of all rows, and the sum of the losses if it is predicted for them.

    ``parts`` are the total weight of some rows, their mean, and the same sum for their own mean.
    Squared errors and deviances are Bregman divergences, so the sum of all rows is that of the
    parts, and what their means add: no digits cancel.
    """
    parts = [part for part in parts if part[0] > 0.0]
    total = mean = 0.0
    for weight, own, _ in parts:
        total += weight
        mean += (own - mean) * (weight / total)
    if not parts:
        return 0.0, 0.0
    weights, means, spreads = np.array(parts).T
    constant = loss.best_constant(np.array([mean]), None)
    return mean, float(spreads.sum() + weights @ loss.value(means, constant))


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """What is known of all rows before the first round.

    Attributes
    ----------
    rows : int
    counts : ndarray of shape (n_blocks, n_classes) or (n_blocks, 1)
        Rows of each class in each block, or of each block for regression.
    weights, squares : ndarray of shape (n_classes,) or (1,)
        Sums of the weights of each class, and of their squares.
    columns : list of tuple of int and ColumnMoments
        Moments of the columns of the rows of some blocks and, if these have at most two classes,
        of one class, with its number.
    mean, spread, loss : float
        As in :class:`BlockMoments`.
    row_bytes : float
        Memory of a row.
    is_single : bool
        Whether rows are float32.
    is_sparse : bool, default=False
    """

    rows: int
    counts: NDArray[np.intp]
    weights: Vector
    squares: Vector
    columns: list[tuple[int, ColumnMoments]]
    mean: float
    spread: float
    loss: float
    row_bytes: float
    is_single: bool
    is_sparse: bool = False

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.columns[0][1].mean)

    def columns_of(self, common: Common, problem: int) -> Columns:
        """Means and variances of the columns, whose rows count as the problem weighs them."""
        weight_of = None if common.is_classed else common.parts.weights
        seen = joined(
            [
                one if weight_of is None else one._replace(weight=one.weight * weight_of[place])
                for place, one in self.columns
            ]
        )
        counts = np.empty(0)
        if common.parts.classes is not None:
            counts = self.weights_by_group(common, problem)[0]
            counts = counts if common.is_classed else counts[::-1]
            seen = seen._replace(weight=float(counts.sum()))
        return columns_from(seen, counts, fit_intercept=common.fit_intercept)

    def weights_by_group(self, common: Common, problem: int) -> tuple[Vector, Vector]:
        """Sums of weights, and of their squares, of the groups of one problem."""
        if common.parts.classes is None:
            return self.weights, self.squares
        if common.is_classed:
            own = common.parts.weights
            own = np.ones(len(self.weights)) if own is None else own
            return own * self.weights, np.square(own) * self.squares
        place = common.parts.positive(problem)
        signs = np.array([1.0, -1.0])
        factors = common.parts.weigh(signs, None, problem)
        factors = np.ones(2) if factors is None else factors
        parts = [np.array([of[place], of.sum() - of[place]]) for of in (self.weights, self.squares)]
        return factors * parts[0], np.square(factors) * parts[1]

    def effective_rows(self, common: Common, problem: int) -> float:
        """Number of rows of equal weight that would be as informative."""
        weights, squares = (part.sum() for part in self.weights_by_group(common, problem))
        return float(weights) ** 2 / float(squares) if squares > 0.0 else 1.0

    def constant(self, common: Common, problem: int) -> tuple[float, float]:
        """Best prediction without weights, and its mean loss.

        A regression predicts its mean, or the logarithm of that.
        """
        loss, n = common.loss, self.rows
        if loss.classification:
            weights = self.weights_by_group(common, problem)[0] * (2.0 / n)
            signs = np.array([1.0, -1.0])
            if not common.fit_intercept:
                return 0.0, loss.mean(signs, np.zeros(2), weights)
            return best_constant(loss, signs, weights)
        if not common.fit_intercept:
            return 0.0, self.loss / n
        return loss.best_constant(np.array([self.mean]), None), self.spread / n
