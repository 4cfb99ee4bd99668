"""Leave-one-out: every interval contains the score of the fit that was really made without the row.

Fits without rows are made by a Newton method of the tests, in float64 and to the last digits.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model as theirs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import antithetic
from antithetic.inference.fitted import read_fitted
from antithetic.inference.left_out import Expansion
from antithetic.problem.loss import Loss

leave_one_out = antithetic.inference.leave_one_out
RNG = np.random.default_rng(0)
N, D = 70, 4
X = RNG.normal(size=(N, D)) * [1.0, 0.3, 2.0, 1.0]
LINEAR = X @ [0.6, -1.0, 0.2, 0.0] + 0.3
WEIGHT = RNG.uniform(0.2, 3.0, N)
OFFSET = 0.3 * RNG.normal(size=N)
TWO = np.where(LINEAR + RNG.logistic(size=N) > 0.0, "yes", "no")
THREE = np.digitize(LINEAR + RNG.logistic(size=N), [-0.8, 0.9])
MEAN = np.exp(LINEAR)
COUNTS = RNG.poisson(MEAN).astype(float)
AMOUNTS = COUNTS * RNG.gamma(2.0, 1.0, N)
POSITIVE = RNG.gamma(2.0, MEAN) + 1e-3
MODELS = {
    "logistic": (antithetic.LogisticRegression(C=0.5), TWO),
    "logistic, weak": (antithetic.LogisticRegression(C=100.0), TWO),
    "logistic, none": (antithetic.LogisticRegression(C=np.inf), TWO),
    "logistic, no intercept": (antithetic.LogisticRegression(fit_intercept=False), TWO),
    "logistic, balanced": (antithetic.LogisticRegression(class_weight="balanced"), TWO),
    "softmax": (antithetic.LogisticRegression(C=1.0), THREE),
    "softmax, none": (antithetic.LogisticRegression(C=np.inf), THREE),
    "ridge": (antithetic.Ridge(alpha=2.0), LINEAR + AMOUNTS),
    "poisson": (antithetic.PoissonRegressor(alpha=0.1), COUNTS),
    "gamma": (antithetic.GammaRegressor(alpha=0.03), POSITIVE),
    "tweedie": (antithetic.TweedieRegressor(power=1.4, alpha=0.3), AMOUNTS),
    "normal": (antithetic.TweedieRegressor(power=0.0, alpha=0.2), LINEAR),
    "no penalty": (antithetic.PoissonRegressor(alpha=0.0), COUNTS),
}
CLASSES = [name for name in MODELS if name.startswith(("logistic", "softmax"))]


def read(name, **given):
    model, y = MODELS[name]
    return read_fitted(model.fit(X, y, sample_weight=given.get("sample_weight")), X, y, **given)


def scores_without(fitted, members):
    """Scores of some rows in the optimum without them, to the last digits."""
    rows = np.concatenate([block for _, block in fitted.blocks()])
    k, s = fitted.n_classes, fitted.weight.copy()
    s[members] = 0.0
    share = 0.0 if fitted.penalty_share is None else fitted.penalty_share[members].sum()
    P, theta = (1.0 - share) * fitted.penalty, fitted.theta.reshape(k, -1).copy()
    shift = fitted.offset[:, None]

    def values(theta):
        e = rows @ theta.T + shift
        if k == 1:
            return e, s @ fitted.loss.value(fitted.y, e[:, 0]) + 0.5 * np.sum(P * theta**2)
        own = e[np.arange(len(e)), fitted.y]
        return e, s @ (np.logaddexp.reduce(e, axis=1) - own) + 0.5 * np.sum(P * theta**2)

    e, height = values(theta)
    for _ in range(200):
        if k == 1:
            slopes = fitted.loss.slope(fitted.y, e[:, 0])[:, None]
            bends = fitted.loss.curvature(fitted.y, e[:, 0])[:, None, None]
        else:
            slopes = np.exp(e - np.logaddexp.reduce(e, axis=1)[:, None])
            bends = slopes[:, :, None] * (np.eye(k) - slopes[:, None, :])
            slopes[np.arange(len(e)), fitted.y] -= 1.0
        gradient = ((s[:, None] * slopes).T @ rows + P * theta).ravel()
        hessian = np.einsum("n,nkl,ni,nj->kilj", s, bends, rows, rows, optimize=True)
        for one in range(k):
            hessian[one, :, one] += np.diag(P)
        hessian = hessian.reshape(len(gradient), -1)
        if k == 1:
            step = np.linalg.solve(hessian, gradient)
        else:  # the same vector added to all classes changes nothing
            step = np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
        length = 1.0
        while length > 1e-8:
            there = theta - length * step.reshape(theta.shape)
            e_there, height_there = values(there)
            if height_there <= height + 1e-13 * abs(height):
                break
            length /= 2.0
        theta, e, height = there, e_there, height_there
        if abs(gradient @ step) < 1e-24:
            break
    found = e[members] - (e[members].mean(axis=1, keepdims=True) if k > 1 else 0.0)
    return found[:, 0] if k == 1 else found


def all_without(fitted, groups=None):
    codes = np.arange(fitted.n) if groups is None else groups
    found = np.empty_like(fitted.scores)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        found[members] = scores_without(fitted, members)
    return found


def check(result, truth, fitted):
    """Truth is inside the intervals, and what follows from it inside the bounds of the means."""
    digits = 1e-11 * (1.0 + np.abs(truth))
    assert (result.lower <= truth + digits).all()
    assert (truth - digits <= result.upper).all()
    low, high = result.lower, result.upper
    assert ((low <= result.score) & (result.score <= high)).all()
    weight = result.weight
    if result.classes is None:
        losses, bounds = 2.0 * fitted.loss.value(fitted.y, truth), result.deviance
    else:
        is_two = truth.ndim == 1
        scores = np.stack([np.zeros(len(truth)), truth], axis=1) if is_two else truth
        own = scores[np.arange(len(truth)), result.y]
        losses, bounds = np.logaddexp.reduce(scores, axis=1) - own, result.log_loss
        wrong = scores.argmax(axis=1) != result.y
        error = np.average(wrong, weights=weight)
        assert result.error_rate[0] <= error + 1e-12
        assert error - 1e-12 <= result.error_rate[1]
        assert result.is_open.any() == (result.error_rate[0] < result.error_rate[1])
    mean = np.average(losses, weights=weight)
    assert bounds[0] <= mean + 1e-10 * (1.0 + mean)
    assert mean - 1e-10 * (1.0 + mean) <= bounds[1]
    assert (result.loss[:, 0] <= losses + 1e-9 * (1.0 + losses)).all()
    assert (losses <= result.loss[:, 1] + 1e-9 * (1.0 + losses)).all()


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_of_fits_without_a_row_are_in_their_intervals(name, weight):
    model, y = MODELS[name]
    fitted = read(name, sample_weight=weight)
    result = leave_one_out(model, X, y, sample_weight=weight)
    assert not result.is_open.any()
    assert np.isfinite(result.upper).all()
    check(result, all_without(fitted), fitted)


@pytest.mark.parametrize("name", ["logistic", "softmax", "poisson", "ridge"])
def test_groups_are_left_out_together(name):
    model, y = MODELS[name]
    groups = RNG.permutation(np.arange(N) // 3)
    groups[:2] = 100  # sizes differ
    fitted = read(name, sample_weight=WEIGHT)
    result = leave_one_out(model, X, y, sample_weight=WEIGHT, groups=groups)
    check(result, all_without(fitted, groups), fitted)
    assert "one group" in repr(result)


@pytest.mark.parametrize("name", MODELS)
def test_weights_off_the_optimum_widen_every_tier(name):
    """The bounds are of the optimum without the row, from any point near that of all rows."""
    fitted = read(name, sample_weight=WEIGHT)
    rng = np.random.default_rng(1)
    off = fitted.at(fitted.theta + 0.02 * rng.standard_normal(fitted.theta.shape))
    expansion = Expansion.at(off, polish=False)
    assert expansion.nu > 1e-3
    for k in (1, 3):
        members = rng.permutation(N)[: N // k * k].reshape(-1, k)[:23]
        truth = np.array([scores_without(fitted, one) for one in members])
        group, bounded = expansion.group(members), []
        for bound in (
            expansion.first,
            expansion.nearly_second,
            expansion.second,
            expansion.third,
        ):
            found = bound(group)
            error, spread = found.scores - truth, found.spread
            if truth.ndim == 3:
                error = error[..., 1:] - error[..., :1]
                own = np.einsum("mkaa->mka", spread)
                spread = own[..., 1:] + own[..., :1] - 2.0 * spread[..., 0, 1:]
            radius = found.rho.reshape(-1, *[1] * (error.ndim - 1)) * np.sqrt(spread)
            assert (np.abs(error) <= radius + 1e-11).all()
            bounded.append(np.isfinite(found.rho).mean())
        assert bounded[0] <= bounded[2] <= bounded[3]
        assert bounded[3] == 1.0


def sharp(name):
    """Rows whose losses have a third derivative as large as the bounds allow."""
    rows = np.ones((400, 1))
    if name == "poisson":
        y = np.full(400, 3.0)
        y[0] = 40.0
        return antithetic.PoissonRegressor(alpha=0.0, fit_intercept=False), rows, y
    y = np.zeros(400)
    y[:4] = 1.0  # a hundredth: far out, the logistic loss is an exponential
    return antithetic.LogisticRegression(C=np.inf, fit_intercept=False), rows, y


@pytest.mark.parametrize("c", [1.0, 0.7])
@pytest.mark.parametrize("name", ["poisson", "logistic"])
def test_the_constant_of_the_losses_cannot_be_smaller(name, c, monkeypatch):
    """With 0.7 c in place of c, intervals miss their scores."""
    real = Loss.concordance.fget
    monkeypatch.setattr(Loss, "concordance", property(lambda loss: c * real(loss)))
    model, rows, y = sharp(name)
    expansion = Expansion.at(read_fitted(model.fit(rows, y), rows, y))
    found = expansion.first(expansion.group(np.array([[0]])))
    error = abs(found.scores[0, 0] - scores_without(expansion.fitted, np.array([0]))[0])
    ratio = error / (found.rho[0] * np.sqrt(found.spread[0, 0]))
    assert 0.75 < c * ratio < 1.0
    assert (ratio <= 1.0) == (c == 1.0)


@pytest.mark.parametrize(
    ("ours", "other", "y"),
    [
        (
            antithetic.LogisticRegression(C=3.0),
            theirs.LogisticRegression(C=3.0, solver="newton-cholesky", tol=1e-12),
            TWO,
        ),
        (
            antithetic.PoissonRegressor(alpha=0.3),
            theirs.PoissonRegressor(alpha=0.3, solver="newton-cholesky", tol=1e-12),
            COUNTS,
        ),
        (antithetic.Ridge(alpha=3.0), theirs.Ridge(alpha=3.0), LINEAR + COUNTS),
    ],
    ids=["logistic", "poisson", "ridge"],
)
def test_fits_without_a_row_are_those_of_scikit_learn(ours, other, y):
    """Its fits without the row have their scores in the intervals, so the penalties are its own."""
    result = leave_one_out(ours.fit(X, y, sample_weight=WEIGHT), X, y, sample_weight=WEIGHT)
    assert np.median(result.upper - result.lower) < 0.1
    for row in range(0, N, 7):
        kept = np.arange(N) != row
        other.fit(X[kept], y[kept], sample_weight=WEIGHT[kept])
        score = float(X[row] @ other.coef_.ravel() + np.ravel(other.intercept_)[0])
        assert result.lower[row] - 1e-6 <= score <= result.upper[row] + 1e-6


@pytest.mark.parametrize(
    ("loss", "y"), [("poisson", COUNTS), ("gamma", POSITIVE), ("squared_error", LINEAR)]
)
def test_offsets_and_results_of_solve(loss, y):
    given = {"sample_weight": WEIGHT, "offset": OFFSET}
    result = antithetic.solve(X, y, loss=loss, l2=0.1, tol=1e-10, **given)
    found = leave_one_out(result, X, y, **given)
    fitted = read_fitted(result, X, y, **given)
    check(found, all_without(fitted), fitted)


def test_squared_errors_are_exact():
    model = antithetic.Ridge(alpha=2.0).fit(X, COUNTS)
    result = leave_one_out(model, X, COUNTS)
    np.testing.assert_allclose(result.lower, result.upper, rtol=1e-9, atol=1e-9)
    kept = np.arange(N) != 5
    other = theirs.Ridge(alpha=2.0).fit(X[kept], COUNTS[kept])
    np.testing.assert_allclose(result.score[5], other.predict(X[5:6])[0], rtol=1e-10)
    assert result.deviance[0] == pytest.approx(np.mean((result.score - COUNTS) ** 2), rel=1e-9)
    assert result.error_rate is result.log_loss is None


@pytest.mark.parametrize("kind", ["sparse", "float32", "far from zero"])
def test_rows_of_other_kinds(kind):
    rows = X * (np.abs(X) > 0.4)
    rows = {
        "sparse": sparse.csr_array(rows),
        "float32": rows.astype(np.float32),
        "far from zero": rows + 1e6,
    }[kind]
    model = antithetic.LogisticRegression(C=5.0).fit(rows, TWO)
    result, fitted = leave_one_out(model, rows, TWO), read_fitted(model, rows, TWO)
    truth = all_without(fitted)
    slack = 1e-4 if kind == "far from zero" else 1e-9  # rounding of the scores there
    assert ((result.lower <= truth + slack) & (truth - slack <= result.upper)).all()
    assert not result.is_open.any()


def test_fits_decide_what_the_tiers_leave_open():
    """Nearly separated classes with few rows for their columns: refits are needed, and suffice."""
    rows, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    model = antithetic.LogisticRegression(C=100.0).fit(rows, y)
    before = leave_one_out(model, rows, y, refit=None)
    result = leave_one_out(model, rows, y)
    assert before.is_open.any()
    assert not result.is_open.any()
    assert np.isfinite(result.log_loss[1])
    assert before.error_rate[0] <= result.error_rate[0] == result.error_rate[1]
    assert result.error_rate[1] <= before.error_rate[1]
    assert set(result.tier) == {1, 2, 3, 4}
    fitted = read_fitted(model, rows, y)
    for row in np.flatnonzero(result.tier == 4)[:6]:
        truth = scores_without(fitted, np.array([row]))[0]
        assert result.lower[row] - 1e-9 <= truth <= result.upper[row] + 1e-9


def test_all_rows_can_be_fitted_without():
    model = antithetic.LogisticRegression(C=100.0).fit(X, TWO)
    result = leave_one_out(model, X, TWO, refit="all")
    quick = leave_one_out(model, X, TWO)
    assert (result.upper - result.lower).max() < 1e-5
    assert (np.maximum(result.lower, quick.lower) <= np.minimum(result.upper, quick.upper)).all()
    assert "70 a fit" in repr(result)


def test_many_undecided_rows_are_named(monkeypatch):
    module = sys.modules[leave_one_out.__module__]  # whose name in the package is the function's
    monkeypatch.setattr(module, "_MOST_REFITS", 2)
    rows, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    model = antithetic.LogisticRegression(C=100.0).fit(rows, y)
    with pytest.warns(UserWarning, match="undecided after three tiers; 2 of them"):
        result = leave_one_out(model, rows, y)
    assert (result.tier == 4).sum() <= 2
    assert result.is_open.any()


def test_ctrl_c_leaves_the_model_as_it_was(monkeypatch):
    model = antithetic.LogisticRegression(C=100.0).fit(X, TWO)
    before = model.coef_.copy()

    def press(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Expansion, "refitted", press)
        with pytest.raises(KeyboardInterrupt):
            leave_one_out(model, X, TWO, refit="all")
    np.testing.assert_array_equal(model.coef_, before)
    assert not leave_one_out(model, X, TWO).is_open.any()


def test_a_rough_fit_is_refined_and_not_changed():
    """A model far from its optimum is refined first, on a copy."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4000, 5))
    y = (rows[:, 0] + rng.logistic(size=4000) > 0).astype(int)
    model = antithetic.LogisticRegression(tol=0.05).fit(rows, y)
    before, result = model.coef_.copy(), leave_one_out(model, rows, y)
    exact = leave_one_out(antithetic.LogisticRegression(tol=1e-10).fit(rows, y), rows, y)
    np.testing.assert_array_equal(model.coef_, before)
    assert (np.maximum(result.lower, exact.lower) <= np.minimum(result.upper, exact.upper)).all()
    assert result.error_rate[1] - result.error_rate[0] == 0.0


