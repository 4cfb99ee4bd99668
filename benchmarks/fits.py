"""Eight fits as ratios to scikit-learn, so that a slow change is seen when it is made.

Each fit takes turns with its counterpart, one thread, and the least CPU seconds of the repeats
count. ``python benchmarks/fits.py`` takes about half a minute and fails if a ratio is more than
twice the one in ``fits.json``; ``--record`` writes that file.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from common import Figure, close, machine, report
from scipy import sparse
from sklearn import linear_model as theirs
from sklearn.datasets import load_breast_cancer, load_digits

import antithetic as ours
from antithetic._util.threads import limit_blas

RECORDED = Path(__file__).with_suffix(".json")
REPEATS = 7
MOST = 2.0  # times the ratio that was recorded


def made(n: int, d: int, *, skewed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Independent columns and labels; skewed ones are binary with shares from 0.1 % to 50 %."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if skewed:
        X = (rng.random((n, d)) < np.geomspace(1e-3, 0.5, d)).astype(float)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    scores = X @ (rng.normal(size=d) / np.sqrt(d)) + rng.logistic(size=n)
    return X, (scores > 0.0).astype(int)


def pairs() -> dict[str, tuple]:
    """Our model, its counterpart, rows and targets of each fit."""
    few = load_breast_cancer(return_X_y=True)
    many, rare = made(100_000, 50), made(50_000, 60, skewed=True)
    sums = many[0] @ np.ones(50) + many[1]
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * many[0][:20_000, 0]))
    logistic = theirs.LogisticRegression
    return {
        "logistic, 569 x 30": (ours.LogisticRegression(), logistic(solver="newton-cholesky"), *few),
        "logistic, 100000 x 50": (ours.LogisticRegression(), logistic(), *many),
        "logistic, rare columns, standardised": (ours.LogisticRegression(), logistic(), *rare),
        "logistic, sparse": (
            ours.LogisticRegression(),
            logistic(max_iter=1000),
            sparse.csr_array(np.where(np.abs(many[0][:50_000]) > 1.5, many[0][:50_000], 0.0)),
            many[1][:50_000],
        ),
        "logistic, L1": (
            ours.LogisticRegression(l1_ratio=1.0),
            logistic(l1_ratio=1.0, solver="saga", max_iter=20),
            many[0][:20_000],
            many[1][:20_000],
        ),
        "softmax, digits": (
            ours.LogisticRegression(), logistic(max_iter=1000), *load_digits(return_X_y=True)
        ),
        "ridge, 100000 x 50": (ours.Ridge(), theirs.Ridge(), many[0], sums),
        "poisson, 20000 x 50": (
            ours.PoissonRegressor(alpha=1e-3), theirs.PoissonRegressor(alpha=1e-3),
            many[0][:20_000], counts,
        ),
    }  # fmt: skip


def seconds(model, X, y) -> float:
    """CPU seconds of a fit."""
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def ratios():
    """Yield the name of each fit and its ratio."""
    for name, (mine, peer, X, y) in pairs().items():
        best = {mine: np.inf, peer: np.inf}
        for _ in range(REPEATS):
            for model in best:
                best[model] = min(best[model], seconds(model, X, y))
        yield name, best[mine] / best[peer]


def main() -> int:
    """Measure, and compare with what was recorded or record anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the file of ratios")
    asked = parser.parse_args()
    print(machine())
    with warnings.catch_warnings(), limit_blas(1):
        warnings.simplefilter("ignore")
        found = dict(ratios())
    if asked.record:
        text = json.dumps({name: round(ratio, 3) for name, ratio in found.items()}, indent=2)
        RECORDED.write_text(text + "\n", encoding="utf-8")
    known = json.loads(RECORDED.read_text(encoding="utf-8"))
    return close(
        report(
            Figure(name, ratio, most=MOST * known[name], remark=f"recorded {known[name]}")
            for name, ratio in found.items()
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
