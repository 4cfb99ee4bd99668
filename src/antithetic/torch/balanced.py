"""`BalancedBatchSampler`: an order that follows the observed gradients, without a table."""

from __future__ import annotations

import operator
from collections.abc import Sized
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from antithetic._core import kernels
from antithetic._util.validation import check_count
from antithetic.orders.order import random_order
from antithetic.torch.coordinates import Vectors
from antithetic.torch.data import Indices, to_numpy
from antithetic.torch.epochs import EpochSampler, Place
from antithetic.torch.memory import check_width, read_observed
from antithetic.torch.rounds import Round

_ARRAYS = ("base", "following", "placed", "marks", "signed", "held")


class BalancedBatchSampler(EpochSampler):
    r"""Batches in an order that keeps partial sums of gradients small, learnt epoch by epoch.

    Of every two rows observed one after the other, with vectors a and b, one goes to the front of
    the next epoch and one to its back, so that the signed sum s of all differences stays small: the
    first goes to the front if :math:`\langle s, a - b \rangle \le 0`. The back is filled from the
    end. This is pair balancing (GraB, Lu et al. 2022; CD-GraB, Cooper et al. 2023). No table is
    built and no vectors are kept: 17 bytes per row in all. The first epoch, and any epoch after one
    in which nothing was observed, is in random order.

    Parameters
    ----------
    n : int, or a data set with a length
        Number of rows.
    batch_size : int, default=64
    drop_last : bool, default=False
        Drop the short batch; which rows are dropped changes from epoch to epoch.
    generator : torch.Generator, default=None
        Its seed (``initial_seed()``) is used in place of ``seed``; nothing is drawn from it.
    seed : int, default=0
    num_replicas, rank : int, default=None
        Number of processes, and the rank of this one. None asks torch.distributed if it is
        initialised, and otherwise means a single process. Each process keeps its own random share
        of the rows and balances it alone, so nothing is exchanged. Without ``drop_last``, a process
        with a smaller share repeats a row, a different one each epoch.

    Notes
    -----
    Rows should be observed once each, in the order in which they are visited, as :meth:`observing`
    does; make the loader with :meth:`dataset` and call :meth:`announce` for each batch, as in
    :class:`AntitheticBatchSampler`. Rows that were not observed in an
    epoch come in the middle of the next. Several processes must have the same arguments, which is
    checked when an epoch begins.

    Examples
    --------
    >>> import torch
    >>> from antithetic.torch import BalancedBatchSampler
    >>> sampler = BalancedBatchSampler(4, batch_size=2, seed=1)
    >>> gradients = torch.tensor([[1.0], [-1.0], [2.0], [-2.0]])
    >>> for epoch in range(3):
    ...     for batch in sampler:
    ...         sampler.observe(batch, gradients[batch])
    >>> sorted(sum(sampler, []))  # each row once, whatever was observed
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        n: int | Sized,
        batch_size: int = 64,
        *,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(_count(n), batch_size, drop_last, generator, seed, num_replicas, rank)
        self._own = self._deal()
        # Rows of this process in the order of the epoch, before some are left out or repeated.
        self.base = self._own
        self._epoch_rows = self.base
        self.forget()

    def _deal(self) -> Indices:
        if self.num_replicas == 1:
            return np.arange(self.n)
        share = random_order(np.random.default_rng((self.seed, 0)), self.n)[
            self.rank :: self.num_replicas
        ]
        if not len(share):
            raise ValueError(
                f"{self.n} rows are too few for {self.num_replicas} processes: each needs one"
            )
        return np.sort(share)

    def forget(self) -> None:
        """Begin with an empty front and back, and give up what was observed in this epoch."""
        self.following = np.empty_like(self._own)
        self.placed = np.zeros(self.n, dtype=np.bool_)
        self.marks = np.array([0, len(self._own), -1], dtype=np.int64)
        self.signed, self.held = np.zeros(0), np.zeros(0)

    def observe(self, indices: Any, vectors: Any, slopes: Any = None) -> None:
        r"""Show the sampler the gradients of some rows, in the order in which they came.

        Parameters
        ----------
        indices : array-like or tensor of shape (m,)
            Row numbers; rows already observed in this epoch are ignored.
        vectors : array-like or tensor of shape (m, k)
            One vector per row, always of the same length; see :func:`head_gradients`.
        slopes : array-like or tensor of shape (m, l), default=None
            If given, the vector of a row is the product :math:`s_i \otimes x_i` of its slopes
            and what ``vectors`` has; see :func:`head_factors`.
        """
        self.learn(*read_observed(indices, vectors, slopes, self.n))

    def learn(self, rows: Indices, vectors: Vectors, slopes: Vectors) -> None:
        """Place rows whose vectors need no checks."""
        if not len(rows):
            return
        if self.num_replicas > 1 and not np.isin(rows, self._own).all():
            raise ValueError(
                f"rows were observed that do not belong to process {self.rank}; each process must"
                " observe its own rows"
            )
        slopes = slopes if slopes.shape[1] else np.ones((len(rows), 1), dtype=np.float32)
        width = slopes.shape[1] * vectors.shape[1]
        if not len(self.signed):
            self.signed, self.held = np.zeros(width), np.zeros(width)
        check_width(width, len(self.signed), "vectors")
        given = np.ascontiguousarray(vectors), np.ascontiguousarray(slopes)
        kernels.balance_observed(
            rows, *given, self.placed, self.following, self.marks, self.signed, self.held
        )

    def _prepare(self, epoch: int, processes: int) -> None:  # noqa: ARG002 - nothing is shared
        self._rounds = []
        rng = np.random.default_rng((self.seed, epoch, self.rank))
        front, back, waiting = self.marks.tolist()
        if not front and waiting < 0:
            self.base = self._own[random_order(rng, len(self._own))]
            return
        unseen = self.base[~self.placed[self.base]]
        self.following[front:back] = unseen if waiting < 0 else np.append(unseen, waiting)
        self.base = self.following
        self.forget()

    def _arrange(self, epoch: int) -> None:
        rng = np.random.default_rng((self.seed, epoch, self.rank, 1))
        spare = len(self.base) - self._shard.rows
        if spare > 0:
            self._epoch_rows = np.delete(
                self.base, rng.choice(len(self.base), spare, replace=False)
            )
        else:
            self._epoch_rows = (
                np.append(self.base, rng.choice(self.base, -spare)) if spare else self.base
            )

    def _make_round(self, epoch: int, first: int, processes: int) -> Round:  # noqa: ARG002
        return Round.plain(first, self._epoch_rows[first * self.batch_size :], self.batch_size)

    def _learnt(self, place: Place) -> dict[str, Any]:  # noqa: ARG002
        return {
            "rank": self.rank,
            **{name: torch.from_numpy(getattr(self, name)) for name in _ARRAYS},
        }

    def _relearn(self, state: dict[str, Any]) -> None:
        if state.get("rank") != self.rank:
            raise ValueError(
                f"the state belongs to process {state.get('rank')}, and this is process"
                f" {self.rank}; each process saves and loads its own state"
            )
        found: dict[str, NDArray[Any]] = {
            name: to_numpy(state[name], name).copy() for name in _ARRAYS
        }
        if not np.array_equal(np.sort(found["base"]), self._own) or found["placed"].shape != (
            self.n,
        ):
            raise ValueError("the state's order is not one of the rows of this process")
        for name, array in found.items():
            setattr(self, name, array)
        self._rounds = []


def _count(n: Any) -> int:
    """Number of rows, of a data set or as given: an int, or a tensor that is one."""
    if isinstance(n, (str, DataLoader)):  # whose length is another
        raise ValueError(
            f"n must be the number of rows, or a data set with a length; got a {type(n).__name__}"
        )
    try:
        n = operator.index(n)
    except TypeError:
        n = len(n) if isinstance(n, Sized) else n
    return check_count(n, "n", least=1)
