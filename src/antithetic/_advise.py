"""Which order to use where, and what a table would gain and cost on given data (`advise`)."""

from __future__ import annotations


def choose_sampling(n: int, d: int, *, batch_size: int, epochs: int) -> tuple[str, str]:
    """Return the sampling for so many rows, features and epochs, and a reason.

    A balanced order keeps partial sums of gradients near sqrt(d), a random one near sqrt(n): with as many features as rows nothing is
    to be gained, and each epoch costs up to a half more. Its first epoch is random.
    """
    if batch_size >= n:
        return "shuffle", "a batch holds all rows: no order differs from another"
    if epochs == 1:
        return "shuffle", "a single epoch: there is none before it whose gradients an order could follow"
    if 2 * d > n:
        return "shuffle", f"reshuffled, since with {d} features of {n} rows no order balances them"
    return "balanced", f"balanced, since {d} features of {n} rows leave room for an order that keeps partial sums small"
