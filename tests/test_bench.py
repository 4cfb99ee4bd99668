"""``antithetic bench``: what it measures is so, peers that are missing or broken are told, and tables follow from the rows alone."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import math
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("typer")
from test_cli import run as run_command
from test_cli import run_json

from antithetic.bench import LOSSES, PEERS, TARGETS, Limits, Row, choose_peers, pairing, read_rows, run
from antithetic.bench.climb import Point, cheapest, climb, efforts, measure, refine, time_together, timed
from antithetic.bench.peer import Config, Fit, Peer
from antithetic.bench.pictures import figures
from antithetic.bench.race import race
from antithetic.bench.resume import keep_finished, only_run_in, sets_kept
from antithetic.bench.rows import HEADER, Sink
from antithetic.bench.sklearn_peers import OURS
from antithetic.bench.summary import losses, missing, profile, ratio_table, standings, value_table, verdict
from antithetic.bench.tasks import ALWAYS_THERE, FIGURE_SETS, QUICK_SETS, Task, choose_sets, hold_out, load_set

LITTLE = Limits(seconds=0.2, in_all=0.4, seeds=(0,), repeats=1)
SET = "breast-cancer_scale"


def make_task(loss="log_loss", n=60, d=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return Task.build("made", loss, X, X @ [1.0, -2.0, 0.5][:d] + rng.normal(size=n) > 0, 1e-2)


@pytest.fixture(scope="module")
def task():
    return make_task()


def along(task, rate=0.5, name="along", stochastic=False):
    """A configuration whose effort k leaves ``rate ** k`` of the way to the optimum."""
    from antithetic.experiments.optimum import find_optimum

    best = find_optimum(task.problem).coef
    return Config(name, lambda effort, _seed: Fit((1.0 - rate**effort) * best, effort, effort), stochastic=stochastic)


# ---- problems


@pytest.mark.parametrize("loss", LOSSES)
def test_gaps_begin_at_one_and_end_at_zero(loss):
    """(f - f*) / (f(0) - f*) with a certified f*; weights that overflowed are infinitely far."""
    task = make_task(loss)
    assert task.gap(np.zeros(3)) == pytest.approx(1.0)
    assert task.certain < 1e-8
    assert task.gap([np.nan, 0.0, 0.0]) == task.gap([1e308, 1e308, 1e308]) == np.inf


def test_sets_are_those_of_the_figures_or_what_is_always_there(monkeypatch):
    """Without the data sets the package still has something to measure, and says what is missing."""
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    monkeypatch.setenv("ANTITHETIC_CACHE", "/nowhere")
    found, absent = choose_sets(None, quick=False)
    assert absent == [name for name in FIGURE_SETS if not name.startswith("made-")]
    assert found == ["made-500000x50", *ALWAYS_THERE]
    assert choose_sets(None, quick=True) == (list(QUICK_SETS), [])
    assert choose_sets(["a9a", SET], quick=False) == ([SET], ["a9a"])
    with pytest.raises(ValueError, match=r"'iris' is not known; use some of ijcnn1\.tr"):
        choose_sets(["iris"], quick=False)


def test_made_rows_are_standardised():
    """As the figures ask: make_classification with 2 of 5 features informative, no mean, deviation one."""
    X, y = load_set("made-20000x20")
    assert X.shape == (20000, 20)
    np.testing.assert_allclose([X.mean(axis=0), X.std(axis=0)], [np.zeros(20), np.ones(20)], atol=1e-12)
    train, y_train, held, y_held = hold_out(X, y)
    assert (len(train), len(held)) == (len(y_train), len(y_held)) == (16000, 4000)
    assert len(np.unique(np.r_[train, held], axis=0)) == 20000


# ---- peers


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_peer_minimises_the_same_objective(peer, loss):
    """With some effort each configuration that is installed ends within 1 % of the least objective, or says that it is not there.

    A peer with another meaning of lambda, or of the labels, would end elsewhere.
    """
    if loss not in peer.losses:
        return
    task = make_task(loss)
    if importlib.util.find_spec({"grab-sampler": "grabsampler", "scikit-learn": "sklearn"}.get(peer.package, peer.package)) is None:
        with pytest.raises(ImportError):
            peer.configs(task)
        return
    gaps = {}
    for config in peer.configs(task):
        seconds, coef, _, iterations = timed(config, 60, 0, iter([0.0, 1.0]).__next__)
        gaps[config.setting] = task.gap(coef)
        assert (seconds, coef.size, iterations > 0) == (1.0, 3, True)
    assert min(gaps.values()) < 0.01, gaps
    assert peer.one_pass is None or peer.one_pass in gaps


def test_steps_of_the_grid_suit_their_schedule():
    """Each schedule of scikit-learn's has one that comes near in 15 epochs: a grid of too long steps would be no fair race."""
    task = Task.build("made", "log_loss", *load_set("made-20000x20"), 1e-4)
    (peer,) = (peer for peer in PEERS if peer.name == "sklearn SGDClassifier")
    for schedule in ("constant", "invscaling", "adaptive"):
        configs = [config for config in peer.configs(task) if config.setting.startswith(schedule)]
        assert min(task.gap(config.fit(15, 0).coef) for config in configs) < 2e-4, schedule


