"""``antithetic train --dask``: a linear model of files in blocks, on a cluster."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from antithetic._cli import console
from antithetic._cli.data import check_place, in_options
from antithetic._cli.trained import Trained
from antithetic._util.validation import did_you_mean
from antithetic.datasets._reading import Reading
from antithetic.problem.losses import ALL_LOSSES

_LOSSES = ("log_loss", "squared_error", "poisson", "gamma", "tweedie")
_L1_RATIOS = {None: 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": 0.15}  # as SGDClassifier's default
_TWEEDIE_POWER = 1.5  # that of the loss "tweedie"


def train_on_cluster(
    file: Path,
    model: Path,
    reading: Reading,
    chosen: dict[str, Any],
    *,
    address: str,
    checkpoint: Path | None,
    as_json: bool,
) -> dict[str, Any]:
    """Train a model of a file, folder or pattern and save it as ``train`` does.

    Return what ``--json`` prints.
    """
    try:
        from antithetic.dask.cluster import client_of
        from antithetic.dask.files import open_files
    except ImportError as error:
        raise ImportError(f"--dask needs Dask: pip install 'antithetic[dask]' ({error})") from error
    loss = chosen["loss"]
    _check(chosen)
    if checkpoint is not None:
        check_place(checkpoint, model)
    with client_of(_address(address)) as client:
        with in_options():
            data = open_files(
                file, reading, client, quantity=None if loss is None else loss != "log_loss"
            )
        found = "squared_error" if data.classes is None else "log_loss"
        chosen = chosen | {"loss": loss or found, "solver": "newton"}
        with in_options():
            kind, strength = _model_of(chosen, data.rows)
        estimator = kind(
            **strength,
            fit_intercept=chosen["fit_intercept"],
            max_iter=chosen["max_iter"],
            tol=chosen["tol"] or 0.0,
            client=client,
            checkpoint=checkpoint,
            verbose=0 if as_json else 1,
        )
        began = time.perf_counter()
        estimator.fit(data.X, data.y)
        seconds = time.perf_counter() - began
        score = estimator.score(data.X, data.y)
    trained = Trained(estimator, chosen, data.rows, seconds, score)
    trained.save(
        model,
        table=None,
        feature_names=data.feature_names,
        target_name=data.target_name,
        one_hot=False,
        first_index=1 if data.feature_names is None else None,
    )
    if not as_json:
        task = "regression" if data.classes is None else f"{len(data.classes)} classes"
        heading = (
            f"{console.plain(file.name)}: {data.rows} rows in {len(data.X)} blocks,"
            f" {estimator.n_features_in_} features, {task}"
        )
        trained.show(heading, [], passes="iterations", model=model)
    return trained.summary(model)


def _check(chosen: dict[str, Any]) -> None:
    """Raise ValueError for options that Newton's method on blocks does not support."""
    loss, penalty = chosen["loss"], chosen["penalty"]
    if loss is not None and loss not in _LOSSES:
        hint = did_you_mean(loss, _LOSSES)
        known = "is not supported with --dask" if loss in ALL_LOSSES else "is not known"
        raise ValueError(f"--loss {loss} {known}; use one of {', '.join(_LOSSES)}{hint}")
    if penalty not in _L1_RATIOS:
        raise ValueError(
            f"--penalty {penalty} is not known; use one of l2, l1, elasticnet, none"
            f"{did_you_mean(penalty, [one for one in _L1_RATIOS if one])}"
        )
    for name in ("solver", "order"):
        if chosen[name] != "auto":
            raise ValueError(
                f"--{name} {chosen[name]} is not supported with --dask, which uses Newton's method;"
                f" leave --{name} out"
            )


def _model_of(chosen: dict[str, Any], rows: int) -> tuple[Any, dict[str, Any]]:
    """Return the estimator of a loss, and its parameters for ``alpha`` times a mean loss."""
    from antithetic import dask

    loss, alpha, penalty = chosen["loss"], chosen["alpha"], chosen["penalty"]
    seed = {"random_state": chosen["random_state"]}
    if penalty is None:
        alpha = 0.0
    if loss == "log_loss":
        C = 1.0 / (alpha * rows) if alpha > 0.0 else math.inf
        return dask.LogisticRegression, {"C": C, "l1_ratio": _L1_RATIOS[penalty]} | seed
    if _L1_RATIOS[penalty]:
        raise ValueError(
            f"--penalty {penalty} with --dask needs classes and --loss log_loss; use --penalty l2"
            " or none"
        )
    if loss == "squared_error":
        return dask.Ridge, {"alpha": alpha * rows} | seed
    kinds = {"poisson": dask.PoissonRegressor, "gamma": dask.GammaRegressor}
    if loss in kinds:
        return kinds[loss], {"alpha": alpha}
    return dask.TweedieRegressor, {"alpha": alpha, "power": _TWEEDIE_POWER}


def _address(given: str) -> str | None:
    """The address of a scheduler; None for a cluster of this machine's own."""
    if given == "local":
        return None
    if "://" not in given and ":" not in given:
        raise ValueError(
            f"--dask {given} is not an address; use 'local', or that of a scheduler, such as"
            " tcp://10.0.0.1:8786"
        )
    return given
