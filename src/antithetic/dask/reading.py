"""From data to blocks: Dask arrays and data frames, lists of delayed values, plain arrays."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed
from dask.utils import ensure_dict
from distributed import Future
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import Blocks, Recipe, read_part
from antithetic.dask.cluster import compute, compute_anywhere

_BYTES_OF_A_BLOCK = 1 << 26  # of rows that come as one array


def read_blocks(X: Any, y: Any = None, sample_weight: Any = None, *, client: Any = None) -> Blocks:
    """Divide X into its blocks, and y and the weights in the same way.

    Dask arrays, data frames and lists of delayed values keep their blocks; an array in memory is
    divided into blocks of 64 MB. If there is a client, arrays that are part of the graph are sent
    to the cluster once and kept there.
    """
    rows = _Column.of(X, "X", client)
    labels, weights = (
        _Column.of(y, "y", client, like=rows),
        _Column.of(sample_weight, "sample_weight", client, like=rows),
    )
    held = tuple(column.held for column in (rows, labels, weights) if column.held is not None)
    columns = _columns(X, rows, client)
    names = None if columns is None else _names(columns)
    return Blocks(rows.parts or [], labels.parts, weights.parts, names, columns, held)


def _columns(X: Any, rows: _Column, client: Any) -> list[Any] | None:
    """Labels of the columns of frames; for delayed blocks, the first one is read."""
    if not isinstance(X, (list, tuple)):
        columns = getattr(X, "columns", None)
        return None if columns is None else list(columns)
    if not rows.parts or not is_dask_collection(X[0]):
        return None
    task = dask.delayed(_columns_of, pure=False, traverse=False)(rows.parts[0])
    found: list[Any] | None = compute_anywhere(client, [task])[0]
    return found


def _columns_of(part: Any) -> list[Any] | None:
    columns = getattr(read_part(part, "block 0 of X"), "columns", None)
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
    """Parts of a collection, their lengths where known, and what keeps them on the cluster."""

    parts: list[Any] | None
    lengths: tuple[int, ...] | None = None
    held: Any = None

    @classmethod
    def of(cls, given: Any, name: str, client: Any, like: _Column | None = None) -> _Column:
        if given is None:
            return cls(None)
        if (
            isinstance(given, (list, tuple))
            and given
            and all(isinstance(part, Delayed) for part in given)
        ):
            recipes = [_recipe(ensure_dict(part.dask), part.key) for part in given]
            column = cls(
                [
                    part if recipe is None else recipe
                    for part, recipe in zip(given, recipes, strict=True)
                ]
            )
        else:
            collection = _as_collection(given, name, like, client)
            column = _cut(collection, client)
        if like is not None:
            _check_alike(column, like, name)
        return column


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
        counted = _lengths(_cut(given, client), client)
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
    values = [dask.delayed(np.asarray, pure=False)(part) for part in delayed_parts(frame)[0]]
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
    count = dask.delayed(_length, pure=False, traverse=False)
    tasks = [count(part) for part in like.parts or ()]
    return tuple(dask.compute(*tasks) if client is None else compute(client, tasks))


def _length(part: Any) -> int:
    return int(read_part(part, "a block of X").shape[0])


def _check_alike(column: _Column, like: _Column, name: str) -> None:
    own, others = len(column.parts or ()), len(like.parts or ())
    if own != others:
        raise ValueError(
            f"X has {others} blocks and {name} has {own}; cut both into blocks of the same rows"
        )


def _cut(collection: Any, client: Any) -> _Column:
    """Divide a collection into recipes, or delayed values if the cluster holds its data."""
    delayed, graph = delayed_parts(collection)
    chunks = getattr(collection, "chunks", None)
    lengths = (
        None
        if chunks is None or np.isnan(chunks[0]).any()
        else tuple(int(length) for length in chunks[0])
    )
    if client is not None and _holds_arrays(graph):
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Sending large graph", UserWarning
            )  # it is sent only once
            kept = client.persist(delayed)
        return _Column(kept, lengths, kept)
    recipes = [_recipe(graph, part.key) for part in delayed]
    if all(recipe is not None for recipe in recipes):
        return _Column(recipes, lengths)
    return _Column(delayed_parts(collection, optimize=False)[0], lengths, collection)


def delayed_parts(
    collection: Any, *, optimize: bool = True
) -> tuple[list[Delayed], dict[Any, Any]]:
    """Parts of an array or data frame, in order, and the graph that they share."""
    if hasattr(collection, "simplify"):
        # reads no unnecessary columns; a full optimisation would fuse files of which
        # few columns are read, y's but not X's
        parts = collection.simplify().to_delayed(optimize_graph=False)
    else:
        parts = collection.to_delayed(optimize_graph=optimize)
    delayed = np.ravel(np.array(parts, dtype=object)).tolist()
    return delayed, ensure_dict(delayed[0].dask) if delayed else {}


def _holds_arrays(graph: dict[Any, Any]) -> bool:
    """Whether the graph contains data, which each round would send again."""
    return any(_is_data(getattr(node, "value", node)) for node in graph.values())


def _is_data(value: Any) -> bool:
    return isinstance(value, np.ndarray) or sparse.issparse(value) or hasattr(value, "iloc")


def _recipe(graph: dict[Any, Any], key: Any) -> Recipe | None:
    """Return the part of a graph that a key needs, or None if the cluster holds data of it."""
    needed, waiting = {}, [key]
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        node = graph.get(name)
        if (
            node is None
            or isinstance(node, Future)
            or isinstance(getattr(node, "value", None), Future)
        ):
            return None
        needed[name] = node
        waiting.extend(_dependencies(graph, node))
    return Recipe(needed, key)


def _dependencies(graph: dict[Any, Any], node: Any) -> Any:
    if hasattr(node, "dependencies"):
        return node.dependencies
    from dask.core import get_dependencies

    return get_dependencies(graph, task=node)
