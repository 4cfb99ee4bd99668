"""Rows of the races of `LogisticRegression`, kept in a file between runs: see ``logistic.py``."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One measurement.

    Attributes
    ----------
    part : str
        "race", "curve", "cv" or "threads".
    task : str
    n, d : int
        Rows and columns of the set.
    gap : float
        To which it went; of a curve, which it reached.
    solver : str
        "ours" or the name of a peer.
    effort : int
        Iterations of a peer; of "threads", the number of these.
    seconds : float
    """

    part: str
    task: str
    n: int
    d: int
    gap: float
    solver: str
    effort: int
    seconds: float


def add_rows(path: Path, rows: list[Row]) -> None:
    """Add rows to a file; those of the same part and task that it has are replaced."""
    fresh = {(row.part, row.task) for row in rows}
    old = [row for row in read_rows(path) if (row.part, row.task) not in fresh]
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(Row._fields)
        out.writerows(
            [*row[:4], f"{row.gap:.4g}", row.solver, row.effort, f"{row.seconds:.4g}"]
            for row in [*old, *rows]
        )


def read_rows(path: Path) -> list[Row]:
    """Rows of a file; none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        _, *lines = csv.reader(file)
    return [
        Row(part, task, int(n), int(d), float(gap), solver, int(effort), float(seconds))
        for part, task, n, d, gap, solver, effort, seconds in lines
    ]


@dataclass(frozen=True)
class Race:
    """Seconds of ours and of each peer that came in to a gap."""

    name: str
    n: int
    d: int
    gap: float
    ours: float
    others: dict[str, float]

    @property
    def fastest(self) -> str:
        """Name of the fastest other; empty if there is none."""
        return min(self.others, key=self.others.__getitem__, default="")

    @property
    def ratio(self) -> float:
        """Our seconds, divided by those of the fastest other (0 where all are beaten)."""
        return self.ours / self.others[self.fastest] if self.others else 0.0

    @property
    def sklearn_ratio(self) -> float:
        """The same against scikit-learn's solvers alone."""
        named = [s for name, s in self.others.items() if name.startswith(("scikit-learn ", "lib"))]
        return self.ours / min(named) if named else 0.0


def races_of(rows: list[Row], part: str = "race") -> list[Race]:
    """Races that rows are of."""
    found: dict[tuple, dict[str, float]] = {}
    for row in rows:
        if row.part == part:
            found.setdefault((row.task, row.n, row.d, row.gap), {})[row.solver] = row.seconds
    return [Race(*key, spent.pop("ours"), spent) for key, spent in found.items()]


class Efforts:
    """Seconds and gaps of peers after some iterations, kept in a file if one is given."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        known = json.loads(path.read_text()) if path is not None and path.exists() else {}
        self._known = {
            key: {int(k): (spent, gap) for k, (spent, gap) in tried.items()}
            for key, tried in known.items()
        }

    def of(self, task: str, peer: str) -> dict[int, tuple[float, float]]:
        """What is known of a peer on a task, to which more can be added."""
        return self._known.setdefault(f"{task}; {peer}", {})

    def save(self) -> None:
        """Write the file."""
        if self._path is not None:
            self._path.write_text(json.dumps(self._known))
