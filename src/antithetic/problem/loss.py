"""A loss: a function of one target and one prediction, known to the kernels by a number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._core.losses import (
    HUBER,
    LOG_LOSS,
    MODIFIED_HUBER,
    PERCEPTRON,
    SOFTMAX,
    SQUARED_ERROR,
    TWEEDIE,
)


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss by name, with its parameter.

    Parameters
    ----------
    name : str
        Its scikit-learn name.
    code : int
        The number by which the kernels know it.
    classification : bool
        Whether labels are two classes (mapped to -1 and +1) or numbers.
    largest_curvature : float
        Bound on the second derivative in ``p``; infinite where the loss has a kink, or grows
        exponentially.
    epsilon : float, default=0.1
        The loss's parameter: where ``"huber"`` turns from square to straight, the insensitive zone
        of the epsilon losses, the quantile, the power of Tweedie losses; others ignore it.
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
    largest_curvature: float
    epsilon: float = 0.1
    is_bounded: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0.0):
            raise ValueError(f"epsilon must be a finite number, at least 0; got {self.epsilon!r}")

    @property
    def may_overshoot(self) -> bool:
        """Whether a step that suits most rows can move the weights much too far.

        Unbounded slopes can, and so can those of ``"modified_huber"``, which reach 4.
        """
        return not self.is_bounded or self.code == MODIFIED_HUBER

    def with_epsilon(self, epsilon: float) -> Loss:  # noqa: ARG002
        """Return the loss with another parameter, where it has one."""
        return self

    @property
    def has_classes(self) -> bool:
        """Whether there is one score per class, and thus one row of weights for each."""
        return self.code == SOFTMAX

    @property
    def has_log_link(self) -> bool:
        """Whether a linear prediction is the logarithm of what is predicted."""
        return self.code == TWEEDIE

    @property
    def is_smooth(self) -> bool:
        """Whether it has a slope everywhere, and so :meth:`curvature` says how that changes."""
        return math.isfinite(self.largest_curvature) or self.code == TWEEDIE

    @property
    def concordance(self) -> float:
        """Smallest c with ``|third derivative| <= c * second derivative``; infinite if none.

        The second derivative then changes by a factor of at most ``exp(c * change of p)``. With
        many classes, the range of the changes of the scores takes the place of the change.
        """
        if self.has_log_link:
            return max(self.epsilon - 1.0, 2.0 - self.epsilon)
        return {LOG_LOSS: 1.0, SOFTMAX: 1.0, SQUARED_ERROR: 0.0}.get(self.code, math.inf)

    @property
    def has_known_dispersion(self) -> bool:
        """Whether the mean says what the variance is, as that of classes and counts does."""
        return self.classification or (self.has_log_link and self.epsilon == 1.0)

    def pearson(self, y: NDArray[Any], p: NDArray[Any]) -> NDArray[np.float64]:
        """Squared residuals in units of the variance function."""
        squares = np.square(self.slope(y, p))
        return squares * np.exp((self.epsilon - 2.0) * p) if self.has_log_link else squares

    def means(self, p: NDArray[Any]) -> NDArray[Any]:
        """The predictions: linear predictions themselves, or with a log link their exponentials."""
        if not self.has_log_link:
            return p
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(p))

    def check_targets(self, y: NDArray[np.float64]) -> None:
        """Raise ValueError for targets that the loss is not defined for, naming the first row."""

    def typical_curvature(
        self,
        y: NDArray[np.float64],  # noqa: ARG002
        fit_intercept: bool,  # noqa: ARG002
    ) -> float:
        """Curvature that steps are made for; 1 for a loss with a kink."""
        return self.largest_curvature if math.isfinite(self.largest_curvature) else 1.0

    def kink_distance(self, y: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distance of each prediction from the kink of a loss that has one, shape (n,).

        The kink is at a margin if there are two classes, otherwise at the target, or around it.
        """
        if not self.classification:
            return np.asarray(y - p)
        return np.asarray((0.0 if self.code == PERCEPTRON else 1.0) - y * p)

    def first_intercept(
        self,
        y: NDArray[np.float64],  # noqa: ARG002
        weight: NDArray[np.float64] | None,  # noqa: ARG002
    ) -> float:
        """Intercept that a run starts with unless another is given."""
        return 0.0

    def without_offset(
        self,
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        offset: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return targets and weights of the same loss, up to a constant, of scores less offsets.

        ValueError for losses of two classes, which have none.
        """
        if self.classification:
            raise ValueError(
                f'offset= is supported for regression losses only; got loss="{self.name}"'
            )
        return y - offset, weight

    def deviance_share(
        self, y: NDArray[np.float64], p: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> float:
        """Share of the deviance that linear predictions explain: D2, at most 1.

        The best constant prediction has 0.
        """
        best = np.full(len(y), self.best_constant(y, weight))
        left, all_of_it = self.mean(y, p, weight), self.mean(y, best, weight)
        if all_of_it > 0.0:
            return 1.0 - left / all_of_it
        return 1.0 if left == 0.0 else 0.0

    def best_constant(self, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
        """Linear prediction of the mean."""
        return float(np.average(y, weights=weight))

    def value(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Loss of each prediction, shape (n,)."""
        return _each(kernels.values, self, y, p)

    def slope(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Derivative of each loss in its prediction, shape (n,)."""
        return _each(kernels.slopes, self, y, p)

    def curvature(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Second derivative of each loss in its prediction, shape (n,).

        Losses with a kink have none: ValueError.
        """
        if not self.is_smooth:
            raise ValueError(f"loss {self.name!r} has a kink, so it has no curvature")
        return _each(kernels.curvatures, self, y, p)

    def curvatures_above(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Curvature of a parabola that touches each loss and is nowhere below it, shape (n,).

        Losses that grow exponentially have none: theirs is the curvature itself.
        """
        if self.code == LOG_LOSS:
            half = np.maximum(np.abs(np.atleast_1d(p)) * 0.5, 1e-6)
            return np.asarray(np.tanh(half) / (4.0 * half))
        if self.code == HUBER:
            apart = np.abs(np.atleast_1d(np.asarray(y, dtype=np.float64) - p))
            return np.asarray(self.epsilon / np.maximum(apart, self.epsilon))
        if math.isfinite(self.largest_curvature):
            return np.full(np.shape(np.atleast_1d(p)), self.largest_curvature)
        return self.curvature(y, p)

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
    if _is_column(y) and _is_column(p) and len(y) == len(p):  # nothing to convert
        out = np.empty(len(y))
        function(loss.code, loss.epsilon, y, p, out)
        return out
    given = [np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in (y, p)]
    shape = np.broadcast_shapes(*(column.shape for column in given))
    columns = [
        np.ascontiguousarray(column) if column.shape == shape else np.full(shape, column)
        for column in given
    ]
    out = np.empty(shape)
    function(loss.code, loss.epsilon, *columns, out)
    return out


def _is_column(values: Any) -> TypeGuard[NDArray[np.float64]]:
    is_array = type(values) is np.ndarray and values.ndim == 1
    return is_array and values.dtype == np.float64 and values.flags.c_contiguous
