"""`Part`: all measurements of one set with one loss, as numbers that survive JSON exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.files import write_atomically
from antithetic.paper.settings import METHODS, MORE_BATCH_SIZES, PAPER

Array = NDArray[np.float64]
_NUMBERS = (
    "n",
    "d",
    "seconds",
    "at_zero",
    "optimum",
    "optimum_error",
    "curvature",
    "eta0",
    "decay",
)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One set, one loss: every run and measurement.

    Shapes: S seeds, E epochs; the first of E + 1 entries is before the first step. Runs that
    diverged are infinite.

    Attributes
    ----------
    name, loss : str
    settings : dict
        All that the numbers depend on.
    n, d : int
    seconds : float
        That it took.
    at_zero : float
        Objective at zero weights.
    optimum, optimum_error : float
        Least objective that was found, and by how much it may be too large at most.
    w_star : ndarray of shape (d,)
        Its weights.
    curvature, eta0, decay : float
        L of the grid, and the steps that all methods share.
    grid : ndarray of shape (K,)
        Candidates for eta0.
    grid_gap : dict of method to ndarray of shape (K, S)
        Relative gap after the run with each of them.
    ends, own_ends : dict of method to dict of str to ndarray
        ``"objective"`` and ``"distance"`` after many runs, (M,) each, with ``"eta0"`` (1,): the
        shared one, or the method's own best of the grid. The first S of ``ends`` are those of the
        curves.
    objective, distance : dict of method to ndarray of shape (S, E + 1)
        Objective, and distance to ``w_star``.
    variance, second_moment : dict of estimator to dict of run to ndarray of shape (S, E + 1)
        Exact, of ``"SGD"`` (independent rows) at the weights of its own runs, and of ``"SGD-as"``
        (pairs) at those of both: ``variance["SGD-as"]["SGD"]`` is that of pairs at the weights of
        SGD.
    jitter : dict of method to ndarray of shape (M // 2, E)
        See :func:`antithetic.paper.runs.jitter`.
    steps : ndarray of shape (E,)
        Mean step size of each epoch.
    bias : ndarray of shape (E + 1,)
        Of SGD-as along its first run, by enumeration.
    labels : dict of str to float
        Share of partners with opposite labels, the largest possible one, and that of random
        partners.
    products, ranks, ideal : dict of str to ndarray
        See :mod:`antithetic.paper.measures`: ``partner_products``, ``rank_correlations``,
        ``negative_pairs``.
    constant_steps, non_smooth, zero_one : dict of str to ndarray
        See :mod:`antithetic.paper.extensions`.
    batches : dict of str to dict of str to ndarray
        By batch size.
    """

    name: str
    loss: str
    settings: dict[str, Any]
    n: int
    d: int
    seconds: float
    at_zero: float
    optimum: float
    optimum_error: float
    w_star: Array
    curvature: float
    eta0: float
    decay: float
    grid: Array
    grid_gap: dict[str, Array]
    ends: dict[str, dict[str, Array]]
    own_ends: dict[str, dict[str, Array]]
    objective: dict[str, Array]
    distance: dict[str, Array]
    variance: dict[str, dict[str, Array]]
    second_moment: dict[str, dict[str, Array]]
    jitter: dict[str, Array]
    steps: Array
    bias: Array
    labels: dict[str, float]
    products: dict[str, Array]
    ranks: dict[str, Array]
    ideal: dict[str, Array]
    constant_steps: dict[str, Array]
    batches: dict[str, dict[str, Array]]
    non_smooth: dict[str, Array]
    zero_one: dict[str, Array]

    def gap(self, method: str) -> Array:
        """Relative gap ``(f - f*) / (f(0) - f*)`` of a method, shape (S, E + 1)."""
        return relative_gap(self.objective[method], self.at_zero, self.optimum)

    def end_gap(self, method: str, *, own: bool = False) -> Array:
        """Relative gap after many runs, shape (M,), with the shared or the method's own eta0."""
        return relative_gap(
            (self.own_ends if own else self.ends)[method]["objective"], self.at_zero, self.optimum
        )

    def variance_ratio(self) -> Array:
        """Variance of pairs divided by that of independent rows, shape (S, E + 1); 0 / 0 is 1.

        Both are taken at the weights of SGD's runs.
        """
        pairs, rows = self.variance["SGD-as"]["SGD"], self.variance["SGD"]["SGD"]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((pairs == rows), 1.0, pairs / rows)

    def to_dict(self) -> dict[str, Any]:
        """Return strings, numbers, lists and dicts only.

        Numbers that are not finite become the strings that ``float`` reads.
        """
        return {entry.name: _plain(getattr(self, entry.name)) for entry in fields(self)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Part:
        """Make a part of what :meth:`to_dict` returned; ValueError for anything else."""
        names = {entry.name for entry in fields(cls)}
        if not isinstance(given, Mapping) or set(given) != names:
            raise ValueError(
                "this is not a part of the experiments: it has other entries; run it again"
            )
        part = cls(**{name: _arrays(value) for name, value in given.items()})
        try:
            wrong = next((what for what, right in _shapes(part) if not right), None)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(
                "this is not a part of the experiments: something is missing in it; run it again"
            ) from error
        if wrong is not None:
            raise ValueError(
                f"this is not a part of the experiments: {wrong} has another shape; run it again"
            )
        return part


def _shapes(part: Part) -> Iterator[tuple[str, bool]]:
    """Each entry of a part, and whether it has the shape that it should have."""
    seeds, epochs = part.settings["seeds"], part.settings["epochs"]
    counts = (seeds, epochs, len(part.grid), len(part.ends["SGD"]["objective"]))
    whole = isinstance(seeds, int) and isinstance(epochs, int)
    yield "settings", whole and min(counts) >= 1
    yield from _numbers(part)
    yield "w_star", part.w_star.shape == (part.d,)
    yield "grid", part.grid.shape == (len(part.grid),)
    yield "steps", part.steps.shape == (epochs,)
    yield from _shapes_of_runs(part, seeds, epochs)
    yield from _shapes_of_extensions(part, seeds, epochs)
    for values in _along_a_run(part):  # fewer where the run diverged
        yield "bias, products, ideal or ranks", values.ndim == 1 and 1 <= len(values) <= epochs + 1
    yield (
        "products, non_smooth, zero_one or batches",
        all(values.shape == (1,) for values in _of_length_one(part)),
    )
    yield "non_smooth", part.non_smooth["variance_ratio"].shape == (seeds,)


def _numbers(part: Part) -> Iterator[tuple[str, bool]]:
    yield "name", isinstance(part.name, str) and isinstance(part.loss, str)
    for name in _NUMBERS:
        yield name, isinstance(getattr(part, name), int | float)
    shares = [part.labels[name] for name in ("opposite", "possible", "random")]
    yield "labels", all(isinstance(share, int | float) for share in shares)


def _shapes_of_runs(part: Part, seeds: int, epochs: int) -> Iterator[tuple[str, bool]]:
    many = len(part.ends["SGD"]["objective"])
    for method in METHODS:
        yield "grid_gap", part.grid_gap[method].shape == (len(part.grid), seeds)
        for curves in (part.objective, part.distance):
            yield "objective", curves[method].shape == (seeds, epochs + 1)
        for ends in (part.ends, part.own_ends):
            found = [ends[method][name].shape for name in ("eta0", "objective", "distance")]
            yield "ends", found == [(1,), (many,), (many,)]
    for estimator, run in (("SGD", "SGD"), ("SGD-as", "SGD"), ("SGD-as", "SGD-as")):
        for moments in (part.variance, part.second_moment):
            yield "variance", moments[estimator][run].shape == (seeds, epochs + 1)


def _shapes_of_extensions(part: Part, seeds: int, epochs: int) -> Iterator[tuple[str, bool]]:
    many, curves = len(part.ends["SGD"]["objective"]), len(part.jitter["SGD"])
    steps = len(part.constant_steps["eta0"])
    for method in PAPER:
        yield "jitter", curves >= 1 and part.jitter[method].shape == (curves, epochs)
        yield "constant_steps", steps >= 1 and part.constant_steps[method].shape == (steps, seeds)
        for runs in (part.non_smooth, *part.batches.values()):
            yield "non_smooth or batches", runs[method].shape == (many,)
    yield "batches", set(part.batches) == set(map(str, MORE_BATCH_SIZES))


def _along_a_run(part: Part) -> Iterator[Array]:
    """Entries with one number for each of the weights of a run."""
    yield part.bias
    yield from (part.products[name] for name in ("negative", "reversed"))
    yield part.ideal["ratio"]
    yield from (part.ranks[name] for name in ("all", "negative", "positive"))


def _of_length_one(part: Part) -> Iterator[Array]:
    """Entries with one number in all."""
    yield part.products["bounds"]
    yield part.ideal["share"]
    yield from (part.non_smooth[name] for name in ("l1", "eta0", "zeros"))
    yield from (part.zero_one[name] for name in ("same_table", "same_weights"))
    for found in part.batches.values():
        yield from (found[name] for name in ("eta0", "variance_ratio"))


def relative_gap(objective: Array, at_zero: float, optimum: float) -> Array:
    """Gap to the optimum in units of the gap at zero weights."""
    return (objective - optimum) / (at_zero - optimum)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not np.isfinite(value):
        return repr(value)
    return value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _arrays(inner) for key, inner in value.items()}
    return np.array(value, dtype=np.float64) if isinstance(value, list) else value


def save_part(part: Part, path: Path) -> None:
    """Write a part; the file appears only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(part.to_dict(), allow_nan=False).encode())


def load_part(path: Path, settings: Mapping[str, Any]) -> Part | None:
    """Read a part that was made with the same settings.

    None where there is none, or another, or it cannot be read.
    """
    try:
        part = Part.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return part if part.settings == dict(settings) else None
