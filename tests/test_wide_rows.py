"""Very wide sparse rows: columns without entries take no part, and the model is the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from antithetic import LogisticRegression, SGDClassifier, SGDRegressor
from antithetic.estimators import sgd_fit, used_columns
from antithetic.estimators.used_columns import UsedColumns
from antithetic.problem import Problem
from antithetic.problem.columns import moments_of
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.preconditioner import find_preconditioner, with_spread
from antithetic.stochastic import loop
from antithetic.stochastic.gap import estimate_gap, is_surely_wide
from antithetic.stochastic.step_search import sample_of

# Few rows and a weak penalty: that a fit says so is tested in test_units.py.
pytestmark = pytest.mark.filterwarnings("ignore:tol=")

WIDE = 5000
RNG = np.random.default_rng(0)
USED = np.sort(RNG.choice(WIDE, 12, replace=False))
DENSE = RNG.normal(size=(80, 12)) * (RNG.random((80, 12)) < 0.4)
Y = (DENSE @ RNG.normal(size=12) + 0.3 * RNG.normal(size=80) > 0.0).astype(int)
MANY = (DENSE[:, :3] + 0.1 * RNG.normal(size=(80, 3))).argmax(axis=1)


def wide(rows=DENSE, dtype=np.float64):
    X = sparse.lil_array((len(rows), WIDE), dtype=dtype)
    X[:, USED] = rows
    return sparse.csr_array(X)


@pytest.fixture
def everything(monkeypatch):
    """A function that has all columns take part from now on."""
    return lambda: monkeypatch.setattr(used_columns, "_WORTH", np.inf)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"penalty": "l1", "alpha": 1e-3},
        {"penalty": "elasticnet", "average": True},
        {"average": "linear"},
        {"solver": "svrg"},
        {"early_stopping": True, "max_iter": 6},
        {"order": "importance"},
        {"trace": ("gradient", "variance")},
    ],
    ids=str,
)
@pytest.mark.parametrize("labels", [Y, MANY], ids=["two classes", "three"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_fit_is_that_of_all_columns(everything, given, labels, dtype):
    """The same steps lead to the same model, and to the same record of it."""
    given = {"eta0": 0.05, "learning_rate": "constant", "max_iter": 4} | given
    given |= {"order": given.get("order", "shuffle"), "random_state": 0, "tol": None}
    if given.get("solver") == "svrg":
        given |= {"learning_rate": "auto", "order": "shuffle"}
    models = []
    for _ in range(2):
        models.append(SGDClassifier("log_loss", **given).fit(wide(dtype=dtype), labels))
        everything()
    ours, theirs = models
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.coef_.dtype == theirs.coef_.dtype
    close = {"rtol": 1e-9, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-6}
    np.testing.assert_allclose(ours.coef_, theirs.coef_, **close)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, **close)
    histories = [
        model.history_ if isinstance(model.history_, list) else [model.history_] for model in models
    ]
    for one, other in zip(*histories, strict=True):
        for name in set(one) - {"seconds"}:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-3)
    for model in models:  # what was kept is as wide as the weights
        model.partial_fit(wide(dtype=dtype), labels)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=10 * close["rtol"], atol=1e-5)


@pytest.mark.parametrize("penalty", ["l2", None, "l1"])
@pytest.mark.parametrize("average", [False, True])
def test_chunks_with_other_columns_lead_to_the_model_of_all_columns(everything, penalty, average):
    """Weights of columns that a chunk lacks shrink by the penalty as they would among all."""
    given = {"learning_rate": "constant", "eta0": 0.05, "alpha": 0.02, "average": average}
    models = []
    for _ in range(2):
        model = SGDClassifier("log_loss", penalty=penalty, random_state=0, **given)
        for start in range(0, 80, 20):
            rows = DENSE[start : start + 20].copy()
            rows[:, start // 20 :: 4] = 0.0  # other columns are without entries in each chunk
            chunk = wide(rows)
            chunk.eliminate_zeros()
            model.partial_fit(chunk, Y[start : start + 20], classes=[0, 1])
        models.append(model)
        everything()
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(models[0].intercept_, models[1].intercept_, rtol=1e-9)


def test_a_start_elsewhere_keeps_all_columns(everything):
    """Weights that begin elsewhere shrink in all columns, with entries or without."""
    first = np.linspace(-1.0, 1.0, WIDE)
    models = []
    for _ in range(2):
        given = {"eta0": 0.01, "alpha": 0.1, "max_iter": 3, "tol": None, "random_state": 0}
        model = SGDRegressor(learning_rate="constant", **given)
        models.append(model.fit(wide(), Y.astype(float), coef_init=first))
        everything()
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert not np.array_equal(models[0].coef_, first)


def test_the_kernels_never_see_a_column_without_entries(monkeypatch):
    """No epoch and no chunk works on more columns than have entries."""
    widths = []
    made = Problem.__post_init__
    monkeypatch.setattr(
        Problem, "__post_init__", lambda self: (widths.append(self.X.shape[1]), made(self))[1]
    )
    model = SGDClassifier("log_loss", random_state=0).fit(wide(), Y)
    model.partial_fit(wide(), Y)
    assert set(widths) == {12, 13}  # one more for the weights that only shrink
    assert model.coef_.shape == (1, WIDE)


@pytest.mark.parametrize("sorts", [1, 10**9])
def test_columns_are_found_either_way(monkeypatch, sorts):
    monkeypatch.setattr(used_columns, "_SORTED", sorts)
    found = UsedColumns.of(wide())
    assert found.used.tolist() == USED.tolist()
    np.testing.assert_array_equal(found.narrow(wide()).toarray(), DENSE)
    assert UsedColumns.of(sparse.csr_array(DENSE)) is None
    assert UsedColumns.of(sparse.csr_array((3, WIDE))).used.tolist() == [0]


@pytest.mark.parametrize(("per_column", "measured"), [(2, False), (8, True)])
def test_columns_with_few_entries_are_not_measured(monkeypatch, per_column, measured):
    """A mean or a spread of two entries says nothing, and costs more than epochs of such rows."""
    seen = []
    monkeypatch.setattr(sgd_fit, "moments_of", lambda *given: seen.append(1) or moments_of(*given))
    rows = np.tile(np.arange(40), per_column)
    X = sparse.csr_array((np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), 40))
    SGDClassifier("log_loss", max_iter=2, tol=None).fit(X, np.arange(len(rows)) % 2)
    assert bool(seen) == measured


def texts(n, words, width=2**18, seed=11):
    """Rows of norm 1 with this many words each, drawn by Zipf's law, and noisy labels."""
    rng = np.random.default_rng(seed)
    columns = np.minimum(rng.zipf(1.2, size=n * words), 10 * width) * 2_654_435_761 % width
    X = sparse.csr_array(
        (np.ones(n * words), columns, np.arange(0, n * words + 1, words)), shape=(n, width)
    )
    X.sum_duplicates()
    X = sparse.csr_array(X.multiply(1.0 / np.sqrt(X.power(2).sum(axis=1))[:, None]))
    scores = X @ rng.normal(size=width)
    return X, (scores + 0.3 * scores.std() * rng.normal(size=n) > np.median(scores)).astype(int)


