"""Squared errors with an L2 penalty: the minimum from one visit to the rows."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import reference
from scipy import sparse

from antithetic import SGDRegressor
from antithetic._core import kernels
from antithetic.estimators import sgd, squares
from antithetic.problem import Problem
from antithetic.solvers.newton import squares as from_products

pytestmark = pytest.mark.sanitized

RNG = np.random.default_rng(0)
NONE = np.empty(0)


# ---- the kernel


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 7), (127, 8), (129, 15), (300, 33), (700, 50)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.kernel
def test_products_equal_their_twin(n, d, kind, intercept):
    """Sums of products agree with NumPy's for all shapes, weights, centres and threads."""
    X, y = (RNG.normal(size=(n, d)) + 3.0).astype(kind), RNG.normal(size=n)
    weight, centre = RNG.random(n), RNG.normal(size=d)
    weight[::3] = 0.0
    rows, columns = kernels.Rows.dense(X), d + intercept + 1
    for given in (NONE, weight):
        known = reference.squares(X, y, given, centre, 0.3, intercept) / n
        size = np.sqrt(known.diagonal())
        for threads in (1, 3):
            for is_single, rtol in ((False, 1e-14), (True, 1e-5)):
                found = np.zeros((columns, columns))
                assert rows.squares(y, given, centre, 0.3, intercept, is_single, found, threads)
                assert (np.abs(found - known) <= rtol * np.outer(size, size)).all()
                np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (130, 3), (-1, -1)])
@pytest.mark.kernel
def test_sums_are_finite_only_if_all_entries_are(wrong, place):
    """No entry that is not finite goes unnoticed: the same visit replaces a check of the rows."""
    X, y = RNG.normal(size=(200, 17)), RNG.normal(size=200)
    X[place] = wrong
    assert from_products.sum_squares(X, y, None, fit_intercept=False) is None
    y[place[0]], X[place] = wrong, 0.0
    assert from_products.sum_squares(X, y, None, fit_intercept=True) is None


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 33, 127])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.kernel
def test_the_minimum_of_products_equals_its_twin(d, intercept):
    """One call finds the minimum, the objectives, the gap and the size of columns of any scale."""
    X = (RNG.normal(size=(300, d)) + 0.3) * np.geomspace(1e-3, 1e3, d)
    y = (X / np.geomspace(1e-3, 1e3, d)).sum(axis=1) + RNG.normal(size=300)
    products = reference.squares(X, y, NONE, np.zeros(d), 0.0, intercept) / 300
    theta = np.empty(d + intercept)
    rounding = 1e-9  # so large that no other matters to the gap
    found = kernels.minimise_products(products, 1e-2, intercept, rounding, theta)
    known, numbers = reference.minimum_of_products(products, 1e-2, intercept, rounding)
    np.testing.assert_allclose(theta, known, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found, numbers, rtol=1e-6)


