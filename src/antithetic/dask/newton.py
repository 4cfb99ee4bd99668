"""Newton's method on blocks: the iterations of one machine, with sums computed by the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from antithetic.dask.asking import ALL_ROWS
from antithetic.dask.class_sums import ClassBlockSums
from antithetic.dask.sums import BlockSums
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.goal import Goal
from antithetic.exact.l1 import Lasso
from antithetic.exact.many_classes import MOST_WITH_L1, Truncated, sample_sizes
from antithetic.exact.many_classes import choose_model as choose_class_model
from antithetic.exact.models import MOST_COLUMNS, QuasiNewton
from antithetic.exact.newton import value
from antithetic.exact.path import (
    GIVEN,
    ONE_MATRIX,
    Effort,
    Solved,
    Start,
    choose_model,
    iterates,
    opened,
    rounded,
    solve_samples,
    solved,
)
from antithetic.exact.samples import plan_samples

First = tuple[Any, Any]  # weights and intercepts, of one class or of all
HISTORY = ("seconds", "rounds", "objective", "gradient")


class Reached(NamedTuple):
    """A fit after some iterations.

    Attributes
    ----------
    fit : Solved
    objective : float
    rounds : int
        Passes over all blocks so far, with the first look.
    history : tuple of tuple of float
        For each iteration, the values that :data:`HISTORY` names.
    """

    fit: Solved
    objective: float
    rounds: int
    history: tuple[tuple[float, ...], ...] = ()


def iterate_over(
    sums: BlockSums | ClassBlockSums, tol: float, max_iter: int, seed: int, start: First | None
) -> Iterator[Reached]:
    """Yield a fit before the first iteration, after each one, and with the final bound.

    It starts from given weights and intercept, or from samples that have this seed. For float32
    rows the final weights are rounded, as the user gets them.
    """
    began = time.perf_counter()
    history: list[tuple[float, ...]] = []
    goal = Goal.of(sums, tol, sums.constant()[1])
    is_classed = isinstance(sums, ClassBlockSums)
    given = None if start is None else sums.join(*start)
    if given is not None and isinstance(sums, ClassBlockSums):
        given = sums.in_gauge(given)
    state, begun = opened(
        sums, goal, Effort(tol, max_iter, seed), given, begin_classes if is_classed else begin
    )

    def reached(theta: Any) -> Reached:
        fit = solved(sums, theta, state, begun)
        return Reached(fit, value(sums, state.point), 1 + sums.rounds, tuple(history))

    yield reached(state.point.theta)
    iterations = state.iterations
    for on, now in iterates(sums, goal, state, max_iter):
        sums, state = on, now
        if state.iterations > iterations:
            iterations = state.iterations
            norm = float(np.linalg.norm(_gradient(sums, state.point.gradient)))
            seconds = time.perf_counter() - began
            history.append((seconds, 1.0 + sums.rounds, value(sums, state.point), norm))
            yield reached(state.point.theta)
    theta = state.point.theta
    if sums.is_single:
        theta, state = rounded(sums, goal, state)
    elif is_classed:
        theta = sums.given_back(theta)
    yield reached(theta)


def _gradient(sums: BlockSums | ClassBlockSums, gradient: Any) -> Any:
    """Gradient in the user's weights, whose intercept is that of uncentred columns."""
    if sums.centre is None:
        return gradient
    moved = gradient.copy()
    moved[: sums.d] += np.outer(gradient[sums.d :], sums.centre).ravel()
    return moved


def begin_classes(
    sums: ClassBlockSums,
    goal: Goal,  # noqa: ARG001
    effort: Effort,
    is_given: bool,
) -> Start:
    """Choose where to begin on rows of many classes, and how to find steps; see :func:`begin`."""
    n, d, l1 = sums.n, sums.d, sums.penalty.l1
    matrix = f"a matrix of {d} x {d} second derivatives"
    model: Any = QuasiNewton()
    why = f"newton, because {matrix} is small enough"
    if l1:
        model = Lasso(is_working_set=d > MOST_WITH_L1)
        if model.is_working_set:
            why = f"working set, because most of {d} weights are zero"
    elif sums.is_wide:
        model = Truncated(effort.seed)
        why = f"conjugate gradients, because {matrix} costs more than products"
    return _begin(
        sums, effort, is_given, model, why, sample_sizes(n, sums.features, sums.classes), 0.5
    )


def begin(sums: BlockSums, goal: Goal, effort: Effort, is_given: bool) -> Start:  # noqa: ARG001
    """Choose where to begin, and how to find steps.

    Hessians are those of a sample, or of all rows if these are few and there is room for them here.
    """
    n, d, l1 = sums.n, sums.d, sums.penalty.l1
    is_wide = d > MOST_COLUMNS
    model: Any = Lasso(is_working_set=is_wide) if l1 else QuasiNewton()
    why = f"newton, because a matrix of {d} x {d} second derivatives is small enough"
    if is_wide:
        why = f"working set, because most of {d} weights are zero"
        if not l1:
            why = "newton, because products with the second derivatives are those of a sample"
    if not l1 and sums.is_quadratic and not is_wide:
        return Start(None, model, (), (GIVEN if is_given else ONE_MATRIX, why))
    return _begin(sums, effort, is_given, model, why, plan_samples(n, d).sizes, 1.0 / 3.0)


def _begin(
    sums: BlockSums | ClassBlockSums,
    effort: Effort,
    is_given: bool,
    model: Any,
    why: str,
    planned: Sequence[float],
    largest: float,
) -> Start:
    """Draw and solve samples of the planned sizes, at most the largest share of the rows."""
    n, sizes, is_wide = sums.n, list(planned), sums.is_wide
    is_small_part = bool(sizes) and sizes[-1] < largest * n
    if not is_small_part and n <= sums.most_sampled:
        sizes.append(ALL_ROWS)
    elif is_wide and not sizes:
        sizes.append(n)
    sizes = [size if size == ALL_ROWS else min(size, sums.most_sampled) for size in sizes]
    takes_them = not getattr(model, "is_working_set", False)  # rather than some columns'
    gives_hessians = takes_them and (is_small_part or is_wide or ALL_ROWS in sizes)
    if is_given:
        sizes = sizes[-1:] if gives_hessians else []
    samples = sums.samples(sizes, effort.seed)
    with_hessians = model
    if samples and gives_hessians:
        with_hessians = model.on_sample(samples[-1])
        why = f"{why}, those of {samples[-1].n} rows, drawn by importance"
    if is_given:
        return Start(None, with_hessians, (), (GIVEN, why))
    if not samples:
        first = f"all rows from the start, because {n} rows are too few to sample"
        return Start(None, model, (), (first, why))
    last = samples[-1].sums
    local = choose_class_model(last, effort.seed)[0] if isinstance(last, ClassSums) else None
    theta, drawn = solve_samples(sums, local or choose_model(last)[0], samples)
    first = "samples first, because far from the optimum they are accurate enough"
    return Start(theta, with_hessians, drawn, (first, why))
