"""The engine of `antithetic reproduce`: parts are exact, comparable, kept and resumed."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import antithetic
from antithetic.orders import Uniform
from antithetic.paper import reproduction, workbench
from antithetic.paper.claims import judge_claims
from antithetic.paper.experiments import MEASURES, STEPS, Experiment, run_experiment
from antithetic.paper.optimum import find_optimum
from antithetic.paper.reproduction import (
    Manifest,
    Reproduction,
    ReproductionInterrupted,
    reproduce,
    write_csv,
)
from antithetic.paper.workbench import LAMBDAS, METHODS, Workbench, jitter, load, objectives
from antithetic.problem import Problem
from antithetic.steps import InverseTime

SEEDS, EPOCHS = 2, 3


@pytest.fixture(
    scope="module",
    params=[("sonar_scale", "log_loss"), ("breast-cancer_scale", "hinge")],
    ids=" ".join,
)
def one(request: pytest.FixtureRequest) -> Experiment:
    """An experiment with an even number of rows for one loss, and an odd number for the other."""
    return run_experiment(*request.param, seeds=SEEDS, epochs=EPOCHS)


def problem_of(one: Experiment) -> Problem:
    return Problem.build(*load(one.name), loss=one.loss, l2=LAMBDAS[one.name])


def rerun(one: Experiment, method: str, seed: int, factor: float = 1.0) -> antithetic.Result:
    X, y = load(one.name)
    return antithetic.minimize(
        X,
        y,
        loss=one.loss,
        l2=one.decay,
        order=METHODS[method],
        steps=factor * one.eta0,
        epochs=EPOCHS,
        seed=seed,
        trace=["objective", "variance", antithetic.Distance(one.w_star)],
    )


@pytest.mark.parametrize("method", ["SGD", "SGD-as"])
def test_the_runs_are_those_of_minimize_with_one_eta0_for_both(
    one: Experiment, method: str
) -> None:
    for seed in range(SEEDS):
        trace = rerun(one, method, seed).trace
        np.testing.assert_allclose(one.objective[method][seed], trace["objective"], rtol=1e-13)
        np.testing.assert_allclose(one.distance[method][seed], trace["distance"], rtol=1e-13)
        found = one.variance["chosen"][method][method][seed]
        np.testing.assert_allclose(found, trace["variance"], rtol=1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_variances_are_those_of_gradient_variance(one: Experiment, step: str) -> None:
    """Both measures compare exact variances, with the chosen step and with four times it."""
    X, y = load(one.name)
    table, problem = antithetic.pair(X, y, "greedy"), problem_of(one)
    coefs = {run: rerun(one, run, 1, STEPS[step]).coef for run in ("SGD", "SGD-as")}
    runs = {"same weights": ("SGD", "SGD"), "own runs": ("SGD-as", "SGD")}
    assert set(runs) == set(MEASURES)
    for measure in MEASURES:
        variances, moments = one.variances(measure, step), one.second_moments(measure, step)
        for place, (run, made) in enumerate(zip(runs[measure], (table, None), strict=True)):
            gradient = problem.gradient(coefs[run])[0]
            order = Uniform(pairs=made)
            given = antithetic.gradient_variance(X, y, coefs[run], loss=one.loss, order=order)
            assert variances[place][1, -1] == pytest.approx(given, rel=1e-12)
            assert moments[place][1, -1] == pytest.approx(given + gradient @ gradient, rel=1e-12)
    # All methods start at zero weights.
    assert one.variances("own runs", step)[0][0, 0] == one.variances("same weights")[0][1, 0]


def test_eta0_is_the_best_of_the_grid_for_sgd(one: Experiment) -> None:
    means = one.grid_gap["SGD"].mean(axis=1)
    assert one.eta0 == one.grid[np.argmin(means)]
    chosen = list(one.grid).index(one.eta0)
    for method in METHODS:
        np.testing.assert_array_equal(one.grid_gap[method][chosen], one.gap(method)[:, -1])
        np.testing.assert_array_equal(one.end_gap(method)[:SEEDS], one.gap(method)[:, -1])
        own = int(np.argmin(one.grid_gap[method].mean(axis=1)))
        assert one.own_ends[method]["eta0"] == one.grid[own]
        np.testing.assert_array_equal(
            one.end_gap(method, own=True)[:SEEDS], one.grid_gap[method][own]
        )


def test_the_optimum_is_certain_to_1e_10(one: Experiment) -> None:
    assert 0.0 <= one.optimum_error <= 1e-10 * (one.at_zero - one.optimum)
    assert problem_of(one).objective(one.w_star) == pytest.approx(one.optimum, rel=1e-14)
    assert all((one.gap(method) > -1e-10).all() for method in METHODS)
    assert one.gap("SGD")[0, 0] == pytest.approx(1.0, rel=1e-14)


def test_a_hinge_optimum_that_runs_out_of_time_says_how_far_off_it_may_be() -> None:
    found = find_optimum(Problem.build(*load("splice_scale"), loss="hinge", l2=1e-3), seconds=0.0)
    exact = 0.5566983963769462
    assert exact <= found.value <= exact + found.error
    assert found.error > 1e-10


def test_the_curve_inside_epochs_is_that_of_the_run(one: Experiment) -> None:
    X, y = load(one.name)
    workbench = Workbench(problem_of(one), y)
    along = workbench.inside("SGD-as", InverseTime(one.eta0), seeds=4 * SEEDS, epochs=EPOCHS)
    inside = objectives(workbench.problem, along)
    np.testing.assert_allclose(inside[:SEEDS, ::8], one.objective["SGD-as"], rtol=1e-9)
    np.testing.assert_allclose(jitter(inside), one.jitter["SGD-as"], rtol=1e-9)
    assert X.shape[1] == one.d


def test_points_inside_epochs_are_exact(one: Experiment) -> None:
    """At each point, the objective and gradient_variance of the weights; eight in each epoch."""
    X, y = load(one.name)
    workbench, in_epoch = Workbench(problem_of(one), y), -(-one.n // 2)
    assert one.iterations[0] == 0
    for epoch in range(EPOCHS):
        inside = (one.iterations > epoch * in_epoch) & (one.iterations <= (epoch + 1) * in_epoch)
        assert inside.sum() >= 8
    assert one.iterations[-1] == EPOCHS * in_epoch
    steps = InverseTime(one.eta0)
    for method, objective in one.inside["objective"].items():
        weights = workbench.inside(method, steps, seeds=SEEDS, epochs=EPOCHS)
        np.testing.assert_array_equal(objectives(workbench.problem, weights), objective)
        # After whole epochs they are the runs of minimize, and of an odd number of rows, too.
        np.testing.assert_allclose(objective[:, ::8], one.objective[method], rtol=1e-9)
        if method in one.inside["variance"]:
            order = Uniform(pairs=workbench.paper_table()) if method == "SGD-as" else Uniform()
            variances = [
                [antithetic.gradient_variance(X, y, w, loss=one.loss, order=order) for w in run]
                for run in weights
            ]
            np.testing.assert_allclose(one.inside["variance"][method], variances, rtol=1e-12)
    assert set(one.inside["objective"]) == {"SGD", "SGD-as", "reshuffled"}
    assert set(one.inside["variance"]) == {"SGD", "SGD-as"}


@pytest.mark.parametrize("name", ["sonar_scale", "breast-cancer_scale"])
def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Runs and measurements are the same however many threads share them."""
    alone = run_experiment(name, "log_loss", seeds=SEEDS, epochs=EPOCHS)
    monkeypatch.setattr(workbench, "_ROWS_FOR_THREADS", 0)
    monkeypatch.setattr(workbench, "default_threads", lambda: 3)
    assert workbench.threads_for(problem_of(alone)) == 3
    shared = run_experiment(name, "log_loss", seeds=SEEDS, epochs=EPOCHS)
    texts = [
        json.dumps(asdict(replace(each, seconds=0.0)), default=np.ndarray.tolist)
        for each in (alone, shared)
    ]
    assert texts[0] == texts[1]


