"""The sets that are raced on, in groups: many rows, few rows, raw columns, text, classes, numbers.

Some come with this package or with scikit-learn, some are synthetic, and others are left out if
they are not on this computer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic import datasets

GROUPS = {
    "many rows": {
        "ijcnn1.tr": 1e-4,
        "a9a": 1e-4,
        "w8a": 1e-4,
        "cod-rna_scale": 1e-4,
        "phishing": 1e-4,
        "mushrooms": 1e-4,
        "skin_nonskin": 1e-4,
        "made-500000x50": 1e-5,
        "made-20000x400": 1e-4,
    },
    "few rows": {
        "sonar_scale": 1e-2,
        "breast-cancer_scale": 1e-2,
        "splice_scale": 1e-3,
        "diabetes_scale": 1e-2,
    },
    "raw columns": {
        "skin_nonskin-raw": 1e-4,
        "breast-cancer": 1e-2,
        "diabetes": 1e-2,
        "made-scales-50000x30": 1e-4,
    },
    "text": {"farm-ads": 1e-4},
    "many classes": {"digits": 1e-4, "made-classes-50000x100": 1e-4, "mnist": 1e-4},
    "regression": {
        "progression": 1e-3,
        "made-numbers-20000x400": 1e-4,
        "made-numbers-200000x50": 1e-4,
    },
}
"""Sets with their lambda, by group."""
SETS = {name: l2 for group in GROUPS.values() for name, l2 in group.items()} | {
    "made-20000x20": 1e-4
}
SPARSE_SETS = frozenset({"a9a", "w8a", "mushrooms", "farm-ads"})
"""Sets that are raced on as sparse rows."""
FIRST_SETS = tuple(next(iter(group)) for group in GROUPS.values())
"""On these, the first fit of a fresh process is timed as well."""
QUICK_SETS = ("breast-cancer_scale", "diabetes_scale", "made-20000x20")
_LOSSES = {"many classes": ("softmax",), "regression": ("squared_error",)}
_TWO_CLASSES = ("log_loss", "hinge")
LOSSES = ("log_loss", "softmax", "squared_error", "hinge")


def group_of(name: str) -> str:
    """The group of a set; the first group for sets in none."""
    return next((group for group, names in GROUPS.items() if name in names), "many rows")


def losses_of(name: str) -> tuple[str, ...]:
    """The losses that its labels are made for."""
    return _LOSSES.get(group_of(name), _TWO_CLASSES)


def check_set(name: str) -> None:
    """Raise an error unless the set is known."""
    if name not in SETS:
        raise ValueError(f"set {name!r} is not known; use some of {', '.join(SETS)}")


def load_set(name: str) -> tuple[Any, NDArray[Any]] | None:
    """Rows and labels, or None if the set is not on this computer."""
    check_set(name)
    if name.startswith("made-"):
        kind, _, shape = name.removeprefix("made-").rpartition("-")
        return _MADE[kind](*map(int, shape.split("x")))
    if name in _OF_SKLEARN:
        return _OF_SKLEARN[name]()
    try:
        X, y = datasets.load(name.removesuffix("-raw"), return_X_y=True, download=False)
    except FileNotFoundError:
        return None
    if name == "skin_nonskin":
        low, high = X.min(axis=0), X.max(axis=0)
        X = 2.0 * (X - low) / (high - low) - 1.0
    if name == "mnist":
        X = np.asarray(X, dtype=np.float64) / 255.0
    return X, y


def choose_sets(given: Sequence[str] | None, quick: bool) -> tuple[list[str], list[str]]:
    """Names of the sets to use, and of those that are asked for but not on this computer.

    All groups if none is given.
    """
    for name in given or ():
        check_set(name)
    every = [name for group in GROUPS.values() for name in group]
    wanted = list(given) if given else list(QUICK_SETS) if quick else every
    missing = [name for name in wanted if not name.startswith("made-") and load_set(name) is None]
    return [name for name in wanted if name not in missing], missing


def _standardised(X: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def _two_classes(n: int, d: int) -> tuple[Any, NDArray[Any]]:
    from sklearn.datasets import make_classification

    X, y = make_classification(n, d, n_informative=2 * d // 5, flip_y=0.1, random_state=0)
    return _standardised(X), y


def _scales(n: int, d: int) -> tuple[Any, NDArray[Any]]:
    """Columns in units from a thousandth to a thousand."""
    X, y = _two_classes(n, d)
    return X * np.geomspace(1e-3, 1e3, d), y


def _classes(n: int, d: int, n_classes: int = 20) -> tuple[Any, NDArray[Any]]:
    """Rows around one centre per class, in columns of falling size."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_classes, d))[y]
    return X * np.geomspace(1.0, 0.1, d), y


def _numbers(n: int, d: int) -> tuple[Any, NDArray[Any]]:
    """Correlated columns, and targets with as much noise as signal."""
    rng = np.random.default_rng(0)
    X = _standardised(rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(n, 1)))
    signal = X @ rng.normal(size=d)
    y = signal / signal.std() + rng.normal(size=n)
    return X, y - y.mean()


def _digits() -> tuple[Any, NDArray[Any]]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def _progression() -> tuple[Any, NDArray[Any]]:
    """Scikit-learn's diabetes set: a measure of progression after a year."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return _standardised(X), (y - y.mean()) / y.std()


_MADE = {"": _two_classes, "scales": _scales, "classes": _classes, "numbers": _numbers}
_OF_SKLEARN = {"digits": _digits, "progression": _progression}
