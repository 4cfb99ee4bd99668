"""`Ridge` and the generalised linear models for Dask collections, with scikit-learn's names."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn import linear_model
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from antithetic.dask.common import Common
from antithetic.dask.learner import BlockLearner
from antithetic.dask.moments import Census
from antithetic.dask.newton import First
from antithetic.dask.predictor import BlockPredictor
from antithetic.dask.scan import Glance
from antithetic.estimators.logistic_fit import LogisticFit
from antithetic.estimators.one_vs_rest import OneVsRest
from antithetic.estimators.sgd import SGDRegressor
from antithetic.problem.losses import ALL_LOSSES, LOSSES, Loss, Tweedie
from antithetic.problem.penalties import ElasticNet

_ON_DASK: dict[str, list[Any]] = {
    "alpha": [Interval(Real, 0.0, None, closed="left")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "client": [object],
    "checkpoint": [str, os.PathLike, None],
}
_DEFAULT_ITERATIONS = 100  # if max_iter is None


class _BlockRegressor(BlockPredictor, RegressorMixin, BlockLearner):  # type: ignore[misc]
    """A regression with an L2 penalty."""

    def _loss(self) -> Loss:
        """Return the loss of a row."""
        raise NotImplementedError

    def _l2_of(self, census: Census) -> float:
        """Return the penalty of the mean over all rows, from ``alpha``."""
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model in rounds over all blocks.

        Parameters
        ----------
        X : Dask array or data frame, list of delayed blocks, or array-like
            Rows, of shape (n_samples, n_features); blocks dense or CSR. Blocks are read again in
            each round unless they were persisted.
        y : Dask array or series, list of delayed blocks, or array-like
            Targets, of shape (n_samples,), in the same blocks as X or in blocks of known lengths.
        sample_weight : like y, default=None
            Weights of the rows, at least 0.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C, or if the cluster was lost, it holds the last
            complete iteration.

        Raises
        ------
        ClusterLostError
            If the scheduler was lost. With ``checkpoint=``, fitting again starts from the weights
            of the last complete iteration.
        """
        fit, _ = self._fit_blocks(X, y, sample_weight, self._loss(), self._common)
        self._warn_if_short(fit)
        return self

    def _learn_labels(self, glances: list[Glance]) -> None:
        """Regressions have no attributes that describe the targets."""

    def _common(self, census: Census) -> Common:
        loss = self._loss()
        if loss.has_log_link and self.fit_intercept and census.mean == 0.0:
            raise ValueError(
                f"y is 0 in every row that counts, so {type(self).__name__} has no optimum: the"
                " intercept would be minus infinity"
            )
        self._l2 = self._l2_of(census)
        return Common(
            loss,
            ElasticNet(self._l2),
            bool(self.fit_intercept),
            OneVsRest(),
            census.rows,
        )

    def _start(self) -> First | None:
        if not getattr(self, "warm_start", False) or getattr(self, "coef_", None) is None:
            return None
        coef = np.asarray(self._dense_coef(), dtype=np.float64)
        if coef.shape != (self.n_features_in_,):
            raise ValueError(
                f"warm_start=True begins with the weights of the last fit, of shape {coef.shape};"
                f" these data need {(self.n_features_in_,)}: fit a new estimator"
            )
        return coef, float(self.intercept_)

    def _as_attributes(self, fit: LogisticFit, real: np.dtype[Any]) -> dict[str, Any]:
        return {
            "coef_": fit.coef[0].astype(real),
            "intercept_": float(fit.intercept.astype(real)[0]),
            "n_iter_": fit.iterations,
        }

    def to_local(self) -> SGDRegressor:
        """Return the model as an estimator for one machine, with the same loss and penalty.

        Returns
        -------
        antithetic.SGDRegressor
        """
        check_is_fitted(self)
        loss: Any = self._loss()
        named = ALL_LOSSES[loss.name] == loss
        local = SGDRegressor(
            loss=loss.name if named else loss,
            alpha=self._l2,
            fit_intercept=self.fit_intercept,
        )
        local.coef_, local.intercept_ = self.coef_.copy(), np.atleast_1d(self.intercept_)
        local.n_features_in_, local.t_, local.n_iter_ = self.n_features_in_, 1, self.n_iter_
        if hasattr(self, "feature_names_in_"):
            local.feature_names_in_ = self.feature_names_in_
        return local


