"""Problems and peers of the races of `LogisticRegression`: see ``logistic.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import load
from scipy import sparse
from sklearn.linear_model import LogisticRegression as Sklearn

import antithetic


@dataclass(frozen=True)
class Task:
    """A problem of the races."""

    name: str
    X: Any
    y: Any
    l2: float
    fit_intercept: bool

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
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def sklearn_peer(solver: str, **settings: Any) -> Callable[[Task, int], tuple]:
    """One of scikit-learn's solvers."""

    def fit(task: Task, iterations: int) -> tuple:
        model = Sklearn(
            C=task.weakness,
            fit_intercept=task.fit_intercept,
            solver=solver,
            tol=1e-15,
            max_iter=iterations,
            random_state=0,
            **settings,
        )
        return weights_of(model.fit(task.X, task.y))

    return fit


def our_sgd(task: Task, iterations: int) -> tuple:
    """Our stochastic gradients."""
    model = antithetic.SGDClassifier(
        loss="log_loss",
        alpha=task.l2,
        fit_intercept=task.fit_intercept,
        max_iter=iterations,
        tol=None,
        random_state=0,
    )
    return weights_of(model.fit(task.X, task.y))


def glum_peer() -> Callable[[Task, int], tuple]:
    """glum: iteratively reweighted least squares."""
    from glum import GeneralizedLinearRegressor

    def fit(task: Task, iterations: int) -> tuple:
        model = GeneralizedLinearRegressor(
            family="binomial",
            alpha=task.l2,
            l1_ratio=0.0,
            fit_intercept=task.fit_intercept,
            gradient_tol=1e-15,
            max_iter=iterations,
        )
        return weights_of(model.fit(task.X, (np.asarray(task.y) > 0).astype(np.float64)))

    return fit


def intelex_peer() -> Callable[[Task, int], tuple]:
    """scikit-learn-intelex: L-BFGS."""
    from sklearnex.linear_model import LogisticRegression

    def fit(task: Task, iterations: int) -> tuple:
        model = LogisticRegression(
            C=task.weakness,
            fit_intercept=task.fit_intercept,
            solver="lbfgs",
            tol=1e-15,
            max_iter=iterations,
            n_jobs=1,
        )
        return weights_of(model.fit(task.X, task.y))

    return fit


def rows_for(X: Any, kind: Any) -> Any:
    """Rows in the form that a package accepts: made once per set, so no time is charged for it."""
    if (id(X), kind) not in _ROWS:
        if len(_ROWS) >= 2:
            _ROWS.clear()
        rows = sparse.csr_matrix(X) if sparse.issparse(X) else X
        if sparse.issparse(rows):
            rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        _ROWS[id(X), kind] = (X, rows.astype(kind, copy=False))
    return _ROWS[id(X), kind][1]


_ROWS: dict[tuple[int, Any], tuple[Any, Any]] = {}  # with the given ones, so that no id is reused


def cyanure_peer() -> Callable[[Task, int], tuple]:
    """Cyanure: incremental gradients with quasi-Newton steps."""
    from cyanure.estimators import Classifier

    def fit(task: Task, iterations: int) -> tuple:
        model = Classifier(
            loss="logistic",
            penalty="l2",
            solver="qning-miso",
            lambda_1=task.l2,
            fit_intercept=task.fit_intercept,
            tol=1e-14,
            max_iter=iterations,
            duality_gap_interval=iterations,
            n_threads=1,
            random_state=0,
            verbose=False,
        )
        model.fit(rows_for(task.X, np.float64), np.asarray(task.y))
        if task.fit_intercept:
            return weights_of(model)
        return np.ravel(model.coef_), 0.0

    return fit


def snap_peer() -> Callable[[Task, int], tuple]:
    """Snap ML: dual coordinate ascent, in float32."""
    from snapml import LogisticRegression

    def fit(task: Task, iterations: int) -> tuple:
        model = LogisticRegression(
            regularizer=1.0 / task.weakness,
            fit_intercept=task.fit_intercept,
            dual=True,
            max_iter=iterations,
            tol=1e-14,
            n_jobs=1,
            random_state=0,
        )
        model.fit(rows_for(task.X, np.float32), np.asarray(task.y))
        if task.fit_intercept:
            return weights_of(model)
        return np.ravel(model.coef_), 0.0

    return fit


def peers() -> dict[str, Callable[[Task, int], tuple]]:
    """All that can be imported; the others are named."""
    found: dict[str, Callable[[Task, int], tuple]] = {
        f"scikit-learn {solver}": sklearn_peer(solver)
        for solver in ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga", "liblinear")
    }
    found["liblinear dual"] = sklearn_peer("liblinear", dual=True)
    found["our SGD"] = our_sgd
    for name, make in (
        ("glum", glum_peer),
        ("scikit-learn-intelex", intelex_peer),
        ("Cyanure", cyanure_peer),
        ("Snap ML", snap_peer),
    ):
        try:
            found[name] = make()
        except ImportError:
            print(f"left out: {name}, which is not installed")
    return found
