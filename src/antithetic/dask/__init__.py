"""Pairs and linear models of data that do not fit on one machine, on a Dask cluster."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antithetic.dask._pair import pair
    from antithetic.dask.block_table import BlockTable
    from antithetic.dask.cluster import ClusterLostError
    from antithetic.dask.logistic import LogisticRegression
    from antithetic.dask.regression import (
        GammaRegressor,
        PoissonRegressor,
        Ridge,
        TweedieRegressor,
    )

__all__ = [
    "BlockTable",
    "ClusterLostError",
    "GammaRegressor",
    "LogisticRegression",
    "PoissonRegressor",
    "Ridge",
    "TweedieRegressor",
    "pair",
]

# workers import the tasks only, and scikit-learn takes a second to import
_PLACES = {
    "BlockTable": "block_table",
    "ClusterLostError": "cluster",
    "GammaRegressor": "regression",
    "LogisticRegression": "logistic",
    "PoissonRegressor": "regression",
    "Ridge": "regression",
    "TweedieRegressor": "regression",
    "pair": "_pair",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
