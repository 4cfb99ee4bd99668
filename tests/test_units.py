"""SGD in the data's own units: raw columns, a good start, and no silent failure."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_score

from antithetic import DivergenceError, SGDClassifier, SGDRegressor, minimize, solve
from antithetic._core.losses import HUBER
from antithetic.exact.gap import newton_decrement
from antithetic.exact.row_sums import RowSums
from antithetic.problem import Problem
from antithetic.problem.columns import moments_of
from antithetic.problem.constant import best_constant
from antithetic.problem.losses import LOSSES, Loss
from antithetic.problem.preconditioner import with_spread
from antithetic.problem.softmax import SoftmaxProblem
from antithetic.steps import Auto
from antithetic.stochastic.gap import start_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(61, 21)) * 10.0 ** RNG.uniform(-2, 2, 21) + RNG.normal(size=21)
Z = (X - X.mean(axis=0)) / X.std(axis=0)
Y = np.where(Z[:, :3].sum(axis=1) + RNG.normal(size=61) > 0.0, 1, -1)
WEIGHT = RNG.uniform(0.0, 2.0, 61)
WEIGHT[::7] = 0.0


def moments(problem):
    return with_spread(moments_of(problem.X, problem.weight))


def test_moments_of_chunks_are_those_of_all_rows():
    """Moments run on, and no spread becomes smaller."""
    parts = [moments(Problem.build(X[part], Y[part])) for part in (slice(40), slice(40, None))]
    whole, joined = moments(Problem.build(X, Y)), parts[0].with_more(parts[1])
    np.testing.assert_allclose(joined.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(joined.variance, whole.variance, rtol=1e-9)
    assert (joined.spread >= parts[0].spread).all()
    assert (joined.spread >= whole.spread * (1.0 - 1e-12)).all()


@pytest.mark.parametrize(("loss", "decay"), [("log_loss", None), ("squared_hinge", 1e-3)])
def test_units_and_offsets_of_columns_do_not_matter(loss, decay):
    """Without a penalty, a model of raw columns predicts what one of scaled columns does.

    The decay of the squared hinge is given: to find one, Newton's method counts the rows whose
    margin is below 1, and at the optimum of separable classes rounding decides which are.
    """
    raw = Z * 10.0 ** RNG.uniform(-3, 3, 21)
    raw = raw + 100.0 * raw.std(axis=0)
    given = {"loss": loss, "penalty": None, "max_iter": 5, "tol": None, "random_state": 0}
    given["decay"] = decay
    one, other = (SGDClassifier(**given).fit(rows, Y) for rows in (Z, raw))
    scores = one.decision_function(Z)
    np.testing.assert_allclose(other.decision_function(raw), scores, atol=1e-6 * scores.std())


def test_minimize_takes_its_steps_in_these_units_when_asked():
    """Auto(precondition=True) finds the optimum that plain steps find on scaled columns."""
    given = {"l2": 1e-3, "fit_intercept": True, "order": "balanced", "epochs": 30}
    optimum = solve(X, Y, loss="log_loss", l2=1e-3, tol=1e-12)
    problem = Problem.build(X, Y, l2=1e-3, fit_intercept=True)
    least, start = problem.objective(optimum.coef, optimum.intercept), problem.loss_at_zero()
    gaps = [
        problem.objective(run.coef, run.intercept) - least
        for steps in (Auto(), Auto(precondition=True))
        for run in [minimize(X, Y, steps=steps, **given)]
    ]
    assert gaps[1] < 0.02 * (start - least) < gaps[0]


def test_preconditioned_steps_refuse_what_they_cannot_do():
    """Other solvers, and sparse rows with an L1 penalty."""
    with pytest.raises(ValueError, match="precondition"):
        minimize(X, Y, steps=Auto(precondition=True), solver="saga")
    with pytest.raises(ValueError, match="sparse rows"):
        minimize(sparse.csr_array(X), Y, l1=0.1, steps=Auto(precondition=True))
    with pytest.raises(ValueError, match="True or False"):
        Auto(precondition="yes")


def test_a_new_loss_with_a_kink_needs_no_code_of_its_own():
    """Steps are found for a loss that no part of the package knows by name or number."""
    new = Loss("of one's own", HUBER, classification=False, largest_curvature=np.inf, epsilon=0.1)
    run = minimize(
        Z, Z @ np.ones(21), loss=new, fit_intercept=True, steps=Auto(precondition=True), epochs=20
    )
    problem = Problem.build(Z, Z @ np.ones(21), loss=new, fit_intercept=True)
    assert problem.objective(run.coef, run.intercept) < 0.1 * problem.loss_at_zero()


# ---- a good start


def test_a_fit_begins_at_the_best_constant():
    """It minimises the loss, is 0 for the perceptron, and finite for one class."""
    y = np.where(np.arange(40) < 10, 1.0, -1.0)
    rows = np.ones((40, 1))
    for loss in ("log_loss", "squared_hinge", "modified_huber", "hinge", "squared_error", "huber"):
        problem = Problem.build(rows, y, loss=loss, fit_intercept=True)
        grid = np.linspace(-3.0, 3.0, 601)
        least = min(problem.objective(np.zeros(1), one) for one in grid)
        assert problem.objective(np.zeros(1), start_of(problem.loss, y, None)) <= least + 1e-4
    assert start_of(LOSSES["perceptron"], y, None) == 0.0
    assert np.isfinite(start_of(LOSSES["log_loss"], np.ones(40), None))


# ---- no silent failure


def quiet_fit(model, rows, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, y)
    return any(issubclass(one.category, ConvergenceWarning) for one in caught)


@pytest.mark.parametrize("d", [21, 600])
def test_the_newton_decrement_is_near_the_gap(d):
    """By a matrix, and by conjugate gradients."""
    rows = np.random.default_rng(1).normal(size=(1500, d)) + 3.0
    y = np.where(rows[:, 0] + np.random.default_rng(2).normal(size=1500) > 3.0, 1, -1)
    problem = Problem.build(rows, y, l2=1e-2, fit_intercept=True)
    best = solve(rows, y, loss="log_loss", l2=1e-2, tol=1e-12)
    coef = best.coef + 0.01 * np.random.default_rng(3).normal(size=d)
    gap = problem.objective(coef, best.intercept) - problem.objective(best.coef, best.intercept)
    objective, estimate = newton_decrement(problem, coef, best.intercept)
    assert objective == pytest.approx(problem.objective(coef, best.intercept), rel=1e-12)
    assert 0.7 * gap < estimate < 1.4 * gap


@pytest.mark.parametrize("d", [21, 600])
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_the_newton_decrement_does_not_depend_on_the_centre(d, as_rows):
    """Means of the columns that are known already save time, and change digits only."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(1500, d)) * (rng.random((1500, d)) < 0.3)
    y = np.where(rows[:, 0] > 0.1, 1, -1)
    problem = Problem.build(as_rows(rows), y, l2=1e-2, fit_intercept=True)
    coef, seen = 0.1 * rng.normal(size=d), moments_of(problem.X, None)
    found, own = newton_decrement(problem, coef, 0.2, seen), newton_decrement(problem, coef, 0.2)
    assert found == pytest.approx(own, rel=1e-9 if d < 500 else 0.02)


