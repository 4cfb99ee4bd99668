"""The nested order: each row once, the same blocks under new flips, and runs that use it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import split
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize

from antithetic import AntitheticTable, GroupTable, SGDClassifier, datasets, minimize, pair
from antithetic.orders import make_sampler
from antithetic.orders.nested import Nested
from antithetic.problem import Problem


@st.composite
def samplers(draw):
    n = draw(st.integers(1, 40))
    size = 2 ** draw(st.integers(0, n.bit_length() - 1))
    order = np.array(draw(st.permutations(range(n))), dtype=np.intp)
    return Nested(order, size, draw(st.integers(1, n)), draw(st.integers(0, 2**31)))


def blocks(sampler, rows):
    """Sets of rows of all aligned blocks of 2, 4, ...

    Up to the size of the groups, in order, and those of what is left over.
    """
    n, found = len(rows), []
    whole = n // sampler.size * sampler.size
    starts, start = [(start, sampler.size) for start in range(0, whole, sampler.size)], whole
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
    np.testing.assert_array_equal(np.sort(batches.rows), np.arange(len(sampler.order)))
    assert batches.rows.dtype == np.intp
    assert [len(batch) for batch in split(batches)][:-1] == [sampler.batch_size] * (
        len(batches.starts) - 2
    )
    assert batches.size == sampler.batch_size
    assert batches.unit == 0  # no order is learnt


@given(samplers(), st.integers(0, 1000))
def test_flips_keep_every_block(sampler, epoch):
    """Under any flips, aligned blocks of every size keep their rows, and the rest its place."""
    found = sampler.rows(epoch)
    assert sorted(blocks(sampler, found), key=sorted) == sorted(
        blocks(sampler, sampler.order), key=sorted
    )
    whole = len(found) // sampler.size * sampler.size
    start, left = whole, len(found) - whole
    for level in reversed(range(left.bit_length())):
        if left >> level & 1:
            assert set(found[start : start + (1 << level)]) == set(
                sampler.order[start : start + (1 << level)]
            )
            start += 1 << level


@given(samplers(), st.integers(0, 1000))
def test_an_epoch_depends_on_seed_and_number_alone(sampler, epoch):
    """An epoch does not depend on earlier requests or the solver, and changes no input."""
    before = sampler.order.copy()
    found = sampler.batches(epoch).rows
    sampler.batches(epoch + 1)
    again = Nested(before, sampler.size, sampler.batch_size, sampler.seed)
    np.testing.assert_array_equal(again.batches(epoch, np.arange(len(before))).rows, found)
    np.testing.assert_array_equal(sampler.order, before)


def test_seeds_and_epochs_differ():
    """Epochs and seeds have different orders of sixteen rows in one block.

    There are 2^15 orders, so two agree by chance with a probability below 1e-3.
    """
    orders = {
        tuple(Nested(np.arange(16), 16, 2, seed).rows(epoch))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


def test_flips_happen_at_every_level():
    """Each row of a block comes first in some epoch, and halves swap in about every second epoch.

    So also in the blocks that are left over.
    """
    epochs = np.array(
        [Nested(np.arange(16 + 8 + 4 + 2), 16, 2, 7).rows(epoch) for epoch in range(400)]
    )
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
    sampler = Nested(np.arange(16), 4, 2, 0)
    assert {int(sampler.rows(epoch)[0]) // 4 for epoch in range(60)} == {0, 1, 2, 3}


def test_which_sampler_takes_groups():
    """Shuffled groups and flips are drawn afresh in each epoch.

    Balanced, groups stay together, unless they are nested to the top.
    """
    table = GroupTable(np.arange(11)[::-1], 4)
    shuffled = make_sampler("shuffle", 11, 3, 5, table)
    assert isinstance(shuffled, Nested)
    for to_the_top, unit in ((False, 4), (True, 1)):
        batches = make_sampler("balanced", 11, 3, 5, table, to_the_top=to_the_top).batches(0)
        assert (batches.unit, batches.size) == (unit, 3)
        np.testing.assert_array_equal(batches.rows, shuffled.rows(0))
    with pytest.raises(ValueError, match=r"nested groups are an order.*shuffle.*balanced"):
        make_sampler("uniform", 11, 3, 5, table, to_the_top=True)


# ---- runs

KERNEL = pytest.mark.kernel
NESTS = pytest.mark.parametrize("nest", [True, 2, 4])
ONCE = pytest.mark.parametrize("sampling", ["shuffle", "balanced"])


def data(n=61, d=3):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.0, 1.0, -1.0)


def reverse(rows):
    """A pairing of one's own."""
    return np.arange(rows.shape[0])[::-1]


