"""``antithetic compare``: what it measures is so, and what it recommends runs."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")
from browser import find_chromium, open_browser
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from test_cli import data, run, run_json, write, write_table

import antithetic
from antithetic.datasets._reading import Reading
from antithetic.orders import Balanced, Shuffle
from antithetic.paper.advise import Advice
from antithetic.paper.compare import (
    COMPARED,
    Comparison,
    Measured,
    Minimum,
    column_scales,
    compare_orders,
    rescale,
)
from antithetic.paper.report.of_comparison import advice_beside, comparison_content
from antithetic.problem import Problem
from antithetic.steps import InverseTime

KNOWN = Minimum(0.0, 0.0, 0.0, newton=True)
FAST = ("--epochs", 4, "--seeds", 2, "--alpha", 1e-2)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    path = write_table(folder / "data.csv", *data())
    return path, folder / "report", run_json("compare", path, *FAST, "--out", folder / "report")


def test_every_order_is_measured(compared):
    _, _, found = compared
    assert [row["order"] for row in found["orders"]] == list(COMPARED)
    for row in found["orders"]:
        assert row["gap"] >= 0
        assert row["training [s]"] > 0
        assert (row["table [s]"] > 0) == (COMPARED[row["order"]].pairs is not None)
    assert set(found["curves"]) == set(COMPARED)
    assert all(
        len(curve) == 5 and curve[0] == pytest.approx(1.0) for curve in found["curves"].values()
    )
    best = found["recommended"]
    assert best["order"] == repr(COMPARED[best["name"]])


def test_variance_ratios_are_exact(compared):
    path, _, found = compared
    read = antithetic.datasets.read_file(path)
    X, y = read.data, read.target
    at_first = {row["order"]: row["variance at first"] for row in found["orders"]}
    for name, method in (("SGD-as, greedy", "greedy"), ("SGD-as, tree", "tree")):
        table = antithetic.pair(X, y, method, fit_intercept=True, random_state=0)
        assert at_first[name] == pytest.approx(
            table.variance_ratio(X, y, fit_intercept=True), rel=1e-12
        )
    assert at_first["i.i.d. (SGD)"] == 1.0


def test_the_snippet_runs(compared):
    path, out, found = compared
    assert (out / "train.py").read_text() == found["snippet"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", found["snippet"]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.8
    assert repr(str(path)) in found["snippet"]


def test_the_snippet_has_the_steps_that_were_measured(tmp_path, monkeypatch):
    from antithetic._cli.compare import snippet
    from antithetic._cli.data import read_data

    path = write_table(tmp_path / "data.csv", *data())
    monkeypatch.chdir(tmp_path)
    held = read_data(path.relative_to(tmp_path), Reading(), loss=None)
    found = compare_orders(held.X, held.y, loss="log_loss", alpha=1e-2, epochs=3, seeds=1)
    names = {}
    code = snippet(held, found, epochs=3)
    exec(code, names)
    best, model = found.recommended, names["model"]
    assert (model.eta0, model.decay, model.learning_rate, model.batch_size) == (
        best.steps.eta0,
        best.steps.decay,
        "inverse_time",
        2,
    )
    assert model.order == best.order
    assert repr(str(path)) in code  # from wherever it is run


def test_reshuffling_is_left_only_for_a_clear_gain():
    curve = np.array([[1.0, 0.5, 0.1]])

    def measured(name, seconds):
        steps = InverseTime(1.0, 1.0)
        return Measured(name, COMPARED[name], steps, curve, np.ones(3), 0.0, seconds)

    advice = Advice(Balanced(), 0.5, 0.5, 0.5, 1.0, 10, "since so")
    for seconds, expected in ((0.9, "reshuffled"), (0.5, "balanced")):
        ways = (measured("reshuffled", 1.0), measured("balanced", seconds))
        found = Comparison("log_loss", 1.0, 10, 2, ways, 1.0, KNOWN, advice, 1.0)
        assert found.recommended.name == expected
        (text,) = advice_beside(found)
        assert text.startswith(
            "Use order='balanced'" if expected == "balanced" else "Without measuring"
        )


def test_advice_does_not_contradict_a_comparison_that_recommends_nothing():
    """Where every order ends far from the minimum, there is no advice that was not measured."""
    curve = np.array([[1.0, 0.95, 0.9]])
    ways = (
        Measured(
            "reshuffled", COMPARED["reshuffled"], InverseTime(1.0, 1.0), curve, np.ones(3), 0.0, 1.0
        ),
    )
    advice = Advice(Balanced(), 0.5, 0.5, 0.5, 1.0, 10, "since so")
    found = Comparison("log_loss", 1.0, 10, 2, ways, 1.0, KNOWN, advice, 1.0)
    assert found.is_far
    assert advice_beside(found) == []


@pytest.mark.parametrize("name", COMPARED)
def test_the_snippet_of_every_order_runs(compared, name, monkeypatch, capsys):
    from antithetic._cli.compare import snippet
    from antithetic._cli.data import read_data

    path, _, _ = compared
    held = read_data(path, Reading(target="label"), loss=None)
    found = compare_orders(held.X, held.y, loss="log_loss", alpha=1e-2, epochs=1, seeds=1)
    one = next(one for one in found.measured if one.name == name)
    monkeypatch.setattr(Comparison, "recommended", property(lambda _self: one))
    exec(snippet(held, found, epochs=3), {})
    assert float(capsys.readouterr().out) > 0.5


def test_the_curves_are_written(compared):
    _, out, found = compared
    rows = list(csv.DictReader((out / "curves.csv").read_text().splitlines()))
    assert len(rows) == len(COMPARED) * 2 * 5
    for name, curve in found["curves"].items():
        gaps = [float(row["gap"]) for row in rows if row["order"] == name]
        np.testing.assert_allclose(np.reshape(gaps, (2, 5)).mean(axis=0), curve, rtol=1e-12)
    assert (out / "figures" / "gap-by-epoch.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "figures" / "gap-by-epoch.svg").read_text()


def test_people_get_a_table_and_code(tmp_path):
    path = write_table(tmp_path / "data.csv", *data())
    out, _ = run("compare", path, *FAST)
    assert "model = SGDClassifier(" in out
    assert "best choice" in out
    lines = out.splitlines()
    for name in COMPARED:  # each on one line, with all its numbers
        assert (
            len(
                next(line for line in lines if line.strip().startswith(name))
                .removeprefix(f" {name}")
                .split()
            )
            == 7
        )
    assert max(len(line) for line in out.splitlines() if "read_file(" not in line) <= 80


def test_three_classes_and_a_sample_of_the_rows(tmp_path):
    X, _ = data(90)
    path = write_table(tmp_path / "data.csv", X, np.array(["a", "b", "b", "c"])[np.arange(90) % 4])
    found = run_json("compare", path, *FAST, "--rows", 50)
    assert found["rows"] == 50
    assert "most frequent, b" in found["notes"][0]
    assert "50 random rows of 90" in found["notes"][1]


@pytest.mark.parametrize("form", ["svm", "npz"])
def test_other_formats(tmp_path, form):
    found = run_json(
        "compare", write(tmp_path, form), "--epochs", 2, "--seeds", 1, "--loss", "hinge"
    )
    assert found["settings"]["loss"] == "hinge"


def test_regression(tmp_path):
    X, _ = data()
    path = write_table(
        tmp_path / "data.csv", X, [repr(value) for value in (X @ [1.0, 2.0, 3.0]).tolist()]
    )
    found = run_json("compare", path, *FAST)
    assert "SGDRegressor" in found["snippet"]


@pytest.mark.skipif(
    find_chromium() is None,
    reason="no Chromium: apt-get install chromium, or name one in the variable CHROMIUM",
)
def test_the_report_opens_for_any_file_name(tmp_path):
    path = write_table(tmp_path / "<img src=x onerror=alert(1)>.csv", *data())
    run_json("compare", path, *FAST, "--out", tmp_path / "report")
    with open_browser(find_chromium()) as browser:
        browser.size(1280, 900)
        browser.open(tmp_path / "report" / "report.html")
        assert browser.problems() == []
        widths = browser.run("[...document.images].map((image) => image.naturalWidth)")
        assert len(widths) == browser.run("document.querySelectorAll('figure > img').length") == 3
        assert min(widths) > 300
        assert "<img" in json.loads(
            browser.run("JSON.stringify(document.querySelector('h1').textContent)")
        )


@pytest.mark.parametrize("given", [("compare", "data.csv"), ("reproduce", "--only", "sonar_scale")])
def test_a_file_is_no_folder_for_a_report(tmp_path, given):
    """It is refused before any work."""
    write_table(tmp_path / "data.csv", *data())
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    command, *others = (tmp_path / word if word == "data.csv" else word for word in given)
    _, error = run(command, *others, "--out", file, code=1)
    assert "notes.txt is a file; --out names the folder" in " ".join(error.split())
    assert " of " not in error  # no run was counted
    assert file.read_text() == "mine"


@pytest.mark.parametrize("name", ["report.html", "curves.csv", "train.py"])
def test_foreign_files_are_not_overwritten(tmp_path, name):
    """Foreign files are refused before any work; an earlier comparison is replaced."""
    path, out = write_table(tmp_path / "data.csv", *data()), tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    _, error = run("compare", path, *FAST, "--out", out, code=1)
    assert f"{name} exists and is not part of a report" in " ".join(error.split())
    assert (out / name).read_text() == "mine"
    (out / name).unlink()
    for _ in range(2):
        run("compare", path, "--epochs", 1, "--seeds", 1, "--out", out)


def badly_scaled(n=300):
    """Rows whose third column is thousands of times as large as the others."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3)) * [1.0, 2.0, 6000.0]
    return X, np.sign(X @ [1.0, 0.5, 1e-4] + 0.5 * rng.normal(size=n))


