"""Our estimators with all defaults, and scikit-learn's.

Of scikit-learn these are SGDClassifier, LogisticRegression with each of its solvers, LinearSVC,
SGDRegressor and Ridge.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from races.peer import (
    NEVER,
    Config,
    EstimatorFit,
    Peer,
    by_digits,
    refuse_columns,
)
from races.tasks import Task

OURS = "antithetic.SGDClassifier"
SOLVERS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")
# An iteration of the other solvers takes several passes, and they do not report how many.
_PASS_PER_ITERATION = ("lbfgs", "sag", "saga")
# in units of one over the mean curvature of a row: around what was best on the sets of the figures
_STEPS = {
    "invscaling": (0.25, 1.0, 4.0),
    "constant": (1 / 64, 1 / 16, 0.25),
    "adaptive": (1 / 64, 1 / 16, 0.25),
}
_SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "invscaling": ("invscaling, power_t=0.5", {"power_t": 0.5}),
    "constant": ("constant, averaged", {"average": True}),
    # it divides its step only if a tolerance says that nothing improves any more
    "adaptive": ("adaptive", {"tol": 1e-3, "n_iter_no_change": 1}),
}
_CURVATURE = {"log_loss": 0.25}
_LINEAR = "sklearn.linear_model"


def is_ours(peer: str) -> bool:
    """Whether a peer is one of this package."""
    return peer.startswith("antithetic.")


def weakness(task: Any) -> float:
    """The penalty in the units of scikit-learn's C."""
    return float(1.0 / (task.l2 * task.n))


def our_sgd(task: Task) -> Sequence[Config]:
    """All defaults except loss, alpha, fit_intercept=False, max_iter, tol=None, random_state."""
    name = "SGDRegressor" if task.loss == "squared_error" else "SGDClassifier"
    return [Config("defaults", _sgd_fit("antithetic", name, task, {}))]


def our_logistic_regression(task: Task) -> Sequence[Config]:
    """All defaults except C, fit_intercept=False and tol, which is 10^-digits and is certified."""
    settings = {"C": weakness(task), "fit_intercept": task.fit_intercept, "n_jobs": task.threads}
    fit = EstimatorFit(
        "antithetic", "LogisticRegression", settings, task.X, task.y, by_digits, seeded=False
    )
    return [Config("defaults", fit, "digits", stochastic=False)]


def our_ridge(task: Task) -> Sequence[Config]:
    """All defaults except alpha, fit_intercept=False and tol, which is 10^-digits."""
    settings = {"alpha": task.l2 * task.n, "fit_intercept": task.fit_intercept}
    fit = EstimatorFit("antithetic", "Ridge", settings, task.X, task.y, by_digits, seeded=False)
    return [Config("defaults", fit, "digits", stochastic=False)]


def sgd(task: Task) -> Sequence[Config]:
    """All of scikit-learn's schedules, averaged if that helps, over a grid of first steps."""
    squares = (task.X.multiply(task.X) if sparse.issparse(task.X) else task.X * task.X).sum(axis=1)
    scale = 1.0 / (_CURVATURE.get(task.loss, 1.0) * float(np.mean(squares)))
    settings: dict[str, dict[str, Any]] = {
        words: {"learning_rate": "optimal", **given}
        for words, given in (("optimal", {}), ("optimal, averaged", {"average": True}))
    }
    for schedule, (words, given) in _SCHEDULES.items():
        for step in _STEPS[schedule]:
            eta0 = float(f"{step * scale:.3g}")
            settings[f"{words}, eta0={eta0}"] = {"learning_rate": schedule, "eta0": eta0, **given}
    name = "SGDRegressor" if task.loss == "squared_error" else "SGDClassifier"
    return [
        Config(
            words,
            _sgd_fit(_LINEAR, name, task, given),
            late=given["learning_rate"] == "adaptive",
        )
        for words, given in settings.items()
    ]


