"""Norms of the gradients of all parameters, as each backward pass gives them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Variable

Norms = float | list[Tensor]  # the squared norm, or the norm of each parameter's gradient
_SMALL = 1 << 13  # numbers of a parameter up to which NumPy, with cheaper calls, takes the norm


class GradientNorms:
    """Measures the gradient of one backward pass after another.

    What is measured is the gradient of this pass alone, before clipping and before it is averaged
    over processes. If no parameter has a gradient when the pass reaches the head, as after
    ``zero_grad()``, all gradients are read at the end of the pass. Otherwise, for example when
    gradients are accumulated, a hook on each parameter sees what is added to it; once added, these
    hooks stay. Backward passes that do not come through the output of the head, as those of a
    penalty or of adversarial inputs, are not counted.

    Parameters
    ----------
    model : nn.Module
    head : nn.Linear
        The observed layer.
    """

    def __init__(self, model: nn.Module, head: nn.Linear) -> None:
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._small = all(
            one.numel() <= _SMALL and one.dtype is torch.float32 and one.is_cpu
            for one in self._parameters
        )
        # when the weight of the head is reached, its bias may have its new gradient already
        self._below = [one for one in self._parameters if one is not head.bias]
        self._handles: list[Any] = []
        self._each = False  # whether each parameter has a hook
        self._found: Norms = []
        self._measuring = False  # whether the hooks of the parameters keep what they see
        self._waiting = False  # whether a pass is to be measured
        self._reached = 0  # how often a backward pass has reached the head since `begin`
        self._output: Tensor | None = None
        self._arrived: tuple[int, int] | None = None  # identity and version of its gradient
        self._weight = head.weight
        self._hook: Any = None  # on the weight of the head, while passes are measured
        # several processes average gradients before the pass ends
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._add_hooks()

    @property
    def needs_hooks(self) -> bool:
        """Whether each backward pass is to be reported when it comes to the head's output."""
        return self._each

    def begin(self, output: Tensor | None) -> None:
        """Measure the next backward pass through an output of the head that keeps its gradient.

        None means that the caller reports it by :meth:`reach_head`.
        """
        self._found, self._reached, self._measuring = [], 0, False
        self._output, self._arrived, self._waiting = output, None, True
        if output is not None and self._hook is None:
            # a hook that stays costs a quarter of one on each batch's output
            self._hook = self._weight.register_hook(self._reach)  # type: ignore[no-untyped-call]

    def rest(self) -> None:
        """Remove the hook on the head until the next pass that is to be measured."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _reach(self, _gradient: Tensor) -> None:
        """Note that a pass is at the weight of the head, if it came through the output."""
        gradient = None if self._output is None else self._output.grad
        if gradient is None:
            return
        arrived = id(gradient), gradient._version
        if arrived != self._arrived:
            self._arrived = arrived
            self.reach_head()

    def reach_head(self) -> None:
        """Note that a backward pass has reached the head, but no layer below it."""
        if not self._waiting:
            return
        self._reached += 1
        if self._reached > 1:
            return
        if self._each:  # the hooks of the parameters see this pass, and no other
            self._measuring = True
            Variable._execution_engine.queue_callback(self._end_pass)
        elif any(one.grad is not None for one in self._below):
            self._add_hooks()  # for later passes: some parameters may have received theirs already
            self._waiting = False
        else:
            Variable._execution_engine.queue_callback(self._read)

    def take(self) -> Norms:
        """Return what was measured since ``begin``; an empty list if that is not one pass."""
        found = self._found if self._reached == 1 else []
        self._found, self._reached = [], 0
        self._measuring, self._waiting, self._output = False, False, None
        return found

    def close(self) -> None:
        """Remove the hooks."""
        self.rest()
        for handle in self._handles:
            handle.remove()
        self._handles, self._measuring, self._waiting, self._output = [], False, False, None

    def _end_pass(self) -> None:
        self._measuring = False

    def _read(self) -> None:
        if self._small:
            # parameters without a gradient, sparse gradients and those with a graph are left to
            # the general way below
            with suppress(AttributeError, TypeError, RuntimeError):
                self._found = _square([one.grad for one in self._parameters])
                return
        gradients = [one.grad for one in self._parameters if one.grad is not None]
        if not gradients:  # an optimiser that runs inside the backward pass has used them
            self._add_hooks()
            return
        with torch.no_grad():  # gradients have a graph after backward(create_graph=True)
            if all(one.dtype is torch.float32 and not one.is_sparse for one in gradients):
                self._found = list(torch._foreach_norm(gradients))
            else:
                self._found = [_norm(one) for one in gradients]

    def _add_hooks(self) -> None:
        self._each = True
        self._handles += [
            one.register_hook(self._keep)  # type: ignore[no-untyped-call]
            for one in self._parameters
        ]

    def _keep(self, gradient: Tensor) -> None:
        if self._measuring and isinstance(self._found, list):
            self._found.append(_norm(gradient.detach()))


def _square(gradients: list[Any]) -> float:
    """Sum of the squares of small gradients on the CPU."""
    total = 0.0
    for one in gradients:
        flat = one.numpy().ravel()
        total += float(flat.dot(flat))
    return total


def _norm(gradient: Tensor) -> Tensor:
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    wide = torch.promote_types(gradient.dtype, torch.float32)  # half precision would overflow
    norm: Tensor = torch.linalg.vector_norm(gradient, dtype=wide)
    return norm.float()
