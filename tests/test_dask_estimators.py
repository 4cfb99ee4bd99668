"""Estimators on Dask: they reach the optimum of all rows for any blocks, and refuse clearly.

Parameters and attributes have the names of the estimators on one machine.
"""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask.array as da
from dask_cases import cluster, in_blocks, labelled, objective

import antithetic
from antithetic.dask import SGDClassifier, SGDRegressor, pair
from antithetic.dask.checkpoint import load
from antithetic.estimators.model_file import LinearModel
from antithetic.orders import Balanced, Pairs, Shuffle, Uniform
from antithetic.orders.in_order import InOrder
from antithetic.penalties import GroupLasso
from antithetic.problem import Problem
from antithetic.steps import Constant

X, Y = labelled(600)
SORTED = np.argsort(Y, kind="stable")
CASES = {
    "equal": ([200] * 3, np.arange(600)),
    "one": ([600], np.arange(600)),
    "unequal, sorted by label": ([10, 290, 0, 300], SORTED),
}


@pytest.fixture(scope="module")
def client():
    with cluster(processes=False) as one:
        yield one


def classifier(client, /, **changes):
    chosen = {
        "loss": "log_loss",
        "alpha": 1e-2,
        "max_iter": 16,
        "tol": None,
        "random_state": 0,
        "solver": "svrg",
        "client": client,
    } | changes
    return SGDClassifier(**chosen)


@cache
def least_of_all():
    return least(X, Y)


def least(rows, labels, *, l2=1e-2, fit_intercept=True, **about):
    """Least objective, by full gradient steps with momentum until nothing moves."""
    problem = Problem.build(rows, labels, l2=l2, fit_intercept=fit_intercept, **about)
    w, v, step = np.zeros(problem.d + 1), np.zeros(problem.d + 1), 0.5 / problem.row_curvature()
    for k in range(3000):
        ahead = w + k / (k + 3.0) * (w - v)
        data, constant = problem.gradient(ahead[:-1], ahead[-1])
        w, v = ahead - step * np.append(data, constant), w
    return problem.objective(w[:-1], w[-1])


@pytest.mark.parametrize(("lengths", "order"), CASES.values(), ids=list(CASES))
def test_the_optimum_of_all_rows_is_found(client, lengths, order):
    """The optimum of all rows is found even if blocks are unequal, empty, or of one class."""
    model = classifier(client).fit(*in_blocks(X[order], Y[order], lengths))
    best = least_of_all()
    assert objective(model, X, Y) - best < (1e-7 if order is SORTED else 1e-10) * (
        np.log(2.0) - best
    )
    assert model.history_["objective"][-1] == pytest.approx(objective(model, X, Y), rel=1e-12)
    assert (np.diff(model.history_["objective"]) <= 0.0).all()
    assert model.score(*in_blocks(X, Y, lengths)) == pytest.approx(model.to_local().score(X, Y))


@pytest.mark.parametrize("loss", ["hinge", "modified_huber"])
def test_other_losses_come_near_their_optimum(client, loss):
    """Other losses come near their optimum on sorted blocks; those with a kink within 1 %."""
    model = classifier(client, loss=loss, max_iter=12).fit(
        *in_blocks(X[SORTED], Y[SORTED], [200] * 3)
    )
    reference = antithetic.SGDClassifier(
        loss=loss, alpha=1e-2, max_iter=300, tol=None, random_state=0
    ).fit(X, Y)
    start = Problem.build(X, Y, loss=loss).loss_at_zero()
    assert objective(model, X, Y) - objective(reference, X, Y) < 1e-2 * (
        start - objective(reference, X, Y)
    )


