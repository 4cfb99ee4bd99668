"""``antithetic reproduce``: the report states what was measured, and runs can be resumed."""

from __future__ import annotations

import csv
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
from antithetic.paper import reproduction
from antithetic.paper.report import of_reproduction, pictures
from antithetic.paper.report.explorer import training
from antithetic.paper.report.of_reproduction import reproduction_content
from antithetic.paper.report.page import render
from antithetic.paper.reproduction import reproduce
from antithetic.paper.workbench import Workbench
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


def sentences(out, page="report.html"):
    """The summary of a page."""
    text = (out / page).read_text(encoding="utf-8").split('<section id="summary"')[1]
    return re.findall(r"<p>(.*?)</p>", text.split("</section>")[0])


def ids(out):
    """The pictures of a page."""
    return re.findall('<figure id="figure-(.*?)">', (out / "report.html").read_text("utf-8"))


def lines_of(out, table):
    return list(csv.DictReader((out / "csv" / f"{table}.csv").read_text().splitlines()))


def test_json_has_every_claim(made):
    out, found = made
    assert found["report"] == str(out / "report.html")
    assert [claim["number"] for claim in found["claims"]] == list(range(1, 18 + 1))
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
    names = ids(out)
    assert names == ["figure-2", "figure-3"] + [
        f"sonar-scale-{loss}-{kind}"
        for loss in ("log-loss", "hinge")
        for kind in ("variance", "orders")
    ]
    for name in names:
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / "figures" / f"{name}.svg").read_text()
    assert {path.stem for path in (out / "csv").iterdir()} >= {
        "objective",
        "variance",
        "inside",
        "claims",
        "settings",
    }


def sonar(loss):
    X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    return X, y, Workbench.of("sonar_scale", loss)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_variances_in_the_report_are_exact(made, loss):
    """Variances in the CSV file are exact to 1e-12; the tables of the page round the same ones."""
    out, _ = made
    X, y, workbench = sonar(loss)
    quantities = {
        line["quantity"]: line["value"] for line in lines_of(out, "parts") if line["loss"] == loss
    }
    steps = InverseTime(float(quantities["eta0"]))
    weights = workbench.weights("SGD", steps, seeds=1, epochs=2)[0]
    table = antithetic.pair(X, y, "greedy", loss=loss)
    page = (out / "report.html").read_text("utf-8")
    for estimator, given in (("SGD", None), ("SGD-as", table)):
        wanted = ("chosen", estimator, "SGD", "0")
        found = [
            float(line["variance"])
            for line in lines_of(out, "variance")
            if line["loss"] == loss
            and (line["step"], line["estimator"], line["weights_of"], line["seed"]) == wanted
        ]
        order = Uniform(pairs=given)
        expected = [
            antithetic.gradient_variance(X, y, coef, loss=loss, order=order) for coef in weights
        ]
        assert found == pytest.approx(expected, rel=1e-12)
        for value in (expected[0], expected[-1]):
            assert f'<td class="number">{value:.4g}</td>' in page


def test_the_explorer_trains_as_the_experiment_did():
    """After whole epochs the frames show the first seed's weights, up to rounding in cut epochs."""
    *_, workbench = sonar("log_loss")
    for method in ("SGD", "SGD-as"):
        frames = training(workbench, method, 0.1, 3)
        expected = workbench.weights(method, InverseTime(0.1), seeds=1, epochs=3)[0]
        np.testing.assert_allclose(frames[[0, 8, 9, 10]], expected, rtol=1e-9, atol=1e-12)