def test_a_row_without_entries_has_the_score_zero():
    """Its label is decided, although its score is: zero predicts the first class."""
    rows = X.copy()
    rows[:2] = 0.0
    y = TWO.copy()
    y[:2] = "no", "yes"
    model = antithetic.LogisticRegression(fit_intercept=False).fit(rows, y)
    result = leave_one_out(model, rows, y)
    assert (result.score[:2] == 0.0).all()
    assert not result.is_open.any()
    truth = all_without(read_fitted(model, rows, y))
    assert result.error_rate[0] == np.mean((truth > 0.0) != (y == "yes"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nothing_is_proved_without_an_optimum():
    """If the classes are separated, a row has no bound unless its score is 0 with any weights."""
    rows = np.append(np.linspace(0.5, 2.0, 20), np.linspace(-2.0, -0.5, 20))[:, None]
    rows[0] = 0.0
    y = np.repeat([1, 0], 20)
    model = antithetic.LogisticRegression(C=np.inf, fit_intercept=False).fit(rows, y)
    result = leave_one_out(model, rows, y, refit=None)
    assert (result.score[0], result.lower[0], result.upper[0]) == (0.0, 0.0, 0.0)
    assert np.isinf(result.upper[1:]).all()
    assert np.isinf(result.log_loss[1])


def test_rows_of_weight_zero_have_scores_and_do_not_count():
    weight = WEIGHT.copy()
    weight[::5] = 0.0
    model = antithetic.LogisticRegression().fit(X, TWO, sample_weight=weight)
    result = leave_one_out(model, X, TWO, sample_weight=weight)
    kept = weight > 0.0
    other = antithetic.LogisticRegression().fit(X[kept], TWO[kept], sample_weight=weight[kept])
    alone = leave_one_out(other, X[kept], TWO[kept], sample_weight=weight[kept])
    np.testing.assert_allclose(result.score[kept], alone.score, atol=1e-4)
    np.testing.assert_allclose(result.error_rate, alone.error_rate, rtol=1e-12)
    np.testing.assert_allclose(result.score[~kept], model.decision_function(X[~kept]), atol=1e-4)


@pytest.mark.parametrize("labels", [2, 3])
def test_suspects_are_the_rows_whose_labels_were_changed(labels):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, 3))
    y = np.digitize(3.0 * rows[:, 0], [-1.0, 1.0][: labels - 1])
    sure = np.argsort(-np.abs(rows[:, 0]))[:5]
    y[sure] = (y[sure] + labels - 1) % labels
    model = antithetic.LogisticRegression().fit(rows, y)
    result = leave_one_out(model, rows, y)
    found = result.suspects(5)
    assert {one.row for one in found} == set(sure.tolist())
    assert [one.probability for one in found] == sorted(one.probability for one in found)
    for one in found:
        assert one.lower <= one.probability <= one.upper < 0.5
        assert one.label == y[one.row] != one.predicted
    np.testing.assert_allclose(result.probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        result.probability.argmax(axis=1) == y, ~(result.margin[:, 0] < 0.0)
    )
    with pytest.raises(ValueError, match="k must be"):
        result.suspects(0)


