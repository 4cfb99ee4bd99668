"""From data to blocks: Dask arrays and data frames, lists of delayed values, plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import Blocks
from antithetic.dask.mapping import over_blocks
from antithetic.dask.recipes import divide, is_complete, read_part

_BYTES_OF_A_BLOCK = 1 << 26  # of rows that come as one array


def read_blocks(X: Any, y: Any = None, sample_weight: Any = None, *, client: Any = None) -> Blocks:
    """Divide X into its blocks, and y and the weights in the same way.

    Dask arrays, data frames and lists of delayed values keep their blocks; an array in memory is
    divided into blocks of 64 MB. With a client, what all blocks need is computed once, and data
    that are part of the graph are sent once (see :func:`antithetic.dask.recipes.divide`).
    """
    rows = _Column.of(X, "X", client)
    labels, weights = (
        _Column.of(y, "y", client, like=rows),
        _Column.of(sample_weight, "sample_weight", client, like=rows),
    )
    (X_parts, y_parts, weight_parts), graph = divide(
        [rows.parts, labels.parts, weights.parts], client
    )
    blocks = Blocks(X_parts or [], y_parts, weight_parts, graph)
    columns = _columns(X, blocks, client)
    names = None if columns is None else _names(columns)
    return replace(blocks, names=names, columns=columns)


def _columns(X: Any, blocks: Blocks, client: Any) -> list[Any] | None:
    """Labels of the columns of frames; for delayed blocks, the first one is read."""
    if not isinstance(X, (list, tuple)):
        columns = getattr(X, "columns", None)
        return None if columns is None else list(columns)
    if not len(blocks) or not is_dask_collection(X[0]):
        return None
    first = Blocks(blocks.X[:1], graph=blocks.graph)
    found: list[Any] | None = over_blocks(client, _columns_of, "columns", first)[0]
    return found


def _columns_of(number: int, parts: Sequence[Any]) -> list[Any] | None:
    columns = getattr(read_part(parts[0], f"block {number} of X"), "columns", None)
    return None if columns is None else list(columns)


def feature_names(X: Any) -> NDArray[Any] | None:
    """Names of the columns of a data frame, if they are all strings."""
    columns = getattr(X, "columns", None)
    return None if columns is None else _names(list(columns))


def _names(columns: list[Any]) -> NDArray[Any] | None:
    if not all(isinstance(name, str) for name in columns):
        return None
    return np.array(columns, dtype=object)


class _Column(NamedTuple):
    """Parts of a collection as delayed values, and their lengths where known."""

    parts: list[Delayed] | None
    lengths: tuple[int, ...] | None = None

    @classmethod
    def of(cls, given: Any, name: str, client: Any, like: _Column | None = None) -> _Column:
        if given is None:
            return cls(None)
        is_list = isinstance(given, (list, tuple)) and len(given) > 0
        if is_list and all(isinstance(part, Delayed) for part in given):
            column = cls(list(given))
        else:
            column = cls.cut(_as_collection(given, name, like, client))
        if like is not None:
            _check_alike(column, like, name)
        return column

    @classmethod
    def cut(cls, collection: Any) -> _Column:
        """Divide an array or data frame into its blocks."""
        chunks = getattr(collection, "chunks", None)
        if chunks is None or np.isnan(chunks[0]).any():
            return cls(delayed_parts(collection))
        return cls(delayed_parts(collection), tuple(int(length) for length in chunks[0]))


def _as_collection(given: Any, name: str, like: _Column | None, client: Any) -> Any:
    """Return a Dask array or data frame with the blocks of X."""
    import dask.array as da

    if not is_dask_collection(given):
        local = given if sparse.issparse(given) or hasattr(given, "iloc") else np.asarray(given)
        if like is None:
            return _from_memory(local, name)
        if np.ndim(local) == 0 and name == "sample_weight":
            raise ValueError("sample_weight must have one entry per row; got a number")
        lengths = _lengths(like, client)
        if sum(lengths) != len(local):
            raise ValueError(
                f"X has {sum(lengths)} rows and {name} has {len(local)}; they must have the same"
                " number of rows"
            )
        return da.from_array(np.asarray(local), chunks=(lengths, *((-1,) * (np.ndim(local) - 1))))
    if isinstance(given, Delayed):
        raise ValueError(
            f"{name} is one delayed value; pass a list of delayed values, one per block, or a Dask"
            " array or data frame"
        )
    if isinstance(given, da.Array):
        if given.ndim == 2 and given.numblocks[1] > 1:
            given = given.rechunk({1: -1})
        if like is None and given.ndim != 2:
            raise ValueError(
                f"{name} must have two dimensions, rows and features; got {given.ndim}"
            )
        return given if like is None else _rechunk(given, like, name, client)
    if not hasattr(given, "npartitions"):
        raise ValueError(
            f"{name} must be a Dask array or data frame, a list of delayed blocks, or an array; got"
            f" {type(given).__name__}"
        )
    if like is not None and like.parts is not None and given.npartitions != len(like.parts):
        counted = _lengths(_Column.cut(given), client)
        return _rechunk(da.concatenate(_of_known_lengths(given, counted)), like, name, client)
    return given


def _from_memory(local: Any, name: str) -> Any:
    import dask.array as da

    if np.ndim(local) != 2 and not sparse.issparse(local):
        raise ValueError(
            f"{name} must have two dimensions, rows and features; got {np.ndim(local)}"
        )
    n, d = local.shape
    wide = local.nnz * 12 // max(1, n) if sparse.issparse(local) else d * 8
    rows = max(1, _BYTES_OF_A_BLOCK // max(1, wide))
    if hasattr(local, "iloc"):
        local = local.to_numpy()
    if sparse.issparse(local):
        local = sparse.csr_array(local)
        starts = range(0, max(1, n), rows)
        parts = [dask.delayed(local[start : start + rows], traverse=False) for start in starts]
        shapes = [(min(rows, n - start), d) for start in starts]
        arrays = [
            da.from_delayed(part, shape, meta=local[:0])
            for part, shape in zip(parts, shapes, strict=True)
        ]
        return da.concatenate(arrays, axis=0) if len(arrays) > 1 else arrays[0]
    return da.from_array(local, chunks=(rows, -1))


def _of_known_lengths(frame: Any, lengths: tuple[int, ...]) -> list[Any]:
    import dask.array as da

    width = (len(frame.columns),) if frame.ndim == 2 else ()
    values = [dask.delayed(np.asarray, pure=False)(part) for part in delayed_parts(frame)]
    return [
        da.from_delayed(part, (length, *width), dtype=object)
        for part, length in zip(values, lengths, strict=True)
    ]


def _rechunk(given: Any, like: _Column, name: str, client: Any) -> Any:
    """Divide y or weights into the blocks of X."""
    known = not np.isnan(given.shape[0])
    if like.lengths == given.chunks[0] or (
        not known and given.numblocks[0] == len(like.parts or ())
    ):
        return given
    if like.lengths is None and known and given.numblocks[0] == len(like.parts or ()):
        return given  # their lengths are checked when they are read
    if not known:
        raise ValueError(
            f"X has {len(like.parts or ())} blocks and {name} has {given.numblocks[0]} of unknown"
            f" lengths; call {name}.compute_chunk_sizes() first, or take both from the same data"
            " frame"
        )
    lengths = _lengths(like, client)
    if sum(lengths) != given.shape[0]:
        raise ValueError(
            f"X has {sum(lengths)} rows and {name} has {given.shape[0]}; they must have the same"
            " number of rows"
        )
    return given.rechunk({0: lengths})


def _lengths(like: _Column, client: Any) -> tuple[int, ...]:
    """Lengths of the blocks of X, from the blocks themselves where they are not known."""
    if like.lengths is not None:
        return like.lengths
    (parts,), graph = divide([like.parts])
    return tuple(over_blocks(client, _length, "lengths", Blocks(parts or [], graph=graph)))


def _length(number: int, parts: Sequence[Any]) -> int:
    return int(read_part(parts[0], f"block {number} of X").shape[0])


def _check_alike(column: _Column, like: _Column, name: str) -> None:
    own, others = len(column.parts or ()), len(like.parts or ())
    if own != others:
        raise ValueError(
            f"X has {others} blocks and {name} has {own}; cut both into blocks of the same rows"
        )


def delayed_parts(collection: Any) -> list[Delayed]:
    """Return the parts of an array or data frame, in order."""
    if hasattr(collection, "simplify"):
        # reads no unnecessary columns; a full optimisation would fuse files of which
        # few columns are read, y's but not X's
        parts = collection.simplify().to_delayed(optimize_graph=False)
    else:
        parts = collection.to_delayed()
        if not is_complete(parts.ravel()):  # graphs of futures lose them when they are optimised
            parts = collection.to_delayed(optimize_graph=False)
    delayed: list[Delayed] = np.ravel(np.array(parts, dtype=object)).tolist()
    return delayed
