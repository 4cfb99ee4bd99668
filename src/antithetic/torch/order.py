"""The order of one epoch: groups in random order, made block by block when asked for.

So no second list of all rows is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.random_order import random_order
from antithetic.pairing import AntitheticTable, GroupTable

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class EpochOrder:
    """Rows of an epoch by their place: the drawn groups in order, then the rows left over.

    Attributes
    ----------
    groups : ndarray of shape (K, size)
        Rows of the groups of a table.
    drawn : ndarray of shape (K,)
        Which group stands where.
    turns : ndarray of shape (K,) or None
        Row ``j`` of the group at a place stands at ``j ^ turns[place]``, which keeps aligned blocks
        together and puts each row anywhere with equal probability; None where the order within a
        group is of no consequence.
    left : ndarray of shape (n % size,)
        Rows left over, which come last.
    broken : int
        The group from which those were taken, -1 for none.
    mended : ndarray of shape (size,)
        What stands in its stead.
    """

    groups: Indices
    drawn: Indices
    turns: NDArray[Any] | None
    left: Indices
    broken: int
    mended: Indices

    def __len__(self) -> int:
        return self.groups.size + len(self.left)

    def groups_at(self, places: Indices) -> Indices:
        """Rows of the groups at some places, one group after the other."""
        chosen = self.drawn[places]
        rows = self.groups.take(chosen, axis=0)
        if self.broken >= 0:
            rows[chosen == self.broken] = self.mended
        if self.turns is not None:
            rows = np.take_along_axis(
                rows, np.arange(rows.shape[1]) ^ self.turns[places].astype(np.intp)[:, None], axis=1
            )
        return rows.ravel()

    def rows_at(self, places: Indices) -> Indices:
        """Rows at some places of the order, the groups laid out one after the other."""
        rows = np.empty(len(places), dtype=np.intp)
        last = places >= self.groups.size
        rows[last] = self.left[places[last] - self.groups.size]
        size = self.groups.shape[1]
        group, member = np.divmod(places[~last], size)
        if self.turns is not None:
            member = member ^ self.turns[group].astype(np.intp)
        chosen = self.drawn[group]
        rows[~last] = np.where(
            chosen == self.broken, self.mended[member], self.groups[chosen, member]
        )
        return rows


def epoch_order(
    table: GroupTable,
    seed: int,
    epoch: int,
    *,
    turned: bool,
    chances: NDArray[np.float64] | None = None,
) -> EpochOrder:
    r"""Return the order of an epoch, a pure function of the table, the seed and the epoch.

    A number of rows that is no multiple of the group's leaves some over, which come last. A row is
    drawn, and if it is in a group, this is broken up: it gives as many rows, and those that the
    table left over take their places. So every row is left over with the same probability, and
    others are each epoch.

    Parameters
    ----------
    table : GroupTable
    seed, epoch : int
    turned : bool
        Whether the order within groups matters, because batches are no whole number of groups.
    chances : ndarray of shape (K,), default=None
        Probabilities of the groups: group k is taken :math:`K p_k` times on average, that is, as
        often as one of the K numbers :math:`(u + j) / K` falls into its share of [0, 1), with u
        uniform. None means each once.
    """
    rng = np.random.default_rng((seed, epoch))
    groups, left = table.groups, table.rest
    drawn = random_order(rng, len(groups))
    if chances is not None:
        drawn = systematic(chances, rng.random())[drawn]
    turns: NDArray[Any] | None = None
    if turned:
        turns = rng.integers(
            table.size, size=len(groups), dtype=np.uint8 if table.size <= 256 else np.uint32
        )
    broken, mended = -1, np.empty(table.size, dtype=np.intp)
    if len(left) and (row := int(rng.integers(len(table)))) < groups.size:
        broken = row // table.size
        members = groups[broken, np.arange(table.size) ^ int(rng.integers(table.size))]
        # the largest blocks of what is left over come first, the single row last, next to the
        # member that loses its partner
        mended = np.concatenate([left, members[len(left) :]])
        left = members[: len(left)]
    return EpochOrder(groups, drawn, turns, left, broken, mended)


def systematic(chances: NDArray[np.float64], start: float) -> Indices:
    """Shares of [0, 1) into which K equidistant numbers fall, the first at ``start / K``."""
    ends = np.cumsum(chances)
    points = (np.arange(len(chances)) + start) / len(chances) * ends[-1]
    found: Indices = np.minimum(np.searchsorted(ends, points, side="right"), len(chances) - 1)
    return found


def as_groups(table: AntitheticTable | GroupTable) -> GroupTable:
    """Return the pairs of a matching as groups of two rows; groups as they are."""
    if isinstance(table, GroupTable):
        return table
    order = table.pairs.ravel()
    order = order if table.single is None else np.append(order, table.single)
    return GroupTable(order, min(2, len(order)), table.fingerprint, table.method)
