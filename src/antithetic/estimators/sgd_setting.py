"""What the parameters of an SGD estimator mean: checked together, and built once for each fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from antithetic.orders import Order
from antithetic.orders.order import ORDERS, read_order
from antithetic.problem.losses import ALL_LOSSES, SOFTMAX, Loss
from antithetic.problem.penalties import ElasticNet, GroupLasso, OwnPenalty, Penalty
from antithetic.stochastic import SOLVERS
from antithetic.stochastic.solver import Choice
from antithetic.stochastic.spec import check_choice
from antithetic.stochastic.steps import (
    PA1,
    PA2,
    Adaptive,
    Auto,
    Constant,
    InverseTime,
    InvScaling,
    Optimal,
    Steps,
)
from antithetic.stochastic.stopping import Stalled, Stop, Target
from antithetic.stochastic.trace import Measure, check_measures, measures_of

_WITH_ETA0 = {"constant": Constant, "adaptive": Adaptive, "pa1": PA1, "pa2": PA2}
SCHEDULES = {"auto", "inverse_time", "invscaling", "optimal", *_WITH_ETA0}


@dataclass(frozen=True, slots=True, eq=False)
class SgdSetting:
    """The parameters of an SGD estimator as parts of a run.

    Attributes
    ----------
    penalty : Penalty or GroupLasso
        The latter needs the number of features, see `penalty_on`.
    order : Order or None
        None if it is chosen automatically, and so is a ``batch_size`` of None.
    is_auto : bool
        Whether steps are found from the data.
    has_steps : bool
        Whether the solver steps along gradients of batches.
    measures : tuple of Measure
        What is recorded besides the running objective.
    """

    loss: Loss
    penalty: Penalty | GroupLasso
    alpha: float
    fit_intercept: bool
    solver: str
    has_steps: bool
    order: Order | None
    shuffle: bool
    steps: Steps
    is_auto: bool
    batch_size: int | None
    average: bool | int | str
    stop: Stop
    measures: tuple[Measure, ...]
    tol: float | None
    max_iter: int
    early_stopping: bool
    validation_fraction: float
    warm_start: bool
    random_state: Any
    n_jobs: int | None
    verbose: bool

    @classmethod
    def of(cls, model: Any, *, is_first_chunk: bool = False) -> SgdSetting:
        """Read the parameters of an estimator; raise ValueError if they cannot be combined."""
        if model.early_stopping and is_first_chunk:
            raise ValueError("early_stopping should be False with partial_fit")
        if model.early_stopping and model.stopping != "objective":
            raise ValueError(
                "early_stopping watches the validation score, so it cannot be combined with"
                f" stopping={model.stopping!r}; leave one of them out"
            )
        loss = loss_of(model)
        if model._y_numeric and loss.classification:
            raise ValueError(
                f"loss={model.loss!r} is a loss for classification; use a regression loss, or"
                " SGDClassifier"
            )
        penalty, order = _penalty_of(model), _order_of(model)
        _check_stopping(model)
        steps, stop = _steps_of(model), _stop_of(model)
        measures = _measures_of(model, stop)
        setting = cls(
            loss=loss,
            penalty=penalty,
            alpha=float(model.alpha) + 0.0,  # no negative zero
            fit_intercept=bool(model.fit_intercept),
            solver=model.solver,
            has_steps=SOLVERS[model.solver].has_steps,
            order=order,
            shuffle=bool(model.shuffle),
            steps=steps,
            is_auto=isinstance(steps, Auto),
            batch_size=None if isinstance(model.batch_size, str) else int(model.batch_size),
            average=model.average,
            stop=stop,
            measures=measures,
            tol=model.tol,
            max_iter=model.max_iter,
            early_stopping=bool(model.early_stopping),
            validation_fraction=model.validation_fraction,
            warm_start=bool(model.warm_start),
            random_state=model.random_state,
            n_jobs=getattr(model, "n_jobs", None),
            verbose=bool(model.verbose),
        )
        kind: Any = penalty  # which does not depend on the number of features
        if isinstance(penalty, GroupLasso):
            kind = GroupLasso([[0]]).on(1, setting.alpha)
        average = model.average != "auto" and model.average
        check_choice(
            Choice(setting.solver, order, kind, loss, steps, average, setting.fit_intercept)
        )
        check_measures(measures, setting.solver, order)
        return setting

    @property
    def centres_columns(self) -> bool:
        """Whether steps are taken in centred columns, each divided by its own spread."""
        return self.is_auto and self.solver == "sgd" and self.fit_intercept

    @property
    def estimates_gap(self) -> bool:
        """Whether fit estimates its distance from the optimum; other solvers know it themselves."""
        # with many classes this takes several epochs: only where it decides when tol ends the fit
        decides = self.tol is not None and self.is_auto
        return self.has_steps and (decides or not self.loss.has_classes)

    def penalty_on(self, d: int) -> Penalty:
        """Penalty of ``d`` weights."""
        if isinstance(self.penalty, GroupLasso):
            return self.penalty.on(d, self.alpha)
        return self.penalty


def loss_of(model: Any) -> Loss:
    """Return the loss of an SGD estimator's parameters."""
    if isinstance(model.loss, Loss):
        return model.loss
    if model.loss == SOFTMAX.name:
        return SOFTMAX
    return ALL_LOSSES[model.loss].with_epsilon(float(model.epsilon))


