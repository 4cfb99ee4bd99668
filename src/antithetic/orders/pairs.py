"""How pairs or groups are made, nested and rebuilt: the ``pairs=`` of an order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from antithetic._util.settings import Settings
from antithetic._util.validation import check_count
from antithetic.pairing.groups import GroupTable
from antithetic.pairing.pairer import METHODS
from antithetic.pairing.table import AntitheticTable, matched, pair_ratio
from antithetic.problem import Problem

Table = AntitheticTable | GroupTable
Method = str | Callable[[Any], Any]
_WORTH_KEEPING = 0.7  # share of its first reduction of the variance that a table must still have
_IN_FOLDS = "in cross-validation pass it to fit(table=), where it is cut to each fold"


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Settings):
    """Which rows are used together, for the ``pairs=`` of an order.

    Parameters
    ----------
    method : str, callable, AntitheticTable or GroupTable, default="auto"
        ``"auto"``, ``"greedy"`` (the paper's Algorithm 1), ``"optimal"``, ``"tree"``,
        ``"random"``, or a function ``rows -> partner``, see :func:`antithetic.pair`; or a table
        that was made for the data.
    nest : int, True or None, default=None
        Groups of this many rows, a power of two, instead of pairs. True nests to the top, which
        orders a whole epoch: each one with ``Shuffle``, with fresh flips, and only the first with
        ``Balanced``.
    refresh : int, collection of int, "auto", "step" or None, default=None
        When to rebuild the table from the current gradients. A number k means every k epochs, a
        collection names the epochs. "auto" rebuilds it before the second epoch, and whenever it has
        lost 30 % of the variance reduction that it had when it was made. "step" is Algorithm 2 to
        the letter, a new table in each step, for at most 2000 rows: an oracle, not a practical
        method.

    Examples
    --------
    >>> from antithetic.orders import Pairs, Shuffle
    >>> Shuffle(pairs=Pairs("tree", nest=8, refresh=[1, 2, 4]))
    Shuffle(pairs=Pairs(method='tree', nest=8, refresh=(1, 2, 4)))
    >>> Shuffle(pairs="greedy") == Shuffle(pairs=Pairs("greedy"))
    True
    """

    method: Method | Table = "auto"
    nest: int | bool | None = None
    refresh: int | Collection[int] | str | None = None

    def __post_init__(self) -> None:
        check_method(self.method)
        object.__setattr__(self, "nest", check_nest(self.nest))
        object.__setattr__(self, "refresh", check_refresh(self.refresh))
        if isinstance(self.method, AntitheticTable) and self.nest is not None:
            raise ValueError(
                "nest= builds groups with a method, but a table of pairs was given; name a method"
                " instead of the table, or leave nest= out"
            )
        if isinstance(self.method, GroupTable):
            if self.nest not in (None, True, self.method.size):
                raise ValueError(
                    f"nest={self.nest} differs from the groups of {self.method.size} rows in the"
                    " table given; leave nest= out"
                )
            if self.nest is None:
                object.__setattr__(self, "nest", int(self.method.size))

    @classmethod
    def of(cls, given: Any) -> Pairs | None:
        """Return the pairs that a ``pairs=`` means: an object, a method, a table, or None."""
        return given if given is None or isinstance(given, Pairs) else cls(given)

    @property
    def given(self) -> Table | None:
        """The table that was given; None if one is made by a method."""
        return self.method if isinstance(self.method, (AntitheticTable, GroupTable)) else None

    @property
    def kind(self) -> str:
        """What is used together: "pairs", "groups", or a "nested order"."""
        if self.nest is None:
            return "pairs"
        return "nested order" if self.nest is True else "groups"

    @property
    def name(self) -> str:
        """Name of the method."""
        if isinstance(self.method, str):
            return self.method
        if isinstance(self.method, (AntitheticTable, GroupTable)):
            return self.method.method
        return str(getattr(self.method, "__name__", type(self.method).__name__))

    def check(self, problem: Problem, y: Any) -> None:
        """Raise ValueError for a table of other data."""
        if self.given is None:
            return
        if len(self.given) != problem.n:
            raise ValueError(
                f"pairs= holds a table of {len(self.given)} rows and X has {problem.n}; make one"
                f" for these data with antithetic.pair; {_IN_FOLDS}"
            )
        self.given.fingerprint.check(problem.X, y)

    def first_table(self, problem: Problem, y: Any, *, once: bool, seed: int) -> Table:
        """Return the given table, or make one from the signed rows; a matching if ``once``."""
        if self.given is not None:
            return _matched(self.given, problem, None, once)
        from antithetic.pairing._pair import pair

        found: Table = pair(
            problem.X,
            y,
            cast("Method", self.method),
            loss=problem.loss,
            fit_intercept=problem.fit_intercept,
            sample_weight=problem.weight,
            nest=self.nest,
            random_state=seed,
        )
        return _matched(found, problem, None, once)

    def table_at(
        self,
        problem: Problem,
        y: Any,
        slopes: NDArray[np.float64],
        *,
        once: bool,
        seed: int,
        polish: AntitheticTable | None = None,
    ) -> Table:
        """Make a table from the gradients of these slopes.

        A method that can do so begins with the table ``polish``.
        """
        from antithetic.pairing._pair import pair_slopes

        method = self.method
        if isinstance(method, (AntitheticTable, GroupTable)):
            method = method.method if method.method in METHODS else "auto"
        init = polish if self.nest is None and method in ("auto", "tree") else None
        found = pair_slopes(
            problem, y, slopes, method, init=init, nest=self.nest, random_state=seed
        )
        return _matched(found, problem, slopes, once)

    def is_due(self, epochs: int, reduction: Callable[[], float], worth: float) -> bool:
        """Whether the table is to be rebuilt after this many epochs.

        ``reduction()`` is by how much the table lowers the variance now, ``worth`` by how much it
        did when it was made.
        """
        if self.refresh is None or self.refresh == "step" or epochs == 0:
            return False
        if self.refresh == "auto":
            return epochs == 1 or (worth > 0.0 and reduction() < _WORTH_KEEPING * worth)
        if isinstance(self.refresh, int):
            return epochs % self.refresh == 0
        return epochs in self.refresh


def _matched(
    table: Table, problem: Problem, slopes: NDArray[np.float64] | None, once: bool
) -> Table:
    if once and isinstance(table, AntitheticTable):
        return matched(table, problem, slopes)
    return table


def reduction_of(table: Table, problem: Problem, slopes: NDArray[np.float64]) -> float:
    """By how much the pairs of a table lower the variance of gradients with these slopes."""
    partner = table.partner if isinstance(table, AntitheticTable) else _neighbours(table)
    return 1.0 - pair_ratio(problem, slopes, partner)


def _neighbours(groups: GroupTable) -> NDArray[np.intp]:
    """Partners of the lowest level: rows that follow each other."""
    rows = groups.order[: len(groups) // 2 * 2].reshape(-1, 2)
    partner = np.arange(len(groups))
    partner[rows] = rows[:, ::-1]
    return partner


def check_method(method: Any) -> None:
    """Raise ValueError for anything that is neither a table nor a way to make one."""
    if callable(method) or isinstance(method, (AntitheticTable, GroupTable)):
        return
    if not isinstance(method, str):
        raise ValueError(
            f"pairs= must be a Pairs, the name of a method ({', '.join(METHODS)}), a function rows"
            " -> partner, an AntitheticTable (AntitheticTable(partner) makes one from an array) or"
            f" a GroupTable; got {type(method).__name__}"
        )
    if method not in METHODS:
        raise ValueError(
            f"method {method!r} is not known; use one of {', '.join(METHODS)}, a function rows ->"
            " partner, or a table"
        )


def check_nest(nest: Any) -> int | bool | None:
    """Return a power of two, True or None."""
    if nest is None or nest is False:
        return None
    if nest is True:
        return True
    if check_count(nest, "nest", least=2) & (nest - 1):
        raise ValueError(
            f"nest must be a power of two, True (nest to the top) or None; got {nest!r}"
        )
    return int(nest)


def check_refresh(refresh: Any) -> int | tuple[int, ...] | str | None:
    """Return every how many epochs, which epochs, or a word."""
    if refresh is None or (isinstance(refresh, str) and refresh in ("auto", "step")):
        return refresh
    if isinstance(refresh, str):
        raise ValueError(
            f'refresh {refresh!r} is not known; use "auto", "step", a number of epochs, a list'
            " of epochs, or None"
        )
    if isinstance(refresh, (set, frozenset)) or np.ndim(refresh) == 1:
        return tuple(sorted({check_count(epoch, "refresh", least=0) for epoch in refresh}))
    return check_count(refresh, "refresh", least=1)
