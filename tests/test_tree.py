"""The near-linear pairing: kernels, buckets, rounds, and distance from the best table."""

from __future__ import annotations

import time
from functools import partial
from unittest import mock

import numpy as np
import pytest
from data import needs_data
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference_pairing import largest_excess, signed_rows
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from strategies import integer_rows, permutations

from antithetic import AntitheticTable, datasets, pair, pair_rows
from antithetic._core import kernels
from antithetic._util.threads import thread_map
from antithetic.pairing import greedy, tree
from antithetic.pairing.rows import Rows, principal_coordinates, read_rows
from antithetic.pairing.tree import _improve, _solve, tree_table

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
SMALL_LEAF = 40
build_tree = partial(tree_table, init=None, budget=None, n_jobs=1, seed=0, progress=lambda _: None)


@pytest.fixture
def walk(monkeypatch):
    """Let small data walk the tree: one bucket up to 40 rows only."""
    monkeypatch.setattr(tree, "ONE_LEAF", SMALL_LEAF)


def some_data(n=300, d=5, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(1.0, 0.3, d) + 0.2
    X[rng.random((n, d)) < 0.3] = 0.0
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def sum_of_products(Z, partner):
    return float((Z * Z[partner]).sum())


def is_permutation(partner, n):
    return sorted(np.asarray(partner).tolist()) == list(range(n))


# ---- assignment


def assign(cost):
    """Columns that the kernel gives to the rows."""
    return kernels.assign(np.ascontiguousarray(cost, dtype=np.float64))[0]


def least_cost(cost):
    return cost[linear_sum_assignment(cost)].sum()


@pytest.mark.kernel
@given(data=st.data(), n=st.integers(1, 9), dtype=st.sampled_from([np.float64, np.float32]))
def test_the_assignment_kernel_finds_the_least_cost(data, n, dtype):
    """The kernel gives a permutation with exactly SciPy's least cost.

    Costs are whole numbers, often tied, also negative; n = 1, 2, 3 are included.
    """
    cost = data.draw(arrays(np.int64, (n, n), elements=st.integers(-4, 4))).astype(dtype)
    column_of = assign(cost)
    assert is_permutation(column_of, n)
    assert cost[np.arange(n), column_of].sum() == least_cost(cost)


@pytest.mark.kernel
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 32])
def test_the_assignment_kernel_finds_the_least_cost_of_real_numbers(n, dtype, tolerance):
    """For real numbers, large and small, the cost equals SciPy's up to rounding."""
    rng = np.random.default_rng(n)
    for scale in (1.0, 1e-10, 1e10):
        cost = (scale * rng.normal(size=(n, n))).astype(dtype)
        column_of = assign(cost)
        assert is_permutation(column_of, n)
        assert cost[np.arange(n), column_of].sum() == pytest.approx(
            least_cost(cost.astype(np.float64)), rel=tolerance
        )


@pytest.mark.kernel
@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
def test_the_assignment_kernel_ends_where_all_costs_are_equal(value):
    """Nothing but ties: any permutation will do."""
    assert is_permutation(assign(np.full((12, 12), value)), 12)


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(
    X=integer_rows(min_rows=2, max_rows=10),
    data=st.data(),
    dtype=st.sampled_from([np.float64, np.float32]),
    constant=st.booleans(),
    classes=st.sampled_from([1, 4]),
)
def test_a_bucket_is_solved_for_the_weighted_products(form, X, data, dtype, constant, classes):
    """Each bucket gets its least sum of products, dense and CSR.

    Scales, classes and the constant feature all enter the products.
    """
    n = len(X)
    scale = data.draw(st.none() | arrays(dtype, n, elements=st.sampled_from([-2.0, 0.0, 0.5, 1.0])))
    codes = (
        None
        if classes == 1
        else data.draw(arrays(np.intp, n, elements=st.integers(0, classes - 1)))
    )
    rows = Rows(form(X.astype(dtype)), scale, constant, codes, max(2, classes))
    order, partners, half = data.draw(permutations(n)), data.draw(permutations(n)), n // 2
    partner = np.full(n, -1)
    _solve(
        rows,
        order,
        partners,
        np.array([0, half, n]) if half else np.array([0, n]),
        partner,
        lambda f, parts: list(map(f, parts)),
    )

    Z = np.column_stack([X, np.ones(n)]) if constant else X
    Z = Z if scale is None else Z * scale[:, None]
    products = Z @ Z.T * (1.0 if codes is None else (codes[:, None] == codes) - 0.25)
    for bucket in (slice(0, half), slice(half, n)):
        assert sorted(partner[order[bucket]].tolist()) == sorted(partners[bucket].tolist())
        cost = products[np.ix_(order[bucket], partners[bucket])]
        assert products[order[bucket], partner[order[bucket]]].sum() == least_cost(cost)


