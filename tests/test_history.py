"""``history_``: by default the objective met on the way, on request the exact one."""

from __future__ import annotations

import numpy as np
import pytest
from reference import corrected_steps, passive_aggressive, sgd_steps
from scipy import sparse
from solver_cases import GROUPS, NUMBERS, THREE, TWO, WEIGHTS, Box, X

from antithetic import Distance, SGDClassifier, SGDRegressor
from antithetic.orders import Balanced
from antithetic.penalties import GroupLasso
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES

pytestmark = pytest.mark.lowest

ETA = 0.02
EPSILON = 0.3
PLAIN = {
    "learning_rate": "constant",
    "eta0": ETA,
    "epsilon": EPSILON,
    "shuffle": False,
    "tol": None,
    "average": False,
}
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
WEIGHTED = pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
SIZES = pytest.mark.parametrize("size", [1, 2, 7])


def kind_for(loss):
    return SGDClassifier if LOSSES[loss].classification else SGDRegressor


def problem_of(loss, weight=None, y=None, intercept=True, **penalty):
    kind = kind_for(loss)
    y = (TWO if kind is SGDClassifier else NUMBERS) if y is None else y
    return Problem.build(
        X,
        y,
        loss=LOSSES[loss].with_epsilon(EPSILON),
        sample_weight=weight,
        fit_intercept=intercept,
        **penalty,
    )


def batches_of(size):
    return np.split(np.arange(60), range(size, 60, size))


def met(problem, size, epochs=1, **given):
    """Objective met in the last of some epochs over the rows in order, by the slow twin.

    It is the mean of each row's loss just before its step, plus the penalty of the last weights.
    """
    totals = [0.0]
    for many in (epochs - 1, epochs):
        if many:
            last, _, mean = sgd_steps(
                problem,
                batches_of(size) * many,
                size,
                lambda *_: ETA,
                coef=np.zeros(5),
                **given,
            )
            totals.append(mean * 60 * many)
    return (totals[-1] - totals[-2]) / 60 + problem.penalty.value(last[0])


def met_corrected(problem, size, kind):
    """The same for one epoch of corrected or plain proximal steps, one batch at a time."""
    (w, b), memory, total = (np.zeros(5), 0.0), np.zeros(60), 0.0
    weight = np.ones(60) if problem.weight is None else problem.weight
    for rows in batches_of(size):
        losses = problem.loss.value(problem.y[rows], problem.predictions(w, b)[rows])
        total += weight[rows] @ losses
        slopes = problem.slopes(w, b)[rows]
        (w, b), _ = corrected_steps(
            problem,
            [[(rows, None)]],
            size,
            lambda *_: ETA,
            "given",
            coef=w,
            intercept=b,
            memory=memory,
        )
        if kind == "saga":
            memory[rows] = slopes
    return total / 60 + problem.penalty.value(w)


# ---- the objective met on the way


@pytest.mark.parametrize("loss", LOSSES)
@FORMS
@WEIGHTED
@SIZES
def test_by_default_it_is_the_objective_met_on_the_way(loss, form, weight, size):
    """Each row's loss just before its step, in the mean, plus the penalty of the last weights."""
    problem = problem_of(loss, weight, l2=0.1)
    y = TWO if problem.loss.classification else NUMBERS
    model = kind_for(loss)(loss, alpha=0.1, batch_size=size, max_iter=1, **PLAIN)
    model.fit(form(X), y, sample_weight=weight)
    assert model.history_["objective"] == pytest.approx([met(problem, size)], rel=1e-12)


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - {"log_loss"}))
@FORMS
def test_classes_may_be_fitted_with_any_loss(loss, form):
    """A classifier takes regression losses of targets -1 and +1, and records the same."""
    problem = problem_of(loss, y=2.0 * TWO - 1.0, l2=0.1)
    model = SGDClassifier(loss, alpha=0.1, batch_size=3, max_iter=1, **PLAIN).fit(form(X), TWO)
    assert model.history_["objective"] == pytest.approx([met(problem, 3)], rel=1e-12)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@FORMS
def test_each_epoch_counts_the_losses_that_it_met(loss, form):
    """An entry has the losses of its own epoch and the penalty of the weights after it."""
    problem = problem_of(loss, l2=0.1)
    model = kind_for(loss)(loss, alpha=0.1, batch_size=2, max_iter=4, **PLAIN)
    model.fit(form(X), TWO if problem.loss.classification else NUMBERS)
    expected = [met(problem, 2, epochs) for epochs in (1, 2, 3, 4)]
    assert model.history_["objective"] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("average", [True, 30, "linear", "epoch"])
def test_averages_do_not_change_what_is_met(average):
    """The losses are those of the weights that steps are taken from, averaged or not."""
    given = PLAIN | {"average": average}
    model = SGDClassifier("log_loss", alpha=0.1, batch_size=2, max_iter=1, **given).fit(X, TWO)
    problem = problem_of("log_loss", l2=0.1)
    assert model.history_["objective"] == pytest.approx([met(problem, 2)], rel=1e-12)


