"""Run every benchmark in this folder to its end, and write one page of all figures and limits.

The output of each script is shown as it runs; the table of missed bars comes last. A script that
misses a bar, fails or takes too long does not stop the others. With ``--page FILE`` the figures are
written as a page in Markdown, and kept beside it in a JSON file, so that scripts can be run one by
one: only those that were run are replaced.

Run ``python benchmarks/all.py`` on a quiet machine; it takes several hours. With ``--side-by-side``
single-threaded scripts run at the same time, each on its own core, before the others, which have
the machine to themselves; that takes about half as long. After an interruption, ``--resume`` leaves
out what the page already has from the same code on the same machine. ``--quick`` takes fewer seeds,
sets and repeats; names run only these scripts; ``--given "--repeats 3"`` passes arguments on to
each of them. A script whose extra is not installed is left out, with a line that says so. The exit
status is 1 if a bar is missed or a script fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Lock, Timer

from figures_page import Outcome, is_closing, page, verdict_of
from races.rows import cpu_name, versions

import antithetic

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Script:
    """How a script is run.

    Attributes
    ----------
    needs : dict
        Packages that are not installed by the extra "bench", and the extra that has each.
    shares : bool
        Whether it computes with one thread, and can run beside another on a core of its own.
    given : str
        Its arguments; ``{folder}`` stands for the folder of its rows.
    prepared_by : str
        Further arguments of a run that can share the machine, and whose results the script takes
        over.
    """

    needs: dict[str, str] = field(default_factory=dict)
    shares: bool = False
    given: str = ""
    prepared_by: str = ""


# The races with one thread share the machine, so they need the CPU clock; a fit of a second is long
# for these sets, and with the default of five the races would take twice the time.
RACES = "--clock cpu --seconds 1"
SCRIPTS = {
    "core": Script(),
    "start": Script(),
    "samples": Script(),
    "proof": Script(),
    "fits": Script(),
    "silence": Script(shares=True, given="--optima {folder}/optima.json"),
    "pairing": Script(),
    "estimators": Script(shares=True),
    "units": Script(shares=True),
    "logistic": Script(shares=True, given="--save {folder}/logistic.csv"),
    "softmax": Script(shares=True),
    "certificates": Script(shares=True),
    "losses": Script(shares=True),
    "wide_rows": Script(shares=True),
    "orders": Script(shares=True),
    "composition": Script(shares=True),
    "torch_training": Script({"torch": "torch"}, shares=True),
    "scale": Script({"dask": "dask", "distributed": "dask"}),
    "peers": Script(given=RACES, prepared_by="--threads 1"),
}
# The longest first, so that no core is left with a long one at the end.
LONGEST = ("peers", "torch_training", "softmax", "certificates", "composition", "logistic")
MINUTES = 60.0
LONG_MINUTES = dict.fromkeys(("logistic", "peers", "softmax"), 240.0)  # the races


def left_out(script: str) -> str:
    """Why a script is not run; nothing if it is."""
    if not (HERE / f"{script}.py").exists():
        return f"{script}: left out, there is no {script}.py"
    extras = {
        extra for package, extra in SCRIPTS[script].needs.items() if find_spec(package) is None
    }
    return (
        f"{script}: left out, its extra is not installed: pip install"
        f' "antithetic[{",".join(sorted(extras))}]"'
        if extras
        else ""
    )


_ON_CORE = (
    "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])});"
    " os.execv(sys.argv[2], sys.argv[2:])"
)


def run(
    script: str,
    quick: bool,
    minutes: float = MINUTES,
    given: str = "",
    core: int | None = None,
    running: set[subprocess.Popen] | None = None,
) -> Outcome:
    """Run one script, printing its lines as they come, for at most so many minutes.

    On one core only if that is given; each line then begins with the name of the script.
    ``running`` holds its process as long as there is one.
    """
    command = [sys.executable, "-u", str(HERE / f"{script}.py"), *(["--quick"] if quick else [])]
    command += shlex.split(given)
    if core is not None:  # before it starts any thread
        command = [sys.executable, "-c", _ON_CORE, str(core), *command]
    began, lines, late = time.monotonic(), [], []
    running = set() if running is None else running
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        running.add(process)
        timer = Timer(60.0 * minutes, lambda: (late.append(True), end(process)))
        timer.start()
        try:
            for line in process.stdout:
                print(line if core is None else f"{script}: {line}", end="", flush=True)
                lines.append(line.rstrip())
        except BaseException:  # Ctrl-C: the script is in a session of its own
            end(process)
            raise
        finally:
            timer.cancel()
            running.discard(process)
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
    return Outcome(
        script, passed, missed, trouble, lines, seconds, quick, given, measured_with=environment()
    )


@cache  # what is measured is what was there at the start
def environment() -> str:
    """The machine and the versions, with hashes of our source, the kernels and the scripts."""
    kernels = sorted((Path(antithetic.__file__).parent / "_core").glob("_*.*"))
    return (
        f"{cpu_name()}; {versions()}; kernels {_hash(kernels)}, scripts"
        f" {_hash(sorted(Path(__file__).parent.glob('*.py')))}"
    )


def _hash(paths: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:8]


def end(process: subprocess.Popen) -> None:
    """End a script and the processes that it started."""
    with suppress(ProcessLookupError):  # it has just ended by itself
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


class Session:
    """Runs scripts, and saves each outcome as soon as it is available."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.outcomes: list[Outcome] = []
        self.prepared: dict[str, float] = {}  # seconds of the preparing run
        self._lock, self._stopping = Lock(), Event()
        self._running: set[subprocess.Popen] = set()

    def arguments(self, script: str, *, prepares: bool = False) -> str:
        """What it is given."""
        folder = "antithetic-bench-quick" if self.options.quick else "antithetic-bench"
        own = SCRIPTS[script].given.format(folder=folder)
        further = SCRIPTS[script].prepared_by if prepares else ""
        return " ".join(filter(None, (own, self.options.given, further)))

    def take_over(self, script: str) -> bool:
        """Take what the page has of a script, if that is what it would measure now."""
        kept = known(self.options.page).get(script) if self.options.resume else None
        if kept is None or (
            (kept.trouble, kept.quick, kept.given, kept.measured_with)
            != ("", self.options.quick, self.arguments(script), environment())
        ):
            return False
        self.outcomes.append(kept)
        return True

    def run(self, script: str, core: int | None = None) -> None:
        """Run a script, or what can be prepared of one that cannot share the machine."""
        prepares = core is not None and not SCRIPTS[script].shares
        given = self.arguments(script, prepares=prepares)
        minutes = self.options.minutes or LONG_MINUTES.get(script, MINUTES)
        found = run(script, self.options.quick, minutes, given, core, self._running)
        if self._stopping.is_set():
            return
        with self._lock:
            if prepares:
                self.prepared[script] = found.seconds
                return
            seconds = found.seconds + self.prepared.get(script, 0.0)
            self.outcomes.append(replace(found, seconds=seconds))
            if self.options.page:
                keep(self.options.page, self.outcomes)

    def run_side_by_side(self, scripts: Sequence[str]) -> None:
        """Run scripts on all cores, one on each."""
        print(f"side by side: {', '.join(scripts)}", flush=True)
        cores, waiting = usable_cores(), deque(scripts)

        def lane(core: int) -> None:
            while True:
                try:
                    script = waiting.popleft()
                except IndexError:
                    return
                self.run(script, core)

        with ThreadPoolExecutor(len(cores)) as pool:
            started = [pool.submit(lane, core) for core in cores]
            try:
                for finished in wait(started, return_when=FIRST_EXCEPTION).done:
                    finished.result()
            except BaseException:  # Ctrl-C comes to this thread alone
                self._stopping.set()
                waiting.clear()
                while wait(started, timeout=0.1).not_done:  # one of them may only just begin
                    for process in list(self._running):
                        end(process)
                raise


