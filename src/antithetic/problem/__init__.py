"""The objective, and all that follows from it alone: losses, penalties, smoothness, optimality."""

from antithetic.problem.objective import Problem
from antithetic.problem.ratio import ratio

__all__ = ["Problem", "ratio"]
