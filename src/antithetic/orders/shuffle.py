"""Each row once per epoch, in random order: rows, antithetic pairs, or groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import Draws, Order, Pool, random_order
from antithetic.orders.pairs import Pairs
from antithetic.orders.units import Batches, cut, starts_of
from antithetic.pairing import AntitheticTable, GroupTable


@dataclass(frozen=True, eq=False, repr=False)
class Shuffle(Order):
    """Each row once per epoch, in random order: rows, pairs or groups are shuffled.

    With ``batch_size=1`` and without pairs this is scikit-learn's SGD.

    Parameters
    ----------
    pairs : Pairs, str, callable, AntitheticTable, GroupTable or None, default=None
        Which rows are used together; None shuffles single rows.
    """

    pairs: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", Pairs.of(self.pairs))

    def draw_from(self, pool: Pool) -> Draws:
        """Apply the order to a pool."""
        return ShuffleDraws(pool, starts_of(pool.n, pool.batch_size))


@dataclass(frozen=True, slots=True, eq=False)
class ShuffleDraws(Draws):
    """Units in random order; ``starts`` are where batches of rows begin."""

    starts: NDArray[np.intp]

    def batches(
        self,
        epoch: int,
        order: NDArray[np.intp] | None = None,  # noqa: ARG002
        slopes: NDArray[np.float64] | None = None,  # noqa: ARG002
    ) -> Batches:
        """Batches of an epoch, a pure function of the seed and the epoch."""
        pool = self.pool
        table, size, rng = pool.table, pool.batch_size, np.random.default_rng((pool.seed, epoch))
        if isinstance(table, AntitheticTable):
            return shuffled_pairs(table.pairs, table.single, size, rng)
        if table is None:
            return Batches(random_order(rng, int(self.starts[-1])), self.starts, size)
        return Batches(nested_rows(table.order, table.size, rng), self.starts, size)

    @property
    def is_draw(self) -> bool:
        """Whether the order is random: flips of nested groups are too few for a variance."""
        return not isinstance(self.pool.table, GroupTable)

    def variance(
        self, slopes: NDArray[np.float64], epoch: int, order: NDArray[np.intp] | None
    ) -> float:
        """Exact variance of the mean gradient of a batch; of groups, over those of an epoch."""
        from antithetic.orders.variance import order_variance, shuffle_variance

        pool = self.pool
        if isinstance(pool.table, GroupTable):
            return order_variance(pool.problem, slopes, self.batches(epoch, order))
        return shuffle_variance(pool.problem, slopes, pool.table, pool.batch_size)


def shuffled_rows(n: int, batch_size: int, seed: int, epoch: int) -> Batches:
    """Rows in random order, cut into batches; the last one may be shorter."""
    return cut(random_order(np.random.default_rng((seed, epoch)), n), batch_size)


def shuffled_pairs(
    pairs: NDArray[np.intp], single: int | None, batch_size: int, rng: np.random.Generator
) -> Batches:
    """Antithetic pairs in random order, and the single row of an odd number anywhere.

    At every step each row is equally likely to be in the batch, so the expected step is along the
    gradient:

    - an even batch takes ``batch_size / 2`` units, a unit being a pair or the single row, and all
      units are shuffled together;
    - an odd batch takes ``(batch_size - 1) / 2`` pairs and one row; the pairs that are broken up to
      give these rows are drawn afresh each epoch, and the batches, the short one too, come in
      random order;
    - a batch of one row walks along the shuffled pairs, and the single row stands at any place with
      equal probability.

    Parameters
    ----------
    pairs : ndarray of shape (n // 2, 2)
        The pairs of a matching.
    single : int or None
        Its single row.
    batch_size : int
    rng : Generator
    """
    pairs = pairs[random_order(rng, len(pairs))]
    if batch_size % 2 == 0:  # both members are in one batch: their order does not matter
        return _in_even_batches(pairs, single, batch_size, rng)
    flipped = rng.random(len(pairs)) < 0.5
    pairs[flipped] = pairs[flipped, ::-1]
    if batch_size > 1:
        return _in_odd_batches(pairs, single, batch_size, rng)
    rows = pairs.ravel()
    return cut(rows if single is None else np.insert(rows, rng.integers(len(rows) + 1), single), 1)


def _in_even_batches(
    pairs: NDArray[np.intp], single: int | None, batch_size: int, rng: np.random.Generator
) -> Batches:
    if single is None:
        return cut(pairs.ravel(), batch_size)
    place = rng.integers(len(pairs) + 1)  # the single row is unit number `place`
    rows = np.insert(pairs.ravel(), 2 * place, single)
    units = np.arange(0, len(pairs) + 1, batch_size // 2)
    starts = np.append(2 * units - (units > place), len(rows))
    return Batches(rows, starts, batch_size)


def _in_odd_batches(
    pairs: NDArray[np.intp], single: int | None, batch_size: int, rng: np.random.Generator
) -> Batches:
    n = 2 * len(pairs) + (single is not None)
    full, rest = divmod(n, batch_size)
    broken = (full - (single is not None) + 1) // 2
    alone = pairs[:broken].ravel()  # the pairs are in random order already
    if single is not None:
        alone = np.append(alone, single)
    alone, whole = rng.permutation(alone), pairs[broken:].ravel()
    per_batch = batch_size - 1
    batches = np.column_stack([whole[: full * per_batch].reshape(full, per_batch), alone[:full]])
    left_over = np.concatenate([whole[full * per_batch :], alone[full:]])
    if not rest:
        return cut(rng.permutation(batches).ravel(), batch_size)
    place = rng.integers(full + 1)  # the short batch is number `place`
    rows = np.insert(rng.permutation(batches).ravel(), place * batch_size, left_over)
    starts = np.arange(full + 2) * batch_size
    starts[place + 1 :] -= batch_size - rest
    return Batches(rows, starts, batch_size)


def nested_rows(order: NDArray[np.intp], size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Groups in random order, with fresh random flips of the halves of every block.

    Blocks that were left over at some level come last, the largest first, their halves flipped too.

    Parameters
    ----------
    order : ndarray of shape (n,)
        Rows as in :class:`~antithetic.GroupTable`: groups of ``size``, then what was left over.
    size : int
        Rows of a group, a power of two.
    rng : Generator
    """
    n_groups, left = divmod(len(order), size)
    groups = order[: n_groups * size].reshape(n_groups, size)[random_order(rng, n_groups)]
    parts, start = [_flip(groups, rng)], n_groups * size
    for level in reversed(range(left.bit_length())):  # at most one block of each size is left over
        if left >> level & 1:
            parts.append(_flip(order[start : start + (1 << level)].reshape(1, -1).copy(), rng))
            start += 1 << level
    return np.concatenate(parts)


def _flip(blocks: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Swap the halves of each block or not, at random, then those of the halves, and so on."""
    rows, size = blocks.ravel(), blocks.shape[1]
    while size > 1:
        halves = rows.reshape(-1, 2, size // 2)
        flipped = rng.random(len(halves)) < 0.5
        halves[flipped] = halves[flipped, ::-1]
        size //= 2
    return rows
