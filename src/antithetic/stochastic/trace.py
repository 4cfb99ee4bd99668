"""What is recorded during a run: objective, optimality, exact variance, partial sums, distances."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from antithetic._util.settings import Settings
from antithetic._util.validation import check_coef
from antithetic.exact.optimality import (
    check_gap,
    check_gradient,
    duality_gap,
    gradient_mapping_norm,
)
from antithetic.orders import Order
from antithetic.orders.order import name_order
from antithetic.problem import Problem, ratio
from antithetic.stochastic import SOLVERS
from antithetic.stochastic.gap import bound_of
from antithetic.stochastic.solver import Solution
from antithetic.stochastic.stopping import Stop, Target

if TYPE_CHECKING:
    from antithetic.stochastic.loop import Run
    from antithetic.stochastic.spec import Spec


class View:
    """A run after an epoch, as measures see it; what several of them need is computed once.

    Values about batches refer to the next epoch, at the current weights and with the current table.
    """

    def __init__(self, spec: Spec, run: Run) -> None:
        self.spec, self.run = spec, run

    @cached_property
    def solution(self) -> Solution:
        """Weights and intercept as they would be returned now."""
        return self.spec.solver.solution(self.run.state, self.run.own)

    @cached_property
    def slopes(self) -> NDArray[np.float64]:
        """Slopes of all rows at the last weights."""
        return self.spec.problem.slopes(self.run.state.coef, self.run.state.intercept)

    @cached_property
    def variance(self) -> float:
        """Exact variance of the gradient that the next batch steps along."""
        state, drawing = self.run.state, self.run.drawing
        followed = self.spec.solver.followed(state, self.run.own)
        assert drawing.draws is not None
        return drawing.draws.variance(followed, state.epochs, self.run.order)


class Measure(Protocol):
    """Something that is recorded after each epoch."""

    @property
    def name(self) -> str:
        """Its name in the trace."""

    def of(self, view: View) -> float:
        """Its value."""


@dataclass(frozen=True, eq=False, repr=False)
class Distance(Settings):
    """Distance of the weights from a known solution, for ``trace=``.

    Parameters
    ----------
    w_star : array-like of shape (d,), or (n_classes, d) for ``"softmax"``
    """

    w_star: Any

    @property
    def name(self) -> str:
        """``"distance"``."""
        return "distance"

    def __post_init__(self) -> None:
        w_star = np.array(self.w_star, dtype=np.float64)
        w_star.flags.writeable = False
        object.__setattr__(self, "w_star", w_star)

    def of(self, view: View) -> float:
        """Euclidean distance of the weights, without the intercept."""
        known = _check_w_star(self.w_star, view.spec.problem)
        return float(np.linalg.norm(view.solution[0] - known))


def _check_w_star(w_star: NDArray[np.float64], problem: Problem) -> NDArray[np.float64]:
    known = w_star.ravel() if problem.loss.has_classes else w_star
    return check_coef(known, problem.n_weights, "w_star")


@dataclass(frozen=True, slots=True)
class Score:
    """A score on rows that are not trained on."""

    score: Callable[[NDArray[Any], Any], float]
    name: str = "validation_score"

    def of(self, view: View) -> float:
        """Score of the weights."""
        return self.score(*view.solution)


@dataclass(frozen=True, slots=True)
class _Word:
    """A measure that is known by a word."""

    name: str

    def of(self, view: View) -> float:
        """Its value."""
        return _WORDS[self.name](view)


def _objective(view: View) -> float:
    known = view.run.objective
    return view.spec.problem.objective(*view.solution) if np.isnan(known) else known


def _gap(view: View) -> float:
    left = view.spec.solver.gap(view.run.state, view.run.own)
    if left is None:
        left = duality_gap(view.spec.problem, *view.solution)
    return bound_of(view.spec.problem, _objective(view), left).share


def _variance_ratio(view: View) -> float:
    from antithetic.orders.variance import uniform_variance

    spec = view.spec
    independent = uniform_variance(spec.problem, view.slopes, None, spec.batch_size)
    return ratio(view.variance, independent)


def _partial_sum(view: View) -> float:
    from antithetic.orders.variance import largest_partial_sum

    spec, run = view.spec, view.run
    assert run.drawing.draws is not None
    rows = run.drawing.draws.batches(run.state.epochs, run.order).rows
    rng = np.random.default_rng((spec.seed, run.state.epochs))
    ours, random = (
        largest_partial_sum(spec.problem, view.slopes, order)
        for order in (rows, rng.permutation(spec.problem.n))
    )
    return ratio(ours, random)


_WORDS: dict[str, Callable[[View], float]] = {
    "objective": _objective,
    "gradient": lambda view: gradient_mapping_norm(view.spec.problem, *view.solution),
    "gap": _gap,
    "variance": lambda view: view.variance,
    "variance_ratio": _variance_ratio,
    "partial_sum": _partial_sum,
}
TRACES = tuple(_WORDS)


def measures_of(trace: Any, stop: Stop = None) -> tuple[Measure, ...]:
    """Return what a ``trace=`` asks for, and what a target needs."""
    several = isinstance(trace, Iterable) and not isinstance(trace, (str, Distance))
    found = tuple(_read(one) for one in (trace if several else (trace,)) if one is not None)
    if isinstance(stop, Target) and stop.of not in {measure.name for measure in found}:
        found = (*found, _Word(stop.of))
    return found


def _read(one: Any) -> Measure:
    if isinstance(one, str) and one in _WORDS:
        return _Word(one)
    if one == "distance":
        raise ValueError('trace="distance" needs a solution; use trace=[Distance(w_star)]')
    if isinstance(one, str) or not (hasattr(one, "name") and callable(getattr(one, "of", None))):
        raise ValueError(
            f"trace {one!r} is not known; use some of {', '.join(TRACES)}, or Distance(w_star)"
        )
    measure: Measure = one
    return measure


def check_measures(
    measures: tuple[Measure, ...], solver: str, order: Order | None, problem: Problem | None = None
) -> None:
    """Raise ValueError for what cannot be measured with a solver, an order or a problem."""
    names = {measure.name for measure in measures}
    if not SOLVERS[solver].has_steps and {"variance", "variance_ratio"} & names:
        raise ValueError(
            f'solver="{solver}" does not step along gradients, so they have no variance to trace;'
            ' use trace="gap"'
        )
    if order is not None and not order.has_partial_sums and "partial_sum" in names:
        raise ValueError(
            f'trace="partial_sum" needs an order of rows, which order="{name_order(order)}" does'
            ' not have; use trace="variance"'
        )
    of_rows = {"variance", "variance_ratio", "partial_sum"} & names
    if problem is not None and problem.loss.has_classes and of_rows:
        raise ValueError(
            f'trace="{min(of_rows)}" is not supported with loss="softmax"; use "objective",'
            ' "gradient" or "gap"'
        )
    if problem is not None and "gradient" in names:
        check_gradient(problem)
    if problem is not None and "gap" in names:
        check_gap(problem)
    if problem is not None:
        for measure in measures:
            if isinstance(measure, Distance):
                _check_w_star(measure.w_star, problem)


def measure(spec: Spec, run: Run) -> dict[str, float]:
    """Measure the current state of a run."""
    view = View(spec, run)
    return {one.name: one.of(view) for one in spec.trace}