def test_peers_are_chosen_by_parts_of_their_names():
    """Ours is always among them."""
    assert [peer.name for peer in choose_peers(["LBFGS", "svc"])] == [OURS, "sklearn lbfgs", "sklearn LinearSVC"]
    assert choose_peers(None) == PEERS
    with pytest.raises(ValueError, match=r"no peer is called 'xgboost'; there are antithetic\.SGDClassifier, sklearn"):
        choose_peers(["xgboost"])


# ---- the least effort


def test_efforts_grow_by_less_than_a_third():
    """So what is found before bisecting is at most a third too much."""
    first = list(itertools.islice(efforts(), 40))
    assert first[:9] == [1, 2, 3, 4, 5, 6, 7, 9, 11]
    assert all(0 < b - a <= max(1, 0.3 * a) for a, b in itertools.pairwise(first))


def test_the_least_effort_that_gets_there_is_found(task):
    """By climbing, then bisecting: one unit less is too little."""
    config, peer = along(task, 0.9), PEERS[0]
    points = list(climb(peer, [config], task, 1e-6, LITTLE))
    points += refine(points, 1e-4, task, LITTLE)
    least = min(point.effort for point in points if point.gap <= 1e-4)
    assert task.gap(config.fit(least - 1, 0).coef) > 1e-4 >= task.gap(config.fit(least, 0).coef)
    assert points[-1].config is config
    assert cheapest(points, 1e-30) is None


def test_configurations_that_fall_behind_are_dropped(task):
    """Of rivals the worse half, of all those that diverge or stand still."""
    fast, slow, still = along(task, 0.5, "fast"), along(task, 0.99, "slow"), along(task, 1.0, "still")
    broken = Config("broken", lambda effort, _seed: Fit(np.full(3, np.nan), effort, effort))
    peer = Peer("rivals", "antithetic", lambda _task: (), rivals=True)
    points = list(climb(peer, [fast, slow, still, broken], task, 1e-12, LITTLE))
    reached = {name: max(point.effort for point in points if point.config.setting == name) for name in ("fast", "slow", "still", "broken")}
    assert reached["fast"] > reached["slow"] > 3 or reached["fast"] > 12
    assert max(reached["still"], reached["broken"]) <= 8


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
    """Its rows say why."""
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
    assert all(targets["good", target].value <= target and targets["good", target].seconds > 0 for target in TARGETS)
    assert targets["broken", 1e-2].status == "failed: out of luck"
    assert targets["absent", 1e-2].status == "not installed"
    assert [row.status for row in rows if row.peer == "other"] == ["does not minimise log_loss"]
    assert missing(rows) == {"broken": "failed: out of luck", "absent": "not installed"}
    assert next(row for row in rows if row.part == "optimum").value == task.least
    (epoch,) = [row for row in rows if row.part == "epoch"]
    assert (epoch.peer, epoch.quantity) == ("good", "seconds per pass")
    held = {row.quantity: row.value for row in rows if row.part == "held-out" and row.peer == "good"}
    assert 0.5 < held["accuracy"] <= 1.0
    assert 0.0 < held["log_loss"] < np.log(2.0)


