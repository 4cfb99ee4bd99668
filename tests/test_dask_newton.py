"""Newton's method on Dask: the sums, solution and bound of one machine, from any blocks."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask
import dask.array as da
from dask_cases import cluster, in_blocks, labelled
from reference_newton import errors

import antithetic
from antithetic.dask import LogisticRegression, Ridge
from antithetic.estimators.model_file import LinearModel
from antithetic.problem import Problem

BLOCKS = [700, 0, 1100, 1200]


def uneven(n=3000, d=6, seed=0):
    """Rows of very different scales, far from zero, sorted by label: most blocks have one class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    y = np.where(X @ np.linspace(1.0, -1.0, d) + rng.logistic(size=n) > 0.3, "yes", "no")
    X = (X + 3.0) * 10.0 ** np.linspace(-3.0, 3.0, d)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


X, Y = uneven()


@pytest.fixture(scope="module")
def client():
    with cluster(processes=False) as one:
        yield one


@pytest.fixture
def little_room(monkeypatch):
    """Room for a sample of a few hundred rows: Hessians of all rows are summed by the workers."""
    monkeypatch.setattr("antithetic.dask.asking._SAMPLED_BYTES", 30_000.0)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("about", [{}, {"l1_ratio": 1.0}, {"C": np.inf}], ids=repr)
def test_a_sample_has_no_more_rows_than_there_is_room_for(client, about):
    """Then Hessians are those of all rows, each of which takes a round."""
    model = LogisticRegression(**{"tol": 1e-8} | about, client=client)
    model.fit(*in_blocks(X, Y, BLOCKS))
    assert 0 < max(model.plan_.samples) <= 30_000 / (8 * X.shape[1])
    assert model.gap_ <= 1e-8
    assert "drawn by importance" not in model.plan_.why
    assert model.n_rounds_ > model.n_iter_[0] + 3  # look, sample, start and Hessians
    one = antithetic.LogisticRegression(**{"tol": 1e-10} | about).fit(X, Y)
    scale = X.std(axis=0)
    np.testing.assert_allclose(model.coef_ * scale, one.coef_ * scale, atol=1e-3)


def test_few_rows_are_brought_here(client):
    """If there is room for all rows, their Hessian takes no round."""
    model = LogisticRegression(tol=1e-8, client=client).fit(*in_blocks(X, Y, BLOCKS))
    assert model.plan_.samples[-1] == len(X)
    assert model.n_rounds_ <= model.n_iter_[0] + 4  # look, sample, start and a bound


def test_many_rows_take_the_hessian_of_a_sample(client):
    """Its rows are a small part of all; each iteration is one round, from which the bound comes."""
    rows, y = uneven(40_000, 3, seed=1)
    model = LogisticRegression(C=10.0, tol=1e-8, client=client)
    model.fit(*in_blocks(rows, y, [5000] * 8))
    assert model.plan_.samples[-1] < 4000
    assert f"of {model.plan_.samples[-1]} rows, drawn by importance" in model.plan_.why
    assert model.gap_ <= 1e-8
    assert model.gap_certified_
    assert model.n_rounds_ == model.n_iter_[0] + 3
    one = antithetic.LogisticRegression(C=10.0).fit(rows, y)
    assert model.plan_.samples == one.plan_.samples


def test_a_certified_optimum_from_sorted_blocks(client):
    """Columns of scales 1e-3 to 1e3 and blocks of one class: the gap holds, in few rounds."""
    model = LogisticRegression(C=10.0, tol=1e-8, client=client).fit(*in_blocks(X, Y, BLOCKS))
    one = antithetic.LogisticRegression(C=10.0, tol=1e-12).fit(X, Y)
    problem = Problem.build(X, Y, l2=1.0 / (10.0 * len(X)), fit_intercept=True)
    far, near = (problem.objective(m.coef_[0], float(m.intercept_[0])) for m in (model, one))
    base = problem.objective(np.zeros(X.shape[1]), np.log((Y == "yes").mean() / (Y == "no").mean()))
    assert far - near <= (model.gap_ + 1e-12) * (base - near)
    assert model.gap_ <= 1e-8
    assert model.gap_certified_
    assert model.n_rounds_ <= 8
    assert model.plan_.samples[:2] == one.plan_.samples
    assert model.history_["objective"][-1] == pytest.approx(far, rel=1e-12)
    assert (np.diff(model.history_["rounds"]) >= 1.0).all()
    assert model.history_["rounds"][-1] <= model.n_rounds_
    assert model.score(*in_blocks(X, Y, BLOCKS)) == model.to_local().score(X, Y)


