"""Nested groups: pairs of pairs whose sums cancel, their order, exact variance and file."""

from __future__ import annotations

import contextlib
import io
import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_pairing import signed_rows
from scipy import sparse
from strategies import permutations, problems, weights

from antithetic import AntitheticTable, GroupTable, datasets, pair, pair_rows
from antithetic.pairing import store

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
METHODS = ["greedy", "optimal", "tree", "auto", "random"]


def some_data(n=100, d=4):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d)) + 0.3
    X[rng.random((n, d)) < 0.3] = 0.0
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def drawn_ratio(vectors, table):
    """Variance of the mean of a drawn row's group, over that of as many independent rows.

    The rest is one group.
    """
    means = np.empty_like(vectors)
    for group in [*table.groups, table.rest]:
        if len(group):
            means[group] = vectors[group].mean(axis=0)
    centre = vectors.mean(axis=0)
    grouped, alone = (((some - centre) ** 2).sum(axis=1).mean() for some in (means, vectors))
    return grouped / (alone / table.size) if alone else 1.0


def as_sets(groups):
    return {frozenset(group) for group in np.asarray(groups).tolist()}


# ---- a value without fault


@pytest.mark.parametrize(
    ("order", "size", "complaint"),
    [
        ([0, 0, 1], 1, "permutation"),
        ([0, 1, 3], 1, "permutation"),
        ([], 1, "not empty"),
        ([0.0, 1.0], 2, "whole numbers"),
        ([0, 1, 2], 3, "size must be a power of two, at most the number of rows; got 3 for 3 rows"),
        ([0, 1, 2], 4, "got 4 for 3 rows"),
        ([0, 1, 2], 0, "got 0"),
        ([0, 1, 2], -2, "got -2"),
        ([0, 1, 2], 2.0, "size must be a power of two"),
    ],
)
def test_a_wrong_order_or_size_is_refused(order, size, complaint):
    """The order is a permutation, the size a power of two, at most n.

    The error says what was given.
    """
    with pytest.raises(ValueError, match=complaint):
        GroupTable(order, size)


