"""``benchmarks/race.py``: its measurements are right, and missing or broken peers are reported.

What becomes of rows: test_bench_rows.py.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("typer")

from races import GROUPS, LOSSES, PEERS, SETS, TARGETS, Limits, choose_peers
from races import race as race_module
from races.climb import (
    Point,
    cheapest,
    climb,
    efforts,
    measure,
    recall,
    refine,
    retrace,
    time_together,
    timed,
)
from races.first import FirstFit, first_seconds
from races.peer import Config, EstimatorFit, Fit, Peer, by_digits
from races.race import Runner, race
from races.rows import Row
from races.sets import QUICK_SETS, SPARSE_SETS, choose_sets, load_set, losses_of
from races.sklearn_peers import OURS
from races.summary import missing
from races.tasks import Task, hold_out

LITTLE = Limits(seconds=0.2, in_all=0.4, seeds=(0,), repeats=1)
SET = "breast-cancer_scale"
MODULES = {
    "scikit-learn": "sklearn",
    "scikit-learn-intelex": "sklearnex",
}


def make_task(loss="log_loss", n=60, d=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X @ [1.0, -2.0, 0.5][:d] + rng.normal(size=n)
    labels = {"softmax": np.digitize(y, [-2.0, -1.0, 1.0]), "squared_error": y}.get(loss, y > 0)
    return Task.build("made", loss, X, labels, 1e-2)


@pytest.fixture(scope="module")
def task():
    return make_task()


def along(task, rate=0.5, name="along", stochastic=False):
    """A configuration whose effort k leaves ``rate ** k`` of the way to the optimum."""
    from antithetic.paper.optimum import find_optimum

    best = find_optimum(task.problem).coef
    return Config(
        name,
        lambda effort, _seed: Fit((1.0 - rate**effort) * best, effort, effort),
        stochastic=stochastic,
    )


# ---- problems


@pytest.mark.parametrize("loss", LOSSES)
def test_gaps_begin_at_one_and_end_at_zero(loss):
    """(f - f*) / (f(0) - f*) with a certified f*; weights that overflowed are infinitely far."""
    task = make_task(loss)
    size = task.problem.n_weights
    assert task.gap(np.zeros(size)) == pytest.approx(1.0)
    assert task.certain < 1e-11
    assert task.gap(np.full(size, np.nan)) == task.gap(np.full(size, 1e308)) == np.inf


def test_sets_that_are_not_on_this_computer_are_named(monkeypatch):
    """Without downloads each group but text still has a set, and missing ones are named."""
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    monkeypatch.setenv("ANTITHETIC_CACHE", "/nowhere")
    found, absent = choose_sets(None, quick=False)
    assert {"a9a", "farm-ads", "mnist"} <= set(absent)
    assert set(found) | set(absent) == {name for group in GROUPS.values() for name in group}
    assert all(set(found) & set(group) for name, group in GROUPS.items() if name != "text")
    assert choose_sets(None, quick=True) == (list(QUICK_SETS), [])
    assert choose_sets(["a9a", SET], quick=False) == ([SET], ["a9a"])
    with pytest.raises(ValueError, match=r"'iris' is not known; use some of ijcnn1\.tr"):
        choose_sets(["iris"], quick=False)


def test_every_set_has_a_loss_for_its_labels():
    """Two classes, many or numbers: a set is never raced with a loss for other labels."""
    for name in ("sonar_scale", "diabetes", "digits", "progression", "made-20000x20"):
        X, y = load_set(name)
        assert X.shape[0] == len(y)
        kinds = {"softmax": len(np.unique(y)) > 2, "squared_error": y.dtype.kind == "f"}
        assert all(kinds.get(loss, len(np.unique(y)) == 2) for loss in losses_of(name)), name
    assert {loss for name in SETS for loss in losses_of(name)} == set(LOSSES)


def test_made_rows_are_standardised():
    """The synthetic rows have 2 informative features of 5, mean zero and standard deviation one."""
    X, y = load_set("made-20000x20")
    assert X.shape == (20000, 20)
    np.testing.assert_allclose(
        [X.mean(axis=0), X.std(axis=0)], [np.zeros(20), np.ones(20)], atol=1e-12
    )
    train, y_train, held, y_held = hold_out(X, y)
    assert (len(train), len(held)) == (len(y_train), len(y_held)) == (16000, 4000)
    assert len(np.unique(np.r_[train, held], axis=0)) == 20000


def test_sparse_sets_are_those_whose_rows_are_sparse():
    """The page of races names what scikit-learn-intelex runs on sparse rows."""
    loaded = {name: load_set(name) for name in SETS if not name.startswith("made-")}
    found = {name: sparse.issparse(rows[0]) for name, rows in loaded.items() if rows is not None}
    assert {name for name, is_sparse in found.items() if is_sparse} == SPARSE_SETS & set(found)
    assert len(found) >= 8


# ---- peers


def is_installed(peer):
    return importlib.util.find_spec(MODULES.get(peer.package, peer.package)) is not None


@pytest.mark.peers
@pytest.mark.parametrize(
    ("peer", "loss"),
    [(peer, loss) for peer in PEERS for loss in peer.losses if is_installed(peer)],
    ids=lambda one: getattr(one, "name", one),
)
def test_every_installed_peer_minimises_the_same_objective(peer, loss):
    """Each configuration of a peer that is installed ends within 1 % of the minimum.

    A peer with another meaning of lambda, or of the labels, would end elsewhere.
    """
    task = make_task(loss)
    gaps = {}
    for config in peer.configs(task):
        effort = 9 if config.effort == "digits" else 60
        seconds, coef, _, iterations = timed(config, effort, 0, iter([0.0, 1.0]).__next__)
        gaps[config.setting] = task.gap(coef)
        size = task.problem.n_weights
        assert (seconds, coef.size, iterations > 0) == (1.0, size, True)
    assert min(gaps.values()) < 0.01, gaps
    assert peer.one_pass is None or peer.one_pass in gaps


@pytest.mark.parametrize(
    "peer",
    [peer for peer in PEERS if peer.package not in ("antithetic", "scikit-learn")],
    ids=lambda peer: peer.name,
)
def test_a_peer_without_its_package_has_no_configurations(peer, monkeypatch):
    """The error is that of the import, so that rows can say "not installed"."""
    package = MODULES.get(peer.package, peer.package)
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError):
        peer.configs(make_task(peer.losses[0]))


def test_a_matrix_of_all_classes_that_would_be_too_large_is_refused(monkeypatch):
    """A matrix of second derivatives has a row for each weight of each class."""
    peer = next(peer for peer in PEERS if peer.name == "sklearn newton-cholesky")
    task = make_task("softmax")
    monkeypatch.setattr("races.peer.MOST_COLUMNS", 12)
    assert task.problem.n_weights == 12
    assert peer.configs(task)
    monkeypatch.setattr("races.peer.MOST_COLUMNS", 11)
    with pytest.raises(ValueError, match="12 x 12"):
        peer.configs(task)


def test_steps_of_the_grid_suit_their_schedule():
    """For each scikit-learn schedule, some step of the grid comes near the minimum in 15 epochs.

    A grid of steps that are all too long would not be a fair race.
    """
    task = Task.build("made", "log_loss", *load_set("made-20000x20"), 1e-4)
    (peer,) = (peer for peer in PEERS if peer.name == "sklearn SGDClassifier")
    for schedule in ("constant", "invscaling", "adaptive"):
        configs = [config for config in peer.configs(task) if config.setting.startswith(schedule)]
        assert min(task.gap(config.fit(15, 0).coef) for config in configs) < 2e-4, schedule


# Part of the extra "bench", which the tests do not require.
if importlib.util.find_spec("cyanure") is not None:

    def test_passes_are_told_where_an_iteration_is_one():
        """Iterations are what the peer says that it did.

        Where each takes several passes, these are not a number.
        """
        task = make_task()
        (peer,) = (peer for peer in PEERS if peer.name == "Cyanure")
        found = {
            config.setting: timed(config, 4, 0, time.perf_counter)[2:]
            for config in peer.configs(task)
        }
        assert {setting for setting, (passes, _) in found.items() if not np.isnan(passes)} == {
            "miso"
        }
        assert all(0 < iterations <= 4 for _, iterations in found.values())


def test_peers_are_chosen_by_parts_of_their_names():
    """Our own estimators are always among the chosen peers."""
    assert [peer.name for peer in choose_peers(["LBFGS", "svc"])] == [
        "antithetic.LogisticRegression",
        OURS,
        "antithetic.Ridge",
        "antithetic.SGDRegressor",
        "sklearn lbfgs",
        "sklearn LinearSVC",
    ]
    assert choose_peers(None) == PEERS
    with pytest.raises(
        ValueError,
        match=r"peer 'xgboost' is not known; use some of antithetic\.LogisticRegression, ",
    ):
        choose_peers(["xgboost"])


def test_the_first_fit_of_a_process_counts_its_import(task):
    """A fresh process imports the package and fits; its failure is reported in its own words."""
    fit = EstimatorFit("json", "JSONDecoder", {}, task.X, task.y, by_digits, seeded=False)
    (config,) = PEERS[0].configs(task)
    fits = [FirstFit(fit, 2, 0), FirstFit(config.fit, 2, 0)]
    error, seconds = first_seconds(fits, clock="cpu", threads=1, repeats=1)
    assert "unexpected keyword argument 'tol'" in str(error)
    assert 0.05 < seconds < 60.0


def test_first_fits_take_turns(task, monkeypatch):
    """Each counts with its smallest time; one that failed is not tried again."""
    (config,) = PEERS[0].configs(task)
    ran = []

    def run(command, _environment):
        place = Path(json.loads(command[-1])["y"]).parent.name
        ran.append(place)
        if place == "1":
            raise RuntimeError("no such module")
        return {"0": 3.0, "2": 5.0}[place] + (len(ran) < 4)

    monkeypatch.setattr("races.first._run", run)
    found = first_seconds([FirstFit(config.fit, 2, 0)] * 3, clock="cpu", threads=1, repeats=3)
    assert ran == ["0", "1", "2", "0", "2", "0", "2"]
    assert found[::2] == [3.0, 5.0]
    assert str(found[1]) == "no such module"


def test_first_fits_that_are_compared_are_of_the_same_accuracy(task, monkeypatch):
    """A fit goes to 1e-3, but no further than the one it is compared with came."""
    (config,) = PEERS[0].configs(task)
    points = [Point(config, effort, 10.0**-effort, effort, 1, 1) for effort in (1, 2, 3, 4)]
    monkeypatch.setattr(
        race_module, "first_seconds", lambda fits, **_: [float(one.effort) for one in fits]
    )
    for reached, effort in ((1, 1), (2, 2), (4, 3)):
        other = Runner(Peer("other", "numpy", list), [config], points[:reached])
        own = Runner(Peer("own", "numpy", list, first_beside="other"), [config], points)
        rows = list(race_module._first_fits(Row("first", "made"), [own, other], LITTLE))
        assert [row.seconds for row in rows] == [effort, min(reached, 3)]


def test_threads_are_passed_on(task):
    """Peers that have a parameter for it get the number of threads of the task."""
    (config,) = PEERS[0].configs(replace(task, threads=2))
    assert config.fit.parameters(3, 0)["n_jobs"] == 2
    assert config.fit.parameters(3, 0)["tol"] == 1e-3


# ---- the least effort


def test_efforts_grow_by_less_than_a_third():
    """Efforts grow by less than a third, so climbing overshoots by at most a third."""
    first = list(itertools.islice(efforts(), 40))
    assert first[:9] == [1, 2, 3, 4, 5, 6, 7, 9, 11]
    assert all(0 < b - a <= max(1, 0.3 * a) for a, b in itertools.pairwise(first))


def test_the_least_effort_that_gets_there_is_found(task):
    """Climbing, then bisecting finds the least effort: one unit less is too little."""
    config, peer = along(task, 0.9), PEERS[0]
    points = list(climb(peer, [config], task, 1e-6, LITTLE))
    points += refine(points, 1e-4, task, LITTLE)
    least = min(point.effort for point in points if point.gap <= 1e-4)
    assert task.gap(config.fit(least - 1, 0).coef) > 1e-4 >= task.gap(config.fit(least, 0).coef)
    assert points[-1].config is config
    assert cheapest(points, 1e-30) is None


def test_several_threads_take_the_efforts_of_one(task):
    """A race with two threads only repeats the least efforts of the race with one thread."""
    config, calls = along(task, 0.8), []

    def fit(effort, seed):
        calls.append(effort)
        return config.fit(effort, seed)

    peers = [Peer("peer", "antithetic", lambda _task: (replace(config, fit=fit),))]
    limits = replace(LITTLE, targets=(1e-1, 1e-3))
    alone = list(race(task, peers, limits, lambda _what: None))
    calls.clear()
    together = list(race(replace(task, threads=2), peers, limits, lambda _what: None, known=alone))
    found = [
        {row.target: int(row.iterations) for row in rows if row.part == "target"}
        for rows in (alone, together)
    ]
    assert found[0] == found[1]
    warm_up = 3
    assert set(calls) == {warm_up, *found[0].values()}


def test_an_effort_that_is_no_longer_enough_is_raised(task):
    """Threads may change a result; the seconds are still those of a fit that reaches the gap."""
    config = along(task, 0.8)
    known = [Point(config, 3, 1e-9, 1.0, 3.0, 3.0)]
    found = list(retrace(known, (0.1,), replace(task, threads=2), LITTLE))
    assert [point.effort for point in found] == [3, 4, 5]
    assert found[-1].gap <= 0.1 < found[-2].gap


def test_earlier_points_are_recalled_by_their_settings(task):
    """Rows of other configurations, other parts and failures are not taken for points."""
    config = along(task)
    row = Row("curve", "made", setting="along, max_iter=7", value=0.5, seconds=2.0, passes=7.0)
    others = [
        replace(row, setting="other, max_iter=7"),
        replace(row, part="target"),
        replace(row, status="failed: memory"),
        replace(row, setting=""),
    ]
    (point,) = recall([config], [*others, row])
    assert (point.config, point.effort, point.gap, point.seconds) == (config, 7, 0.5, 2.0)


def test_configurations_that_fall_behind_are_dropped(task):
    """The worse half of the rivals is dropped, and all that diverge or stall."""
    fast, slow, still = (
        along(task, 0.5, "fast"),
        along(task, 0.99, "slow"),
        along(task, 1.0, "still"),
    )
    broken = Config("broken", lambda effort, _seed: Fit(np.full(3, np.nan), effort, effort))
    peer = Peer("rivals", "antithetic", lambda _task: (), rivals=True)
    points = list(climb(peer, [fast, slow, still, broken], task, 1e-12, LITTLE))
    reached = {
        name: max(point.effort for point in points if point.config.setting == name)
        for name in ("fast", "slow", "still", "broken")
    }
    assert reached["fast"] > reached["slow"] > 3 or reached["fast"] > 12
    assert max(reached["still"], reached["broken"]) <= 8


def test_steps_that_are_shortened_late_are_judged_late(task):
    """A schedule that is far behind for 8 passes, and there in the 9th, is not dropped before."""
    best = along(task, 0.0).fit(1, 0).coef
    late = Config(
        "late",
        lambda effort, _seed: Fit((0.01 if effort < 9 else 1.0) * best, effort, effort),
        late=True,
    )
    others = [along(task, rate, str(rate)) for rate in (0.8, 0.81, 0.82, 0.83)]
    peer = Peer("rivals", "antithetic", lambda _task: (), rivals=True)

    def efforts_of_late(late):
        return [
            point.effort
            for point in climb(peer, [*others, late], task, 1e-6, LITTLE)
            if point.config is late
        ]

    assert efforts_of_late(late) == [1, 2, 3, 4, 5, 6, 7, 9]
    assert efforts_of_late(replace(late, late=False))[-1] <= 3
    (sgd,) = (peer for peer in PEERS if peer.name == "sklearn SGDClassifier")
    assert [config.late for config in sgd.configs(task)] == [
        config.setting.startswith("adaptive") for config in sgd.configs(task)
    ]


# ---- one problem


def broken_peer(_task):
    def fit(effort, _seed):
        if effort > 3:
            raise RuntimeError("out of\nluck")
        return Fit(np.zeros(3), effort, effort)

    return [Config("some", fit)]


def absent_peer(_task):
    raise ImportError("no such package")


def test_a_peer_that_breaks_or_is_missing_does_not_break_the_run(task):
    """A peer that fails or is missing has rows that say why."""
    good = Peer("good", "numpy", lambda _task: [along(_task)], one_pass="along")
    peers = [
        good,
        Peer("broken", "numpy", broken_peer),
        Peer("absent", "nothing-like-it", absent_peer),
        Peer("other", "numpy", absent_peer, ()),
    ]
    rows = list(race(task, peers, LITTLE, lambda _what: None))
    targets = {(row.peer, row.target): row for row in rows if row.part == "target"}
    assert {peer for peer, _ in targets} == {"good", "broken", "absent"}
    assert {row.target for row in targets.values()} == set(TARGETS)
    assert all(
        targets["good", target].value <= target and targets["good", target].seconds > 0
        for target in TARGETS
    )
    assert targets["broken", 1e-2].status == "failed: out of luck"
    assert targets["absent", 1e-2].status == "not installed"
    assert [row.status for row in rows if row.peer == "other"] == ["does not minimise log_loss"]
    assert missing(rows) == {"broken": "failed: out of luck", "absent": "not installed"}
    assert next(row for row in rows if row.part == "optimum").value == task.least
    (epoch,) = [row for row in rows if row.part == "epoch"]
    assert (epoch.peer, epoch.quantity) == ("good", "seconds per pass")
    held = {
        row.quantity: row.value for row in rows if row.part == "held-out" and row.peer == "good"
    }
    assert 0.5 < held["accuracy"] <= 1.0
    assert 0.0 < held["log_loss"] < np.log(2.0)


def failures_of(task, config, tell=lambda _what: None, **limits):
    """What the rows of a race of one configuration say of it, those of held-out rows apart."""
    rows = list(
        race(task, [Peer("one", "numpy", lambda _task: [config])], replace(LITTLE, **limits), tell)
    )
    # It reached the target before it failed.
    assert {row.status for row in rows if row.part == "target"} == {"ok"}
    assert missing(rows) == {"one": "failed: out of luck"}
    return [
        (row.part, row.setting)
        for row in rows
        if row.status == "failed: out of luck" and row.part != "held-out"
    ]


def test_a_peer_that_breaks_while_its_effort_is_refined_has_a_row(task):
    """A peer that fails during refinement has a row, although it had reached the target."""
    config, ladder = along(task, 0.9), list(itertools.islice(efforts(), 30))

    def fit(effort, seed):
        if effort not in ladder:
            raise RuntimeError("out of luck")
        return config.fit(effort, seed)

    assert failures_of(task, replace(config, fit=fit), targets=(1e-4,)) == [("curve", "")]


def test_a_peer_that_breaks_while_all_take_turns_has_a_row(task):
    """A peer that fails in the final timing has a row, with the time of its climb."""
    config, said = along(task), []

    def fit(effort, seed):
        if any("side by side" in what for what in said):
            raise RuntimeError("out of luck")
        return config.fit(effort, seed)

    assert failures_of(task, replace(config, fit=fit), said.append, targets=(1e-2,)) == [
        ("curve", "along, max_iter=3")
    ]


def test_held_out_rows_that_cannot_be_used_do_not_break_the_run(task, monkeypatch):
    """Each peer has a row that says why."""
    monkeypatch.setattr(race_module, "hold_out", lambda X, y: (X[:0], y[:0], X, y))
    rows = list(
        race(task, [Peer("one", "numpy", lambda _task: [along(_task)])], LITTLE, lambda _what: None)
    )
    (held,) = [row for row in rows if row.part == "held-out"]
    assert (held.peer, held.quantity, held.status[:8]) == ("one", "log_loss", "failed: ")


def test_held_out_rows_are_looked_at_from_the_same_gap(task):
    """An effort that sufficed by luck on all rows is raised until it suffices on four fifths."""

    def lucky(given):
        config = along(given, 0.1 if given.n == task.n else 0.5)
        return [config]

    rows = list(
        race(
            task,
            [Peer("lucky", "numpy", lucky)],
            replace(LITTLE, targets=(1e-4,)),
            lambda _what: None,
        )
    )
    (gap,) = [row for row in rows if row.part == "held-out" and row.quantity == "gap"]
    (target,) = [row for row in rows if row.part == "target"]
    assert gap.value <= 1e-4
    assert gap.iterations > target.iterations


def test_a_peer_far_behind_is_given_up(task):
    """A peer far behind, and all beyond the last target, are given up; the status says so."""

    def slowly(given):
        config = along(given, 0.9)
        return [
            replace(
                config,
                fit=lambda effort, seed: time.sleep(0.02 * effort) or config.fit(effort, seed),
            )
        ]

    limits = replace(LITTLE, seconds=10.0, in_all=60.0, targets=(1e-2, 1e-4), behind=10.0)
    rows = list(
        race(
            task,
            [Peer("good", "numpy", lambda _task: [along(_task)]), Peer("slow", "numpy", slowly)],
            limits,
            lambda _what: None,
        )
    )
    assert max(row.iterations for row in rows if row.part == "curve" and row.peer == "slow") < 10
    found = {(row.peer, row.target): row.status for row in rows if row.part == "target"}
    assert found == {
        ("good", 1e-2): "ok",
        ("good", 1e-4): "ok",
        ("slow", 1e-2): "not reached within 10 s or 10 times the fastest",
        ("slow", 1e-4): "not reached within 10 s or 10 times the fastest",
    }
    assert missing(rows) == {}


def test_what_breaks_while_all_take_turns_keeps_its_first_time(task):
    """What fails in the final timing keeps its first time and says so; the others are timed."""
    good, bad = along(task), Config("bad", lambda _effort, _seed: 1 / 0)
    points = [Point(bad, 1, 1e-3, 5.0, 1, 1), Point(good, 1, 1e-3, 5.0, 1, 1)]
    first, second = time_together(points, LITTLE)
    assert (first.seconds, first.repeats, first.status) == (5.0, 1, "failed: division by zero")
    assert second.seconds < 5.0


def test_seeds_are_averaged_where_they_matter(task):
    """The gap is a mean, the seconds a median; one seed where they change nothing."""
    gaps = {0: along(task, 0.5), 1: along(task, 0.25)}
    mixed = Config("mixed", lambda effort, seed: gaps[seed].fit(effort, seed))
    limits = replace(LITTLE, seeds=(0, 1))
    point = measure(mixed, 2, task, limits)
    assert point.gap == pytest.approx(
        np.mean([task.gap(one.fit(2, 0).coef) for one in gaps.values()])
    )
    calls = []
    fixed = Config(
        "fixed",
        lambda effort, seed: calls.append(seed) or Fit(np.zeros(3), effort, effort),
        stochastic=False,
    )
    measure(fixed, 1, task, limits)
    assert set(calls) == {0}


def test_points_tell_their_setting():
    """Points show their configuration and effort in words."""
    config = Config("dual", lambda effort, _seed: Fit(np.zeros(1), effort, effort), "passes")
    assert Point(config, 3, 0.1, 1.0, 3, 3).setting == "dual, passes=3"
