"""Units drawn inside strata: unbiased by enumeration, with the variance that is stated.

Also how strata are made, and how many units of a batch each gives.
"""

from __future__ import annotations

import numpy as np
import pytest
from data import needs_data
from drive import DrawsBy
from every_draw import moments_of_steps
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from test_importance import TABLES, gradients_of, small_problem, unit_means

import antithetic
from antithetic import AntitheticTable, GroupTable
from antithetic.orders import Stratified, Uniform
from antithetic.orders.stratified import (
    _apportion,
    allocate,
    make_strata,
    stratum_batches,
    stratum_variances,
)
from antithetic.orders.units import NO_FACTORS, Units
from antithetic.orders.variance import stratified_variance, uniform_variance
from antithetic.problem import Problem

CASES = [
    pytest.param(
        n, table, size, n_strata, id=f"{name}-batch{size}-{n_strata}strata".replace(" ", "-")
    )
    for name, (n, table, sizes) in TABLES.items()
    for size in sizes
    for n_strata in (1, 2, 3)
    if n_strata <= min(Units.of_table(n, table).in_batch(size), len(Units.of_table(n, table)))
]


def labels_of(units, n_strata):
    """Strata of different sizes that have nothing to do with the gradients."""
    return np.minimum(np.arange(len(units)) % (n_strata + 1), n_strata - 1)


def stratified(n, size, seed, table, strata, counts):
    """Draws of the given number of units of each stratum."""
    units = Units.of_table(n, table)
    strata, counts = np.asarray(strata), np.asarray(counts)
    return DrawsBy(lambda rng: stratum_batches(units, size, strata, counts, rng), seed)


def variance_of(problem, slopes, table, size, strata, counts):
    """Stated variance of such draws."""
    units = Units.of_table(problem.n, table)
    return stratified_variance(problem, slopes, units, size, strata, counts)


# ---- what is drawn


