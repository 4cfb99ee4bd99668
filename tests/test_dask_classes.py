"""Many classes on Dask: the sums, samples, solution and bound of one machine, from any blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask
from dask_cases import cluster, in_blocks
from test_sums_protocol import compare

import antithetic
from antithetic.dask import LogisticRegression
from antithetic.dask.class_sums import ClassBlockSums
from antithetic.dask.common import Common
from antithetic.dask.reading import read_blocks
from antithetic.dask.scan import Look, census_of, look
from antithetic.estimators.one_vs_rest import AllClasses
from antithetic.exact.certificate import certified_gap
from antithetic.exact.class_sums import ClassSample, ClassSums
from antithetic.exact.many_classes import shared_factor
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.softmax import SoftmaxProblem

BLOCKS = [700, 0, 1100, 1200]


def many_classes(n=3000, d=6, classes=4, seed=0):
    """Rows of scales 1e-2 to 1e2, far from zero, sorted by class; the last class is rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, classes)) - np.linspace(0.0, 6.0, classes)
    codes = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    order = np.argsort(codes, kind="stable")
    X = (X + 3.0) * 10.0 ** np.linspace(-2.0, 2.0, d)
    return X[order], np.array([f"class {k}" for k in range(classes)])[codes[order]]


X, Y = many_classes()
CLASSES = np.unique(Y)


@pytest.fixture(scope="module")
def client():
    with cluster(processes=False) as one:
        yield one


def sums_of(client, rows, *, weight=None, fit_intercept=True, by_class=None, penalty=None):
    """Sums over blocks, and those of one machine."""
    loss, penalty = LOSSES["log_loss"], penalty or ElasticNet(1e-3)
    parts = AllClasses(CLASSES, by_class)
    blocks = read_blocks(*in_blocks(rows, Y, BLOCKS), weight, client=client)
    glances = look(client, blocks, Look(loss))
    common = Common(loss, penalty, fit_intercept, parts, len(Y))
    far = ClassBlockSums(client, blocks, common, census_of(glances, CLASSES, loss))
    codes = parts.target(Y, 0)
    weights = parts.weigh(codes, weight, 0)
    near = ClassSums(rows, codes.astype(np.intp), len(CLASSES), penalty, weights, far.centre)
    return far, near


@pytest.mark.parametrize("penalty", [ElasticNet(1e-3), ElasticNet(0.0, 1e-3), ElasticNet()])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sums_are_those_of_one_machine(client, fit_intercept, penalty):
    """Every answer to the solver is that of all rows together, for any blocks."""
    rng = np.random.default_rng(1)
    by_class = np.array([1.0, 2.5, 1.0, 0.5])
    about = {"fit_intercept": fit_intercept, "by_class": by_class, "penalty": penalty}
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    far, near = sums_of(client, rows, weight=rng.random(len(X)), **about)
    for step_size in (0.01, 3.0):
        compare(far, near, step_size, has_same_samples=False)  # class weights come after the look
    scale = np.append(np.tile(X.std(axis=0), 4), np.ones(4 * fit_intercept))
    far, near = sums_of(client, X, fit_intercept=fit_intercept, penalty=penalty)
    theta, along = (near.in_gauge(rng.normal(size=near.columns) / scale) for _ in range(2))
    there, here = far.at(theta), near.at(theta)
    product = near.times(here, along)
    np.testing.assert_allclose(far.times(there, along), product, atol=1e-9 * product.max())
    mine, theirs = (shared_factor(some, there, 0).solve(along) for some in (far, near))
    np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())
    assert certified_gap(far, there) == pytest.approx(certified_gap(near, here), rel=1e-9)


def test_float32_is_refined_to_float64(client):
    """Products of float32 serve first; refined rows have the sums of float64."""
    centred = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    far, _ = sums_of(client, centred)
    theta = np.linspace(-1.0, 1.0, far.columns)
    finer = far.refined()
    assert far.kind is np.float32
    assert finer.refined() is None
    exact = sums_of(client, centred.astype(np.float64))[0].at(theta)
    gradient = finer.at(theta).gradient
    np.testing.assert_allclose(gradient, exact.gradient, atol=1e-9)
    assert np.abs(far.at(theta).gradient - exact.gradient).max() > 1e-9
    assert far.rounds == finer.rounds == 2


def test_the_sample_is_that_of_one_machine(client):
    """Rare classes are drawn more often, and count less."""
    far, near = sums_of(client, X)
    (mine,), theirs = far.samples([200.0], 4), ClassSample(near, 200.0, 4).sums
    np.testing.assert_array_equal(mine.sums.X, theirs.X)
    np.testing.assert_array_equal(mine.sums.labels, theirs.labels)
    np.testing.assert_allclose(mine.sums.weight, theirs.weight, rtol=1e-12)
    counts = np.array([np.sum(name == Y) for name in CLASSES])
    drawn = np.bincount(mine.sums.labels)
    assert drawn[-1] / drawn.sum() > 2.0 * counts[-1] / len(Y)


