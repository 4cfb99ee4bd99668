"""Displays in the style of scikit-learn: convergence, variance of gradients, leave-one-out.

A display holds plain data, and can be drawn repeatedly, on new axes or on the user's.
"""

from antithetic.display.convergence import ConvergenceDisplay
from antithetic.display.leave_one_out import LeaveOneOutDisplay
from antithetic.display.variance import VarianceDisplay

__all__ = ["ConvergenceDisplay", "LeaveOneOutDisplay", "VarianceDisplay"]
