"""All numbers of a reproduction as tidy CSV files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from antithetic._util.files import write_atomically
from antithetic.paper.parts import Part
from antithetic.paper.reproduction import Reproduction
from antithetic.paper.settings import PAPER

TABLES = (
    "objective",
    "variance",
    "jitter",
    "steps",
    "ends",
    "parts",
    "claims",
    "claim_rows",
    "settings",
)
"""Names of the files, without their ending."""
# Characters that a spreadsheet may take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_csv(reproduction: Reproduction, folder: str | os.PathLike[str]) -> list[Path]:
    """Write all numbers of a reproduction; floats with all their digits, one observation a line.

    Parameters
    ----------
    reproduction : Reproduction
    folder : path
        Made if it is not there; files of the same names are replaced.

    Returns
    -------
    list of Path
        ``objective.csv``, ``variance.csv``, ``jitter.csv``, ``steps.csv``, ``ends.csv``,
        ``parts.csv``, ``claims.csv``, ``claim_rows.csv`` and ``settings.csv``.
    """
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    parts = reproduction.parts
    tables: dict[str, tuple[str, Iterable[Iterable[Any]]]] = {
        "objective": (
            "set loss method seed epoch objective gap distance",
            _each(parts, _objectives),
        ),
        "variance": (
            "set loss estimator weights_of seed epoch variance second_moment",
            _each(parts, _variances),
        ),
        "jitter": ("set loss method seed epoch step jitter", _each(parts, _jitters)),
        "steps": ("set loss method eta0 seed gap chosen", _each(parts, _steps)),
        "ends": ("set loss method eta0 eta0_of run objective gap distance", _each(parts, _ends)),
        "parts": ("set loss quantity value", _each(parts, _quantities)),
        "claims": ("number claim verdict by_construction measured detail", _claims(reproduction)),
        "claim_rows": ("claim case set loss quantity value", _claim_rows(reproduction)),
        "settings": ("setting value", _settings(reproduction)),
    }
    return [
        _write(home / f"{name}.csv", header.split(), lines)
        for name, (header, lines) in tables.items()
    ]


def _write(path: Path, header: list[str], lines: Iterable[Iterable[Any]]) -> Path:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([_harmless(value) for value in line] for line in lines)
    write_atomically(path, text.getvalue().encode("utf-8"))
    return path


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula with an apostrophe before it.

    Numbers as they are, all digits.
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return repr(float(value)) if isinstance(value, float) else value


def _each(parts: Iterable[Part], lines: Any) -> Iterator[list[Any]]:
    for part in parts:
        for line in lines(part):
            yield [part.name, part.loss, *line]


def _objectives(part: Part) -> Iterator[list[Any]]:
    for method, objective in part.objective.items():
        gap, distance = part.gap(method), part.distance[method]
        for seed, epoch in _places(objective.shape):
            yield [
                method,
                seed,
                epoch,
                objective[seed, epoch],
                gap[seed, epoch],
                distance[seed, epoch],
            ]


def _variances(part: Part) -> Iterator[list[Any]]:
    for estimator in PAPER:
        for run, variance in part.variance[estimator].items():
            moment = part.second_moment[estimator][run]
            for seed, epoch in _places(variance.shape):
                yield [estimator, run, seed, epoch, variance[seed, epoch], moment[seed, epoch]]


def _jitters(part: Part) -> Iterator[list[Any]]:
    for method, jitter in part.jitter.items():
        for seed, place in _places(jitter.shape):
            yield [method, seed, place + 1, part.steps[place], jitter[seed, place]]


def _steps(part: Part) -> Iterator[list[Any]]:
    for method, gaps in part.grid_gap.items():
        for place, seed in _places(gaps.shape):
            yield [
                method,
                part.grid[place],
                seed,
                gaps[place, seed],
                bool(part.grid[place] == part.eta0),
            ]


def _ends(part: Part) -> Iterator[list[Any]]:
    for whose, of in (("SGD", part.ends), ("own", part.own_ends)):
        for method, found in of.items():
            gap = part.end_gap(method, own=whose == "own")
            for run, objective in enumerate(found["objective"]):
                yield [
                    method,
                    found["eta0"][0],
                    whose,
                    run,
                    objective,
                    gap[run],
                    found["distance"][run],
                ]


def _quantities(part: Part) -> Iterator[list[Any]]:
    for name in (
        "n",
        "d",
        "decay",
        "curvature",
        "eta0",
        "at_zero",
        "optimum",
        "optimum_error",
        "seconds",
    ):
        yield ["lambda" if name == "decay" else name, getattr(part, name)]


def _places(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(shape[0]) for j in range(shape[1]))


def _claims(reproduction: Reproduction) -> Iterator[list[Any]]:
    return (
        [
            claim.number,
            claim.claim,
            claim.verdict,
            claim.by_construction,
            claim.measured,
            claim.detail,
        ]
        for claim in reproduction.claims
    )


def _claim_rows(reproduction: Reproduction) -> Iterator[list[Any]]:
    for claim in reproduction.claims:
        for place, row in enumerate(claim.rows):
            for name, value in row.items():
                if name not in ("set", "loss"):
                    yield [
                        claim.number,
                        place + 1,
                        row["set"],
                        row["loss"],
                        name,
                        "" if value is None else value,
                    ]


def _settings(reproduction: Reproduction) -> Iterator[list[Any]]:
    yield from ([name, value] for name, value in reproduction.settings.items())
    yield ["seconds", reproduction.seconds]
    yield from ([f"left out: {name}", reason] for name, reason in reproduction.left_out.items())
    yield from (["resumed", key] for key in reproduction.resumed)