def test_held_out_rows_are_looked_at_from_the_same_gap(task):
    """An effort that was enough by luck on all rows is turned up until it is enough for the four fifths."""

    def lucky(given):
        config = along(given, 0.1 if given.n == task.n else 0.5)
        return [config]

    rows = list(race(task, [Peer("lucky", "numpy", lucky)], replace(LITTLE, targets=(1e-4,)), lambda _what: None))
    (gap,) = [row for row in rows if row.part == "held-out" and row.quantity == "gap"]
    (target,) = [row for row in rows if row.part == "target"]
    assert gap.value <= 1e-4
    assert gap.iterations > target.iterations


def test_a_peer_far_behind_is_given_up(task):
    """And so is what lies beyond the last target; the status says so."""

    def slowly(given):
        config = along(given, 0.9)
        return [replace(config, fit=lambda effort, seed: time.sleep(0.02 * effort) or config.fit(effort, seed))]

    limits = replace(LITTLE, seconds=10.0, in_all=60.0, targets=(1e-2, 1e-4), behind=10.0)
    rows = list(
        race(task, [Peer("good", "numpy", lambda _task: [along(_task)]), Peer("slow", "numpy", slowly)], limits, lambda _what: None)
    )
    assert max(row.iterations for row in rows if row.part == "curve" and row.peer == "slow") < 10
    found = {(row.peer, row.target): row.status for row in rows if row.part == "target"}
    assert found == {
        ("good", 1e-2): "ok",
        ("good", 1e-4): "ok",
        ("slow", 1e-2): "not reached within 10 times the fastest",
        ("slow", 1e-4): "not reached within 10 times the fastest",
    }
    assert missing(rows) == {}


def test_what_breaks_while_all_take_turns_keeps_its_first_time(task):
    """The others are timed all the same."""
    good, bad = along(task), Config("bad", lambda _effort, _seed: 1 / 0)
    points = [Point(bad, 1, 1e-3, 5.0, 1, 1), Point(good, 1, 1e-3, 5.0, 1, 1)]
    first, second = time_together(points, LITTLE)
    assert first is points[0]
    assert second.seconds < 5.0


def test_seeds_are_averaged_where_they_matter(task):
    """The gap is a mean, the seconds a median; one seed where they change nothing."""
    gaps = {0: along(task, 0.5), 1: along(task, 0.25)}
    mixed = Config("mixed", lambda effort, seed: gaps[seed].fit(effort, seed))
    limits = replace(LITTLE, seeds=(0, 1))
    point = measure(mixed, 2, task, limits)
    assert point.gap == pytest.approx(np.mean([task.gap(one.fit(2, 0).coef) for one in gaps.values()]))
    calls = []
    fixed = Config("fixed", lambda effort, seed: calls.append(seed) or Fit(np.zeros(3), effort, effort), stochastic=False)
    measure(fixed, 1, task, limits)
    assert set(calls) == {0}


# ---- rows


def example_rows():
    seconds = {
        ("one", 1e-3): {OURS: 1.0, "fast": 2.0, "slow": 20.0},
        ("one", 1e-4): {OURS: 3.0, "fast": 2.0, "slow": math.inf},
        ("two", 1e-3): {OURS: math.inf, "fast": 4.0},
        ("two", 1e-4): {OURS: math.inf, "fast": math.inf},
    }
    return [
        Row("target", data, 10, 2, "log_loss", 1e-4, peer, "some", target=target, quantity="gap", value=target, seconds=taken)
        if np.isfinite(taken)
        else Row("target", data, 10, 2, "log_loss", 1e-4, peer, target=target, quantity="gap", status="not reached")
        for (data, target), by_peer in seconds.items()
        for peer, taken in by_peer.items()
    ]


