"""Predictions for Dask collections, lazily and block by block, and scores from sums of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.base import is_dask_collection
from numpy.typing import NDArray

from antithetic.dask.blocks import Blocks, one_thread, open_block
from antithetic.dask.cluster import gather
from antithetic.dask.mapping import map_blocks
from antithetic.dask.moments import join_means
from antithetic.dask.reading import delayed_parts
from antithetic.problem.losses import Loss


def is_distributed(X: Any) -> bool:
    """Whether X is a Dask collection or a list of delayed blocks."""
    return is_dask_collection(X) or (
        isinstance(X, (list, tuple)) and len(X) > 0 and all(is_dask_collection(part) for part in X)
    )


def lazily(model: Any, method: str, X: Any, columns: int | None, dtype: Any) -> Any:
    """Return a Dask array of the results of a model's method for each block of X.

    ``columns`` is None if the results have one axis.
    """
    import dask.array as da

    model = dask.delayed(model, traverse=False)
    if isinstance(X, da.Array):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        parts, lengths = X.to_delayed().ravel().tolist(), X.chunks[0]
    else:
        parts = list(X) if isinstance(X, (list, tuple)) else delayed_parts(X)
        lengths = (np.nan,) * len(parts)
    task = dask.delayed(_apply, pure=True, traverse=False)
    arrays = [
        da.from_delayed(
            task(model, method, part),
            (length,) if columns is None else (length, columns),
            dtype=dtype,
        )
        for part, length in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def _apply(model: Any, method: str, part: Any) -> Any:
    if not part.shape[0]:
        like = getattr(model, method)(
            np.zeros((1, model.n_features_in_)) if not hasattr(part, "iloc") else _one_row(part)
        )
        return like[:0]
    with one_thread():
        return getattr(model, method)(part)


def _one_row(part: Any) -> Any:
    return type(part)(np.zeros((1, part.shape[1])), columns=part.columns)


class Weights(NamedTuple):
    """The part of a model that a task needs to score its block.

    The score of a regression compares losses: squared errors, or deviances.
    It does without scikit-learn, which takes every worker a second and 100 MB to import.
    """

    coef: NDArray[Any]
    intercept: NDArray[Any]
    classes: NDArray[Any] | None
    loss: Loss

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes, or linear predictions of a regression."""
        scores: NDArray[Any] = np.asarray(X @ self.coef.T) + self.intercept
        if self.classes is None:
            return scores.ravel()
        labels: NDArray[Any] = self.classes[
            (
                (scores.ravel() > 0.0).astype(np.intp)
                if len(self.classes) == 2
                else scores.argmax(axis=1)
            )
        ]
        return labels


def check_names(expected: Any, given: Any) -> None:
    """Refuse columns whose names or order differ from those of the fit."""
    if expected is not None and given is not None and not np.array_equal(expected, given):
        raise ValueError(
            f"the columns of X are {given.tolist()}, and the model was fitted on"
            f" {expected.tolist()}, in this order"
        )


def score_blocks(client: Any, weights: Weights, blocks: Blocks) -> float:
    """Accuracy, R2 or D2 of a model, from a few sums of each block."""
    sums = gather(client, map_blocks(client, _score, "score", blocks, weights))
    weight, missed = (sum(one[place] for one in sums) for place in (0, 3))
    if not weight:
        raise ValueError("there are no rows of positive weight to score")
    if weights.classes is not None:
        return float(1.0 - missed / weight)
    _, spread = join_means(weights.loss, [one[:3] for one in sums])
    return float(1.0 - missed / spread) if spread > 0.0 else float(missed == 0.0)


def _score(number: int, parts: Sequence[Any], model: Weights) -> tuple[float, float, float, float]:
    """Total weight of a block, mean of its numbers, losses of that mean, and errors.

    The errors are the weight of misclassified rows, or the losses of the predictions.
    """
    with one_thread():
        block = open_block(number, parts)
        n = block.X.shape[0]
        if not n or block.y is None:
            return 0.0, 0.0, 0.0, 0.0
        if block.X.shape[1] != model.coef.shape[-1]:
            raise ValueError(
                f"block {number} of X has {block.X.shape[1]} features, and the model was fitted on"
                f" {model.coef.shape[-1]}"
            )
        weight = np.ones(n) if block.weight is None else block.weight
        total = float(weight.sum())
        predictions = model.predict(block.X)
        if model.classes is not None:
            return total, 0.0, 0.0, float(weight @ (predictions != block.y))
        if total <= 0.0:
            return 0.0, 0.0, 0.0, 0.0
        y, loss = block.y.astype(np.float64), model.loss
        try:
            loss.check_targets(y)
        except ValueError as error:
            raise ValueError(f"block {number}: {error}") from error
        mean = float(weight @ y) / total
        constant = np.full(n, loss.best_constant(np.array([mean]), None))
        missed = loss.mean(y, predictions.astype(np.float64), weight) * n
        return total, mean, loss.mean(y, constant, weight) * n, missed
