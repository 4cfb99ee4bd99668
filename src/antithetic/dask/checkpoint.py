"""A fit as a file: where it stands after a round, to go on from when the cluster, or the program, was lost."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.search import Standing
from antithetic.pairing import store

_FORMAT = "antithetic dask checkpoint 1"
_COLUMNS = ("weights", "gradients", "points", "moves", "known", "numbers", "history", "steps")


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """A fit as far as it has come.

    Attributes
    ----------
    standings : tuple of Standing
        One per problem.
    rounds : int
        Rounds done.
    history : tuple of tuple of float
        Of each round its seconds since the fit began, and for each problem the objective and the gradient's norm.
    seeds : tuple of int
        One per problem.
    steps : tuple of float
        Step size and decay that were found, for each problem.
    """

    standings: tuple[Standing, ...]
    rounds: int = 0
    history: tuple[tuple[float, ...], ...] = ()
    seeds: tuple[int, ...] = ()
    steps: tuple[float, ...] = field(default=())


def save(path: str | os.PathLike[str], mark: dict[str, Any], progress: Progress) -> None:
    """Write a fit: one ``.npz`` without pickle, which replaces the one before once it is complete."""
    standings = progress.standings
    numbers = [[one.value, one.lowered, one.best, one.waited, one.stopped] for one in standings]
    arrays: dict[str, NDArray[Any]] = {
        "weights": np.concatenate([one.weights for one in standings]),
        "gradients": np.concatenate([one.gradient for one in standings]),
        "points": np.concatenate([one.points.ravel() for one in standings]),
        "moves": np.concatenate([one.moves.ravel() for one in standings]),
        "known": np.array([len(one.points) for one in standings], np.float64),
        "numbers": np.array(numbers, np.float64).ravel(),
        "history": np.array(progress.history, np.float64).ravel(),
        "steps": np.array(progress.steps, np.float64),
    }
    meta = {"format": _FORMAT, "mark": mark, "rounds": progress.rounds, "seeds": list(progress.seeds)}
    store.write(path, meta, arrays)


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Progress]:
    """Read what :func:`save` wrote: what it is of, and the fit. Nothing in the file is run."""
    try:
        meta, arrays = store.read(path, dict.fromkeys(_COLUMNS, np.float64))
        if meta.get("format") != _FORMAT:
            raise ValueError(f"its format is {meta.get('format')!r}, and this version reads {_FORMAT!r}")
        k, rounds = len(meta["seeds"]), int(meta["rounds"])
        weights, gradients = (arrays[name].reshape(k, -1) for name in ("weights", "gradients"))
        known, numbers = arrays["known"].astype(np.intp), arrays["numbers"].reshape(k, 5)
        width = weights.shape[1]
        points, moves = (np.split(arrays[name].reshape(-1, width), np.cumsum(known)[:-1]) for name in ("points", "moves"))
        standings = tuple(
            Standing(
                weights[i].copy(),
                float(numbers[i, 0]),
                gradients[i].copy(),
                points[i].copy(),
                moves[i].copy(),
                int(numbers[i, 1]),
                float(numbers[i, 2]),
                int(numbers[i, 3]),
                bool(numbers[i, 4]),
            )
            for i in range(k)
        )
        history = tuple(tuple(row) for row in arrays["history"].reshape(rounds, 1 + 2 * k).tolist())
        return dict(meta["mark"]), Progress(standings, rounds, history, tuple(map(int, meta["seeds"])), tuple(arrays["steps"].tolist()))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{os.fspath(path)} is not a checkpoint, or it is damaged ({error}); delete it to begin anew") from error
