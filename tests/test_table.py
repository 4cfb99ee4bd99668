"""The antithetic table: a permutation that cannot be wrong, its subsets, its matching, its fingerprint and its file."""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_pairing import alternate_cuts, cycles, signed_rows
from scipy import sparse
from strategies import integer_rows, labels, matchings, permutations, problems

from antithetic import AntitheticTable, MatchingLoss, pair, pair_rows

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
X = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
Y = np.array([0, 1, 1, 0, 1])
CYCLE = [1, 2, 3, 4, 0]


@st.composite
def tables(draw, max_rows=12, mutual=False):
    """A table of 1 to 12 rows, any permutation or a matching."""
    n = draw(st.integers(1, max_rows))
    return AntitheticTable(draw(matchings(n) if mutual else permutations(n)))


def mark_of(rows, y):
    """Fingerprint of data, in whatever way they are paired."""
    return pair(rows, y, "random", loss="squared_error", random_state=0).fingerprint


def subsets(n):
    """Some of n rows, at least one, in any order."""
    return st.lists(st.integers(0, n - 1), min_size=1, unique=True)


# ------------------------------------------------------------------------------------------------------ a permutation


@pytest.mark.parametrize(
    ("partner", "complaint"),
    [
        ([0, 0, 1], r"permutation of 0\.\.2; 0 appears 2 times"),
        ([1, 2, 1], r"permutation of 0\.\.2; 0 appears 0 times"),
        ([0, 1, 3], r"permutation of 0\.\.2; row 2 has 3"),
        ([0, -1, 2], r"permutation of 0\.\.2; row 1 has -1"),
        (np.array([0, 2**64 - 1], dtype=np.uint64), "row 1 has 18446744073709551615"),
        ([0.0, 1.0], r"one column of whole numbers, not empty; got shape \(2,\) of float64"),
        ([True, False], "one column of whole numbers, not empty; got shape .* of bool"),
        (["0", "1"], "one column of whole numbers"),
        ([[0, 1]], r"one column of whole numbers, not empty; got shape \(1, 2\)"),
        ([], r"one column of whole numbers, not empty; got shape \(0,\)"),
        (0, r"one column of whole numbers, not empty; got shape \(\)"),
    ],
)
def test_what_is_no_permutation_is_refused(partner, complaint):
    """The error says what is wrong, and in which row."""
    with pytest.raises(ValueError, match=complaint):
        AntitheticTable(partner)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_any_whole_numbers_become_intp(dtype):
    """Partners are intp, a copy that nobody can write to."""
    given_partner = np.array([2, 0, 1], dtype=dtype)
    table = AntitheticTable(given_partner)
    assert table.partner.dtype == np.intp
    assert not np.shares_memory(table.partner, given_partner)
    with pytest.raises(ValueError, match="read-only"):
        table.partner[0] = 1
    with pytest.raises(AttributeError):
        table.partner = given_partner


def test_a_table_has_a_length_and_a_shape():
    """``len`` and ``shape`` count the rows."""
    assert len(AntitheticTable(CYCLE)) == 5
    assert AntitheticTable(CYCLE).shape == (5,)


# -------------------------------------------------------------------------------------------------------- a matching


@given(tables())
def test_a_matching_is_mutual_with_at_most_one_single(table):
    """``is_matching`` is its definition: S(S(i)) = i, and n % 2 rows with S(i) = i."""
    mutual = all(table.partner[table.partner[i]] == i for i in range(len(table)))
    singles = sum(table.partner[i] == i for i in range(len(table)))
    assert table.is_matching == (mutual and singles == len(table) % 2)