# ---- buckets


def nodes(low, high, leaf):
    """Nodes of a tree that halves a range, as (first, middle, last), and the ends of its leaves.

    It halves until at most ``leaf`` are left.
    """
    if high - low <= leaf:
        return [], [high]
    middle = (low + high) // 2
    left, right = nodes(low, middle, leaf), nodes(middle, high, leaf)
    return [(low, middle, high), *left[0], *right[0]], left[1] + right[1]


def are_split(values, others, first, middle, last):
    """Whether along some axis the rows and reflections before the middle are not above the rest."""

    def lower(column):
        return column[first:middle].max() <= column[middle:last].min()

    return any(
        lower(values[:, c]) and (others is None or lower(-others[:, c]))
        for c in range(values.shape[1])
    )


@pytest.mark.kernel
@given(
    points=integer_rows(min_rows=1, max_rows=40, max_features=3),
    leaf=st.integers(1, 9),
    reflect=st.booleans(),
    data=st.data(),
)
def test_buckets_cut_rows_and_reflections_at_the_same_places(points, leaf, reflect, data):
    """Buckets hold each row once, at most ``leaf`` each, and nodes separate low from high values.

    This holds for rows and reflections.
    """
    n, points = len(points), points.astype(np.float32)
    rows = data.draw(permutations(n))
    others = data.draw(permutations(n)) if reflect else np.empty(0, dtype=np.intp)
    inner, expected_ends = nodes(0, n, leaf)
    ends = kernels.buckets(points, 0, n, leaf, rows, others)
    assert ends.tolist() == expected_ends
    assert np.diff([0, *ends]).max() <= leaf
    assert is_permutation(rows, n)
    assert is_permutation(others, n if reflect else 0)
    assert all(
        are_split(points[rows], points[others] if reflect else None, *node) for node in inner
    )


@pytest.mark.kernel
def test_buckets_leave_the_rest_of_the_rows_alone():
    """Only the part between the bounds is reordered: threads work side by side on one list."""
    points = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    rows, others = np.arange(60), np.arange(60)[::-1].copy()
    assert kernels.buckets(points, 20, 50, 8, rows, others).tolist() == nodes(20, 50, 8)[1]
    for after, before in ((rows, np.arange(60)), (others, np.arange(60)[::-1])):
        assert after[:20].tolist() == before[:20].tolist()
        assert after[50:].tolist() == before[50:].tolist()
        assert sorted(after[20:50].tolist()) == sorted(before[20:50].tolist())


# ---- always a permutation


@pytest.mark.kernel
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("classes", [2, 4])
def test_few_rows_through_small_buckets_are_a_table(form, classes):
    """The whole way on few rows and buckets of 6."""
    X, _ = some_data(50, 3)
    y = np.arange(50) % classes
    with mock.patch.multiple(tree, ONE_LEAF=10, LEAF=6):
        table = pair(form(X), y, "tree", n_jobs=1)
    assert is_permutation(table.partner, 50)
    assert table.variance_ratio(form(X), y) < pair(X, y, "random").variance_ratio(X, y)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [SMALL_LEAF - 1, SMALL_LEAF, SMALL_LEAF + 1, 301])
