"""The words for orders: each stands for an object with its defaults."""

from __future__ import annotations

from typing import Any

from antithetic.orders.balanced import Balanced
from antithetic.orders.importance import Importance
from antithetic.orders.order import Order
from antithetic.orders.shuffle import Shuffle
from antithetic.orders.stratified import Stratified
from antithetic.orders.uniform import Uniform

ORDERS: dict[str, type[Order]] = {
    "uniform": Uniform,
    "shuffle": Shuffle,
    "balanced": Balanced,
    "importance": Importance,
    "stratified": Stratified,
}


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
    words = {kind: word for word, kind in ORDERS.items()}
    return words.get(type(order), type(order).__name__)
