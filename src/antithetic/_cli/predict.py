"""``antithetic predict``: the predictions of a saved model for a file."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from antithetic._cli import console
from antithetic._cli.data import DEFAULT_BYTES, check_place, in_options, make_reading
from antithetic._cli.guard import Debug, DecimalComma, Json, MaxBytes, guarded
from antithetic._util.files import write_atomically
from antithetic.estimators.model_features import read_features
from antithetic.estimators.model_file import LinearModel, is_model_file

# Characters that a spreadsheet may take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@guarded
def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A model written by `antithetic train`.", show_default=False
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Rows to predict; labels are not needed, and not used.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="CSV file to write.", show_default="the screen"
        ),
    ] = None,
    decimal_comma: DecimalComma = False,
    max_bytes: MaxBytes = DEFAULT_BYTES,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001 - what `guarded` reads
) -> dict[str, Any]:
    """Predict the rows of FILE, as CSV.

    The columns are the prediction, the decision values, and probabilities if the loss has them.

    Columns are found by their names and may stand in any order; a file that lacks some is refused.

    For example:
      antithetic predict flowers.json new-flowers.csv --out predictions.csv
      antithetic predict flowers.json new-flowers.csv | head
    """
    if out is not None:
        check_place(out, model, file)
    if not is_model_file(model) and file.is_file() and is_model_file(file):
        raise ValueError(f"{file} is a model and {model} is not; the model comes first")
    held = LinearModel.load(model)
    with in_options():
        reading = make_reading(decimal_comma=decimal_comma, max_bytes=max_bytes)
        X, notes = read_features(file, held, reading)
    for note in notes:
        console.warn(note)
    columns = predictions(held, X.astype(np.float64, copy=False))
    if as_json and out is None:
        return {
            "rows": X.shape[0],
            "columns": {name: list(values) for name, values in columns.items()},
        }
    content = _csv(columns)
    if out is None:
        sys.stdout.write(console.clean(content) if sys.stdout.isatty() else content)
    else:
        write_atomically(out, content.encode("utf-8"))
        if not as_json:
            console.say(f"{X.shape[0]} predictions written to {console.plain(out)}")
    return {"rows": X.shape[0], "out": out, "columns": list(columns)}


def predictions(model: LinearModel, X: Any) -> dict[str, Any]:
    """Columns of the answer: those of the estimator that was saved, to the last bit."""
    estimator = model.estimator(check_names=False)  # columns were matched by name
    _refuse_overflow(model, X)
    columns: dict[str, Any] = {"prediction": estimator.predict(X).tolist()}
    if model.classes is None:
        return columns
    labels = [f"{label:g}" if isinstance(label, float) else str(label) for label in model.classes]
    decision = estimator.decision_function(X)
    if decision.ndim == 1:
        columns["decision"] = decision.tolist()
    else:
        columns |= {
            f"decision {label}": values.tolist()
            for label, values in zip(labels, decision.T, strict=True)
        }
    if hasattr(estimator, "predict_proba"):
        columns |= {
            f"probability {label}": values.tolist()
            for label, values in zip(labels, estimator.predict_proba(X).T, strict=True)
        }
    return columns


def _refuse_overflow(model: LinearModel, X: Any) -> None:
    """Raise ValueError for rows whose products with the weights are not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(np.asarray(X @ model.coef.T) + model.intercept).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"row {int(np.argmin(finite))} has no finite prediction: the weights of the model, up"
            f" to {np.abs(model.coef).max():.3g}, are too large for its features"
        )


def _csv(columns: dict[str, Any]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_harmless(name) for name in columns])
    writer.writerows(_lines(columns))
    return text.getvalue()


def _lines(columns: dict[str, Any]) -> Iterator[list[Any]]:
    for row in zip(*columns.values(), strict=True):
        yield [_harmless(value) if isinstance(value, str) else repr(value) for value in row]


def _harmless(word: str) -> str:
    """Return a word so that a spreadsheet does not take it for a formula; numbers stay numbers."""
    try:
        float(word)
    except ValueError:
        return f"'{word}" if word.startswith(_FORMULA) else word
    return word
