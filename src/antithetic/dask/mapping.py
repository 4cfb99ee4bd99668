"""Tasks of a round: a function is called on each block, and its results are added up.

Tasks are started by ``Client.map``, with one message for all blocks: preparing delayed values takes
several times as long as the scheduler needs to run them.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.delayed import Delayed
from dask.utils import ensure_dict
from distributed import Client, Future
from numpy.typing import NDArray

from antithetic.dask.blocks import Blocks, Expected
from antithetic.dask.cluster import gather, starting

_FAN_IN = 16  # sums that are added up at once
_BYTES_AT_ONCE = 1 << 27  # of the sums that one task adds up, if they are large
_BYTES_HERE = 1 << 20  # of the sums that the client adds up itself
_BYTES_IN_TASKS = 1 << 20  # of arguments that each task may carry, in all tasks together

Sums = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A function of a block's number and parts, with the arguments that all blocks share."""

    function: Callable[..., Any]
    expected: Expected
    shared: tuple[Any, ...] | None

    @property
    def __name__(self) -> str:
        """Name of the function; without one, Dask would print all arguments to name the tasks."""
        return self.function.__name__

    def __call__(self, number: int, X: Any, y: Any, weight: Any, *others: Any) -> Any:
        parts = (X, y, weight, self.expected)
        if self.shared is not None:
            return self.function(number, parts, *others, *self.shared)
        *own, shared = others
        return self.function(number, parts, *own, *shared)


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
        Arguments that differ from block to block, in the order of ``numbers``.
    numbers : sequence of int, default=None
        Blocks that take part; None means all.
    after_loss : str
        Tells the user what to do if the scheduler is lost.
    """
    numbers = range(len(blocks)) if numbers is None else numbers
    token = new_token()
    with starting(client, after_loss):
        columns = [
            _values(client, column, numbers) for column in (blocks.X, blocks.y, blocks.weight)
        ]
        columns += [_values(client, column, range(len(numbers))) for column in own]
        call = _Call(function, blocks.expected, shared)
        if len(pickle.dumps(shared)) * len(numbers) > _BYTES_IN_TASKS:
            sent = client.submit(_same, shared, key=f"antithetic-{name}-start-{token}")
            columns.append([sent] * len(numbers))
            call = _Call(function, blocks.expected, None)
        keys = [(f"antithetic-{name}-{token}", number) for number in numbers]
        futures: list[Future] = client.map(call, list(numbers), *columns, key=keys, pure=False)
        return futures


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
    expected = max(sum_bytes, len(pickle.dumps(shared)))
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


def _values(client: Client, column: Sequence[Any] | None, numbers: Sequence[int]) -> list[Any]:
    """Parts of some blocks as arguments of ``Client.map``: delayed values become futures."""
    if column is None:
        return [None] * len(numbers)
    graphs: dict[int, Any] = {}  # of delayed values, most of which share one
    found = [_held(column[number], graphs) for number in numbers]
    lazy = [place for place, part in enumerate(found) if isinstance(part, Delayed)]
    # with low priority, or a worker would read all its blocks before it uses the first
    made = client.compute([found[place] for place in lazy], priority=-1)
    for place, future in zip(lazy, made, strict=True):
        found[place] = future
    return found


def _held(part: Any, graphs: dict[int, Any]) -> Any:
    """The future of a delayed value that the cluster holds; other values unchanged."""
    if not isinstance(part, Delayed):
        return part
    if id(part.dask) not in graphs:
        graphs[id(part.dask)] = ensure_dict(part.dask)
    node = graphs[id(part.dask)].get(part.key)
    node = getattr(node, "value", node)
    return node if isinstance(node, Future) else part


def _same(value: Any) -> Any:
    return value


def new_token() -> str:
    """Unique part of the keys of a round."""
    return secrets.token_hex(8)
