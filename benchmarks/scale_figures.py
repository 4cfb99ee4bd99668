"""Faults, memory and shards of `antithetic.dask`: parts c, d and f of ``scale.py``."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dask.array as da
import numpy as np
from common import Figure, load
from scale_cluster import (
    BLOCK_ROWS,
    FEATURES,
    Made,
    cluster,
    lazily,
    made,
    model,
    peak_bytes,
    stored,
)
from sklearn.datasets import make_classification

import antithetic
import antithetic.dask

BLOCKS = 8
MEMORY_RULE = 3.0  # blocks that a worker may need, as docs/scale.md says


@cache
def data(quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Standardised rows and labels of the figures."""
    X, y = make_classification(
        100_000 if quick else 1_000_000, 54, n_informative=20, flip_y=0.1, random_state=0
    )
    return (X - X.mean(axis=0)) / X.std(axis=0), y


# ---- the parts


def killed_worker(quick: bool) -> Iterator[Figure]:
    """A worker killed (SIGKILL) in an iteration: difference of the weights, and seconds lost."""
    rows = 20_000 if quick else 100_000
    blocks = lazily([Made(k, rows) for k in range(BLOCKS)])
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
            fits.append(model(client, BLOCKS * rows, tol=1e-8, checkpoint=path).fit(*blocks))
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
    block_bytes = rows * FEATURES * 4
    with stored(*made(n_blocks, rows)) as blocks, cluster(2, memory_limit=limit) as client:
        client.run(peak_bytes)  # forgets what starting has taken
        idle, pids = client.run(peak_bytes), client.run(os.getpid)
        X, y = lazily(blocks)
        began = time.perf_counter()
        fitted = model(client, n_blocks * rows, fit_intercept=True).fit(X, y)
        seconds = time.perf_counter() - began
        peak = client.run(peak_bytes)
        score = fitted.score(X, y)
        restarted = client.run(os.getpid) != pids
    size = (
        f"{n_blocks * block_bytes / 1e9:.1f} GB in {n_blocks} blocks of {block_bytes / 1e6:.0f} MB"
    )
    yield Figure(
        "certified gap",
        fitted.gap_,
        most=1e-4,
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
        "seconds, read from disk in each round", seconds, remark=f"{fitted.n_rounds_} rounds"
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
    """Tables of `antithetic.dask.pair` within blocks: rows in file order."""
    rows, labels = da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)
    table = antithetic.dask.pair(rows, labels, "tree", random_state=0)
    figure = f"{name}, antithetic.dask.pair, blocks of {size:,}, as they stand"
    yield Figure(figure, table.variance_ratio())