def test_a_regression_has_no_suspects():
    result = leave_one_out(antithetic.Ridge().fit(X, COUNTS), X, COUNTS)
    with pytest.raises(ValueError, match="only labels"):
        result.suspects()
    with pytest.raises(ValueError, match="need classes"):
        _ = result.probability


def test_the_result_says_what_it_is():
    text = repr(leave_one_out(antithetic.LogisticRegression().fit(X, TWO), X, TWO))
    assert text.startswith("LeaveOneOut of 70 rows, one row left out at a time")
    assert "error rate: " in text
    assert "log loss: " in text
    assert "label is open: 0" in text
    text = repr(leave_one_out(antithetic.PoissonRegressor().fit(X, COUNTS), X, COUNTS))
    assert "deviance: " in text


# ---- refusals


def refused(model, message, *, rows=X, y=TWO, error=ValueError, **given):
    with pytest.raises(error, match=message):
        leave_one_out(model, rows, y, **given)


def test_models_without_bounds_are_refused():
    refused(antithetic.LogisticRegression(l1_ratio=0.5).fit(X, TWO), "L1 penalty")
    refused(
        make_pipeline(StandardScaler(), antithetic.LogisticRegression()).fit(X, TWO),
        "pipeline",
        error=TypeError,
    )
    refused(theirs.LogisticRegression().fit(X, TWO), "not supported", error=TypeError)
    refused(antithetic.SGDClassifier(loss="log_loss").fit(X, TWO), "not supported", error=TypeError)
    refused(antithetic.LogisticRegression(), "not fitted", error=NotFittedError)
    huber = antithetic.solve(X, COUNTS, loss="huber", l2=0.1)
    refused(huber, '"huber" is not supported', y=COUNTS)