@pytest.mark.parametrize("form", ["sparse", "float32", "data frame", "delayed", "memory"])
def test_collections_of_every_kind(client, form):
    """Collections of all kinds lead to the same optimum; data frames name the features."""
    rows, labels = in_blocks(X, Y, [300] * 2)
    if form == "sparse":
        rows = rows.map_blocks(sparse.csr_matrix)
    elif form == "float32":
        rows = rows.astype(np.float32)
    elif form == "data frame":
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        frame = dd.from_pandas(
            pd.DataFrame(X, columns=list("abcde")).assign(label=np.where(Y, "yes", "no")),
            npartitions=2,
        )
        rows, labels = frame[list("abcde")], frame["label"]
    elif form == "delayed":
        rows, labels = rows.to_delayed().ravel().tolist(), labels.to_delayed().ravel().tolist()
    elif form == "memory":
        rows, labels = X, Y
    model = classifier(client, max_iter=5).fit(rows, labels)
    reached = objective(model, X, Y)
    assert reached - least_of_all() < 1e-4
    assert model.coef_.dtype == (np.float32 if form == "float32" else np.float64)
    if form == "data frame":
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.feature_names_in_.tolist() == list("abcde")
        assert (
            model.predict(rows).compute(scheduler="sync").tolist()
            == model.to_local().predict(pd.DataFrame(X, columns=list("abcde"))).tolist()
        )
        assert model.score(rows, labels) == pytest.approx(
            (
                (model.to_local().predict(pd.DataFrame(X, columns=list("abcde"))))
                == np.where(Y, "yes", "no")
            ).mean()
        )


def test_predictions_are_lazy_on_collections_and_arrays_on_arrays(client):
    """Predictions are lazy for collections and arrays for arrays, with equal values."""
    rows, labels = in_blocks(X, Y, [300] * 2)
    model = classifier(client, max_iter=2).fit(rows, labels)
    local = model.to_local()
    assert type(local) is antithetic.SGDClassifier
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        lazy = getattr(model, method)(rows)
        assert isinstance(lazy, da.Array)
        computed = lazy.compute(scheduler="sync")
        assert (lazy.shape, lazy.dtype) == (computed.shape, computed.dtype)
        np.testing.assert_array_equal(computed, getattr(local, method)(X))
        np.testing.assert_array_equal(getattr(model, method)(X), computed)
    weight = np.linspace(0.0, 1.0, 600)
    assert model.score(rows, labels, da.from_array(weight, chunks=300)) == pytest.approx(
        local.score(X, Y, weight)
    )


def test_more_than_two_classes_are_one_problem_each(client):
    """Each class reaches its optimum and has its own history."""
    rows, labels = labelled(450, classes=3)  # sorted, so that each block has one class
    order = np.argsort(labels, kind="stable")
    model = classifier(client, max_iter=15).fit(*in_blocks(rows[order], labels[order], [150] * 3))
    assert model.coef_.shape == (3, 5)
    assert len(model.history_) == 3
    for k in range(3):
        reached = Problem.build(rows, labels == k, l2=1e-2, fit_intercept=True).objective(
            model.coef_[k], model.intercept_[k]
        )
        assert reached - least(rows, labels == k) < 1e-7
    lazy = model.predict_proba(da.from_array(rows, chunks=(100, -1)))
    assert lazy.shape == (450, 3)
    np.testing.assert_array_equal(
        lazy.compute(scheduler="sync"), model.to_local().predict_proba(rows)
    )


@pytest.mark.parametrize("loss", ["squared_error", "huber", "epsilon_insensitive"])
def test_regression(client, loss):
    """Numbers are learnt, and R2 is joined from the blocks without losing digits."""
    rng = np.random.default_rng(0)
    y = X @ [1.0, -2.0, 3.0, 0.0, 1.0] + 1e3 + 0.1 * rng.normal(size=600)
    model = SGDRegressor(
        loss=loss, alpha=1e-6, max_iter=10, tol=None, random_state=0, client=client
    )
    if loss != "squared_error":
        y = y - 1e3
    model.fit(*in_blocks(X, y, [300] * 2))
    assert model.coef_.shape == (5,)
    np.testing.assert_allclose(model.coef_, [1.0, -2.0, 3.0, 0.0, 1.0], atol=0.05)
    assert model.score(*in_blocks(X, y, [200] * 3)) == pytest.approx(
        model.to_local().score(X, y), rel=1e-9
    )
    np.testing.assert_array_equal(
        model.predict(da.from_array(X, chunks=(300, -1))).compute(scheduler="sync"),
        model.predict(X),
    )