def rows_that_do_not_count(n):
    """Return rows and labels, the same rows with 1e20 in some of them, and weights of zero there.

    The first row is one of them, so every set of evenly spaced rows has such a row.
    """
    rng = np.random.default_rng(0)
    rows, weight = rng.normal(size=(n, 5)) + 1.0, np.ones(n)
    y = np.where(rows[:, 0] + rng.normal(size=n) > 1.0, 1, -1)
    weight[::97] = 0.0
    return rows, np.where(weight[:, None] > 0.0, rows, 1e20), y, weight


@pytest.mark.parametrize("n", [300, 1500, 5000])  # in one kernel call, and with a sampled Hessian
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_weight_zero_do_not_count_in_the_newton_decrement(n, as_rows, dtype):
    """An entry of 1e20 in such a row changes nothing, for one score or for many."""
    rows, other, y, weight = rows_that_do_not_count(n)
    given = {"l2": 1e-3, "sample_weight": weight, "fit_intercept": True}
    coef = np.array([0.3, -0.2, 0.1, 0.0, 0.2])
    for kind, at in (
        (Problem, (coef.astype(dtype), 0.1)),
        (SoftmaxProblem, (np.append(coef, -coef).astype(dtype), np.zeros(2))),
    ):
        found, expected = (
            newton_decrement(kind.build(as_rows(part.astype(dtype)), y, **given), *at)
            for part in (other, rows)
        )
        assert found == pytest.approx(expected, rel=1e-6)
        assert expected[1] > 0.01


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_rows_of_weight_zero_do_not_count_in_moments(as_rows):
    """An entry of 1e20 in such a row leaves all digits of means and variances."""
    rows, other, y, weight = rows_that_do_not_count(300)
    found, expected = (
        moments(Problem.build(as_rows(part), y, sample_weight=weight)) for part in (other, rows)
    )
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("solver", ["sgd", "svrg", "saga"])
@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_rows_of_weight_zero_do_not_count_in_a_fit(kind, solver):
    """An entry of 1e20 in such a row changes neither the model nor its gap."""
    rows, other, y, weight = rows_that_do_not_count(300)
    loss = "log_loss" if kind is SGDClassifier else "squared_error"
    fits = [
        kind(loss, solver=solver, random_state=0).fit(part, y, sample_weight=weight)
        for part in (other, rows)
    ]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-9)
    assert fits[0].gap_ == pytest.approx(fits[1].gap_, rel=1e-3)
    assert fits[0].n_iter_ == fits[1].n_iter_


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_the_diagonal_is_that_of_the_hessian(as_rows, fit_intercept):
    """It is found without the matrix, in two visits."""
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(300, 7)) * (rng.random((300, 7)) < 0.3), rng.choice([-1, 1], 300)
    problem = Problem.build(as_rows(rows), y, l2=0.1, fit_intercept=fit_intercept)
    sums = RowSums(problem, np.arange(7.0) if fit_intercept else None)
    theta = rng.normal(size=sums.columns)
    point = sums.at(theta)
    whole = np.diag(sums.hessian(point, exact=True))
    np.testing.assert_allclose(sums.diagonal(point), whole, rtol=1e-9)


