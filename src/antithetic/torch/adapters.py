"""Samplers in the form that other packages expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from antithetic._util.warnings import warn
from antithetic.torch.sampler import AntitheticBatchSampler


def sentence_batch_sampler(
    dataset: Any,
    batch_size: int,
    drop_last: bool = False,
    valid_label_columns: Sequence[str] | None = None,
    generator: Any = None,
    seed: int = 0,
) -> AntitheticBatchSampler:
    """Create a batch sampler for sentence-transformers' trainers: stratified by label.

    Pass it to their training arguments as ``batch_sampler=sentence_batch_sampler``. The trainer
    distributes the batches to several processes through accelerate.

    Parameters
    ----------
    dataset : Dataset
        Has ``column_names``, and returns a column for its name.
    batch_size : int
    drop_last : bool, default=False
    valid_label_columns : sequence of str, default=None
        The first of these columns that exists contains the labels. If none exists, the loss can
        only compare the rows of a batch with each other; batches are then shuffled, with a
        warning.
    generator : torch.Generator, default=None
        Not used; the seed determines the batches.
    seed : int, default=0

    Returns
    -------
    AntitheticBatchSampler
    """
    del generator
    names = list(dataset.column_names)
    column = next((name for name in valid_label_columns or () if name in names), None)
    place: dict[str, Any] = {"num_replicas": 1, "rank": 0, "drop_last": drop_last, "seed": seed}
    if column is not None:
        return AntitheticBatchSampler(None, np.asarray(dataset[column]), batch_size, **place)
    warn(
        "the data set has no labels, so its loss uses the other rows of a batch as negatives, and"
        " gradients of rows do not add up; batches are shuffled",
        UserWarning,
    )
    return AntitheticBatchSampler(None, np.zeros(len(dataset)), batch_size, arms=(), **place)
