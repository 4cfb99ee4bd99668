"""Observe in one line: a hook on a linear head shows the sampler each row's gradient."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from antithetic._util.validation import check_count
from antithetic.torch.data import to_indices
from antithetic.torch.gradients import LOSSES, few_inputs, few_slopes, plain, slopes_of

if TYPE_CHECKING:
    from antithetic.torch.epochs import EpochSampler
    from antithetic.torch.order import Indices

# batches whose gradients are computed at once: one large product is cheaper than many small ones
_TOGETHER = 32
_MOST_KEPT = 1 << 22  # numbers of their inputs, 16 MB, that are kept for that


class ObserveHead:
    """Watches a linear layer while a model is trained, and tells the sampler what it sees.

    Made by ``sampler.observing``.

    Use it as a context manager around the training loop. Every forward pass through the layer
    counts that is made in training mode with gradients enabled; passes of validation, in ``eval()``
    mode or under ``no_grad``, do not.

    Which rows a pass has is known from the order in which the sampler hands out batches, also where
    a ``DataLoader`` asks for some ahead of time; a pass with another number of rows than the batch
    whose turn it is, one too many, or an epoch with passes missing at its end raises ValueError,
    and what was seen since groups or the order were last made is given up, since it may be that of
    other rows. An epoch that is broken off, by Ctrl-C or ``break``, is no mistake: what was seen
    counts. Where batches are skipped, repeated or put together differently, say which rows come
    next: ``watch.batch(indices)``.
    """

    def __init__(
        self,
        sampler: EpochSampler,
        head: nn.Module,
        loss: str,
        targets: Tensor,
        n_sketch: int,
        seed: int,
    ) -> None:
        if not isinstance(head, nn.Linear):
            raise ValueError(
                f"observing needs the model's last nn.Linear layer; got {type(head).__name__}"
            )
        if loss not in LOSSES:
            raise ValueError(f"loss {loss!r} is not known; use one of {', '.join(LOSSES)}")
        self._sampler, self._head, self._loss, self._targets = sampler, head, loss, targets
        self._n_sketch, self._seed, self._bias = (
            check_count(n_sketch, "n_sketch", least=1),
            seed,
            head.bias is not None,
        )
        self._handle: Any = None
        self._begin()

    def _begin(self) -> None:
        self._queue: deque[Indices] = deque()
        self._given: Indices | None = None
        self._told = False  # whether rows are given by `batch`
        self._late = self._sampler.under_way  # whether an epoch was under way when it began
        self._kept: list[tuple[Indices, Tensor, Tensor]] = []
        self._numbers = 0  # of the inputs that are kept

    def __enter__(self) -> ObserveHead:
        self._sampler.watch(self)
        self._begin()
        self._handle = self._head.register_forward_hook(self._see)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._handle.remove()
        self._sampler.watch(None)
        # The first error is the one that matters.
        with suppress(ValueError) if kind is not None else nullcontext():
            self.flush()

    def batch(self, indices: Any) -> None:
        """Say which rows the next forward pass has; from now on every pass must be announced so."""
        self._given = to_indices(indices, self._sampler.n)
        self._told = True
        self._queue.clear()

    def expect(self, batch: Indices) -> None:
        """Take note of a batch that the sampler hands out."""
        if not self._told:
            self._queue.append(batch)

    def close_epoch(self, *, complete: bool) -> None:
        """End an epoch.

        Rows that were handed out but not seen are forgotten if the epoch was broken off, and
        refused if not.
        """
        self.flush()
        missing, self._late = len(self._queue), False
        self._queue.clear()
        if complete and missing:
            raise self._doubt(
                f"{missing} batches of the last epoch were handed out and not seen by the layer"
            )

    def _see(self, _module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if not (self._head.training and torch.is_grad_enabled()):
            return
        if output.ndim != 2 or not args:
            raise ValueError(
                "observing needs a layer that is called with its input as the first argument and"
                f" gives one row per sample; got {len(args)} arguments and an output of shape"
                f" {tuple(output.shape)}"
            )
        rows, inputs = self._rows_of_pass(len(output)), args[0].detach()
        # The output is copied: later layers may change it in place.
        self._kept.append((rows, output.detach().clone(), inputs))
        self._numbers += inputs.numel()
        if len(self._kept) == _TOGETHER or self._numbers >= _MOST_KEPT:
            self.flush()

    def _rows_of_pass(self, length: int) -> Indices:
        if self._told:
            rows, self._given = self._given, None
            if rows is None:
                raise ValueError(
                    "the layer had a training pass whose rows are not known; call"
                    " watch.batch(indices) before every one"
                )
        elif self._late:
            raise ValueError(
                "observing began in the middle of an epoch, so which batch is in the layer is not"
                f" known; begin before, or {_ADVICE}"
            )
        elif not self._queue:
            raise self._doubt(
                "the layer had more training passes than the sampler handed out batches"
            )
        else:
            rows = self._queue.popleft()
        if len(rows) != length:
            raise self._doubt(
                f"the layer was given {length} rows, and the batch whose turn it is has {len(rows)}"
            )
        return rows

    def _doubt(self, found: str) -> ValueError:
        """Discard what was seen, unless the user gave the rows: some may have been confused."""
        if not self._told:
            self._kept, self._numbers = [], 0
            self._sampler.forget()
        return ValueError(f"{found}, so rows and gradients may not belong together; {_ADVICE}")

    def flush(self) -> None:
        """Show the sampler what was kept so far."""
        if not self._kept:
            return
        kept, self._kept, self._numbers = self._kept, [], 0
        rows = np.concatenate([rows for rows, _, _ in kept])
        with plain(kept[0][1].device):
            outputs = torch.cat([output for _, output, _ in kept]).float()
            inputs = torch.cat([given for _, _, given in kept]).float()
            slopes = few_slopes(
                slopes_of(outputs, self._targets_of(rows, outputs), self._loss), self._seed
            ).cpu()
            inputs = few_inputs(inputs, self._n_sketch, self._seed, bias=self._bias).cpu()
            # With mixed precision a step may overflow; it is skipped.
            if not torch.isfinite(slopes.sum() + inputs.sum()):
                finite = torch.isfinite(slopes).all(dim=1) & torch.isfinite(inputs).all(dim=1)
                rows, slopes, inputs = rows[finite.numpy()], slopes[finite], inputs[finite]
        self._sampler.learn(rows, inputs.numpy(), slopes.numpy())

    def _targets_of(self, rows: Indices, outputs: Tensor) -> Tensor:
        targets = self._targets[torch.from_numpy(rows)]
        if self._loss == "cross_entropy" and int(targets.max()) >= outputs.shape[1]:
            raise ValueError(
                f"the layer has {outputs.shape[1]} outputs and the labels go up to"
                f" {int(targets.max())}; give targets=, 0..K-1"
            )
        return targets.to(outputs.device)


_ADVICE = "say which rows come next with watch.batch(indices), before every training pass"
