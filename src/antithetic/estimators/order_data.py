"""Orders that are given what fit was, and cut to some of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.settings import fields_of
from antithetic.orders import Order
from antithetic.pairing import AntitheticTable


def filled(order: Order, table: AntitheticTable | None, strata: Any, n: int) -> Order:
    """Put what fit was given into an order's unset ``pairs`` and ``strata``."""
    if strata is not None:
        from antithetic.orders import Stratified

        if not isinstance(order, Stratified):
            raise ValueError(f"strata= needs order='stratified'; got order={order!r}")
        if order.strata is not None:
            raise ValueError(f"strata= is given twice: to fit, and in order={order!r}")
        labels = np.asarray(strata)
        if labels.shape != (n,):
            raise ValueError(
                f"strata must have shape ({n},), one label per row of X; got {labels.shape}"
            )
        order = order.but(strata=labels)
    order.check_length(n)
    if table is None:
        return order
    pairs = order.pairs
    if pairs is not None:
        if pairs.method != "auto" or pairs.nest is not None:  # refresh= may be set
            raise ValueError(f"table= is given twice: to fit, and in order={order!r}")
        return order.but(pairs=pairs.but(method=table))
    if "pairs" not in {field.name for field in fields_of(order)}:
        raise ValueError(
            f"order={order!r} takes no pairs, so it cannot use a table; leave table= out, or use"
            " order='shuffle'"
        )
    return order.but(pairs=table)


def cut_to(order: Order, rows: NDArray[np.intp]) -> Order:
    """Cut what an order holds for each row to some of the rows."""
    pairs = order.pairs
    if pairs is not None and pairs.given is not None:
        if not isinstance(pairs.given, AntitheticTable):
            raise ValueError(
                "early_stopping holds back some rows, and a GroupTable cannot be cut to the rest;"
                " pass X_val and y_val to fit instead"
            )
        order = order.but(pairs=pairs.but(method=pairs.given[rows]))
    return order.take(rows)
