"""Race `LogisticRegression` against every solver of logistic regression that can be installed.

A race is a set, a penalty, with or without an intercept, and a gap ``(f - f*) / (f_0 - f*)``, where
f_0 is the objective of the best constant prediction (zero weights, without an intercept). Ours has
``tol`` set to the gap and all other defaults but ``C``, ``fit_intercept`` and ``n_jobs=1``; its
seconds include the bound that certifies it. A peer has the fewest iterations that reach the gap;
one that is not there after 20 times our seconds counts as beaten. Seconds are CPU seconds of one
thread, the least of repeats that take turns.

Run ``python benchmarks/logistic.py`` on a quiet machine, with the environment variables
OMP_NUM_THREADS=1 and ANTITHETIC_DATA; ``--quick`` takes four sets and two gaps, and words choose
sets. The exit status is 1 if a limit is missed. A peer that is not installed is named and left out.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before BLAS is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from common import Figure, close, load, machine, report
from scipy import sparse
from sklearn.linear_model import LogisticRegression as Sklearn

import antithetic
from antithetic.problem import Problem
from antithetic.problem.constant import best_constant

GAPS = (1e-3, 1e-4, 1e-6, 1e-8, 1e-10)
BEHIND = 20.0
LADDER = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 512, 1024, 2048, 4096)
MANY_ROWS = 5000


@dataclass(frozen=True)
class Task:
    """A problem of the races."""

    name: str
    X: Any
    y: Any
    l2: float
    fit_intercept: bool

    @property
    def weakness(self) -> float:
        """The penalty in scikit-learn's units."""
        return 1.0 / (self.l2 * self.X.shape[0])

    def __str__(self) -> str:
        intercept = ", intercept" if self.fit_intercept else ""
        return f"{self.name}, lambda {self.l2:.0e}{intercept}"


# ---- sets


def made(n: int, d: int, *, condition: float = 1.0, scales: float = 1.0) -> tuple:
    """Return normal rows with a condition number, or with columns of many scales."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if condition > 1.0:
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        X = (X * np.geomspace(1.0, condition**-0.5, d)) @ turn
    logits = X @ rng.normal(size=d)
    y = np.where(logits / logits.std() * 2.0 + rng.logistic(size=n) > 0.0, 1, -1)
    return X * np.geomspace(1.0 / scales, scales, d), y


def breast_cancer() -> tuple:
    """Return the set of two classes that comes with scikit-learn, in its own units."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return X, y


SETS: dict[str, Callable[[], tuple | None]] = {
    **{
        name: (lambda name=name: load(name))
        for name in (
            "ijcnn1.tr",
            "a9a",
            "w8a",
            "phishing",
            "mushrooms",
            "cod-rna_scale",
            "skin_nonskin",
            "sonar_scale",
            "splice_scale",
            "diabetes",
        )
    },
    "skin_nonskin, scaled": lambda: scaled("skin_nonskin"),
    "breast cancer, raw": breast_cancer,
    "made 300000 x 50": lambda: made(300_000, 50),
    "made 20000 x 500, condition 1e4": lambda: made(20_000, 500, condition=1e4),
    "made 50000 x 30, scales 1e-3 to 1e3": lambda: made(50_000, 30, scales=1e3),
}
OTHER_PENALTIES = ("ijcnn1.tr", "a9a", "phishing")
QUICK = ("ijcnn1.tr", "a9a", "cod-rna_scale", "sonar_scale")


def scaled(name: str) -> tuple | None:
    """Return a set whose columns are moved and scaled to [-1, 1]."""
    if (data := load(name)) is None:
        return None
    X = data[0].toarray() if sparse.issparse(data[0]) else data[0]
    low, high = X.min(axis=0), X.max(axis=0)
    return np.ascontiguousarray(2.0 * (X - low) / (high - low) - 1.0), data[1]


def tasks(names: list[str]) -> Iterator[Task]:
    """All problems, set by set."""
    for name in names:
        if (data := SETS[name]()) is None:
            continue
        X, y = data
        penalties = [1e-4]
        if name in OTHER_PENALTIES:
            penalties += [1.0 / X.shape[0], 1e-8]
        for l2 in penalties:
            for fit_intercept in (False, True):
                yield Task(name, X, y, l2, fit_intercept)