def test_standings_show_losses_as_well_as_wins():
    """Ours against the fastest other, the worst loss first; where nobody gets there nobody wins."""
    found = {(one.data, one.target): one for one in standings(example_rows())}
    assert {key: one.ratio for key, one in found.items()} == {
        ("one", 1e-3): 0.5,
        ("one", 1e-4): 1.5,
        ("two", 1e-3): math.inf,
    }
    assert verdict(list(found.values())) == "fastest on 1 of 3 (set, loss, target)"
    assert [one.data for one in losses(list(found.values()))] == ["two", "one"]
    columns, lines = ratio_table(example_rows(), 1e-3)
    assert columns == ["", "one", "two"]
    assert lines == [["the fastest, in ms", "1e+03", "4e+03"], [OURS, "1.00", "no"], ["fast", "2.00", "1.00"], ["slow", "20.00", ""]]


def test_the_profile_counts_problems_solved_within_a_factor():
    """Those that nobody solves are left out."""
    shares = profile(example_rows(), [1.0, 1.5, 2.0, 100.0])
    np.testing.assert_allclose(shares[OURS], [1 / 3, 2 / 3, 2 / 3, 2 / 3])
    np.testing.assert_allclose(shares["fast"], [2 / 3, 2 / 3, 1.0, 1.0])
    np.testing.assert_allclose(shares["slow"], [0.0, 0.0, 0.0, 0.5])


def test_rows_come_back_as_they_were_written(tmp_path):
    """All digits, quotes and infinities; a line that was not finished is left out."""
    path = tmp_path / "rows.csv"
    given = [Row("curve", "a, b", 3, 2, "hinge", 0.1, 'the "best"', "x=1", "0 1", value=1 / 3, seconds=math.inf), *example_rows()]
    with Sink(path, "cpu") as sink:
        written = [sink.add(row) for row in given]
    with open(path, "a") as file:
        file.write("curve,cut")
    read = read_rows(path)
    assert [repr(row) for row in read] == [repr(row) for row in written]
    assert (read[0].clock, read[0].threads) == ("cpu", 1)
    assert "numpy" in read[0].versions
    assert read[0].cpu
    with open(path, newline="") as file:
        assert next(csv.reader(file)) == list(HEADER)
    assert HEADER[1] == "set"


def test_files_of_others_are_refused(tmp_path):
    """With what the first line should be."""
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="does not hold rows of `antithetic bench`: its first line should be part,set"):
        read_rows(path)
    path.write_text(",".join(HEADER) + "\ncurve,set,many" + "," * (len(HEADER) - 3) + "\n")
    with pytest.raises(ValueError, match="line 2: invalid literal"):
        read_rows(path)


def test_what_is_finished_is_kept_and_not_run_again(tmp_path):
    """The rows of a problem that was interrupted are replaced; Ctrl-C loses no row."""
    path, peers = tmp_path / "rows.csv", choose_peers(["newton-cholesky"])
    first = run([SET], ["log_loss"], peers, path, LITTLE, pairing=False)
    seen = list(itertools.islice(first, 5))
    first.close()  # as Ctrl-C would
    assert len(read_rows(path)) == 5
    done = list(run([SET], ["log_loss"], peers, path, LITTLE, pairing=False))
    rows = read_rows(path)
    assert [repr(row) for row in rows] == [repr(row) for row in done]
    assert rows[-1].part == "finished"
    assert rows[0].value == seen[0].value
    assert keep_finished(path, [OURS], LITTLE.words) == {(SET, "log_loss")}
    assert list(run([SET], ["log_loss"], peers, path, LITTLE, pairing=False)) == []
    assert sets_kept(path) == f"Kept from an earlier run: {SET}. To measure anew, remove {path}."
    assert sets_kept(tmp_path / "nothing.csv") == ""
    assert len(read_rows(path)) == len(rows)
    assert {row.status for row in rows if row.peer == OURS and row.target in (1e-2, 1e-3)} == {"ok"}


