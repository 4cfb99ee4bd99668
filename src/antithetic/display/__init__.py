"""Displays in scikit-learn's manner: convergence of a fit, and variance of batch gradients.

A display holds plain data, and draws them as often as wanted, on axes of its own or of the user's.
"""

from antithetic.display.convergence import ConvergenceDisplay
from antithetic.display.variance import VarianceDisplay

__all__ = ["ConvergenceDisplay", "VarianceDisplay"]
