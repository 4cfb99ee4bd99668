"""Quality of a table: each figure by brute force, and a lower bound on the ratio."""

from __future__ import annotations

from itertools import permutations as all_permutations
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_pairing import signed_rows
from scipy import sparse
from strategies import integer_rows, permutations, problems, real_rows, weights

from antithetic import AntitheticTable, datasets, pair, pair_rows
from antithetic.pairing import quality
from antithetic.pairing.quality import dual_bound
from antithetic.pairing.rows import Rows, rows_ratio

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}


def some_data(n=60, d=4):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, d)) + 0.3
    X[rng.random((n, d)) < 0.3] = 0.0
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def ratio_of(vectors, partner):
    """Variance of a pair's mean over that of two independent rows, by enumeration."""
    centre = vectors.mean(axis=0)
    paired = (((vectors + vectors[partner]) / 2.0 - centre) ** 2).sum(axis=1).mean()
    alone = ((vectors - centre) ** 2).sum(axis=1).mean() / 2.0
    return paired / alone if alone else 1.0


# ---- each figure


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(
    problem=problems(integer_rows(min_rows=2, max_rows=5)),
    data=st.data(),
    fit_intercept=st.booleans(),
)
def test_every_figure_is_its_definition(form, problem, data, fit_intercept):
    """Ratio, mean product and shares of any table equal their enumeration.

    The best ratio equals that over all permutations of up to five rows.
    """
    X, y = problem
    s = data.draw(st.none() | weights(len(y)))
    partner = data.draw(permutations(len(y)))
    Z = signed_rows(X, y, fit_intercept, s)
    products = (Z * Z[partner]).sum(axis=1)
    found = AntitheticTable(partner).quality(
        form(X), y, fit_intercept=fit_intercept, sample_weight=s
    )
    assert found.variance_ratio == pytest.approx(ratio_of(Z, partner), rel=1e-10, abs=1e-10)
    assert found.mean_product == pytest.approx(products.mean(), rel=1e-12, abs=1e-12)
    assert found.negative_share == (products < 0.0).mean()
    assert found.opposite_share == (y != y[partner]).mean()
    best = min(ratio_of(Z, list(order)) for order in all_permutations(range(len(y))))
    assert found.best_ratio == pytest.approx(best, rel=1e-10, abs=1e-10)
    assert found.best_by == "assignment"


def test_quality_is_that_of_the_gradients_at_given_weights():
    """With ``coef`` and ``intercept``, quality is that of the gradients at these weights.

    Checked for two classes and for a regression.
    """
    X, y = some_data()
    w, table = np.array([0.5, -1.0, 0.3, 2.0]), AntitheticTable(np.roll(np.arange(60), 1))
    for loss, slopes in (
        ("log_loss", -y / (1.0 + np.exp(y * (X @ w + 0.7)))),
        ("squared_error", X @ w + 0.7 - y),
    ):
        G = signed_rows(X, slopes, True)
        products = (G * G[table.partner]).sum(axis=1)
        found = table.quality(X, y, coef=w, intercept=0.7, loss=loss, fit_intercept=True)
        assert found.variance_ratio == pytest.approx(ratio_of(G, table.partner), rel=1e-10)
        assert found.mean_product == pytest.approx(products.mean(), rel=1e-10)
        assert found.negative_share == (products < 0.0).mean()
        assert found.best_ratio == pytest.approx(
            ratio_of(G, pair_rows(G, "optimal").partner), rel=1e-10
        )


@pytest.mark.parametrize("power", [-400, -100, 100, 400])
def test_the_mean_product_is_in_the_units_of_the_data(power):
    """Rows of 2^400 have products of 2^800; the other figures have no unit."""
    X, y = some_data()
    table = AntitheticTable(np.roll(np.arange(60), 1))
    plain, scaled = (table.quality(rows, y) for rows in (X, X * 2.0**power))
    assert scaled.negative_share == plain.negative_share
    assert scaled.variance_ratio == pytest.approx(plain.variance_ratio, rel=1e-10)
    assert scaled.best_ratio == pytest.approx(plain.best_ratio, rel=1e-10)
    assert scaled.mean_product == pytest.approx(plain.mean_product * 4.0**power, rel=1e-10, abs=0.0)


def test_a_regression_has_no_opposite_labels():
    """``opposite_share`` is None where y are numbers."""
    X, y = some_data()
    table = AntitheticTable(np.arange(60))
    assert table.quality(X, y, loss="squared_error").opposite_share is None
    assert table.quality(X, y).opposite_share == 0.0


def test_labels_of_text_and_of_a_column_count_as_opposite():
    """Any two labels will do, in one column or as a column."""
    X, y = some_data()
    table = pair(X, y, "random")
    expected = (y != y[table.partner]).mean()
    for labels in (np.where(y > 0.0, "yes", "no"), y[:, None], y.tolist()):
        assert AntitheticTable(table.partner).quality(X, labels).opposite_share == expected


def test_the_best_table_reaches_the_best_ratio():
    """On real data the optimum has nothing left to gain, and Algorithm 1 has something."""
    X, y = datasets.load("sonar_scale", return_X_y=True)
    best, quick = (pair(X, y, method).quality(X, y) for method in ("optimal", "greedy"))
    assert best.variance_ratio == pytest.approx(best.best_ratio, rel=1e-10)
    assert quick.best_ratio == pytest.approx(best.best_ratio, rel=1e-10)
    assert quick.variance_ratio > 1.3 * quick.best_ratio


