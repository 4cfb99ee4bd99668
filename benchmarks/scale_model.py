"""A cost model of a round, measured on this machine and compared with runs.

This is part e of ``scale.py``.

With n rows of d features in K blocks on k workers, a round takes

    n d compute / k  +  bytes / (k bandwidth)  +  K task  +  fixed     seconds,

for each block is read once, by a task, which passes through one scheduler. Over the network go ``K
per_block + per_round`` bytes, and none of the data, unless the disk is at the other end of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import Figure
from distributed import Client
from scale_cluster import (
    BLOCK_ROWS,
    FEATURES,
    Made,
    Stored,
    cluster,
    gradient_rounds,
    lazily,
    made,
    on_workers,
    stored,
)

WORKERS = 2
FEW, MANY = 4, 68  # blocks of the runs that tell what tasks cost
WITHIN = 1.5


@dataclass(frozen=True)
class Constants:
    """What was measured.

    Attributes
    ----------
    compute : float
        Seconds of a round per entry of X, in the memory of a worker, while all workers are busy.
    bandwidth : float
        Bytes a second that each worker reads from disk, while all do.
    task, fixed : float
        Seconds of a round per block, and once.
    per_block, per_round : float
        Bytes over the network per block and round, and once a round; nan where they cannot be
        counted.
    """

    compute: float
    bandwidth: float
    task: float
    fixed: float
    per_block: float
    per_round: float

    def seconds(
        self, rows: float, features: int, blocks: float, workers: int, real: int = 4
    ) -> float:
        """Predict a round; ``real`` is the bytes of a number."""
        entries = rows * features
        busy = -(-blocks // workers) / blocks  # the last block may be alone
        return (
            busy * (entries * self.compute + real * entries / self.bandwidth)
            + blocks * self.task
            + self.fixed
        )

    def network(self, blocks: float) -> float:
        """Predict the bytes of a round over the network."""
        return blocks * self.per_block + self.per_round


def measure(client: Client, blocks: list[Stored], repeats: int) -> Constants:
    """Measure the constants: fits of very few rows, fits of blocks in memory, and reading."""
    few, many = (tasks_only(client, count, repeats) for count in (FEW, MANY))
    task, per_block = ((many[k] - few[k]) / (MANY - FEW) for k in (0, 1))
    fixed, per_round = few[0] - FEW * task, few[1] - FEW * per_block
    compute = in_memory(client, blocks[:WORKERS], repeats) - WORKERS * task - fixed
    entries = sum(block.rows for block in of_size(blocks[:WORKERS])) * FEATURES
    return Constants(
        WORKERS * compute / entries,
        bandwidth(client, blocks),
        task,
        max(0.0, fixed),
        per_block,
        max(0.0, per_round),
    )


def of_size(blocks: list[Stored]) -> list[Made]:
    """Blocks in memory as large as some on disk."""
    return [
        Made(block.number, len(np.load(block.path("labels"), mmap_mode="r"))) for block in blocks
    ]


def tasks_only(client: Client, count: int, repeats: int) -> tuple[float, float]:
    """Least seconds and bytes of a round of blocks with two rows."""
    data = lazily([Made(k, 2) for k in range(count)])
    seconds, sent = [], []
    for _ in range(repeats):
        before, rounds = loopback(), 8
        took = gradient_rounds(client, *data, rounds)
        sent.append((loopback() - before) / (rounds + 1))  # one more: the first look
        seconds.append(np.median(took))
    return min(seconds), min(sent)


def in_memory(client: Client, blocks: list[Stored], repeats: int) -> float:
    """Least seconds of a round in which each worker has one block, in memory."""
    rows, labels = on_workers(client, of_size(blocks))
    return min(float(np.median(gradient_rounds(client, rows, labels, 6))) for _ in range(repeats))


def bandwidth(client: Client, blocks: list[Stored]) -> float:
    """Bytes a second of each worker while all read, after what the page cache held is dropped."""
    for block in blocks:
        block.read_rows()
    shares = [blocks[k::WORKERS] for k in range(WORKERS)]
    places = sorted(client.scheduler_info(n_workers=-1)["workers"])
    futures = [
        client.submit(read_all, share, workers=[place], pure=False)
        for share, place in zip(shares, places, strict=True)
    ]
    return float(np.mean(client.gather(futures)))


def read_all(blocks: list[Stored]) -> float:
    """Bytes a second of reading blocks one after the other."""
    began = time.perf_counter()
    read = sum(block.read_rows().nbytes for block in blocks)
    return read / (time.perf_counter() - began)


def loopback() -> float:
    """Bytes sent over the loopback so far, by local clusters and all other programs."""
    counters = Path("/proc/net/dev")
    lines = counters.read_text().splitlines() if counters.exists() else []
    return next(
        (float(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("lo:")),
        np.nan,
    )


def cost_model(quick: bool) -> Iterator[Figure]:
    """A model of seconds and bytes: constants, predictions against runs, and 10^9 rows."""
    sizes = {100_000: 4, 1_000_000: 4} if quick else {100_000: 4, 1_000_000: 4, 10_000_000: 40}
    with cluster(WORKERS) as client:
        with stored(*made(8, BLOCK_ROWS // 4 if quick else BLOCK_ROWS)) as blocks:
            found = measure(client, blocks, 1 if quick else 3)
        yield Figure("compute: ns per entry and round", 1e9 * found.compute)
        yield Figure("bandwidth: MB/s of each worker from disk", found.bandwidth / 1e6)
        yield Figure("task: ms per block and round", 1e3 * found.task)
        yield Figure("fixed: ms per round", 1e3 * found.fixed)
        yield Figure("network: kB per block and round", found.per_block / 1e3)
        yield Figure("network: kB per round besides", found.per_round / 1e3)
        for rows, count in sizes.items():
            yield from checked(client, found, rows, count, quick)
    print(table_of_a_billion(found))


def checked(
    client: Client, found: Constants, rows: int, count: int, quick: bool
) -> Iterator[Figure]:
    """A run from disk, its seconds divided by the predicted ones."""
    with stored(*made(count, rows // count)) as blocks:
        took = gradient_rounds(client, *lazily(blocks), 5)
    seconds, predicted = (
        float(np.median(took)),
        found.seconds(rows, FEATURES, count, WORKERS),
    )
    bars = {} if quick else {"least": 1.0 / WITHIN, "most": WITHIN}
    remark = f"{seconds:.3f} s a round, predicted {predicted:.3f} s"
    yield Figure(
        f"{rows:,} rows in {count} blocks: seconds / predicted",
        seconds / predicted,
        **bars,
        remark=remark,
    )


def table_of_a_billion(found: Constants, rows: float = 1e9) -> str:
    """Return what 10^9 rows cost, as the table of docs/scale.md."""
    blocks = rows / BLOCK_ROWS
    share, block = rows * FEATURES * 4, BLOCK_ROWS * FEATURES * 4
    network = found.network(blocks)
    lines = [
        (
            f"\n10^9 rows x {FEATURES} float32 ({share / 1e9:.0f} GB) in {blocks:.0f} blocks of"
            f" {block / 1e6:.0f} MB, by the model:\n"
        ),
        (
            "| workers | seconds a round | of these compute | reading | tasks | 10 rounds | read by"
            " each, per round | network per round |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for workers in (1, 2, 8, 32, 128):
        compute, reading = (
            rows * FEATURES * found.compute / workers,
            share / found.bandwidth / workers,
        )
        whole = found.seconds(rows, FEATURES, blocks, workers)
        lines.append(
            f"| {workers} | {whole:.0f} | {compute:.0f} | {reading:.0f} | {blocks * found.task:.0f}"
            f" | {10 * whole / 60:.0f} min | {share / workers / 1e9:.1f} GB |"
            f" {network / 1e6:.0f} MB |"
        )
    return "\n".join(lines)