@given(tables(mutual=True))
def test_pairs_and_single_hold_each_row_once(table):
    """Pairs, the smaller row first, and the single row together are all rows, and pairs are partners."""
    pairs, single = table.pairs, table.single
    assert pairs.shape == (len(table) // 2, 2)
    assert (single is None) == (len(table) % 2 == 0)
    assert sorted([*pairs.ravel().tolist(), *([] if single is None else [single])]) == list(range(len(table)))
    assert all(a < b and table.partner[a] == b for a, b in pairs)


@pytest.mark.parametrize("partner", [[1, 2, 0], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("attribute", ["pairs", "single"])
def test_pairs_of_no_matching_are_refused(partner, attribute):
    """A cycle of three, or more single rows than one, has no pairs: the error says what to call."""
    with pytest.raises(ValueError, match=r"no matching .*; call to_matching\(X, y\) first"):
        getattr(AntitheticTable(partner), attribute)


# ----------------------------------------------------------------------------------------------------------- subsets


@pytest.mark.kernel
@given(data=st.data(), table=tables())
def test_a_restricted_table_is_a_table(data, table):
    """Any rows in any order give a permutation of their places, marked as derived."""
    rows = data.draw(subsets(len(table)))
    part = table[rows]
    assert sorted(part.partner.tolist()) == list(range(len(rows)))
    assert part.derived
    assert part.method == table.method


@pytest.mark.kernel
@given(data=st.data(), table=tables(mutual=True))
def test_a_restricted_matching_is_a_matching(data, table):
    """Partners that were both kept stay partners, and rows left alone are paired with each other."""
    rows = data.draw(subsets(len(table)))
    part = table[rows]
    assert part.is_matching
    kept = [(place, rows.index(table.partner[row])) for place, row in enumerate(rows) if table.partner[row] in rows]
    assert all(part.partner[a] == b for a, b in kept if a != b)


@pytest.mark.kernel
@given(data=st.data(), table=tables())
def test_a_kept_link_stays(data, table):
    """A row whose partner was kept goes on to that partner; else, unless it would be alone, to the next kept row of its cycle."""
    rows = data.draw(subsets(len(table)))
    partner = table[rows].partner
    for place, row in enumerate(rows):
        following = table.partner[row]
        while following not in rows:
            following = table.partner[following]
        if following != row:
            assert rows[partner[place]] == following


@pytest.mark.kernel
@given(tables())
def test_the_subset_of_everything_is_the_table(table):
    """All rows in order, however said, give the same partners, and another order the same links."""
    n = len(table)
    for key in (slice(None), np.arange(n), list(range(n)), np.ones(n, dtype=bool), (slice(None), ...), slice(-n, None)):
        assert table[key].partner.tolist() == table.partner.tolist()
    turned = table[::-1]
    assert (n - 1 - turned.partner[::-1]).tolist() == table.partner.tolist()


@pytest.mark.kernel
@pytest.mark.parametrize(
    "key",
    [
        [1, 2, 4],
        (np.array([1, 2, 4]), ...),
        np.array([False, True, True, False, True]),
        [False, True, True, False, True],
        np.array([1, 2, -1]),
    ],
)
def test_rows_in_every_form(key):
    """Lists, arrays, masks, negative numbers, and ``table[rows, ...]`` as scikit-learn slices."""
    table = pair(X, Y)
    part = table[key]
    assert part.partner.tolist() == table[[1, 2, 4]].partner.tolist()
    assert part.fingerprint.labels.tolist() == mark_of(X, Y).labels[[1, 2, 4]].tolist()


@pytest.mark.kernel
def test_one_row_is_a_table_of_its_own():
    """A single row is its own partner."""
    assert AntitheticTable(CYCLE)[3].partner.tolist() == [0]


@pytest.mark.parametrize(
    ("key", "error", "complaint"),
    [
        ([0, 1, 0], ValueError, "repeated rows; give each row once"),
        ([0, -5], ValueError, "repeated rows"),
        ([], ValueError, "restricted to no rows"),
        (slice(0, 0), ValueError, "restricted to no rows"),
        (np.zeros(5, dtype=bool), ValueError, "restricted to no rows"),
        ([0, 5], IndexError, "out of bounds"),
        (([0, 1], 0), IndexError, r"takes table\[rows\] or table\[rows, ...\]"),
        (([0, 1], ..., ...), IndexError, r"takes table\[rows\] or table\[rows, ...\]"),
        (([0, 1], slice(None)), IndexError, r"takes table\[rows\] or table\[rows, ...\]"),
        (np.ones(4, dtype=bool), IndexError, "boolean"),
    ],
)
def test_impossible_subsets_are_refused(key, error, complaint):
    """Repeated rows, none, rows that are not there, and a second index."""
    with pytest.raises(error, match=complaint):
        AntitheticTable(CYCLE)[key]


@pytest.mark.kernel
def test_a_subset_of_a_subset_is_a_subset():
    """Rows can be taken away in two steps; the labels follow."""
    table = pair(X, Y)[[4, 3, 1, 0]][[3, 1, 0]]
    assert table.derived
    assert table.fingerprint.labels.tolist() == mark_of(X, Y).labels[[0, 3, 4]].tolist()


# ------------------------------------------------------------------------------------------------------- fingerprint


def same(fingerprint, other):
    return fingerprint.values == other.values and fingerprint.width == other.width and np.array_equal(fingerprint.labels, other.labels)


@given(data=st.data(), rows=integer_rows())
def test_dense_and_csr_have_one_fingerprint(data, rows):
    """The same values give the same fingerprint, however zeros are stored and signed; float32 has another."""
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
    """One value changed, or two different rows swapped: another hash."""
    mark = mark_of(rows, np.arange(len(rows)))
    place = tuple(data.draw(st.integers(0, k - 1)) for k in rows.shape)
    changed = rows.copy()
    changed[place] += 1.0
    assert mark_of(changed, np.arange(len(rows))).values != mark.values
    swapped = rows[[1, 0, *range(2, len(rows))]]
    assert (mark_of(swapped, np.arange(len(rows))).values == mark.values) == np.array_equal(rows[0], rows[1])


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
    """Strings of whatever width, or as objects, are compared by what they say."""
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
    """Of a subset the values are not known; its number of rows and its labels are."""
    part = pair(X, Y)[[0, 2, 4]]
    part.check(X[[0, 2, 4]] + 1.0, Y[[0, 2, 4]])
    with pytest.raises(ValueError, match="the table has 3 rows and X has 5"):
        part.check(X, Y)
    with pytest.raises(ValueError, match="other labels: 1 differ, first that of row 1"):
        part.check(X[:3], [0, 0, 1])


@pytest.mark.kernel
@pytest.mark.parametrize("table", [pair_rows(X, "random", random_state=0), AntitheticTable(CYCLE)], ids=["pair_rows", "given"])
def test_a_table_of_ones_own_checks_the_number_of_rows_only(table):
    """Vectors of one's own say nothing about X and y."""
    table.check(X, Y)
    table.check(X + 1.0, 1 - Y)
    with pytest.raises(ValueError, match="the table has 5 rows and X has 4"):
        table.check(X[:4], Y[:4])


# ----------------------------------------------------------------------------------------------------- variance ratio


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.data(), problem=problems())
def test_the_variance_ratio_is_that_of_the_enumeration(form, data, problem):
    """All n draws of a pair, against all n^2 draws of two independent rows."""
    rows, y = problem
    partner = data.draw(permutations(len(y)))
    g = signed_rows(rows, y)
    two = ((g[:, None, :] + g[None, :, :]) / 2.0).reshape(-1, rows.shape[1])
    paired = (g + g[partner]) / 2.0
    variances = [((some - g.mean(axis=0)) ** 2).sum(axis=1).mean() for some in (paired, two)]
    found = AntitheticTable(partner).variance_ratio(form(rows), y)
    if variances[1] < 1e-12:
        assert found == 1.0
    else:
        assert found == pytest.approx(variances[0] / variances[1], rel=1e-12, abs=1e-12)


@pytest.mark.kernel
def test_a_table_that_pairs_each_row_with_itself_doubles_the_variance():
    """The identity draws one row twice: twice the variance of two rows; with no variance at all the ratio is 1."""
    assert AntitheticTable(np.arange(5)).variance_ratio(X, Y) == pytest.approx(2.0, rel=1e-14)
    assert AntitheticTable([1, 0]).variance_ratio([[1.0], [-1.0]], [1, 0]) == 1.0


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float64, 2.0**600), (np.float64, 2.0**-600), (np.float32, 2.0**80), (np.float32, 2.0**-80)]
)
def test_the_variance_ratio_has_no_unit(dtype, scale, form):
    """It is the same in any unit of X, where variances themselves would overflow or vanish."""
    table = AntitheticTable(CYCLE)
    assert table.variance_ratio(form((X * scale).astype(dtype)), Y) == pytest.approx(table.variance_ratio(X, Y), rel=1e-12)


