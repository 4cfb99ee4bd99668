"""Checkpoints of Newton's method, from which a fit resumes if the cluster is lost."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.checkpoint import ADVICE, check_same, checked_mark, require
from antithetic.dask.newton import HISTORY, NewtonRounds, Reached, Standings
from antithetic.exact.sums import Evaluation
from antithetic.pairing import store
from antithetic.solvers.newton import stored
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.iterations import Newton
from antithetic.training.loop import Patience

_KIND = "antithetic dask newton checkpoint"
_FORMAT = f"{_KIND} 1"
_ENDS = ("", "gap", "rounding")
_POINT = ("theta", "gradient", "numbers", "totals", "history", "patience")
_MOST_PROBLEMS = 100_000


def save(path: str | os.PathLike[str], mark: dict[str, Any], standings: Standings) -> None:
    """Write a checkpoint: one ``.npz`` without pickle, which replaces the last when complete."""
    arrays: dict[str, NDArray[Any]] = {}
    last = len(standings.reached) - 1
    for problem, reached in enumerate(standings.reached):
        point, iterate, patience = reached.iterate.point, reached.iterate, reached.patience
        ended = _ENDS.index(iterate.ended)
        own = {
            "theta": point.theta,
            "gradient": point.gradient,
            "numbers": [
                point.objective,
                point.noise,
                iterate.iterations,
                iterate.gap,
                iterate.certified,
                ended,
            ],
            "totals": point.totals,
            "history": np.ravel(reached.history),
            "patience": patience,
            **stored.export(reached.newton),
        }
        arrays |= {f"{name}-{problem}": np.array(held, np.float64) for name, held in own.items()}
    meta = {
        "format": _FORMAT,
        "mark": mark,
        "problems": last + 1,
        "seed": standings.seed,
        "rounds": standings.rounds,
        "seconds": standings.seconds,
    }
    store.write(path, meta, arrays)


def resume(
    path: str | os.PathLike[str] | None,
    mark: dict[str, Any],
    rounds: NewtonRounds,
    begin: Standings,
    *,
    seeded: bool,
) -> Standings:
    """Return the standings in a checkpoint, or the given beginning if there is no file.

    The checkpoint must belong to the same fit and, if this fit is ``seeded``, have the same seed.
    No code in the file is run, and everything in it is checked.
    """
    if path is None or not os.path.exists(path):
        return begin
    name = os.fspath(path)
    try:
        meta, _ = store.read(path, {})
        written = str(meta.get("format"))
        require(written.startswith(f"{_KIND} "), f"format, {written!r},")
        before = checked_mark(meta.get("mark"))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} is not a checkpoint, or it is damaged ({error}); {ADVICE}"
        ) from error
    if written != _FORMAT:
        raise ValueError(
            f"{name} was written by another version of antithetic: its format is {written!r}, and"
            f" this version reads {_FORMAT!r}; {ADVICE}"
        )
    check_same(name, before, mark)
    try:
        standings = _read(path, meta, rounds)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} is not a checkpoint, or it is damaged ({error}); {ADVICE}"
        ) from error
    if seeded and standings.seed != begin.seed:
        raise ValueError(
            f"checkpoint {name!r} belongs to a fit with another random_state; {ADVICE}"
        )
    return standings


def _read(path: Any, meta: dict[str, Any], rounds: NewtonRounds) -> Standings:
    counts = [meta[name] for name in ("problems", "seed", "rounds")]
    require(all(type(count) is int and count >= 0 for count in counts), "counts")
    require(0 < counts[0] <= min(_MOST_PROBLEMS, rounds.common.n_problems), "problems")
    seconds = float(meta["seconds"])
    require(seconds >= 0.0, "seconds")
    names = (*_POINT, *stored.NAMES)
    keys = {f"{name}-{problem}": np.float64 for problem in range(counts[0]) for name in names}
    _, arrays = store.read(path, keys)
    reached = []
    for problem in range(counts[0]):
        own = {name: arrays.get(f"{name}-{problem}") for name in names}
        held = {name: part for name, part in own.items() if part is not None}
        reached.append(_reached(held, rounds, problem, counts[1]))
    return Standings(tuple(reached), counts[1], counts[2], seconds)


def _reached(
    held: dict[str, NDArray[np.float64]], rounds: NewtonRounds, problem: int, seed: int
) -> Reached:
    sums = rounds.sums(problem, seed)
    columns = sums.columns
    theta, gradient = held["theta"], held["gradient"]
    require(len(theta) == columns == len(gradient) and bool(np.isfinite(theta).all()), "theta")
    objective, noise, iterations, gap, certified, ended = held["numbers"].tolist()
    require(iterations >= 0 and ended in range(len(_ENDS)) and not np.isnan(gap), "numbers")
    require(len(held["totals"]) == (1 if rounds.common.is_classed else 3), "totals")
    point = Evaluation(theta, objective, gradient, noise, totals=tuple(held["totals"].tolist()))
    iterate = Iterate(point, int(iterations), gap, bool(certified), _ENDS[int(ended)])
    require(len(held["history"]) % len(HISTORY) == 0, "history")
    history = tuple(map(tuple, held["history"].reshape(-1, len(HISTORY)).tolist()))
    best, waited, stopped = held["patience"].tolist()
    newton = Newton(sums, rounds.tol, seed)
    stored.restore(newton, point, held)
    patience = Patience(best, int(waited), bool(stopped))
    return Reached(newton.on(None), iterate, history, patience)
