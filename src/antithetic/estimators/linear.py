"""What every linear estimator shares: checks of parameters and data, weights that can be sparse."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model._base import SparseCoefMixin
from sklearn.utils._param_validation import (
    InvalidParameterError,
    make_constraint,
    validate_parameter_constraints,
)
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from antithetic._util.validation import (
    canonical_csr,
    check_column,
    check_weights,
    did_you_mean,
    naming_columns,
    refuse_dates_and_masks,
    refuse_indices,
    refuse_mixed_labels,
)
from antithetic.estimators.data import (
    TrainingData,
    can_be_checked_later,
    checked_moments,
    is_checked,
)
from antithetic.problem.losses import LOSSES, Loss


@contextmanager
def predicting(X: Any) -> Iterator[Callable[[NDArray[Any]], NDArray[Any]]]:
    """Check rows before a prediction, and give a function that refuses sums that overflowed."""
    refuse_dates_and_masks(X, "X")
    refuse_indices(X, "X")
    with np.errstate(over="ignore", invalid="ignore"), naming_columns(X):
        yield _without_nan


def _without_nan(scores: NDArray[Any]) -> NDArray[Any]:
    undefined = np.isnan(scores)
    if undefined.any():
        row = int(np.argwhere(undefined)[0][0])
        raise ValueError(
            f"X has values so large that the prediction of row {row} overflows; remove or scale it"
        )
    return scores


class LinearEstimator(SparseCoefMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """A linear model as scikit-learn expects it."""

    _doc_link_module = "antithetic"
    _doc_link_template = (
        "https://antithetic.readthedocs.io/en/stable/generated/antithetic.{estimator_name}.html"
    )
    _parameter_constraints: dict[str, list[Any]]
    _advice: ClassVar[dict[tuple[str, Any], str]] = {}  # for values that are not allowed
    _y_numeric: bool

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"estimator_name": type(self).__name__}

    def _validate_params(self) -> None:
        """Check each parameter by itself, as in scikit-learn, but defaults only once for a class.

        scikit-learn's own check takes longer than an epoch of few rows.
        """
        allowed = _allowed_values(type(self))  # type: ignore[arg-type]  # of instances
        for name, (default, constraints) in allowed.items():
            value = getattr(self, name)
            if value is not default:
                _check_value(self, name, value, constraints)

    def _read(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        reset: bool,
        later: bool = False,
        moments: bool = False,
    ) -> TrainingData:
        """Check data; with ``later``, the fit may check entries of the rows itself.

        With ``moments``, a fit of rows without weights begins with the moments of their columns.
        """
        refuse_dates_and_masks(X, "X")
        refuse_indices(X, "X")
        refuse_dates_and_masks(y, "y")
        if not self._y_numeric:
            refuse_mixed_labels(y)
        columns = checked_moments(X, y) if moments and sample_weight is None else None
        later = later and can_be_checked_later(X, y)
        checked = later or columns is not None or is_checked(X, y)
        if reset and checked:
            self._note_columns(X.shape[1])
        else:
            X, y = self._check(X, y, reset=reset, skip_check_array=checked)
        if self._y_numeric and y.dtype.kind in "SU":
            y = check_column(y, X.shape[0], "y")
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, X.shape[0], all_zero=True)
        X = canonical_csr(X) if sparse.issparse(X) else X
        return TrainingData(X, y, weight, columns, not later)

    def _check(self, X: Any, y: Any, *, reset: bool, skip_check_array: bool = False) -> Any:
        """Check and convert rows and targets as scikit-learn does."""
        # NumPy's warnings would be of the sums that scikit-learn makes of finite numbers
        with np.errstate(over="ignore", invalid="ignore"), naming_columns(X):
            return validate_data(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                reset=reset,
                y_numeric=self._y_numeric,
                skip_check_array=skip_check_array,
            )

    def _note_columns(self, count: int) -> None:
        """Note what scikit-learn would of columns without names; its search for names is slow."""
        self.n_features_in_ = count
        self.__dict__.pop("feature_names_in_", None)

    def _dense_coef(self) -> NDArray[Any]:
        return self.coef_.toarray() if sparse.issparse(self.coef_) else np.asarray(self.coef_)

    def _unchanged_on_errors(self) -> _Unchanged:
        return _Unchanged(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class RegressionPredictor(RegressorMixin):  # type: ignore[misc]  # scikit-learn is untyped
    """Predictions and scores of a fitted linear model whose ``_loss()`` says what they mean."""

    if TYPE_CHECKING:

        def _loss(self) -> Loss:
            """Return the loss of a row, as the class beside this one does."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict a number for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        kinds = [np.float64, np.float32]
        with predicting(X) as checked:
            X = validate_data(self, X, accept_sparse="csr", dtype=kinds, reset=False)
            linear = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
            return self._loss().means(checked(linear.ravel()))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the variation of y that the model explains: 1 at best, 0 for the best constant.

        For the losses of scikit-learn's ``SGDRegressor`` it is R2, of squared errors. For
        ``"quantile"``, ``"poisson"``, ``"gamma"`` and ``"tweedie"`` it is D2, of the loss itself,
        as in scikit-learn's ``PoissonRegressor``: squared errors do not measure a quantile.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        loss = self._loss()
        if loss.name in LOSSES:
            return float(super().score(X, y, sample_weight))
        predictions = self.predict(X)
        target = check_column(y, len(predictions), "y")
        loss.check_targets(target)
        weight = check_weights(sample_weight, len(target))
        with np.errstate(divide="ignore"):
            linear = np.log(predictions) if loss.has_log_link else predictions
        return loss.deviance_share(target, linear.astype(np.float64), weight)


