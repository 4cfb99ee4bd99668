"""The losses: value and slope against exact arithmetic, differences, and scikit-learn."""

from __future__ import annotations

import itertools
import math
import pickle
import sys
from fractions import Fraction

import kernel_losses as losses
import numpy as np
import pytest
import reference_losses
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import _sgd_fast
from strategies import EXTREMES, finite_floats, problems

from antithetic import SGDRegressor, pair
from antithetic.losses import EpsilonInsensitive, Huber, Quantile, SquaredEpsilonInsensitive
from antithetic.problem.losses import LOSSES, get_loss

MARGIN = [name for name, loss in LOSSES.items() if loss.classification]
REGRESSION = [name for name, loss in LOSSES.items() if not loss.classification]
PREDICTIONS = np.linspace(-4.0, 4.0, 161)  # every kink, and both sides of it
NUMBERS = (-1.5, 0.0, 2.0)  # regression labels on the same grid
WITH_EPSILON = [Huber, EpsilonInsensitive, SquaredEpsilonInsensitive]
EPSILON = 0.125  # a power of two: the kinks of the regression losses are then on the grid exactly
LARGEST = Fraction(sys.float_info.max)
SMALLEST = Fraction(1, 2**1060)  # what underflow may lose
ROUNDING = Fraction(1, 2**50)

SCIKIT_LEARN = {
    "hinge": _sgd_fast.Hinge(1.0),
    "squared_hinge": _sgd_fast.SquaredHinge(1.0),
    "modified_huber": _sgd_fast.ModifiedHuber(),
    "perceptron": _sgd_fast.Hinge(0.0),
    "epsilon_insensitive": _sgd_fast.EpsilonInsensitive(EPSILON),
    "squared_epsilon_insensitive": _sgd_fast.SquaredEpsilonInsensitive(EPSILON),
}


def named(name):
    return LOSSES[name].with_epsilon(EPSILON)


def grid(name):
    """Labels and predictions to try a loss at, as two columns."""
    y, p = np.meshgrid((-1.0, 1.0) if name in MARGIN else NUMBERS, PREDICTIONS)
    return y.ravel(), p.ravel()


def exact_value(name, epsilon, y, p):
    """The loss in rational arithmetic (not log_loss)."""
    y, p, epsilon = Fraction(y), Fraction(p), Fraction(epsilon)
    short, error = max(Fraction(0), 1 - y * p), abs(y - p)
    excess = max(Fraction(0), error - epsilon)
    return {
        "hinge": short,
        "squared_hinge": short**2,
        "modified_huber": short**2 if y * p >= -1 else -4 * y * p,
        "perceptron": max(Fraction(0), -y * p),
        "squared_error": error**2 / 2,
        "huber": error**2 / 2 if error <= epsilon else epsilon * (error - epsilon / 2),
        "epsilon_insensitive": excess,
        "squared_epsilon_insensitive": excess**2,
    }[name]


def exact_slope_bound(name, epsilon, y, p):
    """Size of the slope in rational arithmetic (not log_loss)."""
    y, p, epsilon = Fraction(y), Fraction(p), Fraction(epsilon)
    short, error = max(Fraction(0), 1 - y * p), abs(y - p)
    return {
        "squared_hinge": 2 * short,
        "modified_huber": min(Fraction(4), 2 * short),
        "squared_error": error,
        "huber": min(error, epsilon),
        "squared_epsilon_insensitive": 2 * max(Fraction(0), error * (1 + ROUNDING) - epsilon),
    }.get(name, Fraction(1))


def distance_from_kinks(name, y, p):
    kinks = {
        "hinge": [1.0],
        "perceptron": [0.0],
        "squared_hinge": [1.0],
        "modified_huber": [1.0, -1.0],
    }
    place = y * p if name in MARGIN else np.abs(y - p)
    return np.min(
        [
            np.abs(place - kink)
            for kink in kinks.get(name, [EPSILON] if name in REGRESSION else [np.inf])
        ],
        axis=0,
    )