def test_other_data_than_those_of_the_fit_are_refused():
    model = antithetic.LogisticRegression().fit(X, TWO)
    refused(model, "3 columns|X has 3", rows=X[:, :3])
    refused(model, "not an optimum", sample_weight=np.exp(2.0 * X[:, 0]))
    refused(model, "not an optimum", rows=X[::-1])
    refused(model, "classes", y=THREE)
    rows = X.copy()
    rows[3, 1] = np.nan
    refused(model, "NaN", rows=rows)


def test_classes_that_a_model_would_not_know_are_named():
    y = np.where(np.arange(N) == 17, "rare", TWO)
    model = antithetic.LogisticRegression().fit(X, y)
    refused(model, "class 'rare' has one row only, row 17", y=y)
    y[18] = "rare"
    model = antithetic.LogisticRegression().fit(X, y)
    refused(model, "all rows of class 'rare' are in group 'b'", y=y,
            groups=np.where(np.arange(N) < 17, "a", "b"))  # fmt: skip


def test_wrong_groups_are_refused():
    model = antithetic.LogisticRegression().fit(X, TWO)
    refused(model, "one label per row", groups=[1, 2])
    refused(model, "one group only", groups=np.zeros(N))
    refused(model, "NaN", groups=np.where(np.arange(N) == 3, np.nan, 1.0))
    rows, y = np.tile(X, (4, 1)), np.tile(TWO, 4)
    model = antithetic.LogisticRegression().fit(rows, y)
    refused(model, "200 rows", rows=rows, y=y, groups=np.arange(4 * N) < 230)


