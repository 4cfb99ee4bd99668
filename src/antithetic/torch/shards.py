"""How many rows and batches each of several processes has, and what the processes tell each other.

A process here is one that torch.distributed knows.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import check_count

_SAMPLED = 4096  # rows of the features that a mark is made of


@dataclass(frozen=True, slots=True)
class Shard:
    """Batches of one process out of several, equally many and of the same lengths in each.

    Attributes
    ----------
    n : int
        Rows of the data.
    batch_size : int
    replicas : int
        Number of processes.
    rank : int
        Number of this process.
    drop_last : bool
    """

    n: int
    batch_size: int
    replicas: int
    rank: int
    drop_last: bool

    @property
    def rows(self) -> int:
        """Rows of each process in an epoch; without ``drop_last`` a few may be repeated."""
        if self.drop_last:
            return self.n // (self.replicas * self.batch_size) * self.batch_size
        return -(-self.n // self.replicas)

    @property
    def batches(self) -> int:
        """Batches of each process in an epoch; the last may be short."""
        return -(-self.rows // self.batch_size)

    @property
    def full(self) -> int:
        """Batches of the full size."""
        return self.rows // self.batch_size


def find_place(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """Number of processes, and this one's: as given, else from torch.distributed, else 1 and 0."""
    known = dist.is_available() and dist.is_initialized()
    replicas = (
        check_count(num_replicas, "num_replicas", least=1)
        if num_replicas is not None
        else dist.get_world_size()
        if known
        else 1
    )
    if rank is None:
        rank = dist.get_rank() if known and replicas > 1 else 0
        if replicas > 1 and not known:
            raise ValueError(
                f"num_replicas={replicas} needs rank=, the number of this process, since"
                " torch.distributed is not initialised"
            )
    rank = check_count(rank, "rank", least=0)
    if rank >= replicas:
        raise ValueError(
            f"rank must be below num_replicas; got rank={rank} with num_replicas={replicas}"
        )
    return replicas, rank


def check_still_true(replicas: int) -> None:
    """Raise RuntimeError if there are now more processes than torch.distributed had reported.

    They would all get the same rows.
    """
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() != replicas:
        raise RuntimeError(
            f"the sampler was made for {replicas} process, before torch.distributed was"
            f" initialised with {dist.get_world_size()}; create it afterwards (with Lightning: in"
            " train_dataloader), or pass num_replicas= and rank="
        )


def talking_processes(replicas: int, *, observing: bool) -> int:
    """Number of processes that must do the same, and share what they observe.

    Without torch.distributed the processes cannot talk to each other, so observing in several of
    them is refused.
    """
    if not (dist.is_available() and dist.is_initialized()):
        if replicas > 1 and observing:
            raise RuntimeError(
                f"observing in {replicas} processes requires torch.distributed, which is not"
                " initialised; call torch.distributed.init_process_group first, or do not observe"
            )
        return 1
    world = dist.get_world_size()
    if world > 1 and observing and replicas == 1:
        raise RuntimeError(
            f"torch.distributed has {world} processes and this sampler distributes batches for one,"
            " so the processes would observe different rows and diverge; leave num_replicas unset,"
            " and do not let other code split the batches"
        )
    if world % replicas:
        raise RuntimeError(
            f"num_replicas={replicas}, but torch.distributed has {world} processes; pass the same"
            " number"
        )
    return world if replicas > 1 else 1


def agree(arguments: dict[str, int]) -> None:
    """Raise the same ValueError in every process unless all have the same arguments.

    Processes that differ would lose or repeat rows silently, or wait for each other forever.
    """
    own = _to_device(np.array(list(arguments.values()), dtype=np.int64))
    # of different lengths only where samplers are of different kinds: the lengths come first
    length = own.new_tensor([len(own)])
    lengths = [torch.empty_like(length) for _ in range(dist.get_world_size())]
    dist.all_gather(lengths, length)
    if len({int(found) for found in lengths}) > 1:
        raise ValueError("the processes have samplers of different kinds; create the same in each")
    found = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(found, own)
    table = torch.stack(found).cpu().numpy()
    different = [
        f"{name} ({', '.join(str(value) for value in column)})"
        for name, column in zip(arguments, table.T.tolist(), strict=True)
        if len(set(column)) > 1
    ]
    if different:
        raise ValueError(
            "the samplers of the processes differ, so rows would be lost or repeated; create"
            " them with the same data and arguments, and observe in all or none. Differences by"
            f" process: {'; '.join(different)}"
        )


def mark_of(values: Any) -> int:
    """Return a number that identifies an array: a hash of its shape and some of its rows."""
    if values is None:
        return 0
    if sparse.issparse(values):
        rows = values[:: max(1, values.shape[0] // _SAMPLED)].tocsr()
        parts = [rows.data, rows.indices, np.array(values.shape)]
    else:
        array = np.asarray(values)
        parts = [array[:: max(1, len(array) // _SAMPLED)], np.array(array.shape)]
    mark = 0
    for part in parts:
        mark = zlib.crc32(np.ascontiguousarray(part).tobytes(), mark)
    return mark


def mean_over_processes(values: NDArray[np.float32], seen: NDArray[np.bool_]) -> None:
    """Bring what all processes have seen into the arrays of each, the same bits everywhere.

    Rows seen by several get the mean.
    """
    counts = _to_device(seen.astype(np.float32))
    kept = seen.reshape(-1, *[1] * (values.ndim - 1))
    sums = _to_device(np.where(kept, values, np.float32(0.0)))
    dist.all_reduce(counts)
    dist.all_reduce(sums)
    known = counts.cpu().numpy()
    found = known > 0
    values[found] = sums.cpu().numpy()[found] / known[found].reshape(-1, *[1] * (values.ndim - 1))
    seen |= found


def sum_over_processes(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the processes' arrays, the same in each."""
    tensor = _to_device(array)
    dist.all_reduce(tensor)
    total: NDArray[np.float64] = tensor.cpu().numpy()
    return total


def least(numbers: list[int]) -> list[int]:
    """Return the least of each number over all processes."""
    tensor = _to_device(np.array(numbers, dtype=np.int64))
    dist.all_reduce(tensor, dist.ReduceOp.MIN)
    found: list[int] = tensor.tolist()
    return found


def share(array: NDArray[Any]) -> NDArray[Any]:
    """Return the first process's array, in every process."""
    tensor = _to_device(array)
    dist.broadcast(tensor, src=0)
    shared: NDArray[Any] = tensor.cpu().numpy()
    return shared


def is_first() -> bool:
    """Whether this is the process that works for all."""
    return dist.get_rank() == 0


def _to_device(array: NDArray[Any]) -> torch.Tensor:
    """Return a copy of an array where the processes' way of talking wants it."""
    return torch.from_numpy(array.copy()).to("cuda" if dist.get_backend() == "nccl" else "cpu")
