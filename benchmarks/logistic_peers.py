"""Problems and peers of the races of `LogisticRegression`: see ``logistic.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from common import load
from races import other_peers
from races.sklearn_peers import SOLVERS, logistic_regression, our_sgd
from scipy import sparse


@dataclass(frozen=True, eq=False)
class Task:
    """A problem of the races, for the peers of ``benchmarks/race.py`` as well."""

    loss: ClassVar[str] = "log_loss"
    threads: ClassVar[int] = 1

    name: str
    X: Any
    y: Any
    l2: float
    fit_intercept: bool

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return self.d

    @property
    def weakness(self) -> float:
        """The penalty in scikit-learn's units."""
        return 1.0 / (self.l2 * self.X.shape[0])

    def __str__(self) -> str:
        intercept = ", intercept" if self.fit_intercept else ""
        return f"{self.name}, lambda {self.l2:.1g}{intercept}"


# ---- sets


def made(n: int, d: int, *, condition: float = 1.0, scales: float = 1.0) -> tuple:
    """Return normal rows with a condition number, or with columns of many scales."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if condition > 1.0:
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        X = (X * np.geomspace(1.0, condition**-0.5, d)) @ turn
    logits = X @ rng.normal(size=d)
    y = np.where(logits / logits.std() * 2.0 + rng.logistic(size=n) > 0.0, 1, -1)
    return X * np.geomspace(1.0 / scales, scales, d), y


def breast_cancer() -> tuple:
    """Return the set of two classes that comes with scikit-learn, in its own units."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return X, y


SETS: dict[str, Callable[[], tuple | None]] = {
    **{
        name: (lambda name=name: load(name))
        for name in (
            "ijcnn1.tr",
            "a9a",
            "w8a",
            "phishing",
            "mushrooms",
            "cod-rna_scale",
            "skin_nonskin",
            "sonar_scale",
            "splice_scale",
            "diabetes",
        )
    },
    "skin_nonskin, scaled": lambda: scaled("skin_nonskin"),
    "breast cancer, raw": breast_cancer,
    "made 300000 x 50": lambda: made(300_000, 50),
    "made 20000 x 500, condition 1e4": lambda: made(20_000, 500, condition=1e4),
    "made 50000 x 30, scales 1e-3 to 1e3": lambda: made(50_000, 30, scales=1e3),
}
OTHER_PENALTIES = ("ijcnn1.tr", "a9a", "phishing")
QUICK = ("ijcnn1.tr", "a9a", "cod-rna_scale", "sonar_scale")


def scaled(name: str) -> tuple | None:
    """Return a set whose columns are moved and scaled to [-1, 1]."""
    if (data := load(name)) is None:
        return None
    X = data[0].toarray() if sparse.issparse(data[0]) else data[0]
    low, high = X.min(axis=0), X.max(axis=0)
    return np.ascontiguousarray(2.0 * (X - low) / (high - low) - 1.0), data[1]


def tasks(names: list[str], intercepts: tuple[bool, ...] = (False, True)) -> Iterator[Task]:
    """All problems, set by set."""
    for name in names:
        if (data := SETS[name]()) is None:
            continue
        X, y = data
        penalties = [1e-4]
        if name in OTHER_PENALTIES:
            penalties += [1.0 / X.shape[0], 1e-8]
        for l2 in penalties:
            for fit_intercept in intercepts:
                yield Task(name, X, y, l2, fit_intercept)


# ---- peers: functions of a task and a number of iterations that return weights and intercept


def weights_of(model: Any) -> tuple[np.ndarray, float]:
    """Weights and intercept of a fitted model of two classes."""
    return np.ravel(model.coef_), _intercept_of(model)


def _intercept_of(model: Any) -> float:
    return float(np.ravel(model.intercept_)[0])


def peer(configs: Callable[[Any], Any], place: int = 0) -> Callable[[Task, int], tuple]:
    """One of the configurations that ``benchmarks/race.py`` has for a peer, with an intercept."""

    def fit(task: Task, iterations: int) -> tuple:
        model = _configs(configs, task)[place].fit.model(iterations, 0)
        return np.ravel(model.coef_), _intercept_of(model) if task.fit_intercept else 0.0

    return fit


@lru_cache(maxsize=32)
def _configs(configs: Callable[[Any], Any], task: Task) -> Any:
    """Made once per task, since some copy the rows: no time is charged for that."""
    return configs(task)


def sklearn_peer(solver: str, *, dual: bool = False) -> Callable[[Task, int], tuple]:
    """One of scikit-learn's solvers."""
    return peer(_of_sklearn(solver), int(dual))


@cache
def _of_sklearn(solver: str) -> Callable[[Any], Any]:
    return partial(logistic_regression, solver)


def peers() -> dict[str, Callable[[Task, int], tuple]]:
    """All that can be imported; the others are named."""
    found = {f"scikit-learn {solver}": sklearn_peer(solver) for solver in SOLVERS}
    found["liblinear dual"] = sklearn_peer("liblinear", dual=True)
    found["our SGD"] = peer(our_sgd)
    for name, module, configs, place in (
        ("glum", "glum", other_peers.glum, 0),
        ("scikit-learn-intelex", "sklearnex", other_peers.intelex, 0),
        ("Cyanure", "cyanure", other_peers.cyanure, 1),  # qning-miso
        ("Snap ML", "snapml", other_peers.snap_ml, 0),
    ):
        if find_spec(module) is None:
            print(f"left out: {name}, which is not installed")
        else:
            found[name] = peer(configs, place)
    return found
