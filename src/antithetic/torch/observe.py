"""Observe a model while it is trained: gradients of its head by row, and their norm by batch."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from antithetic._util.validation import check_count
from antithetic._util.warnings import warn
from antithetic.torch.data import to_indices
from antithetic.torch.gradients import few_inputs, few_slopes, plain
from antithetic.torch.head import find_head, is_linear, mixing_layer
from antithetic.torch.norms import GradientNorms
from antithetic.torch.rounds import Batch

if TYPE_CHECKING:
    from antithetic.torch.epochs import EpochSampler

# batches whose gradients are computed at once: one large product is cheaper than many small ones
_TOGETHER = 64
_MOST_KEPT = 1 << 22  # numbers of their inputs, 16 MB, that are kept for that


@dataclass(slots=True, eq=False)
class Pass:
    """A training pass through the head.

    Attributes
    ----------
    batch : Batch
        What it was given.
    inputs : Tensor of shape (m, d)
        What the head was given.
    slopes : Tensor of shape (m, K) or None
        Derivatives by the head's outputs, when the backward pass has been there.
    loss : Tensor or None
        What ``batch_loss`` returned, until the backward pass comes.
    scale : Tensor or None
        What that was multiplied by before the backward pass, as mixed precision and the
        accumulation of gradients do.
    weighed : bool
        Whether the loss went through ``batch_loss``.
    closed : bool
        Whether the next pass has begun, or all was shown to the sampler.
    """

    batch: Batch
    inputs: Tensor
    slopes: Tensor | None = None
    loss: Tensor | None = None
    scale: Tensor | None = None
    weighed: bool = False
    closed: bool = False


class ObserveHead:
    """Watches a model while it is trained, and tells the sampler what it sees.

    Made by ``sampler.observing``.

    Use it as a context manager around the training loop. Every forward pass through the model's
    head counts that is made in training mode with gradients enabled; passes of validation, in
    ``eval()`` mode or under ``no_grad``, do not. The backward pass tells the gradients of the rows
    by the head's outputs, whatever the loss is, and the norm of the gradient by all parameters.

    Which rows a pass has is known from the order in which the sampler hands out batches, also where
    a ``DataLoader`` asks for some ahead of time; a pass with another number of rows than the batch
    whose turn it is, one too many, or an epoch with passes missing at its end raises ValueError,
    and what was seen since the epoch began is given up, since it may be that of other rows. An
    epoch that is broken off, by Ctrl-C or ``break``, is no mistake: what was seen counts. Where
    batches are skipped, repeated or put together differently, say which rows come next:
    ``watch.batch(indices)``; such passes do not take part in the test of the arms.
    """

    def __init__(
        self, sampler: EpochSampler, model: nn.Module, head: nn.Linear | None, n_sketch: int
    ) -> None:
        self.head = find_head(model, head)
        self.linear = is_linear(model, self.head)
        self._sampler, self._model = sampler, model
        self._n_sketch = check_count(n_sketch, "n_sketch", least=1)
        self._warned = False
        self._begin()

    def _begin(self) -> None:
        self._queue: deque[Batch] = deque()
        self._given: Batch | None = None
        self._told = False  # whether rows are given by `batch`
        self._late = self._sampler.under_way  # whether an epoch was under way when it began
        self._kept: list[Pass] = []
        self._numbers = 0  # of the inputs that are kept
        self._measured: list[tuple[Pass, list[Tensor]]] = []
        self.current: Pass | None = None  # the last pass
        self._arrived = 0  # passes that the backward pass has reached since the current one began

    def __enter__(self) -> ObserveHead:
        self._sampler.watch(self)
        self._begin()
        if not self._warned and (found := mixing_layer(self._model)):
            self._warned = True
            warn(
                f"the model has {found}, where the gradient of a row depends on the other rows of"
                " its batch: what is observed of single rows is less reliable there",
                UserWarning,
            )
        self._handle = self.head.register_forward_hook(self._see)
        self._norms = GradientNorms(self._model)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._handle.remove()
        self._norms.close()
        self._sampler.watch(None)
        # The first error is the one that matters.
        with suppress(ValueError) if kind is not None else nullcontext():
            self.flush()

    def batch(self, indices: Any) -> None:
        """Say which rows the next forward pass has; from now on every pass must be announced so."""
        self._given = Batch(to_indices(indices, self._sampler.n))
        self._told = True
        self._queue.clear()

    def expect(self, batch: Batch) -> None:
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
                " that is observed (is it used?)"
            )

    def _see(self, _module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if not (self.head.training and torch.is_grad_enabled()):
            return
        if output.ndim != 2 or not args:
            raise ValueError(
                "observing needs a layer that is called with its input as the first argument and"
                f" gives one row per sample; got {len(args)} arguments and an output of shape"
                f" {tuple(output.shape)}"
            )
        self._close_pass()
        seen = Pass(self._batch_of_pass(len(output)), args[0].detach())
        self.current = seen
        if seen.batch.block >= 0 and self._sampler.tests_arms:
            self._norms.begin()
        if output.requires_grad:
            output.register_hook(  # type: ignore[no-untyped-call]
                lambda slopes: self._arrive(seen, slopes)
            )

    def _arrive(self, seen: Pass, slopes: Tensor) -> None:
        """Keep the slopes of a pass that the backward pass has reached for the first time."""
        self._arrived += 1
        if seen.slopes is not None:
            return
        seen.slopes = slopes.detach()
        if seen.loss is not None:
            seen.scale, seen.loss = seen.loss.grad, None
        self._kept.append(seen)
        self._numbers += seen.inputs.numel()
        self._norms.reach_head()

    def _close_pass(self) -> None:
        """End what belongs to the current pass, when the next one begins."""
        norms, arrived, self._arrived = self._norms.take(), self._arrived, 0
        seen = self.current
        if seen is None or seen.closed:
            return
        seen.closed = True
        self._sampler.count_pass(weighed=seen.weighed)
        if seen.batch.weights is not None and not seen.weighed:
            raise ValueError(
                "a batch was drawn by importance and its loss did not go through"
                " sampler.batch_loss(losses), which weighs its rows; call it for every batch"
            )
        # several passes in one backward pass cannot be told apart
        if seen.batch.block >= 0 and arrived == 1 and seen.slopes is not None and norms:
            self._measured.append((seen, norms))
        if len(self._kept) >= _TOGETHER or self._numbers >= _MOST_KEPT:
            self._show()

    def _batch_of_pass(self, length: int) -> Batch:
        if self._told:
            batch, self._given = self._given, None
            if batch is None:
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
                "the layer had more training passes than the sampler handed out batches (a layer"
                " that is shared, used several times for a batch, cannot be observed)"
            )
        else:
            batch = self._queue.popleft()
        if len(batch.rows) != length:
            raise self._doubt(
                f"the layer was given {length} rows, and the batch whose turn it is has"
                f" {len(batch.rows)}"
            )
        return batch

    def _doubt(self, found: str) -> ValueError:
        """Discard what was seen, unless the user gave the rows: some may have been confused."""
        if not self._told:
            self._kept, self._numbers, self._measured = [], 0, []
            self._sampler.forget()
        return ValueError(f"{found}, so rows and gradients may not belong together; {_ADVICE}")

    def flush(self) -> None:
        """Show the sampler what was seen so far."""
        # a pass whose backward pass is still to come stays open
        if self.current is not None and self.current.slopes is not None:
            self._close_pass()
        self._show()

    def _show(self) -> None:
        measured, self._measured = self._measured, []
        kept, self._kept, self._numbers = self._kept, [], 0
        bad = self._learn(kept) if kept else set()
        for seen, square in zip((seen for seen, _ in measured), _totals(measured), strict=True):
            scale = 1.0 if seen.scale is None else float(seen.scale)
            value = square / scale**2 if scale else float("nan")
            if not np.isfinite(value):
                bad.add(id(seen))
            self._sampler.compare(seen.batch, value)
        self._sampler.left_out += len(bad)

    def _learn(self, kept: list[Pass]) -> set[int]:
        """Show gradients of rows; return the passes, by identity, with NaN or infinity in them."""
        sampler, bias = self._sampler, self.head.bias is not None
        rows = np.concatenate([seen.batch.rows for seen in kept])
        weights = np.concatenate([_weights(seen.batch) for seen in kept])
        counts = np.array([len(seen.batch.rows) for seen in kept])
        # the mean over a batch divides by its length, batch_loss by the batch size
        lengths = np.where([seen.weighed for seen in kept], sampler.batch_size, counts)
        factors = torch.from_numpy((np.repeat(lengths, counts) / weights).astype(np.float32))
        with plain(kept[0].inputs.device):
            slopes = torch.cat([seen.slopes for seen in kept if seen.slopes is not None]).float()
            inputs = torch.cat([seen.inputs for seen in kept]).float()
            slopes = slopes * factors.to(slopes.device)[:, None]
            scales = [seen.scale for seen in kept]
            if any(scale is not None for scale in scales):
                one = slopes.new_ones(())
                each = torch.stack([one if scale is None else scale for scale in scales]).float()
                repeats = torch.from_numpy(counts).to(slopes.device)
                slopes = slopes / each.repeat_interleave(repeats)[:, None]
            norms = slopes.norm(dim=1) * (inputs.square().sum(dim=1) + float(bias)).sqrt()
            # with mixed precision a step may overflow; it is skipped
            finite = torch.isfinite(norms)
            chosen = finite.cpu().numpy()
            if not chosen.all():
                rows, weights = rows[chosen], weights[chosen]
                slopes, inputs, norms = slopes[finite], inputs[finite], norms[finite]
            if sampler.keeps_vectors:
                few = few_slopes(slopes, sampler.seed).cpu().numpy()
                reduced = few_inputs(inputs, self._n_sketch, sampler.seed, bias=bias).cpu()
                sampler.learn(rows, reduced.numpy(), few)
        kept_counts = np.add.reduceat(chosen, np.cumsum(counts) - counts, dtype=np.intp)
        sampler.learn_norms(rows, norms.cpu().numpy(), weights, kept_counts)
        bad = np.unique(np.repeat(np.arange(len(kept)), counts)[~chosen])
        return {id(kept[number]) for number in bad}


def weigh(seen: Pass | None, losses: Any, size: int) -> Tensor:
    """Return the loss of the batch that is in the model, from the losses of its rows.

    Without an observer, weights are 1.
    """
    if not isinstance(losses, Tensor) or losses.ndim == 0:
        raise ValueError(
            'batch_loss needs the losses of the rows, from a loss with reduction="none"; got'
            f" {'one number' if isinstance(losses, Tensor) else type(losses).__name__}"
        )
    rows = losses.flatten(1).mean(dim=1) if losses.ndim > 1 else losses
    if not rows.requires_grad:  # validation
        return rows.mean()
    if seen is None:
        return rows.sum() / size
    if len(rows) != len(seen.batch.rows):
        raise ValueError(
            f"batch_loss got {len(rows)} losses for a batch of {len(seen.batch.rows)} rows; give"
            " one for each"
        )
    if seen.batch.weights is not None:
        rows = rows * torch.from_numpy(seen.batch.weights).to(rows)
    total = rows.sum() / size
    total.retain_grad()  # cheaper than a hook, and as good
    seen.weighed, seen.loss = True, total
    return total


def _totals(measured: list[tuple[Pass, list[Tensor]]]) -> list[float]:
    """Squared norms of the gradient of each pass, brought to the CPU all at once."""
    if not measured:
        return []
    device = measured[0][1][0].device
    every = torch.stack([norm.to(device) for _, norms in measured for norm in norms])
    counts = np.array([len(norms) for _, norms in measured])
    squares = every.double().square().cpu().numpy()
    sums = np.add.reduceat(squares, np.cumsum(counts) - counts)
    found: list[float] = sums.tolist()
    return found


def _weights(batch: Batch) -> Any:
    if batch.weights is not None:
        return batch.weights
    return np.ones(len(batch.rows), dtype=np.float32)


_ADVICE = "say which rows come next with watch.batch(indices), before every training pass"