def test_a_fit_that_ends_far_from_the_optimum_says_so():
    """Nearly collinear columns take long; tol stopped the run, and a warning says what to do."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(400, 1))
    rows = base + 1e-3 * rng.normal(size=(400, 6))
    y = (rows[:, 0] - rows[:, 1]) / 1e-3 + rng.normal(size=400) > 0.0
    with pytest.warns(ConvergenceWarning, match="LogisticRegression"):
        model = SGDClassifier("log_loss", alpha=1e-8, random_state=0).fit(rows, y)
    assert model.n_iter_ < model.max_iter
    assert model.gap_ > 0.0


def test_tol_does_not_stop_a_run_that_still_falls():
    """A large tol would stop after two epochs, but an epoch still gains a tenth of what is left."""
    data, y = load_wine(return_X_y=True)
    model = SGDClassifier("log_loss", tol=1.0, n_iter_no_change=1, random_state=0)
    quiet_fit(model, data, y == 0)
    assert model.n_iter_ > 3


@pytest.mark.parametrize("rate", ["auto", "optimal"])
def test_every_fit_estimates_its_gap(rate):
    """With tol=None and any learning rate too, which warn of nothing; perceptrons have no gap."""
    rows = Z[:, :5]
    given = {"random_state": 0, "max_iter": 50, "learning_rate": rate, "tol": None}
    problem = Problem.build(rows, Y, l2=1e-2, fit_intercept=True)
    best = solve(rows, Y, loss="log_loss", l2=1e-2, tol=1e-12)
    least = problem.objective(best.coef, best.intercept)
    model = SGDClassifier("log_loss", alpha=1e-2, **given).fit(rows, Y)
    gap = problem.objective(model.coef_[0], model.intercept_[0]) - least
    assert 0.3 * gap < model.gap_ < 3.0 * gap
    assert np.isnan(SGDClassifier("perceptron", **given).fit(rows, Y).gap_)
    classes = np.digitize(rows[:, 0], [-0.4, 0.4])
    assert SGDClassifier("log_loss", alpha=0.1, **given).fit(rows, classes).gap_.shape == (3,)


@pytest.mark.parametrize("seed", range(12))
def test_no_smooth_fit_ends_far_from_the_optimum_in_silence(seed):
    """Random problems of any scale: 2 % of the gap at most, or a warning."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(50, 500)), int(rng.integers(1, 12))
    rows = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * 10.0 ** rng.uniform(-6, 6, d)
    rows += rng.uniform(-1000.0, 1000.0, d) * rows.std(axis=0)
    score = ((rows - rows.mean(axis=0)) / rows.std(axis=0)) @ rng.normal(size=d)
    y = np.where(score + rng.normal(size=n) > 0.0, 1, -1)
    alpha = 10.0 ** rng.uniform(-6, -1)
    model = SGDClassifier("log_loss", alpha=alpha, random_state=0)
    warned = quiet_fit(model, rows, y)
    problem = Problem.build(rows, y, l2=alpha, fit_intercept=True)
    best = solve(rows, y, loss="log_loss", l2=alpha, tol=1e-8)
    least = problem.objective(best.coef, best.intercept)
    start = best_constant(problem.loss, problem.y, None)[1]
    gap = problem.objective(model.coef_[0], model.intercept_[0]) - least
    assert warned or gap <= 0.02 * (start - least) + 1e-12


