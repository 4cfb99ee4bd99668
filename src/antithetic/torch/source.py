"""What a sampler is given: data that the first groups are made of, tables, labels and arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import Matrix
from antithetic.pairing import AntitheticTable, GroupTable, pair
from antithetic.torch.data import Indices
from antithetic.torch.rounds import ARMS


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Rows with labels, whose gradients in a linear model at its start are known.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    labels : ndarray of shape (n,)
    task : {"classification", "regression"}
    """

    X: Matrix
    labels: NDArray[Any]
    task: str

    def make(self, size: int, seed: int, *, bias: bool, progress: bool) -> Indices:
        """Return the rows in groups of so many, those left over last."""
        if self.X.shape[0] < 2 or size < 2:
            return np.arange(self.X.shape[0])
        return pair(
            self.X,
            self.labels,
            loss="squared_error" if self.task == "regression" else "log_loss",
            fit_intercept=bias,
            nest=size,
            progress=progress,
            random_state=seed,
        ).order


def read_table(table: Any, X: Matrix | None, labels: Any, n: int | None) -> GroupTable:
    """Return the groups of a table that was made before, which must be for these data."""
    if not isinstance(table, (AntitheticTable, GroupTable)):
        raise ValueError(
            "table must be an AntitheticTable or a GroupTable, as antithetic.pair makes them; got"
            f" {type(table).__name__}"
        )
    if n is not None and len(table) != n:
        raise ValueError(
            f"the table has {len(table)} rows and the data have {n}; create one for these data with"
            " antithetic.pair"
        )
    if X is not None and labels is not None:
        table.fingerprint.check(X, labels)
    if isinstance(table, GroupTable):
        return table
    if not table.is_matching:
        raise ValueError(
            "the table is not a matching (partners are not mutual); call its to_matching(X, y)"
            " first"
        )
    order = table.pairs.ravel()
    order = order if table.single is None else np.append(order, table.single)
    return GroupTable(order, min(2, len(order)), table.fingerprint, table.method)


def group_size(batch_size: int) -> int:
    """Rows of a group: the largest power of two that divides the batch, or one row less."""
    even = batch_size - batch_size % 2
    return even & -even if even else 1


def shuffle_groups(rng: np.random.Generator, order: Indices, size: int) -> Indices:
    """Rows of a table with the groups in random order; those left over stay last."""
    whole = len(order) // size * size
    groups = order[:whole].reshape(-1, size)
    return np.concatenate([groups[rng.permutation(len(groups))].ravel(), order[whole:]])


def read_arms(arms: Any, classes: NDArray[Any] | None, batch_size: int) -> list[int]:
    """Return the arms that a user has chosen, by number."""
    known = ARMS[1:]
    given = [arms] if isinstance(arms, str) else list(arms)
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"arm {unknown[0]!r} is not known; use some of {', '.join(known)}")
    if "stratified" in given and classes is None:
        raise ValueError("stratified batches need labels that are classes")
    if "groups" in given and batch_size < 2:
        raise ValueError("groups need a batch_size of at least 2")
    return sorted(ARMS.index(name) for name in set(given))


def count_rows(X: Any, labels: Any, table: Any) -> int:
    """Number of rows."""
    if X is not None:
        return int(X.shape[0])
    given = table if labels is None else labels
    if not hasattr(given, "__len__") or not len(given):
        raise ValueError("labels must have one label per row; got none")
    return len(given)


def number_classes(labels: Any) -> NDArray[Any]:
    """Classes as numbers from 0, of the smallest type, which is the fastest to sort by."""
    names, classes = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise ValueError("labels contain only one class; at least two are needed")
    return classes.ravel().astype(np.min_scalar_type(len(names)))
