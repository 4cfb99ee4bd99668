"""Which data a table was made for: shape, labels, and a hash of the values of X."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix

_BLOCK_ENTRIES = 1 << 15  # larger arrays are allocated again each time
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprint:
    """What is compared when a table is used; None means unknown.

    Attributes
    ----------
    labels : ndarray of shape (n,) of uint64 or None
        One number per label: its bits as float64, or a hash of its text. Kept by row, so that a
        subset of the table knows its own.
    width : int or None
        Number of features.
    values : int or None
        Hash of X: the same for dense and CSR, another for float32 than for float64.
    """

    labels: NDArray[np.uint64] | None = None
    width: int | None = None
    values: int | None = None

    @classmethod
    def of(cls, chunks: list[Matrix], y: Any) -> Fingerprint:
        """Fingerprint of checked rows, in one chunk or several, and of the labels as given."""
        return cls(hash_labels(y), int(chunks[0].shape[1]), hash_rows(chunks))

    def take(self, rows: NDArray[np.intp]) -> Fingerprint:
        """Fingerprint of a subset: its labels are known, its values are not."""
        return Fingerprint(None if self.labels is None else self.labels[rows])

    def check(self, X: Matrix, y: Any) -> None:
        """Raise ValueError unless the data are those of the fingerprint, as far as it is known."""
        if self.width is not None and self.width != X.shape[1]:
            raise ValueError(
                f"the table was made for {self.width} features and X has {X.shape[1]}; {_ADVICE}"
            )
        if self.labels is not None:
            labels = hash_labels(y)
            if len(labels) != len(self.labels):
                raise ValueError(
                    f"the table was made for {len(self.labels)} labels and y has {len(labels)};"
                    f" {_ADVICE}"
                )
            differs = self.labels != labels
            if differs.any():
                raise ValueError(
                    f"the table was made for other labels: {differs.sum()} differ, first that of"
                    f" row {int(np.argmax(differs))}; {_ADVICE}"
                )
        if self.values is not None and self.values != hash_rows([X]):
            raise ValueError(
                "the table was made for other values of X (or another float type, or order of"
                f" rows); {_ADVICE}"
            )


_ADVICE = "make a table for these data with antithetic.pair"


def hash_labels(y: Any) -> NDArray[np.uint64]:
    """Return one number per label, the same for 1, 1.0 and True."""
    labels = np.asarray(y).ravel()
    if labels.dtype.kind in "biuf":
        return (labels.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0
    classes, codes = np.unique(labels.astype(str), return_inverse=True)
    return np.array([_hash_text(text) for text in classes.tolist()], dtype=np.uint64)[codes.ravel()]


def _hash_text(text: str) -> int:
    from hashlib import blake2b

    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def hash_rows(chunks: list[Matrix]) -> int:
    """Add up a hash of each nonzero entry and its place.

    The sum depends neither on how zeros are stored nor on the chunks.
    """
    total = np.uint64(chunks[0].dtype.itemsize)
    first = 0
    with np.errstate(over="ignore"):
        for chunk in chunks:
            for entries, places in _entries(chunk, first):
                total += _hash_entries(entries, places)
            first += chunk.shape[0]
    return int(total)


def _entries(X: Matrix, first: int) -> Iterator[tuple[NDArray[np.floating], NDArray[np.uint64]]]:
    """Entries and their places, a block at a time; row 0 of X is row ``first`` of the whole."""
    n, d = X.shape
    if sparse.issparse(X):
        rows = np.repeat(np.arange(first, first + n, dtype=np.uint64), np.diff(X.indptr))
        for start in range(0, X.nnz, _BLOCK_ENTRIES):
            part = slice(start, start + _BLOCK_ENTRIES)
            yield X.data[part], rows[part] * np.uint64(d) + X.indices[part].astype(np.uint64)
        return
    block = max(1, _BLOCK_ENTRIES // d)
    for start in range(0, n, block):
        entries = X[start : start + block].ravel()
        begin = (first + start) * d
        yield entries, np.arange(begin, begin + len(entries), dtype=np.uint64)


def _hash_entries(entries: NDArray[np.floating], places: NDArray[np.uint64]) -> np.uint64:
    bits = entries.view(f"u{entries.itemsize}").astype(np.uint64)
    mixed = (places + np.uint64(1)) * _ODD
    mixed ^= mixed >> np.uint64(29)
    mixed += bits
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(29)
    mixed[entries == 0.0] = 0
    return np.uint64(mixed.sum(dtype=np.uint64))
