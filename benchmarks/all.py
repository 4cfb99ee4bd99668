"""Run every benchmark in this folder and list the figures that missed their bar.

The output of each script is shown as it runs; the table of missed bars comes last.

Run ``python benchmarks/all.py`` on a quiet machine, some two hours; ``--quick`` takes fewer seeds,
sets and repeats; names run only these scripts. A script whose extra is not installed is left out,
with a line that says so. The exit status is 1 if a bar is missed or a script fails.

``combination.py`` is apart: it compares rules that were tried for ``antithetic.dask`` in tables of
gaps, without figures, and only one of them is ours, for which ``scale.py`` has the figures with
bars.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

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
    "orders": {},
    "composition": {},
    "torch_training": {"torch": "torch"},
    "scale": {"dask": "dask", "distributed": "dask"},
    "peers": {},
    "guard": {},
}
_CLOSING = re.compile(r"\d+ missed|all bars met")  # the last line of a script that came to its end
_FIGURE = re.compile(r"(at least|at most) \S+.*?\s(pass|FAIL)\b")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one script: its figure lines that have a bar, and why it failed, if it did."""

    script: str
    passed: list[str]
    missed: list[str]
    trouble: str = ""


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


def verdict_of(line: str) -> str:
    """Say "pass" or "FAIL" for the line of a figure with a bar, nothing for other lines."""
    found = _FIGURE.search(line)
    return found[2] if found else ""


def run(script: str, quick: bool) -> Outcome:
    """Run one script, printing its lines as they come."""
    command = [sys.executable, "-u", str(HERE / f"{script}.py"), *(["--quick"] if quick else [])]
    passed, missed, closing = [], [], ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            {"pass": passed, "FAIL": missed}.get(verdict_of(line), []).append(line.rstrip())
            closing = line.strip() or closing
    if process.returncode not in (0, 1) or (process.returncode == 1 and not missed):
        return Outcome(script, passed, missed, f"ended with exit status {process.returncode}")
    return Outcome(
        script,
        passed,
        missed,
        "" if _CLOSING.fullmatch(closing) else "broke off before its last line, the number missed",
    )


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "scripts", nargs="*", help=f"some of {', '.join(SCRIPTS)}; all if none is named"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer seeds, sets and repeats, less to be trusted"
    )
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
            outcomes.append(run(script, options.quick))
    print("\n==== summary ====")
    print("\n".join(summary(outcomes, notes)))
    return int(any(one.missed or one.trouble for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
