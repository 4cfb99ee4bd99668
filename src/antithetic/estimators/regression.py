"""`Ridge` and the generalised linear models to any accuracy, with scikit-learn's parameters."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from antithetic._util.warnings import warn
from antithetic.estimators.callbacks import CallbackSupportMixin, fit_context, is_observed
from antithetic.estimators.data import TrainingData
from antithetic.estimators.exact_fit import (
    first_weights,
    judgement_of,
    run_watched,
    seed_of,
    shortfall,
    threads_for,
)
from antithetic.estimators.linear import LinearEstimator, RegressionPredictor
from antithetic.exact.path import LEAST_TOL, Solved, Watch
from antithetic.exact.solve import check_mean, solve_exactly
from antithetic.problem import Problem
from antithetic.problem.losses import ALL_LOSSES, LOSSES, Loss, Tweedie
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.terms import Terms

_DEFAULT_ITERATIONS = 100  # if max_iter is None
_WEAK = 1e-8  # an alpha of which more iterations may be of no use
EFFORT: dict[str, list[Any]] = {
    "alpha": [Interval(Real, 0.0, None, closed="left")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
}


class RegressionParameters(LinearEstimator):
    """What the parameters of a regression mean, on one machine and on many."""

    _y_numeric = True

    def _loss(self) -> Loss:
        """Return the loss of a row."""
        raise NotImplementedError

    def _l2(self, rows: int, weight: float) -> float:
        """Return the penalty of the mean over so many rows, whose weights have this sum."""
        raise NotImplementedError

    def _terms(self, y: NDArray[Any], weight: NDArray[np.float64] | None) -> Terms:
        """Return what the fit minimised, from the targets and ``sample_weight`` of the rows."""
        n = len(y)
        weights = np.ones(n) if weight is None else weight
        total = float(weights.sum())
        l2 = self._l2(n, total)
        is_mean = self._l2(n, 2.0 * total) != l2  # the penalty grows with the weights
        shares = weights / total if is_mean else None
        gap = float(getattr(self, "gap_", np.nan))
        return Terms(self._loss(), weight, n * l2, 0.0, bool(self.fit_intercept), shares, gap)

    def _most_iterations(self) -> int:
        return _DEFAULT_ITERATIONS if self.max_iter is None else int(self.max_iter)

    def _first_weights(self, d: int) -> tuple[NDArray[np.float64], float] | None:
        """Weights and intercept of the last fit, with warm_start."""
        found = first_weights(self, (d,))
        return None if found is None else (found[0], float(found[1]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(ValueError):  # of parameters that fit refuses
            tags.target_tags.positive_only = self._loss().has_log_link
        return tags


class RidgeParameters(RegressionParameters):
    """The parameters of scikit-learn's ``Ridge``."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **linear_model.Ridge._parameter_constraints,
        **EFFORT,
        "max_iter": [*EFFORT["max_iter"], None],
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
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.positive = positive
        self.random_state = random_state

    def _loss(self) -> Loss:
        if self.positive:
            raise ValueError(
                "positive=True is not supported; use sklearn.linear_model.Ridge, or leave it out"
            )
        return LOSSES["squared_error"]

    def _l2(self, rows: int, weight: float) -> float:  # noqa: ARG002
        return float(self.alpha) / rows


class GlmParameters(RegressionParameters):
    """The parameters of scikit-learn's generalised linear models."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **linear_model.PoissonRegressor._parameter_constraints,
        **EFFORT,
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
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose

    def _l2(self, rows: int, weight: float) -> float:
        # scikit-learn divides by the sum of the weights, our means by the number of rows
        return float(self.alpha) * weight / rows


class PoissonParameters(GlmParameters):
    """A Poisson regression."""

    def _loss(self) -> Loss:
        return ALL_LOSSES["poisson"]


class GammaParameters(GlmParameters):
    """A gamma regression."""

    def _loss(self) -> Loss:
        return ALL_LOSSES["gamma"]


class TweedieParameters(GlmParameters):
    """The parameters of scikit-learn's ``TweedieRegressor``."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **linear_model.TweedieRegressor._parameter_constraints,
        **EFFORT,
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


class _ExactRegressor(CallbackSupportMixin, RegressionPredictor):  # type: ignore[misc]
    """A regression of rows on this machine."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. C-contiguous float64 and float32 and CSR matrices of these are not copied.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C it holds the weights before the last iteration.
        """
        loss = self._loss()
        with self._unchanged_on_errors():
            data = self._read(X, y, sample_weight, reset=True)
            problem, start = self._problem(data, loss), self._first_weights(data.X.shape[1])
            with fit_context(self, data.shown(), self._most_iterations() + 1):
                fit = self._run(data, problem, start)
        if fit.is_short_of(float(self.tol)):
            warn(self._shortfall(fit, data.X), ConvergenceWarning)
        return self

    def _problem(self, data: TrainingData, loss: Loss) -> Problem:
        n, weight = data.X.shape[0], data.weight
        total = float(n) if weight is None else float(weight.sum())
        if total == 0.0:
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        target = np.asarray(data.y, dtype=np.float64)
        penalty, intercept = ElasticNet(self._l2(n, total)), bool(self.fit_intercept)
        problem = Problem(data.X, target, loss, penalty, weight, intercept, None)
        mean = float(np.average(target, weights=weight)) if loss.has_log_link else 1.0
        check_mean(loss, mean, intercept, type(self).__name__)
        return problem

    def _run(self, data: TrainingData, problem: Problem, start: Any) -> Solved:
        """Fit, and write the attributes of the result."""
        with threads_for(None) as threads:

            def solve(watch: Watch) -> Solved:
                return solve_exactly(
                    problem,
                    tol=max(float(self.tol), LEAST_TOL),
                    max_iter=self._most_iterations(),
                    start=start,
                    seed=seed_of(getattr(self, "random_state", None)),
                    threads=threads,
                    watch=watch,
                    at_once=not is_observed(self),
                )

            attributes = partial(self._attributes, data.X.dtype, threads)
            verbose = bool(getattr(self, "verbose", 0))
            return run_watched(self, data, attributes, solve, verbose=verbose)

    def _attributes(self, dtype: Any, threads: int, fit: Solved) -> dict[str, Any]:
        """Public attributes of a fit."""
        return {
            "coef_": fit.coef[0].astype(dtype),
            "intercept_": float(fit.intercept.astype(dtype)[0]),
            "n_iter_": int(fit.iterations),
            **judgement_of(fit, threads),
        }

    def _shortfall(self, fit: Solved, X: Any) -> str:
        return shortfall(
            fit,
            X,
            tol=float(self.tol),
            max_iter=self._most_iterations(),
            names=getattr(self, "feature_names_in_", None),
            penalty=("alpha", float(self.alpha)),
            stronger="increase",
            is_weak=0.0 < self.alpha < _WEAK,
        )


