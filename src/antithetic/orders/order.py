"""The base of all orders: which rows make the next batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from antithetic._util.settings import Settings
from antithetic.orders.batches import Batches, cut
from antithetic.orders.pool import Draws, Pool

if TYPE_CHECKING:
    from antithetic.orders.pairs import Pairs

_MORE = "nested groups define an order; sampling with replacement has none; use order="


class Order(Settings):
    """Which rows, pairs or groups make the next batch.

    An order of your own is a frozen dataclass that inherits from this one and has a method
    ``rows(pool, epoch)``, which returns all row numbers of an epoch, each once; batches are cut
    from them. It must depend only on the pool and the epoch, since a run that is traced or
    resumed asks for an epoch more than once.

    Attributes
    ----------
    once : bool
        Whether each row is visited once per epoch; a table of pairs is then turned into a matching.
    has_partial_sums : bool
        Whether all rows count equally, so that partial sums of their gradients can be traced.
    pairs : Pairs or None
        Which rows are used together.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import antithetic
    >>> from antithetic.orders import Order
    >>> @dataclass(frozen=True)
    ... class ThereAndBack(Order):
    ...     def rows(self, pool, epoch):
    ...         rows = np.random.default_rng((pool.seed, epoch // 2)).permutation(pool.n)
    ...         return rows[::-1] if epoch % 2 else rows
    >>> X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    >>> run = antithetic.minimize(X, y, l2=1e-2, order=ThereAndBack(), epochs=10)
    """

    once: ClassVar[bool] = True
    has_partial_sums: ClassVar[bool] = True
    balances: ClassVar[bool] = False
    pairs: Pairs | None = None  # a field of those orders that take pairs

    def rows(self, pool: Pool, epoch: int) -> Any:
        """Rows of an epoch in order, each once."""
        raise NotImplementedError(f"{type(self).__name__} has no method rows(pool, epoch)")

    def draw_from(self, pool: Pool) -> Draws:
        """Apply the order to a pool."""
        return Draws(
            pool, RowsInOrder(pool.n, pool.batch_size, lambda epoch: self.rows(pool, epoch))
        )

    def check_length(self, n: int) -> None:
        """Raise ValueError if the order holds labels or numbers of other than n rows."""

    def take(self, rows: NDArray[np.intp]) -> Self:  # noqa: ARG002
        """Cut labels or numbers that the order holds for each row to some of the rows."""
        return self

    def refuses(self) -> str | None:
        """Why these settings cannot be combined, and what to use instead; None if they can."""
        kind = type(self)
        if kind.rows is Order.rows and kind.draw_from is Order.draw_from:
            return (
                f"{kind.__name__} has no method rows(pool, epoch), which gives the rows of an epoch"
                " in order; write one, or use Given(function)"
            )
        if not self.once and self.pairs is not None and self.pairs.nest is True:
            return f'{_MORE}"shuffle" or "balanced", or for example nest=8'
        return None


@dataclass(frozen=True, slots=True, eq=False)
class RowsInOrder:
    """Rows in the order that a function gives for each epoch, cut into batches.

    Attributes
    ----------
    n : int
    batch_size : int
    rows : callable
        From the number of an epoch, 0 for the first, to all row numbers, each once.
    """

    n: int
    batch_size: int
    rows: Callable[[int], Any]

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002
        """Batches of an epoch, or ValueError unless each row is in them once."""
        given = self.rows(epoch)
        try:
            rows = np.asarray(given)
        except ValueError:
            rows = np.empty(0)  # lists of different lengths
        if rows.shape != (self.n,) or rows.dtype.kind not in "iu":
            raise ValueError(
                f"the order of epoch {epoch} must be {self.n} whole numbers, one for each row; got"
                f" shape {rows.shape} of {rows.dtype}. In cross-validation the number of rows"
                " varies: use a subclass of Order, whose method rows(pool, epoch) gets it as pool.n"
            )
        if not np.array_equal(np.sort(rows), np.arange(self.n)):
            raise ValueError(
                f"the order of epoch {epoch} must contain each of 0..{self.n - 1} exactly once;"
                " otherwise some rows would count more than others"
            )
        return cut(rows.astype(np.intp), self.batch_size)
