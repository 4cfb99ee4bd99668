"""The losses by name, and those with a parameter as objects, for ``loss=``."""

from antithetic.problem.losses import (
    ALL_LOSSES,
    LOSSES,
    EpsilonInsensitive,
    Huber,
    Loss,
    Quantile,
    SquaredEpsilonInsensitive,
    Tweedie,
)

__all__ = [
    "ALL_LOSSES",
    "LOSSES",
    "EpsilonInsensitive",
    "Huber",
    "Loss",
    "Quantile",
    "SquaredEpsilonInsensitive",
    "Tweedie",
]
