"""Softmax SGD in the data's own units: raw columns, a good start, and no silent failure."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from reference_softmax import balanced_order, softmax_sgd_in_units
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from antithetic import DivergenceError, LogisticRegression, SGDClassifier, minimize
from antithetic._core.schedules import INVERSE_TIME
from antithetic.exact.gap import newton_decrement
from antithetic.orders.units import cut
from antithetic.problem import SoftmaxProblem
from antithetic.problem.columns import moments_of
from antithetic.problem.losses import SOFTMAX
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.preconditioner import find_preconditioner, with_spread
from antithetic.steps import Auto
from antithetic.stochastic.gap import start_of_problem
from antithetic.stochastic.softmax import make_softmax_sgd
from antithetic.stochastic.steps import Schedule

FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
SCHEDULE = Schedule(INVERSE_TIME, 0.3, 0.05)


def eta(steps):
    return SCHEDULE.eta0 / (1.0 + SCHEDULE.eta0 * SCHEDULE.rate * (steps + 1))


def make_data(n, d, n_classes, seed=0):
    """Columns of all sizes, some of them far from zero, some entries zero."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(n_classes, d))[y]
    X = X * 10.0 ** rng.uniform(-2, 2, d) + 10.0 ** rng.uniform(-2, 2, d)
    return X * (rng.random((n, d)) < 0.8), y


def make_problem(n, d, n_classes, *, dtype=np.float64, form=np.asarray, l2=0.01, weighted=True):
    X, y = make_data(n, d, n_classes)
    weight = np.random.default_rng(1).uniform(0.0, 2.0, n) if weighted else None
    given = form(X.astype(dtype)), y.astype(np.float64), SOFTMAX, ElasticNet(l2=l2)
    return SoftmaxProblem(*given, weight, True, None, n_classes)


def units_of(problem):
    return find_preconditioner(problem, with_spread(moments_of(problem.X, problem.weight)))


def one_epoch(problem, size, *, average=False, unit=0, threads=1):
    rng, units = np.random.default_rng(2), units_of(problem)
    coef = rng.normal(size=(problem.n_classes, problem.d)) * np.sqrt(units.metric)
    intercept = rng.normal(size=problem.n_classes)
    rows = rng.permutation(problem.n)
    solver = replace(make_softmax_sgd(problem, average, threads=threads), preconditioner=units)
    batches = cut(rows, size)._replace(unit=unit)
    after = solver.epoch(*solver.init(coef, intercept), batches, SCHEDULE)
    twin = softmax_sgd_in_units(
        problem,
        np.split(rows, range(size, len(rows), size)),
        size,
        eta,
        units.centre.astype(float),
        units.metric.astype(float),
        coef=coef,
        intercept=intercept,
        every=1 if average else 0,
        late=sparse.issparse(problem.X),
    )
    return after, twin, rows, units


# ---- the kernel


@FORMS
@pytest.mark.kernel
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-10), (np.float32, 2e-4)])
@pytest.mark.parametrize(
    "shape", [(41, 7, 3, 8), (50, 33, 10, 8), (37, 130, 5, 32), (23, 1, 2, 1)], ids=str
)
def test_an_epoch_in_units_is_that_of_its_twin(shape, dtype, rtol, form):
    """In units of each column; sparse rows are scaled and not centred."""
    *shape, size = shape
    after, twin, _, units = one_epoch(make_problem(*shape, dtype=dtype, form=form), size)
    roots = np.sqrt(units.metric.astype(float))
    found = after.state.coef.reshape(twin.coef.shape)
    np.testing.assert_allclose(found / roots, twin.coef / roots, atol=rtol)
    scale = 1.0 + np.abs(twin.coef) @ np.abs(units.centre)
    np.testing.assert_allclose(after.state.intercept / scale, twin.intercept / scale, atol=rtol)
    assert after.state.coef.dtype == dtype
    assert units.centre.any() == (form is np.asarray)


