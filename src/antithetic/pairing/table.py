"""The antithetic table: which row is used together with which."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._util.validation import check_rows
from antithetic.pairing import store
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.greedy import greedy_pairs
from antithetic.pairing.rows import Rows, read_rows, rows_ratio
from antithetic.problem import Problem, ratio
from antithetic.problem.losses import Loss
from antithetic.problem.variance import group_variance, safe_unit

if TYPE_CHECKING:
    from antithetic.pairing.quality import Quality

_FORMAT = "antithetic table 2"


@dataclass(frozen=True, slots=True)
class MatchingLoss:
    """The cost of cutting a table into a matching: the exact variance ratio before and after."""

    before: float
    after: float


@dataclass(frozen=True, slots=True, eq=False)
class AntitheticTable:
    r"""A permutation ``partner`` of the rows: row ``i`` is used with row ``partner[i]``.

    Being a permutation is what keeps the pair gradient :math:`(g_i + g_{S(i)})/2` unbiased, so it
    is checked here, once.

    Parameters
    ----------
    partner : array-like of shape (n,)
        The permutation S.
    fingerprint : Fingerprint, optional
        The data it was made for; checked whenever the table is used. Without one, only the number
        of rows is checked.
    method : str, default="given"
        How it was made.
    note : str
        Why, where the method was chosen automatically.
    derived : bool, default=False
        Whether it is a subset of another table, of which only the labels are checked.
    matching_loss : MatchingLoss or None
        What :meth:`to_matching` cost.

    Examples
    --------
    >>> from antithetic import AntitheticTable
    >>> table = AntitheticTable([1, 0, 2])
    >>> table.is_matching, table.pairs.tolist(), table.single
    (True, [[0, 1]], 2)
    >>> table[[0, 2]].partner.tolist()
    [1, 0]
    """

    partner: NDArray[np.intp]
    fingerprint: Fingerprint = field(default_factory=Fingerprint, repr=False)
    method: str = "given"
    derived: bool = False
    matching_loss: MatchingLoss | None = None
    note: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partner", check_permutation(self.partner))

    def __len__(self) -> int:
        return len(self.partner)

    @property
    def shape(self) -> tuple[int]:
        """``(n,)``: scikit-learn slices objects that have a shape."""
        return (len(self),)

    @property
    def is_matching(self) -> bool:
        """Whether partners are mutual and at most one row, of an odd number, has none."""
        rows = np.arange(len(self))
        mutual = np.array_equal(self.partner[self.partner], rows)
        return bool(mutual and np.count_nonzero(self.partner == rows) == len(self) % 2)

    @property
    def pairs(self) -> NDArray[np.intp]:
        """The pairs of a matching, shape (n // 2, 2), each once, the smaller row first."""
        self._require_matching()
        first = np.flatnonzero(np.arange(len(self)) < self.partner)
        return np.column_stack([first, self.partner[first]])

    @property
    def single(self) -> int | None:
        """The row of a matching that has no partner, or None for an even number of rows."""
        self._require_matching()
        return int(np.argmax(self.partner == np.arange(len(self)))) if len(self) % 2 else None

    def _require_matching(self) -> None:
        if not self.is_matching:
            raise ValueError(
                "this table is not a matching (partners are not mutual); call to_matching(X, y)"
                " first"
            )

    def __getitem__(self, key: Any) -> AntitheticTable:
        """Restrict the table to some rows, renumbered: ``table[rows]`` or ``table[rows, ...]``.

        Rows whose partner is not among them are linked to the next row of their cycle that is, or
        to each other.
        """
        if isinstance(key, tuple):
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError(f"a table takes table[rows] or table[rows, ...]; got {key!r}")
            key = key[0]
        rows = np.atleast_1d(np.arange(len(self))[key])
        if len(rows) != len(np.unique(rows)):
            raise ValueError("a table cannot be restricted to repeated rows; give each row once")
        if not len(rows):
            raise ValueError("a table cannot be restricted to an empty list of rows")
        return AntitheticTable(
            restrict(self.partner, rows),
            self.fingerprint.take(rows),
            self.method,
            derived=True,
        )

    def check(self, X: Any, y: Any) -> None:
        """Raise ValueError unless the table was made for these data.

        For a derived table, rows and labels must agree.
        """
        X = check_rows(X)
        if X.shape[0] != len(self):
            raise ValueError(
                f"the table has {len(self)} rows and X has {X.shape[0]}; make one for these data"
                " with antithetic.pair"
            )
        self.fingerprint.check(X, y)

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
        """Exact variance of the gradient of a pair, divided by that of two independent rows.

        Below 1 is a gain.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
        y : array-like of shape (n,)
        coef : array-like of shape (d,), default=None
            Where the gradients are taken; None means at zero.
        intercept : float, default=0.0
            The intercept there.
        loss : str or Loss, default="log_loss"
        fit_intercept : bool, default=False
            Whether gradients have a component for the intercept.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        float
            1.0 where both variances are zero.
        """
        rows, problem = self._read(X, y, coef, intercept, loss, fit_intercept, sample_weight)
        if problem is None:
            return rows_ratio(rows, self.partner)
        return pair_ratio(problem, problem.slopes(coef, intercept), self.partner)

    def to_matching(
        self,
        X: Any,
        y: Any,
        *,
        coef: Any = None,
        intercept: float = 0.0,
        loss: str | Loss = "log_loss",
        fit_intercept: bool = False,
        sample_weight: Any = None,
    ) -> AntitheticTable:
        """Cut the cycles of the permutation into pairs, so that an epoch can visit each row once.

        Of each cycle, the alternate links with the smallest sum of products are kept; rows left
        over by odd cycles are paired with each other. The cost is recorded in ``matching_loss``.
        A matching is returned unchanged.

        The parameters are those of :meth:`variance_ratio`.
        """
        rows, problem = self._read(X, y, coef, intercept, loss, fit_intercept, sample_weight)
        if problem is not None:
            at_zero = coef is None and intercept == 0.0
            return matched(self, problem, None if at_zero else problem.slopes(coef, intercept))
        if self.is_matching:
            return self
        mates = cut_cycles(self.partner, rows)
        return replace(
            self,
            partner=mates,
            matching_loss=MatchingLoss(rows_ratio(rows, self.partner), rows_ratio(rows, mates)),
        )

    def quality(
        self,
        X: Any,
        y: Any,
        *,
        coef: Any = None,
        intercept: float = 0.0,
        loss: str | Loss = "log_loss",
        fit_intercept: bool = False,
        sample_weight: Any = None,
        random_state: int = 0,
    ) -> Quality:
        """Say how good the table is, and how much better any other could be.

        The parameters are those of :meth:`variance_ratio`; ``random_state`` chooses the subset that
        is solved exactly for large n.

        Returns
        -------
        Quality
        """
        from antithetic.pairing.quality import measure_quality

        rows, problem = self._read(X, y, coef, intercept, loss, fit_intercept, sample_weight)
        found = self.variance_ratio(
            X,
            y,
            coef=coef,
            intercept=intercept,
            loss=loss,
            fit_intercept=fit_intercept,
            sample_weight=sample_weight,
        )
        labels = None if problem is not None and problem.classes is None else np.asarray(y).ravel()
        return measure_quality(rows, self.partner, found, labels, random_state)

    def _read(
        self,
        X: Any,
        y: Any,
        coef: Any,
        intercept: float,
        loss: str | Loss,
        fit_intercept: bool,
        sample_weight: Any,
    ) -> tuple[Rows, Problem | None]:
        """Rows and problem of the data, once they are known to be those of the table."""
        rows, problem = read_rows(
            X,
            y,
            loss=loss,
            coef=coef,
            intercept=intercept,
            fit_intercept=fit_intercept,
            sample_weight=sample_weight,
        )
        self.check(X, y)
        return rows, problem

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to one ``.npz`` file without pickle, with its fingerprint.

        The file appears only when it is complete.
        """
        loss = self.matching_loss
        described = {
            "format": _FORMAT,
            "method": self.method,
            "derived": self.derived,
            "note": self.note,
            "matching_loss": None if loss is None else [loss.before, loss.after],
        }
        store.write_table(path, "partner", self.partner, self.fingerprint, described)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AntitheticTable:
        """Read a table that :meth:`save` wrote. Nothing is unpickled.

        A damaged or foreign file raises ValueError.
        """
        with store.read_table(path, "partner", _FORMAT) as (partner, mark, meta):
            loss = (
                None
                if meta["matching_loss"] is None
                else MatchingLoss(*map(float, meta["matching_loss"]))
            )
            return cls(
                partner, mark, str(meta["method"]), bool(meta["derived"]), loss, str(meta["note"])
            )


def check_table(table: Any) -> AntitheticTable:
    """Return a table, or raise an error that says how to make one."""
    if not isinstance(table, AntitheticTable):
        raise ValueError(
            "a table must be an AntitheticTable (AntitheticTable(partner) makes one from an array);"
            f" got {type(table).__name__}"
        )
    return table


def check_permutation(partner: Any) -> NDArray[np.intp]:
    """Return a read-only copy of a permutation of 0..n-1, n at least 1, or raise ValueError."""
    given = np.asarray(partner)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu":
        raise ValueError(
            f"partner must be a one-dimensional array of whole numbers, not empty; got shape"
            f" {given.shape} of {given.dtype}"
        )
    n = len(given)
    table = given.astype(np.intp)
    inside = (table >= 0) & (table < n)
    if not inside.all():
        row = int(np.argmin(inside))
        raise ValueError(f"partner must be a permutation of 0..{n - 1}; row {row} has {given[row]}")
    counts = np.bincount(table, minlength=n)
    if (counts != 1).any():
        raise ValueError(
            f"partner must be a permutation of 0..{n - 1}; {int(np.argmax(counts != 1))} appears"
            f" {counts[counts != 1][0]} times"
        )
    table.flags.writeable = False
    return table


def pair_ratio(problem: Problem, slopes: NDArray[np.float64], partner: NDArray[np.intp]) -> float:
    """Variance of a pair's gradient divided by that of two independent rows; 0 / 0 is 1."""
    slopes = slopes * safe_unit(problem, slopes)  # a ratio of squares: neither may overflow
    alone = group_variance(problem, slopes) / 2.0
    paired = group_variance(problem, slopes, np.column_stack([np.arange(problem.n), partner]))
    return ratio(paired, alone)


def matched(
    table: AntitheticTable, problem: Problem, slopes: NDArray[np.float64] | None = None
) -> AntitheticTable:
    """Cut a table into a matching by the gradients of a problem, and record the loss.

    Gradients are taken at some slopes; None takes the signed rows.
    """
    if table.is_matching:
        return table
    rows = Rows.of_problem(problem) if slopes is None else Rows.of_slopes(problem, slopes)
    mates = cut_cycles(table.partner, rows)
    slopes = problem.slopes() if slopes is None else slopes
    loss = MatchingLoss(
        *(pair_ratio(problem, slopes, partner) for partner in (table.partner, mates))
    )
    return replace(table, partner=mates, matching_loss=loss)


def cut_cycles(partner: NDArray[np.intp], rows: Rows) -> NDArray[np.intp]:
    """Turn a permutation into a matching.

    Of each cycle, the alternate links with the smallest sum of products are kept.

    A cycle of odd length drops the row whose absence costs least; these rows are paired with each
    other, each in turn with the free one that opposes it most. Time O(n d) apart from that last
    step.
    """
    mates = kernels.alternate_links(partner, rows.products(partner))
    single = np.flatnonzero(mates < 0)
    if len(single) % 2:
        mates[single[-1]] = single[-1]
        single = single[:-1]
    pairs = single[greedy_pairs(rows.subset(single))]
    mates[pairs] = pairs[:, ::-1]
    return mates


def restrict(partner: NDArray[np.intp], kept: NDArray[np.intp]) -> NDArray[np.intp]:
    """Restrict a permutation to the rows ``kept``, numbered by their place there.

    A row whose partner was removed is linked to the next row of its cycle that was kept. Rows that
    would be linked to themselves are paired with one another; the odd one joins a row that was
    single before, if there is one.
    """
    kept = np.ascontiguousarray(kept)
    place = np.full(len(partner), -1, dtype=np.intp)
    place[kept] = np.arange(len(kept))
    repaired = kernels.skip_missing(partner, kept, place)
    alone = np.flatnonzero(repaired == np.arange(len(kept)))
    was_alone = partner[kept[alone]] == kept[alone]
    orphans = alone[~was_alone]
    if len(orphans) % 2:
        orphans = np.concatenate([orphans, alone[was_alone][:1]])
    pairs = orphans[: len(orphans) // 2 * 2].reshape(-1, 2)
    repaired[pairs] = pairs[:, ::-1]
    return repaired
