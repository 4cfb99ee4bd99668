"""The order of an epoch: each row once, groups whole, equal shares for all processes."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from antithetic import AntitheticTable, GroupTable  # noqa: E402
from antithetic.torch import order as order_module  # noqa: E402
from antithetic.torch.order import as_groups, epoch_order, systematic  # noqa: E402
from antithetic.torch.shards import Shard  # noqa: E402


@st.composite
def tables(draw, most=40):
    n = draw(st.integers(1, most))
    size = 2 ** draw(st.integers(0, min(4, n.bit_length() - 1)))
    return GroupTable(np.random.default_rng(draw(st.integers(0, 2**31))).permutation(n), size)


def all_shards(n, batch_size, replicas, drop_last):
    return [Shard(n, batch_size, replicas, rank, drop_last) for rank in range(replicas)]


def rows_of(shard, order, blocks=1):
    """Rows of a process, in blocks of so many batches."""
    step = blocks * shard.batch_size
    parts = [
        shard.take(order, start, min(start + step, shard.rows))
        for start in range(0, shard.rows, step)
    ]
    return np.concatenate([np.empty(0, dtype=np.intp), *parts])


@given(tables(), st.integers(0, 99), st.booleans(), st.integers(1, 12), st.integers(1, 3))
def test_one_process_has_each_row_once(table, epoch, turned, batch_size, blocks):
    """One process has each row once, for requests of any size."""
    order = epoch_order(table, 0, epoch, turned=turned)
    rows = rows_of(Shard(len(table), batch_size, 1, 0, False), order, blocks)
    np.testing.assert_array_equal(np.sort(rows), np.arange(len(table)))
    np.testing.assert_array_equal(rows, order.rows_at(np.arange(len(table))))


@given(tables(), st.integers(0, 99), st.booleans())
def test_groups_stay_whole(table, epoch, turned):
    """Groups and their blocks stay whole, except the group that supplies the leftover rows."""
    order = epoch_order(table, 0, epoch, turned=turned)
    found = order.rows_at(np.arange(len(table)))
    np.testing.assert_array_equal(
        found[: order.groups.size], order.groups_at(np.arange(len(table.groups)))
    )
    size = table.size
    while size > 1:
        have, want = (
            {frozenset(block) for block in rows[: table.groups.size].reshape(-1, size).tolist()}
            for rows in (found, table.order)
        )
        broken = table.size // size if order.broken >= 0 else 0
        assert len(want - have) <= broken
        size //= 2


@given(tables(), st.integers(0, 99))
def test_an_epoch_is_a_function_of_seed_and_number(table, epoch):
    """The order made twice from the same seed and number is the same."""
    places = np.arange(len(table))
    first, again = (epoch_order(table, 5, epoch, turned=True).rows_at(places) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_epochs_and_seeds_differ():
    """That two orders of 64 rows agree by chance has a probability below 1e-30."""
    table = GroupTable(np.arange(64), 2)
    found = {
        tuple(epoch_order(table, seed, epoch, turned=False).rows_at(np.arange(64)))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(found) == 9


@given(tables(), st.integers(1, 12), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_shares_are_equal_and_nothing_is_missing(table, batch_size, replicas, drop_last, epoch):
    """All processes have the same number of rows.

    Without drop_last every row, and no more are repeated than make equal numbers of pairs.
    """
    n = len(table)
    order = epoch_order(table, 0, epoch, turned=True)
    parts = all_shards(n, batch_size, replicas, drop_last)
    rows = [rows_of(shard, order) for shard in parts]
    assert {len(part) for part in rows} == {parts[0].rows}
    assert parts[0].batches == ceil(parts[0].rows / batch_size)
    counts = np.bincount(np.concatenate(rows), minlength=n)
    if drop_last:
        assert counts.max(initial=0) <= 1
        assert n - counts.sum() == n - n // (replicas * batch_size) * replicas * batch_size
    elif replicas == 1:
        assert (counts == 1).all()
    else:
        assert counts.min() >= 1
        assert counts.sum() - n == 2 * replicas * ceil(ceil(n / 2) / replicas) - n
        assert counts.max() <= 2 or 2 * replicas > n


@given(
    tables(),
    st.sampled_from([2, 4, 6, 8, 12]),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 99),
)
def test_pairs_are_dealt_out_and_not_rows(table, batch_size, replicas, drop_last, epoch):
    """In even batches partners are side by side, in the same batch of the same process.

    A repeated pair comes whole.
    """
    if table.size == 1:
        return
    order = epoch_order(table, 0, epoch, turned=True)
    # Pairs, including those repaired in this epoch.
    whole = order.rows_at(np.arange(len(table) // 2 * 2)).reshape(-1, 2)
    mate = dict(map(tuple, np.concatenate([whole, whole[:, ::-1]]).tolist()))
    for shard in all_shards(len(table), batch_size, replicas, drop_last):
        rows = rows_of(shard, order)
        for first, second in rows[: len(rows) // 2 * 2].reshape(-1, 2).tolist():
            # The single row has no mate; its neighbour may belong to any pair.
            assert mate.get(first, second) == second


@pytest.mark.parametrize("batch_size", [3, 5])
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_odd_batches_part_one_pair_each(batch_size, replicas):
    """Each odd batch splits one pair, whose members stay neighbours in the same process."""
    table = GroupTable(np.random.default_rng(0).permutation(60), 2)
    mate = dict(map(tuple, np.concatenate([table.groups, table.groups[:, ::-1]]).tolist()))
    order = epoch_order(table, 0, 0, turned=True)
    for shard in all_shards(60, batch_size, replicas, False):
        rows = rows_of(shard, order).tolist()
        assert all(mate[rows[k]] == rows[k + 1] for k in range(0, len(rows), 2))


class Enumerated:
    """Stands in for a NumPy generator, and goes through all outcomes of a script."""

    def __init__(self, cells=(0.0, 1.0)):
        self.script, self.cells = [], np.asarray(cells)

    def outcomes(self, run):
        """Yield probability and value of every outcome of ``run()``."""
        while True:
            self.at, self.sizes, self.probability = 0, [], 1.0
            value = run()
            yield self.probability, value
            script = (self.script + [0] * len(self.sizes))[: len(self.sizes)]
            while script and script[-1] == self.sizes[len(script) - 1] - 1:
                script.pop()
            if not script:
                return
            script[-1] += 1
            self.script = script

    def choose(self, probabilities):
        choice = self.script[self.at] if self.at < len(self.script) else 0
        self.at += 1
        self.sizes.append(len(probabilities))
        self.probability *= probabilities[choice]
        return choice

    def integers(self, n, size=None, dtype=np.intp):
        drawn = [self.choose([1.0 / n] * n) for _ in range(1 if size is None else size)]
        return drawn[0] if size is None else np.array(drawn, dtype=dtype)

    def permutation(self, n):
        left = list(range(n))
        return np.array(
            [left.pop(self.choose([1.0 / len(left)] * len(left))) for _ in range(n)], dtype=np.intp
        )

    def random(self):
        choice = self.choose(np.diff(self.cells).tolist())
        return (self.cells[choice] + self.cells[choice + 1]) / 2.0


def every_order(monkeypatch, table, turned, chances=None, cells=(0.0, 1.0)):
    rng = Enumerated(cells)
    monkeypatch.setattr(order_module, "random_order", lambda rng, n: rng.permutation(n))
    monkeypatch.setattr(np.random, "default_rng", lambda _seed: rng)
    yield from rng.outcomes(lambda: epoch_order(table, 0, 0, turned=turned, chances=chances))
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("n", "size", "batch_size"),
    [(6, 2, 2), (5, 2, 2), (5, 2, 3), (6, 2, 1), (7, 4, 4), (6, 4, 2), (11, 4, 4), (5, 4, 3)],
)
def test_every_row_is_equally_likely_in_every_batch(monkeypatch, n, size, batch_size):
    """By enumeration, the expected gradient of every batch is the gradient, short ones included."""
    table = GroupTable(np.random.default_rng(1).permutation(n), size)
    turned = batch_size % size != 0
    shard = Shard(n, batch_size, 1, 0, False)
    chance, total = np.zeros((shard.batches, n)), 0.0
    for probability, order in every_order(monkeypatch, table, turned):
        for k, start in enumerate(range(0, n, batch_size)):
            chance[k, shard.take(order, start, min(start + batch_size, n))] += probability
        total += probability
    assert total == pytest.approx(1.0, rel=1e-12)
    lengths = np.minimum(batch_size, n - batch_size * np.arange(shard.batches))
    np.testing.assert_allclose(chance, np.repeat(lengths[:, None] / n, n, axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "size", "replicas", "batch_size"),
    [(6, 2, 2, 2), (7, 2, 2, 2), (10, 4, 4, 2), (9, 4, 2, 4)],
)
def test_every_row_is_repeated_or_left_out_equally_often(
    monkeypatch, n, size, replicas, batch_size
):
    """Over all orders, for several processes together."""
    table = GroupTable(np.random.default_rng(1).permutation(n), size)
    for drop_last in (False, True):
        parts, counts = all_shards(n, batch_size, replicas, drop_last), np.zeros(n)
        for probability, order in every_order(monkeypatch, table, True):
            for shard in parts:
                np.add.at(counts, rows_of(shard, order), probability)
        np.testing.assert_allclose(counts, parts[0].rows * replicas / n, rtol=1e-12)


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=9), st.floats(0.0, 1.0, exclude_max=True)
)
def test_a_systematic_draw_takes_as_many_as_expected(sizes, start):
    """Each share K p times, rounded up or down."""
    chances = np.array(sizes) / np.sum(sizes)
    counts = np.bincount(systematic(chances, start), minlength=len(sizes))
    assert counts.sum() == len(sizes)
    assert (np.abs(counts - len(sizes) * chances) < 1.0 + 1e-9).all()


def test_pairs_are_groups_of_two():
    """The single row is what is left over."""
    groups = as_groups(AntitheticTable([1, 0, 2, 4, 3]))
    assert (groups.size, groups.order.tolist()) == (2, [0, 1, 3, 4, 2])
    assert as_groups(AntitheticTable([0])).size == 1
