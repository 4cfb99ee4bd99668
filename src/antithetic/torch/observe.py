"""Observing in one line: a hook on a linear head that shows the sampler each row's gradient there."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from antithetic._validate import check_count
from antithetic.torch.data import to_indices
from antithetic.torch.gradients import LOSSES, few_inputs, few_slopes, slopes_of

if TYPE_CHECKING:
    from antithetic.torch.epochs import EpochSampler

_TOGETHER = 32  # batches whose gradients are computed at once: one large product is cheaper than many small ones


class ObserveHead:
    """Watches a linear layer while a model is trained, and tells the sampler what it sees; made by ``sampler.observing``.

    Use it as a context manager around the training loop. Every forward pass through the layer counts that is made in training mode with
    gradients enabled; passes of validation, in ``eval()`` mode or under ``no_grad``, do not.

    Which rows a pass has is known from the order in which the sampler hands out batches, also where a ``DataLoader`` asks for some ahead of
    time; a pass with another number of rows than the batch whose turn it is, one too many, or an epoch with passes missing at its end
    raises ValueError. Where batches are skipped, repeated or put together differently, say which rows come next: ``watch.batch(indices)``.
    """

    def __init__(self, sampler: EpochSampler, head: nn.Module, loss: str, targets: Tensor, n_sketch: int, seed: int) -> None:
        if not isinstance(head, nn.Linear):
            raise ValueError(f"observing needs the model's last nn.Linear layer; got {type(head).__name__}")
        if loss not in LOSSES:
            raise ValueError(f"loss {loss!r} is not known; use one of {', '.join(LOSSES)}")
        self._sampler, self._head, self._loss, self._targets = sampler, head, loss, targets
        self._n_sketch, self._seed, self._bias = check_count(n_sketch, "n_sketch", least=1), seed, head.bias is not None
        self._queue: deque[list[int]] = deque()
        self._given: NDArray[np.intp] | None = None
        self._told = False  # whether rows are given by `batch`
        self._late = False  # whether an epoch was under way when it began
        self._kept: list[tuple[Any, Tensor, Tensor]] = []
        self._handle: Any = None

    def __enter__(self) -> ObserveHead:
        self._sampler.watch(self)
        self._late = self._sampler.under_way
        self._handle = self._head.register_forward_hook(self._see)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._handle.remove()
        self._sampler.watch(None)
        self.flush()

    def batch(self, indices: Any) -> None:
        """Say which rows the next forward pass has; from now on every pass must be announced so."""
        self._given = to_indices(indices, self._sampler.n)
        self._told = True
        self._queue.clear()

    def expect(self, batch: list[int]) -> None:
        """Take note of a batch that the sampler hands out."""
        if not self._told:
            self._queue.append(batch)

    def close_epoch(self, *, complete: bool) -> None:
        """End an epoch: what was handed out but not seen is forgotten if the epoch was broken off, and refused if not."""
        self.flush()
        missing, self._late = len(self._queue), False
        self._queue.clear()
        if complete and missing:
            raise ValueError(
                f"{missing} batches of the last epoch were handed out and not seen by the layer, so rows and gradients may not belong "
                f"together; {_ADVICE}"
            )

    def _see(self, _module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if not (self._head.training and torch.is_grad_enabled()):
            return
        rows = self._rows_of_pass(len(output))
        if output.ndim != 2:
            raise ValueError(f"observing needs a layer that gives one row per sample; got an output of shape {tuple(output.shape)}")
        self._kept.append((rows, output.detach().clone(), args[0].detach()))  # what follows may change the output in place
        if len(self._kept) == _TOGETHER:
            self.flush()

    def _rows_of_pass(self, length: int) -> Any:
        rows: Any
        if self._told:
            rows, self._given = self._given, None
            if rows is None:
                raise ValueError("the layer had a training pass whose rows are not known; call watch.batch(indices) before every one")
        elif self._late:
            raise ValueError(
                f"observing began in the middle of an epoch, so which batch is in the layer is not known; begin before, or {_ADVICE}"
            )
        elif not self._queue:
            raise ValueError(f"the layer had more training passes than the sampler handed out batches; {_ADVICE}")
        else:
            rows = self._queue.popleft()
        if len(rows) != length:
            raise ValueError(f"the layer was given {length} rows, and the batch whose turn it is has {len(rows)}; {_ADVICE}")
        return rows

    def flush(self) -> None:
        """Show the sampler what was kept so far."""
        if not self._kept:
            return
        kept, self._kept = self._kept, []
        rows = np.concatenate([np.asarray(rows, dtype=np.intp) for rows, _, _ in kept])
        outputs = torch.cat([output for _, output, _ in kept]).float()
        targets = self._targets[torch.from_numpy(rows)]
        if self._loss == "cross_entropy" and int(targets.max()) >= outputs.shape[-1]:
            raise ValueError(
                f"the layer has {outputs.shape[-1]} outputs and the labels go up to {int(targets.max())}; give targets=, 0..K-1"
            )
        slopes = few_slopes(slopes_of(outputs, targets.to(outputs.device), self._loss), self._seed).cpu()
        inputs = torch.cat([given for _, _, given in kept]).float()
        inputs = few_inputs(inputs, self._n_sketch, self._seed, bias=self._bias).cpu()
        finite = torch.isfinite(slopes.sum(dim=1) + inputs.sum(dim=1))  # with mixed precision a step may overflow, and is skipped
        if not finite.all():
            rows, slopes, inputs = rows[finite.numpy()], slopes[finite], inputs[finite]
        self._sampler.observe(rows, inputs, slopes)


_ADVICE = "say which rows come next with watch.batch(indices), before every training pass"


def read_targets(targets: Any, n: int, loss: str) -> Tensor:
    """Return one target per row as the loss takes them: classes from 0, numbers, or 0 and 1."""
    if targets is None:
        raise ValueError("this sampler has no labels; give targets=, one for each row")
    values = targets.detach().cpu() if isinstance(targets, Tensor) else np.asarray(targets)
    if len(values) != n:
        raise ValueError(f"targets must be one for each of the {n} rows; got {len(values)}")
    if isinstance(values, np.ndarray):
        values = torch.from_numpy(_as_numbers(values, loss))
    if loss == "cross_entropy":
        if values.is_floating_point() or values.ndim != 1 or int(values.min()) < 0:
            raise ValueError("targets of the cross-entropy must be classes, one whole number from 0 for each row")
        return values.long()
    return values.float()


def _as_numbers(labels: NDArray[Any], loss: str) -> NDArray[Any]:
    """Labels as numbers: classes that are no numbers from 0, and for ``"bce"`` any two, are numbered in order."""
    numbered = loss != "mse" and labels.ndim == 1 and (labels.dtype.kind not in "biuf" or labels.min() < 0)
    if numbered or (loss == "bce" and labels.ndim == 1 and labels.dtype.kind in "biu"):
        labels = np.unique(labels, return_inverse=True)[1].ravel()
    return np.array(labels)  # a copy that may be written to, as torch wants it