class Ridge(_BlockRegressor):
    """Least squares with an L2 penalty, of data in blocks: scikit-learn's ``Ridge`` on Dask.

    It minimises the sum of squared errors plus ``alpha`` times the squared weights, with the
    iterations of :class:`antithetic.dask.LogisticRegression`. Columns need not be scaled, and rows
    may be in any order.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty of the sum of squared errors, at least 0.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    copy_X : bool, default=True
        Ignored: blocks are never changed.
    max_iter : int or None, default=None
        Maximum number of iterations over all rows; None means 100.
    tol : float, default=1e-4
        The fit ends when ``gap_`` is at most this.
    solver : str, default="auto"
        Ignored: each of scikit-learn's names is accepted.
    positive : bool, default=False
        True is not supported on Dask.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample. None always means the same seed, so that fits are reproducible.
    verbose : int, default=0
        1 prints a line per iteration.
    client, checkpoint
        As in :class:`antithetic.dask.LogisticRegression`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_iter_ : int
        Iterations over all rows.
    gap_, gap_certified_, plan_, n_rounds_, n_features_in_, feature_names_in_
        As in :class:`antithetic.dask.LogisticRegression`.
    history_ : dict of str to ndarray of shape (n_iter,)
        As in :class:`antithetic.dask.LogisticRegression`; the objective is divided by twice the
        number of rows.

    Examples
    --------
    >>> import dask.array as da
    >>> from antithetic.dask import Ridge
    >>> from distributed import Client
    >>> X = da.from_array([[0.0], [1.0], [2.0], [3.0]], chunks=(2, 1))
    >>> y = da.from_array([1.0, 3.0, 5.0, 7.0], chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     model = Ridge(alpha=0.0, client=client).fit(X, y)
    >>> model.predict([[4.0]]).round(2).tolist()
    [9.0]
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **linear_model.Ridge._parameter_constraints,
        **_ON_DASK,
        "max_iter": [*_ON_DASK["max_iter"], None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.positive = positive
        self.random_state = random_state
        self.verbose = verbose
        self.client = client
        self.checkpoint = checkpoint

    def _loss(self) -> Loss:
        if self.positive:
            raise ValueError(
                "positive=True is not supported on Dask; use sklearn.linear_model.Ridge on a sample"
                " of the rows, or leave it out"
            )
        return LOSSES["squared_error"]

    def _l2_of(self, census: Census) -> float:
        return float(self.alpha) / census.rows

    def _most_iterations(self) -> int:
        return _DEFAULT_ITERATIONS if self.max_iter is None else int(self.max_iter)


class _GeneralizedLinearModel(_BlockRegressor):
    """A regression whose loss is half a deviance."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **linear_model.PoissonRegressor._parameter_constraints,
        **_ON_DASK,
    }

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        solver: str = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-4,
        warm_start: bool = False,
        verbose: int = 0,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.client = client
        self.checkpoint = checkpoint

    def _l2_of(self, census: Census) -> float:
        # scikit-learn divides by the sum of the weights, our means by the number of rows
        return float(self.alpha) * float(census.weights.sum()) / census.rows