def test_gaps_are_those_to_the_true_minimum(tmp_path):
    """Gaps refer to the minimum even if no run comes near it."""
    X, y = badly_scaled()
    found = run_json("compare", write_table(tmp_path / "data.csv", X, y), *FAST)
    peer = LogisticRegression(C=1.0 / (1e-2 * len(y)), solver="newton-cholesky", tol=1e-10)
    peer.fit(X, y)
    problem = Problem.build(X, y, l2=1e-2, fit_intercept=True)
    least = problem.objective(peer.coef_[0], float(peer.intercept_[0]))
    assert found["minimum"]["certified"]
    assert found["minimum"]["value"] == pytest.approx(least, abs=1e-12)
    assert abs(found["minimum"]["value"] - least) <= found["minimum"]["error"] + 1e-14
    assert found["curves"]["reshuffled"][-1] > 0.3


def test_very_different_scales_are_named_with_what_they_cost(tmp_path):
    X, y = badly_scaled()
    path = write_table(tmp_path / "data.csv", X, y)
    out, _ = run("compare", path, *FAST)
    said = " ".join(out.split())
    assert re.search(
        r"Columns have very different scales: c is \d,\d00 times as large as a\. ", said
    )
    assert "were compared in these units. The cost: reshuffling ends with a gap of" in said
    assert "No order came near the minimum" in said
    assert "scale the columns (StandardScaler" in said
    assert "and so does LogisticRegression, which has no steps" in said
    assert "balanced, since" not in said  # what was not measured is not recommended either
    found = run_json("compare", path, *FAST)
    assert found["advice"] == ""
    assert all(one["same gap [s]"] is None for one in found["orders"])
    (text,) = found["scales"]
    assert "learning_rate" not in found["snippet"]  # the default measures the scales
    as_given, on_one_scale = (
        float(word) for word in re.findall(r"(?:of|with) (\d\.[\de-]+)", text)
    )
    assert on_one_scale < 0.1 < 0.3 < as_given
    assert not run_json("compare", write_table(path, X / X.std(axis=0), y), *FAST)["scales"]


