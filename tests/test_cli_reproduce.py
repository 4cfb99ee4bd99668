"""``antithetic reproduce``: the report states what was measured, and runs can be resumed."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("typer")
from browser import find_chromium, open_browser
from test_cli import run, run_json
from test_report import HOSTILE

import antithetic
from antithetic.orders import Uniform
from antithetic.paper import LAMBDAS, claims, reproduce, reproduction
from antithetic.paper.report import images, render
from antithetic.paper.report.of_pairs import training
from antithetic.paper.report.of_reproduction import reproduction_content
from antithetic.paper.runs import Bench
from antithetic.problem import Problem
from antithetic.steps import InverseTime

TINY = ("--quick", "--only", "sonar_scale", "--epochs", 2)
NEEDS_CHROMIUM = pytest.mark.skipif(
    find_chromium() is None,
    reason="no Chromium: apt-get install chromium, or name one in the variable CHROMIUM",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce") / "report"
    return out, run_json("reproduce", *TINY, "--out", out)


@pytest.fixture(scope="module")
def page(made):
    with open_browser(find_chromium()) as browser:
        browser.size(1280, 900)
        browser.open(made[0] / "report.html")
        yield browser


def payload(out, page="report.html"):
    text = (out / page).read_text(encoding="utf-8")
    return json.loads(
        text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    )


def test_json_has_every_claim(made):
    out, found = made
    assert found["report"] == str(out / "report.html")
    assert [claim["number"] for claim in found["claims"]] == list(range(1, len(claims([])) + 1))
    assert {claim["verdict"] for claim in found["claims"]} <= {
        "holds",
        "holds in part",
        "does not hold",
        "not measured",
    }
    assert found["settings"]["epochs"] == 2
    assert all(os.path.exists(path) for path in found["files"])


def test_every_figure_is_there_as_picture_and_numbers(made):
    out, _ = made
    held = payload(out)
    ids = [figure["id"] for figure in held["figures"]]
    assert ids == [
        f"sonar-scale-{loss}-{kind}"
        for loss in ("log-loss", "hinge")
        for kind in ("variance", "objective")
    ] + [f"sonar-scale-{loss}-orders" for loss in ("log-loss", "hinge")]
    for name in ids:
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / "figures" / f"{name}.svg").read_text()
    assert {path.stem for path in (out / "csv").iterdir()} >= {
        "objective",
        "variance",
        "claims",
        "settings",
    }


def sonar(loss):
    X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    problem = Problem.build(X, y, loss=loss, l2=LAMBDAS["sonar_scale"])
    return X, y, Bench(problem, y)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_variances_in_the_report_are_exact(made, loss):
    """Variances in the table and the CSV file are exact to 1e-12, at zero and after the run.

    Those of the figure are exact to the digits that it has.
    """
    out, _ = made
    X, y, bench = sonar(loss)
    held = payload(out)
    rows = [row for row in held["tables"][0]["rows"] if row[1] == loss]
    eta0 = next(row[5] for row in held["tables"][2]["rows"] if row[1] == loss)
    weights = bench.weights("SGD", InverseTime(eta0), seeds=1, epochs=2)[0]
    table = antithetic.pair(X, y, "greedy", loss=loss)
    for row, coef in zip(rows, weights[[0, -1]], strict=True):
        expected = [
            antithetic.gradient_variance(X, y, coef, loss=loss, order=Uniform(pairs=given))
            for given in (None, table)
        ]
        assert row[3:5] == pytest.approx(expected, rel=1e-12)
        assert row[5] == pytest.approx(expected[1] / expected[0], rel=1e-12)
    written = list(csv.DictReader((out / "csv" / "variance.csv").read_text().splitlines()))
    pairs = [
        row
        for row in written
        if (row["loss"], row["estimator"], row["weights_of"], row["seed"])
        == (loss, "SGD-as", "SGD", "0")
    ]
    order = Uniform(pairs=table)
    for row, coef in zip(pairs, weights, strict=True):
        assert float(row["variance"]) == pytest.approx(
            antithetic.gradient_variance(X, y, coef, loss=loss, order=order),
            rel=1e-12,
        )
    figure = next(
        figure
        for figure in held["figures"]
        if figure["id"] == f"sonar-scale-{loss.replace('_', '-')}-variance"
    )
    drawn = next(series for series in figure["series"] if series["name"] == "same weights")["runs"][
        0
    ]
    assert drawn == pytest.approx([float(row["variance"]) for row in pairs], rel=1e-8)


def test_the_explorer_trains_as_the_experiment_did():
    """After whole epochs the frames show the first seed's weights, up to rounding in cut epochs."""
    *_, bench = sonar("log_loss")
    for method in ("SGD", "SGD-as"):
        frames = training(bench, method, 0.1, 3)
        expected = bench.weights(method, InverseTime(0.1), seeds=1, epochs=3)[0]
        np.testing.assert_allclose(frames[[0, 8, 9, 10]], expected, rtol=1e-9, atol=1e-12)


