"""Matchings: cut the cycles of a permutation into pairs, and repair it if rows are removed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic.pairing.greedy import greedy_pairs
from antithetic.pairing.rows import Rows


def cut_cycles(partner: NDArray[np.intp], rows: Rows) -> NDArray[np.intp]:
    """Turn a permutation into a matching.

    Of each cycle, the alternate links with the smallest sum of products are kept.

    A cycle of odd length drops the row whose absence costs least; these rows are paired with each
    other, each in turn with the free one that opposes it most. Time O(n d) apart from that last
    step.
    """
    mates = kernels.alternate_links(partner, rows.products(partner))
    single = np.flatnonzero(mates < 0)
    if len(single) % 2:
        mates[single[-1]] = single[-1]
        single = single[:-1]
    pairs = single[greedy_pairs(rows.subset(single))]
    mates[pairs] = pairs[:, ::-1]
    return mates


def restrict(partner: NDArray[np.intp], kept: NDArray[np.intp]) -> NDArray[np.intp]:
    """Restrict a permutation to the rows ``kept``, numbered by their place there.

    A row whose partner was removed is linked to the next row of its cycle that was kept. Rows that
    would be linked to themselves are paired with one another; the odd one joins a row that was
    single before, if there is one.
    """
    kept = np.ascontiguousarray(kept)
    place = np.full(len(partner), -1, dtype=np.intp)
    place[kept] = np.arange(len(kept))
    repaired = kernels.skip_missing(partner, kept, place)
    alone = np.flatnonzero(repaired == np.arange(len(kept)))
    was_alone = partner[kept[alone]] == kept[alone]
    orphans = alone[~was_alone]
    if len(orphans) % 2:
        orphans = np.concatenate([orphans, alone[was_alone][:1]])
    pairs = orphans[: len(orphans) // 2 * 2].reshape(-1, 2)
    repaired[pairs] = pairs[:, ::-1]
    return repaired
