"""Importance sampling, and groups drawn uniformly: unbiased, with the stated variance.

Both are checked by enumeration.
"""

from __future__ import annotations

import numpy as np
import pytest
from drive import DrawsBy, draws_of
from every_draw import every_draw, moments_of_steps
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from strategies import permutations

import antithetic
from antithetic import AntitheticTable, GroupTable
from antithetic._core import kernels
from antithetic.orders import Importance, Pairs, Shuffle, Uniform
from antithetic.orders.importance import PRIOR_SHARE, normalised, unit_probabilities
from antithetic.orders.units import NO_FACTORS, Units, cumulative, draw, drawable, weighted_batches
from antithetic.orders.variance import uniform_variance, weighted_variance
from antithetic.problem import Problem

TABLES = {  # with batch sizes small enough for all draws to be enumerated
    "rows": (4, None, (1, 2, 3, 4)),
    "matching": (4, AntitheticTable([1, 0, 3, 2]), (1, 2, 3, 4)),
    "rotation": (4, AntitheticTable([1, 2, 3, 0]), (1, 2, 3, 4)),
    "some rows their own partners": (5, AntitheticTable([0, 2, 1, 4, 3]), (1, 2, 3)),
    "groups of 2 and a rest": (5, GroupTable([4, 1, 0, 3, 2], 2), (2, 4)),
    "groups of 4 and a rest": (7, GroupTable([4, 1, 0, 3, 2, 6, 5], 4), (4,)),
    "groups without a rest": (4, GroupTable([2, 1, 0, 3], 2), (2, 4)),
}
CASES = [
    pytest.param(n, table, size, id=f"{name}-batch{size}".replace(" ", "-"))
    for name, (n, table, sizes) in TABLES.items()
    for size in sizes
]
HOW = ("bounds", "smooth bounds", "gradients", "own")


def small_problem(n, loss="log_loss", **options):
    """A few weighted rows with distinct gradients and no symmetries, and slopes at a point."""
    rng = np.random.default_rng(n)
    y = np.where(np.arange(n) % 2, 1.0, -1.0) if loss == "log_loss" else rng.normal(size=n)
    problem = Problem.build(
        rng.normal(size=(n, 2)) * rng.uniform(0.2, 3.0, size=(n, 1)), y, loss=loss, **options
    )
    return problem, problem.slopes(rng.normal(size=2))


def gradients_of(problem, slopes):
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    rows = np.column_stack([X, np.ones(problem.n)]) if problem.fit_intercept else X
    return slopes[:, None] * rows.astype(np.float64)


def unit_means(units, values):
    return np.stack(
        [values[rows].mean(axis=0) for rows in np.split(units.rows, units.starts[1:-1])]
    )


def probabilities_of(problem, table, how, slopes):
    if how == "own":
        return unit_probabilities(
            problem, table, np.arange(1.0, len(Units.of_table(problem.n, table)) + 1.0)
        )
    return unit_probabilities(
        problem, table, how.split()[-1], slopes, smooth=how == "smooth bounds"
    )


def weighted(n, size, seed, table, chances):
    """Draws of the units of a table by probabilities."""
    units = Units.of_table(n, table)
    chances = normalised(chances, len(units), "by")
    return DrawsBy(lambda rng: weighted_batches(units, size, chances, rng), seed)


def variance_of(problem, slopes, table, size, chances):
    """Stated variance of such draws."""
    units = Units.of_table(problem.n, table)
    return weighted_variance(problem, slopes, units, size, np.asarray(chances))


# ---- what is drawn