@FORMS
@pytest.mark.kernel
def test_averages_in_units_are_those_of_the_twin(form):
    after, twin, _, units = one_epoch(make_problem(41, 7, 3, form=form), 8, average=True)
    roots = np.sqrt(units.metric)
    found = after.own.coef.reshape(3, 7)
    np.testing.assert_allclose(found / roots, twin.averages[0] / roots, atol=1e-10)
    np.testing.assert_allclose(after.own.intercept, twin.averages[1], rtol=1e-9)


@FORMS
@pytest.mark.kernel
def test_the_balanced_order_balances_in_these_units(form):
    """Gradients are compared in the metric, the intercepts' part as it is."""
    problem = make_problem(41, 7, 3, form=form, l2=0.0)
    units, rows = units_of(problem), np.random.default_rng(2).permutation(41)
    solver = replace(make_softmax_sgd(problem, False, threads=1), preconditioner=units)
    batches = cut(rows, 4)._replace(unit=1)
    after = solver.epoch(*solver.init(), batches, Schedule(INVERSE_TIME, 1e-12))
    gradients = problem.slopes()[rows][:, :, None] * units.rows(problem.X)[rows][:, None, :]
    np.testing.assert_array_equal(after.order, balanced_order(gradients, rows))


@FORMS
@pytest.mark.kernel
def test_single_rows_in_units_follow_the_gradient_on_average(form):
    """Over all draws of one row, the step is along the gradient of these units: unbiased."""
    problem = make_problem(9, 3, 4, form=form, l2=0.0)
    units, rng = units_of(problem), np.random.default_rng(0)
    coef, constants = rng.normal(size=(4, 3)) * np.sqrt(units.metric), rng.normal(size=4)
    solver = replace(make_softmax_sgd(problem, False, threads=1), preconditioner=units)
    moves = []
    for row in range(9):
        state, own = solver.init(coef, constants)
        moved = solver.epoch(state, own, cut(np.array([row]), 1), Schedule(0, 0.2)).state
        moves.append(np.append(moved.coef - state.coef, moved.intercept - state.intercept))
    slopes = problem.slopes(coef, constants)
    seen = units.rows(problem.X)[:, :-1] / np.sqrt(units.metric)
    along = units.metric * (slopes.T @ seen) / 9
    back = slopes.mean(axis=0) - along @ units.centre  # the intercept of columns as they are
    expected = -0.2 * np.append(along, back)
    np.testing.assert_allclose(np.mean(moves, axis=0), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.kernel
def test_threads_do_not_change_a_bit_in_units():
    problem = make_problem(96, 1100, 150, dtype=np.float32)
    one, many = (one_epoch(problem, 32, threads=threads)[0] for threads in (1, 3))
    np.testing.assert_array_equal(one.state.coef, many.state.coef)


@pytest.mark.kernel
def test_columns_that_never_vary_keep_their_weights():
    X, y = make_data(40, 4, 3)
    X[:, 2] = 5.0
    problem = SoftmaxProblem.build(X, y, l2=0.01, fit_intercept=True)
    units = units_of(problem)
    solver = replace(make_softmax_sgd(problem, False, threads=1), preconditioner=units)
    coef = np.zeros((3, 4))
    coef[:, 2] = [1.0, 2.0, 3.0]
    first, own = solver.init()  # which would move such weights into the intercepts
    first = first._replace(coef=coef.ravel())
    state = solver.epoch(first, own, cut(np.arange(40), 8), SCHEDULE).state
    np.testing.assert_array_equal(state.coef.reshape(3, 4)[:, 2], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("centre", "metric", "message"),
    [
        (np.zeros(5), np.ones(4), "metric"),
        (np.zeros(4), np.ones(5), "centre"),
        (np.zeros(5, np.float32), np.ones(5), "float type"),
        (np.ones(5), np.ones(5), "not centred"),
    ],
    ids=["metric", "centre", "type", "sparse"],
)
@pytest.mark.kernel
def test_units_that_do_not_fit_are_refused(centre, metric, message):
    problem = make_problem(12, 5, 3, form=sparse.csr_array)
    units = units_of(problem)._replace(centre=centre, metric=metric)
    solver = replace(make_softmax_sgd(problem, False, threads=1), preconditioner=units)
    with pytest.raises(ValueError, match=message):
        solver.epoch(*solver.init(), cut(np.arange(12), 4), SCHEDULE)


# ---- the optimum


def exact(X, y, alpha=1e-4):
    """LogisticRegression with the same objective."""
    weakness = (1.0 if len(np.unique(y)) > 2 else 2.0) / (alpha * len(y))
    return LogisticRegression(C=weakness, tol=1e-7, max_iter=10_000).fit(X, y)


@FORMS
def test_units_do_not_move_the_optimum(form):
    """From the optimum, a step along the gradient of all rows leads back to it, long or short."""
    X, y = make_data(400, 8, 4)
    best = LogisticRegression(C=1.0 / (0.03 * 400), tol=1e-13, max_iter=10_000).fit(X, y)
    problem = SoftmaxProblem.build(form(X), y, l2=0.03, fit_intercept=True)
    solver = replace(make_softmax_sgd(problem, False), preconditioner=units_of(problem))
    roots = np.sqrt(solver.preconditioner.metric)
    for eta0 in (0.1, 10.0):
        state = solver.epoch(
            *solver.init(best.coef_, best.intercept_), cut(np.arange(400), 400), Schedule(0, eta0)
        ).state
        moved = (state.coef.reshape(4, 8) - best.coef_) / roots
        assert np.abs(moved).max() < 1e-5 * eta0
        np.testing.assert_allclose(state.intercept, best.intercept_, atol=1e-3)


@FORMS
def test_many_steps_in_units_end_at_the_optimum(form):
    """Shrinking after some steps, or when a column is met again, moves nothing either."""
    X, y = make_data(400, 8, 4)
    X = X / X.std(axis=0)
    best = exact(X, y, 0.03)
    problem = SoftmaxProblem.build(form(X), y, l2=0.03, fit_intercept=True)
    least = problem.objective(best.coef_, best.intercept_)
    model = SGDClassifier("softmax", alpha=0.03, tol=None, max_iter=300, random_state=0, decay=0.01)
    model.fit(form(X), y)
    assert problem.objective(model.coef_, model.intercept_) - least < 1e-4 * (np.log(4) - least)


def test_scale_and_offset_of_columns_do_not_matter():
    """Without a penalty, columns in other units give the same predictions."""
    X, y = make_data(300, 6, 3)
    moved = X * 10.0 ** np.arange(-3, 3) + 1000.0 * 10.0 ** np.arange(-3, 3)
    kind = {"alpha": 0.0, "tol": None, "max_iter": 5, "random_state": 0}
    one, other = (SGDClassifier("softmax", **kind).fit(rows, y) for rows in (X, moved))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(moved), atol=1e-6)


