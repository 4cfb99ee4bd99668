"""Rows of several blocks dealt at random among as many new ones, for data that are sorted."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import Blocks, open_block

_OWN = 0x5EA1  # keeps these draws apart from those of orders


def deal(
    blocks: Blocks, lengths: tuple[int, ...], together: int, seed: int
) -> tuple[Blocks, list[Any], tuple[int, ...]]:
    """Return new blocks, the numbers of their rows in the whole, and their lengths.

    Block k is dealt with those at the same place in the other strides of ``ceil(K / together)``
    blocks, so that a new block has rows from the beginning, the middle and the end. Each block cuts
    its rows into parts at random, a part for each new block: which rows these are follows from the
    seed and the block's number alone.
    """
    n = len(blocks)
    stride = -(-n // min(together, n))
    firsts = np.cumsum([0, *lengths])
    cut, join = (
        dask.delayed(_cut, pure=True, traverse=False),
        dask.delayed(_join, pure=True, traverse=False),
    )
    X, y, weight, rows, sizes = [], [], [], [], []
    for group in range(stride):
        members = list(range(group, n, stride))
        parts = {k: cut(k, blocks.parts(k), len(members), seed, int(firsts[k])) for k in members}
        for place in range(len(members)):
            joined = join([parts[k][place] for k in members])
            X.append(joined[0])
            y.append(joined[1])
            weight.append(joined[2])
            rows.append(joined[3])
            sizes.append(sum(len(_part(lengths[k], k, len(members), seed, place)) for k in members))
    has_weights = blocks.weight is not None
    return (
        Blocks(X, y, weight if has_weights else None, blocks.names, held=blocks.held),
        rows,
        tuple(sizes),
    )


def _part(n: int, number: int, parts: int, seed: int, place: int) -> NDArray[np.intp]:
    """Rows of a block that go to one of the new ones, in order."""
    dealt = np.random.default_rng((seed, _OWN, number)).permutation(n)
    begin = (place + number) % parts  # what does not divide evenly goes to another block each time
    return np.sort(dealt[begin * n // parts : (begin + 1) * n // parts])


def _cut(number: int, parts: list[Any], many: int, seed: int, first: int) -> list[Any]:
    block = open_block(number, parts)
    n = block.X.shape[0]
    cuts = []
    for place in range(many):
        rows = _part(n, number, many, seed, place)
        weight = None if block.weight is None else block.weight[rows]
        cuts.append(
            (block.X[rows], None if block.y is None else block.y[rows], weight, first + rows)
        )
    return cuts


def _join(parts: list[Any]) -> tuple[Any, ...]:
    columns = list(zip(*parts, strict=True))
    return tuple(None if column[0] is None else _concatenate(column) for column in columns)


def _concatenate(column: tuple[Any, ...]) -> Any:
    if sparse.issparse(column[0]):
        return sparse.csr_array(sparse.vstack(column))
    return np.concatenate(column)
