"""From scikit-learn's parameters to a loss, a penalty, an order, steps and a stopping rule."""

from __future__ import annotations

from functools import lru_cache
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from antithetic.estimators.linear import LinearEstimator
from antithetic.orders import Order
from antithetic.orders.order import ORDERS, read_order
from antithetic.problem.losses import SOFTMAX, Loss, get_loss
from antithetic.problem.penalties import (
    ElasticNet,
    GroupLasso,
    OwnPenalty,
    Penalty,
    elastic_net,
)
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

_WITH_ETA0: dict[str, type[Constant]] = {
    "constant": Constant,
    "adaptive": Adaptive,
    "pa1": PA1,
    "pa2": PA2,
}


# Several parts of a fit ask for these, and on few rows each time counts.
_loss_named = lru_cache(maxsize=64)(lambda name, epsilon: get_loss(name).with_epsilon(epsilon))
_target, _stalled = lru_cache(maxsize=64)(Target), lru_cache(maxsize=64)(Stalled)


class LinearParameters(LinearEstimator):
    """What all SGD estimators share: parameters, which become the parts of a run."""

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
        "eta0": [Interval(Real, 0, None, closed="neither")],
        "power_t": [Interval(Real, None, None, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "order": [StrOptions({"auto", *ORDERS}), Order],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "decay": [Interval(Real, 0, None, closed="left"), None],
    }

    def _check_together(self, *, average: bool | int | str = False) -> None:
        """Check what depends on more than one parameter, before data are seen."""
        if getattr(self, "_y_numeric", False) and self._loss().classification:
            raise ValueError(
                f"loss={self.loss!r} is a loss for classification; use a regression loss, or"
                " SGDClassifier"
            )
        if self.penalty == "elasticnet" and self.l1_ratio is None:
            raise ValueError("l1_ratio must be set when penalty is 'elasticnet'")
        self._check_shuffle()
        if self.stopping != "objective" and self.tol is None:
            raise ValueError(
                f"stopping={self.stopping!r} needs tol, say 1e-6: a run ends once the"
                f" {self.stopping} is at most tol; got tol=None"
            )
        if self.stopping != "objective" and self.learning_rate == "adaptive":
            raise ValueError(
                f"learning_rate='adaptive' watches the objective; with stopping={self.stopping!r}"
                " use another learning rate, say 'auto'"
            )
        check_choice(self._choice(average))

    def _choice(self, average: bool | int | str) -> Choice:
        """Return the choices that have to work together."""
        # which kind of penalty it is does not depend on the number of features
        is_group = isinstance(self.penalty, GroupLasso)
        penalty = GroupLasso([[0]]).on(1, float(self.alpha)) if is_group else self._penalty(1)
        order, steps = self._order(), self._steps()
        intercept = bool(self.fit_intercept)
        return Choice(self.solver, order, penalty, self._loss(), steps, average, intercept)

    def _check_shuffle(self) -> None:
        if self.shuffle:
            return
        order = self._order()
        if not (order is None or order == ORDERS["shuffle"]()):
            raise ValueError(
                "shuffle=False uses the rows in the given order, so it cannot be combined with"
                f" order={self.order!r}; use order='auto', or shuffle=True"
            )

    def _order(self) -> Order | None:
        """Return the order that was asked for; None if it is chosen automatically."""
        return (
            None if isinstance(self.order, str) and self.order == "auto" else read_order(self.order)
        )

    def _loss(self) -> Loss:
        if isinstance(self.loss, Loss):
            return self.loss
        if self.loss == SOFTMAX.name:
            return SOFTMAX
        found: Loss = _loss_named(self.loss, float(self.epsilon))
        return found

    def _penalty(self, d: int) -> Penalty:
        """Penalty of ``d`` weights."""
        alpha = float(self.alpha) + 0.0  # no negative zero
        if isinstance(self.penalty, GroupLasso):
            return self.penalty.on(d, alpha)
        if isinstance(self.penalty, ElasticNet):
            return self.penalty
        if self.penalty is None:
            return elastic_net(0.0, 0.0)
        if not isinstance(self.penalty, str):
            return OwnPenalty(self.penalty)
        l1_ratio = {"l2": 0.0, "l1": 1.0}.get(self.penalty)
        l1_ratio = float(self.l1_ratio) if l1_ratio is None else l1_ratio
        return elastic_net((1.0 - l1_ratio) * alpha, l1_ratio * alpha)

    def _steps(self) -> Steps:
        """Return the step sizes of ``learning_rate`` and its parameters."""
        rate, eta0, alpha = self.learning_rate, float(self.eta0), float(self.alpha)
        if isinstance(self.penalty, ElasticNet):  # which has strengths of its own
            alpha = self.penalty.l2 + self.penalty.l1
        if rate == "auto":
            return Auto(self.decay)
        if rate == "inverse_time":
            return InverseTime(eta0, alpha if self.decay is None else self.decay)
        if rate == "invscaling":
            return InvScaling(eta0, float(self.power_t))
        if rate == "optimal":
            if alpha == 0.0:
                raise ValueError(
                    "alpha must be > 0 since learning_rate is 'optimal': the step size is computed"
                    " from it; use 'auto' instead"
                )
            return Optimal(alpha)
        if rate == "adaptive" and self.tol is None:
            return Constant(eta0)  # nothing says when to lower it, as in scikit-learn
        return _WITH_ETA0[rate](eta0)

    def _stop(self) -> Stop:
        """Return the stopping rule of ``tol`` and its parameters."""
        if self.tol is None:
            return None
        if self.stopping != "objective":
            return _target(self.stopping, float(self.tol))
        by_score = getattr(self, "early_stopping", False)
        of = "validation_score" if by_score else "objective"
        return _stalled(float(self.tol), int(self.n_iter_no_change), of)