# ------------------------------------------------------------------------------------------------------- to_matching


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.data(), rows=integer_rows(min_rows=2), fit_intercept=st.booleans())
def test_cycles_are_cut_at_the_best_place(form, data, rows, fit_intercept):
    """Of each cycle, of all ways to keep alternate links, one with the smallest sum of products is kept."""
    y, partner = data.draw(labels(len(rows))), data.draw(permutations(len(rows)))
    Z = signed_rows(rows, y, fit_intercept)
    mates = AntitheticTable(partner).to_matching(form(rows), y, fit_intercept=fit_intercept)
    assert mates.is_matching
    for cycle in cycles(partner):
        inside = [(a, int(mates.partner[a])) for a in cycle if a < mates.partner[a] and mates.partner[a] in cycle]
        cuts = alternate_cuts(cycle)
        assert {frozenset(link) for link in inside} in [{frozenset(link) for link in cut} for cut in cuts]
        assert products_of(Z, inside) == min(products_of(Z, cut) for cut in cuts)


def products_of(Z, links):
    return sum(float(Z[a] @ Z[b]) for a, b in links)


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.data(), problem=problems(), fit_intercept=st.booleans())
def test_the_loss_of_a_matching_is_recorded_exactly(form, data, problem, fit_intercept):
    """``matching_loss`` holds the exact variance ratios of the table and of its matching."""
    rows, y = problem
    table = AntitheticTable(data.draw(permutations(len(y))))
    matching = table.to_matching(form(rows), y, fit_intercept=fit_intercept)
    if table.is_matching:
        assert matching is table
        return
    before, after = (some.variance_ratio(form(rows), y, fit_intercept=fit_intercept) for some in (table, matching))
    assert matching.matching_loss == MatchingLoss(before, after)


