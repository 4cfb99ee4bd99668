"""A training pass of a batch through the observed layer: what is kept of it, and its loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antithetic.torch.norms import Norms
from antithetic.torch.rounds import Batch


@dataclass(slots=True, eq=False)
class Pass:
    """A training pass through the head.

    Attributes
    ----------
    batch : Batch
        What it was given.
    tested : bool
        Whether the gradient of the batch is to be measured in this pass.
    inputs : Tensor of shape (m, d) or None
        What the head was given, until its slopes are known.
    output : Tensor of shape (m, K) or None
        What the head gave, until the next pass, where its gradient is to be read off.
    version : int
        How often that had been changed in place.
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
    tested: bool
    inputs: Tensor | None
    output: Tensor | None = None
    version: int = 0
    slopes: Tensor | None = None
    loss: Tensor | None = None
    scale: Tensor | None = None
    weighed: bool = False
    closed: bool = False


def weigh(batch: Batch | None, losses: Any, size: int) -> Tensor:
    """Return the loss of a batch from the losses of its rows; weights are 1 if it is not known."""
    if not isinstance(losses, Tensor) or losses.ndim == 0:
        raise ValueError(
            'batch_loss needs the losses of the rows, from a loss with reduction="none"; got'
            f" {'one number' if isinstance(losses, Tensor) else type(losses).__name__}"
        )
    rows = losses.flatten(1).mean(dim=1) if losses.ndim > 1 else losses
    if not rows.requires_grad:  # validation
        return rows.mean()
    if rows.dtype not in (torch.float32, torch.float64):
        rows = rows.float()  # a sum of many rows needs more digits than half precision has
    count = rows.shape[0]
    if batch is not None and count != len(batch.rows):
        raise ValueError(
            f"batch_loss got {count} losses for a batch of {len(batch.rows)} rows; give one loss"
            " per row"
        )
    weights = None if batch is None else batch.weights
    if weights is None:
        shares = _equal_shares(count, size, rows.dtype, rows.device)
    else:
        shares = torch.from_numpy(weights / np.float32(size)).to(rows)
    # forwards and backwards, a dot product takes less time than a mean
    return torch.dot(rows, shares)


@lru_cache(maxsize=16)
def _equal_shares(count: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return what each row of an unweighted batch is multiplied by: 1 / size."""
    return torch.full((count,), 1.0 / size, dtype=dtype, device=device)


def squared_norms(measured: list[tuple[Pass, Norms]]) -> list[float]:
    """Squared norms of the gradient of each pass, brought to the CPU all at once."""
    found = [norms if isinstance(norms, float) else 0.0 for _, norms in measured]
    waiting = [(k, norms) for k, (_, norms) in enumerate(measured) if isinstance(norms, list)]
    if waiting:
        device = waiting[0][1][0].device
        every = torch.stack([norm.to(device) for _, norms in waiting for norm in norms])
        squares = every.double().square().cpu().numpy()
        counts = np.array([len(norms) for _, norms in waiting])
        sums = np.add.reduceat(squares, np.cumsum(counts) - counts).tolist()
        for (k, _), square in zip(waiting, sums, strict=True):
            found[k] = square
    return found
