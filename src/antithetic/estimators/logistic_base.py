"""What logistic regressions share: data, one fit after the other, warnings, predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils.validation import check_is_fitted

from antithetic._util.warnings import warn
from antithetic.estimators.callbacks import (
    CallbackSupportMixin,
    Iterations,
    StoppedByCallback,
)
from antithetic.estimators.data import TrainingData
from antithetic.estimators.linear import LinearEstimator, predicting
from antithetic.estimators.logistic_fit import (
    NewtonPlan,
    seed_of,
    separation,
    shortfall,
)
from antithetic.estimators.one_vs_rest import (
    OneVsRest,
    check_classes,
    classes_of,
    weights_of_classes,
)
from antithetic.exact.path import LEAST_TOL, Effort, Solved, solve_path, sums_of
from antithetic.exact.separation import Separation, separation_of
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES, SOFTMAX
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.terms import Terms

_WEAK = 1e8  # a C of which more iterations may be of no use


class LogisticParameters(LinearEstimator):
    """What the parameters of a logistic regression mean, on one machine and on many."""

    _y_numeric = False

    def _read_penalty(self) -> tuple[float, float]:
        """Return ``C`` and ``l1_ratio``, as ``penalty`` says where it is given."""
        l1_ratio = 0.0 if self.l1_ratio is None else float(self.l1_ratio)
        if self.penalty == "deprecated":
            return float(self.C), l1_ratio
        if self.penalty == "elasticnet":
            if self.l1_ratio is None:
                raise ValueError("l1_ratio must be a number with penalty='elasticnet'; got None")
            return float(self.C), l1_ratio
        if self.penalty is None:
            if self.C != 1.0:
                warn(
                    "Setting penalty=None will ignore the C and l1_ratio parameters: it means"
                    f" C=inf; got C={self.C!r}",
                    UserWarning,
                )
            return np.inf, 0.0
        meant = {"l2": 0.0, "l1": 1.0}[self.penalty]
        if l1_ratio not in (0.0, meant):
            warn(
                f"Inconsistent values: penalty={self.penalty} with l1_ratio={self.l1_ratio}. The"
                " l1_ratio parameter is only used when penalty is 'elasticnet'. Got"
                f" (penalty={self.penalty}), which means l1_ratio={meant:g}; leave penalty out",
                UserWarning,
            )
        return float(self.C), meant

    def _check_solver(self) -> None:
        if self.solver == "liblinear" and self.fit_intercept:
            warn(
                "solver='liblinear' penalises the intercept in scikit-learn; this class never does,"
                " regardless of solver=, so the weights differ slightly",
                UserWarning,
            )

    def _first_weights(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Weights and intercepts of the last fit, with warm_start."""
        if not self.warm_start or getattr(self, "coef_", None) is None:
            return None
        coef = np.asarray(self._dense_coef(), dtype=np.float64)
        k = 1 if len(self.classes_) == 2 else len(self.classes_)
        if coef.shape != (k, d):
            raise ValueError(
                f"warm_start=True begins with the weights of the last fit, of shape {coef.shape};"
                f" these data need {(k, d)}: fit a new estimator"
            )
        return coef, np.asarray(self.intercept_, dtype=np.float64)


