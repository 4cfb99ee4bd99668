"""The programs in examples/ run unchanged and print what they are meant to show."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
# faiss_pairing has its own test.
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "faiss_pairing")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder; return what it printed."""

    def run_example(name):
        monkeypatch.chdir(tmp_path)
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+(?:e[+-]\d+)?", text)]


def line(text, beginning):
    return next(line for line in text.splitlines() if line.startswith(beginning))


def test_logistic_regressions_reach_the_optimum_of_unscaled_columns(run):
    printed = run("logistic")
    for name in ("sonar_scale", "splice_scale", "diabetes_scale"):
        ours, theirs = numbers(line(printed, name))
        assert ours <= 1e-10
        assert theirs > 1e-2
    assert "the best of 10 values of C" in printed


def test_a_probe_is_as_good_as_scikit_learns(run):
    printed = run("probe")
    theirs = numbers(line(printed, "scikit-learn"))[0]
    assert numbers(line(printed, "softmax, 10 epochs"))[0] > theirs - 0.02
    assert numbers(line(printed, "softmax, partial_fit"))[0] > theirs - 0.04


def test_antithetic_pairs_save_variance_throughout(run):
    printed = run("variance")
    ratios = [numbers(row)[-1] for row in re.findall(r"^  \d+ .*$", printed, flags=re.MULTILINE)]
    assert len(ratios) == 6
    assert max(ratios) < 1.0
    assert "saved 30% of the variance at the start" in printed


def test_our_estimator_is_nearer_to_the_optimum_than_scikit_learns(run, tmp_path):
    printed = run("estimators")
    for name in ("sonar_scale", "breast-cancer_scale", "splice_scale", "diabetes_scale"):
        *_, ours, theirs = numbers(line(printed, name))
        assert ours < theirs, name
    assert (tmp_path / "estimators.png").is_file()


def test_searches_and_pipelines_score_as_one_expects(run):
    printed = run("pipelines")
    assert numbers(line(printed, "ten folds"))[0] > 0.74
    assert "those of the table given: True" in line(printed, "with a table")


def test_a_custom_penalty_leads_to_the_solution_of_another_solver(run):
    printed = run("own_penalty")
    ours, theirs = (numbers(row)[-1] for row in re.findall(r"objective .*", printed))
    assert ours == pytest.approx(theirs, abs=1e-8)
    spread = [
        numbers(row)[-1] for row in re.findall(r"^near the mean.*$", printed, flags=re.MULTILINE)
    ]
    assert spread == sorted(spread, reverse=True)


def test_a_file_is_paired_and_trained_on_piece_by_piece(run):
    printed = run("larger_than_memory")
    assert numbers(line(printed, "table"))[-1] < 0.3
    assert all(numbers(line(printed, how))[-1] > 0.78 for how in ("fit on the map", "partial_fit"))


def test_balanced_orders_end_lowest(run, tmp_path):
    printed = run("comparing_orders")
    last = {
        name: numbers(line(printed, name))[-1]
        for name in ("independent rows", "reshuffled rows", "nested order", "balanced rows")
    }
    assert last["balanced rows"] < last["reshuffled rows"] / 10 < last["independent rows"] / 10
    assert last["nested order"] < last["reshuffled rows"] / 10
    assert (tmp_path / "comparing_orders.png").is_file()


def arms(printed):
    """Ratios of the arms in a printed report, by name."""
    rows = re.findall(r"^(\w+) +\d+ +(\d\.\d+) ± ", printed, flags=re.MULTILINE)
    return {name: float(ratio) for name, ratio in rows}


def test_a_network_learns_sooner_from_batches_that_are_tested_on_it(run):
    pytest.importorskip("torch")
    printed = run("torch_cnn")
    shuffled, defaults = (numbers(line(printed, how)) for how in ("shuffled", "defaults"))
    # means over epochs: long steps make the loss jump now and then, at other batches on other CPUs
    assert all(
        ours < 0.9 * theirs for ours, theirs in zip(defaults[-2:], shuffled[-2:], strict=True)
    )
    assert arms(printed)["importance"] < 0.8


def test_a_linear_model_begins_with_groups_and_resumes(run):
    pytest.importorskip("torch")
    printed = run("torch_linear")
    shuffled, groups = (
        numbers(line(printed, f"loss after the first epoch, {how}"))[0]
        for how in ("shuffled", "groups")
    )
    assert groups < shuffled
    assert "interruption: True" in printed
    assert max(arms(printed)[name] for name in ("groups", "importance")) < 0.9


@pytest.mark.filterwarnings("ignore")  # the frameworks warn about loggers, workers and each other
@pytest.mark.parametrize("package", ["lightning", "accelerate", "transformers"])
def test_loops_of_others_learn(run, package):
    pytest.importorskip("torch")
    pytest.importorskip(package)
    printed = {
        "lightning": lambda: run("torch_lightning"),
        "accelerate": lambda: run("torch_accelerate"),
        "transformers": lambda: run("torch_trainer"),
    }[package]()
    assert numbers(line(printed, "training accuracy"))[0] > 0.9
    assert set(arms(printed)) == {"shuffled", "stratified", "importance"}


def test_a_cluster_pairs_trains_and_resumes(tmp_path):
    """The example runs in its own process, because workers import the program that started them."""
    for package in ("distributed", "pyarrow"):
        pytest.importorskip(package)
    command = [sys.executable, str(FOLDER / "dask_training.py")]
    printed = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert numbers(line(printed, "pairs within blocks"))[0] < 0.5
    assert numbers(line(printed, "accuracy"))[0] > 0.75
    assert printed.count("with a checkpoint") == 2


def test_every_example_is_tested_and_in_the_gallery():
    tests = Path(__file__).read_text(encoding="utf-8")
    gallery = (FOLDER.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    assert [
        name for name in NAMES if f'("{name}")' not in tests and f'"{name}.py"' not in tests
    ] == []
    shown = [
        name
        for name in [*NAMES, "faiss_pairing"]
        if f"```{{example}} {name}\n" in gallery or f"`examples/{name}.py`" in gallery
    ]
    assert sorted(shown) == sorted([*NAMES, "faiss_pairing"])
