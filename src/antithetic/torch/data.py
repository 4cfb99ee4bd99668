"""Features and labels as PyTorch users have them, in the form that pairing needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch.utils.data import DataLoader, Dataset

from antithetic._util.validation import Matrix, check_column, check_rows

Indices = NDArray[np.intp]
TASKS = ("classification", "regression")


def read_features(features: Any) -> Matrix:
    """Return one row per sample.

    Tensors and arrays are flattened per sample, integers become float32, and bytes are scaled to
    [0, 1].

    What is C-contiguous float32 or float64 in memory already (or on disk, memory-mapped) is not
    copied.
    """
    if isinstance(features, (Dataset, DataLoader)):
        raise ValueError(
            "features must be the rows themselves, as an array or a tensor; got a"
            f" {type(features).__name__}. Pass its underlying data, such as dataset.tensors[0] or"
            " dataset.data, and for a Subset the rows in subset.indices; or use"
            " BalancedBatchSampler(dataset), which needs no features"
        )
    if sparse.issparse(features):
        return check_rows(features, "features")
    rows = to_numpy(features, "features")
    if rows.ndim == 0 or not len(rows):
        raise ValueError(f"features must have at least one row; got shape {rows.shape}")
    rows = rows.reshape(len(rows), -1)
    if rows.dtype.kind in "biu":
        # bytes are pixels: of the size of the constant feature that stands for the intercept, as
        # models are given them
        rows = rows * np.float32(1.0 / 255.0) if rows.dtype == np.uint8 else rows.astype(np.float32)
    return check_rows(rows, "features")


def read_labels(labels: Any, n: int, task: str | None) -> tuple[NDArray[Any], str]:
    """Return a label per row, and the task.

    Floating-point labels mean regression and all others classes, unless ``task`` says otherwise.
    """
    if task is not None and task not in TASKS:
        raise ValueError(
            f"task {task!r} is not known; use one of {', '.join(TASKS)}, or None to go by the type"
            " of the labels"
        )
    if isinstance(labels, (Dataset, DataLoader)):
        raise ValueError(
            "labels must be an array or a tensor with one label per row; got a"
            f" {type(labels).__name__}. Pass its underlying data, such as dataset.tensors[1] or"
            " dataset.targets"
        )
    column = to_numpy(labels, "labels")
    if column.shape == (n, 1):
        column = column.ravel()
    if column.shape != (n,):
        raise ValueError(
            f"labels must have shape ({n},), one for each row of features; got {column.shape}"
            + (
                "; for several targets per row, pass labels=None and your own vectors (see"
                " head_gradients)" * (column.ndim > 1)
            )
        )
    if task is None:
        task = "regression" if column.dtype.kind == "f" else "classification"
    return (check_column(column, n, "labels"), task) if task == "regression" else (column, task)


def to_numpy(values: Any, name: str) -> NDArray[Any]:
    """Return an array of what may be a tensor; one on the CPU is shared."""
    if not isinstance(values, torch.Tensor):
        return np.asarray(values)
    if values.layout != torch.strided:
        raise ValueError(
            f"{name} is a tensor of layout {values.layout}; pass a dense tensor or a SciPy sparse"
            " matrix"
        )
    values = values.detach().cpu()
    found: NDArray[Any] = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return found


def to_indices(indices: Any, n: int) -> Indices:
    """Return row numbers, each from 0 to n - 1."""
    rows = to_numpy(indices, "indices")
    if rows.ndim != 1 or (rows.dtype.kind not in "iu" and len(rows)):
        raise ValueError(
            f"indices must be a list of integers; got shape {rows.shape} of {rows.dtype}"
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= n):
        raise ValueError(f"indices must lie in 0..{n - 1}; got {rows.min()}..{rows.max()}")
    return rows.astype(np.intp, copy=False)
