"""From Dask's collections to blocks: rows, labels and weights of one piece of the data, which one task reads at a time."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed
from dask.local import get_sync
from dask.utils import ensure_dict
from distributed import Future
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import check_column, check_rows
from antithetic.dask.cluster import compute

_BYTES_OF_A_BLOCK = 1 << 26  # of rows that come as one array


class Recipe:
    """How a task reads a part of a block by itself: a small graph without anything that the cluster holds.

    So the part is in memory while its task runs, and not before: the scheduler would have workers
    read ahead.
    """

    __slots__ = ("graph", "key")

    def __init__(self, graph: dict[Any, Any], key: Any) -> None:
        self.graph, self.key = graph, key

    def read(self) -> Any:
        """Run the graph in this thread."""
        return get_sync(self.graph, self.key)


class Block(NamedTuple):
    """Checked rows, the labels as they were given, and weights of the rows, None where all are 1."""

    X: Any
    y: NDArray[Any] | None
    weight: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Parts of the data in order: for each block its rows, and its labels and weights where there are such, as delayed values or recipes.

    Attributes
    ----------
    X, y, weight : list
        ``y`` and ``weight`` may be None.
    names : ndarray of str or None
        Names of the features.
    held : tuple
        Collections whose data the cluster holds, kept so that it goes on holding them.
    """

    X: list[Any]
    y: list[Any] | None
    weight: list[Any] | None
    names: NDArray[Any] | None = None
    held: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.X)

    def parts(self, number: int) -> list[Any]:
        """Rows, labels and weights of a block, for :func:`open_block`; what is missing is None."""
        return [
            None if column is None else column[number] for column in (self.X, self.y, self.weight)
        ]


def read_blocks(X: Any, y: Any = None, sample_weight: Any = None, *, client: Any = None) -> Blocks:
    """Cut X into the blocks that it has, and y and the weights alike.

    Dask arrays and data frames keep their blocks, and so do lists of delayed values; rows of one
    array in memory are cut into blocks of 64 MB. Arrays that sit in the graph itself are sent to
    the cluster once and kept there, if there is a client.
    """
    rows = _Column.of(X, "X", client)
    labels, weights = (
        _Column.of(y, "y", client, like=rows),
        _Column.of(sample_weight, "sample_weight", client, like=rows),
    )
    held = tuple(column.held for column in (rows, labels, weights) if column.held is not None)
    return Blocks(rows.parts or [], labels.parts, weights.parts, feature_names(X), held)


def open_block(number: int, parts: Sequence[Any]) -> Block:
    """Read and check a block, in the task that needs it; whatever is wrong names the block."""
    X, y, weight = (part.read() if isinstance(part, Recipe) else part for part in parts)
    X = X.to_numpy() if hasattr(X, "to_numpy") else X
    n = X.shape[0]
    name = f"block {number} of X"
    try:
        rows = check_rows(X, name) if n else _no_rows(X)
        labels = None if y is None else _labels(y, n)
        weights = None if weight is None else _weights(weight, n)
    except ValueError as error:
        message = str(error)
        raise ValueError(message if name in message else f"block {number}: {message}") from error
    except TypeError as error:
        raise ValueError(f"{name} holds values that are no numbers: {error}") from error
    return Block(rows, labels, weights)


def open_labels(number: int, part: Any) -> NDArray[Any]:
    """Read and check the labels of a block, without its rows."""
    values = part.read() if isinstance(part, Recipe) else part
    try:
        return _labels(values, len(values))
    except ValueError as error:
        raise ValueError(f"block {number}: {error}") from error


def _no_rows(X: Any) -> Any:
    real = np.float32 if X.dtype in (np.float32, np.float16) else np.float64
    return sparse.csr_array(X.shape, dtype=real) if sparse.issparse(X) else np.empty(X.shape, real)