@pytest.mark.kernel
@pytest.mark.parametrize("partner", [[1, 0], [1, 0, 2], [0]])
def test_a_matching_is_returned_as_it_is(partner):
    """Nothing is cut where nothing needs to be, and no loss is recorded."""
    table = AntitheticTable(partner)
    n = len(partner)
    assert table.to_matching(X[:n], np.arange(n), loss="squared_error") is table
    assert table.matching_loss is None


@pytest.mark.kernel
def test_rows_left_over_are_paired_with_each_other():
    """Two cycles of three leave two rows, which become a pair; single rows of a table do as well."""
    rows, y = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [-6.0]]), [0, 1, 0, 1, 0, 1]
    for partner in ([1, 2, 0, 4, 5, 3], [0, 1, 2, 3, 4, 5]):
        matching = AntitheticTable(partner).to_matching(rows, y)
        assert matching.is_matching
        assert matching.single is None


@pytest.mark.kernel
def test_a_matching_keeps_what_the_table_knew():
    """Fingerprint and method stay, so it still meets only its own data."""
    table = AntitheticTable(CYCLE, pair(X, Y).fingerprint, "mine")
    matching = table.to_matching(X, Y)
    assert (matching.method, matching.derived) == ("mine", False)
    matching.check(X, Y)
    with pytest.raises(ValueError, match="other labels"):
        matching.check(X, 1 - Y)