def test_rows_of_other_settings_are_neither_dropped_nor_mixed(tmp_path):
    """The file stays as it is; fewer peers are fine, so that one which takes the process down can be left out."""
    path, peers = tmp_path / "rows.csv", choose_peers(["newton-cholesky"])
    assert list(run([SET], ["log_loss"], peers, path, LITTLE, pairing=False))
    before = path.read_bytes()
    for other in (replace(LITTLE, repeats=2), replace(LITTLE, clock="cpu"), replace(LITTLE, targets=(1e-2,))):
        with pytest.raises(ValueError, match=r"breast-cancer_scale was measured with .* wall clock, not .*; repeat those settings, name"):
            list(run([SET], ["log_loss"], peers, path, other, pairing=False))
    with pytest.raises(ValueError, match="breast-cancer_scale was measured without sklearn lbfgs"):
        list(run([SET], ["log_loss"], choose_peers(["lbfgs"]), path, LITTLE, pairing=False))
    assert list(run([SET], ["log_loss"], peers[:1], path, LITTLE, pairing=False)) == []
    assert path.read_bytes() == before


@pytest.mark.skipif(importlib.util.find_spec("fcntl") is None, reason="Windows has no such locks")
def test_two_runs_do_not_share_a_folder(tmp_path):
    """The second is told; the first one's rows stay whole."""
    peers = choose_peers(["newton-cholesky"])
    first = run([SET], ["log_loss"], peers, tmp_path / "rows.csv", LITTLE, pairing=False)
    next(first)
    with pytest.raises(ValueError, match="another run writes into"):
        next(run([SET], ["log_loss"], peers, tmp_path / "rows.csv", LITTLE, pairing=False))
    first.close()
    with only_run_in(tmp_path):
        assert len(read_rows(tmp_path / "rows.csv")) == 1


def test_pictures_are_a_function_of_the_rows(task):
    """A curve of the least gap within each time, for each peer; and one profile."""
    rows = list(race(task, [Peer("good", "numpy", lambda _task: [along(_task), along(_task, 0.7)])], LITTLE, lambda _what: None))
    found = {figure.id: figure for figure in figures(rows)}
    assert list(found) == ["made-log-loss-seconds", "made-log-loss-passes", "profile"]
    (curve,) = found["made-log-loss-passes"].series
    assert np.all(np.diff(curve.x) > 0)
    assert np.all(np.diff(curve.y) < 0)
    assert [repr(series.y) for series in figures(rows)[1].series] == [repr(curve.y)]
    assert found["profile"].series[0].y.tolist() == [1.0] * 101
    assert figures([]) == []


# ---- tables of pairs


def test_tables_are_measured(monkeypatch):
    """Seconds, memory, quality, and exponents of growth."""
    monkeypatch.setattr(pairing, "METHODS", ("random",))
    monkeypatch.setattr(pairing, "_in_a_child", lambda *given: (pairing.measure(*given), "ok"))  # the next test has real ones
    rows = list(pairing.pairing_rows(True, 1))
    kinds = {row.quantity for row in rows}
    assert kinds == {"seconds", "megabytes", "variance ratio", "exponent of seconds in n", "exponent of seconds in d"}
    assert all(0.8 < row.value < 1.2 for row in rows if row.quantity == "variance ratio")


def test_each_table_is_made_in_a_process_of_its_own(monkeypatch, tmp_path):
    """Whose failure is told."""
    found, status = pairing._in_a_child("random", 60, 2, 1, "cpu")
    assert (sorted(found), status) == (["megabytes", "seconds", "variance ratio"], "ok")
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'MemoryError: too much' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    assert pairing._in_a_child("random", 60, 2, 1, "cpu") == ({}, "failed: MemoryError: too much")


