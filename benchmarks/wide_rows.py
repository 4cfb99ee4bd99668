"""Very wide sparse rows against scikit-learn's estimator of the same name.

Three shapes: few rows with four classes and seven million columns, rows of hashed words with 2^20
columns, and calls of ``partial_fit`` on a hundred of the latter; both estimators with all defaults
but the loss. Words are drawn by Zipf's law, and rows have length 1, as those of scikit-learn's
``HashingVectorizer``. One thread each, CPU seconds, the least of repeats that take turns. The
remark says after how many epochs each of the two ended.

Run ``python benchmarks/wide_rows.py``; names choose shapes.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import Figure, run_parts
from scipy import sparse
from sklearn import linear_model
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

import antithetic

LOSSES = ("hinge", "log_loss")
MOST = 1.5
HASHED = 2**20


def hashed_words(n: int, width: int, words: int, seed: int = 0) -> Any:
    """Rows with so many words each, hashed to columns."""
    rng = np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(1.2, size=n * words), 10 * width)
    columns = (ranks * 2_654_435_761) % width
    counts = np.arange(0, n * words + 1, words)
    X = sparse.csr_matrix((np.ones(n * words), columns, counts), shape=(n, width))
    X.sum_duplicates()
    return normalize(X)


def labels_of(X: Any, classes: int, seed: int = 1) -> Any:
    """Classes by noisy linear scores."""
    rng = np.random.default_rng(seed)
    scores = X @ rng.normal(size=(X.shape[1], classes))
    return (scores + 0.3 * scores.std() * rng.normal(size=scores.shape)).argmax(axis=1)


def compared(
    name: str, ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int
) -> Iterator[Figure]:
    seconds: dict[Any, list[float]] = {ours: [], theirs: []}
    epochs = {}
    with threadpool_limits(1):
        for _ in range(repeats):
            for call, held in seconds.items():
                start = time.process_time()
                model = call()
                held.append(time.process_time() - start)
                epochs[call] = model.n_iter_
    own, peer = min(seconds[ours]), min(seconds[theirs])
    remark = f"{1e3 * own:.1f} ms, {epochs[ours]} epochs; {1e3 * peer:.1f} ms, {epochs[theirs]}"
    yield Figure(f"{name}, of scikit-learn's", own / peer, most=MOST, remark=remark)


def fits(name: str, X: Any, y: Any, repeats: int) -> Iterator[Figure]:
    for loss in LOSSES:
        yield from compared(
            f"{name}, {loss}: CPU seconds",
            lambda loss=loss: antithetic.SGDClassifier(loss, random_state=0).fit(X, y),
            lambda loss=loss: linear_model.SGDClassifier(loss, random_state=0).fit(X, y),
            repeats,
        )


def classes(quick: bool) -> Iterator[Figure]:
    """60 x 7,000,000 with four classes."""
    X = hashed_words(60, 7_000_000, 300)
    yield from fits("60 x 7,000,000, 4 classes", X, np.arange(60) % 4, 3 if quick else 5)


def text(quick: bool) -> Iterator[Figure]:
    """5,000 x 2^20, short and long texts."""
    for words in (50, 300):
        X = hashed_words(5000, HASHED, words)
        y = labels_of(X, 2)
        yield from fits(f"5,000 x 2^20, {words} words", X, y, 3 if quick else 10)


def chunks(quick: bool) -> Iterator[Figure]:
    """partial_fit of 100 x 2^20."""
    for words in (50, 300):
        X = hashed_words(100, HASHED, words)
        y = labels_of(X, 2)
        for loss in LOSSES:
            ours, theirs = antithetic.SGDClassifier(loss), linear_model.SGDClassifier(loss)
            yield from compared(
                f"partial_fit of 100 x 2^20, {words} words, {loss}: CPU seconds",
                lambda ours=ours, X=X, y=y: ours.partial_fit(X, y, classes=[0, 1]),
                lambda theirs=theirs, X=X, y=y: theirs.partial_fit(X, y, classes=[0, 1]),
                10 if quick else 40,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(run_parts(__doc__ or "", {"classes": classes, "text": text, "chunks": chunks}))
