"""Seconds of the batch samplers for PyTorch: handing out indices, and observing.

Parts c and d of ``torch_batches.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import torch
from common import Figure, best_seconds
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Subset, TensorDataset

from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler

SIZE = 64


def exhaust(batches) -> None:
    deque(batches, maxlen=0)


def iterating(quick: bool) -> Iterator[Figure]:
    """Indices of an epoch, 10 million rows by 64: seconds of BatchSampler(RandomSampler) / ours."""
    n, repeats = (1_000_000, 3) if quick else (10_000_000, 5)
    order = np.random.default_rng(0).permutation(n)
    partner = np.empty(n, dtype=np.intp)
    partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    samplers = {
        "groups of 64": AntitheticBatchSampler(None, None, SIZE, table=GroupTable(order, SIZE)),
        "pairs": AntitheticBatchSampler(
            None, None, SIZE, table=AntitheticTable(partner), nest=False
        ),
        "random order (BalancedBatchSampler, nothing observed)": BalancedBatchSampler(n, SIZE),
    }
    reshuffled = BatchSampler(RandomSampler(range(n)), SIZE, drop_last=False)
    theirs, *ours = best_seconds(
        [lambda s=s: exhaust(s) for s in (reshuffled, *samplers.values())], repeats
    )
    for (name, least), seconds in zip(
        zip(samplers, (5.0, 2.5, None), strict=True), ours, strict=True
    ):
        yield Figure(
            f"{n:,} rows, {name}",
            theirs / seconds,
            least=least,
            remark=f"{theirs:.2f} s / {seconds:.2f} s",
        )


def observing(quick: bool) -> Iterator[Figure]:
    """Cost of observing while training the MLP (784-128-10): least seconds of 100 batches of 64.

    Runs with and without observing take turns.
    """
    for name in ("groups", "balanced"):
        for loaded in (True, False):
            without, with_it = best_seconds(list(trainings(name, loaded)), 10 if quick else 60)
            way = "from a DataLoader" if loaded else "indexed at once"
            remark = f"{1e3 * without:.1f} ms, {1e3 * with_it:.1f} ms observing"
            yield Figure(
                f"{name}, batches {way}: part of the time added",
                with_it / without - 1.0,
                most=0.05,
                remark=remark,
            )
    yield from regrouping(12_000 if quick else 60_000)


def trainings(name: str, loaded: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """Train on 100 batches without observing, and with it.

    Rows lie among 60,000, as in a whole epoch of MNIST.
    """
    n, generator = 100 * SIZE, torch.Generator().manual_seed(0)
    X, y = (
        torch.rand(60_000, 784, generator=generator),
        torch.randint(10, (60_000,), generator=generator),
    )
    rows = torch.randperm(60_000, generator=generator)[:n]
    sampler, dataset = (
        make_sampler(name, n, refresh=None),
        Subset(TensorDataset(X, y), rows.tolist()),
    )
    loader = DataLoader(dataset, batch_sampler=sampler)
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def without() -> None:
        train(
            model,
            optimizer,
            loader if loaded else ((X[rows[batch]], y[rows[batch]]) for batch in sampler),
        )

    def with_it() -> None:
        with sampler.observing(model[-1], targets=y[rows]):
            without()

    with_it()  # compiles what is to be compiled, and allocates
    return without, with_it


def make_sampler(name: str, n: int, refresh: int | None = 1):
    if name == "balanced":
        return BalancedBatchSampler(n, SIZE)
    return AntitheticBatchSampler(
        None, None, SIZE, table=GroupTable(np.arange(n), SIZE), refresh=refresh
    )


def train(model, optimizer, batches) -> None:
    for inputs, targets in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def regrouping(n: int) -> Iterator[Figure]:
    """Seconds to regroup from what was observed, once per epoch unless ``refresh`` differs."""
    vectors = torch.randn(n, 32, generator=torch.Generator().manual_seed(0))

    def regroup() -> None:
        sampler = make_sampler("groups", n)
        sampler.observe(np.arange(n), vectors)
        next(iter(sampler))

    yield Figure(
        f"seconds of making groups of {n:,} observed rows, 32 numbers each",
        best_seconds([regroup], 3)[0],
    )