@pytest.mark.kernel
@pytest.mark.parametrize("name", SCIKIT_LEARN)
def test_values_and_slopes_are_those_of_scikit_learn(name):
    """Value and slope, at kinks as well, equal those that scikit-learn's own SGD uses."""
    y, p = grid(name)
    theirs = SCIKIT_LEARN[name]
    np.testing.assert_allclose(
        named(name).value(y, p),
        [theirs.py_loss(*at) for at in zip(p, y, strict=True)],
        rtol=1e-14,
        atol=1e-15,
    )
    np.testing.assert_allclose(
        named(name).slope(y, p),
        [theirs.py_dloss(*at) for at in zip(p, y, strict=True)],
        rtol=1e-14,
        atol=1e-15,
    )


@pytest.mark.kernel
def test_log_loss_is_the_plain_formula():
    """Value log(1 + exp(-m)) and slope -y / (1 + exp(m))."""
    y, p = grid("log_loss")
    np.testing.assert_allclose(
        named("log_loss").value(y, p), np.log(1.0 + np.exp(-y * p)), rtol=1e-14
    )
    np.testing.assert_allclose(
        named("log_loss").slope(y, p), -y / (1.0 + np.exp(y * p)), rtol=1e-14
    )


@pytest.mark.kernel
@pytest.mark.parametrize("n", [1, 7, 511, 512, 513, 1500])
@pytest.mark.parametrize("size", [1e-9, 1.0, 30.0, 2000.0])
def test_the_mean_of_log_losses_is_that_of_their_values(n, size):
    """It has an exponential and a logarithm of its own, for many rows at once."""
    rng = np.random.default_rng(n)
    y, p = rng.choice([-1.0, 1.0], n), size * rng.normal(size=n)
    np.testing.assert_allclose(
        LOSSES["log_loss"].mean(y, p, None), np.logaddexp(0.0, -y * p).mean(), rtol=1e-13
    )