# ---- peers: functions of a task and a number of iterations that return weights and intercept


def weights_of(model: Any) -> tuple[np.ndarray, float]:
    """Weights and intercept of a fitted model of two classes."""
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def sklearn_peer(solver: str, **settings: Any) -> Callable[[Task, int], tuple]:
    """One of scikit-learn's solvers."""

    def fit(task: Task, iterations: int) -> tuple:
        model = Sklearn(
            C=task.weakness,
            fit_intercept=task.fit_intercept,
            solver=solver,
            tol=1e-15,
            max_iter=iterations,
            random_state=0,
            **settings,
        )
        return weights_of(model.fit(task.X, task.y))

    return fit


def our_sgd(task: Task, iterations: int) -> tuple:
    """Our stochastic gradients."""
    model = antithetic.SGDClassifier(
        loss="log_loss",
        alpha=task.l2,
        fit_intercept=task.fit_intercept,
        max_iter=iterations,
        tol=None,
        random_state=0,
    )
    return weights_of(model.fit(task.X, task.y))


def glum_peer() -> Callable[[Task, int], tuple]:
    """glum: iteratively reweighted least squares."""
    from glum import GeneralizedLinearRegressor

    def fit(task: Task, iterations: int) -> tuple:
        model = GeneralizedLinearRegressor(
            family="binomial",
            alpha=task.l2,
            l1_ratio=0.0,
            fit_intercept=task.fit_intercept,
            gradient_tol=1e-15,
            max_iter=iterations,
        )
        return weights_of(model.fit(task.X, (np.asarray(task.y) > 0).astype(np.float64)))

    return fit


def intelex_peer() -> Callable[[Task, int], tuple]:
    """scikit-learn-intelex: L-BFGS."""
    from sklearnex.linear_model import LogisticRegression

    def fit(task: Task, iterations: int) -> tuple:
        model = LogisticRegression(
            C=task.weakness,
            fit_intercept=task.fit_intercept,
            solver="lbfgs",
            tol=1e-15,
            max_iter=iterations,
            n_jobs=1,
        )
        return weights_of(model.fit(task.X, task.y))

    return fit


def old_rows(X: Any) -> Any:
    """Rows in the form that these packages accept, made once per set."""
    if not sparse.issparse(X):
        return X
    if id(X) not in _OLD_ROWS:
        rows = sparse.csr_matrix(X)
        rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        _OLD_ROWS.clear()
        _OLD_ROWS[id(X)] = rows
    return _OLD_ROWS[id(X)]


_OLD_ROWS: dict[int, Any] = {}


def cyanure_peer() -> Callable[[Task, int], tuple]:
    """Cyanure: incremental gradients with quasi-Newton steps."""
    from cyanure.estimators import Classifier

    def fit(task: Task, iterations: int) -> tuple:
        model = Classifier(
            loss="logistic",
            penalty="l2",
            solver="qning-miso",
            lambda_1=task.l2,
            fit_intercept=task.fit_intercept,
            tol=1e-14,
            max_iter=iterations,
            duality_gap_interval=iterations,
            n_threads=1,
            random_state=0,
            verbose=False,
        )
        model.fit(old_rows(task.X), np.asarray(task.y))
        if task.fit_intercept:
            return weights_of(model)
        return np.ravel(model.coef_), 0.0

    return fit


def snap_peer() -> Callable[[Task, int], tuple]:
    """Snap ML: dual coordinate ascent, in float32."""
    from snapml import LogisticRegression

    def fit(task: Task, iterations: int) -> tuple:
        model = LogisticRegression(
            regularizer=1.0 / task.weakness,
            fit_intercept=task.fit_intercept,
            dual=True,
            max_iter=iterations,
            tol=1e-14,
            n_jobs=1,
            random_state=0,
        )
        model.fit(old_rows(task.X).astype(np.float32), np.asarray(task.y))
        if task.fit_intercept:
            return weights_of(model)
        return np.ravel(model.coef_), 0.0

    return fit


