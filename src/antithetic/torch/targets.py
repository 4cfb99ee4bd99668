"""Targets of all rows, as the loss of a linear head takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antithetic.torch.data import to_numpy


def read_targets(targets: Any, n: int, loss: str) -> Tensor:
    """Return one target per row: classes from 0 for "cross_entropy", else numbers.

    Those for "bce" lie between 0 and 1.
    """
    if targets is None:
        raise ValueError("this sampler has no labels; give targets=, one for each row")
    numbered = not isinstance(targets, Tensor)  # a tensor is what the loss gets already
    values = to_numpy(targets, "targets")
    if values.ndim == 0 or len(values) != n:
        raise ValueError(f"targets must be one for each of the {n} rows; got shape {values.shape}")
    values = _as_numbers(values, loss) if numbered else values
    if loss == "cross_entropy":
        if values.dtype.kind not in "biu" or values.ndim != 1 or int(values.min()) < 0:
            raise ValueError(
                "targets of the cross-entropy must be classes, one whole number from 0 for each"
                f" row; got {values.dtype} of shape {values.shape}"
            )
        return torch.from_numpy(values.astype(np.int64))
    values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise ValueError(
            "targets has NaN or infinity, first in row"
            f" {int(np.argmin(np.isfinite(values).reshape(n, -1).all(axis=1)))}"
        )
    if loss == "bce" and (values.min() < 0.0 or values.max() > 1.0):
        raise ValueError(
            "targets of the binary cross-entropy must lie in 0..1; got"
            f' {values.min():g}..{values.max():g}; for several classes use loss="cross_entropy"'
        )
    return torch.from_numpy(values)


def _as_numbers(labels: NDArray[Any], loss: str) -> NDArray[Any]:
    """Labels as numbers.

    Classes that are not numbers from 0, and for ``"bce"`` any two classes, are numbered in order.
    """
    numbered = (
        loss != "mse" and labels.ndim == 1 and (labels.dtype.kind not in "biuf" or labels.min() < 0)
    )
    if numbered or (loss == "bce" and labels.ndim == 1 and labels.dtype.kind in "biu"):
        labels = np.unique(labels, return_inverse=True)[1].ravel()
    return labels
