"""`minimize`: the paper without an estimator."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np
from scipy import sparse

from antithetic._util.progress import progress_bar
from antithetic._util.validation import check_count
from antithetic.orders import Order
from antithetic.orders.order import read_order
from antithetic.problem import Problem, SoftmaxProblem, build_problem
from antithetic.problem.losses import Loss
from antithetic.problem.penalties import OwnPenalty, Penalty
from antithetic.problem.result import Result
from antithetic.stochastic import DivergenceError, check_solver
from antithetic.stochastic.loop import Patience, Run, begin, settled, train, warn_if_worse
from antithetic.stochastic.plan import automatic_batch_size, noise_left, order_of_the_paper
from antithetic.stochastic.spec import Spec, make_spec
from antithetic.stochastic.steps import Steps, read_steps
from antithetic.stochastic.stopping import Stalled, Target, check_stop
from antithetic.stochastic.trace import Distance, measure

_MARKED_ROWS = 256  # by which a resumed run knows its data


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`minimize`.

    ``result`` is that of the last complete epoch; it can be used or resumed.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(
            f"interrupted after {result.epochs} epochs; .result holds the result so far, and"
            " resume= continues from it"
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
    fit_intercept: bool = False,
    sample_weight: Any = None,
    init: tuple[Any, Any] | None = None,
    order: str | Order = "auto",
    solver: str = "sgd",
    batch_size: int | str = "auto",
    steps: str | float | Steps = "auto",
    average: bool | int | str = False,
    epochs: int = 20,
    stop: Stalled | Target | None = None,
    seed: int = 0,
    trace: Any = (),
    resume: Result | None = None,
    progress: bool = False,
) -> Result:
    r"""Minimise the mean loss plus a penalty by stochastic gradients.

    The objective is :math:`\frac1n \sum_i s_i \phi(y_i, \langle w, x_i\rangle) + \frac{l_2}{2}|w|^2
    + l_1 |w|_1`. Two choices are independent: ``order``, which rows make the next batch, and
    ``solver``, how gradients become weights. ``order="uniform"`` is the paper's SGD,
    ``order=Uniform(pairs="greedy")`` its SGD-as.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Rows. float32 and float64 are kept; C-contiguous arrays and CSR matrices are not copied.
    y : array-like of shape (n,)
        Labels of any two values for a classification loss, of any number of classes for
        ``"softmax"``, numbers for regression.
    loss : str or Loss, default="log_loss"
        ``"log_loss"``, ``"hinge"``, ``"squared_hinge"``, ``"modified_huber"``, ``"perceptron"``;
        ``"softmax"``, the cross-entropy of all classes together, with one row of weights for each
        (solver ``"sgd"``, an L2 penalty or none, no pairs);
        for regression ``"squared_error"``, ``"huber"``, ``"epsilon_insensitive"``,
        ``"squared_epsilon_insensitive"``, ``"quantile"``, ``"poisson"``, ``"gamma"``,
        ``"tweedie"``; or an object of :mod:`antithetic.losses`.
    l2, l1 : float, default=0.0
        Strengths of the penalties. The quadratic one is part of the gradient, the other a proximal
        step that gives exact zeros: penalty not yet applied to a zero weight is carried forward
        (Tsuruoka et al. 2009, as in scikit-learn).
    penalty : ElasticNet, GroupLasso, object or None, default=None
        None means L2 and L1. ``GroupLasso(groups)`` has the strength ``l1``, and ``l2`` is added to
        it. An object with ``value(w)``, ``prox(w, step)`` and ``separable`` is your own penalty, to
        which ``l2`` is added; its prox is called from Python in each step, so large batches are
        best.
    fit_intercept : bool, default=False
        Fit an intercept, which is not penalised.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row's loss.
    init : tuple of array-like of shape (d,) and float, default=None
        Initial weights and intercept, for ``"softmax"`` of shapes (n_classes, d) and (n_classes,).
        None means zero, and for quantile and log-link losses the best constant as the intercept.
    order : str or Order, default="auto"
        ``"uniform"``, ``"shuffle"``, ``"balanced"``, ``"importance"``, ``"stratified"``, or an
        object of :mod:`antithetic.orders` with its own settings. "auto" is ``"uniform"``, as in
        the paper, and ``"shuffle"`` for SDCA and ``"softmax"``.
    solver : {"sgd", "svrg", "saga", "sdca"}, default="sgd"
        SVRG and SAGA correct gradients by a stored slope for each row (see
        :mod:`antithetic.stochastic.corrected`); SDCA maximises the dual row by row, for an L2
        penalty without an intercept (see :mod:`antithetic.stochastic.sdca`).
        :func:`antithetic.solve` needs none of these choices for a loss without a kink.
    batch_size : int or "auto", default="auto"
        Rows of a step, at most n. With pairs: ``batch_size // 2`` pairs, and one more row if the
        size is odd. "auto" is 2; for ``"softmax"`` 8, or 32 where the weights take more than 128
        KiB.
    steps : "auto", "optimal", float or Steps, default="auto"
        A number is the first step of the paper's ``InverseTime``; for SVRG and SAGA a constant
        step. The others are in :mod:`antithetic.steps`. "auto" finds steps from the data.
    average : bool, int, "linear" or "epoch", default=False
        Return the mean of the weights after each step: of all (True), from a number of samples on
        (an int), with weight t for step t ("linear"), or of the last epoch, at up to 256 points
        ("epoch"; without the beginning of the first epoch; from four epochs on, the last weights
        if these are better). False returns the last weights.
    epochs : int, default=20
        Passes over the data: ``ceil(n / batch_size)`` steps each.
    stop : Stalled, Target or None, default=None
        When to end before that, see :mod:`antithetic.stopping`.
    seed : int, default=0
        The same seed gives the same bits.
    trace : str, Distance, or sequence of these, default=()
        What to record before the first step and after each epoch: ``"objective"``, ``"gradient"``
        and ``"gap"`` (see ``Target``), ``"variance"`` (exact, of the gradient, possibly corrected,
        that the next batch steps along at the current weights; for an order that is not random,
        the mean over its full batches), ``"variance_ratio"`` (that,
        divided by the variance of independent rows), ``"partial_sum"`` (largest norm of a partial
        sum of centred gradients in the order to come, divided by that of a random order),
        ``Distance(w_star)``. Each costs about one pass over the data. Objective and distance are
        those of the averaged weights, if any.
    resume : Result, default=None
        Continue from an earlier result with the same data and parameters until ``epochs`` in all
        are done.
    progress : bool, default=False
        Show a progress bar on the error stream.

    Returns
    -------
    Result

    Raises
    ------
    DivergenceError
        If the weights become infinite; it holds the last good result and says what to try.
    Interrupted
        On Ctrl-C; it holds the result of the last complete epoch.

    Examples
    --------
    >>> import antithetic
    >>> from antithetic.orders import Uniform
    >>> X, y = antithetic.datasets.load("breast-cancer_scale", return_X_y=True)
    >>> result = antithetic.minimize(
    ...     X, y, l2=1e-2, order=Uniform(pairs="greedy"), steps=0.1, epochs=5, trace="objective"
    ... )
    >>> result.trace["objective"].round(3).tolist()
    [0.693, 0.149, 0.144, 0.143, 0.142, 0.142]
    """
    problem = build_problem(
        X,
        y,
        loss=loss,
        l2=l2,
        l1=l1,
        penalty=penalty,
        sample_weight=sample_weight,
        fit_intercept=fit_intercept,
    )
    epochs = check_count(epochs, "epochs", least=0)
    found = _read_order(order, check_solver(solver), problem.loss)
    if found.pairs is not None:
        found.pairs.check(problem, y)
    # a single epoch may be resumed, and is then the first of many
    noise = noise_left(found, average, problem.n, problem.d, single_epoch=False)
    spec = make_spec(
        problem,
        y,
        order=found,
        solver=solver,
        steps=read_steps(steps, solver),
        batch_size=_check_batch_size(batch_size, problem),
        average=average,
        stop=check_stop(stop),
        trace=trace,
        seed=check_count(seed, "seed", least=0),
        noise=noise,
    )
    settings = _settings(spec, average)
    start = _check_init(init, resume, problem)
    if resume is None:
        run = begin(spec, start)
        run = run._replace(entries=(measure(spec, run),))
    else:
        run = _resumed(spec, resume, settings)
    return _drive(spec, run, epochs, settings, progress)


def _read_order(order: Any, solver: str, loss: Loss) -> Order:
    is_auto = isinstance(order, str) and order == "auto"
    return order_of_the_paper(solver, loss) if is_auto else read_order(order)


def _check_batch_size(given: Any, problem: Problem) -> int:
    if isinstance(given, str) and given == "auto":
        return automatic_batch_size(problem.loss, problem.n_weights, problem.X.dtype.itemsize)
    return check_count(given, "batch_size", least=1)


def _check_init(init: Any, resume: Any, problem: Problem) -> tuple[Any, Any] | None:
    if init is None:
        has_first = problem.fit_intercept and not problem.loss.classification
        return (
            (None, problem.loss.first_intercept(problem.y, problem.weight)) if has_first else None
        )
    if resume is not None:
        raise ValueError("resume= continues from its own weights; leave init= out")
    axes = 1 if problem.loss.has_classes else 0
    if not isinstance(init, (tuple, list)) or len(init) != 2 or np.ndim(init[1]) > axes:
        raise ValueError(
            "init must be a pair (coef, intercept): weights of shape (d,) or None, and a number;"
            " with loss='softmax' weights of shape (n_classes, d) and one number per class"
        )
    return init[0], init[1]


def _drive(spec: Spec, run: Run, epochs: int, settings: dict[str, Any], progress: bool) -> Result:
    """Run all epochs; an interruption or a divergence finds the last whole one."""
    first = spec.solver.solution(run.state, run.own)
    try:
        with progress_bar("epochs", epochs, progress) as update:
            for run in train(spec, run, epochs):  # noqa: B020 - the run goes on
                update(run.state.epochs)
        run = settled(spec, run, len(run.running))
    except DivergenceError as error:
        error.result = _result(spec, run, settings)
        raise
    except KeyboardInterrupt as stop:
        raise Interrupted(_result(spec, run, settings)) from stop
    warn_if_worse(spec, first, run)
    return _result(spec, run, settings)


def _result(spec: Spec, run: Run, settings: dict[str, Any]) -> Result:
    run = settled(spec, run, len(run.running))
    coef, intercept = spec.solver.solution(run.state, run.own)
    # the user's to change, without changing what a resumed run starts from
    coef, intercept = coef.copy(), intercept if np.ndim(intercept) == 0 else intercept.copy()
    if isinstance(spec.problem, SoftmaxProblem):
        coef = coef.reshape(spec.problem.n_classes, spec.problem.d)
    trace = {"epoch": np.arange(run.state.epochs + 1.0)} | {
        name: np.array([entry[name] for entry in run.entries]) for name in run.entries[0]
    }
    kept = run._replace(drawing=run.drawing.without_data())
    table = run.drawing.table
    epochs, stopped = run.state.epochs, run.stopped
    return Result(
        coef,
        intercept,
        spec.problem.classes,
        epochs,
        stopped,
        trace=trace,
        table=table,
        run=kept,
        settings=settings,
    )


def _resumed(spec: Spec, resume: Any, settings: dict[str, Any]) -> Run:
    """Continue from an earlier result, if it was made with the same settings.

    With a different stopping rule, a run that had ended continues.
    """
    if not isinstance(resume, Result):
        raise ValueError(f"resume= must be a Result of minimize; got {type(resume).__name__}")
    if resume.settings.get("data") != settings["data"]:
        raise ValueError(
            "resume= was made with other data; give the same X, y and sample_weight, or leave"
            " resume= out"
        )
    for name, value in settings.items():
        if name != "stop" and resume.settings.get(name) != value:
            raise ValueError(
                f"resume= was made with different settings: {name} was"
                f" {resume.settings.get(name)!r} and is now {value!r}; use the same, or leave"
                " resume= out"
            )
    run: Run = resume.run
    if run.drawing.table is not None:
        run.drawing.table.fingerprint.check(spec.problem.X, spec.y)
    if resume.settings["stop"] != settings["stop"]:
        run = run._replace(patience=Patience(run.patience.best))
    return run._replace(drawing=run.drawing.on(spec))


def _settings(spec: Spec, average: bool | int | str) -> dict[str, Any]:
    """What a resumed run must have in common with the one before."""
    problem = spec.problem
    return {
        "shape of X": problem.X.shape,
        "data": _mark_data(problem),
        "float type": problem.X.dtype.name,
        "loss": problem.loss,
        "penalty": _mark(problem.penalty),
        "fit_intercept": problem.fit_intercept,
        "average": average,
        "order": spec.order,
        "solver": spec.solver_name,
        "batch_size": spec.batch_size,
        "steps": spec.steps,
        "seed": spec.seed,
        "trace": tuple(one if isinstance(one, Distance) else one.name for one in spec.trace),
        "stop": spec.stop,
    }


def _mark_data(problem: Problem) -> str:
    """Hash of labels, weights and evenly spaced rows, which identifies the data."""
    some = problem.X[:: -(-problem.n // _MARKED_ROWS)]
    entries = (some.data, some.indices, some.indptr) if sparse.issparse(some) else (some,)
    mark = hashlib.sha256()
    for column in (problem.y, problem.weight, *entries):
        mark.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
    return mark.hexdigest()[:16]


def _mark(penalty: Penalty) -> Any:
    """What identifies a penalty: its numbers, or the name and content of the user's own."""
    if not isinstance(penalty, OwnPenalty):
        return penalty
    try:
        content = hashlib.sha256(pickle.dumps(penalty.given)).hexdigest()
    except Exception:
        content = ""
    return type(penalty.given).__qualname__, content, penalty.l2