@pytest.mark.kernel
def test_an_indefinite_matrix_has_no_minimum():
    """Rounding may leave products that no rows have: another method has to go on."""
    products = np.array([[1.0, 3.0, 1.0], [3.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert kernels.minimise_products(products, 1e-3, False, 1e-14, np.empty(2)) is None


def test_threads_take_no_more_room_than_the_rows(monkeypatch):
    """Each thread has sums of its own, so that many of them need many rows."""
    threads = []

    class Rows:
        def squares(self, *given):
            threads.append(given[-1])

    monkeypatch.setattr(from_products, "kernel_rows", lambda _: Rows())
    monkeypatch.setattr(from_products, "default_threads", lambda: 64)
    monkeypatch.setattr(from_products, "ENTRIES_PER_THREAD", 1)
    for n in (20, 500, 10_000):
        from_products.sum_squares(np.ones((n, 99)), np.ones(n), None, fit_intercept=False)
    assert threads == [1, 5, 64]


# ---- the minimum, against one of more digits


def exact(X, y, weight, l2, intercept):
    """Minimum and a function that gives the objective, both of extended precision.

    Columns and targets are centred exactly enough, and Gaussian elimination is followed by
    corrections of its own.
    """
    wide = np.longdouble
    X, y = X.astype(wide), y.astype(wide)
    s = np.ones(len(y), wide) if weight is None else weight.astype(wide)
    n = wide(len(y))
    shift = (s @ X) / s.sum() if intercept else np.zeros(X.shape[1], wide)
    level = (s @ y) / s.sum() if intercept else wide(0)
    Z, t = X - shift, y - level
    H = (Z.T * s) @ Z / n + wide(l2) * np.eye(X.shape[1], dtype=wide)
    w = np.zeros(X.shape[1], wide)
    for _ in range(3):
        w = w - eliminate(H, Z.T @ (s * (Z @ w - t)) / n + wide(l2) * w)

    def objective(coef, constant):
        residuals = X @ coef.astype(wide) + wide(constant) - y
        return 0.5 * (s @ residuals**2) / n + 0.5 * wide(l2) * (coef.astype(wide) ** 2).sum()

    best = 0.5 * (s @ (Z @ w - t) ** 2) / n + 0.5 * wide(l2) * (w @ w)
    return w, best, objective, 0.5 * (s @ t**2) / n


def eliminate(H, b):
    """Solution of a linear system, with the number type that it has."""
    H, b = H.copy(), b.copy()
    k = len(b)
    for j in range(k):
        factors = H[j + 1 :, j] / H[j, j]
        H[j + 1 :] -= factors[:, None] * H[j]
        b[j + 1 :] -= factors * b[j]
    for j in reversed(range(k)):
        b[j] = (b[j] - H[j, j + 1 :] @ b[j + 1 :]) / H[j, j]
    return b


def hard_cases():
    """Name, rows, targets, weights and penalty."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 12))
    y = X @ rng.normal(size=12) + rng.normal(size=400)
    weight = rng.random(400) * (rng.random(400) > 0.4)
    twins = np.column_stack([X, X[:, :3] + 1e-9 * rng.normal(size=(400, 3))])
    wide = rng.normal(size=(600, 180)) + 0.7 * rng.normal(size=(600, 1))
    return {
        "plain": (X, y, None, 1e-3),
        "weights of zero": (X, y, weight, 1e-3),
        "weights of any size": (X, y, 10.0 ** rng.uniform(-6, 6, 400), 1e-3),
        "nearly perfect": (X, X @ rng.normal(size=12) + 1e-7 * rng.normal(size=400), None, 1e-12),
        "perfect": (X, X @ np.ones(12), None, 1e-14),
        "offset": (X + 1e6, y, None, 1e-3),
        "offset of targets": (X, y + 1e6, None, 1e-3),
        "collinear": (twins, y, None, 1e-8),
        "collinear, no penalty to speak of": (twins, y, None, 1e-13),
        "tiny penalty": (X, y, None, 1e-15),
        "scales": (X * np.geomspace(1e-6, 1e6, 12), y, None, 1e-4),
        "a constant column": (np.column_stack([X, np.full(400, 7.0)]), y, None, 1e-4),
        "fewer rows than columns": (X[:8], y[:8], None, 1e-3),
        "one row": (X[:1], y[:1], None, 1e-3),
        "a constant target": (X, np.full(400, 3.3), None, 1e-3),
        "zeros": (X, np.zeros(400), None, 1e-3),
        "large": (1e150 * X, 1e150 * y, None, 1e-3),
        "wide": (wide, wide @ rng.normal(size=180) + rng.normal(size=600), None, 1e-4),
        "wide and offset": (wide + 1e3, wide @ rng.normal(size=180), None, 1e-6),
        "wide and large": (1e30 * wide, 1e30 * wide @ rng.normal(size=180), None, 1e-4),
        "wide and fewer rows": (wide[:100], wide[:100, 0], None, 1e-2),
        "heavy": (X, 1e100 * (1.0 + 1e-3 * y), 1e100 * rng.random(400), 1e-3),
        "no noise": (X, X @ np.ones(12), None, 1e-6),
    }


CASES = hard_cases()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_hard_cases_end_at_the_minimum(name, intercept):
    """The objective is the least there is, up to rounding of predictions, however hard the rows."""
    X, y, weight, l2 = CASES[name]
    model = SGDRegressor(alpha=l2, solver="newton", fit_intercept=intercept)
    model.fit(X, y, sample_weight=weight)
    _, best, objective, constant = exact(X, y, weight, l2, intercept)
    reached = objective(model.coef_, model.intercept_[0])
    # a prediction of float64 is off by this much, whoever computed the weights
    unit = np.finfo(float).eps
    largest = np.abs(X * model.coef_).sum(axis=1).max() + np.abs(y).max()
    shown = (4.0 * unit * largest) ** 2 * (1.0 if weight is None else weight.mean())
    assert reached - best <= 1e-12 * constant + shown
    assert model.history_["objective"][-1] == pytest.approx(float(reached), rel=1e-8, abs=shown)


@pytest.mark.parametrize("missing", [1e10, 1e16, 1e20])
@pytest.mark.parametrize("d", [5, 160])
def test_what_a_row_of_weight_zero_holds_changes_nothing(d, missing):
    """A number that stands for a missing one may be as large as it likes, by either method."""
    rng = np.random.default_rng(2)
    X, weight = rng.normal(size=(400, d)), np.ones(400)
    y = X @ rng.normal(size=d) + rng.normal(size=400)
    weight[3] = weight[200] = 0.0
    X[3, 1], y[200] = missing, missing
    _, best, objective, constant = exact(X, y, weight, 1e-3, True)
    for trace in (None, "objective"):  # with a trace, iterations
        model = SGDRegressor(alpha=1e-3, solver="newton", trace=trace)
        model.fit(X, y, sample_weight=weight)
        assert objective(model.coef_, model.intercept_[0]) - best <= 1e-14 * constant


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_what_a_row_of_weight_zero_holds_changes_no_unit(make):
    """Conjugate gradients of few rows of many columns are told nothing of such a row."""
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(100, 700)), np.ones(100)
    y, weight[3] = X[:, :5].sum(axis=1), 0.0
    found = []
    for missing in (1.0, 1e18):
        X[3] = missing
        model = SGDRegressor(alpha=1e-2, solver="newton").fit(make(X), y, sample_weight=weight)
        found.append(model.coef_)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_gap_is_a_bound(name):
    """The true distance from the minimum is at most the gap that is shown."""
    X, y, weight, l2 = CASES[name]
    given = {"solver": "newton", "stopping": "gap", "fit_intercept": False, "max_iter": 20}
    _, best, objective, constant = exact(X, y, weight, l2, False)
    for share in (1e-2, 1e-8):
        model = SGDRegressor(alpha=l2, tol=float(share * constant), **given)
        model.fit(X, y, sample_weight=weight)
        left = objective(model.coef_, 0.0) - best
        assert left <= model.history_["gap"][-1] * (1.0 + 1e-6) + 1e-18 * constant


def any_rows(rng):
    """Rows of any scale, offset and dependence, targets, weights and penalty."""
    n, d = int(10.0 ** rng.uniform(0.0, 2.5)), int(10.0 ** rng.uniform(0.0, 1.4))
    X = rng.normal(size=(n, d)) * 10.0 ** (rng.integers(2) * rng.uniform(-5, 5, d))
    X += rng.integers(2) * 10.0 ** rng.uniform(-2, 6)
    if d > 2:
        X[:, 1] = X[:, 0] + 10.0 ** rng.uniform(-12, 0) * X[:, 1]
    noise = 10.0 ** rng.uniform(-8, 1) * rng.normal(size=n)
    y = 10.0 ** rng.uniform(-6, 1) * (X @ rng.normal(size=d)) + noise
    weight = 10.0 ** rng.uniform(-5, 5, n) * (rng.random(n) < 0.7) + 1e-9
    l2 = 10.0 ** rng.uniform(-14, 2) * (X * X).mean(axis=0).max()
    return X, y, weight if rng.integers(2) else None, l2


def test_random_minima_are_no_further_than_they_say():
    """Whatever the rows are, a minimum that is given has a gap that bounds its distance."""
    given = 0
    for seed in range(60):
        X, y, weight, l2 = any_rows(np.random.default_rng(seed))
        problem = Problem.build(X, y, loss="squared_error", l2=l2, sample_weight=weight)
        found = from_products.sum_squares(X, y, weight, fit_intercept=False)
        point = from_products.vouched_minimum(found, l2, fit_intercept=False)
        points = [point] if point else from_products.corrected_minimum(found, problem, None)
        if points is None:
            continue
        given += 1
        _, best, objective, constant = exact(X, y, weight, l2, False)
        left = objective(points[-1].coef, 0.0) - best
        # the last term is the rounding of the rows' own gradient
        assert left <= points[-1].gap * (1.0 + 1e-6) + 1e-16 * constant, seed
        assert points[-1].gap <= 1e-12 * constant, seed
    assert given >= 55, f"only {given} of 60 minima were given"


def test_easy_cases_need_one_visit(monkeypatch):
    """Where rounding does not matter, nothing visits the rows again."""
    monkeypatch.setattr(from_products, "RowSums", None)
    monkeypatch.setattr(SGDRegressor, "_fit", None)
    easy = ["plain", "weights of zero", "a constant column", "fewer rows than columns", "zeros"]
    for name in easy:
        X, y, weight, l2 = CASES[name]
        for intercept in (False, True):
            model = SGDRegressor(alpha=l2, solver="newton", fit_intercept=intercept)
            model.fit(X, y, sample_weight=weight)
            w, *_ = exact(X, y, weight, l2, intercept)
            np.testing.assert_allclose(model.coef_, w.astype(float), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["nearly perfect", "perfect", "no noise", "tiny penalty", "offset"]
)
def test_sums_that_say_too_little_are_not_trusted(name):
    """Where rounding of the sums matters, they do not decide."""
    X, y, weight, l2 = CASES[name]
    sums = from_products.sum_squares(X, y, weight, fit_intercept=False)
    assert from_products.vouched_minimum(sums, l2, fit_intercept=False) is None


# ---- as an estimator


def both(monkeypatch, X, y, weight=None, **given):
    """A fit from one visit, and one by iterations."""
    with monkeypatch.context() as patch:
        patch.setattr(SGDRegressor, "_fit", None)
        at_once = SGDRegressor(solver="newton", **given).fit(X, y, sample_weight=weight)
    with monkeypatch.context() as patch:
        patch.setattr(sgd, "can_be_squares", lambda _: False)
        usual = SGDRegressor(solver="newton", **given).fit(X, y, sample_weight=weight)
    return at_once, usual


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(300, 8), (2500, 30), (900, 160)])
@pytest.mark.parametrize("stop", ["objective", "gap", None])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_attributes_are_those_of_iterations(monkeypatch, kind, shape, stop):
    """Weights, records and what partial_fit continues from agree, up to rounding."""
    X = RNG.normal(size=shape).astype(kind)
    y = X[:, :5].sum(axis=1) + RNG.normal(size=len(X))
    weight = RNG.random(len(X))
    given = {"stopping": stop, "tol": 1e-7} if stop else {"tol": None, "max_iter": 9}
    for intercept in (False, True):
        if stop == "gap" and intercept:
            continue
        for counted in (None, weight):
            one, other = both(
                monkeypatch, X, y, counted, alpha=0.01, fit_intercept=intercept, **given
            )
            assert set(vars(one)) == set(vars(other))
            np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=1e-4, atol=1e-5)
            assert one.coef_.dtype == other.coef_.dtype
            assert one.intercept_.dtype == other.intercept_.dtype
            assert one.plan_ == other.plan_
            assert list(one.history_) == list(other.history_)
            assert one.history_["objective"][-1] == pytest.approx(
                other.history_["objective"][-1], rel=1e-6
            )
            assert 0.0 <= one.gap_ <= 1e-7
            assert 0.0 <= other.gap_ <= 1e-7
            assert one._converged


@pytest.mark.parametrize("tol", [None, 1e-3])
@pytest.mark.parametrize("name", ["plain", "nearly perfect", "wide"])
def test_the_history_has_an_entry_for_each_visit_to_the_rows(name, tol):
    """No epoch is recorded that never was: each entry has a time and an objective of its own."""
    X, y, weight, l2 = CASES[name]
    model = SGDRegressor(alpha=l2, solver="newton", tol=tol).fit(X, y, sample_weight=weight)
    history = model.history_
    assert (history["epoch"] == np.arange(1, model.n_iter_ + 1)).all()
    assert model.t_ == 1 + model.n_iter_ * len(X)
    assert 1 <= model.n_iter_ <= 4
    assert (np.diff(history["seconds"], prepend=0.0) > 0.0).all()


def test_sparse_rows_have_the_same_minimum():
    """Dense and sparse rows lead to the same weights."""
    X = np.where(RNG.random((500, 20)) < 0.3, RNG.normal(size=(500, 20)), 0.0)
    y = X.sum(axis=1) + RNG.normal(size=500)
    for intercept in (False, True):
        make = SGDRegressor(alpha=1e-3, solver="newton", fit_intercept=intercept)
        dense, spread = make.fit(X, y).coef_, make.fit(sparse.csr_array(X), y).coef_
        np.testing.assert_allclose(dense, spread, rtol=1e-9)


@pytest.mark.parametrize(
    "given",
    [
        {"trace": "gradient"},
        {"loss": "huber"},
        {"penalty": "l1"},
        {"penalty": None},
        {"alpha": 0.0},
        {"early_stopping": True},
        {"warm_start": True},
        {"verbose": 1},
        {"stopping": "gradient"},
        {"solver": "sgd"},
    ],
)
def test_other_settings_take_the_usual_way(given):
    """What has to be seen on the way, or is not a sum of squares, is left to iterations."""
    assert squares.can_be_squares(SGDRegressor(solver="newton"))
    assert not squares.can_be_squares(SGDRegressor(**{"solver": "newton", **given}))


def test_weights_to_begin_with_take_the_usual_way(monkeypatch):
    """A fit with initial weights or a validation set is one by iterations."""
    monkeypatch.setattr(SGDRegressor, "_fit_squares", None)
    X, y, _, _ = CASES["plain"]
    SGDRegressor(solver="newton").fit(X, y, coef_init=np.ones(12))
    assert "validation_score" in SGDRegressor(solver="newton").fit(X, y, X_val=X, y_val=y).history_


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_errors_are_those_of_scikit_learn(wrong):
    """Entries that are not finite are refused, and leave a fitted model as it was."""
    X, y, _, _ = CASES["plain"]
    model = SGDRegressor(solver="newton").fit(X, y)
    before = dict(vars(model))
    bad = X.copy()
    bad[7, 3] = wrong
    with pytest.raises(ValueError, match="Input X contains"):
        model.fit(bad, y)
    with pytest.raises(ValueError, match="Input y contains"):
        model.fit(X, np.where(np.arange(400) == 9, wrong, y))
    with pytest.raises(ValueError, match="zero for every row"):
        model.fit(X, y, sample_weight=np.zeros(400))
    assert vars(model) == before


def test_a_fit_that_ends_at_the_minimum_needs_no_more_epochs():
    """One visit suffices, so max_iter=1 leads to no warning."""
    X, y, _, l2 = CASES["plain"]
    model = SGDRegressor(solver="newton", alpha=l2, max_iter=1).fit(X, y)
    assert model.n_iter_ == 1
    assert model.gap_ <= 1e-15


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that sends signals")
def test_the_visit_can_be_interrupted(monkeypatch):
    """Ctrl-C ends the visit to many rows, and leaves the model without weights."""

    def interrupt(*_):
        raise KeyboardInterrupt

    X, y, model = np.ones((20_000, 400)), np.ones(20_000), SGDRegressor(solver="newton")
    monkeypatch.setattr(SGDRegressor, "_fit", None)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert not hasattr(model, "coef_")