@pytest.mark.parametrize(
    ("options", "why"),
    [(("--loss", "hinge"), "hinge has a kink"), (("--alpha", 0), "alpha is 0")],
)
def test_a_minimum_without_a_certificate_is_named_a_bound(tmp_path, options, why):
    X, y = badly_scaled()
    path = write_table(tmp_path / "data.csv", X, y)
    out, _ = run("compare", path, *FAST, *options)
    assert "Gaps are lower bounds: they are measured from" in " ".join(out.split())
    assert f"not certified here ({why})" in " ".join(out.split())
    found = run_json("compare", path, *FAST, *options)
    assert not found["minimum"]["certified"]
    assert found["minimum"]["error"] is None
    # long runs on columns of one scale come nearer than any on those that were given
    assert found["curves"]["balanced"][-1] > 0.2


def test_scales_of_columns():
    X = np.array([[1.0, 0.0, 300.0], [-3.0, 0.0, 0.0], [0.0, 0.0, -500.0]])
    for rows in (X, sparse.csr_matrix(X), X.astype(np.float32)):
        found = column_scales(rows)
        assert found.size.tolist() == [2.0, 0.0, 400.0]
        assert (found.smallest, found.largest, found.ratio, found.differ) == (0, 2, 200.0, True)
    assert not column_scales(np.zeros((3, 2))).differ
    assert column_scales(np.array([[1e308, 1.0], [1e308, 1.0]])).differ


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_weights_for_rescaled_columns_predict_the_same_on_those_given(convert):
    X, _ = badly_scaled(20)
    X[X < 0] = 0.0
    scaled, weights = rescale(convert(X), column_scales(X)), np.array([1.0, -2.0, 0.5])
    coef, intercept = scaled.undo(weights, 3.0)
    np.testing.assert_allclose(X @ coef + intercept, scaled.X @ weights + 3.0, rtol=1e-12)
    assert not column_scales(scaled.X).differ


def test_a_smaller_objective_leaves_the_bound_below_where_it_is():
    found = Minimum(1.0, 0.5, 0.0, newton=True)
    assert found.lowered_to(0.75)[:2] == (0.75, 0.25)
    assert found.lowered_to(2.0) == found


@pytest.mark.parametrize(("error", "said"), [(0.0, "certified to"), (np.inf, "lower bounds")])
def test_the_page_says_what_gaps_are_measured_from(error, said):
    advice = Advice(Balanced(), 0.5, 0.5, 0.5, 1.0, 10, "since so")
    one = Measured(
        "reshuffled", Shuffle(), InverseTime(1.0), np.array([[1.0, 0.5]]), np.ones(2), 0.0, 1.0
    )
    minimum = Minimum(0.0, error, 0.0, newton=True)
    found = Comparison("log_loss", 1.0, 10, 2, (one,), 1.0, minimum, advice, 1.0)
    page = comparison_content(found, "data.csv", settings={}, versions={})
    assert any(said in sentence for sentence in page.summary)
