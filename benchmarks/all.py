"""Run every benchmark in this folder to its end, and write one page of all figures and limits.

The output of each script is shown as it runs; the table of missed bars comes last. A script that
misses a bar, fails or takes too long does not stop the others. With ``--page FILE`` the figures are
written as a page in Markdown, and kept beside it in a JSON file, so that scripts can be run one by
one: only those that were run are replaced.

Run ``python benchmarks/all.py`` on a quiet machine; it takes several hours. ``--quick`` takes fewer
seeds, sets and repeats; names run only these scripts; ``--given "--threads 1"`` passes arguments on
to each of them. A script whose extra is not installed is left out, with a line that says so. The
exit status is 1 if a bar is missed or a script fails.

``combination.py`` is not in the list: it compares rules that were tried for ``antithetic.dask``, in
tables of gaps without figures. For the one that is used, ``scale.py`` has figures with bars.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from threading import Timer

from figures_page import Outcome, is_closing, page, verdict_of

HERE = Path(__file__).parent
SCRIPTS = {  # and what each needs, with the extra that has it
    "shape": {},
    "core": {},
    "start": {},
    "pairing": {},
    "estimators": {},
    "units": {},
    "logistic": {},
    "softmax": {},
    "certificates": {},
    "losses": {},
    "wide_rows": {},
    "orders": {},
    "composition": {},
    "torch_training": {"torch": "torch"},
    "scale": {"dask": "dask", "distributed": "dask"},
    "peers": {},
    "guard": {},
}
MINUTES = 60.0
LONG_MINUTES = dict.fromkeys(("logistic", "peers"), 240.0)  # the races


def left_out(script: str) -> str:
    """Why a script is not run; nothing if it is."""
    if not (HERE / f"{script}.py").exists():
        return f"{script}: left out, there is no {script}.py"
    extras = {extra for package, extra in SCRIPTS[script].items() if find_spec(package) is None}
    return (
        f"{script}: left out, its extra is not installed: pip install"
        f' "antithetic[{",".join(sorted(extras))}]"'
        if extras
        else ""
    )


def run(script: str, quick: bool, minutes: float = MINUTES, given: str = "") -> Outcome:
    """Run one script, printing its lines as they come, for at most so many minutes."""
    command = [sys.executable, "-u", str(HERE / f"{script}.py"), *(["--quick"] if quick else [])]
    command += shlex.split(given)
    began, lines, late = time.monotonic(), [], []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        timer = Timer(60.0 * minutes, lambda: (late.append(True), end(process)))
        timer.start()
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line.rstrip())
        except BaseException:  # Ctrl-C: the script is in a session of its own
            end(process)
            raise
        finally:
            timer.cancel()
    missed = [line for line in lines if verdict_of(line) == "FAIL"]
    closing = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if late:
        trouble = f"stopped after {minutes:g} minutes"
    elif process.returncode not in (0, 1) or (process.returncode == 1 and not missed):
        trouble = f"ended with exit status {process.returncode}"
    else:
        trouble = "" if is_closing(closing) else "broke off before its last line, the number missed"
    passed = [line for line in lines if verdict_of(line) == "pass"]
    seconds = time.monotonic() - began
    return Outcome(script, passed, missed, trouble, lines, seconds, quick, given)


def end(process: subprocess.Popen) -> None:
    """End a script and the processes that it started."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def summary(outcomes: list[Outcome], notes: list[str]) -> list[str]:
    """Lines of the table at the end."""
    lines = [f"{'script':<18}{'passed':>8}{'missed':>8}"]
    lines += [
        f"{one.script:<18}{len(one.passed):>8}{len(one.missed):>8}   {one.trouble}".rstrip()
        for one in outcomes
    ]
    total = sum(len(one.passed) + len(one.missed) for one in outcomes)
    missed = [(one.script, line) for one in outcomes for line in one.missed]
    lines += ["", *notes, f"{total - len(missed)} of {total} figures with a bar meet it"]
    return lines + ([""] + [f"{script}: {line}" for script, line in missed] if missed else [])


def keep(path: Path, outcomes: list[Outcome]) -> None:
    """Write the page, and the JSON file beside it that holds the outcomes of earlier runs too."""
    kept = path.with_suffix(".json")
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    known |= {one.script: asdict(one) for one in outcomes}
    known = {script: known[script] for script in SCRIPTS if script in known}
    kept.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    every = [Outcome(**one) for one in known.values()]
    missing = [script for script in SCRIPTS if script not in known]
    path.write_text(page(every, missing), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "scripts", nargs="*", help=f"some of {', '.join(SCRIPTS)}; all if none is named"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer seeds, sets and repeats, less to be trusted"
    )
    parser.add_argument(
        "--minutes", type=float, help="most of one script; 60 if not given, 240 for the races"
    )
    parser.add_argument("--page", type=Path, help="write all figures to a page in Markdown")
    parser.add_argument("--given", default="", help="arguments for each script")
    options = parser.parse_args()
    if unknown := set(options.scripts) - set(SCRIPTS):
        parser.error(
            f"no such script: {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}"
        )
    outcomes, notes = [], []
    for script in options.scripts or SCRIPTS:
        print(f"\n==== {script} ====", flush=True)
        if note := left_out(script):
            notes.append(note)
            print(note, flush=True)
        else:
            minutes = options.minutes or LONG_MINUTES.get(script, MINUTES)
            outcomes.append(run(script, options.quick, minutes, options.given))
            if options.page:
                keep(options.page, outcomes)
    print("\n==== summary ====")
    print("\n".join(summary(outcomes, notes)))
    return int(any(one.missed or one.trouble for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
