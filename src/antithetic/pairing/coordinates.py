"""A few principal coordinates of the rows: roughly where they lie, at low cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import BLOCK_ENTRIES, Matrix, power_of_two_near
from antithetic.pairing.rows import Rows

_AXES = 12
_SAMPLE_ROWS = 10_000  # rows from which the axes are found
_DENSE_FEATURES = 1000  # up to here the covariance matrix of the features is formed
_EXTRA, _POWERS = 8, 3  # of the subspace iteration beyond
_BLOCK = 1 << 14
_SAMPLE_ENTRIES = 1 << 23


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
