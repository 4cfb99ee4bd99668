"""Tasks of a round: a function is called on each block, and its results are added up.

Tasks are started with one message for all blocks: preparing delayed values takes several times as
long as the scheduler needs to run them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from distributed import Client, Future
from numpy.typing import NDArray

from antithetic.dask.blocks import Blocks
from antithetic.dask.cluster import gather, starting
from antithetic.dask.recipes import Graph, Recipe, as_node, bytes_to_send, needed_of, refer

_FAN_IN = 16  # sums that are added up at once
_BYTES_AT_ONCE = 1 << 27  # of the sums that one task adds up, if they are large
_BYTES_HERE = 1 << 20  # of the sums that the client adds up itself
_BYTES_IN_TASKS = 1 << 20  # of arguments that each task may carry, in all tasks together

Sums = tuple[NDArray[np.float64], ...]


class _Call:
    """A call of a function with a block's parts, for which Dask provides the inputs.

    Its state is a tuple, and its token is its key: many calls are pickled and tokenised at once.
    """

    __slots__ = ("state",)

    def __init__(self, *state: Any) -> None:
        self.state = state

    def __dask_tokenize__(self) -> Any:
        return self.state[0]

    def __call__(self, *values: Any) -> Any:
        (_, number), function, parts, own, shared, inputs = self.state
        given = dict(zip(inputs, values, strict=True))
        parts = [part.given(given) if isinstance(part, Recipe) else part for part in parts]
        own = [_value(argument, given) for argument in own]
        return function(number, parts, *own, *_value(shared, given))


def _value(argument: Any, given: Mapping[Any, Any]) -> Any:
    """Return an argument, or the value of one that another task computes."""
    return argument.given(given).read() if isinstance(argument, Recipe) else argument


def _graph_of(
    function: Callable[..., Any],
    name: str,
    blocks: Blocks,
    shared: tuple[Any, ...],
    own: Sequence[Sequence[Any]],
    numbers: Sequence[int] | None = None,
) -> tuple[Graph, list[Any]]:
    """Return a graph with a task for each block, and the keys of these tasks."""
    numbers = range(len(blocks)) if numbers is None else numbers
    token, graph, columns = new_token(), dict(blocks.graph), []
    for column in own:
        arguments, tasks = refer(column)
        columns.append(arguments)
        graph |= tasks
    for_all: Any = shared
    if bytes_to_send(shared) * len(numbers) > _BYTES_IN_TASKS:
        start = f"antithetic-{name}-start-{token}"
        graph[start] = as_node(shared)
        for_all = Recipe({}, start, (start,))
    keys = []
    for place, number in enumerate(numbers):
        parts, mine = blocks.parts(number), [column[place] for column in columns]
        recipes = [part for part in (*parts, *mine, for_all) if isinstance(part, Recipe)]
        inputs = tuple(dict.fromkeys(key for recipe in recipes for key in recipe.needs))
        keys.append((f"antithetic-{name}-{token}", number))
        graph[keys[-1]] = (_Call(keys[-1], function, parts, mine, for_all, inputs), *inputs)
    return graph, keys


def map_blocks(
    client: Client,
    function: Callable[..., Any],
    name: str,
    blocks: Blocks,
    *shared: Any,
    own: Sequence[Sequence[Any]] = (),
    numbers: Sequence[int] | None = None,
    after_loss: str = "",
) -> list[Future]:
    """Start a task for each block, and return its future.

    The task calls ``function(number, parts, *own_of_the_block, *shared)``, where parts are those
    of :func:`antithetic.dask.blocks.open_block`.

    Parameters
    ----------
    client : Client
    function : callable
    name : str
        Name of the tasks in Dask's dashboard.
    blocks : Blocks
    *shared
        Arguments of all tasks. If they are large, they are sent once, as a task of their own.
    own : sequence of sequences
        Arguments that differ from block to block, in the order of ``numbers``. Tasks receive the
        values of futures and of delayed values.
    numbers : sequence of int, default=None
        Blocks that take part; None means all.
    after_loss : str
        Tells the user what to do if the scheduler is lost.
    """
    graph, keys = _graph_of(function, name, blocks, shared, own, numbers)
    with starting(client, after_loss):
        futures: list[Future] = client.get(graph, keys, sync=False)
    return futures


def delay_blocks(
    function: Callable[..., Any],
    name: str,
    blocks: Blocks,
    *shared: Any,
    own: Sequence[Sequence[Any]] = (),
) -> list[Delayed]:
    """Return the tasks of `map_blocks` as delayed values."""
    graph, keys = _graph_of(function, name, blocks, shared, own)
    return [Delayed(key, needed_of(graph, [key])) for key in keys]


def over_blocks(
    client: Client | None,
    function: Callable[..., Any],
    name: str,
    blocks: Blocks,
    *shared: Any,
    own: Sequence[Sequence[Any]] = (),
) -> list[Any]:
    """Return a function's results for all blocks; the parameters are those of `map_blocks`.

    Without a client, Dask's default scheduler computes them.
    """
    if client is None:
        return list(dask.compute(*delay_blocks(function, name, blocks, *shared, own=own)))
    return gather(client, map_blocks(client, function, name, blocks, *shared, own=own))


def sum_over_blocks(
    client: Client,
    function: Callable[..., Sums],
    name: str,
    blocks: Blocks,
    *shared: Any,
    own: Sequence[Sequence[Any]] = (),
    numbers: Sequence[int] | None = None,
    sum_bytes: int = 0,
    after_loss: str = "",
) -> Sums:
    """Sum of a function's results for all blocks; the parameters are those of `map_blocks`.

    Results are added in the order of the blocks, a few at a time. Which of them are added together
    depends only on the number of blocks and on ``sum_bytes``, the size of a result. The last few
    are added in this process, unless they are large.
    """
    futures = map_blocks(
        client, function, name, blocks, *shared, own=own, numbers=numbers, after_loss=after_loss
    )
    at_once = max(2, min(_FAN_IN, _BYTES_AT_ONCE // max(1, sum_bytes)))
    token, depth = new_token(), 0
    # without sum_bytes, results are about as large as the weights, which are among the arguments
    expected = max(sum_bytes, bytes_to_send(shared))
    while len(futures) > (at_once if at_once * expected <= _BYTES_HERE else 1):
        with starting(client, after_loss):  # results are released when their futures are gone
            futures = _add_groups(
                client, futures, at_once, f"antithetic-{name}-sum-{token}-{depth}"
            )
        depth += 1
    return add_up(*gather(client, futures, after_loss=after_loss))


def add_up(*sums: Sums) -> Sums:
    """Sums of sums, in the order given."""
    first, *others = sums
    if not others:
        return first
    total = tuple(part.copy() for part in first)
    for other in others:
        for part, addend in zip(total, other, strict=True):
            part += addend
    return total


def _add_groups(client: Client, futures: list[Future], many: int, name: str) -> list[Future]:
    """Futures of sums of ``many`` results each; the last group may have fewer."""
    groups = [futures[start : start + many] for start in range(0, len(futures), many)]
    whole = [group for group in groups if len(group) == many]
    keys = [(name, place) for place in range(len(groups))]
    added: list[Future] = []
    if whole:
        columns = [list(column) for column in zip(*whole, strict=True)]
        added = client.map(add_up, *columns, key=keys[: len(whole)], pure=False)
    if len(whole) < len(groups):
        added.append(client.submit(add_up, *groups[-1], key=keys[-1], pure=False))
    return added


def new_token() -> str:
    """Unique part of the keys of a round."""
    return secrets.token_hex(8)