# ---- decay


def collinear_pairs(rng):
    """Labels that depend on differences of columns which are nearly the same."""
    base = rng.integers(0, 10, (6000, 12)).astype(np.float64)
    return np.hstack([base, base[:, :4] + 0.5 * rng.normal(size=(6000, 4))])


@pytest.mark.parametrize(
    "make", [collinear_pairs, lambda rng: rng.standard_t(3, (6000, 8))], ids=["pairs", "tails"]
)
def test_the_decay_is_near_the_best(make):
    """Flat directions that matter are not frozen: within 4 times the gap of the best of a grid.

    Three seeds for either, of which the median counts; the limit of the benchmark is 3 times.
    """
    rng = np.random.default_rng(5)
    rows = make(rng)
    score = (rows - rows.mean(axis=0)) @ rng.normal(size=rows.shape[1])
    y = np.where(score + rng.logistic(size=len(rows)) > 0.0, 1, -1)
    problem = Problem.build(rows, y, l2=1e-4, fit_intercept=True)
    best = solve(rows, y, loss="log_loss", l2=1e-4, tol=1e-12)
    least = problem.objective(best.coef, best.intercept)

    def gap(decay):
        given = {"alpha": 1e-4, "max_iter": 5, "tol": None, "decay": decay}
        models = [SGDClassifier("log_loss", random_state=k, **given).fit(rows, y) for k in range(3)]
        reached = [problem.objective(model.coef_[0], model.intercept_[0]) for model in models]
        return float(np.median(reached)) - least

    assert gap(None) < 4.0 * min(gap(10.0**power) for power in (-5, -4, -3, -2, -1))


def test_noise_of_the_sample_does_not_shorten_the_decay():
    """Flat directions that hold only the noise of 1000 rows do not matter.

    With these targets of a gamma distribution, counting them makes the gap eleven times larger.
    """
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40_000, 20)) @ (np.eye(20) + 0.3 * rng.normal(size=(20, 20)))
    rows /= rows.std(axis=0)
    mean = np.exp(rows @ rng.normal(size=20) * 0.7 / 20**0.5 + 1.0)
    y = rng.gamma(2.0, mean / 2.0)

    def gap(decay):
        given = {"alpha": 1e-4, "max_iter": 5, "tol": None, "decay": decay, "random_state": 0}
        return SGDRegressor("gamma", **given).fit(rows, y).gap_

    assert gap(None) < 4.0 * min(gap(10.0**power) for power in (-4, -3, -2))