@given(n=st.integers(1, 20), power=st.integers(0, 4), data=st.data())
def test_groups_and_rest_hold_each_row_once(n, power, data):
    """Groups of ``size`` one after the other, then a rest that is shorter.

    The order is a read-only copy.
    """
    size = min(1 << power, 1 << (n.bit_length() - 1))
    order = data.draw(permutations(n))
    table = GroupTable(order, size)
    assert len(table) == n
    assert table.groups.shape == (n // size, size)
    assert len(table.rest) < size
    assert [*table.groups.ravel().tolist(), *table.rest.tolist()] == order.tolist()
    assert not table.order.flags.writeable
    assert not np.shares_memory(table.order, order)


# ---- how they nest


@pytest.mark.kernel
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("nest", [2, 4, 8, True])
def test_nested_groups_hold_each_row_once(method, form, nest):
    """With every method, groups are a permutation, have the size asked for, and a shorter rest."""
    X, y = some_data(21)
    table = pair(form(X), y, method, nest=nest, n_jobs=1)
    assert isinstance(table, GroupTable)
    assert sorted(table.order.tolist()) == list(range(21))
    assert table.size == (16 if nest is True else nest)
    assert len(table.rest) == 21 % table.size
    assert table.method == ("optimal" if method == "auto" else method)


@pytest.mark.kernel
@pytest.mark.parametrize("method", ["greedy", "optimal"])
@pytest.mark.parametrize("n", [20, 21])
def test_groups_of_two_are_a_matching(method, n):
    """``nest=2`` holds the pairs of the matching that the table is cut into, and its single row."""
    X, y = some_data(n)
    groups, mates = pair(X, y, method, nest=2), pair(X, y, method).to_matching(X, y)
    assert as_sets(groups.groups) == as_sets(mates.pairs)
    assert groups.rest.tolist() == ([] if n % 2 == 0 else [mates.single])


@pytest.mark.kernel
@pytest.mark.parametrize("n", range(1, 21))
def test_to_the_top_every_aligned_block_is_a_group_of_its_level(n):
    """With ``nest=True``, every aligned block is a group of its level.

    The top blocks have the binary digits of n as sizes, largest first. Each is halved repeatedly.
    """
    G = some_data(n)[0]
    order = pair_rows(G, "greedy", nest=True, n_jobs=1).order
    digits = [1 << k for k in reversed(range(n.bit_length())) if n >> k & 1]
    segments = np.split(order, np.cumsum(digits)[:-1])
    assert [len(segment) for segment in segments] == digits
    for size in (2, 4, 8, 16):
        blocks = [
            block
            for segment in segments
            if len(segment) >= size
            for block in segment.reshape(-1, size)
        ]
        level = as_sets(pair_rows(G, "greedy", nest=size, n_jobs=1).groups) if size <= n else set()
        assert as_sets(blocks) == level if blocks else level == set()


@pytest.mark.kernel
def test_groups_of_four_are_pairs_of_the_sums_of_pairs():
    """The second level matches the sums of the first, including the intercept's feature."""
    X, y = some_data(16)
    Z = signed_rows(X, y, True)
    pairs = pair(X, y, "optimal", fit_intercept=True, nest=2).groups
    above = pair_rows(Z[pairs].sum(axis=1), "optimal", nest=2).groups
    assert as_sets(pair(X, y, "optimal", fit_intercept=True, nest=4).groups) == as_sets(
        pairs[above].reshape(-1, 4)
    )


def test_one_row_to_the_top_is_itself():
    """A single row is one group, itself."""
    table = pair_rows([[2.0]], nest=True)
    assert (table.order.tolist(), table.size) == ([0], 1)


@pytest.mark.parametrize("nest", [3, 6, 0, 1, -2, 11, 16, 2.0, "auto", False])
def test_other_sizes_of_groups_are_refused(nest):
    """An invalid size is refused; the error names ``nest``, the value and what is allowed.

    Invalid: not a power of two, less than two, more than the rows, or not a number.
    """
    X, y = some_data(10)
    for build in (lambda: pair(X, y, nest=nest), lambda: pair_rows(X, nest=nest)):
        with pytest.raises(
            ValueError, match=rf"^nest must be .*(whole number|power of two).*got {nest!r}"
        ):
            build()


def test_groups_cannot_start_from_a_table():
    """``init`` with groups is refused by name, not because of its length.

    ``init`` is a table of rows, but groups are made of sums.
    """
    X, y = some_data(16)
    with pytest.raises(ValueError, match=r"nest.*init|init.*nest"):
        pair(X, y, "tree", init=np.arange(16), nest=4)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_groups_do_not_depend_on_the_number_of_threads(n_jobs):
    """The same order for any number of threads, and for the same seed."""
    X, y = some_data(200)
    assert (
        pair(X, y, "greedy", nest=8, n_jobs=n_jobs).order.tolist()
        == pair(X, y, "greedy", nest=8).order.tolist()
    )


# ---- variance


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(problem=problems(), data=st.data(), fit_intercept=st.booleans())
def test_the_ratio_is_that_of_all_draws(form, problem, data, fit_intercept):
    """The ratio equals that of all draws, exactly, with weights and intercept.

    Each row is drawn in turn and gives the mean of its group; the rest is one group.
    """
    X, y = problem
    s = data.draw(st.none() | weights(len(y)))
    n = len(y)
    size = data.draw(st.sampled_from([1 << k for k in range(n.bit_length())]))
    table = GroupTable(data.draw(permutations(n)), size)
    found = table.variance_ratio(form(X), y, fit_intercept=fit_intercept, sample_weight=s)
    assert found == pytest.approx(
        drawn_ratio(signed_rows(X, y, fit_intercept, s), table), rel=1e-10, abs=1e-10
    )


def test_the_ratio_at_weights_of_a_model_is_that_of_the_gradients_there():
    """``coef`` and ``intercept`` move the gradients; regression has its own."""
    X, y = some_data(50)
    w, table = np.array([0.5, -1.0, 0.3, 2.0]), GroupTable(np.arange(50), 8)
    slopes = -y / (1.0 + np.exp(y * (X @ w + 0.7)))
    found = table.variance_ratio(X, y, coef=w, intercept=0.7, fit_intercept=True)
    assert found == pytest.approx(drawn_ratio(signed_rows(X, slopes, True), table), rel=1e-10)
    errors = X @ w - y
    assert table.variance_ratio(X, y, coef=w, loss="squared_error") == pytest.approx(
        drawn_ratio(signed_rows(X, errors), table), rel=1e-10
    )


def test_pairs_as_groups_have_the_ratio_of_their_table():
    """Groups of two of an even number of rows are the matching, so both say the same."""
    X, y = some_data(60)
    table = pair(X, y, nest=2)
    mates = AntitheticTable(pair(X, y).to_matching(X, y).partner)
    assert table.variance_ratio(X, y) == pytest.approx(mates.variance_ratio(X, y), rel=1e-12)


def test_nested_groups_of_eight_beat_four_plain_pairs():
    """On diabetes_scale the ratio is at most 1/4 of the pairs', and each level improves on it.

    Dense and CSR rows.
    """
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    pairs = pair(X, y).variance_ratio(X, y)
    ratios = [pair(X, y, nest=size).variance_ratio(X, y) for size in (2, 4, 8)]
    assert ratios[2] <= 0.25 * pairs
    assert ratios == sorted(ratios, reverse=True)
    assert pair(sparse.csr_array(X), y, nest=8).variance_ratio(X, y) <= 0.25 * pairs


@pytest.mark.parametrize("method", ["greedy", "optimal", "tree"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_several_classes_nest(method, form):
    """Groups of eight rows of three classes hold each row once and cancel better than pairs.

    The sums are those of ``(e_y - 1/K) (x) x``.
    """
    X, _ = some_data(121)
    y = np.arange(121) % 3
    table = pair(form(X), y, method, nest=8)
    assert sorted(table.order.tolist()) == list(range(121))
    vectors = ((np.eye(3)[y] - 1.0 / 3.0)[:, :, None] * X[:, None, :]).reshape(121, -1)
    assert drawn_ratio(vectors, table) < 0.7 * drawn_ratio(
        vectors, pair(form(X), y, method, nest=2)
    )


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_ratio_of_several_classes_is_that_of_all_draws(form):
    """The ratio equals that of all draws of the rows ``(e_y - 1/K) (x) x``."""
    X, _ = some_data(21)
    y = np.arange(21) % 3
    table = pair(X, y, nest=4)
    vectors = ((np.eye(3)[y] - 1.0 / 3.0)[:, :, None] * X[:, None, :]).reshape(21, -1)
    assert table.variance_ratio(form(X), y) == pytest.approx(drawn_ratio(vectors, table), rel=1e-10)


def test_groups_know_their_data():
    """Other labels, other values, another number of rows or features are refused.

    Dense and CSR are the same data.
    """
    X, y = some_data(20)
    table = pair(X, y, nest=4)
    assert table.variance_ratio(sparse.csr_array(X), y) == pytest.approx(table.variance_ratio(X, y))
    for other_X, other_y, complaint in [
        (X[:-1], y[:-1], "20 rows and X has 19"),
        (X + 1.0, y, "other values of X"),
        (X, -y, "other labels"),
        (X[:, :2], y, "4 features and X has 2"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            table.variance_ratio(other_X, other_y)


# ---- file


def test_groups_are_restored_from_their_file(tmp_path):
    """Order, size, method and fingerprint are read back from exactly the file name given."""
    X, y = some_data(20)
    table, path = pair(X, y, nest=4), tmp_path / "groups"
    table.save(path)
    loaded = GroupTable.load(path)
    assert os.listdir(tmp_path) == ["groups"]
    assert (loaded.order.tolist(), loaded.size, loaded.method) == (
        table.order.tolist(),
        4,
        table.method,
    )
    assert loaded.variance_ratio(X, y) == table.variance_ratio(X, y)
    with pytest.raises(ValueError, match="other values of X"):
        loaded.variance_ratio(X + 1.0, y)


def test_groups_without_a_fingerprint_are_restored(tmp_path):
    """Groups of the user's own vectors know only the number of rows."""
    pair_rows(some_data(9)[0], nest=True).save(tmp_path / "groups.npz")
    loaded = GroupTable.load(str(tmp_path / "groups.npz"))
    assert (len(loaded), loaded.size, loaded.fingerprint.labels, loaded.fingerprint.width) == (
        9,
        8,
        None,
        None,
    )


META = {
    "format": "antithetic groups 2",
    "size": 4,
    "method": "greedy",
    "width": None,
    "values": None,
}


def npy(array, allow_pickle=False):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def content_of(members):
    """Hash of the arrays of a file, as the store makes it."""
    arrays = {}
    for name in ("order", "labels"):
        with contextlib.suppress(Exception):  # what cannot be read is refused for that
            arrays[name] = np.load(io.BytesIO(members[name]), allow_pickle=False)
    return store._hash(arrays)


def archive(meta=None, compression=zipfile.ZIP_STORED, **members):
    """A file of groups of six rows, with members replaced, added, or left out (None)."""
    members = {"order": npy(np.arange(6)), **members}
    meta = {**META, "content": content_of(members), **(meta or {})}
    described = {key: value for key, value in meta.items() if value is not ...}
    members["meta"] = npy(np.frombuffer(json.dumps(described).encode(), dtype=np.uint8))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, content in members.items():
            if content is not None:
                out.writestr(f"{name}.npy", content)
    return file.getvalue()


HOSTILE = {
    "empty": b"",
    "text": b"0 1\n",
    "truncated": archive()[:-30],
    "compressed": archive(compression=zipfile.ZIP_DEFLATED),
    "no order": archive(order=None),
    "order of floats": archive(order=npy(np.arange(6.0))),
    "not a permutation": archive(order=npy(np.array([0, 0, 1, 2, 3, 4]))),
    "empty order": archive(order=npy(np.array([], dtype=np.int64))),
    "two dimensions": archive(order=npy(np.arange(6)[None])),
    "pickled": archive(order=npy(np.array([{}] * 6, dtype=object), allow_pickle=True)),
    "labels of another length": archive(labels=npy(np.zeros(4, dtype=np.uint64))),
    "size of three": archive({"size": 3}),
    "size of zero": archive({"size": 0}),
    "negative size": archive({"size": -4}),
    "size above the rows": archive({"size": 8}),
    "size of text": archive({"size": "many"}),
    "size of a fraction": archive({"size": 2.5}),
    "size of null": archive({"size": None}),
    "infinite size": archive({"size": float("inf")}),
    "size of NaN": archive({"size": float("nan")}),
    "huge size": archive({"size": 1 << 80}),
    "no size": archive({"size": ...}),
    "no method": archive({"method": ...}),
    "no content": archive({"content": ...}),
    "another order": archive({"content": store._hash({"order": np.arange(6)[::-1]})}),
    "the format before": archive({"format": "antithetic groups 1"}),
    "no format": archive({"format": ...}),
    "a table's format": archive({"format": "antithetic table 2"}),
    "width of a list": archive({"width": [2]}),
    "infinite values": archive({"values": float("inf")}),
}


def test_the_archive_that_hostile_files_are_made_of_is_one_of_groups(tmp_path):
    """Each hostile file differs from this one in one thing."""
    (tmp_path / "groups.npz").write_bytes(archive(labels=npy(np.zeros(6, dtype=np.uint64))))
    assert GroupTable.load(tmp_path / "groups.npz").groups.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_an_error_that_names_it(content, tmp_path):
    """Any file is read as groups or refused by a ValueError with its name.

    Nothing is unpickled.
    """
    path = tmp_path / "hostile.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"hostile\.npz is not a (table file|file of groups)"):
        GroupTable.load(path)


def test_tables_and_groups_are_not_taken_for_each_other(tmp_path):
    """The file of one is refused by the other, and a missing file is a missing file."""
    X, y = some_data(10)
    pair(X, y).save(tmp_path / "table.npz")
    pair(X, y, nest=2).save(tmp_path / "groups.npz")
    with pytest.raises(ValueError, match=r"table\.npz is not a table file"):
        GroupTable.load(tmp_path / "table.npz")
    with pytest.raises(ValueError, match=r"groups\.npz is not a table file"):
        AntitheticTable.load(tmp_path / "groups.npz")
    with pytest.raises(FileNotFoundError):
        GroupTable.load(tmp_path / "none.npz")
