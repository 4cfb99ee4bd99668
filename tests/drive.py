"""Samplers of orders on a few rows, and solvers driven by a sampler without the training loop."""

from __future__ import annotations

import numpy as np

from antithetic.orders.balanced import BalancedDraws
from antithetic.orders.order import Pool, read_order
from antithetic.problem import Problem


def any_problem(n):
    """Return n rows for orders that look at their number only."""
    return Problem.build(np.ones((n, 1)), np.zeros(n), loss="squared_error")


def draws_of(order, n, batch_size, seed=0, table=None):
    """Return the draws of an order, a word or an object, from n rows."""
    return read_order(order).draw_from(Pool(any_problem(n), table, batch_size, seed))


def balanced_draws(first, batch_size, unit=1):
    """Return the draws of a balanced order with the given first epoch."""
    return BalancedDraws(Pool(any_problem(len(first)), None, batch_size, 0), first, unit)


class DrawsBy:
    """Draws whose batches are a function of the epoch's random numbers."""

    def __init__(self, function, seed=0):
        self.function, self.seed = function, seed

    def batches(self, epoch):
        """Batches of an epoch."""
        return self.function(np.random.default_rng((self.seed, epoch)))


def drive(solver, draws, schedule, start=(), *, epochs):
    """Yield what each epoch leads to; balanced draws are shown the order left by the last."""
    state, own = solver.init(*start)
    order = None
    for epoch in range(epochs):
        after = solver.epoch(state, own, draws.batches(epoch, order), schedule)
        yield after
        state, own, order = after.state, after.own, after.order
