"""The objective, its gradient, and exact variances, against plain formulas and enumeration."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from strategies import EXACT_SCALES, EXACT_SCALES_32, integer_rows, permutations, problems, weights

from antithetic.problem import Problem, ratio
from antithetic.problem.losses import LOSSES
from antithetic.problem.variance import group_variance, unit_variance

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
SMOOTH = [name for name, loss in LOSSES.items() if np.isfinite(loss.largest_curvature)]
PLAIN = {  # as scikit-learn's user guide writes them
    "log_loss": lambda y, p: np.log1p(np.exp(-y * p)),
    "hinge": lambda y, p: np.maximum(0.0, 1.0 - y * p),
    "squared_hinge": lambda y, p: np.maximum(0.0, 1.0 - y * p) ** 2,
    "modified_huber": lambda y, p: np.where(
        y * p >= -1.0, np.maximum(0.0, 1.0 - y * p) ** 2, -4.0 * y * p
    ),
    "perceptron": lambda y, p: np.maximum(0.0, -y * p),
    "squared_error": lambda y, p: (y - p) ** 2 / 2.0,
    "huber": lambda y, p: np.where(
        np.abs(y - p) <= 0.1, (y - p) ** 2 / 2.0, 0.1 * (np.abs(y - p) - 0.05)
    ),
    "epsilon_insensitive": lambda y, p: np.maximum(0.0, np.abs(y - p) - 0.1),
    "squared_epsilon_insensitive": lambda y, p: np.maximum(0.0, np.abs(y - p) - 0.1) ** 2,
}


def some_data(n=17, d=4):
    """Rows with half of their entries zero, signs, weights (one of them zero) and a point."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    return X, np.where(np.arange(n) % 3, 1.0, -1.0), np.arange(n) / 4.0, rng.normal(size=d)


def group_gradients(problem, slopes, groups, signs=None):
    """Mean gradient of each group, one row each, with the intercept as one more feature."""
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    rows = np.column_stack([X, np.ones(problem.n)]) if problem.fit_intercept else X
    gradients = slopes[:, None] * rows.astype(np.float64)
    members = np.stack([gradients[group] for group in groups])
    return (members if signs is None else members * np.array(signs)[:, None]).mean(axis=1)


def enumerated_variance(problem, slopes, groups):
    u = group_gradients(problem, slopes, groups)
    return ((u - u.mean(axis=0)) ** 2).sum(axis=1).mean()


# ---- objective and gradient


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_objective_is_mean_loss_plus_penalty(name, weighted, form):
    """``mean(s * loss) + l2/2 |w|^2 + l1 |w|_1`` over all n rows, without the intercept."""
    X, y, s, w = some_data()
    problem = Problem.build(
        form(X),
        y,
        loss=name,
        l2=0.3,
        l1=0.2,
        sample_weight=s if weighted else None,
        fit_intercept=True,
    )
    losses = PLAIN[name](y, X @ w + 0.5)
    expected = np.mean(s * losses if weighted else losses) + 0.15 * w @ w + 0.2 * np.abs(w).sum()
    assert problem.objective(w, 0.5) == pytest.approx(expected, rel=1e-13)


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", ["log_loss", "hinge"])
def test_the_objectives_of_two_solutions_are_those_of_each(name, form, dtype):
    """One visit to the rows gives the bits of two."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(1003, 9)).astype(dtype), np.sign(rng.normal(size=1003))
    problem = Problem.build(form(X), y, loss=name, l2=0.1)
    one, other = ((rng.normal(size=9).astype(dtype), shift) for shift in (0.5, -1.0))
    assert problem.objectives_of(one, other) == (
        problem.objective(*one),
        problem.objective(*other),
    )


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_gradient_is_the_derivative_of_the_objective(name, weighted, form):
    """The gradient equals central differences of the objective, for each weight and intercept."""
    X, y, s, w = some_data()
    problem = Problem.build(
        form(X), y, loss=name, l2=0.3, sample_weight=s if weighted else None, fit_intercept=True
    )
    point, step = np.append(w, 0.5), 1e-6
    moves = step * np.eye(len(point))
    values = [
        [problem.objective(at[:-1], at[-1]) for at in (point + move, point - move)]
        for move in moves
    ]
    coef, intercept = problem.gradient(w, 0.5)
    np.testing.assert_allclose(
        np.append(coef, intercept), np.diff(values)[:, 0] / (-2.0 * step), rtol=1e-6, atol=1e-8
    )


def test_the_gradient_vanishes_where_scikit_learn_finds_the_optimum():
    """Our gradient is zero at the optimum of scikit-learn's LogisticRegression and Ridge."""
    X, y, s, _ = some_data(60)
    logistic = LogisticRegression(C=1.0 / (60 * 0.1), tol=1e-10, max_iter=1000).fit(
        X, y, sample_weight=s
    )
    problem = Problem.build(X, y, l2=0.1, sample_weight=s, fit_intercept=True)
    coef, intercept = problem.gradient(logistic.coef_, logistic.intercept_[0])
    np.testing.assert_allclose(np.append(coef, intercept), 0.0, atol=1e-6)

    ridge = Ridge(alpha=60 * 0.1, solver="cholesky").fit(X, 2.0 * y)
    problem = Problem.build(X, 2.0 * y, loss="squared_error", l2=0.1, fit_intercept=True)
    coef, intercept = problem.gradient(ridge.coef_, ridge.intercept_)
    np.testing.assert_allclose(np.append(coef, intercept), 0.0, atol=1e-12)


