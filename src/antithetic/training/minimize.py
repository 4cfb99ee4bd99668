"""`minimize`: the paper without an estimator."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.progress import progress_bar
from antithetic._util.validation import check_count
from antithetic._util.warnings import warn
from antithetic.orders import Draws, check_groups
from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.pairing._pair import Method
from antithetic.pairing.table import check_table
from antithetic.problem import Problem
from antithetic.problem.losses import Loss
from antithetic.problem.penalties import OwnPenalty, Penalty
from antithetic.solvers import (
    Care,
    DivergenceError,
    Patience,
    SgdState,
    Target,
    advice,
    check_shrinking,
    find_steps,
    make_solver,
    run,
)
from antithetic.solvers.steps import Schedule, make_schedule
from antithetic.training.combinations import check_combination, check_stopping
from antithetic.training.tables import (
    StepByStep,
    Tables,
    check_nest,
    check_refresh,
    check_step_by_step,
    refuse_nested_table,
)
from antithetic.training.trace import check_trace, measure_state


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What :func:`minimize` returns.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        Weights: the averaged ones where averaging was asked for.
    intercept : float
    trace : dict of str to ndarray of shape (epochs + 1,)
        ``"epoch"``, and one entry per epoch of whatever was asked for; the first entry is before
        the first step.
    table : AntitheticTable, GroupTable or None
        The table that was used last; where each row is visited once, the matching made of it, whose
        ``matching_loss`` says what that cost.
    classes : ndarray of shape (2,) or None
        The labels that were taken as -1 and +1.
    state : SgdState
        Where the run stands: pass the whole result as ``resume=`` to go on.
    settings : dict
        What the run was made with, so that it is resumed with the same.
    """

    coef: NDArray[Any]
    intercept: float
    trace: dict[str, NDArray[np.float64]]
    table: AntitheticTable | GroupTable | None
    classes: NDArray[Any] | None
    state: SgdState = field(repr=False)
    settings: dict[str, Any] = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether ``tol`` ended the run, rather than the number of epochs."""
        return self.state.stopped


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`minimize`.

    ``result`` is that of the last whole epoch, to be used as it is or resumed.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(
            f"interrupted after {result.state.epochs} epochs; .result holds them, and"
            " resume=.result goes on from there"
        )
        self.result = result


def minimize(
    X: Any,
    y: Any,
    *,
    loss: str | Loss = "log_loss",
    l2: float = 0.0,
    l1: float = 0.0,
    penalty: Any = None,
    groups: Any = None,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    coef_init: Any = None,
    intercept_init: float = 0.0,
    average: bool | int | str = False,
    table: AntitheticTable | GroupTable | None = None,
    pairing: Method | AntitheticTable | GroupTable | None = None,
    sampling: str | Callable[[int], Any] = "uniform",
    nest: int | bool | None = None,
    refresh: int | Collection[int] | str | None = None,
    importance: Any = "bounds",
    strata: Any = None,
    n_strata: int | None = None,
    allocation: str = "proportional",
    solver: str = "sgd",
    batch_size: int = 2,
    learning_rate: str | None = None,
    eta0: float | None = None,
    decay: float | None = None,
    power_t: float = 0.5,
    epochs: int = 20,
    tol: float | None = None,
    n_iter_no_change: int = 5,
    stopping: str = "objective",
    seed: int = 0,
    w_star: Any = None,
    trace: str | Sequence[str] = (),
    resume: Result | None = None,
    progress: bool = False,
) -> Result:
    r"""Minimise :math:`\frac1n \sum_i s_i \phi(y_i, \langle w, x_i\rangle) + \frac{l_2}{2}|w|^2 + l_1 |w|_1` by stochastic gradients.

    Three choices are free of each other: ``pairing``, which rows travel together, ``sampling``, how
    they are drawn, and ``solver``, how their gradients are used. ``pairing=None`` is the paper's
    SGD, ``pairing="greedy"`` its SGD-as.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Rows. float32 and float64 are kept, and nothing is copied that is C-contiguous or CSR.
    y : array-like of shape (n,)
        Labels of any two values for a classification loss, numbers for regression.
    loss : str or Loss, default="log_loss"
        ``"log_loss"``, ``"hinge"``, ``"squared_hinge"``, ``"modified_huber"``, ``"perceptron"``;
        for regression ``"squared_error"``, ``"huber"``, ``"epsilon_insensitive"``,
        ``"squared_epsilon_insensitive"``.
    l2, l1 : float, default=0.0
        Strengths of the penalties. The quadratic one is part of the gradient, the other a proximal
        step that gives exact zeros, since weights at zero are not forgiven what they owe (see
        :mod:`antithetic._core.threshold`).
    penalty : {"group_lasso"}, object or None, default=None
        None means L2 and L1. ``"group_lasso"`` is :math:`\frac{l_2}{2}|w|^2 + l_1 \sum_g
        \sqrt{|g|}\,|w_g|`. An object with ``value(w)``, ``prox(w, step)`` and ``separable`` is a
        penalty of one's own, to which ``l2`` is added (see :mod:`antithetic.problem.penalties`); its prox
        is called from Python in each step, so large batches are best.
    groups : array-like of shape (d,) or list of lists of int, default=None
        For ``"group_lasso"``: a label for each feature, or the features of each group.
    fit_intercept : bool, default=False
        Fit an intercept, which is not penalised.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row's loss.
    coef_init : array-like of shape (d,), default=None
        Where to begin; None means at zero.
    intercept_init : float, default=0.0
    average : bool, int, "linear" or "epoch", default=False
        Return the mean of the weights after each step: of all (True), from a number of samples on
        (an int), with weight t for step t ("linear"), or of the last epoch, at up to 256 points on
        the way ("epoch"; of the first epoch, less its beginning), until the last weights are found
        to be better. False returns the last weights.
    table : AntitheticTable or GroupTable, default=None
        A table made for these data; it takes the place of ``pairing``.
    pairing : None, str, callable, AntitheticTable or GroupTable, default=None
        None draws single rows; anything else is passed on to :func:`pair` as its ``method``.
    sampling : {"uniform", "shuffle", "balanced", "importance", "stratified"} or callable, default="uniform"
        Draw with replacement; visit each row once per epoch in random order; or in an order that
        follows the gradients of the epoch before so that partial sums stay small (see
        :class:`antithetic.orders.balanced.Balanced`). ``"importance"`` draws with replacement by
        probabilities, ``"stratified"`` some of each stratum; both rows, pairs or groups, with
        factors that keep the gradient unbiased. A function is an order of your own, from the number
        of an epoch to all row numbers, each once.
    nest : int, True or None, default=None
        With a pairing: groups of this many rows, a power of two, instead of pairs. True nests to
        the top, which is an order of the whole epoch: with ``"shuffle"`` of each, with fresh flips,
        with ``"balanced"`` of the first. Where groups are drawn with replacement, a batch is a
        whole number of them.
    refresh : int, collection of int, "auto", "step" or None, default=None
        Make the table anew from the gradients of the moment: every so many epochs, before these
        epochs, or when it has lost a third of the reduction that it had when it was made ("auto";
        always before the second epoch). "step" is Algorithm 2 to the letter, a new table in each
        step, for at most 2000 rows and ``"uniform"``: an oracle, not a method.
    importance : {"bounds", "gradients"} or array-like, default="bounds"
        Probabilities of ``"importance"``, in proportion to bounds of the gradients (for SVRG and
        SAGA, of how fast they change), to the gradients before each epoch, or one's own: one number
        per row, pair or group.
    strata : array-like of shape (n,), default=None
        For ``"stratified"``: labels of the rows; a pair has that of its first row.
    n_strata : int, default=None
        Or so many cells of the rows, pairs or groups, cut along their widest directions; with
        neither, as many as a batch has.
    allocation : {"proportional", "optimal"}, default="proportional"
        How many of a batch come from each stratum: by its size, or also by the spread of its
        gradients before each epoch.
    solver : {"sgd", "svrg", "saga", "sdca"}, default="sgd"
        SVRG and SAGA correct gradients by what they remember of each row (see
        :mod:`antithetic.solvers.corrected`); SDCA maximises the dual row by row, for an L2 penalty
        without an intercept (see :mod:`antithetic.solvers.sdca`).
    batch_size : int, default=2
        Rows of a step, at most n: ``batch_size / 2`` pairs if there is a table, and one more row if
        it is odd.
    learning_rate : {"auto", "inverse_time", "constant", "optimal", "invscaling", "adaptive", "pa1", "pa2"}, default=None
        See :mod:`antithetic.solvers.steps`; ``"auto"`` is ``"inverse_time"`` with ``eta0``, and
        ``decay`` where it is None, found from the data; for SVRG and SAGA a constant step from the
        smoothness of the loss. ``"adaptive"`` needs ``tol``. None means the paper's
        ``"inverse_time"`` for SGD and ``"auto"`` for the others.
    eta0 : float, default=None
        First step size; needed by SGD's schedules but ``"auto"`` and ``"optimal"``. For SVRG and
        SAGA, None means the one from the smoothness.
    decay : float, default=None
        Decay of ``"inverse_time"``; None means l2.
    power_t : float, default=0.5
        Exponent of ``"invscaling"``.
    epochs : int, default=20
        Passes over the data: ``ceil(n / batch_size)`` steps each.
    tol : float, default=None
        Stop, or lower an adaptive step, when the objective has not fallen by this for
        ``n_iter_no_change`` epochs; None never does. It is the objective met on the way, as in
        scikit-learn: each row's loss just before the step that it takes part in, plus the penalty.
    n_iter_no_change : int, default=5
    stopping : {"objective", "gradient", "gap"}, default="objective"
        What ``tol`` is compared with: the fall of the objective; or, ending the run once it is at
        most ``tol``, the norm of the gradient mapping (the gradient, where the penalty is smooth),
        or the duality gap, which needs an L2 penalty, beside which L1 is allowed, and no intercept.
        The last two are in the trace.
    seed : int, default=0
        The same seed gives the same bits.
    w_star : array-like of shape (d,), default=None
        A solution, for the trace of distances.
    trace : str or sequence of str, default=()
        What to record before the first step and after each epoch: ``"objective"``, ``"gradient"``
        and ``"gap"`` (see ``stopping``), ``"variance"`` (exact, of the gradient that the next batch
        steps along, corrected if it is, at the current weights and with what is remembered now; of
        an order without a draw, the mean over its full batches), ``"variance_ratio"`` (that,
        divided by the variance of independent rows), ``"partial_sum"`` (largest norm of a partial
        sum of centred gradients in the order to come, divided by that of a random order),
        ``"distance"`` to ``w_star``. Each costs about one pass over the data. Objective and
        distance are those of the averaged weights where there are such.
    resume : Result, default=None
        Go on from an earlier result with the same data and parameters until ``epochs`` in all are
        done.
    progress : bool, default=False
        Show a progress bar on the error stream.

    Returns
    -------
    Result

    Raises
    ------
    DivergenceError
        When the weights become infinite; it holds the last good result and says what to try.
    Interrupted
        On Ctrl-C; it holds the result of the last whole epoch.

    Examples
    --------
    >>> import antithetic
    >>> X, y = antithetic.datasets.load("breast-cancer_scale", return_X_y=True)
    >>> result = antithetic.minimize(X, y, l2=1e-2, pairing="greedy", eta0=0.1, epochs=5, trace=["objective", "variance_ratio"])
    >>> result.trace["objective"].round(3).tolist()
    [0.693, 0.149, 0.144, 0.143, 0.142, 0.142]
    """
    problem = Problem.build(
        X,
        y,
        loss=loss,
        l2=l2,
        l1=l1,
        penalty=penalty,
        groups=groups,
        sample_weight=sample_weight,
        fit_intercept=fit_intercept,
    )
    pairing = pairing if table is None else table
    nest, refresh = check_nest(nest), check_refresh(refresh)
    if isinstance(pairing, GroupTable):
        check_groups(pairing, problem, y)
        nest = pairing.size if nest is None else nest
    elif not (pairing is None or callable(pairing) or isinstance(pairing, str)):
        check_table(pairing).check(problem.X, y)
    learning_rate = learning_rate or ("inverse_time" if solver == "sgd" else "auto")
    # a step that is given makes "auto" a matter of taste
    given_rate = (
        "constant"
        if learning_rate == "auto" and eta0 is not None and solver in ("svrg", "saga")
        else learning_rate
    )
    check_combination(
        pairing,
        nest,
        sampling,
        solver,
        problem.penalty,
        problem.loss,
        average=average,
        learning_rate=given_rate,
        intercept=fit_intercept,
    )
    patience = _check_patience(learning_rate, tol, n_iter_no_change, check_stopping(stopping))
    epochs, seed = check_count(epochs, "epochs", least=0), check_count(seed, "seed", least=0)
    batch_size = min(check_count(batch_size, "batch_size", least=1), problem.n)
    watch = isinstance(patience, Patience) or (
        learning_rate == "auto" and not problem.loss.is_bounded
    )
    algorithm = make_solver(solver, problem, average, watch=watch)
    names = _check_trace(trace, w_star)
    if isinstance(patience, Target) and stopping not in names:
        names = (*names, stopping)
    check_trace(names, solver, sampling, problem)
    begin = algorithm.init(coef_init, intercept_init)
    refuse_nested_table(nest, pairing)
    if refresh == "step":
        check_step_by_step(problem.n, sampling, solver, batch_size, nest, tol, average)
    if not (resume is None or isinstance(resume, Result)):
        raise ValueError(f"resume= must be a Result of minimize; got {type(resume).__name__}")
    if pairing is None and (nest is not None or refresh is not None):
        raise ValueError("nest= and refresh= refine a table; they need pairing= or table=")
    if resume is not None and refresh == "auto":
        raise ValueError(
            'a run with refresh="auto" cannot be resumed, since what its table was worth is not'
            " kept; give the epochs instead"
        )
    earlier = None if resume is None or refresh is None else resume.table
    if earlier is not None:
        earlier.fingerprint.check(problem.X, y)
    if solver == "sdca" and not (eta0 is None and decay is None):
        raise ValueError('solver="sdca" has no step size; leave eta0= and decay= out')
    draws = Draws(importance, strata, n_strata, allocation, corrected=solver != "sgd")
    draws.check(sampling)
    tables = Tables(problem, y, pairing, sampling, batch_size, seed, nest, refresh, earlier, draws)
    measure = partial(measure_state, names, tables, w_star=w_star)
    asked: dict[str, Any] = {
        "learning_rate": learning_rate,
        "eta0": eta0,
        "decay": decay,
        "power_t": power_t,
    }
    care = (
        Care(l2 if decay is None else decay)
        if solver == "sgd" and learning_rate == "auto"
        else None
    )
    # steps that were found are kept: a table that was made anew since may lead to others
    known = resume is not None and resume.settings.get("steps") == asked
    schedule = (
        resume.settings["schedule"]
        if resume is not None and known
        else _schedule(tables, begin, solver, **asked)
    )
    settings = {
        "rows": problem.X.shape,
        "float type": problem.X.dtype.name,
        "loss": problem.loss,
        "penalty": _mark(problem.penalty),
        "fit_intercept": problem.fit_intercept,
        "average": average,
        "sampling": sampling,
        "importance": _digest(importance),
        "strata": _digest(strata),
        "n_strata": n_strata,
        "allocation": allocation,
        "solver": solver,
        "batch_size": batch_size,
        "pairing": pairing if isinstance(pairing, str) else None,
        "nest": nest,
        "refresh": refresh,
        "steps": asked,
        "schedule": schedule,
        "seed": seed,
        "trace": ("epoch", *names),
    }
    limits = {"tol": tol, "n_iter_no_change": n_iter_no_change, "stopping": stopping}
    if resume is None:
        start = begin
        recorded = _Recorded(tables, tables.table, start, [measure(start)], settings | limits)
    else:
        recorded = _Recorded.earlier(tables, resume, settings, limits)
        start = recorded.state
    last: dict[int, dict[str, float]] = {}  # what was measured of the latest epoch, by its number

    def judge(state: SgdState) -> float:
        last.clear()
        last[state.epochs] = measure(state)
        return last[state.epochs][stopping]

    states = run(
        StepByStep(algorithm, tables) if refresh == "step" else algorithm,
        tables.sampler(),
        schedule,
        start,
        epochs=epochs,
        patience=patience,
        adaptive=learning_rate == "adaptive",
        care=care,
        judge=judge if isinstance(patience, Target) else None,
        renew=tables.renew,
    )
    try:
        with progress_bar("epochs", epochs, progress) as update:
            for state in states:
                recorded = recorded.after(
                    state, last[state.epochs] if state.epochs in last else measure(state)
                )
                update(state.epochs)
    except DivergenceError as error:
        error.result = recorded.result()
        raise
    except KeyboardInterrupt as stop:
        raise Interrupted(recorded.result()) from stop
    if solver != "sdca":
        warn_if_worse(problem, start, recorded.state, schedule)
    return recorded.result()


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A run so far: its state and what was measured after each epoch.

    Replaced as a whole, so that an interruption finds it complete.
    """

    tables: Tables
    table: AntitheticTable | GroupTable | None
    state: SgdState
    measured: list[dict[str, float]]
    settings: dict[str, Any]

    @classmethod
    def earlier(
        cls, tables: Tables, result: Result, settings: dict[str, Any], limits: dict[str, Any]
    ) -> _Recorded:
        """Take up an earlier result, if it was made with the same settings and table.

        With other limits, one that had ended goes on.
        """
        for name, value in settings.items():
            if result.settings.get(name) != value:
                raise ValueError(
                    f"resume= was made with another {name}: {result.settings.get(name)!r} instead"
                    f" of {value!r}"
                )
        if not np.array_equal(_rows_of(result.table), _rows_of(tables.table)):
            raise ValueError("resume= was made with another table")
        rows = zip(*result.trace.values(), strict=True)
        state = result.state
        if any(result.settings.get(name) != value for name, value in limits.items()):
            state = state._replace(stopped=False, waited=0)
        return cls(
            tables,
            tables.table,
            state,
            [dict(zip(result.trace, row, strict=True)) for row in rows],
            settings | limits,
        )

    def after(self, state: SgdState, measured: dict[str, float]) -> _Recorded:
        return replace(
            self, table=self.tables.table, state=state, measured=[*self.measured, measured]
        )

    def result(self) -> Result:
        coef, intercept = self.state.solution
        coef = coef.copy()  # the user's to change, without changing what a resumed run starts from
        trace = {
            name: np.array([measured[name] for measured in self.measured])
            for name in self.measured[0]
        }
        return Result(
            coef,
            intercept,
            trace,
            self.table,
            self.tables.problem.classes,
            self.state,
            self.settings,
        )


