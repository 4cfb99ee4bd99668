"""Orders: unbiased by enumeration, complete, reproducible, with the stated variance."""

from __future__ import annotations

import numpy as np
import pytest
from drive import draws_of
from every_draw import every_draw
from reference import split

import antithetic
from antithetic.orders import Shuffle, Uniform
from antithetic.orders.order import read_order
from antithetic.orders.units import cut
from antithetic.pairing import AntitheticTable, pair_rows
from antithetic.problem import Problem

ROTATION = AntitheticTable([1, 2, 3, 0])  # a permutation that is not a matching
CASES = [
    pytest.param(
        order,
        n,
        size,
        paired,
        id=f"{order}-{n}rows-batch{size}-{'pairs' if paired else 'rows'}",
    )
    for order, largest in (("uniform", 4), ("shuffle", 5))
    for n in range(1, largest + 1)
    for size in range(1, n + 1)
    for paired in (False, True)
] + [
    pytest.param("shuffle", n, size, True, id=f"shuffle-{n}rows-batch{size}-pairs")
    for n, size in ((6, 2), (6, 3), (7, 2), (7, 3), (7, 4), (7, 5))
]


def small_problem(n):
    """A few rows with a different gradient each, without symmetries."""
    rng = np.random.default_rng(n)
    return Problem.build(rng.normal(size=(n, 2)), rng.normal(size=n), loss="squared_error")


def table_of(n):
    return pair_rows(small_problem(n).X, method="random", random_state=n)


def gradients(problem):
    return problem.slopes()[:, None] * problem.X


@pytest.mark.parametrize(("order", "n", "size", "paired"), CASES)
def test_every_step_is_unbiased(order, n, size, paired, monkeypatch):
    """With replacement the expected batch gradient is the gradient.

    Once per epoch it is along it, at each step.
    """
    problem = small_problem(n)
    rows, gradient = gradients(problem), problem.data_gradient(problem.slopes())[0]
    sampler = draws_of(order, n, size, 0, table_of(n) if paired else None)
    expected, shares = 0.0, 0.0
    for probability, batches in every_draw(sampler, monkeypatch):
        expected = expected + probability * np.array(
            [rows[batch].sum(axis=0) / size for batch in split(batches)]
        )
        shares = shares + probability * np.diff(batches.starts) / size
    np.testing.assert_allclose(expected, np.outer(shares, gradient), atol=1e-12)
    if order == "uniform":
        np.testing.assert_allclose(shares, 1.0, atol=1e-12)


def test_pairs_of_any_permutation_are_unbiased_with_replacement(monkeypatch):
    """A table need not be a matching: a permutation is enough."""
    problem = small_problem(4)
    rows, gradient = gradients(problem), problem.data_gradient(problem.slopes())[0]
    for size in (1, 2, 3):
        draws = every_draw(draws_of("uniform", 4, size, 0, ROTATION), monkeypatch)
        expected = sum(
            probability * np.array([rows[batch].mean(axis=0) for batch in split(batches)])
            for probability, batches in draws
        )
        np.testing.assert_allclose(expected, np.broadcast_to(gradient, expected.shape), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 25])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("paired", [False, True])
def test_a_shuffled_epoch_visits_each_row_once(n, size, paired):
    """Each row occurs exactly once, and at most one batch is short (two for odd pairs)."""
    size = min(size, n)
    batches = draws_of("shuffle", n, size, 3, table_of(n) if paired else None).batches(7)
    lengths = np.diff(batches.starts)
    assert sorted(batches.rows) == list(range(n))
    assert np.count_nonzero(lengths != size) <= (2 if paired and n % 2 and size % 2 == 0 else 1)
    assert lengths.min() > 0
    assert lengths.max() <= size


@pytest.mark.parametrize("n", [9, 12, 25])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("order", ["uniform", "shuffle"])
def test_a_full_batch_is_made_of_pairs(n, size, order):
    """b // 2 whole pairs in every full batch, and one row more if b is odd."""
    table = table_of(n)
    for batch in split(draws_of(order, n, size, 1, table).batches(0)):
        together = sum(1 for row in batch if table.partner[row] in batch)
        assert len(batch) < size or together >= size // 2 * 2


@pytest.mark.parametrize("order", ["uniform", "shuffle"])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("paired", [False, True])
def test_an_epoch_depends_on_seed_and_number_alone(order, size, paired):
    """The same seed and epoch give the same batches in any order of asking; others give others."""
    table = table_of(25) if paired else None
    sampler, again = (draws_of(order, 25, size, 5, table) for _ in range(2))
    later = sampler.batches(4).rows
    sampler.batches(0)
    np.testing.assert_array_equal(later, again.batches(4).rows)
    assert not np.array_equal(later, again.batches(5).rows)
    assert not np.array_equal(later, draws_of(order, 25, size, 6, table).batches(4).rows)


