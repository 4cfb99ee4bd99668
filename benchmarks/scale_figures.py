"""Accuracy, speed-up, faults, memory and shards of `antithetic.dask`.

All parts but e of ``scale.py``.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import dask.array as da
import numpy as np
from common import Figure, load
from distributed import Client
from estimators import least_logistic
from scale_cluster import (
    ALPHA,
    BLOCK_ROWS,
    FEATURES,
    Made,
    cluster,
    lazily,
    made,
    model,
    on_workers,
    peak_bytes,
    round_seconds,
    stored,
)
from sklearn.datasets import make_classification
from sklearn.linear_model import SGDClassifier

import antithetic
import antithetic.dask
from antithetic.problem import Problem

BLOCKS, ROUNDS = 8, 10
ROUNDING = 1e-16  # a gap below it is none
MEMORY_RULE = 3.0  # blocks that a worker may need, as docs/scale.md says


@cache
def data(quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Standardised rows and labels of the figures."""
    X, y = make_classification(
        100_000 if quick else 1_000_000, 54, n_informative=20, flip_y=0.1, random_state=0
    )
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def in_blocks(X: np.ndarray, y: np.ndarray):
    """Return the blocks of part a, and their bytes."""
    return (
        zip(np.array_split(X, BLOCKS), np.array_split(y, BLOCKS), strict=True),
        X.nbytes + y.nbytes,
    )


# ---- the parts


def accuracy(quick: bool) -> Iterator[Figure]:
    """1,000,000 x 54, logistic, 2 workers, 8 blocks, 10 rounds: gaps to the optimum."""
    X, y = data(quick)
    problem = Problem.build(X, np.where(y == 1, 1.0, -1.0), loss="log_loss", l2=ALPHA)
    least, _ = least_logistic(problem)

    def gap(coef) -> float:
        return max(problem.objective(np.ravel(coef)) - least, ROUNDING) / (np.log(2.0) - least)

    chosen = {
        "loss": "log_loss",
        "alpha": ALPHA,
        "fit_intercept": False,
        "max_iter": ROUNDS,
        "tol": None,
        "random_state": 0,
    }
    antithetic.SGDClassifier(**chosen).fit(X[:1000], y[:1000])
    began = time.perf_counter()
    alone = antithetic.SGDClassifier(**chosen).fit(X, y)
    seconds_alone, alone_gap = time.perf_counter() - began, gap(alone.coef_)
    with stored(*in_blocks(X, y)) as blocks, cluster(2) as client:
        rows, labels = on_workers(client, blocks)
        began = time.perf_counter()
        ours = model(client, ROUNDS).fit(rows, labels)
        seconds = time.perf_counter() - began
        ours_gap, bar = gap(ours.coef_), max(1e-5, 3.0 * alone_gap)
        remark = f"gap {ours_gap:.2g}, bar {bar:.2g}; one machine {alone_gap:.2g}"
        yield Figure("gap after 10 rounds / bar", ours_gap / bar, most=1.0, remark=remark)
        yield from against_incremental(client, rows, labels, X.shape, gap, ours_gap)
    yield Figure(
        "seconds of one machine, 10 epochs, cluster started or not",
        seconds_alone,
        remark="antithetic.SGDClassifier, one thread",
    )
    yield Figure(
        "seconds of 10 rounds, data in the workers' memory",
        seconds,
        remark="with the first look, without starting a cluster",
    )


def against_incremental(
    client: Client, rows: list, labels: list, shape: tuple[int, int], gap, ours: float
) -> Iterator[Figure]:
    """Gap of Dask-ML's Incremental over the same blocks, against ours."""
    if find_spec("dask_ml") is None:
        print("left out: dask-ml is not installed")
        return
    from dask_ml.wrappers import Incremental

    n = shape[0] // BLOCKS
    X = da.concatenate([da.from_delayed(part, (n, shape[1]), dtype=np.float64) for part in rows])
    y = da.concatenate([da.from_delayed(part, (n,), dtype=np.int64) for part in labels])
    for average in (False, True):
        peer = SGDClassifier(
            "log_loss", alpha=ALPHA, fit_intercept=False, random_state=0, average=average
        )
        wrapped = Incremental(peer)
        with client.as_current():
            for _ in range(ROUNDS):
                wrapped.partial_fit(X, y, classes=[0, 1])
        theirs = gap(wrapped.coef_)
        name = (
            "powers of ten below Dask-ML's"
            f" Incremental(SGDClassifier{', average' if average else ''})"
        )
        yield Figure(
            name,
            np.log10(theirs / ours),
            least=None if average else 1.0,
            remark=f"{theirs:.2g} after 10 passes",
        )


def speed_up(quick: bool) -> Iterator[Figure]:
    """Seconds of a round with 1 worker divided by those with 2, data in memory, least of repeats.

    The compute part is a round less one of as many blocks of a few rows, which is what meeting
    costs.
    """
    sizes = (20_000 if quick else 125_000, 20)
    best = np.full((2, 2), np.inf)  # clusters, sizes
    with cluster(1) as one, cluster(2) as two:
        blocks = [[Made(k, rows, real=np.float64) for k in range(BLOCKS)] for rows in sizes]
        kept = [[(client, *on_workers(client, some)) for some in blocks] for client in (one, two)]
        for _ in range(2 if quick else 5):
            for place in np.ndindex(2, 2):
                client, rows, labels = kept[place[0]][place[1]]
                best[place] = min(
                    best[place], round_seconds(model(client, 6).fit(rows, labels)).min()
                )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    bar = 1.6 if cores >= 2 and not quick else None
    compute = best[:, 0] - best[:, 1]
    yield Figure(
        "1 worker / 2 workers, compute",
        compute[0] / compute[1],
        least=bar,
        remark=f"{compute[0]:.3f} s, {compute[1]:.3f} s a round",
    )
    remark = (
        f"{best[0, 0]:.3f} s, {best[1, 0]:.3f} s; of a few rows {best[0, 1]:.3f} s,"
        f" {best[1, 1]:.3f} s"
    )
    yield Figure("1 worker / 2 workers, all of a round", best[0, 0] / best[1, 0], remark=remark)