@pytest.mark.kernel
@pytest.mark.parametrize(
    "margin",
    [-np.inf, -1e308, -750.0, -709.0, -708.0, -0.0, 708.0, 709.0, 750.0, 1e308, np.inf, np.nan],
)
def test_the_mean_of_log_losses_knows_the_ends_of_the_range(margin):
    """Infinite losses are, and NaN is never lost: whether a run diverged depends on it."""
    value = LOSSES["log_loss"].mean(np.array([1.0, -1.0]), np.array([margin, 0.0]), None)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(
            value, 0.5 * np.logaddexp(0.0, -margin) + 0.5 * np.log(2.0), rtol=1e-13
        )


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["squared_error", "huber"])
def test_least_squares_and_huber_are_the_plain_formulas(name):
    """Value and slope of a half square, straight beyond epsilon for huber."""
    y, p = grid(name)
    error = p - y
    straight = (np.abs(error) > EPSILON) & (name == "huber")
    value = np.where(straight, EPSILON * (np.abs(error) - EPSILON / 2.0), error**2 / 2.0)
    np.testing.assert_allclose(named(name).value(y, p), value, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(
        named(name).slope(y, p),
        np.where(straight, EPSILON * np.sign(error), error),
        rtol=1e-14,
        atol=1e-300,
    )


@pytest.mark.kernel
@pytest.mark.parametrize("name", LOSSES)
def test_the_slope_is_the_derivative_of_the_value(name):
    """Away from kinks, central differences of the value give the slope."""
    y, p = grid(name)
    smooth = distance_from_kinks(name, y, p) > 1e-3
    y, p = y[smooth], p[smooth]
    step = 1e-5
    difference = (named(name).value(y, p + step) - named(name).value(y, p - step)) / (2.0 * step)
    assert smooth.mean() > 0.9
    np.testing.assert_allclose(named(name).slope(y, p), difference, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "loss",
    [LOSSES["hinge"], LOSSES["perceptron"], EpsilonInsensitive(0.0), Quantile(0.3)],
    ids=repr,
)
def test_the_slope_jumps_where_the_distance_of_the_kink_is_zero(loss):
    """It is the same on both sides of every other prediction of the grid."""
    y, p = np.meshgrid((-1.0, 1.0) if loss.classification else NUMBERS, PREDICTIONS)
    y, p = y.ravel(), p.ravel()
    is_kink = loss.kink_distance(y, p) == 0.0
    jumps = loss.slope(y, p - 1e-6) != loss.slope(y, p + 1e-6)
    np.testing.assert_array_equal(jumps, is_kink)
    assert is_kink.any()


@pytest.mark.parametrize("name", LOSSES)
def test_the_slope_never_falls(name):
    """Losses are convex: the slope does not decrease along the grid, kinks included."""
    for y in (-1.0, 1.0):
        slopes = [losses.slope(LOSSES[name].code, EPSILON, y, p) for p in PREDICTIONS.tolist()]
        assert (np.diff(slopes) >= -1e-15).all()


@pytest.mark.parametrize("name", LOSSES)
def test_the_curvature_bounds_how_fast_the_slope_changes(name):
    """Over every step of the grid, the slope changes by at most ``curvature`` times the step."""
    loss = LOSSES[name]
    for y in (-1.0, 1.0):
        slopes = [losses.slope(loss.code, EPSILON, y, p) for p in PREDICTIONS.tolist()]
        assert (
            np.abs(np.diff(slopes)) <= loss.largest_curvature * np.diff(PREDICTIONS) * (1.0 + 1e-12)
        ).all()


@pytest.mark.kernel
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_slopes_at_kinks_are_documented(y):
    """At its kink hinge (margin 1) and perceptron (margin 0) still push, -y.

    Epsilon losses (error epsilon) no longer do.
    """
    assert LOSSES["hinge"].slope([y], [y]) == [-y]
    assert LOSSES["perceptron"].slope([y], [0.0]) == [-y]
    assert LOSSES["perceptron"].slope([y], [-0.0]) == [-y]
    assert named("epsilon_insensitive").slope([0.0], [y * EPSILON]) == [0.0]
    assert named("huber").slope([0.0], [y * EPSILON]) == [y * EPSILON]


def accuracy(name, epsilon, y, p):
    """Allowed rounding error: some last digits, more where ``|y - p| - epsilon`` cancels."""
    relative = exact_value(name, epsilon, y, p) * ROUNDING + SMALLEST
    if "epsilon" not in name:
        return relative
    error = abs(Fraction(y) - Fraction(p))
    excess = max(Fraction(0), error - Fraction(epsilon))
    wrong = error * ROUNDING
    return relative + (wrong if name == "epsilon_insensitive" else 2 * excess * wrong + wrong**2)


@given(
    name=st.sampled_from(REGRESSION),
    epsilon=finite_floats().map(abs),
    y=finite_floats(),
    p=finite_floats(),
)
def test_regression_losses_overflow_only_where_the_true_value_does(name, epsilon, y, p):
    """Any finite input gives a value near the exact one, infinite only if that exceeds float64."""
    check_value(name, epsilon, y, p)


@given(name=st.sampled_from(MARGIN[1:]), y=st.sampled_from([-1.0, 1.0]), p=finite_floats())
def test_margin_losses_overflow_only_where_the_true_value_does(name, y, p):
    """Any finite input gives a value near the exact one, infinite only if that exceeds float64."""
    check_value(name, EPSILON, y, p)


def check_value(name, epsilon, y, p):
    value, exact = losses.value(LOSSES[name].code, epsilon, y, p), exact_value(name, epsilon, y, p)
    assert not math.isnan(value)
    assert value >= 0.0
    if math.isinf(value):
        assert exact + accuracy(name, epsilon, y, p) > LARGEST
    else:
        assert abs(Fraction(value) - exact) <= accuracy(name, epsilon, y, p)


@given(
    name=st.sampled_from(REGRESSION),
    epsilon=finite_floats().map(abs),
    y=finite_floats(),
    p=finite_floats(),
)
def test_regression_slopes_overflow_only_where_the_true_slope_does(name, epsilon, y, p):
    """The slope has the sign of p - y, and is infinite only if the exact one exceeds float64."""
    slope = losses.slope(LOSSES[name].code, epsilon, y, p)
    check_slope(slope, exact_slope_bound(name, epsilon, y, p))
    assert slope == 0.0 or (slope > 0.0) == (p > y)


@given(name=st.sampled_from(MARGIN), y=st.sampled_from([-1.0, 1.0]), p=finite_floats())
def test_margin_slopes_push_towards_the_label(name, y, p):
    """``-y * slope`` is at least 0, and is infinite only if the exact one exceeds float64."""
    slope = losses.slope(LOSSES[name].code, EPSILON, y, p)
    check_slope(slope, exact_slope_bound(name, EPSILON, y, p))
    assert -y * slope >= 0.0


def check_slope(slope, bound):
    assert not math.isnan(slope)
    if math.isinf(slope):
        assert bound * (1 + ROUNDING) > LARGEST
    else:
        assert abs(Fraction(slope)) <= bound * (1 + ROUNDING) + SMALLEST


@pytest.mark.parametrize("name", REGRESSION)
def test_regression_losses_at_the_ends_of_the_range(name):
    """At every combination of extreme numbers, the loss is right even where ``y - p`` overflows."""
    sizes = sorted({abs(number) for number in EXTREMES})
    for epsilon, y, p in itertools.product(sizes, sizes, EXTREMES):
        check_value(name, epsilon, y, p)
        check_slope(
            losses.slope(LOSSES[name].code, epsilon, y, p), exact_slope_bound(name, epsilon, y, p)
        )


@given(y=st.sampled_from([-1.0, 1.0]), p=finite_floats())
def test_log_loss_is_finite_everywhere(y, p):
    """Between the hinge at 0 and that plus log 2, for any finite prediction."""
    value = losses.value(LOSSES["log_loss"].code, EPSILON, y, p)
    assert (
        max(0.0, -y * p)
        <= value
        <= max(0.0, -y * p) + math.log(2.0) * (1.0 + 1e-15) + abs(p) * 1e-15
    )


@pytest.mark.parametrize("margin", [30.0, 200.0, 700.0, 740.0])
def test_log_loss_keeps_its_digits_far_out(margin):
    """At a large margin value and slope are exp(-margin), not 0."""
    code = LOSSES["log_loss"].code
    assert losses.value(code, 0.0, 1.0, margin) == pytest.approx(
        math.exp(-margin), rel=1e-12, abs=0.0
    )
    assert losses.slope(code, 0.0, 1.0, margin) == pytest.approx(
        -math.exp(-margin), rel=1e-12, abs=0.0
    )
    assert losses.slope(code, 0.0, 1.0, -margin) == pytest.approx(-1.0, rel=1e-12)


@pytest.mark.kernel
@given(
    name=st.sampled_from(list(LOSSES)),
    y=finite_floats(),
    p=st.lists(finite_floats(), min_size=1, max_size=5),
)
def test_compiled_and_plain_losses_agree(name, y, p):
    """The compiled functions equal the plain ones, also at the ends of the range."""
    loss = named(name)
    y = math.copysign(1.0, y) if loss.classification else y
    with np.errstate(over="ignore"):
        values, slopes = loss.value(y, p), loss.slope(y, p)
    np.testing.assert_allclose(
        values, [reference_losses.value(loss.code, EPSILON, y, at) for at in p], rtol=1e-15
    )
    np.testing.assert_allclose(
        slopes, [reference_losses.slope(loss.code, EPSILON, y, at) for at in p], rtol=1e-15
    )


@pytest.mark.kernel
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 1e300])
def test_huber_takes_an_epsilon_of_its_own(epsilon):
    """``Huber(epsilon)`` moves the kink, where value and slope stay continuous."""
    loss = Huber(epsilon)
    assert loss.slope([0.0, 0.0], [3.0, -3.0]).tolist() == [min(3.0, epsilon), -min(3.0, epsilon)]
    assert loss.value([0.0], [3.0])[0] == (
        4.5 if epsilon >= 3.0 else epsilon * (3.0 - epsilon / 2.0)
    )
    assert LOSSES["huber"].epsilon == 0.1


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf])
@pytest.mark.parametrize("kind", WITH_EPSILON)
def test_an_impossible_epsilon_is_refused(kind, epsilon):
    """Epsilon must be a finite number, at least 0."""
    with pytest.raises(ValueError, match="epsilon must be a finite number, at least 0"):
        kind(epsilon)
    with pytest.raises(ValueError, match="epsilon must be a finite number, at least 0"):
        kind().with_epsilon(epsilon)


