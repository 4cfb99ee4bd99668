"""The vectors that are paired: rows of X, each times a number, with an optional constant feature, never formed as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._validate import Matrix
from antithetic.problem import Problem

_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    r"""``scale[i] * X[i]``, or ``scale[i] * (X[i], 1)`` with a constant: the gradients, or bounds on them, that should cancel.

    With more than two classes a row stands for :math:`(e_{y_i} - 1/K) \otimes x_i`, the gradient of softmax regression at zero. It is never
    formed: the product of two such rows is that of their features times :math:`[y_i = y_j] - 1/K`.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    scale : ndarray of shape (n,) or None
        None means that every row is taken as it is.
    constant : bool
        Whether each row has one more feature, 1, for the intercept.
    codes : ndarray of shape (n,) or None
        Class of each row, where there are more than two.
    classes : int
        Number of classes K where there are codes.
    """

    X: Matrix
    scale: NDArray[np.floating] | None = None
    constant: bool = False
    codes: NDArray[np.intp] | None = None
    classes: int = 2

    @classmethod
    def of_problem(cls, problem: Problem, coef: Any = None, intercept: float = 0.0) -> Rows:
        """Gradients of the rows at ``coef``; without one, the signed and weighted rows that bound a margin loss's gradients."""
        if coef is None and problem.loss.classification:
            scale = problem.y if problem.weight is None else problem.y * problem.weight
        else:
            scale = problem.slopes(coef, intercept)
        return cls(problem.X, scale.astype(problem.X.dtype, copy=False), problem.fit_intercept).tamed()

    def tamed(self) -> Rows:
        """Divide by a power of two where products would overflow or vanish; no choice depends on it, and no digit changes."""
        X, scale = self.X, self.scale
        values = X.data if sparse.issparse(X) else X
        tame = _taming_factor(values)
        if tame is not None:
            X = X * values.dtype.type(tame)
        if scale is not None:
            tame = _taming_factor(scale)
            scale = scale if tame is None else scale * scale.dtype.type(tame)
        return replace(self, X=X, scale=scale)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, index: Any) -> Matrix:
        """Form the rows of an index array or slice, dense or CSR as X is; with classes, their features only."""
        part = self.X[index]
        scale = None if self.scale is None else self.scale[index]
        if sparse.issparse(part):
            if self.constant:
                part = sparse.csr_array(sparse.hstack([part, np.ones((part.shape[0], 1), part.dtype)], format="csr"))
            return part if scale is None else sparse.csr_array(sparse.diags_array(scale) @ part)
        if self.constant:
            part = np.concatenate([part, np.ones((len(part), 1), part.dtype)], axis=1)
        return part if scale is None else part * scale[:, None]

    def agreement(self, index: Any, other: Any) -> NDArray[np.floating] | float:
        """Factor of the products of two lists of rows, one class against the other, that broadcasts; 1 without classes."""
        if self.codes is None:
            return 1.0
        return (self.codes[index] == self.codes[other]).astype(self.X.dtype) - self.X.dtype.type(1.0 / self.classes)

    def with_classes(self, features: NDArray[np.floating], index: Any) -> NDArray[np.floating]:
        """Form the tensor products of classes and a few given features, shape (rows, K * features)."""
        assert self.codes is not None
        memberships = np.eye(self.classes, dtype=features.dtype)[self.codes[index]] - features.dtype.type(1.0 / self.classes)
        return (memberships[:, :, None] * features[:, None, :]).reshape(len(features), -1)

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
            out[part] *= self.agreement(part, partner[part])
        return out


def _taming_factor(values: NDArray[np.floating]) -> float | None:
    """Power of two that brings the largest value near 1 where its square, or a sum of many, might leave the range of the type."""
    if not values.size:
        return None
    largest = max(abs(float(values.max())), abs(float(values.min())))
    edge = 1e100 if values.dtype == np.float64 else 1e12
    if largest == 0.0 or 1.0 / edge < largest < edge:
        return None
    return 2.0 ** -np.frexp(largest)[1]
