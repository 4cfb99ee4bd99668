"""Helpers for the Dask tests: clusters, small data in blocks, and objectives on one machine."""

from __future__ import annotations

import contextlib
import gc
import warnings

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

QUIET = {
    "distributed.worker.memory.terminate": False,
    "distributed.comm.timeouts.connect": "300s",
    "distributed.comm.timeouts.tcp": "300s",
    "distributed.scheduler.worker-ttl": None,  # a busy machine is no dead worker
    "distributed.nanny.pre-spawn-environ": {
        "OMP_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
    },
    "logging.distributed": "critical",
}


@contextlib.contextmanager
def quiet():
    """Ignore warnings that Dask causes at start and end: closed sockets and its deprecations."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        warnings.filterwarnings(
            "ignore", category=DeprecationWarning, module="distributed|tornado|asyncio"
        )
        yield


@contextlib.contextmanager
def cluster(*, processes, n_workers=2, memory_limit=None, config=None, **more):
    """A client of a cluster of its own.

    What it leaves behind is collected here, and not in the middle of another test.
    """
    given = QUIET | (config or {})
    with dask.config.set(given), contextlib.ExitStack() as open_ones:
        open_ones.callback(gc.collect)
        with quiet():
            own = open_ones.enter_context(
                LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    processes=processes,
                    dashboard_address="127.0.0.1:0",
                    memory_limit=memory_limit,
                    silence_logs=50,
                    **more,
                )
            )
            client = open_ones.enter_context(
                Client(
                    own, set_as_default=False, timeout=given["distributed.comm.timeouts.connect"]
                )
            )
        yield client
        with quiet():
            open_ones.close()


def labelled(n=600, d=5, seed=0, classes=2):
    """Rows and labels that no line separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if classes == 2:
        return X, np.where(X @ np.linspace(1.0, -1.0, d) + rng.normal(size=n) > 0.0, 1, 0)
    return X, (X[:, :classes] + 0.7 * rng.normal(size=(n, classes))).argmax(axis=1)


def in_blocks(X, y, lengths):
    """Both as Dask arrays with blocks of these lengths."""
    return da.from_array(X, chunks=(tuple(lengths), -1)), da.from_array(y, chunks=(tuple(lengths),))
