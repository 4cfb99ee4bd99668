"""Rows drawn by the norm of their gradients: probabilities, draws and weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antithetic.orders.order import random_order
from antithetic.torch.data import Indices, to_numpy
from antithetic.torch.shards import mean_over_processes

UNIFORM_SHARE = 0.3  # of equal probabilities, as in antithetic.minimize
_NEWEST = np.float32(0.5)  # weight of the last norm in the smoothed one
_MEAN = 0.02  # weight of the last batch in the mean of all norms
_DRIFT = np.float32(0.5)  # of the way back to the mean, for each epoch in which a row is not seen


class RowNorms:
    """A smoothed norm of each row's gradient, relative to the mean of all rows at the time.

    Rows that were never seen have the norm 1, and those not seen lately drift back to it.
    """

    def __init__(self, n: int) -> None:
        self.values = np.ones(n, dtype=np.float32)
        self.ever = np.zeros(n, dtype=np.bool_)
        self.seen = np.zeros(n, dtype=np.bool_)  # since the epoch began
        self.mean = 0.0  # of the norms themselves, of the last batches

    @property
    def share(self) -> float:
        """Share of the rows that have a norm."""
        return float(self.ever.mean())

    def learn(
        self,
        rows: Indices,
        norms: NDArray[np.float32],
        weights: NDArray[np.float32],
        counts: NDArray[np.intp],
    ) -> None:
        """Take in norms of rows that were drawn with these weights, of one batch after the other.

        It does not matter how many batches come at once: the result is the same to the bit.
        """
        counts = counts[counts > 0]
        if not len(counts):
            return
        sums = np.add.reduceat(weights * norms, np.cumsum(counts) - counts)
        means = []
        for mean in (sums / counts).tolist():
            self.mean = self.mean + _MEAN * (mean - self.mean) if self.mean else mean
            means.append(self.mean)
        if not min(means) > 0.0:
            return
        relative = norms / np.repeat(np.array(means, dtype=np.float32), counts)
        # each row once, then those that came a second time, and so on
        for chosen in _occurrences(rows):
            these = rows[chosen]
            old = self.values[these]
            newest = np.where(self.ever[these], _NEWEST, np.float32(1.0))
            self.values[these] = old + newest * (relative[chosen] - old)
            self.ever[these] = True
        self.seen[rows] = True

    def begin_epoch(self, processes: int) -> None:
        """Share what the processes saw, and let the rows that none of them saw drift."""
        if processes > 1:
            mean_over_processes(self.values, self.seen)
            self.ever |= self.seen
        unseen = ~self.seen
        self.values[unseen] += _DRIFT * (np.float32(1.0) - self.values[unseen])
        self.seen[:] = False

    def forget(self) -> None:
        """Give up what was seen since the epoch began."""
        self.values[self.seen] = 1.0
        self.ever &= ~self.seen
        self.seen[:] = False

    def state(self) -> dict[str, Any]:
        """Tensors that share the memory, and the mean."""
        arrays = {name: getattr(self, name) for name in ("values", "ever", "seen")}
        return {
            "mean": self.mean,
            **{name: torch.from_numpy(array) for name, array in arrays.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take over a state, as a copy."""
        self.mean = float(state["mean"])
        for name in ("values", "ever", "seen"):
            found = to_numpy(state[name], name)
            if found.shape != self.values.shape:
                raise ValueError(
                    f"the state's norms must be one for each of the {len(self.values)} rows; got"
                    f" shape {found.shape}"
                )
            getattr(self, name)[...] = found


def _occurrences(rows: Indices) -> Iterator[Indices]:
    """Places of the first occurrence of each row, of the second, and so on."""
    first = np.empty(int(rows.max()) + 1, dtype=np.intp)
    left = np.arange(len(rows))
    while len(left):
        first[rows[left[::-1]]] = left[::-1]  # of those assigned to one row the last one stays
        new = first[rows[left]] == left
        yield left[new]
        left = left[~new]


def inclusions(norms: NDArray[Any], size: int) -> NDArray[np.float64]:
    r"""Probabilities :math:`\pi_i = \min(1, c\,p_i)` that a row is in a batch, with the sum b.

    :math:`p_i` is 0.3/n and 0.7 of the row's part in the sum of the norms.
    """
    n, norms = len(norms), norms.astype(np.float64)
    shares = norms / norms.sum() if norms.any() else np.full(n, 1.0 / n)
    p = UNIFORM_SHARE / n + (1.0 - UNIFORM_SHARE) * shares
    if size >= n:
        return np.ones(n)
    found, sure = size * p, np.zeros(n, dtype=np.bool_)
    while (found[~sure] > 1.0).any():
        sure |= found >= 1.0
        # fewer than b rows can be sure, so that some are left
        found = np.where(sure, 1.0, (size - sure.sum()) * p / p[~sure].sum())
    return found


def draw(
    rng: np.random.Generator,
    norms: NDArray[Any],
    size: int,
    count: int,
    classes: NDArray[Any] | None = None,
) -> tuple[Indices, NDArray[np.float32]]:
    r"""Draw batches by systematic sampling, and the weights of their rows.

    The rows are in random order, those of a class next to each other, on a line on which row i
    takes the length :math:`\pi_i`; a batch has the rows on which the points u, u + 1, ..., u + b -
    1 fall. So each row is in it with probability :math:`\pi_i` and at most once, and each class has
    the number of rows that is expected, up to one. With weights :math:`b / (n \pi_i)` the sum over
    the batch, divided by b, is unbiased.

    Returns
    -------
    rows : ndarray of shape (count, size)
    weights : ndarray of shape (count, size)
    """
    n = len(norms)
    chances = inclusions(norms, size)
    order = random_order(rng, n)
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    ends = np.cumsum(chances[order])
    points = (rng.random(count)[:, None] + np.arange(size)) * (ends[-1] / size)
    rows = order[np.minimum(np.searchsorted(ends, points, side="right"), n - 1)]
    return rows, (size / n / chances[rows]).astype(np.float32)
