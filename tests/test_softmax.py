"""All classes together: the problem, the estimator and `minimize` with loss="softmax"."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import antithetic
from antithetic import SGDClassifier, minimize
from antithetic.exact.optimality import duality_gap, gradient_mapping_norm
from antithetic.orders import Balanced, Given, Importance, Shuffle, Stratified
from antithetic.problem import SoftmaxProblem
from antithetic.steps import Optimal
from antithetic.stochastic.softmax import (
    _refine,
    find_softmax_steps,
    softmax_batch_size,
    softmax_sgd,
    split_rows,
)
from antithetic.stochastic.solver import State
from antithetic.stopping import Stalled, Target

pytestmark = pytest.mark.lowest

FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
ALPHA = 0.01


def make_data(n=300, d=6, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, d))
    y = rng.integers(0, n_classes, n)
    return centres[y] + rng.normal(size=(n, d)), y


X, Y = make_data()
WEIGHT = np.random.default_rng(3).uniform(0.0, 2.0, len(X))


def optimum(X, y, *, fit_intercept=True, weight=None):
    """scikit-learn's solution of the same objective."""
    strength = 1.0 / (ALPHA * len(y))
    model = LogisticRegression(C=strength, fit_intercept=fit_intercept, tol=1e-12, max_iter=10_000)
    return model.fit(X, y, sample_weight=weight)


def objective(model, X, y, weight=None):
    losses = -model.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    losses = losses if weight is None else weight * losses
    return float(losses.mean() + 0.5 * ALPHA * (model.coef_**2).sum())


# ---- the problem


@FORMS
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_objective_is_that_of_scikit_learn(form, fit_intercept):
    """At its solution, with weights of the rows, the value agrees and the gradient vanishes."""
    model = optimum(X, Y, fit_intercept=fit_intercept, weight=WEIGHT)
    problem = SoftmaxProblem.build(
        form(X), Y, l2=ALPHA, sample_weight=WEIGHT, fit_intercept=fit_intercept
    )
    solution = model.coef_, model.intercept_
    assert problem.objective(*solution) == pytest.approx(objective(model, X, Y, WEIGHT))
    assert gradient_mapping_norm(problem, *solution) < 1e-6
    assert problem.loss_at_zero() == pytest.approx(problem.objective(0.0 * model.coef_))


@FORMS
def test_the_gradient_is_that_of_the_objective(form):
    problem = SoftmaxProblem.build(form(X), Y, l2=ALPHA, sample_weight=WEIGHT, fit_intercept=True)

    def split(v):
        return v[: problem.n_weights], v[problem.n_weights :]

    at = np.random.default_rng(0).normal(size=problem.n_weights + 4)
    gradient = check_grad(
        lambda v: problem.objective(*split(v)),
        lambda v: np.concatenate(problem.gradient(*split(v))),
        at,
    )
    assert gradient < 1e-5
    data, constants = problem.data_gradient(problem.slopes(*split(at)))
    whole, same = problem.gradient(*split(at))
    np.testing.assert_allclose(data + ALPHA * at[: problem.n_weights], whole)
    np.testing.assert_allclose(constants, same)
    assert problem.mean_loss(problem.predictions(*split(at))) == pytest.approx(
        problem.objective(*split(at)) - problem.penalty.value(at[: problem.n_weights])
    )
    assert gradient_mapping_norm(problem, *split(at)) == pytest.approx(
        np.linalg.norm(np.concatenate([whole, same]))
    )


def test_the_gap_bounds_the_distance_from_the_minimum():
    problem = SoftmaxProblem.build(X, Y, l2=ALPHA)
    best = problem.objective(optimum(X, Y, fit_intercept=False).coef_)
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.01, 1.0):
        coef = scale * rng.normal(size=problem.n_weights)
        assert duality_gap(problem, coef) >= problem.objective(coef) - best


def test_a_problem_is_pickled_whole():
    problem = SoftmaxProblem.build(X, Y, l2=ALPHA)
    again = pickle.loads(pickle.dumps(problem))
    assert again.n_classes == 4
    assert again.objective(np.ones(24)) == problem.objective(np.ones(24))


# ---- the estimator


@FORMS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_fit_comes_near_the_optimum(form, dtype):
    """Within a hundredth of what zero weights lose, from dense and sparse rows of both types."""
    model = SGDClassifier("softmax", alpha=ALPHA, tol=None, max_iter=20, random_state=0)
    model.fit(form(X.astype(dtype)), Y)
    best = objective(optimum(X, Y), X, Y)
    assert objective(model, X, Y) - best < 0.01 * (np.log(4) - best)
    assert model.coef_.dtype == dtype
    assert model.coef_.shape == (4, 6)
    assert model.intercept_.shape == (4,)