@pytest.mark.usefixtures("walk")
def test_any_data_give_a_table_that_gains(form, dtype, fit_intercept, weighted, n):
    """Any data give a permutation that is no worse than greedy's.

    Dense and CSR, float32 and float64, with intercept and weights, below and above one bucket.
    """
    X, y = some_data(n)
    X = form(X.astype(dtype))
    weight = np.arange(n) % 3 + 0.5 if weighted else None
    options = {"fit_intercept": fit_intercept, "sample_weight": weight}
    table = pair(X, y, "tree", **options)
    assert is_permutation(table.partner, n)
    assert table.method == "tree"
    assert table.variance_ratio(X, y, **options) <= pair(X, y, "greedy", **options).variance_ratio(
        X, y, **options
    )


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.usefixtures("walk")
def test_several_classes_give_a_table_that_gains(form, fit_intercept):
    """Three classes with weights give a permutation that is no worse than greedy's."""
    X, _ = some_data(301)
    y, options = (
        np.arange(301) % 3,
        {
            "fit_intercept": fit_intercept,
            "sample_weight": np.arange(301) % 3 + 0.5,
        },
    )
    table = pair(form(X), y, "tree", **options)
    assert is_permutation(table.partner, 301)
    assert table.variance_ratio(X, y, **options) <= pair(X, y, "greedy", **options).variance_ratio(
        X, y, **options
    )


@pytest.mark.usefixtures("walk")
def test_many_sparse_features_give_a_table_that_gains():
    """Beyond 1000 features the axes come from subspace iteration.

    The table is as good as greedy's.
    """
    rng = np.random.default_rng(0)
    places = rng.integers(0, 1200, size=(400, 20)) // rng.integers(1, 60, size=(400, 20))
    X = sparse.csr_array(
        (np.ones(8000), (np.repeat(np.arange(400), 20), places.ravel())), shape=(400, 1200)
    )
    y = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    table = pair(X, y, "tree")
    assert is_permutation(table.partner, 400)
    assert table.variance_ratio(X, y) <= pair(X, y, "greedy").variance_ratio(X, y) + 0.01


AWKWARD = {
    "zeros": np.zeros((130, 3)),
    "one row repeated": np.tile([1.0, -2.0, 0.5], (130, 1)),
    "two rows repeated": np.tile([[1.0, 0.0], [0.0, 2.0]], (65, 1)),
    "opposites": np.tile([[1.0, 3.0], [-1.0, -3.0]], (65, 1)),
    "one feature": np.linspace(-1.0, 2.0, 131)[:, None],
    "one feature, tied": (np.arange(130) % 3 - 1.0)[:, None],
    "constant column": np.column_stack([np.full(130, 7.0), np.sin(np.arange(130.0))]),
    "constant columns only": np.full((130, 4), 0.1),
    "one row that is not zero": np.eye(1, 130).T * 5.0,
    "zero rows among others": some_data(130)[0] * (np.arange(130) % 2)[:, None],
    "one far row": np.concatenate([some_data(129)[0], [[1e6] * 5]]),
    "more features than rows": np.eye(130, 200),
}


@pytest.mark.parametrize("method", ["tree", "greedy", "optimal", "auto"])
@pytest.mark.parametrize("rows", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.usefixtures("walk")
def test_awkward_rows_are_paired(rows, method):
    """Awkward rows give a permutation no worse than each row with itself.

    Duplicates, zero rows, constant columns, and one feature; dense and CSR.
    """
    for form in FORMS.values():
        partner = pair_rows(form(rows), method).partner
        assert is_permutation(partner, len(rows))
        assert sum_of_products(rows, partner) <= (rows**2).sum() * (1.0 + 1e-12)


# ---- any scale

SCALES = [
    *(
        (np.float64, 2.0**power)
        for power in (-1000, -500, -330, -170, -80, 80, 170, 330, 500, 1000)
    ),
    *((np.float32, 2.0**power) for power in (-110, -60, 60, 100, 120)),
]


class StuckError(Exception):
    """The greedy pairing goes round and round without pairing a row."""


@pytest.fixture
def watched(monkeypatch):
    """Raise if the greedy pairing takes more rounds than there are rows, instead of hanging."""
    next_size, left = greedy._next_size, iter(range(500))

    def counted(size, resolved):
        if next(left, None) is None:
            raise StuckError
        return next_size(size, resolved)

    monkeypatch.setattr(greedy, "_next_size", counted)


@pytest.mark.usefixtures("walk", "watched")
@pytest.mark.parametrize("method", ["tree", "greedy", "optimal"])
@pytest.mark.parametrize(("dtype", "scale"), SCALES)
def test_the_unit_of_the_features_changes_nothing(method, dtype, scale):
    """In any unit, the table is as good as that of the rows in units near 1, within a hundredth.

    From 1e-301 to 1e301 (float32: 1e-33 to 1e36).
    """
    X, y = some_data()
    X = X.astype(dtype)
    plain, scaled = (
        sum_of_products(signed_rows(X, y), pair(rows, y, method).partner)
        for rows in (X, X * dtype(scale))
    )
    assert scaled <= plain + 0.01 * abs(plain)


@pytest.mark.usefixtures("walk", "watched")
@pytest.mark.parametrize("method", ["tree", "optimal", "greedy"])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        (np.float64, 2.0**320),
        (np.float64, 2.0**-320),
        (np.float32, 2.0**38),
        (np.float32, 2.0**-38),
    ],
)
def test_the_unit_of_the_weights_changes_nothing(method, dtype, scale):
    """Features and weights may both be large or both small, so that only products overflow."""
    X, y = some_data()
    X, s = X.astype(dtype), np.arange(300) % 3 + 1.0
    Z = signed_rows(X, y, sample_weight=s)
    plain = sum_of_products(Z, pair(X, y, method, sample_weight=s).partner)
    assert sum_of_products(
        Z, pair(X * dtype(scale), y, method, sample_weight=s * scale).partner
    ) <= plain + 0.01 * abs(plain)


