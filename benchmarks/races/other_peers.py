"""Other packages, where they are installed: scikit-learn-intelex, glum, Cyanure and Snap ML."""

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
    import_peer,
    refuse_columns,
)
from races.sklearn_peers import weakness
from races.tasks import Task

_CYANURE_SOLVERS = ("qning-svrg", "qning-miso", "catalyst-miso", "miso", "svrg", "acc-svrg")
_CYANURE_LOSSES = {
    "log_loss": ("Classifier", {"loss": "logistic"}),
    "softmax": ("Classifier", {"loss": "multiclass-logistic"}),
    "squared_error": ("Regression", {}),
}


def with_int32_indices(X: Any, dtype: Any = None) -> Any:
    """Rows in the form that these packages accept; dense ones as they are."""
    if not sparse.issparse(X):
        return X if dtype is None else X.astype(dtype)
    rows = sparse.csr_matrix(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows if dtype is None else rows.astype(dtype)


def intelex(task: Task) -> Sequence[Config]:
    """L-BFGS of scikit-learn-intelex, or its Ridge."""
    module = "sklearnex.linear_model"
    import_peer(module)
    fixed: dict[str, Any] = {
        "fit_intercept": task.fit_intercept,
        "n_jobs": task.threads,
        "tol": NEVER,
    }
    if task.loss == "squared_error":
        refuse_columns(task, "its Ridge")
        name, fixed = "Ridge", fixed | {"alpha": task.l2 * task.n}
    else:
        name, fixed = "LogisticRegression", fixed | {"C": weakness(task), "solver": "lbfgs"}
    fit = EstimatorFit(module, name, fixed, with_int32_indices(task.X), task.y, seeded=False)
    return [Config("defaults", fit, stochastic=False)]


def glum(task: Task) -> Sequence[Config]:
    """Iteratively reweighted least squares, and L-BFGS."""
    import_peer("glum")
    binary = task.loss == "log_loss"
    y = (task.y > 0).astype(np.float64) if binary else task.y
    fixed = {
        "family": "binomial" if binary else "normal",
        "alpha": task.l2,
        "l1_ratio": 0.0,
        "fit_intercept": task.fit_intercept,
        "gradient_tol": NEVER,
    }
    X = with_int32_indices(task.X)
    solvers = ("lbfgs",) if task.d > 5000 else ("irls-ls", "lbfgs")
    return [
        Config(
            solver,
            EstimatorFit(
                "glum",
                "GeneralizedLinearRegressor",
                fixed | {"solver": solver},
                X,
                y,
                seeded=False,
            ),
            stochastic=False,
        )
        for solver in solvers
    ]


def cyanure(task: Task) -> Sequence[Config]:
    """Its stochastic solvers.

    The duality gap, which it would compute from time to time to know when to stop, is computed only
    at the end.
    """
    module = "cyanure.estimators"
    import_peer(module)
    name, loss = _CYANURE_LOSSES[task.loss]
    fixed = {
        **loss,
        "penalty": "l2",
        "fit_intercept": task.fit_intercept,
        "tol": NEVER,
        "n_threads": task.threads,
        "verbose": False,
        "lambda_1": task.l2,
    }
    X = with_int32_indices(task.X)
    # svrg takes gradients of a row at two points, and sometimes of all; wrapped solvers take more
    return [
        Config(
            solver,
            EstimatorFit(
                module,
                name,
                fixed | {"solver": solver},
                X,
                task.y,
                _until_the_end,
                one_pass=solver == "miso",
                transposed=task.loss == "softmax",
            ),
        )
        for solver in _CYANURE_SOLVERS
    ]


def _until_the_end(effort: int) -> dict[str, Any]:
    return {"max_iter": effort, "duality_gap_interval": effort}


def snap_ml(task: Task) -> Sequence[Config]:
    """Snap ML's dual coordinate descent, recommended where rows outnumber features."""
    import_peer("snapml")
    fixed: dict[str, Any] = {
        "regularizer": task.l2 * task.n,
        "tol": NEVER,
        "n_jobs": task.threads,
        "fit_intercept": task.fit_intercept,
    }
    logistic = task.loss == "log_loss"
    fit = partial(
        EstimatorFit,
        "snapml",
        "LogisticRegression" if logistic else "SupportVectorMachine",
        fixed | ({"dual": True} if logistic else {}),
        with_int32_indices(task.X, np.float32),  # what it computes with
        task.y,
    )
    return [Config("dual", fit(one_pass=True))]


PEERS = (
    Peer(
        "scikit-learn-intelex",
        "scikit-learn-intelex",
        intelex,
        ("log_loss", "softmax", "squared_error"),
        module="sklearnex.linear_model",
    ),
    Peer("glum", "glum", glum, ("log_loss", "squared_error"), module="glum"),
    Peer(
        "Cyanure",
        "cyanure",
        cyanure,
        tuple(_CYANURE_LOSSES),
        one_pass="miso",
        module="cyanure.estimators",
    ),
    Peer("Snap ML", "snapml", snap_ml, ("log_loss", "hinge"), one_pass="dual", module="snapml"),
)
