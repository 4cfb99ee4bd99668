"""Batches of a round: blocks of the test, rows dealt to the arms, shares of several processes."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from antithetic.torch.rounds import (  # noqa: E402
    GROUPS,
    IMPORTANCE,
    SHUFFLED,
    STRATIFIED,
    Round,
    deal,
    group_batches,
    lay_out,
    stratify,
)
from antithetic.torch.shards import Shard  # noqa: E402


@given(st.integers(0, 60), st.integers(1, 4), st.floats(0.0, 1.0), st.integers(0, 99))
def test_blocks_hold_each_arm_once(count, width, share, seed):
    """The batches of a block follow each other; all others are the main arm's."""
    arms = list(range(width))
    made, blocks = lay_out(np.random.default_rng(seed), count, arms, width - 1, share)
    assert len(made) == len(blocks) == count
    for block in set(blocks[blocks >= 0].tolist()):
        places = np.flatnonzero(blocks == block)
        assert sorted(made[places].tolist()) == arms
        assert places[-1] - places[0] == width - 1
    assert (made[blocks < 0] == width - 1).all()
    tested = (blocks >= 0).sum()
    if width == 1 or not share:
        assert not tested
    else:
        assert abs(tested - share * count) <= width


def test_the_whole_round_is_tested_while_nothing_is_known():
    """Single batches of the main arm are only those that make no block."""
    made, blocks = lay_out(np.random.default_rng(0), 31, [0, 1, 3], SHUFFLED, 1.0)
    assert (blocks < 0).sum() == 1
    assert Counter(made.tolist()) == {0: 11, 1: 10, 3: 10}


@given(
    st.integers(1, 5), st.integers(0, 5), st.integers(0, 4), st.integers(2, 6), st.integers(0, 99)
)
def test_each_row_is_dealt_once(shuffled, stratified, groups, size, seed):
    """The arms split the rows among themselves."""
    rng = np.random.default_rng(seed)
    counts = {SHUFFLED: shuffled, STRATIFIED: stratified, GROUPS: groups}
    rows = rng.permutation(100)[: size * sum(counts.values())]
    classes = rng.integers(0, 3, size=100)
    made = deal(rng, rows, size, counts, classes, lambda rows: rows[::-1])
    for arm, batches in made.items():
        assert batches.shape == (counts[arm], size)
    dealt = np.concatenate([batches.ravel() for batches in made.values()])
    np.testing.assert_array_equal(np.sort(dealt), np.sort(rows))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 99))
def test_stratified_rows_have_the_classes_evenly(classes, seed):
    """Any stretch has the expected number of each class, up to two."""
    classes, rng = np.array(classes), np.random.default_rng(seed)
    n = len(classes)
    order = classes[stratify(rng, rng.permutation(n), classes)]
    for kind in set(classes.tolist()):
        seen = np.concatenate([[0], np.cumsum(order == kind)])
        expected = (order == kind).mean() * np.arange(n + 1)
        assert np.abs(seen - expected).max() <= len(set(classes.tolist()))


class AllOrders:
    """A generator whose permutations are given, and whose numbers are one half."""

    def __init__(self, orders):
        self.orders = list(orders)

    def permutation(self, given):
        length = given if np.isscalar(given) else len(given)
        order = np.array(self.orders.pop(0) if self.orders else range(length), dtype=np.intp)
        return order if np.isscalar(given) else given[order]

    def random(self, size):
        return np.full(size, 0.5)


@pytest.mark.parametrize("arm", [STRATIFIED, GROUPS])
def test_a_row_is_equally_likely_in_every_batch(arm):
    """By enumeration of the orders of rows and batches: the expected gradient is the gradient."""
    classes, size = np.array([0, 0, 0, 1, 1, 2]), 2
    chances = np.zeros((3, 6))
    for rows in permutations(range(6)):
        for order in permutations(range(3)):
            rng = AllOrders([order])
            batches = deal(rng, np.array(rows), size, {arm: 3}, classes, np.sort)[arm]
            for number, batch in enumerate(batches):
                chances[number, batch] += 1.0
    np.testing.assert_allclose(chances / (720 * 6), size / 6, rtol=1e-12)


@pytest.mark.parametrize(("size", "whole"), [(8, 8), (6, 2), (12, 4), (7, 2), (5, 4), (2, 2)])
def test_groups_are_whole_in_batches(size, whole):
    """Groups have the largest power of two as their size; an odd batch has one more row."""
    asked = []

    def pair_up(rows, group):
        asked.append(group)
        return np.sort(rows)

    rows = np.random.default_rng(0).permutation(size * 4)
    batches = group_batches(np.random.default_rng(1), rows, size, pair_up).reshape(4, size)
    assert asked == [whole]
    assert sorted(batches.ravel().tolist()) == list(range(size * 4))
    grouped = np.sort(rows[4 * (size % 2) :]).reshape(-1, whole).tolist()
    for batch in batches:
        found = batch[size % 2 :].reshape(-1, whole).tolist()
        assert all(group in grouped for group in found)


def test_a_round_survives_its_state():
    """With and without weights; rows of other data are refused."""
    arms, blocks = np.array([0, 3], dtype=np.int8), np.array([5, 5], dtype=np.int32)
    weights = np.array([1.0, 1.0, 0.5, 2.0], dtype=np.float32)
    made = Round(4, np.array([3, 1, 2, 0]), arms, blocks, weights, 2, 2)
    again = Round.load(made.state(), 4)
    assert (again.first, again.stop, again.taken, again.width) == (4, 6, 2, 2)
    batch = again.batch(1, 2)
    assert (batch.rows.tolist(), batch.arm, batch.block) == ([2, 0], IMPORTANCE, 5)
    assert batch.weights.tolist() == [0.5, 2.0]
    assert Round.load(Round.plain(0, np.arange(3), 2).state(), 3).batch(1, 2).weights is None
    with pytest.raises(ValueError, match=r"must lie in 0\.\.2"):
        Round.load(made.state(), 3)


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 4), st.booleans())
def test_processes_have_equal_shares(n, batch_size, replicas, drop_last):
    """Rows are left out only with drop_last, and as few as possible are repeated."""
    shard = Shard(n, batch_size, replicas, 0, drop_last)
    total = shard.rows * replicas
    if drop_last:
        assert n - replicas * batch_size < total <= n
        assert shard.full == shard.batches
    else:
        assert n <= total < n + replicas
    assert shard.batches - shard.full == (shard.rows % batch_size > 0)
