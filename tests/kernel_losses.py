"""The losses of the kernels as functions of single numbers, for tests at single points."""

from __future__ import annotations

import numpy as np

from antithetic._core import kernels
from antithetic._core.losses import DUAL_STEPS, LOG_LOSS

__all__ = ["LOG_LOSS", "conjugate", "curvature", "dual_step", "has_dual_step", "slope", "value"]


def _at(function, code, epsilon, y, p):
    out = np.empty(1)
    function(code, epsilon, np.array([y], np.float64), np.array([p], np.float64), out)
    return float(out[0])


def value(code, epsilon, y, p):
    return _at(kernels.values, code, epsilon, y, p)


def slope(code, epsilon, y, p):
    return _at(kernels.slopes, code, epsilon, y, p)


def curvature(code, epsilon, y, p):
    return _at(kernels.curvatures, code, epsilon, y, p)


def conjugate(code, epsilon, y, u):
    return _at(kernels.conjugates, code, epsilon, y, u)


def has_dual_step(code):
    return code in DUAL_STEPS


def dual_step(code, y, weight, a, p, q):
    return kernels.dual_step(code, float(y), float(weight), float(a), float(p), float(q))
