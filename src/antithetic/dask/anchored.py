"""SVRG whose anchor is the gradient of all blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from antithetic.solvers.corrected import Corrected, Memory, Remembered
from antithetic.solvers.state import State


@dataclass(frozen=True, slots=True, eq=False)
class Anchored(Corrected):
    """Steps corrected by the mean gradient of all blocks, which no block can compute alone.

    Attributes
    ----------
    anchor : ndarray of shape (d + 1,)
        Data gradient of all rows at the epoch's first weights; the intercept comes last.
    """

    anchor: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def _remember(
        self,
        state: State,
        own: Remembered,  # noqa: ARG002 - the anchor takes its place
    ) -> Memory:
        """Slopes of the block's rows at the current weights, and the gradient of all rows."""
        slopes = self.problem.slopes(state.coef, state.intercept)
        return Memory(slopes, self.anchor.astype(self.problem.X.dtype), False)
