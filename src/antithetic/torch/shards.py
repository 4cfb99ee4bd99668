"""Which part of an epoch's order a process takes: whole batches, so that groups stay whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from antithetic._util.validation import check_count
from antithetic.torch.order import EpochOrder, Indices

BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Shard:
    """The batches of one process out of several, equally many and of the same lengths in each.

    Batch after batch is dealt to the processes in turn. What does not give every process another
    batch is dealt in pairs: without ``drop_last`` the fewest pairs are repeated that make equal
    parts, those with which the epoch began.

    Attributes
    ----------
    n : int
        Rows of an epoch.
    batch_size : int
    replicas : int
        Number of processes.
    rank : int
        Number of this process.
    drop_last : bool
    unit : int, default=2
        Rows that stay together when the last are dealt.
    """

    n: int
    batch_size: int
    replicas: int
    rank: int
    drop_last: bool
    unit: int = 2

    @property
    def chunk(self) -> int:
        """Rows dealt at once: a batch, or two where one would part a pair."""
        return self.batch_size * (1 + (self.replicas > 1 and self.batch_size % 2))

    @property
    def rows(self) -> int:
        """Rows of each process in an epoch."""
        if self.drop_last:
            return self.n // (self.replicas * self.batch_size) * self.batch_size
        units = -(-self.n // self.unit)
        return self.n if self.replicas == 1 else self.unit * -(-units // self.replicas)

    @property
    def batches(self) -> int:
        """Batches of each process in an epoch; the last may be short."""
        return -(-self.rows // self.batch_size)

    @property
    def dealt(self) -> int:
        """Rows of each process that were dealt in chunks."""
        return self.n // (self.replicas * self.chunk) * self.chunk

    def take(self, order: EpochOrder, start: int, stop: int) -> Indices:
        """Rows of this process from one place to another, of which the first is that of a batch."""
        dealt, size = min(self.dealt, self.rows), order.groups.shape[1]
        middle = min(max(start, dealt), stop)
        if self.chunk % size or start % size or middle % size:
            head = order.rows_at(self._places(start, middle, self.chunk))
        else:
            head = order.groups_at(self._places(start // size, middle // size, self.chunk // size))
        return (
            head
            if middle == stop
            else np.concatenate([head, order.rows_at(self._last_places(middle, stop))])
        )

    def _places(self, start: int, stop: int, chunk: int) -> Indices:
        """Places in the whole order of what was dealt to this process, in rows or in groups."""
        own = np.arange(start, stop)
        return (
            own
            if self.replicas == 1
            else own + (own // chunk * (self.replicas - 1) + self.rank) * chunk
        )

    def _last_places(self, start: int, stop: int) -> Indices:
        dealt = min(self.dealt, self.rows)
        places = (
            np.arange(start, stop) + dealt * (self.replicas - 1) + self.rank * (self.rows - dealt)
        )
        beyond = places - self.n
        # after a single row comes one that makes it a pair, and from then on whole pairs again
        return np.where(beyond < 0, places, (beyond + (self.n % 2) * (beyond > 0)) % self.n)


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
            f" initialised, which has {dist.get_world_size()}; make it afterwards (with Lightning:"
            " in train_dataloader), or give num_replicas= and rank="
        )


def place_among_observers(replicas: int) -> tuple[int, int]:
    """Number of processes that observe, and this one's.

    All that torch.distributed knows, whether batches are dealt out here or elsewhere.
    """
    if not (dist.is_available() and dist.is_initialized()):
        if replicas == 1:
            return 1, 0
        raise RuntimeError(
            f"what {replicas} processes observe is gathered by torch.distributed, which is not"
            " initialised; call torch.distributed.init_process_group first, or do not observe"
        )
    if dist.get_world_size() % replicas:
        raise RuntimeError(
            f"num_replicas={replicas}, but torch.distributed has {dist.get_world_size()} processes;"
            " give the same number"
        )
    return dist.get_world_size(), dist.get_rank()


def gather(vectors: NDArray[np.float32], seen: NDArray[np.bool_]) -> None:
    """Bring what all processes have seen into the arrays of each, the same bits everywhere.

    Rows seen by several get the mean.
    """
    counts = _to_device(seen.astype(np.float32))
    sums = _to_device(np.where(seen[:, None], vectors, np.float32(0.0)))
    dist.all_reduce(counts)
    dist.all_reduce(sums)
    known = counts.cpu().numpy()
    found = known > 0
    vectors[found] = sums.cpu().numpy()[found] / known[found, None]
    seen |= found


def largest(numbers: list[int]) -> list[int]:
    """Return the largest of each number over all processes."""
    tensor = _to_device(np.array(numbers, dtype=np.int64))
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    found: list[int] = tensor.tolist()
    return found


def share(array: NDArray[Any]) -> NDArray[Any]:
    """Return the first process's array, in every process."""
    tensor = _to_device(array)
    dist.broadcast(tensor, src=0)
    shared: NDArray[Any] = tensor.cpu().numpy()
    return shared


def _to_device(array: NDArray[Any]) -> torch.Tensor:
    """Return a copy of an array where the processes' way of talking wants it."""
    return torch.from_numpy(array.copy()).to("cuda" if dist.get_backend() == "nccl" else "cpu")
