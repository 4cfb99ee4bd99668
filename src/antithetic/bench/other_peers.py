"""Cyanure and Snap ML, where they are installed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.bench.peer import Config, Fit, Peer, import_peer
from antithetic.bench.rows import THREADS
from antithetic.bench.tasks import Task

_NEVER = 1e-14
_CYANURE_SOLVERS = ("qning-svrg", "qning-miso", "catalyst-miso", "miso", "svrg", "acc-svrg")
# svrg takes gradients of a row at two points, and sometimes of all; wrapped solvers take more.
_PASS_PER_ITERATION = ("miso",)


def _rows(task: Task) -> Any:
    """Rows in the forms that these packages accept."""
    if not sparse.issparse(task.X):
        return task.X
    rows = sparse.csr_matrix(task.X)
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows


def cyanure(task: Task) -> Sequence[Config]:
    """Its stochastic solvers.

    The duality gap, which it would compute now and then to know when to stop, only at the end.
    """
    estimators, rows = import_peer("cyanure.estimators"), _rows(task)
    return [
        Config(solver, partial(_fit_cyanure, estimators.Classifier, rows, task, solver))
        for solver in _CYANURE_SOLVERS
    ]


def _fit_cyanure(estimator: Any, rows: Any, task: Task, solver: str, effort: int, seed: int) -> Fit:
    fixed = {
        "loss": "logistic",
        "penalty": "l2",
        "fit_intercept": False,
        "tol": _NEVER,
        "n_threads": THREADS,
        "verbose": False,
    }
    model = estimator(
        **fixed,
        solver=solver,
        lambda_1=task.l2,
        max_iter=effort,
        duality_gap_interval=effort,
        random_state=seed,
    )
    model.fit(rows, task.y)
    iterations = float(np.max(model.n_iter_))
    return Fit(model.coef_, iterations, iterations if solver in _PASS_PER_ITERATION else np.nan)


def snap_ml(task: Task) -> Sequence[Config]:
    """Snap ML's dual coordinate descent, recommended where rows outnumber features."""
    package, rows = import_peer("snapml"), _rows(task).astype(np.float32)  # what it computes with
    return [Config("dual", partial(_fit_snap, package, rows, task.y, task))]


def _fit_snap(
    package: Any, rows: Any, y: NDArray[np.float64], task: Task, effort: int, seed: int
) -> Fit:
    fixed = {
        "regularizer": task.l2 * task.n,
        "tol": _NEVER,
        "n_jobs": THREADS,
        "fit_intercept": False,
    }
    estimator = (
        partial(package.LogisticRegression, dual=True)
        if task.loss == "log_loss"
        else package.SupportVectorMachine
    )
    model = estimator(**fixed, max_iter=effort, random_state=seed).fit(rows, y)
    return Fit(model.coef_, float(model.n_iter_), float(model.n_iter_))


PEERS = (
    Peer("Cyanure", "cyanure", cyanure, ("log_loss",), one_pass="miso"),
    Peer("Snap ML", "snapml", snap_ml, one_pass="dual"),
)
