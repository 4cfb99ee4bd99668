"""`reproduce`: all parts, each kept as soon as it is finished, and the claims judged by them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antithetic._util.versions import versions
from antithetic.paper.all_claims import claims
from antithetic.paper.claim import Claim
from antithetic.paper.one_part import STAGES, Progress, run_part
from antithetic.paper.parts import Part, load_part, save_part
from antithetic.paper.settings import (
    BATCH_SIZE,
    LAMBDAS,
    LOSSES,
    STEP_RULE,
    check_names,
    fingerprint,
    load,
    part_settings,
)

_LEAST_SEEDS, _LEAST_EPOCHS = 3, 10  # for evidence


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """What :func:`reproduce` returns.

    Attributes
    ----------
    parts : tuple of Part
        One per set and loss.
    claims : tuple of Claim
    left_out : dict of str to str
        Sets that could not be loaded, and why.
    resumed : tuple of str
        Parts, as ``"<set>-<loss>"``, that were taken from an earlier run.
    settings : dict of str to str, int or float
        How it was run, versions, and the machine.
    seconds : float
        All in all; resumed parts took no time.
    """

    parts: tuple[Part, ...]
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
            f" epoch{'s' if epochs != 1 else ''} on {len({part.name for part in self.parts})} of"
            f" {len(LAMBDAS)} sets. Verdicts need at least {_LEAST_SEEDS} seeds and {_LEAST_EPOCHS}"
            " epochs, and no --quick."
        )


class ReproductionInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`reproduce`; ``result`` holds the parts that were finished."""

    def __init__(self, result: Reproduction, kept: Path | None) -> None:
        where = (
            f"kept in {kept}; resume=True continues from there"
            if kept is not None
            else "in .result; give out= to keep them"
        )
        super().__init__(f"interrupted; {len(result.parts)} finished parts are {where}")
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
        Folder in which each finished part is kept, as ``parts/<set>-<loss>-<fingerprint of its
        settings>.json``: runs with other settings do not replace it.
    resume : bool, default=False
        Take parts from there that were made with the same settings and version of this package;
        others are run again.
    progress : callable, default=None
        Called with ``(what, done, total)`` before each stage.

    Returns
    -------
    Reproduction

    Raises
    ------
    ReproductionInterrupted
        On Ctrl-C: a KeyboardInterrupt with the finished parts.

    Examples
    --------
    >>> from antithetic.paper import reproduce
    >>> found = reproduce("sonar_scale", "log_loss", seeds=2, epochs=3)
    >>> found.claims[0].claim, found.claims[0].verdict
    ('The gradient of an antithetic pair is an unbiased estimator of the full gradient.', 'holds')
    """
    if resume and out is None:
        raise ValueError("resume=True takes finished parts from a folder; give it as out=")
    start, folder = time.perf_counter(), None if out is None else Path(out) / "parts"
    asked, losses = check_names(names, LAMBDAS, "set"), check_names(losses, LOSSES, "loss")
    left_out = _missing(asked)
    there = [name for name in asked if name not in left_out]
    wanted = [part_settings(name, loss, seeds, epochs) for name in there for loss in losses]
    parts, resumed = list[Part](), list[str]()

    def result() -> Reproduction:
        settings = {
            "seeds": seeds,
            "epochs": epochs,
            "batch_size": BATCH_SIZE,
            "step": STEP_RULE,
        } | versions()
        return Reproduction(
            tuple(parts),
            tuple(claims(parts)),
            left_out,
            tuple(resumed),
            settings,
            time.perf_counter() - start,
        )

    try:
        for place, settings in enumerate(wanted):
            key = f"{settings['set']}-{settings['loss']}"
            path = None if folder is None else folder / f"{key}-{fingerprint(settings)}.json"
            part = load_part(path, settings) if resume and path is not None else None
            if part is not None:
                resumed.append(key)
            else:
                told = _shifted(
                    progress, f"{settings['set']}, {settings['loss']}", place, len(wanted)
                )
                part = run_part(
                    settings["set"], settings["loss"], seeds=seeds, epochs=epochs, progress=told
                )
                if path is not None:
                    save_part(part, path)
            parts.append(part)
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


def _shifted(progress: Progress | None, title: str, place: int, parts: int) -> Progress | None:
    """Progress of one part as part of the whole."""
    if progress is None:
        return None
    return lambda what, done, total: progress(
        f"{title}: {what}", place * total + done, parts * total
    )
