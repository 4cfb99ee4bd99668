"""What a task answers about a block: sums over its rows, at some weights.

Each answer is what :class:`antithetic.problem.curvature.RowSums` says of the block's rows, times
the block's share of all rows, so that the answers of all blocks add up to those of all rows. A task
is a pure function of the block and the question: it makes no difference which worker runs it, and
how often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import open_block
from antithetic.dask.common import Common
from antithetic.dask.tasks import one_thread
from antithetic.problem import Problem
from antithetic.problem.curvature import RowSums, rows_by_class
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.sums import Dual, Evaluation, Outcome, Vector

Answer = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What to ask of the rows.

    Attributes
    ----------
    common : Common
    problem : int
        Number of the problem.
    centre : ndarray of shape (d,) or None
        What is subtracted from each column; None without an intercept.
    theta : ndarray of shape (d,) or (d + 1,)
        Weights, then the intercept of centred columns if there is one.
    what : str
        Name of the sum: "at", or another method of :class:`RowSums` that takes a point.
    arguments : tuple
    options : dict
    """

    common: Common
    problem: int
    centre: Vector | None
    theta: Vector
    what: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def answer_block(number: int, parts: Sequence[Any], question: Question) -> Answer:
    """Sums over the rows of a block, divided by the number of all rows."""
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        sums = _sums_of(number, parts, question)
        share = sums.n / question.common.rows
        point = sums.at(question.theta)
        if np.isnan(point.objective):
            open_block(number, parts)  # which raises if the data have changed, and have NaN now
        answer: tuple[Any, ...]
        if question.what == "at":
            answer = _evaluation(point)
        else:
            found = getattr(sums, question.what)(point, *question.arguments, **question.options)
            answer = (found.gradient, found.cost) if isinstance(found, Dual) else (found,)
        return tuple(share * np.atleast_1d(np.asarray(part, np.float64)) for part in answer)


def _sums_of(number: int, parts: Sequence[Any], question: Question) -> RowSums:
    """Rows of a block, without a penalty: that is added once."""
    block = open_block(number, parts, finite=False)
    problem = question.common.problem(block, question.problem)
    return RowSums(problem, question.centre).with_penalty(ElasticNet())


def _evaluation(point: Evaluation) -> tuple[Vector, Vector]:
    """Mean loss, mean squared slope, mean curvature, mean slopes above and below 0; gradient."""
    assert point.slopes is not None
    assert point.curvatures is not None
    curvature = float(point.curvatures.mean())
    up, down = np.maximum(point.slopes, 0.0).mean(), -np.minimum(point.slopes, 0.0).mean()
    return np.array([point.objective, point.noise * curvature, curvature, up, down]), point.gradient


class Drawn(NamedTuple):
    """Rows drawn from a block, with the targets of one problem."""

    X: Any
    y: Vector
    weight: Vector | None


def draw_block(
    number: int,
    parts: Sequence[Any],
    places: list[NDArray[np.intp]],
    common: Common,
    problem: int,
) -> Drawn:
    """Rows at some places among those of each class that the block has, +1 first."""
    whole = common.problem(open_block(number, parts, finite=False), problem)
    own = zip(rows_by_class(whole), places, strict=True)
    rows = np.concatenate([part[some] for part, some in own])
    weight = None if whole.weight is None else whole.weight[rows]
    return Drawn(whole.X[rows], whole.y[rows], weight)


def solve_drawn(
    drawn: list[Drawn],
    common: Common,
    centre: Vector | None,
    solve: Callable[[RowSums], Outcome | None],
) -> Outcome | None:
    """Call a function with rows of all blocks together; None where none of them counts."""
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        is_sparse = sparse.issparse(drawn[0].X)
        stack = [rows.X for rows in drawn]
        X = sparse.csr_array(sparse.vstack(stack)) if is_sparse else np.concatenate(stack)
        weights = [rows.weight for rows in drawn if rows.weight is not None]
        weight = np.concatenate(weights) if weights else None
        if weight is not None and not weight.any():
            return None
        y = np.concatenate([rows.y for rows in drawn])
        problem = Problem(X, y, common.loss, common.penalty, weight, common.fit_intercept, None)
        return solve(RowSums(problem, centre))