@pytest.mark.parametrize("kind", WITH_EPSILON)
def test_a_loss_with_a_parameter_is_a_value(kind):
    """It equals one with the same epsilon only, and its repr can be pasted back."""
    loss = kind(0.25)
    assert loss == kind(0.25) == LOSSES[loss.name].with_epsilon(0.25)
    assert hash(loss) == hash(kind(0.25))
    assert loss != kind(0.5)
    assert kind() == LOSSES[loss.name]
    assert eval(repr(loss), {kind.__name__: kind}) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_only_losses_with_a_parameter_change_with_epsilon(loss):
    """``with_epsilon`` returns a loss without such a parameter as it is."""
    changed = loss.with_epsilon(0.7)
    assert changed is loss or changed.epsilon == 0.7
    assert (changed is loss) != isinstance(loss, tuple(WITH_EPSILON))


def test_an_unknown_name_is_told_all_names():
    """The error lists every loss there is, and a loss object is taken as it is."""
    with pytest.raises(ValueError, match="'logistic' is not known") as error:
        get_loss("logistic")
    assert all(name in str(error.value) for name in LOSSES)
    assert get_loss(LOSSES["hinge"]) is LOSSES["hinge"]
    assert get_loss("hinge") is LOSSES["hinge"]


def test_names_and_codes_are_one_to_one():
    """Each loss has its own name and code, classification losses first."""
    kinds = [loss.classification for loss in LOSSES.values()]
    assert [loss.name for loss in LOSSES.values()] == list(LOSSES)
    assert [loss.code for loss in LOSSES.values()] == list(range(len(LOSSES)))
    assert kinds == sorted(kinds, reverse=True)


