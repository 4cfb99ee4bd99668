"""Which columns of a file the command uses, how it reads their fields, and how much it reads."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys

import numpy as np
import pytest

from antithetic import LogisticRegression
from antithetic.datasets import read_file

pytest.importorskip("typer")
pytest.importorskip("rich")
from test_cli import data, run, run_json

from antithetic._util import progress
from antithetic.datasets import _stream
from antithetic.estimators.model_file import LinearModel


def write(path, *columns, delimiter=",", ending="\n"):
    lines = [delimiter.join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text(ending.join(lines) + ending)
    return path


@pytest.fixture
def people(tmp_path):
    """Two columns of numbers, one of notes, one of dates, and labels."""
    X, y = data(60)
    stamps = np.datetime64("2024-01-01") + np.arange(60) * np.timedelta64(7, "h")
    return write(
        tmp_path / "people.csv",
        ["a", *X[:, 0].tolist()],
        ["b", *X[:, 1].tolist()],
        ["note", *(f"note {number}" for number in range(60))],
        ["seen", *stamps.astype("datetime64[m]")],
        ["label", *y],
    )


def test_columns_are_chosen_or_left_out(people, tmp_path):
    """Both ways give the same model, and the file to predict needs the chosen columns alone."""
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    run("train", people, "-m", one, "--features", "b", "--features", "0", "--epochs", 3)
    run("train", people, "-m", two, "--leave-out", "note", "--leave-out", "seen", "--epochs", 3)
    chosen, left = LinearModel.load(one), LinearModel.load(two)
    assert chosen.feature_names == ["b", "a"]
    assert left.feature_names == ["a", "b"]
    bare = write(tmp_path / "bare.csv", ["b", "1.0"], ["a", "2.0"])
    assert run_json("predict", one, bare)["rows"] == 1


@pytest.mark.parametrize("command", ["train", "compare", "pair"])
def test_advice_names_options_that_exist(people, tmp_path, command):
    """The advice of an error can be followed, and then the command works."""
    out = {
        "train": ["-m", tmp_path / "model.json"],
        "compare": ["--epochs", 1, "--seeds", 1],
        "pair": ["-o", tmp_path / "table.npz"],
    }[command]
    _, error = run(command, people, *out, code=1)
    assert "--dates" in error
    assert "--leave-out" in error
    _, error = run(command, people, *out, "--dates", code=1)
    assert "--one-hot" in error
    assert "--leave-out" in error
    run(command, people, *out, "--dates", "--leave-out", "note")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--features", "a", "--leave-out", "b"], "cannot be combined"),
        (["--leave-out", "height"], "no column 'height'; it has 'a', 'b'"),
        (["--leave-out", "label", "--target", "label"], "is the target and cannot be left out"),
        (["--max-bytes", "much"], "--max-bytes much"),
        (["--leave-out", "note", "--leave-out", "seen", "--max-bytes", "1K"], "larger --max-bytes"),
        (["--dask", "local", "--dates"], "need all rows at once"),
    ],
)
def test_options_that_do_not_fit_are_refused(people, tmp_path, options, message):
    _, error = run("train", people, "-m", tmp_path / "model.json", *options, code=1)
    assert message in error


def test_dates_become_days(people, tmp_path):
    """They are days since 1970; a model asks for dates in the file that it predicts."""
    found = read_file(people, leave_out=["note"], dates=True)
    assert found.date_names == ["seen"]
    np.testing.assert_allclose(found.data[:3, 2] - 19723, [0.0, 7 / 24, 14 / 24], atol=1e-9)
    model = tmp_path / "model.json"
    run("train", people, "-m", model, "--leave-out", "note", "--dates", "--epochs", 3)
    assert LinearModel.load(model).dates == ["seen"]
    assert run_json("predict", model, people)["rows"] == 60
    numbers = write(tmp_path / "numbers.csv", ["a", 1.0], ["b", 1.0], ["seen", 19723])
    _, error = run("predict", model, numbers, code=1)
    assert "column 'seen' holds no dates" in error


def test_dates_in_parquet_are_those_in_text(people, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    text = read_file(people, leave_out=["note"], dates=True)
    stamps = np.datetime64("2024-01-01") + np.arange(60) * np.timedelta64(7, "h")
    columns = {"a": text.data[:, 0], "b": text.data[:, 1]}
    for name, seen in (
        ("typed", stamps.astype("datetime64[us]")),
        ("words", stamps.astype("datetime64[m]").astype(str)),
    ):
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(pa.table(columns | {"seen": seen, "label": text.target}), path)
        with pytest.raises(ValueError, match="dates=True"):
            read_file(path)
        found = read_file(path, dates=True)
        np.testing.assert_allclose(found.data, text.data, rtol=0, atol=1e-9)
        assert found.date_names == ["seen"]


def test_a_word_among_dates_is_named(tmp_path):
    path = write(
        tmp_path / "data.csv",
        ["when", "2024-01-01", "2024-01-02", "soon"],
        ["x", 1, 2, 3],
        ["y", 0, 1, 0],
    )
    with pytest.raises(ValueError, match="column 'when' holds dates, but also 'soon'"):
        read_file(path, dates=True, one_hot=True)


def test_decimal_commas(tmp_path):
    """Numbers with commas are read when asked for, and named when not."""
    X, y = data(40)
    written = [[f"{value:.6f}".replace(".", ",") for value in column] for column in X.T]
    columns = [[name, *column] for name, column in zip("abc", written, strict=True)]
    path = write(tmp_path / "data.csv", *columns, ["label", *y], delimiter=";")
    with pytest.raises(ValueError, match="numbers with decimal commas; pass decimal=','"):
        read_file(path)
    found = read_file(path, decimal=",")
    np.testing.assert_allclose(found.data, X, atol=1e-6)
    model = tmp_path / "model.json"
    _, error = run("train", path, "-m", model, code=1)
    assert "--decimal-comma" in error
    run("train", path, "-m", model, "--decimal-comma", "--epochs", 3)
    assert run_json("predict", model, path, "--decimal-comma")["rows"] == 40


def test_one_error_names_every_kind_of_column(tmp_path):
    """Dates, decimal commas and words are named together, also where values are missing."""
    path = write(
        tmp_path / "data.csv",
        ["day", "2024-01-01", "", "2024-01-03"],
        ["price", "1,5", "2,5", "NA"],
        ["city", "Rome", "Oslo", "Rome"],
        ["y", 0, 1, 0],
        delimiter=";",
    )
    with pytest.raises(ValueError, match=r"'day' holds dates.*'price' holds num.*'city' holds te"):
        read_file(path)
    _, error = run("train", path, "-m", tmp_path / "model.json", code=1)
    assert all(option in error for option in ("--dates", "--decimal-comma", "--one-hot"))


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("C{:03d}", "leave it out with --leave-out"),
        ("20{:02d}-01-01", "use --dates"),
        ("{},5", "use --decimal-comma"),
    ],
)
def test_columns_of_mostly_different_words_are_named(tmp_path, word, advice):
    """One-hot encoding of identifiers, dates or numbers is pointed out, in words of the command."""
    names = [word.format(number) for number in range(30)]
    labels = [number % 2 for number in range(30)]
    path = write(
        tmp_path / "data.csv", ["id", *names], ["a", *range(30)], ["y", *labels], delimiter=";"
    )
    model = tmp_path / "model.json"
    with pytest.warns(UserWarning, match="column 'id' has 30 different words in 30 rows"):
        read_file(path, one_hot=True)
    _, notes = run("train", path, "-m", model, "--one-hot", "--epochs", 3, "--tol", 0)
    assert "note: " in notes
    assert advice in " ".join(notes.split())
    path = write(tmp_path / "city.csv", ["id", *(["Rome", "Oslo"] * 15)], ["y", *labels])
    assert read_file(path, one_hot=True).data.shape == (30, 2)


def test_missing_values_come_with_advice_that_can_be_followed(tmp_path):
    """A feature may be left out, a target may not, and a column that a model needs may not."""
    good = write(tmp_path / "good.csv", ["a", 1, 2, 3, 4], ["b", 4, 3, 2, 1], ["y", 0, 1, 0, 1])
    gap = write(tmp_path / "gap.csv", ["a", 1, 2, "", 4], ["b", 4, 3, 2, 1], ["y", 0, 1, 0, 1])
    model = tmp_path / "model.json"
    run("train", good, "-m", model, "--epochs", 3, "--validation", 0)
    assert "--leave-out" in run("train", gap, "-m", tmp_path / "other.json", code=1)[1]
    for command in (
        ("predict", model, gap),
        ("train", gap, "-m", tmp_path / "other.json", "--target", "a"),
        ("train", gap, "-m", tmp_path / "other.json", "--features", "a", "--target", "y"),
    ):
        _, error = run(*command, code=1)
        assert "line 4 has no value in column 'a'" in error
        assert "--leave-out" not in error


def test_words_where_a_model_has_numbers_are_named(tmp_path):
    """`predict` says which column holds words, and asks for decimal commas where they are such."""
    labels = ["y", 0, 1, 0, 1]
    good = write(tmp_path / "good.csv", ["a", 1, 2, 3, 4], ["b", 4, 3, 2, 1], labels)
    model = tmp_path / "model.json"
    run("train", good, "-m", model, "--epochs", 3, "--validation", 0)
    for word, advice in (("1,5", "use --decimal-comma"), ("tall", "correct the file")):
        path = write(
            tmp_path / "bad.csv", ["a", *[word] * 4], ["b", 4, 3, 2, 1], labels, delimiter=";"
        )
        _, error = run("predict", model, path, code=1)
        assert f"column 'a' holds words such as '{word}'" in error
        assert advice in error
    _, error = run("predict", good, model, code=1)
    assert "the model comes first" in error


def test_a_point_among_decimal_commas_is_refused(tmp_path):
    """1.500 may mean 1500, so it is not guessed; the line is named."""
    path = write(tmp_path / "data.csv", ["a", "1,5", "1.500"], ["y", "0", "1"], delimiter=";")
    with pytest.raises(ValueError, match=r"line 3 has the word '1\.500' in column 'a'"):
        read_file(path, decimal=",")
    with pytest.raises(ValueError, match=r"decimal must be '\.' or ','; got ';'"):
        read_file(path, decimal=";")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_a_long_reading_shows_a_bar_of_the_bytes_on_the_disk(tmp_path, monkeypatch, pack):
    """A small file that expands shows how much of it is behind, from the start to the end."""
    seen = []
    monkeypatch.setattr(progress, "_late", lambda *_bar: seen.append)
    path = tmp_path / "data.csv.x"
    rows = np.random.default_rng(0).normal(size=(50_000, 2))
    lines = [f"{a},{b},{number % 2}" for number, (a, b) in enumerate(rows.tolist())]
    path.write_bytes(pack("\n".join(["a,b,y", *lines]).encode()))
    read_file(path, progress=True)
    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size
    assert seen[0] < seen[-1]


def test_short_readings_show_no_bar(tmp_path, monkeypatch, capsys):
    """The bar appears after a second; short jobs leave no trace on the screen."""
    path = tmp_path / "data.csv"
    path.write_text("a,y\n1,0\n2,1\n")
    read_file(path, progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_stream, "_PATIENCE", 1e-9)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", -1.0)
    read_file(path, progress=True)
    assert "reading data.csv" in capsys.readouterr().err


def test_the_limit_can_be_set(tmp_path):
    """A small file that expands to more than the limit is refused before all of it is read."""
    path = tmp_path / "bomb.csv.gz"
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb") as packed:
        packed.write(b"a,y\n" + b"1,0\n2,1\n" * 500_000)
    path.write_bytes(content.getvalue())
    assert path.stat().st_size < 100_000
    model = tmp_path / "model.json"
    _, error = run("train", path, "-m", model, "--max-bytes", "1M", code=1)
    assert "holds more than" in error
    assert "--max-bytes" in error
    run("train", path, "-m", model, "--max-bytes", "0.1G", "--epochs", 1)
    _, error = run("predict", model, path, "--max-bytes", "1000000", code=1)
    assert "--max-bytes" in error


def test_a_model_saved_without_names_says_how_to_save_them(people, tmp_path):
    """The advice of the error can be followed: with names, the columns of a table are found."""
    read, saved = read_file(people, features=["a", "b"], target="label"), tmp_path / "model.json"
    model = LogisticRegression().fit(read.data, read.target)
    LinearModel.of(model).save(saved)
    assert "save it with LinearModel.of(model, data)" in run("predict", saved, people, code=1)[1]
    LinearModel.of(model, feature_names=read.feature_names).save(saved)
    predicted = [line.split(",")[0] for line in run("predict", saved, people)[0].splitlines()[1:]]
    assert predicted == model.predict(read.data).tolist()
