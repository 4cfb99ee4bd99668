"""Pairing of real data: offsets, subnormals, hashed words, continuous labels, intercepts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import antithetic
from antithetic import AntitheticTable, GroupTable, pair


def test_continuous_labels_are_not_classes():
    """A forgotten loss= is named, rather than a class made of each row."""
    with pytest.raises(ValueError, match="squared_error"):
        pair([[1.0], [2.0], [3.0]], [0.1, 0.2, 0.3])


def test_missing_object_labels_are_named():
    """NaN in an object array is refused, not taken for a class."""
    with pytest.raises(ValueError, match=r"NaN, first in row 1"):
        pair([[1.0], [2.0], [3.0]], np.array([1.0, np.nan, 0.0], dtype=object))


@pytest.mark.parametrize("method", ["greedy", "optimal", "tree"])
def test_subnormal_rows_are_paired(method):
    """Rows of subnormal numbers, whose inverse overflows, are paired."""
    X = np.array([[1.0], [2.0], [-3.0], [-1.5]]) * 1e-310
    assert sorted(pair(X, [0, 1, 0, 1], method).partner) == [0, 1, 2, 3]


def test_equal_groups_have_ratio_one():
    """0 / 0 is 1 for groups too, however the mean of many equal rows is rounded."""
    X, y = np.full((100001, 3), 0.1), np.full(100001, 0.7)
    for rows in (X, X.astype(np.float32)):
        assert GroupTable(np.arange(100001), 4).variance_ratio(rows, y, loss="squared_error") == 1.0


@pytest.mark.parametrize("method", ["optimal", "tree"])
def test_float32_rows_with_an_offset_keep_their_digits(method, monkeypatch):
    """The table of float32 rows around 3000 is as good as that of the same rows in float64."""
    monkeypatch.setattr("antithetic.pairing.tree.ONE_LEAF", 100)
    X = (3000.0 + np.random.default_rng(0).standard_normal((400, 3))).astype(np.float32)
    y = np.ones(400)
    single, double = (
        pair(rows, y, method, loss="squared_error").partner for rows in (X, X.astype(float))
    )
    ratios = [
        AntitheticTable(partner).variance_ratio(X.astype(float), y, loss="squared_error")
        for partner in (single, double)
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.1)


def test_an_intercept_without_weights_counts():
    """pair(intercept=) pairs the gradients there, as with weights of zero."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 2, 60)
    there, zeros = (
        pair(X, y, coef=coef, intercept=3.0, fit_intercept=True) for coef in (None, np.zeros(3))
    )
    np.testing.assert_array_equal(there.partner, zeros.partner)
    for call in (pair, antithetic.gradient_variance):
        with pytest.raises(ValueError, match="intercept"):
            call(X, y, intercept=np.nan, fit_intercept=True)


def hashed_rows(n, d):
    """Few words of very many, as hashing gives."""
    rng = np.random.default_rng(0)
    return sparse.csr_array(
        (rng.random(5 * n), rng.integers(0, d, 5 * n).astype(np.int32), np.arange(0, 5 * n + 1, 5)),
        shape=(n, d),
    )


@pytest.mark.parametrize("method", ["greedy", "optimal", "tree"])
def test_a_million_hashed_words_are_as_those_that_occur(method, monkeypatch):
    """Features that no row has change nothing, neither the table nor its ratio."""
    monkeypatch.setattr("antithetic.pairing.tree.ONE_LEAF", 50)
    X = hashed_rows(120, 1 << 20)
    y = np.arange(120) % 2
    few = sparse.csr_array(X[:, np.unique(X.indices)])
    table = pair(X, y, method)
    assert table.variance_ratio(X, y) == pytest.approx(
        pair(few, y, method).variance_ratio(few, y), rel=1e-9
    )


def test_the_mean_direction_counts_with_classes(monkeypatch):
    """The tree is near the optimum where a nearly constant feature tells the classes apart."""
    monkeypatch.setattr("antithetic.pairing.tree.ONE_LEAF", 100)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((900, 40)), rng.integers(0, 3, 900)
    X[:, 0] = 5.0 + 0.01 * X[:, 0]
    assert pair(X, y, "tree").variance_ratio(X, y) < 1.05 * pair(X, y, "optimal").variance_ratio(
        X, y
    )
