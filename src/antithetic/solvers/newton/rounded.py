"""The gap of weights as the user of float32 rows gets them: rounded to float32.

The intercept of columns that are far from zero loses most digits, and so do weights whose products
with the columns cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from antithetic.exact.sums import Vector
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.iterations import Newton


def as_float32(numbers: Any) -> Vector:
    """Numbers as a user of float32 rows gets them."""
    return np.asarray(numbers, dtype=np.float32).astype(np.float64)


def rounded_to(newton: Newton, iterate: Iterate, theta: Vector) -> Iterate:
    """The run at rounded weights, with the gap of these: one more pass over the rows.

    If that gap is above the tolerance, it is bounded also by what is known of the optimum from the
    weights before: with float32 products, this takes two passes more. If it is still too large, the
    run ended by rounding. Gaps that are estimates are left as they are.
    """
    if not iterate.certified:
        return iterate
    newton = newton.on(newton.sums)  # a copy: the run itself may go on
    reason = "rounding" if iterate.ended else ""
    point = newton.sums.at(theta)
    moved = newton.close(iterate._replace(point=point), reason)
    if moved.gap <= newton.tol or not iterate.ended:
        return moved
    finer = newton.remember(iterate)
    if finer is not iterate:
        point = newton.sums.at(theta)
    return newton.close(iterate._replace(point=point), reason)