# ---- raw columns


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_raw_columns_need_no_scaler(load):
    """Accuracy near that of an exact solver on the same raw columns."""
    data, y = load(return_X_y=True)
    model = SGDClassifier("log_loss", random_state=0)
    exact = LogisticRegression(C=1e4 / len(y), max_iter=10_000, solver="newton-cholesky")
    ours, other = (cross_val_score(one, data, y, cv=5).mean() for one in (model, exact))
    assert ours > other - 0.03


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ages_incomes_and_years_are_fitted():
    """Regression on raw columns explains as much as least squares."""
    rng = np.random.default_rng(0)
    age, income = rng.uniform(18, 80, 1000), rng.lognormal(10.0, 1.0, 1000)
    year = rng.integers(1990, 2024, 1000)
    made = np.stack([age, income, year], axis=1)
    diabetes = load_diabetes(return_X_y=True, scaled=False)
    for rows, y in (diabetes, (made, 2.0 * age + rng.normal(size=1000))):
        exact = LinearRegression().fit(rows, y).score(rows, y)
        assert SGDRegressor(random_state=0).fit(rows, y).score(rows, y) > exact - 0.01


# ---- partial_fit


def test_moments_that_move_leave_predictions_as_they_are():
    """Steps of length zero change nothing, however far the rows of a chunk are from the others."""
    model = SGDClassifier("log_loss", random_state=0).partial_fit(X, Y, classes=[-1, 1])
    before = model.decision_function(X)
    model.eta0_ = 1e-300
    model.partial_fit(X + 5.0 * X.std(axis=0), Y)
    np.testing.assert_allclose(model.decision_function(X), before, rtol=1e-9, atol=1e-9)


def test_the_first_step_follows_the_curvature():
    """In partial_fit, rows that widen the columns change eta0_, and the model stays finite."""
    model = SGDClassifier("log_loss", random_state=0)
    model.partial_fit(X[:1], Y[:1], classes=[-1, 1])
    first = model.eta0_
    assert not model.coef_.any()  # nothing varies yet
    model.partial_fit(X, Y)
    assert model.eta0_ < first
    assert model.coef_.any()
    assert np.isfinite(model.coef_).all()


def is_plain(value):
    """Whether a serialiser that knows arrays can write a value."""
    if type(value) is dict:
        return all(type(name) is str and is_plain(one) for name, one in value.items())
    if type(value) is list:
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str, np.ndarray)


def test_moments_survive_a_serialiser():
    """partial_fit continues from plain values."""
    model = SGDClassifier("log_loss", random_state=0).partial_fit(X, Y, classes=[-1, 1])
    held = {name: value for name, value in vars(model).items() if name.startswith("_")}
    assert held
    assert is_plain(held)


# ---- bad input


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_constant_columns_keep_the_weight_zero():
    """Constant columns have weight zero, for any constant."""
    rows = np.column_stack([X[:, :2], np.full(61, 1e10), np.zeros(61), np.full(61, 0.1)])
    for loss in ("log_loss", "hinge"):
        model = SGDClassifier(loss, random_state=0).fit(rows, Y)
        assert not model.coef_[0, 2:].any()
        assert model.coef_[0, :2].all()


def test_squares_that_overflow_are_reported():
    """Columns that no step can be made for."""
    with pytest.raises(DivergenceError, match="too large"):
        SGDClassifier("log_loss", random_state=0).fit(1e200 * X, Y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_entry_that_is_not_finite_is_refused_also_in_a_constant_column(bad):
    """Rows are checked in the visit that finds the moments, whose ends of ranges skip a NaN."""
    X, y = np.ones((40, 2)), np.repeat([-1.0, 1.0], 20)
    X[:, 1] = np.arange(40)
    X[7, 0] = bad
    with pytest.raises(ValueError, match="Input X contains"):
        SGDClassifier().fit(X, y)


def test_rows_whose_sums_overflow_are_not_taken_for_infinite():
    """Finite entries are accepted, however large; the fit then says that it overflows."""
    X, y = np.full((40, 2), 1e308), np.repeat([-1.0, 1.0], 20)
    X[::2, 0] = -1e308
    with pytest.raises(ValueError, match="overflow"):
        SGDClassifier().fit(X, y)
