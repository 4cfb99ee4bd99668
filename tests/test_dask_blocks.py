"""From Dask's collections to blocks: each row once, in order, and clear errors on mismatches."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask
import dask.array as da
from dask_cases import cluster, in_blocks, labelled

from antithetic.dask import LogisticRegression
from antithetic.dask.blocks import open_block
from antithetic.dask.mapping import delay_blocks
from antithetic.dask.reading import delayed_parts, read_blocks
from antithetic.dask.recipes import Recipe, keys_needed

X, Y = labelled(60)


def opened(blocks):
    return [part.compute(scheduler="sync") for part in delay_blocks(open_block, "open", blocks)]


def joined(blocks):
    parts = opened(blocks)
    rows = [part.X.toarray() if sparse.issparse(part.X) else part.X for part in parts]
    return np.concatenate(rows), np.concatenate([part.y for part in parts])


def frame(npartitions=3):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    return dd.from_pandas(
        pd.DataFrame(X, columns=list("abcde")).assign(label=Y), npartitions=npartitions
    )


def collections():
    csr = da.from_array(X, chunks=(20, -1)).map_blocks(sparse.csr_matrix)
    yield "arrays", da.from_array(X, chunks=(25, 2)), da.from_array(Y, chunks=25)
    yield "other blocks of y", da.from_array(X, chunks=(25, -1)), da.from_array(Y, chunks=7)
    yield "y in memory", da.from_array(X, chunks=(25, -1)), Y
    yield "all in memory", X, Y
    yield "sparse in memory", sparse.csr_array(X), Y
    yield "sparse blocks", csr, da.from_array(Y, chunks=20)
    yield (
        "a column of labels",
        da.from_array(X, chunks=(25, -1)),
        da.from_array(Y[:, None], chunks=(25, 1)),
    )
    yield (
        "delayed",
        [dask.delayed(X[:20]), dask.delayed(X[20:])],
        [dask.delayed(Y[:20]), dask.delayed(Y[20:])],
    )


@pytest.mark.parametrize(
    ("given", "labels"), [pytest.param(*rest, id=name) for name, *rest in collections()]
)
def test_blocks_hold_each_row_once_in_order(given, labels):
    """Blocks hold each row once and in order, for any collection and any chunks of y."""
    rows, y = joined(read_blocks(given, labels))
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(y, Y)


def test_data_frames_are_blocks_of_their_partitions():
    """Partitions become blocks with column names, and lengths unknown before reading."""
    data = frame()
    blocks = read_blocks(data[list("abcde")], data["label"])
    rows, y = joined(blocks)
    assert blocks.names.tolist() == list("abcde")
    assert len(blocks) == 3
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(y, Y)
    array = read_blocks(data[list("abcde")].to_dask_array(), data["label"].to_dask_array())
    np.testing.assert_array_equal(joined(array)[0], X)


def test_labels_in_memory_are_cut_like_blocks_of_unknown_length():
    """Labels in memory are cut by the lengths of the blocks."""
    data = frame()
    with dask.config.set(scheduler="sync"):
        np.testing.assert_array_equal(joined(read_blocks(data[list("abcde")], Y))[1], Y)
        np.testing.assert_array_equal(
            joined(read_blocks(data[list("abcde")], da.from_array(Y, chunks=11)))[1], Y
        )


def test_a_task_reads_its_block_by_itself():
    """Reading is part of the task that uses the block, so workers do not read ahead."""
    blocks = read_blocks(*in_blocks(X, Y, [20, 40]))
    assert all(isinstance(part, Recipe) for part in blocks.X + blocks.y)
    assert not keys_needed([blocks.X, blocks.y])


@pytest.mark.parametrize(
    ("given", "labels", "message"),
    [
        (
            da.from_array(X, chunks=(20, -1)),
            da.from_array(Y[:59], chunks=20),
            "X has 60 rows and y has 59",
        ),
        (da.from_array(X, chunks=(20, -1)), Y[:5], "X has 60 rows and y has 5"),
        (da.from_array(X[:, 0], chunks=20), da.from_array(Y, chunks=20), "two dimensions"),
        (X[:, 0], Y, "two dimensions"),
        ([dask.delayed(X)], [dask.delayed(Y)] * 2, "X has 1 blocks and y has 2"),
        (dask.delayed(X), Y, "list of delayed values"),
    ],
    ids=[
        "rows",
        "rows in memory",
        "one axis",
        "one axis in memory",
        "numbers of blocks",
        "one delayed value",
    ],
)
def test_what_does_not_fit_together_is_refused(given, labels, message):
    """Collections that do not fit together are refused before anything is read."""
    with pytest.raises(ValueError, match=message):
        read_blocks(given, labels)


def test_partitions_of_unknown_length_must_be_as_many():
    """Different numbers of partitions are refused, and the error says what to do."""
    unknown = frame(4)["label"].to_dask_array()
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        read_blocks(da.from_array(X, chunks=(20, -1)), unknown)


def spoilt(value):
    rows = X.copy()
    rows[27, 1] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (spoilt(np.nan), Y, "block 1 of X has NaN or infinity, first in row 7, column 1"),
        (spoilt(np.inf), Y, "block 1 of X has NaN or infinity, first in row 7, column 1"),
        (X, np.where(np.arange(60) == 21, np.nan, Y), "block 1: y has NaN"),
        (
            X,
            np.array([*["a"] * 21, None, *["b"] * 38], dtype=object),
            "block 1: y has a missing label, first in row 1",
        ),
        (X, np.array([*["a"] * 21, 3, *["b"] * 38], dtype=object), "block 1: y mixes"),
        (X.astype(complex), Y, "must be real"),
    ],
    ids=["NaN", "infinity", "NaN in y", "no label", "mixed labels", "complex"],
)
def test_errors_name_the_block(rows, labels, message):
    """Errors name the block and the row in it."""
    blocks = read_blocks(*in_blocks(rows, labels, [20, 20, 20]))
    with pytest.raises(ValueError, match=message):
        opened(blocks)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "block 1 of X has NaN or infinity, first in row 7, column 'b'; remove or impute"),
        ("Rome", "block 1 of X must be real numbers; row 7 has 'Rome' in column 'b'"),
        ("date", "block 1 of X has dates or durations in column 'b'; convert them to numbers"),
    ],
)
@pytest.mark.parametrize("form", ["frame", "delayed"])
def test_errors_name_the_column_of_a_data_frame(form, value, message):
    """A value that cannot be used is named with its column, wherever that column stands."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    parts = [pd.DataFrame(X[k : k + 20], columns=list("abcde")) for k in (0, 20, 40)]
    column = parts[1]["b"].astype(object)
    column[7] = value
    if value == "date":
        column = pd.date_range("2020-01-01", periods=20)
    parts[1] = parts[1].assign(b=column)
    if form == "delayed":
        parts[1] = parts[1][list("bacde")]
    rows = list(map(dask.delayed, parts))
    if form == "frame":
        rows = dd.from_delayed(rows, meta=parts[0][:0], verify_meta=False)
    blocks = read_blocks(rows, [dask.delayed(part) for part in np.split(Y, 3)])
    with pytest.raises(ValueError, match=re.escape(message)):
        opened(blocks)


