"""Tasks of Newton's method: sums over the rows of a block at some weights, and drawing rows.

A sum is that of :class:`antithetic.exact.row_sums.RowSums` or, with many classes,
:class:`antithetic.exact.class_sums.ClassSums`, times the block's share of all rows, so that the
results of the blocks add up to that of all rows. A task is a pure function of the block and the
question: it does not matter which worker runs it, or how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.losses import LOG_LOSS
from antithetic.dask.blocks import Block, one_thread, open_block
from antithetic.dask.common import Common
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Evaluation, Leverage, Restored, Vector
from antithetic.problem.columns import Columns
from antithetic.problem.sampling import importance_of

_ENTRIES_AT_ONCE = 1 << 20  # of float32 rows that are made float64

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
        Name of the sum: "at", "after", "restored_cost", or a method of the sums that takes a point.
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
        sums = _sums_of(block, question)
        found = _ASKED.get(question.what, _any_sum)(sums, question)
        share = sums.n / question.common.rows
        answer = tuple(share * np.atleast_1d(np.asarray(part, np.float64)) for part in found)
        if any(np.isnan(part).any() for part in answer):
            open_block(number, parts)  # raises if the data have changed and contain NaN now
        return answer


def leverage_of_block(number: int, parts: Sequence[Any], question: Question) -> Leverage:
    """Return the largest leverage of a block's rows, and the mean gradient in float64."""
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        sums = _sums_of(open_block(number, parts, finite=False), question)
        point = Evaluation(question.theta, 0.0, np.empty(0), 0.0)
        found: Leverage = sums.largest_leverage(point, *question.arguments)
        return found


def _sums_of(block: Block, question: Question) -> Any:
    """Sums over the rows of a block, without the penalty, which the client adds."""
    common = question.common
    y, weight = common.target_and_weight(block, question.problem)
    return common.sums(block.X, y, weight, question.centre, question.kind)


def _any_sum(sums: RowSums | ClassSums, question: Question) -> Sequence[Any]:
    """Return what a method of the sums finds at a point."""
    bare = Evaluation(question.theta, 0.0, np.empty(0), 0.0)  # enough for many classes
    point = sums.at(question.theta) if isinstance(sums, RowSums) else bare
    found = getattr(sums, question.what)(point, *question.arguments, **question.options)
    return (found,)


def _at(sums: RowSums | ClassSums, question: Question) -> Sequence[Any]:
    """Return means that make up the objective, the gradient, and curvatures times the rows.

    With them go targets above zero times the rows, if they are asked for; with many classes, the
    means of these are asked for instead.
    """
    point, (asks,) = sums.at(question.theta), question.arguments
    if isinstance(sums, ClassSums):
        found = _class_means(point), point.gradient
        return (*found, sums.class_means().ravel()) if asks else found
    slopes, curvatures = sums.judged(point)
    factors = [curvatures]
    if asks:
        targets, weight = np.maximum(sums.problem.y, 0.0), sums.problem.weight
        factors.append(targets if weight is None else targets * weight)
    means = _means(sums, point.objective, slopes, curvatures)
    return means, point.gradient, _products(sums, np.array(factors))


def _class_means(point: Evaluation) -> list[float]:
    """Return means of losses, squared slopes and curvatures of many classes."""
    return [point.objective, point.noise * point.totals[0], point.totals[0]]


def _means(sums: RowSums, loss: float, slopes: Vector, curvatures: Vector) -> list[float]:
    """Return means of losses, squared slopes, curvatures, and slopes above and below zero."""
    up, down = float(np.maximum(slopes, 0.0).sum()), -float(np.minimum(slopes, 0.0).sum())
    square, curvature = float(slopes @ slopes), float(curvatures.sum())
    return [loss, *(total / sums.n for total in (square, curvature, up, down))]