class _Unchanged:
    """Leave a model unchanged if its new fit fails.

    A generator would take more calls, which are a noticeable part of a fit of few rows.
    """

    __slots__ = ("_before", "_model")

    def __init__(self, model: LinearEstimator) -> None:
        self._model = model

    def __enter__(self) -> None:
        self._before = dict(self._model.__dict__)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        held, before = self._model.__dict__, self._before
        # a new coef_: it was fitted, and a warning or an interruption came after that
        if kind is None or held.get("coef_") is not before.get("coef_"):
            return
        for name in set(held) - set(before):
            if not name.startswith(("_skl", "_callback")):  # scikit-learn removes these itself
                del held[name]
        held.update(before)


def _check_value(estimator: LinearEstimator, name: str, value: Any, constraints: list[Any]) -> None:
    """Raise scikit-learn's error for a value that a parameter must not have."""
    owner, allowed = type(estimator).__name__, estimator._parameter_constraints
    if constraints and not any(map(methodcaller("is_satisfied_by", value), constraints)):
        words = [word for one in allowed[name] for word in getattr(one, "options", ())]
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        if isinstance(value, str) and (name, value) in estimator._advice:
            hint = f"; {estimator._advice[name, value]}."
        try:
            validate_parameter_constraints(allowed, {name: value}, caller_name=owner)
        except InvalidParameterError as error:
            raise InvalidParameterError(f"{str(error).rstrip('.')}{hint or '.'}") from error
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise InvalidParameterError(
            f"The {name!r} parameter of {owner} must be at most {sys.float_info.max:.3g}."
            f" Got a number of {value.bit_length()} bits instead."
        )


@cache
def _allowed_values(estimator: type[LinearEstimator]) -> dict[str, tuple[Any, list[Any]]]:
    """Return the default of each parameter of a class, and scikit-learn's constraints on others.

    A default that is not allowed is replaced by an object that is no value.
    """
    parameters = inspect.signature(estimator.__init__).parameters
    found: dict[str, tuple[Any, list[Any]]] = {}
    for name in estimator._get_param_names():
        given: Any = estimator._parameter_constraints.get(name, "no_validation")
        constraints = [] if given == "no_validation" else list(map(make_constraint, given))
        default = parameters[name].default
        is_allowed = not constraints or any(
            map(methodcaller("is_satisfied_by", default), constraints)
        )
        found[name] = default if is_allowed else object(), constraints
    return found
