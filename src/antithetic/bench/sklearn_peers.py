"""Our estimator with all defaults, and scikit-learn's.

These are SGDClassifier, LogisticRegression with each of its solvers, and LinearSVC.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from antithetic.bench.peer import Config, Fit, Peer
from antithetic.bench.tasks import Task

OURS = "antithetic.SGDClassifier"
SOLVERS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")
# An iteration of the other solvers takes several passes, and they do not report how many.
_PASS_PER_ITERATION = ("lbfgs", "sag", "saga")
_NEVER = 1e-14  # a tolerance that does not stop a solver before max_iter does
# in units of one over the mean curvature of a row: around what was best on the sets of the figures
_STEPS = {
    "invscaling": (0.25, 1.0, 4.0),
    "constant": (1 / 64, 1 / 16, 0.25),
    "adaptive": (1 / 64, 1 / 16, 0.25),
}
_SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "invscaling": ("invscaling, power_t=0.5", {"power_t": 0.5}),
    "constant": ("constant, averaged", {"average": True}),
    # it divides its step only where a tolerance tells it that nothing improves any more
    "adaptive": ("adaptive", {"tol": 1e-3, "n_iter_no_change": 1}),
}


def ours(task: Task) -> Sequence[Config]:
    """All defaults but loss, alpha, fit_intercept=False, max_iter, tol=None, random_state."""
    from antithetic.estimators.sgd import SGDClassifier

    return [Config("defaults", partial(_fit_sgd, SGDClassifier, task, {}))]


def sgd(task: Task) -> Sequence[Config]:
    """Every schedule of scikit-learn's, averaged where that helps, over a grid of first steps."""
    from sklearn.linear_model import SGDClassifier

    squares = (task.X.multiply(task.X) if sparse.issparse(task.X) else task.X * task.X).sum(axis=1)
    scale = (4.0 if task.loss == "log_loss" else 1.0) / float(np.mean(squares))
    settings: dict[str, dict[str, Any]] = {"optimal": {}, "optimal, averaged": {"average": True}}
    for schedule, (words, given) in _SCHEDULES.items():
        for step in _STEPS[schedule]:
            eta0 = float(f"{step * scale:.3g}")
            settings[f"{words}, eta0={eta0}"] = {"learning_rate": schedule, "eta0": eta0, **given}
    return [
        Config(
            words,
            partial(_fit_sgd, SGDClassifier, task, given),
            late=given.get("learning_rate") == "adaptive",
        )
        for words, given in settings.items()
    ]


def _fit_sgd(estimator: type, task: Task, given: dict[str, Any], effort: int, seed: int) -> Fit:
    fixed = {"loss": task.loss, "alpha": task.l2, "fit_intercept": False, "tol": None}
    model = estimator(**(fixed | given), max_iter=effort, random_state=seed).fit(task.X, task.y)
    return Fit(model.coef_[0], model.n_iter_, model.n_iter_)


def logistic_regression(solver: str, task: Task) -> Sequence[Config]:
    """One solver of LogisticRegression; liblinear in the primal and in the dual."""
    choices = (
        {"primal": {"dual": False}, "dual": {"dual": True}}
        if solver == "liblinear"
        else {"defaults": {}}
    )
    moving = solver in ("sag", "saga", "liblinear")
    return [
        Config(words, partial(_fit_logistic, solver, task, given), stochastic=moving)
        for words, given in choices.items()
    ]


def _fit_logistic(solver: str, task: Task, given: dict[str, Any], effort: int, seed: int) -> Fit:
    from sklearn.linear_model import LogisticRegression

    fixed = {"C": 1.0 / (task.l2 * task.n), "fit_intercept": False, "tol": _NEVER}
    model = LogisticRegression(
        solver=solver, **fixed, **given, max_iter=effort, random_state=seed
    ).fit(task.X, task.y)
    iterations = float(np.max(model.n_iter_))
    return Fit(model.coef_[0], iterations, iterations if solver in _PASS_PER_ITERATION else np.nan)


def linear_svc(task: Task) -> Sequence[Config]:
    """Coordinate descent in the dual, by liblinear."""
    return [Config("dual", partial(_fit_svc, task))]


def _fit_svc(task: Task, effort: int, seed: int) -> Fit:
    from sklearn.svm import LinearSVC

    fixed = {"loss": "hinge", "C": 1.0 / (task.l2 * task.n), "fit_intercept": False, "tol": _NEVER}
    model = LinearSVC(**fixed, max_iter=effort, random_state=seed).fit(task.X, task.y)
    return Fit(model.coef_[0], float(model.n_iter_), float(model.n_iter_))


PEERS = (
    Peer(OURS, "antithetic", ours, one_pass="defaults"),
    Peer("sklearn SGDClassifier", "scikit-learn", sgd, rivals=True, one_pass="optimal"),
    *(
        Peer(
            f"sklearn {solver}",
            "scikit-learn",
            partial(logistic_regression, solver),
            ("log_loss",),
            one_pass="defaults" if solver in ("sag", "saga") else None,
        )
        for solver in SOLVERS
    ),
    Peer("sklearn LinearSVC", "scikit-learn", linear_svc, ("hinge",), one_pass="dual"),
)