@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_the_gap_of_float32_rows_is_that_of_the_weights_given_back(client, tol):
    """The intercept of columns far from zero loses digits in float32, and the gap shows it."""
    far = (X / X.std(axis=0) + 1e5).astype(np.float32)
    rows = far.astype(np.float64) - 1e5  # exact, and with an intercept the same problem
    model = LogisticRegression(tol=tol, client=client)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*in_blocks(far, Y, BLOCKS))
    assert model.coef_.dtype == np.float32
    one = antithetic.LogisticRegression(tol=1e-12).fit(rows, Y)
    problem = Problem.build(rows, Y, l2=1.0 / len(Y), fit_intercept=True)
    coef = model.coef_[0].astype(np.float64)
    here = problem.objective(coef, float(model.intercept_[0]) + 1e5 * coef.sum())
    least = problem.objective(one.coef_[0], float(one.intercept_[0]))
    base = problem.objective(np.zeros(len(coef)), np.log((Y == "yes").mean() / (Y == "no").mean()))
    assert here - least <= (1.001 * model.gap_ + 1e-12) * (base - least)


def noted(marker, function, lengths):
    """Blocks that leave a mark when they are read, from which a function makes the rows."""

    def read(number):  # shipped as it is: a worker need not import the tests
        with open(marker, "a") as file:
            file.write(f"{number}\n")
        with open(marker) as file:
            times = file.read().split().count(str(number))
        return function(number, rows[number], times)

    rows = np.split(X, np.cumsum(lengths)[:-1])
    make = dask.delayed(read, pure=False)
    return [make(number) for number in range(len(lengths))]


def test_rounds_read_each_block_once(client, tmp_path):
    """A round is one pass: each block is read as often as ``n_rounds_`` says, and no more."""
    marker = tmp_path / "read"
    rows = noted(marker, lambda _number, block, _times: block, BLOCKS)
    labels = [dask.delayed(part) for part in np.split(Y, np.cumsum(BLOCKS)[:-1])]
    model = LogisticRegression(client=client).fit(rows, labels)
    read = marker.read_text().split()
    assert read.count("3") == model.n_rounds_
    assert read.count("0") == model.n_rounds_ + 1  # the columns of delayed blocks are the first's
    assert read.count("1") == 1  # an empty block is looked at, and left alone


@pytest.mark.parametrize("form", ["sparse", "float32", "data frame", "delayed", "memory", "zarr"])
def test_collections_of_every_kind(client, form, tmp_path):
    """Arrays, frames, delayed values and stored arrays lead to the solution of one machine."""
    rows, labels = in_blocks(X, Y, BLOCKS)
    if form == "sparse":
        rows = rows.map_blocks(sparse.csr_matrix)
    elif form == "float32":
        rows = rows.astype(np.float32)
    elif form == "data frame":
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")).assign(y=Y), npartitions=3)
        rows, labels = frame[list("abcdef")], frame["y"]
    elif form == "delayed":
        rows, labels = rows.to_delayed().ravel().tolist(), labels.to_delayed().ravel().tolist()
    elif form == "memory":
        rows, labels = X, Y
    elif form == "zarr":
        pytest.importorskip("zarr")
        da.from_array(X, chunks=(1000, -1)).to_zarr(tmp_path / "X.zarr")
        rows, labels = da.from_zarr(tmp_path / "X.zarr"), Y
    model = LogisticRegression(tol=1e-6, client=client).fit(rows, labels)
    one = antithetic.LogisticRegression(tol=1e-10).fit(X, Y)
    assert model.gap_ <= (1e-5 if form == "float32" else 1e-6)
    assert model.coef_.dtype == (np.float32 if form == "float32" else np.float64)
    chances = model.predict_proba(rows)
    assert chances.shape[1] == 2
    if form != "memory":
        chances = chances.compute(scheduler="sync")
    np.testing.assert_allclose(chances, one.predict_proba(X), atol=0.01)
    if form == "data frame":
        assert model.feature_names_in_.tolist() == list("abcdef")


