"""Data larger than memory: chunks and maps are paired in shards and never copied whole."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from reference_pairing import signed_rows
from scipy import sparse

from antithetic import pair, pair_rows
from antithetic.pairing.shards import Shards

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
BOTH_FORMS = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
BOUNDS = [0, 17, 60, 61, 100]  # of the chunks: of uneven lengths, one of a single row


def some_data(n=100, d=4):
    """Whole numbers: products are exact, so tables can be compared row by row."""
    rng = np.random.default_rng(5)
    return rng.integers(-3, 4, size=(n, d)).astype(np.float64), np.where(
        rng.random(n) < 0.5, 1.0, -1.0
    )


def in_chunks(values):
    return [values[low:high] for low, high in pairwise(BOUNDS)]


def dealt(n, shard_rows, seed=0):
    """Rows of each shard: a random permutation cut into nearly equal parts.

    There are as few parts as possible with at most ``shard_rows`` rows each.
    """
    order, count = np.random.default_rng(seed).permutation(n), -(-n // shard_rows)
    return [np.sort(order[k * n // count : (k + 1) * n // count]) for k in range(count)]


def paired_in_shards(vectors, shard_rows, method="greedy", seed=0):
    """The table of each shard's rows, put together."""
    partner = np.empty(len(vectors), dtype=np.intp)
    for index in dealt(len(vectors), shard_rows, seed):
        partner[index] = index[pair_rows(vectors[index], method).partner]
    return partner


# ---- the table


@BOTH_FORMS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shard_rows", [2, 7, 30, 100, None])
def test_each_shard_has_the_table_of_its_rows(form, dtype, shard_rows):
    """Partners stay in their shard, and each shard has the table of its rows alone.

    Chunks are dense and CSR.
    """
    X, y = some_data()
    table = pair(in_chunks(form(X.astype(dtype))), y, "greedy", shard_rows=shard_rows)
    shards = dealt(100, shard_rows or 100)
    assert max(len(index) for index in shards) <= (shard_rows or 100)
    for index in shards:
        assert sorted(table.partner[index].tolist()) == index.tolist()
    assert table.partner.tolist() == paired_in_shards(signed_rows(X, y), shard_rows or 100).tolist()


@BOTH_FORMS
def test_one_shard_of_everything_is_the_plain_table(form):
    """If all rows fit into one shard, chunks and one matrix give the same table.

    With weights and an intercept.
    """
    X, y = some_data()
    options = {"fit_intercept": True, "sample_weight": np.arange(100) % 3 + 0.5}
    expected = pair(form(X), y, "greedy", **options).partner.tolist()
    assert pair(in_chunks(form(X)), y, "greedy", **options).partner.tolist() == expected
    assert (
        pair(tuple(in_chunks(form(X))), y, "greedy", shard_rows=100, **options).partner.tolist()
        == expected
    )
    assert pair(form(X), y, "greedy", shard_rows=100, **options).partner.tolist() == expected


@BOTH_FORMS
def test_weights_and_intercept_go_with_their_rows(form):
    """Within shards rows are ``s_i y_i (x_i, 1)``."""
    X, y = some_data()
    s = np.arange(100) % 3 + 0.5
    table = pair(
        in_chunks(form(X)), y, "greedy", shard_rows=30, fit_intercept=True, sample_weight=s
    )
    assert table.partner.tolist() == paired_in_shards(signed_rows(X, y, True, s), 30).tolist()


def test_labels_come_in_one_column_or_in_parts():
    """One column, a list of it, as many parts as chunks, lists too, text too: the same table."""
    X, y = some_data()
    text = np.where(y > 0.0, "positive", "no")
    expected = pair(in_chunks(X), y, "greedy", shard_rows=30)
    for labels in (
        y.tolist(),
        in_chunks(y),
        tuple(in_chunks(y)),
        [part.tolist() for part in in_chunks(y)],
    ):
        table = pair(in_chunks(X), labels, "greedy", shard_rows=30)
        assert table.partner.tolist() == expected.partner.tolist()
        table.check(X, y)
    other = pair(
        in_chunks(X), [np.array(part.tolist()) for part in in_chunks(text)], "greedy", shard_rows=30
    )
    assert (
        other.partner.tolist() == pair(in_chunks(X), text, "greedy", shard_rows=30).partner.tolist()
    )
    other.check(X, text)


def test_as_many_labels_as_chunks_are_labels():
    """Chunks of a single row each, with one label each."""
    X, y = some_data(6)
    table = pair([row[None] for row in X], y.tolist(), "greedy")
    assert table.partner.tolist() == pair(X, y, "greedy").partner.tolist()