@pytest.mark.parametrize("how", ["uniform", *HOW])
@pytest.mark.parametrize(("n", "table", "size"), CASES)
def test_every_step_is_unbiased_and_has_the_stated_variance(n, table, size, how, monkeypatch):
    """Over all draws, each step's mean is the gradient and its variance is the stated one."""
    problem, slopes = small_problem(n)
    gradients = gradients_of(problem, slopes)
    if how == "uniform":
        sampler = draws_of("uniform", n, size, 0, table)
        stated = uniform_variance(problem, slopes, table, size)
    else:
        chances = probabilities_of(problem, table, how, slopes)
        sampler = weighted(n, size, 0, table, chances)
        stated = variance_of(problem, slopes, table, size, chances)
    expected, variances = moments_of_steps(sampler, gradients, monkeypatch)
    assert len(expected) == -(-n // size)
    np.testing.assert_allclose(
        expected, np.tile(gradients.mean(axis=0), (len(expected), 1)), atol=1e-12
    )
    # The first and second members of a pair have different variances.
    if size == 1 and isinstance(table, AntitheticTable):
        variances = variances[:2].mean()
    np.testing.assert_allclose(variances, stated, rtol=1e-10)


@pytest.mark.parametrize(("n", "table", "size"), CASES)
def test_without_the_factors_it_would_be_biased(n, table, size, monkeypatch):
    """With factors of 1 the expected step is not the gradient, and the enumeration shows it."""
    problem, slopes = small_problem(n)
    gradients = gradients_of(problem, slopes)
    sampler = weighted(n, size, 0, table, probabilities_of(problem, table, "own", slopes))
    forgotten = type(
        "Forgotten",
        (),
        {"batches": lambda _self, epoch: sampler.batches(epoch)._replace(factors=NO_FACTORS)},
    )()
    expected, _ = moments_of_steps(forgotten, gradients, monkeypatch)
    assert np.abs(expected - gradients.mean(axis=0)).max() > 1e-3


@given(st.data())
def test_the_priors_weigh_the_units_to_the_gradient(data):
    """sum q u is the gradient, for any permutation and groups of any size."""
    n = data.draw(st.integers(1, 12))
    order = data.draw(permutations(n))
    size = 2 ** data.draw(st.integers(0, n.bit_length() - 1))
    values = data.draw(arrays(np.float64, (n, 2), elements=st.integers(-4, 4)))
    for table in (None, AntitheticTable(order), GroupTable(order, size)):
        units = Units.of_table(n, table)
        np.testing.assert_allclose(units.prior.sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose(
            units.prior @ unit_means(units, values), values.mean(axis=0), atol=1e-12
        )


def test_uniform_rows_and_pairs_have_no_factors():
    """If all factors would be 1, none are passed to the solver.

    A group that is left over makes up for its size.
    """
    for table in (None, AntitheticTable([1, 0, 2])):
        sampler = draws_of("uniform", 3, 2, 0, table)
        assert not len(sampler.batches(0).factors)
    batches = draws_of("uniform", 7, 4, 0, GroupTable(np.arange(7), 4)).batches(0)
    lengths = np.diff(batches.starts)
    np.testing.assert_array_equal(batches.factors, np.repeat(4.0 / lengths, lengths))
    assert kernels.Batches(*batches[:4], steps=0, samples=0).counted == 8  # two full batches


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["rows", "rotation"])
def test_an_epoch_has_full_batches_only(name, size):
    """ceil(n / b) batches of b rows, pairs first and the lone row last.

    With b = 1 partners follow each other.
    """
    _, table, _ = TABLES[name]
    batches = weighted(4, size, 0, table, [0.1, 0.2, 0.3, 0.4]).batches(3)
    np.testing.assert_array_equal(np.diff(batches.starts), np.full(-(-4 // size), size))
    assert batches.rows.dtype == batches.starts.dtype == np.intp
    assert batches.factors.dtype == np.float64
    if table is not None:
        rows = batches.rows.reshape(-1, size)[:, : max(1, size // 2 * 2)].ravel()
        np.testing.assert_array_equal(rows[1::2], table.partner[rows[::2]])


@pytest.mark.parametrize("name", TABLES)
def test_an_epoch_depends_on_seed_and_number_alone(name):
    """The same seed and epoch give the same batches in any order of asking; others give others."""
    n, table, sizes = TABLES[name]
    chances = np.arange(1.0, len(Units.of_table(n, table)) + 1.0)

    def rows(seed, epochs):
        sampler = weighted(n, sizes[0], seed, table, chances)
        return [sampler.batches(epoch).rows.tolist() for epoch in epochs]

    later = rows(5, range(9))
    assert later == rows(5, range(8, -1, -1))[::-1]
    assert len({tuple(epoch) for epoch in later}) > 1
    assert later != rows(6, range(9))


@given(
    arrays(
        np.float64, st.integers(1, 9), elements=st.sampled_from([0.0, 1e-320, 1e-30, 0.3, 1.0, 7.0])
    ).filter(lambda p: p.max() > 0.1)
)
def test_what_has_no_probability_is_never_drawn(given):
    """A unit of probability zero is never drawn, not even at the ends of the range.

    And no index is out of range.
    """
    chances = given / given.sum()
    sums = cumulative(drawable(chances))
    assert sums[-1] == 1.0

    class Ends:
        def random(self, size):
            ends = np.concatenate([[0.0], sums, np.nextafter(sums, 0.0), [1.0 - 2.0**-53]])
            return np.resize(ends[ends < 1.0], size)

    drawn = draw(Ends(), sums, (1, 40))
    assert (chances[drawn] >= 2.0**-53).all()


def test_next_to_no_probability_has_no_factor_out_of_proportion():
    """A probability near zero gives no infinite factor: such a unit is never drawn."""
    chances = np.array([1e-320, 0.5, 0.5])
    drawn = weighted_batches(Units.of_table(3, None), 1, chances, np.random.default_rng(0))
    assert np.isfinite(drawn.factors).all()


# ---- probabilities


def plain_norms(problem, table, slopes):
    units = Units.of_table(problem.n, table)
    return units, np.linalg.norm(unit_means(units, gradients_of(problem, slopes)), axis=1)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("name", TABLES)
def test_probabilities_by_gradients(name, loss, fit_intercept):
    """Probabilities are proportional to prior times norm, plus a share of the prior."""
    n, table, _ = TABLES[name]
    problem, slopes = small_problem(
        n, loss, fit_intercept=fit_intercept, sample_weight=np.arange(n) + 0.5
    )
    units, norms = plain_norms(problem, table, slopes)
    wanted = units.prior * norms / (units.prior @ norms)
    np.testing.assert_allclose(
        unit_probabilities(problem, table, "gradients", slopes),
        (1 - PRIOR_SHARE) * wanted + PRIOR_SHARE * units.prior,
        rtol=1e-12,
    )


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("loss", "signs"), [("hinge", (0.0, 1.0)), ("epsilon_insensitive", (-1.0, 0.0, 1.0))]
)
@pytest.mark.parametrize("name", TABLES)
def test_probabilities_by_bounds(name, loss, signs, fit_intercept):
    """For rows and pairs the largest norm that any slopes between the extremes can make.

    For groups at least that.
    """
    n, table, _ = TABLES[name]
    rng, weight = np.random.default_rng(n), np.arange(n) / 2.0
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    problem = Problem.build(
        rng.normal(size=(n, 2)), y, loss=loss, fit_intercept=fit_intercept, sample_weight=weight
    )
    scale = problem.y * weight if loss == "hinge" else weight
    units = Units.of_table(n, table)
    largest = np.zeros(len(units))
    for corner in np.array(np.meshgrid(*[signs] * n)).reshape(n, -1).T:
        largest = np.maximum(largest, plain_norms(problem, table, corner * scale)[1])
    found = unit_probabilities(problem, table, "bounds")
    wanted = units.prior * largest
    if isinstance(table, GroupTable):
        norms = np.linalg.norm(gradients_of(problem, scale), axis=1)
        wanted = units.prior * unit_means(units, norms[:, None])[:, 0]
        assert (wanted >= units.prior * largest * (1.0 - 1e-12)).all()
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-12)


@pytest.mark.parametrize("name", TABLES)
def test_probabilities_by_smooth_bounds(name):
    """Half the prior, half the mean of s |x|^2."""
    n, table, _ = TABLES[name]
    weight = np.arange(n) / 2.0
    problem, _ = small_problem(n, sample_weight=weight, fit_intercept=True)
    units = Units.of_table(n, table)
    bounds = units.prior * unit_means(units, weight * ((problem.X**2).sum(axis=1) + 1.0))
    found = unit_probabilities(problem, table, "bounds", smooth=True)
    np.testing.assert_allclose(found, (bounds / bounds.sum() + units.prior) / 2.0, rtol=1e-12)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", TABLES)
def test_sparse_rows_and_single_precision(name, how):
    """CSR equals dense, and float32 is close to float64: probabilities and variance."""
    n, table, sizes = TABLES[name]
    problem, slopes = small_problem(n)
    X = np.where(np.arange(2 * n).reshape(n, 2) % 3, problem.X, 0.0)
    found = []
    for given_rows in (X, sparse.csr_array(X), X.astype(np.float32)):
        this = Problem.build(given_rows, problem.y)
        chances = probabilities_of(this, table, how, slopes)
        found.append((chances, variance_of(this, slopes, table, sizes[-1], chances)))
    for other, rtol in zip(found[1:], (1e-12, 1e-5), strict=True):
        np.testing.assert_allclose(other[0], found[0][0], rtol=rtol)
        np.testing.assert_allclose(other[1], found[0][1], rtol=rtol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("power", [-1000, -140, -60, 60, 120, 1000])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.filterwarnings("error")
def test_rows_and_weights_of_any_size(name, power, dtype):
    """Scaling all rows or all weights by a power of two does not change the probabilities."""
    if dtype == np.float32 and not -130 < power < 126:
        power //= 10
    n, table, _ = TABLES[name]
    X, y = np.arange(1.0, 2 * n + 1.0).reshape(n, 2).astype(dtype), np.arange(n) % 2
    weight = np.arange(n) + 1.0
    slopes = Problem.build(X, y).slopes()
    for how in HOW:
        usual = probabilities_of(Problem.build(X, y, sample_weight=weight), table, how, slopes)
        extreme = Problem.build(X * dtype(2.0**power), y, sample_weight=weight * 2.0 ** (-power))
        np.testing.assert_allclose(
            probabilities_of(extreme, table, how, slopes * 2.0**power), usual, rtol=1e-6
        )


def test_nothing_to_go_by_gives_the_prior():
    """All slopes zero, or all rows zero; and what can have no gradient need not be drawn."""
    problem, slopes = small_problem(5)
    table = GroupTable(np.arange(5), 4)
    np.testing.assert_array_equal(
        unit_probabilities(problem, table, "gradients", np.zeros(5)), [0.8, 0.2]
    )
    empty = Problem.build(np.zeros((4, 2)), [0, 1, 0, 1])
    for how in ("bounds", "gradients"):
        np.testing.assert_array_equal(unit_probabilities(empty, None, how), np.full(4, 0.25))
    idle = Problem.build([[1.0], [0.0], [2.0]], [0, 1, 1], sample_weight=[1.0, 1.0, 0.0])
    np.testing.assert_array_equal(unit_probabilities(idle, None, "bounds"), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(unit_probabilities(idle, None, [3, 0, 0]), [1.0, 0.0, 0.0])
    assert (unit_probabilities(idle, None, "bounds", smooth=True) > 0.0).all()
    assert variance_of(idle, idle.slopes(), None, 2, [1.0, 0.0, 0.0]) == 0.0
    assert slopes.any()


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        (None, [1.0, 2.0], r"shape \(5,\).*got \(2,\)"),
        (GroupTable(np.arange(5), 2), np.ones(5), r"shape \(3,\)"),
        (None, [1.0, -1.0, 1.0, 1.0, 1.0], "unit 1 has -1"),
        (None, [1.0, np.nan, 1.0, 1.0, 1.0], "unit 1 has nan"),
        (None, np.zeros(5), "zero for every unit"),
        (None, ["a"] * 5, "real numbers"),
        (None, [1.0, 1.0, 1.0, 1.0, 0.0], "unit 4.*gradient may differ"),
        (None, [1.0, 1.0, 1.0, 1.0, 1e-300], "unit 4.*gradient may differ"),
        (
            AntitheticTable([1, 0, 2, 4, 3]),
            [1.0, 1.0, 0.0, 1.0, 1.0],
            "unit 2.*gradient may differ",
        ),
    ],
)
def test_probabilities_that_are_refused(table, given, message):
    """The message says what is wrong and where."""
    problem, _ = small_problem(5)
    with pytest.raises(ValueError, match=message):
        unit_probabilities(problem, table, given)
    if not isinstance(given[0], str):  # which is refused when the order is made
        X, y = problem.X, problem.y
        with pytest.raises(ValueError, match=message):
            antithetic.minimize(X, y, order=Importance(given, pairs=table), batch_size=4, epochs=1)


def test_an_order_by_unknown_words_or_by_text_is_refused_when_it_is_made():
    """The message names the words that are known, or asks for real numbers."""
    with pytest.raises(ValueError, match="by 'size' is not known; use one of bounds, gradients"):
        Importance("size")
    with pytest.raises(ValueError, match="by must be a word, or real numbers"):
        Importance(["a"] * 5)


# ---- the variance


def test_importance_lowers_the_variance_to_that_of_the_directions():
    """Rows that are multiples of one another: drawn by their norms, no variance is left."""
    X, y = np.outer([1.0, 2.0, 5.0, 0.5], [1.0, 1.0]), [1.0, 1.0, 1.0, 1.0]
    options = {"loss": "epsilon_insensitive", "order": Importance("bounds")}
    assert antithetic.gradient_variance(X, y, **options) < 1e-30
    assert antithetic.gradient_variance(X, y, loss="epsilon_insensitive") > 1.0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_equal_gradients_have_no_variance(form, dtype):
    """Equal gradients have a variance of exactly zero, also in groups with rest and intercept."""
    X, y = form(np.full((1001, 3), 0.1, dtype=dtype)), np.full(1001, 0.7)
    for kind in (Uniform, Importance):
        found = antithetic.gradient_variance(
            X,
            y,
            loss="squared_error",
            order=kind(pairs=GroupTable(np.arange(1001), 4)),
            batch_size=8,
            fit_intercept=True,
        )
        assert found == 0.0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_no_digit_cancels(form):
    """Gradients that differ in the last digits only: the variance is theirs, not the rounding's."""
    X = form(1.0 + 2.0**-30 * np.array([[0.0], [1.0], [2.0], [3.0]]))
    found = antithetic.gradient_variance(
        X,
        np.zeros(4),
        [1.0],
        loss="epsilon_insensitive",
        order=Uniform(pairs=GroupTable([0, 1, 2, 3], 1)),
        batch_size=1,
    )
    np.testing.assert_allclose(found, 1.25 * 2.0**-60, rtol=1e-6)


@pytest.mark.parametrize("block", [1, 3, 7])
def test_the_variance_does_not_depend_on_blocks(monkeypatch, block):
    """The variance is the same in one block and in many."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(23, 3)) * (rng.random((23, 3)) < 0.6)
    for form in (np.asarray, sparse.csr_array):
        problem = Problem.build(form(X), np.arange(23) % 2, fit_intercept=True)
        slopes, table = problem.slopes(rng.normal(size=3)), GroupTable(rng.permutation(23), 4)
        chances = unit_probabilities(problem, table, "gradients", slopes)
        whole = variance_of(problem, slopes, table, 4, chances)
        with monkeypatch.context() as patch:
            patch.setattr("antithetic.problem.variance.block_rows", lambda _X: block)
            np.testing.assert_allclose(
                variance_of(problem, slopes, table, 4, chances), whole, rtol=1e-12
            )


def test_gradient_variance_takes_every_choice():
    """It is the variance of draws with the probabilities made at coef."""
    X, y = np.random.default_rng(3).normal(size=(9, 2)), np.arange(9) % 2
    problem, coef = Problem.build(X, y), np.array([0.5, -1.0])
    slopes = problem.slopes(coef)
    for table in (None, antithetic.pair(X, y), antithetic.pair(X, y, nest=2)):
        for how in ("bounds", "gradients", np.arange(1.0, len(Units.of_table(9, table)) + 1.0)):
            chances = unit_probabilities(problem, table, how, slopes)
            wanted = variance_of(problem, slopes, table, 4, chances)
            order = Importance(how, pairs=table)
            assert antithetic.gradient_variance(X, y, coef, order=order, batch_size=4) == wanted


# ---- what is refused


GROUPS = GroupTable(np.arange(11), 4)


@pytest.mark.parametrize(
    ("order", "size", "message"),
    [
        (Uniform(pairs=GROUPS), 3, r'groups of 4.*use batch_size=4, or order="shuffle"'),
        (Uniform(pairs=GROUPS), 6, r'use batch_size=4 or 8, or order="shuffle"'),
        (Importance(pairs=GROUPS), 10, r'use batch_size=8, or order="shuffle"'),
        (
            Uniform(pairs=Pairs(GROUPS, nest=True)),
            4,
            r"nested groups define an order.*shuffle.*balanced",
        ),
        (Importance(pairs=Pairs(GROUPS, nest=True)), 4, "nested groups define an order"),
        (Importance(np.ones(11), pairs=GROUPS), 4, r"by must have shape \(3,\).*got \(11,\)"),
    ],
    ids=["one size", "two sizes", "importance", "nested", "nested by importance", "numbers"],
)
def test_draws_of_groups_that_are_refused(order, size, message):
    """The message says what works, in minimize as in gradient_variance."""
    X, y = np.random.default_rng(0).normal(size=(11, 2)), np.arange(11) % 2
    for use in (antithetic.minimize, antithetic.gradient_variance):
        with pytest.raises(ValueError, match=message):
            use(X, y, order=order, batch_size=size)


def test_variances_that_are_refused():
    """Groups of other data, and orders of groups, have no variance."""
    X, y = [[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1]
    four = GroupTable(np.arange(4), 2)
    with pytest.raises(ValueError, match="a table of 5 rows and X has 4"):
        antithetic.gradient_variance(X, y, order=Uniform(pairs=GroupTable(np.arange(5), 2)))
    with pytest.raises(
        ValueError, match="not drawn at random, so they have no variance; use order='uniform'"
    ):
        antithetic.gradient_variance(X, y, order=Shuffle(pairs=four))
    with pytest.raises(ValueError, match="batch_size=2 or 4"):
        antithetic.gradient_variance(X, y, order=Uniform(pairs=four), batch_size=3)
    other = antithetic.pair([[1.0], [2.0], [3.0], [9.0]], y, nest=2)
    with pytest.raises(ValueError, match="made for other values of X"):
        antithetic.gradient_variance(X, y, order=Uniform(pairs=other))


def test_all_draws_have_probability_one_together(monkeypatch):
    """The enumeration itself: weights of cells sum to 1 and every unit appears."""
    sampler = weighted(3, 2, 0, None, [0.5, 0.25, 0.25])
    found = [
        (probability, batches.rows) for probability, batches in every_draw(sampler, monkeypatch)
    ]
    assert len(found) == 3**4
    np.testing.assert_allclose(sum(probability for probability, _ in found), 1.0)
    first = np.bincount(
        [rows[0] for _, rows in found], weights=[probability for probability, _ in found]
    )
    np.testing.assert_allclose(first, [0.5, 0.25, 0.25])
