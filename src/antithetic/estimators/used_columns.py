"""Very wide sparse rows: a fit works on the columns that have entries, and on no others.

A column without entries has no gradient. From zero, its weight stays zero; from elsewhere, plain
steps with an L2 penalty multiply all such weights by the same factor, which is found from one more
empty column whose weight starts at 1. So the cost of an epoch does not grow with the width of the
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_WORTH = 0.25  # times as many columns as entries
_FEW_ENTRIES = 4  # of a column, on average
_SORTED = 16  # from this many on, sorting the entries is faster than marking columns


class UsedColumns(NamedTuple):
    """Columns of a matrix that have entries.

    Attributes
    ----------
    used : ndarray of shape (k,)
        Their numbers, in ascending order.
    width : int
        Number of all columns.
    """

    used: NDArray[np.intp]
    width: int

    @classmethod
    def of(cls, X: Any) -> UsedColumns | None:
        """Find them in sparse rows; None if most columns have entries."""
        if X.shape[1] < _WORTH * max(1, X.nnz):
            return None
        if X.shape[1] > _SORTED * X.nnz:
            used = _distinct(X.indices)
        else:
            has_entries = np.zeros(X.shape[1], bool)
            has_entries[X.indices] = True
            used = np.flatnonzero(has_entries)
        if 2 * len(used) > X.shape[1]:
            return None
        return cls(used if len(used) else np.zeros(1, np.intp), X.shape[1])

    def narrow(self, X: Any, *, extra: int = 0) -> sparse.csr_array:
        """Keep the used columns of the rows, and append a number of empty ones."""
        place = np.empty(self.width, dtype=X.indices.dtype)
        place[self.used] = np.arange(len(self.used), dtype=place.dtype)
        narrow = sparse.csr_array((X.shape[0], len(self.used) + extra), dtype=X.dtype)
        # the constructor would look at all places again, which takes as long as finding them
        narrow.data, narrow.indices, narrow.indptr = X.data, place.take(X.indices), X.indptr
        return narrow


class Narrowed(NamedTuple):
    """A start with the weights of the used columns, and how to make wide weights again.

    Attributes
    ----------
    columns : UsedColumns
    before : ndarray of shape (width,) or None
        Weights that the start was made of; None for zeros.
    rest : float
        Norm of the weights of the other columns, the weight of the empty column behind the used
        ones; so the penalty is that of all weights.
    """

    columns: UsedColumns
    before: NDArray[Any] | None = None
    rest: float = 0.0

    @classmethod
    def around(cls, columns: UsedColumns, coef: NDArray[Any]) -> Narrowed:
        """Narrow weights that plain steps with an L2 penalty continue from."""
        some = coef[columns.used].astype(np.float64)
        square = float(np.dot(coef, coef)) - float(some @ some)
        return cls(columns, coef, float(np.sqrt(max(0.0, square))))

    def start(self) -> NDArray[Any]:
        """Weights to begin with."""
        if self.before is None:
            return np.zeros(len(self.columns.used))
        return np.append(self.before[self.columns.used], self.rest).astype(self.before.dtype)

    def widen(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Weights of all columns."""
        if self.before is None:
            wide = np.zeros(self.columns.width, weights.dtype)
            wide[self.columns.used] = weights
            return wide
        factor = weights[-1] / self.rest if self.rest > 0.0 else 1.0
        wide = (self.before * factor).astype(weights.dtype, copy=False)
        wide[self.columns.used] = weights[:-1]
        return wide

    def widen_state(self, kept: dict[str, Any]) -> dict[str, Any]:
        """Return the state that is kept of a run, with the weights of all columns."""
        own = dict(kept["own"])
        if own["coef"] is not None:
            own["coef"] = self.widen(own["coef"])
        if own["received"] is not None:
            own["received"] = np.append(self.widen(own["received"][:-1]), own["received"][-1])
        coef = kept["coef"]
        return kept | {"coef": None if coef is None else self.widen(coef), "own": own}


def widen_all(narrowed: Sequence[Narrowed], coefs: list[NDArray[Any]]) -> NDArray[Any]:
    """Weights of all columns, one row per problem; untouched zeros cost nothing."""
    first = narrowed[0]
    if len(coefs) == 1:
        return first.widen(coefs[0])[np.newaxis]
    wide = np.zeros((len(coefs), first.columns.width), coefs[0].dtype)
    for row, one, coef in zip(wide, narrowed, coefs, strict=True):
        if one.before is None:
            row[one.columns.used] = coef
        else:
            row[:] = one.widen(coef)
    return wide


def _distinct(numbers: NDArray[Any]) -> NDArray[np.intp]:
    """Distinct numbers in ascending order; ``np.unique``, which hashes, takes ten times as long."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))].astype(np.intp)


def has_rare_columns(X: Any) -> bool:
    """Whether sparse columns have too few entries for meaningful means and spreads."""
    return bool(X.nnz < _FEW_ENTRIES * X.shape[1])


def is_ours(part: object) -> bool:
    """Whether a part is from this package, and thus known to ignore the number of columns."""
    return type(part).__module__.partition(".")[0] == "antithetic"