def test_blocks_that_differ_in_length_are_named():
    """Lengths of partitions are seen when they are read."""
    blocks = read_blocks(
        [dask.delayed(X[:20]), dask.delayed(X[20:])], [dask.delayed(Y[:21]), dask.delayed(Y[21:])]
    )
    with pytest.raises(ValueError, match=r"block 0: X has 20 rows and y has shape \(21,\)"):
        opened(blocks)


def test_weights_are_checked_where_they_are():
    """Negative ones are named with their block."""
    weight = np.ones(60)
    weight[45] = -1.0
    blocks = read_blocks(*in_blocks(X, Y, [20, 40]), da.from_array(weight, chunks=((20, 40),)))
    with pytest.raises(ValueError, match="block 1: sample_weight must be at least 0; row 25"):
        opened(blocks)


def test_labels_of_any_kind_are_compared_across_blocks():
    """Categories, strings and objects become text."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    words = np.where(Y == 1, "yes", "no")
    series = dd.from_pandas(pd.Series(words).astype("category"), npartitions=2)
    blocks = read_blocks(da.from_array(X, chunks=(30, -1)), series)
    assert joined(blocks)[1].tolist() == words.tolist()
    assert opened(blocks)[0].y.dtype.kind == "U"


def test_an_empty_block_is_a_block():
    """An empty block has no rows."""
    blocks = read_blocks(*in_blocks(X, Y, [20, 0, 40]))
    assert [part.X.shape for part in opened(blocks)] == [(20, 5), (0, 5), (40, 5)]


@pytest.mark.parametrize("filesystem", ["fsspec", "arrow"])
def test_columns_of_one_parquet_frame_have_the_same_blocks(tmp_path, filesystem):
    """Each Parquet file is one block of X, of y and of the predictions.

    Dask would join files when only few of their columns are read.
    """
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    wide = np.hstack([X, X])
    names = [f"x{k}" for k in range(10)]
    for k, rows in enumerate(np.split(np.arange(60), 6)):
        pd.DataFrame(wide[rows], columns=names).assign(label=Y[rows]).to_parquet(
            tmp_path / f"{k}.parquet"
        )
    data = dd.read_parquet(tmp_path, filesystem=filesystem)
    whole = data.compute(scheduler="sync")  # in the order of the files, which is that of the folder
    blocks = read_blocks(data[names], data["label"], data["x0"] ** 2)
    assert len(blocks) == 6
    assert all(isinstance(part, Recipe) for part in blocks.X + blocks.y)
    assert not keys_needed([blocks.X, blocks.y])
    assert [len(part.X) for part in opened(blocks)] == [10] * 6
    np.testing.assert_array_equal(
        np.concatenate([part.weight for part in opened(blocks)]), whole["x0"].to_numpy() ** 2
    )
    np.testing.assert_array_equal(joined(blocks)[0], whole[names].to_numpy())
    np.testing.assert_array_equal(joined(blocks)[1], whole["label"].to_numpy())
    assert sorted(joined(blocks)[0][:, 0].tolist()) == sorted(X[:, 0].tolist())
    assert len(delayed_parts(data[["x0"]])) == 6
    with dask.config.set(scheduler="sync"):  # other blocks than X
        np.testing.assert_array_equal(
            joined(read_blocks(da.from_array(X, chunks=(25, -1)), data["label"]))[1],
            whole["label"].to_numpy(),
        )


def test_missing_words_are_named():
    """Missing words are named, including pandas' value that does not compare."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    words = pd.Series(np.where(Y == 1, "yes", "no"), dtype="string")
    words[33] = None
    blocks = read_blocks(da.from_array(X, chunks=(30, -1)), dd.from_pandas(words, npartitions=2))
    with pytest.raises(ValueError, match="block 1: y has a missing label, first in row 3"):
        opened(blocks)