@pytest.mark.kernel
def test_without_an_intercept_its_gradient_is_zero():
    """The gradient has a part for the intercept only where the model has one."""
    X, y, _, w = some_data()
    assert Problem.build(X, y).gradient(w)[1] == 0.0
    assert Problem.build(X, y, fit_intercept=True).gradient(w)[1] != 0.0


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", LOSSES)
def test_slopes_times_rows_are_the_row_gradients(name, form):
    """The data gradient of row i is ``slopes[i] * X[i]``: that of a problem of this row alone.

    The slope includes the weight of the row.
    """
    X, y, s, w = some_data()
    problem = Problem.build(form(X), y, loss=name, sample_weight=s)
    slopes = problem.slopes(w, 0.25)
    np.testing.assert_allclose(slopes, s * LOSSES[name].slope(y, X @ w + 0.25), rtol=1e-14)
    np.testing.assert_allclose(
        problem.data_gradient(slopes)[0], (slopes[:, None] * X).mean(axis=0), rtol=1e-12, atol=1e-15
    )


@pytest.mark.kernel
def test_slopes_without_coef_are_those_at_zero():
    """None stands for zero weights, with the intercept that was given."""
    X, y, _, _ = some_data()
    problem = Problem.build(X, y)
    assert problem.slopes().tolist() == problem.slopes(np.zeros(4)).tolist()
    assert problem.slopes(None, 0.75).tolist() == problem.slopes(np.zeros(4), 0.75).tolist()


@pytest.mark.kernel
@given(data=st.data(), problem=problems())
def test_a_weight_of_zero_is_a_zero_row(data, problem):
    """A row of weight zero counts in n, and its gradient is zero."""
    X, y = problem
    s = data.draw(weights(len(y)))
    w = np.ones(X.shape[1])
    emptied = np.where(s[:, None] > 0.0, X, 0.0)
    full, zeroed = (Problem.build(rows, y, sample_weight=s).gradient(w)[0] for rows in (X, emptied))
    np.testing.assert_allclose(full, zeroed, rtol=1e-12, atol=1e-14)


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_float32_is_near_float64(form):
    """Objective, gradient and variance of float32 rows are those of float64 to single precision."""
    X, y, s, w = some_data()
    one, two = (
        Problem.build(form(X.astype(dtype)), y, l2=0.1, sample_weight=s, fit_intercept=True)
        for dtype in (np.float32, np.float64)
    )
    assert one.X.dtype == np.float32
    assert one.objective(w, 0.5) == pytest.approx(two.objective(w, 0.5), rel=1e-6)
    np.testing.assert_allclose(
        one.gradient(w, 0.5)[0], two.gradient(w, 0.5)[0], rtol=1e-5, atol=1e-6
    )
    pairs = np.arange(16).reshape(8, 2)
    for groups in (None, pairs):
        assert group_variance(one, one.slopes(w), groups) == pytest.approx(
            group_variance(two, two.slopes(w), groups), rel=1e-5
        )