@pytest.mark.parametrize("method", ["greedy", "optimal", "tree", "random", "auto"])
def test_every_method_pairs_in_shards(method):
    """Every method permutes within shards, by seed alone, for any number of threads.

    Another seed gives another table.
    """
    X, y = some_data()
    tables = [
        pair(in_chunks(X), y, method, shard_rows=30, random_state=seed, n_jobs=jobs)
        for seed, jobs in ((0, 1), (0, 3), (None, 2), (1, 1))
    ]
    partners = [table.partner.tolist() for table in tables]
    assert partners[0] == partners[1] == partners[2] != partners[3]
    for index in dealt(100, 30):
        assert sorted(tables[0].partner[index].tolist()) == index.tolist()
    assert "shards of at most 30 rows" in tables[0].note


def test_a_callable_is_called_for_each_shard():
    """It is given the signed rows of each shard."""
    X, y = some_data()
    shown = []

    def backwards(rows):
        shown.append(rows)
        return range(rows.shape[0] - 1, -1, -1)

    assert pair(in_chunks(X), y, backwards, shard_rows=30).method == "backwards"
    for rows, index in zip(shown, dealt(100, 30), strict=True):
        np.testing.assert_array_equal(rows, signed_rows(X, y)[index])


def test_a_shard_may_have_one_class():
    """Rows of a class that has few are missing from some shards; the labels are those of all."""
    X, y = some_data()
    y[:] = 1.0
    y[3] = -1.0
    assert (
        pair(in_chunks(X), y, "greedy", shard_rows=7).partner.tolist()
        == paired_in_shards(signed_rows(X, y), 7).tolist()
    )
    with pytest.raises(ValueError, match="one class only"):
        pair(in_chunks(X), np.ones(100), "greedy")


def test_a_regression_and_gradients_at_given_weights():
    """``loss`` and ``coef`` work as without shards."""
    X, y = some_data()
    w = np.array([1.0, -2.0, 0.0, 1.0])
    errors = X @ w + 1.0 - y
    table = pair(
        in_chunks(X), y, "greedy", shard_rows=30, coef=w, intercept=1.0, loss="squared_error"
    )
    assert table.partner.tolist() == paired_in_shards(signed_rows(X, errors), 30).tolist()


@BOTH_FORMS
def test_several_classes_in_shards(form):
    """Four classes are paired as the formed rows ``(e_y - 1/K) (x) x``.

    The classes are those of all rows, even where a shard lacks one.
    """
    X, _ = some_data()
    y = np.minimum(np.arange(100), 3)
    vectors = ((np.eye(4)[y] - 0.25)[:, :, None] * X[:, None, :]).reshape(100, -1)
    table = pair(in_chunks(form(X)), in_chunks(y), "greedy", shard_rows=30)
    assert table.partner.tolist() == paired_in_shards(vectors, 30).tolist()
    with pytest.raises(
        ValueError, match=r"coef= pairs gradients of two classes .* y has 4 classes"
    ):
        pair(in_chunks(form(X)), y, shard_rows=30, coef=np.ones(4))


