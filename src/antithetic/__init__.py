"""Linear models fitted with less work, and a bound on how close the answer is.

See :func:`antithetic.minimize` for the paper's SGD and SGD-as, :func:`antithetic.pair` for its
antithetic table, and :func:`antithetic.gradient_variance` for how much the table saves.
"""

from typing import TYPE_CHECKING

from antithetic._util.later import import_later

if TYPE_CHECKING:
    from antithetic import datasets, inference, losses, orders, pairing, penalties, steps, stopping
    from antithetic._util.versions import show_versions
    from antithetic.display import ConvergenceDisplay, LeaveOneOutDisplay, VarianceDisplay
    from antithetic.estimators.logistic import LogisticRegression
    from antithetic.estimators.logistic_cv import LogisticRegressionCV
    from antithetic.estimators.model_file import LinearModel
    from antithetic.estimators.regression import (
        GammaRegressor,
        PoissonRegressor,
        Ridge,
        TweedieRegressor,
    )
    from antithetic.estimators.sgd import SGDClassifier, SGDRegressor
    from antithetic.exact.solve import solve
    from antithetic.orders.variance import gradient_variance
    from antithetic.pairing import (
        AntitheticTable,
        GroupTable,
        MatchingLoss,
        Quality,
        pair,
        pair_rows,
    )
    from antithetic.paper.advise import Advice, advise
    from antithetic.problem.result import Result
    from antithetic.stochastic.minimize import Interrupted, minimize
    from antithetic.stochastic.plan import Plan
    from antithetic.stochastic.solver import DivergenceError
    from antithetic.stochastic.trace import Distance

__version__ = "0.2.0"
__all__ = [
    "Advice",
    "AntitheticTable",
    "ConvergenceDisplay",
    "Distance",
    "DivergenceError",
    "GammaRegressor",
    "GroupTable",
    "Interrupted",
    "LeaveOneOutDisplay",
    "LinearModel",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MatchingLoss",
    "Plan",
    "PoissonRegressor",
    "Quality",
    "Result",
    "Ridge",
    "SGDClassifier",
    "SGDRegressor",
    "TweedieRegressor",
    "VarianceDisplay",
    "advise",
    "datasets",
    "gradient_variance",
    "inference",
    "losses",
    "minimize",
    "orders",
    "pair",
    "pair_rows",
    "pairing",
    "penalties",
    "show_versions",
    "solve",
    "steps",
    "stopping",
]

# Each name is imported when it is first used: scikit-learn's estimators take a second to import,
# and no program needs all the parts of this package.
if not TYPE_CHECKING:
    __getattr__, __dir__ = import_later(
        __name__,
        {
            "Advice": "paper.advise",
            "AntitheticTable": "pairing",
            "ConvergenceDisplay": "display",
            "Distance": "stochastic.trace",
            "DivergenceError": "stochastic.solver",
            "GammaRegressor": "estimators.regression",
            "GroupTable": "pairing",
            "Interrupted": "stochastic.minimize",
            "LeaveOneOutDisplay": "display",
            "LinearModel": "estimators.model_file",
            "LogisticRegression": "estimators.logistic",
            "LogisticRegressionCV": "estimators.logistic_cv",
            "MatchingLoss": "pairing",
            "Plan": "stochastic.plan",
            "PoissonRegressor": "estimators.regression",
            "Quality": "pairing",
            "Result": "problem.result",
            "Ridge": "estimators.regression",
            "SGDClassifier": "estimators.sgd",
            "SGDRegressor": "estimators.sgd",
            "TweedieRegressor": "estimators.regression",
            "VarianceDisplay": "display",
            "advise": "paper.advise",
            "datasets": "datasets",
            "gradient_variance": "orders.variance",
            "inference": "inference",
            "losses": "losses",
            "minimize": "stochastic.minimize",
            "orders": "orders",
            "pair": "pairing",
            "pair_rows": "pairing",
            "pairing": "pairing",
            "penalties": "penalties",
            "show_versions": "_util.versions",
            "solve": "exact.solve",
            "steps": "steps",
            "stopping": "stopping",
        },
    )