@pytest.mark.kernel
def test_a_matching_can_be_cut_at_other_weights():
    """Products of gradients at given weights decide, with the loss that is given."""
    rows, y, w = np.array([[1.0], [1.0], [4.0], [-1.0]]), np.array([1.0, 2.0, -8.0, 3.0]), [1.0]
    gradients = (rows[:, 0] * w[0] - y) * rows[:, 0]
    table = AntitheticTable([1, 2, 3, 0])
    first, second = (sum(gradients[a] * gradients[b] for a, b in cut) for cut in alternate_cuts([0, 1, 2, 3]))
    assert first != second
    matching = table.to_matching(rows, y, coef=w, loss="squared_error")
    assert matching.partner.tolist() == ([1, 0, 3, 2] if first < second else [3, 2, 1, 0])


# -------------------------------------------------------------------------------------------------------------- files


def equal(table, other):
    parts = ("method", "derived", "matching_loss")
    return (
        table.partner.tolist() == other.partner.tolist()
        and same(table.fingerprint, other.fingerprint)
        and all(getattr(table, part) == getattr(other, part) for part in parts)
    )


@pytest.mark.kernel
@pytest.mark.parametrize(
    "make",
    [
        lambda: pair(X, Y),
        lambda: pair(X, np.array(["no", "yes"])[Y]),
        lambda: pair(X, Y)[[0, 1, 4]],
        lambda: pair_rows(X, "optimal"),
        lambda: AntitheticTable(CYCLE, pair(X, Y).fingerprint).to_matching(X, Y),
        lambda: AntitheticTable([0], matching_loss=MatchingLoss(1.0, float("inf"))),
    ],
    ids=["pair", "text labels", "derived", "pair_rows", "matching", "infinite loss"],
)
def test_a_saved_table_comes_back(make, tmp_path):
    """Partners, fingerprint, method, derived and the loss of the matching, under exactly the name that was given."""
    table, path = make(), tmp_path / "table"
    table.save(path)
    assert equal(AntitheticTable.load(path), table)
    assert equal(AntitheticTable.load(str(path)), table)
    assert os.listdir(tmp_path) == ["table"]


@pytest.mark.kernel
def test_a_loaded_table_still_checks_its_data(tmp_path):
    """The fingerprint survives the file."""
    pair(X, Y).save(tmp_path / "table.npz")
    table = AntitheticTable.load(tmp_path / "table.npz")
    table.check(sparse.csr_array(X), Y)
    with pytest.raises(ValueError, match="other values of X"):
        table.check(X + 1.0, Y)


def test_a_saved_table_can_be_read_by_numpy_without_pickle(tmp_path):
    """The file is an ordinary ``.npz``."""
    AntitheticTable(CYCLE).save(tmp_path / "table.npz")
    with np.load(tmp_path / "table.npz", allow_pickle=False) as arrays:
        assert arrays["partner"].tolist() == CYCLE


@pytest.mark.skipif(os.name != "posix", reason="only POSIX files have these permissions")
def test_a_saved_table_has_the_permissions_of_any_new_file(tmp_path):
    """Whoever may read files that this process makes may read the table."""
    AntitheticTable(CYCLE).save(tmp_path / "table.npz")
    (tmp_path / "plain").touch()
    table, plain = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("table.npz", "plain"))
    assert oct(table) == oct(plain)


def test_saving_again_replaces_the_file(tmp_path):
    """The new table stands where the old one was, with nothing beside it."""
    for partner in (CYCLE, [1, 0]):
        AntitheticTable(partner).save(tmp_path / "table.npz")
    assert AntitheticTable.load(tmp_path / "table.npz").partner.tolist() == [1, 0]
    assert os.listdir(tmp_path) == ["table.npz"]


