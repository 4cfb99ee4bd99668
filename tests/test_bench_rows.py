"""``benchmarks/race.py``: rows are read back as written and never mixed with others.

Tables and pictures follow from the rows alone.
"""

from __future__ import annotations

import csv
import importlib.util
import itertools
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("typer")
from race import app as race_command
from races import Row, choose_peers, pairing, read_rows, resume, run
from races.peer import Peer
from races.pictures import figures
from races.race import race
from races.resume import keep_finished, only_run_in, set_aside, sets_kept
from races.rows import HEADER, RefusedError, Sink, source_hash, versions
from races.sklearn_peers import OURS
from races.summary import losses, profile, ratio_table, standings, value_table, verdict
from test_bench import LITTLE, SET, along, make_task
from test_cli import run as run_command
from test_cli import run_json

# ---- rows


def example_rows():
    seconds = {
        ("one", 1e-3): {OURS: 1.0, "fast": 2.0, "slow": 20.0},
        ("one", 1e-4): {OURS: 3.0, "fast": 2.0, "slow": math.inf},
        ("two", 1e-3): {OURS: math.inf, "fast": 4.0},
        ("two", 1e-4): {OURS: math.inf, "fast": math.inf},
    }
    return [
        (
            Row(
                "target",
                data,
                10,
                2,
                "log_loss",
                1e-4,
                peer,
                "some",
                target=target,
                quantity="gap",
                value=target,
                seconds=taken,
            )
            if np.isfinite(taken)
            else Row(
                "target",
                data,
                10,
                2,
                "log_loss",
                1e-4,
                peer,
                target=target,
                quantity="gap",
                status="not reached",
            )
        )
        for (data, target), by_peer in seconds.items()
        for peer, taken in by_peer.items()
    ]


def test_standings_show_losses_as_well_as_wins():
    """Ours against the fastest other, the worst loss first; unsolved races have no winner."""
    found = {(one.data, one.target): one for one in standings(example_rows())}
    assert {key: one.ratio for key, one in found.items()} == {
        ("one", 1e-3): 0.5,
        ("one", 1e-4): 1.5,
        ("two", 1e-3): math.inf,
    }
    assert verdict(list(found.values())) == f"{OURS}: 1 won, 0 tied, 2 lost"
    assert [one.data for one in losses(list(found.values()))] == ["two", "one"]
    columns, lines = ratio_table(example_rows(), 1e-3)
    assert columns == ["", "one", "two"]
    assert lines == [
        ["the fastest, in ms", "1e+03", "4e+03"],
        [OURS, "1.00", "no"],
        ["fast", "2.00", "1.00"],
        ["slow", "20.00", ""],
    ]


def test_rows_of_several_threads_are_kept_apart():
    """Races with one thread and with two are two problems, and have columns of their own."""
    one = example_rows()
    two = [replace(row, threads=2, seconds=row.seconds / 2) for row in one]
    found = {(duel.data, duel.target, duel.threads): duel for duel in standings([*one, *two])}
    assert found["one", 1e-3, 2].ours == 0.5 == found["one", 1e-3, 1].ours / 2
    columns, _ = ratio_table([*one, *two], 1e-3)
    assert columns == ["", "one, 1 threads", "two, 1 threads", "one, 2 threads", "two, 2 threads"]


def times_of(**seconds):
    """Rows of one race; a peer without seconds did not reach the target."""
    ok = example_rows()[0]
    missed = replace(ok, status="not reached")
    return [
        replace(ok if taken else missed, peer=peer.replace("_", " "), seconds=taken or 0.0)
        for peer, taken in seconds.items()
    ]


def test_each_of_our_estimators_has_a_standing_of_its_own():
    """Nobody knows beforehand which of two estimators is faster, so neither stands in for both."""
    ours = {OURS: 3.0, "antithetic.LogisticRegression": 2.0}
    found = {one.entry: one for one in standings(times_of(**ours, glum=1.0, sklearn_lbfgs=4.0))}
    assert {entry: one.ours for entry, one in found.items()} == ours
    assert {(one.peer, one.best, one.sklearn) for one in found.values()} == {("glum", 1.0, 4.0)}


