"""A sample of the rows that one worker keeps, for problems with too many weights for a matrix."""

from __future__ import annotations

from functools import partial
from typing import Any

from antithetic.dask.asking import Asking
from antithetic.exact.sums import Vector
from antithetic.solvers.newton.multinomial import solve_sample
from antithetic.solvers.newton.sampled import solve_system

_ROWS_OF_SYSTEM = 20.0  # rows per column of the sample with which linear systems are solved


class KeptSample(Asking):
    """Blocks with a sample that one worker keeps; the parameters are those of `Asking`."""

    def first_weights(self, seed: int) -> Vector | None:
        """Solution of the sample; None if all its rows have weight 0."""
        return self._solve_near(self._sample(), partial(solve_sample, seed=seed))

    def sample_inverse(self, theta: Vector, floor: Vector) -> RemoteInverse:
        """Inverse of the sample's Hessian at some weights, whose diagonal is at least ``floor``."""
        return RemoteInverse(self, theta, floor)

    def _sample(self) -> Any:
        """The sample, drawn when it is first needed, and again if it is lost."""
        if "sample" not in self._held:
            size = min(self.n, self.most_sampled, self._rows_of_system())
            self._held["sample"] = self._draw(int(size), self._seed)
        return self._held["sample"]

    def _rows_of_system(self) -> float:
        """Rows that the sample should have."""
        return max(_ROWS_OF_SYSTEM * self._census.d, self.n / 16.0)

    def solve_with_sample(self, theta: Vector, floor: Vector, vector: Vector) -> Vector:
        """Solve a linear system with the Hessian of the sample."""
        ask = partial(solve_system, theta=theta, floor=floor, given=vector)
        found = self._solve_near(self._sample(), ask)
        return vector / floor if found is None else found


class RemoteInverse:
    """Inverse of the Hessian of a sample on a worker."""

    def __init__(self, sums: KeptSample, theta: Vector, floor: Vector) -> None:
        self._sums, self._theta, self._floor = sums, theta, floor

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system."""
        return self._sums.solve_with_sample(self._theta, self._floor, vector)