def peers() -> dict[str, Callable[[Task, int], tuple]]:
    """All that can be imported; the others are named."""
    found: dict[str, Callable[[Task, int], tuple]] = {
        f"scikit-learn {solver}": sklearn_peer(solver)
        for solver in ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga", "liblinear")
    }
    found["liblinear dual"] = sklearn_peer("liblinear", dual=True)
    found["our SGD"] = our_sgd
    for name, make in (
        ("glum", glum_peer),
        ("scikit-learn-intelex", intelex_peer),
        ("Cyanure", cyanure_peer),
        ("Snap ML", snap_peer),
    ):
        try:
            found[name] = make()
        except ImportError:
            print(f"left out: {name}, which is not installed")
    return found


# ---- races


def ours(task: Task, tol: float) -> tuple[np.ndarray, float]:
    """Our solution to a gap."""
    model = antithetic.LogisticRegression(
        C=task.weakness, fit_intercept=task.fit_intercept, tol=tol, n_jobs=1
    )
    return weights_of(model.fit(task.X, task.y))


def seconds(job: Callable[[], object]) -> float:
    """CPU seconds of a job."""
    start = time.process_time()
    job()
    return time.process_time() - start


class Judge:
    """Measures gaps on a task, from the best objective that anyone has reached."""

    def __init__(self, task: Task) -> None:
        self._problem = Problem.build(task.X, task.y, l2=task.l2, fit_intercept=task.fit_intercept)
        problem = self._problem
        self._zero = (
            best_constant(problem.loss, problem.y, problem.weight)[1]
            if task.fit_intercept
            else problem.loss_at_zero()
        )
        self._best = self._problem.objective(*ours(task, 1e-13))

    def gap(self, solution: tuple[np.ndarray, float]) -> float:
        """Distance of a solution from the optimum, in units of that of the constant."""
        objective = self._problem.objective(*solution)
        return (objective - self._best) / (self._zero - self._best)


@dataclass(frozen=True)
class Race:
    """Seconds of ours and of each peer that came in to a gap."""

    task: Task
    gap: float
    ours: float
    others: dict[str, float]

    @property
    def fastest(self) -> str:
        """Name of the fastest other; empty if there is none."""
        return min(self.others, key=self.others.__getitem__, default="")

    @property
    def ratio(self) -> float:
        """Our seconds, divided by those of the fastest other (0 where all are beaten)."""
        return self.ours / self.others[self.fastest] if self.others else 0.0

    @property
    def sklearn_ratio(self) -> float:
        """The same against scikit-learn's solvers alone."""
        named = [s for name, s in self.others.items() if name.startswith(("scikit-learn ", "lib"))]
        return self.ours / min(named) if named else 0.0


def efforts(task: Task, judge: Judge, fit: Any, most: float) -> list[tuple[int, float, float]]:
    """Iterations, seconds and gaps of a peer, until it is too late or there."""
    found = []
    for iterations in LADDER:
        solution: list[tuple] = []
        try:
            spent = seconds(lambda: solution.append(fit(task, iterations)))  # noqa: B023
        except Exception as error:  # a peer's own; it takes no part in this race
            print(f"    {type(error).__name__}: {error}"[:150].replace("\n", " "))
            break
        found.append((iterations, spent, judge.gap(solution[0])))
        if spent > most or found[-1][2] <= min(GAPS):
            break
    return found