def test_the_same_seed_gives_the_same_bits_in_units():
    X, y = make_data(300, 6, 3)
    one, same = (SGDClassifier("softmax", random_state=5).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, same.coef_)
    np.testing.assert_array_equal(one.intercept_, same.intercept_)


def test_minimize_takes_softmax_steps_in_units_when_asked():
    X, y = make_data(400, 8, 4)
    problem = SoftmaxProblem.build(X, y, l2=1e-4, fit_intercept=True)
    best = exact(X, y)
    least, gaps = problem.objective(best.coef_, best.intercept_), []
    for steps in (Auto(), Auto(precondition=True)):
        found = minimize(
            X, y, loss="softmax", l2=1e-4, fit_intercept=True, steps=steps, epochs=10, seed=0
        )
        gaps.append(problem.objective(found.coef, found.intercept) - least)
    assert gaps[1] < 0.3 * gaps[0]


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_digits])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_raw_columns_need_no_scaler(load):
    """Five-fold accuracy is at most half a point below that of the exact optimum."""
    X, y = load(return_X_y=True)
    scores = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        both = SGDClassifier("softmax", random_state=0), LogisticRegression(C=1e4 / len(train))
        scores.append([one.fit(X[train], y[train]).score(X[test], y[test]) for one in both])
    own, best = np.mean(scores, axis=0)
    assert own >= best - 0.005


