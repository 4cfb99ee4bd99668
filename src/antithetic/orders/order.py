"""The base of all orders: which rows make the next batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from antithetic import orders
from antithetic._core import kernels
from antithetic._util.settings import Settings
from antithetic.orders.units import Batches, Table, Units, cut
from antithetic.problem import Problem

if TYPE_CHECKING:
    from antithetic.orders.pairs import Pairs

_MORE = "nested groups define an order; sampling with replacement has none; use order="
_FEW = 2000  # numbers below which NumPy is as fast
_WORDS = 2**32


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Rows, and how they are drawn: everything that an order may look at.

    Attributes
    ----------
    problem : Problem
    table : AntitheticTable, GroupTable or None
        Which rows are used together; a matching for orders that visit each row once.
    batch_size : int
        Rows of a batch, at most n.
    seed : int
    corrected : bool, default=False
        Whether the solver corrects gradients, so that it matters how fast these change.
    """

    problem: Problem
    table: Table | None
    batch_size: int
    seed: int
    corrected: bool = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.problem.n

    @property
    def units(self) -> Units:
        """What is drawn: rows, the pairs ``(i, S[i])``, or groups."""
        return Units.of_table(self.n, self.table)

    def generator(self, epoch: int) -> np.random.Generator:
        """Return the source of an epoch's random numbers."""
        return np.random.default_rng((self.seed, epoch))


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """An order applied to a pool: the batches of its epochs.

    Attributes
    ----------
    pool : Pool
    follows : bool, default=False
        Whether the draws of an epoch depend on the gradients before it.
    """

    pool: Pool
    follows: bool = field(default=False, kw_only=True)

    def batches(
        self,
        epoch: int,
        order: NDArray[np.intp] | None = None,
        slopes: NDArray[np.float64] | None = None,
    ) -> Batches:
        """Batches of an epoch, a pure function of the seed, the epoch and what is given.

        ``order`` is what the solver left behind for the next epoch of a balanced order, ``slopes``
        are those of the gradients that draws follow.
        """
        raise NotImplementedError

    @property
    def is_draw(self) -> bool:
        """Whether batches are drawn at random, so that their gradient has a variance."""
        return False

    def variance(
        self, slopes: NDArray[np.float64], epoch: int, order: NDArray[np.intp] | None
    ) -> float:
        """Exact variance of the mean gradient of a batch of an epoch.

        For an order that is not random, it is the mean over its full batches.
        """
        from antithetic.orders.variance import order_variance

        batches = self.batches(epoch, order, slopes)
        return order_variance(self.pool.problem, slopes, batches)

    def drawn_squares(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weighted squares of the units, times the largest factor that a draw can give them."""
        return squares


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
        return RowsInOrder(pool, self)

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
class RowsInOrder(Draws):
    """Rows in the order that an order gives for each epoch, cut into batches."""

    by: Order

    def batches(
        self,
        epoch: int,
        order: NDArray[np.intp] | None = None,  # noqa: ARG002
        slopes: NDArray[np.float64] | None = None,  # noqa: ARG002
    ) -> Batches:
        """Batches of an epoch, or ValueError unless each row is in them once."""
        n, given = self.pool.n, self.by.rows(self.pool, epoch)
        try:
            rows = np.asarray(given)
        except ValueError:
            rows = np.empty(0)  # lists of different lengths
        if rows.shape != (n,) or rows.dtype.kind not in "iu":
            raise ValueError(
                f"the order of epoch {epoch} must be {n} whole numbers, one for each row; got"
                f" shape {rows.shape} of {rows.dtype}. In cross-validation the number of rows"
                " varies: use a subclass of Order, whose method rows(pool, epoch) gets it as pool.n"
            )
        if not np.array_equal(np.sort(rows), np.arange(n)):
            raise ValueError(
                f"the order of epoch {epoch} must contain each of 0..{n - 1} exactly once;"
                " otherwise some rows would count more than others"
            )
        return cut(rows.astype(np.intp), self.pool.batch_size)


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


@dataclass(frozen=True, eq=False, repr=False)
class InOrder(Order):
    """Rows as they come. This is scikit-learn's ``shuffle=False``."""

    def rows(self, pool: Pool, epoch: int) -> NDArray[np.intp]:  # noqa: ARG002
        """All rows, first to last."""
        return np.arange(pool.n)


def random_order(rng: np.random.Generator, n: int) -> NDArray[np.intp]:
    """Numbers below n in random order, all orders equally likely.

    Four words from ``rng`` seed the kernel's own generator.
    """
    if not _FEW <= n < _WORDS:
        return rng.permutation(n)
    order = np.empty(n, np.intp)
    kernels.draw_order(order, rng.bit_generator.random_raw(4))
    return order


class _Words(Mapping[str, type[Order]]):
    """Classes by their words, imported when they are asked for."""

    _words = ("uniform", "shuffle", "balanced", "importance", "stratified")

    def __getitem__(self, word: str) -> type[Order]:
        if word not in self._words:
            raise KeyError(word)
        found: type[Order] = getattr(orders, word.capitalize())
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)


ORDERS = _Words()


def read_order(order: Any) -> Order:
    """Return the order that a word or an object means.

    Examples
    --------
    >>> from antithetic.orders.order import read_order
    >>> read_order("balanced")
    Balanced()
    """
    if isinstance(order, Order):
        return order
    if isinstance(order, str) and order in ORDERS:
        return ORDERS[order]()
    if isinstance(order, type) and issubclass(order, Order):
        raise ValueError(
            f"order= is the class {order.__name__}; pass an object, {order.__name__}()"
        )
    if callable(order):
        raise ValueError(
            "order= is a function; wrap it as Given(function), which asks it for the order of"
            " each epoch"
        )
    given = repr(order) if isinstance(order, str) else f"of type {type(order).__name__}"
    raise ValueError(
        f"order {given} is not known; use one of auto, {', '.join(ORDERS)}, or an object of"
        " antithetic.orders"
    )


def name_order(order: Order) -> str:
    """Return the word for an order's class, or its name for those that have none."""
    name = type(order).__name__
    return name.lower() if ORDERS.get(name.lower()) is type(order) else name
