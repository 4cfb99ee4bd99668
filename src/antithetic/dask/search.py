r"""How the models of the blocks are combined: the best of a few points along their mean move.

In each round, the blocks start from the same weights w, with the same full gradient, and each makes
an epoch of corrected steps on its own rows. The mean of their moves, weighted by rows,
:math:`m(w)`, is zero at the optimum for any blocks, and close to a Newton step if the blocks are
alike. If they differ, for example because rows are sorted by label, the move is too long or its
direction is slightly wrong. So the objective is measured at a few points:

- :math:`w + t\,m(w)` for t = 1, 1/4, 1/16, 1/64;
- the point at which m would vanish if it were linear, by the differences to the last few rounds
  (Anderson acceleration), with five of them and with one.

The next round starts from the best of these, or from w if none is better, so the objective never
rises. Results are added in the order of the blocks, so they do not depend on which worker was
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

_LENGTHS = (1.0, 0.25, 0.0625, 0.015625)
_MEMORY = 5  # differences to earlier rounds
_SMALLEST = 1e-10  # singular values below this share of the largest are noise

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The state of one linear problem after some rounds; the intercept comes last in vectors.

    Attributes
    ----------
    weights : ndarray of shape (d + 1,)
    value : float
        Objective there; infinite until it is measured.
    gradient : ndarray of shape (d + 1,)
        Data gradient there; zero until it is measured.
    points, moves : ndarray of shape (m, d + 1)
        Where the last corrected rounds started, and their mean moves.
    lowered : int
        How often no point was better; each time, steps become a quarter as long.
    best, waited
        Lowest objective, as ``tol`` counts it, and rounds since then.
    stopped : bool
        Whether the problem is solved.
    """

    weights: Vector
    value: float
    gradient: Vector
    points: NDArray[np.float64]
    moves: NDArray[np.float64]
    lowered: int = 0
    best: float = np.inf
    waited: int = 0
    stopped: bool = False

    @classmethod
    def at(cls, weights: Vector) -> Standing:
        """Before the first round."""
        nothing = np.empty((0, len(weights)))
        return cls(weights, np.inf, np.zeros(len(weights)), nothing, nothing)

    @property
    def measured(self) -> bool:
        """Whether objective and gradient are known here."""
        return bool(np.isfinite(self.value))

    def after_move(self, move: Vector) -> Standing:
        """Remember where a corrected round led."""
        points = np.vstack([self.points, self.weights])[-_MEMORY - 1 :]
        return replace(self, points=points, moves=np.vstack([self.moves, move])[-_MEMORY - 1 :])

    def staying(self) -> Standing:
        """Keep the weights and make the next steps shorter."""
        return replace(self, lowered=self.lowered + 1)

    def taking(
        self, points: NDArray[np.float64], values: Vector, gradients: NDArray[np.float64]
    ) -> Standing:
        """Move to the best of some points, if one is better."""
        values = np.where(np.isfinite(values), values, np.inf)
        best = int(np.argmin(values))
        if not values[best] <= self.value or values[best] == np.inf:
            return self.staying()
        return replace(
            self,
            weights=points[best].copy(),
            value=float(values[best]),
            gradient=gradients[best].copy(),
        )


def points_along(
    standing: Standing, move: Vector, zero: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Points to measure after a move, shape (k, d + 1); the first one is the whole move.

    ``standing`` contains the move already if it was a corrected one. Weights that an L1 penalty
    made ``zero`` in most blocks are zero at each point with the full move.
    """
    lengths = [standing.weights + length * move for length in _LENGTHS]
    whole = [lengths[0]]
    if len(standing.points) > 1 and np.array_equal(standing.points[-1], standing.weights):
        whole += [
            _extrapolated(standing, many) for many in {1, min(_MEMORY, len(standing.points) - 1)}
        ]
    if zero is not None:
        for point in whole:
            point[zero] = 0.0
    points = np.stack([*whole, *lengths[1:]])
    points = points[np.isfinite(points).all(axis=1)]
    return points if standing.measured else np.vstack([points, standing.weights])


def _extrapolated(standing: Standing, many: int) -> Vector:
    """Where the move would vanish if it were linear, from a number of differences (Anderson)."""
    points, moves = standing.points[-many - 1 :], standing.moves[-many - 1 :]
    steps, changes = np.diff(points, axis=0).T, np.diff(moves, axis=0).T
    shares = np.linalg.lstsq(changes, moves[-1], rcond=_SMALLEST)[0]
    found: Vector = points[-1] + moves[-1] - (steps + changes) @ shares
    return found
