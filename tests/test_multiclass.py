"""More than two classes: every method pairs the rows ``(e_y - 1/K) (x) x`` without forming them."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference_pairing import largest_excess, literal_table
from scipy import sparse
from strategies import integer_rows, permutations, weights

from antithetic import AntitheticTable, datasets, pair, pair_rows
from antithetic.pairing import tree
from antithetic.pairing.rows import Rows, read_rows, rows_ratio
from antithetic.pairing.table import cut_cycles

pytestmark = pytest.mark.lowest

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}


def formed(X, y, fit_intercept=False, sample_weight=None):
    """Rows ``s_i (e_y - 1/K) (x) (x_i, 1)``, the 1 only with an intercept."""
    X = np.column_stack([X, np.ones(len(X))]) if fit_intercept else np.asarray(X, dtype=np.float64)
    classes, codes = np.unique(y, return_inverse=True)
    memberships = np.eye(len(classes))[codes] - 1.0 / len(classes)
    vectors = (memberships[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    return vectors if sample_weight is None else vectors * np.asarray(sample_weight)[:, None]


def ratio_of(vectors, partner):
    """Variance of a pair's mean over that of two independent rows, by enumeration."""
    centre = vectors.mean(axis=0)
    paired = (((vectors + vectors[partner]) / 2.0 - centre) ** 2).sum(axis=1).mean()
    alone = ((vectors - centre) ** 2).sum(axis=1).mean() / 2.0
    return paired / alone if alone else 1.0


def sum_of_products(vectors, partner):
    return float((vectors * vectors[partner]).sum())


def some_data(n=150, d=4, classes=3):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, d)) + 0.4
    X[rng.random((n, d)) < 0.3] = 0.0
    return X, rng.permutation(np.arange(n) % classes)


@st.composite
def four_classes(draw):
    """Whole-numbered rows of four classes: 1/4 is exact, so products of the formed rows are."""
    X = draw(integer_rows(min_rows=4, max_rows=14))
    y = draw(arrays(np.intp, len(X), elements=st.integers(0, 3)))
    y[:4] = draw(st.permutations(range(4)))
    return X, y


OPTIONS = pytest.mark.parametrize("fit_intercept", [False, True], ids=["", "intercept"])
BOTH_FORMS = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


# ---- tables


@pytest.mark.kernel
@BOTH_FORMS
@given(problem=four_classes(), data=st.data(), fit_intercept=st.booleans())
def test_greedy_is_algorithm_1_of_the_formed_rows(form, problem, data, fit_intercept):
    """On whole numbers the table is that of algorithm 1 on the formed rows, weights included."""
    X, y = problem
    s = data.draw(st.none() | weights(len(y)))
    table = pair(form(X), y, "greedy", fit_intercept=fit_intercept, sample_weight=s, n_jobs=1)
    assert table.partner.tolist() == literal_table(formed(X, y, fit_intercept, s)).tolist()


@BOTH_FORMS
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("classes", [3, 7])
def test_greedy_choices_are_the_smallest_of_their_own_run(form, dtype, tolerance, classes):
    """Each greedy choice is within 1e-12 (float32: 1e-5) of the smallest product of formed rows."""
    X, y = some_data(400, classes=classes)
    partner = pair(form(X.astype(dtype)), y, "greedy", fit_intercept=True).partner
    assert largest_excess(formed(X.astype(dtype), y, True), partner) <= tolerance


@BOTH_FORMS
@OPTIONS
@pytest.mark.parametrize("classes", [3, 4, 10])
def test_optimal_has_the_least_sum_of_the_formed_rows(form, fit_intercept, classes):
    """Its sum of products is that of the best table of the formed rows."""
    X, y = some_data(60, classes=classes)
    s = np.arange(60) % 3 + 0.5
    vectors = formed(X, y, fit_intercept, s)
    best = sum_of_products(vectors, pair_rows(vectors, "optimal").partner)
    found = pair(form(X), y, "optimal", fit_intercept=fit_intercept, sample_weight=s).partner
    assert sum_of_products(vectors, found) == pytest.approx(best, rel=1e-10)


@BOTH_FORMS
@pytest.mark.parametrize("method", ["tree", "auto"])
def test_tree_comes_near_the_best_table_of_the_formed_rows(form, method):
    """Few rows get the optimum; with small buckets, nine tenths of its reduction."""
    X, y = some_data(400)
    vectors = formed(X, y)
    best = ratio_of(vectors, pair_rows(vectors, "optimal").partner)
    assert ratio_of(vectors, pair(form(X), y, method).partner) == pytest.approx(best, abs=1e-10)
    with mock.patch.object(tree, "ONE_LEAF", 50):
        walked = ratio_of(vectors, pair(form(X), y, method).partner)
    assert (1.0 - walked) / (1.0 - best) >= 0.9


def test_labels_may_be_anything_that_can_be_sorted():
    """Text, or numbers far apart: the classes count, not their names."""
    X, y = some_data(40)
    expected = pair(X, y, "greedy").partner.tolist()
    assert pair(X, np.array(["ant", "bee", "cat"])[y], "greedy").partner.tolist() == expected
    assert pair(X, y[:, None] * 1000 - 7, "greedy").partner.tolist() == expected


def test_two_classes_of_three_pair_as_three():
    """A class without a row does not exist: 0 and 2 alone are two classes."""
    X, y = some_data(40, classes=2)
    assert pair(X, 2 * y, "greedy").partner.tolist() == pair(X, y, "greedy").partner.tolist()


# ---- ratios


