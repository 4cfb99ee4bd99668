"""How far rows are from a centre, in sums that lose no digits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix


def deviations(vectors: Matrix, centre: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Sum over the rows of ``|row - centre|^2``, and of ``row - centre``.

    Only terms of one sign are added: no digit cancels.
    """
    if sparse.issparse(vectors):  # the zeros of a column all deviate alike
        stored = vectors.data - centre[vectors.indices]
        zeros = vectors.shape[0] - np.bincount(vectors.indices, minlength=len(centre))
        sums = np.bincount(vectors.indices, weights=stored, minlength=len(centre)) - zeros * centre
        return float(stored @ stored + zeros @ (centre * centre)), sums
    centred = vectors - centre
    return float(np.einsum("ij,ij->", centred, centred)), centred.sum(axis=0)


def weighted_deviations(
    vectors: Matrix, centre: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """:func:`deviations` with a weight for each row."""
    if sparse.issparse(vectors):
        stored = vectors.data - centre[vectors.indices]
        weighted = np.repeat(weights, np.diff(vectors.indptr)) * stored
        there = np.bincount(vectors.indices, minlength=len(centre))
        weight = np.bincount(
            vectors.indices,
            weights=np.repeat(weights, np.diff(vectors.indptr)),
            minlength=len(centre),
        )
        # a column without zeros has exactly none: the difference of two sums would leave what
        # rounding made of it
        zeros = np.where(there == vectors.shape[0], 0.0, np.maximum(0.0, weights.sum() - weight))
        sums = (
            np.bincount(vectors.indices, weights=weighted, minlength=len(centre)) - zeros * centre
        )
        return float(stored @ weighted + zeros @ (centre * centre)), sums
    centred = vectors - centre
    return float(np.einsum("i,ij,ij->", weights, centred, centred)), weights @ centred
