"""Quantile, Poisson, gamma and Tweedie losses: formulas, domains, fits, scores and files."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import kernel_losses
import numpy as np
import pytest
import reference_losses
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import (
    GammaRegressor,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from sklearn.metrics import d2_pinball_score, d2_tweedie_score

from antithetic import LinearModel, SGDClassifier, SGDRegressor, minimize, pair
from antithetic.losses import ALL_LOSSES, LOSSES, Huber, Quantile, Tweedie
from antithetic.problem import Problem
from antithetic.problem.constant import best_constant, constant_of
from antithetic.problem.losses import Loss, get_loss, read_loss

POWERS = [1.0, 1.2, 1.5, 1.9, 2.0]
NEW = [Quantile(0.1), Quantile(), Quantile(0.9), *map(Tweedie, POWERS)]
WORDS = ["quantile", "poisson", "gamma", "tweedie"]
SMOOTH = [loss for loss in (*LOSSES.values(), *NEW) if loss.is_smooth]
KINKS = [loss for loss in (*LOSSES.values(), *NEW) if not loss.is_smooth]
RNG = np.random.default_rng(0)
N, D = 2000, 5
X = RNG.normal(size=(N, D)) / 2.0
TRUE = np.array([0.5, -0.3, 0.2, 0.0, 0.4])
MEANS = np.exp(X @ TRUE + 0.7)
TARGETS = {
    "quantile": X @ TRUE + 0.7 + RNG.gumbel(size=N),
    "poisson": RNG.poisson(MEANS).astype(float),
    "gamma": RNG.gamma(2.0, MEANS / 2.0) + 1e-9,
    "tweedie": np.where(RNG.random(N) < 0.3, 0.0, RNG.gamma(2.0, MEANS / 1.4)),
}
ALPHA = 1e-3
targets = st.floats(0.015625, 1e4)
predictions = st.floats(-9.0, 9.0)


@pytest.mark.kernel
@given(loss=st.sampled_from(NEW), y=targets, p=predictions, zero=st.booleans())
def test_kernels_are_their_twins(loss, y, p, zero):
    """Value, slope and curvature of the kernels equal the textbook's formulas."""
    if zero and loss.name != "gamma":
        y = 0.0
    at = (loss.code, loss.epsilon, y, p)
    size = math.exp(abs(p)) * (1.0 + y)
    assert kernel_losses.value(*at) == pytest.approx(reference_losses.value(*at), abs=1e-12 * size)
    assert kernel_losses.slope(*at) == pytest.approx(reference_losses.slope(*at), abs=1e-12 * size)
    assert kernel_losses.value(*at) >= 0.0


@pytest.mark.kernel
@given(loss=st.sampled_from(SMOOTH), y=targets, p=predictions)
def test_curvatures_are_second_derivatives(loss, y, p):
    """They equal the twins, and differences of slopes wherever no kink of these is near."""
    if loss.classification:
        y = 1.0 if y > 1.0 else -1.0
    found = kernel_losses.curvature(loss.code, loss.epsilon, y, p)
    expected = reference_losses.curvature(loss.code, loss.epsilon, y, p)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert loss.curvature(y, p)[0] == found
    step = 1e-5
    ends = [loss.curvature(y, p + sign * step)[0] for sign in (-1.0, 1.0)]
    if max(ends) - min(ends) < 0.5 * max(ends):  # else the slope has a corner in between
        difference = np.diff(loss.slope(y, [p - step, p + step]))[0] / (2.0 * step)
        assert found == pytest.approx(difference, rel=1e-4, abs=1e-6 * (1.0 + y))


@pytest.mark.parametrize("loss", KINKS, ids=repr)
def test_losses_with_a_kink_have_no_curvature(loss):
    with pytest.raises(ValueError, match="has a kink, so it has no curvature"):
        loss.curvature(1.0, 0.0)


@pytest.mark.kernel
@given(loss=st.sampled_from(NEW), y=targets, p=predictions)
def test_the_conjugate_touches_where_the_slope_is(loss, y, p):
    """Fenchel and Young: p u = loss + conjugate at the slope u of p, and no less elsewhere."""
    u = loss.slope(y, p)[0]
    found = loss.conjugate(y, u)[0]
    size = 1.0 + abs(p * u) + loss.value(y, p)[0] + y
    assert found == pytest.approx(p * u - loss.value(y, p)[0], abs=1e-7 * size)
    for other in (p - 1.0, p + 0.5):
        assert found >= other * u - loss.value(y, other)[0] - 1e-7 * size * math.e