@pytest.mark.usefixtures("walk", "watched")
@pytest.mark.parametrize("scale", [2.0**-500, 2.0**-320, 2.0**-20, 2.0**20, 2.0**320, 2.0**500])
def test_beside_huge_features_the_intercept_counts_for_nothing(scale):
    """The intercept's feature is 1 in the units of X: it dominates tiny X, and huge X hides it."""
    X, y = some_data()
    Z = signed_rows(X, y, True)
    Z[:, -1] /= scale
    Z /= np.abs(Z).max()
    tables = {
        method: pair(X * scale, y, method, fit_intercept=True).partner
        for method in ("greedy", "optimal", "tree")
    }
    best = least_cost(Z @ Z.T)
    assert largest_excess(Z, tables["greedy"]) <= 1e-12
    assert sum_of_products(Z, tables["optimal"]) == pytest.approx(best, rel=1e-9)
    assert sum_of_products(Z, tables["tree"]) == pytest.approx(best, rel=0.05)


# ---- deterministic


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.usefixtures("walk")
def test_the_tree_does_not_depend_on_the_number_of_threads(form, dtype):
    """One thread, two, three: the same table, and a polished one too."""
    X, y = some_data(1500, 20)
    X = form(X.astype(dtype))
    tables = [pair(X, y, "tree", n_jobs=n_jobs).partner.tolist() for n_jobs in (1, 2, 3)]
    assert tables[0] == tables[1] == tables[2]
    polished = [
        pair(X, y, "tree", init=np.arange(1500), n_jobs=n_jobs).partner.tolist()
        for n_jobs in (1, 2, 3)
    ]
    assert polished[0] == polished[1] == polished[2]


@pytest.mark.usefixtures("walk")
def test_the_seed_gives_the_tree():
    """The same seed, the same table; None means 0.

    Another seed, another table of the same quality.
    """
    X, y = some_data(600)
    first, again, other = (pair(X, y, "tree", random_state=seed) for seed in (None, 0, 1))
    assert first.partner.tolist() == again.partner.tolist()
    assert first.partner.tolist() != other.partner.tolist()
    assert first.variance_ratio(X, y) == pytest.approx(other.variance_ratio(X, y), abs=0.02)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.usefixtures("walk")
def test_sparse_rows_are_paired_as_well_as_dense_ones(fit_intercept):
    """The ratio of the CSR table is that of the dense one, within a hundredth."""
    X, y = some_data(600)
    dense, csr = (pair(form(X), y, "tree", fit_intercept=fit_intercept) for form in FORMS.values())
    assert csr.variance_ratio(X, y) == pytest.approx(dense.variance_ratio(X, y), abs=0.01)


