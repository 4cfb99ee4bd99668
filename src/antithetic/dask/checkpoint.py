"""Checkpoints: the weights after an iteration, with which a fit of the same data begins again."""

from __future__ import annotations

import os
from hashlib import blake2b

import numpy as np

from antithetic.dask.newton import First
from antithetic.dask.scan import Glance
from antithetic.pairing import store

_FORMAT = "antithetic dask weights 1"
_ADVICE = "delete the file to start again, or choose another file"
Path = str | os.PathLike[str] | None


def mark_data(name: str, glances: list[Glance]) -> str:
    """Hash of an estimator's name and of what was seen of the blocks."""
    mark = blake2b(name.encode(), digest_size=16)
    for one in glances:
        mark.update(f"{one.rows} {one.width} {one.kind} {one.mark};".encode())
    return mark.hexdigest()


def save(path: Path, mark: str, weights: First) -> None:
    """Write weights and intercepts; a file without pickle replaces the last when complete."""
    if path is not None:
        arrays = zip(("coef", "intercept"), weights, strict=True)
        columns = {name: np.array(one, np.float64).ravel() for name, one in arrays}
        store.write(path, {"format": _FORMAT, "mark": mark}, columns)


def load(path: Path, mark: str, d: int, rows: int) -> First | None:
    """Read what :func:`save` wrote for the same data, ``rows`` rows of ``d`` weights.

    None if there is no file. No code in the file is run, and everything in it is checked.
    """
    if path is None or not os.path.exists(path):
        return None
    name = os.fspath(path)
    try:
        meta, arrays = store.read(path, {"coef": np.float64, "intercept": np.float64})
        if meta.get("format") != _FORMAT:
            raise ValueError(f"its format is {meta.get('format')!r}, not {_FORMAT!r}")
        is_mine = meta["mark"] == mark
        coef, intercept = arrays["coef"], arrays["intercept"]
        if is_mine and (len(coef) != rows * d or len(intercept) != rows):
            raise ValueError(f"it has {len(coef)} weights and {len(intercept)} intercepts")
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise ValueError("its weights are not finite")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is not a checkpoint of this version, or it is damaged ({error}); {_ADVICE}"
        ) from error
    if not is_mine:
        raise ValueError(
            f"checkpoint {name!r} belongs to another estimator, other data or other blocks;"
            f" {_ADVICE}"
        )
    return (coef, float(intercept[0])) if rows == 1 else (coef.reshape(rows, d), intercept)
