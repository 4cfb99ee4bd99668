"""`Pairer`: a pairing method with its settings, checked together, before any rows are read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix, check_count
from antithetic.pairing.greedy import greedy_table
from antithetic.pairing.optimal import OPTIMAL_MAX_ROWS, optimal_table
from antithetic.pairing.rows import Rows, pair_variance
from antithetic.pairing.table import check_permutation, check_table
from antithetic.pairing.tree import ONE_LEAF, tree_table

METHODS = ("auto", "greedy", "optimal", "tree", "random")
Method = str | Callable[[Matrix], Any]
Partners = NDArray[np.intp]
# Products of entries a second in Algorithm 1, and seconds of an assignment of 1000 rows, as seen on
# two cores: rough, so doubled in use.
_DENSE_RATE, _SPARSE_RATE, _ASSIGNMENT_SECONDS = 2.4e10, 1e9, 0.15
_TREE_SHARE = 1 / 3  # share of the budget for the tree


@dataclass(frozen=True, slots=True, eq=False)
class Pairer:
    """Finds partners for rows by one method.

    Attributes
    ----------
    method : {"auto", "greedy", "optimal", "tree", "random"} or callable
    init : AntitheticTable, array-like of shape (n,) or None
        A table to polish, for ``"tree"`` and ``"auto"``.
    budget : float or None
        Seconds, for ``"tree"`` and ``"auto"``.
    n_jobs : int or None
        Threads; None and -1 mean all cores.
    seed : int

    Examples
    --------
    >>> from antithetic.pairing.rows import Rows
    >>> import numpy as np
    >>> Pairer("greedy").find(Rows(np.array([[1.0], [2.0], [-3.0], [-1.0]]))).tolist()
    [2, 3, 1, 0]
    """

    method: Method = "auto"
    init: Any = None
    budget: float | None = None
    n_jobs: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse unknown methods, and settings that the method does not use."""
        method: Any = self.method  # as given, which may be of any type
        budget: Any = self.budget
        if not callable(method) and not (isinstance(method, str) and method in METHODS):
            raise ValueError(
                f"method {method!r} is not known; use one of {', '.join(METHODS)}, or a callable"
            )
        for name, value in (("init", self.init), ("budget", budget)):
            if value is not None and (callable(method) or method not in ("auto", "tree")):
                raise ValueError(
                    f'{name}= is supported only with method="tree" or "auto"; leave it at None'
                )
        if budget is not None and (isinstance(budget, str) or not budget > 0.0):
            raise ValueError(f"budget must be a number of seconds above 0; got {budget!r}")
        object.__setattr__(self, "seed", check_count(self.seed, "random_state", least=0))

    def find(self, rows: Rows, progress: Callable[[int], None] = lambda _: None) -> Partners:
        """Return the partner of each row, a permutation of shape (n,).

        Parameters
        ----------
        rows : Rows
        progress : callable, default does nothing
            Called with the number of rows, or rounds of the tree, that are done.
        """
        if callable(self.method):
            return _call(self.method, rows)
        if self.method == "random":
            return _random_table(len(rows), self.seed)
        rows = rows.compacted()
        if self.method == "optimal":
            return optimal_table(rows)
        if self.method == "greedy":
            return greedy_table(rows, self.n_jobs, progress)
        return tree_table(
            rows,
            init=self._first_table(len(rows)),
            budget=self.budget,
            n_jobs=self.n_jobs,
            seed=self.seed,
            progress=progress,
        )

    def name(self, n: int) -> str:
        """Name of the method that is used for n rows, once ``"auto"`` has chosen."""
        if callable(self.method):
            return _name_of(self.method)
        if self.method == "auto":
            return "optimal" if n <= ONE_LEAF else "tree"
        return self.method

    def note(self, n: int) -> str:
        """Why ``"auto"`` chose its method for n rows; empty for the other methods."""
        if self.method != "auto":
            return ""
        if n <= ONE_LEAF:
            return f"auto chose the best table, since {n} rows are few enough for it"
        return (
            f"auto chose the tree, since the best table of {n} rows would take too long (its time"
            " is cubic) and Algorithm 1's is quadratic"
        )

    def _first_table(self, n: int) -> Partners | None:
        """The table to polish, checked against the number of rows."""
        if self.init is None:
            return None
        partner = (
            check_permutation(self.init)
            if isinstance(self.init, (list, np.ndarray))
            else check_table(self.init).partner
        )
        if len(partner) != n:
            raise ValueError(f"init= has {len(partner)} rows and X has {n}")
        return partner


