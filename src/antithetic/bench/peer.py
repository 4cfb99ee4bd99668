"""A peer: a name, and for each problem configurations whose effort is a whole number."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from antithetic.bench.tasks import LOSSES, Task


class Fit(NamedTuple):
    """Weights, the peer's own count of iterations, and its passes over the rows for gradients.

    The number of passes is NaN if the peer does not report it.
    """

    coef: Any
    iterations: float
    passes: float


@dataclass(frozen=True, slots=True, eq=False)
class Config:
    """One way to set a peer up for a problem.

    Attributes
    ----------
    setting : str
        In words, without the effort.
    fit : callable
        Effort (a whole number, at least 1) and seed to a :class:`Fit`; all that it does is timed.
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
        Those that it minimises.
    rivals : bool
        Whether one unit of effort costs the same in all configurations, so that the worse half can
        be dropped on the way, of those that are late later.
    one_pass : str or None
        The setting in which a unit of effort is one pass over the rows, whose seconds can be
        compared; None if there is none.
    """

    name: str
    package: str
    configs: Callable[[Task], Sequence[Config]]
    losses: tuple[str, ...] = LOSSES
    rivals: bool = False
    one_pass: str | None = None


def import_peer(name: str) -> Any:
    """Import a module of a peer, and ignore its warnings.

    Some peers mistake a warning that has become an error for a missing feature.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(name)
