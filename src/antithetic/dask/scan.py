"""A first look at the blocks: sizes, labels, and sums over their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import Block, Blocks, one_thread, open_block
from antithetic.dask.cluster import gather
from antithetic.dask.mapping import map_blocks
from antithetic.dask.moments import BlockMoments, Census, join_means, sums_of
from antithetic.estimators.one_vs_rest import classes_of
from antithetic.problem.losses import Loss

_MARKED_ROWS = 256  # of each block, by which checkpoints recognise their data


@dataclass(frozen=True, slots=True, eq=False)
class Glance:
    """What the first look finds out about one block.

    Attributes
    ----------
    rows, width : int
    kind : str
        Float type, and "sparse" if it is.
    classes, counts : ndarray
        Labels in order, and the number of rows with each; empty for regression.
    weighted : float
        Sum of the weights.
    mark : str
        Hash of labels, weights and some rows, for checkpoints.
    moments : BlockMoments or None
        Sums over the rows; None if there are none.
    """

    rows: int
    width: int
    kind: str
    classes: NDArray[Any]
    counts: NDArray[np.intp]
    weighted: float
    mark: str
    moments: BlockMoments | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What to look for.

    Attributes
    ----------
    loss : Loss
    marks : bool
        Whether blocks are hashed, for a checkpoint.
    """

    loss: Loss
    marks: bool = False


def look(client: Any, blocks: Blocks, aim: Look, *, after_loss: str = "") -> list[Glance]:
    """Look at all blocks: one round; ``after_loss`` says what to do if the cluster is lost."""
    seen = map_blocks(client, glance, "look", blocks, aim, after_loss=after_loss)
    return gather(client, seen, after_loss=after_loss)


def glance(number: int, parts: Sequence[Any], aim: Look) -> Glance:
    """Look at a block."""
    with one_thread():
        block = open_block(number, parts)
        n, d = block.X.shape
        kind = f"{block.X.dtype.name}{' sparse' if sparse.issparse(block.X) else ''}"
        assert block.y is not None
        if not n:
            return Glance(0, d, kind, block.y[:0], np.empty(0, np.intp), 0.0, "")
        _check_numbers(number, block.y, aim.loss)
        classes, codes = _classes_and_codes(block.y, aim.loss)
        counts = np.bincount(codes)
        return Glance(
            n,
            d,
            kind,
            classes,
            counts if aim.loss.classification else counts[:0],
            float(n if block.weight is None else block.weight.sum()),
            _mark(block) if aim.marks else "",
            sums_of(block, codes, len(counts), aim.loss),
        )


def _check_numbers(number: int, y: NDArray[Any], loss: Loss) -> None:
    if not loss.classification and y.dtype.kind not in "biuf":
        raise ValueError(f"block {number}: y must be numbers for loss={loss.name!r}; got {y.dtype}")
    try:
        loss.check_targets(y)
    except ValueError as error:
        raise ValueError(f"block {number}: {error}") from error


def _classes_and_codes(y: NDArray[Any], loss: Loss) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels in order, and the position of each row's label, which is 0 for regression."""
    if not loss.classification:
        return y[:0], np.zeros(len(y), np.intp)
    classes = classes_of(y)
    if len(classes) == 2:
        return classes, (y == classes[1]).astype(np.intp)
    return classes, np.searchsorted(classes, y)


def _mark(block: Block) -> str:
    """Hash of labels, weights and evenly spaced rows, the same on all machines."""
    some = block.X[:: -(-block.X.shape[0] // _MARKED_ROWS)]
    values = (some.data, some.indices, some.indptr) if sparse.issparse(some) else (some,)
    assert block.y is not None
    mark = blake2b(digest_size=16)
    for column in (_bytes(block.y), block.weight, *values):
        mark.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
    return mark.hexdigest()


def _bytes(y: NDArray[Any]) -> NDArray[Any]:
    return y if y.dtype.kind != "U" else np.char.encode(y, "utf-8")


def census_of(glances: list[Glance], classes: NDArray[Any] | None, loss: Loss) -> Census:
    """Join what was found out about all blocks; ``classes`` is None for regression."""
    many = 1 if classes is None else len(classes)
    counts = np.zeros((len(glances), many), np.intp)
    weights, squares = np.zeros(many), np.zeros(many)
    columns = []
    seen = [(k, one, one.moments) for k, one in enumerate(glances) if one.moments is not None]
    for k, one, sums in seen:
        places = np.zeros(1, np.intp) if classes is None else np.searchsorted(classes, one.classes)
        counts[k, places] = one.rows if classes is None else one.counts
        weights[places] += sums.weights
        squares[places] += sums.squares
        columns += list(zip(places.tolist(), sums.columns, strict=False))
    rows = int(counts.sum())
    real = np.dtype(seen[0][1].kind.split()[0])
    is_sparse = seen[0][1].kind.endswith("sparse")
    entry_bytes = real.itemsize + (4 if is_sparse else 0)
    mean, spread = 0.0, 0.0
    if classes is None:
        parts = [(float(sums.weights.sum()), sums.mean, sums.spread) for *_, sums in seen]
        mean, spread = join_means(loss, parts)
    return Census(
        rows,
        counts,
        weights,
        squares,
        columns,
        mean,
        spread,
        float(sum(sums.loss for *_, sums in seen)),
        entry_bytes * sum(one.rows * sums.entries for _, one, sums in seen) / rows,
        real == np.float32,
        is_sparse,
    )