def run(task: Task, others: dict[str, Any], gaps: tuple[float, ...], repeats: int) -> list[Race]:
    """Race to each gap."""
    judge = Judge(task)
    for gap in gaps:
        reached = judge.gap(ours(task, gap))
        if reached > gap:
            print(f"    OURS IS NOT THERE: {task} to {gap:g}, reached {reached:.1e}")
    late = BEHIND * min(seconds(lambda: ours(task, min(gaps))) for _ in range(2))
    known = {
        name: efforts(task, judge, fit, late)
        for name, fit in others.items()
        if not (task.fit_intercept and name.startswith(("scikit-learn liblinear", "liblinear")))
    }
    races = []
    for gap in gaps:
        first = min(seconds(lambda: ours(task, gap)) for _ in range(2))  # noqa: B023
        chosen = {}
        for name, steps in known.items():
            there = [(spent, k) for k, spent, reached in steps if reached <= gap]
            if there and min(there)[0] <= BEHIND * first:
                chosen[name] = min(there)[1]
        best = dict.fromkeys(("", *chosen), np.inf)
        for _ in range(repeats):
            best[""] = min(best[""], seconds(lambda: ours(task, gap)))  # noqa: B023
            for name, k in chosen.items():
                job = partial(others[name], task, k)
                if best[name] <= 3.0 * best[""] or best[name] == np.inf:  # others are out of it
                    best[name] = min(best[name], seconds(job))
        races.append(Race(task, gap, best.pop(""), best))
    return races


def show(race: Race) -> None:
    """Print a race as one line."""
    order = sorted(race.others.items(), key=lambda other: other[1])[:3]
    rest = ", ".join(f"{name} {1e3 * spent:.1f}" for name, spent in order) or "all beaten"
    print(
        f"{race.task!s:<58}{race.gap:>7.0e}{1e3 * race.ours:>9.1f} ms{race.ratio:>7.2f}   {rest}",
        flush=True,
    )


def figures(races: list[Race]) -> Iterator[Figure]:
    """The limits."""
    yield Figure(
        "share of races in which ours is the fastest",
        float(np.mean([race.ratio <= 1.0 for race in races])),
        least=0.8,
        remark=f"{len(races)} races",
    )
    yield Figure(
        "median of ours / fastest other", float(np.median([r.ratio for r in races])), most=0.5
    )
    many = [r for r in races if r.task.X.shape[0] >= MANY_ROWS and r.task.X.shape[1] <= 500]
    if many:
        worst = max(many, key=lambda race: race.ratio)
        remark = f"{worst.task}, {worst.gap:g}"
        yield Figure(
            "worst of ours / fastest other, many rows", worst.ratio, most=1.5, remark=remark
        )
    few = [r for r in races if r.task.X.shape[0] < MANY_ROWS]
    if few:
        worst = max(few, key=lambda race: race.sklearn_ratio)
        remark = f"{worst.task}, {worst.gap:g}"
        yield Figure(
            "worst of ours / scikit-learn's fastest, few rows",
            worst.sklearn_ratio,
            most=1.5,
            remark=remark,
        )


def text(repeats: int) -> Iterator[Figure]:
    """Race on text against the best of liblinear and newton-cg."""
    if (data := load("farm-ads")) is None:
        return
    others = {
        "scikit-learn liblinear": sklearn_peer("liblinear"),
        "liblinear dual": sklearn_peer("liblinear", dual=True),
        "scikit-learn newton-cg": sklearn_peer("newton-cg"),
    }
    for race in run(Task("farm-ads", *data, 1e-4, False), others, GAPS[:4], repeats):
        show(race)
        yield Figure(f"text, ours / fastest other, to {race.gap:g}", race.ratio, most=1.3)


def main() -> int:
    """Run all races and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help=f"some of: {'; '.join(SETS)}; text")
    parser.add_argument("--quick", action="store_true", help="four sets, two gaps")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    names = options.sets or (list(QUICK) if options.quick else [*SETS, "text"])
    if unknown := set(names) - {*SETS, "text"}:
        parser.error(
            f"no such set: {', '.join(sorted(unknown))}; there are {'; '.join(SETS)}; text"
        )
    warnings.simplefilter("ignore")
    print(machine())
    others, gaps = peers(), (1e-3, 1e-8) if options.quick else GAPS
    print(f"{'race':<58}{'gap':>7}{'ours':>12}{'ratio':>7}   the fastest others, ms")
    races = []
    for task in tasks([name for name in names if name != "text"]):
        for race in run(task, others, gaps, options.repeats):
            show(race)
            races.append(race)
    print()
    missed = report(figures(races)) if races else 0
    if "text" in names:
        missed += report(text(options.repeats))
    return close(missed)


if __name__ == "__main__":
    sys.exit(main())