@pytest.mark.parametrize(
    "order",
    ["shuffle", "balanced", Balanced(sketch="auto"), "uniform", Given(lambda _: np.arange(300))],
    ids=str,
)
def test_orders_lead_to_the_same_model(order):
    model = SGDClassifier(
        "softmax", alpha=ALPHA, tol=None, max_iter=30, order=order, random_state=0
    ).fit(X, Y)
    best = objective(optimum(X, Y), X, Y)
    assert objective(model, X, Y) - best < 0.03 * (np.log(4) - best)


def test_balanced_epochs_come_nearer_than_reshuffled_ones():
    """Last weights of the same steps: what orders are about."""
    problem = SoftmaxProblem.build(X, Y, l2=ALPHA)
    best = problem.objective(optimum(X, Y, fit_intercept=False).coef_)
    gaps = {}
    for order in ("shuffle", "balanced"):
        found = minimize(X, Y, loss="softmax", l2=ALPHA, order=order, steps=0.5, epochs=20)
        gaps[order] = problem.objective(found.coef) - best
    assert gaps["balanced"] < 0.3 * gaps["shuffle"]


def test_probabilities_are_the_softmax_of_the_scores():
    model = SGDClassifier("softmax", alpha=ALPHA, random_state=0).fit(X, Y)
    scores = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), shares)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(shares))
    assert np.isfinite(model.predict_log_proba(1e5 * X)).all()
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])


def test_two_classes_have_one_row_of_weights():
    """It is the model of log_loss with half the penalty."""
    y = np.where(Y > 1, "yes", "no")
    both = {"tol": None, "max_iter": 40, "random_state": 0}
    model = SGDClassifier("softmax", alpha=2 * ALPHA, **both).fit(X, y)
    other = SGDClassifier("log_loss", alpha=ALPHA, **both).fit(X, y)
    assert model.coef_.shape == (1, 6)
    assert model.decision_function(X).shape == (300,)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=0.1)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=0.05)
    first = model.coef_.copy()
    model.partial_fit(X[:8], y[:8])
    assert 0.0 < np.abs(model.coef_ - first).max() < 0.5


def test_weights_of_classes_and_rows_multiply():
    """A class of weight 2 is each of its rows twice; the first fit is of weighted rows."""
    kind = {"alpha": ALPHA, "tol": None, "max_iter": 60, "random_state": 0}
    weights = {0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0}
    one = SGDClassifier("softmax", class_weight=weights, **kind).fit(X, Y, sample_weight=WEIGHT)
    both = WEIGHT * np.vectorize(weights.get)(Y)
    other = SGDClassifier("softmax", **kind).fit(X, Y, sample_weight=both)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    best = objective(optimum(X, Y, weight=both), X, Y, both)
    assert objective(other, X, Y, both) - best < 0.02


