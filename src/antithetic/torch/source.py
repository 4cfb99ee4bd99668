"""The data that groups are made from before anything was observed.

Also how groups and their probabilities come from vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import Matrix, check_column, check_count
from antithetic.pairing import AntitheticTable, GroupTable, pair, pair_rows
from antithetic.pairing.rows import Rows, group_squares, read_rows
from antithetic.torch.order import as_groups

PRIOR_SHARE = 0.3  # of equal probabilities in those of importance, as in antithetic.minimize


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Rows with labels, or vectors without, and what their gradients in a linear model need.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    labels : ndarray of shape (n,) or None
    task : {"classification", "regression"} or None
    weight : array-like of shape (n,) or None
    intercept : bool
    """

    X: Matrix
    labels: NDArray[Any] | None
    task: str | None
    weight: Any
    intercept: bool

    def _labelled(self) -> dict[str, Any]:
        """Arguments for labelled data."""
        return {
            "y": self.labels,
            "loss": "squared_error" if self.task == "regression" else "log_loss",
            "fit_intercept": self.intercept,
            "sample_weight": self.weight,
        }

    def rows(self) -> Rows:
        """Gradients at the start."""
        if self.labels is None:
            return Rows(self.X).tamed()
        return read_rows(self.X, coef=None, intercept=0.0, **self._labelled())[0]

    def make(self, size: int, method: Any, seed: int, progress: bool) -> GroupTable:
        """Make groups of so many rows."""
        if len(self) < 2:
            return GroupTable(np.arange(len(self)), 1)
        if self.labels is None:
            return pair_rows(self.X, method, nest=size, progress=progress, random_state=seed)
        labelled = self._labelled()
        return pair(
            self.X, method=method, **labelled, nest=size, progress=progress, random_state=seed
        )

    def take(self, table: AntitheticTable | GroupTable) -> GroupTable:
        """Groups of a table that was made before, which must be for these data."""
        if len(table) != len(self):
            raise ValueError(
                f"the table has {len(table)} rows and features has {len(self)}; make one for these"
                " data with antithetic.pair"
            )
        if self.labels is not None:
            table.fingerprint.check(self.X, self.labels)
        if isinstance(table, AntitheticTable) and not table.is_matching:
            if self.labels is None:
                raise ValueError(
                    "the table is not a matching (partners are not mutual); call its"
                    " to_matching(X, y) first"
                )
            given = self._labelled()
            table = AntitheticTable(table.partner).to_matching(self.X, given.pop("y"), **given)
        return as_groups(table)

    def __len__(self) -> int:
        return int(self.X.shape[0])


def check_given(table: Any) -> AntitheticTable | GroupTable:
    """Return a table, or say what would be one."""
    if isinstance(table, (AntitheticTable, GroupTable)):
        return table
    raise ValueError(
        "table must be an AntitheticTable or a GroupTable, as antithetic.pair makes them; got"
        f" {type(table).__name__}"
    )


def group_size(nest: Any, batch_size: int, n: int) -> int:
    """Rows of a group: as asked for, or the largest power of two that divides the batch.

    It is at least 2 if there are 2 rows.
    """
    most = 1 << (n.bit_length() - 1)
    if nest is True:
        return min(max(2, batch_size & -batch_size), most)
    if nest is False or nest is None:
        return min(2, most)
    size = check_count(nest, "nest", least=2)
    if size & (size - 1):
        raise ValueError(
            f"nest must be True, False or a power of two, the rows of a group; got {nest}"
        )
    return min(size, most)


def regroup(vectors: NDArray[np.float32], size: int, method: Any, seed: int) -> NDArray[np.intp]:
    """Return the order of groups made of vectors that were observed."""
    if size == 1:
        return np.arange(len(vectors))
    return pair_rows(vectors, method, nest=size, random_state=seed).order


def read_importance(importance: Any, n: int) -> bool | NDArray[np.float64]:
    """Return whether groups are drawn by their gradients, or the numbers by which they are."""
    if importance is None or isinstance(importance, bool):
        return bool(importance)
    if isinstance(importance, str):
        if importance != "gradients":
            raise ValueError(
                f'importance {importance!r} is not known; use True or "gradients", False, or a'
                " number for each row"
            )
        return True
    numbers = check_column(importance, n, "importance")
    if (numbers < 0.0).any() or not numbers.any():
        raise ValueError("importance must be numbers of at least 0 for the rows, not all 0")
    return numbers


def chances_of(
    rows: Rows | None, table: GroupTable, importance: bool | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Probabilities of the groups, by gradient norms or the means of given numbers.

    Equal shares are mixed in.
    """
    if isinstance(importance, np.ndarray):
        sizes = importance[table.groups].mean(axis=1)
    else:
        assert rows is not None
        sizes = np.sqrt(group_squares(rows, table.groups))
    total = sizes.sum()
    shares = (
        sizes / total
        if total > 0.0 and np.isfinite(total)
        else np.full(len(sizes), 1.0 / len(sizes))
    )
    mixed: NDArray[np.float64] = PRIOR_SHARE / len(sizes) + (1.0 - PRIOR_SHARE) * shares
    return mixed