def test_a_race_that_nobody_else_finished_is_not_won():
    """Peers that the clock stopped lose no race, neither in the standings nor in the profile."""
    alone = times_of(**{OURS: 1.0, "glum": None, "sklearn lbfgs": None})
    assert standings(alone) == []
    assert profile(alone, [1.0]) == {}
    (duel,) = standings(times_of(**{OURS: None, "glum": 1.0}))
    assert (duel.ratio, duel.outcome) == (math.inf, "lost")


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [(0.89, "won"), (0.9, "tied"), (1.0, "tied"), (1.1, "tied"), (1.11, "lost")],
)
def test_ratios_near_one_are_ties(ours, outcome):
    """A shared machine cannot tell a ratio of 0.9 from one of 1.1."""
    (duel,) = standings(times_of(**{OURS: ours, "glum": 1.0}))
    assert duel.outcome == outcome


def test_the_profile_counts_problems_solved_within_a_factor():
    """Problems that no peer solves are left out of the profile."""
    shares = profile(example_rows(), [1.0, 1.5, 2.0, 100.0])
    np.testing.assert_allclose(shares[OURS], [1 / 3, 2 / 3, 2 / 3, 2 / 3])
    np.testing.assert_allclose(shares["fast"], [2 / 3, 2 / 3, 1.0, 1.0])
    np.testing.assert_allclose(shares["slow"], [0.0, 0.0, 0.0, 0.5])


def test_rows_are_read_as_they_were_written(tmp_path):
    """All digits, quotes and infinities; a line that was not finished is left out."""
    path = tmp_path / "rows.csv"
    given = [
        Row(
            "curve",
            "a, b",
            3,
            2,
            "hinge",
            0.1,
            'the "best"',
            "x=1",
            "0 1",
            value=1 / 3,
            seconds=math.inf,
        ),
        *example_rows(),
    ]
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
    """The error for a foreign file shows what the first line should be."""
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(
        ValueError,
        match=r"does not hold rows of `benchmarks/race\.py`: its first line should be part,set",
    ):
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
    assert keep_finished(path, [OURS], LITTLE.words) == {(SET, "log_loss", 1)}
    assert list(run([SET], ["log_loss"], peers, path, LITTLE, pairing=False)) == []
    assert sets_kept(path) == (
        f"Kept from an earlier run: {SET}. To measure them again, delete {path}."
    )
    assert sets_kept(tmp_path / "nothing.csv") == ""
    assert len(read_rows(path)) == len(rows)
    assert {row.status for row in rows if row.peer == OURS and row.target in (1e-2, 1e-3)} == {"ok"}


def test_rows_of_other_settings_are_neither_dropped_nor_mixed(tmp_path):
    """The file stays as it is.

    Fewer peers are fine, so that one which takes the process down can be left out.
    """
    path, peers = tmp_path / "rows.csv", choose_peers(["newton-cholesky"])
    assert list(run([SET], ["log_loss"], peers, path, LITTLE, pairing=False))
    before = path.read_bytes()
    for other in (
        replace(LITTLE, repeats=2),
        replace(LITTLE, clock="cpu"),
        replace(LITTLE, targets=(1e-2,)),
    ):
        with pytest.raises(
            ValueError,
            match=(
                r"breast-cancer_scale was measured with .* wall clock, not with .*; name another"
                r" folder with --out, or delete"
            ),
        ):
            list(run([SET], ["log_loss"], peers, path, other, pairing=False))
    with pytest.raises(ValueError, match="breast-cancer_scale was measured without sklearn lbfgs"):
        list(run([SET], ["log_loss"], choose_peers(["lbfgs"]), path, LITTLE, pairing=False))
    assert list(run([SET], ["log_loss"], peers[:1], path, LITTLE, pairing=False)) == []
    assert path.read_bytes() == before


def one_finished(path, settings="some"):
    with Sink(path) as sink:
        sink.add(resume.finished_row(Row("curve", SET, loss="log_loss"), [OURS], settings))


