"""Observe a model while it is trained: gradients of its head by row, and their norm by batch."""

from __future__ import annotations

import math
import sys
from collections import deque
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from antithetic._util.validation import check_count
from antithetic._util.warnings import warn
from antithetic.torch.gradients import few_inputs, few_slopes, plain
from antithetic.torch.head import find_head, is_linear, mixing_layer
from antithetic.torch.loading import ADVICE
from antithetic.torch.norms import GradientNorms, Norms
from antithetic.torch.passes import Pass, squared_norms
from antithetic.torch.rounds import Batch

if TYPE_CHECKING:
    from antithetic.torch.epochs import EpochSampler

_TOGETHER = 256  # batches that are processed at once: one large call is cheaper than many small
_INPUTS = 16  # batches whose inputs are kept until they are reduced; more would fill the cache
_MOST_KEPT = 1 << 22  # numbers of inputs and slopes, 16 MB, that are kept for that


class ObserveHead:
    """Observes a model during training and passes what it sees to the sampler.

    Created by ``sampler.observing``.

    Use it as a context manager around the training loop. It observes every forward pass through the
    model's head in training mode with gradients enabled; validation passes, in ``eval()`` mode or
    under ``no_grad``, are ignored. The backward pass provides the gradients of the rows with
    respect to the head's outputs, for any loss, and the norm of the gradient of all parameters.

    The rows of a pass are those of the batch that was announced last (``sampler.announce``). If
    batches are not announced, each must be used in one training pass before the next is taken from
    the loader; the number of rows and passes is compared with what the sampler handed out, and
    ValueError is raised at the first pass that does not match. What was observed since the epoch
    began is then discarded. Leaving an epoch early, by Ctrl-C or ``break``, is fine, and its
    observations are kept.
    """

    def __init__(
        self, sampler: EpochSampler, model: nn.Module, head: nn.Linear | None, n_sketch: int
    ) -> None:
        self.head = find_head(model, head)
        self.linear = is_linear(model, self.head)
        self._sampler, self._model = sampler, model
        self._n_sketch = check_count(n_sketch, "n_sketch", least=1)
        self._warned = False
        self._checked = False  # whether losses of rows were looked at
        # whether slopes are taken during every backward pass
        self._hooked = not self.head.weight.is_leaf
        self._begin()

    def _begin(self) -> None:
        self._visit: list[Pass] = []  # passes of the batch whose backward pass is to come
        self._tested: set[tuple[int, int]] = set()  # block and arm of batches that were measured
        # without announcements:
        self._queue: deque[Batch] = deque()  # batches that were handed out and not seen
        self._handed_out = 0  # how many batches, since the epoch began
        self._requests = 0  # how often a batch was asked for since the epoch began
        self._ahead = 0  # how many batches the loader fetches before it yields one
        self._late = self._sampler.under_way  # whether an epoch was under way when it began
        self._drop()
        self.current: Pass | None = None  # the last pass

    def _drop(self) -> None:
        """Keep nothing of what was seen and not shown to the sampler."""
        self._kept: list[Pass] = []
        self._inputs: list[Tensor] = []  # of the last of these
        self._lengths: list[Tensor] = []  # norms of the inputs of the others
        self._reduced: list[Tensor] = []  # a few coordinates of these, if gradients are wanted
        self._numbers = 0  # of slopes and inputs that are kept
        self._measured: list[tuple[Pass, Norms]] = []

    def __enter__(self) -> ObserveHead:
        self._sampler.watch(self)
        self._begin()
        if not self._warned and (found := mixing_layer(self._model)):
            self._warned = True
            warn(
                f"the model contains {found}, so the gradient of a row depends on the other rows of"
                " its batch, and observations of single rows are less reliable",
                UserWarning,
            )
        self._handle = self.head.register_forward_hook(self._see)
        self._norms = GradientNorms(self._model, self.head) if self._sampler.tests_arms else None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._handle.remove()
        if self._norms is not None:
            self._norms.close()
        self._sampler.watch(None)
        if sys.is_finalizing():  # a loop that is still open at the end of the program
            return
        # The first error is the one that matters.
        with suppress(ValueError) if kind is not None else nullcontext():
            self.flush()

    def count_request(self) -> None:
        """Take note that a loader asks for a batch, also when there are no more."""
        self._requests += 1

    def expect(self, batch: Batch) -> None:
        """Take note of a batch that the sampler hands out."""
        self._handed_out += 1
        if not self._sampler.announces:
            self._queue.append(batch)

    def begin_epoch(self, *, complete: bool, ahead: int) -> None:
        """End an epoch and begin the next, in which the loader fetches so many batches ahead.

        If the last epoch was complete, batches that were not seen are refused.
        """
        self.flush()
        handed_out = self._handed_out
        missing = min(self._unseen(), len(self._queue))
        # of a loader that fetches ahead it is not known whether the loop was left at the last batch
        allowed = 1 if self._ahead else 0
        self._requests, self._handed_out, self._ahead, self._late = 0, 0, ahead, False
        self._queue.clear()
        self._tested.clear()
        if complete and handed_out and self.current is None:
            advice = (
                "pass the layer that returns the model's predictions as head="
                if self.head.training
                else "it is in evaluation mode, so call model.train() before training"
            )
            raise ValueError(f"the observed layer was not used in any training pass; {advice}")
        if complete and missing > allowed and not self._sampler.announces:
            raise self._doubt(
                f"the observed layer did not see the last {missing} batches of the last epoch"
            )

    def _see(self, _module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if not (self.head.training and torch.is_grad_enabled()):
            return
        if output.ndim != 2 or not args:
            raise ValueError(
                "the observed layer must be called with its input as the first positional argument"
                f" and return one row per sample; got {len(args)} positional arguments and an"
                f" output of shape {tuple(output.shape)}"
            )
        self._close_pass()
        batch = self._batch_of_pass(output.shape[0])
        self._check_weighed(batch)
        tested = batch.block >= 0 and (batch.block, batch.arm) not in self._tested
        seen = Pass(batch, tested, args[0].detach())
        self._visit.append(seen)
        self.current = seen
        norms = self._norms
        if norms is not None and not tested:
            norms.rest()
            norms = None
        hooked = self._hooked or (norms is not None and norms.needs_hooks)
        if norms is not None:
            norms.begin(output if output.requires_grad and not hooked else None)
        if not output.requires_grad:
            return
        if hooked:
            self._take_slopes(seen, output)
            return
        # reading them afterwards takes half the time of calling Python in the backward pass
        output.retain_grad()
        seen.output, seen.version = output, output._version

    def _take_slopes(self, seen: Pass, output: Tensor) -> None:
        """Take the slopes when the backward pass comes to the output."""
        output.register_hook(  # type: ignore[no-untyped-call]
            lambda slopes: self._arrive(seen, slopes.detach())
        )

    def _arrive(self, seen: Pass, slopes: Tensor) -> None:
        if seen.slopes is None:
            self._keep(seen, slopes)
        # an earlier batch counts as another pass, an earlier pass of the same batch does not
        if self._norms is not None and (seen is self.current or seen not in self._visit):
            self._norms.reach_head()

    def _read_slopes(self, seen: Pass) -> None:
        """Read the slopes off the output of a pass, when the next one begins."""
        output, seen.output = seen.output, None
        if output is None:
            return
        if output._version != seen.version:  # its gradient is that of what it was changed into
            self._hooked = True
        elif output.grad is not None:
            self._keep(seen, output.grad)
        else:  # one backward pass for several batches
            self._take_slopes(seen, output)

    def _keep(self, seen: Pass, slopes: Tensor) -> None:
        """Keep the slopes of a pass, and its inputs for a while."""
        inputs, seen.inputs = seen.inputs, None
        assert inputs is not None
        # without a graph, which backward(create_graph=True) would keep alive
        seen.slopes = slopes.detach() if slopes.requires_grad else slopes
        if seen.loss is not None:
            seen.scale, seen.loss = seen.loss.grad, None
        self._kept.append(seen)
        self._inputs.append(inputs)
        self._numbers += inputs.numel() + slopes.numel()
        if len(self._inputs) >= _INPUTS:
            self._reduce()

    def _reduce(self) -> None:
        """Find the norms and a few coordinates of inputs, instead of which these are kept."""
        if not self._inputs:
            return
        with plain(self._inputs[0].device):
            inputs, sampler = torch.cat(self._inputs).float(), self._sampler
            self._lengths.append(torch.linalg.vector_norm(inputs, dim=1))
            if sampler.keeps_vectors:
                bias = self.head.bias is not None
                self._reduced.append(few_inputs(inputs, self._n_sketch, sampler.seed, bias=bias))
        self._numbers -= inputs.numel()
        self._inputs = []

    def _close_pass(self) -> None:
        """End what belongs to the current pass, when the next one begins."""
        seen = self.current
        if seen is None or seen.closed:
            return
        seen.closed = True
        norms = self._norms.take() if self._norms is not None and seen.tested else []
        self._read_slopes(seen)
        weighed = seen.weighed or seen.batch.weights is None
        if norms != [] and seen.slopes is not None and weighed:
            self._tested.add((seen.batch.block, seen.batch.arm))
            self._measured.append((seen, norms))
        if len(self._kept) >= _TOGETHER or self._numbers >= _MOST_KEPT:
            self._show()

    def _check_weighed(self, batch: Batch | None) -> None:
        """Check passes of other batches, and those whose backward pass has been."""
        passes = self._visit
        self._visit = [seen for seen in passes if seen.batch is batch and seen.slopes is None]
        for seen in passes:
            if seen in self._visit:
                continue
            self._sampler.count_pass(weighed=seen.weighed)
            if seen.batch.weights is not None and not seen.weighed:
                raise ValueError(
                    "the loss of a batch drawn by importance did not go through"
                    " sampler.batch_loss(losses), which applies the weights of its rows; call it"
                    " for every batch"
                )

    def take_loss(self, loss: Tensor) -> None:
        """Take note of what ``batch_loss`` returns, for passes whose backward pass is to come."""
        if self._sampler.announces and (
            self.current is None or self.current.batch is not self._sampler.announced
        ):
            raise ValueError(
                "batch_loss was called before the forward pass of the batch that was announced"
                " last, whose weights it would apply; announce a batch, then compute its outputs"
                " and losses"
            )
        loss.retain_grad()  # cheaper than a hook, and as good
        for seen in self._visit:
            if seen.slopes is None:
                seen.weighed, seen.loss = True, loss

    def check_losses(self, losses: Any) -> None:
        """Warn if the loss of a row depends on other rows of its batch; looked at once."""
        output = None if self.current is None else self.current.output
        if self._checked or output is None or not getattr(losses, "requires_grad", False):
            return
        if losses.ndim == 0:  # refused by batch_loss
            return
        self._checked = True
        with suppress(RuntimeError):  # some graphs can be walked only once
            (slopes,) = torch.autograd.grad(
                losses[0].sum(), output, retain_graph=True, allow_unused=True
            )
            output.grad = None
            if slopes is not None and bool(slopes[1:].any()):
                warn(
                    "the loss of a row depends on the model's outputs for other rows of its batch,"
                    " as with in-batch negatives, so gradients of rows do not add up: observations"
                    " of single rows are less reliable, and importance weights are not exact; use"
                    ' arms=("stratified",) or shuffle=True',
                    UserWarning,
                )

    def _batch_of_pass(self, length: int) -> Batch:
        if self._sampler.announces:
            batch = self._sampler.announced
            if batch is None:
                raise ValueError(
                    "the batch of a training pass through the observed layer was not announced;"
                    " call batch = sampler.announce(batch) before the forward pass"
                )
            if len(batch.rows) != length:
                raise ValueError(
                    f"the observed layer was given {length} rows, but the batch that was announced"
                    f" has {len(batch.rows)}; announce each batch before its forward pass, which"
                    " must keep each row once"
                )
            return batch
        if self._late:
            raise ValueError(
                "observing began in the middle of an epoch, so the current batch is not known; open"
                f" the context before the epoch begins, or {ADVICE}"
            )
        unseen = self._unseen()
        if unseen < 1 or not self._queue:
            raise self._doubt(
                "the observed layer had more training passes than batches were taken from the"
                " loader (several forward passes per batch, or a layer that is used several times)"
            )
        if unseen > 1:
            raise self._doubt(
                f"{unseen} batches were taken from the loader since the last training pass through"
                " the observed layer"
            )
        if len(self._queue[0].rows) != length:
            raise self._doubt(
                f"the observed layer was given {length} rows, but the next batch has"
                f" {len(self._queue[0].rows)}"
            )
        return self._queue.popleft()

    def _unseen(self) -> int:
        """Return how many batches the loader has yielded that have not been passed through."""
        yielded, passed = self._requests - self._ahead, self._handed_out - len(self._queue)
        return yielded - passed

    def _doubt(self, found: str) -> ValueError:
        """Discard what was seen since the epoch began: some rows may have been confused."""
        self._drop()
        self._queue.clear()
        self._sampler.forget()
        return ValueError(f"{found}, so gradients may belong to other rows; {ADVICE}")

    def flush(self) -> None:
        """Pass everything observed so far to the sampler."""
        seen = self.current
        # a pass whose backward pass is still to come stays open
        if seen is not None and (
            seen.slopes is not None or (seen.output is not None and seen.output.grad is not None)
        ):
            self._close_pass()
            self._check_weighed(None)
        self._show()

    def _show(self) -> None:
        self._reduce()
        measured, bad = self._measured, self._learn(self._kept) if self._kept else set()
        self._drop()
        scales = _scales([seen for seen, _ in measured])
        values = np.array(squared_norms(measured))
        if scales is not None:
            squares = scales.double().square().cpu().numpy()
            values = np.divide(values, squares, out=np.full_like(values, np.nan), where=squares > 0)
        for (seen, _), value in zip(measured, values.tolist(), strict=True):
            if not math.isfinite(value):
                bad.add(id(seen))
            self._sampler.compare(seen.batch, value)
        self._sampler.left_out += len(bad)

    def _learn(self, kept: list[Pass]) -> set[int]:
        """Show gradients of rows; return the passes, by identity, with NaN or infinity in them."""
        sampler, bias = self._sampler, self.head.bias is not None
        rows = np.concatenate([seen.batch.rows for seen in kept])
        weights = np.ones(len(rows), dtype=np.float32)
        counts = np.array([len(seen.batch.rows) for seen in kept])
        for seen, stop in zip(kept, np.cumsum(counts).tolist(), strict=True):
            if seen.batch.weights is not None:
                weights[stop - len(seen.batch.rows) : stop] = seen.batch.weights
        # the mean over a batch divides by its length, batch_loss by the batch size
        lengths = np.where([seen.weighed for seen in kept], sampler.batch_size, counts)
        factors = torch.from_numpy((np.repeat(lengths, counts) / weights).astype(np.float32))
        parts = [seen.slopes for seen in kept if seen.slopes is not None]
        with plain(parts[0].device):
            slopes = torch.cat(parts).float()
            slopes = slopes * factors.to(slopes.device)[:, None]
            if (scales := _scales(kept)) is not None:
                repeats = torch.from_numpy(counts).to(slopes.device)
                slopes = slopes / scales.repeat_interleave(repeats)[:, None]
            sizes = torch.cat(self._lengths)
            norms = slopes.norm(dim=1) * (sizes.square() + float(bias)).sqrt()
            # with mixed precision a step may overflow; it is skipped
            chosen = torch.isfinite(norms).cpu().numpy()
            rows, weights = rows[chosen], weights[chosen]
            if sampler.keeps_vectors:
                few = few_slopes(slopes, sampler.seed).cpu().numpy()
                reduced = torch.cat(self._reduced).cpu().numpy()
                sampler.learn(rows, reduced[chosen], few[chosen])
        kept_counts = np.add.reduceat(chosen, np.cumsum(counts) - counts, dtype=np.intp)
        sampler.learn_norms(rows, norms.cpu().numpy()[chosen], weights, kept_counts)
        bad = np.unique(np.repeat(np.arange(len(kept)), counts)[~chosen])
        return {id(kept[number]) for number in bad}


def _scales(passes: list[Pass]) -> Tensor | None:
    """What the losses of some passes were multiplied by; None if none went through batch_loss."""
    given = [seen.scale for seen in passes if seen.scale is not None]
    if not given:
        return None
    one = given[0].new_ones(())
    scales = torch.stack([one if seen.scale is None else seen.scale for seen in passes])
    return scales.detach().float()
