"""Samplers of orders on a few rows, and solvers driven by a sampler without the training loop."""

from __future__ import annotations

import numpy as np

from antithetic.orders.order import Pool, read_order
from antithetic.problem import Problem


def any_problem(n):
    """Return n rows for orders that look at their number only."""
    return Problem.build(np.ones((n, 1)), np.zeros(n), loss="squared_error")


def sampler_of(order, n, batch_size, seed=0, table=None):
    """Return what draws the batches of an order, a word or an object, of n rows."""
    pool = Pool(any_problem(n), table, batch_size, seed)
    return read_order(order).draw_from(pool).sampler()


def drive(solver, sampler, schedule, start=(), *, epochs):
    """Yield what each epoch leads to; a balanced sampler is shown the order left by the last."""
    state, own = solver.init(*start)
    order = None
    for epoch in range(epochs):
        after = solver.epoch(state, own, sampler.batches(epoch, order), schedule)
        yield after
        state, own, order = after.state, after.own, after.order
