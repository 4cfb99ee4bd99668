"""`Ridge` and the generalised linear models for Dask collections, with scikit-learn's names."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin, _fit_context

from antithetic.dask.common import Common
from antithetic.dask.learner import BlockLearner
from antithetic.dask.moments import Census
from antithetic.dask.newton import First
from antithetic.dask.predictor import BlockPredictor
from antithetic.dask.scan import Glance
from antithetic.estimators import regression
from antithetic.estimators.one_vs_rest import OneVsRest
from antithetic.exact.path import Solved
from antithetic.exact.solve import check_mean
from antithetic.problem.penalties import ElasticNet

_ON_DASK: dict[str, list[Any]] = {"client": [object], "checkpoint": [str, os.PathLike, None]}


class _BlockRegressor(  # type: ignore[misc]  # scikit-learn is untyped
    BlockPredictor, RegressorMixin, regression.RegressionParameters, BlockLearner
):
    """A regression of rows in blocks."""

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
        check_mean(loss, census.mean, bool(self.fit_intercept), type(self).__name__)
        l2 = self._l2(census.rows, float(census.weights.sum()))
        return Common(
            loss,
            ElasticNet(l2),
            bool(self.fit_intercept),
            OneVsRest(),
            census.rows,
        )

    def _start(self) -> First | None:
        return self._first_weights(self.n_features_in_)

    def _as_attributes(self, fit: Solved, real: np.dtype[Any]) -> dict[str, Any]:
        return {
            "coef_": fit.coef[0].astype(real),
            "intercept_": float(fit.intercept.astype(real)[0]),
            "n_iter_": fit.iterations,
        }


class Ridge(_BlockRegressor, regression.RidgeParameters):
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
    gap_, gap_certified_, coef_error_, plan_, n_rounds_, n_features_in_, feature_names_in_
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

    _local_class = regression.Ridge
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **regression.RidgeParameters._parameter_constraints,
        **_ON_DASK,
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
        super().__init__(
            alpha,
            fit_intercept=fit_intercept,
            copy_X=copy_X,
            max_iter=max_iter,
            tol=tol,
            solver=solver,
            positive=positive,
            random_state=random_state,
        )
        self.verbose = verbose
        self.client = client
        self.checkpoint = checkpoint


class _BlockGlm(_BlockRegressor, regression.GlmParameters):
    """A generalised linear model of rows in blocks."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **regression.GlmParameters._parameter_constraints,
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
        super().__init__(
            alpha=alpha,
            fit_intercept=fit_intercept,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.client = client
        self.checkpoint = checkpoint


class PoissonRegressor(_BlockGlm, regression.PoissonParameters):
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
    gap_, gap_certified_, coef_error_, plan_, n_rounds_, history_, n_features_in_, feature_names_in_
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

    _local_class = regression.PoissonRegressor


class GammaRegressor(_BlockGlm, regression.GammaParameters):
    """Gamma regression of data in blocks: scikit-learn's ``GammaRegressor`` on Dask.

    It predicts the exponential of a linear function, for targets above 0, and minimises half the
    mean gamma deviance plus ``alpha / 2`` times the squared weights.

    Parameters
    ----------
    alpha, fit_intercept, solver, max_iter, tol, warm_start, verbose, client, checkpoint
        As in :class:`antithetic.dask.PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, gap_certified_, coef_error_, plan_, n_rounds_, history_, \
n_features_in_, feature_names_in_
        As in :class:`antithetic.dask.PoissonRegressor`.
    """

    _local_class = regression.GammaRegressor


class TweedieRegressor(_BlockRegressor, regression.TweedieParameters):
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
    coef_, intercept_, n_iter_, gap_, gap_certified_, coef_error_, plan_, n_rounds_, history_, \
n_features_in_, feature_names_in_
        As in :class:`antithetic.dask.PoissonRegressor`.
    """

    _local_class = regression.TweedieRegressor
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **regression.TweedieParameters._parameter_constraints,
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
            power=power,
            alpha=alpha,
            fit_intercept=fit_intercept,
            link=link,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.client = client
        self.checkpoint = checkpoint
