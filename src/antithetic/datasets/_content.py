"""Check the values of a set: counts, and a hash that does not depend on the platform.

The hash is the same for dense and CSR.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import block_rows
from antithetic.datasets._sets import KnownSet


def digest(X: Any, y: NDArray[Any]) -> str:
    """SHA-256 of a set.

    It covers the shape, the labels, and the column and value of every nonzero entry, row by row.

    Numbers enter as little-endian int64 and float64, so neither the platform nor the type of the
    indices matters. A stored zero is left out, since copies of the same set differ in them.
    """
    lengths, columns, values = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    step = block_rows(X)
    for start in range(0, X.shape[0], step):
        block = sparse.csr_array(X[start : start + step], dtype=np.float64, copy=True)
        block.eliminate_zeros()
        block.sort_indices()
        lengths.update(np.diff(block.indptr).astype("<i8").tobytes())
        columns.update(block.indices.astype("<i8").tobytes())
        values.update(block.data.astype("<f8").tobytes())
    whole = hashlib.sha256(np.array(X.shape, "<i8").tobytes())
    whole.update(y.astype("<f8").tobytes())
    for part in (lengths, columns, values):
        whole.update(part.digest())
    return whole.hexdigest()


def label_counts(y: NDArray[Any]) -> dict[float, int]:
    """How often each label occurs, in the order of the labels."""
    labels, counts = np.unique(y, return_counts=True)
    return dict(zip(labels.astype(float).tolist(), counts.tolist(), strict=True))


def check_content(name: str, expected: KnownSet, X: Any, y: NDArray[Any], where: str) -> None:
    """Raise a ValueError that says what differs: shape, labels or values."""
    if X.shape != (expected.n, expected.d):
        raise ValueError(
            f"{where} has shape {X.shape} instead of {(expected.n, expected.d)}: it is not {name}"
        )
    counts = label_counts(y)
    if expected.labels and counts != expected.labels:
        raise ValueError(
            f"{where} has the labels {_shown(counts)} instead of {_shown(expected.labels)}: it is"
            f" not {name}"
        )
    if expected.digest is not None and (found := digest(X, y)) != expected.digest:
        raise ValueError(
            f"{where} has the shape and the labels of {name}, but other values or another order of"
            f" rows (SHA-256 of the values {found[:16]}..., expected {expected.digest[:16]}...);"
            " replace the file, or use read_file to read it as it is"
        )


def _shown(counts: dict[float, int]) -> str:
    shown = [f"{label:g}: {count}" for label, count in list(counts.items())[:10]]
    return ", ".join(shown) + (", ..." if len(counts) > 10 else "")


def describe(name: str, expected: KnownSet, y: NDArray[Any]) -> str:
    """Give a few sentences on a set, for ``DESCR``."""
    sentences = [
        f"{name}: {expected.n} rows, {expected.d} features",
        f"Labels and how often they occur: {_shown(label_counts(y))}",
        f"Origin: {expected.origin}",
    ]
    if expected.meanings:
        sentences.insert(
            2, f"Meaning of the labels, in ascending order: {', '.join(expected.meanings)}"
        )
    if expected.l2 is not None:
        sentences.append(f"The paper's lambda: {expected.l2:g}")
    return ". ".join(sentences) + "."