@pytest.mark.parametrize(
    "about",
    [{}, {"fit_intercept": False}, {"l1_ratio": 0.5}, {"l1_ratio": 1.0}, {"C": np.inf}],
    ids=repr,
)
def test_a_certified_optimum_from_sorted_blocks(client, about):
    """Sorted blocks, one of them empty, and unscaled columns: one machine's optimum and bound."""
    given, rows = {"C": 0.3, "tol": 1e-7} | about, X
    if "l1_ratio" in about:
        rows = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(**given, client=client).fit(*in_blocks(rows, Y, BLOCKS))
    # of L1 alone the bound is of first order: rounding of the weights ends it near 1e-8
    closer = 1e-7 if about.get("l1_ratio") == 1.0 else 1e-9
    one = antithetic.LogisticRegression(**given | {"tol": closer}).fit(rows, Y)
    assert model.classes_.tolist() == CLASSES.tolist()
    assert model.coef_.shape == (4, 6)
    assert model.gap_ <= 1e-7
    assert model.gap_certified_
    assert (model.coef_error_ <= 0.01) == np.isinf(given["C"])
    scores = [m.predict_log_proba(rows) for m in (model, one)]
    np.testing.assert_allclose(*scores, atol=3e-2)
    np.testing.assert_allclose(model.intercept_.sum(), 0.0, atol=1e-9)
    if not np.isinf(given["C"]) and "l1_ratio" not in about:
        assert model.n_rounds_ <= 16


def test_the_bound_is_above_the_distance_to_the_optimum(client):
    """It holds after any number of iterations, with intercepts, which make it difficult."""
    data = in_blocks(X, Y, BLOCKS)
    problem = SoftmaxProblem.build(X, Y, l2=1.0 / len(X), fit_intercept=True)
    one = antithetic.LogisticRegression(tol=1e-12).fit(X, Y)
    least = problem.objective(one.coef_, one.intercept_)
    shares = np.unique(Y, return_counts=True)[1] / len(Y)
    base = -float(shares @ np.log(shares)) - least
    for many in range(4):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("antithetic.dask.learner.warn", lambda *_: None)
            model = LogisticRegression(tol=1e-12, max_iter=many, client=client).fit(*data)
        distance = problem.objective(model.coef_, model.intercept_) - least
        assert distance <= model.gap_ * base * (1.0 + 1e-6) + 1e-13
        assert model.gap_certified_


@pytest.mark.parametrize("form", ["sparse", "float32", "frame", "delayed"])
def test_collections_of_every_kind(client, form):
    """Sparse, single, named and delayed rows lead to the probabilities of one machine."""
    rows, labels = in_blocks(X, Y, BLOCKS)
    if form == "sparse":
        rows = rows.map_blocks(sparse.csr_matrix)
    elif form == "float32":
        rows = rows.astype(np.float32)
    elif form == "frame":
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")).assign(y=Y), npartitions=3)
        rows, labels = frame[list("abcdef")], frame["y"]
    else:
        rows, labels = rows.to_delayed().ravel().tolist(), labels.to_delayed().ravel().tolist()
    model = LogisticRegression(tol=1e-6, client=client).fit(rows, labels)
    one = antithetic.LogisticRegression(tol=1e-9).fit(X, Y)
    chances = model.predict_proba(rows).compute(scheduler="sync")
    np.testing.assert_allclose(chances, one.predict_proba(X), atol=0.01)
    scores = model.decision_function(rows).compute(scheduler="sync")
    np.testing.assert_allclose(softmax(scores, axis=1), chances, atol=1e-6)
    assert model.predict(rows).compute(scheduler="sync").dtype == CLASSES.dtype
    assert model.score(rows, labels) > 0.6


def test_weights_of_rows_and_classes(client):
    """Balanced classes count rows by their weights, as on one machine."""
    weight = np.linspace(0.0, 2.0, len(X))
    about = {"class_weight": "balanced", "tol": 1e-9}
    model = LogisticRegression(**about, client=client).fit(
        *in_blocks(X, Y, BLOCKS), sample_weight=weight
    )
    one = antithetic.LogisticRegression(**about).fit(X, Y, weight)
    np.testing.assert_allclose(model.predict_proba(X), one.predict_proba(X), atol=1e-4)