@pytest.mark.kernel
@given(problems())
def test_the_zero_one_likelihood_has_the_gradient_of_log_loss(problem):
    """With y in {0, 1}, (mu - y) x is the gradient of log_loss with the label 2y - 1.

    This is the paper's last remark.
    """
    X, signs = problem
    y = (signs + 1.0) / 2.0
    w = np.linspace(-1.0, 1.0, X.shape[1])
    mu = 1.0 / (1.0 + np.exp(-X @ w))
    gradients = LOSSES["log_loss"].slope(2.0 * y - 1.0, X @ w)[:, None] * X
    np.testing.assert_allclose(gradients, (mu - y)[:, None] * X, rtol=1e-12, atol=1e-14)


@pytest.mark.kernel
@given(
    names=st.sampled_from([(0, 1), (False, True), ("benign", "malignant"), (0.0, 1.0), (3, 7)]),
    problem=problems(),
)
def test_any_two_labels_give_the_same_table(names, problem):
    """Any two labels, such as {0, 1} or strings, give the table of {-1, +1}."""
    X, signs = problem
    renamed = np.array(names)[(signs > 0.0).astype(int)]
    assert (
        pair(X, renamed, "greedy", n_jobs=1).partner.tolist()
        == pair(X, signs, "greedy", n_jobs=1).partner.tolist()
    )


GRID = np.linspace(-12.0, 12.0, 24_001)  # has every kink


def best_product(values, u):
    """The conjugate by brute force: the largest ``p u - value`` over a fine grid of predictions."""
    return np.max(GRID * u - values)


@pytest.mark.kernel
@pytest.mark.parametrize("name", LOSSES)
def test_the_conjugate_is_the_largest_product_less_the_loss(name):
    """Wherever the loss has the slope; outside, infinite."""
    loss = named(name)
    for y in (-1.0, 1.0) if name in MARGIN else NUMBERS:
        reached, values = loss.slope(y, np.linspace(-3.0, 3.0, 25)), loss.value(y, GRID)
        for u in np.unique(np.concatenate([reached, 0.5 * reached, [0.0]])):
            assert loss.conjugate(y, u)[0] == pytest.approx(best_product(values, u), abs=1e-5)
        lowest, highest = loss.slope(y, [-1e9, 1e9])
        if abs(lowest) < 10.0:
            assert loss.conjugate(y, lowest - 1e-9) == [math.inf]
        if abs(highest) < 10.0:
            assert loss.conjugate(y, highest + 1e-9) == [math.inf]


