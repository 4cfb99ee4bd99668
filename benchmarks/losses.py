"""Quantile, Poisson, gamma and Tweedie fits against scikit-learn's regressors of these names.

On made data of 200,000 x 20, with the same penalty. Each of ours has as many seconds as its peer
needs (one thread each, CPU seconds, the least of three fits of the peer), and what counts is how
far its objective is above the peer's, as a share of what the best constant is above it.
scikit-learn's ``QuantileRegressor`` solves a linear program and gets 5,000 of the rows; both are
judged on all. ``partial_fit`` goes over 20 chunks once.

Run ``python benchmarks/losses.py``; names choose losses, ``--quick`` takes 20,000 rows.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import Figure, run_parts
from sklearn.linear_model import (
    GammaRegressor,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from threadpoolctl import threadpool_limits

from antithetic import SGDRegressor
from antithetic.losses import ALL_LOSSES
from antithetic.problem import Problem

ROWS, FEATURES, CHUNKS, ROWS_OF_A_PROGRAM = 200_000, 20, 20, 5_000
ALPHA = {"quantile": 1e-6, "poisson": 1e-4, "gamma": 1e-4, "tweedie": 1e-4}
MOST_EPOCHS, REPEATS = 200, 3
MOST_ABOVE, MOST_ABOVE_IN_CHUNKS = 1e-4, 1e-2


def made_data(name: str, n: int) -> tuple[Any, Any]:
    """Rows with correlated features of different scales, and targets that follow the loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, FEATURES)) @ (np.eye(FEATURES) + 0.3 * rng.normal(size=(FEATURES,) * 2))
    X /= X.std(axis=0)
    linear = X @ rng.normal(size=FEATURES) / FEATURES**0.5 * 0.7 + 1.0
    mean = np.exp(linear)
    if name == "quantile":
        return X, linear + rng.gumbel(size=n)
    if name == "poisson":
        return X, rng.poisson(mean).astype(float)
    if name == "gamma":
        return X, rng.gamma(2.0, mean / 2.0)
    counts = rng.poisson(mean)
    return X, np.where(counts > 0, rng.gamma(np.maximum(counts, 1) * 2.0, 0.5), 0.0)


def peer(name: str) -> Any:
    if name == "quantile":
        return QuantileRegressor(quantile=0.5, alpha=ALPHA[name])
    if name == "tweedie":
        return TweedieRegressor(power=1.5, link="log", alpha=ALPHA[name])
    return {"poisson": PoissonRegressor, "gamma": GammaRegressor}[name](alpha=ALPHA[name])


def seconds_of(call: Callable[[], object]) -> float:
    with threadpool_limits(1):
        start = time.process_time()
        call()
        return time.process_time() - start


def compared(name: str, quick: bool) -> Iterator[Figure]:
    X, y = made_data(name, ROWS // 10 if quick else ROWS)
    program = name == "quantile"
    some = slice(ROWS_OF_A_PROGRAM if program else None)
    theirs = peer(name)
    seconds = min(seconds_of(lambda: theirs.fit(X[some], y[some])) for _ in range(REPEATS))
    # QuantileRegressor has an L1 penalty
    strength = {"l1" if program else "l2": ALPHA[name]}
    problem = Problem.build(X, y, loss=name, fit_intercept=True, **strength)
    least = problem.objective(theirs.coef_, float(theirs.intercept_))
    constant = problem.objective(np.zeros(FEATURES), ALL_LOSSES[name].best_constant(y, None))
    given = {"penalty": "l1" if program else "l2", "alpha": ALPHA[name], "random_state": 0}

    def share_above(model: SGDRegressor) -> float:
        reached = problem.objective(model.coef_, float(model.intercept_[0]))
        return (reached - least) / (constant - least)

    epochs, model, used = 1, None, 0.0
    while epochs <= MOST_EPOCHS:
        trial = SGDRegressor(name, max_iter=epochs, tol=None, **given)
        took = seconds_of(lambda trial=trial: trial.fit(X, y))
        if model is not None and took > seconds:
            break
        model, used = trial, took
        epochs = max(epochs + 1, int(epochs * min(2.0, 0.95 * seconds / took)))
    remark = f"{model.n_iter_} epochs in {used:.2f} s, scikit-learn {seconds:.2f} s"
    above = share_above(model)
    yield Figure(
        f"{name}: above scikit-learn in its seconds, of 1e-4",
        above / MOST_ABOVE,
        most=1.0,
        remark=remark,
    )
    yield Figure(f"{name}: seconds of that fit, of scikit-learn's", used / seconds, most=1.0)
    chunked = SGDRegressor(name, **given)
    for rows in np.array_split(np.arange(len(y)), CHUNKS):
        chunked.partial_fit(X[rows], y[rows])
    yield Figure(
        f"{name}: above scikit-learn after {CHUNKS} chunks, of 1 %",
        share_above(chunked) / MOST_ABOVE_IN_CHUNKS,
        most=1.0,
    )


def part(name: str) -> Any:
    found = partial(compared, name)
    found.__doc__ = f"{name} loss"
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(run_parts(__doc__ or "", {name: part(name) for name in ALPHA}))
