"""Each row once per epoch, in the order that the user's function returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from antithetic.orders.order import Order
from antithetic.orders.pool import Pool


@dataclass(frozen=True, eq=False, repr=False)
class Given(Order):
    """Rows in the order that a function gives for each epoch.

    Parameters
    ----------
    function : callable
        From the number of an epoch, 0 for the first, to all row numbers, each once. It must depend
        on nothing else: a run that is traced or resumed asks for an epoch more than once.

    Examples
    --------
    >>> import antithetic
    >>> from antithetic.orders import Given
    >>> X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    >>> backwards = Given(lambda epoch: range(len(y) - 1, -1, -1))
    >>> run = antithetic.minimize(X, y, l2=1e-2, order=backwards, epochs=2)
    """

    function: Callable[[int], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(
                "Given(function) needs a function that takes the number of an epoch and returns all"
                f" row numbers; got {self.function!r}"
            )

    def rows(self, pool: Pool, epoch: int) -> Any:  # noqa: ARG002
        """Return what the function returns."""
        return self.function(epoch)
