"""Step sizes as objects, for ``steps=``."""

from antithetic.stochastic.steps import (
    PA1,
    PA2,
    Adaptive,
    Auto,
    Constant,
    InverseTime,
    InvScaling,
    Optimal,
)

__all__ = [
    "PA1",
    "PA2",
    "Adaptive",
    "Auto",
    "Constant",
    "InvScaling",
    "InverseTime",
    "Optimal",
]