@pytest.mark.parametrize(
    ("what", "now", "words"),
    [
        ("cpu_name", "abacus, 1 cores", "was measured with .* cores, not with abacus, 1 cores"),
        (
            "versions",
            "antithetic 9; Python 9",
            (
                r"was measured with antithetic .* \(source [0-9a-f]{8}\); .*, not with antithetic"
                r" 9; Python 9"
            ),
        ),
    ],
)
def test_rows_of_other_code_or_another_machine_are_refused(tmp_path, monkeypatch, what, now, words):
    """The error says what differs and what to do, and the file is unchanged."""
    path = tmp_path / "rows.csv"
    one_finished(path)
    assert keep_finished(path, [OURS], "some") == {(SET, "log_loss", 1)}
    before = path.read_bytes()
    monkeypatch.setattr(resume, what, lambda: now)
    with pytest.raises(
        RefusedError, match=f"{SET} {words}; name another folder with --out, or delete that file"
    ):
        keep_finished(path, [OURS], "some")
    assert path.read_bytes() == before


def test_packages_that_came_or_went_are_named(tmp_path, monkeypatch):
    """Packages that were added or removed are named; unchanged ones are not."""
    one_finished(tmp_path / "rows.csv")
    same = versions()
    monkeypatch.setattr(resume, "versions", lambda: f"{same}; more 1.0")
    assert (
        resume.difference(read_rows(tmp_path / "rows.csv"), [], "some")
        == f"{SET} was measured without more 1.0"
    )
    monkeypatch.setattr(resume, "versions", lambda: same.rpartition("; ")[0])
    assert resume.difference(read_rows(tmp_path / "rows.csv"), [], "some").endswith(
        f"with {same.rpartition('; ')[2]}, which is not installed now"
    )


