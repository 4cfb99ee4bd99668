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
    from antithetic.dask import SGDClassifier

    found = open_files(write(tmp_path, form), Reading(), client)
    assert len(found.X) == 4
    assert found.classes.tolist() == (["no", "yes"] if form in ("csv", "parquet") else [0, 1])
    model = SGDClassifier(
        "log_loss", alpha=1e-2, max_iter=8, tol=None, random_state=0, client=client
    ).fit(found.X, found.y)
    one = antithetic.SGDClassifier(
        "log_loss", alpha=1e-2, solver="saga", max_iter=50, tol=None, random_state=0
    ).fit(X, Y)
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
            "--tol",
            "0",
            "--alpha",
            "0.01",
        ],
    )
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["accuracy"] > 0.7
    assert 1 <= said["epochs"] <= 10  # fewer where rounding ends it
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


@pytest.mark.parametrize(
    ("more", "solver"), [([], "newton"), (["--solver", "sgd"], "sgd")], ids=["default", "sgd"]
)
def test_the_solver_is_the_one_asked_for(address, tmp_path, more, solver):
    """Dask has its own default solver; a solver that is named is used."""
    write_csv(tmp_path / "part0.csv", X, Y)
    model = tmp_path / "model.json"
    about = ["-m", str(model), "--dask", address, "--epochs", "2", "--tol", "0", *more]
    done = CliRunner().invoke(app, ["train", str(tmp_path / "part0.csv"), *about])
    assert done.exit_code == 0, done.output
    assert LinearModel.load(model).settings["solver"] == solver


def test_the_order_is_the_one_asked_for(address, tmp_path):
    """An order that Dask supports is used, and another is refused with an alternative."""
    write_csv(tmp_path / "part0.csv", X, Y)
    model = tmp_path / "model.json"
    about = ["-m", str(model), "--dask", address, "--epochs", "2", "--tol", "0", "--order"]
    done = CliRunner().invoke(app, ["train", str(tmp_path / "part0.csv"), *about, "uniform"])
    assert done.exit_code == 0, done.output
    assert LinearModel.load(model).estimator().order == "uniform"
    refused = CliRunner().invoke(app, ["train", str(tmp_path / "part0.csv"), *about, "balanced"])
    assert refused.exit_code == 1
    assert "is not supported on Dask; use 'auto'" in refused.output.replace("\n", " ")