def usable_cores() -> list[int]:
    """Those that this process may use; none where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def can_share(script: str) -> bool:
    """Whether it, or what prepares it, may run beside another."""
    return SCRIPTS[script].shares or bool(SCRIPTS[script].prepared_by)


def rank(script: str) -> int:
    """Its place among those that run side by side."""
    return LONGEST.index(script) if script in LONGEST else len(LONGEST)


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


def known(path: Path) -> dict[str, Outcome]:
    """The outcomes of earlier runs, from the JSON file beside the page."""
    kept = path.with_suffix(".json")
    found = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    return {script: Outcome(**one) for script, one in found.items() if script in SCRIPTS}


def keep(path: Path, outcomes: list[Outcome]) -> None:
    """Write the page, and the JSON file beside it that holds the outcomes of earlier runs too."""
    every = known(path) | {one.script: one for one in outcomes}
    every = {script: every[script] for script in SCRIPTS if script in every}
    text = json.dumps({script: asdict(one) for script, one in every.items()}, indent=1)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    missing = [script for script in SCRIPTS if script not in every]
    path.write_text(page(list(every.values()), missing), encoding="utf-8")


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
    parser.add_argument(
        "--side-by-side",
        action="store_true",
        help="run single-threaded scripts at the same time, each on its own core",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="leave out what the page has from the same code on the same machine",
    )
    options = parser.parse_args()
    if options.resume and not options.page:
        parser.error("--resume needs --page, which names the file of earlier outcomes")
    if unknown := set(options.scripts) - set(SCRIPTS):
        parser.error(
            f"no such script: {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}"
        )
    session, notes, chosen = Session(options), [], []
    for script in options.scripts or SCRIPTS:
        if note := left_out(script):
            notes.append(note)
            print(note, flush=True)
        elif session.take_over(script):
            print(f"{script}: kept from an earlier run", flush=True)
        else:
            chosen.append(script)
    shared = [script for script in chosen if can_share(script)]
    if options.side_by_side and usable_cores() and len(shared) > 1:
        session.run_side_by_side(sorted(shared, key=rank))
        chosen = [script for script in chosen if not SCRIPTS[script].shares]
    for script in chosen:
        print(f"\n==== {script} ====", flush=True)
        session.run(script)
    print("\n==== summary ====")
    print("\n".join(summary(session.outcomes, notes)))
    return int(any(one.missed or one.trouble for one in session.outcomes))


if __name__ == "__main__":
    sys.exit(main())