def wide_rows(n=2400, d=300, classes=8):
    """So many weights that classes share a matrix."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    scores = rows[:, :20] @ rng.normal(size=(20, classes))
    return rows, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def test_a_sample_is_the_start_where_classes_share_a_matrix(client):
    """Newton's steps are those of a sample, by conjugate gradients, and begin with its solution."""
    rows, y = wide_rows()
    data = in_blocks(rows, y, [1200, 1200])
    model = LogisticRegression(C=0.01, tol=1e-6, client=client).fit(*data)
    one = antithetic.LogisticRegression(C=0.01, tol=1e-9).fit(rows, y)
    assert model.plan_.method == "conjugate gradients"
    assert model.plan_.samples
    assert model.gap_ <= 1e-6
    np.testing.assert_allclose(model.predict_proba(rows), one.predict_proba(rows), atol=1e-2)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_systems_are_solved_with_a_sample_if_rows_are_many(client, monkeypatch, storage):
    """Gradients alone need all rows, so a fit takes few rounds.

    A rare class, and columns of very different scales that are far from zero.
    """
    as_if_many(monkeypatch)
    data = in_blocks(X, Y, BLOCKS) if storage is np.asarray else in_parts(storage(X))
    model = LogisticRegression(C=0.1, tol=1e-8, client=client).fit(*data)
    assert model.plan_.method == "conjugate gradients"
    assert model.gap_ <= 1e-8
    assert model.gap_certified_
    assert model.n_rounds_ <= 25
    one = antithetic.LogisticRegression(C=0.1, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), one.predict_proba(X), atol=1e-3)


def as_if_many(monkeypatch):
    """Choose the model as if 24 weights were many, with room for a part of the rows."""
    monkeypatch.setattr("antithetic.dask.class_sums.FEW_WEIGHTS", 20)
    monkeypatch.setattr("antithetic.dask.asking._SAMPLED_BYTES", 120_000.0)


def in_parts(rows):
    """Delayed blocks of sparse rows and their labels."""
    ends = np.cumsum(BLOCKS)
    parts = [slice(end - many, end) for end, many in zip(ends, BLOCKS, strict=True)]
    return [[dask.delayed(of[part]) for part in parts] for of in (rows, Y)]


@pytest.mark.parametrize("kind", ["hessian", "shared", "sampled", "float32", "l1"])
def test_a_checkpoint_resumes_to_the_same_gap(client, kind, tmp_path, monkeypatch):
    """A fit resumed after any iteration ends with the same bound on the gap, with any model."""
    path, given = tmp_path / "fit.npz", {"tol": 1e-8, "C": 0.1}
    rows, y, lengths = X, Y, BLOCKS
    if kind == "sampled":
        as_if_many(monkeypatch)
        rows = X.astype(np.float32)
    elif kind == "shared":
        rows, y = wide_rows()
        lengths = [1200, 1200]
        given |= {"C": 0.01, "fit_intercept": False}
    elif kind == "float32":
        rows = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    elif kind == "l1":
        given["l1_ratio"] = 0.5
    data = in_blocks(rows, y, lengths)

    def fit(**more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("antithetic.dask.learner.warn", lambda *_: None)
            return LogisticRegression(**given | more, client=client).fit(*data)

    whole = fit()
    for many in (0, 1, 3):
        fit(max_iter=many, checkpoint=path)
        assert path.exists() == (many > 0)
        resumed = fit(checkpoint=path)
        assert resumed.gap_ <= given["tol"]
        assert resumed.gap_certified_
        chances = [model.predict_proba(rows) for model in (resumed, whole)]
        np.testing.assert_allclose(*chances, atol=1e-3)
        path.unlink()


def test_warm_start(client):
    """The weights of the last fit are where the next begins."""
    data = in_blocks(X, Y, BLOCKS)
    model = LogisticRegression(tol=1e-8, warm_start=True, client=client).fit(*data)
    before = model.n_iter_[0]
    assert model.fit(*data).n_iter_[0] <= before


def test_weights_sum_to_zero_without_a_penalty(client):
    """The same number added to a weight of every class changes nothing, so it is left out."""
    rows, labels = many_classes(classes=3, seed=1)
    start = np.arange(18.0).reshape(3, 6) / 10.0 ** np.linspace(-2.0, 2.0, 6)
    model = LogisticRegression(C=np.inf, warm_start=True, max_iter=30, client=client)
    model.classes_, model.coef_, model.intercept_ = np.unique(labels), start, np.zeros(3)
    model.fit(*in_blocks(rows, labels, BLOCKS))
    np.testing.assert_allclose(
        model.coef_.sum(axis=0), 0.0, atol=1e-10 * float(np.abs(model.coef_).max())
    )
    np.testing.assert_allclose(model.intercept_.sum(), 0.0, atol=1e-10)


def test_a_class_that_only_the_last_block_has(client):
    """Such a class is treated like the others, even with three rows."""
    late = np.where(np.arange(len(X)) < len(X) - 3, Y, "new")
    model = LogisticRegression(client=client).fit(*in_blocks(X, late, BLOCKS))
    assert model.classes_.tolist() == np.unique(late).tolist()
    assert model.gap_ <= 1e-4
    delayed = [[dask.delayed(part[:0]), dask.delayed(part)] for part in (X, late)]
    again = LogisticRegression(client=client).fit(*delayed)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=0.02)
