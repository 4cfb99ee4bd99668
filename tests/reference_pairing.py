"""Pairings written out in plain NumPy."""

from __future__ import annotations

import numpy as np

from antithetic.paper.algorithms import algorithm_1


def signed_rows(X, y, fit_intercept=False, sample_weight=None):
    """Rows ``s_i y_i (x_i, 1)``, the 1 only with an intercept."""
    X = np.column_stack([X, np.ones(len(X))]) if fit_intercept else X
    return X * y[:, None] if sample_weight is None else X * (y * sample_weight)[:, None]


def literal_table(Z):
    """Algorithm 1 as printed, on signed rows."""
    return algorithm_1(Z, np.ones(len(Z)))


def largest_excess(Z, partner):
    """By how much a choice exceeds the smallest product over the rows free in its own run.

    The unit is ``|z_i| max |z_j|``.
    """
    # Rescale, so that the result does not depend on the units of Z.
    Z = np.asarray(Z, dtype=np.float64) / max(np.abs(Z).max(), np.finfo(np.float64).tiny)
    lengths = np.sqrt((Z**2).sum(axis=1))
    free = np.ones(len(Z), dtype=bool)
    worst = 0.0
    for i, j in enumerate(partner):
        excess = Z[i] @ Z[j] - (Z[free] @ Z[i]).min()
        worst = max(worst, excess / max(lengths[i] * lengths.max(), np.finfo(np.float64).tiny))
        free[j] = False
    return worst


def cycles(partner):
    """Cycles of a permutation, each a list of rows in the order in which they follow each other."""
    seen, found = set(), []
    for start in range(len(partner)):
        cycle, row = [], start
        while row not in seen:
            seen.add(row)
            cycle.append(row)
            row = int(partner[row])
        if cycle:
            found.append(cycle)
    return found


def alternate_cuts(cycle):
    """Every way to keep alternate links of a cycle, each as a list of pairs.

    An even cycle has two ways; an odd one has a way for each row that can be left out.
    """
    n = len(cycle)
    starts = range(n) if n % 2 else range(min(n, 2))
    return [
        [(cycle[(start + k) % n], cycle[(start + k + 1) % n]) for k in range(0, n - 1, 2)]
        for start in starts
    ]