def test_jitter_is_nothing_for_a_curve_that_falls_evenly() -> None:
    even = np.linspace(1.0, 0.0, 17)[None]
    np.testing.assert_allclose(jitter(even), np.zeros((1, 2)), atol=1e-15)
    shaken = even + 0.01 * (np.arange(17) % 2)
    np.testing.assert_allclose(jitter(shaken), np.full((1, 2), 0.01), rtol=1e-9)
    assert jitter(np.full((1, 9), np.inf))[0, 0] == np.inf


# ---- files


def bits(value: object) -> object:
    if isinstance(value, dict):
        return {key: bits(inner) for key, inner in value.items()}
    return (value.shape, value.dtype, value.tobytes()) if isinstance(value, np.ndarray) else value


def test_a_file_keeps_every_bit(tmp_path: Path, one: Experiment) -> None:
    unusual = one.w_star.copy()
    unusual[:4] = np.inf, -0.0, 5e-324, np.nan
    given, path = replace(one, w_star=unusual), tmp_path / "parts" / "one.json"
    given.save(path)
    again = Experiment.load(path, one.protocol)
    assert again is not None
    for name in Experiment.__slots__:
        assert bits(getattr(again, name)) == bits(getattr(given, name)), name
    assert Experiment.load(path, one.protocol | {"seeds": 7}) is None


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"name": 1}', '["", {}]', "\udcff"])
def test_a_damaged_file_is_not_an_experiment(tmp_path: Path, content: str) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert Experiment.load(path, {}) is None
    assert Experiment.load(tmp_path / "none.json", {}) is None


