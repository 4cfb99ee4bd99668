r"""A model for very many weights whose rows are elsewhere: the Hessian of a sample, never formed.

Products of that Hessian with vectors cost passes over the sample alone. So linear systems are
solved by conjugate gradients where the sample is, and all rows are visited for gradients only.
L-BFGS learns what the sample does not know.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol, cast

import numpy as np

from antithetic.exact.class_sums import ClassSums
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Evaluation, Sums, Vector, diagonal_of
from antithetic.solvers.newton.conjugate import conjugate_gradients
from antithetic.solvers.newton.factor import Inverse
from antithetic.solvers.newton.models import QuasiNewton
from antithetic.solvers.newton.whitened import SharedFactor

MOST_CHANCES = 1 << 24  # probabilities of a sample that are kept, one per row and class: 128 MB
_MOST_PRODUCTS, _LEFT_OVER = 200, 1e-4  # of the Hessian with a vector; of the squared residual


class SampledSums(Protocol):
    """Rows of other machines, of which some are kept in one place."""

    def sample_inverse(self, theta: Vector, floor: Vector) -> Inverse:
        """Inverse of the sample's Hessian at some weights, whose diagonal is at least ``floor``."""


class FromSample(QuasiNewton):
    """L-BFGS whose first matrix is the Hessian of a sample, solved where the sample is."""

    def __init__(self) -> None:
        super().__init__()
        self._theta = self._floor = np.empty(0)

    def renew(
        self,
        sums: Sums,
        point: Evaluation,
        *,
        exact: bool = False,  # noqa: ARG002
        care: float = 0.0,
    ) -> None:
        """Take the sample's Hessian at this point, and the diagonal of all rows."""
        self.take(point.theta, sums.diagonal(point, care=care))
        self._pairs = []
        self.on(sums)

    def take(self, theta: Vector, floor: Vector) -> None:
        """Take the Hessian at some weights, with at least this diagonal."""
        self._theta, self._floor = theta, floor

    def on(self, sums: Sums | None) -> None:
        """Solve with the sample of these rows."""
        self._factor = None
        if sums is not None:
            asked = cast("SampledSums", sums)
            self._factor = asked.sample_inverse(self._theta, self._floor)


def solve_system(sums: RowSums | ClassSums, theta: Vector, floor: Vector, given: Vector) -> Vector:
    """Solve a linear system with the Hessian of some rows, roughly, by conjugate gradients.

    Its diagonal is made at least ``floor``, that of all rows: of rare columns some rows know little
    or nothing.
    """
    if isinstance(sums, ClassSums):
        point = Evaluation(theta, 0.0, np.empty(0), 0.0)
        added = np.maximum(0.0, floor - sums.diagonal(point))
        precondition = _shared_factor(sums, point, added).solve
        times = sums.products(theta)
    else:
        point = sums.at(theta)
        own = sums.diagonal(point)
        added = np.maximum(0.0, floor - own)
        diagonal = np.maximum(own + added, np.finfo(np.float64).tiny)
        precondition = partial(_divide, by=diagonal)
        times = partial(sums.times, point)
    return conjugate_gradients(
        lambda along: times(along) + added * along, precondition, given, _MOST_PRODUCTS, _LEFT_OVER
    ).step


def _divide(vector: Vector, by: Vector) -> Vector:
    return vector / by


def _shared_factor(sums: ClassSums, point: Evaluation, added: Vector) -> SharedFactor:
    """What the classes share of the Hessian, with a mean of what is added to its diagonal."""
    found = sums.whitening(point, 0)
    products = found.products.copy()
    own = diagonal_of(products) if products.ndim == 2 else products
    own += added[: sums.d].reshape(sums.classes, sums.features).mean(axis=0)
    shared = found._replace(products=products)
    return SharedFactor(shared, sums.penalty.l2, fit_intercept=sums.fit_intercept)
