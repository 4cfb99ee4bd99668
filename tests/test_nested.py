"""The nested order: each row once, the same blocks under new flips, and runs that use it."""

from __future__ import annotations

import numpy as np
import pytest
from drive import draws_of
from hypothesis import given
from hypothesis import strategies as st
from reference import split
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize

from antithetic import GroupTable, SGDClassifier, datasets, minimize, pair
from antithetic.orders import Balanced, Pairs, Shuffle, Uniform
from antithetic.problem import Problem


@st.composite
def samplers(draw):
    n = draw(st.integers(1, 40))
    size = 2 ** draw(st.integers(0, n.bit_length() - 1))
    order = np.array(draw(st.permutations(range(n))), dtype=np.intp)
    return nested(order, size, draw(st.integers(1, n)), draw(st.integers(0, 2**31)))


def nested(order, size, batch_size=2, seed=0):
    """Return shuffled draws of groups of ``size``."""
    return draws_of("shuffle", len(order), batch_size, seed, GroupTable(order, size))


def blocks(table, rows):
    """Sets of rows of all aligned blocks of 2, 4, ...

    Up to the size of the groups, in order, and those of what is left over.
    """
    n, found = len(rows), []
    whole = n // table.size * table.size
    starts, start = [(start, table.size) for start in range(0, whole, table.size)], whole
    for level in reversed(range((n - whole).bit_length())):
        if (n - whole) >> level & 1:
            starts.append((start, 1 << level))
            start += 1 << level
    for start, size in starts:
        length = 1
        while length <= size:
            found += [
                frozenset(rows[k : k + length].tolist()) for k in range(start, start + size, length)
            ]
            length *= 2
    return found


@given(samplers(), st.integers(0, 1000))
def test_each_row_once_in_full_batches(sampler, epoch):
    """Each row occurs once, and only the last batch may be short."""
    batches = sampler.batches(epoch)
    size = sampler.pool.batch_size
    np.testing.assert_array_equal(np.sort(batches.rows), np.arange(sampler.pool.n))
    assert batches.rows.dtype == np.intp
    assert [len(batch) for batch in split(batches)][:-1] == [size] * (len(batches.starts) - 2)
    assert batches.size == size
    assert batches.unit == 0  # no order is learnt


@given(samplers(), st.integers(0, 1000))
def test_flips_keep_every_block(sampler, epoch):
    """Under any flips, aligned blocks of every size keep their rows, and the rest its place."""
    found, table = sampler.batches(epoch).rows, sampler.pool.table
    assert sorted(blocks(table, found), key=sorted) == sorted(
        blocks(table, table.order), key=sorted
    )
    whole = len(found) // table.size * table.size
    start, left = whole, len(found) - whole
    for level in reversed(range(left.bit_length())):
        if left >> level & 1:
            assert set(found[start : start + (1 << level)]) == set(
                table.order[start : start + (1 << level)]
            )
            start += 1 << level


@given(samplers(), st.integers(0, 1000))
def test_an_epoch_depends_on_seed_and_number_alone(sampler, epoch):
    """An epoch does not depend on earlier requests or the solver, and changes no input."""
    pool = sampler.pool
    before = pool.table.order.copy()
    found = sampler.batches(epoch).rows
    sampler.batches(epoch + 1)
    again = nested(before, pool.table.size, pool.batch_size, pool.seed)
    np.testing.assert_array_equal(again.batches(epoch, np.arange(len(before))).rows, found)
    np.testing.assert_array_equal(pool.table.order, before)


