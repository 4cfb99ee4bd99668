"""Checked data of a fit, and orders that are cut to some of its rows."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.settings import fields_of
from antithetic.orders import Importance, Order, Stratified
from antithetic.orders.probabilities import normalised
from antithetic.orders.strata import own_strata
from antithetic.pairing import AntitheticTable
from antithetic.problem.kernel_rows import kernel_rows
from antithetic.problem.preconditioner import Moments, finite_moments


class TrainingData(NamedTuple):
    """Rows, targets as given, and weights of the rows (None where all are 1).

    ``columns`` are the moments of the columns, where reading the rows has found them.
    """

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    columns: Moments | None = None

    def take(self, rows: NDArray[np.intp]) -> TrainingData:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return TrainingData(self.X[rows], self.y[rows], weight)

    def shown(self) -> dict[str, Any]:
        """What callbacks receive."""
        metadata = None if self.weight is None else {"sample_weight": self.weight}
        return {"X": self.X, "y": self.y, "metadata": metadata}


def is_checked(X: Any, y: Any) -> bool:
    """Whether scikit-learn's checks would leave rows and targets unchanged; in doubt, False.

    They take longer than an epoch of few rows.
    """
    if not _needs_no_conversion(X, y):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        # a sum of squares is finite unless an entry is not, or it overflows; BLAS takes two thirds
        # of the time of NumPy's plain sum
        entries = X.data if sparse.issparse(X) else X.ravel()
        return bool(np.isfinite(entries @ entries) and np.isfinite(y.sum()))


def checked_moments(X: Any, y: Any) -> Moments | None:
    """Moments of the columns of dense rows that `is_checked`, in the same visit to the rows.

    None where they are not.
    """
    if sparse.issparse(X) or not _needs_no_conversion(X, y):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return finite_moments(X, kernel_rows(X)) if np.isfinite(y.sum()) else None


def _needs_no_conversion(X: Any, y: Any) -> bool:
    """Whether rows and targets have the types and shapes that kernels take."""
    is_csr = sparse.issparse(X) and X.format == "csr"
    is_dense = type(X) is np.ndarray and X.flags.c_contiguous
    if not (is_csr or is_dense) or type(y) is not np.ndarray:
        return False
    if X.ndim != 2 or 0 in X.shape or y.shape != X.shape[:1]:
        return False
    return X.dtype in (np.float64, np.float32) and y.dtype.kind in "biuf"


def filled(order: Order, table: AntitheticTable | None, strata: Any, n: int) -> Order:
    """Put what fit was given into an order's unset ``pairs`` and ``strata``."""
    if strata is not None:
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
    _check_lengths(order, n)
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


def _check_lengths(order: Order, n: int) -> None:
    """Raise ValueError if an order holds labels or numbers of other data, before these are cut."""
    if isinstance(order, Stratified) and isinstance(order.strata, np.ndarray):
        own_strata(order.strata, n)
    if _has_numbers_of_rows(order):
        normalised(order.by, n, "by")


def _has_numbers_of_rows(order: Order) -> TypeGuard[Importance]:
    """Whether an order has a number for each row or, which are as many, each pair (i, S[i])."""
    if not (isinstance(order, Importance) and isinstance(order.by, np.ndarray)):
        return False
    return order.pairs is None or order.pairs.nest is None


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
    if isinstance(order, Stratified) and isinstance(order.strata, np.ndarray):
        order = order.but(strata=order.strata[rows])
    if _has_numbers_of_rows(order):
        order = order.but(by=order.by[rows])
    return order
