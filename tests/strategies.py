"""Hypothesis strategies shared by the tests: small awkward data, and permutations.

Rows are whole numbers times a power of two wherever a test compares with equality, because their
products are then exact.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from antithetic import AntitheticTable

# Powers of two: products and their sums stay exact and within float64.
EXACT_SCALES = (1.0, 2.0**-500, 2.0**500)
EXACT_SCALES_32 = (1.0, 2.0**-60, 2.0**60)  # the same for float32
WEIGHTS = (0.0, 0.5, 1.0, 2.0, 3.0)
EXTREMES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    5e-324,
    -5e-324,
    2.3e-308,
    1.3e154,
    -1.4e154,
    9e307,
    -9e307,
    1.7e308,
    -1.7e308,
)


def finite_floats():
    """Any finite float64, with those at the ends of the range more often."""
    return st.sampled_from(EXTREMES) | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def integer_rows(draw, min_rows=1, max_rows=12, max_features=4, scales=(1.0,)):
    """Whole numbers times a scale, shape (n, d), with awkward cases.

    Duplicates, zero rows, constant columns and a single feature all occur.
    """
    shape = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, max_features))
    X = draw(arrays(np.int64, shape, elements=st.integers(-3, 3))).astype(np.float64)
    row, column = draw(st.integers(0, shape[0] - 1)), draw(st.integers(0, shape[1] - 1))
    for awkward in draw(st.sets(st.sampled_from(["duplicates", "zero row", "constant column"]))):
        if awkward == "duplicates":
            X[row // 2 : row + 1] = X[row]
        elif awkward == "zero row":
            X[row] = 0.0
        else:
            X[:, column] = 2.0
    return X * draw(st.sampled_from(scales))


@st.composite
def real_rows(draw, min_rows=1, max_rows=12, max_features=4, scales=(1.0, 1e-150, 1e150)):
    """Numbers of all digits times a scale, shape (n, d); their products stay inside float64."""
    shape = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, max_features))
    size = st.floats(1e-3, 10.0)
    X = draw(arrays(np.float64, shape, elements=st.just(0.0) | size | size.map(lambda x: -x)))
    return X * draw(st.sampled_from(scales))


@st.composite
def labels(draw, n):
    """Labels -1 and +1 of n >= 2 rows, both there."""
    y = np.where(draw(arrays(np.bool_, n)), 1.0, -1.0)
    if len(np.unique(y)) == 1:
        y[draw(st.integers(0, n - 1))] *= -1.0
    return y


@st.composite
def problems(draw, rows=None):
    """Rows and labels of a binary problem, ``(X, y)``."""
    X = draw(integer_rows(min_rows=2) if rows is None else rows)
    return X, draw(labels(len(X)))


def weights(n):
    """Weights of n rows, some of them zero, not all."""
    return arrays(np.float64, n, elements=st.sampled_from(WEIGHTS)).filter(np.any)


def permutations(n):
    """A permutation of n rows."""
    return st.permutations(range(n)).map(lambda order: np.array(order, dtype=np.intp))


@st.composite
def matchings(draw, n):
    """A permutation of n rows whose partners are mutual, with one row single where n is odd."""
    order = draw(permutations(n))
    pairs = order[: n // 2 * 2].reshape(-1, 2)
    partner = np.arange(n)
    partner[pairs] = pairs[:, ::-1]
    return partner


@st.composite
def tables(draw, max_rows=12, mutual=False):
    """A table of 1 to 12 rows, any permutation or a matching."""
    n = draw(st.integers(1, max_rows))
    return AntitheticTable(draw(matchings(n) if mutual else permutations(n)))