@BOTH_FORMS
@OPTIONS
@given(data=st.data(), classes=st.integers(3, 6))
def test_the_ratio_is_that_of_the_formed_rows(form, fit_intercept, data, classes):
    """``variance_ratio`` and ``rows_ratio`` of any table equal the enumeration to 1e-10."""
    X = data.draw(integer_rows(min_rows=classes, max_rows=14))
    y = np.arange(len(X)) % classes
    s = data.draw(st.none() | weights(len(X)))
    partner = data.draw(permutations(len(X)))
    options = {"fit_intercept": fit_intercept, "sample_weight": s}
    expected = ratio_of(formed(X, y, fit_intercept, s), partner)
    assert AntitheticTable(partner).variance_ratio(form(X), y, **options) == pytest.approx(
        expected, rel=1e-10, abs=1e-10
    )
    rows, problem = read_rows(form(X), y, loss="log_loss", coef=None, intercept=0.0, **options)
    assert problem is None
    assert rows_ratio(rows, partner) == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("scale", [2.0**-500, 2.0**-200, 2.0**200, 2.0**500])
def test_the_ratio_has_no_unit(scale):
    """Rescaling all features changes neither the ratio nor the greedy and best tables."""
    X, y = some_data()
    for method in ("greedy", "optimal"):
        plain, scaled = (pair(rows, y, method).variance_ratio(rows, y) for rows in (X, X * scale))
        assert scaled == pytest.approx(plain, rel=1e-9)


def test_a_table_of_all_classes_is_better_for_all_than_one_of_one_class():
    """On digits the table of all classes gains, 0.89.

    One made for class 0 against the rest gains less, 0.92.
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    together, one = pair(X, y), pair(X, y == 0)
    assert together.variance_ratio(X, y) < 0.9
    assert together.variance_ratio(X, y) < AntitheticTable(one.partner).variance_ratio(X, y)


# ---- matchings


@BOTH_FORMS
@pytest.mark.parametrize("n", [149, 150])
def test_a_matching_records_its_loss(form, n):
    """``to_matching`` gives mutual pairs, at most one single row, and both ratios.

    The ratios are those of the formed rows before and after.
    """
    X, y = some_data(n)
    table = pair(form(X), y, "greedy", fit_intercept=True)
    mates = table.to_matching(form(X), y, fit_intercept=True)
    vectors = formed(X, y, True)
    assert mates.is_matching
    assert mates.matching_loss.before == pytest.approx(ratio_of(vectors, table.partner), rel=1e-10)
    assert mates.matching_loss.after == pytest.approx(ratio_of(vectors, mates.partner), rel=1e-10)
    assert mates.to_matching(form(X), y, fit_intercept=True) is mates


@BOTH_FORMS
@given(problem=four_classes(), data=st.data())
def test_a_matching_is_that_of_the_formed_rows(form, problem, data):
    """Cycles are cut, and leftover rows paired, by the products of the formed rows.

    The products of the features alone would give another matching.
    """
    X, y = problem
    table = AntitheticTable(data.draw(permutations(len(X)) | st.just(np.arange(len(X)))))
    expected = table.partner if table.is_matching else cut_cycles(table.partner, Rows(formed(X, y)))
    assert table.to_matching(form(X), y).partner.tolist() == expected.tolist()


# ---- what else there is


@BOTH_FORMS
def test_quality_of_several_classes(form):
    """Each field equals the enumeration over formed rows; the best ratio is the best table's."""
    X, y = some_data(80)
    table = pair(form(X), y, "greedy")
    vectors, quality = formed(X, y), table.quality(form(X), y)
    products = (vectors * vectors[table.partner]).sum(axis=1)
    assert quality.variance_ratio == pytest.approx(ratio_of(vectors, table.partner), rel=1e-10)
    assert quality.mean_product == pytest.approx(products.mean(), rel=1e-10)
    assert quality.negative_share == (products < 0.0).mean()
    assert quality.opposite_share == (y != y[table.partner]).mean()
    assert quality.best_ratio == pytest.approx(
        ratio_of(vectors, pair_rows(vectors, "optimal").partner), rel=1e-10
    )


def test_the_fingerprint_knows_the_labels():
    """A table of several classes is refused for other labels and other rows."""
    X, y = some_data(40)
    table = pair(X, y, "greedy")
    table.check(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="other labels"):
        table.variance_ratio(X, (y + 1) % 3)
    with pytest.raises(ValueError, match="other values of X"):
        table.quality(X + 1.0, y)


def test_a_callable_is_refused_with_several_classes():
    """A callable would be shown rows that are never formed.

    The error names it and says what to use.
    """

    def backwards(rows):
        return range(rows.shape[0] - 1, -1, -1)

    X, y = some_data(12)
    with pytest.raises(ValueError, match=r"method=backwards takes rows of two classes .*pair_rows"):
        pair(X, y, backwards)


def test_weights_of_a_model_are_refused():
    """``coef`` with several classes is refused before any work, in pairing and in measuring."""
    X, y = some_data(12)
    table = pair(X, y, "greedy")
    for ask in (pair, table.variance_ratio, table.quality, table.to_matching):
        with pytest.raises(
            ValueError,
            match=r"coef= pairs gradients of two classes or of a regression, and y has 3 classes",
        ):
            ask(X, y, coef=np.zeros(4))


def test_many_labels_of_a_regression_are_not_classes():
    """The loss says what y is: numbers for a regression, however few they are."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    X, y = X[:60], np.arange(60.0) % 3
    expected = pair_rows(X * -y[:, None], "greedy").partner
    assert pair(X, y, "greedy", loss="squared_error").partner.tolist() == expected.tolist()
