"""Logistic regression whose penalty is chosen by cross-validation."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer
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
from sklearn.utils.validation import _check_method_params

from antithetic._util.threads import thread_map, threads_of
from antithetic._util.warnings import warn
from antithetic.estimators.exact_fit import threads_for
from antithetic.estimators.logistic import (
    LogisticProblem,
    LogisticRegression,
    LogisticSetting,
    fit_problem,
    terms_of,
)
from antithetic.estimators.one_vs_rest import check_classes, classes_of
from antithetic.exact.path import Effort, Solved
from antithetic.problem.terms import Terms

Fold: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
Place: TypeAlias = tuple[int, int]  # of an l1_ratio and of a C
Score: TypeAlias = Callable[[list[Solved], NDArray[np.intp]], NDArray[np.float64]]

_OWN = LogisticRegression._parameter_constraints
_AT_ONCE = ("accuracy", "neg_log_loss")
_MOST_LOSS = -float(np.log(np.finfo(np.float64).eps))


@dataclass(frozen=True, slots=True, eq=False)
class GridSetting:
    """The parameters of a `LogisticRegressionCV`, checked together.

    Attributes
    ----------
    own : LogisticSetting
        That of its fits, with the first of the penalties.
    Cs, l1_ratios : ndarray of shape (n_cs,) or (n_l1_ratios,)
    """

    own: LogisticSetting
    Cs: NDArray[np.float64]
    l1_ratios: NDArray[np.float64]

    @classmethod
    def of(cls, model: Any) -> GridSetting:
        """Read the parameters of an estimator; raise ValueError if they cannot be combined."""
        Cs, l1_ratios = _grid_of(model)
        own = LogisticSetting.of(model, float(Cs[0]), float(l1_ratios[0]))
        if isinstance(model.cv, str):
            _refuse_for_left_out(model, l1_ratios)
        elif model.rule != "best":
            raise ValueError(f'rule={model.rule!r} needs cv="loo"; leave it out with folds')
        return cls(own, Cs, l1_ratios)


def _grid_of(model: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of ``C`` and ``l1_ratio`` that are tried."""
    is_count = isinstance(model.Cs, Integral)
    Cs = np.logspace(-4, 4, int(model.Cs)) if is_count else np.asarray(model.Cs, np.float64)
    if Cs.ndim != 1 or not len(Cs) or not (Cs > 0.0).all():
        raise ValueError(
            f"Cs must be a list of positive numbers, or how many to try; got {model.Cs!r}"
        )
    if model.penalty in ("l1", "l2"):
        return Cs, np.array([1.0 if model.penalty == "l1" else 0.0])
    if model.l1_ratios is None and model.penalty == "deprecated":
        return Cs, np.zeros(1)
    message = f"l1_ratios must be numbers between 0 and 1; got {model.l1_ratios!r}"
    try:
        ratios = np.asarray(model.l1_ratios, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(message) from error
    if ratios.ndim != 1 or not len(ratios) or not ((ratios >= 0.0) & (ratios <= 1.0)).all():
        raise ValueError(message)
    return Cs, ratios


def _refuse_for_left_out(model: Any, l1_ratios: NDArray[np.float64]) -> None:
    """Raise ValueError for what cv="loo" has no bounds for."""
    if l1_ratios.any():
        raise ValueError(
            'cv="loo" needs l1_ratios=(0,): with an L1 part the optimum moves by kinks when a'
            " row is left out, and no bound is known; use folds, cv=5"
        )
    if model.scoring != "neg_log_loss":
        raise ValueError(
            'cv="loo" compares by the log loss, scoring="neg_log_loss" (of single rows,'
            f" accuracies tie); got scoring={model.scoring!r}; use folds, cv=5"
        )
    if not model.refit:
        raise ValueError('cv="loo" has no folds whose fits refit=False could average; use True')
    if model.use_legacy_attributes:
        raise ValueError('use_legacy_attributes=True is not supported with cv="loo"')


def _warn_at_edge(C: float, Cs: NDArray[np.float64]) -> None:
    finite = np.unique(Cs)
    if len(finite) > 1 and C in (finite[0], finite[-1]) and np.isfinite(C):
        more = "smaller" if finite[0] == C else "larger"
        warn(
            f"the best C, {C:g}, is the {'least' if more == 'smaller' else 'greatest'} of Cs:"
            f" add {more} values",
            UserWarning,
        )


def _check_class_weight(given: Any, classes: NDArray[Any]) -> None:
    unknown = set(given) - set(classes.tolist()) if isinstance(given, dict) else set()
    if unknown:
        raise ValueError(
            "The given class_weight dict must have the class labels as keys; y has"
            f" {classes.tolist()}, not {sorted(unknown, key=repr)}"
        )


class Path(NamedTuple):
    """Fits of one fold with one ``l1_ratio``, in the order in which ``Cs`` were given."""

    fits: list[Solved]
    scores: NDArray[np.float64]


def fits_along(
    problem: LogisticProblem,
    Cs: NDArray[np.float64],
    l1_ratio: float,
    effort: Effort,
    threads: int,
) -> list[Solved]:
    """Fit from strong to weak penalties; return the fits in the order of ``Cs``."""
    order, n = np.argsort(Cs, kind="stable"), problem.data.X.shape[0]
    penalties = [problem.at(C, l1_ratio).setting.penalty(n) for C in Cs[order].tolist()]
    found = problem.solve(penalties, None, effort, threads)
    return [found[place] for place in np.argsort(order)]


def follow_folds(
    setting: GridSetting, problem: LogisticProblem, folds: list[Fold], score: Score
) -> Paths:
    """Fit the rows of each fold with each penalty, and score the rows that it left out."""
    own, Cs = setting.own, setting.Cs
    threads = threads_of(own.n_jobs)
    at_once = min(threads, len(folds))
    stopped = threading.Event()

    def look(_so_far: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    effort = own.effort(look)

    def follow(fold: Fold) -> list[Path]:
        train, found = problem.take(fold[0]), []
        for l1_ratio in setting.l1_ratios.tolist():
            fits = fits_along(train, Cs, l1_ratio, effort, threads // at_once)
            found.append(Path(fits, score(fits, fold[1])))
        return found

    with thread_map(at_once) as run:
        try:
            found = run(follow, folds)
        except KeyboardInterrupt:
            stopped.set()  # other threads, which are waited for, end at their next iteration
            raise
    return Paths(setting, found)


def scores_of(
    problem: LogisticProblem,
    scoring: Any,
    params: dict[str, Any],
    fits: list[Solved],
    test: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Score each fit on some rows."""
    classes, data = problem.classes, problem.data
    X, y = data.X[test], data.y[test]
    params = _check_method_params(data.X, params, indices=test)
    scoring = "accuracy" if scoring is None else scoring
    is_known = isinstance(scoring, str) and scoring in _AT_ONCE and set(params) <= {"sample_weight"}
    given = params.get("sample_weight")
    if given is not None and not np.any(given):
        raise ValueError(
            f"sample_weight is zero for all {len(test)} rows of a fold, which gives it no score;"
            " use fewer folds, or leave out rows without weight"
        )
    if is_known and len(classes) == 2:
        return _scores_at_once(scoring, fits, X, y == classes[1], given)
    scorer = _with_labels(get_scorer(scoring), classes)
    model = LogisticRegression()
    model.classes_, model.n_features_in_ = classes, X.shape[1]
    scores = []
    for fit in fits:
        model.coef_, model.intercept_ = fit.coef, fit.intercept
        scores.append(float(scorer(model, X, y, **params)))
    return np.array(scores)


def _scores_at_once(
    scoring: str, fits: list[Solved], X: Any, is_second: NDArray[np.bool_], weight: Any
) -> NDArray[np.float64]:
    """Score all fits of two classes in one pass: scikit-learn's checks take longer than fits."""
    coef = np.concatenate([fit.coef for fit in fits])
    predictions = X @ coef.T + np.concatenate([fit.intercept for fit in fits])
    if scoring == "accuracy":
        of_rows = (predictions > 0.0) == is_second[:, None]
    else:
        np.negative(predictions, where=is_second[:, None], out=predictions)
        # a probability of zero counts as the least that scikit-learn knows
        of_rows = -np.minimum(np.logaddexp(0.0, predictions), _MOST_LOSS)
    return np.asarray(np.average(of_rows, axis=0, weights=weight), dtype=np.float64)


def _with_labels(scorer: Any, classes: NDArray[Any]) -> Any:
    """Tell a metric which labels there are: some rows may lack one."""
    metric = getattr(scorer, "_score_func", None)
    known = inspect.signature(metric).parameters if metric is not None else {}
    if "labels" not in known:
        return scorer
    given = {"labels": classes}
    if "pos_label" in known and len(classes) == 2:
        given["pos_label"] = classes[-1]
    return make_scorer(
        metric,
        greater_is_better=scorer._sign == 1,
        response_method=scorer._response_method,
        **(given | scorer._kwargs),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Paths of all folds, by fold and ``l1_ratio``."""

    setting: GridSetting
    found: list[list[Path]]

    def scores(self) -> NDArray[np.float64]:
        """By fold, ``l1_ratio`` and ``C``."""
        return np.array([[path.scores for path in fold] for fold in self.found])

    def iterations(self) -> NDArray[np.int32]:
        """By fold, ``l1_ratio`` and ``C``."""
        return np.array(
            [[[fit.iterations for fit in path.fits] for path in fold] for fold in self.found],
            dtype=np.int32,
        )

    def coefs(self) -> NDArray[np.float64]:
        """By fold, ``l1_ratio``, ``C`` and class, intercepts last."""
        has_last = self.setting.own.fit_intercept

        def row(fit: Solved) -> NDArray[np.float64]:
            return np.column_stack([fit.coef, fit.intercept]) if has_last else fit.coef

        return np.array([[[row(fit) for fit in path.fits] for path in fold] for fold in self.found])

    def best(self) -> Place:
        """Place of the best sum of scores; of several the first ``C``, as in scikit-learn."""
        return self._place(self.scores().sum(axis=0))

    def best_of_each(self) -> list[Place]:
        """Place of each fold's best score."""
        return [self._place(scores) for scores in self.scores()]

    def _place(self, scores: NDArray[np.float64]) -> Place:
        C, ratio = np.unravel_index(int(scores.T.argmax()), scores.T.shape)
        return int(ratio), int(C)

    def mean_of(self, places: list[Place]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean of the weights at a place in each fold, and of the intercepts."""
        zipped = zip(self.found, places, strict=True)
        fits = [fold[ratio].fits[C] for fold, (ratio, C) in zipped]
        coef = np.mean([fit.coef for fit in fits], axis=0)
        return coef, np.mean([fit.intercept for fit in fits], axis=0)

    def legacy(
        self, fitted: dict[str, Any], classes: NDArray[Any], *, has_ratios: bool
    ) -> dict[str, Any]:
        """Attributes in the form of scikit-learn up to 1.9, by class.

        ``has_ratios`` says whether ``l1_ratios`` was given. If not, arrays have no axis for it.
        """
        labels = classes[1:] if len(classes) == 2 else classes
        coefs = np.moveaxis(fitted["coefs_paths_"], (3, 0, 2, 1), (0, 1, 2, 3))
        scores = np.swapaxes(fitted["scores_"], 1, 2)
        n_iter = np.swapaxes(fitted["n_iter_"], 1, 2)[None]
        if not has_ratios:
            coefs, scores, n_iter = coefs[..., 0, :], scores[..., 0], n_iter[..., 0]
        return fitted | {
            "C_": np.full(len(labels), fitted["C_"]),
            "l1_ratio_": np.full(len(labels), fitted["l1_ratio_"]),
            "coefs_paths_": dict(zip(labels, coefs, strict=True)),
            "scores_": {label: scores.copy() for label in labels},
            "n_iter_": n_iter,
        }

    def warn_if_short(
        self, problem: LogisticProblem, folds: list[Fold], names: NDArray[Any] | None
    ) -> None:
        """Warn of fits with a penalty whose gap is above the tolerance."""
        short = [
            (number, C, fit)
            for number, found in enumerate(self.found)
            for path in found
            for C, fit in zip(self.setting.Cs.tolist(), path.fits, strict=True)
            if np.isfinite(C) and fit.is_short_of(self.setting.own.tol)
        ]
        if not short:
            return
        number, C, fit = short[0]
        why = problem.take(folds[number][0]).at(C, 0.0).shortfall(fit, names)
        warn(
            f"{len(short)} fits of the cross-validation ended early; the first of them, with"
            f" C={C:g} in fold {number}: {why}",
            ConvergenceWarning,
        )


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
        1.6 to 26 times that of five folds (on 20 sets). It needs an L2 penalty, with more than two
        classes at most 500 weights; ``fit`` then takes ``groups`` of rows that are left out
        together.
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
        setting = GridSetting.of(self)
        with self._unchanged_on_errors():
            data = self._read(X, y, sample_weight, reset=True)
            self.classes_ = check_classes(classes_of(data.y))
            _check_class_weight(setting.own.class_weight, self.classes_)
            if isinstance(self.cv, str):
                problem = LogisticProblem.of(setting.own, self.classes_, data)
                return self._fit_left_out(setting, problem, data.weight, groups)
            routed = self._route_fit(data.weight, params)
            problem = LogisticProblem.of(setting.own, self.classes_, data)
            splitter = check_cv(self.cv, data.y, classifier=True)
            folds = list(splitter.split(data.X, data.y, **routed.splitter.split))
            score = partial(scores_of, problem, self.scoring, routed.scorer.score)
            paths = follow_folds(setting, problem, folds, score)
            self._write_paths(problem, paths)
            paths.warn_if_short(problem, folds, getattr(self, "feature_names_in_", None))
        return self

    def _terms(self, y: NDArray[Any], weight: NDArray[np.float64] | None) -> Terms:
        """Return what the last fit minimised: ``C`` is the same for all classes."""
        return terms_of(self, float(np.max(self.C_)), float(np.max(self.l1_ratio_)), y, weight)

    def _fit_left_out(
        self,
        setting: GridSetting,
        problem: LogisticProblem,
        weight: NDArray[np.float64] | None,
        groups: Any,
    ) -> LogisticRegressionCV:
        """Fit all rows with each ``C``, and choose by the rows' losses in fits without them."""
        from antithetic.estimators.logistic_loo import choose_by_leave_one_out

        own, Cs = setting.own, setting.Cs
        with threads_for(own.n_jobs) as threads:
            fits = fits_along(problem, Cs, 0.0, own.effort(), threads)
            found = choose_by_leave_one_out(
                fits, Cs, problem, weight, groups=groups, rule=self.rule, threads=threads
            )
            C = found.choice.C
            first, best = fits[int(np.flatnonzero(Cs == C)[0])], problem.at(C, 0.0)
            fit = fit_problem(self, best, (first.coef, first.intercept), threads)
        best.warn_after(fit, getattr(self, "feature_names_in_", None))
        _warn_at_edge(found.choice.best, Cs)
        self.__dict__.update(
            Cs_=Cs,
            l1_ratios_=setting.l1_ratios,
            C_=C,
            l1_ratio_=0.0,
            scores_=found.scores,
            scores_bounds_=found.bounds,
            choice_=found.choice,
            n_iter_=np.array([[[fit.iterations for fit in fits]]], dtype=np.int32),
        )
        self.__dict__.pop("coefs_paths_", None)
        return self

    def _write_paths(self, problem: LogisticProblem, paths: Paths) -> None:
        """Write the attributes of the best fit, or of the mean of each fold's best."""
        Cs, l1_ratios = paths.setting.Cs, paths.setting.l1_ratios
        if self.refit:
            place = paths.best()
            C, l1_ratio = float(Cs[place[1]]), float(l1_ratios[place[0]])
            best = problem.at(C, l1_ratio)
            start = paths.mean_of([place] * len(paths.found))
            with threads_for(problem.setting.n_jobs) as threads:
                fit = fit_problem(self, best, start, threads)
            best.warn_after(fit, getattr(self, "feature_names_in_", None))
        else:
            places = paths.best_of_each()
            C = float(np.mean([Cs[place[1]] for place in places]))
            l1_ratio = float(np.mean([l1_ratios[place[0]] for place in places]))
            coef, intercept = paths.mean_of(places)
            dtype = problem.data.X.dtype
            self.coef_, self.intercept_ = coef.astype(dtype), intercept.astype(dtype)
        found = {"Cs_": Cs, "l1_ratios_": l1_ratios, "C_": C, "l1_ratio_": l1_ratio}
        found |= {"coefs_paths_": paths.coefs(), "scores_": paths.scores()}
        found["n_iter_"] = paths.iterations()
        if self.use_legacy_attributes:
            has_ratios = self.l1_ratios is not None
            found = paths.legacy(found, problem.classes, has_ratios=has_ratios)
        self.__dict__.update(found)
        for name in ("choice_", "scores_bounds_"):  # of a previous fit with cv="loo"
            self.__dict__.pop(name, None)

    def _route_fit(self, sample_weight: Any, params: dict[str, Any]) -> Any:
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **params)
        score = dict(params)
        if sample_weight is not None:
            score["sample_weight"] = sample_weight
        return Bunch(splitter=Bunch(split={}), scorer=Bunch(score=score))

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