@NEEDS_CHROMIUM
def test_the_page_opens_without_a_complaint(page):
    assert page.problems() == []
    assert page.run("document.documentElement.classList.contains('alive')")
    widths = page.run("[...document.querySelectorAll('figure img')].map((one) => one.naturalWidth)")
    assert len(widths) == 6
    assert min(widths) > 300
    assert page.run("document.querySelectorAll('.claims > tbody > tr').length") == 18


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

    found, explorer = _tiny(), of_reproduction.explorer_of
    experiments = tuple(replace(one, name=name) for one in found.experiments)
    monkeypatch.setattr(
        of_reproduction,
        "explorer_of",
        lambda one: replace(explorer(replace(one, name="sonar_scale")), name=one.name),
    )
    found = replace(found, experiments=experiments, left_out={name: name})
    page = render(reproduction_content(found))
    assert set(re.findall('<img src="([^"]{26})', page)) == {"data:image/svg+xml;base64,"}
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
    first, second, third = sentences(out)[:3]
    assert first.startswith("Antithetic pairs lower the variance of the gradient in ")
    assert first.count("clearly nearer") == first.count("clearly farther") == 2
    assert first.count(".") == 1  # one sentence
    assert "A first look, no evidence" in second
    assert found["summary"] in re.sub("</?strong>", "", third)
    assert found["summary"] in shown
    assert "1 is not measured" in found["summary"]  # claim 6 needs three epochs
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
        name for name in names if "hinge" not in name and "figure-3" not in name
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
    real = reproduction.run_experiment
    done = []

    def once(*args, **kwargs):
        if done:
            raise KeyboardInterrupt
        done.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(reproduction, "run_experiment", once)
    _, error = run(*given, code=130)
    assert "report-partial.html" in " ".join(error.split())
    assert {path: path.read_bytes() for path in before} == before
    assert (tmp_path / "report-partial.html").stat().st_size > 10_000
    run_json(*given, "--resume")
    assert not (tmp_path / "report-partial.html").exists()


def test_a_full_disk_at_the_figures_still_shows_the_claims(tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pictures, "write_atomically", full)
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
    assert "of 18 claims hold by construction" in shown
    assert "No space left on device" in error
    assert "report.html is complete" in error
    assert "--resume" in error
    assert len(ids(tmp_path)) == 3
    monkeypatch.undo()
    assert run_json(*given, "--resume")["resumed"] == ["sonar_scale-hinge"]
    assert len(list((tmp_path / "figures").iterdir())) == 6


def test_an_interrupt_at_the_figures_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    given = ("reproduce", *TINY, "--out", tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(pictures, "write_atomically", interrupted)
        _, error = run(*given, code=130)
    assert "all parts are kept" in " ".join(error.split())
    found = run_json(*given, "--resume")
    assert len(found["resumed"]) == len(list((tmp_path / "parts").iterdir()))
    assert (tmp_path / "figures" / "figure-2.svg").exists()


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
    assert any("interrupted" in said for said in sentences(out, "report-partial.html")[:2])
    found = run_json(*given, "--resume")
    assert not (out / "report-partial.html").exists()
    assert set(found["resumed"]) == kept
    assert len(ids(out)) == 2 + 2 * 4


@pytest.mark.parametrize(
    "name", ["report.html", "report-partial.html", "manifest.json", "csv/ends.csv", "figures/a.svg"]
)
def test_files_of_others_are_not_overwritten(tmp_path, name):
    """Files at the places of ours are refused before any work."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("my own")
    given = ("reproduce", *TINY, "--out", tmp_path, "--no-images")
    _, error = run(*given, code=1)
    first = name.partition("/")[0]
    assert f"{first} exists and is not part of a report" in " ".join(error.split())
    assert (tmp_path / name).read_text() == "my own"
    assert not (tmp_path / "parts").exists()


def test_the_summary_says_wins_in_plain_words(made):
    """It says how often an order ends nearer, farther, or too close to tell."""
    out, _ = made
    wins = [sentence for sentence in sentences(out)[1:] if "ends clearly nearer" in sentence]
    assert len(wins) == 1
    assert "GraB and CD-GraB" in wins[0]  # whose rule the balanced order follows
    assert len(re.findall(r"<strong>in \d+ of \d+ cases, farther in \d+", wins[0])) == 2


def test_each_measure_stands_under_the_step_that_it_was_taken_with(made):
    page = (made[0] / "report.html").read_text("utf-8")
    tables = re.findall(r'<table class="measures">(.*?)</table>', page)
    assert len(tables) == 3  # claims 2, 3 and 12; claim 6 needs three epochs
    for table in tables:
        heads = re.findall(r'<th scope="col">(.*?)</th>', table)
        assert heads == ["chosen step", "four times the step"]
        assert re.findall(r'<th scope="row">(.*?)</th>', table) == ["same weights", "own runs"]


def test_the_page_has_no_internal_names(made):
    """Text of the page is prose: no identifiers with underscores, but for sets and losses."""
    page = (made[0] / "report.html").read_text("utf-8").split("<main>")[1].split("<noscript>")[0]
    text = re.sub(r"<img[^>]*>|<[^>]*>", " ", page.split('<section id="cite"')[0])
    names = set(re.findall(r"\b[a-z]+_[a-z_]{2,}\b", text))
    assert names <= {"sonar_scale", "log_loss"}