@KERNEL
@NESTS
@ONCE
@pytest.mark.parametrize("pairing", ["tree", "random", "greedy", reverse])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_nested_runs_converge(nest, sampling, pairing, form):
    """The table is the one of ``pair``, and the objective comes near its optimum.

    Dense and CSR rows agree on both.
    """
    X, y = data()
    problem = Problem.build(X, y, l2=0.1)
    best = scipy_minimize(problem.objective, np.zeros(3), jac=lambda w: problem.gradient(w)[0]).fun
    result = minimize(
        form(X),
        y,
        pairing=pairing,
        sampling=sampling,
        nest=nest,
        l2=0.1,
        eta0=0.2,
        epochs=8,
        seed=3,
        trace="partial_sum",
    )
    assert isinstance(result.table, GroupTable)
    np.testing.assert_array_equal(
        result.table.order, pair(form(X), y, pairing, nest=nest, random_state=3).order
    )
    assert problem.objective(result.coef) - best < 1e-3 * (np.log(2.0) - best)
    assert result.trace["partial_sum"].shape == (9,)
    assert result.settings["nest"] is (True if nest is True else nest)


@KERNEL
@NESTS
@ONCE
def test_a_resumed_nested_run_is_the_unbroken_one(nest, sampling):
    """A resumed nested run equals the unbroken one bit for bit."""
    X, y = data()
    given = {"pairing": "tree", "sampling": sampling, "nest": nest, "eta0": 0.2, "l2": 0.01}
    whole, half = minimize(X, y, epochs=6, **given), minimize(X, y, epochs=2, **given)
    for other in (
        minimize(X, y, epochs=6, resume=half, **given),
        minimize(X, y, epochs=6, **given),
    ):
        np.testing.assert_array_equal(other.coef, whole.coef)
    assert not np.array_equal(minimize(X, y, epochs=6, seed=1, **given).coef, whole.coef)


@KERNEL
@ONCE
def test_groups_of_a_balanced_or_shuffled_run_stay_together(sampling):
    """In the order in which a run would continue, the groups are those of the table."""
    X, y = data(64)
    result = minimize(X, y, pairing="tree", sampling=sampling, nest=4, eta0=0.1, epochs=4)
    rows = make_sampler(sampling, 64, 2, 0, result.table).batches(4, result.state.order).rows
    assert {frozenset(group) for group in rows.reshape(-1, 4).tolist()} == {
        frozenset(group) for group in result.table.groups.tolist()
    }
    assert (result.state.order is None) == (sampling == "shuffle")


@KERNEL
def test_the_first_nested_epochs_beat_random_ones():
    """The first partial sums are a fraction of a random order's, and pairs vary less than rows."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    for sampling in ("shuffle", "balanced"):
        found = minimize(
            X,
            y,
            pairing="tree",
            sampling=sampling,
            nest=True,
            eta0=0.1,
            epochs=1,
            trace=["partial_sum", "variance_ratio"],
        )
        assert found.trace["partial_sum"][0] < 0.4
        assert found.trace["variance_ratio"][0] < 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nest": 3}, "power of two.*got 3"),
        ({"nest": 1}, "nest"),
        ({"nest": 0}, "nest"),
        ({"nest": 2.5}, "nest"),
        ({"nest": "top"}, "nest"),
        ({"nest": 64}, "at most the number of rows; got 64 for 61 rows"),
        ({"nest": 4, "pairing": None}, r"nest= and refresh=.*need pairing="),
        ({"nest": True, "sampling": "uniform"}, r'sampling="shuffle" or "balanced"'),
        ({"nest": 4, "sampling": "uniform"}, r'batch_size=4, or sampling="shuffle"'),
    ],
)
def test_what_cannot_be_nested_is_refused(given, message):
    """What is not supported with nesting is refused before the first step, with advice."""
    X, y = data()
    with pytest.raises(ValueError, match=message):
        minimize(
            X, y, **{"pairing": "random", "sampling": "shuffle", "eta0": 0.1, "epochs": 1, **given}
        )


@ONCE
def test_a_given_table_is_nested_or_refused(sampling):
    """Given pairs are nested into groups of four, or refused; they are never used silently."""
    X, y = data()
    try:
        result = minimize(X, y, table=pair(X, y), nest=4, sampling=sampling, eta0=0.1, epochs=1)
    except ValueError as refusal:
        assert "nest" in str(refusal)  # noqa: PT017 - either is fine
    else:
        assert isinstance(result.table, GroupTable)


@ONCE
@pytest.mark.parametrize("pairing", [None, "auto", "given"])
def test_an_estimator_nests_or_refuses(sampling, pairing):
    """Estimators nest as ``minimize`` does: the plan says so, or the fit is refused."""
    X, y = data()
    pairing = AntitheticTable(pair(X, y).partner) if pairing == "given" else pairing
    try:
        model = SGDClassifier(pairing=pairing, nest=4, sampling=sampling, max_iter=2, tol=None).fit(
            X, y
        )
    except ValueError as refusal:
        assert "nest" in str(refusal)  # noqa: PT017 - either is fine
    else:
        assert model.plan_.nest == 4