@pytest.mark.parametrize("value", [0.0, 0.1, 3.0])
def test_rows_that_do_not_vary_cannot_be_paired_better(value):
    """Equal signed rows do not vary: 0/0 counts as 1, for the table and the best one.

    The best ratio is exact or a bound.
    """
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0])
    X = y[:, None] * np.array([value, 3.0 * value, -0.7 * value])
    for exact_rows in (2000, 0):
        with mock.patch.object(quality, "EXACT_ROWS", exact_rows):
            found = pair(X, y, "greedy").quality(X, y)
        assert (found.variance_ratio, found.best_ratio) == (1.0, 1.0)


def test_quality_checks_the_data():
    """A table of other data is refused."""
    X, y = some_data()
    with pytest.raises(ValueError, match="other values of X"):
        pair(X, y).quality(X + 1.0, y)


# ---- a bound


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@settings(max_examples=30)
@given(problem=problems(real_rows(min_rows=2)), data=st.data())
def test_no_table_is_below_the_best_ratio(form, problem, data):
    """No random table has a ratio below the best one reported, exact or by the dual bound."""
    X, y = problem
    one, other = (AntitheticTable(data.draw(permutations(len(y)))) for _ in range(2))
    ratio = other.variance_ratio(form(X), y)
    for exact_rows in (2000, 0):
        with mock.patch.object(quality, "EXACT_ROWS", exact_rows):
            assert one.quality(form(X), y).best_ratio <= ratio + 1e-9


@pytest.mark.kernel
@given(
    rows=integer_rows(min_rows=2, max_rows=12),
    dual_rows=st.integers(1, 12),
    seed=st.integers(0, 5),
    data=st.data(),
)
def test_the_dual_bound_is_below_the_optimum(rows, dual_rows, seed, data):
    """The dual bound is at most the best ratio, for any subset, with one class or four."""
    codes = data.draw(st.none() | st.just(np.arange(len(rows)) % 4))
    few = Rows(rows, codes=codes, classes=4)
    best = rows_ratio(few, pair_best(few))
    with mock.patch.object(quality, "_DUAL_ROWS", dual_rows):
        bound, by = dual_bound(few, np.random.default_rng(seed))
    assert by == "dual"
    assert 0.0 <= bound <= best + 1e-9


@pytest.mark.kernel
@given(rows=integer_rows(min_rows=2, max_rows=12))
def test_the_dual_bound_of_all_rows_is_the_optimum(rows):
    """With all rows in the subset, the dual bound equals the optimum."""
    bound, _ = dual_bound(Rows(rows), np.random.default_rng(0))
    assert bound == pytest.approx(rows_ratio(Rows(rows), pair_best(Rows(rows))), abs=1e-9)


def pair_best(rows):
    from antithetic.pairing.optimal import optimal_table

    return optimal_table(rows)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_dual_bound_is_worth_having(form, classes, dtype, monkeypatch):
    """From a third of the rows the bound is at most the optimum, and above half of it.

    Blocks of products of any size give the same.
    """
    X, y = some_data(300)[0].astype(dtype), np.arange(300) % classes
    table = pair(form(X), y, "optimal")
    best = table.variance_ratio(form(X), y)
    monkeypatch.setattr(quality, "EXACT_ROWS", 0)
    monkeypatch.setattr(quality, "_DUAL_ROWS", 100)
    whole = table.quality(form(X), y)
    assert whole.best_by == "dual"
    assert 0.5 * best <= whole.best_ratio <= best + 1e-5
    monkeypatch.setattr(quality, "_BLOCK_PRODUCTS", 1000)
    assert table.quality(form(X), y).best_ratio == pytest.approx(whole.best_ratio, rel=1e-5)


def test_beyond_so_many_rows_the_bound_is_sampled_and_says_so(monkeypatch):
    """A sample mean less three standard errors is below the optimum, for all of 20 seeds."""
    X, y = some_data(400)
    table = pair(X, y, "optimal")
    best = table.variance_ratio(X, y)
    for name, value in {
        "EXACT_ROWS": 0,
        "_SUMMED_ROWS": 300,
        "_SAMPLED_ROWS": 100,
        "_DUAL_ROWS": 100,
    }.items():
        monkeypatch.setattr(quality, name, value)
    greedy = pair(X, y, "greedy")
    for seed in range(20):
        found = greedy.quality(X, y, random_state=seed)
        assert found.best_by == "sampled dual"
        assert 0.0 <= found.best_ratio <= best + 1e-12
        assert found == greedy.quality(X, y, random_state=seed)


def test_the_exact_bound_ends_where_it_says():
    """2001 rows are bounded, no longer solved, and the tree's table of these is near the bound."""
    X, y = some_data(quality.EXACT_ROWS + 1, 3)
    found = pair(X, y, "tree").quality(X, y)
    assert found.best_by == "dual"
    assert 0.0 <= found.best_ratio <= found.variance_ratio
    assert (1.0 - found.variance_ratio) >= 0.9 * (1.0 - found.best_ratio)
