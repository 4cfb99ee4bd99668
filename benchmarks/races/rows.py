"""Results as rows of one CSV file, written as they come.

All tables and figures are functions of these rows alone.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import antithetic
from antithetic._util.files import naming, write_atomically
from antithetic._util.versions import package_version

_HEADS = {"data": "set", "l2": "lambda"}
_PACKAGES = ("numpy", "scipy", "scikit-learn")
_OTHER_PEERS = (
    "scikit-learn-intelex",
    "glum",
    "cyanure",
    "snapml",
    "vowpalwabbit",
)
_ONLY_SHOW = ("_cli", "report")  # folders of the package in which nothing is measured
_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, or one that could not be made.

    Attributes
    ----------
    part : str
        ``"optimum"``, ``"curve"`` (a setting, and how close it came), ``"target"`` (the cheapest
        setting that gets there), ``"epoch"``, ``"first"`` (import and fit in a fresh process),
        ``"pairing"``, ``"held-out"``, or ``"finished"`` (all rows of a set, loss and number of
        threads are there, with all peers and limits in ``peer`` and ``setting``).
    data : str
        Name of the set.
    n, d : int
        Rows and features.
    loss : str
    l2 : float
        lambda of the objective, mean loss + lambda / 2 |w|^2.
    peer, setting : str
        Which solver, and with which settings.
    seed : str
        Seeds over which ``value`` is a mean and ``seconds`` a median.
    target : float
        Relative suboptimality to be reached.
    quantity : str
        What ``value`` is: ``"gap"``, ``"objective"``, ``"log_loss"``, ``"accuracy"``, ...
    value, seconds : float
    passes : float
        Over the rows, as gradient evaluations divided by n; NaN where an iteration takes several
        and the peer does not say how many, as the Newton methods and liblinear of scikit-learn and
        all of Cyanure but miso. Ours leave out the search for the steps.
    iterations : float
        The peer's own count.
    repeats : int
        Number of timings of which ``seconds`` is the smallest.
    status : str
        ``"ok"``, ``"not installed"``, ``"not reached"``, ``"failed: ..."``.
    version : str
        Of the peer.
    threads : int
    clock : str
        ``"wall"`` or ``"cpu"``.
    cpu, versions : str
        The machine, and all packages that were measured or that these depend on; ours with a hash
        of its source.
    """

    part: str
    data: str
    n: int = 0
    d: int = 0
    loss: str = ""
    l2: float = _NAN
    peer: str = ""
    setting: str = ""
    seed: str = ""
    target: float = _NAN
    quantity: str = ""
    value: float = _NAN
    seconds: float = _NAN
    passes: float = _NAN
    iterations: float = _NAN
    repeats: int = 0
    status: str = "ok"
    version: str = ""
    threads: int = 1
    clock: str = "wall"
    cpu: str = ""
    versions: str = ""

    @property
    def problem(self) -> str:
        """Set, loss and lambda in a few words."""
        return f"{self.data}, {self.loss}"


class RefusedError(ValueError):
    """A file that holds something other than the rows of this run, or a folder that is in use."""


_TYPES: dict[str, Any] = {"int": int, "float": float, "str": str}
_FIELDS = {field.name: _TYPES[str(field.type)] for field in fields(Row)}
HEADER = tuple(_HEADS.get(name, name) for name in _FIELDS)


class Sink:
    """A CSV file to which rows are added; each is on the disk before the next is measured.

    Parameters
    ----------
    path : path
        Added to if it exists.
    clock : str
        What rows of one thread were measured with; those of several have the wall clock.
    """

    def __init__(self, path: str | os.PathLike[str], clock: str = "wall") -> None:
        self.path = Path(path)
        self._clock = clock
        self._own: dict[str, Any] = {"cpu": cpu_name(), "versions": versions()}
        fresh = not self.path.exists() or self.path.stat().st_size == 0
        self._file = open(  # noqa: SIM115 - closed by __exit__
            self.path, "a", newline="", encoding="utf-8"
        )
        if fresh:
            self._write(HEADER)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, row: Row) -> Row:
        """Write a row, with the machine and the versions."""
        clock = clock_of(self._clock, row.threads)
        complete = replace(row, clock=clock, **self._own)
        self._write(_cells(complete))
        return complete

    def _write(self, cells: Sequence[object]) -> None:
        with naming(self.path):
            self._file.write(_line(cells))  # at once, so that an interruption leaves whole lines
            self._file.flush()


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Read a file of rows; a last line that was not finished is left out.

    Raises
    ------
    RefusedError
        The file was not written by this program.
    """
    with open(path, newline="", encoding="utf-8") as file:
        text = file.read()
    head, *lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1]))) or [[]]
    if tuple(head) != HEADER:
        raise RefusedError(
            f"{os.fspath(path)} does not hold rows of `benchmarks/race.py`: its first line should"
            f" be {','.join(HEADER)}"
        )
    rows = []
    for number, cells in enumerate(lines, 2):
        try:
            rows.append(
                Row(
                    **{
                        name: kind(cell)
                        for (name, kind), cell in zip(_FIELDS.items(), cells, strict=True)
                    }
                )
            )
        except ValueError as error:
            raise RefusedError(f"{os.fspath(path)}, line {number}: {error}") from error
    return rows


def write_rows(path: str | os.PathLike[str], rows: Iterable[Row]) -> None:
    """Write a file of these rows, all or nothing."""
    write_atomically(path, "".join(map(_line, [HEADER, *map(_cells, rows)])).encode())


def _cells(row: Row) -> list[object]:
    return [
        repr(value) if isinstance(value, float) else value
        for value in (getattr(row, name) for name in _FIELDS)
    ]


def _line(cells: Iterable[object]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(
        [" ".join(str(cell).splitlines()) for cell in cells]
    )
    return text.getvalue()


def clock_of(clock: str, threads: int) -> str:
    """With several threads, only the wall clock shows how long they take."""
    return clock if threads == 1 else "wall"


def cpu_name() -> str:
    """Model of the processor, and how many cores it has."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    return f"{model}, {os.cpu_count()} cores"


def versions() -> str:
    """Versions of this package, of what all peers depend on, and of the installed peers."""
    found = [
        f"antithetic {package_version()} (source {source_hash()})",
        f"Python {platform.python_version()}",
    ]
    return "; ".join(
        [
            *found,
            *(
                f"{name} {version_of(name)}"
                for name in (*_PACKAGES, *filter(version_of, _OTHER_PEERS))
            ),
        ]
    )


@cache  # what is imported does not change when a file does
def source_hash(*roots: Path) -> str:
    """Eight hexadecimal digits of a hash of the source of the package and of the races.

    What only shows results is left out. Other folders may be given instead.
    """
    found = hashlib.sha256()
    for root in roots or (Path(antithetic.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            place = path.relative_to(root)
            if place.parts[0] not in _ONLY_SHOW:
                found.update(f"{place.as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()[:8]


def version_of(package: str) -> str:
    """Version of an installed distribution, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
