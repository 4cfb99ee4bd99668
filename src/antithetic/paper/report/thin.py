"""What a page leaves out to stay light: points of long curves, rows of large data sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic.paper.report.content import Numbers


def thin_curve(x: Numbers, y: Numbers, limit: int, *, log: bool) -> NDArray[np.intp]:
    """Points of a curve to draw, at most ``limit``.

    Kept are the ends, and of each stretch of x the lowest, the highest and a gap.

    So spikes, jitter and gaps stay visible. Points are sorted by x; those without a place on the
    axis are left out.
    """
    order = np.argsort(x, kind="stable")
    order = order[np.isfinite(x[order]) & ((x[order] > 0) | (not log))]
    if len(order) <= limit:
        return order
    place = np.log(x[order]) if log else x[order]
    stretches = (limit - 2) // 3
    edges = np.linspace(place[0], place[-1], stretches + 1)[1:-1]
    kept = {0, len(order) - 1}
    for part in np.split(np.arange(len(order)), np.searchsorted(place, edges)):
        values = y[order[part]]
        finite = np.isfinite(values)
        if finite.any():
            kept.update(
                (
                    int(part[np.where(finite, values, np.inf).argmin()]),
                    int(part[np.where(finite, values, -np.inf).argmax()]),
                )
            )
        if not finite.all():
            kept.add(int(part[finite.argmin()]))
    return order[sorted(kept)]


def thin_rows(partner: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """Rows to draw, sorted, at most ``limit``.

    They are whole cycles of the table in a random order, so that partners stay together.

    Of a matching that leaves out whole pairs. Where a table has a cycle too long to fit, a piece of
    it is taken, and only the piece's last row is without its partner.
    """
    n = len(partner)
    if n <= limit:
        return np.arange(n)
    taken = np.zeros(n, dtype=bool)
    left, misses = limit, 0
    for start in np.random.default_rng(0).permutation(n):
        if left < 2 or misses == 100:
            break
        if taken[start]:
            continue
        cycle = _cycle(partner, int(start), limit)
        if left < len(cycle) < limit:
            # a cycle that would fit on an empty page is not cut: a shorter one may fill the room
            misses += 1
            continue
        taken[cycle[:left]] = True
        left = limit - int(taken.sum())
    return np.flatnonzero(taken)


def _cycle(partner: NDArray[np.intp], start: int, limit: int) -> list[int]:
    """Rows met from ``start`` on until it comes back, or until there are ``limit``."""
    rows = [start]
    while len(rows) < limit and (row := int(partner[rows[-1]])) != start:
        rows.append(row)
    return rows
