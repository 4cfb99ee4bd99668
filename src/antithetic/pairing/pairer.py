"""`Pairer`: a pairing method with its settings, checked together, before any rows are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import Matrix, check_count
from antithetic.pairing.greedy import greedy_table
from antithetic.pairing.methods import METHODS
from antithetic.pairing.optimal import optimal_table
from antithetic.pairing.rows import Rows
from antithetic.pairing.table import check_permutation, check_table
from antithetic.pairing.tree import ONE_LEAF, tree_table

Method = str | Callable[[Matrix], Any]
Partners = NDArray[np.intp]


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
