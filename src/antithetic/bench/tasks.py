"""What is minimised: sets with their lambda, and the least objective that all gaps refer to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic import datasets
from antithetic.experiments.optimum import find_optimum
from antithetic.problem import Problem

FIGURE_SETS = {
    "ijcnn1.tr": 1e-4,
    "a9a": 1e-4,
    "w8a": 1e-4,
    "cod-rna_scale": 1e-4,
    "phishing": 1e-4,
    "mushrooms": 1e-4,
    "skin_nonskin": 1e-4,
    "made-500000x50": 1e-5,
}
"""The sets of the figures."""
ALWAYS_THERE = {
    "sonar_scale": 1e-2,
    "breast-cancer_scale": 1e-2,
    "splice_scale": 1e-3,
    "diabetes_scale": 1e-2,
    "made-20000x20": 1e-4,
}
"""In the package, or made."""
QUICK_SETS = ("breast-cancer_scale", "diabetes_scale", "made-20000x20")
LOSSES = ("log_loss", "hinge")
TARGETS = tuple(10.0**-k for k in range(2, 9))
"""Relative suboptimalities: (f - f*) / (f(0) - f*)."""
SETS = FIGURE_SETS | ALWAYS_THERE
_HELD_OUT = 0.2
_SECONDS_OF_HINGE = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One set with one loss.

    Attributes
    ----------
    name, loss : str
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,)
        -1 and 1.
    problem : Problem
        The one place where the objective is written: mean loss + l2 / 2 |w|^2, no intercept.
    least, error : float
        The least objective, and by how much it may be too large at most.
    """

    name: str
    loss: str
    X: Any
    y: NDArray[np.float64]
    problem: Problem
    least: float
    error: float

    @classmethod
    def build(cls, name: str, loss: str, X: Any, y: Any, l2: float) -> Task:
        """Find the least objective, which takes a while."""
        signs = np.where(y == np.max(y), 1.0, -1.0)
        problem = Problem.build(X, signs, loss=loss, l2=l2)
        optimum = find_optimum(problem, seconds=_SECONDS_OF_HINGE)
        return cls(name, loss, problem.X, signs, problem, optimum.value, optimum.error)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.problem.n

    @property
    def d(self) -> int:
        """Number of features."""
        return self.problem.d

    @property
    def l2(self) -> float:
        """Lambda."""
        return float(self.problem.penalty.l2)

    @property
    def certain(self) -> float:
        """The least gap that can be told from none."""
        return 2.0 * self.error / (self.problem.loss_at_zero() - self.least)

    def gap(self, coef: Any) -> float:
        """Relative suboptimality of weights; infinite where they overflowed."""
        w = np.asarray(coef, dtype=np.float64).ravel()
        if not np.isfinite(w).all():
            return np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            gap = (self.problem.objective(w) - self.least) / (
                self.problem.loss_at_zero() - self.least
            )
        return float(gap) if np.isfinite(gap) else np.inf


def load_set(name: str) -> tuple[Any, NDArray[Any]] | None:
    """Rows and labels, or None where the set is not on this computer.

    Skin_nonskin scaled to [-1, 1], made ones standardised.
    """
    if name not in SETS:
        raise ValueError(f"set {name!r} is not known; use some of {', '.join(SETS)}")
    if name.startswith("made-"):
        return _make(*map(int, name.removeprefix("made-").split("x")))
    try:
        X, y = datasets.load(name, return_X_y=True, download=False)
    except FileNotFoundError:
        return None
    if name == "skin_nonskin":
        low, high = X.min(axis=0), X.max(axis=0)
        X = 2.0 * (X - low) / (high - low) - 1.0
    return X, y


def _make(n: int, d: int) -> tuple[Any, NDArray[Any]]:
    from sklearn.datasets import make_classification

    X, y = make_classification(n, d, n_informative=2 * d // 5, flip_y=0.1, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def hold_out(X: Any, y: NDArray[Any], seed: int = 0) -> tuple[Any, NDArray[Any], Any, NDArray[Any]]:
    """Rows to train on, a random four fifths, and the rest."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(_HELD_OUT * len(y))
    held, kept = np.sort(order[:cut]), np.sort(order[cut:])
    return X[kept], y[kept], X[held], y[held]


def choose_sets(given: Sequence[str] | None, quick: bool) -> tuple[list[str], list[str]]:
    """Names of the sets to use, and of those that are asked for but not on this computer.

    Where none is asked for, the sets of the figures, and in place of those that are missing the
    ones that are always there.
    """
    if given:
        for name in given:
            if name not in SETS:
                raise ValueError(f"set {name!r} is not known; use some of {', '.join(SETS)}")
    wanted = list(given) if given else list(QUICK_SETS if quick else FIGURE_SETS)
    missing = [name for name in wanted if not name.startswith("made-") and load_set(name) is None]
    found = [name for name in wanted if name not in missing]
    if missing and not given:
        found += [name for name in ALWAYS_THERE if name not in found]
    return found, missing
