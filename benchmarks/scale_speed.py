"""Time to accuracy on two workers: badly scaled data, one machine, peers, and a second worker.

Parts a, b, g and h of ``scale.py``. A gap is ``(f - f*) / (f(0) - f*)``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import dask.array as da
import numpy as np
from common import Figure
from distributed import Client
from scale_cluster import (
    ALPHA,
    FEATURES,
    Made,
    cluster,
    gradient_rounds,
    on_workers,
    stored,
)
from scale_figures import BLOCKS, data

import antithetic
from antithetic.dask import LogisticRegression
from antithetic.problem import Problem

PATIENCE = 20.0  # a peer that is not there after so many times our seconds counts as beaten
CONDITION = 1e5


def hard(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of condition number 1e5, columns of scales 1e-3 to 1e3, sorted by label."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0]
    axes *= np.sqrt(CONDITION) ** -np.linspace(0.0, 1.0, FEATURES)
    X = rng.normal(size=(rows, FEATURES))
    scores = X @ rng.normal(size=FEATURES)
    y = (2.0 * scores / scores.std() + rng.logistic(size=rows) > 0.0).astype(np.int8)
    X = X @ axes.T
    X *= 10.0 ** np.linspace(-3.0, 3.0, FEATURES) / X.std(axis=0)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def strength(rows: int) -> float:
    """The C that is an L2 penalty of ALPHA on a mean loss."""
    return 1.0 / (ALPHA * rows)


def gap_of(X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], float]:
    """Return a function from weights to their gap."""
    problem = Problem.build(X, np.where(y == 1, 1.0, -1.0), l2=ALPHA)
    exact = antithetic.LogisticRegression(C=strength(len(y)), fit_intercept=False, tol=1e-14)
    least = problem.objective(exact.fit(X, y).coef_[0])

    def gap(coef: np.ndarray) -> float:
        return max(problem.objective(np.ravel(coef)) - least, 0.0) / (np.log(2.0) - least)

    return gap


def in_blocks(X: np.ndarray, y: np.ndarray):
    """Return blocks to be stored, and their bytes."""
    parts = zip(np.array_split(X, BLOCKS), np.array_split(y, BLOCKS), strict=True)
    return parts, X.nbytes + y.nbytes


def timed(client: Client, rows: list, labels: list, tol: float, n: int):
    """Our fit to a certified gap, and its seconds, without starting a cluster."""
    ours = LogisticRegression(C=strength(n), fit_intercept=False, tol=tol, client=client)
    began = time.perf_counter()
    ours.fit(rows, labels)
    return ours, time.perf_counter() - began


# ---- the parts


def badly_scaled(quick: bool) -> Iterator[Figure]:
    """1,000,000 x 54, condition number 1e5, columns of scales 1e-3 to 1e3, sorted by label."""
    n = 100_000 if quick else 1_000_000
    X, y = hard(n)
    gap = gap_of(X, y)
    with stored(*in_blocks(X, y)) as blocks, cluster(2) as client:
        rows, labels = on_workers(client, blocks)
        ours, seconds = min((timed(client, rows, labels, 1e-8, n) for _ in range(3)), key=_second)
        yield Figure("certified gap", ours.gap_, most=1e-8, remark=f"{seconds:.2f} s")
        yield Figure("gap", gap(ours.coef_), most=ours.gap_, remark="below the certified one")
        yield Figure(
            "rounds over all rows", ours.n_rounds_, most=12.0, remark="first look included"
        )
        with_intercept = LogisticRegression(C=strength(n), tol=1e-8, client=client)
        with_intercept.fit(rows, labels)
        remark = f"certified gap {with_intercept.gap_:.1e}"
        yield Figure("rounds with an intercept", with_intercept.n_rounds_, most=12.0, remark=remark)


def _second(pair: tuple) -> float:
    return pair[1]


def second_worker(quick: bool) -> Iterator[Figure]:
    """Seconds of a round with 1 worker divided by those with 2, data in memory, least of repeats.

    The compute part is a round less one of as many blocks of a few rows, which is what meeting
    costs.
    """
    sizes = (100_000 if quick else 250_000, 20)
    best, busiest = np.full((2, 2), np.inf), np.full((2, 2), np.inf)  # clusters, sizes
    with cluster(1) as one, cluster(2) as two:
        blocks = [[Made(k, rows, real=np.float64) for k in range(BLOCKS)] for rows in sizes]
        kept = [[(client, *on_workers(client, some)) for some in blocks] for client in (one, two)]
        for _ in range(2 if quick else 12):
            for place in np.ndindex(2, 2):
                given = kept[place[0]][place[1]]
                before = cpu_seconds(given[0])
                best[place] = min(best[place], gradient_rounds(*given, 5).min())
                spent = max(after - before[at] for at, after in cpu_seconds(given[0]).items())
                busiest[place] = min(busiest[place], spent / 6.0)  # the first look is one more
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    bar = 1.4 if cores >= 2 and not quick else None
    whole = f"{best[0, 0]:.3f} s, {best[1, 0]:.3f} s a round of {BLOCKS * sizes[0]:,} rows"
    yield Figure("1 worker / 2 workers", best[0, 0] / best[1, 0], least=bar, remark=whole)
    compute = best[:, 0] - best[:, 1]
    remark = f"a round of a few rows takes {best[0, 1]:.3f} s, {best[1, 1]:.3f} s"
    yield Figure("1 worker / 2 workers, compute", compute[0] / compute[1], remark=remark)
    remark = f"{busiest[0, 0]:.3f} s, {busiest[1, 0]:.3f} s; other work on the machine matters less"
    ratio = busiest[0, 0] / busiest[1, 0]
    yield Figure("1 worker / the busier of 2, CPU seconds of a round", ratio, remark=remark)


def cpu_seconds(client: Client) -> dict[str, float]:
    """CPU seconds of each worker so far."""
    spent: dict[str, float] = client.run(time.process_time)
    return spent


def one_machine(quick: bool) -> Iterator[Figure]:
    """10,000,000 x 54 float32 in the memory of two workers, against one thread of one machine."""
    n = 1_000_000 if quick else 10_000_000
    made = [Made(k, n // BLOCKS) for k in range(BLOCKS)]
    best, cpu = {"ours": np.inf, "one": np.inf}, {"ours": np.inf, "one": np.inf}
    with cluster(2) as client:
        rows, labels = on_workers(client, made)
        parts = [block.read() for block in made]
        X, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        del parts
        for _ in range(2 if quick else 3):
            before, own = cpu_seconds(client), time.process_time()
            ours, seconds = timed(client, rows, labels, 1e-6, n)
            own = time.process_time() - own
            spent = max(after - before[at] for at, after in cpu_seconds(client).items())
            best["ours"] = min(best["ours"], seconds)
            cpu["ours"] = min(cpu["ours"], own + spent)
            alone = antithetic.LogisticRegression(
                C=strength(n), fit_intercept=False, tol=1e-6, n_jobs=1
            )
            began, own = time.perf_counter(), time.process_time()
            alone.fit(X, y)
            best["one"] = min(best["one"], time.perf_counter() - began)
            cpu["one"] = min(cpu["one"], time.process_time() - own)
    remark = (
        f"{best['ours']:.2f} s, {ours.n_rounds_} rounds, gap {ours.gap_:.1e}; one thread"
        f" {best['one']:.2f} s, gap {alone.gap_:.1e}"
    )
    bar = None if quick else 0.75
    yield Figure(
        "two workers / one thread, to 1e-6",
        best["ours"] / best["one"],
        most=bar,
        remark=remark,
    )
    yield Figure(
        "the busier worker and the client / one thread, CPU seconds",
        cpu["ours"] / cpu["one"],
        remark=f"{cpu['ours']:.2f} s, {cpu['one']:.2f} s; other work on the machine matters less",
    )


def peers(quick: bool) -> Iterator[Figure]:
    """Dask-ML's `LogisticRegression` and `Incremental`, 1,000,000 x 54 standardised, our blocks."""
    if find_spec("dask_ml") is None:
        print("left out: dask-ml is not installed")
        return
    X, y = data(quick)
    gap = gap_of(X, y)
    with stored(*in_blocks(X, y)) as blocks, cluster(2) as client:
        rows, labels = on_workers(client, blocks)
        n = len(y) // BLOCKS
        parts = [da.from_delayed(part, (n, FEATURES), dtype=X.dtype) for part in rows]
        arrays = (
            da.concatenate(parts),
            da.concatenate([da.from_delayed(part, (n,), dtype=y.dtype) for part in labels]),
        )
        ours = {}
        for tol in (1e-4, 1e-8):
            runs = [timed(client, rows, labels, tol, len(y)) for _ in range(3)]
            assert all(gap(fitted.coef_) <= tol for fitted, _ in runs)
            ours[tol] = min(seconds for _, seconds in runs)
        theirs = {}
        for name, fit in fits_of_peers(arrays, len(y)).items():
            with client.as_current():
                theirs[name] = runs_of(fit, gap, 1e-8, PATIENCE * ours[1e-8])
    for tol, seconds in ours.items():
        found = {name: to_gap(runs, tol) for name, runs in theirs.items()}
        fastest = min(taken for taken, _ in found.values())
        said = "; ".join(f"{name} {remark}" for name, (_, remark) in found.items())
        yield Figure(
            f"our seconds / the fastest peer's, to {tol:g}",
            seconds / fastest,
            most=0.3,
            remark=f"{seconds:.2f} s; {said}",
        )


