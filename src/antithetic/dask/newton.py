"""Newton's method on blocks: the iterations of one machine, with sums computed by the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from antithetic.dask.class_sums import ClassBlockSums
from antithetic.dask.sums import BlockSums
from antithetic.exact.sums import Vector
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.iterations import Newton
from antithetic.solvers.newton.path import begin
from antithetic.solvers.newton.rounded import as_float32, rounded_to
from antithetic.solvers.newton.search import value

First = tuple[Vector, Any]  # weights and intercepts, of one class or of all
HISTORY = ("seconds", "rounds", "objective", "gradient")


class Reached(NamedTuple):
    """A fit after some iterations.

    Attributes
    ----------
    newton : Newton
    iterate : Iterate
    history : tuple of tuple of float
        For each iteration, the values that :data:`HISTORY` names.
    """

    newton: Newton
    iterate: Iterate
    history: tuple[tuple[float, ...], ...] = ()

    @property
    def sums(self) -> BlockSums | ClassBlockSums:
        """Sums over the rows of all blocks."""
        return self.newton.sums  # type: ignore[return-value]

    @property
    def rounds(self) -> int:
        """Passes over all blocks so far, with the first look."""
        return 1 + self.sums.rounds

    @property
    def weights(self) -> First:
        """Weights and the user's intercepts; with many classes, one row and one number each."""
        sums, theta = self.sums, self.iterate.point.theta
        if not isinstance(sums, ClassBlockSums):
            return sums.split(theta)
        coef, intercepts = sums.split(sums.in_gauge(theta))
        return coef, intercepts - intercepts.mean()


def iterate_over(
    sums: BlockSums | ClassBlockSums, tol: float, max_iter: int, seed: int, start: First | None
) -> Iterator[Reached]:
    """Yield a fit after the first pass over all blocks, and after each iteration.

    It starts from given weights and intercepts, or from samples that have this seed.
    """
    began = time.perf_counter()
    newton = Newton(sums, tol, seed)
    given = None if start is None else _joined(sums, start)
    iterate = begin(newton, given, partial(_first, sums, newton, seed), max_iter)
    reached = Reached(newton, iterate)
    yield reached
    while not iterate.ended and iterate.iterations < max_iter:
        before, iterate = iterate, newton.step(iterate)
        reached = reached._replace(iterate=iterate)
        if iterate.iterations > before.iterations:
            norm = float(np.linalg.norm(_gradient(sums, iterate)))
            seconds = time.perf_counter() - began
            entry = (seconds, float(reached.rounds), value(sums, iterate.point), norm)
            reached = reached._replace(history=(*reached.history, entry))
        yield reached


def close(reached: Reached) -> Reached:
    """Bound the gap if the iterations have not done so.

    For float32 rows it is the gap of the rounded weights that the user gets: one more round.
    """
    newton, iterate = reached.newton, reached.iterate
    if not iterate.ended:
        iterate = newton.close(iterate)
    sums = reached.sums
    if sums.is_single:
        given_back: Any = [as_float32(part) for part in reached._replace(iterate=iterate).weights]
        rounded = rounded_to(newton, iterate, sums.join(*given_back))
        iterate = rounded._replace(point=iterate.point)
    return reached._replace(iterate=iterate)


def _gradient(sums: BlockSums | ClassBlockSums, iterate: Iterate) -> Vector:
    """Gradient in the user's weights, whose intercept is that of uncentred columns."""
    gradient = iterate.point.gradient.copy()
    if sums.centre is not None:
        gradient[: sums.d] += np.outer(gradient[sums.d :], sums.centre).ravel()
    return gradient


def _joined(sums: BlockSums | ClassBlockSums, start: First) -> Vector:
    """Point of given weights and intercepts."""
    theta = sums.join(*start)
    return sums.in_gauge(theta) if isinstance(sums, ClassBlockSums) else theta


def _first(sums: BlockSums | ClassBlockSums, newton: Newton, seed: int) -> Vector | None:
    """Initial weights; None if Newton's method starts from samples."""
    if isinstance(sums, ClassBlockSums):
        begins = not newton.takes_samples and sums.penalty.l1 == 0.0
    else:
        begins = newton.method == "sampled newton"
    return sums.first_weights(seed) if begins else None