# ---- rounds, init, budget


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_round_never_raises_the_sum_of_products(form, classes):
    """From any table, by place or at random, no round raises the sum of products."""
    X, _ = some_data(500)
    rows, _ = read_rows(
        form(X),
        np.arange(500) % classes,
        loss="log_loss",
        coef=None,
        intercept=0.0,
        fit_intercept=True,
        sample_weight=None,
    )
    rng = np.random.default_rng(0)
    partner, points = rng.permutation(500), principal_coordinates(rows, 0)
    sums = [rows.products(partner).sum()]
    with thread_map(2) as threads:
        for number in range(8):
            _improve(rows, points, partner, local=number % 2 == 1, rng=rng, threads=threads)
            assert is_permutation(partner, 500)
            sums.append(rows.products(partner).sum())
    assert (np.diff(sums) <= 1e-12 * (X**2).sum()).all()
    assert sums[-1] < sums[0]


@pytest.mark.parametrize("method", ["tree", "auto"])
@pytest.mark.parametrize("start", ["random", "greedy", "optimal", "tree"])
@pytest.mark.usefixtures("walk")
def test_a_given_table_is_polished(method, start):
    """``init``, a table or its partners, is never made worse and never modified."""
    X, y = some_data(400)
    init = pair(X, y, start)
    before = init.partner.copy()
    polished = pair(X, y, method, init=init)
    assert (
        polished.partner.tolist() == pair(X, y, method, init=init.partner.tolist()).partner.tolist()
    )
    assert init.partner.tolist() == before.tolist()
    Z = signed_rows(X, y)
    assert (
        sum_of_products(Z, polished.partner)
        <= sum_of_products(Z, init.partner) + 1e-12 * (Z**2).sum()
    )


@pytest.mark.usefixtures("walk")
def test_polishing_follows_gradients_that_moved():
    """Nine tenths of a rebuild's reduction after a small step, from the table of before."""
    X, y = some_data(800)
    before, after = np.full(5, 0.5), np.full(5, 0.6)
    polished = pair(X, y, "tree", coef=after, init=pair(X, y, "tree", coef=before))
    rebuilt = pair(X, y, "tree", coef=after)
    gains = [1.0 - table.variance_ratio(X, y, coef=after) for table in (polished, rebuilt)]
    assert gains[0] >= 0.9 * gains[1]


@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.usefixtures("walk")
def test_a_table_of_another_length_is_not_polished(n):
    """Below and above one bucket, the error says both lengths.

    What is no permutation is refused too.
    """
    X, y = some_data(n)
    with pytest.raises(ValueError, match=rf"init= has 5 rows and X has {n}"):
        pair(X, y, "tree", init=AntitheticTable(range(5)))
    with pytest.raises(ValueError, match="permutation"):
        pair(X, y, "tree", init=np.zeros(n, dtype=int))


@pytest.mark.parametrize(
    "method", ["greedy", "optimal", "random", lambda rows: range(rows.shape[0])]
)
@pytest.mark.parametrize("argument", [{"init": [1, 0]}, {"budget": 1.0}])
def test_only_the_tree_can_be_polished_or_given_a_budget(method, argument):
    """Any other method refuses ``init`` and ``budget``, and says with which they go."""
    with pytest.raises(
        ValueError,
        match=rf'^{next(iter(argument))}= is supported only with method="tree" or "auto"',
    ):
        pair([[1.0], [2.0]], [0, 1], method, **argument)


@pytest.mark.parametrize("budget", [0, 0.0, -1.0, float("nan"), "a second"])
def test_a_budget_is_a_number_of_seconds(budget):
    """Nothing, less than nothing and no number are refused."""
    with pytest.raises(ValueError, match=r"budget must be a number of seconds above 0; got"):
        pair([[1.0], [2.0]], [0, 1], "tree", budget=budget)


@pytest.mark.usefixtures("walk")
def test_a_budget_is_kept():
    """Rounds end when the seconds are over, here with ten times as much for a slow machine.

    The table is no worse for more of them.
    """
    X, y = some_data(3000, 10)
    short = pair(X, y, "tree", budget=1e-9)
    begun = time.monotonic()
    longer = pair(X, y, "tree", budget=0.5)
    assert time.monotonic() - begun < 5.0
    assert longer.variance_ratio(X, y) <= short.variance_ratio(X, y)


