"""The losses: a class that knows a loss by name and parameter, and a dict of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
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


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss by name, with its parameter.

    Parameters
    ----------
    name : str
        Its scikit-learn name.
    code : int
        What the kernels know it by.
    classification : bool
        Whether labels are two classes (mapped to -1 and +1) or numbers.
    curvature : float
        Bound on the second derivative in ``p``; infinite where the loss has a kink.
    epsilon : float, default=0.1
        Where ``"huber"`` turns from square to straight, and the insensitive zone of the epsilon
        losses; others ignore it.
    is_bounded : bool, default=True
        Whether its slopes are bounded, so that no step can be longer than eta times a row.

    Examples
    --------
    >>> from antithetic.losses import LOSSES
    >>> LOSSES["hinge"].value([1.0, -1.0], [0.5, 0.5])
    array([0.5, 1.5])
    """

    name: str
    code: int
    classification: bool
    curvature: float
    epsilon: float = 0.1
    is_bounded: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0.0):
            raise ValueError(f"epsilon must be a finite number, at least 0; got {self.epsilon!r}")

    @property
    def may_overshoot(self) -> bool:
        """Whether steps that suit most rows can throw the weights far beyond where they were.

        Slopes that are unbounded do so, and those of ``"modified_huber"``, four times as steep as
        where its curve begins.
        """
        return not self.is_bounded or self.code == MODIFIED_HUBER

    def with_epsilon(self, epsilon: float) -> Loss:  # noqa: ARG002
        """Return the loss with another parameter, where it has one."""
        return self

    def value(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Loss of each prediction, shape (n,)."""
        return _each(kernels.values, self, y, p)

    def slope(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Derivative of each loss in its prediction, shape (n,)."""
        return _each(kernels.slopes, self, y, p)

    def curvatures_above(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Curvature of a parabola that touches each loss and is nowhere below it, shape (n,).

        Infinite bounds, of losses with a kink or an exponential, are replaced by the curvature.
        """
        if self.code == LOG_LOSS:
            half = np.maximum(np.abs(np.atleast_1d(p)) * 0.5, 1e-6)
            return np.asarray(np.tanh(half) / (4.0 * half))
        if self.code == HUBER:
            apart = np.abs(np.atleast_1d(np.asarray(y, dtype=np.float64) - p))
            return np.asarray(self.epsilon / np.maximum(apart, self.epsilon))
        if math.isfinite(self.curvature):
            return np.full(np.shape(np.atleast_1d(p)), self.curvature)
        return _each(kernels.curvatures, self, y, p)

    def conjugate(self, y: Any, u: Any) -> NDArray[np.float64]:
        """Convex conjugate in the prediction at each ``u``, shape (n,).

        It is infinite where the loss never has the slope ``u``.
        """
        return _each(kernels.conjugates, self, y, u)

    def mean(
        self, y: NDArray[np.float64], p: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> float:
        """Mean of the weighted losses, each row counting as one.

        Float64 columns of one length, None for weights of 1.
        """
        weights = np.empty(0) if weight is None else np.ascontiguousarray(weight)
        columns = np.ascontiguousarray(y), np.ascontiguousarray(p), weights
        return kernels.sum_of_losses(self.code, self.epsilon, *columns) / len(y)


def _each(function: Any, loss: Loss, y: Any, p: Any) -> NDArray[np.float64]:
    """Apply a kernel to columns of labels and numbers, of one length or single numbers."""
    given = [np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in (y, p)]
    shape = np.broadcast_shapes(*(column.shape for column in given))
    columns = [
        np.ascontiguousarray(column) if column.shape == shape else np.full(shape, column)
        for column in given
    ]
    out = np.empty(shape)
    function(loss.code, loss.epsilon, *columns, out)
    return out


class _WithEpsilon(Loss):
    """A loss whose parameter is ``epsilon``."""

    __slots__ = ()

    def with_epsilon(self, epsilon: float) -> Loss:
        """Return the loss with another parameter."""
        return type(self)(epsilon)  # type: ignore[call-arg, arg-type]  # that of a subclass

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.epsilon!r})"


class Huber(_WithEpsilon):
    """Squared error up to residuals of ``epsilon``, straight beyond.

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
    """Squared error of what residuals exceed ``epsilon`` by.

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
        Loss("log_loss", LOG_LOSS, classification=True, curvature=0.25),
        Loss("hinge", HINGE, classification=True, curvature=math.inf),
        Loss("squared_hinge", SQUARED_HINGE, classification=True, curvature=2.0, is_bounded=False),
        Loss("modified_huber", MODIFIED_HUBER, classification=True, curvature=2.0),
        Loss("perceptron", PERCEPTRON, classification=True, curvature=math.inf),
        Loss("squared_error", SQUARED_ERROR, classification=False, curvature=1.0, is_bounded=False),
        Huber(),
        EpsilonInsensitive(),
        SquaredEpsilonInsensitive(),
    )
}


def get_loss(loss: str | Loss) -> Loss:
    """Return a loss by name; a :class:`Loss` is returned as it is."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"loss {loss!r} is not known; use one of {', '.join(LOSSES)}")
    return LOSSES[loss]
