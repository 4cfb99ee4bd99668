"""The command: on real files of each format, with errors in one sentence, and JSON for machines."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import antithetic

pytest.importorskip("pty", reason="Windows has no such terminals")
pytest.importorskip("typer")
pytest.importorskip("rich")
import pty

from typer.testing import CliRunner

from antithetic._cli.app import app
from antithetic._cli.console import as_json, plain, show_table
from antithetic.estimators.model_file import LinearModel
from antithetic.orders.order import ORDERS

pytestmark = pytest.mark.wheel

ESCAPE = "\x1b"


def data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=n) > 0, "yes", "no")


def write_table(path, X, y, delimiter=",", names=("a", "b", "c", "label")):
    lines = [delimiter.join(names)] + [
        delimiter.join([*map(repr, row), str(label)])
        for row, label in zip(X.tolist(), y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_svmlight(X, y, first=1):
    return "".join(
        f"{1 if label == 'yes' else -1} "
        + " ".join(f"{k}:{value!r}" for k, value in enumerate(row, first))
        + "\n"
        for row, label in zip(X.tolist(), y, strict=True)
    )


def write(folder, form):
    X, y = data()
    path = folder / f"data.{form}"
    if form in ("csv", "tsv"):
        return write_table(path, X, y, "," if form == "csv" else "\t")
    if form == "svm":
        path.write_text(write_svmlight(X, y))
    elif form == "svm.gz":
        path.write_bytes(gzip.compress(write_svmlight(X, y).encode()))
    elif form == "npz":
        np.savez(path, X=X, y=y)
    elif form == "npy":
        np.save(path, np.column_stack([X, y == "yes"]))
    else:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": y}), path)
    return path


def run(*arguments, code=0, command=app):
    """Run in this process; give standard output and error."""
    result = CliRunner(env={"COLUMNS": "80"}).invoke(
        command, [str(argument) for argument in arguments]
    )
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result.stdout, result.stderr


def run_json(*arguments, code=0, command=app):
    return json.loads(run(*arguments, "--json", code=code, command=command)[0])


def run_process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "antithetic", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "data.csv", *data())


# ---- the ways to call it


def test_as_a_module():
    done = run_process("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"antithetic {antithetic.__version__} (kernels: ")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys, missing):
    from antithetic.cli import main

    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 1
    assert 'pip install "antithetic[cli]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [[], ["reproduce"], ["compare"], ["pair"], ["train"], ["predict"]]
)
def test_help_teaches_and_fits(command):
    out, _ = run(*command, "--help")
    assert f"antithetic {' '.join(command)}".strip() in out
    assert out.count("antithetic") >= 3  # examples
    assert max(map(len, out.splitlines())) <= 80
    assert "[bold]" not in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["train", "x.csv"],
        ["train", "--nonsense"],
        ["compare", "x.csv", "--epochs", "0"],
    ],
)
def test_a_wrong_call_is_code_2(arguments):
    out, error = run(*arguments, code=2)
    assert "Usage" in error
    assert out == ""


def test_completion_is_offered():
    done = run_process(
        _ANTITHETIC_COMPLETE="complete_bash", COMP_WORDS="antithetic re", COMP_CWORD="1"
    )
    assert done.stdout.split() == ["reproduce"]


# ---- train and predict


@pytest.mark.parametrize("solver", ["exact", "sgd"])
@pytest.mark.parametrize("form", ["csv", "tsv", "svm", "svm.gz", "npz", "npy", "parquet"])
def test_train_and_predict_are_the_estimator(tmp_path, form, solver):
    path, model, out = write(tmp_path, form), tmp_path / "model.json", tmp_path / "predictions.csv"
    given = ("--tol", 0, "--epochs", 5, "--solver", "sgd") if solver == "sgd" else ()
    trained = run_json("train", path, "--model", model, "--seed", 3, *given)
    run("predict", model, path, "--out", out)
    read = antithetic.datasets.read_file(path)
    X, y = read.data, read.target
    estimator = antithetic.LogisticRegression(C=1e4 / X.shape[0], random_state=3)
    if solver == "sgd":
        estimator = antithetic.SGDClassifier(
            loss="log_loss", alpha=1e-4, max_iter=5, tol=None, random_state=3
        )
    estimator.fit(X, y)
    assert type(LinearModel.load(model).estimator()) is type(estimator)
    assert trained["settings"]["solver"] == solver
    rows = list(csv.reader(out.read_text().splitlines()))
    labels = [
        f"{label:g}" if isinstance(label, float) else label for label in estimator.classes_.tolist()
    ]
    assert rows[0] == ["prediction", "decision", *(f"probability {label}" for label in labels)]
    assert [row[0] for row in rows[1:]] == [str(label) for label in estimator.predict(X).tolist()]
    numbers = np.array([row[1:] for row in rows[1:]], dtype=np.float64)
    np.testing.assert_array_equal(numbers[:, 0], estimator.decision_function(X))
    np.testing.assert_array_equal(numbers[:, 1:], estimator.predict_proba(X))
    assert trained["accuracy"] == estimator.score(X, y)


def test_rows_without_labels_in_another_order(tmp_path, table):
    run("train", table, "--model", tmp_path / "model.json", "--epochs", 3)
    X, _ = data()
    mixed = write_table(
        tmp_path / "mixed.csv", X[:, [2, 0, 1]][:1], ["unused"], names=("c", "a", "b", "note")
    )
    bare = tmp_path / "bare.csv"
    bare.write_text("b,a,c\n" + ",".join(map(repr, X[0, [1, 0, 2]].tolist())) + "\n")
    whole = run_json("predict", tmp_path / "model.json", table)["columns"]
    for path in (mixed, bare):
        one = run_json("predict", tmp_path / "model.json", path)["columns"]
        assert one.pop("prediction") == whole["prediction"][:1]
        for name, values in one.items():
            assert values == pytest.approx(whole[name][:1], rel=1e-12)


def test_svmlight_rows_that_lack_labels_and_last_features(tmp_path):
    run("train", write(tmp_path, "svm"), "--model", tmp_path / "model.json", "--epochs", 3)
    (tmp_path / "new.svm").write_text("0 1:0.5\n0 2:1.0\n")
    assert run_json("predict", tmp_path / "model.json", tmp_path / "new.svm")["rows"] == 2
    (tmp_path / "wide.svm").write_text("0 1:0.5 9:1.0\n")
    assert "features" in run("predict", tmp_path / "model.json", tmp_path / "wide.svm", code=1)[1]


@pytest.mark.parametrize("first", [0, 1])
def test_svmlight_features_are_numbered_as_in_training(tmp_path, first):
    (tmp_path / "data.svm").write_text(write_svmlight(*data(), first))
    run("train", tmp_path / "data.svm", "--model", tmp_path / "model.json", "--epochs", 3)
    held = LinearModel.load(tmp_path / "model.json")
    assert held.first_index == first
    # On its own this file would be read as numbered from 1.
    (tmp_path / "new.svm").write_text("0 1:1.0\n0 2:1.0\n")
    found = run_json("predict", tmp_path / "model.json", tmp_path / "new.svm")["columns"][
        "decision"
    ]
    assert found == pytest.approx(
        [held.coef[0, 1 - first] + held.intercept[0], held.coef[0, 2 - first] + held.intercept[0]],
        rel=1e-12,
    )
    if first == 1:
        (tmp_path / "zero.svm").write_text("0 0:1.0\n")
        assert (
            "index 0" in run("predict", tmp_path / "model.json", tmp_path / "zero.svm", code=1)[1]
        )


def test_svmlight_without_names_needs_the_index_of_the_model(tmp_path):
    (tmp_path / "new.svm").write_text("0 1:1.0\n0 2:1.0\n")
    for index, expected in ((0, [2.0, 4.0]), (1, [1.0, 2.0])):
        LinearModel(
            "regressor", "squared_error", [[1.0, 2.0, 4.0]], [0.0], None, None, first_index=index
        ).save(tmp_path / "model.json")
        assert (
            run_json("predict", tmp_path / "model.json", tmp_path / "new.svm")["columns"][
                "prediction"
            ]
            == expected
        )
    LinearModel("regressor", "squared_error", [[1.0, 2.0, 4.0]], [0.0], None, None).save(
        tmp_path / "model.json"
    )
    assert (
        "from 0 or from 1"
        in run("predict", tmp_path / "model.json", tmp_path / "new.svm", code=1)[1]
    )


def test_svmlight_does_not_pass_for_named_columns(tmp_path, table):
    run("train", table, "--model", tmp_path / "model.json", "--epochs", 3)
    _, error = run("predict", tmp_path / "model.json", write(tmp_path, "svm"), code=1)
    assert "'a', 'b', 'c'" in error


def test_words_in_columns_with_an_equals_sign(tmp_path):
    X, y = data(60)
    colours, kinds = (
        np.array(["red", "b=c"])[np.arange(60) % 2],
        np.array(["c", "d", "e"])[np.arange(60) % 3],
    )
    rows = [
        ("a=b", "a", "size=1", "label"),
        *zip(kinds, colours, map(repr, X[:, 0].tolist()), y, strict=True),
    ]
    path, model = tmp_path / "words.csv", tmp_path / "model.json"
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    colliding = run("train", path, "--model", model, "--one-hot", "--epochs", 2, code=1)[1]
    assert "twice" in colliding  # a=b=c is both
    path.write_text(path.read_text().replace("b=c,", "b=x,"))
    run("train", path, "--model", model, "--one-hot")
    assert LinearModel.load(model).words == {"a=b": ["c", "d", "e"], "a": ["b=x", "red"]}
    read = antithetic.datasets.read_file(path, one_hot=True)
    estimator = antithetic.LogisticRegression(C=1e4 / 60).fit(read.data, read.target)
    assert (
        run_json("predict", model, path)["columns"]["decision"]
        == estimator.decision_function(read.data).tolist()
    )


# ---- what is written where


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "{data}", "--model", "{data}"],
        ["train", "{data}", "--model", "{folder}/link.csv"],
        ["train", "{data}", "--model", "{folder}/other.txt"],
        ["predict", "{folder}/model.json", "{data}", "--out", "{data}"],
        ["predict", "{folder}/model.json", "{data}", "--out", "{folder}/model.json"],
        ["pair", "{folder}/data.npz", "--out", "{folder}/data.npz"],
        ["compare", "{folder}/report/curves.csv", "--out", "{folder}/report"],
    ],
    ids=" ".join,
)
def test_nothing_is_written_over_what_is_read(tmp_path, table, arguments):
    run("train", table, "--model", tmp_path / "model.json", "--epochs", 2)
    write(tmp_path, "npz")
    (tmp_path / "link.csv").symlink_to(table)
    (tmp_path / "other.txt").write_text("precious")
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "curves.csv").write_bytes(table.read_bytes())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    _, error = run(
        *(argument.format(folder=tmp_path, data=table) for argument in arguments), code=1
    )
    assert "name another file" in error
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("ending", [".pkl", ".joblib", ".npz"])
def test_a_model_is_not_named_like_another_format(tmp_path, ending):
    """The command says so before it reads the data, which may take long."""
    model = tmp_path / f"model{ending}"
    _, error = run("train", tmp_path / "nothing.csv", "--model", model, code=1)
    assert f"saved as JSON, not as {ending}; name a file that ends in .json" in error
    assert not model.exists()


def test_a_model_may_be_written_again(tmp_path, table):
    (tmp_path / "model.json").touch()
    for seed in (0, 1):
        run("train", table, "--model", tmp_path / "model.json", "--epochs", 2, "--seed", seed)
    assert LinearModel.load(tmp_path / "model.json").settings["random_state"] == 1


def test_links_and_special_files_stay(tmp_path, table):
    run("train", table, "--model", tmp_path / "model.json", "--epochs", 2)
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    run("predict", tmp_path / "model.json", table, "--out", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("prediction")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    run("predict", tmp_path / "model.json", table, "--out", tmp_path / "pipe")
    assert os.read(reader, 10) == b"prediction"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_groups_are_not_called_damaged(tmp_path, table):
    run("pair", table, "--out", tmp_path / "groups.npz", "--nest", 4)
    _, error = run(
        "train",
        table,
        "--model",
        tmp_path / "model.json",
        "--pairs",
        tmp_path / "groups.npz",
        code=1,
    )
    assert "without --nest" in error
    assert "damaged" not in error


def test_missing_features_are_named(tmp_path, table):
    run("train", table, "--model", tmp_path / "model.json", "--epochs", 3)
    other = tmp_path / "other.csv"
    other.write_text("a,z\n1.0,2.0\n2.0,3.0\n")
    _, error = run("predict", tmp_path / "model.json", other, code=1)
    assert "'b', 'c'" in error
    assert "lacks" in error


def test_words_become_columns_on_request(tmp_path):
    X, y = data(60)
    colours = np.array(["red", "green", "blue"])[np.arange(60) % 3]
    lines = ["size,colour,label"] + [
        f"{row[0]!r},{colour},{label}"
        for row, colour, label in zip(X.tolist(), colours, y, strict=True)
    ]
    path, model = tmp_path / "words.csv", tmp_path / "model.json"
    path.write_text("\n".join(lines) + "\n")
    _, error = run("train", path, "--model", model, code=1)
    assert "--one-hot" in error
    assert "one_hot=" not in error
    run("train", path, "--model", model, "--one-hot")
    read = antithetic.datasets.read_file(path, one_hot=True)
    estimator = antithetic.LogisticRegression(C=1e4 / 60).fit(read.data, read.target)
    assert (
        run_json("predict", model, path)["columns"]["decision"]
        == estimator.decision_function(read.data).tolist()
    )
    (tmp_path / "new.csv").write_text("colour,size\nred,0.5\nmauve,0.5\n")
    result, error = run("predict", model, tmp_path / "new.csv", "--json")
    assert "colour=mauve" in error
    known = dict(zip(read.feature_names, estimator.coef_[0].tolist(), strict=True))
    expected = [
        0.5 * known["size"] + known["colour=red"] + estimator.intercept_[0],
        0.5 * known["size"] + estimator.intercept_[0],
    ]
    assert json.loads(result)["columns"]["decision"] == pytest.approx(expected, rel=1e-12)


def test_a_warning_is_a_note(tmp_path, table):
    for solver, note in (
        ("sgd", "note: --epochs 1 ended the fit, but the objective is still about"),
        ("exact", "note: --epochs 1 ended the fit: the gap to the optimum is"),
    ):
        given = ("--model", tmp_path / "model.json", "--epochs", 1, "--solver", solver)
        out, error = run("train", table, *given)
        assert error.startswith(note)
        assert "ncreas" in error
        assert "max_iter" not in error
        assert "model written" in out


def test_numbers_are_regressed(tmp_path):
    X, _ = data()
    path = write_table(
        tmp_path / "numbers.csv", X, [f"{value:.6f}" for value in X @ [1.0, 2.0, 3.0]]
    )
    trained = run_json("train", path, "--model", tmp_path / "model.json", "--epochs", 20)
    assert trained["settings"]["loss"] == "squared_error"
    assert trained["plan"]["method"] == "least squares"
    assert trained["r2"] > 0.9
    assert list(run_json("predict", tmp_path / "model.json", path)["columns"]) == ["prediction"]
    _, error = run("train", path, "--model", tmp_path / "model.json", "--loss", "hinge", code=1)
    assert "regression" in error


def test_a_table_is_made_and_used(tmp_path, table):
    made = run_json("pair", table, "--out", tmp_path / "table.npz", "--method", "greedy")
    read = antithetic.datasets.read_file(table)
    expected = antithetic.pair(read.data, read.target, "greedy", fit_intercept=True)
    held = antithetic.AntitheticTable.load(tmp_path / "table.npz")
    np.testing.assert_array_equal(held.partner, expected.partner)
    assert made["quality"]["variance_ratio"] == expected.variance_ratio(
        read.data, read.target, fit_intercept=True
    )
    trained = run_json(
        "train",
        table,
        "--model",
        tmp_path / "model.json",
        "--pairs",
        tmp_path / "table.npz",
        "--epochs",
        3,
    )
    assert trained["plan"]["pairs"] == "greedy"
    assert trained["settings"]["pairs"] == "table.npz"
    groups = run_json("pair", table, "--out", tmp_path / "groups.npz", "--nest", 8)
    assert groups["quality"]["group_size"] == 8
    out, _ = run("pair", table, "--out", tmp_path / "table.npz")
    assert "variance ratio" in out


@pytest.mark.parametrize("order", sorted(ORDERS.keys() - {"stratified"}))
def test_an_order_and_a_method_of_pairing_are_those_of_the_estimator(tmp_path, table, order):
    """``--order`` and ``--pairs`` train what the object made of both trains."""
    model, given = tmp_path / "model.json", ("--order", order, "--pairs", "greedy", "--epochs", 3)
    trained = run_json("train", table, "--model", model, *given)
    assert (trained["plan"]["order"], trained["plan"]["pairs"]) == (order, "greedy")
    assert (trained["settings"]["order"], trained["settings"]["pairs"]) == (order, "greedy")
    read = antithetic.datasets.read_file(table)
    expected = antithetic.SGDClassifier(
        loss="log_loss", order=ORDERS[order](pairs="greedy"), max_iter=3, tol=1e-4, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected.fit(read.data, read.target)
    np.testing.assert_array_equal(LinearModel.load(model).coef, expected.coef_)


def test_an_order_alone_is_that_of_the_estimator(tmp_path, table):
    trained = run_json("train", table, "-m", tmp_path / "m.json", "--order", "shuffle")
    assert (trained["plan"]["order"], trained["plan"]["pairs"]) == ("shuffle", None)


@pytest.mark.parametrize(
    ("given", "solver"),
    [
        ((), "exact"),
        (("--loss", "hinge"), "sgd"),
        (("--penalty", "l1"), "exact"),
        (("--loss", "squared_hinge", "--penalty", "elasticnet"), "sgd"),
        (("--order", "shuffle"), "sgd"),
        (("--solver", "saga"), "saga"),
    ],
)
def test_the_solver_is_exact_if_it_can_be(tmp_path, table, given, solver):
    """Other losses, and orders of the rows, are trained by SGD, as is what asks for it."""
    trained = run_json("train", table, "-m", tmp_path / "m.json", *given)
    assert trained["settings"]["solver"] == solver
    assert ("method" in trained["plan"]) == (solver == "exact")


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "quantile"])
def test_counts_and_amounts_have_their_own_class(tmp_path, loss):
    """A loss with an exact class trains that; the model says which."""
    X, _ = data()
    path = write_table(tmp_path / "n.csv", X, [f"{v:.6f}" for v in np.exp(X @ [0.1, 0.2, 0.3])])
    trained = run_json("train", path, "-m", tmp_path / "m.json", "--loss", loss)
    name = LinearModel.load(tmp_path / "m.json").estimator_name
    assert name == (None if loss == "quantile" else f"{loss.capitalize()}Regressor")
    assert trained["d2"] > 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--solver", "newton"), "use one of exact, sgd, svrg, saga, sdca"),
        (("--solver", "exact", "--loss", "hinge"), "is not supported by an exact class; use --sol"),
        (("--solver", "exact", "--order", "shuffle"), "SGD's steps; use --solver sgd"),
        (("--penalty", "l3"), "use one of l2, l1, elasticnet, none"),
        (("--order", "nonsense"), "use one of auto, uniform, shuffle, balanced"),
        (("--pairs", "greedy"), "add --order uniform"),
        (("--order", "stratified", "--pairs", "greedy"), "leave --pairs out"),
        (("--order", "shuffle", "--pairs", "nonsense"), "neither a method nor a file; use one of"),
        (("--order", "balanced", "--solver", "saga"), 'use order="shuffle"'),
        (("--pairs", "greedy", "--order", "shuffle", "--dask", "local"), "leave them out"),
    ],
)
def test_what_does_not_go_together_is_refused_with_advice(tmp_path, table, given, message):
    _, error = run("train", table, "--model", tmp_path / "model.json", *given, code=1)
    assert message in error
    assert not (tmp_path / "model.json").exists()


def test_hostile_names_stay_text(tmp_path):
    X, y = data()
    names = (f"{ESCAPE}[31ma", "=cmd|'/c calc'", "[bold]c", "label")
    path = tmp_path / "hostile.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [names, *([*row, label] for row, label in zip(X.tolist(), y, strict=True))]
        )
    out, error = run("train", path, "--model", tmp_path / "model.json", "--epochs", 2)
    assert ESCAPE not in out + error
    (tmp_path / "bad.csv").write_text("q,r\n1,2\n3,4\n")
    _, error = run("predict", tmp_path / "model.json", tmp_path / "bad.csv", code=1)
    assert "[bold]c" in error
    assert ESCAPE not in error


def test_classes_that_a_spreadsheet_would_run_are_quoted(tmp_path):
    X, y = data()
    path = write_table(tmp_path / "data.csv", X, np.where(y == "yes", "=1+1", "@x"))
    run("train", path, "--model", tmp_path / "model.json", "--epochs", 2)
    rows = list(csv.reader(io.StringIO(run("predict", tmp_path / "model.json", path)[0])))
    assert {row[0] for row in rows[1:]} <= {"'=1+1", "'@x"}


# ---- errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "{folder}/nothing.csv", "--model", "{folder}/m.json"],
        ["train", "{folder}/data.csv", "--model", "{folder}/m.json", "--loss", "nonsense"],
        ["train", "{folder}/data.csv", "--model", "{folder}/m.json", "--penalty", "nonsense"],
        ["train", "{folder}/data.csv", "--model", "{folder}/m.json", "--target", "nonsense"],
        ["train", "{folder}/data.csv", "--model", "{folder}/no/such/folder/m.json"],
        [
            "train",
            "{folder}/data.csv",
            "--model",
            "{folder}/m.json",
            "--pairs",
            "{folder}/data.csv",
        ],
        ["pair", "{folder}/data.csv", "--out", "{folder}/table.json"],
        ["pair", "{folder}/data.csv", "--out", "{folder}/t.npz", "--nest", "3"],
        ["pair", "{folder}/data.csv", "--out", "{folder}/t.npz", "--nest", "x"],
        ["pair", "{folder}/data.csv", "--out", "{folder}/t.npz", "--method", "nonsense"],
        ["predict", "{folder}/data.csv", "{folder}/data.csv"],
        ["predict", "{folder}/nothing.json", "{folder}/data.csv"],
        ["compare", "{folder}/nothing.csv"],
        ["reproduce", "--only", "nonsense", "--out", "{folder}/report"],
    ],
    ids=" ".join,
)
def test_an_error_is_one_sentence(tmp_path, table, arguments):
    given = [argument.format(folder=tmp_path) for argument in arguments]
    out, error = run(*given, code=1)
    assert out == ""
    assert error.startswith("error: ")
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1
    held = run_json(*given, code=1)
    assert held["error"] == error.removeprefix("error: ").strip()
    assert "Traceback" in run(*given, "--debug", code=1)[1]
    del table


def test_a_fault_of_the_program_says_so(tmp_path, table, monkeypatch):
    def broken(*_args, **_kwargs):
        raise KeyError("oops")

    monkeypatch.setattr("antithetic._cli.train.read_data", broken)
    _, error = run("train", table, "--model", tmp_path / "m.json", code=1)
    assert "bug in antithetic" in error
    assert "--debug" in error


def test_an_interrupt_is_code_130(tmp_path, table, monkeypatch):
    def stopped(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("antithetic._cli.train.read_data", stopped)
    _, error = run("train", table, "--model", tmp_path / "m.json", code=130)
    assert error == "error: interrupted\n"


# ---- the screen


def in_terminal(arguments, **environment):
    """Output of the command when both streams are a terminal of 80 columns."""
    leader, follower = pty.openpty()
    variables = {
        key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "antithetic", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        env=variables | {"TERM": "xterm-256color", "COLUMNS": "80"} | environment,
    )
    os.close(follower)
    read = b""
    with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
        while chunk := os.read(leader, 1 << 16):
            read += chunk
    os.close(leader)
    assert process.wait() in (0, 1)
    return read.decode()


def test_no_color_means_no_escape_codes(tmp_path, table):
    (tmp_path / "coloured").mkdir()
    for arguments in (["--help"], ["pair", table, "--out", tmp_path / "bad.json"]):
        assert ESCAPE in in_terminal(arguments)
        assert ESCAPE not in in_terminal(arguments, NO_COLOR="1")


def test_what_is_shown_is_text():
    assert plain(f"a{ESCAPE}[31m\nb\tc") == "a\N{REPLACEMENT CHARACTER}[31m b c"
    assert as_json({"a": np.float64("nan"), "b": [np.inf, 1.0, None, True], "c": np.arange(2)}) == {
        "a": None,
        "b": [None, 1.0, None, True],
        "c": [0, 1],
    }


def test_tables_fit(tmp_path, table):
    out, _ = run("pair", table, "--out", tmp_path / "table.npz")
    assert max(map(len, out.splitlines())) <= 80
    assert not re.search(r"\bnan\b", out)


@pytest.mark.parametrize("width", [20, 40, 60, 70, 80, 200])
def test_numbers_are_whole_in_any_terminal(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [
        ["SGD-as, greedy", 0.00012, -1.2e-05, 3.4e-05, float("inf")],
        ["reshuffled", 0.5, 1.2e-05, 1.5, float("nan")],
    ]
    show_table(("order", "gap ratio", "var. first", "to goal s", "table s"), rows, digits=2)
    out = capsys.readouterr().out
    assert {
        "0.00012",
        "-1.2e-05",
        "3.4e-05",
        "diverged",
        "0.5",
        "1.2e-05",
        "1.5",
        "\N{EN DASH}",
    } <= set(out.split())
    assert "SGD-as, greedy" in out
    assert max(map(len, out.splitlines())) <= width


def test_a_terminal_gets_no_escape_codes_of_the_data(tmp_path):
    X, y = data()
    path = write_table(tmp_path / "data.csv", X, np.where(y == "yes", f"{ESCAPE}]0;title", "no"))
    run("train", path, "--model", tmp_path / "model.json", "--epochs", 2)
    shown = in_terminal(["predict", tmp_path / "model.json", path], NO_COLOR="1")
    assert "]0;title" in shown
    assert ESCAPE not in shown
    # Output that is not to a terminal is written unchanged.
    assert ESCAPE in run("predict", tmp_path / "model.json", path)[0]
    bad = tmp_path / f"{ESCAPE}[31m.csv"
    shown = in_terminal(["predict", tmp_path / "model.json", bad, "--debug"], NO_COLOR="1")
    assert "Traceback" in shown
    assert ESCAPE not in shown


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
@pytest.mark.parametrize("option", [[], ["--json"], ["--help"]])
def test_a_full_disk_behind_stdout_is_one_sentence(tmp_path, table, option):
    run("train", table, "--model", tmp_path / "model.json", "--epochs", 2)
    command = [
        sys.executable,
        "-m",
        "antithetic",
        "predict",
        tmp_path / "model.json",
        table,
        *option,
    ]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_a_full_disk_is_one_sentence_that_names_the_file(tmp_path, table):
    run("train", table, "--model", tmp_path / "model.json", "--epochs", 2)
    given = ("predict", tmp_path / "model.json", table, "--out", "/dev/full")
    assert run(*given, code=1)[1] == "error: /dev/full: No space left on device\n"


def test_what_a_stream_cannot_encode_is_replaced(tmp_path):
    X, y = data()
    path = write_table(tmp_path / "data.csv", X, np.where(y == "yes", "\N{SNOWMAN}", "no"))
    run("train", path, "--model", tmp_path / "model.json", "--epochs", 2)
    done = run_process("predict", tmp_path / "model.json", path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "probability ?" in done.stdout


# ---- the score on held-out rows


def test_train_compares_unseen_rows_with_a_constant(tmp_path):
    """The score is that of a model that did not see these rows; the model itself saw all."""
    X, y = data(200)
    path, model = write_table(tmp_path / "data.csv", X, y), tmp_path / "model.json"
    found = run_json("train", path, "-m", model)
    rows = np.random.default_rng((0, 200)).permutation(200)
    held, kept = np.sort(rows[:40]), np.sort(rows[40:])
    part = antithetic.LogisticRegression(C=1e4 / 160).fit(X[kept], y[kept])
    whole = antithetic.LogisticRegression(C=1e4 / 200).fit(X, y)
    labels, counts = np.unique(y[kept], return_counts=True)
    assert found["validation"] == {
        "rows": 40,
        "score": part.score(X[held], y[held]),
        "constant": np.mean(y[held] == labels[np.argmax(counts)]),
    }
    np.testing.assert_array_equal(LinearModel.load(model).coef, whole.coef_)
    out, _ = run("train", path, "-m", model, "--epochs", 5)
    assert "accuracy on 40 held-out rows" in out
    assert "a constant prediction has" in out


def test_the_constant_of_a_regression_is_the_mean(tmp_path):
    X, _ = data(100)
    path = write_table(tmp_path / "data.csv", X, X @ [1.0, -2.0, 0.5])
    found = run_json("train", path, "-m", tmp_path / "model.json", "--validation", 0.5)
    assert found["validation"]["rows"] == 50
    assert found["validation"]["score"] > 0.9
    assert -0.2 < found["validation"]["constant"] <= 0.0


def test_a_table_is_cut_to_the_rows_that_are_not_held_out(tmp_path, table):
    """The table of a file is cut to the rows of the second fit."""
    run("pair", table, "-o", tmp_path / "table.npz")
    found = run_json(
        "train", table, "-m", tmp_path / "model.json", "--pairs", tmp_path / "table.npz"
    )
    assert found["validation"]["rows"] == 16


@pytest.mark.parametrize(("rows", "options"), [(80, ["--validation", 0]), (20, [])])
def test_without_held_out_rows_there_is_no_score(tmp_path, rows, options):
    path = write_table(tmp_path / "data.csv", *data(rows))
    assert run_json("train", path, "-m", tmp_path / "m.json", *options)["validation"] is None
    out, _ = run("train", path, "-m", tmp_path / "m.json", *options)
    assert ("too few to hold some out" in out) == (rows == 20)