def _rows_of(table: AntitheticTable | GroupTable | None) -> NDArray[np.intp]:
    if table is None:
        return np.empty(0, np.intp)
    return table.partner if isinstance(table, AntitheticTable) else table.order


def _schedule(
    tables: Tables,
    begin: SgdState,
    solver: str,
    *,
    learning_rate: str,
    eta0: float | None,
    decay: float | None,
    power_t: float,
) -> Schedule:
    """Return the steps that were asked for, or found."""
    problem = tables.problem
    l2 = problem.penalty.l2
    if solver == "sdca":
        learning_rate, eta0, decay = "constant", 1.0, 0.0  # which nobody looks at
    elif solver != "sgd":
        if eta0 is None and learning_rate != "optimal":
            eta0 = tables.safe_step(solver)
        if learning_rate == "auto":
            learning_rate, decay = "inverse_time", 0.0 if decay is None else decay
    elif learning_rate == "auto":
        balanced = tables.sampling == "balanced"
        steps = find_steps(
            problem, tables.batch_size, tables.seed, begin.coef, begin.intercept, balanced=balanced
        )
        learning_rate, eta0, decay = (
            "inverse_time",
            steps.eta0,
            steps.decay if decay is None else decay,
        )
    decay = l2 if decay is None else decay
    alpha = l2 + problem.penalty.l1
    schedule = make_schedule(
        learning_rate, eta0=eta0, decay=decay, alpha=alpha, power_t=power_t, loss=problem.loss
    )
    check_shrinking(problem, schedule, solver)
    return schedule


