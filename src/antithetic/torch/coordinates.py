"""Principal coordinates of gradients that are kept as factors: slopes and inputs.

Their products are formed for a few rows at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

AXES = 64
_SAMPLE = 8192  # rows from which the axes are found
_WIDEST = 1024  # numbers of a product: beyond, inputs are reduced first
_BLOCK = 4096

Vectors = NDArray[np.float32]


def tensor_coordinates(slopes: Vectors, inputs: Vectors, seed: int) -> Vectors:
    r"""Return the products :math:`s_i \otimes x_i` in at most 64 coordinates.

    These are the directions in which the products vary most.

    Inner products of the coordinates are about those of the products, the nearer the faster the
    variance falls along the directions; exactly, where a product has no more numbers than that. O(n
    K d) time, and one block of products in memory.
    """
    sample = np.random.default_rng(seed).choice(
        len(slopes), min(len(slopes), _SAMPLE), replace=False
    )
    most = max(1, _WIDEST // slopes.shape[1])
    if inputs.shape[1] > most:
        inputs = inputs @ _widest(inputs[sample], most)
    if slopes.shape[1] * inputs.shape[1] <= AXES:
        return products(slopes, inputs)
    axes = _widest(products(slopes[sample], inputs[sample]), AXES)
    points = np.empty((len(slopes), AXES), dtype=np.float32)
    for start in range(0, len(slopes), _BLOCK):
        part = slice(start, start + _BLOCK)
        np.matmul(products(slopes[part], inputs[part]), axes, out=points[part])
    return points


def products(slopes: Vectors, inputs: Vectors) -> Vectors:
    """Form the product of each row's slopes and inputs, shape (m, K * d)."""
    formed: Vectors = (slopes[:, :, None] * inputs[:, None, :]).reshape(len(slopes), -1)
    return formed


def _widest(sample: Vectors, count: int) -> Vectors:
    """Orthonormal directions, as columns, in which a sample is largest, the mean included."""
    square = sample.T.astype(np.float64) @ sample
    axes: Vectors = np.linalg.eigh(square)[1][:, ::-1][:, :count].astype(np.float32)
    return axes
