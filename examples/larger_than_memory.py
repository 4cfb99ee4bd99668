"""Pair and train on a file without reading it whole: a memory map, shards, and chunks.

The file here is small, so that the example is quick; nothing in it would change for a hundred times
as many rows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import antithetic
from antithetic import SGDClassifier

ROWS, FEATURES, CHUNK = 100_000, 20, 20_000


def make_chunk(k):
    """Rows and labels number k, as some other program might deliver them."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(CHUNK, FEATURES)) * np.linspace(1.0, 0.2, FEATURES) + 0.3
    weights = np.cos(np.arange(FEATURES))
    return X.astype(np.float32), X @ weights + rng.logistic(size=CHUNK) > 0.3 * weights.sum()


def write_file(path):
    """Write the chunks into one .npy file, and return the labels, which fit into memory."""
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(ROWS, FEATURES))
    labels = np.empty(ROWS, dtype=bool)
    for k, start in enumerate(range(0, ROWS, CHUNK)):
        rows[start : start + CHUNK], labels[start : start + CHUNK] = make_chunk(k)
    rows.flush()
    return labels


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        y = write_file(path)
        X = np.load(path, mmap_mode="r")
        print(
            f"{path.name}: {X.shape[0]} x {X.shape[1]}, {path.stat().st_size / 1e6:.0f} MB on disk"
        )

        whole = SGDClassifier(loss="log_loss", max_iter=5, tol=None, random_state=0).fit(X, y)
        print(f"fit on the map, 5 epochs:       accuracy {whole.score(X, y):.4f}")

        online = SGDClassifier(loss="log_loss", random_state=0)
        for start in range(0, ROWS, CHUNK):
            online.partial_fit(
                X[start : start + CHUNK], y[start : start + CHUNK], classes=[False, True]
            )
        print(f"partial_fit, each chunk once:   accuracy {online.score(X, y):.4f}")

        table = antithetic.pair(X, y, shard_rows=CHUNK)
        print(f"table: {table.note}; {table.variance_ratio(X, y):.3f} of the variance of two rows")
        table.save(Path(folder) / "table.npz")
        print(f"saved: {(Path(folder) / 'table.npz').stat().st_size / 1e6:.1f} MB")
        del X  # closes the map, which Windows wants before the folder goes


if __name__ == "__main__":
    main()