def _products(sums: RowSums, factors: Vector) -> Vector:
    """Return the means of centred rows, and 1 if there is an intercept, times some factors each.

    Factors and means are the rows of matrices.
    """
    X, n, found = sums.problem.X, sums.n, np.zeros((len(factors), sums.columns))
    if sparse.issparse(X):
        found[:, : sums.d] = (X.T @ factors.T).T
    else:
        at_once = n if X.dtype == np.float64 else max(1, _ENTRIES_AT_ONCE // max(1, sums.d))
        for start in range(0, n, at_once):
            part = slice(start, start + at_once)
            found[:, : sums.d] += factors[:, part] @ X[part].astype(np.float64, copy=False)
    for product, total in zip(found, factors.sum(axis=1).tolist(), strict=True):
        sums.average(product, total)
    return found


def _after(sums: RowSums | ClassSums, question: Question) -> Sequence[Any]:
    """Visit the rows at some lengths of a step, the first of which is 1."""
    if isinstance(sums, ClassSums):
        return _after_of_classes(sums, question)
    return _after_of_rows(sums, question)


def _after_of_classes(sums: ClassSums, question: Question) -> Sequence[Any]:
    """Return the means of :func:`_class_means` and the gradient for each length.

    Then the expected slopes times the rows, the mean product of curvatures and squared changes of
    the predictions, and the curvature along the step of a function above the mean loss.
    """
    step, lengths = question.arguments
    start = sums.scored(question.theta)
    visit = sums.after(start, step)
    points = [visit.after, *(sums.between(start, visit, length) for length in lengths[1:])]
    assert start.scores is not None
    assert visit.after.scores is not None
    means, gradients = [_class_means(one) for one in points], [one.gradient for one in points]
    change = np.subtract(visit.after.scores, start.scores, dtype=np.float64)
    above = sums.half_squares(change, slice(None)) / sums.n
    return means, gradients, visit.expected, [visit.square, above]


def _product(sums: ClassSums, question: Question) -> Sequence[Any]:
    """Return the product of the Hessian with a vector."""
    vector, damping = question.arguments
    return (sums.products(question.theta, damping)(vector),)


def _after_of_rows(sums: RowSums, question: Question) -> Sequence[Any]:
    """Visit the rows at some lengths of a step.

    The arguments are the step, the lengths, the shift of the intercept with which a point of the
    dual problem is wanted, or None, and whether sums at the start are wanted. The answer has, for
    each length, the means of :func:`_means` and the gradient; the expected slopes times the rows;
    the mean product of curvatures and squared changes of the predictions, the curvature along the
    step of a function above the mean loss, and the cost of the dual point; and rows times the
    curvatures at the end, and at the start or the expected slopes above zero if these are wanted.
    """
    step, lengths, shift, with_start = question.arguments
    start = sums.at(question.theta)
    visit = sums.after(start, step)
    assert start.scores is not None
    assert visit.after.scores is not None
    line, change = sums.line(start, visit), visit.after.scores - start.scores
    slopes, curvatures = sums.judged(visit.after)
    means, shorter = [_means(sums, visit.after.objective, slopes, curvatures)], len(lengths) - 1
    with_upward = sums.fit_intercept and sums.loss.code != LOG_LOSS
    factors = np.empty((shorter + 1 + with_start + with_upward, sums.n))
    factors[shorter] = curvatures
    for number, length in enumerate(lengths[1:]):
        here = start._replace(scores=start.scores + length * change)
        factors[number], curvatures = sums.judged(here)
        means.append(_means(sums, line(length)[0], factors[number], curvatures))
    if with_start:
        factors[shorter + 1] = sums.judged(start)[1]
    if with_upward:
        np.maximum(sums.expected_slopes(start, visit), 0.0, out=factors[-1])
    products, cost = _products(sums, factors), np.inf
    if shift is not None:
        cost = sums.restored_cost(start, visit, Restored(np.empty(0), {"shift": shift}))
    above = float(sums.curvatures_above(start) @ (change * change)) / sums.n
    gradients = [visit.after.gradient, *products[:shorter]]
    return means, gradients, visit.expected, [visit.square, above, cost], products[shorter:]


def _restored_cost(sums: RowSums | ClassSums, question: Question) -> Sequence[Any]:
    """Return what a point of the dual problem near the end of a step costs."""
    step, how, kept = question.arguments
    start = sums.at(question.theta)
    visit = sums.after(start, step)
    return (sums.restored_cost(start, visit, Restored(np.empty(0), how), kept),)


_ASKED: dict[str, Any] = {
    "at": _at,
    "after": _after,
    "restored_cost": _restored_cost,
    "product": _product,
}


# ---- samples


class Wanted(NamedTuple):
    """Samples to draw from a block, by importance.

    Attributes
    ----------
    columns : Columns
        Of all rows.
    sizes : tuple of float
        Of the samples of all rows, the largest last.
    seed : int
    problem : int
    """

    columns: Columns
    sizes: tuple[float, ...]
    seed: int
    problem: int


class SomeRows(NamedTuple):
    """Rows drawn from a block, with the targets and weights of one problem.

    Attributes
    ----------
    X, y, weight
    share : ndarray of shape (n,)
        Probability with which each was drawn, divided by the size of the sample.
    are_in : ndarray of bool of shape (samples, n)
        Rows of each sample.
    """

    X: Any
    y: Vector
    weight: Vector | None
    share: Vector
    are_in: NDArray[np.bool_]


def draw_rows(
    number: int, parts: Sequence[Any], first: int, wanted: Wanted, common: Common
) -> SomeRows:
    """Draw rows of a block whose first row has this number among all."""
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        block = open_block(number, parts, finite=False)
        y, weight = common.target_and_weight(block, wanted.problem)
        problem = common.problem_of(block.X, y, weight)
        importance = importance_of(problem, wanted.columns, wanted.seed, first)
        rows, _ = importance.draw(wanted.sizes[-1])
        are_in = [np.isin(rows, importance.draw(size)[0]) for size in wanted.sizes]
        own = None if weight is None else weight[rows]
        return SomeRows(block.X[rows], y[rows], own, importance.share[rows], np.array(are_in))


def join_rows(parts: Sequence[SomeRows]) -> SomeRows:
    """Join the rows of all blocks."""
    weights = [part.weight for part in parts if part.weight is not None]  # of all, or of none
    return SomeRows(
        stack_rows([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(weights) if weights else None,
        np.concatenate([part.share for part in parts]),
        np.hstack([part.are_in for part in parts]),
    )


def stack_rows(parts: Sequence[Any]) -> Any:
    """Return the rows of several blocks as one matrix."""
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts))
    return np.concatenate(parts)
