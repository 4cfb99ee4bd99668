"""Stopping by an optimality measure: at the first epoch below tol, with the measure traced."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from antithetic import SGDClassifier, SGDRegressor, minimize
from antithetic.exact.optimality import duality_gap, gradient_mapping_norm
from antithetic.penalties import GroupLasso
from antithetic.problem import Problem
from antithetic.steps import Adaptive
from antithetic.stochastic import sgd
from antithetic.stopping import Target

pytestmark = pytest.mark.lowest

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5)) * np.linspace(0.5, 1.5, 5)
TWO = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=60) > 0.2).astype(int)
THREE = np.argmax(X[:, :3] + 0.5 * rng.normal(size=(60, 3)), axis=1)
NUMBERS = X @ np.linspace(-1.0, 2.0, 5) + 0.1 * rng.normal(size=60)
L2 = 0.05
RUN = {"l2": L2, "order": "shuffle", "epochs": 400}
FIT = {"alpha": L2, "order": "shuffle", "max_iter": 400, "random_state": 0}


def gap_of(problem, coef, **dual):
    """Duality gap as a share of what zero weights lack, if the gap is all that is left."""
    left = duality_gap(problem, coef, **dual)
    return left / (problem.loss_at_zero() - problem.objective(coef, 0.0) + left)


MEASURES = {"gradient": gradient_mapping_norm, "gap": gap_of}
BOTH = pytest.mark.parametrize("of", ["gradient", "gap"])
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
SOLVERS = pytest.mark.parametrize("solver", ["sgd", "svrg", "saga", "sdca"])


def steps_of(solver):
    return {"steps": 0.5} if solver == "sgd" else {}


def tol_of(solver):
    return 2e-3 if solver == "sgd" else 1e-7


# ---- minimize


@BOTH
@SOLVERS
@FORMS
def test_a_run_ends_at_the_first_epoch_that_is_good_enough(of, solver, form):
    """A run ends at the first epoch below tol; the trace has the measure from the start."""
    tol = tol_of(solver)
    run = minimize(form(X), TWO, solver=solver, stop=Target(of, tol), **RUN, **steps_of(solver))
    measured = run.trace[of]
    assert 0 < run.epochs == len(measured) - 1 < 400
    assert measured[-1] <= tol < measured[1:-1].min(initial=np.inf)
    assert run.converged


@BOTH
@SOLVERS
def test_the_measure_is_that_of_the_returned_weights(of, solver):
    """The measure is that of the returned weights; SDCA's gap uses its own dual variables."""
    run = minimize(
        X, TWO, solver=solver, stop=Target(of, tol_of(solver)), **RUN, **steps_of(solver)
    )
    problem = Problem.build(X, TWO, l2=L2)
    dual = {"dual": run.run.own.values} if (solver, of) == ("sdca", "gap") else {}
    assert run.trace[of][-1] == MEASURES[of](problem, run.coef, **dual)


@BOTH
@SOLVERS
def test_looking_does_not_change_the_way(of, solver):
    """The weights equal those of a run of as many epochs without measurements."""
    run = minimize(
        X, TWO, solver=solver, stop=Target(of, tol_of(solver)), **RUN, **steps_of(solver)
    )
    plain = minimize(X, TWO, solver=solver, **(RUN | {"epochs": run.epochs}), **steps_of(solver))
    np.testing.assert_array_equal(run.coef, plain.coef)


@pytest.mark.parametrize("trace", [None, "objective"])
def test_an_objective_beside_which_tol_is_nothing_may_stall(trace):
    """Targets in the billions have an objective whose last digit is more than tol."""
    model = SGDRegressor(solver="svrg", tol=1e-3, n_iter_no_change=5, trace=trace)
    model.fit(X, 1e10 * NUMBERS)
    objective = model.history_["objective"]
    assert objective[-1] - 1e-3 == objective[-1]
    assert model.n_iter_ <= 40


