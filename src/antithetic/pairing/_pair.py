"""`pair` and `pair_rows`: from data to a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.progress import progress_bar
from antithetic._util.validation import Matrix, check_count, check_rows
from antithetic.pairing.budget import best_within
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.greedy import greedy_table
from antithetic.pairing.groups import GroupTable, nested_order
from antithetic.pairing.optimal import OPTIMAL_MAX_ROWS, optimal_table
from antithetic.pairing.rows import Rows, read_rows
from antithetic.pairing.shards import DEFAULT_SHARD_ROWS, Shards, is_chunks, shard_table
from antithetic.pairing.table import AntitheticTable, check_permutation, check_table
from antithetic.pairing.tree import ONE_LEAF, count_rounds, tree_table
from antithetic.problem import Problem
from antithetic.problem.losses import Loss

__all__ = ["METHODS", "OPTIMAL_MAX_ROWS", "Method", "pair", "pair_rows", "pair_slopes"]

METHODS = ("auto", "greedy", "optimal", "tree", "random")

Method = str | Callable[[Matrix], Any]
Partners = NDArray[np.intp]


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
    r"""Build the antithetic table of labelled data: each row's partner is one whose gradient opposes its own.

    The gradient of a margin loss is :math:`-c_i z_i` with the signed row :math:`z_i = y_i x_i` and
    some :math:`c_i \ge 0`, so one table made from the inner products of the :math:`z_i` serves a
    whole run. With K > 2 classes the rows are :math:`(e_{y_i} - 1/K) \otimes x_i`, the gradients of
    softmax regression at zero, which are never formed.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Rows; no copy is made of C-contiguous float32 and float64, or of CSR.
    y : array-like of shape (n,)
        Labels of two or more values for a classification loss, numbers for regression.
    method : {"auto", "greedy", "optimal", "tree", "random"} or callable, default="auto"
        - ``"greedy"``: Algorithm 1 of the paper. For i = 1..n the row that is still free (i itself
          included) with the smallest product; ties go to the lowest index. O(n^2 d) time.
        - ``"optimal"``: the least sum of products over all permutations, an assignment problem.
          O(n^3) time, at most 5000 rows.
        - ``"tree"``: nearly as good as the optimum (up to 1500 rows, the optimum) in O(n log n)
          time. See :mod:`antithetic.pairing.tree`.
        - ``"random"``: random pairs, the control group.
        - ``"auto"``: the optimum up to 1500 rows, else the tree. With a ``budget``, the best
          outcome of the methods that fit into it, by number of rows, features and sparsity. The
          table's ``method`` and ``note`` say which and why.
        - a callable ``rows -> partner``, given the signed rows, dense or CSR; it returns a
          permutation.
    coef : array-like of shape (d,), default=None
        Pair the gradients at these weights instead of the signed rows (for regression, None means
        the gradients at zero).
    intercept : float, default=0.0
        The intercept that belongs to ``coef``.
    loss : str or Loss, default="log_loss"
        Its name says whether y are classes or numbers.
    fit_intercept : bool, default=False
        Whether the model has an intercept: then rows have one more feature, 1.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows, which scale their gradients.
    init : AntitheticTable or array-like of shape (n,), default=None
        A table to polish instead of building a new one, for ``"tree"`` and ``"auto"``: a fraction
        of a build, for gradients that changed a little.
    nest : None, int or True, default=None
        Pair the sums of pairs again, into groups of this size, a power of two; True goes to the
        top, an order of all rows. Returns a GroupTable.
    budget : float, default=None
        Seconds that ``"tree"`` and ``"auto"`` may take, roughly: rounds go on until they are spent
        or gain nothing. The result then depends on the machine. Each shard, and each level of
        groups, may take as long. None means a fixed number of rounds.
    shard_rows : int, default=None
        Deal the rows at random into shards of at most so many, and pair within each: for data
        larger than memory. X may then be a memory map, or a list of chunks (with y as one column,
        or in as many parts); a list always is dealt so, 200000 rows to a shard unless given.
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
    find = _finder(method, init, budget, n_jobs, random_state)
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
        limit = check_count(
            DEFAULT_SHARD_ROWS if shard_rows is None else shard_rows, "shard_rows", least=2
        )
        with progress_bar("pairing rows", len(shards.target), progress) as update:
            partner = shard_table(shards, limit, random_state or 0, find, update)
        return AntitheticTable(
            partner,
            shards.fingerprint,
            _name(method, min(limit, len(partner))),
            note=f"paired within random shards of at most {limit} rows",
        )
    rows, problem = read_rows(
        X,
        y,
        loss=loss,
        coef=coef,
        intercept=intercept,
        fit_intercept=fit_intercept,
        sample_weight=sample_weight,
    )
    return _pair(
        rows,
        method,
        find,
        nest,
        progress,
        Fingerprint.of([check_rows(X) if problem is None else problem.X], y),
    )


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
    """Build a table from vectors of one's own, whose inner products should be small: gradients, or bounds on them.

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
    find = _finder(method, init, budget, n_jobs, random_state)
    return _pair(Rows(check_rows(G, "G")).tamed(), method, find, nest, progress, Fingerprint())


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
    find = _finder(method, init, None, None, random_state)
    return _pair(
        Rows.of_slopes(problem, slopes), method, find, nest, False, Fingerprint.of([problem.X], y)
    )


def _pair(
    rows: Rows,
    method: Method,
    find: partial[Partners],
    nest: int | bool | None,
    progress: bool,
    mark: Fingerprint,
) -> AntitheticTable | GroupTable:
    name = _name(method, len(rows))
    given = find.keywords
    if nest is None and method == "auto" and given["budget"] is not None and given["init"] is None:
        with progress_bar("pairing rows", count_rounds(len(rows)) + 1, progress) as update:
            partner, name, note = best_within(
                rows.compacted(), given["budget"], given["n_jobs"], given["seed"], update
            )
        return AntitheticTable(partner, mark, name, note=note)
    if nest is None:
        steps = 1 if given["init"] is not None else count_rounds(len(rows)) + 1
        total = steps if name == "tree" else len(rows)
        with progress_bar("pairing rows", total, progress) as update:
            return AntitheticTable(find(rows, update), mark, name, note=_note(method, len(rows)))
    if given["init"] is not None:
        raise ValueError(
            "init= polishes a table, and nest= builds groups from none; leave one of them at None"
        )
    size = _group_size(nest, len(rows))
    with progress_bar("pairing groups", max(1, size.bit_length() - 1), progress) as update:
        return GroupTable(nested_order(rows, size, find, update), size, mark, name)


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


def _name(method: Method, n: int) -> str:
    """Name of the method that is used, once ``"auto"`` has chosen."""
    if callable(method):
        return getattr(method, "__name__", type(method).__name__)
    if method == "auto":
        return "optimal" if n <= ONE_LEAF else "tree"
    return method


def _note(method: Method, n: int) -> str:
    if method != "auto":
        return ""
    if n <= ONE_LEAF:
        return f"auto chose the best table, since {n} rows are few"
    return (
        f"auto chose the tree, since the best table of {n} rows would take too long (its time is"
        " cubic) and Algorithm 1's is quadratic"
    )


def _finder(
    method: Method, init: Any, budget: Any, n_jobs: int | None, random_state: int | None
) -> partial[Partners]:
    """Return ``find(rows, progress)``, which makes a permutation by the method, after checking what goes with it."""
    if not callable(method) and not (isinstance(method, str) and method in METHODS):
        raise ValueError(
            f"method {method!r} is not known; use one of {', '.join(METHODS)}, or a callable"
        )
    for name, value in (("init", init), ("budget", budget)):
        if value is not None and (callable(method) or method not in ("auto", "tree")):
            raise ValueError(f'{name}= goes with method="tree" or "auto" only; leave it at None')
    if budget is not None and (isinstance(budget, str) or not budget > 0.0):
        raise ValueError(f"budget must be a number of seconds above 0; got {budget!r}")
    seed = 0 if random_state is None else check_count(random_state, "random_state", least=0)
    return partial(_find, method=method, init=init, budget=budget, n_jobs=n_jobs, seed=seed)


def _find(
    rows: Rows,
    progress: Callable[[int], None] = lambda _: None,
    *,
    method: Method,
    init: Any,
    budget: float | None,
    n_jobs: int | None,
    seed: int,
) -> Partners:
    if callable(method):
        return _call(method, rows)
    if method == "random":
        return _random_table(len(rows), seed)
    rows = rows.compacted()
    if method == "optimal":
        return optimal_table(rows)
    if method == "greedy":
        return greedy_table(rows, n_jobs, progress)
    if init is not None:
        init = (
            check_permutation(init)
            if isinstance(init, (list, np.ndarray))
            else check_table(init).partner
        )
        if len(init) != len(rows):
            raise ValueError(f"init= has {len(init)} rows and X has {len(rows)}")
    return tree_table(rows, init=init, budget=budget, n_jobs=n_jobs, seed=seed, progress=progress)


def _call(method: Callable[[Matrix], Any], rows: Rows) -> Partners:
    """Ask a callable of the user's for the partners, and check them."""
    name = getattr(method, "__name__", type(method).__name__)
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