@NEEDS_CHROMIUM
def test_the_page_opens_without_a_complaint(page):
    assert page.problems() == []
    assert page.run("document.documentElement.classList.contains('alive')")
    marks = page.run(
        "[...document.querySelectorAll('figure')].map((figure) => figure.querySelectorAll('.series"
        " .mark').length)"
    )
    assert min(marks) >= 6
    assert page.run("document.querySelectorAll('.claims tbody tr').length") == len(claims([]))


@NEEDS_CHROMIUM
def test_hovering_shows_values(page):
    x, y = page.middle("#figure-sonar-scale-log-loss-variance .series .mark:nth-of-type(2)")
    page.move(x, y)
    tip = page.run(
        "document.querySelector('#figure-sonar-scale-log-loss-variance .tip').textContent"
    )
    assert tip.startswith("epoch 1")
    page.move(1, 1)


@NEEDS_CHROMIUM
def test_the_explorer_highlights_the_partner_of_the_table(page):
    X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    partner = antithetic.pair(X, y, "greedy").partner
    for row in (0, 7, 99, 207):
        page.run(
            f"(() => {{const field = document.querySelector('.finder input'); field.value = {row};"
            "field.dispatchEvent(new Event('change'));})()"
        )
        shown = page.run(
            """["chosen", "partner"].map((kind) => [
                ...document.querySelectorAll(".panel:nth-child(1) .pair ." + kind)
            ].map((element) => Number(element.dataset.row))).flat()"""
        )
        assert shown == ([row] if partner[row] == row else [row, partner[row]])
    assert page.run("document.querySelectorAll('.panel').length") == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_of_a_set_is_text(monkeypatch, name):
    """Names of sets are escaped, although they are our own."""
    from dataclasses import replace

    from antithetic.paper.report import of_pairs

    found = _tiny()
    load = of_pairs.load
    monkeypatch.setattr(of_pairs, "load", lambda _name: load("sonar_scale"))
    parts = tuple(replace(part, name=name) for part in found.parts)
    page = render(reproduction_content(replace(found, parts=parts, left_out={name: name})))
    assert "<img" not in page
    assert page.count("<script") == 2


_FOUND = []


def _tiny():
    if not _FOUND:
        _FOUND.append(reproduce("sonar_scale", "log_loss", seeds=1, epochs=1))
    return _FOUND[0]


def test_people_get_a_verdict_on_each_claim(made):
    out, found = made
    shown, _ = run("reproduce", *TINY, "--out", out, "--resume", "--no-images")
    assert "Taken from an earlier run: sonar_scale-log_loss, sonar_scale-hinge." in shown
    for verdict in {claim["verdict"] for claim in found["claims"]}:
        assert verdict in shown
    assert max(len(line) for line in shown.splitlines() if str(out) not in line) <= 80
    assert "report.html" in shown


def test_a_first_look_says_so_and_screen_and_page_count_the_same(made):
    out, found = made
    shown = " ".join(run("reproduce", *TINY, "--out", out, "--resume", "--no-images")[0].split())
    assert shown.startswith("A first look, no evidence: 2 seeds and 2 epochs")
    assert found["first_look"]
    summary = payload(out)["summary"]
    assert "A first look, no evidence" in summary[0]
    assert found["summary"] in summary[1]
    assert found["summary"] in shown
    assert "1 not measured" in found["summary"]  # claim 6 needs three epochs
    assert [claim["number"] for claim in found["claims"] if claim["by_construction"]] == [
        1,
        8,
        13,
        16,
    ]


def test_another_run_leaves_no_figures_of_the_first_and_nothing_of_others(tmp_path):
    given = (
        "reproduce",
        "--quick",
        "--seeds",
        1,
        "--epochs",
        1,
        "--only",
        "sonar_scale",
        "--out",
        tmp_path,
    )
    run_json(*given)
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert any("hinge" in name for name in names)
    (tmp_path / "figures" / "mine.png").write_text("mine")
    run_json(*given, "--resume", "--no-images")
    # With the same settings, foreign files are kept.
    assert {path.name for path in (tmp_path / "figures").iterdir()} == names | {"mine.png"}
    run_json(*given, "--resume", "--loss", "log_loss")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        name for name in names if "hinge" not in name
    } | {"mine.png"}


