"""`pair` and `pair_rows`: from data to a table."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from antithetic._util.progress import progress_bar
from antithetic._util.validation import check_count, check_rows
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.groups import GroupTable, nested_order
from antithetic.pairing.optimal import OPTIMAL_MAX_ROWS
from antithetic.pairing.pairer import Method, Pairer, best_within
from antithetic.pairing.rows import Rows, read_rows
from antithetic.pairing.shards import DEFAULT_SHARD_ROWS, Shards, is_chunks, shard_table
from antithetic.pairing.table import AntitheticTable
from antithetic.pairing.tree import count_rounds
from antithetic.problem import Problem
from antithetic.problem.losses import Loss

__all__ = [
    "OPTIMAL_MAX_ROWS",
    "Method",
    "make_table",
    "pair",
    "pair_rows",
    "pair_slopes",
]


@overload
def pair(
    X: Any,
    y: Any,
    method: Method = "auto",
    *,
    coef: Any = None,
    intercept: float = 0.0,
    loss: str | Loss = "log_loss",
    fit_intercept: bool = False,
    sample_weight: Any = None,
    init: Any = None,
    nest: None = None,
    budget: float | None = None,
    shard_rows: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> AntitheticTable: ...


@overload
def pair(
    X: Any,
    y: Any,
    method: Method = "auto",
    *,
    coef: Any = None,
    intercept: float = 0.0,
    loss: str | Loss = "log_loss",
    fit_intercept: bool = False,
    sample_weight: Any = None,
    init: Any = None,
    nest: int | bool,
    budget: float | None = None,
    shard_rows: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> GroupTable: ...


def pair(
    X: Any,
    y: Any,
    method: Method = "auto",
    *,
    coef: Any = None,
    intercept: float = 0.0,
    loss: str | Loss = "log_loss",
    fit_intercept: bool = False,
    sample_weight: Any = None,
    init: Any = None,
    nest: int | bool | None = None,
    budget: float | None = None,
    shard_rows: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> AntitheticTable | GroupTable:
    r"""Build the antithetic table of labelled data: partners have opposing gradients.

    The gradient of a margin loss is :math:`-c_i z_i` with the signed row :math:`z_i = y_i x_i` and
    some :math:`c_i \ge 0`, so one table made from the inner products of the :math:`z_i` can be
    used for a whole run. With K > 2 classes the rows are :math:`(e_{y_i} - 1/K) \otimes x_i`, the
    gradients of softmax regression at zero, which are never formed.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Rows; no copy is made of C-contiguous float32 and float64, or of CSR.
    y : array-like of shape (n,)
        Labels of two or more values for a classification loss, numbers for regression.
    method : {"auto", "greedy", "optimal", "tree", "random"} or callable, default="auto"
        - ``"greedy"``: Algorithm 1 of the paper. Row i = 1..n in turn takes the free row (possibly
          itself) with the smallest product; ties go to the lowest index. O(n^2 d) time.
        - ``"optimal"``: the smallest sum of products over all permutations, an assignment problem.
          O(n^3) time, at most 5000 rows.
        - ``"tree"``: nearly as good as the optimum (up to 1500 rows, the optimum) in O(n log n)
          time. See :mod:`antithetic.pairing.tree`.
        - ``"random"``: random pairs, the control group.
        - ``"auto"``: the optimum up to 1500 rows, otherwise the tree. With a ``budget``, the best
          table of the methods that fit into it, judged by the number of rows, features and stored
          entries. The table's ``method`` and ``note`` say which and why.
        - a callable ``rows -> partner``, given the signed rows, dense or CSR; it returns a
          permutation.
    coef : array-like of shape (d,), default=None
        Pair the gradients at these weights instead of the signed rows (for regression, None means
        the gradients at zero).
    intercept : float, default=0.0
        The intercept that belongs to ``coef``.
    loss : str or Loss, default="log_loss"
        Determines whether y holds classes or numbers.
    fit_intercept : bool, default=False
        Whether the model has an intercept: then rows have one more feature, 1.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows, which scale their gradients.
    init : AntitheticTable or array-like of shape (n,), default=None
        A table to polish instead of building a new one, for ``"tree"`` and ``"auto"``. It takes a
        fraction of the time of a build, and suits gradients that changed a little.
    nest : None, int or True, default=None
        Pair the sums of pairs again, into groups of this size, a power of two; True goes to the
        top, an order of all rows. Returns a GroupTable.
    budget : float, default=None
        Seconds that ``"tree"`` and ``"auto"`` may take, roughly: rounds continue until they are
        used up or nothing is gained. The result then depends on the machine. Each shard, and each
        level of groups, has this budget. None means a fixed number of rounds.
    shard_rows : int, default=None
        Divide the rows at random into shards of at most this many, and pair within each: for data
        larger than memory. X may then be a memory map, or a list of chunks (with y as one column,
        or in as many parts); a list is always divided into shards, of 200000 rows by default.
    n_jobs : int or None, default=None
        Threads; None and -1 mean all cores. The result does not depend on it.
    progress : bool, default=False
        Show a progress bar on the error stream.
    random_state : int or None, default=None
        Seed of ``"random"``, ``"tree"`` and of the shards; None means 0.

    Returns
    -------
    AntitheticTable, or GroupTable with ``nest``

    Examples
    --------
    >>> from antithetic import pair
    >>> table = pair([[1.0, 0.0], [0.9, 0.1], [0.2, 1.0]], ["a", "b", "a"], method="greedy")
    >>> table.partner.tolist()
    [1, 0, 2]
    """
    pairer = Pairer(method, init, budget, n_jobs, 0 if random_state is None else random_state)
    if is_chunks(X) or shard_rows is not None:
        if nest is not None or init is not None:
            raise ValueError(
                "nest= and init= need all rows at once; leave them at None for chunks and shards"
            )
        shards = Shards.read(
            X,
            y,
            loss=loss,
            coef=coef,
            intercept=intercept,
            fit_intercept=bool(fit_intercept),
            sample_weight=sample_weight,
        )
        return _pair_shards(shards, pairer, shard_rows, progress)
    rows, problem = read_rows(
        X,
        y,
        loss=loss,
        coef=coef,
        intercept=intercept,
        fit_intercept=fit_intercept,
        sample_weight=sample_weight,
    )
    mark = Fingerprint.of([check_rows(X) if problem is None else problem.X], y)
    return make_table(rows, pairer, nest, progress, mark)


@overload
def pair_rows(
    G: Any,
    method: Method = "auto",
    *,
    init: Any = None,
    nest: None = None,
    budget: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> AntitheticTable: ...


@overload
def pair_rows(
    G: Any,
    method: Method = "auto",
    *,
    init: Any = None,
    nest: int | bool,
    budget: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> GroupTable: ...


def pair_rows(
    G: Any,
    method: Method = "auto",
    *,
    init: Any = None,
    nest: int | bool | None = None,
    budget: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> AntitheticTable | GroupTable:
    """Build a table from your own vectors, whose inner products should be small.

    They may be gradients, or bounds on them.

    Parameters
    ----------
    G : {array-like, sparse matrix} of shape (n, d)
        One vector per row.
    method, init, nest, budget, n_jobs, progress, random_state
        As in :func:`pair`.

    Returns
    -------
    AntitheticTable, or GroupTable with ``nest``
        Its fingerprint is the number of rows only.

    Examples
    --------
    >>> from antithetic import pair_rows
    >>> pair_rows([[1.0], [2.0], [-3.0], [-1.0]], method="optimal").partner.tolist()
    [3, 2, 1, 0]
    """
    pairer = Pairer(method, init, budget, n_jobs, 0 if random_state is None else random_state)
    return make_table(Rows(check_rows(G, "G")).tamed(), pairer, nest, progress, Fingerprint())


def pair_slopes(
    problem: Problem,
    y: Any,
    slopes: NDArray[np.float64],
    method: Method,
    *,
    init: Any,
    nest: int | bool | None,
    random_state: int,
) -> AntitheticTable | GroupTable:
    """Build a table from the gradients of a problem's rows at some slopes.

    Its fingerprint is that of the problem's rows and of y.
    """
    pairer = Pairer(method, init, seed=random_state)
    mark = Fingerprint.of([problem.X], y)
    return make_table(Rows.of_slopes(problem, slopes), pairer, nest, False, mark)


@overload
def make_table(
    rows: Rows, pairer: Pairer, nest: None, progress: bool, mark: Fingerprint
) -> AntitheticTable: ...


@overload
def make_table(
    rows: Rows, pairer: Pairer, nest: int | bool, progress: bool, mark: Fingerprint
) -> GroupTable: ...


def make_table(
    rows: Rows, pairer: Pairer, nest: int | bool | None, progress: bool, mark: Fingerprint
) -> AntitheticTable | GroupTable:
    """Build a table of rows, or groups with ``nest``, that carries the fingerprint ``mark``."""
    n = len(rows)
    if nest is None:
        return _make_pairs(rows, pairer, progress, mark)
    if pairer.init is not None:
        raise ValueError(
            "init= polishes a table, but nest= builds its own groups; leave one of them at None"
        )
    size = _group_size(nest, n)
    with progress_bar("pairing groups", max(1, size.bit_length() - 1), progress) as update:
        order = nested_order(rows, size, pairer.find, update)
    return GroupTable(order, size, mark, pairer.name(n))


def _make_pairs(rows: Rows, pairer: Pairer, progress: bool, mark: Fingerprint) -> AntitheticTable:
    n = len(rows)
    rounds = count_rounds(n) + 1
    if pairer.method == "auto" and pairer.budget is not None and pairer.init is None:
        with progress_bar("pairing rows", rounds, progress) as update:
            partner, name, note = best_within(
                rows.compacted(), pairer.budget, pairer.n_jobs, pairer.seed, update
            )
        return AntitheticTable(partner, mark, name, note=note)
    name = pairer.name(n)
    total = n if name != "tree" else rounds if pairer.init is None else 1
    with progress_bar("pairing rows", total, progress) as update:
        return AntitheticTable(pairer.find(rows, update), mark, name, note=pairer.note(n))


def _pair_shards(
    shards: Shards, pairer: Pairer, shard_rows: int | None, progress: bool
) -> AntitheticTable:
    limit = check_count(
        DEFAULT_SHARD_ROWS if shard_rows is None else shard_rows, "shard_rows", least=2
    )
    with progress_bar("pairing rows", len(shards.target), progress) as update:
        partner = shard_table(shards, limit, pairer.seed, pairer.find, update)
    return AntitheticTable(
        partner,
        shards.fingerprint,
        pairer.name(min(limit, len(partner))),
        note=f"paired within random shards of at most {limit} rows",
    )


def _group_size(nest: int | bool, n: int) -> int:
    if nest is True:
        return 1 << (n.bit_length() - 1)
    size = check_count(nest, "nest", least=2)
    if size & (size - 1) or size > n:
        raise ValueError(
            f"nest must be True or a power of two, at most the number of rows; got {nest} for {n}"
            " rows"
        )
    return size
