"""Nested groups: pairs of pairs, whose sums cancel, up to an order of all rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_rows
from antithetic.pairing import store
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.rows import Rows, group_squares, mean_square, read_rows, sketch
from antithetic.pairing.table import check_permutation, cut_cycles
from antithetic.problem import ratio
from antithetic.problem.losses import Loss
from antithetic.problem.variance import centred_gradient, group_spread, group_variance, safe_unit

_FORMAT = "antithetic groups 2"
_SKETCH_AXES = 64


@dataclass(frozen=True, slots=True, eq=False)
class GroupTable:
    """An order of the rows in which every aligned block of 2, 4, ..., ``size`` nearly cancels.

    Parameters
    ----------
    order : array-like of shape (n,)
        Each row once: the groups one after the other, then the blocks that were left over at each
        level, the largest first.
    size : int
        Rows of a group, a power of two; with ``nest=True``, the largest that fits into n.
    fingerprint : Fingerprint, optional
        The data it was made for.
    method : str, default="given"
        How the pairs of each level were found.

    Examples
    --------
    >>> from antithetic import pair
    >>> groups = pair([[1.0], [2.0], [1.0], [2.0], [5.0]], [0, 0, 1, 1, 1], nest=4)
    >>> groups.groups.shape, groups.rest.shape
    ((1, 4), (1,))
    """

    order: NDArray[np.intp]
    size: int
    fingerprint: Fingerprint = field(default_factory=Fingerprint, repr=False)
    method: str = "given"

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", check_permutation(self.order))
        whole = isinstance(self.size, (int, np.integer)) and not isinstance(self.size, bool)
        if not whole or self.size < 1 or self.size & (self.size - 1) or self.size > len(self.order):
            raise ValueError(
                f"size must be a power of two, at most the number of rows; got {self.size} for"
                f" {len(self.order)} rows"
            )

    def __len__(self) -> int:
        return len(self.order)

    @property
    def groups(self) -> NDArray[np.intp]:
        """The rows of each group, shape (n // size, size)."""
        return self.order[: len(self) // self.size * self.size].reshape(-1, self.size)

    @property
    def rest(self) -> NDArray[np.intp]:
        """Rows that are in no group, fewer than ``size``."""
        return self.order[len(self) // self.size * self.size :]

    def variance_ratio(
        self,
        X: Any,
        y: Any,
        *,
        coef: Any = None,
        intercept: float = 0.0,
        loss: str | Loss = "log_loss",
        fit_intercept: bool = False,
        sample_weight: Any = None,
    ) -> float:
        """Exact variance of a group's mean gradient, relative to independent rows.

        It is compared with as many independent rows as the group has; below 1 is a gain.

        A group is drawn by drawing one of its rows; the rest counts as one group.

        The parameters are those of :meth:`AntitheticTable.variance_ratio`.
        """
        X = check_rows(X)
        if X.shape[0] != len(self):
            raise ValueError(
                f"the groups have {len(self)} rows and X has {X.shape[0]}; make them for these data"
                " with antithetic.pair"
            )
        self.fingerprint.check(X, y)
        rows, problem = read_rows(
            X,
            y,
            loss=loss,
            coef=coef,
            intercept=intercept,
            fit_intercept=fit_intercept,
            sample_weight=sample_weight,
        )
        if problem is None:
            return self._ratio_of_classes(rows)
        slopes = problem.slopes(coef, intercept)
        slopes = slopes * safe_unit(problem, slopes)
        centre = centred_gradient(problem, slopes)
        grouped = group_spread(problem, slopes, self.groups, centre) * self.groups.size / len(self)
        if len(self.rest):
            grouped += (
                group_spread(problem, slopes, self.rest[None, :], centre)
                * len(self.rest)
                / len(self)
            )
        return ratio(grouped, group_variance(problem, slopes) / self.size)

    def _ratio_of_classes(self, rows: Rows) -> float:
        square, centre = float(rows.products(np.arange(len(rows))).mean()), mean_square(rows)
        grouped = group_squares(rows, self.groups).sum() * self.size / len(self)
        if len(self.rest):
            grouped += group_squares(rows, self.rest[None, :]).sum() * len(self.rest) / len(self)
        return ratio(max(0.0, float(grouped) - centre), max(0.0, square - centre) / self.size)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the groups to one ``.npz`` file without pickle, with their fingerprint."""
        described = {"format": _FORMAT, "size": int(self.size), "method": self.method}
        store.write_table(path, "order", self.order, self.fingerprint, described)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GroupTable:
        """Read groups that :meth:`save` wrote. Nothing is unpickled.

        A damaged or foreign file raises ValueError.
        """
        with store.read_table(path, "order", _FORMAT) as (order, mark, meta):
            return cls(order, meta["size"], mark, str(meta["method"]))


def nested_order(
    rows: Rows,
    size: int,
    find_table: Callable[[Rows], NDArray[np.intp]],
    progress: Callable[[int], None],
) -> NDArray[np.intp]:
    """Pair the rows, then the sums of pairs, and so on up to groups of ``size``.

    What is left over at each level comes last.

    ``find_table`` makes a permutation of any rows; it is cut into a matching at each level.
    """
    groups, left = np.arange(len(rows))[:, None], np.empty(0, dtype=np.intp)
    level = 0
    while groups.shape[1] < size:
        mates = cut_cycles(find_table(rows), rows)
        first = np.flatnonzero(np.arange(len(mates)) < mates)
        single = np.flatnonzero(mates == np.arange(len(mates)))
        left = np.concatenate([groups[single].ravel(), left])
        pairs = np.column_stack([first, mates[first]])
        groups = groups[pairs].reshape(len(pairs), -1)
        level += 1
        progress(level)
        if groups.shape[1] < size:
            rows = _sums(rows, pairs)
    return np.concatenate([groups.ravel(), left])


def _sums(rows: Rows, pairs: NDArray[np.intp]) -> Rows:
    """Sums of pairs of rows.

    With classes, in a few principal coordinates of the tensor products, which are never formed.
    """
    if rows.codes is not None:
        points = sketch(rows, _SKETCH_AXES, seed=0)
        return Rows(points[pairs[:, 0]] + points[pairs[:, 1]])
    return Rows(rows.take(pairs[:, 0]) + rows.take(pairs[:, 1]))
