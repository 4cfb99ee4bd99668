"""Which estimator `antithetic train` uses where it may choose, here or on a cluster."""

from __future__ import annotations

import math
from typing import Any

from antithetic._util.validation import did_you_mean

LOSSES = ("log_loss", "squared_error", "poisson", "gamma", "tweedie")
_L1_RATIOS = {None: 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": 0.15}  # as SGDClassifier's default
_TWEEDIE_POWER = 1.5  # that of the loss "tweedie"


def check_penalty(penalty: str | None) -> None:
    """Raise ValueError for a penalty that is not known."""
    if penalty not in _L1_RATIOS:
        raise ValueError(
            f"--penalty {penalty} is not known; use one of l2, l1, elasticnet, none"
            f"{did_you_mean(penalty, [one for one in _L1_RATIOS if one])}"
        )


def has_l1(penalty: str | None) -> bool:
    """Whether a penalty has an L1 part, which only classes support."""
    return _L1_RATIOS[penalty] > 0.0


def why_not_exact(loss: str, penalty: str | None, order: str, pairs: Any) -> str | None:
    """Say why these options need SGD; None if an exact class supports them."""
    if order != "auto" or pairs is not None:
        return "--order and --pairs choose the rows of SGD's steps"
    if loss not in LOSSES:
        return f"--loss {loss} is not supported by an exact class"
    if has_l1(penalty) and loss != "log_loss":
        return f"--penalty {penalty} of an exact class needs classes and --loss log_loss"
    return None


def exact_model(chosen: dict[str, Any], rows: int) -> tuple[str, dict[str, Any]]:
    """Return the name of the class for a loss, here or in ``antithetic.dask``, and parameters.

    The penalty is ``alpha`` times that of a mean loss over so many rows.
    """
    loss, alpha, penalty = chosen["loss"], chosen["alpha"], chosen["penalty"]
    given = {
        "fit_intercept": chosen["fit_intercept"],
        "max_iter": chosen["max_iter"],
        "tol": chosen["tol"] or 0.0,
    }
    seed = {"random_state": chosen["random_state"]}
    if penalty is None:
        alpha = 0.0
    if loss == "log_loss":
        C = 1.0 / (alpha * rows) if alpha > 0.0 else math.inf
        return "LogisticRegression", {"C": C, "l1_ratio": _L1_RATIOS[penalty]} | given | seed
    if loss == "squared_error":
        return "Ridge", {"alpha": alpha * rows} | given | seed
    if loss == "tweedie":
        given["power"] = _TWEEDIE_POWER
    return f"{loss.capitalize()}Regressor", {"alpha": alpha} | given