def test_weights_and_class_weights(client):
    """Balanced classes count rows by their weights, as on one machine."""
    weight = np.linspace(0.0, 2.0, len(X))
    for chosen in ("balanced", {"no": 1.0, "yes": 3.0}):
        about = {"class_weight": chosen, "tol": 1e-9}
        model = LogisticRegression(**about, client=client).fit(
            *in_blocks(X, Y, BLOCKS), sample_weight=weight
        )
        one = antithetic.LogisticRegression(**about).fit(X, Y, weight)
        np.testing.assert_allclose(model.coef_, one.coef_, rtol=1e-3, atol=1e-6)


def test_what_a_row_of_weight_zero_holds_changes_nothing(client):
    """Nor does a whole block of such rows, however large a number stands for a missing one."""
    weight, rows = np.ones(len(X)), X.copy()
    weight[3] = weight[-BLOCKS[-1] :] = 0.0
    rows[weight == 0.0] = 1e18
    data = in_blocks(rows, Y, BLOCKS)
    model = LogisticRegression(tol=1e-9, client=client).fit(*data, sample_weight=weight)
    assert model.gap_ <= 1e-9
    one = antithetic.LogisticRegression(tol=1e-9).fit(X, Y, weight)
    np.testing.assert_allclose(model.coef_, one.coef_, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("about", [{"l1_ratio": 1.0}, {"l1_ratio": 0.5}, {"C": np.inf}], ids=repr)
def test_other_penalties(client, about):
    """An L1 part gives zeros with a certified gap; without a penalty the gap is one, too."""
    rng = np.random.default_rng(0)
    rows = np.hstack([X, rng.normal(size=(len(X), 4))])
    given = {"C": 0.02, "tol": 1e-7} | about
    model = LogisticRegression(**given, client=client).fit(*in_blocks(rows, Y, BLOCKS))
    one = antithetic.LogisticRegression(**given).fit(rows, Y)
    assert model.gap_certified_
    assert (model.coef_error_ <= 0.01) == np.isinf(given["C"])
    assert model.gap_ <= 1e-7
    np.testing.assert_array_equal(model.coef_ == 0.0, one.coef_ == 0.0)
    scale = rows.std(axis=0)
    np.testing.assert_allclose(model.coef_ * scale, one.coef_ * scale, atol=1e-2)


def test_a_fit_that_ends_early_says_so(client):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 ended the fit: the gap"):
        LogisticRegression(tol=1e-14, C=1e4, max_iter=1, client=client).fit(
            *in_blocks(X, Y, BLOCKS)
        )


def test_the_history_has_the_gradient_of_the_weights(client):
    """It is that of the user's weights and intercept, whose columns are not centred."""
    model = LogisticRegression(client=client).fit(*in_blocks(X, Y, BLOCKS))
    problem = Problem.build(X, Y, l2=1.0 / len(X), fit_intercept=True)
    gradient, constant = problem.gradient(model.coef_[0], float(model.intercept_[0]))
    norm = np.linalg.norm(np.append(gradient, constant))
    assert model.history_["gradient"][-1] == pytest.approx(norm, rel=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
def test_without_iterations_all_weights_are_zero(client, classes, tmp_path):
    """As on one machine. A checkpoint then has nothing to resume, and changes no later fit."""
    rows, y = labelled(1800, classes=classes)
    data, path = in_blocks(rows, y, [900, 900]), tmp_path / "fit.npz"
    with pytest.warns(ConvergenceWarning, match="max_iter=0 ended the fit"):
        model = LogisticRegression(max_iter=0, checkpoint=path, client=client).fit(*data)
    assert not model.coef_.any()
    assert not model.intercept_.any()
    resumed, whole = (
        LogisticRegression(checkpoint=where, client=client).fit(*data) for where in (path, None)
    )
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)


def test_separated_classes_without_a_penalty_cause_a_warning(client):
    """Without a penalty, separated classes have no optimum."""
    rows = np.array([[-2.0], [-1.0], [1.0], [2.0]] * 10)
    with pytest.warns(ConvergenceWarning, match="perfectly separated.* of column 0 always"):
        LogisticRegression(C=np.inf, client=client).fit(
            *in_blocks(rows, rows[:, 0] > 0.0, [20] * 2)
        )


@pytest.mark.parametrize("kind", ["two", "l1", "no intercept", "float32", "wide"])
def test_a_checkpoint_resumes_to_the_same_gap(client, kind, tmp_path, request):
    """A fit begins with the weights in the file, and ends with the same bound on the gap."""
    if kind != "wide":  # one iteration would be enough if all rows were brought here
        request.getfixturevalue("little_room")
    path = tmp_path / "fit.npz"
    rows, y, lengths = X, Y, BLOCKS
    given = {"tol": 1e-9, "C": 10.0}
    if kind == "l1":
        given["l1_ratio"] = 0.5
    elif kind == "no intercept":
        given["fit_intercept"] = False
    elif kind == "float32":
        rows = (X / X.std(axis=0)).astype(np.float32)
    elif kind == "wide":
        rng = np.random.default_rng(0)
        rows, lengths = rng.normal(size=(60, 320)), [30, 30]
        y, given["tol"] = rows[:, 0] + rng.normal(size=60) > 0.0, 1e-4
    data = in_blocks(rows, y, lengths)

    def fit(**more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("antithetic.dask.learner.warn", lambda *_: None)
            return LogisticRegression(**given | more, client=client).fit(*data)

    whole = fit()
    some = fit(max_iter=1 if kind == "wide" else 3, checkpoint=path)
    resumed = fit(checkpoint=path)
    assert some.gap_ > given["tol"]
    assert resumed.gap_ <= given["tol"]
    assert resumed.gap_certified_
    assert resumed.n_iter_ < whole.n_iter_
    assert "began with given weights" in resumed.plan_.why
    scores = [model.decision_function(rows) for model in (resumed, whole)]
    np.testing.assert_allclose(*scores, atol=1e-2 if kind == "wide" else 1e-3)
    again = fit(checkpoint=path)
    assert again.n_iter_ <= 1
    assert again.gap_ <= given["tol"]


def test_a_checkpoint_belongs_to_its_data_and_estimator(client, tmp_path):
    """Other parameters may resume from it: the weights are only where they begin."""
    path, data = tmp_path / "fit.npz", in_blocks(X, Y, BLOCKS)
    about = {"checkpoint": path, "client": client}
    LogisticRegression(**about).fit(*data)
    other = LogisticRegression(C=3.0, tol=1e-8, **about).fit(*data)
    assert other.gap_ <= 1e-8
    one = LogisticRegression(C=3.0, tol=1e-8, client=client).fit(*data)
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-4)
    refused = "belongs to another estimator, other data or other blocks; delete the file"
    with pytest.raises(ValueError, match=refused):
        LogisticRegression(**about).fit(*in_blocks(X, Y, [1500] * 2))
    with pytest.raises(ValueError, match=refused):
        LogisticRegression(**about).fit(*in_blocks(X, Y[::-1], BLOCKS))
    with pytest.raises(ValueError, match=refused):
        Ridge(**about).fit(*in_blocks(X, X[:, 0], BLOCKS))


def test_hostile_checkpoints_are_refused(client, tmp_path):
    """Wrong lengths, numbers that are not finite, other formats and other files are refused."""
    path = tmp_path / "fit.npz"
    data = in_blocks(X, Y, BLOCKS)
    model = LogisticRegression(checkpoint=path, client=client).fit(*data)
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    meta = json.loads(arrays.pop("meta").tobytes())
    spoilt = [{"format": "a table"}, {"format": 3}, {"coef": arrays["coef"][1:]}, {"intercept": []}]
    spoilt += [{"coef": np.full(6, np.nan)}, {"intercept": [np.inf]}, {"coef": np.ones((2, 3))}]
    for change in spoilt:
        name = next(iter(change))
        wrong = meta | (change if name in meta else {})
        columns = arrays | ({} if name in meta else {name: np.asarray(change[name], float)})
        np.savez(path, meta=np.frombuffer(json.dumps(wrong).encode(), np.uint8), **columns)
        with pytest.raises(ValueError, match="is not a checkpoint of this version, or it is dama"):
            model.fit(*data)
    path.write_bytes(b"nothing of ours")
    with pytest.raises(ValueError, match="is not a checkpoint of this version, or it is damaged"):
        model.fit(*data)


def test_ctrl_c_keeps_the_last_iteration(client, tmp_path, monkeypatch):
    """Model and checkpoint hold the last iteration, from which the fit resumes."""
    from antithetic.dask import checkpoint, learner

    data, path, saved = in_blocks(X, Y, BLOCKS), tmp_path / "fit.npz", []

    def stop(*given):
        checkpoint.save(*given)
        saved.append(given)
        if len(saved) == 2:  # after the first pass and an iteration
            raise KeyboardInterrupt

    monkeypatch.setattr(learner, "save", stop)
    model = LogisticRegression(tol=1e-10, checkpoint=path, client=client)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert model.n_iter_.tolist() == [1]
    np.testing.assert_array_equal(np.load(path)["coef"], model.coef_[0])
    monkeypatch.undo()
    assert model.fit(*data).gap_ <= 1e-10


def very_wide(n=4000, d=4100):
    """Sparse rows of too many columns for a matrix, most of them rare, sorted by label."""
    rng = np.random.default_rng(0)
    columns = (d * rng.random((n, 12)) ** 3).astype(int)
    places = (np.repeat(np.arange(n), 12), columns.ravel())
    rows = sparse.csr_array((rng.random(12 * n) + 0.1, places), shape=(n, d))
    y = rows @ rng.normal(size=d) + rng.logistic(size=n) > 0.0
    order = np.argsort(y, kind="stable")
    return rows[order], y[order]


@pytest.fixture
def small_samples(monkeypatch):
    """Room for a third of these rows."""
    monkeypatch.setattr("antithetic.dask.asking._SAMPLED_BYTES", 300_000.0)


def delayed_rows(rows, y, lengths):
    parts = [slice(end - many, end) for end, many in zip(np.cumsum(lengths), lengths, strict=True)]
    return [dask.delayed(rows[part]) for part in parts], [dask.delayed(y[part]) for part in parts]


@pytest.mark.usefixtures("small_samples")
def test_very_many_columns_take_few_rounds(client):
    """Systems are solved with a sample: all rows are visited for gradients only."""
    rows, y = very_wide()
    model = LogisticRegression(C=0.1, tol=1e-7, client=client)
    model.fit(*delayed_rows(rows, y, [1000, 0, 3000]))
    one = antithetic.LogisticRegression(C=0.1, tol=1e-10).fit(rows, y)
    assert "products with the second derivatives are those of a sample" in model.plan_.why
    assert model.plan_.samples[0] < 2000
    assert model.gap_ <= 1e-7
    assert model.gap_certified_
    assert model.n_rounds_ <= 20
    problem = Problem.build(rows, y, l2=1.0 / (0.1 * len(y)), fit_intercept=True)
    far, near = (problem.objective(m.coef_[0], float(m.intercept_[0])) for m in (model, one))
    assert far - near <= 1e-7


@pytest.mark.usefixtures("small_samples")
def test_very_many_columns_resume_from_a_checkpoint(client, tmp_path):
    """The sample is drawn again for the systems, but the weights are those of the file."""
    data, path = delayed_rows(*very_wide(), [2000, 2000]), tmp_path / "fit.npz"

    def fit(**more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("antithetic.dask.learner.warn", lambda *_: None)
            return LogisticRegression(C=0.1, tol=1e-8, client=client, **more).fit(*data)

    whole = fit()
    fit(max_iter=1, checkpoint=path)
    resumed = fit(checkpoint=path)
    assert resumed.gap_ <= 1e-8
    assert resumed.n_rounds_ <= whole.n_rounds_ + 2
    scores = [model.decision_function(data[0]).compute() for model in (resumed, whole)]
    np.testing.assert_allclose(*scores, atol=1e-3)


def test_warm_start(client):
    """The weights of the last fit are where the next begins, without a sample."""
    data = in_blocks(X, Y, BLOCKS)
    model = LogisticRegression(tol=1e-8, warm_start=True, client=client).fit(*data)
    before = model.n_iter_[0]
    assert model.fit(*data).n_iter_[0] <= before
    assert model.plan_.samples == ()


def test_bad_input(client):
    """Blocks that do not match, NaN, and wrong numbers of classes are refused in a sentence."""
    spoilt = X.copy()
    spoilt[750, 2] = np.nan
    late = np.where(np.arange(len(X)) < 2900, "no", "yes")
    with pytest.raises(
        ValueError, match="block 2 of X has NaN or infinity, first in row 50, column 2"
    ):
        LogisticRegression(client=client).fit(*in_blocks(spoilt, Y, BLOCKS))
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        LogisticRegression(client=client).fit(*in_blocks(X, np.full(len(X), "no"), BLOCKS))
    with pytest.raises(ValueError, match="features: block 0 has 6, and block 1 has 4"):
        LogisticRegression(client=client).fit(
            [dask.delayed(X[:9]), dask.delayed(X[9:, :4])],
            [dask.delayed(Y[:9]), dask.delayed(Y[9:])],
        )
    with pytest.raises(ValueError, match="needs labels"):
        LogisticRegression(client=client).fit(X, None)
    model = LogisticRegression(client=client).fit(*in_blocks(X, late, BLOCKS))
    assert model.classes_.tolist() == ["no", "yes"]  # one was seen in the last block only


def test_data_that_change_during_a_fit(client, tmp_path):
    """NaN that the first look did not see is found when sums are, and the block is named."""

    def spoil(number, block, times):
        return np.where(times > 2 and number == 2, np.nan, block)

    labels = [dask.delayed(part) for part in np.split(Y, np.cumsum(BLOCKS)[:-1])]
    with pytest.raises(ValueError, match="block 2 of X has NaN or infinity"):
        LogisticRegression(client=client).fit(noted(tmp_path / "read", spoil, BLOCKS), labels)


def test_it_is_an_estimator(client):
    """Clones, pickles, model files and parameters are those of one machine."""
    model = LogisticRegression(C=2.0, client=client)
    assert clone(model).client is client
    ours, theirs = set(model.get_params()), set(antithetic.LogisticRegression().get_params())
    assert ours == theirs - {"n_jobs"} | {"client", "checkpoint"}
    model.fit(*in_blocks(X, Y, BLOCKS))
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    local = LinearModel.of(model, feature_names=None).estimator()
    assert type(local) is antithetic.LogisticRegression
    np.testing.assert_array_equal(local.predict_proba(X), model.predict_proba(X))
    assert local.C == 2.0
    assert not hasattr(model, "partial_fit")


def test_a_line_per_iteration(client, capsys):
    """``verbose`` prints a line per iteration, and Dask shows readable names."""
    LogisticRegression(verbose=1, client=client).fit(*in_blocks(X, Y, BLOCKS))
    said = capsys.readouterr().out
    assert "4 blocks of 3000 rows" in said
    assert said.count("round ") >= 2
    prefixes = client.run_on_scheduler(lambda dask_scheduler: sorted(dask_scheduler.task_prefixes))
    for name in ("look", "sample", "gradient", "after"):
        assert any(prefix.startswith(f"antithetic-{name}") for prefix in prefixes)


def test_weights_without_a_penalty_are_within_a_hundredth_of_a_standard_error(client):
    """The default tolerance leaves no error that a statistician could see, as on one machine."""
    rows, labels = uneven(20000, 3)
    model = LogisticRegression(C=np.inf, client=client).fit(*in_blocks(rows, labels, [5000] * 4))
    assert errors(model, rows, (labels == "yes").astype(int)).max() <= 0.01