@pytest.mark.parametrize("p", [-800.0, -1e300, 800.0, 1e300])
@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (loss, y)
        for loss in NEW
        for y in (0.0, 1e-300, 1.0, 1e300)
        if loss.name != "gamma" or y > 0.0  # which is the gamma distribution's range
    ],
    ids=repr,
)
def test_extreme_predictions_are_infinite_and_never_nan(loss, y, p):
    assert not np.isnan(loss.value(y, p)).any()
    assert not np.isnan(loss.slope(y, p)).any()
    if loss.is_smooth:
        assert not np.isnan(loss.curvature(y, p)).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantile(0.0), "between 0 and 1; got 0.0"),
        (lambda: Quantile(1.0), "between 0 and 1"),
        (lambda: Quantile("median"), "got 'median'"),
        (lambda: Tweedie(0.5), "from 1 to 2; got 0.5"),
        (lambda: Tweedie(3.0), "from 1 to 2; got 3.0"),
        (lambda: get_loss("poison"), "use one of .*poisson.*or an object of antithetic.losses"),
        (lambda: get_loss(3), "loss 3 is not known"),
    ],
)
def test_losses_check_themselves(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", Tweedie(1.2)], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda loss, y: SGDRegressor(loss).fit(X[:20], y),
        lambda loss, y: SGDRegressor(loss).partial_fit(X[:20], y),
        lambda loss, y: minimize(X[:20], y, loss=loss),
        lambda loss, y: pair(X[:20], y, loss=loss),
        lambda loss, y: SGDRegressor(loss, max_iter=2, tol=None).fit(
            X[:20], np.ones(20), X_val=X[:20], y_val=y
        ),
        lambda loss, y: (
            SGDRegressor(loss, max_iter=2, tol=None).fit(X[:20], np.ones(20)).score(X[:20], y)
        ),
    ],
)
def test_targets_outside_the_domain_name_the_row(loss, call):
    """Negative numbers are refused by all, zeros by gamma alone."""
    y = np.ones(20)
    y[7] = -0.5
    with pytest.raises(ValueError, match=r"y has -0\.5 in row 7"):
        call(loss, y)
    y[7] = 0.0
    if loss == "gamma":
        with pytest.raises(ValueError, match=r"needs targets above 0; y has 0\.0 in row 7"):
            call(loss, y)
    else:
        call(loss, y)


def test_classifiers_take_no_such_loss_and_regressors_none_of_classes():
    with pytest.raises(ValueError, match="loss"):
        SGDClassifier("poisson").fit(X, X[:, 0] > 0.0)
    with pytest.raises(ValueError, match="loss for classification"):
        SGDRegressor(LOSSES["hinge"]).fit(X, X[:, 0])


def peer(name, **more):
    if name == "quantile":
        return QuantileRegressor(quantile=0.5, alpha=0.0, **more)
    if name == "tweedie":
        return TweedieRegressor(power=1.5, link="log", alpha=ALPHA, tol=1e-8, max_iter=1000)
    return {"poisson": PoissonRegressor, "gamma": GammaRegressor}[name](
        alpha=ALPHA, tol=1e-8, max_iter=1000
    )


def gap(name, coef, intercept, theirs):
    """Objective above scikit-learn's, as a share of what the best constant is above it."""
    y, alpha = TARGETS[name], 0.0 if name == "quantile" else ALPHA
    problem = Problem.build(X, y, loss=name, l2=alpha, fit_intercept=True)
    least = problem.objective(theirs.coef_, float(np.ravel(theirs.intercept_)[0]))
    constant = problem.objective(np.zeros(D), problem.loss.best_constant(y, None))
    return (problem.objective(coef, intercept) - least) / (constant - least)