def _sgd_fit(module: str, name: str, task: Task, given: dict[str, Any]) -> EstimatorFit:
    fixed = {"loss": task.loss, "alpha": task.l2, "fit_intercept": task.fit_intercept, "tol": None}
    return EstimatorFit(module, name, fixed | given, task.X, task.y, one_pass=True)


def logistic_regression(solver: str, task: Task) -> Sequence[Config]:
    """One solver of LogisticRegression; liblinear in the primal and in the dual."""
    if solver == "newton-cholesky":
        refuse_columns(task, solver)
    choices: dict[str, dict[str, Any]] = (
        {"primal": {"dual": False}, "dual": {"dual": True}}
        if solver == "liblinear"
        else {"defaults": {}}
    )
    fixed = {
        "C": weakness(task),
        "fit_intercept": task.fit_intercept,
        "tol": NEVER,
        "solver": solver,
    }
    return [
        Config(
            words,
            EstimatorFit(
                _LINEAR,
                "LogisticRegression",
                fixed | given,
                task.X,
                task.y,
                one_pass=solver in _PASS_PER_ITERATION,
            ),
            stochastic=solver in ("sag", "saga", "liblinear"),
        )
        for words, given in choices.items()
    ]


def linear_svc(task: Task) -> Sequence[Config]:
    """Coordinate descent in the dual, by liblinear."""
    fixed = {
        "loss": "hinge",
        "C": weakness(task),
        "fit_intercept": task.fit_intercept,
        "tol": NEVER,
    }
    return [
        Config(
            "dual", EstimatorFit("sklearn.svm", "LinearSVC", fixed, task.X, task.y, one_pass=True)
        )
    ]


def ridge(task: Task) -> Sequence[Config]:
    """Each solver of Ridge; for cholesky and svd the effort changes nothing."""
    fixed = {"alpha": task.l2 * task.n, "fit_intercept": task.fit_intercept, "tol": NEVER}
    return [
        Config(
            solver,
            EstimatorFit(_LINEAR, "Ridge", fixed | {"solver": solver}, task.X, task.y),
            stochastic=solver == "sag",
        )
        for solver in ("cholesky", "lsqr", "sparse_cg", "sag")
    ]


def _losses_of(solver: str) -> tuple[str, ...]:
    return ("log_loss",) if solver == "liblinear" else ("log_loss", "softmax")


# Those that reach every target come first: the others are given up far behind them.
PEERS = (
    Peer(
        "antithetic.LogisticRegression",
        "antithetic",
        our_logistic_regression,
        ("log_loss", "softmax"),
        first_beside="sklearn lbfgs",
    ),
    Peer(
        OURS,
        "antithetic",
        our_sgd,
        ("log_loss", "hinge", "softmax"),
        one_pass="defaults",
        first_beside="sklearn SGDClassifier",
    ),
    Peer("antithetic.Ridge", "antithetic", our_ridge, ("squared_error",)),
    Peer(
        "antithetic.SGDRegressor",
        "antithetic",
        our_sgd,
        ("squared_error",),
        one_pass="defaults",
        first_beside="sklearn SGDRegressor",
    ),
    Peer(
        "sklearn SGDClassifier",
        "scikit-learn",
        sgd,
        ("log_loss", "hinge"),
        rivals=True,
        one_pass="optimal",
    ),
    Peer(
        "sklearn SGDRegressor",
        "scikit-learn",
        sgd,
        ("squared_error",),
        rivals=True,
        one_pass="optimal",
    ),
    *(
        Peer(
            f"sklearn {solver}",
            "scikit-learn",
            partial(logistic_regression, solver),
            _losses_of(solver),
            one_pass="defaults" if solver in ("sag", "saga") else None,
        )
        for solver in SOLVERS
    ),
    Peer("sklearn LinearSVC", "scikit-learn", linear_svc, ("hinge",), one_pass="dual"),
    Peer("sklearn Ridge", "scikit-learn", ridge, ("squared_error",)),
)
