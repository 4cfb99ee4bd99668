"""The balanced order for PyTorch: equal to its twin, each row once, small partial sums."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import balanced_order, grab_order

torch = pytest.importorskip("torch")

from antithetic.torch import BalancedBatchSampler  # noqa: E402
from antithetic.torch.coordinates import products  # noqa: E402


def flat(batches):
    return [row for batch in batches for row in batch]


def largest_partial_sum(order, gradients):
    centred = gradients[order] - gradients.mean(axis=0)
    return np.linalg.norm(np.cumsum(centred, axis=0), axis=1).max()


@pytest.mark.kernel
@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 4), st.integers(0, 999))
def test_the_order_is_that_of_the_plain_twin(n, batch_size, width, seed):
    """Epoch after epoch, observed in parts; whole numbers, whose sums are exact."""
    gradients = np.random.default_rng(seed).integers(-4, 5, size=(n, width)).astype(np.float32)
    sampler = BalancedBatchSampler(n, batch_size, seed=seed)
    order = None
    for _ in range(3):
        met = []
        for batch in sampler:
            met += batch
            sampler.observe(torch.tensor(batch), torch.from_numpy(gradients[batch]))
        if order is not None:
            np.testing.assert_array_equal(met, order)
        order = balanced_order(np.array(met), gradients.astype(np.float64), 1)


@pytest.mark.kernel
@given(st.integers(1, 12), st.lists(st.integers(0, 11), max_size=40), st.integers(1, 5))
def test_a_row_that_is_observed_again_is_ignored(n, rows, parts):
    """The next order is that of the first observations, however they are divided into calls."""
    rows = np.array([row % n for row in rows], dtype=np.intp)
    gradients = np.random.default_rng(0).integers(-4, 5, size=(len(rows), 2)).astype(np.float32)
    repeated, once = BalancedBatchSampler(n, 2), BalancedBatchSampler(n, 2)
    for part in np.array_split(np.arange(len(rows)), parts):
        repeated.observe(rows[part], gradients[part])
    first = np.sort(np.unique(rows, return_index=True)[1])
    once.observe(rows[first], gradients[first])
    assert list(repeated) == list(once)


def test_factors_are_the_same_as_their_product():
    """Slopes and inputs give the same order as their product."""
    rng = np.random.default_rng(0)
    slopes, inputs = (
        rng.integers(-3, 4, size=(20, 2)).astype(np.float32),
        rng.integers(-3, 4, size=(20, 3)).astype(np.float32),
    )
    first, second = BalancedBatchSampler(20, 4), BalancedBatchSampler(20, 4)
    for batch in first:
        first.observe(batch, inputs[batch], slopes[batch])
    for batch in second:
        second.observe(batch, products(slopes[batch], inputs[batch]))
    assert list(first) == list(second)


def test_partial_sums_shrink():
    """After ten epochs at fixed gradients, well below random order.

    GraB's mean balancing, kept for comparison, does so as well.
    """
    gradients = np.random.default_rng(0).normal(size=(512, 4)).astype(np.float32)
    sampler = BalancedBatchSampler(512, 16)
    first = flat(sampler)
    for _ in range(10):
        for batch in sampler:
            sampler.observe(batch, gradients[batch])
    assert largest_partial_sum(flat(sampler), gradients) < 0.3 * largest_partial_sum(
        first, gradients
    )
    order, mean = np.array(first), gradients.mean(axis=0)
    for _ in range(10):
        order, mean = grab_order(order, gradients, mean)
    assert sorted(order.tolist()) == list(range(512))
    assert largest_partial_sum(order, gradients) < 0.3 * largest_partial_sum(first, gradients)


@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 3), st.booleans(), st.booleans())
def test_shares_of_the_rows(n, batch_size, replicas, drop_last, observe):
    """Each process has the same number of rows, and each row occurs once.

    Only rows that are dropped or repeated to make the shares equal are exceptions.
    """
    if n < replicas:
        with pytest.raises(ValueError, match="too few"):
            BalancedBatchSampler(n, num_replicas=replicas, rank=replicas - 1)
        return
    parts = [
        BalancedBatchSampler(n, batch_size, drop_last=drop_last, num_replicas=replicas, rank=rank)
        for rank in range(replicas)
    ]
    for _ in range(3):
        rows = []
        for part in parts:
            rows.append(flat(part))
            if observe and rows[-1]:
                part.observe(rows[-1], np.arange(len(rows[-1]), dtype=np.float32)[:, None])
        assert {len(own) for own in rows} == {
            n // (replicas * batch_size) * batch_size if drop_last else -(-n // replicas)
        }
        counts = np.bincount(flat(rows), minlength=n)
        if drop_last:
            assert counts.max(initial=0) <= 1
        else:
            assert counts.min() == 1
            assert counts.sum() - n < replicas


def test_without_observing_the_order_is_random():
    """Each epoch has a new random order, which depends on seed and epoch only."""
    sampler, again = BalancedBatchSampler(50, 8), BalancedBatchSampler(range(50), 8)
    first, second = list(sampler), list(sampler)
    assert first != second
    again.set_epoch(1)
    assert list(again) == second
    assert flat(first) != sorted(flat(first))


def test_rows_not_seen_come_in_the_middle():
    """Between front and back; nothing is lost by an epoch that is broken off."""
    sampler = BalancedBatchSampler(40, 4)
    for batch in islice(sampler, 5):
        sampler.observe(batch, np.ones((4, 1)))
        seen = sampler.placed.copy()
    order = np.array(flat(sampler))
    assert sorted(order.tolist()) == list(range(40))
    assert seen[order[:10]].all()
    assert seen[order[30:]].all()
    assert not seen[order[10:30]].any()


def test_what_is_refused():
    """Rows of another process, and no rows, are refused."""
    sampler = BalancedBatchSampler(10, 2, num_replicas=2, rank=0)
    other = BalancedBatchSampler(10, 2, num_replicas=2, rank=1)
    with pytest.raises(ValueError, match="do not belong to process 0"):
        sampler.observe(next(iter(other)), np.ones((2, 1)))
    assert BalancedBatchSampler(torch.tensor(10)).n == BalancedBatchSampler(np.int64(10)).n == 10
    for wrong in (0, -1, 2.5, [], "rows", torch.utils.data.DataLoader(range(10))):
        with pytest.raises(ValueError, match="n must be"):
            BalancedBatchSampler(wrong)