@pytest.fixture(scope="module", params=WORDS)
def solved(request):
    name = request.param
    return name, peer(name).fit(X, TARGETS[name])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_fit_comes_near_the_optimum_of_scikit_learn(solved, make):
    name, theirs = solved
    alpha = 0.0 if name == "quantile" else ALPHA
    model = SGDRegressor(name, alpha=alpha, max_iter=100, tol=None, random_state=0)
    model.fit(make(X), TARGETS[name])
    assert gap(name, model.coef_, float(model.intercept_[0]), theirs) < 2e-3
    np.testing.assert_allclose(
        model.predict(make(X)), theirs.predict(X), rtol=0.1, atol=0.1 * theirs.predict(X).std()
    )


def test_minimize_and_chunks_come_near_too(solved):
    name, theirs = solved
    y, alpha = TARGETS[name], 0.0 if name == "quantile" else ALPHA
    found = minimize(X, y, loss=name, l2=alpha, fit_intercept=True, epochs=60, average="epoch")
    assert gap(name, found.coef, found.intercept, theirs) < 0.01
    model = SGDRegressor(name, alpha=alpha, random_state=0)
    for _ in range(10):
        for start in range(0, N, 500):
            model.partial_fit(X[start : start + 500], y[start : start + 500])
    assert gap(name, model.coef_, float(model.intercept_[0]), theirs) < 0.05


@pytest.mark.parametrize("name", WORDS)
def test_weights_are_repeated_rows(name):
    """Whole weights give the objective of rows that stand as often, and the same optimum."""
    y, weight = TARGETS[name][:300], RNG.integers(1, 4, 300).astype(float)
    rows = np.repeat(np.arange(300), weight.astype(int))
    given = {"loss": name, "fit_intercept": True}
    one = Problem.build(X[:300], y, sample_weight=weight, **given)
    many = Problem.build(X[rows], y[rows], **given)
    coef = np.full(D, 0.1)
    assert one.objective(coef, 0.2) * 300 == pytest.approx(many.objective(coef, 0.2) * len(rows))
    model = SGDRegressor(name, max_iter=30, tol=None, random_state=0)
    model.fit(X[:300], y, sample_weight=weight)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("name", WORDS)
def test_scores_are_those_of_scikit_learn(name):
    """D2 of the loss, in score and in the history of a validation set."""
    y, weight = TARGETS[name], RNG.uniform(0.5, 2.0, N)
    model = SGDRegressor(name, max_iter=5, tol=None, random_state=0)
    model.fit(X[:1500], y[:1500], X_val=X[1500:], y_val=y[1500:])
    powers = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}
    expected = (
        d2_pinball_score(y, model.predict(X), alpha=0.5, sample_weight=weight)
        if name == "quantile"
        else d2_tweedie_score(y, model.predict(X), power=powers[name], sample_weight=weight)
    )
    # ours compares with a weighted quantile of the rows themselves, theirs with one between them
    close = 1e-3 if name == "quantile" else 1e-9
    assert model.score(X, y, weight) == pytest.approx(expected, abs=close)
    assert model.history_["validation_score"][-1] == pytest.approx(
        model.score(X[1500:], y[1500:]), abs=1e-9
    )


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_the_share_of_rows_below_is_the_quantile(q):
    y = TARGETS["quantile"]
    model = SGDRegressor(Quantile(q), alpha=0.0, max_iter=60, tol=None, random_state=0).fit(X, y)
    assert np.mean(y <= model.predict(X)) == pytest.approx(q, abs=0.03)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("name", WORDS)
def test_automatic_steps_are_safe_for_targets_of_any_size(name, unit):
    """Slopes grow exponentially, and no run overflows or ends above the best constant."""
    y = np.rint(TARGETS[name] * unit) if name == "poisson" else TARGETS[name] * unit
    if not y.any():
        y[::10] = 1.0
    for seed in range(2):
        model = SGDRegressor(name, max_iter=20, tol=None, random_state=seed).fit(X, y)
        assert np.isfinite(model.coef_).all()
        assert model.score(X, y) > -0.01


