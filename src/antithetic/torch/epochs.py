"""What all batch samplers share: epochs, batches cut from lists, and a state to resume from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import IterableDataset, Sampler

from antithetic._util.validation import check_count
from antithetic.torch.coordinates import Vectors
from antithetic.torch.data import Indices
from antithetic.torch.loading import (
    ADVICE,
    Collate,
    HandedOut,
    RowDataset,
    batches_ahead,
    open_batch,
)
from antithetic.torch.observe import ObserveHead
from antithetic.torch.rounds import Batch, Round
from antithetic.torch.shards import (
    Shard,
    agree,
    check_still_true,
    find_place,
    mark_of,
    talking_processes,
)

_FORMAT = 2
_BLOCK = 1 << 16  # rows that become a list of Python numbers at once


@dataclass(slots=True)
class Place:
    """How far an iteration is: the epoch, the batches it has given, and whether it is over."""

    epoch: int
    batches: int = 0
    over: bool = False


class HandedOutBatches(Iterator[HandedOut]):
    """The batches of an epoch; ``asked`` is called whenever a loader asks for one, or for no more.

    PyTorch's loaders ask once for each batch that they yield, also when there are no more.
    """

    def __init__(self, batches: Iterator[HandedOut], asked: Callable[[], None]) -> None:
        self._batches, self._asked = batches, asked

    def __next__(self) -> HandedOut:
        try:
            return next(self._batches)
        finally:
            self._asked()


class EpochSampler(Sampler[list[int]]):
    """Batches of row numbers, epoch after epoch; subclasses say in which order."""

    keeps_vectors = True  # whether gradients of rows are wanted, or their norms alone
    tests_arms = False  # whether norms of batch gradients are wanted

    def __init__(
        self,
        n: int,
        batch_size: int,
        drop_last: bool,
        generator: torch.Generator | None,
        seed: int,
        num_replicas: int | None,
        rank: int | None,
    ) -> None:
        self.batch_size = check_count(batch_size, "batch_size", least=1)
        self.drop_last = bool(drop_last)
        self.num_replicas, self.rank = find_place(num_replicas, rank)
        # Whether torch.distributed was asked how many processes there are.
        self._asked = num_replicas is None
        self.seed = read_seed(generator, seed)
        self._shard = Shard(n, self.batch_size, self.num_replicas, self.rank, self.drop_last)
        self._current: Place | None = None
        self._next: Place | None = Place(0)
        self._watch: ObserveHead | None = None
        self._rounds: list[Round] = []  # of this epoch
        self.announces = False  # whether batches are announced before they are trained on
        self.announced: Batch | None = None  # the batch that training passes are of, if they are
        self.left_out = 0  # batches whose gradients had NaN or infinity

    @abstractmethod
    def _prepare(self, epoch: int, processes: int) -> None:
        """Learn from what was observed in the last epoch, before one begins.

        So many processes do so together.
        """

    @abstractmethod
    def _arrange(self, epoch: int) -> None:
        """Make what all rounds of an epoch that begins or goes on have in common.

        It is a pure function of the seed, the epoch and what was learnt.
        """

    @abstractmethod
    def _make_round(self, epoch: int, first: int, processes: int) -> Round:
        """Batches of this process from one of the epoch on, as many as are made at once."""

    @abstractmethod
    def learn(self, rows: Indices, vectors: Vectors, slopes: Vectors) -> None:
        """Take in gradients of rows, as reduced inputs and slopes, that need no checks."""

    def learn_norms(self, rows: Indices, norms: Vectors, weights: Vectors, counts: Indices) -> None:
        """Take in the norms of gradients of rows that had these weights in their batches."""

    def count_pass(self, *, weighed: bool) -> None:
        """Take note of a training pass, and of whether its loss went through ``batch_loss``."""

    def compare(self, batch: Batch, square: float) -> None:
        """Take in the squared norm of a batch's gradient."""

    @abstractmethod
    def forget(self) -> None:
        """Discard what was observed since the last order: rows and vectors may not match."""

    @abstractmethod
    def _learnt(self, place: Place) -> dict[str, Any]:
        """What the state holds besides the place: tensors and numbers."""

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
        """The current epoch, or the next one if none is in progress."""
        return self._place().epoch

    def __len__(self) -> int:
        """Number of batches of an epoch, the same in every process."""
        return self._shard.batches

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch.

        If this is never called, each iteration is the epoch after the last one.

        If a state was loaded in the middle of the same epoch, the iteration still continues from
        there.
        """
        epoch = check_count(epoch, "epoch", least=0)
        if self._next is None or self._next.epoch != epoch:
            self._next = Place(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        return HandedOutBatches(self._hand_out(), self._count_request)

    def _hand_out(self) -> Iterator[HandedOut]:
        # an epoch begins with the first batch that is asked for: loaders make iterators that they
        # never use
        place, processes = self._begin()
        size, block = self.batch_size, max(1, _BLOCK // self.batch_size)
        while place.batches < len(self):
            made = self._round(place, processes)
            for start in range(place.batches - made.first, len(made.arms), block):
                numbers = made.rows[start * size : (start + block) * size].tolist()
                for number in range(-(-len(numbers) // size)):
                    rows = numbers[number * size : (number + 1) * size]
                    handed = HandedOut(rows, place.epoch, place.batches)
                    place.batches += 1
                    if self._watch is not None:
                        self._watch.expect(made.batch(start + number, size))
                    yield handed
        place.over = True

    def _round(self, place: Place, processes: int) -> Round:
        """Return the round of the next batch; make it unless a state that was loaded has it."""
        found = self._round_of(place.batches)
        if found is None:
            found = self._make_round(place.epoch, place.batches, processes)
            self._rounds.append(found)
        return found

    def _round_of(self, number: int) -> Round | None:
        return next((made for made in self._rounds if made.first <= number < made.stop), None)

    def _count_request(self) -> None:
        if self._watch is not None:
            self._watch.count_request()

    def _begin(self) -> tuple[Place, int]:
        """Begin an epoch; return where, and how many processes do so together."""
        if self._asked:
            check_still_true(self.num_replicas)
        place = self._next
        if place is None:
            place = Place(0 if self._current is None else self._current.epoch + 1)
        processes = talking_processes(self.num_replicas, observing=self._watch is not None)
        if processes > 1:
            agree(self._common(place))
        if self._watch is not None:
            self._watch.begin_epoch(
                complete=self._current is not None and self._current.over,
                ahead=0 if self.announces else batches_ahead(),
            )
        self.announced = None
        if not place.batches:
            self._prepare(place.epoch, processes)
        self._arrange(place.epoch)
        self._current, self._next = place, None
        return place, processes

    def _common(self, place: Place) -> dict[str, int]:
        """What must be the same in all processes, as numbers."""
        watch = self._watch
        head = None if watch is None else watch.head
        return {
            "kind of sampler": mark_of(list(type(self).__name__.encode())),
            "number of rows": self.n,
            "batch_size": self.batch_size,
            "drop_last": int(self.drop_last),
            "seed": self.seed % 2**63,
            "num_replicas": self.num_replicas,
            **{f"checksum of {name}": mark_of(values) for name, values in self._data().items()},
            "epoch": place.epoch,
            "batches of it that are done": place.batches,
            "observing": int(watch is not None),
            "inputs of the observed layer": 0 if head is None else head.in_features,
            "outputs of the observed layer": 0 if head is None else head.out_features,
        }

    def _data(self) -> dict[str, Any]:
        """Data of the rows that all processes must have alike, by name."""
        return {}

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
        self, model: nn.Module, head: nn.Linear | None = None, *, n_sketch: int = 32
    ) -> ObserveHead:
        """Observe a model while the returned context is open; see :class:`ObserveHead`.

        Parameters
        ----------
        model : nn.Module
            The model being trained. The norms of batch gradients include all of its parameters.
        head : nn.Linear, default=None
            Its last layer, which returns the logits or predictions. None means the last linear
            layer in the order of ``model.modules()``.
        n_sketch : int, default=32
            Number of coordinates the layer's inputs are reduced to; see :func:`head_factors`.
        """
        return ObserveHead(self, model, head, n_sketch)

    def dataset(self, dataset: Any) -> RowDataset:
        """Return a data set whose batches carry their row numbers through a ``DataLoader``.

        Use it as ``DataLoader(sampler.dataset(dataset), batch_sampler=sampler)``, with worker
        processes, ``in_order=False`` and ``pin_memory`` as you like, and call :meth:`announce` for
        each batch. A collate function of your own is passed as ``collate_fn=sampler.collate(f)``;
        it gets the same samples as without the sampler.

        Parameters
        ----------
        dataset : Dataset or sequence
            Has a sample for each row number.

        Returns
        -------
        Dataset
            The same samples; ``dataset.dataset`` is the one that was given.
        """
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise ValueError(
                "dataset must return the sample of a row number (dataset[row]); got"
                f" {type(dataset).__name__}"
            )
        if isinstance(dataset, Sized) and len(dataset) != self.n:
            raise ValueError(
                f"dataset has {len(dataset)} samples and the sampler {self.n} rows; create the"
                " sampler with the labels of this data set"
            )
        self.announces = True
        return RowDataset(dataset)

    def collate(self, function: Callable[[Any], Any]) -> Collate:
        """Return a collate function for a loader of :meth:`dataset`, made of one of your own.

        Parameters
        ----------
        function : callable
            Makes a batch of any kind from a list of samples. It must keep all samples in their
            order; one that drops or sorts them would give gradients to other rows.
        """
        if not callable(function):
            raise ValueError(
                f"collate needs a collate function; got {type(function).__name__}. PyTorch's"
                " default needs none: leave out collate_fn"
            )
        return Collate(function)

    def announce(self, batch: Any) -> Any:
        """Say which batch is trained on from now on; return it as the collate function made it.

        All training passes of an observed model belong to this batch until the next is announced,
        so batches may be skipped, repeated, reordered, or passed several times through the model.
        Once batches are announced, or come from :meth:`dataset`, all must be.

        Parameters
        ----------
        batch : tuple or list of int
            What a loader of :meth:`dataset` yields, or the list of row numbers that the sampler
            yields if you iterate over it without a loader.
        """
        handed, content = open_batch(batch)
        if handed is None and self._watch is not None and self._watch.head.training:
            raise ValueError(f"the batch that was announced has no row numbers; {ADVICE}")
        self.announced = None if handed is None else self._find(handed)
        self.announces |= handed is not None
        return content

    def _find(self, handed: HandedOut) -> Batch:
        """Return a batch that was handed out in this epoch."""
        place, made = self._current, self._round_of(handed.number)
        if place is not None and made is not None and place.epoch == handed.epoch:
            batch = made.batch(handed.number - made.first, self.batch_size)
            if np.array_equal(batch.rows, handed):
                return batch
        raise ValueError(
            f"batch {handed.number} of epoch {handed.epoch} was announced, which this sampler did"
            f" not hand out in its current epoch, {self.epoch}; announce batches to the sampler"
            " that made them, before its next epoch begins"
        )

    def watch(self, observer: ObserveHead | None) -> None:
        """Tell one observer, or none any more, which batches are handed out."""
        if observer is not None and self._watch is not None:
            raise ValueError("the sampler is already observing a model; leave that context first")
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
        training continues.

        Parameters
        ----------
        batches : int, default=None
            Number of batches of this epoch that were trained on. None means all that were handed
            out, which is too many if a ``DataLoader`` with workers prefetches. torchdata's
            ``StatefulDataLoader`` keeps count itself.
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
            "left_out": self.left_out,
            **self._learnt(Place(place.epoch, done)),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a state: the next iteration yields the remaining batches of its epoch."""
        if not isinstance(state_dict, dict) or state_dict.get("format") != _FORMAT:
            raise ValueError(
                f"state_dict must be what state_dict() of a {type(self).__name__} returned"
            )
        for name, own in self._identity().items():
            if state_dict.get(name) != own:
                raise ValueError(
                    f"the state was saved with {name}={state_dict.get(name)!r} and this sampler has"
                    f" {own!r}; create it with the same data and arguments as the one whose state"
                    " was saved"
                )
        epoch = check_count(state_dict.get("epoch"), "epoch", least=0)
        batches = check_count(state_dict.get("batches"), "batches", least=0)
        if batches > len(self):
            raise ValueError(f"the state is {batches} batches into an epoch, which has {len(self)}")
        self._relearn(state_dict)
        self.left_out = int(state_dict["left_out"])
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