class Ridge(_ExactRegressor, RidgeParameters):
    """Least squares with an L2 penalty, and a bound on how far the weights' objective is off.

    It minimises ``sum_i s_i (y_i - <w, x_i> - b)^2 + alpha |w|^2``, as scikit-learn's class of the
    same name does. Dense rows of up to 300 columns are visited once; columns need not be scaled.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty of the sum of squared errors, at least 0.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    copy_X : bool, default=True
        Ignored: rows are never changed.
    max_iter : int or None, default=None
        Maximum number of iterations over all rows; None means 100.
    tol : float, default=1e-4
        The fit ends when ``gap_`` is at most this; see :class:`LogisticRegression`.
    solver : str, default="auto"
        Ignored: each of scikit-learn's names is accepted.
    positive : bool, default=False
        True is not supported.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples. None is a fixed seed, so that fits are reproducible.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    intercept_ : float
        The intercept; zero without one.
    n_iter_ : int
        Iterations over all rows.
    gap_ : float
        Bound on the distance of the objective from its optimum, relative to that of the best
        constant prediction (of zero weights, without an intercept).
    gap_certified_ : bool
        Whether ``gap_`` is a bound. Without a penalty it then also proves that there is an optimum.
    coef_error_ : float
        Bound on the error of each weight, of the intercept, and of each linear combination of them
        such as a prediction, in units of its standard error, for all of them at once. Standard
        errors are those of the inverse of the Hessian, times the dispersion. Generalised linear
        models know it without a penalty only; otherwise it is NaN.
    plan_ : NewtonPlan
        What was chosen: samples, method and threads, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the features, if X has them.

    Examples
    --------
    >>> from antithetic import Ridge
    >>> model = Ridge(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0])
    >>> model.predict([[4.0]]).round(2).tolist(), model.gap_ <= 1e-12
    ([8.9], True)
    """


class PoissonRegressor(_ExactRegressor, PoissonParameters):
    """Poisson regression, for counts and other targets of at least 0.

    It predicts the exponential of a linear function, and minimises half the mean Poisson deviance
    plus ``alpha / 2`` times the squared weights, as scikit-learn's class of the same name does.
    Columns need not be scaled.

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
        The fit ends when ``gap_`` is at most this; see :class:`LogisticRegression`.
    warm_start : bool, default=False
        Whether ``fit`` starts from the weights of the previous call.
    verbose : int, default=0
        1 or more prints the plan and the final gap.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, gap_certified_, coef_error_, plan_, n_features_in_, \
feature_names_in_
        As in :class:`Ridge`.

    Examples
    --------
    >>> from antithetic import PoissonRegressor
    >>> model = PoissonRegressor(alpha=0.0).fit([[0.0], [1.0], [2.0], [3.0]], [1, 2, 4, 8])
    >>> model.predict([[4.0]]).round(2).tolist()
    [16.0]
    """


class GammaRegressor(_ExactRegressor, GammaParameters):
    """Gamma regression, for targets above 0.

    It predicts the exponential of a linear function, and minimises half the mean gamma deviance
    plus ``alpha / 2`` times the squared weights, as scikit-learn's class of the same name does.

    Parameters
    ----------
    alpha, fit_intercept, solver, max_iter, tol, warm_start, verbose
        As in :class:`PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, gap_certified_, coef_error_, plan_, n_features_in_, \
feature_names_in_
        As in :class:`Ridge`.
    """


class TweedieRegressor(_ExactRegressor, TweedieParameters):
    """Tweedie regression: between Poisson and gamma lie amounts that are often 0.

    It minimises half the mean Tweedie deviance plus ``alpha / 2`` times the squared weights, as
    scikit-learn's class of the same name does.

    Parameters
    ----------
    power : float, default=0.0
        Exponent by which the variance grows with the mean: 0 is least squares, 1 Poisson, 2 gamma,
        and from 1 to 2 lie amounts that are often 0. Other powers are not supported.
    alpha, fit_intercept : float, default=1.0; bool, default=True
        As in :class:`PoissonRegressor`.
    link : {"auto", "identity", "log"}, default="auto"
        "auto" is the identity for power 0, and otherwise the logarithm; there is no other choice.
    solver, max_iter, tol, warm_start, verbose
        As in :class:`PoissonRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, gap_, gap_certified_, coef_error_, plan_, n_features_in_, \
feature_names_in_
        As in :class:`Ridge`.
    """
