"""Norms of the gradients of all parameters, as each backward pass gives them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Variable

Norms = float | list[Tensor]  # the squared norm, or the norm of each parameter's gradient


class GradientNorms:
    """Measures the gradient of one backward pass after the other.

    What is measured is the gradient of this pass alone, not clipped and not averaged over
    processes. If no parameter has a gradient when the pass begins, as after ``zero_grad()``, all is
    read off at its end, in one call. Otherwise, as where gradients are accumulated, a hook on each
    parameter sees what is added to it; from then on these stay.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._handles: list[Any] = []
        self._found: list[Tensor] = []
        self._square: float | None = None
        self._measuring = False
        # several processes average gradients before the pass ends
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._add_hooks()

    def begin(self) -> None:
        """Measure the backward pass to come."""
        self._measuring = True

    def reach_head(self) -> None:
        """Take note that the backward pass has come to the head, and to nothing below it."""
        if not self._measuring or self._handles:
            return
        if any(one.grad is not None for one in self._parameters):
            self._add_hooks()
            self._measuring = False  # some parameters may have had theirs already
        else:
            Variable._execution_engine.queue_callback(self._read)

    def take(self) -> Norms:
        """Return what was measured since the last time; an empty list if nothing was."""
        found: Norms = self._found if self._square is None else self._square
        self._found, self._square, self._measuring = [], None, False
        return found

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _read(self) -> None:
        gradients = [one.grad for one in self._parameters if one.grad is not None]
        if not gradients:  # an optimiser in the backward pass has used them up
            self._add_hooks()
        elif all(one.dtype is torch.float32 and not one.is_sparse for one in gradients):
            norms = list(torch._foreach_norm(gradients))
            if gradients[0].is_cpu:  # nothing to wait for
                self._square = sum(norm.item() ** 2 for norm in norms)
            else:
                self._found = norms
        else:
            self._found = [_norm(one) for one in gradients]

    def _add_hooks(self) -> None:
        self._handles = [
            one.register_hook(self._keep)  # type: ignore[no-untyped-call]
            for one in self._parameters
        ]

    def _keep(self, gradient: Tensor) -> None:
        if self._measuring:
            self._found.append(_norm(gradient))


def _norm(gradient: Tensor) -> Tensor:
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    norm: Tensor = torch.linalg.vector_norm(gradient, dtype=torch.float32)
    return norm
