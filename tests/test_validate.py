"""What comes in: every form of data that is taken, and every error that names what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import integer_rows

from antithetic import SGDClassifier, pair, pair_rows
from antithetic._core import kernels
from antithetic._util.validation import (
    check_coef,
    check_column,
    check_count,
    check_labels,
    check_rows,
    check_weights,
)

ROWS = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [-4.0, 0.0, 5.0]])
CSR = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
OTHER_FORMATS = ["csc", "coo", "lil", "dok", "bsr", "dia"]


def with_indices(make, index):
    """Build CSR rows whose indices have a given type."""
    X = make(ROWS)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


# ---- NaN and infinity


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        np.asfortranarray,
        sparse.csr_array,
        sparse.csr_matrix,
        sparse.csc_array,
        sparse.coo_array,
    ],
)
@given(data=st.data(), X=integer_rows(), bad=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_the_first_bad_row_is_named(form, data, X, bad):
    """Wherever NaN or infinity stand, the error names the first one's row and column."""
    places = data.draw(
        st.sets(st.tuples(*(st.integers(0, k - 1) for k in X.shape)), min_size=1, max_size=4)
    )
    X[tuple(np.transpose(list(places)))] = bad
    row, column = min(places)
    with pytest.raises(
        ValueError, match=rf"^X has NaN or infinity, first in row {row}, column {column};"
    ):
        check_rows(form(X))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "X has NaN or infinity, first in row 2, column 'age'"),
        ("Rome", "X must be real numbers; row 2 has 'Rome' in column 'age'"),
    ],
)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_data_frames_are_named(library, value, message):
    """Errors name the column of a data frame by its label, not by its number."""
    module = pytest.importorskip(library)
    ages = ["40", "41", value] if isinstance(value, str) else [40.0, 41.0, value]
    with pytest.raises(ValueError, match=message):
        check_rows(module.DataFrame({"height": [1.0, 2.0, 3.0], "age": ages}))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_opposite_infinities_do_not_cancel(form):
    """Infinities of both signs, whose sum is not infinite, are found too."""
    with pytest.raises(ValueError, match="first in row 1"):
        check_rows(form(np.array([[1.0, 2.0], [np.inf, -np.inf]])))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_largest_numbers_are_finite(form, dtype):
    """Rows whose sum overflows are rows of finite numbers, and are taken."""
    X = np.full((3, 2), np.finfo(dtype).max, dtype=dtype)
    assert check_rows(form(X)).shape == (3, 2)


def test_the_error_names_the_argument():
    """``pair_rows`` speaks of G, ``pair`` of X."""
    bad = [[1.0], [np.nan]]
    with pytest.raises(ValueError, match=r"^G has NaN or infinity, first in row 1"):
        pair_rows(bad)
    with pytest.raises(ValueError, match=r"^X has NaN or infinity, first in row 1"):
        pair(bad, [0, 1])


# ---- shapes


@pytest.mark.parametrize("X", [[1.0, 2.0], 3.0, np.zeros((2, 2, 2))])
def test_rows_have_two_dimensions(X):
    """Anything but rows and features is refused, with the shape that was given."""
    with pytest.raises(
        ValueError, match="X must have two dimensions, rows and features; got shape"
    ):
        check_rows(X)


@pytest.mark.parametrize("make", [sparse.coo_array, sparse.csr_array])
def test_sparse_rows_have_two_dimensions(make):
    """A sparse array of one dimension is refused like a dense one."""
    with pytest.raises(ValueError, match="X must have two dimensions"):
        check_rows(make(np.array([1.0, 0.0, 2.0])))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_data_are_refused(form, shape):
    """Data without a row or without a feature are refused."""
    with pytest.raises(ValueError, match="at least one row and one feature; got shape"):
        check_rows(form(np.zeros(shape)))


@pytest.mark.parametrize("y", [[0, 1, 0], [0, 1, 0, 1, 0], [[0, 1, 0, 1]], 1, np.zeros((4, 2))])
def test_labels_come_one_per_row(y):
    """y of another length or shape is refused, with both shapes."""
    with pytest.raises(ValueError, match=r"y must have shape \(4,\), one label per row of X; got"):
        check_labels(y, 4)
    with pytest.raises(ValueError, match=r"y must have shape \(4,\), one entry per row of X; got"):
        check_column(y, 4, "y")


