"""Stochastic gradient descent that converges sooner, by choosing which samples travel together.

See :func:`antithetic.minimize` for the paper's SGD and SGD-as, :func:`antithetic.pair` for its
antithetic table, and :func:`antithetic.gradient_variance` for how much the table saves.
"""

from typing import TYPE_CHECKING, Any

from antithetic import datasets
from antithetic.orders import gradient_variance
from antithetic.pairing import AntitheticTable, GroupTable, MatchingLoss, Quality, pair, pair_rows
from antithetic.solvers import DivergenceError
from antithetic.training.advise import Advice, advise
from antithetic.training.minimize import Interrupted, Result, minimize

if TYPE_CHECKING:
    from antithetic.display import ConvergenceDisplay, VarianceDisplay
    from antithetic.estimators.sgd import SGDClassifier, SGDRegressor

__version__ = "0.1.0"
__all__ = [
    "Advice",
    "AntitheticTable",
    "ConvergenceDisplay",
    "DivergenceError",
    "GroupTable",
    "Interrupted",
    "MatchingLoss",
    "Quality",
    "Result",
    "SGDClassifier",
    "SGDRegressor",
    "VarianceDisplay",
    "advise",
    "datasets",
    "gradient_variance",
    "minimize",
    "pair",
    "pair_rows",
]

# scikit-learn's estimators take a second to import, which those who do not use them need not wait
# for
_LATER = {
    "ConvergenceDisplay": "display",
    "SGDClassifier": "estimators.sgd",
    "SGDRegressor": "estimators.sgd",
    "VarianceDisplay": "display",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
