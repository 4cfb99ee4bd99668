"""Weights without a penalty, or of few numbers, are within 0.01 standard errors of the optimum."""

import numpy as np
import pytest
from reference_newton import errors
from scipy import sparse
from scipy.special import expit

from antithetic import LogisticRegression, LogisticRegressionCV
from antithetic.exact.goal import Goal, settled_distance
from antithetic.exact.path import solve_problem, sums_of
from antithetic.problem import Problem
from antithetic.problem.penalties import elastic_net

N = 10_000


def rows(seed=1, n=N):
    """Three columns far from zero and on other scales, and predictions that are often certain."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    scores = Z @ [10.0, -11.0, 5.0] - 1.0
    return Z * [1.0, 5.0, 0.1] + [2.0, 0.0, -3.0], scores, rng


def labels(classes, scores, rng):
    if classes == 2:
        return (rng.random(len(scores)) < expit(scores)).astype(int)
    of_class = np.outer(scores, np.linspace(-0.5, 0.5, classes))
    return np.argmax(of_class + rng.gumbel(size=of_class.shape), axis=1)


@pytest.mark.parametrize("n", [900, N])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("C", [np.inf, 1.0])
def test_every_weight_is_within_a_hundredth_of_a_standard_error(n, kind, classes, C):
    """The default tolerance leaves no error that a statistician could see."""
    X, scores, rng = rows(n=n)
    y = labels(classes, scores, rng)
    given = {"float64": X, "float32": X.astype(np.float32), "csr": sparse.csr_array(X)}[kind]
    exact = given if kind == "float32" else X
    assert errors(LogisticRegression(C=C).fit(given, y), exact, y, C=C).max() <= 0.01


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("C", [np.inf, 1.0])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e5])
def test_weights_of_rows_count_as_rows(unit, classes, C):
    """A row of weight 1e5 is 1e5 rows, and standard errors are as small as they make them."""
    X, scores, rng = rows(2)
    y, weight = labels(classes, scores, rng), unit * rng.exponential(size=N) ** 2
    model = LogisticRegression(C=C).fit(X, y, sample_weight=weight)
    assert errors(model, X, y, weight, C).max() <= 0.01


def test_few_rows_reach_the_same_accuracy():
    """Rows of weight 1e9 need more than the ten digits of the objective that few rows get."""
    X, scores, rng = rows(0, n=200)
    y, weight = labels(2, scores, rng), np.full(200, 1e9)
    problem = Problem.build(
        X, 2.0 * y - 1.0, loss="log_loss", l2=0.01, fit_intercept=True, sample_weight=weight
    )
    sums, found = sums_of(problem), solve_problem(problem, tol=1e-4, max_iter=100)
    reached = problem.objective(found.coef[0], float(found.intercept[0]))
    assert found.gap * (sums.constant()[1] - reached) <= settled_distance(sums)


def test_the_fits_of_a_cross_validation_are_as_accurate():
    """The final fit, and those of the folds, which are public too."""
    X, scores, rng = rows(4)
    y = labels(2, scores, rng)
    folds = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(1, N, 2), np.arange(0, N, 2))]
    search = LogisticRegressionCV(Cs=[1e-3, 1.0, np.inf], cv=folds).fit(X, y)
    assert errors(search, X, y, C=search.C_).max() <= 0.01
    for (train, _), path in zip(folds, search.coefs_paths_, strict=True):
        for C, theta in zip(search.Cs_, path[0], strict=True):
            fold = LogisticRegression()
            fold.coef_, fold.intercept_ = theta[:, :-1], theta[:, -1]
            assert errors(fold, X[train], y[train], C=C).max() <= 0.01


def test_a_large_tol_asks_for_a_quick_fit():
    """Above 1e-3, a fit ends as soon as its gap is small enough."""
    X, scores, rng = rows()
    y = labels(2, scores, rng)
    quick = LogisticRegression(C=np.inf, tol=1e-2).fit(X, y)
    assert quick.gap_ <= 1e-2
    assert quick.n_iter_[0] < LogisticRegression(C=np.inf).fit(X, y).n_iter_[0]


@pytest.mark.parametrize(
    ("d", "penalty", "is_asked"),
    [
        (100, (1.0, 0.0), True),
        (101, (1.0, 0.0), False),
        (101, (0.0, 0.0), True),
        (1, (1.0, 1e-9), False),
    ],
)
def test_the_accuracy_is_asked_for_where_it_is_cheap(d, penalty, is_asked):
    """With L2 alone, up to 1e8 products for a Hessian; without a penalty always; with L1 never."""
    X = np.random.default_rng(0).normal(size=(N, d))
    problem = Problem.build(X, np.where(X[:, 0] > 0.0, 1.0, -1.0), loss="log_loss")
    sums = sums_of(problem).with_penalty(elastic_net(*penalty))
    assert settled_distance(sums) == (5e-5 / N if is_asked else np.inf)
    assert np.isfinite(Goal.of(sums, 1e-4, 1.0).settled) == is_asked


@pytest.mark.filterwarnings("always::sklearn.exceptions.ConvergenceWarning")
def test_separated_classes_end_with_a_warning():
    """Without an optimum there is nothing to be near to: the fit ends and says so."""
    X, _, _ = rows()
    with pytest.warns(UserWarning, match="perfectly separated") as caught:
        model = LogisticRegression(C=np.inf).fit(X, X[:, 0] > 2.1)
    assert len(caught) == 1
    assert model.n_iter_[0] < 100
