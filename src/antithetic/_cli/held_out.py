"""How good a model is on rows that it has not seen, against a constant prediction."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._cli.data import Data
from antithetic.problem.losses import LOSSES, get_loss

DEFAULT_SHARE = 0.2
_FEWEST_ROWS = 10  # a score of fewer says nothing


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Scores on held-out rows.

    Attributes
    ----------
    rows : int
        Number of these rows.
    score : float
        Of a model trained on the others.
    constant : float
        Of the constant that is best on the others: the most frequent class, the mean, a quantile.
    """

    rows: int
    score: float
    constant: float


def hold_out(
    data: Data, share: float, seed: int, fit: Callable[[NDArray[np.intp]], Any]
) -> tuple[HeldOut | None, str]:
    """Train on a random part of the rows and score the rest; or say why that is not possible.

    Parameters
    ----------
    data : Data
    share : float
        Of the rows, to hold out; 0 for none.
    seed : int
        Decides which rows.
    fit : callable
        Takes the rows to train on, in ascending order, and returns a fitted estimator.
    """
    n = data.X.shape[0]
    count = round(share * n)
    if share == 0.0:
        return None, ""
    if count < _FEWEST_ROWS or n - count < 2:
        return None, f"{n} rows are too few to hold some out for a validation score."
    rows = np.random.default_rng((seed, n)).permutation(n)
    held, kept = np.sort(rows[:count]), np.sort(rows[count:])
    y = np.asarray(data.y)
    labels, counts = np.unique(y[kept], return_counts=True)
    if data.classes is not None and len(labels) < 2:
        return None, "All rows outside the validation set have the same class: no validation score."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit on all rows gives the same warnings
        estimator = fit(kept)
    score = float(estimator.score(_as_float(data.X[held]), y[held]))
    if data.classes is not None:
        constant = float(np.mean(y[held] == labels[np.argmax(counts)]))
    else:
        constant = _score_of_constant(data.loss, y[kept].astype(float), y[held].astype(float))
    return HeldOut(count, score, constant), ""


def _score_of_constant(name: str, kept: NDArray[np.float64], held: NDArray[np.float64]) -> float:
    """R2 or D2 of the best constant of the kept rows, on the held-out rows; at most 0."""
    loss = get_loss("squared_error" if name in LOSSES else name)
    constant = np.full(len(held), loss.best_constant(kept, None))
    return loss.deviance_share(held, constant, None)


def _as_float(X: Any) -> Any:
    return X.astype(np.float64, copy=False)
