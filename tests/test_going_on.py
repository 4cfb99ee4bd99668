"""Runs and fits that continue: warm starts, chunks, resumed and interrupted runs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from solver_cases import (
    ALPHA,
    BOTH,
    CORRECTED,
    DRAWS,
    EXACT,
    FEW,
    FORMS,
    GROUPS,
    RUN,
    THREE,
    TWO,
    X,
    steps_of,
    target_of,
)

from antithetic import Distance, Interrupted, SGDClassifier, minimize
from antithetic.orders import Balanced, Importance, Pairs, Shuffle, Stratified, Uniform
from antithetic.penalties import GroupLasso
from antithetic.stochastic import SOLVERS, loop
from antithetic.stopping import Target

# ---- fits that go on


@CORRECTED
@BOTH
def test_warm_starts_continue_from_the_solution(solver, kind):
    """A second fit leaves a solution where it is, with the steps of the first."""
    loss = {"loss": "log_loss"} if kind is SGDClassifier else {}
    model = kind(solver=solver, warm_start=True, **EXACT, **loss).fit(X, target_of(kind))
    coef, eta0 = model.coef_.copy(), model.eta0_
    model.fit(X, target_of(kind))
    assert model.n_iter_ == 1
    assert model.eta0_ == eta0
    np.testing.assert_allclose(model.coef_, coef, atol=1e-8)


def test_a_warm_start_of_sdca_begins_near_its_solution():
    """The dual variables of the last weights: at a solution, those of the solution."""
    model = SGDClassifier(
        "log_loss", solver="sdca", fit_intercept=False, warm_start=True, **EXACT
    ).fit(X, TWO)
    coef = model.coef_.copy()
    np.testing.assert_allclose(model.fit(X, TWO).coef_, coef, atol=1e-6)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("first", ["sgd", "sdca"])
def test_another_solver_finds_steps_of_its_own(first):
    """If a warm start has another solver, its steps are those of a fresh fit."""
    given = {"loss": "log_loss", "fit_intercept": False, "random_state": 0, "alpha": ALPHA}
    model = SGDClassifier(solver=first, warm_start=True, **given).fit(30.0 * X, TWO)
    changed, fresh = (
        model.set_params(solver="saga").fit(30.0 * X, TWO),
        SGDClassifier(solver="saga", **given).fit(30.0 * X, TWO),
    )
    assert (changed.eta0_, changed.decay_) == (fresh.eta0_, fresh.decay_)


@CORRECTED
@BOTH
def test_chunks_are_learnt_one_after_the_other(solver, kind):
    """Chunks of different sizes may follow each other, and lead near the solution.

    Only the rows of the current chunk are remembered.
    """
    loss = {"loss": "log_loss"} if kind is SGDClassifier else {}
    y, classes = target_of(kind), {"classes": [0, 1]} if kind is SGDClassifier else {}
    model, whole = (
        kind(solver=solver, random_state=0, alpha=ALPHA, **loss),
        kind(solver=solver, **EXACT, **loss).fit(X, y),
    )
    for _ in range(30):
        for rows in np.split(np.arange(60), [10, 35]):
            model.partial_fit(X[rows], y[rows], **classes)
    assert model.t_ == 1 + 30 * 60
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.15)
    assert model.score(X, y) == pytest.approx(whole.score(X, y), abs=0.05)


@CORRECTED
def test_a_chunk_does_not_remember_the_rows_before_it(solver):
    """partial_fit on a new chunk depends only on the weights and steps of the fit, bit for bit.

    The chunk has as many rows as the fit had.
    """
    given = {"loss": "log_loss", "solver": solver, "shuffle": False, "random_state": 0}
    model, knows_weights = SGDClassifier(**given).fit(X[:30], TWO[:30]), SGDClassifier(**given)
    for name in ("classes_", "coef_", "intercept_", "eta0_", "decay_", "n_features_in_"):
        setattr(knows_weights, name, getattr(model, name))
    expected = knows_weights.partial_fit(X[30:], TWO[30:]).coef_
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).partial_fit(X[30:], TWO[30:]).coef_, expected
    )
    np.testing.assert_array_equal(model.partial_fit(X[30:], TWO[30:]).coef_, expected)


@BOTH
def test_chunks_are_refused_by_sdca(kind):
    """It has a dual variable for each row; the model stays what it was."""
    model = kind(solver="sdca", fit_intercept=False)
    with pytest.raises(ValueError, match=r"all rows at once; use fit, or solver='sgd'"):
        model.partial_fit(
            X, target_of(kind), **({"classes": [0, 1]} if kind is SGDClassifier else {})
        )
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("first", SOLVERS)
@pytest.mark.parametrize("then", ["sgd", "svrg", "saga"])
def test_chunks_may_follow_a_fit_of_another_solver(first, then):
    """With a given step size, chunks may follow a fit of any solver."""
    step = {} if first == "sdca" else {"learning_rate": "constant", "eta0": 0.05}
    model = SGDClassifier("log_loss", solver=first, fit_intercept=False, **FEW, **step).fit(X, TWO)
    model.set_params(solver=then, learning_rate="constant", eta0=0.05).partial_fit(
        X, TWO
    ).partial_fit(X[:7], TWO[:7])
    assert model.score(X, TWO) > 0.8


@pytest.mark.parametrize(
    "given",
    [
        {"solver": "svrg"},
        {"solver": "saga", "order": "importance"},
        {"solver": "sdca", "fit_intercept": False},
        {"order": "stratified"},
        {"order": Stratified(2, pairs=Pairs("greedy", refresh=[1, 3]))},
        {"order": Importance(np.linspace(1.0, 2.0, 60)), "penalty": GroupLasso(GROUPS)},
    ],
    ids=str,
)
def test_fitted_models_are_pickled_and_cloned(given):
    """Pickled and cloned models keep their predictions and parameters."""
    model = SGDClassifier("log_loss", batch_size=4, **FEW, **given).fit(X, THREE)
    again, unfitted = pickle.loads(pickle.dumps(model)), clone(model)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert unfitted.get_params() == model.get_params()
    assert not hasattr(unfitted, "coef_")
    assert (
        SGDClassifier().set_params(**model.get_params()).fit(X, THREE).coef_.tobytes()
        == model.coef_.tobytes()
    )


def test_a_search_over_solvers_and_draws():
    """GridSearchCV takes every combination that is allowed."""
    draws = [Importance(), Importance("gradients"), Stratified(), Stratified(2, "optimal")]
    kinds = (Shuffle, Uniform, Balanced, Importance, Stratified)
    grid = [
        {
            "solver": ["sgd", "svrg"],
            "order": [kind(pairs=pairs) for kind in kinds for pairs in (None, "greedy")],
        },
        {"solver": ["saga", "sdca"], "order": ["auto", "importance", "stratified", *draws]},
    ]
    search = GridSearchCV(
        SGDClassifier("log_loss", fit_intercept=False, batch_size=4, **FEW),
        grid,
        cv=2,
        error_score="raise",
    )
    assert search.fit(X, TWO).best_score_ > 0.8
    assert len(search.cv_results_["params"]) == 34


# ---- resuming and interrupting

RESUMED = [
    *({"solver": solver} | draws for solver in SOLVERS for draws in DRAWS),
    {"solver": "saga", "order": "shuffle", "fit_intercept": True, "l1": 0.01},
    {"solver": "svrg", "order": "balanced", "fit_intercept": True},
    {"solver": "saga", "order": "shuffle", "penalty": GroupLasso(GROUPS), "l1": 0.05},
    {"solver": "sdca", "order": "shuffle", "loss": "hinge"},
    {"solver": "saga", "order": Importance("gradients", pairs="greedy")},
    {"solver": "svrg", "order": Stratified(THREE, "optimal", pairs="greedy")},
    {"solver": "saga", "order": Shuffle(pairs=Pairs("greedy", refresh=[1, 3]))},
    {"solver": "saga", "order": Shuffle(pairs=Pairs("greedy", refresh="auto"))},
    {"solver": "sgd", "order": Importance(np.linspace(1.0, 2.0, 60))},
    {"solver": "sgd", "order": "balanced", "steps": "auto", "average": "epoch"},
]


@pytest.mark.parametrize("given", RESUMED, ids=str)
def test_a_resumed_run_equals_an_uninterrupted_one(given):
    """2 epochs and 3 more equal 5, bit for bit, trace included, also from a pickled result."""
    given = RUN | steps_of(given["solver"]) | {"trace": "objective"} | given
    whole = minimize(X, TWO, epochs=5, **given)
    earlier = pickle.loads(pickle.dumps(minimize(X, TWO, epochs=2, **given)))
    resumed = minimize(X, TWO, epochs=5, resume=earlier, **given)
    np.testing.assert_array_equal(whole.coef, resumed.coef)
    np.testing.assert_array_equal(whole.trace["objective"], resumed.trace["objective"])


@FORMS
@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_float32_runs_are_resumed_too(form, solver):
    """float32 runs are resumed exactly, although accumulated sums are coarse."""
    given = RUN | {"solver": solver, "order": "shuffle"}
    rows = form(X.astype(np.float32))
    resumed = minimize(rows, TWO, epochs=5, resume=minimize(rows, TWO, epochs=2, **given), **given)
    np.testing.assert_array_equal(minimize(rows, TWO, epochs=5, **given).coef, resumed.coef)


@pytest.mark.parametrize("solver", SOLVERS)
def test_strata_of_a_refreshed_table_are_resumed(solver):
    """A run resumed after a table refresh has the strata of an uninterrupted one."""
    order = Stratified(pairs=Pairs("greedy", refresh=[1]))
    given = RUN | steps_of(solver) | {"solver": solver, "order": order}
    resumed = minimize(X, TWO, epochs=6, resume=minimize(X, TWO, epochs=3, **given), **given)
    np.testing.assert_array_equal(minimize(X, TWO, epochs=6, **given).coef, resumed.coef)


@CORRECTED
def test_the_step_of_a_refreshed_table_is_resumed(solver):
    """A run resumed after a table refresh equals an uninterrupted one.

    The step depends on the importance of the new table's pairs.
    """
    given = RUN | {"solver": solver, "order": Importance(pairs=Pairs("greedy", refresh=[1]))}
    resumed = minimize(X, TWO, epochs=6, resume=minimize(X, TWO, epochs=3, **given), **given)
    np.testing.assert_array_equal(minimize(X, TWO, epochs=6, **given).coef, resumed.coef)


@pytest.mark.parametrize("start", [None, np.linspace(-3.0, 3.0, 5)], ids=["zero", "given"])
def test_a_trace_does_not_change_the_run(start):
    """Measuring the variance leaves the draws as they are."""
    given = RUN | {"order": Stratified(4), "steps": 0.1, "epochs": 3, "init": (start, 0.0)}
    np.testing.assert_array_equal(
        minimize(X, TWO, **given).coef, minimize(X, TWO, trace="variance", **given).coef
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"solver": "svrg"}, "solver"),
        ({"order": "uniform"}, "order"),
        ({"order": Importance("gradients")}, "order"),
        ({"order": Importance(pairs="greedy")}, "order"),
        ({"l1": 0.1}, "penalty"),
        ({"penalty": GroupLasso(GROUPS), "l1": 0.1}, "penalty"),
        ({"steps": 0.1}, "steps"),
        ({"stop": Target("gradient", 1e-3)}, "trace"),
    ],
    ids=str,
)
def test_resume_refuses_another_run(changed, named):
    """Resuming another run is refused, and the error names the parameter."""
    given = RUN | {"solver": "saga", "order": "importance"}
    with pytest.raises(ValueError, match=f"resume= was made with different settings: {named} was"):
        minimize(X, TWO, resume=minimize(X, TWO, epochs=1, **given), **(given | changed))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (Stratified(TWO), Stratified(THREE)),
        (Stratified(2), Stratified(2, "optimal")),
        (Importance(np.ones(60)), Importance(np.arange(1.0, 61.0))),
    ],
    ids=["strata", "allocation", "importance"],
)
def test_resume_refuses_other_chances(earlier, later):
    """Labels, allocations and the user's numbers are part of a run."""
    given = RUN | {"steps": 0.1}
    first = minimize(X, TWO, epochs=1, order=earlier, **given)
    with pytest.raises(ValueError, match="resume= was made with different settings: order"):
        minimize(X, TWO, resume=first, order=later, **given)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "order",
    [Shuffle(), Importance("gradients")],
    ids=str,
)
def test_ctrl_c_leaves_a_run_that_can_be_resumed(monkeypatch, solver, order):
    """An interruption during a measurement keeps the last whole epoch, which resumes exactly."""
    given = RUN | steps_of(solver) | {"solver": solver, "order": order}
    given |= {"epochs": 5, "trace": "objective"}
    whole, measure = minimize(X, TWO, **given), loop.measure

    def interrupted(spec, run):
        if run.state.epochs == 3:
            raise KeyboardInterrupt
        return measure(spec, run)

    monkeypatch.setattr(loop, "measure", interrupted)
    with pytest.raises(Interrupted, match="after 2 epochs") as caught:
        minimize(X, TWO, **given)
    monkeypatch.undo()
    assert caught.value.result.epochs == len(caught.value.result.trace["objective"]) - 1 == 2
    np.testing.assert_array_equal(
        minimize(X, TWO, resume=caught.value.result, **given).coef, whole.coef
    )