def fits_of_peers(arrays: tuple, n: int) -> dict[str, Callable[[int], np.ndarray]]:
    """Functions from a number of iterations to the weights after them."""
    from dask_ml.linear_model import LogisticRegression as Glm
    from dask_ml.wrappers import Incremental
    from sklearn.linear_model import SGDClassifier

    def glm(solver: str) -> Callable[[int], np.ndarray]:
        chosen = {"solver": solver, "C": strength(n), "fit_intercept": False, "tol": 1e-14}
        return lambda many: Glm(**chosen, max_iter=many).fit(*arrays).coef_

    def incremental(many: int) -> np.ndarray:
        wrapped = Incremental(
            SGDClassifier("log_loss", alpha=ALPHA, fit_intercept=False, random_state=0)
        )
        for _ in range(many):
            wrapped.partial_fit(*arrays, classes=[0, 1])
        return wrapped.coef_

    return {"lbfgs": glm("lbfgs"), "admm": glm("admm"), "Incremental": incremental}


def runs_of(
    fit: Callable[[int], np.ndarray], gap: Callable[[np.ndarray], float], tol: float, limit: float
) -> list[tuple[float, float, int]]:
    """Seconds, gaps and iterations of longer and longer fits, until one is there or takes too long.

    Each has four times the iterations of the one before; what came before is not counted.
    """
    runs, many = [], 4
    while True:
        began = time.perf_counter()
        coef = fit(many)
        runs.append((time.perf_counter() - began, gap(coef), many))
        if runs[-1][1] <= tol or runs[-1][0] >= limit:
            return runs
        many *= 4


def to_gap(runs: list[tuple[float, float, int]], tol: float) -> tuple[float, str]:
    """Seconds of the first fit that is there, or of the last one, and a remark."""
    for seconds, reached, many in runs:
        if reached <= tol:
            return seconds, f"{seconds:.1f} s, {many} iterations"
    seconds, reached, many = runs[-1]
    return seconds, f"not there: {reached:.1g} after {seconds:.0f} s, {many} iterations"
