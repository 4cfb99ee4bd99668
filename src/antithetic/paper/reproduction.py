"""`reproduce`: all experiments, each kept when finished, the claims, and all numbers as CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from antithetic._util.files import write_atomically
from antithetic._util.versions import versions
from antithetic.paper.claims import Claim, judge_claims
from antithetic.paper.experiments import (
    STAGES,
    Experiment,
    Progress,
    check_names,
    fingerprint,
    protocol_of,
    run_experiment,
)
from antithetic.paper.workbench import BATCH_SIZE, LAMBDAS, LOSSES, STEP_RULE, load

_LEAST_SEEDS, _LEAST_EPOCHS = 3, 10  # for evidence
PAGE, PARTIAL_PAGE = "report.html", "report-partial.html"
MANIFEST = "manifest.json"
FOLDERS = {"figures": (".png", ".svg"), "csv": (".csv",)}
# Characters that a spreadsheet may take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """What :func:`reproduce` returns.

    Attributes
    ----------
    experiments : tuple of Experiment
        One per set and loss.
    claims : tuple of Claim
    left_out : dict of str to str
        Sets that could not be loaded, and why.
    resumed : tuple of str
        Experiments, as ``"<set>-<loss>"``, that were taken from an earlier run.
    settings : dict of str to str, int or float
        How it was run, versions, and the machine.
    seconds : float
        All in all; resumed experiments took no time.
    """

    experiments: tuple[Experiment, ...]
    claims: tuple[Claim, ...]
    left_out: dict[str, str]
    resumed: tuple[str, ...]
    settings: dict[str, Any]
    seconds: float

    @property
    def first_look(self) -> str:
        """A warning if there was too little evidence; otherwise empty.

        That is so with few seeds, few epochs, or ``settings["quick"]``.
        """
        seeds, epochs = self.settings.get("seeds", 0), self.settings.get("epochs", 0)
        if seeds >= _LEAST_SEEDS and epochs >= _LEAST_EPOCHS and not self.settings.get("quick"):
            return ""
        return (
            f"A first look, no evidence: {seeds} seed{'s' if seeds != 1 else ''} and {epochs}"
            f" epoch{'s' if epochs != 1 else ''} on {len({one.name for one in self.experiments})}"
            f" of {len(LAMBDAS)} sets. Verdicts need at least {_LEAST_SEEDS} seeds and"
            f" {_LEAST_EPOCHS} epochs, and no --quick."
        )


class ReproductionInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`reproduce`; ``result`` holds the experiments that were finished."""

    def __init__(self, result: Reproduction, kept: Path | None) -> None:
        where = (
            f"kept in {kept}; resume=True continues from there"
            if kept is not None
            else "in .result; give out= to keep them"
        )
        super().__init__(f"interrupted; {len(result.experiments)} finished parts are {where}")
        self.result = result


