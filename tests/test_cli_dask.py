"""``antithetic train --dask``: files in blocks, on a cluster, to the same model file."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")
pytest.importorskip("typer")
pytest.importorskip("rich")
from dask_cases import cluster, labelled
from typer.testing import CliRunner

import antithetic
from antithetic._cli.app import app
from antithetic.dask.files import _pieces, open_files
from antithetic.datasets._reading import Reading
from antithetic.estimators.model_file import LinearModel
from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.softmax import SoftmaxProblem

X, Y = labelled(400, 3)
WORDS = np.where(Y == 1, "yes", "no")


@pytest.fixture(scope="module")
def client():
    with cluster(processes=False) as one:
        yield one


@pytest.fixture(scope="module")
def address():
    """Of a scheduler that this command can reach."""
    with cluster(processes=False, n_workers=1, protocol="tcp://", host="127.0.0.1") as one:
        yield one.scheduler.address


def write_csv(path, rows, labels):
    lines = [
        "a,b,c,label",
        *(
            ",".join([*map(repr, row), str(label)])
            for row, label in zip(rows.tolist(), labels, strict=True)
        ),
    ]
    path.write_text("\n".join(lines) + "\n")


def write(folder, form):
    """Four files of a hundred rows, sorted by label: some hold one class only."""
    order = np.argsort(WORDS, kind="stable")
    for k, rows in enumerate(np.split(order, 4)):
        if form == "csv":
            write_csv(folder / f"part{k}.csv", X[rows], WORDS[rows])
        elif form == "parquet":
            pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            columns = {name: X[rows, j] for j, name in enumerate("abc")} | {"label": WORDS[rows]}
            parquet.write_table(pa.table(columns), folder / f"part{k}.parquet", row_group_size=30)
        elif form == "npz":
            np.savez(folder / f"part{k}.npz", X=X[rows], y=Y[rows])
    if form == "zarr":
        zarr = pytest.importorskip("zarr")
        root = zarr.open_group(str(folder / "data.zarr"), mode="w")
        for name, values in (("X", X[order]), ("y", Y[order])):
            array = root.create_array(
                name, shape=values.shape, dtype=values.dtype, chunks=(100, *values.shape[1:])
            )
            array[:] = values
        return folder / "data.zarr"
    return folder


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("form", ["csv", "parquet", "npz", "zarr"])
def test_files_become_blocks(client, tmp_path, form):
    """Files become blocks in the order of their names, each read where it is needed."""
    from antithetic.dask import LogisticRegression

    found = open_files(write(tmp_path, form), Reading(), client)
    assert len(found.X) == 4
    assert found.classes.tolist() == (["no", "yes"] if form in ("csv", "parquet") else [0, 1])
    assert found.rows == len(X)
    model = LogisticRegression(client=client).fit(found.X, found.y)
    one = antithetic.LogisticRegression().fit(X, Y)
    np.testing.assert_allclose(model.coef_, one.coef_, atol=1e-3)


def test_row_groups_of_a_large_parquet_file_are_blocks(client, tmp_path, monkeypatch):
    """Row groups of a large Parquet file are joined into blocks up to a size."""
    from antithetic.dask import files

    path = write(tmp_path, "parquet") / "part0.parquet"
    monkeypatch.setattr(files, "_BYTES_OF_A_BLOCK", 1)
    assert [piece.groups for piece in _pieces(str(path))] == [(0,), (1,), (2,), (3,)]
    found = open_files(path, Reading(), client)
    rows = client.gather(client.compute(found.X))
    np.testing.assert_array_equal(np.concatenate(rows), X[np.argsort(WORDS, kind="stable")[:100]])


def test_train_writes_the_model_of_train(address, tmp_path):
    """The model file has the names of the columns, and ``predict`` accepts it."""
    folder, model = tmp_path / "data", tmp_path / "model.json"
    folder.mkdir()
    write(folder, "csv")
    done = CliRunner().invoke(
        app,
        [
            "train",
            str(folder / "*.csv"),
            "-m",
            str(model),
            "--dask",
            address,
            "--json",
            "--epochs",
            "10",
            "--alpha",
            "0.01",
        ],
    )
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["accuracy"] > 0.7
    assert 1 <= said["epochs"] <= 10
    assert said["plan"]["method"] == "newton"
    assert LinearModel.load(model).settings["solver"] == "exact"
    held = LinearModel.load(model)
    assert (held.feature_names, held.target_name, held.classes) == (
        ["a", "b", "c"],
        "label",
        ["no", "yes"],
    )
    assert (held.estimator().predict(X) == WORDS).mean() == pytest.approx(said["accuracy"])
    predicted = CliRunner().invoke(app, ["predict", str(model), str(folder / "part0.csv")])
    assert predicted.exit_code == 0, predicted.output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--dask", "nowhere"], "is not an address"),
        (["--dask", "local", "--one-hot"], "leave them out with --dask"),
        (
            ["--dask", "local", "--order", "shuffle", "--pairs", "tree"],
            "leave them out with --dask",
        ),
        (["--checkpoint", "fit.npz"], "--checkpoint needs --dask"),
    ],
    ids=["address", "one-hot", "pairs", "checkpoint"],
)
def test_what_is_impossible_is_refused_in_a_sentence(tmp_path, more, message):
    """What is impossible is refused in a sentence, before a cluster is started."""
    write(tmp_path, "csv")
    done = CliRunner().invoke(
        app, ["train", str(tmp_path / "part0.csv"), "-m", str(tmp_path / "model.json"), *more]
    )
    assert done.exit_code == 1
    assert message in done.output.replace("\n", " ")


def test_other_columns_and_no_files_are_named(client, tmp_path):
    """The error names the file."""
    write(tmp_path, "csv")
    (tmp_path / "part2.csv").write_text("a,b,d,label\n1,2,3,yes\n1,2,4,no\n")
    with pytest.raises(ValueError, match=r"part2\.csv has different columns from the first file"):
        open_files(tmp_path, Reading(), client)
    with pytest.raises(ValueError, match="there are no files at"):
        open_files(tmp_path / "*.parquet", Reading(), client)


def test_quantities_are_told_from_classes(client, tmp_path):
    """Fractions are regression targets, as on one machine."""
    write_csv(tmp_path / "part0.csv", X, X @ np.ones(3))
    assert open_files(tmp_path, Reading(), client).classes is None
    write_csv(tmp_path / "part0.csv", X, Y)
    assert open_files(tmp_path, Reading(), client).classes.tolist() == [0.0, 1.0]


TASKS = {
    "regression": ([], X @ np.ones(3), "Ridge", "squared_error"),
    "counts": (["--loss", "poisson"], (Y + 1) ** 2, "PoissonRegressor", "poisson"),
    "amounts": (["--loss", "gamma"], Y + 0.5, "GammaRegressor", "gamma"),
    "amounts with zeros": (["--loss", "tweedie"], 1.5 * Y, "TweedieRegressor", "tweedie"),
    "no penalty": (["--penalty", "none"], Y, "LogisticRegression", "log_loss"),
    "l1": (["--penalty", "l1"], Y, "LogisticRegression", "log_loss"),
    "elastic net": (["--penalty", "elasticnet"], Y, "LogisticRegression", "log_loss"),
    "three classes": ([], Y + (X[:, 0] > 1.0), "LogisticRegression", "log_loss"),
}


@pytest.mark.parametrize(("more", "labels", "kind", "loss"), TASKS.values(), ids=list(TASKS))
def test_alpha_has_the_meaning_of_one_machine(address, tmp_path, more, labels, kind, loss):
    """The model minimises the mean loss plus ``alpha`` times the penalty: no other does better."""
    write_csv(tmp_path / "part0.csv", X[:250], labels[:250])
    write_csv(tmp_path / "part1.csv", X[250:], labels[250:])
    model = tmp_path / "model.json"
    about = ["-m", str(model), "--dask", address, "--alpha", "0.01", "--tol", "1e-9", *more]
    done = CliRunner().invoke(app, ["train", str(tmp_path / "part*.csv"), *about])
    assert done.exit_code == 0, done.output
    held = LinearModel.load(model)
    assert type(held.estimator()).__name__ == kind
    assert held.loss == loss
    ratio = {"l1": 1.0, "elasticnet": 0.15}.get(more[-1] if more else "", 0.0)
    alpha = 0.0 if "none" in more else 0.01
    coef, intercept = np.ravel(held.coef), held.intercept
    penalty = ElasticNet((1.0 - ratio) * alpha, ratio * alpha)
    if len(held.classes or ()) == 3:
        problem = SoftmaxProblem.build(X, labels, l2=alpha, fit_intercept=True)
        coef, intercept = held.coef, held.intercept
    else:
        target = labels if loss != "log_loss" else np.where(labels == 1, 1.0, -1.0)
        problem = Problem.build(X, target, loss=loss, penalty=penalty, fit_intercept=True)
        intercept = float(intercept[0])
    least, rng = problem.objective(coef, intercept), np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            moved = coef + size * rng.normal(size=np.shape(coef))
            shifted = intercept + size * rng.normal(size=np.shape(intercept))
            assert problem.objective(moved, shifted) >= least - 1e-9


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--solver", "sgd"], "--solver sgd is not supported with --dask, which uses Newton's"),
        (["--order", "balanced"], "--order balanced is not supported with --dask"),
        (["--loss", "hinge"], "--loss hinge is not supported with --dask; use one of log_loss,"),
        (["--loss", "poison"], "--loss poison is not known; use one of log_loss, squared_error,"),
        (["--penalty", "l3"], "--penalty l3 is not known; use one of l2, l1, elasticnet, none"),
        (["--loss", "poisson", "--penalty", "l1"], "needs classes and --loss log_loss"),
    ],
)
def test_options_that_dask_does_not_have_are_refused(address, tmp_path, more, message):
    """The sentence says what to use instead."""
    write_csv(tmp_path / "part0.csv", X, Y)
    about = ["-m", str(tmp_path / "model.json"), "--dask", address, *more]
    done = CliRunner().invoke(app, ["train", str(tmp_path / "part0.csv"), *about])
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
