"""Settings of the experiments: sets with their lambda (Table 1), methods, grids of steps."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic import datasets
from antithetic._util.validation import check_count
from antithetic._util.versions import package_version
from antithetic.orders import Balanced, Order, Pairs, Shuffle, Uniform

LAMBDAS = {
    "sonar_scale": 1e-2,
    "breast-cancer_scale": 1e-2,
    "splice_scale": 1e-3,
    "ijcnn1.tr": 1e-4,
    "fourclass_scale": 1e-2,
    "diabetes_scale": 1e-2,
}
"""The paper's Table 1."""
LOSSES = ("log_loss", "hinge")
BATCH_SIZE = 2
MORE_BATCH_SIZES = (4, 8, 16)


METHODS: dict[str, Order] = {
    "SGD": Uniform(),
    "SGD-as": Uniform(pairs="greedy"),
    "reshuffled": Shuffle(),
    "reshuffled pairs": Shuffle(pairs="greedy"),
    "nested order": Shuffle(pairs=Pairs("tree", nest=True)),
    "balanced": Balanced(),
}
"""The paper's two methods, then others. Tables come from the signed rows, once."""
PAPER = ("SGD", "SGD-as")

STEP_RULE = (
    "step eta0 / (1 + eta0 lambda t); eta0 = 4^k / L, k = -6..4, L = mean |x|^2 / 4 (hinge: mean"
    " |x|^2): the one with the least mean gap of plain SGD after the run, over the same seeds; all"
    " methods share it"
)
_EXPONENTS = np.arange(-6, 5)
_FINE_EXPONENTS = np.arange(-16, 15)
_MANY, _FEWER, _LARGE = 8, 4, 10_000


def comparison_runs(seeds: int, n: int) -> int:
    """Runs of each method whose ends are compared: so many times the seeds, fewer on a large set.

    Single ends scatter by as much as the methods differ: with 5 runs each, a verdict would be a
    matter of luck on half of the sets.
    """
    return seeds * (_MANY if n <= _LARGE else _FEWER)


def curvature(loss: str, squares: float) -> float:
    """L of the grids, from the mean of ``|x|^2``.

    The slope of the hinge loss has a jump of 1 and counts as a curvature of 1.
    """
    return squares / 4.0 if loss == "log_loss" else squares


def first_steps(scale: float) -> NDArray[np.float64]:
    """Candidates for eta0, given L: a factor of 4 apart."""
    return np.asarray(4.0**_EXPONENTS / scale)


def constant_steps(scale: float) -> NDArray[np.float64]:
    """Constant steps to be tried, given L: a factor of the square root of 2 apart."""
    return np.asarray(2.0 ** (_FINE_EXPONENTS / 2.0) / scale)


def check_names(names: Any, known: Any, what: str) -> tuple[str, ...]:
    """Return the names that were asked for, all of the known ones for None.

    Raise ValueError for others.
    """
    asked = tuple(known) if names is None else (names,) if isinstance(names, str) else tuple(names)
    for name in asked:
        if name not in known:
            raise ValueError(
                f"{what} {name!r} is not one of the experiments; use some of {', '.join(known)}"
            )
    return tuple(dict.fromkeys(asked))


def part_settings(name: str, loss: str, seeds: int, epochs: int) -> dict[str, Any]:
    """Everything that the numbers of a part depend on.

    A finished part is reused only if all of it is the same.
    """
    (name,), (loss,) = check_names(name, LAMBDAS, "set"), check_names(loss, LOSSES, "loss")
    return {
        "antithetic": package_version(),
        "format": 2,
        "set": name,
        "loss": loss,
        "seeds": check_count(seeds, "seeds", least=1),
        "epochs": check_count(epochs, "epochs", least=1),
        "lambda": LAMBDAS[name],
        "batch_size": BATCH_SIZE,
        "step": STEP_RULE,
        "methods": "; ".join(f"{method}: {order!r}" for method, order in METHODS.items()),
    }


def fingerprint(settings: Any) -> str:
    """Eight digits that differ where settings do."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode("utf-8")).hexdigest()[:8]


def load(name: str) -> tuple[Any, Any]:
    """Rows and labels of a set, without a download; OSError where it is not there."""
    X, y = datasets.load(name, return_X_y=True, download=False)
    return X, y