def test_one_wild_row_does_not_throw_the_weights_away():
    rows, y = X.copy(), TARGETS["poisson"].copy()
    rows[3] *= 100.0
    y[3] = 1e6
    model = SGDRegressor("poisson", max_iter=10, tol=None, random_state=0).fit(rows, y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("loss", [*WORDS, Quantile(0.9), Tweedie(1.7), Huber(0.5)], ids=repr)
def test_models_are_copied_and_kept_in_files(tmp_path, loss):
    name = loss if isinstance(loss, str) else loss.name
    y = TARGETS.get(name, TARGETS["quantile"])
    model = clone(SGDRegressor(loss, max_iter=3, tol=None, random_state=0)).fit(X, y)
    assert model.loss == loss
    LinearModel.of(model).save(tmp_path / "model.json")
    held = LinearModel.load(tmp_path / "model.json").estimator()
    assert held.loss == loss
    for other in (held, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        assert other.score(X, y) == model.score(X, y)


@pytest.mark.parametrize("text", ["Quantile(2)", "Tweedie(9)", "exec(1)", "Loss(1)", "Huber(x)"])
def test_a_file_can_name_only_losses(text):
    assert read_loss(text) is None


@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
@pytest.mark.parametrize("name", WORDS)
def test_solvers_that_cannot_say_so(solver, name):
    reason = {"sdca": "sdca"}.get(solver, "kink" if name == "quantile" else "grows exponentially")
    with pytest.raises(ValueError, match=reason):
        minimize(X, TARGETS[name], loss=name, solver=solver, l2=0.1)


def test_all_losses_are_listed():
    assert set(ALL_LOSSES) == {*LOSSES, *WORDS}
    for name, loss in ALL_LOSSES.items():
        assert loss.name == name


def test_the_command_trains_and_predicts(tmp_path):
    """Predictions of a log link are means, as in Python; wrong targets are refused."""
    pytest.importorskip("typer")
    from test_cli import run, run_json

    path, model = tmp_path / "data.npz", tmp_path / "model.json"
    np.savez(path, X=X, y=TARGETS["poisson"])
    found = run_json("train", path, "-m", model, "--loss", "poisson", "--epochs", 5, "--tol", 0)
    assert 0.0 < found["d2"] < 1.0
    assert found["validation"]["score"] > 0.0 >= found["validation"]["constant"]
    answer = np.array(run_json("predict", model, path)["columns"]["prediction"])
    assert (answer > 0.0).all()
    np.savez(path, X=X, y=-TARGETS["poisson"] - 0.5)
    _, error = run("train", path, "-m", model, "--loss", "poisson", code=1)
    assert "needs targets at least 0" in " ".join(error.split())


def test_the_command_compares_orders(tmp_path):
    pytest.importorskip("typer")
    from test_cli import run_json

    np.savez(tmp_path / "data.npz", X=X[:200], y=TARGETS["gamma"][:200])
    given = ("--loss", "gamma", "--epochs", 2, "--seeds", 1)
    found = run_json("compare", tmp_path / "data.npz", *given)
    assert all(np.isfinite(row["gap"]) for row in found["orders"])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [*LOSSES.values(), *NEW], ids=repr)
def test_the_constant_alone_is_the_best_constant(loss, weighted):
    """It has the smallest mean loss of all constants, and is found without computing that loss."""
    y = np.where(X[:50, 0] > 0.3, 1.0, -1.0) if loss.classification else TARGETS["gamma"][:50]
    weight = RNG.random(50) if weighted else None
    constant, least = best_constant(loss, y, weight)
    assert constant_of(loss, y, weight) == constant
    mean = loss.mean(y, np.full(50, constant), weight)
    assert mean == pytest.approx(least, rel=1e-12)
    assert all(
        loss.mean(y, np.full(50, constant + far), weight) >= mean - 1e-12
        for far in (-0.3, -0.01, 0.01, 0.3)
    )


@pytest.mark.parametrize("loss", WORDS)
def test_the_loss_at_zero_is_that_of_zero_weights(monkeypatch, loss):
    """It takes one pass over the targets, however often it is asked for; a copy has its own."""
    calls = []
    mean = Loss.mean

    def counted(*given):
        calls.append(given)
        return mean(*given)

    monkeypatch.setattr(Loss, "mean", counted)
    problem = Problem.build(X, TARGETS[loss], loss=loss)
    for _ in range(3):
        assert problem.loss_at_zero() == pytest.approx(problem.objective(np.zeros(D)), rel=1e-12)
    assert len(calls) == 1
    other = replace(problem, y=2.0 * problem.y)
    assert other.loss_at_zero() == pytest.approx(other.objective(np.zeros(D)), rel=1e-12)