def _labels(y: Any, n: int) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape == (n, 1):
        labels = labels.ravel()
    if labels.shape != (n,):
        raise ValueError(
            f"X has {n} rows and y has shape {labels.shape}; cut both into blocks of the same rows"
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(
            f"y has NaN or infinity, first in row {int(np.argmin(np.isfinite(labels)))} of it"
        )
    if labels.dtype.kind == "O":
        return _of_one_kind(labels)
    return labels


def _of_one_kind(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels of objects as text, numbers or bools, so that blocks can be compared."""
    kinds = set(map(type, labels.tolist()))
    if not kinds <= {str, int, bool}:  # which are never missing
        missing = np.frompyfunc(_is_missing, 1, 1)(labels).astype(bool)
        if missing.any():
            raise ValueError(f"y has a missing label, first in row {int(np.argmax(missing))} of it")
    plain = np.array(labels.tolist())
    if plain.dtype.kind == "O" or (len(kinds) > 1 and any(issubclass(kind, str) for kind in kinds)):
        raise ValueError(
            "y mixes labels that cannot be compared (numbers with strings, say); use one kind"
        )
    return plain


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or what pandas has for it, which cannot be compared even with itself."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def _weights(weight: Any, n: int) -> NDArray[np.float64]:
    weights = check_column(weight, n, "sample_weight")
    if (weights < 0.0).any():
        row = int(np.argmax(weights < 0.0))
        raise ValueError(f"sample_weight must be at least 0; row {row} of it has {weights[row]}")
    return weights


def feature_names(X: Any) -> NDArray[Any] | None:
    """Names of the columns of a data frame, if they are all strings."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.array(list(columns), dtype=object)


class _Column(NamedTuple):
    """Parts of a collection, their lengths where these are known, and what must be kept for the cluster to hold them."""

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
    """Return an array or data frame of Dask's with the blocks of X."""
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
                f"X has {sum(lengths)} rows and {name} has {len(local)}; they must be of the same"
                " rows"
            )
        return da.from_array(np.asarray(local), chunks=(lengths, *((-1,) * (np.ndim(local) - 1))))
    if isinstance(given, Delayed):
        raise ValueError(
            f"{name} is one delayed value; give a list of them, one per block, or a Dask array or"
            " data frame"
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
    """Give y or weights the blocks of X."""
    known = not np.isnan(given.shape[0])
    if like.lengths == given.chunks[0] or (
        not known and given.numblocks[0] == len(like.parts or ())
    ):
        return given
    if like.lengths is None and known and given.numblocks[0] == len(like.parts or ()):
        return given  # whether their lengths agree is seen when they are read
    if not known:
        raise ValueError(
            f"X has {len(like.parts or ())} blocks and {name} has {given.numblocks[0]} of unknown"
            f" lengths; call {name}.compute_chunk_sizes() first, or take both from the same data"
            " frame"
        )
    lengths = _lengths(like, client)
    if sum(lengths) != given.shape[0]:
        raise ValueError(
            f"X has {sum(lengths)} rows and {name} has {given.shape[0]}; they must be of the same"
            " rows"
        )
    return given.rechunk({0: lengths})


def _lengths(like: _Column, client: Any) -> tuple[int, ...]:
    """Lengths of the blocks of X, read off the blocks where they are not known."""
    if like.lengths is not None:
        return like.lengths
    count = dask.delayed(_length, pure=False, traverse=False)
    tasks = [count(part) for part in like.parts or ()]
    return tuple(dask.compute(*tasks) if client is None else compute(client, tasks))


def _length(part: Any) -> int:
    return int((part.read() if isinstance(part, Recipe) else part).shape[0])


def _check_alike(column: _Column, like: _Column, name: str) -> None:
    own, others = len(column.parts or ()), len(like.parts or ())
    if own != others:
        raise ValueError(
            f"X has {others} blocks and {name} has {own}; cut both into blocks of the same rows"
        )


def _cut(collection: Any, client: Any) -> _Column:
    """Cut a collection into recipes, or into delayed values where the cluster holds it, or is to hold it."""
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
            )  # which is why it is sent once
            kept = client.persist(delayed)
        return _Column(kept, lengths, kept)
    recipes = [_recipe(graph, part.key) for part in delayed]
    if all(recipe is not None for recipe in recipes):
        return _Column(recipes, lengths)
    return _Column(delayed_parts(collection, optimize=False)[0], lengths, collection)


def delayed_parts(
    collection: Any, *, optimize: bool = True
) -> tuple[list[Delayed], dict[Any, Any]]:
    """Parts of an array or data frame in order, and the graph that they share.

    As many as the collection has.
    """
    if hasattr(collection, "simplify"):
        # reads no column too many; all that Dask can do to a data frame would join files of which
        # few columns are read, y's but not X's
        parts = collection.simplify().to_delayed(optimize_graph=False)
    else:
        parts = collection.to_delayed(optimize_graph=optimize)
    delayed = np.ravel(np.array(parts, dtype=object)).tolist()
    return delayed, ensure_dict(delayed[0].dask) if delayed else {}


def _holds_arrays(graph: dict[Any, Any]) -> bool:
    """Whether data sit in the graph itself, which each round would send again."""
    return any(_is_data(getattr(node, "value", node)) for node in graph.values())


def _is_data(value: Any) -> bool:
    return isinstance(value, np.ndarray) or sparse.issparse(value) or hasattr(value, "iloc")


def _recipe(graph: dict[Any, Any], key: Any) -> Recipe | None:
    """Return the part of a graph that a key needs, or None where that is held by the cluster."""
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
