"""`pair` for Dask collections: one table per block, built on the worker that has the block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_count
from antithetic.dask.block_table import BlockTable
from antithetic.dask.blocks import Blocks, join_classes, one_thread, open_block, open_labels
from antithetic.dask.common import Common
from antithetic.dask.mapping import delay_blocks, over_blocks
from antithetic.dask.reading import read_blocks
from antithetic.dask.table_quality import rows_of
from antithetic.estimators.one_vs_rest import OneVsRest
from antithetic.pairing import AntitheticTable
from antithetic.pairing._pair import make_table
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.pairer import Pairer
from antithetic.problem.losses import Loss, get_loss
from antithetic.problem.penalties import ElasticNet

_STRIDE = 0x9E3779B1  # between the seeds of two blocks


def pair(
    X: Any,
    y: Any,
    method: Any = "auto",
    *,
    coef: Any = None,
    intercept: float = 0.0,
    loss: str | Loss = "log_loss",
    fit_intercept: bool = False,
    sample_weight: Any = None,
    client: Any = None,
    random_state: int | None = None,
) -> BlockTable:
    """Build antithetic tables of a Dask collection, one within each block.

    Tables are built lazily; only y is read immediately. Blocks should hold rows in random order,
    since partners are found within a block.

    Parameters
    ----------
    X : Dask array or data frame, or list of delayed blocks
        Rows, of shape (n, d); blocks dense or CSR.
    y : Dask array or series, or list of delayed blocks
        Labels of two or more values for a classification loss, numbers for regression; shape (n,).
    method : {"auto", "greedy", "optimal", "tree", "random"} or callable, default="auto"
        As in :func:`antithetic.pair`, for each block.
    coef : array-like of shape (d,), default=None
        Pair the gradients at these weights instead of the signed rows.
    intercept : float, default=0.0
        The intercept that belongs to ``coef``.
    loss : str or Loss, default="log_loss"
        Whether y holds classes or numbers follows from it.
    fit_intercept : bool, default=False
        Whether the model has an intercept. If so, each row has a further feature, which is 1.
    sample_weight : Dask array or series, default=None
        Weights of the rows, which scale their gradients.
    client : Client, default=None
        The client that reads y; None means Dask's default: the current client, or threads.
    random_state : int or None, default=None
        Seed; None means 0. The first block uses this seed, so a single block gives the same table
        as :func:`antithetic.pair`.

    Returns
    -------
    BlockTable

    Examples
    --------
    >>> import dask.array as da, antithetic.dask
    >>> X = da.from_array([[1.0, 0.0], [0.9, 0.1], [0.2, 1.0], [0.3, 0.7]], chunks=(2, 2))
    >>> table = antithetic.dask.pair(X, da.from_array([1, 0, 1, 0], chunks=2))
    >>> table.partner.compute(scheduler="sync").tolist()
    [1, 0, 3, 2]
    """
    loss = get_loss(loss)
    seed = 0 if random_state is None else check_count(random_state, "random_state", least=0)
    pairer = Pairer(method, n_jobs=1, seed=seed)
    blocks = read_blocks(X, y, sample_weight)
    classes, lengths = _labels(client, blocks, loss)
    if len(classes) > 2 and coef is not None:
        raise ValueError(
            f"coef= pairs gradients of two classes or of a regression, and y has {len(classes)}"
            " classes; leave it at None"
        )
    parts = OneVsRest(classes if loss.classification else None)
    common = Common(loss, ElasticNet(), bool(fit_intercept), parts, sum(lengths))
    tables = delay_blocks(pair_block, "pair", blocks, common, method, seed, coef, intercept)
    return BlockTable(tables, lengths, pairer.name(max(lengths)), blocks, common)


def pair_block(
    number: int,
    parts: Sequence[Any],
    common: Common,
    method: Any,
    seed: int,
    coef: Any,
    intercept: float,
) -> AntitheticTable | None:
    """Table of a block."""
    with one_thread():
        block = open_block(number, parts)
        if not block.X.shape[0]:
            return None
        pairer = Pairer(method, n_jobs=1, seed=(seed + number * _STRIDE) % (1 << 31))
        rows = rows_of(block, common, coef, intercept)
        return make_table(rows, pairer, None, False, Fingerprint())


def _labels(client: Any, blocks: Blocks, loss: Loss) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Labels of all blocks in order, empty for regression, and the lengths of the blocks."""
    assert blocks.y is not None
    labels = replace(blocks, X=[None] * len(blocks), weight=None)
    seen = over_blocks(client, _labels_of_block, "labels", labels, loss.classification)
    lengths = tuple(length for _, length in seen)
    if not sum(lengths):
        raise ValueError("X has no rows: all its blocks are empty")
    classes = join_classes([found for found, length in seen if length])
    if loss.classification and len(classes) < 2:
        raise ValueError(f"y has one class only, {classes.tolist()[0]!r}; a classifier needs two")
    return classes, lengths


def _labels_of_block(
    number: int, parts: Sequence[Any], classification: bool
) -> tuple[NDArray[Any], int]:
    labels = open_labels(number, parts[1])
    return np.unique(labels) if classification else labels[:0], len(labels)