def _mark(penalty: Penalty) -> Any:
    """What tells a penalty from another: its numbers, or of one of the user's own the name and content."""
    if not isinstance(penalty, OwnPenalty):
        return penalty
    try:
        content = hashlib.sha256(pickle.dumps(penalty.given)).hexdigest()
    except Exception:
        content = ""
    return type(penalty.given).__qualname__, content, penalty.l2


def _digest(given: Any) -> Any:
    """A word as it is, and of an array a hash, so that a resumed run can tell whether it is the same."""
    if given is None or isinstance(given, str):
        return given
    column = np.asarray(given)
    return hashlib.sha256(repr((column.dtype.kind, column.tolist())).encode()).hexdigest()


def _check_trace(trace: str | Sequence[str], w_star: Any) -> tuple[str, ...]:
    names = (trace,) if isinstance(trace, str) else tuple(trace)
    if "distance" in names and w_star is None:
        raise ValueError('trace="distance" needs w_star')
    return names


def _check_patience(
    learning_rate: str, tol: float | None, n_iter_no_change: int, stopping: str
) -> Patience | Target | None:
    if tol is None:
        if stopping != "objective":
            raise ValueError(
                f"stopping={stopping!r} ends a run once that is at most tol, so it needs tol, say"
                " 1e-6"
            )
        if learning_rate == "adaptive":
            raise ValueError(
                'learning_rate="adaptive" lowers the step when the objective stops falling by tol,'
                " so it needs tol, say 1e-3"
            )
        return None
    if math.isnan(tol):
        raise ValueError("tol must be a number or None; got nan")
    if stopping != "objective":
        if learning_rate == "adaptive":
            raise ValueError(
                f'learning_rate="adaptive" watches the objective; with stopping={stopping!r} use'
                ' another, say "auto"'
            )
        return Target(float(tol))
    return Patience(float(tol), check_count(n_iter_no_change, "n_iter_no_change", least=1))


def warn_if_worse(problem: Problem, start: SgdState, end: SgdState, schedule: Schedule) -> None:
    """Warn of steps that were too long: they led to an objective above the one that they began with."""
    before, after = problem.objective(*start.solution), problem.objective(*end.solution)
    if after > 1.1 * before > 0.0:
        from sklearn.exceptions import (
            ConvergenceWarning,
        )  # a second of import that a good run need not wait for

        warn(
            f"the objective rose from {before:.4g} to {after:.4g}: the steps are too long."
            f" {advice(problem, schedule)}",
            ConvergenceWarning,
        )