def test_no_rows_in_memory_are_one_empty_block():
    """No rows in memory, dense or sparse, are one empty block."""
    for rows in (X[:0], sparse.csr_array(X[:0])):
        assert [part.X.shape for part in opened(read_blocks(rows, Y[:0]))] == [(0, 5)]


def frames(orders):
    """Delayed frames of 20 rows each, with their columns in these orders."""
    pd = pytest.importorskip("pandas")
    whole = pd.DataFrame(X, columns=list("abcde"))
    cuts = [whole.iloc[20 * k : 20 * k + 20][list(order)] for k, order in enumerate(orders)]
    labels = [dask.delayed(Y[20 * k : 20 * k + 20]) for k in range(len(orders))]
    return [dask.delayed(cut) for cut in cuts], labels


def test_delayed_frames_are_matched_by_the_names_of_their_columns():
    """Columns in another order are those of the same names, in blocks and in a fitted model."""
    mixed = read_blocks(*frames(["abcde", "edcba", "bacde"]))
    np.testing.assert_array_equal(joined(mixed)[0], X)
    assert mixed.names.tolist() == list("abcde")
    with cluster(processes=False) as client:
        fits = [LogisticRegression(client=client) for _ in range(2)]
        fits[0].fit(*frames(["abcde"] * 3))
        fits[1].fit(*frames(["abcde", "edcba", "bacde"]))
        np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
        assert fits[1].feature_names_in_.tolist() == list("abcde")
        same, mixed = frames(["abcde"] * 3), frames(["abcde", "bacde", "edcba"])
        assert fits[1].score(*mixed) == fits[0].score(*same)
        with pytest.raises(ValueError, match="in this order"):
            fits[1].score(*frames(["edcba"]))
        with pytest.raises(ValueError, match="feature names"):
            fits[1].predict(frames(["edcba"])[0]).compute(scheduler="sync")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda cut: cut.rename(columns={"a": "A"}), r"block 1 of X has the columns \['A', 'b'"),
        (lambda cut: cut[["a", "a", "b", "c", "d"]], "all blocks need the same columns"),
        (lambda cut: cut[["a"]], r"\['a'\], and the first block has \['a', 'b', 'c', 'd', 'e'\]"),
    ],
    ids=["other names", "a name twice", "too few"],
)
def test_delayed_frames_of_other_columns_are_refused(change, message):
    parts, labels = frames(["abcde", "abcde"])
    blocks = read_blocks([parts[0], dask.delayed(change)(parts[1])], labels)
    with pytest.raises(ValueError, match=message):
        opened(blocks)


