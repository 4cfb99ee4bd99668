"""Pair rows with faiss: a callable for ``antithetic.pair(X, y, method=...)``.

Each row in turn takes the first free row among the k that oppose it most. Rows whose candidates are
all taken search again, among the rows that are still free, until every row has a partner. Any index
that answers "which rows are nearest to this one" can be used in this way.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

import antithetic

try:
    import faiss
except ImportError as error:
    raise ImportError("this example needs faiss: pip install antithetic[ann]") from error


def faiss_pairs(rows, k=64, index="Flat"):
    """Return a partner for each row, a permutation of shape (n,).

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The vectors that should cancel, as ``antithetic.pair`` gives them to a callable.
    k : int, default=64
        Candidates that a row is shown at a time.
    index : str, default="Flat"
        What the first search uses, in the language of ``faiss.index_factory``: ``"IVF256,Flat"``,
        say. Later ones are exact.
    """
    if sparse.issparse(rows):
        raise TypeError(
            "faiss takes dense rows; project sparse ones to a few dimensions first, with"
            " TruncatedSVD, say"
        )
    # Greedy choices are better on centred rows.
    vectors = np.ascontiguousarray(rows - rows.mean(axis=0), dtype=np.float32)
    partner = np.full(len(vectors), -1, dtype=np.intp)
    waiting = free = np.arange(len(vectors))
    while len(waiting):
        candidates = nearest_reflections(vectors, waiting, free, k, index)
        choose_in_turn(partner, waiting, candidates)
        waiting = np.flatnonzero(partner < 0)
        free = np.setdiff1d(free, partner)
        index = "Flat"  # whose first row always finds a free candidate, so that the loop ends
    return partner


def nearest_reflections(vectors, waiting, free, k, index):
    """The k free rows with the smallest products, smallest first, for each waiting row.

    The result holds row numbers, and -1 where there are fewer than k.
    """
    searcher = faiss.index_factory(vectors.shape[1], index, faiss.METRIC_INNER_PRODUCT)
    searcher.train(vectors[free])
    searcher.add(vectors[free])
    found = searcher.search(-vectors[waiting], min(k, len(free)))[1]
    return np.where(found >= 0, free[found], -1)


def choose_in_turn(partner, waiting, candidates):
    """Let each waiting row take its first candidate that is still free.

    A row without one keeps waiting.
    """
    taken = np.zeros(len(partner) + 1, dtype=bool)
    taken[-1] = True  # the candidate -1
    for row, nearest in zip(waiting, candidates, strict=True):
        first = np.argmin(taken[nearest])
        if not taken[nearest[first]]:
            partner[row] = nearest[first]
            taken[nearest[first]] = True


def main():
    X, y = antithetic.datasets.load("splice_scale", return_X_y=True)
    print(
        f"splice_scale, {X.shape[0]} x {X.shape[1]}: exact variance of a pair's gradient at w = 0,"
        " divided by that of two independent rows"
    )
    for method in (faiss_pairs, "greedy", "tree", "random"):
        table = antithetic.pair(X, y, method=method)
        print(f"  {table.method:<14}{table.variance_ratio(X, y):.3f}")


if __name__ == "__main__":
    main()
