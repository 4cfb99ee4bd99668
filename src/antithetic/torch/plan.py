"""An epoch's rows, and how the rounds take theirs from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.torch.data import Indices
from antithetic.torch.importance import draw
from antithetic.torch.rounds import (
    GROUPS,
    IMPORTANCE,
    NO_BLOCK,
    SHUFFLED,
    Round,
    deal,
    group_batches,
    lay_out,
)
from antithetic.torch.shards import Shard


class ArmChoice(NamedTuple):
    """The arms of a round: those that are tested, the main one, and the share of the test."""

    arms: Sequence[int]
    main: int
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class EpochPlan:
    """What the rounds of an epoch have in common.

    Attributes
    ----------
    shard : Shard
    seed, epoch : int
    order : ndarray of shape (m,)
        Rows of all processes: in random order, some of the first again at the end where the
        processes would not have equally many; or in groups.
    grouped : bool
        Whether rows that cancel are next to each other.
    classes : ndarray of shape (n,) or None
    """

    shard: Shard
    seed: int
    epoch: int
    order: Indices
    grouped: bool
    classes: NDArray[Any] | None

    def make_round(
        self,
        first: int,
        stop: int,
        choice: ArmChoice,
        taken: int,
        norms: NDArray[Any],
        pair_up: Callable[[Indices, int], Indices],
    ) -> Round:
        """Make the batches of a round.

        Parameters
        ----------
        first, stop : int
            Which batches of the epoch.
        choice : ArmChoice
        taken : int
            Rows of the order that are used up.
        norms : ndarray of shape (n,)
            Norms of the rows' gradients, for importance.
        pair_up : callable
            ``pair_up(rows, size)`` puts rows into groups of so many that cancel.
        """
        size, shard = self.shard.batch_size, self.shard
        rng = np.random.default_rng((self.seed, self.epoch, first))
        count = min(stop, shard.full) - first
        made, blocks = lay_out(rng, count, choice.arms, choice.main, choice.share)
        # blocks are numbered within the epoch
        blocks = np.where(blocks >= 0, blocks + first, NO_BLOCK).astype(np.int32)
        counts = {arm: shard.replicas * int((made == arm).sum()) for arm in set(made.tolist())}
        drawn = counts.pop(IMPORTANCE, 0)
        needed = size * sum(counts.values())
        pool, taken = self.order[taken : taken + needed], taken + needed
        rows, weights = np.empty((count, size), dtype=np.intp), None
        for arm, batches in self._deal(rng, pool, counts, pair_up).items():
            rows[made == arm] = batches[shard.rank :: shard.replicas]
        if drawn:
            chosen, weights = made == IMPORTANCE, np.ones((count, size), dtype=np.float32)
            own = np.random.default_rng((self.seed, self.epoch, first, shard.rank))
            rows[chosen], weights[chosen] = draw(
                own, norms, size, drawn // shard.replicas, self.classes
            )
        flat = None if weights is None else weights.ravel()
        whole = Round(first, rows.ravel(), made, blocks, flat, taken, len(choice.arms))
        return self._with_short_batch(whole) if stop > shard.full else whole

    def _deal(
        self,
        rng: np.random.Generator,
        pool: Indices,
        counts: dict[int, int],
        pair_up: Callable[[Indices, int], Indices],
    ) -> dict[int, Indices]:
        size = self.shard.batch_size
        if self.grouped:
            batches = pool.reshape(-1, size)
            return {GROUPS: batches[rng.permutation(len(batches))]}
        return deal(
            rng,
            pool,
            size,
            counts,
            self.classes,
            lambda rows: group_batches(rng, rows, size, pair_up),
        )

    def _with_short_batch(self, made: Round) -> Round:
        """Add the short batch of the epoch, whose rows are the last of the order."""
        shard = self.shard
        short = shard.rows - shard.full * shard.batch_size
        begin = len(self.order) - (shard.replicas - shard.rank) * short
        weights = made.weights
        if weights is not None:
            weights = np.append(weights, np.ones(short, dtype=np.float32))
        return Round(
            made.first,
            np.concatenate([made.rows, self.order[begin : begin + short]]),
            np.append(made.arms, np.int8(SHUFFLED)),
            np.append(made.blocks, np.int32(NO_BLOCK)),
            weights,
            made.taken,
            made.width,
        )
