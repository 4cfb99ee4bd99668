"""Tasks of Newton's method: sums over the rows of a block at some weights, and drawing rows.

A sum is that of :class:`antithetic.exact.row_sums.RowSums` or, with many classes,
:class:`antithetic.exact.class_sums.ClassSums`, times the block's share of all rows, so that the
results of the blocks add up to that of all rows. A task is a pure function of the block and the
question: it does not matter which worker runs it, or how often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import Block, one_thread, open_block
from antithetic.dask.common import Common
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.row_sums import RowSums
from antithetic.exact.row_totals import row_totals
from antithetic.exact.sums import Evaluation, Outcome, Vector

_FEW_GROUPS = 8

Answer = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What to compute from the rows of a block.

    Attributes
    ----------
    common : Common
    problem : int
        Number of the problem.
    centre : ndarray of shape (d,) or None
        Subtracted from each column; None without an intercept.
    theta : ndarray of shape (d,) or (d + 1,)
        Weights, then the intercept of centred columns if there is one.
    what : str
        Name of the sum: "at", or another method of the sums that takes a point.
    arguments : tuple
    options : dict
    kind : type or None
        Float type of the products with many classes; None with two.
    """

    common: Common
    problem: int
    centre: Vector | None
    theta: Vector
    what: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    kind: Any = None


def answer_block(number: int, parts: Sequence[Any], question: Question) -> Answer:
    """Sums over the rows of a block, divided by the number of all rows."""
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        block = open_block(number, parts, finite=False)
        if question.what == "at":
            answer = _evaluate(block, question)
            if np.isnan(answer[0][0]):
                open_block(number, parts)  # raises if the data have changed and contain NaN now
            return answer
        answer = _answer(block, question)
        if any(np.isnan(part).any() for part in answer):
            open_block(number, parts)
        return answer


def _sums_of(block: Block, question: Question) -> RowSums | ClassSums:
    """Sums over the rows of a block, without the penalty, which the client adds."""
    common = question.common
    y, weight = common.target_and_weight(block, question.problem)
    return common.sums(block.X, y, weight, question.centre, question.kind)


def _evaluate(block: Block, question: Question) -> Answer:
    """Means that make up the objective and, last, the gradient, as shares of all rows.

    The means are those of the losses, squared slopes, curvatures and, with two classes, slopes
    above and below 0.
    """
    sums = _sums_of(block, question)
    share = sums.n / question.common.rows
    if isinstance(sums, RowSums):
        means, gradient = row_totals(sums, question.theta)
    else:
        point = sums.at(question.theta)
        (curvature,) = point.totals
        means = np.array([point.objective, point.noise * curvature, curvature])
        gradient = point.gradient
    return share * means, share * gradient


def _answer(block: Block, question: Question) -> Answer:
    """Any sum over the rows of a block other than objective and gradient."""
    sums = _sums_of(block, question)
    share = sums.n / question.common.rows
    bare = Evaluation(question.theta, 0.0, np.empty(0), 0.0)  # enough for many classes
    point = sums.at(question.theta) if isinstance(sums, RowSums) else bare
    found = getattr(sums, question.what)(point, *question.arguments, **question.options)
    answer = found[:2] if isinstance(found, tuple) else (found,)  # a dual without its scales
    return tuple(share * np.atleast_1d(np.asarray(part, np.float64)) for part in answer)


class Draw(NamedTuple):
    """Which rows to draw from a block.

    Attributes
    ----------
    places : dict of int to ndarray
        For each group of rows, which of them, counted from the first in the block.
    counts : ndarray or None
        Weight of the rows of each group; None if all are 1.
    problem : int
    """

    places: dict[int, NDArray[np.intp]]
    counts: Vector | None
    problem: int


class Drawn(NamedTuple):
    """Rows drawn from a block, with the targets of one problem."""

    X: Any
    y: Vector
    weight: Vector | None


def draw_block(number: int, parts: Sequence[Any], draw: Draw, common: Common) -> Drawn:
    """Rows at given positions among the block's rows of each group."""
    block = open_block(number, parts, finite=False)
    y, weight = common.target_and_weight(block, draw.problem)
    groups = common.groups(y)
    rows = np.concatenate(_rows_at(groups, draw.places))
    own = None if weight is None else weight[rows]
    if draw.counts is not None:
        own = draw.counts[groups[rows]] * (1.0 if own is None else own)
    return Drawn(block.X[rows], y[rows], own)


def _rows_at(
    groups: NDArray[np.intp], places: dict[int, NDArray[np.intp]]
) -> list[NDArray[np.intp]]:
    """Rows at given positions among those of each group."""
    if len(places) <= _FEW_GROUPS:  # faster than sorting
        return [np.flatnonzero(groups == k)[some] for k, some in places.items()]
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], list(places))
    return [order[at + some] for at, some in zip(starts.tolist(), places.values(), strict=True)]


def join_drawn(*drawn: Drawn) -> Drawn:
    """Join the rows drawn from all blocks."""
    stack = [rows.X for rows in drawn]
    is_sparse = sparse.issparse(stack[0])
    X = sparse.csr_array(sparse.vstack(stack)) if is_sparse else np.concatenate(stack)
    weights = [rows.weight for rows in drawn if rows.weight is not None]
    weight = np.concatenate(weights) if weights else None
    return Drawn(X, np.concatenate([rows.y for rows in drawn]), weight)


def solve_drawn(
    drawn: Drawn,
    common: Common,
    centre: Vector | None,
    kind: Any,
    solve: Callable[[Any], Outcome | None],
) -> Outcome | None:
    """Call a function with rows that were drawn; None if all of them have weight 0."""
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        if drawn.weight is not None and not drawn.weight.any():
            return None
        sums = common.sums(drawn.X, drawn.y, drawn.weight, centre, kind)
        return solve(sums.with_penalty(common.penalty))