@pytest.mark.parametrize("failing", ["numpy.savez", "os.replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_disk_leaves_the_old_table(failing, error, tmp_path, monkeypatch):
    """The old file is whole, no temporary file is left, and the error is seen."""
    path = tmp_path / "table.npz"
    AntitheticTable(CYCLE).save(path)

    def fail(*_arguments, **_options):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(failing, fail)
        with pytest.raises(type(error)):
            AntitheticTable([1, 0]).save(path)
    assert os.listdir(tmp_path) == ["table.npz"]
    assert AntitheticTable.load(path).partner.tolist() == CYCLE


def test_a_missing_file_is_a_missing_file(tmp_path):
    """What is not there is not called damaged, neither the file nor its folder."""
    with pytest.raises(FileNotFoundError):
        AntitheticTable.load(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError):
        AntitheticTable(CYCLE).save(tmp_path / "no folder" / "table.npz")


# ------------------------------------------------------------------------------------------------------ hostile files

META = {
    "format": "antithetic table 1",
    "method": "greedy",
    "derived": False,
    "width": None,
    "values": None,
    "matching_loss": None,
    "note": "",
}


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def npy_with_header(header, data=b""):
    header = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def described(meta):
    """Bytes of a description: JSON of an object, or bytes as they are."""
    return npy(np.frombuffer(meta if isinstance(meta, bytes) else json.dumps(meta).encode(), dtype=np.uint8))


def archive(compression=zipfile.ZIP_STORED, **members):
    """A file like that of a table of five rows, with some members replaced, added, or left out (None)."""
    members = {"meta": described(META), "partner": npy(np.array(CYCLE)), **members}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, content in members.items():
            if content is not None:
                out.writestr(f"{name}.npy", content)
    return file.getvalue()


def every(content, mark, offset, change):
    """Change a byte at a distance from each place where a mark stands."""
    content, place = bytearray(content), content.find(mark)
    while place >= 0:
        content[place + offset] = change(content[place + offset])
        place = content.find(mark, place + 1)
    return bytes(content)


FIVE = np.array(CYCLE)
ENTRY = b"PK\x01\x02"  # begins each entry of the directory of a zip file
END = b"PK\x05\x06"  # begins what follows the directory
HOSTILE = {
    "empty": b"",
    "text": b"0 1\n1 0\n",
    "one array": npy(FIVE),
    "truncated": archive()[:-30],
    "truncated early": archive()[:100],
    "beginning cut off": archive()[40:],
    "compressed": archive(zipfile.ZIP_DEFLATED),
    "encrypted": every(archive(), ENTRY, 8, lambda flags: flags | 1),
    "unknown compression": every(archive(), ENTRY, 10, lambda _method: 99),
    "a byte changed": archive().replace(FIVE.tobytes(), FIVE[::-1].tobytes()),
    "directory out of place": every(archive(), END, 16, lambda offset: (offset + 9) % 256),
    "directory far out of place": every(archive(), END, 18, lambda _offset: 255),
    "partner missing": archive(partner=None),
    "meta missing": archive(meta=None),
    "not a permutation": archive(partner=npy(np.array([0, 0, 1]))),
    "out of range": archive(partner=npy(np.array([0, 1, 7]))),
    "empty partner": archive(partner=npy(np.array([], dtype=np.int64))),
    "int32": archive(partner=npy(FIVE.astype(np.int32))),
    "float64": archive(partner=npy(FIVE.astype(float))),
    "big-endian": archive(partner=npy(FIVE.astype(">i8"))),
    "two dimensions": archive(partner=npy(FIVE[None])),
    "labels of another length": archive(labels=npy(np.zeros(4, dtype=np.uint64))),
    "labels of another type": archive(labels=npy(np.zeros(5))),
    "not an array": archive(partner=b"partners"),
    "newer array format": archive(partner=npy(FIVE).replace(b"NUMPY\x01", b"NUMPY\x03")),
    "huge shape": archive(
        partner=npy_with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000,)}", FIVE.tobytes())
    ),
    "shape that overflows": archive(partner=npy_with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (2305843009213693952,)}")),
    "negative shape": archive(partner=npy_with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (-5,)}", FIVE.tobytes())),
    "header with a list as key": archive(partner=npy_with_header("{[]: 1}")),
    "header with mixed keys": archive(partner=npy_with_header("{1: 2, 'descr': 3}")),
    "header that does not end": archive(partner=npy_with_header("((((")),
    "header of minus signs": archive(partner=npy_with_header("-" * 9000 + "1")),
    "header of Python 2": archive(partner=npy_with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (5L,)}", b"\0" * 40)),
    "header longer than the file": archive(partner=b"\x93NUMPY\x01\x00\xff\xff{}"),
    "not JSON": archive(meta=described(b"greedy")),
    "not UTF-8": archive(meta=described(b'{"format": "\xff"}')),
    "JSON nested without end": archive(meta=described(b"[" * 60000)),
    "JSON list": archive(meta=described([META])),
    "JSON number": archive(meta=described(3)),
    "JSON null": archive(meta=described(None)),
    "description too long": archive(meta=described({**META, "method": "x" * 70000})),
    "another format": archive(meta=described({**META, "format": "antithetic table 2"})),
    "no format": archive(meta=described({key: value for key, value in META.items() if key != "format"})),
    "no method": archive(meta=described({key: value for key, value in META.items() if key != "method"})),
    "loss of one number": archive(meta=described({**META, "matching_loss": [1.0]})),
    "loss of a number": archive(meta=described({**META, "matching_loss": 1.0})),
    "loss of text": archive(meta=described({**META, "matching_loss": ["a", "b"]})),
    "loss beyond float64": archive(meta=described({**META, "matching_loss": [10**400, 1]})),
    "infinite width": archive(meta=described({**META, "width": float("inf")})),
    "width of NaN": archive(meta=described({**META, "width": float("nan")})),
    "width of a list": archive(meta=described({**META, "width": [2]})),
    "values of text": archive(meta=described({**META, "values": "many"})),
}


