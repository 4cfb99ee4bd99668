"""Logistic regression to any accuracy: wiring only."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from antithetic._util.warnings import warn
from antithetic.estimators.callbacks import (
    CallbackSupportMixin,
    Iterations,
    StoppedByCallback,
    fit_context,
    with_callbacks,
)
from antithetic.estimators.data import TrainingData
from antithetic.estimators.linear import LinearEstimator
from antithetic.estimators.logistic_fit import (
    LEAST_TOL,
    Effort,
    Fit,
    NewtonPlan,
    are_separated,
    seed_of,
    separation,
    shortfall,
    strengths,
    threads_for,
)
from antithetic.estimators.one_vs_rest import check_classes, classes_of, weights_of_classes
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.newton import solve_problem

_SOLVERS = {"lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"}


class LogisticRegression(CallbackSupportMixin, LinearClassifierMixin, LinearEstimator):  # type: ignore[misc]
    r"""Logistic regression to any accuracy, without a solver to choose.

    It is scikit-learn's ``LogisticRegression`` with a bound on the distance from the optimum.

    It minimises ``C * sum_i s_i loss_i + (1 - l1_ratio) / 2 |w|^2 + l1_ratio |w|_1``, as
    scikit-learn's class of the same name does, by quasi-Newton steps on samples of the rows that
    grow, and then on all of them. Columns need not be scaled. ``tol`` says how near to the optimum
    a fit ends, and ``gap_`` how near it came.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"} or None, default="deprecated"
        The older way to say ``l1_ratio=0``, ``l1_ratio=1``, ``l1_ratio`` in between, and
        ``C=inf``. It is translated without a warning. The default leaves it to ``l1_ratio``.
    C : float, default=1.0
        Inverse of the strength of the penalty. ``np.inf`` means none.
    l1_ratio : float or None, default=0.0
        Share of the L1 part in the penalty, from 0 to 1. With an L1 part, some weights are exactly
        zero. None means 0.
    dual : bool, default=False
        Ignored: it is scikit-learn's.
    tol : float, default=1e-4
        The fit ends when the objective is at most ``tol * (f_0 - f*)`` above its optimum ``f*``,
        where ``f_0`` is the objective of the best constant prediction (of zero weights, without an
        intercept), or at most ``1e-12 f_0`` (``1e-6`` for float32), where rounding ends it. This is
        not scikit-learn's ``tol``, which is compared with the largest entry of the gradient. Below
        1500 rows more digits cost nothing, and the fit goes on to 1e-10.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    intercept_scaling : float, default=1
        Ignored: it is scikit-learn's.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``. "balanced" is ``n_samples /
        (n_classes * count)``, where rows count by their weights.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples. None is always the same seed, so that fits repeat.
    solver : str, default="lbfgs"
        Ignored: scikit-learn's solvers are accepted, so that code can switch by its import alone.
        With "liblinear" there is a warning, as that penalises the intercept.
    max_iter : int, default=100
        Most iterations over all rows.
    verbose : int, default=0
        1 or more prints what was chosen.
    warm_start : bool, default=False
        Whether ``fit`` begins with the weights of the last call.
    n_jobs : int or None, default=None
        Threads for passes over the rows and for matrix products. None means as many as BLAS would
        take: ``OMP_NUM_THREADS`` where that is set, else all cores. -1 means all cores. Results of
        different numbers agree to rounding; those of the same number are equal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; zero without one.
    n_iter_ : ndarray of shape (1,)
        Iterations over all rows.
    gap_ : float
        Bound on the distance of the objective from its optimum, in units of ``f_0 - f*``; see
        ``tol``.
    gap_certified_ : bool
        Whether ``gap_`` is a bound. Without a penalty (``C=inf``) it is an estimate.
    plan_ : NewtonPlan
        What was chosen: samples, method and threads, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Their names, where the columns of X have such.

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
    (0.88, True, True)
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

    @with_callbacks
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
        C, l1_ratio = self._read_penalty()
        self._check_solver()
        with self._unchanged_on_errors():
            data = self._read_classes(X, y, sample_weight)
            penalty = strengths(C, l1_ratio, data.X.shape[0])
            start = self._first_weights(data.X.shape[1])
            with threads_for(self.n_jobs) as threads, fit_context(self, data.shown(), 1):
                fit = self._run(data, penalty, start, threads)
        self._warn_after_fit(fit, data, C)
        return self

    # ---- parameters and data

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
                warn(f"penalty=None means C=inf: C={self.C!r} is ignored", UserWarning)
            return np.inf, 0.0
        meant = {"l2": 0.0, "l1": 1.0}[self.penalty]
        if l1_ratio not in (0.0, meant):
            warn(
                f"penalty={self.penalty!r} means l1_ratio={meant:g}: l1_ratio={self.l1_ratio!r} is"
                " ignored; leave penalty out",
                UserWarning,
            )
        return float(self.C), meant

    def _check_solver(self) -> None:
        if self.solver == "liblinear" and self.fit_intercept:
            warn(
                "solver='liblinear' penalises the intercept in scikit-learn; this class never does,"
                " whatever solver= says, so the weights differ slightly",
                UserWarning,
            )

    def _read_classes(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Check the data; their weights are those of rows times those of classes."""
        data = self._read(X, y, sample_weight, reset=True)
        self.classes_ = check_classes(classes_of(data.y))
        weight = data.weight
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

    # ---- the fit

    def _run(self, data: TrainingData, penalty: ElasticNet, start: Any, threads: int) -> Fit:
        """Fit, and take over the result; on Ctrl-C, that before the last iteration."""
        n, d = data.X.shape

        def fitted(fit: Fit) -> dict[str, Any]:
            plan = NewtonPlan.of(fit, n, d, threads, is_warm=start is not None)
            return _attributes(fit, data.X.dtype) | {"plan_": plan}

        iterations = Iterations(self, data.shown(), fitted)
        effort = self._effort(threads)._replace(watch=iterations.watch)
        try:
            fit = self._solve(data, [penalty], start, effort)[0]
            iterations.end(fit)
        except StoppedByCallback:
            fit = iterations.last._replace(ended="callback")
        except KeyboardInterrupt:
            if iterations.last is not None:
                self.__dict__.update(fitted(iterations.last))
            raise
        self.__dict__.update(fitted(fit))
        if self.verbose:
            print(f"{type(self).__name__}: gap {fit.gap:.1e} ({self.plan_.why})")
        return fit

    def _effort(self, threads: int) -> Effort:
        tol = max(float(self.tol), LEAST_TOL)
        return Effort(tol, int(self.max_iter), seed_of(self.random_state), threads)

    def _solve(
        self, data: TrainingData, penalties: list[ElasticNet], start: Any, effort: Effort
    ) -> list[Fit]:
        """Minimise with each penalty in turn, each from the weights of the one before.

        ``start`` holds weights of shape (k, d) and intercepts of shape (k,) for the first, or is
        None.
        """
        solve = self._fit_two if len(self.classes_) == 2 else self._fit_many
        return solve(data, penalties, start, effort)

    def _fit_two(
        self, data: TrainingData, penalties: list[ElasticNet], start: Any, effort: Effort
    ) -> list[Fit]:
        target = np.where(data.y == self.classes_[1], 1.0, -1.0)
        loss, intercept = LOSSES["log_loss"], bool(self.fit_intercept)
        watch = effort.watch
        found = []
        for penalty in penalties:
            solved = solve_problem(
                Problem(data.X, target, loss, penalty, data.weight, intercept, None),
                tol=effort.tol,
                max_iter=effort.max_iter,
                start=None if start is None else (start[0][0], float(start[1][0])),
                seed=effort.seed,
                threads=effort.threads,
                watch=None if watch is None else lambda solved: watch(Fit.of(solved)),
            )
            found.append(Fit.of(solved))
            start = found[-1].coef, found[-1].intercept
        return found

    def _fit_many(
        self, data: TrainingData, penalties: list[ElasticNet], start: Any, effort: Effort
    ) -> list[Fit]:
        del data, penalties, start, effort
        labels = self.classes_.tolist()
        shown = ", ".join(repr(label) for label in labels[:5]) + ", ..." * (len(labels) > 5)
        raise ValueError(
            f"Only two classes are supported: y has {len(labels)} classes ({shown}). Wrap the"
            " estimator in sklearn.multiclass.OneVsRestClassifier"
        )

    def _warn_after_fit(self, fit: Fit, data: TrainingData, C: float) -> None:
        if np.isinf(C) and are_separated(data, self.classes_, fit):
            warn(separation(), ConvergenceWarning)
        elif fit.is_short_of(float(self.tol)):
            warn(self._shortfall(fit, data.X, C), ConvergenceWarning)

    def _shortfall(self, fit: Fit, X: Any, C: float) -> str:
        names = getattr(self, "feature_names_in_", None)
        return shortfall(fit, X, tol=float(self.tol), C=C, max_iter=int(self.max_iter), names=names)

    # ---- predictions

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _attributes(fit: Fit, dtype: Any) -> dict[str, Any]:
    return {
        "coef_": fit.coef.astype(dtype, copy=False),
        "intercept_": fit.intercept.astype(dtype, copy=False),
        "n_iter_": np.array([fit.iterations], dtype=np.int32),
        "gap_": float(fit.gap),
        "gap_certified_": bool(fit.certified),
    }
