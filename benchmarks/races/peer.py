"""A peer: a name, and for each problem configurations whose effort is a whole number."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from races.sets import LOSSES
from races.tasks import Task

NEVER = 1e-14  # a tolerance that does not stop a solver before max_iter does
MOST_COLUMNS = 5000  # of a matrix of second derivatives


class Fit(NamedTuple):
    """Weights, the peer's own count of iterations, and its passes over the rows for gradients.

    The number of passes is NaN if the peer does not report it.
    """

    coef: Any
    iterations: float
    passes: float


def by_iterations(effort: int) -> dict[str, Any]:
    """The effort as most estimators take it."""
    return {"max_iter": effort}


def by_digits(effort: int) -> dict[str, Any]:
    """The effort as a tolerance in decimal digits."""
    return {"tol": 10.0**-effort}


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorFit:
    """Fits of an estimator, given by names, so that a fresh process can do the same.

    Attributes
    ----------
    module, name : str
        Where its class is.
    settings : dict
        Its parameters, without the effort and the seed; all can be written as JSON.
    X, y : arrays
        In the form that it computes with.
    efforts : callable
        Effort to the parameters that it sets.
    seeded : bool
        Whether it has a random_state.
    one_pass : bool
        Whether an iteration is one pass over the rows.
    transposed : bool
        Whether its weights have a column for each class.
    """

    module: str
    name: str
    settings: dict[str, Any]
    X: Any
    y: Any
    efforts: Callable[[int], dict[str, Any]] = by_iterations
    seeded: bool = True
    one_pass: bool = False
    transposed: bool = False

    def parameters(self, effort: int, seed: int) -> dict[str, Any]:
        """All parameters of a fit."""
        random = {"random_state": seed} if self.seeded else {}
        return {**self.settings, **self.efforts(effort), **random}

    def model(self, effort: int, seed: int) -> Any:
        """The fitted estimator."""
        kind = getattr(import_peer(self.module), self.name)
        return kind(**self.parameters(effort, seed)).fit(self.X, self.y)

    def __call__(self, effort: int, seed: int) -> Fit:
        """Fit and return the weights."""
        model = self.model(effort, seed)
        counted = getattr(model, "n_iter_", None)
        iterations = float(effort if counted is None else np.max(counted))
        coef = np.asarray(model.coef_)
        return Fit(
            coef.T if self.transposed else coef,
            iterations,
            iterations if self.one_pass else np.nan,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Config:
    """One way to set a peer up for a problem.

    Attributes
    ----------
    setting : str
        In words, without the effort.
    fit : callable
        Effort (a whole number, at least 1) and seed to a :class:`Fit`; all that it does is timed.
        An :class:`EstimatorFit` can also be timed in a fresh process.
    effort : str
        What the peer calls the effort.
    stochastic : bool
        Whether the seed matters.
    late : bool
        Whether it shortens its steps late: the gaps of its first passes say little about the next.
    """

    setting: str
    fit: Callable[[int, int], Fit]
    effort: str = "max_iter"
    stochastic: bool = True
    late: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """A method with its best published settings.

    Attributes
    ----------
    name : str
    package : str
        The distribution that it comes in.
    configs : callable
        Task to configurations; raises ImportError where the package is missing. What it prepares is
        not timed.
    losses : tuple of str
        Those that it supports.
    rivals : bool
        Whether one unit of effort costs the same in all configurations, so that the worse half can
        be dropped on the way, and the late ones later.
    one_pass : str or None
        The setting in which a unit of effort is one pass over the rows, whose seconds can be
        compared; None if there is none.
    module : str
        What to import before threads are limited.
    first_beside : str
        The peer whose first fit of a process is compared with this one's; empty for none.
    """

    name: str
    package: str
    configs: Callable[[Task], Sequence[Config]]
    losses: tuple[str, ...] = LOSSES
    rivals: bool = False
    one_pass: str | None = None
    module: str = "sklearn.linear_model"
    first_beside: str = ""


def load_packages(peers: Sequence[Peer]) -> None:
    """Import what peers compute with, so that a limit on threads applies to all of it."""
    for module in dict.fromkeys(peer.module for peer in peers if peer.module):
        with suppress(ImportError):
            import_peer(module)


def refuse_columns(task: Task, what: str) -> None:
    """Raise an error if a matrix of all weights' second derivatives would be too large."""
    if task.n_weights > MOST_COLUMNS:
        raise ValueError(f"{what} makes a matrix of {task.n_weights} x {task.n_weights} numbers")


def import_peer(name: str) -> Any:
    """Import a module of a peer, and ignore its warnings.

    Some peers mistake a warning that has become an error for a missing feature.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(name)
