"""The run of all benchmarks reports given numbers correctly.

Timings themselves are no tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from races import PEERS, Row, read_rows
from races.resume import finished_row
from races.rows import Sink, source_hash

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def scripts():
    """The modules ``all`` and ``common``, imported as the scripts import each other."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import all as everything
        import common

        yield everything, common
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == BENCHMARKS:
                del sys.modules[name]


def test_the_summary_counts_every_figure_with_a_bar(scripts):
    """The summary counts the figures that have a bar.

    Those without a bar do not count, and what was missed is told again at the end.
    """
    everything, common = scripts
    figures = [
        common.Figure(
            "seconds, at most a minute", 1.0, most=2.0, remark="FAIL is only a word here"
        ),
        common.Figure("gap", 3.0, least=4.0, most=9.0),
        common.Figure("no bar at all: pass", 1.0),
        common.Figure("group lasso 0.01", 3e-11, most=1.0),
        common.Figure("sets where it is at most 0.1", 4, least=4),
        common.Figure("CSR 100000 x 10000, no bar", 2.5),
    ]
    verdicts = ["pass", "FAIL", "", "pass", "pass", ""]
    assert [everything.verdict_of(figure.line()) for figure in figures] == verdicts
    outcomes = [
        everything.Outcome("core", [figures[0].line()], [figures[1].line()]),
        everything.Outcome("orders", [], [], "ended with exit status 2"),
    ]
    lines = everything.summary(outcomes, ["scale: left out"])
    assert "1 of 2 figures with a bar meet it" in lines
    assert any(line.startswith("core: gap") for line in lines)
    assert any("exit status 2" in line for line in lines)
    assert "scale: left out" in lines


