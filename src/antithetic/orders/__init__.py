"""Which rows, pairs or groups make the next batch: the values of ``order=``.

An order draws *units*: rows, or, with ``pairs=``, the pairs or groups of a table. Each setting
belongs to one object, which checks it. A word such as ``"balanced"`` means the object with its
defaults.
"""

from typing import TYPE_CHECKING

from antithetic._util.later import import_later

if TYPE_CHECKING:
    from antithetic.orders.balanced import Balanced
    from antithetic.orders.importance import Importance
    from antithetic.orders.order import Given, Order
    from antithetic.orders.pairs import Pairs
    from antithetic.orders.shuffle import Shuffle
    from antithetic.orders.stratified import Stratified
    from antithetic.orders.uniform import Uniform

__all__ = [
    "Balanced",
    "Given",
    "Importance",
    "Order",
    "Pairs",
    "Shuffle",
    "Stratified",
    "Uniform",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = import_later(
        __name__,
        {
            "Balanced": "balanced",
            "Given": "order",
            "Importance": "importance",
            "Order": "order",
            "Pairs": "pairs",
            "Shuffle": "shuffle",
            "Stratified": "stratified",
            "Uniform": "uniform",
        },
    )
