"""``average="epoch"``: the mean of an epoch's weights, and where "auto" takes it."""

from __future__ import annotations

import numpy as np
import pytest
from drive import draws_of, drive
from reference import sgd_steps, split
from scipy import sparse

from antithetic import Interrupted, SGDClassifier, SGDRegressor, datasets, minimize
from antithetic._core.schedules import step_size
from antithetic.orders import Pairs, Uniform
from antithetic.penalties import GroupLasso
from antithetic.problem import Problem
from antithetic.steps import InverseTime
from antithetic.stochastic.loop import FIRST_COMPARED
from antithetic.stochastic.sgd import Averages, Sgd, make_sgd
from antithetic.stopping import Target

N, D = 301, 4
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])


def make_problem(form=np.asarray, dtype=np.float64, **penalty):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)).astype(dtype)
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=N) > 0.0, 1.0, -1.0)
    return Problem.build(
        form(X), y, sample_weight=rng.uniform(0.5, 1.5, N), fit_intercept=True, **penalty
    )


def after_epochs(problem, epochs, size=2):
    """Last weights and solution of the kernel, its sampler and its steps."""
    solver = make_sgd(problem, "epoch")
    schedule = InverseTime(0.3, decay=0.1).schedule(problem.loss, problem.penalty)
    sampler = draws_of("shuffle", problem.n, size, seed=1)
    *_, after = drive(solver, sampler, schedule, epochs=epochs)
    return after.state.coef, solver.solution(after.state, after.own), sampler, schedule


