"""Logistic regression to any accuracy: its parameters, one fit, and predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from antithetic._util.threads import count_threads
from antithetic._util.warnings import warn
from antithetic.estimators.callbacks import CallbackSupportMixin, fit_context
from antithetic.estimators.data import TrainingData
from antithetic.estimators.exact_fit import (
    first_weights,
    judgement_of,
    run_watched,
    seed_of,
    separation,
    shortfall,
    threads_for,
)
from antithetic.estimators.linear import LinearEstimator, predicting
from antithetic.estimators.one_vs_rest import (
    OneVsRest,
    check_classes,
    classes_of,
    weights_of_classes,
)
from antithetic.exact.path import LEAST_TOL, Effort, Solved, Watch, solve_path, sums_of
from antithetic.exact.separation import Separation, separation_of
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES, SOFTMAX
from antithetic.problem.penalties import ElasticNet, elastic_net
from antithetic.problem.terms import Terms

_SOLVERS = {"lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"}
_WEAK = 1e8  # a C of which more iterations may be of no use


@dataclass(frozen=True, slots=True, eq=False)
class LogisticSetting:
    """The parameters of a logistic regression, checked together.

    Attributes
    ----------
    C, l1_ratio : float
        Those that ``penalty`` means, where it is given.
    """

    C: float
    l1_ratio: float
    fit_intercept: bool
    class_weight: Any
    tol: float
    max_iter: int
    random_state: Any
    n_jobs: int | None
    verbose: bool

    @classmethod
    def of(cls, model: Any, C: float, l1_ratio: float) -> LogisticSetting:
        """Read the parameters of an estimator; its penalty is given, see `penalty_of`."""
        n_jobs = getattr(model, "n_jobs", None)
        if n_jobs is not None and n_jobs >= 0:
            count_threads(n_jobs)
        if model.solver == "liblinear" and model.fit_intercept:
            warn(
                "solver='liblinear' penalises the intercept in scikit-learn; this class never does,"
                " regardless of solver=, so the weights differ slightly",
                UserWarning,
            )
        return cls(
            C=C,
            l1_ratio=l1_ratio,
            fit_intercept=bool(model.fit_intercept),
            class_weight=model.class_weight,
            tol=float(model.tol),
            max_iter=int(model.max_iter),
            random_state=model.random_state,
            n_jobs=n_jobs,
            verbose=bool(model.verbose),
        )

    def penalty(self, n: int) -> ElasticNet:
        """Return the penalty of a mean over n rows that is scikit-learn's of ``C`` times a sum."""
        C = self.C
        strength = 0.0 if math.isinf(C) else 1.0 / (C * n) if C * n > 0.0 else np.inf
        if not math.isfinite(strength):
            raise ValueError(f"C={C!r} is so small that 1 / (C * n_samples) overflows; increase C")
        return elastic_net((1.0 - self.l1_ratio) * strength, self.l1_ratio * strength)

    def effort(self, watch: Watch | None = None) -> Effort:
        """Return when a fit ends, with a new seed where ``random_state`` is a generator."""
        seed = seed_of(self.random_state)
        return Effort(max(self.tol, LEAST_TOL), self.max_iter, seed, watch)


def penalty_of(model: Any) -> tuple[float, float]:
    """Return ``C`` and ``l1_ratio`` of an estimator, as ``penalty`` says where it is given."""
    l1_ratio = 0.0 if model.l1_ratio is None else float(model.l1_ratio)
    if model.penalty == "deprecated":
        return float(model.C), l1_ratio
    if model.penalty == "elasticnet":
        if model.l1_ratio is None:
            raise ValueError("l1_ratio must be a number with penalty='elasticnet'; got None")
        return float(model.C), l1_ratio
    if model.penalty is None:
        if model.C != 1.0:
            warn(
                "Setting penalty=None will ignore the C and l1_ratio parameters: it means"
                f" C=inf; got C={model.C!r}",
                UserWarning,
            )
        return np.inf, 0.0
    meant = {"l2": 0.0, "l1": 1.0}[model.penalty]
    if l1_ratio not in (0.0, meant):
        warn(
            f"Inconsistent values: penalty={model.penalty} with l1_ratio={model.l1_ratio}. The"
            " l1_ratio parameter is only used when penalty is 'elasticnet'. Got"
            f" (penalty={model.penalty}), which means l1_ratio={meant:g}; leave penalty out",
            UserWarning,
        )
    return float(model.C), meant