def test_columns_with_numbers_for_names_are_matched_too():
    pd = pytest.importorskip("pandas")
    whole = pd.DataFrame(X)
    cuts = [whole.iloc[:30], whole.iloc[30:][[4, 3, 2, 1, 0]]]
    blocks = read_blocks(
        list(map(dask.delayed, cuts)), [dask.delayed(Y[:30]), dask.delayed(Y[30:])]
    )
    np.testing.assert_array_equal(joined(blocks)[0], X)
    assert blocks.names is None


def unreadable():
    raise FileNotFoundError(2, "No such file or directory", "part-1.csv")


def broken():
    raise KeyError("no such table")


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (unreadable, OSError, r"block 1 of {} could not be read: .*part-1\.csv"),
        (broken, RuntimeError, r"block 1 of {} could not be read: 'no such table'"),
        (lambda: None, ValueError, "block 1 of {} is None"),
    ],
    ids=["no file", "an error of another kind", "None"],
)
@pytest.mark.parametrize("column", ["X", "y", "sample_weight"])
def test_a_block_that_cannot_be_read_is_named(make, kind, message, column):
    """Whatever the user's function raises, the error says which block it was."""
    given = {
        "X": [dask.delayed(X[:30]), dask.delayed(X[30:])],
        "y": [dask.delayed(Y[:30]), dask.delayed(Y[30:])],
        "sample_weight": [dask.delayed(np.ones(30)), dask.delayed(np.ones(30))],
    }
    given[column][1] = dask.delayed(make)()
    with pytest.raises(kind, match=message.format(column)):
        opened(read_blocks(**given))


def test_the_error_of_a_block_reaches_the_user_of_a_cluster():
    parts = [dask.delayed(X[:30]), dask.delayed(unreadable)()]
    with cluster(processes=False) as client:
        model = LogisticRegression(client=client)
        with pytest.raises(OSError, match="block 1 of X could not be read"):
            model.fit(parts, [dask.delayed(Y[:30]), dask.delayed(Y[30:])])


def test_what_is_not_rows_is_named():
    parts = [dask.delayed(X[:30]), dask.delayed("rows")]
    with pytest.raises(ValueError, match=r"block 1 of X must be an array.*'str'"):
        opened(read_blocks(parts, [dask.delayed(Y[:30]), dask.delayed(Y[30:])]))
