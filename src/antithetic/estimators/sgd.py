"""scikit-learn estimators trained by SGD: wiring only."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from antithetic._util.warnings import warn
from antithetic.estimators.callbacks import CallbackSupportMixin, fit_context, watch_epochs
from antithetic.estimators.data import TrainingData
from antithetic.estimators.linear import LinearEstimator, RegressionPredictor, predicting
from antithetic.estimators.one_vs_rest import (
    AllClasses,
    OneVsRest,
    check_classes,
    check_known,
    classes_of,
    weights_of_classes,
)
from antithetic.estimators.sgd_fit import (
    Earlier,
    FitOptions,
    Problems,
    SgdResult,
    plan_chunk,
    plan_fit,
    train_all,
    train_chunk,
    unseen,
)
from antithetic.estimators.sgd_setting import SCHEDULES, SgdSetting, loss_of
from antithetic.orders import Order
from antithetic.orders.order import ORDERS
from antithetic.pairing import AntitheticTable
from antithetic.problem.losses import ALL_LOSSES, LOSSES, SOFTMAX, Loss
from antithetic.problem.penalties import GroupLasso
from antithetic.stochastic import EXACT, SOLVERS
from antithetic.stochastic.stopping import TARGETS

_BALANCED = (
    "class_weight 'balanced' is not supported for partial_fit. In order to use 'balanced' weights,"
    " use compute_class_weight('balanced', classes=classes, y=y). In place of y you can use a large"
    " enough sample of the full training set target to properly estimate the class frequency"
    " distributions. Pass the resulting weights as the class_weight parameter."
)


def has_probabilities(estimator: Any) -> bool:
    """Whether the loss has probabilities; AttributeError if not, for ``available_if``."""
    if estimator.loss in ("log_loss", "modified_huber", "softmax"):
        return True
    raise AttributeError(
        f"probability estimates are not available for loss={estimator.loss!r}; use 'log_loss',"
        " 'modified_huber' or 'softmax'"
    )


class SGDEstimator(CallbackSupportMixin, LinearEstimator):  # type: ignore[misc]  # untyped
    """What the classifier and the regressor share: allowed parameters, and how a fit goes."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        "penalty": [
            StrOptions({"l2", "l1", "elasticnet"}),
            GroupLasso,
            HasMethods(["value", "prox"]),
            None,
        ],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "shuffle": ["boolean"],
        "verbose": ["verbose"],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "learning_rate": [StrOptions(SCHEDULES)],
        "eta0": [Interval(Real, 0, None, closed="neither")],
        "power_t": [Interval(Real, None, None, closed="neither")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "average": [
            Interval(Integral, 0, None, closed="neither"),
            "boolean",
            StrOptions({"auto", "epoch", "linear"}),
        ],
        "order": [StrOptions({"auto", *ORDERS}), Order],
        "solver": [StrOptions(set(SOLVERS))],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "decay": [Interval(Real, 0, None, closed="left"), None],
        "stopping": [StrOptions({"objective", *TARGETS})],
        "trace": [str, tuple, list, HasMethods(["of"]), None],
    }
    _advice: ClassVar[dict[tuple[str, Any], str]] = {("solver", "newton"): EXACT}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        *,
        table: AntitheticTable | None = None,
        strata: Any = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. C-contiguous float64 and float32 arrays, memory maps included, and CSR matrices
            of these types are not copied.
        y : array-like of shape (n_samples,)
            Labels of at least two classes, or numbers for a regression.
        coef_init : array-like of the shape of ``coef_``, default=None
            Initial weights.
        intercept_init : array-like of the shape of ``intercept_``, default=None
            Initial intercepts.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, multiplied with ``class_weight`` if there is one.
        table : AntitheticTable, default=None
            A table made for these rows by :func:`antithetic.pair`; it is used if ``order``
            has no ``pairs``. Cross-validation cuts it to each fold's rows. With more than two
            classes it is used for those where it lowers the variance.
        strata : array-like of shape (n_samples,), default=None
            Your own labels for ``order="stratified"``: a batch has rows of each.
            Cross-validation cuts them to each fold's rows.
        X_val : {array-like, sparse matrix} of shape (n_val, n_features), default=None
            Rows to validate on; their score after each epoch is in ``history_``, and
            ``early_stopping`` uses it.
        y_val : array-like of shape (n_val,), default=None
            Their labels or numbers.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C it holds the last complete epoch.

        Raises
        ------
        DivergenceError
            If the weights overflow. The estimator is then unchanged.
        """
        setting = SgdSetting.of(self)
        with self._unchanged_on_errors():
            data = self._read(X, y, sample_weight, reset=True, moments=setting.centres_columns)
            problems = Problems(setting, self._parts(data.y), data)
            validation = self._read_validation(problems, X_val, y_val)
            given = FitOptions(coef_init, intercept_init, table, strata, validation)
            self._fit(problems, given)
        return self

    def _parts(self, y: NDArray[Any]) -> OneVsRest:
        """Return the problems that targets are split into."""
        raise NotImplementedError

    def _fit(self, problems: Problems, given: FitOptions) -> None:
        """Train on all rows, and set the attributes; on Ctrl-C, from the last complete epochs."""
        setting, n = problems.setting, problems.parts.n_problems
        planned = plan_fit(problems, given, Earlier.of(self) if setting.warm_start else None)
        if setting.verbose:
            plan = planned.plan
            print(f"{type(self).__name__}: {plan.order!r}, {plan.batch_size} a batch ({plan.why})")
        jobs, shown = planned.jobs(), planned.shown.shown()

        def reached() -> SgdResult:
            return SgdResult(planned, [job.trained() for job in jobs])

        with fit_context(self, shown, n if n > 1 else setting.max_iter, sequential=n == 1):
            watch = watch_epochs(self, jobs, shown, lambda: reached().attributes())
            try:
                train_all(jobs, watch, setting.n_jobs, verbose=setting.verbose)
            except KeyboardInterrupt:
                so_far = reached()
                if any(one.epochs for one in so_far.trained):
                    self._write(so_far.attributes())
                raise
            fitted = reached()
            self._write(fitted.attributes())
        fitted.warn()
        if self.power_t < 0:
            warn(
                "Negative values for `power_t` are deprecated in version 1.8 and will raise an"
                " error in 1.10. Use values in the range [0.0, inf) instead.",
                FutureWarning,
            )

    def _read_validation(self, problems: Problems, X: Any, y: Any) -> TrainingData | None:
        """Read the data to validate on, if there are any."""
        if (X is None) != (y is None):
            raise ValueError("X_val and y_val belong together; give both or neither")
        if X is None:
            return None
        validation = self._read(X, y, None, reset=False)
        if problems.parts.classes is None:
            problems.setting.loss.check_targets(validation.y)
        else:
            check_known(problems.parts.classes, validation.y)
        return validation

    def _fit_chunk(self, problems: Problems, *, first: bool) -> Self:
        """Make one pass over some rows, and set the attributes."""
        if not problems.setting.has_steps:
            raise ValueError(
                f"solver={self.solver!r} needs all rows at once; use fit, or solver='sgd'"
            )
        earlier, weight = None if first else Earlier.of(self), problems.data.weight
        if weight is None or weight.any():
            planned = plan_chunk(problems, earlier, type(self).__name__)
            self._write(train_chunk(planned).attributes())
        elif first:
            self._write(unseen(problems))
        return self

    def _write(self, attributes: dict[str, Any]) -> None:
        """Set the attributes of a fit; steps that were found earlier are those of another."""
        for name in ("eta0_", "decay_", "_kept"):
            self.__dict__.pop(name, None)
        self.__dict__.update(attributes)


class SGDClassifier(LinearClassifierMixin, ClassifierMixin, SGDEstimator):  # type: ignore[misc]
    """Linear classifier fitted by SGD that chooses its steps and its batches.

    It extends scikit-learn's ``SGDClassifier``.

    It minimises the mean loss plus a penalty. It has everything that scikit-learn's class of the
    same name offers, and also: a step size found from the data, true mini-batches, antithetic
    pairs, your own validation set, a record of the run, callbacks, and columns in any units. More
    than two classes are split into one problem per class against the rest, except with
    ``loss="softmax"``, which fits them together.

    Parameters
    ----------
    loss : str, default="hinge"
        ``"hinge"`` is a linear SVM, ``"log_loss"`` logistic regression; also ``"squared_hinge"``,
        ``"modified_huber"``, ``"perceptron"``, and on labels -1 and +1 the losses of
        :class:`SGDRegressor`. ``"softmax"`` is multinomial logistic regression: the mean
        cross-entropy of all classes, with one row of weights for each. It supports
        ``solver="sgd"``, an L2 penalty or none, and orders without pairs.
    penalty : {"l2", "l1", "elasticnet"}, GroupLasso, object or None, default="l2"
        Penalty on the weights: ``alpha / 2 |w|^2``, ``alpha |w|_1``, or both mixed by ``l1_ratio``.
        The L1 part gives exact zeros: penalty not yet applied to a zero weight is carried forward.
        :class:`antithetic.penalties.GroupLasso` is ``alpha`` times the sum over its groups of
        ``sqrt(size) |w_g|``. An object with ``value(w)``, ``prox(w, step)`` and ``separable`` is
        your own penalty, with its own strength; its prox is called from Python in each step, so
        large batches are best.
    alpha : float, default=0.0001
        Strength of the penalty; also the decay of ``"inverse_time"`` and the rate of ``"optimal"``.
    l1_ratio : float or None, default=0.15
        Share of the L1 part in ``"elasticnet"``, from 0 to 1.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    max_iter : int, default=1000
        Maximum number of passes over the data (epochs) of ``fit``.
    tol : float or None, default=1e-3
        Stop when the objective (with ``early_stopping`` the validation score) has not improved by
        ``tol`` for ``n_iter_no_change`` epochs in a row. As in scikit-learn, the objective is a
        running average: each row's loss just before its step, plus the penalty. A run with
        automatic steps continues while ``gap_`` is above 0.01 and epochs still gain, up to
        ``max_iter``. None runs ``max_iter`` epochs.
    shuffle : bool, default=True
        Whether each epoch has a new order. False uses the rows in the given order.
    verbose : int, default=0
        1 or more prints the plan and shows a progress bar (with rich; otherwise occasional lines).
    epsilon : float, default=0.1
        Where ``"huber"`` turns from squared to linear; the insensitive zone of the epsilon losses.
    n_jobs : int or None, default=None
        Threads for the one-vs-rest problems of more than two classes, and for ``"softmax"`` with
        many weights, where None means as many as BLAS would use.
    random_state : int, RandomState instance or None, default=None
        Seed of the orders. The same number gives the same bits.
    learning_rate : str, default="auto"
        How the step size falls:

        - ``"auto"``: ``"inverse_time"`` with ``eta0``, and ``decay`` if it is None, found from
          the data; kept by ``partial_fit`` and ``warm_start``, except for a decay that turns out
          too fast. It needs no tuning. With an intercept, SGD takes its steps in centred columns,
          each divided by its own spread, so no column needs scaling; ``eta0_`` is then a step in
          these units, and follows them in ``partial_fit``;
        - ``"inverse_time"``: ``eta0 / (1 + eta0 * decay * t)``, t in steps;
        - ``"optimal"``: ``1 / (alpha * (t0 + t))``, t in samples, t0 chosen by a rule of Bottou;
        - ``"invscaling"``: ``eta0 / t ** power_t``, t in samples;
        - ``"constant"``: ``eta0``;
        - ``"adaptive"``: ``eta0``, divided by 5 whenever ``tol`` would have ended the run;
        - ``"pa1"``, ``"pa2"``: passive-aggressive steps with ``"hinge"``: each row takes
          ``min(eta0, loss / |x|^2)`` or ``loss / (|x|^2 + 1 / (2 eta0))``, a batch the mean of
          these.
    eta0 : float, default=0.01
        First step size of the schedules that do not choose their own.
    power_t : float, default=0.5
        Exponent of ``"invscaling"``.
    early_stopping : bool, default=False
        Stop by the score on a validation set: the one given to ``fit``, or otherwise a share of the
        rows that is held back.
    validation_fraction : float, default=0.1
        That share.
    n_iter_no_change : int, default=5
        Epochs without improvement before training ends.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``. "balanced" is ``n_samples /
        (n_classes * count)``.
    warm_start : bool, default=False
        Whether ``fit`` starts with the weights of the last call; with SDCA, with the dual variables
        that belong to them at an optimum.
    average : bool, int, "auto", "epoch" or "linear", default="auto"
        Whether ``coef_`` is the mean of the weights after each step: of all, from a number of
        samples on, with weight t for step t ("linear": later ones count more), or of the last
        epoch, at up to 256 points ("epoch"; without the beginning of the first epoch; from four
        epochs on, the last weights if these are better; with automatic steps and a loss with a
        kink, the best weights of all epochs). "auto" is "epoch" in ``fit`` with
        ``learning_rate="auto"``, SGD, a loss that is not squared, no L1 penalty and 8 rows per
        feature or more (``"softmax"`` and losses with a kink: any number), otherwise False.
        Averages of ``"softmax"`` are taken over at most 256 points of each epoch.
    order : str or Order, default="auto"
        Which rows make the next batch, see :mod:`antithetic.orders`: each row once per epoch, in an
        order that follows the gradients of the epoch before so that partial sums stay small
        ("balanced", the rule of GraB and CD-GraB) or in random order ("shuffle"); or drawn with
        replacement: with equal probability ("uniform"), rows with large gradients more often
        ("importance"), or some of each stratum ("stratified"). An object has its own settings, such
        as ``Shuffle(pairs="tree")``. "auto" is balanced; it is shuffle for data with many features
        and few rows, for a single epoch, for SAGA and SDCA, and for ``"softmax"``. It makes no
        pairs, since for a linear model a table costs more than it saves.
    solver : {"sgd", "svrg", "saga", "sdca"}, default="sgd"
        How the gradient is used. SVRG and SAGA correct it by a stored slope for each row, and
        converge to the last digit with a constant step; SDCA, for an L2 penalty without an
        intercept, maximises the dual row by row. :class:`LogisticRegression` is the fastest way to
        a solution of high accuracy, and takes columns of any scale.
    batch_size : int or "auto", default="auto"
        Rows per step, which follows their mean gradient; at most all rows. "auto" is 2; for
        ``"softmax"`` 8, or 32 where the weights take more than 128 KiB.
    decay : float or None, default=None
        Decay of ``"inverse_time"`` and ``"auto"``; None means ``alpha``, or what "auto" finds.
    stopping : {"objective", "gradient", "gap"}, default="objective"
        What ``tol`` is compared with: the fall of the objective, the norm of the gradient (with a
        penalty that has a kink, of the gradient mapping), or a bound on the gap (in the unit of
        ``gap_``), which needs an L2 penalty and no intercept. The last two end a fit when they are
        at most ``tol``, cost a pass or two per epoch, and are in ``history_``.
    trace : str, Distance, sequence of these, or None, default=None
        What ``history_`` holds besides the running objective, the seconds and validation scores:
        ``"objective"`` (instead, the exact one of all rows after each epoch), ``"gradient"`` and
        ``"gap"`` (see ``stopping``), ``"variance"`` (exact, of the gradient of a batch),
        ``"variance_ratio"`` (that, divided by the variance of independent rows), ``"partial_sum"``
        (largest norm of a partial sum of centred gradients in the next epoch's order, divided by
        that of a random order) and ``Distance(w_star)``. Each costs about one pass over the data.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    n_iter_ : int
        Epochs of the last call; with one-vs-rest problems, the largest number.
    t_ : int
        One more than the number of samples that were used.
    history_ : dict of str to ndarray of shape (epochs,), or a list of dicts, one per class
        One entry per epoch of ``fit``: ``"epoch"``, ``"seconds"`` since it began,
        ``"validation_score"`` if there is a validation set, and what ``trace`` asks for.
    eta0_, decay_ : float or ndarray of shape (n_classes,)
        The steps found by ``learning_rate="auto"``.
    gap_ : float or ndarray of shape (n_classes,)
        Estimate of (f - f*) / (f_0 - f*) after ``fit``, with the objective f, its minimum f* and
        the objective f_0 of the best constant prediction (of zero weights, without an intercept):
        0 at the minimum, 1 at the constant, as in all estimators. It is an estimate, not a bound:
        half the squared Newton decrement, or, for losses with a kink, an L1 penalty or no penalty,
        an extrapolation of how the objective fell. NaN for the perceptron, and for
        ``"softmax"`` with ``tol=None`` or steps of your own, where an estimate would take as long
        as several epochs. For
        ``solver="sdca"`` it is a bound, from dual variables. If a fit with automatic steps and a
        ``tol`` ends with a gap above 0.01, a ``ConvergenceWarning`` says so.
    plan_ : Plan
        What "auto" parameters chose, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Their names, if the columns of X have names.

    See Also
    --------
    SGDRegressor : The same for regression.
    minimize : The same algorithms without an estimator.

    Examples
    --------
    >>> import antithetic
    >>> X, y = antithetic.datasets.load("breast-cancer_scale", return_X_y=True)
    >>> model = antithetic.SGDClassifier(loss="log_loss", alpha=0.01, random_state=0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.97
    >>> model.history_["objective"][:2].round(2).tolist()
    [0.14, 0.13]
    """

    loss_functions = {  # noqa: RUF012 - scikit-learn's name and form
        name: (loss.name, loss.epsilon) for name, loss in LOSSES.items()
    }
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **SGDEstimator._parameter_constraints,
        "loss": [StrOptions({*LOSSES, SOFTMAX.name})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_jobs": [Integral, None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }
    _y_numeric = False

    def __init__(
        self,
        loss: str = "hinge",
        *,
        penalty: Any = "l2",
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        verbose: int = 0,
        epsilon: float = 0.1,
        n_jobs: int | None = None,
        random_state: Any = None,
        learning_rate: str = "auto",
        eta0: float = 0.01,
        power_t: float = 0.5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: Any = None,
        warm_start: bool = False,
        average: bool | int | str = "auto",
        order: str | Order = "auto",
        solver: str = "sgd",
        batch_size: int | str = "auto",
        decay: float | None = None,
        stopping: str = "objective",
        trace: Any = None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.epsilon = epsilon
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.average = average
        self.order = order
        self.solver = solver
        self.batch_size = batch_size
        self.decay = decay
        self.stopping = stopping
        self.trace = trace

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> SGDClassifier:
        """Make one pass over the given rows, starting from the current model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Some rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will occur in any call; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. If all are zero, nothing changes.

        Returns
        -------
        self : object
        """
        first = not hasattr(self, "classes_")
        setting = SgdSetting.of(self, is_first_chunk=first)
        if self.class_weight == "balanced":
            raise ValueError(_BALANCED)
        with self._unchanged_on_errors():
            data = self._read(X, y, sample_weight, reset=first, moments=setting.centres_columns)
            known = self._all_classes(classes, first=first)
            check_known(known, data.y)
            problems = Problems(setting, self._parts(data.y, known), data)
            return self._fit_chunk(problems, first=first or getattr(self, "coef_", None) is None)

    def _all_classes(self, classes: Any, *, first: bool) -> NDArray[Any]:
        """Return the classes of all calls of partial_fit."""
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if first:
            return np.unique(classes)
        if not (classes is None or np.array_equal(self.classes_, np.unique(classes))):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was:"
                f" {self.classes_!r}"
            )
        return self.classes_

    def _parts(self, y: NDArray[Any], classes: NDArray[Any] | None = None) -> OneVsRest:
        """Set the classes, by default those of the labels, and return the problems of them."""
        classes = classes_of(y) if classes is None else classes
        self.classes_ = check_classes(classes)
        kind = AllClasses if self.loss == SOFTMAX.name else OneVsRest
        return kind(classes, weights_of_classes(self.class_weight, classes, y))

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

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probability of each class: for ``"log_loss"``, ``"modified_huber"`` and ``"softmax"``.

        With more than two classes, the one-vs-rest probabilities are divided by their sum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        scores = self.decision_function(X)
        if self.loss == SOFTMAX.name and scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        clipped = self.loss == "modified_huber"
        own = (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0 if clipped else expit(scores)
        if own.ndim == 1:
            return np.stack([1.0 - own, own], axis=1)
        total = own.sum(axis=1, keepdims=True)
        shares: NDArray[Any] = np.divide(
            own, total, out=np.full_like(own, 1.0 / own.shape[1]), where=total > 0.0
        )
        return shares  # where all are 0, each is the same

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Logarithm of the probability of each class, for the losses that have one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        if self.loss == SOFTMAX.name and len(self.classes_) > 2:
            return np.asarray(log_softmax(self.decision_function(X), axis=1))
        logarithms: NDArray[Any] = np.log(self.predict_proba(X))
        return logarithms


class SGDRegressor(RegressionPredictor, SGDEstimator):  # type: ignore[misc]  # untyped
    """Linear regression fitted by SGD that chooses its steps and its batches.

    It extends scikit-learn's ``SGDRegressor``.

    It minimises the mean loss plus a penalty. It has everything that scikit-learn's class of the
    same name offers, and also: a step size found from the data, true mini-batches, antithetic
    pairs, your own validation set, a record of the run, callbacks, and columns in any units.

    Parameters
    ----------
    loss : str or Loss, default="squared_error"
        ``"squared_error"``, ``"huber"``, ``"epsilon_insensitive"``,
        ``"squared_epsilon_insensitive"``, ``"quantile"``, and with a log link, so that predictions
        are exponentials of the linear ones, ``"poisson"``, ``"gamma"`` and ``"tweedie"``. Objects
        of :mod:`antithetic.losses` set their parameters: ``Quantile(0.9)``, ``Tweedie(1.7)``,
        ``Huber(1.35)``; ``epsilon`` is then ignored.
    penalty : {"l2", "l1", "elasticnet"}, GroupLasso, object or None, default="l2"
        Penalty on the weights: ``alpha / 2 |w|^2``, ``alpha |w|_1``, or both mixed by ``l1_ratio``.
        The L1 part gives exact zeros: penalty not yet applied to a zero weight is carried forward.
        :class:`antithetic.penalties.GroupLasso` is ``alpha`` times the sum over its groups of
        ``sqrt(size) |w_g|``. An object with ``value(w)``, ``prox(w, step)`` and ``separable`` is
        your own penalty, with its own strength; its prox is called from Python in each step, so
        large batches are best.
    alpha : float, default=0.0001
        Strength of the penalty; also the decay of ``"inverse_time"`` and the rate of ``"optimal"``.
    l1_ratio : float or None, default=0.15
        Share of the L1 part in ``"elasticnet"``, from 0 to 1.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    max_iter : int, default=1000
        Maximum number of passes over the data (epochs) of ``fit``.
    tol : float or None, default=1e-3
        Stop when the objective (with ``early_stopping`` the validation score) has not improved by
        ``tol`` for ``n_iter_no_change`` epochs in a row. As in scikit-learn, the objective is a
        running average: each row's loss just before its step, plus the penalty. A run with
        automatic steps continues while ``gap_`` is above 0.01 and epochs still gain, up to
        ``max_iter``. None runs ``max_iter`` epochs.
    shuffle : bool, default=True
        Whether each epoch has a new order. False uses the rows in the given order.
    verbose : int, default=0
        1 or more prints the plan and shows a progress bar (with rich; otherwise occasional lines).
    epsilon : float, default=0.1
        Where ``"huber"`` turns from squared to linear; the insensitive zone of the epsilon losses.
    random_state : int, RandomState instance or None, default=None
        Seed of the orders. The same number gives the same bits.
    learning_rate : str, default="auto"
        How the step size falls:

        - ``"auto"``: ``"inverse_time"`` with ``eta0``, and ``decay`` if it is None, found from
          the data; kept by ``partial_fit`` and ``warm_start``, except for a decay that turns out
          too fast. It needs no tuning. With an intercept, SGD takes its steps in centred columns,
          each divided by its own spread, so no column needs scaling; ``eta0_`` is then a step in
          these units, and follows them in ``partial_fit``;
        - ``"inverse_time"``: ``eta0 / (1 + eta0 * decay * t)``, t in steps;
        - ``"optimal"``: ``1 / (alpha * (t0 + t))``, t in samples, t0 chosen by a rule of Bottou;
        - ``"invscaling"``: ``eta0 / t ** power_t``, t in samples;
        - ``"constant"``: ``eta0``;
        - ``"adaptive"``: ``eta0``, divided by 5 whenever ``tol`` would have ended the run;
        - ``"pa1"``, ``"pa2"``: passive-aggressive steps with ``"epsilon_insensitive"``: each row
          takes ``min(eta0, loss / |x|^2)`` or ``loss / (|x|^2 + 1 / (2 eta0))``, a batch the mean
          of these.
    eta0 : float, default=0.01
        First step size of the schedules that do not choose their own.
    power_t : float, default=0.25
        Exponent of ``"invscaling"``.
    early_stopping : bool, default=False
        Stop by the score on a validation set: the one given to ``fit``, or otherwise a share of the
        rows that is held back.
    validation_fraction : float, default=0.1
        That share.
    n_iter_no_change : int, default=5
        Epochs without improvement before training ends.
    warm_start : bool, default=False
        Whether ``fit`` starts with the weights of the last call; with SDCA, with the dual variables
        that belong to them at an optimum.
    average : bool, int, "auto", "epoch" or "linear", default="auto"
        Whether ``coef_`` is the mean of the weights after each step: of all, from a number of
        samples on, with weight t for step t ("linear": later ones count more), or of the last
        epoch, at up to 256 points ("epoch"; without the beginning of the first epoch; from four
        epochs on, the last weights if these are better). "auto" is "epoch" in ``fit`` with
        ``learning_rate="auto"``, SGD, a loss that is not squared, no L1 penalty and 8 rows per
        feature or more, otherwise False. With the default loss it is False.
    order : str or Order, default="auto"
        Which rows make the next batch, see :mod:`antithetic.orders`: each row once per epoch, in an
        order that follows the gradients of the epoch before so that partial sums stay small
        ("balanced", the rule of GraB and CD-GraB) or in random order ("shuffle"); or drawn with
        replacement: with equal probability ("uniform"), rows with large gradients more often
        ("importance"), or some of each stratum ("stratified"). An object has its own settings, such
        as ``Shuffle(pairs="tree")``. "auto" is balanced; it is shuffle for data with many features
        and few rows, for a single epoch, and for SAGA and SDCA. It makes no pairs, since for a
        linear model a table costs more than it saves.
    solver : {"sgd", "svrg", "saga", "sdca"}, default="sgd"
        How the gradient is used. SVRG and SAGA correct it by a stored slope for each row, and
        converge to the last digit with a constant step; SDCA, for an L2 penalty without an
        intercept, maximises the dual row by row. :class:`Ridge`, :class:`PoissonRegressor` and
        :func:`solve` are the fastest way to a solution of high accuracy, for columns of any scale.
    batch_size : int, default=2
        Rows per step, which follows their mean gradient; at most all rows.
    decay : float or None, default=None
        Decay of ``"inverse_time"`` and ``"auto"``; None means ``alpha``, or what "auto" finds.
    stopping : {"objective", "gradient", "gap"}, default="objective"
        What ``tol`` is compared with: the fall of the objective, the norm of the gradient (with a
        penalty that has a kink, of the gradient mapping), or a bound on the gap (in the unit of
        ``gap_``), which needs an L2 penalty and no intercept. The last two end a fit when they are
        at most ``tol``, cost a pass or two per epoch, and are in ``history_``.
    trace : str, Distance, sequence of these, or None, default=None
        What ``history_`` holds besides the running objective, the seconds and validation scores:
        ``"objective"`` (instead, the exact one of all rows after each epoch), ``"gradient"`` and
        ``"gap"`` (see ``stopping``), ``"variance"`` (exact, of the gradient of a batch),
        ``"variance_ratio"`` (that, divided by the variance of independent rows), ``"partial_sum"``
        (largest norm of a partial sum of centred gradients in the next epoch's order, divided by
        that of a random order) and ``Distance(w_star)``. Each costs about one pass over the data.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    intercept_ : ndarray of shape (1,)
        The intercept.
    n_iter_ : int
        Epochs of the last call.
    t_ : int
        One more than the number of samples that were used.
    history_ : dict of str to ndarray of shape (epochs of the last fit,)
        One entry per epoch of ``fit``: ``"epoch"``, ``"seconds"`` since it began,
        ``"validation_score"`` if there is a validation set, and what ``trace`` asks for.
    eta0_, decay_ : float
        The steps found by ``learning_rate="auto"``.
    gap_ : float
        Estimate of (f - f*) / (f_0 - f*) after ``fit``, with the objective f, its minimum f* and
        the objective f_0 of the best constant prediction (of zero weights, without an intercept):
        0 at the minimum, 1 at the constant, as in all estimators. It is an estimate, not a bound:
        half the squared Newton decrement, or, for losses with a kink, an L1 penalty or no penalty,
        an extrapolation of how the objective fell. For
        ``solver="sdca"`` it is a bound, from dual variables. If a fit with automatic steps and a
        ``tol`` ends with a gap above 0.01, a ``ConvergenceWarning`` says so.
    plan_ : Plan
        What "auto" parameters chose, and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Their names, if the columns of X have names.

    See Also
    --------
    SGDClassifier : The same for classification.
    minimize : The same algorithms without an estimator.

    Examples
    --------
    >>> import numpy as np
    >>> import antithetic
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> y = X @ [1.0, -2.0, 3.0] + 4.0
    >>> model = antithetic.SGDRegressor(alpha=1e-6, tol=1e-6, random_state=0).fit(X, y)
    >>> model.coef_.round(2).tolist(), model.intercept_.round(2).tolist()
    ([1.0, -2.0, 3.0], [4.0])
    """

    loss_functions = {  # noqa: RUF012 - scikit-learn's name and form
        name: (loss.name, loss.epsilon)
        for name, loss in ALL_LOSSES.items()
        if not loss.classification
    }
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **SGDEstimator._parameter_constraints,
        "loss": [StrOptions(set(loss_functions)), Loss],
    }
    _y_numeric = True

    def __init__(
        self,
        loss: str | Loss = "squared_error",
        *,
        penalty: Any = "l2",
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        verbose: int = 0,
        epsilon: float = 0.1,
        random_state: Any = None,
        learning_rate: str = "auto",
        eta0: float = 0.01,
        power_t: float = 0.25,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        average: bool | int | str = "auto",
        order: str | Order = "auto",
        solver: str = "sgd",
        batch_size: int = 2,
        decay: float | None = None,
        stopping: str = "objective",
        trace: Any = None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.epsilon = epsilon
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.average = average
        self.order = order
        self.solver = solver
        self.batch_size = batch_size
        self.decay = decay
        self.stopping = stopping
        self.trace = trace

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SGDRegressor:
        """Make one pass over the given rows, starting from the current model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Some rows.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. If all are zero, nothing changes.

        Returns
        -------
        self : object
        """
        first = getattr(self, "coef_", None) is None
        setting = SgdSetting.of(self, is_first_chunk=first)
        with self._unchanged_on_errors():
            data = self._read(X, y, sample_weight, reset=first, moments=setting.centres_columns)
            return self._fit_chunk(Problems(setting, self._parts(data.y), data), first=first)

    def _parts(self, y: NDArray[Any]) -> OneVsRest:  # noqa: ARG002
        return OneVsRest()

    def _loss(self) -> Loss:
        return loss_of(self)
