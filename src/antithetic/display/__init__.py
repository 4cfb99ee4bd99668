"""Displays in the style of scikit-learn: convergence of a fit, and variance of batch gradients.

A display holds plain data, and can be drawn repeatedly, on new axes or on the user's.
"""

from antithetic.display.convergence import ConvergenceDisplay
from antithetic.display.variance import VarianceDisplay

__all__ = ["ConvergenceDisplay", "VarianceDisplay"]
