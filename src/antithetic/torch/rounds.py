"""The batches of a part of an epoch: which arm makes each, of which rows, with which weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from antithetic.torch.data import Indices, to_numpy

SHUFFLED, STRATIFIED, GROUPS, IMPORTANCE = range(4)
ARMS = ("shuffled", "stratified", "groups", "importance")
NO_BLOCK = -1


class Batch(NamedTuple):
    """A batch as it is handed out.

    Attributes
    ----------
    rows : ndarray of shape (m,)
    arm : int
        Which arm made it, a place in :data:`ARMS`.
    block : int
        The block of the test in which it takes part, -1 for none.
    weights : ndarray of shape (m,) or None
        What the losses of the rows are multiplied by; None means 1.
    width : int
        How many batches the block has.
    """

    rows: Indices
    arm: int = SHUFFLED
    block: int = NO_BLOCK
    weights: NDArray[np.float32] | None = None
    width: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """The batches of one process between two decisions about the arms.

    Attributes
    ----------
    first : int
        Which batch of the epoch is the first of these.
    rows : ndarray of shape (m,)
        Rows of the batches, one after the other.
    arms, blocks : ndarray of shape (batches,)
        The arm and the test block of each.
    weights : ndarray of shape (m,) or None
        Weights of the rows; None where no batch was drawn by importance.
    taken : int
        Rows of the epoch's order that are used up after this round, in all processes together.
    width : int
        How many batches a block of the test has.
    """

    first: int
    rows: Indices
    arms: NDArray[np.int8]
    blocks: NDArray[np.int32]
    weights: NDArray[np.float32] | None = None
    taken: int = 0
    width: int = 1

    @classmethod
    def plain(cls, first: int, rows: Indices, size: int) -> Round:
        """Batches that take part in no test."""
        count = -(-len(rows) // size)
        return cls(
            first,
            rows,
            np.zeros(count, dtype=np.int8),
            np.full(count, NO_BLOCK, dtype=np.int32),
        )

    @property
    def stop(self) -> int:
        """The batch of the epoch that follows the last of these."""
        return self.first + len(self.arms)

    def batch(self, number: int, size: int) -> Batch:
        """Return one of the batches, counted from the first of the round."""
        cut, arm = slice(number * size, (number + 1) * size), self.arms.item(number)
        weights = self.weights[cut] if self.weights is not None and arm == IMPORTANCE else None
        return Batch(self.rows[cut], arm, self.blocks.item(number), weights, self.width)

    def state(self) -> dict[str, Any]:
        """Numbers and tensors."""
        found: dict[str, Any] = {name: getattr(self, name) for name in ("first", "taken", "width")}
        for name in ("rows", "arms", "blocks", "weights"):
            if getattr(self, name) is not None:
                found[name] = torch.from_numpy(getattr(self, name).copy())
        return found

    @classmethod
    def load(cls, state: dict[str, Any], n: int) -> Round:
        """Take over a state."""
        arrays = {
            name: to_numpy(state[name], name).copy() if name in state else None
            for name in ("rows", "arms", "blocks", "weights")
        }
        rows = arrays["rows"]
        if rows is None or (len(rows) and not 0 <= rows.min() <= rows.max() < n):
            raise ValueError(f"the state's rows must lie in 0..{n - 1}")
        numbers = {name: int(state[name]) for name in ("first", "taken", "width")}
        return cls(**numbers, **arrays)  # type: ignore[arg-type]


def lay_out(
    rng: np.random.Generator, count: int, arms: Sequence[int], main: int, share: float
) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Say which arm makes each of so many batches, and in which block of the test.

    Blocks hold each arm once, in random order, and stand at random places among the batches of the
    main arm. They take about ``share`` of all batches.
    """
    width = len(arms)
    # rounded up or down at random, so that few batches are tested as often on average
    tests = int(share * count / width + rng.random()) if width > 1 else 0
    tests = min(tests, count // width)
    singles = count - tests * width
    # units in random order: blocks have numbers from 0 on, single batches -1
    units = rng.permutation(np.concatenate([np.arange(tests), np.full(singles, NO_BLOCK)]))
    blocks = np.repeat(units, np.where(units >= 0, width, 1)).astype(np.int32)
    made = np.full(count, main, dtype=np.int8)
    order = rng.permuted(np.tile(np.array(arms, dtype=np.int8), (tests, 1)), axis=1)
    # where(blocks >= 0) walks the blocks in the order in which they stand
    made[blocks >= 0] = order.ravel()
    return made, blocks


def deal(
    rng: np.random.Generator,
    rows: Indices,
    size: int,
    counts: dict[int, int],
    classes: NDArray[Any] | None,
    group: Callable[[Indices], Indices],
) -> dict[int, Indices]:
    """Split rows, which are in random order, among the arms that take each row at most once.

    Each row is in one batch, and is equally likely to be in each of them: batches of an arm come in
    random order.

    Parameters
    ----------
    rng : Generator
    rows : ndarray of shape (size * batches,)
        As many as the arms take.
    size : int
        Rows of a batch.
    counts : dict of arm -> int
        How many batches each arm makes.
    classes : ndarray of shape (n,) or None
        Class of each of all rows.
    group : callable
        Puts rows into an order in which those of a batch cancel.

    Returns
    -------
    dict of arm -> ndarray of shape (batches, size)
    """
    made: dict[int, Indices] = {}
    if counts.get(STRATIFIED):
        assert classes is not None
        # stratified among all rows of the round: few rows would not have all classes evenly
        batches = stratify(rng, rows, classes).reshape(-1, size)
        batches = batches[rng.permutation(len(batches))]
        made[STRATIFIED] = batches[: counts[STRATIFIED]]
        rows = rng.permutation(batches[counts[STRATIFIED] :].ravel())
    if wanted := counts.get(GROUPS, 0):
        batches = group(rows[: wanted * size]).reshape(-1, size)
        made[GROUPS] = batches[rng.permutation(len(batches))]
        rows = rows[wanted * size :]
    made[SHUFFLED] = rows.reshape(-1, size)
    return made


def stratify(rng: np.random.Generator, rows: Indices, classes: NDArray[Any]) -> Indices:
    """Rows in an order that has each class evenly from its beginning to its end."""
    by_class = rows[np.argsort(classes[rows], kind="stable")]
    counts = np.bincount(classes[rows])
    counts = counts[counts > 0]
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    offsets = np.repeat(rng.random(len(counts)), counts)
    places = (np.arange(len(rows)) - starts + offsets) / np.repeat(counts, counts)
    ordered: Indices = by_class[np.argsort(places)]
    return ordered


def group_batches(
    rng: np.random.Generator,
    rows: Indices,
    size: int,
    pair_up: Callable[[Indices, int], Indices],
) -> Indices:
    """Rows in batches whose gradients cancel.

    A batch of an even size is made of groups, as large as the power of two that divides it; one of
    an odd size has a single row besides, drawn at random.

    Parameters
    ----------
    rng : Generator
    rows : ndarray of shape (batches * size,)
        In random order.
    size : int
        Rows of a batch, at least 2.
    pair_up : callable
        ``pair_up(rows, group)`` returns the rows in groups of so many.
    """
    count, odd = len(rows) // size, size % 2
    even = size - odd
    whole = even & -even
    groups = pair_up(rows[count * odd :], whole).reshape(-1, whole)
    batches = groups[rng.permutation(len(groups))].reshape(count, even)
    return np.hstack([rows[: count * odd].reshape(count, odd), batches]).ravel()
