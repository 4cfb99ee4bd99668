"""The losses by name, and those with a parameter as objects."""

from antithetic.problem.losses import LOSSES, Loss, get_loss

__all__ = ["LOSSES", "Loss", "get_loss"]
