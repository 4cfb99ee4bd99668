"""``antithetic pair``: an antithetic table of a file, and how good it is."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from antithetic._cli import console
from antithetic._cli.data import DEFAULT_BYTES, Data, check_place, make_reading, read_data
from antithetic._cli.guard import (
    Dates,
    Debug,
    DecimalComma,
    Features,
    Json,
    LabelledFile,
    LeaveOut,
    MaxBytes,
    OneHot,
    Target,
    guarded,
)
from antithetic.pairing import GroupTable
from antithetic.pairing import pair as make_table
from antithetic.pairing.pairer import METHODS

_Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="TABLE",
        help="Where to write the table, an .npz file.",
        show_default=False,
    ),
]
_Method = Annotated[
    str, typer.Option(metavar="NAME", help=f"How partners are found: {', '.join(METHODS)}.")
]
_Nest = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Groups of 4, 8, ... rows instead of pairs, or 'all' for an order; `train` does not"
        " accept them, only Python does.",
    ),
]
_Loss = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Loss whose gradients are paired.", show_default="by the labels"
    ),
]
_Intercept = Annotated[
    bool,
    typer.Option("--intercept/--no-intercept", help="Whether gradients include the intercept."),
]
_Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of random methods.")]


@guarded
def pair(
    file: LabelledFile,
    out: _Out,
    target: Target = None,
    method: _Method = "auto",
    nest: _Nest = None,
    loss: _Loss = None,
    intercept: _Intercept = True,
    one_hot: OneHot = False,
    features: Features = None,
    leave_out: LeaveOut = None,
    dates: Dates = False,
    decimal_comma: DecimalComma = False,
    max_bytes: MaxBytes = DEFAULT_BYTES,
    seed: _Seed = 0,
    as_json: Json = False,
    debug: Debug = False,  # noqa: ARG001 - what `guarded` reads
) -> dict[str, Any]:
    """Find for each row of FILE the partner whose gradient opposes its own.

    The table is one .npz file for [bold]antithetic train --pairs[/bold] or AntitheticTable.load;
    with [bold]--nest[/bold] it holds groups, which Python reads with GroupTable.load and
    [bold]train[/bold] does not take. Its quality is the exact variance of the gradient of a pair,
    or group, divided by that of as many independent rows: below 1 is a gain.

    For example:
      antithetic pair flowers.csv --out table.npz
      antithetic pair flowers.csv --out table.npz --method greedy
      antithetic pair clicks.svm.bz2 --out groups.npz --nest 8
    """
    if method not in METHODS:
        raise ValueError(f"--method {method} is not known; use one of {', '.join(METHODS)}")
    check_place(out, file)
    if out.suffix != ".npz":
        raise ValueError(f"--out {out} must end in .npz, the format of tables")
    reading = make_reading(target, features, leave_out, one_hot, dates, decimal_comma, max_bytes)
    data = read_data(file, reading, loss=loss)
    groups = _group_size(nest)
    began = time.perf_counter()
    table = make_table(
        data.X,
        data.y,
        method,
        loss=data.loss,
        fit_intercept=intercept,
        nest=groups,
        progress=sys.stderr.isatty(),
        random_state=seed,
    )
    seconds = time.perf_counter() - began
    table.save(out)
    quality = _quality(table, data, intercept)
    if not as_json:
        console.say(f"{console.plain(data.path.name)}: {data.shape}", "bold")
        console.show_table(
            ("quality of the table", ""),
            [(name.replace("_", " "), value) for name, value in quality.items()],
        )
        console.say(
            f"{table.method} table, made in {seconds:.2f} s and written to {console.plain(out)}"
        )
    about = {
        "table": out,
        "method": table.method,
        "seconds": seconds,
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
    }
    return about | {"loss": data.loss, "intercept": intercept, "quality": quality}


def _group_size(nest: str | None) -> int | bool | None:
    if nest is None or nest == "all":
        return None if nest is None else True
    if not nest.isdecimal():
        raise ValueError(f"--nest {nest}: give a power of two, or 'all'")
    return int(nest)


def _quality(table: Any, data: Data, intercept: bool) -> dict[str, Any]:
    given: dict[str, Any] = {"loss": data.loss, "fit_intercept": intercept}
    if isinstance(table, GroupTable):
        return {
            "variance_ratio": table.variance_ratio(data.X, data.y, **given),
            "group_size": table.size,
            "groups": len(table.groups),
        }
    found = asdict(table.quality(data.X, data.y, **given))
    return {name: value for name, value in found.items() if value is not None}
