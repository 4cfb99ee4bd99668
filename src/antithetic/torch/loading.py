"""Row numbers that travel with a batch through a data loader, and what a loader fetches ahead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, NoReturn

from torch.utils.data import DataLoader, Dataset, default_collate
from torch.utils.data._utils.collate import default_collate_fn_map


class HandedOut(list[int]):
    """Row numbers of a batch as a sampler hands it out, and which batch of which epoch it is."""

    __slots__ = ("epoch", "number")

    def __init__(self, rows: Iterable[int], epoch: int, number: int) -> None:
        super().__init__(rows)
        self.epoch, self.number = epoch, number


class Tag:
    """Says which batch it is that a loader yields.

    It is no collection, so code that goes through one (to pin memory or to move tensors to a
    device) leaves it as it is.
    """

    __slots__ = ("handed",)

    def __init__(self, handed: HandedOut) -> None:
        self.handed = handed


class Samples:
    """Samples of a batch on their way to the collate function, and their row numbers.

    A collate function that would lose the row numbers gets an error.
    """

    __slots__ = ("handed", "samples")

    def __init__(self, handed: HandedOut, samples: Any) -> None:
        self.handed, self.samples = handed, samples

    def __getitem__(self, index: Any) -> Samples:
        # PyTorch's default asks the first sample for its type, and finds `_collate_by_default`
        return self if isinstance(index, int) and index == 0 else self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(
            "row numbers would be lost: a loader of sampler.dataset(...) with a collate function f"
            " needs DataLoader(..., collate_fn=sampler.collate(f))"
        )

    __iter__ = __len__ = _refuse


class RowDataset(Dataset[Any]):
    """A data set whose samples come with their row numbers; made by ``sampler.dataset``."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: Any) -> Any:
        return self.dataset[row]

    def __getitems__(self, rows: list[int]) -> Any:
        """Return the samples of a batch; loaders of PyTorch call this once per batch."""
        fetch = getattr(self.dataset, "__getitems__", None)
        samples = fetch(rows) if fetch else [self.dataset[row] for row in rows]
        return Samples(rows, samples) if isinstance(rows, HandedOut) else samples


class Collate:
    """A collate function that keeps the row numbers; made by ``sampler.collate``."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, samples: Any) -> tuple[Tag, Any]:
        """Return which batch it is, and what the function makes of its samples."""
        if not isinstance(samples, Samples):
            raise TypeError(
                "sampler.collate(f) got samples without row numbers; make the loader as"
                " DataLoader(sampler.dataset(dataset), batch_sampler=sampler,"
                " collate_fn=sampler.collate(f))"
            )
        return Tag(samples.handed), self.function(samples.samples)


def _collate_by_default(samples: Samples, **_: Any) -> tuple[Tag, Any]:
    return Collate(default_collate)(samples)


default_collate_fn_map[Samples] = _collate_by_default  # the extension point that PyTorch documents


def open_batch(batch: Any) -> tuple[HandedOut | None, Any]:
    """Return which batch it is, None if it does not say so, and what the collate function made."""
    if isinstance(batch, HandedOut):
        return batch, batch
    if isinstance(batch, (tuple, list)) and len(batch) == 2 and isinstance(batch[0], Tag):
        return batch[0].handed, batch[1]
    return None, batch


def batches_ahead() -> int:
    """Return how many batches the loader that asks for one fetches ahead of those it yields.

    Code that asks without a loader of PyTorch uses each batch before it asks for the next. A loader
    that does not keep the order of batches is refused.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_locals.get("self"), DataLoader):
        frame = frame.f_back
    loader: DataLoader[Any] | None = None if frame is None else frame.f_locals["self"]
    if loader is None or not loader.num_workers:
        return 0
    if loader.num_workers > 1 and not getattr(loader, "in_order", True):  # new in torch 2.6
        raise ValueError(
            "DataLoader(in_order=False) yields batches in another order than the sampler hands them"
            f" out, so their rows are not known; {ADVICE}, or use in_order=True"
        )
    return loader.num_workers * (loader.prefetch_factor or 0)


ADVICE = (
    "let row numbers travel with the batches: DataLoader(sampler.dataset(dataset),"
    " batch_sampler=sampler), and batch = sampler.announce(batch) before the forward pass"
)