def _penalty_of(model: Any) -> Penalty | GroupLasso:
    given, alpha = model.penalty, float(model.alpha) + 0.0
    if isinstance(given, (ElasticNet, GroupLasso)):
        return given
    if given is None:
        return ElasticNet()
    if not isinstance(given, str):
        return OwnPenalty(given)
    l1_ratio = {"l2": 0.0, "l1": 1.0}.get(given, model.l1_ratio)
    if l1_ratio is None:
        raise ValueError("l1_ratio must be set when penalty is 'elasticnet'")
    return ElasticNet((1.0 - float(l1_ratio)) * alpha, float(l1_ratio) * alpha)


def _order_of(model: Any) -> Order | None:
    """Return the order that was asked for; None if it is chosen automatically."""
    is_auto = isinstance(model.order, str) and model.order == "auto"
    order = None if is_auto else read_order(model.order)
    if not (model.shuffle or order is None or order == ORDERS["shuffle"]()):
        raise ValueError(
            "shuffle=False uses the rows in the given order, so it cannot be combined with"
            f" order={model.order!r}; use order='auto', or shuffle=True"
        )
    return order


def _check_stopping(model: Any) -> None:
    if model.stopping == "objective":
        return
    if model.tol is None:
        raise ValueError(
            f"stopping={model.stopping!r} needs tol, say 1e-6: a run ends once the"
            f" {model.stopping} is at most tol; got tol=None"
        )
    if model.learning_rate == "adaptive":
        raise ValueError(
            f"learning_rate='adaptive' watches the objective; with stopping={model.stopping!r}"
            " use another learning rate, say 'auto'"
        )


def _steps_of(model: Any) -> Steps:
    """Return the step sizes of ``learning_rate`` and its parameters."""
    rate, eta0, alpha = model.learning_rate, float(model.eta0), float(model.alpha)
    if isinstance(model.penalty, ElasticNet):  # which has strengths of its own
        alpha = model.penalty.l2 + model.penalty.l1
    if rate == "auto":
        return Auto(model.decay)
    if rate == "inverse_time":
        return InverseTime(eta0, alpha if model.decay is None else model.decay)
    if rate == "invscaling":
        return InvScaling(eta0, float(model.power_t))
    if rate == "optimal":
        if alpha == 0.0:
            raise ValueError(
                "alpha must be > 0 since learning_rate is 'optimal': the step size is computed"
                " from it; use 'auto' instead"
            )
        return Optimal(alpha)
    if rate == "adaptive" and model.tol is None:
        return Constant(eta0)  # nothing says when to lower it, as in scikit-learn
    return _WITH_ETA0[rate](eta0)


def _stop_of(model: Any) -> Stop:
    """Return the stopping rule of ``tol`` and its parameters."""
    if model.tol is None:
        return None
    if model.stopping != "objective":
        return Target(model.stopping, float(model.tol))
    of = "validation_score" if model.early_stopping else "objective"
    return Stalled(float(model.tol), int(model.n_iter_no_change), of)


def _measures_of(model: Any, stop: Stop) -> tuple[Measure, ...]:
    """Return what is recorded besides the running objective.

    SDCA skips rows that would not change, so it does not see all losses; the objective of all rows
    is recorded instead.
    """
    found = measures_of(() if model.trace is None else model.trace, stop)
    if model.solver == "sdca" and "objective" not in {measure.name for measure in found}:
        found = (*measures_of("objective"), *found)
    return found