def test_a_column_of_shape_n_1_is_taken():
    """Labels and numbers as a matrix of one column are a column."""
    assert check_labels([[0], [1], [0]], 3)[0].tolist() == [-1.0, 1.0, -1.0]
    assert check_column([[0], [1], [2]], 3, "y").tolist() == [0.0, 1.0, 2.0]


# ---- forms that are taken


@pytest.mark.parametrize(
    ("given_type", "kept_type"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.longdouble, np.float64),
        (np.int64, np.float64),
        (np.int8, np.float64),
        (np.uint8, np.float64),
        (np.bool_, np.float64),
        (object, np.float64),
        (">f8", np.float64),
    ],
)
def test_number_types(given_type, kept_type):
    """float32 and float64 keep their type, float16 becomes float32, all others float64.

    The values are the same.
    """
    X = np.abs(ROWS).astype(given_type)
    rows = check_rows(X)
    assert rows.dtype == kept_type
    assert rows.dtype.isnative
    np.testing.assert_array_equal(rows, X.astype(np.float64))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
@pytest.mark.parametrize("make", CSR.values(), ids=CSR)
def test_csr_of_every_kind(make, dtype, index):
    """csr_array and csr_matrix, with int32 or int64 indices, become a csr_array of equal values."""
    X = with_indices(make, index).astype(dtype)
    rows = check_rows(X)
    assert isinstance(rows, sparse.csr_array)
    assert rows.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert rows.indices.dtype == rows.indptr.dtype
    np.testing.assert_array_equal(rows.toarray(), X.toarray())


@pytest.mark.parametrize("name", OTHER_FORMATS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_other_sparse_formats_become_csr(name, kind):
    """Every sparse format of SciPy is taken, with the same values."""
    X = getattr(sparse, f"{name}_{kind}")(ROWS)
    rows = check_rows(X)
    assert isinstance(rows, sparse.csr_array)
    np.testing.assert_array_equal(rows.toarray(), ROWS)


def test_mixed_index_types_become_one():
    """CSR with int32 indices and int64 row starts gets one type; the input is unchanged."""
    X = sparse.csr_array(ROWS)
    X.indptr = X.indptr.astype(np.int64)
    rows = check_rows(X)
    assert rows.indices.dtype == rows.indptr.dtype
    assert X.indices.dtype == np.int32
    np.testing.assert_array_equal(rows.toarray(), ROWS)


STRIDED = {
    "every other row": np.repeat(ROWS, 2, axis=0)[::2],
    "every other column": np.repeat(ROWS, 2, axis=1)[:, ::2],
    "Fortran": np.asfortranarray(ROWS),
    "backwards": ROWS[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": np.broadcast_to(ROWS[2], (4, 3)),
    "read-only": read_only(ROWS),
}


@pytest.mark.parametrize("X", STRIDED.values(), ids=STRIDED)
def test_any_memory_layout_is_taken(X):
    """Strided, Fortran-ordered or read-only rows become C-contiguous rows of equal values."""
    rows = check_rows(X)
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, X)


@pytest.mark.parametrize("X", STRIDED.values(), ids=STRIDED)
def test_any_memory_layout_gives_the_same_table(X):
    """Layout and type of the input do not change the table."""
    y = np.array([1.0, -1.0, 1.0, -1.0])
    expected = pair(np.array(X), y, "greedy", n_jobs=1).partner.tolist()
    for same in (
        X,
        X.tolist(),
        X.astype(np.int64),
        X.astype(np.float16),
        read_only(np.array(X)),
        sparse.csr_matrix(X),
    ):
        assert pair(same, y, "greedy", n_jobs=1).partner.tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_contiguous_rows_are_not_copied(dtype):
    """C-contiguous float32 and float64 are used where they are, read-only ones too."""
    X = ROWS.astype(dtype)
    assert np.shares_memory(check_rows(X), X)
    assert np.shares_memory(check_rows(read := read_only(X)), read)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", CSR.values(), ids=CSR)
def test_csr_is_not_copied(make, dtype, index):
    """The three arrays of CSR without repeated entries are used where they are."""
    X = with_indices(make, index).astype(dtype)
    rows = check_rows(X)
    assert all(
        np.shares_memory(getattr(rows, part), getattr(X, part))
        for part in ("data", "indices", "indptr")
    )


def test_repeated_and_unsorted_entries_are_added_up():
    """Repeated entries count as their sum, indices are sorted, and the input stays as it was."""
    data, indices, indptr = (
        np.array([1.0, 2.0, 4.0, 8.0]),
        np.array([2, 0, 2, 1]),
        np.array([0, 3, 3, 4]),
    )
    X = sparse.csr_array((data, indices, indptr), shape=(3, 3))
    rows = check_rows(X)
    assert rows.has_canonical_format
    assert rows.toarray().tolist() == [[2.0, 0.0, 5.0], [0.0, 0.0, 0.0], [0.0, 8.0, 0.0]]
    assert X.data.tolist() == [1.0, 2.0, 4.0, 8.0]
    assert X.indices.tolist() == [2, 0, 2, 1]


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=6), st.booleans())
def test_rows_are_canonical_where_scipy_says_so(columns, wide):
    """Columns rise within each row; they may fall from a row to the next, over empty ones too."""
    kind = np.int64 if wide else np.int32
    indices = np.array([column for row in columns for column in row], dtype=kind)
    indptr = np.cumsum([0, *map(len, columns)], dtype=kind)
    X = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(columns), 5))
    assert kernels.columns_rise(indices, indptr) == X.has_canonical_format
    expected = X.toarray()
    np.testing.assert_array_equal(check_rows(X).toarray(), expected)