def test_a_fit_begins_at_the_shares_of_the_classes():
    """Weighted, and finite for a class whose rows have no weight."""
    y = np.array([0, 0, 0, 1, 1, 2])
    weight = np.array([1.0, 1.0, 1.0, 2.0, 4.0, 0.0])
    problem = SoftmaxProblem.build(
        np.zeros((6, 1)), y, sample_weight=weight, fit_intercept=True, l2=0.1
    )
    constants = start_of_problem(problem)
    assert constants[1] - constants[0] == pytest.approx(np.log(2.0))
    assert -5.0 < constants[2] < constants[0]


# ---- no silent failure


@pytest.mark.parametrize("shape", [(500, 6, 4), (800, 60, 12)], ids=str)
@FORMS
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_decrement_is_near_the_gap(shape, form, fit_intercept):
    """Near the optimum, within a factor of two."""
    X, y = make_data(*shape)
    X = X / X.std(axis=0)
    problem = SoftmaxProblem.build(form(X), y, l2=1e-2, fit_intercept=fit_intercept)
    best = LogisticRegression(
        C=100.0 / shape[0], tol=1e-10, max_iter=10_000, fit_intercept=fit_intercept
    ).fit(X, y)
    rng = np.random.default_rng(0)
    coef = best.coef_ + 0.02 * rng.normal(size=best.coef_.shape)
    objective, estimate = newton_decrement(problem, coef, best.intercept_)
    gap = problem.objective(coef, best.intercept_) - problem.objective(best.coef_, best.intercept_)
    assert objective == pytest.approx(problem.objective(coef, best.intercept_))
    assert 0.5 * gap < estimate < 2.0 * gap


