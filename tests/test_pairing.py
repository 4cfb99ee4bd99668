"""Every pairing method against the literal algorithm, enumeration, and the paper's figures."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from contextlib import contextmanager
from functools import partial
from itertools import permutations as all_permutations
from unittest import mock

import numpy as np
import pytest
from data import needs_data
from hypothesis import given
from hypothesis import strategies as st
from reference_pairing import largest_excess, literal_table, signed_rows
from scipy import sparse
from strategies import EXACT_SCALES, EXACT_SCALES_32, integer_rows, problems, real_rows, weights

from antithetic import AntitheticTable, datasets, pair, pair_rows
from antithetic.pairing import greedy, optimal
from antithetic.pairing._pair import OPTIMAL_MAX_ROWS
from antithetic.pairing.greedy import greedy_pairs
from antithetic.pairing.rows import Rows

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
METHODS = ["greedy", "optimal", "random", "auto"]
# candidates kept, smallest and largest block, rows of a share, columns of a tile: small ones walk
# every path on a dozen rows
SIZES = [
    (1, 1, 1, 1, 1),
    (1, 1, 12, 12, 12),
    (2, 1, 5, 2, 3),
    (3, 2, 8, 3, 5),
    (12, 16, 256, 64, 256),
]


def small(sizes):
    """Let the greedy pairing work with other sizes of lists, blocks, shares and tiles."""
    names = ("_CANDIDATES", "_SMALLEST_BLOCK", "_LARGEST_BLOCK", "_SHARE", "_TILE")
    return mock.patch.multiple(greedy, **dict(zip(names, sizes, strict=True)))


def some_data(n=300, d=5):
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)


def hubs(n=40):
    """All rows but four oppose the same four most: nearly every list is used up at once."""
    X = np.column_stack([np.ones(n), np.arange(n) % 3])
    X[::10] = [-50.0, 0.0]
    return X


class StuckError(Exception):
    """The algorithm goes round and round without pairing a row."""


@contextmanager
def watched(rounds=100):
    """Raise if the greedy pairing takes more rounds than there are rows, instead of hanging."""
    next_size, left = greedy._next_size, iter(range(rounds))

    def counted(size, resolved):
        if next(left, None) is None:
            raise StuckError(f"no end after {rounds} rounds")
        return next_size(size, resolved)

    with mock.patch.object(greedy, "_next_size", counted):
        yield


# ---- greedy: Algorithm 1


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.data(), sizes=st.sampled_from(SIZES), fit_intercept=st.booleans())
def test_greedy_is_algorithm_1(form, data, sizes, fit_intercept):
    """On whole numbers the table equals algorithm 1, for all sizes of lists and blocks.

    Weights and intercept are included.
    """
    X, y = data.draw(problems())
    s = data.draw(st.none() | weights(len(y)))
    with small(sizes):
        table = pair(form(X), y, "greedy", fit_intercept=fit_intercept, sample_weight=s, n_jobs=1)
    assert table.partner.tolist() == literal_table(signed_rows(X, y, fit_intercept, s)).tolist()


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("dtype", "scales"), [(np.float64, EXACT_SCALES), (np.float32, EXACT_SCALES_32)]
)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(data=st.data(), sizes=st.sampled_from(SIZES))
def test_greedy_is_algorithm_1_at_any_scale(form, dtype, scales, data, sizes):
    """Huge and tiny whole-numbered rows, float32 ones as well, give the literal algorithm's table.

    n = 1, 2 and 3 are included.
    """
    X = data.draw(integer_rows(scales=scales))
    with small(sizes):
        table = pair_rows(form(X.astype(dtype)), "greedy", n_jobs=1)
    assert table.partner.tolist() == literal_table(X).tolist()


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("sizes", SIZES)
def test_greedy_is_algorithm_1_among_hubs(form, sizes):
    """The table is exact where all rows prefer the same few partners.

    Lists run out, and blocks shrink and grow.
    """
    with small(sizes):
        assert (
            pair_rows(form(hubs()), "greedy", n_jobs=1).partner.tolist()
            == literal_table(hubs()).tolist()
        )


def hard_to_round(n=600, d=6):
    """Rows whose products float32 can hardly tell apart, or not hold, by name."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, d))
    far_apart = X * 10.0 ** rng.uniform(-60, 30, size=(n, 1))
    far = np.where(np.arange(d) == 0, 1000.0, 0.0)
    return {
        "nearly equal": 1.0 + 1e-9 * X,
        "equal": np.repeat(X[:20], n // 20, axis=0),
        "equal but for the last digits": np.repeat(X[:20], n // 20, axis=0) * (1 + 1e-15 * X),
        "outliers": np.where(np.arange(n)[:, None] % 50, X, 1e7 * X),
        "far apart": far_apart,
        "huge": 1e45 * X,
        "tiny": 1e-45 * X,
        "zero": np.zeros((n, d)),
        "in order": np.cumsum(X, axis=0),
        "whole numbers are left": np.concatenate([np.rint(X[::2] + far), X[1::2] - far]),
    }


@pytest.mark.kernel
@pytest.mark.parametrize("name", hard_to_round())
def test_greedy_is_exact_where_float32_is_not(name):
    """Scanning in float32 hides no smaller product from float64 rows."""
    rows = hard_to_round()[name]
    assert largest_excess(rows, pair_rows(rows, "greedy").partner) <= 1e-12


@pytest.mark.kernel
def test_greedy_keeps_float32_rows_in_range():
    """Rows that were taken choose among rows that are smaller by more than float32 can hold."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(600, 6)) * 10.0 ** rng.uniform(-40, 0, size=(600, 1))
    rows = rows.astype(np.float32)
    assert largest_excess(rows, pair_rows(rows, "greedy").partner) <= 1e-5


@pytest.mark.kernel
def test_greedy_takes_rows_that_are_nearly_nothing():
    """All gradients may be tiny though neither the features nor the weights are."""
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.tile([1, -1], 50)
    X[0] = 0.0
    weight = np.where(np.arange(100) == 0, 1.0, 1e-200)
    table = pair(X, y, "greedy", sample_weight=weight, fit_intercept=False)
    assert sorted(table.partner) == list(range(100))


@pytest.mark.kernel
@given(data=st.data(), sizes=st.sampled_from(SIZES))
def test_a_list_ends_where_rounding_hides_a_product(data, sizes):
    """Lists of rounded products agree with exact ones for every share of rows that is taken."""
    X = data.draw(real_rows())
    taken = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    with small(sizes), mock.patch.object(greedy, "_TAKEN", taken):
        assert largest_excess(X, pair_rows(X, "greedy", n_jobs=1).partner) <= 1e-12


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "rows", [hubs(700), np.round(4.0 * some_data(700)[0])], ids=["hubs", "spread"]
)
def test_greedy_is_algorithm_1_on_many_blocks(rows, dtype, form):
    """Greedy is algorithm 1 with default sizes, on more rows than a block, share or tile holds."""
    assert (
        pair_rows(form(rows.astype(dtype)), "greedy").partner.tolist()
        == literal_table(rows).tolist()
    )


@pytest.mark.kernel
@pytest.mark.parametrize("sizes", [SIZES[2], SIZES[-1]])
def test_ties_go_to_the_lowest_index(sizes):
    """Equal products: the lowest free row wins, so equal rows pair each with itself."""
    with small(sizes):
        assert pair_rows(np.zeros((70, 2)), "greedy", n_jobs=1).partner.tolist() == list(range(70))
        assert pair_rows(np.ones((70, 1)), "greedy", n_jobs=1).partner.tolist() == list(range(70))
        assert pair_rows([[1.0], [-1.0], [1.0], [-1.0]], "greedy", n_jobs=1).partner.tolist() == [
            1,
            0,
            3,
            2,
        ]


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(problem=problems(real_rows(min_rows=2)), sizes=st.sampled_from(SIZES))
def test_greedy_choices_are_the_smallest_of_their_own_run(form, problem, sizes):
    """Each choice is within 1e-12 of the smallest product over the rows free in its run."""
    X, y = problem
    with small(sizes):
        partner = pair(form(X), y, "greedy", n_jobs=1).partner
    assert largest_excess(signed_rows(X, y), partner) <= 1e-12


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_greedy_choices_are_the_smallest_on_many_rows(form, dtype, tolerance, fit_intercept):
    """The same on several blocks: 1e-12, and 1e-5 for float32."""
    X, y = some_data(600)
    X = X.astype(dtype)
    partner = pair(form(X), y, "greedy", fit_intercept=fit_intercept).partner
    assert largest_excess(signed_rows(X, y, fit_intercept), partner) <= tolerance


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_table_does_not_depend_on_the_number_of_threads(form, dtype):
    """One thread, several, or all cores: the same table, to the last row."""
    X, y = some_data(500, 20)
    tables = [
        pair(form(X.astype(dtype)), y, "greedy", n_jobs=n_jobs).partner.tolist()
        for n_jobs in (1, 2, 3, -1, None)
    ]
    assert all(table == tables[0] for table in tables)


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5])
def test_an_impossible_number_of_threads_is_refused(n_jobs):
    """Threads are a whole number, at least 1, or -1 or None for all."""
    with pytest.raises(ValueError, match="n_jobs must be a whole number, at least 1"):
        pair_rows([[1.0], [2.0]], "greedy", n_jobs=n_jobs)


BEYOND = pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        (np.float64, 2.0**600),
        (np.float64, 2.0**-600),
        (np.float32, 2.0**80),
        (np.float32, 2.0**-80),
    ],
    ids=["overflow", "underflow", "overflow32", "underflow32"],
)


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@BEYOND
@pytest.mark.parametrize("rows", [hubs(8), np.eye(3)], ids=["hubs", "none"])
def test_greedy_pairs_rows_whose_products_leave_the_range_of_their_type(rows, dtype, scale, form):
    """Finite rows whose products overflow or underflow get the table of the rescaled rows."""
    with watched():
        partner = pair_rows(form((rows * scale).astype(dtype)), "greedy", n_jobs=1).partner
    assert partner.tolist() == literal_table(rows).tolist()


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@BEYOND
def test_cutting_cycles_ends_where_products_leave_the_range_of_their_type(dtype, scale, form):
    """Rows left over by odd cycles are paired as in other units, where products overflow.

    All products are positive.
    """
    y = np.array([1.0, -1.0] * 4)
    X = np.abs(hubs(8)) * y[:, None]
    table = AntitheticTable(np.arange(8))
    with watched():
        scaled = table.to_matching(form((X * scale).astype(dtype)), y)
    assert scaled.partner.tolist() == table.to_matching(X, y).partner.tolist()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@BEYOND
def test_optimal_pairs_rows_whose_products_leave_the_range_of_their_type(dtype, scale, form):
    """The least sum of products in other units is the least sum."""
    rows = hubs(8)
    best, scaled = (
        pair_rows(form(some), "optimal").partner for some in (rows, (rows * scale).astype(dtype))
    )
    assert sum_of_products(rows, scaled) == sum_of_products(rows, best)


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(X=integer_rows(min_rows=2), sizes=st.sampled_from(SIZES[2:]))
def test_greedy_pairs_leave_together(form, X, sizes):
    """The mutual variant: each free row in turn leaves with the free row that opposes it most."""
    X = X[: len(X) // 2 * 2]
    free, expected = list(range(len(X))), []
    while free:
        row = free.pop(0)
        expected.append([row, free.pop(int(np.argmin(X[free] @ X[row])))])
    with small(sizes):
        assert greedy_pairs(Rows(form(X)), 1).tolist() == expected


# ---- other methods


def sum_of_products(Z, partner):
    return float((Z * Z[partner]).sum())


@given(rows=integer_rows(max_rows=6))
def test_optimal_has_the_least_sum_of_all_permutations(rows):
    """ "optimal" has the least sum of all permutations of up to six rows."""
    best = min(sum_of_products(rows, list(order)) for order in all_permutations(range(len(rows))))
    assert sum_of_products(rows, pair_rows(rows, "optimal").partner) == best


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(problem=problems(real_rows(min_rows=2)), fit_intercept=st.booleans())
def test_optimal_is_never_worse_than_greedy(form, problem, fit_intercept):
    """Its sum of products is at most that of the greedy table."""
    X, y = problem
    Z = signed_rows(X, y, fit_intercept)
    best, quick = (
        pair(form(X), y, method, fit_intercept=fit_intercept, n_jobs=1).partner
        for method in ("optimal", "greedy")
    )
    assert sum_of_products(Z, best) <= sum_of_products(Z, quick) + 1e-12 * (Z**2).sum()


def test_optimal_states_its_size():
    """More rows than it takes are refused at once, with the limit and what to use instead."""
    with pytest.raises(
        ValueError,
        match=(
            rf'"optimal" takes at most {OPTIMAL_MAX_ROWS} rows .*got {OPTIMAL_MAX_ROWS + 1}; use'
            r' .*"greedy"'
        ),
    ):
        pair_rows(np.ones((OPTIMAL_MAX_ROWS + 1, 1)), "optimal")


@pytest.mark.skipif(sys.platform == "win32", reason="there the signal ends the process")
@pytest.mark.parametrize("nest", [None, 2])
@pytest.mark.parametrize(
    ("owner", "name"), [(Rows, "take"), (optimal, "linear_sum_assignment")], ids=["rows", "table"]
)
def test_ctrl_c_ends_pair_in_the_middle_of_an_assignment(monkeypatch, nest, owner, name):
    """KeyboardInterrupt is raised while a long call, which does not look for it, goes on."""
    ready, go = os.pipe()
    wait = ctypes.CDLL(None).read  # no signal to another thread ends it
    caught, waited_too_long, calls = threading.Event(), [], []
    long_call = getattr(owner, name)

    def slowly(*given):
        calls.append(threading.Thread(target=press))
        calls[0].start()
        wait(ready, ctypes.create_string_buffer(1), ctypes.c_size_t(1))
        return long_call(*given)

    def press():
        signal.raise_signal(signal.SIGINT)
        if not caught.wait(10.0):  # so that a test that fails also ends
            waited_too_long.append(True)
        os.write(go, b"!")

    monkeypatch.setattr(owner, name, slowly)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            pair_rows(np.eye(4), "optimal", nest=nest)
        caught.set()
        calls[0].join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not waited_too_long


@pytest.mark.parametrize("n", range(1, 8))
def test_random_is_a_matching_given_by_its_seed(n):
    """Random pairs with at most one single row, the same for the same seed."""
    G = np.ones((n, 1))
    for seed in range(10):
        table = pair_rows(G, "random", random_state=seed)
        assert table.is_matching
        assert table.partner.tolist() == pair_rows(G, "random", random_state=seed).partner.tolist()


def test_random_pairs_differ_between_seeds():
    """All three matchings of four rows come up within 50 seeds.

    Missing one has probability 3 (2/3)^50 < 1e-8.
    """
    seen = {
        tuple(pair_rows(np.ones((4, 1)), "random", random_state=seed).partner.tolist())
        for seed in range(50)
    }
    assert seen == {(1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0)}


@pytest.mark.kernel
def test_auto_says_what_it_chose():
    """The table of "auto" is that of another method, which it names."""
    X, y = some_data(40)
    auto = pair(X, y)
    assert auto.method in METHODS[:-1]
    assert auto.partner.tolist() == pair(X, y, auto.method).partner.tolist()


@pytest.mark.parametrize("method", ["nearest", "", None, 3])
def test_an_unknown_method_is_told_the_known_ones(method):
    """The error lists the methods, and that a callable is one."""
    with pytest.raises(ValueError, match=r"is not known; use one of .*, or a callable") as error:
        pair_rows([[1.0], [2.0]], method)
    assert all(known in str(error.value) for known in METHODS)


# ---- a method of one's own


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_callable_is_given_the_signed_rows(form):
    """A callable gets weighted, signed rows with intercept, dense or CSR like X.

    Its name is recorded in the table.
    """
    X, y = some_data(6)
    s = np.arange(1.0, 7.0)
    shown = []

    def backwards(rows):
        shown.append(rows)
        return range(rows.shape[0] - 1, -1, -1)

    table = pair(form(X), y, backwards, fit_intercept=True, sample_weight=s)
    assert table.partner.tolist() == [5, 4, 3, 2, 1, 0]
    assert table.method == "backwards"
    assert sparse.issparse(shown[0]) == (form is sparse.csr_array)
    np.testing.assert_allclose(
        shown[0].toarray() if sparse.issparse(shown[0]) else shown[0],
        signed_rows(X, y, True, s),
        rtol=1e-15,
    )


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ([1, 0], "returned 2 partners for 3 rows"),
        (
            [0, 0, 1],
            "did not return a table: partner must be a permutation of 0..2; 0 appears 2 times",
        ),
        ([0, 1, 3], "did not return a table: partner must be a permutation of 0..2; row 2 has 3"),
        ([0.0, 1.0, 2.0], "did not return a table: partner must be a one-dimensional array"),
        ([[0, 1, 2]], "did not return a table: partner must be a one-dimensional array"),
        (None, "did not return a table"),
    ],
)
def test_a_callable_that_returns_no_table_is_named(answer, complaint):
    """What it returned is checked like any table, and the error says which method it was."""

    def mine(_rows):
        return answer

    with pytest.raises(ValueError, match=f"method=mine {complaint}"):
        pair_rows([[1.0], [2.0], [3.0]], mine)


# ---- what is
# paired, and arguments


@pytest.mark.kernel
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_smallest_data_have_tables(n, method, form):
    """One, two and three rows are paired by every method."""
    rows = form(np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -2.0]])[:n])
    assert sorted(pair_rows(rows, method).partner.tolist()) == list(range(n))
    assert len(pair(rows, np.arange(n), method, loss="squared_error")) == n
    if n > 1:
        assert len(pair(rows, [0, 1, 1][:n], method)) == n


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(X=integer_rows(), data=st.data())
def test_regression_pairs_the_gradients_at_prediction_zero(form, X, data):
    """For squared error the paired gradients are ``-y_i x_i``, for any numbers y."""
    y = np.array(
        data.draw(st.lists(st.integers(-3, 3), min_size=len(X), max_size=len(X))), dtype=np.float64
    )
    assert (
        pair(form(X), y, "greedy", loss="squared_error", n_jobs=1).partner.tolist()
        == literal_table(-y[:, None] * X).tolist()
    )


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(problem=problems(), intercept=st.integers(-2, 2), fit_intercept=st.booleans())
def test_coef_pairs_the_gradients_there(form, problem, intercept, fit_intercept):
    """With given weights and intercept, the rows paired are the gradients ``slope_i (x_i, 1)``."""
    X, y = problem
    w = np.arange(1.0, X.shape[1] + 1.0)
    table = pair(
        form(X),
        y,
        "greedy",
        coef=w,
        intercept=intercept,
        loss="squared_hinge",
        fit_intercept=fit_intercept,
        n_jobs=1,
    )
    short = np.maximum(0.0, 1.0 - y * (X @ w + intercept))
    assert (
        table.partner.tolist()
        == literal_table(signed_rows(X, -2.0 * y * short, fit_intercept)).tolist()
    )


@pytest.mark.kernel
def test_pairing_at_coef_differs_from_pairing_signed_rows():
    """A well-classified class has short gradients, so the table at these weights differs."""
    X, y = some_data(30)
    w = np.full(5, 3.0)
    moved = pair(X, y, "greedy", coef=w, n_jobs=1)
    assert moved.partner.tolist() != pair(X, y, "greedy", n_jobs=1).partner.tolist()
    assert largest_excess(signed_rows(X, y / (1.0 + np.exp(y * (X @ w)))), moved.partner) <= 1e-12


@pytest.mark.parametrize(("argument", "value"), [("init", [1, 0]), ("nest", 3), ("budget", 1.0)])
def test_what_greedy_cannot_use_is_refused_by_name(argument, value):
    """Both functions refuse ``init``, ``budget`` and groups of three with Algorithm 1."""
    for build in (
        partial(pair, [[1.0], [2.0]], [0, 1], "greedy"),
        partial(pair_rows, [[1.0], [2.0]], "greedy"),
    ):
        with pytest.raises((NotImplementedError, ValueError), match=f"^{argument}"):
            build(**{argument: value})


def test_pairing_leaves_the_data_alone():
    """Every method leaves rows, labels and weights unchanged."""
    X, y = some_data(20)
    s = np.arange(1.0, 21.0)
    before = X.copy(), y.copy(), s.copy()
    for method in METHODS:
        pair(X, y, method, fit_intercept=True, sample_weight=s)
    assert all(np.array_equal(now, then) for now, then in zip((X, y, s), before, strict=True))


# ---- the paper's figures


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sonar_scale", 0.346),
        ("breast-cancer_scale", 0.698),
        ("splice", 0.165),
        ("diabetes_scale", 0.395),
    ],
)
def test_the_greedy_table_saves_what_the_paper_says(name, expected):
    """Exact variance ratios at w = 0 on the sets in the package."""
    X, y = datasets.load(name, return_X_y=True)
    assert pair(X, y, "greedy").variance_ratio(X, y) == pytest.approx(expected, abs=0.01)


@needs_data
def test_the_greedy_table_saves_what_the_paper_says_on_fourclass():
    """The exact variance ratio at w = 0 of a set that is not in the package."""
    X, y = datasets.load("fourclass_scale", return_X_y=True)
    assert pair(X, y, "greedy").variance_ratio(X, y) == pytest.approx(0.277, abs=0.01)