@pytest.mark.kernel
@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_conjugate_meet_at_the_slope(name):
    """Fenchel-Young: ``value + conjugate >= p u`` for any slope ``u``, equal at that of ``p``."""
    loss, (y, p) = named(name), grid(name)
    slopes = loss.slope(y, p)
    np.testing.assert_allclose(
        loss.value(y, p) + loss.conjugate(y, slopes), p * slopes, rtol=1e-13, atol=1e-14
    )
    for shift in (1, 7, 60):
        other = np.roll(p, shift)
        u = loss.slope(y, other)
        assert (
            loss.value(y, p) + loss.conjugate(y, u) - p * u >= -1e-13 * (1.0 + np.abs(p * u))
        ).all()


@pytest.mark.kernel
@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.is_smooth])
def test_the_derivative_of_the_conjugate_is_the_prediction(name):
    """Where the loss bends, its conjugate has the slope ``p`` at the loss's slope at ``p``."""
    loss, (y, p) = named(name), grid(name)
    slopes, step = loss.slope(y, p), 1e-6
    bends = (np.abs(loss.slope(y, p + 1e-3) - slopes) > 1e-6) & (
        np.abs(slopes - loss.slope(y, p - 1e-3)) > 1e-6
    )
    y, p, slopes = y[bends], p[bends], slopes[bends]
    difference = (loss.conjugate(y, slopes + step) - loss.conjugate(y, slopes - step)) / (
        2.0 * step
    )
    assert bends.sum() >= 10
    np.testing.assert_allclose(difference, p, rtol=1e-4, atol=1e-4)


@given(
    name=st.sampled_from(list(LOSSES)),
    epsilon=finite_floats().map(abs),
    y=finite_floats(),
    u=finite_floats(),
)
def test_the_conjugate_is_a_number_everywhere(name, epsilon, y, u):
    """For any finite input; and 0 or less nowhere but where the loss can be positive."""
    y = math.copysign(1.0, y) if name in MARGIN else y
    value = losses.conjugate(LOSSES[name].code, epsilon, y, u)
    assert not math.isnan(value)
    assert value > -math.inf or abs(y) > 1.0
    assert losses.conjugate(LOSSES[name].code, epsilon, y, 0.0) == 0.0


@pytest.mark.kernel
@given(
    name=st.sampled_from(list(LOSSES)),
    y=finite_floats(),
    u=st.lists(finite_floats(), min_size=1, max_size=5),
)
def test_compiled_and_plain_conjugates_agree(name, y, u):
    """The compiled function gives the numbers of the plain one, also at the ends of the range."""
    loss = named(name)
    y = math.copysign(1.0, y) if loss.classification else y
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(
            loss.conjugate(y, u),
            [reference_losses.conjugate(loss.code, EPSILON, y, at) for at in u],
            rtol=1e-15,
        )


def test_the_entropy_keeps_its_digits_at_its_ends():
    """Near a slope of 0 the conjugate of log_loss is t log t - t, and at a slope of 1 it is 0."""
    for push in (1e-300, 1e-20, 1e-9):
        assert losses.conjugate(losses.LOG_LOSS, 0.0, 1.0, -push) == pytest.approx(
            push * math.log(push) - push, rel=1e-9
        )
    assert losses.conjugate(losses.LOG_LOSS, 0.0, 1.0, -1.0) == 0.0
    assert losses.conjugate(losses.LOG_LOSS, 0.0, -1.0, 1.0) == 0.0


def test_each_epsilon_has_a_model_of_its_own():
    """``epsilon`` of a word is that of the object, however many models were fitted before."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.standard_cauchy(60)
    given = {"learning_rate": "constant", "eta0": 0.01, "max_iter": 3, "tol": None}
    for _ in range(2):
        by_word, by_object = (
            [SGDRegressor(**given, **loss(e), random_state=0).fit(X, y).coef_ for e in (0.1, 1.0)]
            for loss in (
                lambda e: {"loss": "huber", "epsilon": e},
                lambda e: {"loss": Huber(e)},
            )
        )
        np.testing.assert_array_equal(by_word, by_object)
        assert np.abs(by_word[0] - by_word[1]).max() > 1e-3