class LogisticModel(  # type: ignore[misc]  # scikit-learn is untyped
    CallbackSupportMixin, LinearClassifierMixin, LogisticParameters
):
    """A logistic regression whose public parameters its subclasses have."""

    # ---- data

    def _read_classes(
        self, X: Any, y: Any, sample_weight: Any, *, later: bool = False
    ) -> TrainingData:
        data = self._read(X, y, sample_weight, reset=True, later=later)
        self.classes_ = check_classes(classes_of(data.y))
        return data

    def _check_now_or_later(self, data: TrainingData) -> Callable[[], object] | None:
        """Check entries of the rows unless that was done; return what the fit may do instead.

        That is for two classes, whose first pass over all rows shows if an entry is not finite,
        unless a weight of zero hides it.
        """
        if data.checked:
            return None
        check = partial(self._check, data.X, data.y, reset=False)
        if len(self.classes_) == 2 and data.weight is None:
            return check
        check()
        return None

    def _terms(self, y: NDArray[Any], weight: NDArray[np.float64] | None) -> Terms:
        """Return what the fit minimised, from the labels and ``sample_weight`` it was given."""
        C, l1_ratio = self._read_penalty()
        loss = SOFTMAX if len(self.classes_) > 2 else LOSSES["log_loss"]
        weight = self._weigh(TrainingData(None, y, weight)).weight
        l2, l1 = (1.0 - l1_ratio) / C, l1_ratio / C if l1_ratio > 0.0 else 0.0
        gap = float(getattr(self, "gap_", np.nan))
        return Terms(loss, weight, l2, l1, bool(self.fit_intercept), None, gap)

    def _weigh(self, data: TrainingData) -> TrainingData:
        """Multiply the weights of rows with those of their classes."""
        weight = data.weight
        if weight is None and self.class_weight is None:
            return data
        if self.class_weight is not None:
            of_row = np.searchsorted(self.classes_, data.y)
            counts = np.bincount(of_row, weight, minlength=len(self.classes_))
            by_class = weights_of_classes(
                self.class_weight, self.classes_, data.y, None if weight is None else counts
            )
            if by_class is not None:
                weight = by_class[of_row] if weight is None else by_class[of_row] * weight
        if weight is not None and not weight.any():
            raise ValueError(
                "sample_weight times class_weight is zero for every row; at least one must be"
                " positive"
            )
        return data._replace(weight=weight)

    # ---- the fit

    def _run(
        self,
        data: TrainingData,
        penalty: ElasticNet,
        start: Any,
        threads: int,
        check: Callable[[], object] | None = None,
    ) -> Solved:
        """Fit, and take over the result; on Ctrl-C, that before the last iteration."""
        fitted = partial(_attributes, data.X.dtype, threads)
        iterations = Iterations(self, data.shown(), fitted)
        effort = self._effort()._replace(watch=iterations.watch)
        try:
            fit = self._solve(data, [penalty], start, effort, threads, check)[0]
            iterations.close()
        except StoppedByCallback:
            assert iterations.last is not None
            fit = iterations.last()._replace(ended="callback")
        except KeyboardInterrupt:
            if iterations.last is not None:
                self.__dict__.update(fitted(iterations.last()))
            raise
        self._take(fit, fitted)
        return fit

    def _take(self, fit: Solved, fitted: Callable[[Solved], dict[str, Any]]) -> None:
        """Take over a result."""
        self.__dict__.update(fitted(fit))
        if self.verbose:
            print(f"{type(self).__name__}: gap {fit.gap:.1e} ({self.plan_.why})")

    def _problem(self, data: TrainingData, penalty: ElasticNet) -> Problem:
        """The objective of two classes."""
        target, intercept = OneVsRest(self.classes_).target(data.y, 0), bool(self.fit_intercept)
        return Problem(data.X, target, LOSSES["log_loss"], penalty, data.weight, intercept, None)

    def _effort(self) -> Effort:
        tol = max(float(self.tol), LEAST_TOL)
        return Effort(tol, int(self.max_iter), seed_of(self.random_state))

    def _solve(
        self,
        data: TrainingData,
        penalties: list[ElasticNet],
        start: Any,
        effort: Effort,
        threads: int,
        check: Callable[[], object] | None = None,
    ) -> list[Solved]:
        """Minimise with each penalty in turn, each from the weights of the one before.

        ``start`` holds weights of shape (k, d) and intercepts of shape (k,) for the first, or is
        None. ``check`` raises an error if an entry of the rows is not finite.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # rows that large end by rounding
            if len(self.classes_) > 2:
                return self._solve_many(data, penalties, start, effort, threads)
            problem = self._problem(data, penalties[0])
            begin = None if start is None else (start[0][0], float(start[1][0]))
            return solve_path(problem, penalties, effort, start=begin, threads=threads, check=check)

    def _solve_many(
        self,
        data: TrainingData,
        penalties: list[ElasticNet],
        start: Any,
        effort: Effort,
        threads: int,
    ) -> list[Solved]:
        from antithetic.exact.many_classes import solve_classes

        sums = self._class_sums(data, penalties[0], threads)
        return solve_classes(sums, penalties, effort, start=start)

    def _class_sums(self, data: TrainingData, penalty: ElasticNet, threads: int) -> Any:
        """Sums over the rows of many classes."""
        from antithetic.exact.many_classes import class_sums_of

        return class_sums_of(
            data.X,
            np.searchsorted(self.classes_, data.y),
            len(self.classes_),
            penalty,
            data.weight,
            fit_intercept=bool(self.fit_intercept),
            threads=threads,
        )

    def _warn_after_fit(self, fit: Solved, data: TrainingData, C: float) -> None:
        # without a penalty, a certified gap proves that there is an optimum
        found = None if math.isfinite(C) or fit.certified else self._separation(fit, data)
        if found is not None:
            names = getattr(self, "feature_names_in_", None)
            warn(separation(found, names), ConvergenceWarning)
        elif fit.is_short_of(float(self.tol)):
            warn(self._shortfall(fit, data.X, C), ConvergenceWarning)

    def _separation(self, fit: Solved, data: TrainingData) -> Separation | None:
        """Return what separates the classes without a penalty, if anything does."""
        penalty = ElasticNet()
        sums: Any = None
        if len(self.classes_) == 2:
            sums = sums_of(self._problem(data, penalty))
        else:
            sums = self._class_sums(data, penalty, 1)
        coef, intercept = fit.coef.astype(np.float64), fit.intercept.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            if len(self.classes_) > 2:
                return separation_of(sums, sums.join(coef, intercept))
            return separation_of(sums, sums.join(coef[0], float(intercept[0])))

    def _shortfall(self, fit: Solved, X: Any, C: float) -> str:
        names = getattr(self, "feature_names_in_", None)
        return shortfall(
            fit,
            X,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            names=names,
            penalty=("C", C),
            stronger="decrease",
            is_weak=_WEAK < C < np.inf,
        )

    # ---- predictions

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Distance of each row to the hyperplanes, times the norm of the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, above 0 for the second.
        """
        with predicting(X) as checked:
            return checked(super().decision_function(X))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        scores = self._scores(X)
        if scores.ndim > 1:
            return softmax(scores, axis=1)  # type: ignore[no-any-return]  # SciPy is untyped
        return np.stack([expit(-scores), expit(scores)], axis=1)

    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Logarithm of the probability of each class.

        It is finite where the probability itself would be rounded to zero.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        scores = self._scores(X)
        if scores.ndim > 1:
            return log_softmax(scores, axis=1)  # type: ignore[no-any-return]  # SciPy is untyped
        return np.stack([log_expit(-scores), log_expit(scores)], axis=1)

    def _scores(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        scores: NDArray[Any] = self.decision_function(X)
        return scores


def _attributes(dtype: Any, threads: int, fit: Solved) -> dict[str, Any]:
    """Public attributes of a fit."""
    return {
        "coef_": fit.coef.astype(dtype, copy=False),
        "intercept_": fit.intercept.astype(dtype, copy=False),
        "n_iter_": np.array([fit.iterations], dtype=np.int32),
        "gap_": float(fit.gap),
        "gap_certified_": bool(fit.certified),
        "coef_error_": float(fit.coef_error),
        "plan_": NewtonPlan.of(fit, threads),
    }
