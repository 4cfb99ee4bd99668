"""`LogisticRegressionCV` against scikit-learn's, to the accuracy that the latter leaves.

See ``logistic.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import load
from logistic_rows import Row
from sklearn.linear_model import LogisticRegressionCV as Sklearn
from sklearn.model_selection import StratifiedKFold

import antithetic
from antithetic.problem import Problem
from antithetic.problem.constant import best_constant

NAMES = ("a9a", "ijcnn1.tr")
TIMES = 0.25  # of scikit-learn's seconds, at most
SETTINGS: dict[str, Any] = {"Cs": 10, "cv": 5, "scoring": "neg_log_loss"}


def sklearn_search() -> Any:
    """Return scikit-learn's, with what it announces as its next defaults."""
    return Sklearn(**SETTINGS, l1_ratios=(0.0,), use_legacy_attributes=False, n_jobs=1)


def largest_gap(X: Any, y: Any, search: Any) -> float:
    """Return the largest gap of all fits of a search, each in units of its constant's."""
    exact = antithetic.LogisticRegressionCV(Cs=10, cv=5, tol=1e-11, refit=False).fit(X, y)
    gaps = []
    for fold, (train, _) in enumerate(StratifiedKFold(5).split(X, y)):
        rows, labels = X[train], y[train]
        for k, C in enumerate(search.Cs_):
            l2 = 1.0 / (C * len(train))
            problem = Problem.build(rows, labels, l2=l2, fit_intercept=True)
            constant = best_constant(problem.loss, problem.y, None)[1]
            theirs, least = (
                problem.objective(coefs[:-1], coefs[-1])
                for coefs in (found.coefs_paths_[fold, 0, k, 0] for found in (search, exact))
            )
            gaps.append((theirs - least) / (constant - least))
    return float(max(gaps))


def cross_validation(repeats: int) -> Iterator[Row]:
    """CPU seconds of both, ours with ``tol`` set to the largest gap that scikit-learn's leaves."""
    for name in NAMES:
        if (data := load(name)) is None:
            continue
        X, y = data
        tol = largest_gap(X, y, sklearn_search().fit(X, y))
        searches = {
            "ours": antithetic.LogisticRegressionCV(**SETTINGS, tol=tol, n_jobs=1),
            "scikit-learn": sklearn_search(),
        }
        best = dict.fromkeys(searches, np.inf)
        for _ in range(repeats):
            for solver, search in searches.items():
                start = time.process_time()
                search.fit(X, y)
                best[solver] = min(best[solver], time.process_time() - start)
        for solver, spent in best.items():
            print(f"cross-validation on {name:<38}{1e3 * spent:>9.1f} ms, {solver}, tol {tol:.1e}")
            yield Row("cv", name, *X.shape, tol, solver, 0, spent)
