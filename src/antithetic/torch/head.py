"""Which layer of a model is observed: a linear one that is trained, and used once for a batch."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def find_head(model: Any, head: Any = None) -> nn.Linear:
    """Return the layer to be observed: as given, else the last linear layer of the model."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"observing needs a model, an nn.Module; got {type(model).__name__}")
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    if head is None:
        if not layers:
            raise ValueError(
                f"the model ({type(model).__name__}) has no nn.Linear layer to observe"
            )
        head = layers[-1]
    if not isinstance(head, nn.Linear):
        raise ValueError(
            f"head must be the model's last nn.Linear layer; got {type(head).__name__}"
        )
    if not any(head is layer for layer in layers):
        raise ValueError("head is not a layer of the observed model")
    if not head.weight.requires_grad:
        raise ValueError(
            "the observed layer is frozen (requires_grad=False); pass a trained layer as head="
        )
    sharing = [
        name
        for name, layer in model.named_modules()
        if layer is not head
        and any(parameter is head.weight for parameter in layer.parameters(recurse=False))
    ]
    if sharing:
        raise ValueError(
            f"the observed layer shares its weights with {sharing[0]!r}, so the gradient at its"
            " output is not the whole gradient of the weights; pass another layer as head="
        )
    return head


def is_linear(model: nn.Module, head: nn.Linear) -> bool:
    """Whether nothing but the head is trained."""
    own = {id(parameter) for parameter in head.parameters()}
    return all(id(p) in own for p in model.parameters() if p.requires_grad)


def mixing_layer(model: nn.Module) -> str:
    """Return the name of a layer in which rows of a batch act on each other, if there is one."""
    for name, layer in model.named_modules():
        if isinstance(layer, _BatchNorm) and layer.training:
            return f"batch norm ({name or type(layer).__name__})"
    return ""
