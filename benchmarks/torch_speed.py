"""Seconds of the batch samplers for PyTorch: observing, and handing out indices.

Parts d and e of ``torch_training.py``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import torch
from common import Figure, best_seconds
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from torch.utils.data import BatchSampler, RandomSampler

from antithetic.pairing import GroupTable
from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler
from antithetic.torch.plan import ArmChoice

PARTS = 10  # of an epoch, which are timed one by one


def exhaust(batches) -> None:
    deque(batches, maxlen=0)


def handing_out(quick: bool) -> Iterator[Figure]:
    """Indices of an epoch, 10 million rows by 64: seconds of BatchSampler(RandomSampler) / ours."""
    n, repeats = (1_000_000, 3) if quick else (10_000_000, 3)
    labels, order = np.arange(n) % 10, np.random.default_rng(0).permutation(n)
    samplers = {
        "shuffled": AntitheticBatchSampler(None, labels, arms=()),
        "stratified": AntitheticBatchSampler(None, labels),
        "groups of a table": FirstEpoch(None, table=GroupTable(order, 64)),
        "balanced, nothing observed": BalancedBatchSampler(n),
    }
    reshuffled = BatchSampler(RandomSampler(range(n)), 64, drop_last=False)
    theirs, *ours = best_seconds(
        [lambda s=s: exhaust(s) for s in (reshuffled, *samplers.values())], repeats
    )
    for name, seconds in zip(samplers, ours, strict=True):
        yield Figure(
            f"{n:,} rows, {name}",
            theirs / seconds,
            least=1.0,
            remark=f"{theirs:.2f} s / {seconds:.2f} s",
        )


class FirstEpoch(AntitheticBatchSampler):
    """The first epoch over and over, which alone takes the groups of a table."""

    def __iter__(self):
        self.set_epoch(0)
        return super().__iter__()


def observing(quick: bool) -> Iterator[Figure]:
    """Cost of observing the CNN: CPU seconds of an epoch, 20,000 rows by 16, in turns.

    An epoch is timed in ten parts, each in turn with and without observing; the least seconds of
    each part are added, which other work on the machine disturbs less than whole epochs.
    """
    names = {"while arms are tested": 1.0, "when they are resolved": 0.05, "balanced": None}
    for name, share in names.items():
        without, with_it = least_epochs(list(trainings(share)), 3 if quick else 8)
        yield Figure(
            f"{name}: part of the time added",
            with_it / without - 1.0,
            most=0.05,
            remark=f"{1e3 * without:.1f} ms, {1e3 * with_it:.1f} ms observing",
        )


def least_epochs(trained: list[Iterator[None]], repeats: int) -> list[float]:
    """Seconds of an epoch of each: the sum over its parts of the least of so many repeats."""
    seconds = np.empty((repeats, len(trained), PARTS))
    for repeat, part in np.ndindex(repeats, PARTS):
        for number, training in enumerate(trained):
            start = time.process_time()
            next(training)
            seconds[repeat, number, part] = time.process_time() - start
    return seconds.min(axis=0).sum(axis=1).tolist()


def trainings(share: float | None) -> Iterator[Iterator[None]]:
    """Train on shuffled batches without observing, and with it, a part of an epoch at a time.

    ``share`` is that of the batches of the test; None means the balanced order.
    """
    n, generator = 20_000, torch.Generator().manual_seed(0)
    X = torch.rand(n, 1, 28, 28, generator=generator)
    y = torch.randint(10, (n,), generator=generator)
    plain = AntitheticBatchSampler(None, y, 16, arms=())
    watched = BalancedBatchSampler(n, 16) if share is None else AntitheticBatchSampler(None, y, 16)
    if share is not None:  # whatever the test would find on noise, so that both are measured
        watched._choose = lambda _, arms: ArmChoice(arms, 0, share)
        watched.set_epoch(1)
    for sampler in (plain, watched):
        training = train(sampler, X, y, observed=sampler is watched)
        for _ in range(PARTS):  # an epoch that allocates, and sees each row once
            next(training)
        yield training


def train(sampler, X: Tensor, y: Tensor, *, observed: bool) -> Iterator[None]:
    """Train a CNN for ever, and stop after each part of an epoch."""
    model = nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 5, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loss_of = getattr(sampler, "batch_loss", torch.mean)
    with sampler.observing(model) if observed else nullcontext():
        while True:
            for number, batch in enumerate(sampler, 1):
                optimizer.zero_grad()
                losses = F.cross_entropy(model(X[batch]), y[batch], reduction="none")
                loss_of(losses).backward()
                optimizer.step()
                if number % (len(sampler) // PARTS) == 0:
                    yield
