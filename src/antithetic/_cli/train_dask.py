"""``antithetic train --dask``: a linear model of files in blocks, on a cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from antithetic._cli import console
from antithetic._cli.data import check_place, in_options
from antithetic._cli.exact import LOSSES, check_penalty, exact_model, has_l1
from antithetic._cli.trained import Trained
from antithetic._util.validation import did_you_mean
from antithetic.datasets._reading import Reading
from antithetic.problem.losses import ALL_LOSSES


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
        chosen = chosen | {"loss": loss or found, "solver": "exact"}
        if has_l1(chosen["penalty"]) and chosen["loss"] != "log_loss":
            raise ValueError(
                f"--penalty {chosen['penalty']} with --dask needs classes and --loss log_loss; use"
                " --penalty l2 or none"
            )
        from antithetic import dask

        name, given = exact_model(chosen, data.rows)
        verbose = 0 if as_json else 1
        kind = getattr(dask, name)
        estimator = kind(**given, client=client, checkpoint=checkpoint, verbose=verbose)
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
        trained.show(heading, [], model=model)
    return trained.summary(model)


def _check(chosen: dict[str, Any]) -> None:
    """Raise ValueError for options that Newton's method on blocks does not support."""
    loss, penalty = chosen["loss"], chosen["penalty"]
    if loss is not None and loss not in LOSSES:
        hint = did_you_mean(loss, LOSSES)
        known = "is not supported with --dask" if loss in ALL_LOSSES else "is not known"
        raise ValueError(f"--loss {loss} {known}; use one of {', '.join(LOSSES)}{hint}")
    check_penalty(penalty)
    for name in ("solver", "order"):
        if chosen[name] not in ("auto", "exact"):  # an order has no such name
            raise ValueError(
                f"--{name} {chosen[name]} is not supported with --dask, which uses Newton's method;"
                f" leave --{name} out"
            )


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