@pytest.mark.usefixtures("walk")
def test_a_budget_is_not_spent_on_nothing():
    """Without a possible gain, as for equal or zero rows, rounds end after two despite a budget."""
    for rows in (np.ones((200, 2)), np.zeros((200, 2))):
        calls = []
        build_tree(Rows(rows), budget=0.5, progress=calls.append)
        assert len(calls) <= 4


@pytest.mark.parametrize("options", [{}, {"init": np.arange(400)}, {"budget": 0.2}])
@pytest.mark.usefixtures("walk")
def test_progress_counts_up(options):
    """Steps count up one by one, to the announced number unless there is a budget."""
    calls = []
    build_tree(Rows(some_data(400)[0]), progress=calls.append, **options)
    assert calls == sorted(set(calls))
    if not options:
        assert calls == list(range(1, tree.count_rounds(400) + 2))


@pytest.mark.usefixtures("walk")
def test_a_bar_is_shown_on_request(capsys):
    """``progress=True`` writes to the error stream, and the table is the same."""
    X, y = some_data(400)
    quiet = pair(X, y, "tree").partner
    assert capsys.readouterr().err == ""
    assert pair(X, y, "tree", progress=True).partner.tolist() == quiet.tolist()
    shown = capsys.readouterr()
    assert "pairing rows" in shown.err
    assert shown.out == ""


# ---- near the optimum


@given(rows=integer_rows(max_rows=30))
def test_few_rows_get_the_optimum(rows):
    """Up to one bucket the tree is the best table."""
    assert sum_of_products(rows, pair_rows(rows, "tree").partner) == least_cost(rows @ rows.T)


def test_the_optimum_ends_at_one_leaf(monkeypatch):
    """The tree is walked, and progress reported, from one row more than a bucket holds."""
    for n, walks in ((60, False), (61, True)):
        calls = []
        monkeypatch.setattr(tree, "ONE_LEAF", 60)
        build_tree(Rows(some_data(n)[0]), progress=calls.append)
        assert bool(calls) == walks


# Buckets forced on four seeds captured 0.979 to 0.994, but of splice_scale (60 features) only 0.844
# to 0.854, less than greedy's 0.906. It is whole in practice only because its 1000 rows are fewer
# than ONE_LEAF, so its bar is lower and it is not compared with greedy.
SETS = {
    "sonar_scale": 0.95,
    "breast-cancer_scale": 0.95,
    "diabetes_scale": 0.95,
    "splice": 0.95,
    "splice_scale": 0.8,
}


def check_captured(name, bar):
    X, y = datasets.load(name, return_X_y=True)
    table = pair(X, y, "tree")
    best = table.variance_ratio(X, y)
    assert best == pytest.approx(pair(X, y, "optimal").variance_ratio(X, y), rel=1e-12)
    with mock.patch.object(tree, "ONE_LEAF", 100):
        forced = pair(X, y, "tree").variance_ratio(X, y)
    assert 1.0 - forced >= bar * (1.0 - best)
    if bar >= 0.95:
        assert forced <= pair(X, y, "greedy").variance_ratio(X, y)


@pytest.mark.parametrize(("name", "bar"), SETS.items())
def test_the_tree_captures_the_optimal_reduction(name, bar):
    """All of it on the sets in the package, being small.

    And most of it, more than greedy, if buckets are forced to be small.
    """
    check_captured(name, bar)


@needs_data
def test_the_tree_captures_the_optimal_reduction_on_fourclass():
    """The same on a set that is not in the package."""
    check_captured("fourclass_scale", 0.95)


def test_more_rows_than_one_leaf_come_near_the_optimum():
    """ "auto" chooses the tree and says why; it captures 0.9 and is no worse than greedy."""
    X, y = some_data(tree.ONE_LEAF + 100, 8)
    table = pair(X, y)
    assert table.method == "tree"
    assert "auto chose the tree" in table.note
    best, found, quick = (
        some.variance_ratio(X, y) for some in (pair(X, y, "optimal"), table, pair(X, y, "greedy"))
    )
    assert 1.0 - found >= 0.9 * (1.0 - best)
    assert found <= quick
