"""The objective and what follows from it: losses, penalties, smoothness, optimality."""

from antithetic.problem.objective import Problem
from antithetic.problem.ratio import ratio
from antithetic.problem.softmax import SoftmaxProblem, build_problem

__all__ = ["Problem", "SoftmaxProblem", "build_problem", "ratio"]
