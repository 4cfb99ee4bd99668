"""``method="auto"`` with a budget in seconds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from antithetic import pair, pair_rows
from antithetic.pairing import pairer
from antithetic.pairing.rows import Rows, rows_ratio


def wide_rows(n, d=50):
    """Rows with many directions of similar spread, where greedy choices beat a tree's."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal((n, d)) * np.linspace(1, 0.2, d) + 0.3).astype(np.float32)


def test_time_for_the_best_table_is_used():
    """A few thousand rows and seconds: the optimum, and the note says so."""
    rows = wide_rows(1600, 5)
    table = pair_rows(rows, budget=20.0)
    assert table.method == "optimal"
    assert "best table" in table.note
    np.testing.assert_array_equal(table.partner, pair_rows(rows, "optimal").partner)


def test_without_time_it_is_the_tree():
    """Without time left the result is the tree's."""
    table = pair_rows(wide_rows(1600, 5), budget=1e-6)
    assert table.method == "tree"
    assert "does not fit" in table.note


def test_the_better_of_tree_and_greedy_is_kept(monkeypatch):
    """On wide rows Algorithm 1 wins, on others the tree.

    The result is never worse than the tree's after the same rounds.
    """
    monkeypatch.setattr(pairer, "OPTIMAL_MAX_ROWS", 0)
    rows = wide_rows(3000)
    table = pair_rows(rows, budget=6.0)
    assert table.method == "greedy"
    assert rows_ratio(Rows(rows), table.partner) < rows_ratio(
        Rows(rows), pair_rows(rows, "tree").partner
    )
    flat = pair_rows(wide_rows(3000, 2), budget=3.0)
    assert flat.method == "tree"


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("labels", [2, 3])
def test_sparse_rows_and_classes_have_their_own_way(form, labels, monkeypatch):
    """CSR and several classes are not centred, and give a permutation as well."""
    monkeypatch.setattr(pairer, "OPTIMAL_MAX_ROWS", 0)
    X, y = wide_rows(1600, 4), np.arange(1600) % labels
    assert sorted(pair(form(X), y, budget=2.0).partner) == list(range(1600))


def test_estimates_grow_with_rows_and_entries():
    """Estimates are quadratic in rows, linear in entries, and higher for sparse entries."""
    small, large = Rows(wide_rows(100)), Rows(wide_rows(200))
    assert pairer.greedy_seconds(large) == pytest.approx(4 * pairer.greedy_seconds(small))
    assert pairer.greedy_seconds(Rows(sparse.csr_array(wide_rows(100)))) > pairer.greedy_seconds(
        small
    )
    assert pairer.assignment_seconds(2000) > 4 * pairer.assignment_seconds(1000)
