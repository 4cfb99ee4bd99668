"""Checkpoints of a fit after each round, from which it resumes if the cluster is lost."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.search import Standing
from antithetic.pairing import store

_KIND = "antithetic dask checkpoint"
_FORMAT = f"{_KIND} 2"
ADVICE = "delete the file to start again, or choose another file"
_COLUMNS = dict.fromkeys(
    ("weights", "gradients", "points", "moves", "known", "numbers", "history", "steps"), np.float64
)
_MOST_KNOWN = 64  # rounds that a standing remembers: a generous limit


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """The state of a fit after some rounds.

    Attributes
    ----------
    standings : tuple of Standing
        One per problem.
    rounds : int
        Rounds done.
    history : tuple of tuple of float
        For each round, the seconds since the fit began, then for each problem the objective and
        the norm of the gradient.
    seeds : tuple of int
        One per problem.
    steps : tuple of float
        Step size and decay found for each problem.
    """

    standings: tuple[Standing, ...]
    rounds: int = 0
    history: tuple[tuple[float, ...], ...] = ()
    seeds: tuple[int, ...] = ()
    steps: tuple[float, ...] = field(default=())


def save(path: str | os.PathLike[str], mark: dict[str, Any], progress: Progress) -> None:
    """Write a checkpoint: one ``.npz`` without pickle, which replaces the last when complete."""
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
    meta = {"format": _FORMAT, "mark": mark, "rounds": progress.rounds}
    store.write(path, meta, arrays | {"seeds": np.array(progress.seeds, np.int64)})


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Progress]:
    """Read what :func:`save` wrote: what the fit belongs to, and its state.

    No code in the file is run, and everything in it is checked.
    """
    try:
        meta, arrays = store.read(path, _COLUMNS | {"seeds": np.int64})
        written = str(meta.get("format"))
        if not written.startswith(f"{_KIND} "):
            raise ValueError(f"its format is {written!r}")
        if written == _FORMAT:
            return _read(meta, arrays)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{os.fspath(path)} is not a checkpoint, or it is damaged ({error}); {ADVICE}"
        ) from error
    raise ValueError(
        f"{os.fspath(path)} was written by another version of antithetic: its format is"
        f" {written!r}, and this version reads {_FORMAT!r}; {ADVICE}"
    )


def _read(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> tuple[dict[str, Any], Progress]:
    mark, rounds, k = checked_mark(meta["mark"]), meta["rounds"], len(arrays["seeds"])
    _check_columns(arrays, rounds, k)
    weights, gradients = (arrays[name].reshape(k, -1) for name in ("weights", "gradients"))
    ends = np.cumsum(arrays["known"].astype(np.intp))[:-1]
    points, moves = (
        np.split(arrays[name].reshape(-1, weights.shape[1]), ends) for name in ("points", "moves")
    )
    standings = []
    for i, (value, lowered, best, waited, stopped) in enumerate(arrays["numbers"].reshape(k, 5)):
        standings.append(
            Standing(
                weights[i].copy(),
                float(value),
                gradients[i].copy(),
                points[i].copy(),
                moves[i].copy(),
                int(lowered),
                float(best),
                int(waited),
                bool(stopped),
            )
        )
    history = tuple(tuple(row) for row in arrays["history"].reshape(rounds, 1 + 2 * k).tolist())
    seeds, steps = tuple(arrays["seeds"].tolist()), tuple(arrays["steps"].tolist())
    return mark, Progress(tuple(standings), rounds, history, seeds, steps)


def resume(
    path: str | os.PathLike[str] | None, mark: dict[str, Any], begin: Progress, *, seeded: bool
) -> Progress:
    """Return the progress in a checkpoint, or the given beginning if there is no file.

    The checkpoint must belong to the same fit and, if this fit is ``seeded``, have the same seeds.
    """
    if path is None or not os.path.exists(path):
        return begin
    written, progress = load(path)
    name = os.fspath(path)
    check_same(name, written, mark)
    sizes = [[len(one.weights) for one in reached.standings] for reached in (progress, begin)]
    if sizes[0] != sizes[1]:
        raise _of_other_data(name)
    if seeded and progress.seeds != begin.seeds:
        raise ValueError(
            f"checkpoint {name!r} belongs to a fit with another random_state; {ADVICE}"
        )
    return progress


def check_same(name: str, written: dict[str, Any], mark: dict[str, Any]) -> None:
    """Raise ValueError if a checkpoint belongs to a fit with other parameters or data."""
    before, settings = written["settings"], mark["settings"]
    changed = [key for key in before | settings if before.get(key) != settings.get(key)]
    if changed:
        raise ValueError(
            f"checkpoint {name!r} belongs to a fit with other parameters"
            f" ({', '.join(sorted(changed))}); {ADVICE}"
        )
    if written["data"] != mark["data"]:
        raise _of_other_data(name)


def _of_other_data(name: str) -> ValueError:
    return ValueError(
        f"checkpoint {name!r} belongs to other data, other blocks or other initial weights;"
        f" {ADVICE}"
    )


def checked_mark(mark: Any) -> dict[str, Any]:
    """What a fit belongs to: its settings as text, and a hash of its data."""
    require(
        isinstance(mark, dict)
        and set(mark) == {"settings", "data"}
        and isinstance(mark["data"], str),
        "mark",
    )
    require(
        isinstance(mark["settings"], dict)
        and all(isinstance(value, str) for value in mark["settings"].values()),
        "mark",
    )
    return dict(mark)


def _check_columns(arrays: dict[str, NDArray[Any]], rounds: Any, k: int) -> None:
    """Raise ValueError for lengths and numbers that no fit can have after these rounds."""
    require(type(rounds) is int and rounds >= 0 and k > 0, "rounds or seeds")
    require(len(arrays["history"]) == rounds * (1 + 2 * k), "history")
    size = len(arrays["weights"])
    require(size > 0 and size % k == 0 and len(arrays["gradients"]) == size, "weights or gradients")
    require(bool(np.isfinite(arrays["weights"]).all()), "weights")
    known, counts = arrays["known"], arrays["numbers"].reshape(k, 5)[:, [1, 3]]
    require(len(known) == k and bool(np.isin(known, np.arange(_MOST_KNOWN)).all()), "known")
    require(
        len(arrays["points"]) == len(arrays["moves"]) == known.sum() * (size // k),
        "points or moves",
    )
    require(bool(((counts >= 0.0) & (counts <= 2.0 * rounds)).all()), "numbers")
    require(len(arrays["steps"]) == 2 * k and bool(np.isfinite(arrays["steps"]).all()), "steps")


def require(holds: bool, what: str) -> None:
    """Raise ValueError for an entry that no fit would write."""
    if not holds:
        raise ValueError(f"its entry {what} is not valid")
