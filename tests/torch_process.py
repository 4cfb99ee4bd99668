"""Training in one of two processes, with as few imports as possible."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler

N, K = 40, 3
GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.randn(N, 5, generator=GENERATOR)
CLASSES = torch.randint(0, K, (N,), generator=GENERATOR)
# enough for two processes to make blocks of all arms
MANY, TARGETS = torch.randn(80, 5, generator=GENERATOR), torch.arange(80) % K


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.ReLU(), torch.nn.Linear(6, K))


def join(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)


def train(rank, folder):
    """Three epochs of a model under DDP, observed; then write what came out."""
    early = AntitheticBatchSampler(MANY, TARGETS, 4)
    join(rank, folder)
    sampler = AntitheticBatchSampler(MANY, TARGETS, 4, arms=["stratified", "groups", "importance"])
    net = model()
    parallel = torch.nn.parallel.DistributedDataParallel(net)
    optimiser = torch.optim.SGD(parallel.parameters(), lr=0.1)
    epochs, arms = [], []
    with sampler.observing(parallel) as watch:
        for epoch in range(3):
            sampler.set_epoch(epoch)
            epochs.append([])
            for batch in sampler:
                epochs[-1].append(list(batch))
                optimiser.zero_grad()
                losses = cross_entropy(parallel(MANY[batch]), TARGETS[batch], reduction="none")
                sampler.batch_loss(losses).backward()
                optimiser.step()
                arms.append(watch.current.batch.arm)
        next(iter(sampler))  # what was seen is gathered
    written = {
        "epochs": epochs,
        "arms": torch.tensor(arms).reshape(3, -1),
        "norms": torch.from_numpy(sampler._norms.values),
        "sums": torch.from_numpy(sampler._trust.sums),
        "weight": net[2].weight.detach(),
        "early": message_of(early),
        "refused": message_of(AntitheticBatchSampler(MANY, TARGETS, num_replicas=3, rank=rank)),
    }
    alone = AntitheticBatchSampler(MANY, TARGETS, num_replicas=1, rank=0)
    with alone.observing(net):
        written["alone"] = message_of(alone)
    torch.save(written, f"{folder}/{rank}")
    dist.destroy_process_group()


def differ(rank, folder):
    """Errors of samplers that differ between the processes."""
    join(rank, folder)
    n = 80 - rank
    cases = {
        "same": AntitheticBatchSampler(MANY, TARGETS, 4),
        "seed": AntitheticBatchSampler(MANY, TARGETS, 4, seed=rank),
        "rows": AntitheticBatchSampler(MANY[:n], TARGETS[:n], 4),
        "features": AntitheticBatchSampler(MANY + rank, TARGETS, 4),
        "labels": AntitheticBatchSampler(MANY, (TARGETS + rank) % K, 4),
        "batch_size": AntitheticBatchSampler(MANY, TARGETS, 4 + rank),
        "kinds": (BalancedBatchSampler(80, 4) if rank else AntitheticBatchSampler(None, TARGETS)),
        "balanced": BalancedBatchSampler(n, 4),
    }
    found = {name: message_of(sampler) for name, sampler in cases.items()}
    observed = AntitheticBatchSampler(MANY, TARGETS, 4)
    if rank == 0:
        with observed.observing(model()):
            found["observers"] = message_of(observed)
    else:
        found["observers"] = message_of(observed)
    other = AntitheticBatchSampler(MANY, TARGETS, 4)
    net = model()
    with other.observing(net, net[0] if rank else None):
        found["heads"] = message_of(other)
    torch.save(found, f"{folder}/{rank}")
    dist.destroy_process_group()


def message_of(sampler):
    """Message of the error that a sampler raises instead of giving a batch."""
    try:
        next(iter(sampler))
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""
