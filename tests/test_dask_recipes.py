"""What a fit on Dask reads and sends: each block once a round, shared values and arrays once."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask
import dask.array as da
from dask_cases import cluster, in_blocks, labelled
from distributed import Future, wait

from antithetic.dask import LogisticRegression, pair
from antithetic.dask.blocks import open_block
from antithetic.dask.mapping import over_blocks
from antithetic.dask.reading import read_blocks

ROWS, BLOCKS = 400, 6
X, Y = labelled(ROWS * BLOCKS, d=8)
BLOCK_BYTES = ROWS * 8 * 8
READ: list[int] = []  # numbers of the blocks that were read, in order
PICKLED: list[int] = []  # bytes of the arrays that were pickled


@pytest.fixture(scope="module")
def client():
    """Workers of this process, whose tasks can count in the lists above."""
    with cluster(processes=False) as one:
        yield one


@pytest.fixture(autouse=True)
def _count_from_zero():
    READ.clear()
    PICKLED.clear()


def read(number):
    READ.append(number)
    return X[ROWS * number : ROWS * (number + 1)]


def lazy_rows():
    """Rows that are read block by block, and counted."""
    parts = [dask.delayed(read, pure=True)(number) for number in range(BLOCKS)]
    return da.concatenate([da.from_delayed(part, (ROWS, 8), dtype=float) for part in parts])


def labels():
    return da.from_array(Y, chunks=ROWS)


def held_bytes(client, blocks):
    """Return the bytes that the cluster holds for these blocks."""
    held = [node.key for node in blocks.graph.values() if isinstance(node, Future)]
    return client.run_on_scheduler(
        lambda dask_scheduler: sum(dask_scheduler.tasks[key].nbytes for key in held)
    )


def sum_of_block(number, parts):
    return open_block(number, parts).X.sum(axis=0)


def sum_all(client, blocks):
    return np.sum(over_blocks(client, sum_of_block, "test", blocks), axis=0)


def shifted_by_a_vector(rows):
    return rows - X.mean(axis=0)


def shifted_by_the_mean(rows):
    return rows - rows.mean(axis=0)


def scaled(rows):
    return (rows - rows.mean(axis=0)) / rows.std(axis=0)


@pytest.mark.parametrize("change", [shifted_by_a_vector, shifted_by_the_mean, scaled])
def test_a_round_reads_each_block_once(client, change):
    """Values that all blocks share are computed once, and no block stays on the cluster."""
    expected = change(X)
    blocks = read_blocks(change(lazy_rows()), labels(), client=client)
    for _ in range(3):
        np.testing.assert_allclose(sum_all(client, blocks), expected.sum(axis=0), atol=1e-9)
        assert held_bytes(client, blocks) < BLOCK_BYTES
    once = 0 if change is shifted_by_a_vector else 1  # for the mean, with the standard deviation
    assert np.bincount(READ).tolist() == [3 + once] * BLOCKS


@pytest.mark.parametrize("change", [shifted_by_a_vector, shifted_by_the_mean])
def test_a_fit_reads_each_block_once_a_round(client, change):
    """A fit reads as often as ``n_rounds_`` says, once more for a mean; the model is the same."""
    model = LogisticRegression(client=client).fit(change(lazy_rows()), labels())
    once = 0 if change is shifted_by_a_vector else 1
    assert np.bincount(READ).tolist() == [model.n_rounds_ + once] * BLOCKS
    expected = LogisticRegression(client=client).fit(*in_blocks(change(X), Y, [ROWS] * BLOCKS))
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


def test_a_task_contains_only_its_own_part_of_the_graph():
    """Blocks that share a mean have recipes of four nodes, whatever the number of blocks."""
    blocks = read_blocks(shifted_by_the_mean(lazy_rows()), labels())
    # the function that reads, two names for its result, and the subtraction
    assert {len(recipe.graph) for recipe in blocks.X} == {4}
    assert len({recipe.inputs for recipe in blocks.X}) == 1  # the mean


def test_blocks_that_overlap_are_read_once_a_round(client):
    """Chunks that two blocks share are computed once in each round, and then released."""
    lengths = (600, 600, 200, 1000)
    blocks = read_blocks(
        lazy_rows().rechunk({0: lengths}), da.from_array(Y, lengths), client=client
    )
    for many in (1, 2):
        np.testing.assert_allclose(sum_all(client, blocks), X.sum(axis=0), atol=1e-9)
        assert np.bincount(READ).tolist() == [many] * BLOCKS
        assert held_bytes(client, blocks) == 0


def unreadable(number):
    if number == 3:
        raise FileNotFoundError(2, "No such file or directory", "part-3.npy")
    return read(number)


@pytest.mark.parametrize("change", [shifted_by_a_vector, shifted_by_the_mean])
def test_a_block_that_cannot_be_read_is_named(client, change):
    """The error names the block, whether its own task reads it or a mean needs it."""
    parts = [dask.delayed(unreadable)(number) for number in range(BLOCKS)]
    rows = da.concatenate([da.from_delayed(part, (ROWS, 8), dtype=float) for part in parts])
    with pytest.raises(OSError, match=r"block 3.* could not be read: .*part-3\.npy"):
        LogisticRegression(client=client).fit(change(rows), labels())


@pytest.mark.parametrize("form", ["array", "doubled", "delayed", "doubled, delayed", "futures"])
def test_data_on_the_cluster_are_used_where_they_are(client, form):
    """Data that the user has persisted are not read again, whatever is made of them."""
    held = client.persist(lazy_rows())
    with client.as_current():
        wait(held)
    READ.clear()
    rows = held + held if "doubled" in form else held
    if "delayed" in form:
        rows = rows.to_delayed().ravel().tolist()
    if form == "futures":
        made = [client.submit(np.asarray, part) for part in np.split(X, BLOCKS)]
        rows = [dask.delayed(np.add)(part, 0.0) for part in made]
    blocks = read_blocks(rows, labels(), client=client)
    expected = X.sum(axis=0) * (2.0 if "doubled" in form else 1.0)
    for _ in range(2):
        np.testing.assert_allclose(sum_all(client, blocks), expected)
    assert not READ


class Counted(np.ndarray):
    """An array that notes how often it is pickled."""

    def __reduce_ex__(self, protocol):
        PICKLED.append(self.nbytes)
        return super().__reduce_ex__(protocol)


def counted(rows):
    return np.array(rows).view(Counted)


def in_memory(form):
    """Rows in the memory of this process, as they reach a fit."""
    parts = [counted(part) for part in np.split(X, BLOCKS)]
    if form == "delayed":
        return [dask.delayed(part) for part in parts]
    if form == "read from":
        return [dask.delayed(np.asarray)(part) for part in parts]
    one = da.from_array(counted(X), chunks=(-1, -1), asarray=False)
    return one.rechunk((700, -1)) if form == "one array" else one.rechunk((ROWS, -1)) - X.mean(0)


@pytest.mark.parametrize("form", ["delayed", "read from", "one array", "shifted"])
def test_arrays_in_memory_are_sent_before_the_first_round(client, form):
    """Arrays are pickled when the blocks are made, and not in the rounds that follow."""
    blocks = read_blocks(in_memory(form), client=client)
    sent = len(PICKLED)
    assert sum(PICKLED) >= X.nbytes
    for _ in range(3):
        np.testing.assert_allclose(sum_all(client, blocks), sum_all(None, blocks_of(form)))
    assert len(PICKLED) == sent


def blocks_of(form):
    with dask.config.set(scheduler="sync"):
        return read_blocks(in_memory(form))


def test_a_lambda_can_make_a_table(client):
    """A function without a name is sent to the workers."""
    table = pair(*in_blocks(X, Y, [ROWS] * BLOCKS), lambda rows: np.arange(len(rows)) ^ 1)
    np.testing.assert_array_equal(table.compute(client).partner, np.arange(len(X)) ^ 1)
    assert table.variance_ratio(client=client) > 0.0
