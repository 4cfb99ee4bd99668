"""The vectors that are paired: scaled rows of X, with an optional constant feature.

They are never formed as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import (
    BLOCK_ENTRIES,
    Matrix,
    block_rows,
    check_classes,
    check_rows,
    check_weights,
    power_of_two_near,
)
from antithetic.problem import Problem, ratio
from antithetic.problem.losses import Loss, get_loss

_AXES = 12
_SAMPLE_ROWS = 10_000  # rows from which the axes are found
_DENSE_FEATURES = 1000  # up to here the covariance matrix of the features is formed
_EXTRA, _POWERS = 8, 3  # of the subspace iteration beyond
_BLOCK = 1 << 14
_SAMPLE_ENTRIES = 1 << 23


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    r"""The gradients, or bounds on them, that should cancel.

    Row i is ``scale[i] * X[i]``, or ``scale[i] * (X[i], 1)`` with a constant.

    With more than two classes a row stands for :math:`(e_{y_i} - 1/K) \otimes x_i`, the gradient of
    softmax regression at zero. It is never formed: the product of two such rows is that of their
    features times :math:`[y_i = y_j] - 1/K`.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    scale : ndarray of shape (n,) or None
        None means that every row is taken as it is.
    constant : float
        One more feature of each row, for the intercept; 0 for none.
    codes : ndarray of shape (n,) or None
        Class of each row, where there are more than two.
    classes : int
        Number of classes K where there are codes.
    unit : float
        The factor that everything was multiplied by to keep products in range; see :meth:`tamed`.
    """

    X: Matrix
    scale: NDArray[np.floating] | None = None
    constant: float = 0.0
    codes: NDArray[np.intp] | None = None
    classes: int = 2
    unit: float = 1.0

    @classmethod
    def of_problem(cls, problem: Problem, coef: Any = None, intercept: float = 0.0) -> Rows:
        """Gradients of the rows at ``coef``.

        Without one, the signed and weighted rows that bound a margin loss's gradients.
        """
        if coef is None and intercept == 0.0 and problem.loss.classification:
            scale = problem.y if problem.weight is None else problem.y * problem.weight
        else:
            scale = problem.slopes(coef, intercept)
            if not np.isfinite(scale).all():
                row = int(np.argmin(np.isfinite(scale)))
                raise ValueError(
                    f"the gradient of row {row} overflows: coef, the features, targets or weights"
                    " are too large; scale them, or choose a smaller coef"
                )
        return cls.of_slopes(problem, scale)

    @classmethod
    def of_slopes(cls, problem: Problem, slopes: NDArray[np.float64]) -> Rows:
        """Gradients of the rows, each its slope times the row."""
        return cls(problem.X, slopes, float(problem.fit_intercept)).tamed()

    @classmethod
    def of_classes(
        cls,
        X: Matrix,
        codes: NDArray[np.intp],
        classes: int,
        weight: NDArray[np.float64] | None,
        constant: bool,
    ) -> Rows:
        """Gradients of softmax regression at zero, for checked rows of more than two classes."""
        return cls(X, weight, float(constant), codes, classes).tamed()

    def tamed(self) -> Rows:
        """Divide by a power of two where products would overflow or vanish.

        No choice depends on it, and no digit changes. The scales become of the rows' type.
        """
        X, scale, kind = self.X, self.scale, self.X.dtype
        features = _taming_factor(X.data if sparse.issparse(X) else X, kind, self.constant)
        weights = 1.0 if scale is None else _taming_factor(scale, kind)
        if features != 1.0:
            X = X * kind.type(features)
        if scale is not None:
            scale = (scale if weights == 1.0 else scale * weights).astype(kind, copy=False)
        return replace(
            self, X=X, scale=scale, constant=self.constant * features, unit=features * weights
        )

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def compacted(self) -> Rows:
        """Leave out features that no row has: a small sparse set has few of a million hashed words.

        No product depends on them.
        """
        if not sparse.issparse(self.X):
            return self
        used, indices = np.unique(self.X.indices, return_inverse=True)
        if len(used) > self.X.shape[1] // 2 or not len(used):
            return self
        X = sparse.csr_array(
            (self.X.data, indices.astype(self.X.indices.dtype), self.X.indptr),
            shape=(len(self), len(used)),
        )
        return replace(self, X=X)

    def subset(self, index: NDArray[np.intp]) -> Rows:
        """Rows of an index array, as Rows."""
        scale = None if self.scale is None else self.scale[index]
        return replace(
            self,
            X=self.X[index],
            scale=scale,
            codes=None if self.codes is None else self.codes[index],
        )

    def take(self, index: Any) -> Matrix:
        """Form the rows of an index array or slice, dense or CSR as X is.

        With classes, their features only.
        """
        part = self.X[index]
        scale = None if self.scale is None else self.scale[index]
        if sparse.issparse(part):
            if self.constant:
                part = sparse.csr_array(
                    sparse.hstack(
                        [part, np.full((part.shape[0], 1), self.constant, part.dtype)], format="csr"
                    )
                )
            if scale is not None:
                scaled = part.data * np.repeat(scale, np.diff(part.indptr))
                part = sparse.csr_array((scaled, part.indices, part.indptr), shape=part.shape)
            return part
        if self.constant:
            part = np.concatenate(
                [part, np.full((len(part), 1), self.constant, part.dtype)], axis=1
            )
        return part if scale is None else part * scale[:, None]

    def agreement(self, index: Any, other: Any) -> Any:
        """Factor of the products of two lists of rows, by their classes; 1 without classes.

        The lists broadcast against each other.
        """
        if self.codes is None:
            return 1.0
        return (self.codes[index] == self.codes[other]).astype(self.X.dtype) - self.X.dtype.type(
            1.0 / self.classes
        )

    def with_classes(self, features: NDArray[np.floating], index: Any) -> NDArray[Any]:
        """Tensor products of the classes and a few given features, shape (rows, K * features)."""
        assert self.codes is not None
        memberships: NDArray[Any] = np.eye(self.classes, dtype=features.dtype)[
            self.codes[index]
        ] - features.dtype.type(1.0 / self.classes)
        product: NDArray[Any] = memberships[:, :, None] * features[:, None, :]
        return product.reshape(len(features), -1)

    def products(self, partner: NDArray[np.intp]) -> NDArray[np.float64]:
        """Inner product of each row with its partner, shape (n,), in bounded blocks."""
        out = np.empty(len(self))
        block = block_rows(self.X)
        for start in range(0, len(self), block):
            part = slice(start, start + block)
            rows, partners = self.take(part), self.take(partner[part])
            if sparse.issparse(rows):
                out[part] = rows.astype(np.float64).multiply(partners).sum(axis=1)
            else:
                np.einsum("ij,ij->i", rows, partners, out=out[part], dtype=np.float64)
            out[part] *= self.agreement(part, partner[part])
        return out


def _taming_factor(values: NDArray[np.floating], kind: np.dtype[Any], beside: float = 0.0) -> float:
    """Power of two that brings the largest value near 1 if necessary, otherwise 1.

    It is necessary if products of four such values might leave the range of the type.
    """
    near = power_of_two_near(values, beside)
    edge = 1e50 if kind == np.float64 else 1e8
    return 1.0 if 1.0 / edge < near < edge else near


def read_rows(
    X: Any,
    y: Any,
    *,
    loss: str | Loss,
    coef: Any,
    intercept: float,
    fit_intercept: bool,
    sample_weight: Any,
) -> tuple[Rows, Problem | None]:
    """Rows to be paired, from labelled data as the user gave them.

    Returns their problem too, unless there are more than two classes.
    """
    if get_loss(loss).classification:
        X = check_rows(X)
        codes, classes = check_classes(y, X.shape[0])
        if len(classes) > 2:
            if coef is not None:
                raise ValueError(
                    "coef= pairs gradients of two classes or of a regression, and y has"
                    f" {len(classes)} classes; leave it at None"
                )
            return (
                Rows.of_classes(
                    X,
                    codes,
                    len(classes),
                    check_weights(sample_weight, X.shape[0]),
                    bool(fit_intercept),
                ),
                None,
            )
    problem = Problem.build(
        X, y, loss=loss, sample_weight=sample_weight, fit_intercept=fit_intercept
    )
    return Rows.of_problem(problem, coef, intercept), problem


def rows_ratio(rows: Rows, partner: NDArray[np.intp]) -> float:
    """Variance of a pair's mean divided by that of two independent rows, from inner products."""
    square = float(rows.products(np.arange(len(rows))).mean())
    return ratio(pair_variance(rows, partner), max(0.0, 0.5 * (square - mean_square(rows))))


