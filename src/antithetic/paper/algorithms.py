"""Algorithms 1 and 2 as Liu and Xu (arXiv:1810.03124) print them, and SGD with random pairs.

Numbers of equations are the paper's. Run it: ``python -m antithetic.paper.algorithms``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def algorithm_1(X: Any, y: Any) -> NDArray[np.intp]:
    """Return the antithetic table S: row i goes with row S[i]. Of equal products the first wins."""
    Z = _signed(X, y)
    DB, S = list(range(len(Z))), []
    for z in Z:
        j = DB[int(np.argmin(Z[DB] @ z))]  # the nearest in DB by y_i y_j <x_i, x_j>, (25) to (27)
        S.append(j)
        DB.remove(j)
    return np.array(S, dtype=np.intp)


def sgd(
    X: Any, y: Any, *, loss: str = "log_loss", l2: float = 0.0, eta0: float = 1.0,
    eta: float = 0.0, iterations: int = 1000, seed: int = 0, rows: Any = None,
) -> Array:  # fmt: skip
    """Return the weights after each iteration of SGD; ``rows``, (iterations, 2), replace draws."""
    Z = _signed(X, y)
    if rows is None:
        rows = np.random.default_rng(seed).integers(len(Z), size=(iterations, 2))
    w, path = np.zeros(Z.shape[1]), []
    for t, (i, j) in enumerate(rows, start=1):  # i and j are independent
        w = _step(w, t, Z[[i, j]], loss, l2, eta0, eta)
        path.append(w)
    return np.array(path)


def algorithm_2(
    X: Any, y: Any, S: Any, *, loss: str = "log_loss", l2: float = 0.0, eta0: float = 1.0,
    eta: float = 0.0, iterations: int = 1000, seed: int = 0, rows: Any = None,
) -> Array:  # fmt: skip
    """Return the weights after each iteration of SGD-as; ``rows``, (iterations,), replace draws."""
    Z = _signed(X, y)
    if rows is None:
        rows = np.random.default_rng(seed).integers(len(Z), size=iterations)
    w, path = np.zeros(Z.shape[1]), []
    for t, i in enumerate(rows, start=1):
        j = S[i]  # the antithetic sample
        w = _step(w, t, Z[[i, j]], loss, l2, eta0, eta)
        path.append(w)
    return np.array(path)


def _step(w: Array, t: int, Z: Array, loss: str, l2: float, eta0: float, eta: float) -> Array:
    """Take step (3) with the signed rows of a batch; the penalty in (21) adds no variance."""
    slopes = {"log_loss": np.exp(-np.logaddexp(0.0, Z @ w)), "hinge": Z @ w <= 1.0}  # (23), (29)
    return w - eta0 / (1.0 + eta0 * eta * t) * (l2 * w - slopes[loss] @ Z / len(Z))


def _signed(X: Any, y: Any) -> Array:
    """Return the rows y_i x_i, for labels -1 and 1, or 0 and 1, which (35) turns into signs."""
    signs = np.where(np.asarray(y) == np.max(y), 1.0, -1.0)
    return signs[:, None] * np.asarray(X, dtype=np.float64)


if __name__ == "__main__":
    from antithetic.datasets import load

    X, y = load("sonar_scale", return_X_y=True)
    G = -0.5 * _signed(X, y)  # gradients of the logistic loss at w = 0
    pairs, alone = (G + G[algorithm_1(X, y)]) / 2.0, G.var(axis=0).sum() / 2.0
    ratio = pairs.var(axis=0).sum() / alone  # of the variances (6), over all n draws
    print(f"sonar_scale, w = 0: variance of an antithetic pair / of a random one = {ratio:.4f}")
