"""The antithetic table: always a permutation; its subsets, variance ratio and matching."""

from __future__ import annotations

import numpy as np
import pytest
from fingerprints import mark_of
from hypothesis import given
from hypothesis import strategies as st
from reference_pairing import alternate_cuts, cycles, signed_rows
from scipy import sparse
from strategies import integer_rows, labels, permutations, problems, tables

from antithetic import AntitheticTable, MatchingLoss, pair

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
X = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
Y = np.array([0, 1, 1, 0, 1])
CYCLE = [1, 2, 3, 4, 0]


def subsets(n):
    """Some of n rows, at least one, in any order."""
    return st.lists(st.integers(0, n - 1), min_size=1, unique=True)


# ---- a permutation


@pytest.mark.parametrize(
    ("partner", "complaint"),
    [
        ([0, 0, 1], r"permutation of 0\.\.2; 0 appears 2 times"),
        ([1, 2, 1], r"permutation of 0\.\.2; 0 appears 0 times"),
        ([0, 1, 3], r"permutation of 0\.\.2; row 2 has 3"),
        ([0, -1, 2], r"permutation of 0\.\.2; row 1 has -1"),
        (np.array([0, 2**64 - 1], dtype=np.uint64), "row 1 has 18446744073709551615"),
        (
            [0.0, 1.0],
            r"one-dimensional array of whole numbers, not empty; got shape \(2,\) of float64",
        ),
        ([True, False], "one-dimensional array of whole numbers, not empty; got shape .* of bool"),
        (["0", "1"], "one-dimensional array of whole numbers"),
        ([[0, 1]], r"one-dimensional array of whole numbers, not empty; got shape \(1, 2\)"),
        ([], r"one-dimensional array of whole numbers, not empty; got shape \(0,\)"),
        (0, r"one-dimensional array of whole numbers, not empty; got shape \(\)"),
    ],
)
def test_what_is_not_a_permutation_is_refused(partner, complaint):
    """The error says what is wrong, and in which row."""
    with pytest.raises(ValueError, match=complaint):
        AntitheticTable(partner)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_any_whole_numbers_become_intp(dtype):
    """Partners are a read-only copy of type intp."""
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


# ---- a matching


@given(tables())
def test_a_matching_is_mutual_with_at_most_one_single(table):
    """``is_matching`` is its definition: S(S(i)) = i, and n % 2 rows with S(i) = i."""
    mutual = all(table.partner[table.partner[i]] == i for i in range(len(table)))
    singles = sum(table.partner[i] == i for i in range(len(table)))
    assert table.is_matching == (mutual and singles == len(table) % 2)


@given(tables(mutual=True))
def test_pairs_and_single_hold_each_row_once(table):
    """Pairs, smaller row first, and the single row are all rows, and pairs are partners."""
    pairs, single = table.pairs, table.single
    assert pairs.shape == (len(table) // 2, 2)
    assert (single is None) == (len(table) % 2 == 0)
    assert sorted([*pairs.ravel().tolist(), *([] if single is None else [single])]) == list(
        range(len(table))
    )
    assert all(a < b and table.partner[a] == b for a, b in pairs)


@pytest.mark.parametrize("partner", [[1, 2, 0], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("attribute", ["pairs", "single"])
def test_pairs_of_a_table_that_is_not_a_matching_are_refused(partner, attribute):
    """A cycle of three, or more single rows than one, has no pairs: the error says what to call."""
    with pytest.raises(ValueError, match=r"not a matching .*; call to_matching\(X, y\) first"):
        getattr(AntitheticTable(partner), attribute)


# ---- subsets


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
    """Partners that are both kept stay partners, and rows left alone are paired together."""
    rows = data.draw(subsets(len(table)))
    part = table[rows]
    assert part.is_matching
    kept = [
        (place, rows.index(table.partner[row]))
        for place, row in enumerate(rows)
        if table.partner[row] in rows
    ]
    assert all(part.partner[a] == b for a, b in kept if a != b)


@pytest.mark.kernel
@given(data=st.data(), table=tables())
def test_a_kept_link_stays(data, table):
    """A row whose partner was kept stays linked to it.

    Otherwise, unless it would be alone, it is linked to the next kept row of its cycle.
    """
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
    for key in (
        slice(None),
        np.arange(n),
        list(range(n)),
        np.ones(n, dtype=bool),
        (slice(None), ...),
        slice(-n, None),
    ):
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
        ([], ValueError, "restricted to an empty list"),
        (slice(0, 0), ValueError, "restricted to an empty list"),
        (np.zeros(5, dtype=bool), ValueError, "restricted to an empty list"),
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


# ---- variance ratio


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
    """The identity draws one row twice: twice the variance of two rows.

    With no variance at all the ratio is 1.
    """
    assert AntitheticTable(np.arange(5)).variance_ratio(X, Y) == pytest.approx(2.0, rel=1e-14)
    assert AntitheticTable([1, 0]).variance_ratio([[1.0], [-1.0]], [1, 0]) == 1.0


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        (np.float64, 2.0**600),
        (np.float64, 2.0**-600),
        (np.float32, 2.0**80),
        (np.float32, 2.0**-80),
    ],
)
def test_the_variance_ratio_has_no_unit(dtype, scale, form):
    """It is the same in any unit of X, where variances themselves would overflow or vanish."""
    table = AntitheticTable(CYCLE)
    assert table.variance_ratio(form((X * scale).astype(dtype)), Y) == pytest.approx(
        table.variance_ratio(X, Y), rel=1e-12
    )


# ---- to_matching


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.data(), rows=integer_rows(min_rows=2), fit_intercept=st.booleans())
def test_cycles_are_cut_at_the_best_place(form, data, rows, fit_intercept):
    """Each cycle keeps the alternate links with the smallest sum of products."""
    y, partner = data.draw(labels(len(rows))), data.draw(permutations(len(rows)))
    Z = signed_rows(rows, y, fit_intercept)
    mates = AntitheticTable(partner).to_matching(form(rows), y, fit_intercept=fit_intercept)
    assert mates.is_matching
    for cycle in cycles(partner):
        inside = [
            (a, int(mates.partner[a]))
            for a in cycle
            if a < mates.partner[a] and mates.partner[a] in cycle
        ]
        cuts = alternate_cuts(cycle)
        assert {frozenset(link) for link in inside} in [
            {frozenset(link) for link in cut} for cut in cuts
        ]
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
    before, after = (
        some.variance_ratio(form(rows), y, fit_intercept=fit_intercept)
        for some in (table, matching)
    )
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
    """Two cycles of three leave two rows, which become a pair.

    Single rows of a table do as well.
    """
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
    first, second = (
        sum(gradients[a] * gradients[b] for a, b in cut) for cut in alternate_cuts([0, 1, 2, 3])
    )
    assert first != second
    matching = table.to_matching(rows, y, coef=w, loss="squared_error")
    assert matching.partner.tolist() == ([1, 0, 3, 2] if first < second else [3, 2, 1, 0])