def test_an_interrupted_run_does_not_replace_a_complete_report(tmp_path, monkeypatch):
    given = (
        "reproduce",
        "--quick",
        "--seeds",
        1,
        "--epochs",
        1,
        "--only",
        "sonar_scale",
        "--out",
        tmp_path,
        "--no-images",
    )
    run_json(*given)
    before = {
        path: path.read_bytes()
        for path in (tmp_path / "report.html", *(tmp_path / "csv").iterdir())
    }
    real = reproduction.run_part
    done = []

    def once(*args, **kwargs):
        if done:
            raise KeyboardInterrupt
        done.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(reproduction, "run_part", once)
    _, error = run(*given, code=130)
    assert "report-partial.html" in " ".join(error.split())
    assert {path: path.read_bytes() for path in before} == before
    assert (tmp_path / "report-partial.html").stat().st_size > 10_000
    run_json(*given, "--resume")
    assert not (tmp_path / "report-partial.html").exists()


def test_a_full_disk_at_the_figures_still_shows_the_claims(tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(images, "write_atomically", full)
    given = (
        "reproduce",
        "--quick",
        "--seeds",
        1,
        "--epochs",
        1,
        "--only",
        "sonar_scale",
        "--loss",
        "hinge",
        "--out",
        tmp_path,
    )
    shown, error = run(*given, code=1)
    assert "18 claims: " in shown
    assert "No space left on device" in error
    assert "report.html is complete" in error
    assert "--resume" in error
    assert payload(tmp_path)["figures"]
    monkeypatch.undo()
    assert run_json(*given, "--resume")["resumed"] == ["sonar_scale-hinge"]
    assert len(list((tmp_path / "figures").iterdir())) == 6


def test_sets_that_are_not_there_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTITHETIC_DATA", "")
    monkeypatch.setenv("ANTITHETIC_CACHE", str(tmp_path / "cache"))
    given = (
        "reproduce",
        "--only",
        "sonar_scale",
        "--only",
        "ijcnn1.tr",
        "--loss",
        "logistic",
        "--seeds",
        1,
        "--epochs",
        1,
    )
    shown, _ = run(*given, "--out", tmp_path / "a", "--no-images")
    assert "Left out: ijcnn1.tr" in shown
    _, error = run("reproduce", "--only", "ijcnn1.tr", "--out", tmp_path / "b", code=1)
    assert "--download" in error


PROGRAM = """
import signal, sys
# SIGINT is ignored if the tests run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
from antithetic.cli import main
main(sys.argv[1:])
"""


def test_an_interrupt_keeps_what_is_finished(tmp_path):
    out = tmp_path / "report"
    given = [
        "reproduce",
        "--quick",
        "--seeds",
        "1",
        "--epochs",
        "2",
        "--out",
        str(out),
        "--no-images",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while (
        not list(out.glob("parts/sonar_scale-log_loss-*.json"))
        and process.poll() is None
        and time.monotonic() < until
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    shown, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert shown == ""
    assert "--resume" in error
    assert "Traceback" not in error
    kept = {path.stem.rpartition("-")[0] for path in (out / "parts").glob("*.json")}
    assert "sonar_scale-log_loss" in kept
    assert len(kept) < 4
    assert not (out / "report.html").exists()
    assert (out / "report-partial.html").stat().st_size > 10_000
    assert "interrupted" in payload(out, "report-partial.html")["summary"][0]
    found = run_json(*given, "--resume")
    assert not (out / "report-partial.html").exists()
    assert set(found["resumed"]) == kept
    assert len(payload(out)["figures"]) == 12


@pytest.mark.parametrize("name", ["report.html", "report-partial.html"])
def test_a_foreign_page_is_not_overwritten(tmp_path, name):
    """A foreign page is refused before any work; our own page is replaced."""
    (tmp_path / name).write_text("<html>my own report</html>")
    given = ("reproduce", *TINY, "--out", tmp_path, "--no-images")
    _, error = run(*given, code=1)
    assert f"{name} exists and is not part of a report" in " ".join(error.split())
    assert (tmp_path / name).read_text() == "<html>my own report</html>"
    assert not (tmp_path / "parts").exists()


def test_the_summary_says_wins_in_plain_words(made):
    """It says how often an order ends nearer, farther, or too close to tell."""
    out, _ = made
    page = payload(out)
    wins = [sentence for sentence in page["summary"] if "ends nearer" in sentence]
    assert len(wins) == 2
    for sentence in wins:
        assert re.search(r"\*\*in \d+ of \d+ cases, farther in \d+", sentence)
        assert "clearly" not in sentence
    variances = [figure for figure in page["figures"] if figure["id"].endswith("-variance")]
    assert variances
    assert all(figure["fromZero"] and not figure["logY"] for figure in variances)