def test_rows_of_weight_zero_do_not_count():
    """With the same orders, what rows of weight zero hold does not change a bit."""
    weight, other = np.ones(300), X.copy()
    weight[::3], other[::3] = 0.0, 7.0
    kind = {"tol": None, "max_iter": 5, "learning_rate": "constant", "eta0": 0.1}
    models = [
        SGDClassifier("softmax", random_state=0, **kind).fit(rows, Y, sample_weight=weight)
        for rows in (X, other)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_the_same_seed_gives_the_same_bits():
    one, same = (SGDClassifier("softmax", random_state=5).fit(X, Y) for _ in range(2))
    other = SGDClassifier("softmax", random_state=6).fit(X, Y)
    np.testing.assert_array_equal(one.coef_, same.coef_)
    assert (one.coef_ != other.coef_).any()


@pytest.mark.parametrize("average", [False, True, 50, "linear", "epoch"])
def test_all_averages_work(average):
    model = SGDClassifier("softmax", alpha=ALPHA, average=average, random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.8


def test_early_stopping_and_a_validation_set():
    model = SGDClassifier("softmax", early_stopping=True, random_state=0).fit(X, Y)
    assert model.n_iter_ < 100
    assert model.history_["validation_score"].max() > 0.7
    model = SGDClassifier("softmax", max_iter=3, tol=None, random_state=0)
    model.fit(X[:200], Y[:200], X_val=X[200:], y_val=Y[200:])
    assert model.history_["validation_score"][-1] == model.score(X[200:], Y[200:])


def test_the_history_has_one_entry_per_epoch():
    """history_ covers all classes together, so it is a dict and not a list."""
    model = SGDClassifier(
        "softmax", max_iter=4, tol=None, trace=("objective", "gradient"), random_state=0
    ).fit(X, Y)
    assert set(model.history_) == {"epoch", "objective", "gradient", "seconds"}
    assert all(len(column) == 4 for column in model.history_.values())
    assert model.history_["objective"][-1] < np.log(4)
    assert "reshuffled" in model.plan_.why
    assert model.plan_.batch_size == 8
    assert isinstance(model.eta0_, float)
    assert model.decay_ > 0.0
    plain = SGDClassifier("softmax", max_iter=1, tol=None, fit_intercept=False).fit(X, Y)
    assert plain.decay_ == plain.alpha


def test_a_target_ends_a_fit():
    model = SGDClassifier(
        "softmax", alpha=0.1, stopping="gap", tol=1e-2, fit_intercept=False, random_state=0
    ).fit(X, Y)
    assert model.history_["gap"][-1] <= 1e-2 < model.history_["gap"][0]
    stalled = minimize(X, Y, loss="softmax", l2=0.1, epochs=500, stop=Stalled(1e-3, epochs=2))
    assert stalled.converged
    assert stalled.epochs < 500


def test_warm_start_continues():
    model = SGDClassifier("softmax", max_iter=1, tol=None, warm_start=True, random_state=0)
    first = model.fit(X, Y).coef_.copy()
    eta0 = model.eta0_
    model.fit(X, Y)
    assert model.eta0_ == eta0
    cold = clone(model).fit(X, Y).coef_
    np.testing.assert_array_equal(cold, first)
    assert (model.coef_ != first).any()


def test_weights_to_begin_with_are_checked():
    start = optimum(X, Y)
    model = SGDClassifier("softmax", max_iter=1, tol=None, learning_rate="constant", eta0=1e-9)
    model.fit(X, Y, coef_init=start.coef_, intercept_init=start.intercept_)
    np.testing.assert_allclose(model.coef_, start.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, start.intercept_, atol=1e-6)
    with pytest.raises(ValueError, match=r"should have \(4, 6\)"):
        model.fit(X, Y, coef_init=np.zeros((3, 6)))


# ---- partial_fit


def test_partial_fit_learns_from_chunks():
    """Classes are named once; one of them may never come."""
    model = SGDClassifier("softmax", alpha=ALPHA, random_state=0)
    for epoch in range(5):
        for start in range(0, 300, 60):
            chunk = slice(start, start + 60)
            first = {"classes": [*range(4), 9]} if epoch == start == 0 else {}
            model.partial_fit(X[chunk], Y[chunk], **first)
    assert model.coef_.shape == (5, 6)
    assert model.score(X, Y) > 0.8
    assert model.predict_proba(X)[:, 4].max() < 0.1
    assert model.t_ == 1501


def test_new_classes_are_refused_by_name():
    model = SGDClassifier("softmax").partial_fit(X, Y, classes=range(4))
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=r"not among the classes \[0, 1, 2, 3\]: \[7, 8\]"):
        model.partial_fit(X[:2], [7, 8])
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, Y, classes=range(5))
    with pytest.raises(ValueError, match="classes must be passed"):
        SGDClassifier("softmax").partial_fit(X, Y)


def test_a_chunk_without_weight_changes_nothing():
    model = SGDClassifier("softmax").partial_fit(X, Y, range(4), sample_weight=np.zeros(300))
    assert not model.coef_.any()
    assert model.coef_.shape == (4, 6)


# ---- bad input


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="greater than one; got 1"):
        SGDClassifier("softmax").fit(X, np.zeros(300))
    with pytest.raises(ValueError, match="one class only"):
        minimize(X, np.zeros(300), loss="softmax")


@pytest.mark.parametrize("labels", ["words", "floats", "bools", "objects"])
def test_labels_of_any_type(labels):
    names = np.array(["a", "bb", "c", "d"])
    y = {
        "words": names[Y],
        "floats": Y - 1.0,
        "bools": Y > 1,
        "objects": names.astype(object)[Y],
    }[labels]
    model = SGDClassifier("softmax", random_state=0).fit(X, y)
    assert set(model.predict(X)) <= set(y)
    assert model.score(X, y) > 0.75


def test_more_classes_than_most_have_rows():
    """One row per class, and two of one."""
    rows, y = X[:21], np.append(np.arange(20), 0)
    model = SGDClassifier("softmax", max_iter=5, tol=None, random_state=0).fit(rows, y)
    assert model.coef_.shape == (20, 6)
    two = SGDClassifier("softmax", max_iter=5, tol=None).fit(X[:2], [3, 4])
    assert two.score(X[:2], [3, 4]) == 1.0


