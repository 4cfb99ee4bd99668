"""`pair` and `pair_rows`: from data to a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from antithetic._progress import progress_bar
from antithetic._validate import Matrix, check_rows
from antithetic.losses import Loss
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.greedy import greedy_table
from antithetic.pairing.rows import Rows
from antithetic.pairing.table import AntitheticTable
from antithetic.problem import Problem

OPTIMAL_MAX_ROWS = 5000  # 200 MB of float64 products, some 10 s
METHODS = ("greedy", "optimal", "random", "auto")

Method = str | Callable[[Matrix], Any]


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
    nest: Any = None,
    budget: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> AntitheticTable:
    r"""Build the antithetic table of labelled data: each row's partner is one whose gradient opposes its own.

    The gradient of a margin loss is :math:`-c_i z_i` with the signed row :math:`z_i = y_i x_i` and some :math:`c_i \ge 0`, so one table
    made from the inner products of the :math:`z_i` serves a whole run.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Rows; no copy is made of C-contiguous float32 and float64, or of CSR.
    y : array-like of shape (n,)
        Labels of any two values for a classification loss, numbers for regression.
    method : {"auto", "greedy", "optimal", "random"} or callable, default="auto"
        - ``"greedy"``: Algorithm 1 of the paper. For i = 1..n the row that is still free (i itself included) with the smallest product;
          ties go to the lowest index. O(n^2 d) time.
        - ``"optimal"``: the least sum of products over all permutations, an assignment problem. O(n^3) time, at most 5000 rows.
        - ``"random"``: random pairs, the control group.
        - ``"auto"``: greedy.
        - a callable ``rows -> partner``, given the signed rows, dense or CSR; it returns a permutation.
    coef : array-like of shape (d,), default=None
        Pair the gradients at these weights instead of the signed rows (for regression, None means the gradients at zero).
    intercept : float, default=0.0
        The intercept that belongs to ``coef``.
    loss : str or Loss, default="log_loss"
        Its name says whether y are classes or numbers.
    fit_intercept : bool, default=False
        Whether the model has an intercept: then rows have one more feature, 1.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows, which scale their gradients.
    init, nest, budget : None
        Not available yet.
    n_jobs : int or None, default=None
        Threads; None and -1 mean all cores. The result does not depend on it.
    progress : bool, default=False
        Show a progress bar on the error stream.
    random_state : int or None, default=None
        Seed of ``"random"``.

    Returns
    -------
    AntitheticTable

    Examples
    --------
    >>> from antithetic import pair
    >>> table = pair([[1.0, 0.0], [0.9, 0.1], [0.2, 1.0]], ["a", "b", "a"])
    >>> table.partner.tolist()
    [1, 0, 2]
    """
    _refuse_for_now(init=init, nest=nest, budget=budget)
    problem = Problem.build(X, y, loss=loss, sample_weight=sample_weight, fit_intercept=fit_intercept)
    rows = Rows.of_problem(problem, coef, intercept)
    return _pair(rows, method, n_jobs, progress, random_state, Fingerprint.of(problem.X, y))


def pair_rows(
    G: Any,
    method: Method = "auto",
    *,
    init: Any = None,
    nest: Any = None,
    budget: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> AntitheticTable:
    """Build a table from vectors of one's own, whose inner products should be small: gradients, or bounds on them.

    Parameters
    ----------
    G : {array-like, sparse matrix} of shape (n, d)
        One vector per row.
    method, init, nest, budget, n_jobs, progress, random_state
        As in :func:`pair`.

    Returns
    -------
    AntitheticTable
        Its fingerprint is the number of rows only.

    Examples
    --------
    >>> from antithetic import pair_rows
    >>> pair_rows([[1.0], [2.0], [-3.0], [-1.0]], method="optimal").partner.tolist()
    [3, 2, 1, 0]
    """
    _refuse_for_now(init=init, nest=nest, budget=budget)
    return _pair(Rows(check_rows(G, "G")), method, n_jobs, progress, random_state, Fingerprint())


def _refuse_for_now(**parameters: Any) -> None:
    for name, value in parameters.items():
        if value is not None:
            raise NotImplementedError(f"{name}= is not available yet; leave it at None")


def _pair(
    rows: Rows, method: Method, n_jobs: int | None, progress: bool, random_state: int | None, fingerprint: Fingerprint
) -> AntitheticTable:
    if callable(method):
        partner = method(rows.take(slice(None)))
        name = getattr(method, "__name__", type(method).__name__)
        try:
            table = AntitheticTable(partner, fingerprint, name)
        except ValueError as error:
            raise ValueError(f"method={name} did not return a table: {error}") from error
        if len(table) != len(rows):
            raise ValueError(f"method={name} returned {len(table)} partners for {len(rows)} rows")
        return table
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not known; use one of {', '.join(METHODS)}, or a callable")
    if method == "optimal":
        return AntitheticTable(_optimal_table(rows), fingerprint, "optimal")
    if method == "random":
        return AntitheticTable(_random_table(len(rows), random_state), fingerprint, "random")
    with progress_bar("pairing rows", len(rows), progress) as update:
        return AntitheticTable(greedy_table(rows, n_jobs, update), fingerprint, "greedy")


def _optimal_table(rows: Rows) -> NDArray[np.intp]:
    """Solve the assignment problem of the paper's eq. 13: the permutation with the least sum of products."""
    n = len(rows)
    if n > OPTIMAL_MAX_ROWS:
        raise ValueError(f'method="optimal" takes at most {OPTIMAL_MAX_ROWS} rows (its time is cubic), got {n}; use "greedy"')
    vectors = rows.take(slice(None))
    products = vectors @ vectors.T
    if sparse.issparse(products):
        products = products.toarray()
    partner: NDArray[np.intp] = linear_sum_assignment(products)[1]
    return partner


def _random_table(n: int, random_state: int | None) -> NDArray[np.intp]:
    order = np.random.default_rng(random_state).permutation(n)
    partner = np.arange(n)
    pairs = order[: n // 2 * 2].reshape(-1, 2)
    partner[pairs] = pairs[:, ::-1]
    return partner
