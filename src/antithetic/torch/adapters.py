"""Samplers in the form in which other packages ask for them."""

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
    """Make the batches of sentence-transformers' trainers: stratified by label.

    Give it as ``batch_sampler=sentence_batch_sampler`` to their training arguments. Batches are
    dealt out to several processes by the trainer, through accelerate.

    Parameters
    ----------
    dataset : Dataset
        With ``column_names``, and columns by their names.
    batch_size : int
    drop_last : bool, default=False
    valid_label_columns : sequence of str, default=None
        The first of these that the data set has holds the labels. If it has none, the loss can only
        compare the rows of a batch with each other: then batches are shuffled, and a warning says
        so.
    generator : torch.Generator, default=None
        Not used; the seed says all.
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
        "the data set has no labels, so its loss takes the other rows of a batch as negatives, and"
        " gradients of rows do not add up; batches are shuffled",
        UserWarning,
    )
    return AntitheticBatchSampler(None, np.zeros(len(dataset)), batch_size, arms=(), **place)
