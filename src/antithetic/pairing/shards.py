"""Data larger than memory: rows are dealt at random into shards and paired within each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import (
    Matrix,
    check_classes,
    check_column,
    check_rows,
    check_weights,
)
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.rows import Rows
from antithetic.problem import Problem
from antithetic.problem.losses import get_loss
from antithetic.problem.penalties import ElasticNet

DEFAULT_SHARD_ROWS = 200_000


def as_chunks(X: Any, y: Any) -> tuple[list[Any], Any]:
    """Return X as a list of matrices, and the labels, if given in parts, as one column."""
    if not is_chunks(X):
        return [X], y
    several = (
        isinstance(y, (list, tuple)) and len(y) == len(X) and all(np.ndim(part) == 1 for part in y)
    )
    return list(X), np.concatenate([np.asarray(part) for part in y]) if several else y


def is_chunks(X: Any) -> bool:
    """Whether X is a list of matrices rather than one."""
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and all(sparse.issparse(part) or np.ndim(part) == 2 for part in X)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Shards:
    """Labelled rows in chunks, any subset of which can be formed as Rows."""

    chunks: list[Matrix]
    loss: Any
    target: NDArray[Any]
    classes: int
    weight: NDArray[np.float64] | None
    fit_intercept: bool
    coef: Any
    intercept: float
    fingerprint: Fingerprint

    @classmethod
    def read(
        cls,
        X: Any,
        y: Any,
        *,
        loss: Any,
        coef: Any,
        intercept: float,
        fit_intercept: bool,
        sample_weight: Any,
    ) -> Shards:
        """Check the chunks one by one.

        They are not copied, and a memory map is not read into memory.
        """
        parts, y = as_chunks(X, y)
        chunks = [
            check_rows(part, f"chunk {k} of X" if len(parts) > 1 else "X")
            for k, part in enumerate(parts)
        ]
        kinds = {(chunk.shape[1], chunk.dtype, sparse.issparse(chunk)) for chunk in chunks}
        if len(kinds) > 1:
            raise ValueError(
                "the chunks of X differ in number of features, float type, or in being sparse"
            )
        n, loss = sum(chunk.shape[0] for chunk in chunks), get_loss(loss)
        if loss.classification:
            codes, names = check_classes(y, n)
            if len(names) > 2 and coef is not None:
                raise ValueError(
                    "coef= pairs gradients of two classes or of a regression, and y has"
                    f" {len(names)} classes; leave it at None"
                )
            target, classes = (
                (codes, len(names)) if len(names) > 2 else (np.where(codes == 1, 1.0, -1.0), 2)
            )
        else:
            target, classes = check_column(y, n, "y"), 2
        return cls(
            chunks,
            loss,
            target,
            classes,
            check_weights(sample_weight, n),
            fit_intercept,
            coef,
            intercept,
            Fingerprint.of(chunks, y),
        )

    def rows(self, index: NDArray[np.intp]) -> Rows:
        """Form the rows of a sorted index array."""
        bounds = np.cumsum([0] + [chunk.shape[0] for chunk in self.chunks])
        cuts = np.searchsorted(index, bounds)
        parts = [
            chunk[index[low:high] - first]
            for chunk, first, low, high in zip(
                self.chunks, bounds[:-1], cuts[:-1], cuts[1:], strict=True
            )
            if high > low
        ]
        X = (
            sparse.csr_array(sparse.vstack(parts))
            if sparse.issparse(parts[0])
            else np.concatenate(parts)
        )
        weight = None if self.weight is None else self.weight[index]
        if self.classes > 2:
            return Rows.of_classes(X, self.target[index], self.classes, weight, self.fit_intercept)
        problem = Problem(
            X, self.target[index], self.loss, ElasticNet(), weight, self.fit_intercept, None
        )
        return Rows.of_problem(problem, self.coef, self.intercept)


def shard_table(
    shards: Shards,
    shard_rows: int,
    seed: int,
    find_table: Callable[[Rows], NDArray[np.intp]],
    progress: Callable[[int], None],
) -> NDArray[np.intp]:
    """Deal the rows into shards of at most ``shard_rows``, at random, and pair within each.

    Two shards never share a pair.
    """
    n = len(shards.target)
    dealt = np.random.default_rng(seed).permutation(n)
    partner = np.empty(n, dtype=np.intp)
    count = -(-n // shard_rows)
    for k in range(count):
        index = np.sort(dealt[k * n // count : (k + 1) * n // count])
        partner[index] = index[find_table(shards.rows(index))]
        progress((k + 1) * n // count)
    return partner