def test_too_many_weights_of_many_classes_are_refused():
    rows = np.random.default_rng(0).normal(size=(300, 130))
    y = np.arange(300) % 4
    model = antithetic.LogisticRegression(C=0.01).fit(rows, y)
    refused(model, "up to 500", rows=rows, y=y)


def test_without_a_definite_hessian_nothing_is_proved():
    """Columns that depend on others, without a penalty."""
    rows = np.column_stack([X, X[:, 0]])
    model = antithetic.PoissonRegressor(alpha=0.0).fit(rows, COUNTS)
    refused(model, "not positive definite|depend", rows=rows, y=COUNTS)


def test_a_wrong_word_is_named():
    refused(antithetic.LogisticRegression().fit(X, TWO), "refit must be", refit="some")


# ---- the display


@pytest.mark.parametrize("name", ["logistic", "softmax", "poisson"])
def test_the_display_shows_scores_intervals_and_moves(name):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    figure = pytest.importorskip("matplotlib.figure")
    model, y = MODELS[name]
    result = leave_one_out(model.fit(X, y), X, y, refit=None)
    display = antithetic.LeaveOneOutDisplay.from_result(
        result, most_moved=3, ax=figure.Figure().subplots()
    )
    shown = np.asarray(display.points_.get_offsets())
    np.testing.assert_array_equal(shown[:, 0], np.arange(N))
    assert len(display.open_.get_offsets()) == result.is_open.sum()
    assert len(display.moves_.get_segments()) == 3
    assert len(display.ax_.texts) == 3
    if name == "poisson":
        np.testing.assert_array_equal(shown[:, 1], result.score)
        assert display.ax_.get_ylabel() == "linear prediction, fitted without it"
    else:
        right = (result.probability.argmax(axis=1) == result.y) == (shown[:, 1] > 0.0)
        assert right.all()
        assert display.ax_.get_ylabel() == "margin of the row's own class, fitted without it"
    display.figure_.canvas.draw()


def test_the_display_marks_open_rows_and_infinite_intervals():
    figure = pytest.importorskip("matplotlib.figure")
    rows, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    model = antithetic.LogisticRegression(C=100.0).fit(rows, y)
    result = leave_one_out(model, rows, y, refit=None)
    assert not np.isfinite(result.lower).all()
    display = antithetic.LeaveOneOutDisplay.from_result(result, ax=figure.Figure().subplots())
    assert len(display.open_.get_offsets()) == result.is_open.sum() > 0
    assert np.isfinite(display.ax_.get_ylim()).all()
