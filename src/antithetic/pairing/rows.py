"""The vectors that are paired: rows of X, each times a number, with an optional constant feature, never formed as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._validate import Matrix
from antithetic.problem import Problem

_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """``scale[i] * X[i]``, or ``scale[i] * (X[i], 1)`` with a constant: the gradients, or bounds on them, that should cancel.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    scale : ndarray of shape (n,) or None
        None means that every row is taken as it is.
    constant : bool
        Whether each row has one more feature, 1, for the intercept.
    """

    X: Matrix
    scale: NDArray[np.floating] | None = None
    constant: bool = False

    @classmethod
    def of_problem(cls, problem: Problem, coef: Any, intercept: float) -> Rows:
        """Gradients of the rows at ``coef``; without one, the signed and weighted rows that bound a margin loss's gradients."""
        if coef is None and problem.loss.classification:
            scale = problem.y if problem.weight is None else problem.y * problem.weight
        else:
            scale = problem.slopes(coef, intercept)
        return cls(problem.X, scale.astype(problem.X.dtype, copy=False), problem.fit_intercept)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, index: Any) -> Matrix:
        """Form the rows of an index array or slice, dense or CSR as X is."""
        part = self.X[index]
        scale = None if self.scale is None else self.scale[index]
        if sparse.issparse(part):
            if self.constant:
                part = sparse.csr_array(sparse.hstack([part, np.ones((part.shape[0], 1), part.dtype)], format="csr"))
            return part if scale is None else sparse.csr_array(sparse.diags_array(scale) @ part)
        if self.constant:
            part = np.concatenate([part, np.ones((len(part), 1), part.dtype)], axis=1)
        return part if scale is None else part * scale[:, None]

    def products(self, partner: NDArray[np.intp]) -> NDArray[np.float64]:
        """Inner product of each row with its partner, shape (n,), in bounded blocks."""
        out = np.empty(len(self))
        block = max(1, _BLOCK_ENTRIES // self.X.shape[1])
        for start in range(0, len(self), block):
            part = slice(start, start + block)
            rows, partners = self.take(part), self.take(partner[part])
            if sparse.issparse(rows):
                out[part] = rows.multiply(partners).sum(axis=1)
            else:
                np.einsum("ij,ij->i", rows, partners, out=out[part], casting="same_kind")
        return out