@pytest.mark.parametrize("allocation", ["proportional", "optimal"])
@pytest.mark.parametrize(("n", "table", "size", "n_strata"), CASES)
def test_every_step_is_unbiased_and_has_the_stated_variance(
    n, table, size, n_strata, allocation, monkeypatch
):
    """Over all draws, each step's mean is the gradient and its variance is the stated one."""
    problem, slopes = small_problem(n)
    gradients, units = gradients_of(problem, slopes), Units.of_table(n, table)
    strata = labels_of(units, n_strata)
    counts = allocate(problem, table, strata, units.in_batch(size), allocation, slopes)
    sampler = stratified(n, size, 0, table, strata, counts)
    expected, variances = moments_of_steps(sampler, gradients, monkeypatch)
    assert len(expected) == -(-n // size)
    np.testing.assert_allclose(
        expected, np.tile(gradients.mean(axis=0), (len(expected), 1)), atol=1e-12
    )
    stated = variance_of(problem, slopes, table, size, strata, counts)
    if size == 1 and units.paired:  # first and second members have variances of their own
        variances = variances[:2].mean()
    np.testing.assert_allclose(variances, stated, rtol=1e-10, atol=1e-28)


@pytest.mark.parametrize("counts", [(1, 3), (3, 1)])
def test_without_the_factors_it_would_be_biased(counts, monkeypatch):
    """With factors of 1 the expected step is not the gradient, and the enumeration shows it."""
    problem, slopes = small_problem(4)
    gradients = gradients_of(problem, slopes)
    sampler = stratified(4, 4, 0, None, [0, 0, 1, 1], counts)
    np.testing.assert_allclose(
        moments_of_steps(sampler, gradients, monkeypatch)[0][0], gradients.mean(axis=0), atol=1e-12
    )
    forgotten = type(
        "Forgotten",
        (),
        {"batches": lambda _self, epoch: sampler.batches(epoch)._replace(factors=NO_FACTORS)},
    )()
    assert (
        np.abs(
            moments_of_steps(forgotten, gradients, monkeypatch)[0] - gradients.mean(axis=0)
        ).max()
        > 1e-3
    )


def test_each_batch_has_its_units_of_each_stratum():
    """Each batch has as many units of each stratum as the counts say.

    The lone row of an odd batch of pairs from anywhere.
    """
    strata, counts = np.repeat([0, 1, 2], [5, 10, 6]), np.array([1, 3, 2])
    partner = np.random.default_rng(0).permutation(21)
    for table, size in ((None, 6), (AntitheticTable(partner), 12), (AntitheticTable(partner), 13)):
        sampler = stratified(21, size, 4, table, strata, counts)
        for epoch in range(3):
            batches = sampler.batches(epoch)
            np.testing.assert_array_equal(np.diff(batches.starts), np.full(-(-21 // size), size))
            assert batches.rows.dtype == batches.starts.dtype == np.intp
            for rows in batches.rows.reshape(-1, size):
                first = rows if table is None else rows[:12:2]
                np.testing.assert_array_equal(np.bincount(strata[first]), counts)
                if table is not None:
                    np.testing.assert_array_equal(rows[1:12:2], partner[first])


@pytest.mark.parametrize(("n", "table", "size", "n_strata"), CASES)
def test_an_epoch_depends_on_seed_and_number_alone(n, table, size, n_strata):
    """The same seed and epoch give the same batches in any order of asking.

    Another seed gives others.
    """
    units = Units.of_table(n, table)
    counts = _apportion(np.ones(n_strata), units.in_batch(size))

    def rows(seed, epochs):
        sampler = stratified(n, size, seed, table, labels_of(units, n_strata), counts)
        return [sampler.batches(epoch).rows.tolist() for epoch in epochs]

    assert rows(5, range(9)) == rows(5, range(8, -1, -1))[::-1]
    if n_strata < len(units):  # otherwise each stratum has one unit
        assert rows(5, range(9)) != rows(6, range(9))


# ---- strata


def test_given_labels_are_strata():
    """Labels may be of any sortable type; a pair has that of its first row."""
    problem, _ = small_problem(4)
    for labels in (
        ["b", "a", "b", "c"],
        [2.5, -1.0, 2.5, 7.0],
        np.array(["b", "a", "b", "c"], dtype=object),
    ):
        for table in (None, AntitheticTable([1, 2, 3, 0])):
            found = make_strata(problem, table, labels)
            np.testing.assert_array_equal(found, [1, 0, 1, 2])
            assert found.dtype == np.intp


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("grouped", [None, "pairs", "groups"])
def test_clusters_that_are_there_are_found(form, grouped):
    """Four distant heaps of rows, pairs or groups are found: only variance within heaps is left."""
    rng = np.random.default_rng(0)
    heap = np.repeat(np.arange(4), 8)
    X = form(
        np.array([[9.0, 1.0], [1.0, 9.0], [9.0, -2.0], [-5.0, -5.0]])[heap]
        + 0.01 * rng.normal(size=(32, 2))
    )
    y = np.ones(32)
    y[8:] = -1.0
    problem = Problem.build(X, y)
    table = {
        None: None,
        "pairs": AntitheticTable(np.arange(32) ^ 1),
        "groups": GroupTable(np.arange(32), 4),
    }[grouped]
    units = Units.of_table(32, table)
    first = heap[units.rows[units.starts[:-1]]]
    for slopes in (None, problem.slopes()):
        strata = make_strata(problem, table, 4, slopes=slopes)
        np.testing.assert_array_equal(strata[:, None] == strata, first[:, None] == first)


@given(st.data())
def test_clusters_have_the_sizes_that_can_be_allocated(data):
    """There are as many clusters as asked for and none is empty, even for equal rows.

    In proportion to whole numbers of a batch's units.
    """
    n = data.draw(st.integers(2, 12))
    X = data.draw(arrays(np.float64, (n, 2), elements=st.integers(-1, 1)))
    problem = Problem.build(X, np.arange(n) % 2)
    n_strata = data.draw(st.integers(1, n))
    batch_size = data.draw(st.integers(1, 12))
    strata = make_strata(problem, None, n_strata, batch_size=batch_size)
    sizes = np.bincount(strata, minlength=n_strata)
    assert sizes.min() >= 1
    assert len(sizes) == n_strata
    if batch_size >= n_strata and n % batch_size == 0:
        np.testing.assert_array_equal(
            sizes * batch_size / n, allocate(problem, None, strata, batch_size)
        )


@given(st.data())
def test_clusters_never_have_more_variance_than_uniform_draws(data):
    """With proportional counts, clusters never exceed the variance of uniform draws.

    At the slopes the clusters were made from, and at any others.
    """
    in_batch = data.draw(st.integers(2, 4))
    n = in_batch * data.draw(st.integers(1, 5))
    X = data.draw(arrays(np.float64, (n, 3), elements=st.integers(-3, 3)))
    coef = data.draw(arrays(np.float64, 3, elements=st.integers(-2, 2)))
    problem = Problem.build(X, np.arange(n) % 2)
    table = data.draw(st.sampled_from([None, AntitheticTable(np.roll(np.arange(n), 1))]))
    size = in_batch * (1 if table is None else 2)
    strata = make_strata(problem, table, None, batch_size=size)
    counts, slopes = allocate(problem, table, strata, in_batch), problem.slopes(coef)
    found = variance_of(problem, slopes, table, size, strata, counts)
    assert found <= uniform_variance(problem, slopes, table, size) * (1.0 + 1e-9) + 1e-25


@pytest.mark.parametrize(("n", "batch_size"), [(3, 4), (5, 6), (7, 8), (11, 13)])
def test_as_many_clusters_as_rows(n, batch_size):
    """One row each, though some cells are due more than others."""
    problem, _ = small_problem(n)
    np.testing.assert_array_equal(
        np.sort(make_strata(problem, None, n, batch_size=batch_size)), np.arange(n)
    )


def test_clusters_depend_on_the_seed_alone(monkeypatch):
    """The same every time; also where the widest direction comes from a sample of the units."""
    rng = np.random.default_rng(0)
    problem = Problem.build(rng.normal(size=(300, 5)), np.arange(300) % 2)
    whole = [make_strata(problem, None, 4, seed) for seed in (1, 1)]
    np.testing.assert_array_equal(*whole)
    monkeypatch.setattr("antithetic.orders.stratified._SAMPLE_UNITS", 100)
    sampled = [make_strata(problem, None, 4, seed) for seed in (1, 1)]
    np.testing.assert_array_equal(*sampled)
    assert sampled[0].max() == 3


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e20, 1e150, 1e300])
@pytest.mark.filterwarnings("error")
def test_rows_of_any_size(scale):
    """Strata and allocation do not depend on the scale of the rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    for table in (None, AntitheticTable(rng.permutation(40)), GroupTable(rng.permutation(40), 4)):
        problem = Problem.build(X * scale, y)
        strata = make_strata(problem, table, 3)
        assert strata.max() == 2
        counts = allocate(problem, table, strata, 12, "optimal", problem.slopes())
        assert counts.sum() == 12


PAIRS, GROUPS = AntitheticTable([1, 0, 3, 2, 4]), GroupTable(np.arange(5), 2)


@pytest.mark.parametrize(
    ("table", "strata", "size", "message"),
    [
        (None, [1, 2], 2, r"shape \(5,\), one label per row.*fit\(strata=\)"),
        (None, [1.0, np.nan, 1.0, 1.0, 1.0], 2, "NaN, first in row 1"),
        (None, np.array([1, "a", 2, 3, 4], dtype=object), 2, "cannot be compared"),
        (GROUPS, [1, 2, 1, 2, 1], 4, "a group may mix several"),
        (None, 6, 2, "at most the number of rows, pairs or groups, 5; got 6"),
        (GROUPS, 4, 4, "at most the number of rows, pairs or groups, 3; got 4"),
        (None, None, 1, "batch_size of at least 2"),
        (PAIRS, None, 3, "batch_size of at least 4"),
        (GROUPS, None, 2, "batch_size of at least 4"),
    ],
)
def test_strata_that_are_refused(table, strata, size, message):
    """The message says what is allowed, when strata are made and when a run begins."""
    problem, _ = small_problem(5)
    with pytest.raises(ValueError, match=message):
        make_strata(problem, table, strata, batch_size=size)
    order = Stratified(strata, pairs=table)
    with pytest.raises(ValueError, match=message):
        antithetic.minimize(problem.X, problem.y, order=order, batch_size=size, epochs=1)


def test_as_many_strata_as_units_need_a_batch_size():
    """Without a batch size the number of strata is not defined, so it is refused."""
    problem, _ = small_problem(5)
    with pytest.raises(ValueError, match="batch_size of at least 2"):
        make_strata(problem, None, None)


def test_as_many_strata_as_units_of_a_batch():
    """The default is as many strata as units in a batch, but no more than there are units."""
    problem, _ = small_problem(5)
    assert make_strata(problem, None, None, batch_size=3).max() == 2
    assert make_strata(problem, PAIRS, None, batch_size=4).max() == 1
    assert make_strata(problem, GROUPS, None, batch_size=8).max() == 2


# ---- allocation


@given(
    arrays(np.float64, st.integers(1, 8), elements=st.floats(0.0, 1.0)).filter(np.any),
    st.integers(0, 30),
)
def test_each_stratum_gives_at_least_one(shares, more):
    """Counts are positive whole numbers of the right sum, and within one of their shares.

    Strata with a count of one may be due less.
    """
    total = len(shares) + more
    counts = _apportion(shares, total)
    assert counts.sum() == total
    assert counts.min() >= 1
    free = counts > 1
    if free.any():
        due = shares[free] / shares[free].sum() * counts[free].sum()
        assert (np.abs(counts[free] - due) <= 1.0 + 1e-9).all()


@pytest.mark.parametrize("name", TABLES)
def test_the_optimal_allocation_is_neymans(name):
    """The allocation is proportional to prior times standard deviation, up to rounding.

    The least variance of all allocations where nothing is rounded.
    """
    n, table, _ = TABLES[name]
    problem, slopes = small_problem(n)
    units = Units.of_table(n, table)
    strata = labels_of(units, min(2, len(units)))
    u = unit_means(units, gradients_of(problem, slopes))
    share, deviation = [], []
    for h in np.unique(strata):
        q = units.prior[strata == h]
        centred = u[strata == h] - q @ u[strata == h] / q.sum()
        share.append(q.sum())
        deviation.append(np.sqrt(q @ (centred**2).sum(axis=1) / q.sum()))
    np.testing.assert_allclose(
        np.sqrt(stratum_variances(problem, slopes, units, strata)),
        deviation,
        rtol=1e-10,
        atol=1e-14,
    )
    wanted = np.array(share) * (deviation if np.any(np.array(deviation) > 1e-12) else 1.0)
    found = allocate(problem, table, strata, 1000, "optimal", slopes)
    np.testing.assert_allclose(found, np.maximum(1.0, 1000 * wanted / wanted.sum()), atol=1.5)
    np.testing.assert_allclose(
        allocate(problem, table, strata, 1000), 1000 * np.array(share), atol=1.0
    )


def test_strata_without_deviation_are_allocated_by_share():
    """Strata without deviation, with equal gradients, are allocated by share."""
    problem = Problem.build(np.ones((6, 1)), np.ones(6), loss="squared_error")
    np.testing.assert_array_equal(
        allocate(problem, None, np.array([0, 0, 0, 0, 1, 1]), 3, "optimal"), [2, 1]
    )


@pytest.mark.parametrize(
    ("table", "least"),
    [(None, 3), (AntitheticTable([1, 0, 3, 2, 5, 4]), 6), (GroupTable(np.arange(6), 2), 6)],
    ids=["rows", "pairs", "groups"],
)
def test_fewer_units_than_strata_are_refused(table, least):
    """The error names the least batch size that works, and that size works."""
    problem, _ = small_problem(6)
    units = Units.of_table(6, table)
    strata = np.arange(len(units)) % 3
    with pytest.raises(
        ValueError,
        match=f"3 strata, but has only 2 .*batch_size of at least {least}, or fewer strata",
    ):
        allocate(problem, table, strata, 2)
    labels = 3 if isinstance(table, GroupTable) else strata
    run = {"order": Stratified(labels, pairs=table), "steps": 0.1, "epochs": 1}
    with pytest.raises(ValueError, match=f"batch_size of at least {least}"):
        antithetic.minimize(problem.X, problem.y, batch_size=least - units.size, **run)
    assert antithetic.minimize(problem.X, problem.y, batch_size=least, **run).epochs == 1
    with pytest.raises(ValueError, match=r"proportional, optimal"):
        allocate(problem, table, strata, 3, "equal")


# ---- the variance


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_equal_gradients_inside_strata_have_no_variance(form):
    """Exactly zero; drawn from all rows it is not."""
    X, y = form(np.repeat([[0.1], [0.7]], 50, axis=0)), np.full(100, 0.3)
    options = {"loss": "squared_error", "batch_size": 4}
    for strata in (np.repeat([0, 1], 50), 2):
        assert antithetic.gradient_variance(X, y, order=Stratified(strata), **options) == 0.0
    assert antithetic.gradient_variance(X, y, **options) > 1e-3


@pytest.mark.parametrize("allocation", ["proportional", "optimal"])
@pytest.mark.parametrize("name", TABLES)
def test_sparse_rows_and_single_precision(name, allocation):
    """CSR gives what dense rows give, float32 nearly what float64 gives."""
    n, table, _ = TABLES[name]
    problem, slopes = small_problem(n)
    X = np.where(np.arange(2 * n).reshape(n, 2) % 3, problem.X, 0.0)
    units = Units.of_table(n, table)
    strata, found = labels_of(units, 2), []
    for given_rows in (X, sparse.csr_array(X), X.astype(np.float32)):
        this = Problem.build(given_rows, problem.y)
        counts = allocate(this, table, strata, 8, allocation, slopes)
        found.append(variance_of(this, slopes, table, 8 * units.size, strata, counts))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5, atol=1e-20)


def test_gradient_variance_takes_every_choice():
    """It is the variance of draws with the strata of a run, and counts made at coef."""
    X, y = np.random.default_rng(3).normal(size=(12, 2)), np.arange(12) % 2
    problem, coef = Problem.build(X, y), np.array([0.5, -1.0])
    slopes = problem.slopes(coef)
    for table in (None, antithetic.pair(X, y), antithetic.pair(X, y, nest=2)):
        for allocation in ("proportional", "optimal"):
            for n_strata in (None, 2):
                strata = make_strata(problem, table, n_strata, 7, batch_size=6)
                in_batch = Units.of_table(12, table).in_batch(6)
                counts = allocate(problem, table, strata, in_batch, allocation, slopes)
                wanted = variance_of(problem, slopes, table, 6, strata, counts)
                order = Stratified(n_strata, allocation, pairs=table)
                found = antithetic.gradient_variance(X, y, coef, order=order, batch_size=6, seed=7)
                assert found == wanted


@needs_data
@pytest.mark.parametrize("name", ["sonar_scale", "fourclass_scale", "diabetes_scale"])
def test_clusters_lower_the_variance_of_real_data(name):
    """In batches of 8 from 8 strata, at zero, rows and pairs vary less than in uniform draws."""
    X, y = antithetic.datasets.load(name).data, antithetic.datasets.load(name).target
    for table in (None, antithetic.pair(X, y)):
        uniform, stratified = (
            antithetic.gradient_variance(X, y, order=kind(pairs=table), batch_size=8)
            for kind in (Uniform, Stratified)
        )
        assert stratified < 0.9 * uniform
