"""Stochastic gradient descent that converges sooner, by choosing which samples travel together.

See :func:`antithetic.minimize` for the paper's SGD and SGD-as, :func:`antithetic.pair` for its antithetic table, and
:func:`antithetic.gradient_variance` for how much the table saves.
"""

from antithetic import datasets
from antithetic._minimize import Interrupted, Result, minimize
from antithetic.pairing import AntitheticTable, GroupTable, MatchingLoss, Quality, pair, pair_rows
from antithetic.sampling import gradient_variance
from antithetic.solvers import DivergenceError

__version__ = "0.1.0"
__all__ = [
    "AntitheticTable",
    "DivergenceError",
    "GroupTable",
    "Interrupted",
    "MatchingLoss",
    "Quality",
    "Result",
    "datasets",
    "gradient_variance",
    "minimize",
    "pair",
    "pair_rows",
]
