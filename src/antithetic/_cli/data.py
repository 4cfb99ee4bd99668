"""A user's file as the commands need it: rows, labels, the task and a suitable loss."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from antithetic._cli.console import plain
from antithetic._util.validation import did_you_mean
from antithetic.datasets import read_file
from antithetic.datasets._reading import Reading
from antithetic.paper.report.page import is_page
from antithetic.problem.losses import ALL_LOSSES

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}  # powers of two
_MOST_CLASSES = 20  # whole numbers of more than so many values are taken for a quantity


DEFAULT_BYTES = "8G"
_OPTIONS = {
    "pass one_hot=True": "use --one-hot",
    "one_hot=True makes": "--one-hot makes",
    "pass dates=True": "use --dates",
    "pass decimal=','": "use --decimal-comma",
    "with leave_out=": "with --leave-out",
    "that leave_out= could": "that --leave-out could",
    "say which with target=": "say which with --target",
    "set a larger max_bytes to": "set a larger --max-bytes to",
    **{
        f"use antithetic.{name}": "use --solver exact"
        for name in ("LogisticRegression", "Ridge", "PoissonRegressor", "GammaRegressor")
    },
    "use antithetic.TweedieRegressor": "use --solver exact",
    ", or use antithetic.solve, which reaches any accuracy": "",
    "max_iter=": "--epochs ",
    "ncrease max_iter": "ncrease --epochs",
    "ncreasing max_iter": "ncreasing --epochs",
    "Decrease tol": "Decrease --tol",
    "above tol=": "above --tol ",
    "Decrease C or": "Increase --alpha or",
    "Increase alpha or": "Increase --alpha or",
    "or decrease C=": "or increase --alpha; C=",
    "or increase alpha=": "or increase --alpha; alpha=",
    " (see gap_)": "",
}


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows and labels of a file, and the loss to use on them.

    Attributes
    ----------
    path : Path
    X, y : arrays
    feature_names : list of str or None
    target_name : str
    classes : ndarray or None
        None for regression.
    loss : str
    reading : Reading
        As the user asked for it.
    read : Bunch
        What `read_file` returned.
    note : str
        What was decided for the user, if anything.
    """

    path: Path
    X: Any
    y: Any
    feature_names: list[str] | None
    target_name: str
    classes: Any
    loss: str
    reading: Reading
    read: Any
    note: str = ""

    @property
    def shape(self) -> str:
        """Size and task in a few words."""
        n, d = self.X.shape
        task = f"{len(self.classes)} classes" if self.classes is not None else "regression"
        return f"{n} row{'s' if n != 1 else ''}, {d} feature{'s' if d != 1 else ''}, {task}"


def make_reading(
    target: str | None = None,
    features: Sequence[str] | None = None,
    leave_out: Sequence[str] | None = None,
    one_hot: bool = False,
    dates: bool = False,
    decimal_comma: bool = False,
    max_bytes: str = DEFAULT_BYTES,
) -> Reading:
    """Turn the options of a command into the parameters of `read_file`."""
    if features and leave_out:
        raise ValueError("--features and --leave-out cannot be combined; use one of them")
    return Reading(
        target=column_of(target),
        features=[_column(name) for name in features] if features else None,
        leave_out=tuple(_column(name) for name in leave_out or ()),
        one_hot=one_hot,
        dates=dates,
        decimal="," if decimal_comma else ".",
        max_bytes=_bytes(max_bytes),
        progress=sys.stderr.isatty(),
    )


def _bytes(given: str) -> int:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", given.upper())
    size = 0 if found is None else int(float(found[1]) * (1 << _UNITS[found[2]]))
    if size < 1:
        raise ValueError(f"--max-bytes {given}: give bytes, or a number with K, M or G, such as 8G")
    return size


def read_data(path: Path, reading: Reading, *, loss: str | None) -> Data:
    """Read a file.

    The loss, where none is given, is logistic for classes and squared for numbers.
    """
    if loss is not None and loss not in ALL_LOSSES:
        raise ValueError(
            f"--loss {loss} is not known; use one of {', '.join(ALL_LOSSES)}"
            f"{did_you_mean(loss, ALL_LOSSES)}"
        )
    with in_options():
        found = read_file(path, **asdict(reading))
    classes, y, note = found.classes, found.target, ""
    numbers = np.asarray(y).dtype.kind in "biuf"
    if loss is None and classes is not None and numbers and len(classes) > _MOST_CLASSES:
        note = (
            f"{plain(found.target_name)} has {len(classes)} values and is treated as a quantity;"
            " if they are classes, use --loss log_loss"
        )
        loss = "squared_error"
    if loss is None:
        loss = "squared_error" if classes is None else "log_loss"
    if ALL_LOSSES[loss].classification:
        if classes is None:
            raise ValueError(
                f"{path}: {found.target_name!r} holds numbers that are not classes; use a"
                " regression loss"
            )
    else:
        if not numbers:
            raise ValueError(
                f"{path}: {found.target_name!r} holds words, and --loss {loss} needs numbers; use a"
                " classification loss"
            )
        classes = None
    return Data(
        path,
        found.data,
        y,
        found.feature_names,
        found.target_name,
        classes,
        loss,
        reading,
        found,
        note,
    )


def check_place(path: Path, *inputs: Path | None) -> None:
    """Refuse an output path without a folder, or that is also an input, before any work is done."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path.name}: the folder {path.parent} does not exist")
    refuse_inputs(path, *inputs)


def refuse_inputs(path: Path, *inputs: Path | None) -> None:
    """Refuse to overwrite an input file, under any name."""
    for given in inputs:
        if given is not None and path.is_file() and given.exists() and path.samefile(given):
            raise ValueError(
                f"{path} would be written over {given}, which is an input; name another file"
            )


def refuse_foreign(folder: Path, names: Sequence[str]) -> None:
    """Refuse to overwrite files that are not part of a report of this package."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"{folder} is a file; --out names the folder that the report is written to"
        )
    page = folder / names[0]
    if page.is_file() and (is_page(page) or not page.stat().st_size):
        return
    for name in names:
        if (folder / name).exists():
            raise ValueError(
                f"{folder / name} exists and is not part of a report by antithetic; name another"
                " folder with --out, or move it away first"
            )


def column_of(target: str | None) -> str | int | None:
    """Make a number of a column given by its number."""
    return None if target is None else _column(target)


def _column(given: str) -> str | int:
    return int(given) if given.lstrip("-").isdecimal() else given


@contextmanager
def in_options() -> Iterator[None]:
    """Make errors and warnings name options of the command instead of parameters of Python."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    except ValueError as error:
        raise ValueError(_with_options(str(error))) from error
    for warning in caught:
        warnings.warn(_with_options(str(warning.message)), warning.category, stacklevel=2)


def _with_options(message: str) -> str:
    for parameter, option in _OPTIONS.items():
        message = message.replace(parameter, option)
    return message
