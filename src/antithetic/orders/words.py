"""The words for orders: each stands for an object with its defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from antithetic import orders
from antithetic.orders.order import Order


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
    >>> from antithetic.orders.words import read_order
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
