"""What a table would gain and cost on given data, and which order to use (`advise`)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from antithetic._util.validation import check_count
from antithetic.orders import Balanced, Order
from antithetic.orders.order import name_order
from antithetic.orders.shuffle import shuffled_rows
from antithetic.pairing import AntitheticTable, pair
from antithetic.pairing.table import pair_ratio
from antithetic.pairing.tree import ONE_LEAF as OPTIMAL_ROWS
from antithetic.problem import Problem
from antithetic.problem.losses import Loss
from antithetic.stochastic import State
from antithetic.stochastic.loop import begin, train
from antithetic.stochastic.plan import best_order
from antithetic.stochastic.spec import make_spec
from antithetic.stochastic.step_search import find_steps, noise_of_balanced

_SAMPLE_ROWS, _ROWS_FOR_TIMING = 1000, 4000
_SUSPICIOUS = 1.0  # seconds beyond which a busy machine is likely: timed once more
_EPOCHS_TO_THE_END = 10  # of a balanced run on the sample, which is near its optimum then


@dataclass(frozen=True, slots=True)
class Advice:
    """The result of :func:`advise`; ``print`` shows it as a paragraph.

    Attributes
    ----------
    order : Order
        The order to use with a linear model, ``Balanced()`` or ``Shuffle()``, without pairs, since
        ``table_epochs`` more epochs gain more than a table.
    ratio_now : float
        Variance of the gradient of an antithetic pair at zero weights, relative to that of two
        independent rows.
    ratio_faded : float
        The same for the same table near the optimum.
    ratio_later : float
        The same for a table made near the optimum.
    table_epochs : float
        The cost of a table, in epochs of reshuffled training.
    rows_used : int
        Number of rows that were measured; with more rows, a table finds better partners.
    why : str
        The reason for the order.
    """

    order: Order
    ratio_now: float
    ratio_faded: float
    ratio_later: float
    table_epochs: float
    rows_used: int
    why: str

    def __str__(self) -> str:
        epochs = float(f"{self.table_epochs:.1g}")  # times vary
        return (
            f"Use order={name_order(self.order)!r} without pairs ({self.why}). A table would lower"
            f" the variance of a batch to {self.ratio_now:.2f} of that of independent rows at"
            f" first, to {self.ratio_faded:.2f} near the optimum, and to {self.ratio_later:.2f} if"
            f" it is rebuilt there. It costs as much as about {epochs:.0f} epochs, so it"
            " pays only if gradients are expensive, as in a deep network."
        )


def advise(
    X: Any,
    y: Any,
    *,
    loss: str | Loss = "log_loss",
    l2: float = 1e-4,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    batch_size: int = 2,
    epochs: int = 20,
    random_state: int = 0,
) -> Advice:
    """Say which order to use on these data, and whether a table will pay.

    It measures about a thousand of the rows, which takes a second or two.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
    y : array-like of shape (n,)
        Labels of two classes, or numbers for a regression loss.
    loss : str or Loss, default="log_loss"
    l2 : float, default=1e-4
        Strength of the L2 penalty.
    fit_intercept : bool, default=False
    sample_weight : array-like of shape (n,), default=None
    batch_size : int, default=2
        Rows of a step.
    epochs : int, default=20
        Planned number of passes.
    random_state : int, default=0

    Returns
    -------
    Advice

    Examples
    --------
    >>> import antithetic
    >>> X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    >>> advice = antithetic.advise(X, y, l2=1e-2)
    >>> advice.order, round(advice.ratio_now, 2)
    (Balanced(), 0.26)
    """
    problem = Problem.build(
        X, y, loss=loss, l2=l2, sample_weight=sample_weight, fit_intercept=fit_intercept
    )
    batch_size = min(check_count(batch_size, "batch_size", least=1), problem.n)
    order, why = best_order(
        problem.n, problem.d, batch_size=batch_size, epochs=check_count(epochs, "epochs", least=1)
    )
    sample = _some_rows(problem, check_count(random_state, "random_state", least=0))
    state, epoch_seconds = _near_the_optimum(sample, min(batch_size, sample.n), random_state)
    first, table_seconds = _timed_table(sample, None, random_state)
    later, _ = _timed_table(sample, state, random_state)
    if problem.n > OPTIMAL_ROWS:  # large tables are made in another way
        more = _some_rows(problem, random_state, _ROWS_FOR_TIMING)
        table_seconds = _timed_table(more, None, random_state)[1] * sample.n / more.n
    start, end = sample.slopes(), sample.slopes(state.coef, state.intercept)
    return Advice(
        order,
        pair_ratio(sample, start, first.partner),
        pair_ratio(sample, end, first.partner),
        pair_ratio(sample, end, later.partner),
        table_seconds / epoch_seconds,
        sample.n,
        why,
    )


def _some_rows(problem: Problem, seed: int, many: int = _SAMPLE_ROWS) -> Problem:
    """Random rows, of both classes."""
    if problem.n <= many:
        return problem
    rng = np.random.default_rng(seed)
    rows = np.arange(problem.n) if problem.weight is None else np.flatnonzero(problem.weight > 0.0)
    rows = rng.choice(rows, min(many, len(rows)), replace=False)
    if problem.loss.classification and abs(problem.y[rows].sum()) == len(
        rows
    ):  # none of a rare class: one will do
        rows[0] = rng.choice(np.flatnonzero(problem.y != problem.y[rows[0]]))
    return problem.take(np.sort(rows))


def _near_the_optimum(sample: Problem, batch_size: int, seed: int) -> tuple[State, float]:
    """Train on the sample; return where that ends, and the least seconds of a reshuffled epoch."""
    steps = find_steps(sample, batch_size, seed, noise=noise_of_balanced(sample.n, sample.d))
    spec = make_spec(
        sample,
        sample.y,
        order=Balanced(),
        solver="sgd",
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )
    *_, run = train(spec, begin(spec), _EPOCHS_TO_THE_END)
    batches, seconds = shuffled_rows(sample.n, batch_size, seed, 0), np.inf
    for _ in range(5):
        began = time.perf_counter()
        spec.solver.epoch(run.state, run.own, batches, run.schedule)
        seconds = min(seconds, time.perf_counter() - began)
    return run.state, seconds


def _timed_table(
    sample: Problem, state: State | None, seed: int, *, again: bool = False
) -> tuple[AntitheticTable, float]:
    began = time.perf_counter()
    table = pair(
        sample.X,
        sample.y,
        coef=None if state is None else state.coef,
        intercept=0.0 if state is None else state.intercept,
        loss=sample.loss,
        fit_intercept=sample.fit_intercept,
        sample_weight=sample.weight,
        random_state=seed,
    )
    assert isinstance(table, AntitheticTable)  # without nest= it is one
    seconds = time.perf_counter() - began
    return (
        _timed_table(sample, state, seed, again=True)
        if seconds > _SUSPICIOUS and not again
        else (table, seconds)
    )
