"""Each row once per epoch, in random order: rows, antithetic pairs, or groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import Draws, Order, Pool, random_order
from antithetic.orders.pairs import Pairs
from antithetic.orders.units import Batches, cut, starts_of
from antithetic.pairing import GroupTable


@dataclass(frozen=True, slots=True, eq=False)
class NestedGroups:
    """Groups in random order, with fresh random flips of the halves of every block.

    Blocks that were left over at some level come last, the largest first, their halves flipped too.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Rows as in :class:`~antithetic.GroupTable`: groups of ``size``, then what was left over.
    size : int
        Rows of a group, a power of two.
    batch_size : int
    seed : int
    """

    order: NDArray[np.intp]
    size: int
    batch_size: int
    seed: int

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002
        """Batches of an epoch, a pure function of the seed and the epoch."""
        return cut(self.rows(epoch), self.batch_size)

    def rows(self, epoch: int) -> NDArray[np.intp]:
        """Rows of an epoch in order."""
        rng = np.random.default_rng((self.seed, epoch))
        n_groups, left = divmod(len(self.order), self.size)
        groups = self.order[: n_groups * self.size].reshape(n_groups, self.size)[
            random_order(rng, n_groups)
        ]
        parts, start = [_flip(groups, rng)], n_groups * self.size
        for level in reversed(
            range(left.bit_length())
        ):  # what is left over has at most one block of each size
            if left >> level & 1:
                parts.append(
                    _flip(self.order[start : start + (1 << level)].reshape(1, -1).copy(), rng)
                )
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
        table = pool.table
        if isinstance(table, GroupTable):
            return Draws(pool, NestedGroups(table.order, table.size, pool.batch_size, pool.seed))
        if table is None:
            return _ShuffleDraws(pool, ShuffledRows(pool.n, pool.batch_size, pool.seed))
        pairs = ShuffledPairs(table.pairs, table.single, pool.batch_size, pool.seed)
        return _ShuffleDraws(pool, pairs)


@dataclass(frozen=True, slots=True, eq=False)
class _ShuffleDraws(Draws):
    @property
    def is_draw(self) -> bool:
        return True

    def variance(
        self,
        slopes: NDArray[np.float64],
        epoch: int,  # noqa: ARG002
        order: NDArray[np.intp] | None,  # noqa: ARG002
    ) -> float:
        from antithetic.orders.variance import shuffle_variance

        pool = self.pool
        assert not isinstance(pool.table, GroupTable)
        return shuffle_variance(pool.problem, slopes, pool.table, pool.batch_size)


@dataclass(frozen=True, slots=True, eq=False)
class ShuffledRows:
    """Rows in random order, cut into batches; the last one may be shorter."""

    n: int
    batch_size: int
    seed: int
    starts: NDArray[np.intp] = field(init=False, repr=False)  # the same for every epoch

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", starts_of(self.n, self.batch_size))

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002
        """Batches of an epoch, a pure function of the seed and the epoch."""
        rows = random_order(np.random.default_rng((self.seed, epoch)), self.n)
        return Batches(rows, self.starts, self.batch_size)


@dataclass(frozen=True, slots=True, eq=False)
class ShuffledPairs:
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

    Attributes
    ----------
    pairs : ndarray of shape (n // 2, 2)
        The pairs of a matching.
    single : int or None
        Its single row.
    batch_size : int
    seed : int
    """

    pairs: NDArray[np.intp]
    single: int | None
    batch_size: int
    seed: int

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:  # noqa: ARG002
        """Batches of an epoch, a pure function of the seed and the epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        pairs = self.pairs[random_order(rng, len(self.pairs))]
        if self.batch_size % 2 == 0:  # both members are in one batch: their order does not matter
            return self._even(rng, pairs)
        flipped = rng.random(len(pairs)) < 0.5
        pairs[flipped] = pairs[flipped, ::-1]
        if self.batch_size == 1:
            rows = pairs.ravel()
            return cut(
                (
                    rows
                    if self.single is None
                    else np.insert(rows, rng.integers(len(rows) + 1), self.single)
                ),
                1,
            )
        return self._odd(rng, pairs)

    def _even(self, rng: np.random.Generator, pairs: NDArray[np.intp]) -> Batches:
        if self.single is None:
            return cut(pairs.ravel(), self.batch_size)
        place = rng.integers(len(pairs) + 1)  # the single row is unit number `place`
        rows = np.insert(pairs.ravel(), 2 * place, self.single)
        units = np.arange(0, len(pairs) + 1, self.batch_size // 2)
        starts = np.append(2 * units - (units > place), len(rows))
        return Batches(rows, starts, self.batch_size)

    def _odd(self, rng: np.random.Generator, pairs: NDArray[np.intp]) -> Batches:
        n = 2 * len(pairs) + (self.single is not None)
        full, rest = divmod(n, self.batch_size)
        broken = (full - (self.single is not None) + 1) // 2
        alone = pairs[:broken].ravel()  # the pairs are in random order already
        if self.single is not None:
            alone = np.append(alone, self.single)
        alone, whole = rng.permutation(alone), pairs[broken:].ravel()
        per_batch = self.batch_size - 1
        batches = np.column_stack(
            [whole[: full * per_batch].reshape(full, per_batch), alone[:full]]
        )
        left_over = np.concatenate([whole[full * per_batch :], alone[full:]])
        if not rest:
            return cut(rng.permutation(batches).ravel(), self.batch_size)
        place = rng.integers(full + 1)  # the short batch is number `place`
        rows = np.insert(rng.permutation(batches).ravel(), place * self.batch_size, left_over)
        starts = np.arange(full + 2) * self.batch_size
        starts[place + 1 :] -= self.batch_size - rest
        return Batches(rows, starts, self.batch_size)