@pytest.mark.parametrize("seed", range(5))
def test_a_trace_does_not_change_when_a_run_ends(seed):
    """Not even if an epoch changes no digit of the objective, as with rows of tiny numbers."""
    rng = np.random.default_rng(seed)
    rows, targets = 1e-12 * rng.normal(size=(60, 2)), 1e10 * (1.0 + 0.1 * rng.normal(size=60))
    given = {"learning_rate": "constant", "order": "balanced", "fit_intercept": False}
    epochs = [
        SGDRegressor(**given, trace=trace, random_state=0).fit(rows, targets).n_iter_
        for trace in (None, "objective")
    ]
    assert epochs[0] == epochs[1] < 20


def test_the_mapping_of_a_penalty_with_a_kink():
    """The mapping is correct with L1, an intercept and weights."""
    weight = rng.uniform(0.0, 2.0, size=60)
    given = {"l1": 0.05, "l2": 0.01, "fit_intercept": True, "sample_weight": weight}
    run = minimize(
        X, TWO, solver="saga", stop=Target("gradient", 1e-7), **(RUN | given | {"epochs": 3000})
    )
    assert (
        run.trace["gradient"][-1]
        == gradient_mapping_norm(Problem.build(X, TWO, **given), run.coef, run.intercept)
        <= 1e-7
    )


@pytest.mark.parametrize("loss", ["hinge", "log_loss", "squared_hinge"])
@pytest.mark.parametrize("l1", [0.0, 0.02])
def test_the_gap_bounds_the_distance_from_the_least_objective(loss, l1):
    """The gap bounds (f - f*) / (f(0) - f*) at every epoch of every solver.

    Where it ends the run, that is at most tol.
    """
    solvers = ["sgd"] + ["saga"] * (loss != "hinge") + ["sdca"] * (l1 == 0.0)
    given = {"loss": loss, "l1": l1, "trace": ["objective", "gap"]} | RUN | {"epochs": 1500}
    runs = [
        minimize(X, TWO, solver=solver, stop=Target("gap", 1e-6), **given, **steps_of(solver))
        for solver in solvers
    ]
    least = min(run.trace["objective"].min() for run in runs)
    way = Problem.build(X, TWO, loss=loss).loss_at_zero() - least
    for run in runs:
        assert (run.trace["gap"] >= (run.trace["objective"] - least) / way - 1e-12).all()
        if run.converged:
            assert run.trace["objective"][-1] - least <= 1e-6 * way
    # Here plain SGD comes near, but not near enough.
    assert any(run.converged for run in runs) or (loss, l1) == ("hinge", 0.02)


def test_the_measure_is_that_of_averaged_weights():
    """Where averages are returned, the measure is theirs."""
    run = minimize(X, TWO, average=True, stop=Target("gradient", 0.03), steps=0.5, **RUN)
    assert run.converged
    assert run.trace["gradient"][-1] == gradient_mapping_norm(
        Problem.build(X, TWO, l2=L2), run.coef
    )


def test_the_trace_may_ask_for_the_measure_as_well():
    """A measure that is also traced appears once."""
    run = minimize(
        X,
        TWO,
        solver="saga",
        stop=Target("gap", 1e-3),
        trace=["gap", "gradient", "objective"],
        **RUN,
    )
    assert list(run.trace) == ["epoch", "gap", "gradient", "objective"]
    assert len({len(column) for column in run.trace.values()}) == 1


def test_a_start_that_is_good_enough_takes_one_epoch():
    """The first epoch is judged after it."""
    solved = minimize(X, TWO, solver="saga", stop=Target("gradient", 1e-9), **RUN)
    again = minimize(
        X, TWO, solver="saga", stop=Target("gradient", 1e-6), init=(solved.coef, 0.0), **RUN
    )
    assert again.epochs == 1


def test_a_goal_out_of_reach_runs_all_epochs():
    """tol=0, and a run that is too short, end without having stopped."""
    for tol, epochs in ((0.0, 5), (1e-9, 3)):
        run = minimize(
            X, TWO, solver="saga", stop=Target("gradient", tol), **(RUN | {"epochs": epochs})
        )
        assert run.epochs == epochs
        assert not run.converged