@FORMS
@pytest.mark.parametrize(
    ("penalty", "strengths"),
    [("l1", {"l1": 0.1}), ("elasticnet", {"l1": 0.03, "l2": 0.07}), (None, {})],
)
def test_every_penalty_of_the_kernels_is_in_it(form, penalty, strengths):
    """With L1, elastic net or no penalty, the objective includes the penalty."""
    given = PLAIN | {"penalty": penalty, "l1_ratio": 0.3, "alpha": 0.1}
    model = SGDClassifier("log_loss", batch_size=2, max_iter=1, **given).fit(form(X), TWO)
    problem = problem_of("log_loss", **strengths)
    assert model.history_["objective"] == pytest.approx([met(problem, 2)], rel=1e-12)


@FORMS
@pytest.mark.parametrize("rate", ["pa1", "pa2"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_passive_aggressive_steps_record_it_too(form, rate, loss):
    """Steps of each row's own length meet losses of their own."""
    given = PLAIN | {"learning_rate": rate, "alpha": 0.1}
    problem = problem_of(loss, l2=0.1)
    model = kind_for(loss)(loss, batch_size=2, max_iter=1, **given)
    model.fit(form(X), TWO if problem.loss.classification else NUMBERS)
    expected = met(problem, 2, row_eta=lambda *at: passive_aggressive(rate, ETA, *at))
    assert model.history_["objective"] == pytest.approx([expected], rel=1e-12)


@FORMS
@WEIGHTED
@SIZES
@pytest.mark.parametrize(
    ("solver", "penalty", "given"),
    [
        ("svrg", "l2", {"l2": 0.1}),
        ("saga", "l2", {"l2": 0.1}),
        ("saga", "l1", {"l1": 0.1}),
        ("sgd", GroupLasso(GROUPS), {"penalty": GroupLasso(GROUPS), "l1": 0.1}),
        ("saga", GroupLasso(GROUPS), {"penalty": GroupLasso(GROUPS), "l1": 0.1}),
        ("sgd", Box(-0.1, 0.1), {"penalty": Box(-0.1, 0.1)}),
    ],
    ids=str,
)
def test_proximal_and_corrected_steps_record_it_too(form, weight, size, solver, penalty, given):
    """SVRG, SAGA, and SGD with penalties that its own kernels do not know."""
    model = SGDClassifier(
        "log_loss", penalty=penalty, alpha=0.1, solver=solver, batch_size=size, max_iter=1, **PLAIN
    ).fit(form(X), TWO, sample_weight=weight)
    expected = met_corrected(problem_of("log_loss", weight, **given), size, solver)
    assert model.history_["objective"] == pytest.approx([expected], rel=1e-11)


def test_each_class_meets_its_own():
    """The history of class k is that of k against the rest, with its class weight."""
    model = SGDClassifier(
        "log_loss", alpha=0.1, batch_size=2, max_iter=1, class_weight={0: 3.0}, **PLAIN
    ).fit(X, THREE)
    for number, history in enumerate(model.history_):
        weight = np.where(THREE == 0, 3.0, 1.0) if number == 0 else None
        problem = problem_of("log_loss", weight, y=number == THREE, l2=0.1)
        assert history["objective"] == pytest.approx([met(problem, 2)], rel=1e-12)


def test_it_is_what_tol_looks_at():
    """The fit ends after n_iter_no_change epochs in a row that are not tol below the best."""
    tol, patience = 1e-3, 3
    given = {"tol": tol, "n_iter_no_change": patience, "random_state": 0}
    model = SGDClassifier("log_loss", alpha=0.01, **given).fit(X, TWO)
    values, best, waited = model.history_["objective"], np.inf, 0
    for epoch, value in enumerate(values, start=1):
        waited = 0 if value <= best - tol else waited + 1
        best = min(best, value)
        assert (waited == patience) == (epoch == len(values))
    assert model.n_iter_ == len(values) < 1000


@pytest.mark.parametrize("trace", [None, "objective"])
def test_no_more_is_read_of_the_rows_than_was_asked_for(monkeypatch, trace):
    """The default history costs no pass over the data; the exact objective costs one per epoch."""
    calls, objective = [], Problem.objective

    def counted(*arguments):
        calls.append(1)
        return objective(*arguments)

    monkeypatch.setattr(Problem, "objective", counted)
    counts = []
    for epochs in (3, 30):
        calls.clear()
        SGDClassifier("log_loss", max_iter=epochs, trace=trace, **PLAIN).fit(X, TWO)
        counts.append(len(calls))
    assert counts[1] - counts[0] == (0 if trace is None else 27)


# ---- the exact objective


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("average", [False, True, "epoch"])
@FORMS
def test_the_exact_objective_is_that_of_the_weights(loss, average, form):
    """trace="objective" is problem.objective of coef_ and intercept_, to the bit."""
    kind = kind_for(loss)
    given = {"alpha": 0.1, "max_iter": 4, "tol": None, "random_state": 0, "epsilon": EPSILON}
    y = TWO if kind is SGDClassifier else NUMBERS
    model = kind(loss, average=average, trace="objective", **given).fit(form(X), y)
    problem = problem_of(loss, l2=0.1)
    rows = Problem(form(X), problem.y, problem.loss, problem.penalty, None, True, None)
    coef, intercept = np.ravel(model.coef_), float(model.intercept_[0])
    assert model.history_["objective"][-1] == rows.objective(coef, intercept)


@pytest.mark.parametrize("solver", ["sgd", "svrg", "saga", "sdca"])
def test_each_entry_is_that_of_a_shorter_fit(solver):
    """Entry k is the exact objective of a fit of k epochs, for every solver."""
    given = {"alpha": 0.1, "tol": None, "random_state": 0, "solver": solver, "order": "shuffle"}
    given |= {"fit_intercept": solver != "sdca", "trace": "objective", "average": False}
    whole = SGDClassifier("log_loss", max_iter=4, **given).fit(X, TWO)
    problem = problem_of("log_loss", intercept=solver != "sdca", l2=0.1)
    for epochs in (1, 2, 3, 4):
        part = SGDClassifier("log_loss", max_iter=epochs, **given).fit(X, TWO)
        exact = problem.objective(part.coef_[0], float(part.intercept_[0]))
        assert whole.history_["objective"][epochs - 1] == exact


@FORMS
@WEIGHTED
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge", "squared_error"])
def test_sdca_records_the_exact_objective_by_default(loss, form, weight):
    """It leaves out rows that would not change, so it does not meet all losses."""
    kind = kind_for(loss)
    given = {"alpha": 0.1, "max_iter": 5, "tol": None, "random_state": 0, "fit_intercept": False}
    y = TWO if kind is SGDClassifier else NUMBERS
    by_default, asked = (
        kind(loss, solver="sdca", trace=trace, **given).fit(form(X), y, sample_weight=weight)
        for trace in (None, "objective")
    )
    problem = problem_of(loss, weight, intercept=False, l2=0.1)
    exact = Problem(form(X), problem.y, problem.loss, problem.penalty, weight, False, None)
    assert by_default.history_["objective"][-1] == exact.objective(np.ravel(by_default.coef_))
    np.testing.assert_array_equal(by_default.history_["objective"], asked.history_["objective"])
    np.testing.assert_array_equal(by_default.coef_, asked.coef_)


# ---- what is in it


@pytest.mark.parametrize(
    ("trace", "names"),
    [
        (None, ["objective"]),
        ((), ["objective"]),
        ("objective", ["objective"]),
        ("variance", ["objective", "variance"]),
        (["gradient", "partial_sum"], ["objective", "gradient", "partial_sum"]),
        (Distance(np.zeros(5)), ["objective", "distance"]),
        (("objective", Distance(np.zeros(5))), ["objective", "distance"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_the_columns_of_a_history(kind, trace, names):
    """Epochs, an objective, seconds, and what was asked for, each with an entry per epoch."""
    loss = "log_loss" if kind is SGDClassifier else "squared_error"
    given = {"max_iter": 3, "tol": None, "random_state": 0}
    y = TWO if kind is SGDClassifier else NUMBERS
    model = kind(loss, trace=trace, **given).fit(X, y)
    assert set(model.history_) == {"epoch", "seconds", *names}
    for column in model.history_.values():
        assert column.shape == (3,)
        assert np.isfinite(column).all()
    np.testing.assert_array_equal(model.history_["epoch"], [1, 2, 3])
    assert (np.diff(model.history_["seconds"]) >= 0.0).all()
    scored = kind(loss, trace=trace, **given).fit(X, y, X_val=X, y_val=y)
    assert set(scored.history_) == {"epoch", "seconds", "validation_score", *names}


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
@pytest.mark.parametrize("order", ["auto", Balanced(pairs="greedy"), "importance"], ids=repr)
def test_what_is_recorded_does_not_change_the_weights(kind, order):
    """Any trace leads to the same bits."""
    loss = "log_loss" if kind is SGDClassifier else "huber"
    y = TWO if kind is SGDClassifier else NUMBERS
    models = [
        kind(loss, trace=trace, order=order, max_iter=6, tol=None, random_state=0).fit(X, y)
        for trace in (None, "objective", ["objective", "gradient", "variance"])
    ]
    for other in models[1:]:
        np.testing.assert_array_equal(other.coef_, models[0].coef_)
        np.testing.assert_array_equal(other.intercept_, models[0].intercept_)


def test_the_distance_is_that_of_the_weights():
    """Distance(w_star) is the Euclidean distance of coef_ from a known solution."""
    known = np.linspace(-1.0, 1.0, 5)
    model = SGDRegressor(trace=Distance(known), max_iter=3, tol=None, random_state=0)
    model.fit(X, NUMBERS)
    assert model.history_["distance"][-1] == np.linalg.norm(model.coef_ - known)
    with pytest.raises(ValueError, match="w_star"):
        SGDRegressor(trace=Distance(np.zeros(3)), max_iter=3, tol=None).fit(X, NUMBERS)