@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_indices_of_other_integers_are_converted(kind):
    """SciPy lets them be set by hand; kernels know two types."""
    rows = check_rows(with_indices(sparse.csr_array, kind))
    assert rows.indices.dtype == rows.indptr.dtype == np.int64
    np.testing.assert_array_equal(rows.toarray(), ROWS)


def test_arrays_of_sparse_rows_need_not_be_contiguous():
    """SciPy keeps a column of another array as it is; kernels take one entry after the other."""
    X = sparse.csr_array(ROWS)
    for part in ("data", "indices", "indptr"):
        setattr(X, part, np.repeat(getattr(X, part), 2)[::2])
    expected = X.toarray()
    assert not X.data.flags.contiguous
    rows = check_rows(X)
    assert all(part.flags.contiguous for part in (rows.data, rows.indices, rows.indptr))
    np.testing.assert_array_equal(rows.toarray(), expected)
    y = np.resize([0, 1], len(expected))
    few = SGDClassifier(max_iter=2, tol=None, random_state=0)
    ours, theirs = (few.fit(given, y).coef_ for given in (X, rows))
    np.testing.assert_array_equal(ours, theirs)
    assert not X.data.flags.contiguous


@pytest.mark.parametrize("indptr", [[], [1, 2], [0, 1], [0, 3], [0, 2, 1, 2]])
def test_places_outside_of_the_entries_are_refused(indptr):
    """They would read other memory."""
    with pytest.raises(ValueError, match="must rise from 0"):
        kernels.columns_rise(np.arange(2, dtype=np.int32), np.array(indptr, dtype=np.int32))


