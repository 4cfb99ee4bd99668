"""How rows and pairs are drawn: the batches of an epoch as a pure function of seed and epoch, and their exact variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.balanced import Balanced
from antithetic.orders.batches import Batches
from antithetic.orders.draws import Draws
from antithetic.orders.importance import Importance, normalised, unit_probabilities
from antithetic.orders.in_order import InOrder
from antithetic.orders.nested import Nested
from antithetic.orders.own_order import OwnOrder
from antithetic.orders.random_order import random_order
from antithetic.orders.shuffle import Shuffle, ShufflePairs
from antithetic.orders.strata import ALLOCATIONS, allocate, check_room, make_strata
from antithetic.orders.stratified import Stratified
from antithetic.orders.uniform import Uniform
from antithetic.orders.units import Units
from antithetic.orders.variance import (
    batch_variance,
    check_groups,
    gradient_variance,
    largest_partial_sum,
    order_variance,
)
from antithetic.pairing.groups import GroupTable
from antithetic.pairing.table import AntitheticTable

__all__ = [
    "ALLOCATIONS",
    "ONCE_PER_EPOCH",
    "SAMPLINGS",
    "Batches",
    "Draws",
    "Sampler",
    "Units",
    "allocate",
    "batch_variance",
    "check_groups",
    "gradient_variance",
    "largest_partial_sum",
    "make_sampler",
    "make_strata",
    "order_variance",
    "unit_probabilities",
]

SAMPLINGS = ("uniform", "shuffle", "balanced", "importance", "stratified")
ONCE_PER_EPOCH = ("shuffle", "balanced")  # these need a matching


class Sampler(Protocol):
    """Whatever gives the batches of an epoch."""

    def batches(self, epoch: int, order: NDArray[np.intp] | None = None) -> Batches:
        """Batches of an epoch, a pure function of the seed, the epoch, and the order that the solver left behind, if any."""


def make_sampler(
    sampling: str | Callable[[int], Any],
    n: int,
    batch_size: int,
    seed: int,
    table: AntitheticTable | GroupTable | None = None,
    *,
    to_the_top: bool = False,
    probabilities: Any = None,
    strata: Any = None,
    counts: Any = None,
) -> Sampler:
    """Return a sampler by name: of rows, of the pairs of a table (where each is visited once, a matching), or of groups.

    ``"in order"`` takes the rows as they come, a function those of an epoch as it says. Groups that
    are nested ``to_the_top`` are an order: with ``"shuffle"`` that of every epoch, with
    ``"balanced"`` that of the first. ``"importance"`` needs ``probabilities``, one per unit (see
    :func:`unit_probabilities`); ``"stratified"`` needs ``strata``, one label from 0 per unit, and
    ``counts``, units of a batch per stratum (see :func:`make_strata` and :func:`allocate`).
    """
    if sampling == "in order":
        return InOrder(n, batch_size)
    if callable(sampling):
        return OwnOrder(n, batch_size, sampling)
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling {sampling!r} is not known; use one of {', '.join(SAMPLINGS)}")
    if sampling not in ONCE_PER_EPOCH:
        if isinstance(table, GroupTable) and to_the_top:
            raise ValueError(
                "nested groups are an order, which draws with replacement have not; use"
                ' sampling="shuffle" or "balanced"'
            )
        return _make_draw(sampling, n, batch_size, seed, table, probabilities, strata, counts)
    if isinstance(table, GroupTable):
        nested = Nested(table.order, table.size, batch_size, seed)
        return (
            nested
            if sampling == "shuffle"
            else Balanced(nested.rows(0), batch_size, 1 if to_the_top else table.size)
        )
    if sampling == "shuffle":
        return (
            Shuffle(n, batch_size, seed)
            if table is None
            else ShufflePairs(table.pairs, table.single, batch_size, seed)
        )
    rng = np.random.default_rng((seed, 0))
    if table is None:
        return Balanced(random_order(rng, n), batch_size)
    rows = table.pairs[random_order(rng, n // 2)].ravel()
    return Balanced(
        rows if table.single is None else np.append(rows, table.single), batch_size, unit=2
    )


def _make_draw(
    sampling: str,
    n: int,
    batch_size: int,
    seed: int,
    table: AntitheticTable | GroupTable | None,
    probabilities: Any,
    strata: Any,
    counts: Any,
) -> Sampler:
    """Return a sampler that draws with replacement."""
    if sampling == "uniform" and not isinstance(table, GroupTable):
        return Uniform(n, batch_size, seed, None if table is None else table.partner)
    units = Units.of_table(n, table)
    in_batch = units.in_batch(batch_size)
    if sampling == "uniform":
        return Importance(units, batch_size, seed, units.prior)
    if sampling == "importance":
        if probabilities is None:
            raise ValueError(
                'sampling="importance" needs probabilities, one per unit; unit_probabilities makes'
                " them"
            )
        return Importance(
            units, batch_size, seed, normalised(probabilities, len(units), "probabilities")
        )
    if strata is None or counts is None:
        raise ValueError(
            'sampling="stratified" needs strata, one per unit, and counts, one per stratum;'
            " make_strata and allocate make them"
        )
    labels, of_each = np.asarray(strata), np.atleast_1d(counts)
    check_room(units, in_batch, len(of_each))
    if labels.shape != (len(units),) or not np.array_equal(
        np.unique(labels), np.arange(len(of_each))
    ):
        raise ValueError(
            f"strata must be {len(units)} labels, one per unit, that take each value from 0 to"
            f" {len(of_each) - 1}, one per count"
        )
    if of_each.dtype.kind not in "iu" or (of_each < 1).any() or of_each.sum() != in_batch:
        raise ValueError(
            f"counts must be whole numbers of at least 1 that sum to {in_batch}, the units of a"
            f" batch; got {of_each.tolist()}"
        )
    return Stratified(
        units,
        batch_size,
        seed,
        labels.astype(np.intp, copy=False),
        of_each.astype(np.intp, copy=False),
    )