def test_a_single_epoch_is_resumed_as_the_first_of_many():
    """Automatic steps do not depend on how many epochs were asked for."""
    given = {"l2": 0.05, "average": "epoch", "order": "shuffle"}
    first = minimize(X, TWO, epochs=1, **given)
    whole = minimize(X, TWO, epochs=4, **given)
    resumed = minimize(X, TWO, epochs=4, resume=first, **given)
    np.testing.assert_array_equal(resumed.coef, whole.coef)


def test_no_step_is_made_up_for_a_class_that_saw_nothing():
    """Steps are found once every class has had rows that count."""
    model = SGDClassifier("log_loss", class_weight={0: 0.0, 1: 0.0, 2: 1.0}, random_state=0)
    for label in (0, 1):  # all rows of this class's own problem have the weight zero
        rows = X[label == THREE]
        model.partial_fit(rows, np.full(len(rows), label), classes=[0, 1, 2])
        assert not hasattr(model, "eta0_")
    assert len(model.partial_fit(X, THREE).eta0_) == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": X + 1.0}, "other data"),
        ({"sample_weight": np.linspace(0.5, 1.5, len(X))}, "other data"),
        ({"init": (np.ones(X.shape[1]), 0.0)}, "leave init= out"),
        ({"trace": [Distance(np.ones(X.shape[1]))]}, "trace was"),
    ],
    ids=["X", "weights", "init", "trace"],
)
def test_a_run_is_not_resumed_on_other_data(changed, message):
    """Other rows, weights, first weights or traces are refused, not mixed up silently."""
    given = {"X": X, "y": TWO, "l2": 0.05, "trace": [Distance(np.zeros(X.shape[1]))]}
    first = minimize(**given, epochs=2)
    with pytest.raises(ValueError, match=message):
        minimize(**(given | changed), epochs=4, resume=first)
