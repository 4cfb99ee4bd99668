"""A run of Newton's method after some iterations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antithetic.exact.sums import Evaluation


class Iterate(NamedTuple):
    """A run after some iterations over all rows. It is replaced as a whole.

    Attributes
    ----------
    point : Evaluation
    iterations : int
    gap : float
        Bound on the objective's distance from its optimum, in units of ``unit``; infinite where it
        is not known yet.
    certified : bool
        Whether the gap is a bound rather than an estimate.
    ended : str
        Why the run has ended: "gap", "rounding", or "" while it has not.
    """

    point: Evaluation
    iterations: int = 0
    gap: float = np.inf
    certified: bool = False
    ended: str = ""