def test_weights_and_class_weights_are_those_of_one_machine(client):
    """The optimum is that of the weighted problem."""
    weight = np.linspace(0.1, 2.0, 600)
    rows, labels = in_blocks(X, Y, [100, 500])
    model = classifier(client, max_iter=10, class_weight={0: 1.0, 1: 3.0}).fit(
        rows, labels, sample_weight=da.from_array(weight, chunks=120)
    )
    both = weight * np.where(Y == 1, 3.0, 1.0)
    assert objective(model, X, Y, sample_weight=both) - least(X, Y, sample_weight=both) < 1e-6
    balanced = classifier(client, max_iter=10, class_weight="balanced").fit(rows, labels)
    both = 600 / (2 * np.bincount(Y))[Y]
    assert objective(balanced, X, Y, sample_weight=both) - least(X, Y, sample_weight=both) < 1e-6


@pytest.mark.parametrize("penalty", ["l1", GroupLasso([0] * 5 + [1] * 5), None], ids=repr)
def test_penalties(client, penalty):
    """Penalties lead to the optimum of one machine; exact zeros stay zero in the mean."""
    rng = np.random.default_rng(1)
    rows = np.hstack([X, rng.normal(size=(600, 5))])
    about = {"penalty": penalty, "alpha": 0.02 if penalty else 1e-4}
    model = classifier(client, **about).fit(*in_blocks(rows, Y, [300] * 2))
    one = antithetic.SGDClassifier(
        loss="log_loss",
        solver="saga",
        max_iter=200,
        tol=None,
        random_state=0,
        trace="objective",
        **about,
    ).fit(rows, Y)
    assert model.history_["objective"][-1] <= one.history_["objective"][-1] + 1e-6
    if penalty is not None:
        assert (model.coef_[0, 5:] == 0.0).sum() >= (one.coef_[0, 5:] == 0.0).sum() > 0


@pytest.mark.parametrize(
    ("order", "batch_size"),
    [
        (Shuffle(pairs=Pairs("tree", nest=8)), 2),
        (Shuffle(pairs=Pairs("tree", nest=True)), 2),
        (Uniform(pairs="tree"), 5),
    ],
    ids=repr,
)
def test_tables_within_blocks(client, order, batch_size):
    """Pairs, groups and nested orders lead to the same optimum, in blocks of one class as well."""
    model = classifier(client, order=order, batch_size=batch_size, max_iter=8).fit(
        *in_blocks(X[SORTED], Y[SORTED], [205, 1, 394])
    )
    assert model.plan_.order == order
    assert objective(model, X, Y) - least_of_all() < 1e-3


@pytest.mark.parametrize("shuffle", [False, 2], ids=["as they are", "dealt"])
def test_a_table_that_was_made_before(client, shuffle):
    """A given table is used, with its blocks if it shuffled rows; other data are refused."""
    data = in_blocks(X[SORTED], Y[SORTED], [300] * 2)
    table = pair(*data, "tree", shuffle=shuffle, client=client)
    kept = table.persist(client) if shuffle else table
    model = classifier(client, max_iter=6).fit(*data, table=kept)
    assert model.plan_.order == Shuffle(pairs="tree")
    assert objective(model, X, Y) - least_of_all() < 1e-3
    with pytest.raises(ValueError, match="made for another sample_weight"):
        classifier(client).fit(*data, sample_weight=np.ones(600), table=table)
    with pytest.raises(ValueError, match="made for another X"):
        classifier(client).fit(da.from_array(X, chunks=(300, -1)), data[1], table=table)
    with pytest.raises(ValueError, match=r"a table from antithetic\.dask\.pair"):
        classifier(client).fit(*data, table=antithetic.pair(X, Y))
    with pytest.raises(ValueError, match="given twice: to fit, and in order="):
        classifier(client, order=Shuffle(pairs="tree")).fit(*data, table=table)
    with pytest.raises(ValueError, match="without table=; use shuffle=True"):
        classifier(client, shuffle=False).fit(*data, table=table)