@BOTH
@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_a_resumed_run_ends_where_it_would_have(of, solver):
    """A resumed run has the same bits and trace, and a finished one stays finished."""
    given = {"solver": solver, "stop": Target(of, 1e-6)} | RUN
    whole = minimize(X, TWO, **given)
    resumed = minimize(X, TWO, resume=minimize(X, TWO, **(given | {"epochs": 3})), **given)
    np.testing.assert_array_equal(whole.coef, resumed.coef)
    np.testing.assert_array_equal(whole.trace[of], resumed.trace[of])
    assert minimize(X, TWO, resume=whole, **given).epochs == whole.epochs


@BOTH
def test_a_finished_run_continues_to_a_smaller_tol(of):
    """Resumed with a smaller tol, a run continues until that is met."""
    given = {"solver": "saga"} | RUN
    first = minimize(X, TWO, stop=Target(of, 1e-2), **given)
    second = minimize(X, TWO, stop=Target(of, 1e-6), resume=first, **given)
    assert first.converged
    assert second.trace[of][-1] <= 1e-6 < first.trace[of][-1]


GAP, GRADIENT = {"stop": Target("gap", 1.0)}, {"stop": Target("gradient", 1.0)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (GRADIENT | {"loss": "hinge"}, 'has a kink.*use the "gap"'),
        (GRADIENT | {"loss": "perceptron"}, 'has a kink.*(or|use) the "objective"'),
        (
            GAP | {"fit_intercept": True},
            'use fit_intercept=False, .* or the "gradient" or the "objective"',
        ),
        (GAP | {"fit_intercept": True, "loss": "hinge"}, '(or|use) the "objective"'),
        (
            GAP | {"l2": 0.0, "l1": 0.1},
            'an L2 penalty above 0, alone or with L1; use the "gradient"',
        ),
        (GAP | {"penalty": GroupLasso([0] * 5), "l1": 0.1}, "L2 and L1 penalties only; got Group"),
        (GAP | {"steps": Adaptive(0.1)}, r"give stop=Stalled\(tol\)"),
        (GRADIENT | {"steps": Adaptive(0.1)}, "or use automatic steps"),
        ({"trace": "gradient", "loss": "hinge"}, "has a kink"),
        ({"trace": "gap", "fit_intercept": True}, "fit_intercept=False"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused_before_the_first_step(monkeypatch, given, message):
    """The error says what to use instead."""
    monkeypatch.setattr(sgd.Sgd, "epoch", lambda *_: pytest.fail("a step was taken"))
    with pytest.raises(ValueError, match=message):
        minimize(X, TWO, **({"steps": 0.1, "l2": L2} | given))


# ---- estimators


@BOTH
@SOLVERS
def test_a_fit_ends_at_the_first_epoch_that_is_good_enough(of, solver):
    """history_ has the measure, n_iter_ the epochs; nothing is warned of."""
    tol = tol_of(solver)
    model = SGDClassifier(
        "log_loss", fit_intercept=False, solver=solver, stopping=of, tol=tol, **FIT
    ).fit(X, TWO)
    measured = model.history_[of]
    assert len(measured) == model.n_iter_ < 400
    assert measured[-1] <= tol
    assert (measured[:-1] > tol).all()
    if (solver, of) != ("sdca", "gap"):  # whose dual variables are not kept
        problem = Problem.build(X, TWO, l2=L2)
        assert measured[-1] == MEASURES[of](problem, model.coef_[0])
    assert "objective" in model.history_


@FORMS
@pytest.mark.parametrize("solver", ["svrg", "saga"])
def test_the_gradient_with_intercept_weights_and_numbers(solver, form):
    """Regression, whose intercept's gradient is part of it."""
    weight = rng.uniform(0.5, 2.0, size=60)
    model = SGDRegressor(solver=solver, stopping="gradient", tol=1e-8, **FIT).fit(
        form(X), NUMBERS, sample_weight=weight
    )
    problem = Problem.build(
        X, NUMBERS, loss="squared_error", l2=L2, fit_intercept=True, sample_weight=weight
    )
    assert gradient_mapping_norm(problem, model.coef_, float(model.intercept_[0])) == pytest.approx(
        model.history_["gradient"][-1], abs=1e-14
    )
    assert model.history_["gradient"][-1] <= 1e-8


@BOTH
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_each_class_ends_by_itself(of, n_jobs):
    """One-vs-rest problems that are easier end sooner."""
    model = SGDClassifier(
        "log_loss",
        fit_intercept=False,
        solver="saga",
        stopping=of,
        tol=1e-6,
        n_jobs=n_jobs,
        **FIT,
    ).fit(X, THREE)
    lengths = [len(history["epoch"]) for history in model.history_]
    assert len(set(lengths)) > 1
    assert model.n_iter_ == max(lengths)
    for number, history in enumerate(model.history_):
        assert history[of][-1] <= 1e-6 < history[of][:-1].min()
        problem = Problem.build(X, np.equal(THREE, number), l2=L2)
        assert MEASURES[of](problem, model.coef_[number]) == history[of][-1]


@BOTH
def test_too_few_epochs_are_warned_of(of):
    """Too few epochs cause a warning, as with any other stopping rule."""
    model = SGDClassifier(
        "log_loss",
        fit_intercept=False,
        solver="saga",
        stopping=of,
        tol=1e-9,
        **(FIT | {"max_iter": 3}),
    )
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, TWO)
    assert model.n_iter_ == 3
    assert model.history_[of][-1] > 1e-9


def test_a_goal_that_the_last_epoch_meets_is_met():
    """No warning where tol is met in the last epoch that is allowed."""
    given = {"solver": "saga", "stopping": "gradient", "tol": 1e-6} | FIT
    needed = SGDClassifier("log_loss", **given).fit(X, TWO).n_iter_
    SGDClassifier("log_loss", **(given | {"max_iter": needed})).fit(X, TWO)


def test_a_validation_set_may_be_scored_as_well():
    """X_val is scored, and does not end the fit."""
    model = SGDClassifier("log_loss", solver="saga", stopping="gradient", tol=1e-7, **FIT).fit(
        X[:50], TWO[:50], X_val=X[50:], y_val=TWO[50:]
    )
    assert model.history_["gradient"][-1] <= 1e-7
    assert len(model.history_["validation_score"]) == model.n_iter_


def test_partial_fit_does_not_look():
    """partial_fit makes one pass without a measure, for any ``stopping``."""
    model = SGDClassifier(
        "log_loss", solver="saga", stopping="gradient", tol=1e9, random_state=0
    ).partial_fit(X, TWO, classes=[0, 1])
    assert model.t_ == 61


REFUSED = [
    ({"stopping": "gradient", "tol": None}, "needs tol, say 1e-6"),
    ({"stopping": "gap", "learning_rate": "adaptive"}, "watches the objective"),
    ({"stopping": "gradient", "early_stopping": True}, "watches the validation score"),
    ({"stopping": "time"}, "'gap'"),
]
UNMEASURED = [
    ({"stopping": "gradient", "loss": "hinge"}, 'use the "gap"'),
    ({"stopping": "gap"}, "use fit_intercept=False"),
    ({"stopping": "gap", "fit_intercept": False, "penalty": "l1"}, "an L2 penalty above 0"),
    ({"stopping": "gap", "fit_intercept": False, "penalty": None}, "an L2 penalty above 0"),
    (
        {"stopping": "gap", "fit_intercept": False, "penalty": GroupLasso([0] * 5)},
        "L2 and L1 penalties only",
    ),
]


@pytest.mark.parametrize(("given", "message"), REFUSED + UNMEASURED, ids=str)
def test_estimators_refuse_what_cannot_be_measured(given, message):
    """The error says what to use instead, and the estimator is unchanged."""
    model = SGDClassifier(**({"loss": "log_loss", "solver": "sgd"} | given))
    with pytest.raises(ValueError, match=message):
        model.fit(X, TWO)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("given", "message"),
    [*UNMEASURED[:4], ({"trace": "gradient", "loss": "hinge"}, "has a kink")],
    ids=str,
)
def test_estimators_refuse_before_the_first_step(monkeypatch, given, message):
    """No epoch is spent on what cannot be measured."""
    monkeypatch.setattr(sgd.Sgd, "epoch", lambda *_: pytest.fail("a step was taken"))
    with pytest.raises(ValueError, match=message):
        SGDClassifier(**({"loss": "log_loss", "learning_rate": "constant"} | given)).fit(X, TWO)