def test_explicit_zeros_are_zeros():
    """A stored zero counts as a zero: rows and table are the same."""
    X = sparse.csr_array(ROWS + 1.0)
    X.data[:] = ROWS.ravel()
    assert X.nnz == ROWS.size
    np.testing.assert_array_equal(check_rows(X).toarray(), ROWS)
    y = [0, 1, 1, 0]
    assert (
        pair(X, y, "greedy", n_jobs=1).partner.tolist()
        == pair(ROWS, y, "greedy", n_jobs=1).partner.tolist()
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_complex_rows_are_refused(form):
    """Complex numbers have no order, and are refused even with no imaginary part."""
    with pytest.raises(ValueError, match="X must be real; got complex numbers"):
        check_rows(form(ROWS.astype(complex)))


# ---- labels


@pytest.mark.parametrize(
    "pair_of_labels",
    [(-1, 1), (0, 1), (False, True), ("a", "b"), (2.5, 7.0), (-3, -2), (b"x", b"y")],
    ids=lambda labels: repr(labels),
)
def test_the_smaller_label_becomes_minus_one(pair_of_labels):
    """Any two labels map to signs, the smaller to -1, and both are remembered."""
    low, high = pair_of_labels
    signs, classes = check_labels([high, low, low, high], 4)
    assert signs.tolist() == [1.0, -1.0, -1.0, 1.0]
    assert classes.tolist() == [low, high]


def test_object_labels_of_one_kind_are_taken():
    """Strings or numbers in an object array are labels like others."""
    for low, high in (("no", "yes"), (0, 1)):
        assert check_labels(np.array([high, low], dtype=object), 2)[0].tolist() == [1.0, -1.0]


@pytest.mark.parametrize("mixed", [[1, "a"], [None, 1], ["a", None], [1.5, b"x"]])
def test_labels_that_cannot_be_compared_are_refused(mixed):
    """An object array of numbers and strings, or with None, gives an error that says so."""
    with pytest.raises(ValueError, match="y mixes labels that cannot be compared"):
        check_labels(np.array(mixed, dtype=object), 2)


@pytest.mark.parametrize("label", [1, 0.0, "only"])
def test_one_class_is_refused(label):
    """All-equal labels are an error that names the class."""
    with pytest.raises(
        ValueError, match=f"y has one class only, .*{label}.*; a classifier needs two"
    ):
        check_labels([label] * 3, 3)


def test_three_classes_are_refused():
    """More than two classes are refused: the error counts them, shows five, and gives advice."""
    with pytest.raises(
        ValueError,
        match=(
            r"y has 3 classes \(0, 1, 2\), but two are needed: split it into one problem per class"
        ),
    ):
        check_labels([0, 1, 2], 3)
    with pytest.raises(ValueError, match=r"y has 7 classes \('a', 'b', 'c', 'd', 'e', ...\)"):
        check_labels(list("gfedcba"), 7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_labels_that_are_not_numbers_name_the_first_row(bad):
    """NaN or infinity among labels, numbers or weights names the first such row."""
    for check in (lambda y: check_labels(y, 4), lambda y: check_column(y, 4, "y")):
        with pytest.raises(ValueError, match="y has NaN or infinity, first in row 2"):
            check([0.0, 1.0, bad, bad])
    with pytest.raises(ValueError, match="sample_weight has NaN or infinity, first in row 2"):
        check_weights([0.0, 1.0, bad, bad], 4)


# ---- weights and numbers


def test_weights_in_every_form():
    """None means that all rows count the same; a number is given to all rows.

    A column is taken as it is.
    """
    assert check_weights(None, 3) is None
    assert check_weights(2, 3).tolist() == [2.0, 2.0, 2.0]
    assert check_weights([[1], [0], [3]], 3).tolist() == [1.0, 0.0, 3.0]


def test_a_negative_weight_is_named_with_its_row():
    """The error names the first negative weight: its row and its own value."""
    with pytest.raises(ValueError, match=r"sample_weight must be at least 0; row 1 has -1\.0"):
        check_weights([1.0, -1.0, -5.0], 3)


@pytest.mark.parametrize("weight", [0.0, [0.0, 0.0, 0.0], [0, -0.0, 0]])
def test_weights_that_are_all_zero_are_refused(weight):
    """Weights that are all zero are refused."""
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        check_weights(weight, 3)


@pytest.mark.parametrize("weight", [[1.0, 2.0], [1.0] * 4, np.ones((3, 2)), np.ones((1, 3))])
def test_weights_come_one_per_row(weight):
    """Weights of another shape are refused."""
    with pytest.raises(
        ValueError, match=r"sample_weight must have shape \(3,\), one entry per row of X; got"
    ):
        check_weights(weight, 3)


def test_coef_in_every_form():
    """None means zeros, one row is accepted, other shapes and NaN are refused with the place."""
    assert check_coef(None, 2).tolist() == [0.0, 0.0]
    assert check_coef([[1, 2]], 2).tolist() == [1.0, 2.0]
    with pytest.raises(
        ValueError, match=r"coef must have shape \(2,\), one weight per feature of X; got \(3,\)"
    ):
        check_coef([1, 2, 3], 2)
    with pytest.raises(ValueError, match="coef has NaN or infinity, first at feature 1"):
        check_coef([1, np.nan], 2)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "2", None, np.float64(3.0)])
def test_a_count_is_a_whole_number(count):
    """Floats, booleans, strings and numbers too small are refused by name."""
    with pytest.raises(ValueError, match="epochs must be a whole number, at least 1; got"):
        check_count(count, "epochs", least=1)


def test_a_count_may_come_from_numpy():
    """NumPy integers are accepted as counts."""
    assert check_count(np.int32(3), "epochs", least=1) == 3