class PoissonRegressor(_GeneralizedLinearModel):
    """Poisson regression of data in blocks: scikit-learn's ``PoissonRegressor`` on Dask.

    It predicts the exponential of a linear function, for counts and other targets of at least 0,
    and minimises half the mean Poisson deviance plus ``alpha / 2`` times the squared weights, with
    the iterations of :class:`antithetic.dask.LogisticRegression`.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, at least 0.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    solver : str, default="lbfgs"
        Ignored: each of scikit-learn's names is accepted.
    max_iter : int, default=100
        Maximum number of iterations over all rows.
    tol : float, default=1e-4
        The fit ends when ``gap_`` is at most this.
    warm_start, verbose, client, checkpoint
        As in :class:`antithetic.dask.LogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, n_iter_
        As in :class:`antithetic.dask.Ridge`.
    gap_, gap_certified_, plan_, n_rounds_, history_, n_features_in_, feature_names_in_
        As in :class:`antithetic.dask.LogisticRegression`.

    Examples
    --------
    >>> import dask.array as da
    >>> from antithetic.dask import PoissonRegressor
    >>> from distributed import Client
    >>> X = da.from_array([[0.0], [1.0], [2.0], [3.0]], chunks=(2, 1))
    >>> y = da.from_array([1, 2, 4, 8], chunks=2)
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     model = PoissonRegressor(alpha=0.0, client=client).fit(X, y)
    >>> model.predict([[4.0]]).round(2).tolist()
    [16.0]
    """

    def _loss(self) -> Loss:
        return ALL_LOSSES["poisson"]


class GammaRegressor(_GeneralizedLinearModel):
    """Gamma regression of data in blocks: scikit-learn's ``GammaRegressor`` on Dask.

    It predicts the exponential of a linear function, for targets above 0, and minimises half the
    mean gamma deviance plus ``alpha / 2`` times the squared weights.

    Parameters
    ----------
    alpha, fit_intercept, solver, max_iter, tol, warm_start, verbose, client, checkpoint
        As in :class:`antithetic.dask.PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, gap_certified_, plan_, n_rounds_, history_, n_features_in_, \
feature_names_in_
        As in :class:`antithetic.dask.PoissonRegressor`.
    """

    def _loss(self) -> Loss:
        return ALL_LOSSES["gamma"]


class TweedieRegressor(_GeneralizedLinearModel):
    """Tweedie regression of data in blocks: scikit-learn's ``TweedieRegressor`` on Dask.

    It minimises half the mean Tweedie deviance plus ``alpha / 2`` times the squared weights.

    Parameters
    ----------
    power : float, default=0.0
        Exponent by which the variance grows with the mean: 0 is least squares, 1 Poisson, 2 gamma,
        and from 1 to 2 lie amounts that are often 0. Other powers are not supported.
    alpha, fit_intercept : float, default=1.0; bool, default=True
        As in :class:`antithetic.dask.PoissonRegressor`.
    link : {"auto", "identity", "log"}, default="auto"
        "auto" is the identity for power 0, and otherwise the logarithm; there is no other choice.
    solver, max_iter, tol, warm_start, verbose, client, checkpoint
        As in :class:`antithetic.dask.PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, gap_certified_, plan_, n_rounds_, history_, n_features_in_, \
feature_names_in_
        As in :class:`antithetic.dask.PoissonRegressor`.
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **linear_model.TweedieRegressor._parameter_constraints,
        **_ON_DASK,
    }

    def __init__(
        self,
        *,
        power: float = 0.0,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        link: str = "auto",
        solver: str = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-4,
        warm_start: bool = False,
        verbose: int = 0,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            alpha=alpha,
            fit_intercept=fit_intercept,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            verbose=verbose,
            client=client,
            checkpoint=checkpoint,
        )
        self.power = power
        self.link = link

    def _loss(self) -> Loss:
        is_normal = self.power == 0.0
        if not is_normal and not 1.0 <= self.power <= 2.0:
            raise ValueError(
                f"power={self.power!r} is not supported; use 0 or a number from 1 to 2, or"
                " sklearn.linear_model.TweedieRegressor"
            )
        link = "identity" if is_normal else "log"
        if self.link not in ("auto", link):
            raise ValueError(
                f"link={self.link!r} is not supported with power={self.power!r}; use"
                f" {link!r} or 'auto', or sklearn.linear_model.TweedieRegressor"
            )
        return LOSSES["squared_error"] if is_normal else Tweedie(float(self.power))