def weights_of_rows(
    class_weight: Any,
    classes: NDArray[Any],
    y: NDArray[Any],
    weight: NDArray[np.float64] | None,
) -> NDArray[np.float64] | None:
    """Multiply the weights of rows with those of their classes."""
    if weight is None and class_weight is None:
        return None
    if class_weight is not None:
        of_row = np.searchsorted(classes, y)
        counts = np.bincount(of_row, weight, minlength=len(classes))
        given = None if weight is None else counts
        by_class = weights_of_classes(class_weight, classes, y, given)
        if by_class is not None:
            weight = by_class[of_row] if weight is None else by_class[of_row] * weight
    if weight is not None and not weight.any():
        raise ValueError(
            "sample_weight times class_weight is zero for every row; at least one must be positive"
        )
    return weight


class LogisticProblem(NamedTuple):
    """The rows of a fit with their classes, and what its parameters mean.

    Weights of ``data`` are multiplied with those of the classes.
    """

    setting: LogisticSetting
    classes: NDArray[Any]
    data: TrainingData

    @classmethod
    def of(
        cls, setting: LogisticSetting, classes: NDArray[Any], data: TrainingData
    ) -> LogisticProblem:
        """Weigh the rows by their classes."""
        weight = weights_of_rows(setting.class_weight, classes, data.y, data.weight)
        return cls(setting, classes, data._replace(weight=weight))

    @property
    def has_many(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.classes) > 2

    def at(self, C: float, l1_ratio: float) -> LogisticProblem:
        """Return the same rows with another penalty."""
        return self._replace(setting=replace(self.setting, C=C, l1_ratio=l1_ratio))

    def take(self, rows: NDArray[np.intp]) -> LogisticProblem:
        """Return some of the rows."""
        return self._replace(data=self.data.take(rows))

    def solve(
        self,
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
            if self.has_many:
                from antithetic.exact.many_classes import solve_classes

                sums = self._class_sums(penalties[0], threads)
                return solve_classes(sums, penalties, effort, start=start)
            problem = self._of_two(penalties[0])
            begin = None if start is None else (start[0][0], float(start[1][0]))
            return solve_path(problem, penalties, effort, start=begin, threads=threads, check=check)

    def warn_after(self, fit: Solved, names: NDArray[Any] | None) -> None:
        """Warn if there is no optimum, or if the gap is above the tolerance."""
        # without a penalty, a certified gap proves that there is an optimum
        is_proved = math.isfinite(self.setting.C) or fit.certified
        found = None if is_proved else self._separation(fit)
        if found is not None:
            warn(separation(found, names), ConvergenceWarning)
        elif fit.is_short_of(self.setting.tol):
            warn(self.shortfall(fit, names), ConvergenceWarning)

    def shortfall(self, fit: Solved, names: NDArray[Any] | None) -> str:
        """Say why a fit of these rows ended early, and what to do."""
        setting = self.setting
        return shortfall(
            fit,
            self.data.X,
            tol=setting.tol,
            max_iter=setting.max_iter,
            names=names,
            penalty=("C", setting.C),
            stronger="decrease",
            is_weak=_WEAK < setting.C < np.inf,
        )

    def _separation(self, fit: Solved) -> Separation | None:
        """Return what separates the classes without a penalty, if anything does."""
        coef, intercept = fit.coef.astype(np.float64), fit.intercept.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.has_many:
                sums = self._class_sums(ElasticNet(), 1)
                return separation_of(sums, sums.join(coef, intercept))
            sums = sums_of(self._of_two(ElasticNet()))
            return separation_of(sums, sums.join(coef[0], float(intercept[0])))

    def _of_two(self, penalty: ElasticNet) -> Problem:
        """Return the objective of two classes."""
        data, intercept = self.data, self.setting.fit_intercept
        target = OneVsRest(self.classes).target(data.y, 0)
        return Problem(data.X, target, LOSSES["log_loss"], penalty, data.weight, intercept, None)

    def _class_sums(self, penalty: ElasticNet, threads: int) -> Any:
        """Return sums over the rows of many classes."""
        from antithetic.exact.many_classes import class_sums_of

        data = self.data
        return class_sums_of(
            data.X,
            np.searchsorted(self.classes, data.y),
            len(self.classes),
            penalty,
            data.weight,
            fit_intercept=self.setting.fit_intercept,
            threads=threads,
        )


def fit_problem(
    model: Any,
    problem: LogisticProblem,
    start: Any,
    threads: int,
    check: Callable[[], object] | None = None,
) -> Solved:
    """Fit, and write the attributes of the result; see `LogisticProblem.solve`."""
    setting, X = problem.setting, problem.data.X
    penalty = setting.penalty(X.shape[0])

    def solve(watch: Watch) -> Solved:
        return problem.solve([penalty], start, setting.effort(watch), threads, check)[0]

    attributes = partial(_attributes, X.dtype, threads)
    return run_watched(model, problem.data, attributes, solve, verbose=setting.verbose)


def _attributes(dtype: Any, threads: int, fit: Solved) -> dict[str, Any]:
    """Return the public attributes of a fit."""
    return {
        "coef_": fit.coef.astype(dtype, copy=False),
        "intercept_": fit.intercept.astype(dtype, copy=False),
        "n_iter_": np.array([fit.iterations], dtype=np.int32),
        **judgement_of(fit, threads),
    }


def terms_of(
    model: Any, C: float, l1_ratio: float, y: NDArray[Any], weight: NDArray[np.float64] | None
) -> Terms:
    """Return what a fit minimised, from the labels and ``sample_weight`` it was given."""
    loss = SOFTMAX if len(model.classes_) > 2 else LOSSES["log_loss"]
    weight = weights_of_rows(model.class_weight, model.classes_, y, weight)
    l2, l1 = (1.0 - l1_ratio) / C, l1_ratio / C if l1_ratio > 0.0 else 0.0
    gap = float(getattr(model, "gap_", np.nan))
    return Terms(loss, weight, l2, l1, bool(model.fit_intercept), None, gap)


class LogisticRegression(  # type: ignore[misc]  # scikit-learn is untyped
    CallbackSupportMixin, LinearClassifierMixin, LinearEstimator
):
    r"""Logistic regression to any accuracy, without a solver to choose.

    It is scikit-learn's ``LogisticRegression`` with a bound on the gap, the share of the possible
    improvement that is left.

    It minimises ``C * sum_i s_i loss_i + (1 - l1_ratio) / 2 |w|^2 + l1_ratio |w|_1``, as
    scikit-learn's class of the same name does, by Newton's method: samples of the rows, drawn by
    importance, come first, and their Hessian steers a few steps over all rows. With more than two
    classes the loss is the cross-entropy of all of them (multinomial). Columns need not be scaled.
    ``tol`` says how close to the optimum a fit ends, and ``gap_`` how close it came.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"} or None, default="deprecated"
        The older names of ``l1_ratio=0``, ``l1_ratio=1``, an ``l1_ratio`` in between, and
        ``C=inf``. They are translated without a warning. By default ``l1_ratio`` decides.
    C : float, default=1.0
        Inverse of the strength of the penalty. ``np.inf`` means none.
    l1_ratio : float or None, default=0.0
        Share of the L1 part in the penalty, from 0 to 1. With an L1 part, some weights are exactly
        zero. None means 0.
    dual : bool, default=False
        Accepted for compatibility with scikit-learn, and ignored.
    tol : float, default=1e-4
        The fit ends when the objective is at most ``tol * (f_0 - f*)`` above its optimum ``f*``,
        where ``f_0`` is the objective of the best constant prediction (of zero weights, without an
        intercept), or at most ``1e-12 f_0``, the limit of rounding. This is not scikit-learn's
        ``tol``, which is compared with the largest entry of the gradient.

        Unless ``tol`` is above 1e-3, which asks for a quick fit, the fit continues in three cases.
        Without a penalty (``C=inf``) it continues until each weight is within 0.01 standard errors
        of the optimum, and this is proved: see ``coef_error_``. With gradient g and Hessian H of
        the summed objective, ``g' H^-1 g`` is then about 1e-4 at most. With an L2 penalty it does
        so if ``n_samples * n_weights ** 2`` is at most 1e8, because that is cheap; ``n_weights`` is
        the size of ``coef_``. Below 1500 rows it continues to a gap of 1e-10.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    intercept_scaling : float, default=1
        Accepted for compatibility with scikit-learn, and ignored.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``. "balanced" is ``n_samples /
        (n_classes * count)``, where rows count by their weights.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples. None is a fixed seed, so that fits are reproducible.
    solver : str, default="lbfgs"
        Ignored: scikit-learn's names are accepted, so that changing the import is enough. With
        "liblinear" there is a warning, because that solver penalises the intercept.
    max_iter : int, default=100
        Maximum number of iterations over all rows, and of epochs of dual ascent, which comes first
        for sparse rows with more columns than rows. With 0, weights and intercepts are zero, or
        those of the previous call with ``warm_start``.
    verbose : int, default=0
        1 or more prints the plan and the final gap.
    warm_start : bool, default=False
        Whether ``fit`` starts from the weights of the previous call.
    n_jobs : int or None, default=None
        Threads for passes over the rows and for matrix products. None means as many as BLAS would
        take: ``OMP_NUM_THREADS`` where that is set, else all cores. -1 means all cores, -2 all but
        one. Results with different numbers agree up to rounding; with the same they are equal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; zero without one. Those of many classes sum to zero.
    n_iter_ : ndarray of shape (1,)
        Iterations over all rows; epochs, if dual ascent converged.
    gap_ : float
        Bound on the distance of the objective from its optimum, in units of ``f_0 - f*``; see
        ``tol``. It can be above ``tol`` if ``max_iter`` or rounding ended the fit.
    gap_certified_ : bool
        Whether ``gap_`` is a bound. Without a penalty (``C=inf``) it then also proves that there is
        an optimum; it is an estimate if that cannot be proved, or if there are very many weights.
    coef_error_ : float
        Bound on the error of each weight, of the intercept, and of each linear combination of them
        such as a prediction, in units of its standard error, for all of them at once. It is known
        without a penalty (``C=inf``), where the standard errors are those of the inverse of the
        Hessian; otherwise NaN.
    plan_ : NewtonPlan
        What was chosen: samples, method and threads, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the features, if X has them.

    See Also
    --------
    LogisticRegressionCV : The same, with ``C`` chosen by cross-validation.
    SGDClassifier : Other losses, ``partial_fit``, and moderate accuracy on very many rows.

    Examples
    --------
    >>> import antithetic
    >>> X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    >>> model = antithetic.LogisticRegression(C=1.0).fit(X, y)
    >>> round(model.score(X, y), 2), model.gap_ <= 1e-10, model.gap_certified_
    (0.89, True, True)
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        "penalty": [StrOptions({"l1", "l2", "elasticnet", "deprecated"}), None],
        "C": [Interval(Real, 0, None, closed="right")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "dual": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "random_state": ["random_state"],
        "solver": [StrOptions(_SOLVERS)],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
        "warm_start": ["boolean"],
        "n_jobs": [None, Integral],
    }
    _y_numeric = False

    def __init__(
        self,
        penalty: str | None = "deprecated",
        *,
        C: float = 1.0,
        l1_ratio: float | None = 0.0,
        dual: bool = False,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        random_state: Any = None,
        solver: str = "lbfgs",
        max_iter: int = 100,
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. C-contiguous float64 and float32 and CSR matrices of these are not copied.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0, multiplied with ``class_weight``.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C it holds the weights before the last iteration.
        """
        setting = LogisticSetting.of(self, *penalty_of(self))
        with self._unchanged_on_errors():
            data = self._read(X, y, sample_weight, reset=True, later=True)
            self.classes_ = check_classes(classes_of(data.y))
            problem = LogisticProblem.of(setting, self.classes_, data)
            check = None if data.checked else partial(self._check, data.X, data.y, reset=False)
            # a fit of two classes sees entries that are not finite, but not of rows of weight zero
            if check and (problem.has_many or problem.data.weight is not None):
                check()
                check = None
            rows = len(self.classes_) if problem.has_many else 1
            start = first_weights(self, (rows, data.X.shape[1]))
            hooks = fit_context(self, problem.data.shown(), setting.max_iter + 1)
            with hooks, threads_for(setting.n_jobs) as threads:
                fit = fit_problem(self, problem, start, threads, check)
        problem.warn_after(fit, getattr(self, "feature_names_in_", None))
        return self

    def _terms(self, y: NDArray[Any], weight: NDArray[np.float64] | None) -> Terms:
        """Return what the fit minimised."""
        return terms_of(self, *penalty_of(self), y, weight)

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
