r"""Penalties: value and proximal step.

A penalty has ``value(w)``, ``prox(w, step)``, the point :math:`\arg\min_v r(v) + |v - w|^2 / (2\,\mathrm{step})`, and
``separable``: whether it is a sum over the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class ElasticNet:
    r""":math:`\frac{l_2}{2} |w|^2 + l_1 |w|_1`; zero strengths leave a part out.

    SGD takes the smooth part as a gradient, as the paper does, and the other by its proximal step.

    Examples
    --------
    >>> import numpy as np
    >>> lasso = ElasticNet(l1=1.0)
    >>> lasso.value(np.array([2.0, -0.5]))
    2.5
    >>> lasso.prox(np.array([2.0, -0.5]), step=1.0)
    array([ 1., -0.])
    """

    l2: float = 0.0
    l1: float = 0.0
    separable = True

    def __post_init__(self) -> None:
        for name, strength in (("l2", self.l2), ("l1", self.l1)):
            if not (math.isfinite(strength) and strength >= 0.0):
                raise ValueError(f"{name} must be a finite number, at least 0; got {strength!r}")

    def value(self, w: Weights) -> float:
        """Value of the penalty."""
        w = w.astype(np.float64, copy=False)
        return float(0.5 * self.l2 * (w @ w) + self.l1 * np.abs(w).sum())

    def smooth_gradient(self, w: Weights) -> Weights:
        """Gradient of the quadratic part."""
        return self.l2 * w

    def prox(self, w: Weights, step: float) -> Weights:
        """Proximal step of the whole penalty."""
        return np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0) / (1.0 + step * self.l2)