def objective(model, X, y):
    losses = np.logaddexp(0.0, np.where(y > 0, -1.0, 1.0) * model.decision_function(X))
    return losses.mean() + 0.5 * 1e-4 * (model.coef_**2).sum()


@pytest.mark.parametrize(("n", "words", "seed"), [(4000, 40, 12), (4000, 20, 13)])
def test_rows_of_words_are_centred_and_end_near_the_minimum(n, words, seed):
    """Frequent words put the centre of the rows far from zero, whatever a short trial says."""
    X, y = texts(n, words, seed=seed)
    model = SGDClassifier("log_loss", random_state=0).fit(X, y)
    minimum = objective(LogisticRegression(C=1.0 / (1e-4 * n), tol=1e-6).fit(X, y), X, y)
    assert objective(model, X, y) - minimum < 0.002 * (np.log(2.0) - minimum)
    assert model.n_iter_ <= 25


def words_problem(X, y, loss="log_loss"):
    return Problem(X, 2.0 * y - 1.0, LOSSES[loss], ElasticNet(1e-4), None, True, None)


def test_while_an_epoch_gains_more_than_may_be_left_nothing_is_estimated():
    """One per cent of the way from a constant may be left: 0.005 of what is 0.5 here."""
    X, y = texts(400, 20)
    smooth, kink = words_problem(X, y), words_problem(X, y, "hinge")
    reached = np.log(2.0) - 0.5
    fast, slow = ([reached + k * fall for k in (2, 1, 0)] for fall in (0.006, 0.004))
    assert is_surely_wide(smooth, fast)
    assert not is_surely_wide(smooth, slow)
    assert not is_surely_wide(smooth, fast[1:])  # a single fall may be chance
    assert not is_surely_wide(kink, fast)  # whose estimate costs no more than an epoch
    few = sparse.csr_array(X[:, :100])
    assert not is_surely_wide(words_problem(few, y), fast)  # the Hessian is a small matrix


