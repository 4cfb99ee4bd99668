"""Linear models that train faster and tell you how close they are to the optimum.

See :func:`antithetic.minimize` for the paper's SGD and SGD-as, :func:`antithetic.pair` for its
antithetic table, and :func:`antithetic.gradient_variance` for how much the table saves.
"""

from typing import TYPE_CHECKING, Any

from antithetic import losses, orders, penalties, steps, stopping
from antithetic._util.versions import show_versions
from antithetic.orders.exact import gradient_variance
from antithetic.pairing import AntitheticTable, GroupTable, MatchingLoss, Quality, pair, pair_rows
from antithetic.solvers.divergence import DivergenceError
from antithetic.training.advise import Advice, advise
from antithetic.training.automatic import Plan
from antithetic.training.minimize import Interrupted, Result, minimize
from antithetic.training.trace import Distance

if TYPE_CHECKING:
    from antithetic import datasets
    from antithetic.display import ConvergenceDisplay, VarianceDisplay
    from antithetic.estimators.logistic import LogisticRegression
    from antithetic.estimators.logistic_cv import LogisticRegressionCV
    from antithetic.estimators.model_file import LinearModel
    from antithetic.estimators.sgd import SGDClassifier, SGDRegressor

__version__ = "0.2.0"
__all__ = [
    "Advice",
    "AntitheticTable",
    "ConvergenceDisplay",
    "Distance",
    "DivergenceError",
    "GroupTable",
    "Interrupted",
    "LinearModel",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MatchingLoss",
    "Plan",
    "Quality",
    "Result",
    "SGDClassifier",
    "SGDRegressor",
    "VarianceDisplay",
    "advise",
    "datasets",
    "gradient_variance",
    "losses",
    "minimize",
    "orders",
    "pair",
    "pair_rows",
    "penalties",
    "show_versions",
    "steps",
    "stopping",
]

# scikit-learn's estimators take a second to import, and files and downloads a twentieth: they
# are imported only when they are used
_LATER = {
    "ConvergenceDisplay": "display",
    "LinearModel": "estimators.model_file",
    "LogisticRegression": "estimators.logistic",
    "LogisticRegressionCV": "estimators.logistic_cv",
    "SGDClassifier": "estimators.sgd",
    "SGDRegressor": "estimators.sgd",
    "VarianceDisplay": "display",
    "datasets": "datasets",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{_LATER[name]}")
    value = module if name == _LATER[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
