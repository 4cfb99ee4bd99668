"""Rows drawn by importance: probabilities, unbiased weights, norms that follow the model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch")

from antithetic.torch import importance  # noqa: E402
from antithetic.torch.importance import RowNorms, draw, inclusions  # noqa: E402

NORMS = arrays(np.float32, st.integers(1, 12), elements=st.floats(0.0, 100.0, width=32))


def learn(norms, rows, found, weights=None):
    """Show the norms of one batch."""
    found = np.array(found, dtype=np.float32)
    weights = np.ones_like(found) if weights is None else np.array(weights, dtype=np.float32)
    norms.learn(np.array(rows), found, weights, np.array([len(rows)]))


class Starts:
    """A generator that keeps the rows in order and starts at given points."""

    def __init__(self, starts):
        self.starts = np.asarray(starts)

    def random(self, count):
        assert count == len(self.starts)
        return self.starts


@given(NORMS, st.integers(1, 6))
def test_probabilities_add_up_to_the_batch(norms, size):
    """They are at most 1, at least 0.3 of equal ones, and in order of the norms."""
    size = min(size, len(norms))
    found = inclusions(norms, size)
    assert found.sum() == pytest.approx(size, rel=1e-9)
    assert found.max() <= 1.0 + 1e-12
    assert found.min() >= 0.3 * size / len(norms) - 1e-12
    order = np.argsort(norms, kind="stable")
    assert (np.diff(found[order]) >= -1e-12).all()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("classes", [None, np.array([1, 0, 1, 0, 2, 2])])
def test_the_weighted_mean_is_unbiased(monkeypatch, size, classes):
    """Over all starting points, the weighted sum divided by b is the mean, to 1e-12.

    The draw is the same between the points where a boundary is passed, so that one start in each of
    the intervals, weighted by its length, is an enumeration of all draws.
    """
    monkeypatch.setattr(importance, "random_order", lambda _rng, n: np.arange(n))
    norms = np.array([0.1, 3.0, 0.0, 40.0, 1.0, 0.5])
    gradients = np.random.default_rng(0).normal(size=(6, 3))
    chances = inclusions(norms, size)
    order = np.arange(6) if classes is None else np.argsort(classes, kind="stable")
    edges = np.unique(np.concatenate([[0.0, 1.0], np.cumsum(chances[order]) % 1.0]))
    lengths, starts = np.diff(edges), (edges[1:] + edges[:-1]) / 2.0
    rows, weights = draw(Starts(starts), norms, size, len(starts), classes)
    assert weights.dtype == np.float32
    exact = size / 6 / chances[rows]
    np.testing.assert_allclose(weights, exact, rtol=1e-6)
    estimates = np.einsum("kb,kbd->kd", exact, gradients[rows]) / size
    np.testing.assert_allclose(lengths @ estimates, gradients.mean(axis=0), rtol=1e-12, atol=1e-12)
    included = np.zeros(6)
    for length, batch in zip(lengths, rows, strict=True):
        assert len(set(batch.tolist())) == size  # a row comes at most once in a batch
        included[batch] += length
    np.testing.assert_allclose(included, chances, rtol=1e-12)


def test_dividing_by_the_sum_of_the_weights_would_be_biased(monkeypatch):
    """The reason why batch_loss divides by b."""
    monkeypatch.setattr(importance, "random_order", lambda _rng, n: np.arange(n))
    norms, values = np.array([0.0, 0.0, 1.0, 5.0]), np.array([1.0, 2.0, 3.0, 9.0])
    starts = (np.arange(1000) + 0.5) / 1000
    rows, weights = draw(Starts(starts), norms, 2, 1000)
    unbiased = (weights * values[rows]).sum(axis=1) / 2
    ratio = (weights * values[rows]).sum(axis=1) / weights.sum(axis=1)
    assert unbiased.mean() == pytest.approx(values.mean(), rel=1e-2)
    assert abs(ratio.mean() - values.mean()) > 0.1


def test_classes_have_the_number_of_rows_that_is_expected():
    """Up to one, in every batch: rows of a class lie beside each other on the line."""
    classes = np.repeat([0, 1, 2], [60, 30, 10])
    rows, _ = draw(np.random.default_rng(0), np.ones(100), 10, 200, classes)
    counts = np.stack([(classes[rows] == kind).sum(axis=1) for kind in range(3)], axis=1)
    np.testing.assert_array_equal(np.unique(counts, axis=0), [[6, 3, 1]])


def test_norms_are_relative_smoothed_and_drift_back():
    """A row that is not seen in an epoch goes half way back to the mean."""
    norms = RowNorms(4)
    learn(norms, [0, 1, 2], [1.0, 2.0, 6.0])
    np.testing.assert_allclose(norms.values, [1 / 3, 2 / 3, 2.0, 1.0], rtol=1e-6)
    assert norms.share == 0.75
    learn(norms, [2], [3.0])
    assert norms.values[2] == pytest.approx(1.5)  # half of 2 and half of 3 / 3
    norms.begin_epoch(1)
    assert norms.values[2] == pytest.approx(1.5)
    norms.begin_epoch(1)
    np.testing.assert_allclose(norms.values, [2 / 3, 5 / 6, 1.25, 1.0], rtol=1e-5)
    # the mean follows the model slowly
    learn(norms, [0], [103.0])
    assert norms.mean == pytest.approx(5.0)


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=5, unique=True), min_size=1, max_size=8),
    st.integers(0, 99),
)
def test_it_does_not_matter_how_many_batches_are_shown_at_once(batches, seed):
    """Norms are the same to the bit, even if rows repeat or a batch has lost all its rows."""
    rng = np.random.default_rng(seed)
    found = [rng.random(len(rows)).astype(np.float32) for rows in batches]
    one_by_one, together = RowNorms(10), RowNorms(10)
    for rows, values in zip(batches, found, strict=True):
        learn(one_by_one, np.array(rows, dtype=np.intp), values)
    every = np.concatenate(found)
    counts = np.array([len(rows) for rows in batches])
    together.learn(
        np.concatenate([np.array(rows, dtype=np.intp) for rows in batches]),
        every,
        np.ones_like(every),
        counts,
    )
    np.testing.assert_array_equal(together.values, one_by_one.values)
    np.testing.assert_array_equal(together.seen, one_by_one.seen)
    assert together.mean == one_by_one.mean


def test_the_mean_counts_drawn_rows_by_their_weights():
    """Otherwise rows that are drawn often would make all others look small."""
    norms = RowNorms(2)
    learn(norms, [0], [8.0], [0.25])
    assert norms.mean == 2.0
    assert norms.values[0] == 4.0


def test_rows_without_a_gradient_are_equally_likely():
    """No division by zero where all norms vanish, and they can be given up."""
    norms = RowNorms(5)
    learn(norms, range(5), np.zeros(5))
    np.testing.assert_array_equal(norms.values, 1.0)
    np.testing.assert_allclose(inclusions(np.zeros(5), 2), 0.4)
    learn(norms, [0, 1], [1.0, 3.0])
    norms.forget()
    assert norms.share == 0.0
    np.testing.assert_array_equal(norms.values, 1.0)


def test_a_state_of_other_rows_is_refused():
    with pytest.raises(ValueError, match="one for each of the 3 rows"):
        RowNorms(3).load(RowNorms(4).state())