def test_all_benchmarks_are_run_by_name(scripts, tmp_path, monkeypatch, capfd):
    """Their lines are shown as they come; a missing script or extra is reported.

    A crash counts as a failure.
    """
    everything, _ = scripts
    (tmp_path / "core.py").write_text("print('ratio   1.0   at most 2   pass\\n\\nall bars met')\n")
    (tmp_path / "orders.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "scale.py").write_text("")
    monkeypatch.setattr(everything, "HERE", tmp_path)
    monkeypatch.setattr(
        everything,
        "SCRIPTS",
        everything.SCRIPTS | {"scale": everything.Script({"no_such_package": "dask"})},
    )
    monkeypatch.setattr(sys, "argv", ["all.py", "core", "orders", "scale", "fits"])
    assert everything.main() == 1
    shown = capfd.readouterr().out
    assert "1 of 1 figures with a bar meet it" in shown
    assert 'scale: left out, its extra is not installed: pip install "antithetic[dask]"' in shown
    assert "fits: left out, there is no fits.py" in shown
    assert "ended with exit status 3" in shown
    monkeypatch.setattr(sys, "argv", ["all.py", "core"])
    assert everything.main() == 0


@pytest.mark.parametrize(
    ("ending", "trouble"),
    [
        ("print('\\n1 missed'); raise SystemExit(1)", ""),
        ("1 / 0", "broke off before its last line"),
        (
            "print('\\n1 missed'); print('Traceback'); raise SystemExit(1)",
            "broke off before its last line",
        ),
    ],
)
def test_a_script_that_breaks_after_a_miss_is_in_trouble(
    scripts, tmp_path, monkeypatch, ending, trouble
):
    """A script that fails after a missed bar is reported as failed, by its missing closing line.

    Python exits with 1 after an exception, as the script does after a missed bar.
    """
    everything, _ = scripts
    (tmp_path / "core.py").write_text(f"print('ratio   3.0   at most 2   FAIL')\n{ending}\n")
    monkeypatch.setattr(everything, "HERE", tmp_path)
    outcome = everything.run("core", quick=False)
    assert len(outcome.missed) == 1
    assert outcome.trouble.startswith(trouble)
    assert bool(outcome.trouble) == bool(trouble)


def test_arguments_are_passed_on_and_shown(scripts, tmp_path, monkeypatch):
    """Each script receives them, and the page shows the command that was run."""
    everything, _ = scripts
    told = "import sys; print('\\n'.join(sys.argv[1:])); print('\\nall bars met')"
    (tmp_path / "core.py").write_text(told)
    monkeypatch.setattr(everything, "HERE", tmp_path)
    page = tmp_path / "figures.md"
    given = ["--given", "--threads 1 'two words'", "--page", str(page)]
    monkeypatch.setattr(sys, "argv", ["all.py", "core", *given])
    assert everything.main() == 0
    kept = json.loads(page.with_suffix(".json").read_text())
    assert kept["core"]["lines"][:3] == ["--threads", "1", "two words"]
    assert "`python benchmarks/core.py --threads 1 'two words'`" in page.read_text()


def test_a_script_that_takes_too_long_is_stopped(scripts, tmp_path, monkeypatch):
    """Its figures so far are kept, and the reason is reported."""
    everything, _ = scripts
    (tmp_path / "core.py").write_text(
        "print('ratio   1.0   at most 2   pass', flush=True)\nimport time\ntime.sleep(600)\n"
    )
    monkeypatch.setattr(everything, "HERE", tmp_path)
    outcome = everything.run("core", quick=True, minutes=0.02)
    assert outcome.trouble == "stopped after 0.02 minutes"
    assert len(outcome.passed) == 1


def test_the_page_has_every_figure_and_what_was_missed(scripts, tmp_path, monkeypatch):
    """A script that is run again replaces its figures only; missed ones stand first as well."""
    everything, common = scripts
    figures = [
        common.Figure("a | b", 1.0, most=2.0, remark="with words, 3 of 4"),
        common.Figure("gap to 1e-3", 3.0, least=4.0, most=9.0, remark="FAIL is a word"),
        common.Figure("no limit", np.inf),
        common.Figure("CSR 100000 x 10000", 4, least=4, remark="<1"),
        common.Figure("group lasso 0.001", 0.000283, most=1.0),
    ]
    for script, chosen in (("core", figures), ("orders", figures[:1])):
        head = "print('CPU, 2 cores\\nPython 3, numpy 2\\n\\n\\na. Some figures.')"
        lines = "\n".join(f"print({figure.line()!r})" for figure in chosen)
        (tmp_path / f"{script}.py").write_text(f"{head}\n{lines}\nprint('\\n1 missed')\n")
    monkeypatch.setattr(everything, "HERE", tmp_path)
    page = tmp_path / "figures.md"
    for names in (["core"], ["orders"]):
        monkeypatch.setattr(sys, "argv", ["all.py", *names, "--page", str(page)])
        everything.main()
    text = page.read_text()
    assert "4 of 5 figures with a limit meet it; 1 is missed." in text
    assert "Did not finish" not in text
    assert text.index("## Missed") < text.index("## core.py") < text.index("## orders.py")
    measured = f"; CPU, 2 cores; Python 3, numpy 2; source {source_hash()}."
    assert f"{measured}\n\n**a.** Some figures.\n\n| figure |" in text
    assert f"one machine with the same code (source {source_hash()})" in text
    for line in (
        r"| a \| b<br><small>with words, 3 of 4</small> | 1.000 | at&nbsp;most&nbsp;2 | yes |",
        "| gap to 1e-3<br><small>FAIL is a word</small> | 3.000 | at&nbsp;least&nbsp;4,"
        " at&nbsp;most&nbsp;9 | **no** |",
        "| no limit | inf |  |  |",
        "| CSR 100000 x 10000<br><small>&lt;1</small> | 4 | at&nbsp;least&nbsp;4 | yes |",
        "| group lasso 0.001 | 0.000283 | at&nbsp;most&nbsp;1 | yes |",
    ):
        assert f"\n{line}\n" in text
    others = [f"`{name}.py`" for name in everything.SCRIPTS if name not in ("core", "orders")]
    assert f"Not run: {', '.join(others)}." in text


def test_the_page_begins_with_the_scripts_that_did_not_finish(scripts, tmp_path, monkeypatch):
    """A script that fails or is stopped is named at the top, even if it printed no figure."""
    everything, common = scripts
    line = common.Figure("speed", 1.0, most=2.0).line()
    (tmp_path / "core.py").write_text("raise SystemExit(3)")
    (tmp_path / "orders.py").write_text(
        f"import time\nprint({line!r}, flush=True)\ntime.sleep(60)\n"
    )
    monkeypatch.setattr(everything, "HERE", tmp_path)
    page = tmp_path / "figures.md"
    monkeypatch.setattr(
        sys, "argv", ["all.py", "core", "orders", "--minutes", "0.02", "--page", str(page)]
    )
    assert everything.main() == 1
    text = page.read_text()
    assert text.index("**Did not finish: `core.py` (ended with") < text.index("## core.py")
    assert "`orders.py` (stopped after 0.02 minutes)" in text
    assert "**It ended with exit status 3.**\n" in text
    assert "**It was stopped after 0.02 minutes.** The figures below" in text


def test_a_run_is_resumed_with_the_same_code(scripts, tmp_path, monkeypatch, capfd):
    """Finished scripts are left out; those in trouble or of other code are run again."""
    everything, _ = scripts
    for name in ("units", "orders", "core"):
        (tmp_path / f"{name}.py").write_text("print('\\nall bars met')\n")
    (tmp_path / "core.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "units.py").write_text(
        "print('ratio   3.0   at most 2   FAIL\\n\\n1 missed')\nraise SystemExit(1)\n"
    )
    monkeypatch.setattr(everything, "HERE", tmp_path)
    page = tmp_path / "figures.md"
    monkeypatch.setattr(sys, "argv", ["all.py", "units", "core", "--page", str(page)])
    everything.main()
    capfd.readouterr()
    given = ["units", "orders", "core", "--resume", "--page", str(page)]
    monkeypatch.setattr(sys, "argv", ["all.py", *given])
    everything.main()
    shown = capfd.readouterr().out
    assert "units: kept from an earlier run" in shown
    assert "units: ratio" in shown  # what it missed still counts
    assert "==== units" not in shown
    assert "==== orders" in shown
    assert "==== core" in shown
    monkeypatch.setattr(everything, "environment", lambda: "another machine")
    everything.main()
    assert "==== units" in capfd.readouterr().out
    assert "not all measured with the same code" in page.read_text()
    monkeypatch.setattr(sys, "argv", ["all.py", "units", "--resume"])
    with pytest.raises(SystemExit):
        everything.main()
    assert "--resume needs --page" in capfd.readouterr().err


if hasattr(os, "sched_setaffinity"):  # Linux

    def test_scripts_of_one_thread_run_side_by_side_before_the_others(
        scripts, tmp_path, monkeypatch, capfd
    ):
        """Each has a core of its own; a script that is prepared there takes the results over."""
        everything, _ = scripts
        cores = "import os; print(len(os.sched_getaffinity(0)), *__import__('sys').argv[1:])"
        for name in ("units", "orders", "peers"):
            (tmp_path / f"{name}.py").write_text(f"{cores}\nprint('\\nall bars met')\n")
        monkeypatch.setattr(everything, "HERE", tmp_path)
        page = tmp_path / "figures.md"
        given = ["units", "orders", "peers", "--side-by-side", "--page", str(page)]
        monkeypatch.setattr(sys, "argv", ["all.py", *given])
        assert everything.main() == 0
        shown = capfd.readouterr().out
        assert "side by side: peers, units, orders" in shown
        alone = " ".join([str(len(os.sched_getaffinity(0))), everything.SCRIPTS["peers"].given])
        kept = json.loads(page.with_suffix(".json").read_text())
        first = {name: one["lines"][0] for name, one in kept.items()}
        assert first == {"units": "1", "orders": "1", "peers": alone}
        script = everything.SCRIPTS["peers"]
        prepared = f"peers: 1 {script.given} {script.prepared_by}"
        assert shown.index(prepared) < shown.index("==== peers ====") < shown.index(alone)

    def test_an_interruption_ends_every_script_and_keeps_the_page(scripts, tmp_path, monkeypatch):
        """After Ctrl-C no script goes on, and what was cut short does not count as an outcome."""
        everything, _ = scripts
        for name in ("units", "orders", "losses"):
            (tmp_path / f"{name}.py").write_text("import time; time.sleep(600)\n")
        monkeypatch.setattr(everything, "HERE", tmp_path)
        page, started, cores = tmp_path / "figures.md", [], everything.usable_cores()
        original = everything.run

        def interrupted(script, *args):
            started.append(script)
            if len(started) == 2:  # the last argument holds the processes that are running
                deadline = time.monotonic() + 30.0
                while not args[-1] and time.monotonic() < deadline:
                    time.sleep(0.01)
                raise KeyboardInterrupt
            return original(script, *args)

        monkeypatch.setattr(everything, "run", interrupted)
        monkeypatch.setattr(everything, "usable_cores", lambda: 2 * cores[:1])
        given = ["units", "orders", "losses", "--side-by-side", "--page", str(page)]
        monkeypatch.setattr(sys, "argv", ["all.py", *given])
        with pytest.raises(KeyboardInterrupt):
            everything.main()
        assert not page.exists()


def test_random_problems_take_quick_as_all_scripts_do():
    """`all.py --quick` passes the option to every script, and this one parses its own."""
    command = [sys.executable, BENCHMARKS / "certificates.py", "--quick", "--problems", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all bars met"), done.stderr


def test_every_script_that_prints_figures_is_in_the_list(scripts):
    """Every script that ends with the number of missed bars is run by all.py."""
    everything, _ = scripts
    texts = {path.stem: path.read_text() for path in BENCHMARKS.glob("*.py")}
    run_by_themselves = {name: text for name, text in texts.items() if "__main__" in text}
    assert {
        name
        for name, text in run_by_themselves.items()
        if re.search(r"\b(run_parts|close)\(", text)
    } == set(everything.SCRIPTS)


@pytest.mark.usefixtures("scripts")
def test_rows_of_other_settings_are_set_aside_or_refused_in_a_line(tmp_path, monkeypatch, capsys):
    """They are set aside in the default folder, so that the next run continues.

    In a folder that was named, they are refused.
    """
    import peers

    rows = tmp_path / "antithetic-bench-quick" / "rows.csv"
    rows.parent.mkdir()
    with Sink(rows) as sink:
        sink.add(
            finished_row(
                Row("curve", "phishing", loss="log_loss"),
                [peer.name for peer in PEERS],
                "other settings",
            )
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["peers.py", "--quick", "--out", str(rows.parent)])
    assert peers.main() == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"peers.py: {rows}: phishing was measured with other settings, not with 1 s a fit"
    )
    assert said.endswith("name another folder with --out, or delete that file\n")
    assert said.count("\n") == 1
    monkeypatch.setattr(sys, "argv", ["peers.py", "--quick"])
    monkeypatch.setattr(
        peers,
        "measure",
        lambda _names, path, _limits, _threads: (
            [] if not path.exists() else pytest.fail("they are still there")
        ),
    )
    assert peers.main() in (0, 1)
    assert (
        "Set aside as antithetic-bench-quick/rows-old.csv: phishing was measured"
        in capsys.readouterr().out.replace("\\", "/")
    )
    assert [file.name for file in rows.parent.iterdir()] == ["rows-old.csv"]


def test_the_page_counts_races_by_the_rule_of_today(scripts, monkeypatch):
    """Ties are not won, nor what nobody else finished, and our estimators do not stand in."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # as the races of LogisticRegression set it
    import logistic
    import peers

    everything, _ = scripts
    page, rows = ROOT / "docs" / "figures.md", read_rows(ROOT / "docs" / "peers.csv")
    figures = {
        "peers": [one for threads in (1, 2) for one in peers.races(rows, threads)],
        "logistic": list(logistic.figures(logistic.read_rows(ROOT / "docs" / "logistic.csv"))),
    }
    assert [len(some) for some in figures.values()] == [20, 11]
    shown = page.read_text(encoding="utf-8").splitlines()
    for script, expected in figures.items():
        outcome = everything.known(page)[script]
        assert [one.name for one in expected if one.line() not in outcome.lines] == []
        for line in everything.page([outcome], []).splitlines():
            assert "share of" not in line or line in shown
