"""What the entries of a model file must be."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 1e300  # a weight; beyond it, features of common sizes give infinite predictions


def require(true: bool, what: str) -> None:
    """Raise ValueError with what is wrong, unless it is true."""
    if not true:
        raise ValueError(what)


def refuse(constant: str) -> float:
    """Refuse numbers that JSON does not have."""
    raise ValueError(f"it holds {constant}, which is not a weight")


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return entries as a dict, each of which appears once."""
    require(len({name for name, _ in pairs}) == len(pairs), "an entry appears twice")
    return dict(pairs)


def numbers(value: Any, axes: int, what: str) -> NDArray[np.float64]:
    """Return finite numbers as an array with the given number of axes."""
    try:
        array = np.array(value)
    except ValueError as error:
        raise ValueError(f"{what} has rows of different lengths") from error
    require(
        array.ndim == axes and array.dtype.kind in "iuf", f"{what} must be numbers with {axes} axes"
    )
    array = array.astype(np.float64)
    require(bool(np.isfinite(array).all()), f"{what} has numbers that are not finite")
    largest = float(np.abs(array).max(initial=0.0))
    require(largest <= _LARGEST, f"{what} has {largest:.3g}, with which predictions would overflow")
    return array


def are_classes(classes: Any, tasks: int) -> bool:
    """At least two labels, in order, all strings or all numbers, for the rows of weights."""
    if (
        not isinstance(classes, list)
        or len(classes) < 2
        or tasks != (1 if len(classes) == 2 else len(classes))
    ):
        return False
    words = all(isinstance(label, str) for label in classes)
    values = all(
        isinstance(label, bool | int | float) and math.isfinite(label) for label in classes
    )
    return (words or values) and all(a < b for a, b in pairwise(classes))


def check_names(names: Any, d: int) -> None:
    """Raise ValueError unless the names of features are d different strings."""
    require(
        isinstance(names, list) and all(isinstance(name, str) for name in names),
        "feature_names must be a list of strings",
    )
    require(len(names) == d, f"it has {len(names)} feature_names for {d} weights")
    require(len(set(names)) == len(names), "feature_names has the same name twice")