def test_plain_averages_on_request(client):
    """solver="sgd": one pass per round.

    On one block and with given steps it is the run of one machine, to the last bit.
    """
    chosen = {"solver": "sgd", "learning_rate": "constant", "eta0": 0.01, "max_iter": 3}
    model = classifier(client, **chosen).fit(*in_blocks(X, Y, [600]))
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=1)[0])
    own = antithetic.minimize(
        X,
        Y,
        l2=1e-2,
        fit_intercept=True,
        order="shuffle",
        steps=Constant(0.01),
        epochs=3,
        seed=seed,
    )
    np.testing.assert_allclose(model.coef_[0], own.coef, rtol=0, atol=1e-14)
    several = classifier(client, solver="sgd", max_iter=6).fit(*in_blocks(X, Y, [300] * 2))
    assert objective(several, X, Y) - least_of_all() < 1e-2
    assert set(several.history_) == {"epoch", "seconds"}
    traced = classifier(client, solver="sgd", max_iter=6, trace="objective").fit(
        *in_blocks(X, Y, [300] * 2)
    )
    np.testing.assert_array_equal(traced.coef_, several.coef_)
    assert traced.history_["objective"][-1] == pytest.approx(objective(several, X, Y), rel=1e-12)
    perceptron = classifier(client, loss="perceptron", solver="sgd", max_iter=3).fit(
        *in_blocks(X, Y, [300] * 2)
    )
    assert perceptron.score(*in_blocks(X, Y, [300] * 2)) > 0.6


def test_the_same_seed_gives_the_same_bits(client):
    """The same seed gives the same bits, for any workers and persisted data; another differs."""
    data = in_blocks(X, Y, [200] * 3)
    first, again = (classifier(client, max_iter=3).fit(*data) for _ in range(2))
    kept = client.persist(data[0].map_blocks(np.copy)), client.persist(data[1])
    persisted = classifier(client, max_iter=3).fit(*kept)
    lazily = classifier(client, max_iter=3).fit(data[0].map_blocks(np.copy), data[1])
    other = classifier(client, max_iter=3, random_state=1).fit(*data)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    np.testing.assert_array_equal(first.coef_, persisted.coef_)
    np.testing.assert_array_equal(first.coef_, lazily.coef_)
    assert (first.coef_ != other.coef_).any()


def test_stopping(client):
    """Runs stop by the objective or by the gradient, and warn if neither is reached."""
    data = in_blocks(X, Y, [300] * 2)
    model = classifier(client, max_iter=100, tol=1e-4, n_iter_no_change=2).fit(*data)
    assert model.n_iter_ < 20
    exact = classifier(client, max_iter=100, tol=1e-6, stopping="gradient").fit(*data)
    assert exact.history_["gradient"][-1] <= 1e-6 < exact.history_["gradient"][-2]
    with pytest.warns(ConvergenceWarning, match="Maximum number of iteration"):
        classifier(client, max_iter=2, tol=1e-4).fit(*data)


def test_warm_start_continues(client):
    """A warm start continues from the last weights, with corrected steps at once."""
    data = in_blocks(X, Y, [300] * 2)
    model = classifier(client, max_iter=3, warm_start=True).fit(*data)
    before = model.history_["objective"][-1]
    assert model.fit(*data).history_["objective"][0] <= before
    given = classifier(client, max_iter=1).fit(
        *data, coef_init=model.coef_, intercept_init=model.intercept_
    )
    assert given.history_["objective"][0] <= model.history_["objective"][-1]


