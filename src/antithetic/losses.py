"""The losses by name, and those with a parameter as objects, for ``loss=``."""

from antithetic.problem.losses import (
    LOSSES,
    EpsilonInsensitive,
    Huber,
    Loss,
    SquaredEpsilonInsensitive,
)

__all__ = ["LOSSES", "EpsilonInsensitive", "Huber", "Loss", "SquaredEpsilonInsensitive"]