def test_a_run_that_is_surely_far_goes_on_without_an_estimate(monkeypatch):
    """It is estimated once, when epochs have become short."""
    asked, estimates = [], []

    def surely(*given):
        asked.append(given)
        return len(asked) <= 3

    def estimated(*given, **known):
        estimates.append(given)
        return estimate_gap(*given, **known)

    monkeypatch.setattr(loop, "is_surely_wide", surely)
    monkeypatch.setattr(loop, "estimate_gap", estimated)
    X, y = texts(1500, 20)
    epochs = SGDClassifier("log_loss", random_state=0).fit(X, y).n_iter_
    assert len(asked) >= 4
    assert len(estimates) == len(asked) - 3
    monkeypatch.setattr(loop, "is_surely_wide", lambda *_: False)
    assert epochs == SGDClassifier("log_loss", random_state=0).fit(X, y).n_iter_ + 3


def test_a_sample_of_long_sparse_rows_has_fewer_of_them():
    """The search for steps visits a bounded number of entries, and of each class some rows."""
    few, many = (
        sample_of(words_problem(X, y), 0)
        for X, y in (texts(1500, 500, width=2**22), texts(1500, 20))
    )
    assert 300 <= few.n < 600
    assert few.X.nnz < 100_000
    assert many.n == 1000
    assert set(few.y) == {-1.0, 1.0}


def test_lengths_of_sparse_rows_are_those_of_dense_ones():
    """In centred columns, each in its own units, with the intercept's 1."""
    X, y = texts(200, 30, width=2**8)
    sums = with_spread(moments_of(X, None))
    units = find_preconditioner(words_problem(X, y), sums)
    rows = units.rows(X.toarray())
    assert units.squares(X) == pytest.approx((rows**2).sum(axis=1), rel=1e-10)
    assert units.squares(X.toarray()) == pytest.approx((rows**2).sum(axis=1), rel=1e-12)


@pytest.mark.parametrize("loss", ["squared_error", "huber", "poisson", "quantile"])
def test_no_wide_table_is_made_of_sparse_rows(monkeypatch, loss):
    """Not even of a sample, for slopes without a bound: it would be gigabytes."""
    make = sparse.csr_array.toarray

    def of_few_columns(self, *given, **options):
        assert self.shape[1] <= 200, f"a table of {self.shape} was made"
        return make(self, *given, **options)

    monkeypatch.setattr(sparse.csr_array, "toarray", of_few_columns)
    X, y = texts(2000, 40)
    model = SGDRegressor(loss, random_state=0).fit(X, y + 1.0)
    assert model.gap_ >= 0.0
