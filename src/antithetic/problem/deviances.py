"""Losses of scikit-learn's GLMs and QuantileRegressor that its SGD does not have."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core.losses import QUANTILE, TWEEDIE
from antithetic.problem.loss import Loss


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0


def _number(given: Any) -> float:
    return float(given) if isinstance(given, numbers.Real) else math.nan


class Quantile(Loss):
    """Pinball loss: smallest at the ``q``-quantile of the target, the median by default.

    Targets above the prediction have the weight ``q``, those below it ``1 - q``.

    Parameters
    ----------
    q : float, default=0.5
        Between 0 and 1.

    Examples
    --------
    >>> from antithetic.losses import Quantile
    >>> Quantile(0.75).value([1.0, 1.0], [0.0, 2.0])
    array([0.75, 0.25])
    """

    __slots__ = ()

    def __init__(self, q: float = 0.5) -> None:
        number = _number(q)
        if not 0.0 < number < 1.0:
            raise ValueError(f"Quantile(q) needs a number between 0 and 1; got {q!r}")
        Loss.__init__(self, "quantile", QUANTILE, False, math.inf, number)

    @property
    def q(self) -> float:
        """The quantile."""
        return self.epsilon

    def typical_curvature(
        self,
        y: NDArray[np.float64],
        fit_intercept: bool,  # noqa: ARG002
    ) -> float:
        """One over the size of the targets, since steps may have to go that far."""
        size = float(np.abs(y).mean())
        return 1.0 / size if 0.0 < size < math.inf else 1.0

    def first_intercept(self, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
        """The quantile itself: with slopes of at most 1, steps would take long to reach it."""
        return self.best_constant(y, weight)

    def best_constant(self, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
        """Weighted quantile of the targets."""
        order = np.argsort(y, kind="stable")
        upto = np.cumsum(np.ones(len(y)) if weight is None else weight[order])
        return float(y[order[np.searchsorted(upto, self.q * upto[-1])]])

    def __repr__(self) -> str:
        return f"Quantile({self.q!r})"


class Tweedie(Loss):
    r"""Half the Tweedie deviance, with a log link: the prediction is :math:`\log \mu`.

    Its power says how the variance grows with the mean, as :math:`\mu^{power}`: 1 is Poisson, for
    counts, 2 is gamma, for positive numbers, and between them lie amounts that are often 0.

    Parameters
    ----------
    power : float, default=1.5
        From 1 to 2.

    Examples
    --------
    >>> from antithetic.losses import Tweedie
    >>> Tweedie(1.0).slope([3.0], [0.0])
    array([-2.])
    """

    __slots__ = ()

    def __init__(self, power: float = 1.5) -> None:
        number = _number(power)
        if not 1.0 <= number <= 2.0:
            raise ValueError(f"Tweedie(power) needs a number from 1 to 2; got {power!r}")
        name = {1.0: "poisson", 2.0: "gamma"}.get(number, "tweedie")
        Loss.__init__(self, name, TWEEDIE, False, math.inf, number, False)

    @property
    def power(self) -> float:
        """Exponent by which the variance grows with the mean."""
        return self.epsilon

    def check_targets(self, y: NDArray[np.float64]) -> None:
        """Raise ValueError for negative targets, and for zeros where the power is 2."""
        wrong = y <= 0.0 if self.power == 2.0 else y < 0.0
        if wrong.any():
            row = int(np.argmax(wrong))
            least = "above 0" if self.power == 2.0 else "at least 0"
            raise ValueError(
                f"loss {self.name!r} needs targets {least}; y has {y[row]} in row {row}"
            )

    def without_offset(
        self,
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        offset: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return targets relative to the exposures, and weights with a power of these."""
        self.check_targets(y)  # before their numbers change
        with np.errstate(over="ignore", under="ignore"):
            shares = np.exp((2.0 - self.power) * offset)
            targets = y * np.exp(-offset)
        if not (np.isfinite(shares).all() and np.isfinite(targets).all()):
            raise ValueError(
                "offset is added to the logarithm of the mean: exp(offset) and y / exp(offset) must"
                f" be finite; offset ranges from {offset.min():g} to {offset.max():g}"
            )
        return targets, shares if weight is None else shares * weight

    def typical_curvature(self, y: NDArray[np.float64], fit_intercept: bool) -> float:
        """Curvature at the mean of the targets, where an intercept starts, or otherwise at 0."""
        mean, at_zero = float(np.mean(y)), 2.0 - self.power
        at_mean = math.pow(mean, at_zero)
        if fit_intercept and at_mean > 0.0:  # it is 0 where all targets are
            return at_mean
        return max(at_mean, at_zero + (self.power - 1.0) * mean)

    def first_intercept(self, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
        """Logarithm of the mean: far below it, the first steps would be exponentially too long."""
        return _finite(self.best_constant(y, weight))

    def best_constant(self, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
        """Logarithm of the mean of the targets."""
        mean = float(np.average(y, weights=weight))
        return math.log(mean) if mean > 0.0 else -math.inf

    def __repr__(self) -> str:
        return f"Tweedie({self.power!r})"
