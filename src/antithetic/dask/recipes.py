"""Parts of Dask graphs: what a task computes for its block alone, and what several blocks share."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from graphlib import TopologicalSorter
from secrets import token_hex
from typing import Any, NamedTuple

from dask.core import get_dependencies
from dask.delayed import Delayed
from dask.local import get_sync
from dask.utils import ensure_dict
from distributed import Future
from distributed.protocol.pickle import dumps

from antithetic.dask.cluster import starting

_BYTES_SENT_AGAIN = 1 << 14  # of a block's own graph: larger ones are sent once and kept

Graph = dict[Any, Any]
Column = list["Recipe"] | None


class Recipe(NamedTuple):
    """How a task reads a part of a block: the nodes of a Dask graph that no other block needs.

    So the part is in memory only while its task runs; otherwise workers would read ahead.

    Attributes
    ----------
    graph : dict or str
        The nodes, or the key under which the cluster holds them.
    key : object
        Key of the part.
    inputs : tuple
        Keys of values that other tasks compute.
    values : dict
        Values of all keys that the recipe needs; known in the task only.
    """

    graph: Graph | str
    key: Any
    inputs: tuple[Any, ...] = ()
    values: Mapping[Any, Any] | None = None

    @property
    def needs(self) -> tuple[Any, ...]:
        """Keys of all values that a task needs to read the part."""
        return (*self.inputs, self.graph) if isinstance(self.graph, str) else self.inputs

    def given(self, values: Mapping[Any, Any]) -> Recipe:
        """Return the recipe with the values that it needs."""
        return self._replace(values={key: values[key] for key in self.needs})

    def read(self) -> Any:
        """Run the graph in this thread."""
        values = self.values or {}
        if self.key in values:
            return values[self.key]
        graph = values[self.graph] if isinstance(self.graph, str) else self.graph
        return get_sync({**graph, **{key: as_node(values[key]) for key in self.inputs}}, self.key)


def read_part(part: Any, name: str) -> Any:
    """Run a recipe, if a part is one; errors say which block could not be read."""
    value = _read(part, name) if isinstance(part, Recipe) else part
    if value is None:
        raise ValueError(f"{name} is None; each delayed block must return its part of the data")
    return value


def _read(recipe: Recipe, name: str) -> Any:
    try:
        return recipe.read()
    except MemoryError:
        raise
    except Exception as error:
        kind = next(
            (kind for kind in (ValueError, OSError) if isinstance(error, kind)), RuntimeError
        )
        reason = str(error) or type(error).__name__
        raise kind(f"{name} could not be read: {reason}") from error


def as_node(value: Any) -> Any:
    """Return a node of a graph with this value, which Dask does not search for keys."""
    return (partial(_same, value),)


def _same(value: Any) -> Any:
    return value


def bytes_to_send(value: Any) -> int:
    """Return the size of a value in a message."""
    buffers: list[Any] = []
    message = dumps(value, buffer_callback=buffers.append)
    return len(message) + sum(memoryview(buffer).nbytes for buffer in buffers)


def divide(
    columns: Sequence[Sequence[Delayed] | None], client: Any = None
) -> tuple[list[Column], Graph]:
    """Return a recipe for each part of each block, and a graph of what the recipes need.

    A node that one block needs becomes part of its recipe, so each block is read by its task. A
    node that several blocks need is computed once in each round, and the graph contains it. With a
    client, two things are computed only once: nodes that all blocks need, such as the mean in
    ``X - X.mean(axis=0)``, since they are in memory throughout each round anyway; and recipes that
    contain much data, such as arrays in the memory of this process.

    Parameters
    ----------
    columns : sequence of sequences of Delayed
        Parts of the blocks: rows, labels and weights. None if not given.
    client : Client, default=None
    """
    owners: defaultdict[Any, set[int]] = defaultdict(set)
    for column in columns:
        for number, part in enumerate(column or ()):
            owners[part.key].add(number)
    graph = _join(part for column in columns for part in column or ())
    needs = _needs(graph, owners)
    # Dask leaves what a cluster holds out of graphs that it optimises
    graph |= {key: Future(key, client) for key in needs.keys() - graph.keys()}
    own = set()
    for key in reversed(tuple(TopologicalSorter(needs).static_order())):  # before what it needs
        if len(owners[key]) == 1 and not isinstance(graph[key], Future):
            own.add(key)
            for needed in needs[key]:
                owners[needed] |= owners[key]
    recipes: list[Column] = [
        None if column is None else [_recipe(part.key, graph, needs, own) for part in column]
        for column in columns
    ]
    graph = _named(graph, needs, owners, own)
    if client is not None:
        blocks = max(len(column or ()) for column in columns)
        common = [
            key
            for key in keys_needed(recipes)
            if len(owners[key]) > 1 and not isinstance(graph[key], Future)
            if len(owners[key]) == blocks or bytes_to_send(graph[key]) > _BYTES_SENT_AGAIN
        ]
        recipes, graph = _keep(client, recipes, graph, common)
    return recipes, needed_of(graph, keys_needed(recipes))


def _named(
    graph: Graph, needs: dict[Any, set[Any]], owners: Mapping[Any, set[int]], own: set[Any]
) -> Graph:
    """Return a graph in which errors name the block where shared nodes need nodes of one block."""
    named = dict(graph)
    others = needs.keys() - own
    for key in {needed for other in others for needed in needs[other] & own}:
        recipe, (number,) = _recipe(key, graph, needs, own), owners[key]
        named[key] = (partial(_read_named, recipe, f"block {number}"), *recipe.inputs)
    return named


def _read_named(recipe: Recipe, name: str, *values: Any) -> Any:
    return _read(recipe.given(dict(zip(recipe.inputs, values, strict=True))), name)


def _keep(
    client: Any, recipes: list[Column], graph: Graph, keys: Collection[Any]
) -> tuple[list[Column], Graph]:
    """Compute some nodes, send large recipes, and keep both on the cluster as long as the graph."""
    sent: Graph = {}

    def smaller(recipe: Recipe) -> Recipe:
        if bytes_to_send(recipe.graph) <= _BYTES_SENT_AGAIN:
            return recipe
        key = f"antithetic-data-{token_hex(8)}"
        sent[key] = as_node(recipe.graph)
        return recipe._replace(graph=key)

    recipes = [None if column is None else list(map(smaller, column)) for column in recipes]
    kept = [*keys, *sent]
    if not kept:
        return recipes, graph
    with starting(client), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # only once
        futures = client.get({**needed_of(graph, keys), **sent}, kept, sync=False)
    return recipes, {**graph, **dict(zip(kept, futures, strict=True))}


def refer(parts: Iterable[Any]) -> tuple[list[Any], Graph]:
    """Return recipes that other tasks run, one for each delayed value, and a graph of these tasks.

    Futures are values that the cluster holds. Other values are returned as they are.
    """
    parts = list(parts)
    graph = _join(part for part in parts if isinstance(part, Delayed))
    graph |= {part.key: part for part in parts if isinstance(part, Future)}
    is_remote = (Delayed, Future)
    return [
        Recipe({}, part.key, (part.key,)) if isinstance(part, is_remote) else part for part in parts
    ], graph


def is_complete(parts: Iterable[Delayed]) -> bool:
    """Return whether the graphs of delayed values contain all that these values need."""
    parts = list(parts)
    graph = _join(parts)
    return _needs(graph, [part.key for part in parts]).keys() <= graph.keys()


def keys_needed(columns: Iterable[Column]) -> list[Any]:
    """Return the keys that the recipes of some columns need, each once."""
    recipes = (recipe for column in columns for recipe in column or ())
    return list(dict.fromkeys(key for recipe in recipes for key in recipe.needs))


def needed_of(graph: Graph, keys: Iterable[Any]) -> Graph:
    """Return the part of a graph that some keys need."""
    return {key: graph[key] for key in _needs(graph, keys)}


def _join(parts: Iterable[Delayed]) -> Graph:
    """Join the graphs of delayed values, most of which share one."""
    graphs = {id(part.dask): part.dask for part in parts}
    joined: Graph = {}
    for graph in graphs.values():
        joined |= ensure_dict(graph)
    return {key: _plain(node) for key, node in joined.items()}


def _plain(node: Any) -> Any:
    """Return the future that a node holds, if it holds one."""
    value = getattr(node, "value", None)
    return value if isinstance(value, Future) else node


def _needs(graph: Graph, keys: Iterable[Any]) -> dict[Any, set[Any]]:
    """Return the keys that each node needs, for all nodes that some keys need."""
    found: dict[Any, set[Any]] = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = _dependencies(graph, graph[key]) if key in graph else set()
            waiting += found[key]
    return found


def _dependencies(graph: Graph, node: Any) -> set[Any]:
    if isinstance(node, Future):
        return set()
    if hasattr(node, "dependencies"):
        return set(node.dependencies)
    return set(get_dependencies(graph, task=node))


def _recipe(key: Any, graph: Graph, needs: dict[Any, set[Any]], own: set[Any]) -> Recipe:
    nodes: Graph = {}
    inputs, waiting = dict[Any, None](), [key]  # a dict keeps the order
    while waiting:
        name = waiting.pop()
        if name not in own:
            inputs[name] = None
        elif name not in nodes:
            nodes[name] = graph[name]
            waiting += needs[name]
    return Recipe(nodes, key, tuple(inputs))