def test_seeds_and_epochs_differ():
    """Epochs and seeds have different orders of sixteen rows in one block.

    There are 2^15 orders, so two agree by chance with a probability below 1e-3.
    """
    orders = {
        tuple(nested(np.arange(16), 16, seed=seed).batches(epoch).rows)
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


def test_flips_happen_at_every_level():
    """Each row of a block comes first in some epoch, and halves swap in about every second epoch.

    So also in the blocks that are left over.
    """
    sampler = nested(np.arange(16 + 8 + 4 + 2), 16, seed=7)
    epochs = np.array([sampler.batches(epoch).rows for epoch in range(400)])
    for start, size in ((0, 16), (16, 8), (24, 4), (28, 2)):
        part = epochs[:, start : start + size] - start
        assert set(part[:, 0]) == set(range(size))
        half = size // 2
        while half:
            swapped = part[:, 0] // half % 2
            assert 140 < swapped.sum() < 260  # six standard deviations
            half //= 2
        if size > 2:  # the two halves are flipped each by itself
            first, second = part[:, 0] % 2, part[:, size // 2] % 2
            assert 140 < (first != second).sum() < 260


def test_groups_come_in_random_order():
    """Each of the four groups is first in some of 60 epochs.

    Missing one has a probability of 1e-7.
    """
    sampler = nested(np.arange(16), 4)
    assert {int(sampler.batches(epoch).rows[0]) // 4 for epoch in range(60)} == {0, 1, 2, 3}


def test_which_sampler_takes_groups():
    """Shuffled groups and flips are drawn afresh in each epoch.

    Balanced, groups stay together, unless they are nested to the top.
    """
    table = GroupTable(np.arange(11)[::-1], 4)
    shuffled = draws_of("shuffle", 11, 3, 5, table)
    for nest, unit in ((4, 4), (True, 1)):
        order = Balanced(pairs=Pairs(table, nest=nest))
        batches = draws_of(order, 11, 3, 5, table).batches(0)
        assert (batches.unit, batches.size) == (unit, 3)
        np.testing.assert_array_equal(batches.rows, shuffled.batches(0).rows)
    refused = Uniform(pairs=Pairs(table, nest=True)).refuses()
    assert "nested groups define an order" in refused
    assert "shuffle" in refused
    assert "balanced" in refused


# ---- runs

KERNEL = pytest.mark.kernel
NESTS = pytest.mark.parametrize("nest", [True, 2, 4])
ONCE = pytest.mark.parametrize("kind", [Shuffle, Balanced], ids=["shuffle", "balanced"])


def data(n=61, d=3):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.0, 1.0, -1.0)


def reverse(rows):
    """A user's pairing."""
    return np.arange(rows.shape[0])[::-1]


@KERNEL
@NESTS
@ONCE
@pytest.mark.parametrize("method", ["tree", "random", "greedy", reverse])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_nested_runs_converge(nest, kind, method, form):
    """The table is the one of ``pair``, and the objective comes near its optimum.

    Dense and CSR rows agree on both.
    """
    X, y = data()
    problem = Problem.build(X, y, l2=0.1)
    best = scipy_minimize(problem.objective, np.zeros(3), jac=lambda w: problem.gradient(w)[0]).fun
    result = minimize(
        form(X),
        y,
        order=kind(pairs=Pairs(method, nest=nest)),
        l2=0.1,
        steps=0.2,
        epochs=8,
        seed=3,
        trace="partial_sum",
    )
    assert isinstance(result.table, GroupTable)
    np.testing.assert_array_equal(
        result.table.order, pair(form(X), y, method, nest=nest, random_state=3).order
    )
    assert problem.objective(result.coef) - best < 1e-3 * (np.log(2.0) - best)
    assert result.trace["partial_sum"].shape == (9,)
    assert result.settings["order"] == kind(pairs=Pairs(method, nest=nest))


@KERNEL
@NESTS
@ONCE
def test_a_resumed_nested_run_is_the_unbroken_one(nest, kind):
    """A resumed nested run equals the unbroken one bit for bit."""
    X, y = data()
    given = {"order": kind(pairs=Pairs("tree", nest=nest)), "steps": 0.2, "l2": 0.01}
    whole, half = minimize(X, y, epochs=6, **given), minimize(X, y, epochs=2, **given)
    for other in (
        minimize(X, y, epochs=6, resume=half, **given),
        minimize(X, y, epochs=6, **given),
    ):
        np.testing.assert_array_equal(other.coef, whole.coef)
    assert not np.array_equal(minimize(X, y, epochs=6, seed=1, **given).coef, whole.coef)


@KERNEL
@ONCE
def test_groups_of_a_balanced_or_shuffled_run_stay_together(kind):
    """In the order in which a run would continue, the groups are those of the table."""
    X, y = data(64)
    order = kind(pairs=Pairs("tree", nest=4))
    result = minimize(X, y, order=order, steps=0.1, epochs=4)
    rows = draws_of(order, 64, 2, 0, result.table).batches(4, result.run.order).rows
    assert {frozenset(group) for group in rows.reshape(-1, 4).tolist()} == {
        frozenset(group) for group in result.table.groups.tolist()
    }
    assert (result.run.order is None) == (kind is Shuffle)


@KERNEL
def test_the_first_nested_epochs_beat_random_ones():
    """The first partial sums are a fraction of a random order's, and pairs vary less than rows."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    for kind in (Shuffle, Balanced):
        found = minimize(
            X,
            y,
            order=kind(pairs=Pairs("tree", nest=True)),
            steps=0.1,
            epochs=1,
            trace=["partial_sum", "variance_ratio"],
        )
        assert found.trace["partial_sum"][0] < 0.4
        assert found.trace["variance_ratio"][0] < 0.5


@pytest.mark.parametrize(
    ("nest", "message"),
    [
        (3, "nest must be a power of two, True .*got 3"),
        (1, "nest must be a whole number, at least 2; got 1"),
        (0, "nest must be a whole number, at least 2; got 0"),
        (2.5, "nest must be a whole number"),
        ("top", "nest must be a whole number"),
    ],
)
def test_a_nest_that_is_not_a_power_of_two_is_refused_when_it_is_made(nest, message):
    """A wrong group size is refused when the object is made, by name."""
    with pytest.raises(ValueError, match=message):
        Pairs("random", nest=nest)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            Shuffle(pairs=Pairs("random", nest=64)),
            "at most the number of rows; got 64 for 61 rows",
        ),
        (Uniform(pairs=Pairs("random", nest=True)), r'use order="shuffle" or "balanced"'),
        (Uniform(pairs=Pairs("random", nest=4)), r'batch_size=4, or order="shuffle"'),
    ],
    ids=str,
)
def test_what_cannot_be_nested_is_refused(order, message):
    """What is not supported with nesting is refused before the first step, with advice."""
    X, y = data()
    with pytest.raises(ValueError, match=message):
        minimize(X, y, order=order, steps=0.1, epochs=1)


def test_a_table_of_pairs_is_not_nested():
    """Given pairs with nest= are refused, with advice; groups are used as they are."""
    X, y = data()
    with pytest.raises(ValueError, match="name a method instead of the table, or leave nest= out"):
        Pairs(pair(X, y), nest=4)
    groups = pair(X, y, nest=4)
    with pytest.raises(ValueError, match="nest=8 differs from the groups of 4 rows"):
        Pairs(groups, nest=8)
    assert Pairs(groups) == Pairs(groups, nest=4)


@ONCE
@pytest.mark.parametrize("given", [False, True], ids=["made", "given"])
def test_an_estimator_nests(kind, given):
    """Estimators nest as ``minimize`` does, by a method or with a given table."""
    X, y = data()
    pairs = pair(X, y, nest=4) if given else Pairs(nest=4)
    model = SGDClassifier(order=kind(pairs=pairs), max_iter=2, tol=None).fit(X, y)
    assert model.plan_.order == kind(pairs=pairs)
    assert model.plan_.order.pairs.nest == 4
