"""The losses by name, and those of scikit-learn's SGD that have a parameter as objects."""

from __future__ import annotations

import math
import re
from typing import Any

from antithetic._core.losses import (
    EPSILON_INSENSITIVE,
    HINGE,
    HUBER,
    LOG_LOSS,
    MODIFIED_HUBER,
    PERCEPTRON,
    SQUARED_EPSILON_INSENSITIVE,
    SQUARED_ERROR,
    SQUARED_HINGE,
)
from antithetic._core.losses import SOFTMAX as SOFTMAX_CODE
from antithetic._util.validation import did_you_mean
from antithetic.problem.deviances import Quantile, Tweedie
from antithetic.problem.loss import Loss

__all__ = [
    "ALL_LOSSES",
    "LOSSES",
    "SOFTMAX",
    "EpsilonInsensitive",
    "Huber",
    "Loss",
    "Quantile",
    "SquaredEpsilonInsensitive",
    "Tweedie",
    "get_loss",
    "read_loss",
]


class _WithEpsilon(Loss):
    """A loss whose parameter is ``epsilon``."""

    __slots__ = ()

    def with_epsilon(self, epsilon: float) -> Loss:
        """Return the loss with another parameter."""
        return type(self)(epsilon)  # type: ignore[call-arg, arg-type]  # that of a subclass

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.epsilon!r})"


class Huber(_WithEpsilon):
    """Squared error up to residuals of ``epsilon``, linear beyond.

    Parameters
    ----------
    epsilon : float, default=0.1

    Examples
    --------
    >>> from antithetic.losses import Huber
    >>> Huber(2.0).value([1.0, 0.0], [0.0, 5.0])
    array([0.5, 8. ])
    """

    __slots__ = ()

    def __init__(self, epsilon: float = 0.1) -> None:
        Loss.__init__(self, "huber", HUBER, False, 1.0, epsilon)


class EpsilonInsensitive(_WithEpsilon):
    """Absolute error beyond residuals of ``epsilon``, zero up to there.

    Parameters
    ----------
    epsilon : float, default=0.1
    """

    __slots__ = ()

    def __init__(self, epsilon: float = 0.1) -> None:
        name = "epsilon_insensitive"
        Loss.__init__(self, name, EPSILON_INSENSITIVE, False, math.inf, epsilon)


class SquaredEpsilonInsensitive(_WithEpsilon):
    """Square of the amount by which residuals exceed ``epsilon``.

    Parameters
    ----------
    epsilon : float, default=0.1
    """

    __slots__ = ()

    def __init__(self, epsilon: float = 0.1) -> None:
        name = "squared_epsilon_insensitive"
        Loss.__init__(self, name, SQUARED_EPSILON_INSENSITIVE, False, 2.0, epsilon, False)


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("log_loss", LOG_LOSS, classification=True, largest_curvature=0.25),
        Loss("hinge", HINGE, classification=True, largest_curvature=math.inf),
        Loss(
            "squared_hinge",
            SQUARED_HINGE,
            classification=True,
            largest_curvature=2.0,
            is_bounded=False,
        ),
        Loss("modified_huber", MODIFIED_HUBER, classification=True, largest_curvature=2.0),
        Loss("perceptron", PERCEPTRON, classification=True, largest_curvature=math.inf),
        Loss(
            "squared_error",
            SQUARED_ERROR,
            classification=False,
            largest_curvature=1.0,
            is_bounded=False,
        ),
        Huber(),
        EpsilonInsensitive(),
        SquaredEpsilonInsensitive(),
    )
}


# Classes together, with one score for each: no other loss has more than one.
SOFTMAX = Loss("softmax", SOFTMAX_CODE, classification=True, largest_curvature=0.5)

# Those that scikit-learn's SGD does not have are for regression only.
ALL_LOSSES = LOSSES | {
    "quantile": Quantile(),
    "poisson": Tweedie(1.0),
    "gamma": Tweedie(2.0),
    "tweedie": Tweedie(),
}


def get_loss(loss: str | Loss) -> Loss:
    """Return a loss by name; a :class:`Loss` is returned as it is."""
    if isinstance(loss, Loss):
        return loss
    if loss == "softmax":
        raise ValueError(
            'loss "softmax" has one score per class, which this does not support; use it with'
            " SGDClassifier or minimize, or use loss='log_loss' for two classes"
        )
    if not isinstance(loss, str) or loss not in ALL_LOSSES:
        raise ValueError(
            f"loss {loss!r} is not known; use one of {', '.join(ALL_LOSSES)}, or an object of"
            f" antithetic.losses{did_you_mean(loss, ALL_LOSSES)}"
        )
    return ALL_LOSSES[loss]


def read_loss(text: str) -> str | Loss | None:
    """Return a word as it is, and what an object prints, such as ``Quantile(0.9)``, as the object.

    None for anything else; nothing is executed.
    """
    if text in ALL_LOSSES or text == SOFTMAX.name:
        return text
    found = re.fullmatch(r"(\w+)\(([0-9.e+-]+)\)", text)
    if found is None or found[1] not in _WITH_PARAMETER:
        return None
    try:
        loss: Loss = _WITH_PARAMETER[found[1]](float(found[2]))
    except ValueError:
        return None
    return loss


_WITH_PARAMETER: dict[str, Any] = {
    kind.__name__: kind
    for kind in (Huber, EpsilonInsensitive, SquaredEpsilonInsensitive, Quantile, Tweedie)
}
