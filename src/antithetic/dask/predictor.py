"""Predictions and scores of a fitted model, block by block for Dask collections."""

from __future__ import annotations

import copy
from typing import Any

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from antithetic.dask.cluster import client_of
from antithetic.dask.predict import Weights, check_names, is_distributed, lazily, score_blocks
from antithetic.dask.reading import feature_names, read_blocks
from antithetic.problem.losses import LOSSES

_TAKEN_OVER = (
    "coef_",
    "intercept_",
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "n_iter_",
    "gap_",
    "gap_certified_",
    "coef_error_",
)


class BlockPredictor:
    """Predictions of a linear model that was fitted on a cluster."""

    _local_class: Any

    def to_local(self) -> Any:
        """Return the model as an estimator for one machine.

        Returns
        -------
        The class of the same name in antithetic.
        """
        check_is_fitted(self)
        known = self._local_class._get_param_names()
        given = {name: value for name, value in vars(self).items() if name in known}
        local = self._local_class(**given)
        for name in _TAKEN_OVER:
            if hasattr(self, name):
                setattr(local, name, copy.copy(getattr(self, name)))
        return local

    def predict(self, X: Any) -> Any:
        """Predict a label or number for each row, lazily for Dask collections.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        values = getattr(self, "classes_", None)
        values = self.coef_ if values is None else values  # type: ignore[attr-defined]
        return self._apply("predict", X, None, values.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or for regression the share of the squared errors or deviance explained.

        These are R2, or D2 for a loss with a log link.
        It is computed block by block, on the workers that read them.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)
        y : of the same kind and shape (n_samples,)
        sample_weight : of the same kind and shape (n_samples,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if not is_distributed(X):
            return float(self.to_local().score(X, y, sample_weight))
        fitted: Any = self
        loss = fitted._loss() if hasattr(fitted, "_loss") else None
        if loss is None or not loss.has_log_link:
            loss = LOSSES["squared_error"]  # whose share explained is R2
        weights = Weights(fitted.coef_, fitted.intercept_, getattr(self, "classes_", None), loss)
        with client_of(fitted.client) as client:
            blocks = read_blocks(X, y, sample_weight, client=client)
            check_names(getattr(self, "feature_names_in_", None), blocks.names)
            return score_blocks(client, weights, blocks)

    def _apply(self, method: str, X: Any, columns: int | None, dtype: Any) -> Any:
        """Call a method of the local model, lazily for Dask collections."""
        local = self.to_local()
        if not is_distributed(X):
            return getattr(local, method)(X)
        check_names(getattr(self, "feature_names_in_", None), feature_names(X))
        return lazily(local, method, X, columns, dtype)

    # ---- copies and pickles have no client

    def __sklearn_clone__(self) -> Any:
        given = self.get_params(deep=False)  # type: ignore[attr-defined]
        client = given.pop("client")
        copies = {name: clone(value, safe=False) for name, value in given.items()}
        kind: Any = type(self)
        made = kind(**copies, client=client)
        if hasattr(self, "_metadata_request"):
            made._metadata_request = copy.deepcopy(self._metadata_request)
        return made

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return state if isinstance(state.get("client"), str) else {**state, "client": None}