def pair_variance(rows: Rows, partner: NDArray[np.intp]) -> float:
    """Variance of a pair's mean, from inner products alone."""
    square = float(rows.products(np.arange(len(rows))).mean())
    return max(0.0, 0.5 * (square + float(rows.products(partner).mean())) - mean_square(rows))


def mean_square(rows: Rows) -> float:
    """Squared norm of the mean of the rows."""
    classes = 1 if rows.codes is None else rows.classes
    total = np.zeros((classes, rows.X.shape[1] + bool(rows.constant)))
    block = block_rows(rows.X)
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        vectors = rows.take(part)
        codes = (
            np.zeros(vectors.shape[0], dtype=np.intp) if rows.codes is None else rows.codes[part]
        )
        member = sparse.csr_array(
            (np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=(classes, len(codes))
        )
        sums = member @ vectors
        total += sums.toarray() if sparse.issparse(sums) else sums
    total /= len(rows)
    if rows.codes is not None:
        total -= total.mean(axis=0)
    return float((total * total).sum())


def group_squares(rows: Rows, groups: NDArray[np.intp]) -> NDArray[np.float64]:
    """Squared norm of the mean of each group of rows, shape (groups,), in bounded blocks."""
    size, classes = groups.shape[1], 1 if rows.codes is None else rows.classes
    out = np.empty(len(groups))
    block = max(1, block_rows(rows.X) // (size * classes))
    for start in range(0, len(groups), block):
        members = groups[start : start + block].ravel()
        owner = np.repeat(np.arange(len(members) // size) * classes, size) + (
            0 if rows.codes is None else rows.codes[members]
        )
        shape = (len(members) // size * classes, len(members))
        selector = sparse.csr_array(
            (np.full(len(members), 1.0 / size), (owner, np.arange(len(members)))), shape=shape
        )
        sums = selector @ rows.take(members)  # one row per group and class
        squares = _row_squares(sums).reshape(-1, classes).sum(axis=1)
        if classes > 1:
            together = (
                sparse.csr_array(
                    sparse.kron(sparse.eye_array(len(members) // size), np.ones((1, classes)))
                )
                @ sums
            )
            squares -= _row_squares(together) / classes
        out[start : start + block] = squares
    return out


def _row_squares(vectors: Matrix) -> NDArray[np.float64]:
    if sparse.issparse(vectors):
        return np.asarray(vectors.multiply(vectors).sum(axis=1), dtype=np.float64).ravel()
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", vectors, vectors)
    return squares


def principal_coordinates(rows: Rows, seed: int) -> NDArray[np.float32]:
    """Coordinates of the centred rows along their widest directions, (n, at most 12), float32."""
    points = sketch(rows, _AXES, seed)
    points -= points.mean(axis=0, dtype=np.float64).astype(np.float32)
    return points


def sketch(rows: Rows, n_axes: int, seed: int) -> NDArray[np.float32]:
    """Coordinates of the rows along their widest directions, (n, at most n_axes), float32.

    The directions come from a sample of the rows: from the covariance matrix, or by subspace
    iteration where there are many features. With classes, a row is the tensor product of its class
    and its features, and the features are reduced before the product is formed.
    """
    rng = np.random.default_rng(seed)
    limit = (
        _SAMPLE_ROWS
        if rows.codes is None
        else min(_SAMPLE_ROWS, max(1, _SAMPLE_ENTRIES // (rows.classes * n_axes)))
    )
    sample = np.sort(rng.choice(len(rows), min(len(rows), limit), replace=False))
    vectors = rows.take(sample)
    axes = _principal_axes(vectors, n_axes, rng, centred=rows.codes is None)
    # Float32 has a smaller range than the rows may have.
    unit = vectors.dtype.type(power_of_two_near(vectors @ axes))
    of_classes = None
    if rows.codes is not None:
        of_classes = _principal_axes(rows.with_classes(vectors @ axes, sample), n_axes, rng)
    points = np.empty(
        (len(rows), (axes if of_classes is None else of_classes).shape[1]), dtype=np.float32
    )
    block = _BLOCK if rows.codes is None else max(1, BLOCK_ENTRIES // (rows.classes * n_axes))
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        features = unit * (rows.take(part) @ axes)
        points[part] = (
            features if of_classes is None else rows.with_classes(features, part) @ of_classes
        )
    return points


def _principal_axes(
    sample: Matrix, count: int, rng: np.random.Generator, *, centred: bool = True
) -> Matrix:
    """Directions in which a sample varies most, shape (features, at most count).

    The features of several classes are not centred: their mean direction tells the tensor products
    of different classes apart.
    """
    d = sample.shape[1]
    count = min(count, d)
    mean = np.asarray(sample.mean(axis=0)).reshape(1, d) * centred
    if d <= _DENSE_FEATURES:
        square = sample.T @ sample
        square = square.toarray() if sparse.issparse(square) else square
        covariance = (
            np.asarray(square, dtype=np.float64) / sample.shape[0]
            - mean.T.astype(np.float64) @ mean
        )
        return np.linalg.eigh(covariance)[1][:, ::-1][:, :count].astype(sample.dtype)
    basis = rng.standard_normal((d, count + _EXTRA)).astype(sample.dtype)
    for _ in range(_POWERS):
        image = sample @ basis - mean @ basis
        basis = np.linalg.qr(sample.T @ image - mean.T @ image.sum(axis=0, keepdims=True))[0]
    image = sample @ basis - mean @ basis
    return basis @ np.linalg.svd(image, full_matrices=False)[2].T[:, :count]
