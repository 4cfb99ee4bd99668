"""``antithetic train``: a linear model of a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from antithetic._cli import console
from antithetic._cli.data import (
    DEFAULT_BYTES,
    Data,
    check_place,
    in_options,
    make_reading,
    read_data,
)
from antithetic._cli.exact import check_penalty, exact_model, why_not_exact
from antithetic._cli.guard import (
    Dates,
    Debug,
    DecimalComma,
    Features,
    Json,
    LeaveOut,
    LossName,
    MaxBytes,
    OneHot,
    Target,
    guarded,
)
from antithetic._cli.held_out import DEFAULT_SHARE, hold_out
from antithetic._cli.trained import Trained
from antithetic.estimators.model_file import is_model_file, refuse_other_formats
from antithetic.orders import Order
from antithetic.orders.order import ORDERS
from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.pairing.pairer import METHODS
from antithetic.stochastic import SOLVERS

_File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Labelled data; with --dask also a folder, or a pattern in quotes.",
        show_default=False,
    ),
]
_Model = Annotated[
    Path,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Where to write the model, a .json file.",
        show_default=False,
    ),
]
_Alpha = Annotated[float, typer.Option(metavar="X", help="Strength of the penalty.")]
_Penalty = Annotated[str, typer.Option(metavar="NAME", help="l2, l1, elasticnet or none.")]
_Solver = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"exact, or {', '.join(SOLVERS)}.",
        show_default="exact; sgd for other losses, or with --order",
    ),
]
_Order = Annotated[
    str, typer.Option(metavar="NAME", help=f"Order of the rows: auto, {', '.join(ORDERS)}.")
]
_Pairs = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"Which rows are used together: {', '.join(METHODS)}, or a table that"
        " `antithetic pair` made for this file, without --nest.",
    ),
]
_Epochs = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Maximum number of passes over the data, or of iterations."
    ),
]
_Tol = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="X",
        help="Stop at this gap from the optimum; SGD: when five epochs gain less. 0 makes all"
        " passes.",
    ),
]
_Intercept = Annotated[
    bool, typer.Option("--intercept/--no-intercept", help="Whether to fit an intercept.")
]
_Seed = Annotated[int, typer.Option(min=0, metavar="N", help="The same seed gives the same bits.")]
_Validation = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=0.9,
        metavar="SHARE",
        help="Share of rows held out for a score; the model is then trained on all rows.",
        show_default=f"{DEFAULT_SHARE}, none with --dask",
    ),
]
_Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Train on a Dask cluster: a scheduler's address, or local.",
        show_default=False,
    ),
]
_Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --dask: write the weights here after each iteration, and continue from them.",
        show_default=False,
    ),
]


@guarded
def train(
    file: _File,
    model: _Model,
    target: Target = None,
    loss: LossName = None,
    alpha: _Alpha = 1e-4,
    penalty: _Penalty = "l2",
    solver: _Solver = None,
    order: _Order = "auto",
    pairs: _Pairs = None,
    epochs: _Epochs = 1000,
    tol: _Tol = 1e-4,
    intercept: _Intercept = True,
    one_hot: OneHot = False,
    features: Features = None,
    leave_out: LeaveOut = None,
    dates: Dates = False,
    decimal_comma: DecimalComma = False,
    max_bytes: MaxBytes = DEFAULT_BYTES,
    validation: _Validation = None,
    seed: _Seed = 0,
    dask: _Dask = None,
    checkpoint: _Checkpoint = None,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001 - what `guarded` reads
) -> dict[str, Any]:
    """Train a linear model on FILE and save it as JSON.

    Words and whole numbers in the target are classes, other numbers a regression. The model is
    LogisticRegression or Ridge (for counts and amounts: --loss poisson, gamma or tweedie), fitted
    until a bound proves that it is at the optimum; with another loss or --order it is trained by
    SGD. Columns need no scaling, and there is no learning rate to tune.

    For example:
      antithetic train flowers.csv --model flowers.json
      antithetic train houses.parquet -t price -m houses.json --one-hot
      antithetic train clicks.svm --model svm.json --loss hinge --alpha 1e-5
      antithetic train flowers.csv --model flowers.json --order shuffle --pairs greedy
      antithetic train flowers.csv --model flowers.json --solver sgd --pairs table.npz
      antithetic train "clicks/*.parquet" --model clicks.json --dask tcp://10.0.0.1:8786
    """
    if solver not in (None, "exact", *SOLVERS):
        raise ValueError(f"--solver {solver} is not known; use one of exact, {', '.join(SOLVERS)}")
    table = _table_file(order, pairs)
    reading = make_reading(target, features, leave_out, one_hot, dates, decimal_comma, max_bytes)
    _check_model_place(model, file, table)
    chosen: dict[str, Any] = {
        "loss": loss,
        "alpha": alpha,
        "penalty": None if penalty == "none" else penalty,
        "solver": solver or "auto",
        "order": order,
        "fit_intercept": intercept,
        "max_iter": epochs,
        "tol": tol or None,
        "random_state": seed,
    }
    if dask is not None:
        if pairs is not None or one_hot or dates or validation:
            raise ValueError(
                "--pairs, --one-hot, --dates and --validation need all rows at once; leave them out"
                " with --dask"
            )
        from antithetic._cli.train_dask import train_on_cluster

        return train_on_cluster(
            file, model, reading, chosen, address=dask, checkpoint=checkpoint, as_json=as_json
        )
    if checkpoint is not None:
        raise ValueError("--checkpoint needs --dask; leave it out, or name a cluster")
    data = read_data(file, reading, loss=loss)
    chosen |= {"loss": data.loss, "pairs": pairs if table is None else table.name}
    chosen["solver"] = _solver(chosen)
    trained, notes = _fit(data, chosen, None if table is None else _table_of(table), validation)
    trained.save(model, table=None if table is None else table.name, data=data.read)
    if not as_json:
        trained.show(f"{console.plain(file.name)}: {data.shape}", notes, model=model)
    return trained.summary(model)


def _solver(chosen: dict[str, Any]) -> str:
    """Return the solver: exact if possible, unless the user has named another."""
    given: str = chosen["solver"]
    if given in SOLVERS:
        return given
    check_penalty(chosen["penalty"])
    reason = why_not_exact(chosen["loss"], chosen["penalty"], chosen["order"], chosen["pairs"])
    if given == "exact" and reason is not None:
        raise ValueError(f"{reason}; use --solver sgd")
    return "exact" if reason is None else "sgd"


def _check_model_place(model: Path, *inputs: Path | None) -> None:
    """Refuse to write a model over anything but a model."""
    check_place(model, *inputs)
    refuse_other_formats(model)
    if model.is_file() and model.stat().st_size and not is_model_file(model):
        raise ValueError(
            f"{model} exists and is not a model; name another file, or delete it first"
        )


def _table_file(order: str, pairs: str | None) -> Path | None:
    """Check combined options; return the file that ``--pairs`` names, unless it is a method."""
    if order not in ("auto", *ORDERS):
        raise ValueError(f"--order {order} is not known; use one of auto, {', '.join(ORDERS)}")
    if pairs is None:
        return None
    if order == "stratified":
        raise ValueError(
            "--order stratified needs two units in a batch, and a batch is one pair; leave --pairs"
            " out, or use another order"
        )
    if pairs in METHODS:
        if order == "auto":
            raise ValueError(
                f"--pairs {pairs} needs an order to draw its pairs: add --order uniform, which is"
                " the paper's, or shuffle or balanced"
            )
        return None
    if not Path(pairs).is_file():
        raise ValueError(
            f"--pairs {pairs} is neither a method nor a file; use one of {', '.join(METHODS)}, or a"
            " table of `antithetic pair`"
        )
    return Path(pairs)


def _table_of(path: Path) -> AntitheticTable:
    try:
        return AntitheticTable.load(path)
    except ValueError:
        if not _holds_groups(path):
            raise
    raise ValueError(
        f"{path} holds groups, made with --nest, and training takes pairs; rebuild the table"
        " without --nest"
    )


def _holds_groups(path: Path) -> bool:
    try:
        GroupTable.load(path)
    except ValueError:
        return False
    return True


def _order(word: str, method: str | None) -> str | Order:
    """Return an order whose pairs are made by a method, or the word itself."""
    if method is None:
        return word
    return ORDERS[word](pairs=method)  # type: ignore[call-arg]  # each of these has pairs


def _fit(
    data: Data, chosen: dict[str, Any], table: AntitheticTable | None, share: float | None
) -> tuple[Trained, list[str]]:
    """Train on all rows, and once without a share of them for a score; also return notes."""
    if chosen["solver"] == "exact":
        for unused in ("order", "pairs"):
            del chosen[unused]

    def fit(X: Any, y: Any, rows: Any = None) -> Any:
        with in_options():
            if chosen["solver"] == "exact":
                return _exact(chosen, X.shape[0]).fit(X, y)
            return _sgd(data, chosen, table is None).fit(
                X, y, table=table if table is None or rows is None else table[rows]
            )

    X, y = data.X.astype(np.float64, copy=False), np.asarray(data.y)
    began = time.perf_counter()
    estimator = fit(X, y)
    seconds = time.perf_counter() - began
    score = float(estimator.score(X, y))
    share = DEFAULT_SHARE if share is None else share
    held_out, note = hold_out(
        data, share, chosen["random_state"], lambda rows: fit(X[rows], y[rows], rows)
    )
    trained = Trained(estimator, chosen, X.shape[0], seconds, score, held_out)
    return trained, [each for each in (data.note, note) if each]


def _exact(chosen: dict[str, Any], rows: int) -> Any:
    """Return an estimator that is fitted to a proven gap."""
    from antithetic.estimators import logistic, regression  # a second of import

    name, given = exact_model(chosen, rows)
    return getattr(logistic if name == "LogisticRegression" else regression, name)(**given)


def _sgd(data: Data, chosen: dict[str, Any], has_order: bool) -> Any:
    """Return an SGD estimator; a table that fit is given has no order of its own."""
    from antithetic.estimators.sgd import SGDClassifier, SGDRegressor

    given = {name: value for name, value in chosen.items() if name != "pairs"}
    if has_order:
        given["order"] = _order(chosen["order"], chosen["pairs"])
    kind = SGDRegressor if data.classes is None else SGDClassifier
    return kind(**given)
