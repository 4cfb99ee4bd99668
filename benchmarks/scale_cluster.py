"""Local clusters, and data made or read block by block, for ``scale.py`` and ``scale_model.py``."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dask
import numpy as np
from distributed import Client, LocalCluster, wait

ALPHA = 1e-4
FEATURES = 54
BLOCK_ROWS = 250_000  # of 54 float32: 54 MB
QUIET = {
    "distributed.nanny.pre-spawn-environ": {
        "OMP_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
    },
    "distributed.comm.timeouts.connect": "60s",
    "distributed.comm.timeouts.tcp": "60s",
    "logging.distributed": "critical",
}


@contextlib.contextmanager
def cluster(n_workers: int, memory_limit: str | None = None) -> Iterator[Client]:
    """Start worker processes of one thread each, and load the kernels with a fit of a few rows."""
    given = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": 50,
    }
    with (
        dask.config.set(QUIET),
        LocalCluster(n_workers=n_workers, memory_limit=memory_limit, **given) as own,
        Client(own, set_as_default=False, timeout="60s") as client,
    ):
        warm_up(client, n_workers)
        yield client


def warm_up(client: Client, n_workers: int) -> None:
    """Have each worker do all that a fit does, in both float types."""
    for real in (np.float32, np.float64):
        data = on_workers(client, [Made(k, 500, real=real) for k in range(4 * n_workers)])
        model(client, 2000 * n_workers).fit(*data)


def model(client: Client, rows: int, **given):
    """The model of the figures: mean log loss and an L2 penalty of ALPHA, without an intercept."""
    # Imported here, because workers import this file and do not need scikit-learn.
    from antithetic.dask import LogisticRegression

    chosen = {"C": 1.0 / (ALPHA * rows), "fit_intercept": False}
    return LogisticRegression(**chosen | given, client=client)


def gradient_rounds(client: Client, rows: list, labels: list, many: int) -> np.ndarray:
    """Seconds of rounds that ask all blocks for objective and gradient."""
    from antithetic.dask.common import Common
    from antithetic.dask.reading import read_blocks
    from antithetic.dask.scan import Look, census_of, look
    from antithetic.dask.sums import BlockSums
    from antithetic.estimators.one_vs_rest import OneVsRest
    from antithetic.problem.losses import LOSSES
    from antithetic.problem.penalties import ElasticNet

    loss, classes = LOSSES["log_loss"], np.array([0, 1])
    blocks = read_blocks(rows, labels, client=client)
    census = census_of(look(client, blocks, Look(loss)), classes, loss)
    parts = OneVsRest(classes)
    common = Common(loss, ElasticNet(ALPHA), False, parts, census.rows)
    sums, theta = BlockSums(client, blocks, common, census), np.zeros(census.d)
    seconds = []
    for _ in range(many):
        began = time.perf_counter()
        sums.at(theta)
        seconds.append(time.perf_counter() - began)
    return np.array(seconds)


def peak_bytes() -> int:
    """Most memory that this process has had since the last call.

    Since it began, where there is no /proc.

    What the system counts begins with the memory of the process from which this one was started.
    """
    try:
        status = Path("/proc/self/status").read_text()
        Path("/proc/self/clear_refs").write_text("5")  # the next peak begins with what there is now
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


# ---- blocks


@dataclass(frozen=True)
class Made:
    """A block that is made from its number whenever it is read."""

    number: int
    rows: int
    features: int = FEATURES
    real: type = np.float32

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows, and labels of a linear model with logistic noise."""
        rng = np.random.default_rng((7, self.number))
        X = rng.standard_normal((self.rows, self.features), dtype=self.real)
        return X, (
            X @ np.cos(np.arange(self.features)).astype(self.real) + rng.logistic(size=self.rows)
            > 0.0
        ).astype(np.int8)


@dataclass(frozen=True)
class Stored:
    """A block in two files of a folder.

    ``cold`` drops them from the page cache once read, as if there were more than memory holds.
    """

    folder: str
    number: int
    cold: bool = True

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and labels."""
        return self.read_rows(), np.load(self.path("labels"))

    def read_rows(self) -> np.ndarray:
        """Rows alone."""
        with open(self.path("rows"), "rb") as file:
            X = np.load(file)
            if self.cold and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return X

    def path(self, name: str) -> str:
        """Name of a file."""
        return os.path.join(self.folder, f"{name}-{self.number:05}.npy")

    def write(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Write a block, down to the disk: what is not there yet cannot be dropped."""
        for name, values in (("rows", rows), ("labels", labels)):
            with open(self.path(name), "wb") as file:
                np.save(file, values)
                file.flush()
                os.fsync(file.fileno())


def lazily(blocks: list) -> tuple[list, list]:
    """Rows and labels as lists of delayed values, which each task reads again."""
    rows = dask.delayed(_rows, pure=False, traverse=False)
    labels = dask.delayed(_labels, pure=False, traverse=False)
    return [rows(block) for block in blocks], [labels(block) for block in blocks]


def on_workers(client: Client, blocks: list) -> tuple[list, list]:
    """Rows and labels in the memory of the workers, dealt out in turn."""
    places = sorted(client.scheduler_info(n_workers=-1)["workers"])
    kept = [
        client.persist(list(both), workers=[places[k % len(places)]])
        for k, both in enumerate(zip(*lazily(blocks), strict=True))
    ]
    with client.as_current():
        wait(kept)
    return [both[0] for both in kept], [both[1] for both in kept]


def _rows(block) -> np.ndarray:
    return block.read_rows() if hasattr(block, "read_rows") else block.read()[0]


def _labels(block) -> np.ndarray:
    return np.load(block.path("labels")) if hasattr(block, "path") else block.read()[1]


@contextlib.contextmanager
def stored(blocks: Iterable[tuple[np.ndarray, np.ndarray]], needed: int) -> Iterator[list[Stored]]:
    """Blocks of so many bytes in files of a folder that is deleted in the end.

    TMPDIR says on which disk.
    """
    with tempfile.TemporaryDirectory(prefix="antithetic-scale-") as folder:
        free = shutil.disk_usage(folder).free
        if free < 1.2 * needed:
            raise SystemExit(
                f"{Path(folder).parent} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are"
                " written; set TMPDIR"
            )
        written = []
        for k, block in enumerate(blocks):
            written.append(Stored(folder, k))
            written[-1].write(*block)
        yield written


def made(n_blocks: int, rows: int) -> tuple[Iterator[tuple[np.ndarray, np.ndarray]], int]:
    """Return blocks to be stored, one at a time, and their bytes."""
    return (Made(k, rows).read() for k in range(n_blocks)), n_blocks * rows * (4 * FEATURES + 1)