def test_the_archive_that_hostile_files_are_made_of_is_a_table(tmp_path):
    """Each hostile file differs from this one in one thing."""
    (tmp_path / "table.npz").write_bytes(archive(labels=npy(np.zeros(5, dtype=np.uint64))))
    assert AntitheticTable.load(tmp_path / "table.npz").partner.tolist() == CYCLE


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_an_error_that_names_it(content, tmp_path):
    """Whatever a file holds, it is read as a table or refused by ValueError with its name, without a warning."""
    path = tmp_path / "hostile.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"hostile\.npz is not a table file"):
        AntitheticTable.load(path)


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("member", ["meta", "partner", "labels"])
def test_nothing_is_ever_unpickled(member, tmp_path):
    """An array of pickled objects, in whichever place, is refused and not run."""
    sprung = tmp_path / "sprung"
    file = io.BytesIO()
    np.save(file, np.array([Trap(sprung)] * 5, dtype=object), allow_pickle=True)
    path = tmp_path / "hostile.npz"
    path.write_bytes(archive(**{member: file.getvalue()}))
    with pytest.raises(ValueError, match=r"hostile\.npz is not a table file"):
        AntitheticTable.load(path)
    assert not sprung.exists()
    np.load(io.BytesIO(file.getvalue()), allow_pickle=True)  # the trap works
    assert sprung.exists()


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_is_an_error_or_does_no_harm(flip, tmp_path):
    """Bits flipped in each byte in turn: the same partners, or ValueError with the name of the file."""
    path, whole = tmp_path / "hostile.npz", archive()
    harm = {}
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
        try:
            if AntitheticTable.load(path).partner.tolist() != CYCLE:
                harm[place] = "other partners"
        except Exception as error:
            if not isinstance(error, ValueError) or "hostile.npz is not a table file" not in str(error):
                harm[place] = repr(error)
    assert harm == {}