# ---- variance


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.data())
def test_the_variance_of_groups_is_that_of_their_enumeration(form, dtype, data):
    """The variance of groups equals the mean of ``|u_k - mean u|^2`` over all groups.

    For every group size, with weights and intercept, at any scale.
    """
    X, y = data.draw(
        problems(
            integer_rows(
                min_rows=2, scales=EXACT_SCALES if dtype == np.float64 else EXACT_SCALES_32
            )
        )
    )
    s, fit_intercept = data.draw(st.none() | weights(len(y))), data.draw(st.booleans())
    problem = Problem.build(form(X.astype(dtype)), y, sample_weight=s, fit_intercept=fit_intercept)
    slopes = problem.slopes()
    size = data.draw(st.integers(1, 3))
    groups = np.column_stack([data.draw(permutations(len(y))) for _ in range(size)])
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    expected = enumerated_variance(problem, slopes, groups)
    size_of_gradients = (group_gradients(problem, slopes, groups) ** 2).sum(axis=1).mean()
    assert group_variance(problem, slopes, groups) == pytest.approx(
        expected, rel=tolerance, abs=tolerance * size_of_gradients
    )


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_rows_are_groups_of_their_own(form, fit_intercept):
    """Without groups, each row is a group."""
    X, y, s, w = some_data()
    problem = Problem.build(form(X), y, sample_weight=s, fit_intercept=fit_intercept)
    slopes = problem.slopes(w)
    expected = enumerated_variance(problem, slopes, np.arange(17)[:, None])
    assert group_variance(problem, slopes) == pytest.approx(expected, rel=1e-12)


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_halves_are_the_variance_inside_pairs(form, fit_intercept):
    """The variance inside pairs plus the variance of the pairs is the variance of their rows.

    Inside pairs it is the mean square of half the difference.
    """
    X, y, s, w = some_data(16)
    problem = Problem.build(form(X), y, sample_weight=s, fit_intercept=fit_intercept)
    slopes, pairs = problem.slopes(w), np.arange(16)[::-1].reshape(8, 2)
    halves = group_variance(problem, slopes, pairs, halves=True)
    expected = (group_gradients(problem, slopes, pairs, signs=(1.0, -1.0)) ** 2).sum(axis=1).mean()
    assert halves == pytest.approx(expected, rel=1e-12)
    assert halves + group_variance(problem, slopes, pairs) == pytest.approx(
        group_variance(problem, slopes), rel=1e-12
    )


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("halves", [False, True])
def test_blocks_change_nothing(form, halves, monkeypatch):
    """The variance is the same whether groups come in one block or many, the last one short."""
    X, y, _, w = some_data(14)
    problem = Problem.build(form(X), y, fit_intercept=True)
    slopes, pairs = problem.slopes(w), np.arange(14).reshape(7, 2)
    whole = group_variance(problem, slopes, pairs, halves=halves)
    for entries in (1, 8, 12):  # blocks of 1, 2 and 3 groups
        monkeypatch.setattr("antithetic._util.validation.BLOCK_ENTRIES", entries * 2)
        assert group_variance(problem, slopes, pairs, halves=halves) == pytest.approx(
            whole, rel=1e-13
        )


