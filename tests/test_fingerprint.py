"""Which data a table was made for: any change is noticed, whatever the storage format."""

from __future__ import annotations

import numpy as np
import pytest
from fingerprints import mark_of, same
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import integer_rows

from antithetic import AntitheticTable, pair, pair_rows

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
X = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
Y = np.array([0, 1, 1, 0, 1])
CYCLE = [1, 2, 3, 4, 0]


@given(data=st.data(), rows=integer_rows())
def test_dense_and_csr_have_one_fingerprint(data, rows):
    """The same values give the same fingerprint, however zeros are stored and signed.

    Float32 has another.
    """
    y = data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)))
    stored = sparse.csr_array(np.ones_like(rows))
    stored.data[:] = rows.ravel()
    mark = mark_of(rows, y)
    assert same(mark, mark_of(sparse.csr_array(rows), y))
    assert same(mark, mark_of(stored, y))
    assert same(mark, mark_of(np.where(rows == 0.0, -0.0, rows), y))
    assert not same(mark, mark_of(rows.astype(np.float32), y))


@given(data=st.data(), rows=integer_rows(min_rows=2))
def test_any_change_of_the_rows_changes_the_fingerprint(data, rows):
    """Changing one value, or swapping two different rows, changes the hash."""
    mark = mark_of(rows, np.arange(len(rows)))
    place = tuple(data.draw(st.integers(0, k - 1)) for k in rows.shape)
    changed = rows.copy()
    changed[place] += 1.0
    assert mark_of(changed, np.arange(len(rows))).values != mark.values
    swapped = rows[[1, 0, *range(2, len(rows))]]
    assert (mark_of(swapped, np.arange(len(rows))).values == mark.values) == np.array_equal(
        rows[0], rows[1]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_hash_does_not_depend_on_blocks(dtype, monkeypatch):
    """Rows are hashed block by block, and the blocks leave no trace."""
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    whole = [mark_of(form(rows), np.arange(50)).values for form in FORMS.values()]
    monkeypatch.setattr("antithetic.pairing.fingerprint._BLOCK_ENTRIES", 7)
    assert [mark_of(form(rows), np.arange(50)).values for form in FORMS.values()] == whole


OTHER_DATA = {
    "a value": (np.where(X == 2.0, 2.5, X), Y, "other values of X"),
    "the float type": (X.astype(np.float32), Y, "other values of X"),
    "the order of rows": (X[[0, 2, 1, 3, 4]], Y, "other values of X"),
    "a label": (X, [0, 1, 1, 1, 1], "other labels: 1 differ, first that of row 3"),
    "all labels": (X, 2 * Y - 1, "other labels: 2 differ, first that of row 0"),
    "a feature more": (np.column_stack([X, X]), Y, "made for 2 features and X has 4"),
    "a row less": (X[:4], Y[:4], "the table has 5 rows and X has 4"),
}


@pytest.mark.kernel
@pytest.mark.parametrize(("rows", "y", "complaint"), OTHER_DATA.values(), ids=OTHER_DATA)
def test_a_table_meets_only_its_own_data(rows, y, complaint):
    """Every use checks the fingerprint; the error says what differs and what to do."""
    table = pair(X, Y)
    for use in (table.check, table.variance_ratio):
        with pytest.raises(ValueError, match=f"{complaint}.*antithetic.pair"):
            use(rows, y)
    with pytest.raises(ValueError, match=f"{complaint}.*antithetic.pair"):
        AntitheticTable(CYCLE, table.fingerprint).to_matching(rows, y)


@pytest.mark.kernel
@pytest.mark.parametrize("y", [Y.astype(float), Y.astype(bool), Y.tolist(), Y[:, None]])
def test_the_same_labels_in_another_type_are_the_same(y):
    """1, 1.0 and True are one label; so are dense and CSR rows."""
    table = pair(X, Y)
    table.check(X, y)
    table.check(sparse.csr_matrix(X), y)


@pytest.mark.kernel
def test_text_labels_are_known_by_their_text():
    """Strings of any width, or as objects, are compared by their text."""
    text = np.array(["no", "yes"])[Y]
    table = pair(X, text)
    table.check(X, text.astype("U40"))
    table.check(X, text.astype(object))
    with pytest.raises(ValueError, match="other labels: 2 differ"):
        table.check(X, np.where(text == "no", "never", text))


@pytest.mark.kernel
def test_labels_of_another_length_are_refused():
    """The error speaks of labels, not of shapes that cannot be broadcast."""
    with pytest.raises(ValueError, match="label"):
        pair(X, Y).check(X, Y[:4])


@pytest.mark.kernel
def test_a_derived_table_checks_rows_and_labels_only():
    """A table of a subset checks the number of rows and the labels, but not the values."""
    part = pair(X, Y)[[0, 2, 4]]
    part.check(X[[0, 2, 4]] + 1.0, Y[[0, 2, 4]])
    with pytest.raises(ValueError, match="the table has 3 rows and X has 5"):
        part.check(X, Y)
    with pytest.raises(ValueError, match="other labels: 1 differ, first that of row 1"):
        part.check(X[:3], [0, 0, 1])


@pytest.mark.kernel
@pytest.mark.parametrize(
    "table",
    [pair_rows(X, "random", random_state=0), AntitheticTable(CYCLE)],
    ids=["pair_rows", "given"],
)
def test_a_table_of_own_vectors_checks_the_number_of_rows_only(table):
    """A table of the user's own vectors knows nothing about X and y."""
    table.check(X, Y)
    table.check(X + 1.0, 1 - Y)
    with pytest.raises(ValueError, match="the table has 5 rows and X has 4"):
        table.check(X[:4], Y[:4])
