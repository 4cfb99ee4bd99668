"""Sums over the rows, shared between threads."""

from __future__ import annotations

import threading
import time
import tracemalloc
from itertools import chain

import numpy as np
import pytest
from scipy import sparse

from antithetic import PoissonRegressor
from antithetic._util import threads as shared
from antithetic._util.threads import in_shares
from antithetic.exact import class_sums, row_sums
from antithetic.exact.certificate import certified_gap
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.row_sums import RowSums
from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet

RNG = np.random.default_rng(0)
N, D, K = 211, 5, 4
X = RNG.normal(size=(N, D))
X[RNG.random((N, D)) < 0.4] = 0.0
LABELS = RNG.integers(0, K, size=N)
WEIGHT = RNG.uniform(size=N)
PENALTY = ElasticNet(0.03, 0.0)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of few rows, each worth a thread."""
    monkeypatch.setattr(shared, "_WORK_PER_THREAD", 1)
    monkeypatch.setattr(class_sums, "_ENTRIES_AT_ONCE", 200)
    monkeypatch.setattr(class_sums, "_ROWS_AT_ONCE", 13)
    monkeypatch.setattr(class_sums, "_SHORT_BLOCK", 1)
    monkeypatch.setattr(row_sums, "_ENTRIES_AT_ONCE", 100)
    monkeypatch.setattr(row_sums, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(RowSums, "has_few_pairs", False)
    monkeypatch.setattr(class_sums, "ROWS_PER_COLUMN", 1e9)


# ---- shares


@pytest.mark.parametrize(("items", "threads"), [(7, 3), (7, 1), (7, 0), (2, 5), (1, 2), (0, 2)])
def test_shares_are_whole_and_in_order(items, threads):
    shares = in_shares(list, range(items), threads)
    assert list(chain.from_iterable(shares)) == list(range(items))
    sizes = [len(share) for share in shares]
    assert len(sizes) == max(1, min(items, threads))
    assert max(sizes) - min(sizes) <= 1


def test_each_share_has_a_thread():
    meet = threading.Barrier(3, timeout=30.0)  # which nobody passes alone
    names = in_shares(lambda _: meet.wait() >= 0 and threading.get_ident(), range(6), 3)
    assert len(set(names)) == 3
    assert names[0] == threading.get_ident()


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_an_error_of_any_share_is_raised_after_all_have_ended(wrong):
    ended = []

    def work(share):
        if wrong in share:
            raise ValueError(f"no {wrong}")
        ended.extend(share)

    with pytest.raises(ValueError, match=f"no {wrong}"):
        in_shares(work, range(3), 3)
    assert sorted(ended) == [item for item in range(3) if item != wrong]


def test_ctrl_c_ends_all_shares_at_their_next_item():
    begun, done = threading.Event(), []

    def work(share):
        if share[0] == 0:
            begun.wait()
            raise KeyboardInterrupt
        for item in share:
            begun.set()
            time.sleep(0.001)
            done.append(item)

    with pytest.raises(KeyboardInterrupt):
        in_shares(work, range(4000), 2)
    assert len(done) < 2000


def test_threads_treat_overflow_as_their_caller_does():
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        in_shares(lambda share: np.full(1, 1e300) * 10.0 ** (200 * share[0]), range(2), 2)


# ---- sums


def many_classes(rows, threads):
    sums = ClassSums(rows, LABELS, K, PENALTY, WEIGHT, X.mean(axis=0), threads)
    theta, along = np.random.default_rng(1).normal(size=(2, K * (D + 1)))
    point = sums.at(theta)
    yield from (point.objective, point.gradient, point.noise, *point.totals)
    yield from (sums.times(point, along), sums.products(theta)(along))
    yield sums.curvature_above(point, along)
    yield from (sums.hessian(point), sums.hessian(point, exact=True, damping=0.3))
    yield sums.hessian_of(point, np.arange(0, K * D, 2), exact=True)
    yield from (sums.diagonal(point), sums.class_blocks(point), sums.whitening(point)[0])
    yield from (*sums._squares(point, 0.2, 0.1), sums.class_means())
    yield certified_gap(sums, point)


def two_classes(rows, threads):
    targets = np.where(LABELS > 1, 1.0, -1.0)
    problem = Problem.build(
        rows, targets, loss="log_loss", sample_weight=WEIGHT, fit_intercept=True
    )
    sums = RowSums(problem, X.mean(axis=0), threads)
    point = sums.at(np.random.default_rng(1).normal(size=D + 1))
    yield from (sums.hessian(point), sums.hessian(point, exact=True, damping=0.3))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("found", [many_classes, two_classes])
def test_sums_of_several_threads_are_those_of_one(make, dtype, found):
    rows = make(X.astype(dtype))
    one = list(found(rows, 1))
    for threads in (2, 3):
        some, again = list(found(rows, threads)), list(found(rows, threads))
        for ours, same, alone in zip(some, again, one, strict=True):
            np.testing.assert_array_equal(ours, same)
            np.testing.assert_allclose(ours, alone, rtol=1e-4, atol=1e-5)
        is_exact = [np.array_equal(ours, alone) for ours, alone in zip(some, one, strict=True)]
        assert not all(is_exact)  # the order of additions differs: there were several


def test_threads_are_used_where_work_and_room_allow_it():
    def count(work, entries):
        (calls,) = shared.add_up(lambda _: (np.ones(1),), range(8), 4, work, entries)
        return int(calls[0])

    enough, most = shared._WORK_PER_THREAD, shared._MOST_ENTRIES
    assert [count(enough * share, 1) for share in (0, 1, 2.5, 9)] == [1, 1, 2, 4]
    assert [count(enough * 9, entries) for entries in (most, most // 3, 1)] == [1, 3, 4]


def wide_sums(threads):
    """Few sparse rows of very many columns."""
    rng = np.random.default_rng(0)
    places = rng.integers(1000, size=2000), rng.integers(20000, size=2000)
    rows = sparse.csr_array((rng.normal(size=2000), places), shape=(1000, 20000))
    return ClassSums(rows, np.arange(1000) % K, K, PENALTY, None, None, threads)


def test_the_hessian_of_a_few_of_many_columns_takes_little_room():
    """Not all rows are made dense at once, which would take 160 MB."""
    sums = wide_sums(1)
    point = sums.at(np.zeros(K * 20000))
    tracemalloc.start()
    sums.hessian_of(point, np.arange(5), exact=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e7


def test_more_threads_than_the_work_is_worth_make_no_more_parts():
    """Each part costs a product with all weights."""
    assert wide_sums(64)._parts_of_scores() == wide_sums(1)._parts_of_scores()


def test_a_fit_uses_no_more_threads_than_the_environment_allows(monkeypatch):
    """The processes of a search over parameters would compete for the cores otherwise."""
    monkeypatch.setattr(row_sums, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr("antithetic._util.threads.count_threads", lambda _: 8)
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for given, expected in (("3", 3), ("", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert PoissonRegressor(tol=1e-2).fit(X, LABELS).plan_.threads == expected