def test_features_that_overflow_are_named():
    for factor in (1e200, 1e160):
        with pytest.raises(ValueError, match="overflow"):
            SGDClassifier("softmax").fit(X * factor, Y)
    with pytest.raises(ValueError, match="overflow"):
        SGDClassifier("softmax", learning_rate="constant", eta0=1e300, tol=None).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "saga"}, "LogisticRegression"),
        ({"solver": "svrg"}, "LogisticRegression"),
        ({"solver": "newton"}, "LogisticRegression"),
        ({"solver": "sdca", "fit_intercept": False}, "LogisticRegression"),
        ({"penalty": "l1"}, "L2 penalty"),
        ({"penalty": "elasticnet"}, "L2 penalty"),
        ({"penalty": antithetic.penalties.GroupLasso([[0, 1]])}, "L2 penalty"),
        ({"order": Shuffle(pairs="greedy")}, "neither pairs, importance nor strata"),
        ({"order": Importance()}, "neither pairs, importance nor strata"),
        ({"order": Stratified(2)}, "neither pairs, importance nor strata"),
        ({"learning_rate": "pa1"}, "only works with"),
        ({"trace": "variance"}, "not supported"),
        ({"trace": "partial_sum"}, "not supported"),
    ],
    ids=str,
)
def test_what_softmax_cannot_do_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SGDClassifier("softmax", **settings).fit(X, Y)


def test_others_refuse_softmax_in_words():
    for refused in (
        lambda: antithetic.pair(X, Y, loss="softmax"),
        lambda: antithetic.gradient_variance(X, Y, np.zeros(6), loss="softmax"),
        lambda: antithetic.advise(X, Y, loss="softmax"),
    ):
        with pytest.raises(ValueError, match="one score per class"):
            refused()
    with pytest.raises(ValueError, match="loss"):
        antithetic.SGDRegressor("softmax").fit(X, Y)


# ---- minimize, model files


def test_minimize_has_one_row_of_weights_per_class():
    y = np.array(["d", "a", "c", "b"])[Y]
    found = minimize(
        X, y, loss="softmax", l2=ALPHA, fit_intercept=True, average="epoch", trace="objective"
    )
    assert found.coef.shape == (4, 6)
    assert found.intercept.shape == (4,)
    assert found.classes.tolist() == ["a", "b", "c", "d"]
    assert found.trace["objective"][0] == pytest.approx(np.log(4))
    best = objective(optimum(X, y), X, y)
    assert found.trace["objective"][-1] - best < 0.01
    again = minimize(
        X,
        y,
        loss="softmax",
        l2=ALPHA,
        fit_intercept=True,
        init=(found.coef, found.intercept),
        steps=1e-9,
        epochs=1,
    )
    np.testing.assert_allclose(again.coef, found.coef, atol=1e-6)


def test_a_resumed_run_is_the_whole_one():
    given = {"loss": "softmax", "l2": ALPHA, "order": "balanced", "average": "epoch"}
    whole = minimize(X, Y, epochs=6, **given)
    part = minimize(X, Y, epochs=6, resume=minimize(X, Y, epochs=2, **given), **given)
    np.testing.assert_array_equal(whole.coef, part.coef)


@pytest.mark.parametrize("steps", [0.1, "optimal", Optimal(0.1)], ids=str)
def test_given_steps_are_used(steps):
    found = minimize(X, Y, loss="softmax", l2=ALPHA, steps=steps, epochs=10, trace="objective")
    assert found.trace["objective"][-1] < 0.8


def test_minimize_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="one number per class"):
        minimize(X, Y, loss="softmax", init=(None, np.zeros((4, 1))))
    with pytest.raises(ValueError, match="one per class"):
        minimize(X, Y, loss="softmax", init=(None, np.zeros(3)))
    with pytest.raises(ValueError, match="intercept"):
        minimize(X, Y, loss="softmax", fit_intercept=True, stop=Target("gap", 1e-3))
    with pytest.raises(ValueError, match="batch_size"):
        minimize(X, Y, loss="softmax", batch_size="large")