# ---- the command


@pytest.fixture(scope="module")
def benched(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench") / "out"
    options = ("--quick", "--no-pairing", "--sets", SET, "--peers", "linearsvc", "--seconds", 0.05, "--repeats", 1)
    return out, run_json("bench", *options, "--losses", "hinge", "--clock", "cpu", "--out", out)


def test_the_command_writes_rows_and_figures(benched):
    """And answers with where we stand."""
    out, found = benched
    rows = read_rows(out / "rows.csv")
    assert {row.loss for row in rows} == {"hinge"}
    assert {row.peer for row in rows if row.part == "target"} == {OURS, "sklearn LinearSVC"}
    assert {row.clock for row in rows} == {"cpu"}
    assert {path.name for path in (out / "figures").iterdir()} >= {"profile.png", "profile.svg", "breast-cancer-scale-hinge-seconds.svg"}
    assert {one["peer"] for one in found["standings"]} == {"sklearn LinearSVC"}
    assert all(one["ratio"] is None or one["ratio"] > 1 for one in found["losses"])
    assert found["missing"] == {}


def test_tables_are_drawn_again_without_measuring(benched):
    """From the rows alone, with the losses at the end."""
    out, found = benched
    before = (out / "rows.csv").read_bytes()
    shown, _ = run_command("bench", "--redraw", out / "rows.csv", "--no-images")
    assert (out / "rows.csv").read_bytes() == before
    assert f"antithetic.SGDClassifier, all defaults: {found['verdict']}." in " ".join(shown.split())
    for words in (
        "Times the fastest to 0.001",
        "Milliseconds per pass",
        "Held-out accuracy",
        "within a factor",
        "cpu clock",
        *([] if not found["losses"] else ["Where we lose"]),
    ):
        assert words in shown
    assert value_table(read_rows(out / "rows.csv"), "held-out", "accuracy")[0] == ["", SET]


def test_rows_of_a_stranger_are_only_shown(tmp_path):
    """Escape codes, formulae and tags in names are text, in the terminal and in the pictures."""
    nasty = "\x1b[31m$x_{$<b>&"
    rows = [Row("curve", nasty, 9, 2, "hinge", 0.1, nasty, value=10.0**-k, seconds=float(k), passes=k) for k in (1, 2)]
    rows.append(Row("target", nasty, 9, 2, "hinge", 0.1, OURS, target=1e-3, value=1e-4, seconds=1.0))
    rows.append(Row("target", nasty, 9, 2, "hinge", 0.1, nasty, target=1e-3, status=f"failed: {nasty}"))
    with Sink(tmp_path / "rows.csv") as sink:
        for row in rows:
            sink.add(row)
    shown, _ = run_command("bench", "--redraw", tmp_path / "rows.csv")
    assert "$x_{$<b>&" in shown
    assert "\x1b" not in shown
    assert "&lt;b&gt;&amp;" in (tmp_path / "figures" / "profile.svg").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sets", "iris"), "set 'iris' is not known; use some of"),
        (("--peers", "nobody"), "no peer is called 'nobody'; there are"),
        (("--losses", "huber"), "loss 'huber' is not compared; use log_loss or hinge"),
        (("--clock", "sun"), "clock 'sun' is not known; use wall or cpu"),
        (("--redraw", "nothing.csv"), "nothing.csv: No such file or directory"),
    ],
)
def test_wrong_words_are_refused(tmp_path, options, words):
    """In a sentence, before anything is measured."""
    where = () if options[0] == "--sets" else ("--sets", SET)
    assert words in run_json("bench", *where, *options, "--out", tmp_path / "out", code=1)["error"]


def test_points_tell_their_setting():
    """Configuration and effort in words."""
    config = Config("dual", lambda effort, _seed: Fit(np.zeros(1), effort, effort), "passes")
    assert Point(config, 3, 0.1, 1.0, 3, 3).setting == "dual, passes=3"