def test_a_changed_number_is_noticed(tmp_path: Path, one: Experiment) -> None:
    path = tmp_path / "one.json"
    one.save(path)
    for name, value in (("n", one.n + 1), ("bias", []), ("labels", {})):
        one.save(path)
        digest, numbers = json.loads(path.read_text())
        path.write_text(json.dumps([digest, numbers | {name: value}]))
        assert Experiment.load(path, one.protocol) is None
    path.write_text(json.dumps([digest, numbers]))
    assert Experiment.load(path, one.protocol) is not None


def test_no_half_written_file_is_left(
    tmp_path: Path, one: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("antithetic._util.files.os.replace", full)
    with pytest.raises(OSError, match="no space"):
        one.save(tmp_path / "one.json")
    assert list(tmp_path.iterdir()) == []


# ---- reproduce


class Runs:
    """Stands in for `run_experiment`: counts, returns finished parts, and can be interrupted."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.made: list[tuple[str, str]] = []
        self.stop_at = stop_at

    def __call__(
        self, name: str, loss: str, *, seeds: int, epochs: int, progress: object
    ) -> Experiment:
        if len(self.made) == self.stop_at:
            raise KeyboardInterrupt
        self.made.append((name, loss))
        return run_experiment(name, loss, seeds=seeds, epochs=epochs, progress=progress)


def small(runs: Runs, monkeypatch: pytest.MonkeyPatch, **given: object) -> Reproduction:
    monkeypatch.setattr(reproduction, "run_experiment", runs)
    return reproduce(["sonar_scale"], seeds=1, **{"epochs": 1} | given)  # type: ignore[arg-type]


def test_resume_takes_finished_parts_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ReproductionInterrupted, match=r"1 finished parts are kept in .*resume=True"
    ) as stopped:
        small(Runs(stop_at=1), monkeypatch, out=tmp_path)
    assert [(one.name, one.loss) for one in stopped.value.result.experiments] == [
        ("sonar_scale", "log_loss")
    ]
    (kept,) = (tmp_path / "parts").iterdir()
    assert re.fullmatch(r"sonar_scale-log_loss-[0-9a-f]{8}\.json", kept.name)

    second = Runs()
    found = small(second, monkeypatch, out=tmp_path, resume=True)
    assert second.made == [("sonar_scale", "hinge")]
    assert found.resumed == ("sonar_scale-log_loss",)
    assert len(found.experiments) == 2

    third = Runs()  # other settings: both are run again
    assert small(third, monkeypatch, out=tmp_path, resume=True, epochs=2).resumed == ()
    assert len(third.made) == 2
    again = Runs()  # and have not replaced the first ones
    assert len(small(again, monkeypatch, out=tmp_path, resume=True).resumed) == 2
    assert again.made == []

    damaged = json.loads(kept.read_text())  # readable, but not what it should be
    damaged[1]["objective"]["SGD"] = [[1.0]]
    kept.write_text(json.dumps(damaged))
    fifth = Runs()
    assert small(fifth, monkeypatch, out=tmp_path, resume=True).resumed == ("sonar_scale-hinge",)
    assert fifth.made == [("sonar_scale", "log_loss")]

    monkeypatch.setattr(antithetic, "__version__", "99.0")
    fourth = Runs()  # another version likewise
    small(fourth, monkeypatch, out=tmp_path, resume=True, epochs=2)
    assert len(fourth.made) == 2


def test_an_interruption_without_a_folder_still_hands_over_what_is_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KeyboardInterrupt, match="give out=") as stopped:
        small(Runs(stop_at=1), monkeypatch)
    assert len(stopped.value.result.experiments) == 1
    assert len(stopped.value.result.claims) == 18


def test_few_runs_are_not_evidence() -> None:
    found = Reproduction((), (), {}, (), {"seeds": 3, "epochs": 10}, 0.0)
    assert found.first_look == ""
    for less in ({"seeds": 2}, {"epochs": 9}, {"quick": True}):
        assert replace(found, settings=found.settings | less).first_look.startswith(
            "A first look, no evidence: "
        )


def test_only_what_a_reproduction_writes_is_ever_removed(tmp_path: Path) -> None:
    folder, names = tmp_path / "out", ["figures/a.png", "csv/b.csv", "report-partial.html"]
    others = [
        "report.html",
        "figures/mine.txt",
        "notes/a.png",
        "../a.png",
        "figures/../../a.png",
        str(tmp_path / "a.png"),
    ]
    for name in (*names, *others):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    reproduction.remove(folder, [*names, *others, "figures/gone.svg"])
    assert not any((folder / name).exists() for name in names)
    assert all((folder / name).exists() for name in others)
    assert Manifest.read(folder) is None
    for damaged in ("{", "[]", '{"settings": 1, "files": []}'):
        (folder / "manifest.json").write_text(damaged)
        assert Manifest.read(folder) is None


def test_sets_that_are_not_there_are_listed_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTITHETIC_DATA", str(tmp_path))
    monkeypatch.setattr(
        "antithetic.paper.reproduction.load",
        lambda name: load(name) if name == "sonar_scale" else _not_there(name),
    )
    found = reproduce(["fourclass_scale", "sonar_scale"], "log_loss", seeds=1, epochs=1)
    assert list(found.left_out) == ["fourclass_scale"]
    assert "fourclass_scale" in found.left_out["fourclass_scale"]
    assert [one.name for one in found.experiments] == ["sonar_scale"]


def _not_there(name: str) -> None:
    raise FileNotFoundError(f"no file of {name} was found")


def test_without_any_set_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antithetic.paper.reproduction.load", _not_there)
    found = reproduce(seeds=1, epochs=1)
    assert set(found.left_out) == set(LAMBDAS)
    assert {claim.verdict for claim in found.claims} == {"not measured"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"names": "iris"}, "set 'iris' is not one"),
        ({"losses": ["squared_error"]}, "loss 'squared_error' is not one"),
        ({"seeds": 0, "names": "sonar_scale"}, "seeds"),
        ({"epochs": 0, "names": "sonar_scale"}, "epochs"),
        ({"resume": True}, "give it as out="),
    ],
)
def test_mistakes_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reproduce(**given)  # type: ignore[arg-type]


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[tuple[str, int, int]] = []
    reproduce(
        "sonar_scale", "log_loss", seeds=1, epochs=1, progress=lambda *step: told.append(step)
    )
    done = [step[1] for step in told]
    assert done == list(range(len(done)))
    assert told[-1] == ("done", told[0][2], told[0][2])
    assert told[0][0] == "sonar_scale, log_loss: optimum"


def test_a_full_disk_leaves_the_old_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Reproduction((), (), {}, (), {"seeds": 2}, 1.5)
    write_csv(found, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("antithetic._util.files.os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_csv(replace(found, settings={"seeds": 3}), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# ---- CSV


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_csv_files_hold_every_number(tmp_path: Path, one: Experiment) -> None:
    evil = replace(one, name="=HYPERLINK(1)")
    found = Reproduction(
        (evil,), tuple(judge_claims([evil])), {"@gone": "-1+1"}, (), {"seeds": 2}, 1.5
    )
    assert {path.name for path in write_csv(found, tmp_path / "new")} == {
        path.name for path in (tmp_path / "new").iterdir()
    }
    lines = read(tmp_path / "new" / "objective.csv")
    assert len(lines) == len(METHODS) * SEEDS * (EPOCHS + 1)
    last = [
        line
        for line in lines
        if (line["method"], line["seed"], line["epoch"]) == ("balanced", "1", "3")
    ]
    assert float(last[0]["objective"]) == one.objective["balanced"][1, 3]
    assert float(last[0]["gap"]) == one.gap("balanced")[1, 3]
    assert {line["set"] for line in lines} == {"'=HYPERLINK(1)"}

    variance = read(tmp_path / "new" / "variance.csv")
    there = [
        line
        for line in variance
        if (line["estimator"], line["weights_of"], line["seed"], line["epoch"])
        == ("SGD-as", "SGD", "0", "2")
    ]
    assert [line["step"] for line in there] == list(STEPS)
    for line, step in zip(there, STEPS, strict=True):
        assert float(line["variance"]) == one.variances("same weights", step)[0][0, 2]
        assert float(line["second_moment"]) == one.second_moments("same weights", step)[0][0, 2]
    assert len(read(tmp_path / "new" / "claims.csv")) == 18
    settings = {line["setting"]: line["value"] for line in read(tmp_path / "new" / "settings.csv")}
    assert settings == {"seeds": "2", "seconds": "1.5", "left out: @gone": "'-1+1"}
    chosen = [line for line in read(tmp_path / "new" / "steps.csv") if line["chosen"] == "True"]
    assert {float(line["eta0"]) for line in chosen} == {one.eta0}