def test_larger_shards_are_not_worse():
    """The variance ratio falls as shards grow."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), np.where(rng.random(600) < 0.5, 1.0, -1.0)
    ratios = [
        pair(X, y, "optimal", shard_rows=size).variance_ratio(X, y) for size in (5, 30, 200, 600)
    ]
    assert ratios == sorted(ratios, reverse=True)


# ---- the fingerprint


@BOTH_FORMS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_fingerprint_is_that_of_the_whole(form, dtype):
    """For any chunks, the table fits the whole data, dense or CSR, and no other data."""
    X, y = some_data()
    X = X.astype(dtype)
    table, whole = (
        pair(in_chunks(form(X)), in_chunks(y), "greedy", shard_rows=30),
        pair(X, y, "greedy"),
    )
    assert table.fingerprint.values == whole.fingerprint.values
    assert table.fingerprint.width == whole.fingerprint.width
    assert table.fingerprint.labels.tolist() == whole.fingerprint.labels.tolist()
    table.check(np.concatenate(in_chunks(X)), y)
    table.check(sparse.csr_array(X), y)
    changed, swapped = X.copy(), X.copy()
    changed[77, 2] += 1.0
    swapped[[0, 99]] = X[[99, 0]]
    for other in (changed, swapped, X.astype(np.float32 if dtype == np.float64 else np.float64)):
        with pytest.raises(ValueError, match="other values of X"):
            table.check(other, y)
    with pytest.raises(ValueError, match="other labels"):
        table.check(X, -y)


# ---- no copy


def read(X, y):
    return Shards.read(
        X, y, loss="log_loss", coef=None, intercept=0.0, fit_intercept=False, sample_weight=None
    )


def test_chunks_are_not_copied():
    """What is kept is what was given: dense chunks, the arrays of CSR chunks, a memory map."""
    X, y = some_data()
    chunks = [part.copy() for part in in_chunks(X)]
    assert all(
        np.shares_memory(kept, part)
        for kept, part in zip(read(chunks, y).chunks, chunks, strict=True)
    )
    chunks = [sparse.csr_array(part) for part in chunks]
    assert all(
        np.shares_memory(kept.data, part.data)
        for kept, part in zip(read(chunks, y).chunks, chunks, strict=True)
    )


def test_a_memory_map_is_not_read_into_memory(tmp_path):
    """At no time is a half of it in memory, and its table fits the file."""
    n, d = 100_000, 20
    X = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=(n, d))
    X[:] = np.random.default_rng(0).normal(size=(n, d))
    X.flush()
    X = np.memmap(tmp_path / "X", dtype=np.float64, mode="r", shape=(n, d))
    y = np.arange(n) % 2
    assert np.shares_memory(read(X, y).chunks[0], X)
    tracemalloc.start()
    try:
        table = pair(X, y, "random", shard_rows=5000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.5 * X.nbytes
    table.check(X, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_memory_map_is_paired_as_an_array(tmp_path, dtype):
    """The same table from a read-only file, by every method that runs a kernel."""
    X, y = some_data()
    X = X.astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for method in ("greedy", "tree"):
        expected = pair(X, y, method, shard_rows=30).partner.tolist()
        assert pair(mapped, y, method, shard_rows=30).partner.tolist() == expected
        assert (
            pair([mapped[:40], mapped[40:]], y, method, shard_rows=30).partner.tolist() == expected
        )


def test_data_are_left_alone():
    """Chunks, labels and weights are what they were."""
    X, y = some_data()
    chunks, s = [part.copy() for part in in_chunks(X)], np.ones(100)
    pair(chunks, y, "greedy", shard_rows=30, sample_weight=s, fit_intercept=True)
    np.testing.assert_array_equal(np.concatenate(chunks), X)
    assert s.tolist() == [1.0] * 100


# ---- refused


@pytest.mark.parametrize(
    "spoil",
    [
        lambda part: part[:, :3],
        lambda part: part.astype(np.float32),
        sparse.csr_array,
    ],
    ids=["width", "float type", "sparse"],
)
def test_chunks_that_differ_are_refused(spoil):
    """Chunks must agree in the number of features, the float type, and dense or sparse."""
    X, y = some_data()
    chunks = in_chunks(X)
    chunks[2] = spoil(chunks[2])
    with pytest.raises(
        ValueError, match="chunks of X differ in number of features, float type, or in being sparse"
    ):
        pair(chunks, y)


def test_a_bad_chunk_is_named():
    """NaN and an empty chunk are errors that say which chunk."""
    X, y = some_data()
    X[70, 1] = np.nan
    with pytest.raises(ValueError, match=r"chunk 3 of X has NaN or infinity, first in row 9"):
        pair(in_chunks(X), y)
    with pytest.raises(ValueError, match=r"chunk 1 of X must have at least one row"):
        pair([np.ones((2, 1)), np.ones((0, 1))], [0, 1])


@pytest.mark.parametrize(
    "labels",
    [np.ones(99), np.ones((100, 2)), [np.ones(50), np.ones(50)], [np.ones(25)] * 3 + [np.ones(24)]],
)
def test_labels_of_another_length_are_refused(labels):
    """There is one label per row, however they come."""
    with pytest.raises(ValueError, match=r"y must have shape \(100,\)|inhomogeneous"):
        pair(in_chunks(some_data()[0]), labels)


@pytest.mark.parametrize("option", [{"nest": 2}, {"nest": True}, {"init": np.arange(100)}])
def test_groups_and_polishing_need_all_rows_at_once(option):
    """``nest`` and ``init`` are refused for chunks and for shards."""
    X, y = some_data()
    for build in (
        lambda: pair(in_chunks(X), y, "tree", **option),
        lambda: pair(X, y, "tree", shard_rows=30, **option),
    ):
        with pytest.raises(ValueError, match="nest= and init= need all rows at once"):
            build()


@pytest.mark.parametrize("shard_rows", [0, 1, -5, 2.5, True, "many"])
def test_a_shard_has_two_rows_or_more(shard_rows):
    """shard_rows must be a whole number, at least 2."""
    X, y = some_data()
    with pytest.raises(ValueError, match=r"shard_rows must be a whole number, at least 2; got"):
        pair(X, y, shard_rows=shard_rows)


def test_a_bar_counts_the_rows(capsys):
    """``progress=True`` shows a bar on the error stream."""
    X, y = some_data()
    pair(in_chunks(X), y, "greedy", shard_rows=30, progress=True)
    assert "pairing rows" in capsys.readouterr().err