def _name_of(method: Callable[[Matrix], Any]) -> str:
    return getattr(method, "__name__", type(method).__name__)


def _call(method: Callable[[Matrix], Any], rows: Rows) -> Partners:
    """Ask the user's callable for the partners, and check them."""
    name = _name_of(method)
    if rows.codes is not None:
        raise ValueError(
            f"method={name} takes rows of two classes or of a regression; for more, give vectors of"
            " your own to pair_rows"
        )
    answer = method(rows.take(slice(None)))
    try:
        partner = check_permutation(answer)
    except ValueError as error:
        raise ValueError(f"method={name} did not return a table: {error}") from error
    if len(partner) != len(rows):
        raise ValueError(f"method={name} returned {len(partner)} partners for {len(rows)} rows")
    return partner


def _random_table(n: int, seed: int) -> Partners:
    order = np.random.default_rng(seed).permutation(n)
    partner = np.arange(n)
    pairs = order[: n // 2 * 2].reshape(-1, 2)
    partner[pairs] = pairs[:, ::-1]
    return partner


def best_within(
    rows: Rows, budget: float, n_jobs: int | None, seed: int, progress: Callable[[int], None]
) -> tuple[NDArray[np.intp], str, str]:
    """Return the best table found within some seconds, the name of its method, and a sentence why.

    The best table itself, if there is time for it. Otherwise the tree, or, if Algorithm 1 fits into
    the time left, the better of the tree's table and that of Algorithm 1 on centred rows, polished
    by the tree's rounds: the latter is better on rows with many directions of similar spread.
    """
    n, begun = len(rows), time.monotonic()
    if n <= ONE_LEAF or (n <= OPTIMAL_MAX_ROWS and 2.0 * assignment_seconds(n) <= budget):
        return (
            optimal_table(rows),
            "optimal",
            f"auto chose the best table, since {n} rows are few enough for {budget:g} s",
        )
    table = tree_table(
        rows, init=None, budget=_TREE_SHARE * budget, n_jobs=n_jobs, seed=seed, progress=progress
    )
    left = budget - (time.monotonic() - begun)
    if 2.0 * greedy_seconds(rows) > left:
        return (
            table,
            "tree",
            (
                f"auto chose the tree: Algorithm 1 on {n} rows of {entries(rows)} entries does not"
                f" fit into {budget:g} s"
            ),
        )
    greedy = greedy_table(_centred(rows), n_jobs, lambda _: None)
    left = max(1e-9, budget - (time.monotonic() - begun))
    greedy = tree_table(
        rows, init=greedy, budget=left, n_jobs=n_jobs, seed=seed, progress=lambda _: None
    )
    by_tree, by_greedy = pair_variance(rows, table), pair_variance(rows, greedy)
    if by_greedy < by_tree:
        return (
            greedy,
            "greedy",
            (
                f"auto chose Algorithm 1, centred and polished: variance {by_greedy:.4g} against"
                f" {by_tree:.4g} for the tree"
            ),
        )
    return (
        table,
        "tree",
        (
            f"auto chose the tree: variance {by_tree:.4g} against {by_greedy:.4g} for Algorithm 1,"
            " centred and polished"
        ),
    )


def assignment_seconds(n: int) -> float:
    """Rough time of the assignment problem of n rows."""
    return float(_ASSIGNMENT_SECONDS * (n / 1000.0) ** 2.5)


def greedy_seconds(rows: Rows) -> float:
    """Rough time of Algorithm 1."""
    products: float = float(len(rows)) ** 2 * entries(rows)
    return products / (_SPARSE_RATE if sparse.issparse(rows.X) else _DENSE_RATE)


def entries(rows: Rows) -> int:
    """Entries of a row: the stored ones, of sparse rows."""
    return max(1, int(rows.X.nnz // len(rows) if sparse.issparse(rows.X) else rows.X.shape[1]))


def _centred(rows: Rows) -> Rows:
    """Dense rows minus their mean, on which greedy choices are better.

    Sparse rows and those of several classes are returned unchanged.
    """
    if sparse.issparse(rows.X) or rows.codes is not None:
        return rows
    vectors = rows.take(slice(None))
    return Rows(vectors - vectors.mean(axis=0))
