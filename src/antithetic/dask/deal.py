"""Exchange rows between blocks at random, for data that are sorted."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import Blocks, open_block
from antithetic.dask.mapping import delay_blocks
from antithetic.dask.recipes import refer

_OWN = 0x5EA1  # keeps these draws apart from those of orders


def deal(
    blocks: Blocks, lengths: tuple[int, ...], together: int, seed: int
) -> tuple[Blocks, list[Any], tuple[int, ...]]:
    """Return new blocks, the row numbers of their rows, and their lengths.

    The blocks are divided into ``together`` runs of ``ceil(K / together)`` blocks. Blocks at the
    same place in each run exchange rows, so that a new block has rows from the beginning, the
    middle and the end of the data. Each block divides its rows at random into one part for each new
    block; the division depends only on the seed and the number of the block.
    """
    n = len(blocks)
    stride = -(-n // min(together, n))
    firsts = np.cumsum([0, *lengths])
    groups = [list(range(group, n, stride)) for group in range(stride)]
    many = [len(groups[k % stride]) for k in range(n)]
    parts = delay_blocks(_cut, "cut", blocks, seed, own=[many, firsts[:-1].tolist()])
    join = dask.delayed(_join, pure=True, traverse=False)
    X, y, weight, rows, sizes = [], [], [], [], []
    for members in groups:
        for place in range(len(members)):
            joined = join([parts[k][place] for k in members])
            X.append(joined[0])
            y.append(joined[1])
            weight.append(joined[2])
            rows.append(joined[3])
            sizes.append(sum(len(_part(lengths[k], k, len(members), seed, place)) for k in members))
    columns = [X, y] if blocks.weight is None else [X, y, weight]
    recipes, graph = refer(part for column in columns for part in column)
    dealt = Blocks(
        recipes[:n], recipes[n : 2 * n], recipes[2 * n :] or None, graph, names=blocks.names
    )
    return dealt, rows, tuple(sizes)


def _part(n: int, number: int, parts: int, seed: int, place: int) -> NDArray[np.intp]:
    """Rows of a block that go to one of the new blocks, in order."""
    dealt = np.random.default_rng((seed, _OWN, number)).permutation(n)
    begin = (place + number) % parts  # rows that are left over go to a different block each time
    return np.sort(dealt[begin * n // parts : (begin + 1) * n // parts])


def _cut(number: int, parts: list[Any], many: int, first: int, seed: int) -> list[Any]:
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