def test_an_epoch_with_replacement_has_full_batches_only():
    """An epoch with replacement has ceil(n / b) batches of b."""
    batches = draws_of("uniform", 7, 3, 0).batches(0)
    np.testing.assert_array_equal(np.diff(batches.starts), [3, 3, 3])


def test_a_batch_of_one_row_follows_the_pairs():
    """With b = 1 partners follow each other, in both orders."""
    table = table_of(10)
    for order in ("uniform", "shuffle"):
        rows = draws_of(order, 10, 1, 2, table).batches(0).rows
        np.testing.assert_array_equal(rows[1::2], table.partner[rows[::2]])


def test_indices_are_intp():
    """Row numbers are never floats, nor narrower than a pointer."""
    for order in ("uniform", "shuffle"):
        for table in (None, table_of(9)):
            for size in (1, 2, 3):
                batches = draws_of(order, 9, size, 0, table).batches(0)
                assert batches.rows.dtype == batches.starts.dtype == np.intp


def test_cut_leaves_the_last_batch_short():
    """7 rows in batches of 3 are 3, 3 and 1."""
    np.testing.assert_array_equal(cut(np.arange(7), 3).starts, [0, 3, 6, 7])


def batch_of_draws(order, problem, size, table, monkeypatch):
    """Gradient of the first full batch without the single row in each draw, and probabilities."""
    rows, single = gradients(problem), None
    if table is not None and order == "shuffle":
        single = table.single
    found = []
    for probability, batches in every_draw(draws_of(order, problem.n, size, 0, table), monkeypatch):
        batch = split(batches)[0]
        if len(batch) == size and single not in batch:
            found.append((probability, rows[batch].mean(axis=0)))
    weights = np.array([probability for probability, _ in found])
    return weights / weights.sum(), np.array([gradient for _, gradient in found])


@pytest.mark.parametrize(
    ("order", "n", "size", "paired"),
    [
        *[("uniform", 4, size, paired) for size in (1, 2, 3, 4) for paired in (False, True)],
        *[("shuffle", 5, size, False) for size in (1, 2, 3, 5)],
        *[("shuffle", 6, size, True) for size in (1, 2, 3, 4, 5, 6)],
        *[("shuffle", 7, size, True) for size in (2, 3, 4)],
    ],
)
def test_the_stated_variance_is_that_of_all_draws(order, n, size, paired, monkeypatch):
    """gradient_variance equals the variance over every possible batch, to rounding."""
    problem, table = small_problem(n), table_of(n) if paired else None
    weights, found = batch_of_draws(order, problem, size, table, monkeypatch)
    centred = found - weights @ found
    stated = antithetic.gradient_variance(
        problem.X,
        problem.y,
        loss="squared_error",
        order=read_order(order).but(pairs=table),
        batch_size=size,
    )
    np.testing.assert_allclose(stated, weights @ (centred**2).sum(axis=1), rtol=1e-10, atol=1e-14)


def test_the_variance_of_a_permutation_that_is_not_a_matching(monkeypatch):
    """Drawn with replacement, it is used as it is; shuffled, it is cut into a matching first."""
    problem = small_problem(4)
    weights, found = batch_of_draws("uniform", problem, 2, ROTATION, monkeypatch)
    stated = antithetic.gradient_variance(
        problem.X, problem.y, loss="squared_error", order=Uniform(pairs=ROTATION)
    )
    np.testing.assert_allclose(
        stated, weights @ ((found - weights @ found) ** 2).sum(axis=1), rtol=1e-10
    )
    assert (
        antithetic.gradient_variance(
            problem.X, problem.y, loss="squared_error", order=Shuffle(pairs=ROTATION)
        )
        >= 0.0
    )


@pytest.mark.parametrize("n", [3, 4, 5])
def test_a_batch_of_all_rows_has_no_variance(n):
    """b = n without replacement: the batch is all there is, pairs or not, odd or not."""
    problem = small_problem(n)
    for table in (None, table_of(n)):
        for size in (n, n + 1):
            stated = antithetic.gradient_variance(
                problem.X,
                problem.y,
                loss="squared_error",
                order=Shuffle(pairs=table),
                batch_size=size,
            )
            assert stated == 0.0


def test_one_row_has_no_variance():
    """One row has variance 0 for every scheme."""
    for order in ("uniform", "shuffle"):
        for table in (None, AntitheticTable([0])):
            assert (
                antithetic.gradient_variance(
                    [[1.0]], [2.0], loss="squared_error", order=read_order(order).but(pairs=table)
                )
                == 0.0
            )


@pytest.mark.parametrize(
    "call",
    [
        lambda: read_order("sorted"),
        lambda: antithetic.gradient_variance([[1.0], [2.0]], [0, 1], order="sorted"),
        lambda: antithetic.minimize([[1.0], [2.0]], [0, 1], order="sorted"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(call):
    """The message says which names exist."""
    with pytest.raises(ValueError, match=r"uniform.*shuffle"):
        call()
