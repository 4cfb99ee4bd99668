"""Logistic regression whose penalty is chosen by cross-validation."""

from __future__ import annotations

import threading
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import (
    UNUSED,
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)

from antithetic._util.threads import thread_map, threads_of
from antithetic._util.warnings import warn
from antithetic.estimators.data import TrainingData
from antithetic.estimators.logistic import LogisticRegression
from antithetic.estimators.logistic_fit import strengths, threads_for
from antithetic.estimators.logistic_paths import Fold, Path, Paths, find_path, scores_of

_OWN = LogisticRegression._parameter_constraints


class LogisticRegressionCV(LogisticRegression):
    r"""Logistic regression whose ``C`` and ``l1_ratio`` are chosen by cross-validation.

    It is scikit-learn's ``LogisticRegressionCV`` with the algorithm of :class:`LogisticRegression`.

    Each fold goes through the values of ``C`` from strong to weak penalties and starts each fit
    from the weights of the one before; folds run in threads. Where scikit-learn 1.9 warns that a
    default will change (``l1_ratios``, ``scoring``, ``use_legacy_attributes``), the default here
    is the new one.

    Parameters
    ----------
    Cs : int or array-like of float, default=10
        Values of ``C`` to try, or their number: they are then spaced evenly by their logarithms
        from 1e-4 to 1e4.
    l1_ratios : array-like of float or None, default=(0.0,)
        Shares of the L1 part to try. None means what ``penalty`` says, else 0.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    cv : int, cross-validation generator, iterable, "loo" or None, default=None
        Folds, as in scikit-learn: None means five stratified ones. With "loo" each row is a fold
        of its own, which needs one fit for each ``C``: the log loss of each row in a fit without
        it follows with proved bounds, as in :func:`antithetic.inference.leave_one_out`, and
        ``choice_`` says whether they prove which ``C`` is best. The proof takes most of the time,
        2 to 50 times that of five folds where values of ``C`` are nearly equal. It needs an L2
        penalty, with more than two classes at most 500 weights; ``fit`` then takes ``groups`` of
        rows that are left out together.
    dual : bool, default=False
        Accepted for compatibility with scikit-learn, and ignored.
    penalty : {"l2", "l1", "elasticnet"}, default="deprecated"
        The older names of ``l1_ratios=(0,)`` and ``l1_ratios=(1,)``. They are translated without a
        warning. By default ``l1_ratios`` decides.
    scoring : str, callable or None, default="neg_log_loss"
        What the folds are compared by. None means accuracy.
    solver : str, default="lbfgs"
        Ignored: scikit-learn's names are accepted, so that changing the import is enough. With
        "liblinear" there is a warning, because that solver penalises the intercept.
    tol : float, default=1e-4
        How close to its optimum each fit ends; see :class:`LogisticRegression`.
    max_iter : int, default=100
        Maximum number of iterations over all rows in each fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``. "balanced" is ``n_samples /
        (n_classes * count)`` of all rows, where rows count by their weights.
    n_jobs : int or None, default=None
        Threads: folds share them, and the last fit has all. None means as many as BLAS would take,
        -1 all cores.
    verbose : int, default=0
        1 or more prints the plan and the final gap.
    refit : bool, default=True
        Whether to fit all rows with the best ``C`` and ``l1_ratio``. Otherwise the weights are the
        mean over the folds, of each fold's best fit.
    intercept_scaling : float, default=1.0
        Accepted for compatibility with scikit-learn, and ignored.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples, not of the folds. None is a fixed seed.
    use_legacy_attributes : bool, default=False
        Whether ``C_``, ``l1_ratio_``, ``scores_``, ``coefs_paths_`` and ``n_iter_`` have the form
        of scikit-learn up to 1.9: dicts by class, and arrays with an entry per class; with
        ``l1_ratios=None``, scikit-learn's default there, without an axis for ``l1_ratio``.
    rule : {"best", "1se"}, default="best"
        With ``cv="loo"``, whether to take the ``C`` of the best score, or the smallest ``C`` whose
        mean loss is above the best by at most one standard error of the rows' differences.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; zero without one.
    Cs_ : ndarray of shape (n_cs,)
        Values of ``C`` that were tried.
    l1_ratios_ : ndarray of shape (n_l1_ratios,)
        Shares of the L1 part that were tried.
    coefs_paths_ : ndarray of shape (n_folds, n_l1_ratios, n_cs, n_classes, n_features + 1)
        Weights of all fits, intercepts last (without them, ``n_features``); two classes have one
        row. Not with ``cv="loo"``.
    scores_ : ndarray of shape (n_folds, n_l1_ratios, n_cs)
        Score of each fit on the rows that its fold left out.
    scores_bounds_ : ndarray of shape (2, n_folds, 1, n_cs)
        With ``cv="loo"``, proved lower and upper bounds on ``scores_``.
    choice_ : LeaveOneOutChoice
        With ``cv="loo"``, the mean losses, their bounds, and whether the choice is proved.
    C_ : float
        The best ``C``; with ``refit=False``, the mean of each fold's best.
    l1_ratio_ : float
        The best ``l1_ratio``, in the same way.
    n_iter_ : ndarray of shape (n_folds, n_l1_ratios, n_cs)
        Iterations over all rows of the fold, of each fit.
    gap_, gap_certified_, coef_error_, plan_
        Those of the last fit, with ``refit=True``; see :class:`LogisticRegression`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the features, if X has them.

    See Also
    --------
    LogisticRegression : The same with a ``C`` that is given.

    Examples
    --------
    >>> import antithetic
    >>> X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    >>> model = antithetic.LogisticRegressionCV(Cs=[0.01, 0.1, 1.0, 10.0]).fit(X, y)
    >>> model.C_, model.scores_.shape
    (0.1, (5, 1, 4))
    >>> model = antithetic.LogisticRegressionCV(Cs=[0.01, 0.1, 1.0, 10.0], cv="loo").fit(X, y)
    >>> model.C_, model.scores_.shape, model.choice_.proved
    (1.0, (208, 1, 4), True)
    """

    __metadata_request__score = {"sample_weight": UNUSED}  # noqa: RUF012 - scikit-learn's form
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **{name: _OWN[name] for name in _OWN if name not in ("C", "l1_ratio", "warm_start")},
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "l1_ratios": ["array-like", None],
        "cv": [StrOptions({"loo"}), "cv_object"],
        "rule": [StrOptions({"best", "1se"})],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
        "penalty": [StrOptions({"l1", "l2", "elasticnet", "deprecated"})],
        "use_legacy_attributes": ["boolean"],
    }

    def __init__(
        self,
        *,
        Cs: Any = 10,
        l1_ratios: Any = (0.0,),
        fit_intercept: bool = True,
        cv: Any = None,
        dual: bool = False,
        penalty: str = "deprecated",
        scoring: Any = "neg_log_loss",
        solver: str = "lbfgs",
        tol: float = 1e-4,
        max_iter: int = 100,
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        refit: bool = True,
        intercept_scaling: float = 1.0,
        random_state: Any = None,
        use_legacy_attributes: bool = False,
        rule: str = "best",
    ) -> None:
        self.Cs = Cs
        self.l1_ratios = l1_ratios
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.dual = dual
        self.penalty = penalty
        self.scoring = scoring
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.refit = refit
        self.intercept_scaling = intercept_scaling
        self.random_state = random_state
        self.use_legacy_attributes = use_legacy_attributes
        self.rule = rule

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> LogisticRegressionCV:
        """Choose ``C`` and ``l1_ratio``, and fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. C-contiguous float64 and float32 and CSR matrices of these are not copied.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0, multiplied with ``class_weight`` in fits. Scores are
            weighted by them too.
        **params : dict
            For the splitter and the scorer, by scikit-learn's metadata routing; ``groups`` with
            ``cv="loo"``.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        groups = params.pop("groups", None) if isinstance(self.cv, str) else None
        _raise_for_params(params, self, "fit")
        Cs, l1_ratios = self._read_grid()
        self._check_solver()
        if isinstance(self.cv, str):
            return self._fit_left_out(X, y, sample_weight, groups, Cs, l1_ratios)
        if self.rule != "best":
            raise ValueError(f'rule={self.rule!r} needs cv="loo"; leave it out with folds')
        with self._unchanged_on_errors():
            data = self._read_classes(X, y, sample_weight)
            self._check_class_weight()
            routed = self._route_fit(data.weight, params)
            data = self._weigh(data)
            splitter = check_cv(self.cv, data.y, classifier=True)
            folds = list(splitter.split(data.X, data.y, **routed.splitter.split))
            paths = self._find_paths(data, folds, Cs, l1_ratios, routed.scorer.score)
            fitted = self._choose(data, paths)
            self.__dict__.update(fitted)
            for name in ("choice_", "scores_bounds_"):  # of a previous fit with cv="loo"
                self.__dict__.pop(name, None)
            self._warn_of_paths(data, folds, paths)
        return self

    # ---- parameters

    def _read_penalty(self) -> tuple[float, float]:
        """Return the ``C`` and ``l1_ratio`` that were chosen, the same for all classes."""
        return float(np.max(self.C_)), float(np.max(self.l1_ratio_))

    def _read_grid(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the values of ``C`` and ``l1_ratio`` that are tried."""
        is_count = isinstance(self.Cs, Integral)
        Cs = np.logspace(-4, 4, int(self.Cs)) if is_count else np.asarray(self.Cs, np.float64)
        if Cs.ndim != 1 or not len(Cs) or not (Cs > 0.0).all():
            raise ValueError(
                f"Cs must be a list of positive numbers, or how many to try; got {self.Cs!r}"
            )
        if self.penalty in ("l1", "l2"):
            return Cs, np.array([1.0 if self.penalty == "l1" else 0.0])
        if self.l1_ratios is None and self.penalty == "deprecated":
            return Cs, np.zeros(1)
        message = f"l1_ratios must be numbers between 0 and 1; got {self.l1_ratios!r}"
        try:
            ratios = np.asarray(self.l1_ratios, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(message) from error
        if ratios.ndim != 1 or not len(ratios) or not ((ratios >= 0.0) & (ratios <= 1.0)).all():
            raise ValueError(message)
        return Cs, ratios

    def _check_class_weight(self) -> None:
        if isinstance(self.class_weight, dict):
            unknown = set(self.class_weight) - set(self.classes_.tolist())
            if unknown:
                raise ValueError(
                    "The given class_weight dict must have the class labels as keys; y has"
                    f" {self.classes_.tolist()}, not {sorted(unknown, key=repr)}"
                )

    # ---- leave-one-out

    def _fit_left_out(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        Cs: NDArray[np.float64],
        l1_ratios: NDArray[np.float64],
    ) -> LogisticRegressionCV:
        """Fit all rows with each ``C``, and choose by the rows' losses in fits without them."""
        from antithetic.estimators.logistic_loo import choose_by_leave_one_out

        self._refuse_for_left_out(l1_ratios)
        with self._unchanged_on_errors():
            data = self._read_classes(X, y, sample_weight)
            self._check_class_weight()
            weight, data = data.weight, self._weigh(data)
            order = np.argsort(Cs, kind="stable")
            penalties = [strengths(float(C), 0.0, data.X.shape[0]) for C in Cs[order]]
            with threads_for(self.n_jobs) as threads:
                path = self._solve(data, penalties, None, self._effort(), threads)
                fits = [path[place] for place in np.argsort(order)]
                found = choose_by_leave_one_out(
                    fits,
                    Cs,
                    self.classes_,
                    data,
                    weight,
                    fit_intercept=bool(self.fit_intercept),
                    groups=groups,
                    rule=self.rule,
                    threads=threads,
                )
                place = int(np.flatnonzero(Cs == found.choice.C)[0])
                start = fits[place].coef, fits[place].intercept
                fit = self._run(data, strengths(found.choice.C, 0.0, len(data.y)), start, threads)
            self._warn_after_fit(fit, data, found.choice.C)
            self._warn_at_edge(found.choice.best, Cs)
            self.__dict__.update(
                Cs_=Cs,
                l1_ratios_=l1_ratios,
                C_=found.choice.C,
                l1_ratio_=0.0,
                scores_=found.scores,
                scores_bounds_=found.bounds,
                choice_=found.choice,
                n_iter_=np.array([[[fit.iterations for fit in fits]]], dtype=np.int32),
            )
            self.__dict__.pop("coefs_paths_", None)
        return self

    def _refuse_for_left_out(self, l1_ratios: NDArray[np.float64]) -> None:
        """Raise ValueError for what cv="loo" has no bounds for."""
        if l1_ratios.any():
            raise ValueError(
                'cv="loo" needs l1_ratios=(0,): with an L1 part the optimum moves by kinks when a'
                " row is left out, and no bound is known; use folds, cv=5"
            )
        if self.scoring != "neg_log_loss":
            raise ValueError(
                'cv="loo" compares by the log loss, scoring="neg_log_loss" (of single rows,'
                f" accuracies tie); got scoring={self.scoring!r}; use folds, cv=5"
            )
        if not self.refit:
            raise ValueError('cv="loo" has no folds whose fits refit=False could average; use True')
        if self.use_legacy_attributes:
            raise ValueError('use_legacy_attributes=True is not supported with cv="loo"')

    def _warn_at_edge(self, C: float, Cs: NDArray[np.float64]) -> None:
        finite = np.unique(Cs)
        if len(finite) > 1 and C in (finite[0], finite[-1]) and np.isfinite(C):
            more = "smaller" if finite[0] == C else "larger"
            warn(
                f"the best C, {C:g}, is the {'least' if more == 'smaller' else 'greatest'} of Cs:"
                f" add {more} values",
                UserWarning,
            )

    # ---- folds

    def _route_fit(self, sample_weight: Any, params: dict[str, Any]) -> Any:
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        score = dict(params)
        if sample_weight is not None:
            score["sample_weight"] = sample_weight
        return Bunch(splitter=Bunch(split={}), scorer=Bunch(score=score))

    def _find_paths(
        self,
        data: TrainingData,
        folds: list[Any],
        Cs: NDArray[np.float64],
        l1_ratios: NDArray[np.float64],
        score_params: dict[str, Any],
    ) -> Paths:
        threads = threads_of(self.n_jobs)
        at_once = min(threads, len(folds))
        stopped = threading.Event()

        def look(_so_far: object) -> None:
            if stopped.is_set():
                raise KeyboardInterrupt

        effort = self._effort()._replace(watch=look)
        solve = partial(self._solve, threads=threads // at_once)
        scores = partial(scores_of, self.classes_, self.scoring, score_params)

        def follow(fold: Fold) -> list[Path]:
            train = data.take(fold[0])
            return [
                find_path(train, data, fold[1], Cs, float(l1_ratio), effort, solve, scores)
                for l1_ratio in l1_ratios
            ]

        with thread_map(at_once) as run:
            try:
                found = run(follow, folds)
            except KeyboardInterrupt:
                stopped.set()  # other threads, which are waited for, end at their next iteration
                raise
        return Paths(Cs, l1_ratios, found, bool(self.fit_intercept))

    def _choose(self, data: TrainingData, paths: Paths) -> dict[str, Any]:
        """Attributes of the best fit, or of the mean of each fold's best."""
        d = data.X.shape[1]
        if self.refit:
            place = paths.best()
            C, l1_ratio = float(paths.Cs[place[1]]), float(paths.l1_ratios[place[0]])
            mean = paths.mean_of([place] * len(paths.found))
            start = mean[:, :d], mean[:, d] if self.fit_intercept else np.zeros(len(mean))
            penalty = strengths(C, l1_ratio, data.X.shape[0])
            with threads_for(self.n_jobs) as threads:
                fit = self._run(data, penalty, start, threads)
            self._warn_after_fit(fit, data, C)
        else:
            places = paths.best_of_each()
            C = float(np.mean([paths.Cs[place[1]] for place in places]))
            l1_ratio = float(np.mean([paths.l1_ratios[place[0]] for place in places]))
            mean = paths.mean_of(places)
            self.coef_ = mean[:, :d].astype(data.X.dtype)
            last = mean[:, d] if self.fit_intercept else np.zeros(len(mean))
            self.intercept_ = last.astype(data.X.dtype)
        found = {"Cs_": paths.Cs, "l1_ratios_": paths.l1_ratios, "C_": C, "l1_ratio_": l1_ratio}
        found |= {"coefs_paths_": paths.coefs(), "scores_": paths.scores()}
        found["n_iter_"] = paths.iterations()
        if not self.use_legacy_attributes:
            return found
        return paths.legacy(found, self.classes_, has_ratios=self.l1_ratios is not None)

    def _warn_of_paths(self, data: TrainingData, folds: list[Fold], paths: Paths) -> None:
        short = [
            (number, C, fit)
            for number, found in enumerate(paths.found)
            for path in found
            for C, fit in zip(paths.Cs.tolist(), path.fits, strict=True)
            if np.isfinite(C) and fit.is_short_of(float(self.tol))
        ]
        if not short:
            return
        number, C, fit = short[0]
        why = self._shortfall(fit, data.X[folds[number][0]], C)
        warn(
            f"{len(short)} fits of the cross-validation ended early; the first of them, with"
            f" C={C:g} in fold {number}: {why}",
            ConvergenceWarning,
        )

    # ---- scores

    def score(self, X: Any, y: Any, *, sample_weight: Any = None, **score_params: Any) -> float:
        """Score by ``scoring``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        **score_params : dict
            For the scorer, by scikit-learn's metadata routing.

        Returns
        -------
        float
        """
        _raise_for_params(score_params, self, "score")
        if sample_weight is not None:
            score_params["sample_weight"] = sample_weight
        if _routing_enabled():
            score_params = process_routing(self, "score", **score_params).scorer.score
        return float(self._get_scorer()(self, X, y, **score_params))

    def get_metadata_routing(self) -> Any:
        """Metadata that the splitter and the scorer ask for.

        Returns
        -------
        MetadataRouter
        """
        scoring = MethodMapping().add(caller="score", callee="score")
        scoring.add(caller="fit", callee="score")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split")
        )
        return router.add(scorer=self._get_scorer(), method_mapping=scoring)

    def _get_scorer(self) -> Any:
        return get_scorer("accuracy" if self.scoring is None else self.scoring)