def killed_worker(quick: bool) -> Iterator[Figure]:
    """A worker killed (SIGKILL) in round 2 of 10: difference of the weights, and seconds lost."""
    blocks = lazily([Made(k, 20_000 if quick else 100_000) for k in range(BLOCKS)])
    with cluster(2) as client, tempfile.TemporaryDirectory() as folder:
        fits, seconds, killed = [], [], []
        for name in ("whole", "killed"):
            path = Path(folder) / f"{name}.npz"
            victim = next(iter(client.run(os.getpid).values()))
            killer = threading.Thread(
                target=kill_once_there, args=(victim, path, killed if name == "killed" else None)
            )
            killer.start()
            began = time.perf_counter()
            fits.append(model(client, ROUNDS, checkpoint=path).fit(*blocks))
            seconds.append(time.perf_counter() - began)
            killer.join()
        assert killed
        difference = np.abs(fits[0].coef_ - fits[1].coef_).max()
    yield Figure(
        "largest difference of a weight",
        difference,
        most=0.0,
        remark=f"{BLOCKS} blocks, made again by the worker left",
    )
    yield Figure(
        "seconds lost",
        seconds[1] - seconds[0],
        remark=f"{seconds[0]:.1f} s, {seconds[1]:.1f} s with the kill",
    )


def kill_once_there(victim: int, path: Path, killed: list[int] | None) -> None:
    """Kill a process in the middle of the round that follows the first one written."""
    began = time.monotonic()
    while not path.exists() and time.monotonic() < began + 300.0:
        time.sleep(0.005)
    time.sleep(0.05)
    if killed is not None:
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)


def small_memory(quick: bool) -> Iterator[Figure]:
    """6 GB on disk, 2 workers limited to 1 GB: peak memory of a worker over idle, in blocks."""
    rows, n_blocks, limit = (50_000, 112, "512MB") if quick else (BLOCK_ROWS, 112, "1GB")
    block_bytes, rounds = rows * FEATURES * 4, 3
    with stored(*made(n_blocks, rows)) as blocks, cluster(2, memory_limit=limit) as client:
        client.run(peak_bytes)  # forgets what starting has taken
        idle, pids = client.run(peak_bytes), client.run(os.getpid)
        X, y = lazily(blocks)
        fitted = model(client, rounds).fit(X, y)
        peak = client.run(peak_bytes)
        score = fitted.score(X, y)
        restarted = client.run(os.getpid) != pids
    size = (
        f"{n_blocks * block_bytes / 1e9:.1f} GB in {n_blocks} blocks of {block_bytes / 1e6:.0f} MB"
    )
    yield Figure(
        "rounds done",
        fitted.n_iter_,
        least=rounds,
        remark=f"{size}, limit {limit}; accuracy {score:.3f}",
    )
    yield Figure("workers that Dask had to restart", float(restarted), most=0.0)
    beyond = max(peak[place] - idle[place] for place in peak) / block_bytes
    megabytes = f"{max(idle.values()) / 1e6:.0f} MB idle, {max(peak.values()) / 1e6:.0f} MB at most"
    yield Figure(
        "peak memory of a worker beyond idle, in blocks",
        beyond,
        most=None if quick else MEMORY_RULE,
        remark=megabytes,
    )
    yield Figure(
        "seconds a round, read twice from disk", float(np.diff(fitted.history_["seconds"]).mean())
    )


def shards(quick: bool) -> Iterator[Figure]:
    """Variance ratio of tree tables within random shards; below 1 is a gain."""
    sets = {"make_classification": data(quick), "ijcnn1.tr": load("ijcnn1.tr")}
    for name, loaded in sets.items():
        if loaded is None:
            continue
        X, y = loaded
        X = X.toarray() if hasattr(X, "toarray") else X
        sizes = [size for size in (1000, 10_000, 100_000) if size < len(y)]
        for size in (*sizes, None):
            began = time.perf_counter()
            table = antithetic.pair(X, y, "tree", shard_rows=size, n_jobs=1, random_state=0)
            seconds = time.perf_counter() - began
            of = "all rows" if size is None else f"shards of {size:,}"
            yield Figure(
                f"{name}, {len(y):,} rows, {of}",
                table.variance_ratio(X, y),
                remark=f"{seconds:.1f} s",
            )
        yield from as_they_stand(name, X, y, 10_000)


def as_they_stand(name: str, X: np.ndarray, y: np.ndarray, size: int) -> Iterator[Figure]:
    """Tables of `antithetic.dask.pair` within blocks: rows in file order, and dealt at random."""
    rows, labels = da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)
    for dealt in (False, 8):
        table = antithetic.dask.pair(rows, labels, "tree", shuffle=dealt, random_state=0)
        how = "dealt among 8 blocks" if dealt else "as they stand"
        yield Figure(
            f"{name}, antithetic.dask.pair, blocks of {size:,}, {how}", table.variance_ratio()
        )