@pytest.mark.kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("n", [2, 3, 7, 50, 1001, 4999])
def test_the_variance_of_equal_groups_is_exactly_zero(n, form, dtype):
    """Any number of rows with equal gradients has variance 0, without rounding error."""
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    row = np.random.default_rng(0).normal(size=7) * 1e3
    problem = Problem.build(form((row * y[:, None]).astype(dtype)), y, fit_intercept=False)
    slopes = np.where(y > 0.0, 0.1, -0.1)
    assert group_variance(problem, slopes) == 0.0
    assert (
        group_variance(problem, slopes, np.column_stack([np.arange(n), np.roll(np.arange(n), 1)]))
        == 0.0
    )


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_digits_are_lost_where_gradients_cancel(form):
    """The variance is exact where gradients of size 2^40 cancel in pairs to their last digits."""
    left = np.arange(1.0, 9.0)
    X = np.column_stack([np.repeat(2.0**40, 16), np.repeat(2.0**39, 16)])
    X[::2, 0] += left
    y = np.tile([1.0, -1.0], 8)
    problem = Problem.build(form(X), y)
    means = [Fraction(int(k), 4) for k in left]  # slopes are -+1/2, and a pair has two members
    exact = sum(mean**2 for mean in means) / 8 - (sum(means) / 8) ** 2
    assert group_variance(problem, problem.slopes(), np.arange(16).reshape(8, 2)) == pytest.approx(
        float(exact), rel=1e-14
    )


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_digits_are_lost_to_a_large_mean(form):
    """Gradients that differ little, far from zero: dense and CSR both give the exact variance."""
    X = 2.0**26 + np.arange(4.0)[:, None]
    problem = Problem.build(form(X), [1.0, 1.0, 1.0, 1.0], loss="squared_error")
    assert group_variance(problem, problem.slopes()) == pytest.approx(1.25, rel=1e-9)


def test_ratios_of_zero():
    """0 / 0 is 1: neither varies, so neither is better."""
    assert ratio(0.0, 0.0) == 1.0
    assert ratio(1.0, 0.0) == np.inf
    assert ratio(0.0, 2.0) == 0.0
    assert ratio(1.0, 2.0) == 0.5


# ---- build


def test_a_problem_keeps_what_it_was_given():
    """Signs, classes, sizes and flags are as given; regression has no classes."""
    problem = Problem.build(
        [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["no", "yes", "no"], fit_intercept=1
    )
    assert (problem.n, problem.d, problem.fit_intercept, problem.weight) == (3, 2, True, None)
    assert problem.y.tolist() == [-1.0, 1.0, -1.0]
    assert problem.classes.tolist() == ["no", "yes"]
    assert Problem.build([[1.0]], [2.5], loss="huber").classes is None


@pytest.mark.parametrize(
    "argument",
    [
        {"l2": -1.0},
        {"l2": np.nan},
        {"l1": np.inf},
        {"loss": "none"},
        {"sample_weight": [-1.0, 1.0]},
    ],
)
def test_an_impossible_problem_is_refused(argument):
    """Each argument is checked when the problem is made, and named in the error."""
    with pytest.raises(ValueError, match=next(iter(argument))):
        Problem.build([[1.0], [2.0]], [0, 1], **argument)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_variance_of_units_of_any_sizes(form, fit_intercept):
    """Drawn with any probabilities and multiplied by any factors.

    The same as that of groups where all are alike.
    """
    X, y, weight, coef = some_data()
    problem = Problem.build(form(X), y, sample_weight=weight, fit_intercept=fit_intercept)
    slopes, rng = problem.slopes(coef), np.random.default_rng(1)
    rows, starts = rng.permutation(17), np.array([0, 1, 4, 9, 17])
    chances, factors = np.array([0.5, 0.0, 0.2, 0.3]), np.array([2.0, 0.0, -1.0, 0.5])
    u = (
        np.concatenate(
            [group_gradients(problem, slopes, [group]) for group in np.split(rows, starts[1:-1])]
        )
        * factors[:, None]
    )
    wanted = chances @ ((u - chances @ u) ** 2).sum(axis=1)
    np.testing.assert_allclose(
        unit_variance(problem, slopes, rows, starts, chances, factors), wanted, rtol=1e-12
    )
    groups = rows[:16].reshape(-1, 4)
    alike = unit_variance(problem, slopes, rows[:16], np.arange(0, 17, 4), np.full(4, 0.25))
    np.testing.assert_allclose(alike, group_variance(problem, slopes, groups), rtol=1e-12)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_many_equal_units_have_no_variance(form, fit_intercept):
    """Exactly zero: what rounding makes of the mean of many is taken out."""
    n = 100_003
    problem = Problem.build(
        form(np.full((n, 3), 0.1)),
        np.full(n, 0.7),
        loss="squared_error",
        fit_intercept=fit_intercept,
    )
    assert (
        unit_variance(
            problem, problem.slopes(), np.arange(n), np.arange(n + 1), np.full(n, 1.0 / n)
        )
        == 0.0
    )