@pytest.mark.kernel
@FORMS
@pytest.mark.parametrize(("l2", "l1"), [(0.0, 0.0), (0.01, 0.0), (0.01, 0.02)])
@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize(("size", "every"), [(2, 3), (7, 1)])
def test_the_mean_is_of_evenly_spaced_points_of_the_last_epoch(form, l2, l1, epochs, size, every):
    """At most 75, as there are 75 rows per feature: after every third of 151 steps, or each of 43.

    Of the first epoch, after 75 rows.
    """
    problem = make_problem(form, l2=l2, l1=l1)
    last, solution, sampler, schedule = after_epochs(problem, epochs, size)
    path, batches = [], [rows for epoch in range(epochs) for rows in split(sampler.batches(epoch))]
    sgd_steps(
        problem,
        batches,
        size,
        lambda *time: step_size(*schedule, *time),
        coef=np.zeros(D),
        path=path,
    )
    steps = -(-N // size)
    first = (
        next(k for k in range(len(path)) if sum(map(len, batches[: k + 1])) > N // 4)
        if epochs == 1
        else (epochs - 1) * steps
    )
    points = [point for k, point in enumerate(path) if k >= first and (k + 1) % every == 0]
    np.testing.assert_allclose(last, path[-1][0], rtol=1e-10)
    np.testing.assert_allclose(
        solution[0], np.mean([coef for coef, _ in points], axis=0), rtol=0, atol=1e-12
    )
    assert solution[1] == pytest.approx(np.mean([intercept for _, intercept in points]), abs=1e-12)


@pytest.mark.kernel
@FORMS
def test_single_precision_agrees_with_double(form):
    """float32 agrees with float64 to its precision."""
    (single, _), (double, _) = (
        after_epochs(make_problem(form, dtype, l2=0.01), 2)[1] for dtype in (np.float32, np.float64)
    )
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-5)


def test_a_resumed_run_equals_an_uninterrupted_one():
    """The mean restarts with each epoch, and steps continue from the last weights."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    given = {"l2": 1e-2, "order": "balanced", "average": "epoch", "trace": "objective"}
    half = minimize(X, y, epochs=2, **given)
    resumed, whole = (
        minimize(X, y, epochs=4, resume=half, **given),
        minimize(X, y, epochs=4, **given),
    )
    np.testing.assert_array_equal(resumed.coef, whole.coef)
    np.testing.assert_array_equal(resumed.trace["objective"], whole.trace["objective"])


@pytest.mark.parametrize("order", ["balanced", "shuffle"])
def test_the_solution_is_the_better_of_mean_and_last_weights(order):
    """From four epochs on; before that it is the mean. In the end, the last weights are better."""
    X, y = datasets.load("splice_scale", return_X_y=True)
    problem, chosen = Problem.build(X, y, l2=1e-3), []
    given = {"l2": 1e-3, "order": order, "average": "epoch", "steps": InverseTime(0.1, decay=1e-2)}
    for epochs in range(1, 21):
        result = minimize(X, y, epochs=epochs, **given)
        own, last = result.run.own, problem.objective(result.run.state.coef)
        mean, found = problem.objective(own.coef), problem.objective(result.coef)
        assert found == (mean if epochs < FIRST_COMPARED else min(mean, last))
        chosen.append(found == last)
    assert chosen[-1]


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "softmax"])
def test_looking_at_a_run_does_not_change_it(loss):
    """With a trace, which looks at the solution after each epoch, all weights have the same bits.

    The last objective of the trace is that of the result.
    """
    X, y = datasets.load("splice_scale", return_X_y=True)
    given = {"loss": loss, "l2": 1e-3, "average": "epoch", "order": "shuffle", "epochs": 9}
    plain, traced = (minimize(X, y, trace=trace, **given) for trace in ((), "objective"))
    np.testing.assert_array_equal(plain.coef, traced.coef)
    np.testing.assert_array_equal(plain.run.state.coef, traced.run.state.coef)
    problem = Problem.build(X, y, loss=loss, l2=1e-3) if loss != "softmax" else None
    if problem is not None:
        assert traced.trace["objective"][-1] == problem.objective(traced.coef)
    resumed = minimize(X, y, resume=minimize(X, y, **given | {"epochs": 6}), **given)
    np.testing.assert_array_equal(resumed.coef, plain.coef)


@pytest.mark.parametrize("rows", [700, 1000])
@pytest.mark.parametrize("order", ["balanced", "shuffle"])
def test_a_fit_ends_with_the_better_of_both(monkeypatch, order, rows):
    """However its epochs were taken and whoever watched them; a fit compares them once."""
    X, y = (column[:rows] for column in datasets.load("splice_scale", return_X_y=True))
    problem, calls, compare = Problem.build(X, y, l2=1e-3, fit_intercept=True), [], Sgd.settled

    def settled(solver, state, own):
        calls.append((state, own))
        return compare(solver, state, own)

    monkeypatch.setattr(Sgd, "settled", settled)
    given = {"loss": "log_loss", "alpha": 1e-3, "order": order, "tol": None, "random_state": 0}
    for epochs in (3, 4, 7, 12):
        model = SGDClassifier(max_iter=epochs, **given).fit(X, y)
        assert len(calls) == (epochs >= FIRST_COMPARED)
        for state, own in calls:
            mean, last = (problem.objective(w.coef, w.intercept) for w in (own, state))
            found = problem.objective(model.coef_[0], model.intercept_[0])
            assert found == min(mean, last)
        watched = SGDClassifier(max_iter=epochs, verbose=1, **given).fit(X, y)
        np.testing.assert_array_equal(watched.coef_, model.coef_)
        calls.clear()


def test_a_fit_that_is_interrupted_ends_with_the_better_of_both(monkeypatch):
    """Ctrl-C after 12 epochs leaves the same weights as a fit of 12."""
    X, y = datasets.load("splice_scale", return_X_y=True)
    given = {"loss": "log_loss", "alpha": 1e-3, "order": "shuffle", "random_state": 0, "tol": None}
    whole, taken = SGDClassifier(max_iter=12, **given).fit(X, y), Sgd.epoch

    def interrupted(solver, state, *rest):
        if state.epochs == 12:
            raise KeyboardInterrupt
        return taken(solver, state, *rest)

    monkeypatch.setattr(Sgd, "epoch", interrupted)
    model = SGDClassifier(max_iter=30, **given)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_iter_ == 12
    np.testing.assert_array_equal(model.coef_, whole.coef_)


def test_an_interrupted_comparison_loses_nothing(monkeypatch):
    """Ctrl-C while the two are compared after the last epoch: the error has the whole result."""
    X, y = datasets.load("splice_scale", return_X_y=True)
    given = {"l2": 1e-3, "average": "epoch", "order": "shuffle", "epochs": 6}
    whole, compare, calls = minimize(X, y, **given), Sgd.settled, []

    def interrupted_once(solver, state, own):
        calls.append(state.epochs)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return compare(solver, state, own)

    monkeypatch.setattr(Sgd, "settled", interrupted_once)
    with pytest.raises(Interrupted) as caught:
        minimize(X, y, **given)
    assert calls == [6, 6]
    np.testing.assert_array_equal(caught.value.result.coef, whole.coef)


def test_chunks_are_not_compared(monkeypatch):
    """partial_fit leaves the mean after any number of chunks: one says little of other rows."""
    monkeypatch.setattr(Sgd, "settled", None)
    model = SGDClassifier(average="epoch", random_state=0)
    for start in range(0, 700, 100):
        model.partial_fit(X[start : start + 100], Y[start : start + 100], classes=np.unique(Y))


def test_states_of_earlier_versions():
    """There, 2 meant that the mean was given up and its sums were zero, and 1 that it was not."""
    solver = make_sgd(make_problem(), "epoch")
    state, _ = solver.init(np.ones(D))
    given_up = Averages(np.zeros(D), 0.0, 0.0, None, 2)
    doubted = Averages(np.full(D, 2.0), 0.5, 10.0, None, 1)
    np.testing.assert_array_equal(solver.solution(state, given_up)[0], 1.0)
    np.testing.assert_array_equal(solver.solution(state, doubted)[0], 2.0)


def test_a_long_fit_is_as_good_as_without_averages():
    """After 60 epochs of a thousand rows there is no noise left to average out."""
    X, y = datasets.load("splice_scale", return_X_y=True)
    given = {"loss": "log_loss", "alpha": 1e-3, "max_iter": 60, "tol": None, "random_state": 0}
    mean, last = (SGDClassifier(average=average, **given).fit(X, y) for average in ("auto", False))
    np.testing.assert_array_equal(mean.coef_, last.coef_)


def test_a_table_in_each_step_goes_without():
    """With a table per step nothing is averaged, because each step counts as an epoch."""
    order = Uniform(pairs=Pairs("greedy", refresh="step"))
    with pytest.raises(ValueError, match='without nest=, stop= and average="epoch"'):
        minimize([[1.0], [2.0]], [-1, 1], order=order, average="epoch", steps=0.1)


# ---- "auto"


X, Y = datasets.load("diabetes_scale", return_X_y=True)
FEW = {"max_iter": 2, "tol": None, "random_state": 0}


@pytest.mark.parametrize(
    ("given", "rows", "average"),
    [
        ({}, 768, "epoch"),
        ({}, 64, "epoch"),
        ({}, 20, "epoch"),  # a kink, where means are compared with the last weights
        ({"loss": "log_loss"}, 64, "epoch"),
        ({"loss": "log_loss"}, 63, False),
        ({"penalty": None}, 768, "epoch"),
        ({"penalty": "l1"}, 768, False),
        ({"penalty": "elasticnet", "l1_ratio": 1e-9}, 768, "epoch"),
        ({"penalty": "elasticnet"}, 768, False),
        ({"penalty": GroupLasso([0, 0, 0, 0, 1, 1, 1, 1])}, 768, False),
        ({"loss": "squared_hinge"}, 768, False),
        ({"learning_rate": "constant"}, 768, False),
        ({"solver": "saga", "loss": "log_loss"}, 768, False),
        ({"average": True}, 768, True),
        ({"average": "linear", "penalty": "l1"}, 768, "linear"),
        ({"average": "epoch", "penalty": "l1"}, 20, "epoch"),
    ],
    ids=str,
)
def test_where_auto_takes_the_mean(given, rows, average):
    """ "auto" takes the mean in SGD fits with automatic steps, where noise can be averaged out.

    And the plan says so.
    """
    model = SGDClassifier(**FEW | given).fit(X[:rows], Y[:rows])
    assert model.plan_.average == average
    same = SGDClassifier(**FEW | given | {"average": average}).fit(X[:rows], Y[:rows])
    np.testing.assert_array_equal(model.coef_, same.coef_)
    if average == "epoch":
        assert not np.array_equal(
            model.coef_,
            SGDClassifier(**FEW | given | {"average": False}).fit(X[:rows], Y[:rows]).coef_,
        )


def test_squared_errors_are_not_averaged_by_auto():
    """One large row would spoil the mean of a whole epoch."""
    assert SGDRegressor(**FEW).fit(X, Y).plan_.average is False
    assert SGDRegressor(loss="huber", **FEW).fit(X, Y).plan_.average == "epoch"


@pytest.mark.parametrize("average", ["auto", "epoch"])
def test_partial_fit_continues_from_the_mean(average):
    """It begins with the weights that a user sees, like a model whose weights were set by hand."""
    model = SGDClassifier(average=average, fit_intercept=False, **FEW).fit(X, Y)
    coef, intercept, t = model.coef_.copy(), model.intercept_.copy(), model.t_
    model.partial_fit(X[:1], Y[:1])
    assert model.plan_.average == (average if average == "epoch" else False)
    step = model.eta0_ / (1.0 + model.eta0_ * model.decay_ * (1.0 + len(X)))
    sign = 1.0 if Y[0] == model.classes_[1] else -1.0
    slope = -sign if sign * (X[:1] @ coef[0] + intercept)[0] < 1.0 else 0.0
    np.testing.assert_allclose(
        model.coef_[0], (1.0 - step * model.alpha) * coef[0] - step * slope * X[0], rtol=1e-9
    )
    assert model.t_ == t + 1


@pytest.mark.parametrize("epochs", [1, 5])
def test_partial_fit_after_a_fit_brings_a_model_nearer(epochs):
    """partial_fit after fit lowers the objective, with steps that fall faster than the fit's.

    Its orders are random and nothing is averaged. A later fit has the slower decay again.
    """
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20000, 10))
    labels = np.where(rows @ rng.normal(size=10) + 5.0 * rng.normal(size=20000) > 0.0, 1, -1)
    problem = Problem.build(rows, labels, l2=1e-4)
    model = SGDClassifier(
        "log_loss", fit_intercept=False, **FEW | {"max_iter": epochs, "warm_start": True}
    ).fit(rows[:4000], labels[:4000])
    decay, before = model.decay_, problem.objective(model.coef_[0])
    for start in range(4000, 20000, 1000):
        model.partial_fit(rows[start : start + 1000], labels[start : start + 1000])
    assert model.decay_ == pytest.approx(decay / (0.35 if epochs == 1 else 0.12))
    assert problem.objective(model.coef_[0]) < before
    assert model.fit(rows[:4000], labels[:4000]).decay_ == pytest.approx(decay)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_the_mean_is_nearer_to_the_optimum(loss):
    """After two epochs of a noisy problem, the mean's gap is at most half the last weights' gap.

    The gaps are averaged over three seeds.
    """
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 5))
    labels = np.where(rows @ [1.0, -1.0, 0.5, 0.0, 0.2] + 2.0 * rng.normal(size=4000) > 0.0, 1, -1)
    problem = Problem.build(rows, labels, loss=loss, l2=1e-4)
    given = {"solver": "sdca", "epochs": 300, "stop": Target("gap", 1e-9)}
    least = minimize(rows, labels, loss=loss, l2=1e-4, **given)

    def gap(average):
        fits = [
            SGDClassifier(
                loss, fit_intercept=False, average=average, **FEW | {"random_state": k}
            ).fit(rows, labels)
            for k in range(3)
        ]
        return np.mean([problem.objective(fit.coef_[0]) for fit in fits]) - problem.objective(
            least.coef
        )

    assert 0.0 < gap("auto") <= 0.5 * gap(False)