def reproduce(
    names: Sequence[str] | str | None = None,
    losses: Sequence[str] | str = LOSSES,
    *,
    seeds: int = 5,
    epochs: int = 20,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Run the paper's experiments and judge its claims.

    Parameters
    ----------
    names : sequence of str, default=None
        Sets of the paper's Table 1; None means all six. Those that are neither in the package nor
        in the folder that the environment variable ``ANTITHETIC_DATA`` names are left out, and
        nothing is downloaded.
    losses : sequence of {"log_loss", "hinge"}
    seeds, epochs : int
        Runs of each method, and their length.
    out : path, default=None
        Folder in which each finished experiment is kept, as ``parts/<set>-<loss>-<fingerprint of
        its protocol>.json``: runs with other settings do not replace it.
    resume : bool, default=False
        Take experiments from there that were run with the same settings and version of this
        package; others are run again.
    progress : callable, default=None
        Called with ``(what, done, total)`` before each stage.

    Returns
    -------
    Reproduction

    Raises
    ------
    ReproductionInterrupted
        On Ctrl-C: a KeyboardInterrupt with the finished experiments.

    Examples
    --------
    >>> from antithetic.paper.reproduction import reproduce
    >>> found = reproduce("sonar_scale", "log_loss", seeds=2, epochs=3)
    >>> found.claims[0].claim, found.claims[0].verdict
    ('The gradient of an antithetic pair is an unbiased estimator of the full gradient.', 'holds')
    """
    if resume and out is None:
        raise ValueError("resume=True takes finished parts from a folder; give it as out=")
    start, folder = time.perf_counter(), None if out is None else Path(out) / "parts"
    asked, losses = check_names(names, LAMBDAS, "set"), check_names(losses, LOSSES, "loss")
    left_out = _missing(asked)
    wanted = [
        protocol_of(name, loss, seeds, epochs)
        for name in asked
        if name not in left_out
        for loss in losses
    ]
    finished, resumed = list[Experiment](), list[str]()
    settings = {"seeds": seeds, "epochs": epochs, "batch_size": BATCH_SIZE, "step": STEP_RULE}

    def result() -> Reproduction:
        return Reproduction(
            tuple(finished),
            tuple(judge_claims(finished)),
            left_out,
            tuple(resumed),
            settings | versions(),
            time.perf_counter() - start,
        )

    try:
        for place, protocol in enumerate(wanted):
            name, loss = protocol["set"], protocol["loss"]
            path = folder and folder / f"{name}-{loss}-{fingerprint(protocol)}.json"
            one = Experiment.load(path, protocol) if resume and path is not None else None
            if one is not None:
                resumed.append(one.key)
            else:
                told = _shifted(progress, f"{name}, {loss}", place, len(wanted))
                one = run_experiment(name, loss, seeds=seeds, epochs=epochs, progress=told)
                if path is not None:
                    one.save(path)
            finished.append(one)
    except KeyboardInterrupt as stop:
        raise ReproductionInterrupted(result(), folder) from stop
    if progress is not None:
        progress("done", STAGES * len(wanted), STAGES * len(wanted))
    return result()


def _missing(names: Sequence[str]) -> dict[str, str]:
    """Sets that cannot be loaded, with the reason."""
    reasons = {}
    for name in names:
        try:
            load(name)
        except (OSError, ValueError) as error:  # not there, or not the set of that name
            reasons[name] = str(error)
    return reasons


def _shifted(progress: Progress | None, title: str, place: int, total: int) -> Progress | None:
    """Progress of one experiment as part of the whole."""
    if progress is None:
        return None
    return lambda what, done, stages: progress(
        f"{title}: {what}", place * stages + done, total * stages
    )


# ---- the files in a folder


@dataclass(frozen=True, slots=True)
class Manifest:
    """The list of files that a reproduction wrote into a folder.

    Files of an earlier run are removed by this list; nothing else is ever removed.

    Attributes
    ----------
    settings : str
        Fingerprint of all that the numbers depend on.
    files : tuple of str
        Paths below the folder, with slashes.
    """

    settings: str
    files: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Read the list of a folder; None if there is none, or it cannot be read."""
        try:
            given = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            settings, files = given["settings"], given["files"]
        except (OSError, ValueError, TypeError, KeyError):
            return None
        if not (isinstance(settings, str) and isinstance(files, list)):
            return None
        return cls(settings, tuple(name for name in files if isinstance(name, str)))

    def write(self, folder: Path) -> None:
        """Replace the list of a folder."""
        write_atomically(folder / MANIFEST, json.dumps(asdict(self), indent=1).encode("utf-8"))


def remove(folder: Path, names: Iterable[str]) -> None:
    """Remove figures, tables and partial pages that a list names, and leave others alone.

    So a list that somebody edited cannot reach out of the folder.
    """
    for name in names:
        path = PurePosixPath(name)
        below = len(path.parts) == 2 and path.suffix in FOLDERS.get(path.parts[0], ())
        if name == PARTIAL_PAGE or (below and "\\" not in name):
            (folder / name).unlink(missing_ok=True)


def write_csv(found: Reproduction, folder: str | os.PathLike[str]) -> list[Path]:
    """Write all numbers of a reproduction; floats with all their digits, one observation a line.

    Parameters
    ----------
    found : Reproduction
    folder : path
        Made if it is not there; files of the same names are replaced.

    Returns
    -------
    list of Path
        One file for each of ``TABLES``.
    """
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (header, lines) in TABLES.items():
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(header.split())
        writer.writerows([_harmless(value) for value in line] for line in lines(found))
        paths.append(home / f"{name}.csv")
        write_atomically(paths[-1], text.getvalue().encode("utf-8"))
    return paths


def _harmless(value: Any) -> Any:
    """Numbers with all digits; text that looks like a formula with an apostrophe before it."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return repr(float(value)) if isinstance(value, float) else value


Lines = Iterator[list[Any]]


def _objectives(one: Experiment) -> Lines:
    for method, objective in one.objective.items():
        gap, distance = one.gap(method), one.distance[method]
        for at in np.ndindex(objective.shape):
            yield [method, *at, objective[at], gap[at], distance[at]]


def _variances(one: Experiment) -> Lines:
    for step, by_estimator in one.variance.items():
        for estimator, by_run in by_estimator.items():
            for run, variance in by_run.items():
                squares = one.squares[step][run]
                for at in np.ndindex(variance.shape):
                    values = [variance[at], variance[at] + squares[at]]
                    yield [step, estimator, run, *at, *values]


def _inside(one: Experiment) -> Lines:
    for method, objective in one.inside["objective"].items():
        gap, variance = one.relative_gap(objective), one.inside["variance"].get(method)
        for seed, place in np.ndindex(objective.shape):
            values = [objective[seed, place], gap[seed, place]]
            told = "" if variance is None else variance[seed, place]
            yield [method, seed, int(one.iterations[place]), *values, told]


def _jitters(one: Experiment) -> Lines:
    for method, jitter in one.jitter.items():
        for seed, place in np.ndindex(jitter.shape):
            yield [method, seed, place + 1, one.steps[place], jitter[seed, place]]


def _steps(one: Experiment) -> Lines:
    for method, gaps in one.grid_gap.items():
        for place, seed in np.ndindex(gaps.shape):
            eta0 = one.grid[place]
            yield [method, eta0, seed, gaps[place, seed], bool(eta0 == one.eta0)]


def _ends(one: Experiment) -> Lines:
    for whose, of in (("SGD", one.ends), ("own", one.own_ends)):
        for method, found in of.items():
            gap = one.end_gap(method, own=whose == "own")
            for run, objective in enumerate(found["objective"]):
                eta0, distance = found["eta0"][0], found["distance"][run]
                yield [method, eta0, whose, run, objective, gap[run], distance]


def _quantities(one: Experiment) -> Lines:
    names = ("curvature", "eta0", "at_zero", "optimum", "optimum_error", "seconds")
    yield from (["n", one.n], ["d", one.d], ["lambda", one.decay])
    yield from ([name, getattr(one, name)] for name in names)


def _of_each(lines: Any) -> Any:
    return lambda found: (
        [one.name, one.loss, *line] for one in found.experiments for line in lines(one)
    )


def _claims(found: Reproduction) -> Lines:
    names = ("number", "claim", "verdict", "by_construction", "measured", "detail")
    yield from ([getattr(claim, name) for name in names] for claim in found.claims)


def _claim_cases(found: Reproduction) -> Lines:
    for claim in found.claims:
        for place, case in enumerate(claim.cases, 1):
            for name, value in case.items():
                if name not in ("set", "loss"):
                    told = "" if value is None else value
                    yield [claim.number, place, case["set"], case["loss"], name, told]


def _settings(found: Reproduction) -> Lines:
    yield from ([name, value] for name, value in found.settings.items())
    yield ["seconds", found.seconds]
    yield from ([f"left out: {name}", reason] for name, reason in found.left_out.items())
    yield from (["resumed", key] for key in found.resumed)


TABLES = {
    "objective": ("set loss method seed epoch objective gap distance", _of_each(_objectives)),
    "variance": (
        "set loss step estimator weights_of seed epoch variance second_moment",
        _of_each(_variances),
    ),
    "inside": ("set loss method seed iteration objective gap variance", _of_each(_inside)),
    "jitter": ("set loss method seed epoch step jitter", _of_each(_jitters)),
    "steps": ("set loss method eta0 seed gap chosen", _of_each(_steps)),
    "ends": ("set loss method eta0 eta0_of run objective gap distance", _of_each(_ends)),
    "parts": ("set loss quantity value", _of_each(_quantities)),
    "claims": ("number claim verdict by_construction measured detail", _claims),
    "claim_rows": ("claim case set loss quantity value", _claim_cases),
    "settings": ("setting value", _settings),
}
"""Name of each file, without its ending: its columns, and its lines."""
