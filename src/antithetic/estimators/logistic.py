"""Logistic regression to any accuracy: wiring only."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from antithetic.estimators.callbacks import fit_context
from antithetic.estimators.logistic_base import LogisticModel
from antithetic.estimators.logistic_fit import check_jobs, strengths, threads_for

_SOLVERS = {"lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"}


class LogisticRegression(LogisticModel):
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
        C, l1_ratio = self._read_penalty()
        check_jobs(self.n_jobs)
        self._check_solver()
        with self._unchanged_on_errors():
            data = self._weigh(self._read_classes(X, y, sample_weight, later=True))
            check = self._check_now_or_later(data)
            penalty = strengths(C, l1_ratio, data.X.shape[0])
            start = self._first_weights(data.X.shape[1])
            hooks = fit_context(self, data.shown(), int(self.max_iter) + 1)
            with hooks, threads_for(self.n_jobs) as threads:
                fit = self._run(data, penalty, start, threads, check)
        self._warn_after_fit(fit, data, C)
        return self
