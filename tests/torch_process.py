"""Training in one of two processes, in a module that imports no more than that takes."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from antithetic.torch import AntitheticBatchSampler

N, K = 40, 3
GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.randn(N, 5, generator=GENERATOR)
CLASSES = torch.randint(0, K, (N,), generator=GENERATOR)


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.ReLU(), torch.nn.Linear(6, K))


def train(rank, folder):
    """Three epochs of a model under DDP, observed; then write what came out."""
    torch.set_num_threads(1)
    early = AntitheticBatchSampler(INPUTS, CLASSES, 4, method="random")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    sampler, net = AntitheticBatchSampler(INPUTS, CLASSES, 4, importance=True), model()
    parallel = torch.nn.parallel.DistributedDataParallel(net)
    optimiser = torch.optim.SGD(parallel.parameters(), lr=0.1)
    epochs = []
    with sampler.observing(net[2]):
        for epoch in range(3):
            sampler.set_epoch(epoch)
            epochs.append([])
            for batch in sampler:
                epochs[-1].append(batch)
                optimiser.zero_grad()
                cross_entropy(parallel(INPUTS[batch]), CLASSES[batch]).backward()
                optimiser.step()
    # Other code deals out the batches of this sampler.
    alike = AntitheticBatchSampler(INPUTS, CLASSES, 4, num_replicas=1, rank=0)
    alike.observe(
        range(rank * N // 2, (rank + 1) * N // 2), INPUTS[rank * N // 2 : (rank + 1) * N // 2]
    )
    written = {
        "alike": list(alike),
        "lone": lone(rank),
        "epochs": epochs,
        "order": torch.from_numpy(sampler.table.order.copy()),
        "chances": torch.from_numpy(sampler._chances),
    }
    torch.save(
        {
            **written,
            "weight": net[2].weight.detach(),
            "refused": refuse(rank),
            "early": message_of(early),
        },
        f"{folder}/{rank}",
    )
    dist.destroy_process_group()


def lone(rank):
    """The batches if one process of two has observed rows and the other has not."""
    sampler = AntitheticBatchSampler(INPUTS, CLASSES, 4, num_replicas=1, rank=0)
    with sampler.observing(torch.nn.Linear(5, K)):
        if rank == 0:
            sampler.observe(range(N), INPUTS)
        return list(sampler)


def refuse(rank):
    """What a sampler for three processes says when there are two."""
    other = AntitheticBatchSampler(INPUTS, CLASSES, 4, num_replicas=3, rank=rank)
    other.observe(range(N), INPUTS)
    return message_of(other)


def message_of(sampler):
    """What it says instead of giving a batch."""
    try:
        next(iter(sampler))
    except RuntimeError as error:
        return str(error)
    return ""