def test_a_fit_that_ends_far_from_the_optimum_says_so():
    """Nearly collinear columns and a weak penalty: tol stops it, and the warning says where."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 20_000)
    shared = rng.normal(size=(20_000, 1))
    X = shared + 1e-3 * (rng.normal(size=(20_000, 30)) + rng.normal(size=(3, 30))[y])
    model = SGDClassifier("softmax", alpha=1e-8, tol=1.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"gap_.*LogisticRegression"):
        model.fit(X, y)
    assert model.gap_ > 0.0


def test_gaps_are_estimated_where_tol_may_end_a_fit():
    """An estimate costs some epochs, so that tol=None has none."""
    X, y = make_data(300, 6, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SGDClassifier("softmax", alpha=0.01, random_state=0).fit(X, y)
    best = exact(X, y, 0.01)
    problem = SoftmaxProblem.build(X, y, l2=0.01, fit_intercept=True)
    gap = problem.objective(model.coef_, model.intercept_) - problem.objective(
        best.coef_, best.intercept_
    )
    assert 0.4 * gap < model.gap_ < 2.5 * gap
    assert np.isnan(SGDClassifier("softmax", tol=None, max_iter=2).fit(X, y).gap_)
    given = SGDClassifier("softmax", learning_rate="constant", eta0=1e-3, tol=1.0)
    assert np.isnan(given.fit(X, y).gap_)


def test_tol_does_not_stop_a_softmax_run_that_still_falls():
    """After six epochs 3 % of the way from a constant are left."""
    X, y = make_data(300, 10, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SGDClassifier("softmax", tol=10.0, random_state=0).fit(X, y)
    assert model.n_iter_ > 6  # the first epoch, and five without a gain of 10


def hard_classes(seed):
    """Rows of any scale and offset in two to five classes, and a strength of the penalty."""
    rng = np.random.default_rng(seed)
    n, d, n_classes = rng.integers(20, 400), rng.integers(1, 12), rng.integers(2, 6)
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    X = rng.normal(size=(n, d)) + rng.uniform(0, 3) * rng.normal(size=(n_classes, d))[y]
    X = X * 10.0 ** rng.uniform(-6, 6, d) * (1.0 + 10.0 ** rng.uniform(-3, 3, d))
    return X, y, 10.0 ** rng.uniform(-5, -1)


def test_no_softmax_fit_ends_far_from_the_optimum_in_silence():
    """A fit that leaves more than 2 % of the way to the optimum says so; most leave less."""
    silent = 0
    for seed in range(40):
        X, y, alpha = hard_classes(seed)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model = SGDClassifier("softmax", alpha=alpha, random_state=0).fit(X, y)
        if any(issubclass(one.category, ConvergenceWarning) for one in seen):
            continue
        silent += 1
        problem = SoftmaxProblem.build(X, y, l2=alpha, fit_intercept=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # rounding ends some of them
            best = exact(X, y, alpha)
        both = []
        for one in (model, best):
            coef, constants = one.coef_, one.intercept_
            if len(model.classes_) == 2:
                coef, constants = np.vstack([-coef, coef]) / 2, np.append(-constants, constants) / 2
            both.append(problem.objective(coef, constants))
        start = problem.objective(None, start_of_problem(problem))
        assert both[0] - both[1] <= 0.02 * (start - both[1]), seed
    assert silent >= 30, f"only {silent} of 40 fits ended without a warning"


# ---- partial_fit


def test_partial_fit_learns_from_raw_chunks():
    X, y = make_data(1200, 8, 4)
    model = SGDClassifier("softmax", random_state=0, average=True)
    for _ in range(3):
        for start in range(0, 1200, 100):
            chunk = slice(start, start + 100)
            model.partial_fit(X[chunk], y[chunk], classes=range(4))
    assert model.score(X, y) > exact(X, y).score(X, y) - 0.02
    assert not hasattr(model, "gap_")


def test_a_chunk_without_a_step_leaves_predictions_unchanged():
    """Moments move with the chunk, and predictions do not."""
    X, y = make_data(200, 5, 3)
    model = SGDClassifier("softmax", random_state=0).partial_fit(X, y, classes=range(3))
    before = model.predict_proba(X)
    model.eta0_ = 1e-30
    model.partial_fit(X + 10.0 * X.std(axis=0), y)
    np.testing.assert_allclose(model.predict_proba(X), before, atol=1e-9)


def test_a_first_chunk_of_one_row():
    X, y = make_data(50, 5, 3)
    model = SGDClassifier("softmax", random_state=0).partial_fit(X[:1], y[:1], classes=range(3))
    for row in range(1, 50):
        model.partial_fit(X[row : row + 1], y[row : row + 1])
    assert np.isfinite(model.coef_).all()


def test_squares_that_overflow_are_reported():
    X, y = make_data(50, 5, 3)
    with pytest.raises(DivergenceError, match="overflow"):
        SGDClassifier("softmax").fit(1e200 * X, y)


def test_averaging_can_be_switched_off_between_chunks():
    """What was averaged before is dropped; nothing of it is read by the next chunk."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)) + 3.0, np.arange(60) % 3
    given = {"loss": "softmax", "learning_rate": "constant", "eta0": 0.01, "random_state": 0}
    averaged, last = SGDClassifier(average=True, **given), SGDClassifier(average=False, **given)
    for model in (averaged, last):
        model.partial_fit(X, y, classes=[0, 1, 2])
    assert not np.array_equal(averaged.coef_, last.coef_)
    for average in (False, True):  # an average that begins again has nothing of the first chunk
        for model in (averaged, last):
            model.set_params(average=average).partial_fit(X, y)
        assert np.isfinite(averaged.coef_).all()
        np.testing.assert_array_equal(averaged.coef_, last.coef_)
        np.testing.assert_array_equal(averaged.intercept_, last.intercept_)


@pytest.mark.parametrize("loss", ["softmax", "log_loss"])
def test_a_column_of_ones_moves_without_an_intercept(loss):
    """Rows are then not centred, so a constant column is one like any other."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 3))
    y = (Z[:, 0] + 2.0 > rng.normal(size=300)).astype(int)
    X = np.c_[Z, np.ones(300)]
    given = {"loss": loss, "l2": 1e-3, "order": "shuffle", "epochs": 30}
    plain, scaled = (
        minimize(X, y, steps=Auto(precondition=precondition), **given).coef.reshape(-1, 4)
        for precondition in (False, True)
    )
    assert np.abs(scaled[:, 3]).max() > 0.5 * np.abs(plain[:, 3]).max() > 0.2