def test_another_kernel_is_another_source(tmp_path):
    """A changed kernel changes the source digest; code that only shows results does not."""
    for name, text in (
        ("solvers/kernel.py", "a = 1"),
        ("report/page.py", "b = 1"),
        ("notes.txt", "c"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    hash_now = source_hash.__wrapped__
    first = hash_now(tmp_path)
    (tmp_path / "report/page.py").write_text("b = 2")
    (tmp_path / "notes.txt").write_text("d")
    assert hash_now(tmp_path) == first
    (tmp_path / "solvers/kernel.py").write_text("a = 2")
    assert hash_now(tmp_path) != first
    assert f"(source {source_hash()})" in versions()


def test_rows_that_would_be_refused_are_set_aside(tmp_path):
    """They are renamed to a free name; other files stay where they are."""
    path = tmp_path / "rows.csv"
    assert set_aside(path, [OURS], "some") == ""
    one_finished(path)
    assert set_aside(path, [OURS], "some") == ""
    assert (
        set_aside(path, [OURS], "other")
        == f"Set aside as {tmp_path / 'rows-old.csv'}: {SET} was measured with some, not with"
        " other."
    )
    path.write_text("other columns\n")
    assert set_aside(path, [OURS], "some").startswith(
        f"Set aside as {tmp_path / 'rows-old-2.csv'}: {path} does not hold rows"
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rows-old-2.csv", "rows-old.csv"]


@pytest.mark.skipif(importlib.util.find_spec("fcntl") is None, reason="Windows has no such locks")
def test_two_runs_do_not_share_a_folder(tmp_path):
    """The second run is refused; the rows of the first stay whole."""
    peers = choose_peers(["newton-cholesky"])
    first = run([SET], ["log_loss"], peers, tmp_path / "rows.csv", LITTLE, pairing=False)
    next(first)
    with pytest.raises(ValueError, match="another run writes into"):
        next(run([SET], ["log_loss"], peers, tmp_path / "rows.csv", LITTLE, pairing=False))
    first.close()
    with only_run_in(tmp_path):
        assert len(read_rows(tmp_path / "rows.csv")) == 1


def test_pictures_are_a_function_of_the_rows():
    """A curve of the least gap within each time, for each peer; and one profile."""
    rows = list(
        race(
            make_task(),
            [Peer("good", "numpy", lambda _task: [along(_task), along(_task, 0.7)])],
            LITTLE,
            lambda _what: None,
        )
    )
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
    # The next test uses real child processes.
    monkeypatch.setattr(pairing, "_in_a_child", lambda *given: (pairing.measure(*given), "ok"))
    rows = list(pairing.pairing_rows(True, 1))
    kinds = {row.quantity for row in rows}
    assert kinds == {
        "seconds",
        "megabytes",
        "variance ratio",
        "exponent of seconds in n",
        "exponent of seconds in d",
    }
    assert all(0.8 < row.value < 1.2 for row in rows if row.quantity == "variance ratio")


def test_each_table_is_made_in_a_process_of_its_own(monkeypatch, tmp_path):
    """Each table is made in its own process, whose failure is reported."""
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
    options = (
        "--quick",
        "--no-pairing",
        "--sets",
        SET,
        "--peers",
        "linearsvc",
        "--seconds",
        0.05,
        "--repeats",
        1,
    )
    return out, run_json(
        *options, "--losses", "hinge", "--clock", "cpu", "--out", out, command=race_command
    )


def test_the_command_writes_rows_and_figures(benched):
    """The command writes rows and figures, and prints a summary."""
    out, found = benched
    rows = read_rows(out / "rows.csv")
    assert {row.loss for row in rows} == {"hinge"}
    assert {row.peer for row in rows if row.part == "target"} == {OURS, "sklearn LinearSVC"}
    assert {row.clock for row in rows} == {"cpu"}
    assert {path.name for path in (out / "figures").iterdir()} >= {
        "profile.png",
        "profile.svg",
        "breast-cancer-scale-hinge-seconds.svg",
    }
    assert {one["peer"] for one in found["standings"]} == {"sklearn LinearSVC"}
    assert all(one["ratio"] is None or one["ratio"] > 1 for one in found["losses"])
    assert found["missing"] == {}


def test_tables_are_drawn_again_without_measuring(benched):
    """Tables are redrawn from the rows alone, with the losses at the end."""
    out, found = benched
    before = (out / "rows.csv").read_bytes()
    is_timed = any(
        row.part == "epoch" and row.status == "ok" for row in read_rows(out / "rows.csv")
    )
    shown, _ = run_command("--redraw", out / "rows.csv", "--no-images", command=race_command)
    assert (out / "rows.csv").read_bytes() == before
    assert f"Races to a target, all defaults: {found['verdict']}." in " ".join(shown.split())
    for words in (
        "Times the fastest to 0.001",
        # a pass of a few hundred rows may be too quick to be timed
        *(["Milliseconds per pass"] if is_timed else []),
        "Held-out accuracy",
        "within a factor",
        "cpu clock",
        *([] if not found["losses"] else ["Where ours lose"]),
    ):
        assert words in shown
    assert value_table(read_rows(out / "rows.csv"), "held-out", "accuracy")[0] == ["", SET]


def test_rows_of_a_stranger_are_only_shown(tmp_path):
    """Escape codes, formulae and tags in names are text, in the terminal and in the pictures."""
    nasty = "\x1b[31m$x_{$<b>&"
    rows = [
        Row("curve", nasty, 9, 2, "hinge", 0.1, nasty, value=10.0**-k, seconds=float(k), passes=k)
        for k in (1, 2)
    ]
    rows.append(
        Row("target", nasty, 9, 2, "hinge", 0.1, OURS, target=1e-3, value=1e-4, seconds=1.0)
    )
    rows.append(
        Row("target", nasty, 9, 2, "hinge", 0.1, nasty, target=1e-3, status=f"failed: {nasty}")
    )
    rows.append(replace(rows[-1], peer="another", status="ok", seconds=2.0))  # a race has a rival
    with Sink(tmp_path / "rows.csv") as sink:
        for row in rows:
            sink.add(row)
    shown, _ = run_command("--redraw", tmp_path / "rows.csv", command=race_command)
    assert "$x_{$<b>&" in shown
    assert "\x1b" not in shown
    assert "&lt;b&gt;&amp;" in (tmp_path / "figures" / "profile.svg").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sets", "iris"), "set 'iris' is not known; use some of"),
        (("--peers", "nobody"), "peer 'nobody' is not known; use some of"),
        (("--losses", "huber"), "loss 'huber' is not supported; use log_loss or softmax"),
        (("--threads", "0"), "--threads takes numbers from 1 on, or all, not '0'"),
        (("--clock", "sun"), "clock 'sun' is not known; use wall or cpu"),
        (("--redraw", "nothing.csv"), "nothing.csv: No such file or directory"),
    ],
)
def test_wrong_words_are_refused(tmp_path, options, words):
    """Bad arguments are refused in a sentence, before anything is measured."""
    where = () if options[0] == "--sets" else ("--sets", SET)
    assert (
        words
        in run_json(*where, *options, "--out", tmp_path / "out", code=1, command=race_command)[
            "error"
        ]
    )