def test_a_checkpoint_resumes_to_the_same_bits(client, tmp_path):
    """After any round, also with a table and several classes.

    Other data, parameters and files are told apart.
    """
    rows, labels = labelled(300, classes=3)
    data = in_blocks(rows, labels, [100] * 3)
    path = tmp_path / "fit.npz"
    whole = classifier(client, max_iter=6, order=Shuffle(pairs="tree")).fit(*data)
    classifier(client, max_iter=4, order=Shuffle(pairs="tree"), checkpoint=path).fit(*data)
    assert load(path)[1].rounds == 4
    resumed = classifier(client, max_iter=6, order=Shuffle(pairs="tree"), checkpoint=path).fit(
        *data
    )
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.intercept_, whole.intercept_)
    for mine, theirs in zip(resumed.history_, whole.history_, strict=True):
        np.testing.assert_array_equal(mine["objective"], theirs["objective"])
        assert (np.diff(mine["seconds"]) > 0.0).all()
    done = classifier(client, max_iter=6, order=Shuffle(pairs="tree"), checkpoint=path).fit(*data)
    np.testing.assert_array_equal(done.coef_, whole.coef_)
    for change, message in (
        ({"alpha": 1.0}, r"other parameters \(alpha\)"),
        ({"random_state": 5}, "another random_state"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier(
                client,
                **{"max_iter": 6, "order": Shuffle(pairs="tree"), "checkpoint": path} | change,
            ).fit(*data)
    with pytest.raises(ValueError, match="belongs to other data"):
        classifier(client, max_iter=6, order=Shuffle(pairs="tree"), checkpoint=path).fit(
            *in_blocks(rows, labels, [150] * 2)
        )
    two = in_blocks(X, Y, [300] * 2)
    model = classifier(client, max_iter=1, checkpoint=tmp_path / "table.npz").fit(
        *two, table=pair(*two, "tree", client=client)
    )
    with pytest.raises(ValueError, match=r"other parameters \(table\)"):
        model.fit(*two, table=pair(*two, "tree", client=client, random_state=1))
    classifier(client, max_iter=1, order=Shuffle(), checkpoint=tmp_path / "word.npz").fit(*two)
    classifier(client, max_iter=1, order="shuffle", checkpoint=tmp_path / "word.npz").fit(*two)
    path.write_bytes(b"nothing of ours")
    with pytest.raises(ValueError, match="not a checkpoint, or it is damaged"):
        classifier(client, checkpoint=path).fit(*data)


def test_ctrl_c_keeps_the_last_round(client, tmp_path, monkeypatch):
    """The model holds it, and so does the checkpoint."""
    from antithetic.dask import checkpoint, model

    data, path = in_blocks(X, Y, [300] * 2), tmp_path / "fit.npz"
    save = checkpoint.save

    def stop(where, mark, progress):
        save(where, mark, progress)
        if progress.rounds == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(model.checkpoint, "save", stop)
    estimator = classifier(client, max_iter=5, checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(*data)
    assert estimator.n_iter_ == 3
    monkeypatch.undo()
    np.testing.assert_array_equal(
        estimator.fit(*data).coef_, classifier(client, max_iter=5).fit(*data).coef_
    )


def test_a_failed_fit_leaves_the_model_as_it_was(client):
    """A failed fit leaves the model unchanged and names the block."""
    data = in_blocks(X, Y, [150] * 4)
    model = classifier(client, max_iter=2).fit(*data)
    before = model.coef_.copy()
    rows = X.copy()
    rows[200, 0] = np.nan
    with pytest.raises(ValueError, match="block 1 of X has NaN or infinity, first in row 50"):
        model.fit(*in_blocks(rows, Y, [150] * 4))
    np.testing.assert_array_equal(model.coef_, before)


REFUSED = {
    "sdca": ({"solver": "sdca"}, "solver='sdca' is not supported on Dask; use 'auto', 'newton',"),
    "saga": ({"solver": "saga"}, "solver='saga' is not supported on Dask; use 'auto', 'newton',"),
    "balanced": ({"order": "balanced"}, "not supported on Dask; use 'auto', 'shuffle' or"),
    "importance": ({"order": "importance"}, "not supported on Dask; use 'auto', 'shuffle' or"),
    "an object": ({"order": Balanced()}, r"order=Balanced\(\) is not supported on Dask; use"),
    "unknown": ({"order": "sorted"}, "order='sorted' is not supported on Dask; use"),
    "no order": ({"order": 3}, "'order' parameter of SGDClassifier must be"),
    "gap": ({"stopping": "gap", "tol": 1e-3}, "use 'objective' or 'gradient'"),
    "adaptive": ({"learning_rate": "adaptive"}, "not supported on Dask; use 'auto'"),
    "pa1": ({"learning_rate": "pa1"}, "not supported on Dask; use 'auto'"),
    "refresh": (
        {"order": Shuffle(pairs=Pairs("tree", refresh=3))},
        r"Pairs\(refresh=3\) is not supported on Dask; use Pairs without refresh",
    ),
    "table": (
        {"order": Shuffle(pairs=antithetic.pair(X, Y, "random"))},
        r"a table in order= is not supported on Dask; use a table from antithetic\.dask\.pair",
    ),
    "trace": ({"trace": "variance"}, "trace='variance' is not supported on Dask; use 'objective'"),
    "gradient of a kink": ({"loss": "hinge", "trace": "gradient"}, "kink"),
    "gradient of groups": (
        {"penalty": GroupLasso([0, 0, 1, 1, 1]), "trace": "gradient"},
        "without a kink",
    ),
    "no tol": ({"stopping": "gradient"}, "needs tol"),
    "perceptron": ({"loss": "perceptron"}, "solver='sgd'"),
    "nest": ({"order": Uniform(pairs=Pairs("tree", nest=True))}, 'use order="shuffle"'),
    "in order": ({"shuffle": False, "order": Shuffle(pairs="tree")}, "use order='auto'"),
    "client": ({"client": 3}, "client must be"),
    "negative alpha": ({"alpha": -1.0}, "alpha"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_blocks_cannot_have_is_refused(client, change, message):
    """What is not supported on Dask is refused, with an alternative."""
    with pytest.raises(ValueError, match=message):
        classifier(client, **change).fit(*in_blocks(X, Y, [300, 300]))


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (X, np.zeros(600), "number of classes has to be greater than one"),
        (X[:0], Y[:0], "all its blocks are empty"),
        (X, X[:, 0], "Unknown label type"),
    ],
    ids=["one class", "no rows", "continuous"],
)
def test_bad_data_are_refused(client, rows, labels, message):
    """Bad data are refused in a sentence."""
    with pytest.raises(ValueError, match=message):
        classifier(client).fit(*in_blocks(rows, labels, [len(rows)]))


def test_features_must_agree(client):
    """All blocks must have the same features."""
    import dask

    rows = [dask.delayed(X[:300]), dask.delayed(X[300:, :4])]
    with pytest.raises(ValueError, match="features: block 0 has 5, and block 1 has 4"):
        classifier(client).fit(rows, [dask.delayed(Y[:300]), dask.delayed(Y[300:])])
    with pytest.raises(ValueError, match="weight"):
        classifier(client).fit(*in_blocks(X, Y, [600]), sample_weight=np.zeros(600))


def test_it_is_an_estimator(client):
    """Parameters, clones, representations and pickles; a client is neither copied nor written."""
    model = classifier(client, order=Shuffle(pairs="tree"))
    again = clone(model)
    assert again.client is client
    assert again.get_params() == model.get_params()
    assert "alpha=0.01" in repr(model)
    assert "order=Shuffle(pairs=Pairs(method='tree'))" in repr(model)
    assert isinstance(model, ClassifierMixin)
    assert is_classifier(model)
    assert isinstance(SGDRegressor(), RegressorMixin)
    assert is_regressor(SGDRegressor())
    assert model.__sklearn_tags__().input_tags.sparse
    model.set_params(order="auto")
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotImplementedError, match="warm_start=True"):
        model.partial_fit(X, Y)
    model.set_params(max_iter=2).fit(*in_blocks(X, Y, [300, 300]))
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        LinearModel.of(model, feature_names=None).estimator().predict(X), model.predict(X)
    )
    assert not hasattr(classifier(client, loss="hinge"), "predict_proba")


def test_a_line_per_round(client, capsys):
    """``verbose`` prints a line per round, and Dask's diagnostics have readable names."""
    classifier(client, max_iter=2, verbose=1).fit(*in_blocks(X, Y, [300, 300]))
    said = capsys.readouterr().out
    assert "2 blocks of 600 rows" in said
    assert said.count("round ") == 2
    prefixes = client.run_on_scheduler(lambda dask_scheduler: sorted(dask_scheduler.task_prefixes))
    assert any(name.startswith("antithetic-epoch") for name in prefixes)


def test_import_antithetic_is_free_of_dask():
    """antithetic does not import Dask, and antithetic.dask does not import scikit-learn."""
    from test_package import run_python

    asked = "[name for name in ('dask', 'sklearn', 'pandas') if name in sys.modules]"
    code = (
        f"import sys, antithetic; print({asked}); import antithetic.dask.rounds,"
        f" antithetic.dask.scan, antithetic.dask.predict; print({asked})"
    )
    assert run_python(code, PYTHONWARNINGS="").split("\n")[:2] == ["[]", "['dask']"]


def test_the_user_is_warned_of_workers_that_cannot_work(client, monkeypatch):
    """If all workers have paused, a warning says what to do."""
    from distributed.core import Status

    from antithetic.dask import cluster as where

    def become(status):
        def change(dask_worker):
            dask_worker.status = status

        return change

    monkeypatch.setattr(where, "_SECONDS_BETWEEN_QUESTIONS", 0.05)
    monkeypatch.setattr(where, "_SECONDS_OF_SILENCE", 0.1)
    client.run(become(Status.paused))
    try:
        with pytest.raises(
            RuntimeWarning, match="all workers have paused because their memory is full"
        ):
            classifier(client).fit(*in_blocks(X, Y, [300] * 2))
    finally:
        client.run(become(Status.running))
    assert classifier(client, max_iter=1).fit(*in_blocks(X, Y, [300] * 2)).n_iter_ == 1


def test_columns_must_be_those_of_the_fit(client):
    """Columns must be in the order of the fit, which is checked before computing."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(
        pd.DataFrame(X, columns=list("abcde")).assign(label=Y, weight=1.0 + Y), npartitions=2
    )
    rows, labels = frame[list("abcde")], frame["label"]
    model = classifier(client, max_iter=2).fit(rows, labels, sample_weight=frame["weight"])
    array = classifier(client, max_iter=2).fit(*in_blocks(X, Y, [300] * 2), sample_weight=1.0 + Y)
    np.testing.assert_array_equal(model.coef_, array.coef_)
    for use in (model.predict, model.predict_proba, lambda given: model.score(given, labels)):
        with pytest.raises(ValueError, match="in this order"):
            use(frame[list("edcba")])
    with pytest.raises(
        ValueError, match=r"block \d of X has 4 features, and the model was fitted on 5"
    ):
        model.score(da.from_array(X[:, :4], chunks=(300, -1)), Y)


UNSUPPORTED = {
    "n_jobs",
    "early_stopping",
    "validation_fraction",
    "average",
}


def test_parameters_are_those_that_are_supported():
    """They are those of one machine, without four of them, plus client and checkpoint."""
    for ours, local in (
        (SGDClassifier, antithetic.SGDClassifier),
        (SGDRegressor, antithetic.SGDRegressor),
    ):
        expected = set(local().get_params()) - UNSUPPORTED | {"client", "checkpoint"}
        assert set(ours().get_params()) == expected
        for name in UNSUPPORTED & set(local().get_params()):
            with pytest.raises(TypeError, match=name):
                ours(**{name: None})


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
@pytest.mark.parametrize("where", ["local", "Dask"])
def test_fit_changes_no_parameter(client, kind, where):
    """After a fit, and after one that fails, parameters are the objects that were given."""
    classes = {
        ("classifier", "local"): antithetic.SGDClassifier,
        ("classifier", "Dask"): SGDClassifier,
        ("regressor", "local"): antithetic.SGDRegressor,
        ("regressor", "Dask"): SGDRegressor,
    }
    given = {
        "penalty": GroupLasso([0, 0, 1, 1, 1]),
        "order": Shuffle(pairs="tree"),
        "random_state": np.random.RandomState(0),
        "trace": ["objective"],
        "max_iter": 2,
        "tol": None,
        "solver": "svrg",
    }
    given |= {"client": client} if where == "Dask" else {}
    weights = [{}]
    if kind == "classifier":
        given["loss"] = "log_loss"
        balanced = "".join(["bal", "anced"])  # equal to the word, but another object
        weights = [{"class_weight": chosen} for chosen in (balanced, {0: 1.0, 1: 2.0}, None)]
    data = in_blocks(X, Y, [300] * 2) if where == "Dask" else (X, Y)
    spoilt = X.copy()
    spoilt[3, 0] = np.nan
    bad = in_blocks(spoilt, Y, [300] * 2) if where == "Dask" else (spoilt, Y)
    for more in weights:
        model = classes[kind, where](**given, **more)
        before = model.get_params(deep=False)
        model.fit(*data)
        with pytest.raises(ValueError, match="NaN"):
            model.fit(*bad)
        after = model.get_params(deep=False)
        assert set(after) == set(before)
        assert all(after[name] is before[name] for name in before)


def test_rows_in_the_order_given(client):
    """shuffle=False takes the rows of each block as they come, for any seed."""
    data = in_blocks(X, Y, [300] * 2)
    chosen = {"shuffle": False, "max_iter": 3, "learning_rate": "constant"}
    first, other = (classifier(client, **chosen, random_state=seed).fit(*data) for seed in (0, 1))
    assert first.plan_.order == InOrder()
    np.testing.assert_array_equal(first.coef_, other.coef_)


def test_steps_that_diverge(client):
    """Corrected steps that overflow are shortened; plain ones end with an error and advice."""
    data, chosen = in_blocks(X, Y, [300] * 2), {"learning_rate": "constant", "eta0": 1e250}
    model = classifier(client, **chosen, max_iter=3).fit(*data)
    assert np.isfinite(model.coef_).all()
    assert (np.diff(model.history_["objective"]) <= 0.0).all()
    with pytest.raises(antithetic.DivergenceError, match="Try a smaller eta0"):
        classifier(client, **chosen, solver="sgd").fit(*data)


def test_a_checkpoint_of_an_earlier_version_is_refused(client, tmp_path):
    """The message says what to do."""
    import json

    path = tmp_path / "fit.npz"
    data = in_blocks(X, Y, [300] * 2)
    model = classifier(client, max_iter=1, checkpoint=path).fit(*data)
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    meta = json.loads(arrays.pop("meta").tobytes()) | {"format": "antithetic dask checkpoint 1"}
    np.savez(path, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)
    message = "written by another version of antithetic.*delete the file to start again, or choose"
    with pytest.raises(ValueError, match=message):
        model.fit(*data)


def test_hostile_checkpoints_are_refused(client, tmp_path):
    """Lengths, numbers and descriptions that no fit writes, before anything is made of them."""
    import json

    path = tmp_path / "fit.npz"
    classifier(client, max_iter=2, checkpoint=path).fit(*in_blocks(X, Y, [300] * 2))
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    meta = json.loads(arrays.pop("meta").tobytes())
    spoilt = [
        {"rounds": 10**15},
        {"rounds": -1},
        {"rounds": 1.5},
        {"rounds": None},
        {"mark": []},
        {"mark": {"settings": 1, "data": ""}},
    ]
    spoilt += [
        {"known": [-1.0]},
        {"known": [np.nan]},
        {"known": [1e300]},
        {"weights": np.full(6, np.nan)},
        {"steps": [1.0]},
    ]
    spoilt += [
        {"seeds": []},
        {"numbers": [1.0, np.inf, 1.0, 1.0, 0.0]},
        {"points": arrays["points"][:-1]},
        {"history": [1.0]},
    ]
    for change in spoilt:
        name = next(iter(change))
        wrong = meta | (change if name in meta else {})
        columns = arrays | (
            {} if name in meta else {name: np.asarray(change[name], arrays[name].dtype)}
        )
        np.savez(path, meta=np.frombuffer(json.dumps(wrong).encode(), np.uint8), **columns)
        with pytest.raises(ValueError, match="is not a checkpoint, or it is damaged"):
            load(path)
    pickled = {"weights": np.array([print], dtype=object)}
    np.savez(path, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays | pickled)
    with pytest.raises(ValueError, match="is not a checkpoint, or it is damaged"):
        load(path)
