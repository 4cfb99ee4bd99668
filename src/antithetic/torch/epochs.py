"""What all batch samplers share: epochs, batches cut from lists, and a state to resume from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import Sampler

from antithetic._util.validation import check_count
from antithetic.torch.coordinates import Vectors
from antithetic.torch.observe import ObserveHead
from antithetic.torch.order import Indices
from antithetic.torch.shards import BLOCK, Shard, check_still_true, find_place
from antithetic.torch.targets import read_targets

_FORMAT = 1


@dataclass(slots=True)
class Place:
    """How far an iteration is: the epoch, the batches it has given, and whether it is over."""

    epoch: int
    batches: int = 0
    over: bool = False


class EpochSampler(Sampler[list[int]]):
    """Batches of row numbers, epoch after epoch; subclasses say in which order."""

    def __init__(
        self,
        n: int,
        batch_size: int,
        drop_last: bool,
        generator: torch.Generator | None,
        seed: int,
        num_replicas: int | None,
        rank: int | None,
        unit: int = 2,
    ) -> None:
        self.batch_size = check_count(batch_size, "batch_size", least=1)
        self.drop_last = bool(drop_last)
        self.num_replicas, self.rank = find_place(num_replicas, rank)
        # Whether torch.distributed was asked how many processes there are.
        self._asked = num_replicas is None
        self.seed = read_seed(generator, seed)
        self._shard = Shard(n, self.batch_size, self.num_replicas, self.rank, self.drop_last, unit)
        self._current: Place | None = None
        self._next: Place | None = Place(0)
        self._watch: ObserveHead | None = None

    @abstractmethod
    def _prepare(self, epoch: int) -> None:
        """Learn from what was observed in the last epoch, before one begins."""

    @abstractmethod
    def _arrange(self, epoch: int) -> None:
        """Make the order of an epoch that begins or goes on.

        It is a pure function of the seed, the epoch and what was learnt.
        """

    @abstractmethod
    def _rows(self, start: int, stop: int) -> Indices:
        """Rows of this process from one place to another, of which the first is that of a batch."""

    @abstractmethod
    def observe(self, indices: Any, vectors: Any, slopes: Any = None) -> None:
        """Show the sampler the gradients of some rows, or what stands for them."""

    @abstractmethod
    def learn(self, rows: Indices, vectors: Vectors, slopes: Vectors) -> None:
        """Take in what :meth:`observe` has read, or an observer that needs no checks.

        Slopes without columns mean that there are none.
        """

    @abstractmethod
    def forget(self) -> None:
        """Discard what was observed since the last order: rows and vectors may not match."""

    def _default_targets(self) -> Any:
        """Labels of the rows, where they are known."""
        return None

    @abstractmethod
    def _learnt(self) -> dict[str, Any]:
        """What the state has beside the place: tensors and numbers."""

    @abstractmethod
    def _relearn(self, state: dict[str, Any]) -> None:
        """Take that over from a state."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._shard.n

    @property
    def sampler(self) -> EpochSampler:
        """The sampler itself: Lightning and accelerate call ``batch_sampler.sampler.set_epoch``."""
        return self

    @property
    def epoch(self) -> int:
        """The epoch that is under way, or begins next."""
        return self._place().epoch

    def __len__(self) -> int:
        """Batches of an epoch, the same in every process."""
        return self._shard.batches

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be that of this epoch.

        Without, each iteration is the epoch after the last one.

        Where a state was loaded in the middle of the same epoch, the iteration still goes on from
        there.
        """
        epoch = check_count(epoch, "epoch", least=0)
        if self._next is None or self._next.epoch != epoch:
            self._next = Place(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        # an epoch begins with the first batch that is asked for: loaders make iterators that they
        # never use
        place = self._begin()
        size, block = self.batch_size, max(1, BLOCK // self.batch_size)
        for first in range(place.batches, len(self), block):
            rows = self._rows(first * size, min((first + block) * size, self._shard.rows))
            numbers = rows.tolist()
            for start in range(0, len(numbers), size):
                place.batches += 1
                if self._watch is not None:
                    self._watch.expect(rows[start : start + size])
                yield numbers[start : start + size]
        place.over = True

    def _begin(self) -> Place:
        if self._asked:
            check_still_true(self.num_replicas)
        place = self._next
        if place is None:
            place = Place(0 if self._current is None else self._current.epoch + 1)
        if self._watch is not None:
            self._watch.close_epoch(complete=self._current is not None and self._current.over)
        if not place.batches:
            self._prepare(place.epoch)
        self._arrange(place.epoch)
        self._current, self._next = place, None
        return place

    def _place(self) -> Place:
        """Where an iteration would go on."""
        if self._next is not None:
            return self._next
        assert self._current is not None
        return Place(self._current.epoch + 1) if self._current.over else self._current

    @property
    def under_way(self) -> bool:
        """Whether an iteration has begun and is not over."""
        return self._current is not None and not self._current.over and self._next is None

    def observing(
        self,
        head: nn.Module,
        *,
        loss: str = "cross_entropy",
        targets: Any = None,
        n_sketch: int = 32,
    ) -> ObserveHead:
        """Observe the gradients of a model's last layer while the returned context is open.

        See :class:`ObserveHead`.

        Parameters
        ----------
        head : nn.Linear
            The last layer, which gives the logits or predictions.
        loss : {"cross_entropy", "mse", "bce"}, default="cross_entropy"
            What the model is trained with, of these.
        targets : array-like or tensor of shape (n,), default=None
            Targets of all rows as the loss gets them. None means the sampler's labels: whole
            numbers from 0 as they are, classes of any other kind numbered in order.
        n_sketch : int, default=32
            Numbers to which the layer's inputs are reduced; see :func:`head_factors`.
        """
        targets = read_targets(
            self._default_targets() if targets is None else targets, self.n, loss
        )
        return ObserveHead(self, head, loss, targets, n_sketch, self.seed)

    def watch(self, observer: ObserveHead | None) -> None:
        """Tell one observer, or none any more, which batches are handed out."""
        if observer is not None and self._watch is not None:
            raise ValueError(
                "the sampler is observing already; leave that context before another is begun"
            )
        self._watch = observer

    def __getstate__(self) -> dict[str, Any]:
        # a copy, or one that is sent to another process, is not watched: the hook is on this
        # process's model
        if self._watch is not None:
            self._watch.flush()
        return {**self.__dict__, "_watch": None}

    def state_dict(self, *, batches: int | None = None) -> dict[str, Any]:
        """Return what is needed to resume in another process.

        The state holds numbers and tensors, safe for ``torch.load(weights_only=True)``.

        Tensors share the sampler's memory, like those of a module: save or copy them before
        training goes on.

        Parameters
        ----------
        batches : int, default=None
            Batches of this epoch that were trained on. None means as many as were handed out, which
            with workers is more: a ``DataLoader`` asks for batches ahead of time. torchdata's
            ``StatefulDataLoader`` keeps count by itself.
        """
        if self._watch is not None:
            self._watch.flush()
        place = self._place()
        done = place.batches if batches is None else check_count(batches, "batches", least=0)
        if done > len(self):
            raise ValueError(
                f"batches must be at most {len(self)}, those of an epoch; got {batches}"
            )
        return {
            "format": _FORMAT,
            **self._identity(),
            "epoch": place.epoch,
            "batches": done,
            **self._learnt(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a state: the next iteration gives the batches that were left of its epoch.

        The others are not replayed.
        """
        if not isinstance(state_dict, dict) or state_dict.get("format") != _FORMAT:
            raise ValueError(
                f"state_dict must be what state_dict() of a {type(self).__name__} returned"
            )
        for name, own in self._identity().items():
            if state_dict.get(name) != own:
                raise ValueError(
                    f"the state was saved with {name}={state_dict.get(name)!r} and this sampler has"
                    f" {own!r}; make it with the same data and arguments as the one whose state was"
                    " saved"
                )
        epoch = check_count(state_dict.get("epoch"), "epoch", least=0)
        batches = check_count(state_dict.get("batches"), "batches", least=0)
        if batches > len(self):
            raise ValueError(f"the state is {batches} batches into an epoch, which has {len(self)}")
        self._relearn(state_dict)
        self._next = Place(epoch, batches)

    def _identity(self) -> dict[str, Any]:
        """What must agree for a state to be this sampler's."""
        return {
            "kind": type(self).__name__,
            "n": self.n,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "seed": self.seed,
            "num_replicas": self.num_replicas,
        }


def read_seed(generator: torch.Generator | None, seed: int) -> int:
    """Return the seed of a generator, which is not advanced, or the seed itself."""
    if generator is None:
        return check_count(seed, "seed", least=0)
    if not isinstance(generator, torch.Generator):
        raise ValueError(f"generator must be a torch.Generator; got {type(generator).__name__}")
    if seed:
        raise ValueError("give generator= or seed=, not both: the generator's seed is used")
    return generator.initial_seed() % 2**64
