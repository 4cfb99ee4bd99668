"""``antithetic compare``: which order helps on a user's own data."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from antithetic._cli import console
from antithetic._cli.data import (
    DEFAULT_BYTES,
    Data,
    make_reading,
    read_data,
    refuse_foreign,
    refuse_inputs,
)
from antithetic._cli.guard import (
    Dates,
    Debug,
    DecimalComma,
    Features,
    Json,
    LabelledFile,
    LeaveOut,
    LossName,
    MaxBytes,
    OneHot,
    Target,
    guarded,
)
from antithetic._util.files import write_atomically
from antithetic._util.versions import versions
from antithetic.datasets._reading import Reading
from antithetic.paper.compare import BATCH_SIZE, Comparison, compare_orders
from antithetic.paper.report.of_comparison import (
    COLUMNS,
    about_minimum,
    about_scales,
    advice_beside,
    comparison_content,
    comparison_rows,
    gain,
)
from antithetic.paper.report.page import write_page
from antithetic.paper.report.pictures import write_pictures

_MOST_ROWS = 50_000
_FILES = ("report.html", "curves.csv", "train.py")
# Shorter than COLUMNS.
_HEADS = (
    "order",
    "gap",
    "gap ratio",
    "var. first",
    "var. end",
    "table s",
    "train s",
    "to goal s",
)


_Alpha = Annotated[float, typer.Option(min=0.0, metavar="X", help="Strength of the L2 penalty.")]
_Epochs = Annotated[int, typer.Option(min=1, metavar="N", help="Passes of each run.")]
_Seeds = Annotated[int, typer.Option(min=1, metavar="N", help="Runs with each order.")]
_Rows = Annotated[
    int,
    typer.Option(
        min=2, metavar="N", help="Maximum number of rows; a random sample of larger files."
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FOLDER", help="Folder for a report with curves."),
]


@guarded
def compare(
    file: LabelledFile,
    target: Target = None,
    loss: LossName = None,
    alpha: _Alpha = 1e-4,
    epochs: _Epochs = 20,
    seeds: _Seeds = 3,
    rows: _Rows = _MOST_ROWS,
    one_hot: OneHot = False,
    features: Features = None,
    leave_out: LeaveOut = None,
    dates: Dates = False,
    decimal_comma: DecimalComma = False,
    max_bytes: MaxBytes = DEFAULT_BYTES,
    out: _Out = None,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001 - what `guarded` reads
) -> dict[str, Any]:
    """Train on FILE with each order of its rows, and report which one helps and what it costs.

    Each order gets the best of four first steps around the one that is found from the data. The gap
    is the share of the way to the minimum that is still to go; times are measured side by side. The
    output ends with a snippet of Python to paste.

    For example:
      antithetic compare flowers.csv
      antithetic compare clicks.svm.bz2 --loss hinge --alpha 1e-5 --out clicks-report
      antithetic compare houses.parquet --target price --one-hot --json
    """
    if out is not None:
        for name in _FILES:
            refuse_inputs(out / name, file)
        refuse_foreign(out, _FILES)
    reading = make_reading(target, features, leave_out, one_hot, dates, decimal_comma, max_bytes)
    data = read_data(file, reading, loss=loss)
    X, y, notes = _problem(data, rows)
    with console.progress() as tell:
        found = compare_orders(
            X, y, loss=data.loss, alpha=alpha, epochs=epochs, seeds=seeds, progress=tell
        )
        code = snippet(data, found, epochs=epochs)
        settings = {
            "file": file.name,
            "loss": data.loss,
            "alpha": alpha,
            "epochs": epochs,
            "seeds": seeds,
            "batch size": BATCH_SIZE,
        }
        files = (
            []
            if out is None
            else _write(found, data, code, settings | {"note": " ".join(notes)}, out)
        )
    table = comparison_rows(found)
    if not as_json:
        _show(found, data, notes, table, code, files)
    about = {"file": file, "rows": found.n, "features": found.d, "settings": settings}
    return (
        about
        | _findings(found, data, table)
        | {"notes": notes, "snippet": code, "seconds": found.seconds, "files": files}
    )


def _findings(found: Comparison, data: Data, table: list[list[object]]) -> dict[str, Any]:
    """What was found, for machines."""
    minimum, best = found.minimum, found.recommended
    return {
        "orders": [dict(zip(COLUMNS, row, strict=True)) for row in table],
        "curves": {one.name: found.gap(one).mean(axis=0) for one in found.measured},
        "recommended": {"name": best.name, "order": best.order},
        "gain": gain(found),
        "minimum": {
            "value": minimum.value,
            "error": minimum.error,
            "certified": found.certified,
            "seconds": minimum.seconds,
        },
        "scales": about_scales(found, data.feature_names),
        "advice": " ".join(advice_beside(found)),
    }


def _problem(data: Data, most: int) -> tuple[Any, Any, list[str]]:
    """Rows and labels of two classes, or numbers, of at most ``most`` rows.

    Also notes on what was decided.
    """
    X, y, notes = data.X, np.asarray(data.y), [data.note] if data.note else []
    if data.classes is not None and len(data.classes) > 2:
        labels, counts = np.unique(y, return_counts=True)
        label = labels[int(np.argmax(counts))]
        y = np.where(y == label, 1.0, -1.0)
        notes.append(
            f"Of {len(labels)} classes, the most frequent, {console.plain(label)}, is compared"
            " against the rest."
        )
    if len(y) > most:
        chosen = np.sort(np.random.default_rng(0).choice(len(y), most, replace=False))
        if data.classes is not None and len(np.unique(y[chosen])) < 2:
            raise ValueError(f"the {most} rows of --rows are all of one class; use more rows")
        notes.append(f"Compared on {most} random rows of {len(y)}.")
        X, y = X[chosen], y[chosen]
    return X, y, notes


def snippet(data: Data, found: Comparison, *, epochs: int) -> str:
    """Python code that trains the recommended estimator on the user's file.

    It uses the steps that were measured, unless the scales of the columns spoil them.
    """
    name, best = "SGDRegressor" if data.classes is None else "SGDClassifier", found.recommended
    given: dict[str, Any] = {
        "loss": data.loss,
        "alpha": found.alpha,
    }
    if not found.is_far:
        given |= {"order": best.order, "batch_size": BATCH_SIZE}
    # steps that diverge, or that large columns have shortened for all, are of no use
    if np.isfinite(best.run_seconds) and not found.scales_cost:
        steps = best.steps
        given |= {"learning_rate": "inverse_time", "eta0": steps.eta0, "decay": steps.decay}
    given |= {"max_iter": epochs, "tol": None, "random_state": 0}
    defaults = asdict(Reading(progress=data.reading.progress))
    options = "".join(
        f", {key}={value!r}"
        for key, value in asdict(data.reading).items()
        if value != defaults[key]
    )
    arguments = "".join(f"    {key}={value!r},\n" for key, value in given.items())
    objects = [type(best.order).__name__, *(["Pairs"] if best.order.pairs is not None else [])]
    orders = f"from antithetic.orders import {', '.join(sorted(objects))}\n"
    return (
        f"from antithetic import {name}\n"
        "from antithetic.datasets import read_file\n"
        f"{'' if found.is_far else orders}\n"
        f"data = read_file({os.path.abspath(data.path)!r}{options})\n"
        f"model = {name}(\n{arguments})\n"
        "model.fit(data.data, data.target)\n"
        "print(model.score(data.data, data.target))\n"
    )


def _write(
    found: Comparison, data: Data, code: str, settings: dict[str, object], out: Path
) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    content = comparison_content(
        found,
        data.path.name,
        settings=settings,
        versions=versions(),
        columns=data.feature_names,
    )
    page, curves, script = (out / name for name in _FILES)
    write_page(content, page)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["order", "seed", "epoch", "objective", "gap"])
    for one in found.measured:
        gap = found.gap(one)
        writer.writerows(
            [
                one.name,
                seed,
                epoch,
                repr(float(one.objective[seed, epoch])),
                repr(float(gap[seed, epoch])),
            ]
            for seed, epoch in np.ndindex(gap.shape)
        )
    write_atomically(curves, text.getvalue().encode())
    write_atomically(script, code.encode())
    return [page, curves, script, *write_pictures(content.pictures, out / "figures")]


def _show(
    found: Comparison,
    data: Data,
    notes: list[str],
    table: list[list[object]],
    code: str,
    files: list[Path],
) -> None:
    console.say(f"{console.plain(data.path.name)}: {data.shape}, {data.loss}", "bold")
    for note in notes:
        console.say(note)
    marked = [one.name for one in found.measured].index(found.recommended.name)
    console.show_table(_HEADS, table, marked=marked, digits=2)
    console.say(
        "gap: what is left of the way to the minimum, as a share, and its ratio to reshuffling's"
        " gap; var.: variance of a batch of 2, relative to independent rows; to goal: seconds until"
        " the gap is that of reshuffling at its end, table included. SGD-as is the paper's method:"
        " antithetic pairs, drawn with replacement.",
        "dim",
    )
    console.say()
    for line in about_scales(found, data.feature_names):
        console.say(console.plain(line), "bold")
    console.say(gain(found), "bold")
    console.say(about_minimum(found))
    for line in advice_beside(found):
        console.say(line)
    console.say()
    console.say_code(code)
    if files:
        console.say(f"Curves and tables: {console.plain(files[0])}")