def test_a_model_file_keeps_the_model(tmp_path):
    for y in (Y, Y > 1):
        model = SGDClassifier("softmax", alpha=ALPHA, batch_size=4, random_state=0).fit(X, y)
        antithetic.LinearModel.of(model).save(tmp_path / "model.json")
        again = antithetic.LinearModel.load(tmp_path / "model.json").estimator()
        assert (again.loss, again.batch_size) == ("softmax", 4)
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        again.partial_fit(X[:8], y[:8])
        pickled = pickle.loads(pickle.dumps(model))
        pickled.partial_fit(X[:8], y[:8])
        assert (pickled.coef_ != model.coef_).any()


# ---- steps, and the function that others start from


def test_steps_are_judged_by_rows_that_were_not_trained_on():
    problem = SoftmaxProblem.build(np.arange(3000.0)[:, None] + 1.0, np.arange(3000) % 3)
    trained, judges = split_rows(problem, 0)
    assert trained.n == judges.n == 1000
    assert not set(trained.X.ravel()) & set(judges.X.ravel())
    many = SoftmaxProblem.build(np.ones((64_000, 1)), np.arange(64_000) % 3)
    trained, judges = split_rows(many, 0)
    assert (trained.n, judges.n) == (4000, 1000)


def test_twice_the_step_must_gain_much_and_half_of_it_anything():
    verdicts = {0.5: 2.0, 1.0: 1.0, 2.0: 0.99}
    assert _refine(verdicts.__getitem__, 1.0, 1.0, 3.0, 0.1) == 1.0
    assert _refine((verdicts | {2.0: 0.8}).__getitem__, 1.0, 1.0, 3.0, 0.1) == 2.0
    assert _refine((verdicts | {0.5: 0.99}).__getitem__, 1.0, 1.0, 3.0, 0.1) == 0.5
    assert _refine((verdicts | {0.5: 0.99}).__getitem__, 1.0, 1.0, 3.0, 0.6) == 1.0
    assert _refine(verdicts.__getitem__, 1.0, 3.0, 3.0, 0.1) == 1.0


def test_an_epoch_that_must_gain_is_left_out_at_the_optimum():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(3000, 20)), rng.integers(0, 5, size=3000)
    given = {"l2": 1e-1, "must_gain": True}
    assert softmax_sgd(rows, y, 5, **given) is None
    assert softmax_sgd(rows, rows[:, :5].argmax(axis=1), 5, **given) is not None


def test_labels_without_a_reason_get_safe_steps():
    """Labels that do not depend on the rows get short steps; labels that do get longer ones."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 200))
    for y, longer in ((rng.integers(0, 5, 2000), False), (rows[:, :5].argmax(axis=1), True)):
        problem = SoftmaxProblem.build(rows, y, l2=1e-4)
        state = State(np.zeros(1000), np.zeros(5))
        found = find_softmax_steps(problem, 8, 0, state)
        safe = 1.0 / problem.row_curvature()
        assert (4.0 * safe < found.eta0) == longer
        assert safe <= found.eta0
        assert found == find_softmax_steps(problem, 8, 0, state)


@FORMS
def test_softmax_sgd_is_a_start_for_other_solvers(form):
    digits, y = load_digits(return_X_y=True)
    rows = form((digits / 16.0).astype(np.float32))
    coef, intercept = softmax_sgd(rows, y, 10, l2=1e-3, fit_intercept=True, epochs=3, threads=1)
    assert coef.dtype == np.float32
    assert coef.shape == (10, 64)
    problem = SoftmaxProblem.build(rows, y, l2=1e-3, fit_intercept=True)
    assert problem.objective(coef, intercept) < 0.3  # the minimum is 0.26
    later = softmax_sgd(
        rows, y, 10, l2=1e-3, fit_intercept=True, coef=coef, intercept=intercept, threads=1
    )
    assert problem.objective(*later) < problem.objective(coef, intercept)


def test_larger_batches_where_the_cache_is_too_small():
    assert softmax_batch_size(10 * 784, 4) == 8
    assert softmax_batch_size(100 * 512, 4) == 32


def test_digits_are_told_apart():
    """Held-out accuracy is as good as that of scikit-learn's multinomial model."""
    rows, y = load_digits(return_X_y=True)
    rows = rows / 16.0
    model = SGDClassifier("softmax", alpha=1e-3, random_state=0).fit(rows[:1200], y[:1200])
    other = LogisticRegression(C=1 / 1.2, max_iter=1000).fit(rows[:1200], y[:1200])
    ours, theirs = model.predict_proba(rows[1200:]), other.predict_proba(rows[1200:])
    assert log_loss(y[1200:], ours) < log_loss(y[1200:], theirs) + 0.02
    assert model.score(rows[1200:], y[1200:]) > other.score(rows[1200:], y[1200:]) - 0.01
