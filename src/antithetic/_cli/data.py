"""A user's file as the commands need it: rows, labels, the task and a suitable loss."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from antithetic._cli.console import plain
from antithetic.datasets import read_file
from antithetic.problem.losses import LOSSES

_MOST_CLASSES = 20  # whole numbers of more than so many values are taken for a quantity


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
    target : str, int or None
        As the user gave it.
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
    target: str | int | None
    note: str = ""

    @property
    def shape(self) -> str:
        """Size and task in a few words."""
        n, d = self.X.shape
        task = f"{len(self.classes)} classes" if self.classes is not None else "regression"
        return f"{n} row{'s' if n != 1 else ''}, {d} feature{'s' if d != 1 else ''}, {task}"


def read_data(path: Path, *, target: str | None, loss: str | None, one_hot: bool) -> Data:
    """Read a file.

    The loss, where none is given, is logistic for classes and squared for numbers.
    """
    if loss is not None and loss not in LOSSES:
        raise ValueError(f"--loss {loss} is not known; use one of {', '.join(LOSSES)}")
    column = column_of(target)
    try:
        found = read_file(path, target=column, one_hot=one_hot)
    except ValueError as error:
        raise ValueError(_in_options(str(error))) from error
    classes, y, note = found.classes, found.target, ""
    numbers = np.asarray(y).dtype.kind in "biuf"
    if loss is None and classes is not None and numbers and len(classes) > _MOST_CLASSES:
        note = (
            f"{plain(found.target_name)} has {len(classes)} values and is taken for a quantity; for"
            " classes say --loss log_loss"
        )
        loss = "squared_error"
    if loss is None:
        loss = "squared_error" if classes is None else "log_loss"
    if LOSSES[loss].classification:
        if classes is None:
            raise ValueError(
                f"{path}: {found.target_name!r} holds numbers that are no classes; use a loss for"
                " regression"
            )
    else:
        if not numbers:
            raise ValueError(
                f"{path}: {found.target_name!r} holds words, and --loss {loss} needs numbers; use a"
                " loss for classes"
            )
        classes = None
    return Data(
        path, found.data, y, found.feature_names, found.target_name, classes, loss, column, note
    )


def check_place(path: Path, *inputs: Path | None) -> None:
    """Refuse an output path without a folder, or that is also an input, before any work is done."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} to")
    refuse_inputs(path, *inputs)


def refuse_inputs(path: Path, *inputs: Path | None) -> None:
    """Refuse to write over a file that is to be read, by whatever name."""
    for given in inputs:
        if given is not None and path.is_file() and given.exists() and path.samefile(given):
            raise ValueError(
                f"{path} would be written over {given}, which is to be read; name another file"
            )


def column_of(target: str | None) -> str | int | None:
    """Make a number of a column given by its number."""
    return int(target) if target is not None and target.lstrip("-").isdecimal() else target


def _in_options(message: str) -> str:
    """Say the parameters of Python as options of the command."""
    for parameter, option in (
        ("pass one_hot=True", "use --one-hot"),
        (", or choose others with features=", ""),
        ("say which with target=", "say which with --target"),
    ):
        message = message.replace(parameter, option)
    return message
