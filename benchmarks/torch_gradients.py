"""Exact gradients of single rows of a small network, kept as factors, and plain GraB on them.

The gradient of a row by the weights and bias of a linear layer is the outer product of a slope (by
the layer's outputs) and the layer's input with a one behind it; that by a convolution is the sum of
such products over the places of the picture, and is kept as a slope of its own with the input 1. So
norms, inner products and sums of gradients never need a matrix with a row for each sample and a
column for each parameter of the linear layers.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it

Factors = list[tuple[Tensor, Tensor]]  # slopes (m, o) and inputs (m, d) of each layer


@contextmanager
def watched(model: nn.Module):
    """Keep the inputs and outputs of all layers with parameters, from the last forward pass."""
    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    assert sum(p.numel() for layer in layers for p in layer.parameters()) == sum(
        p.numel() for p in model.parameters()
    )
    kept: list[tuple[nn.Module, Tensor, Tensor]] = []

    def keep(layer, args, output):
        if layer is layers[0]:
            kept.clear()
        if torch.is_grad_enabled():
            output.retain_grad()
        kept.append((layer, args[0].detach(), output))

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def factors_of(kept, scale: float) -> Factors:
    """Factors of the gradients of the rows of the last pass.

    ``scale`` is the number of rows if the loss was their mean.
    """
    return [_factors(layer, given, output.grad * scale) for layer, given, output in kept]


def _factors(layer: nn.Module, given: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(layer, nn.Linear):
        return slopes, F.pad(given, (0, 1), value=1.0)
    patches = F.unfold(given, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    patches = F.pad(patches, (0, 0, 0, 1), value=1.0)
    return torch.bmm(slopes.flatten(2), patches.mT).flatten(1), slopes.new_ones(len(slopes), 1)


def all_factors(model: nn.Module, X: Tensor, y: Tensor, chunk: int = 500) -> Factors:
    """Factors of the gradients of all rows at the weights of the moment."""
    parts = []
    with watched(model) as kept:
        for first in range(0, len(y), chunk):
            F.cross_entropy(
                model(X[first : first + chunk]), y[first : first + chunk], reduction="sum"
            ).backward()
            parts.append(factors_of(kept, 1.0))
    model.zero_grad()
    return [
        tuple(torch.cat(column) for column in zip(*layer, strict=True))
        for layer in zip(*parts, strict=True)
    ]


def as_tensors(factors: Factors) -> dict[str, Tensor]:
    """Gradients of the rows themselves, layer by layer."""
    return {str(k): torch.einsum("mo,md->mod", S, A) for k, (S, A) in enumerate(factors)}


def variance_ratio(factors: Factors, batches: list[list[int]], size: int, chunk: int = 32) -> float:
    """Variance of an epoch's full batches relative to reshuffled ones.

    The mean of |g_B - g|^2 over the full batches, divided by its expectation for reshuffled
    batches, (n - b)/(n - 1) Var/b.
    """
    n = len(factors[0][0])
    full = [S.T @ A / n for S, A in factors]
    second = sum(((S.square().sum(1)) * A.square().sum(1)).double().mean() for S, A in factors)
    variance = float(second - sum(g.double().square().sum() for g in full))
    order = torch.tensor([batch for batch in batches if len(batch) == size])
    error = 0.0
    for rows in order.split(chunk):
        for (S, A), g in zip(factors, full, strict=True):
            error += float((S[rows].mT @ A[rows] / size - g).square().sum())
    return error / len(order) / ((n - size) / (n - 1) * variance / size)


class PlainGrab:
    """GraB with mean balance (Lu, Guo and De Sa 2022, algorithm 4), for all parameters.

    The order of an epoch follows from the gradients of the epoch before.

    Row by row, c is its gradient less the mean of the epoch before, and s the signed sum of these.
    If <s, c> <= 0 the row goes to the front of the next order and s becomes s + c, else it goes to
    the back, which fills from the end, and s becomes s - c.
    """

    def __init__(self, n: int, size: int, seed: int) -> None:
        self.size, self.n = size, n
        self.order = np.random.default_rng(seed).permutation(n)
        self.signed, self.mean, self.next_mean = None, None, None
        self.front, self.back = [], []

    def batches(self) -> list[list[int]]:
        """Begin an epoch, with the order that the last one led to."""
        if self.front or self.back:
            self.order = np.array(self.front + self.back[::-1])
            self.mean = self.next_mean
            self.signed = self.next_mean = None
            self.front, self.back = [], []
        return [part.tolist() for part in np.split(self.order, range(self.size, self.n, self.size))]

    def observe(self, rows: list[int], factors: Factors) -> None:
        """Place the rows of a batch, in their order."""
        if self.signed is None:
            self.signed, self.next_mean = (
                [S.new_zeros(S.shape[1], A.shape[1]) for S, A in factors] for _ in range(2)
            )
            self.mean = self.mean or [torch.zeros_like(m) for m in self.signed]
        along_mean = _along(factors, self.mean)
        products = sum((S @ S.T) * (A @ A.T) for S, A in factors) - along_mean - along_mean[:, None]
        products = (products + sum(m.square().sum() for m in self.mean)).numpy()
        leans = _along(factors, self.signed) - sum(
            (s * m).sum() for s, m in zip(self.signed, self.mean, strict=True)
        )
        signs = self._place(rows, leans.numpy(), products)
        self._add(factors, torch.from_numpy(signs))

    def _place(self, rows: list[int], leans, products):
        signs = np.zeros(len(rows), dtype=np.float32)
        for k, row in enumerate(rows):
            signs[k] = 1.0 if leans[k] + signs[:k] @ products[k, :k] <= 0.0 else -1.0
            (self.front if signs[k] > 0.0 else self.back).append(row)
        return signs

    def _add(self, factors: Factors, signs: Tensor) -> None:
        for (S, A), s, m, following in zip(
            factors, self.signed, self.mean, self.next_mean, strict=True
        ):
            s += (signs[:, None] * S).T @ A - signs.sum() * m
            following += S.T @ A / self.n


def _along(factors: Factors, matrices: list[Tensor]) -> Tensor:
    """Inner products of the gradients with a vector of the same form."""
    return sum(((S @ M) * A).sum(1) for (S, A), M in zip(factors, matrices, strict=True))
