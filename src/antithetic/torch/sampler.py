"""`AntitheticBatchSampler`: batches whose gradients vary less, tested on the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from antithetic.orders.order import random_order
from antithetic.pairing import AntitheticTable, GroupTable, pair_rows
from antithetic.torch.coordinates import Vectors
from antithetic.torch.data import Indices, read_features, read_labels
from antithetic.torch.epochs import EpochSampler, Place
from antithetic.torch.importance import RowNorms
from antithetic.torch.memory import Observations
from antithetic.torch.observe import ObserveHead
from antithetic.torch.passes import weigh
from antithetic.torch.plan import ArmChoice, EpochPlan
from antithetic.torch.rounds import ARMS, GROUPS, IMPORTANCE, SHUFFLED, STRATIFIED, Batch, Round
from antithetic.torch.shards import is_first, least, mark_of, share
from antithetic.torch.source import (
    Source,
    count_rows,
    group_size,
    number_classes,
    read_arms,
    read_table,
    shuffle_groups,
)
from antithetic.torch.trust import Trust, TrustReport

_ENOUGH = 0.5  # of the rows must have been observed before an arm follows them
_FEWEST = 32  # batches of a round
_ROUNDS = 8  # of an epoch, between which arms are switched; 2 where groups are made in each


class AntitheticBatchSampler(EpochSampler):
    r"""Batches whose gradients vary less, for ``DataLoader(..., batch_sampler=...)``.

    There are four ways to make a batch, called *arms*:

    - *shuffled*: as ``shuffle=True`` does;
    - *stratified*: each class in its proportion;
    - *groups* of rows whose gradients, as last observed, nearly cancel;
    - *importance*: rows drawn in proportion to the norm of their gradients, with weights that keep
      the gradient unbiased.

    While :meth:`observing` is active, the arms are tested on the model: the squared norms of their
    batch gradients are compared, and an arm is used only if it is better than shuffled batches by
    three standard errors; :meth:`report` shows the results. The first epoch is stratified for
    classification; for a linear model it consists of groups computed from the data. Without
    observing, all epochs are stratified, or shuffled for a regression.

    Parameters
    ----------
    features : array-like, tensor or sparse matrix of shape (n, ...), or None
        Inputs, scaled as the model sees them; flattened per row. Used only for the first epoch of a
        linear model; pass None for any other model. Bytes are treated as pixels and divided by 255.
        Not copied if already float32 or float64.
    labels : array-like or tensor of shape (n,), default=None
        Classes or numbers.
    batch_size : int, default=64
        Groups have the size of the largest power of two that divides it: 64 is better than 60.
    drop_last : bool, default=False
        Drop the short batch; which rows are dropped changes from epoch to epoch.
    generator : torch.Generator, default=None
        Its seed (``initial_seed()``) is used in place of ``seed``; nothing is drawn from it.
    seed : int, default=0
        An epoch depends only on the seed, its number and the observations; no global random state
        is used.
    task : {"classification", "regression"}, default=None
        None decides by the type of the labels: floating-point numbers mean regression; integers,
        booleans and strings are classes.
    arms : sequence of {"stratified", "groups", "importance"}, default=None
        Which arms may be used besides shuffled batches. None means importance, stratified for
        classification, and groups for a regression or if only a linear layer is trained. Importance
        also requires :meth:`batch_loss`.
    num_replicas, rank : int, default=None
        Number of processes, and the rank of this one. None asks torch.distributed if it is
        initialised, and otherwise means a single process.
    table : AntitheticTable or GroupTable, default=None
        Groups for the first epoch, computed by :func:`antithetic.pair` or loaded from a file;
        checked against features and labels if these are given.
    progress : bool, default=False
        Show a progress bar while the first groups are computed.

    See Also
    --------
    BalancedBatchSampler : An order with small partial sums; needs no labels.

    Notes
    -----
    The expected gradient of every batch is the gradient of all rows: a row is equally likely to be
    in each batch of an epoch, and rows drawn by importance have weights :math:`b / (n \pi_i)`,
    where :math:`\pi_i` is the probability that row i is in the batch. Without importance, each row
    is visited once per epoch. A batch drawn by importance replaces a random batch, whose rows are
    then skipped in that epoch.

    The mean over a short batch gives its rows more weight than the others; :meth:`batch_loss`
    divides by the batch size instead, and ``drop_last`` drops the batch.

    *Which rows.* Gradients and weights are given to the right rows under any loader and in any loop
    if the loader is made with :meth:`dataset` and each batch is passed to :meth:`announce`, as
    below. Without announcements, each batch must have one training pass before the next is taken
    from the loader; anything else raises ValueError.

    *Several processes.* All must have the same data and arguments, and all or none must observe;
    this is checked when an epoch begins. Whole batches are distributed, and every process gets the
    same number of batches and rows. Without ``drop_last``, as few rows as possible are repeated,
    different ones each epoch. :meth:`set_epoch` is optional: each iteration is the next epoch.

    *Memory.* For each row 8 bytes for the order of an epoch, 6 for its norm, and with groups 4 for
    each observed number, of which there are at most 64.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from antithetic.torch import AntitheticBatchSampler
    >>> X, y = torch.randn(100, 5), torch.arange(100) % 3
    >>> sampler = AntitheticBatchSampler(X, y, batch_size=8, seed=1)
    >>> loader = DataLoader(sampler.dataset(TensorDataset(X, y)), batch_sampler=sampler)
    >>> model = torch.nn.Linear(5, 3)
    >>> with sampler.observing(model):
    ...     for epoch in range(2):
    ...         for batch in loader:
    ...             inputs, targets = sampler.announce(batch)
    ...             losses = torch.nn.functional.cross_entropy(
    ...                 model(inputs), targets, reduction="none"
    ...             )
    ...             sampler.batch_loss(losses).backward()
    >>> len(sampler), sampler.epoch
    (13, 2)
    """

    tests_arms = True

    def __init__(
        self,
        features: Any,
        labels: Any = None,
        batch_size: int = 64,
        *,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        seed: int = 0,
        task: str | None = None,
        arms: Any = None,
        num_replicas: int | None = None,
        rank: int | None = None,
        table: AntitheticTable | GroupTable | None = None,
        progress: bool = False,
    ) -> None:
        if isinstance(features, Sampler):  # Lightning wraps its own sampler in this class
            raise TypeError(
                f"{type(self).__name__} distributes batches itself: set"
                " Trainer(use_distributed_sampler=False)"
            )
        if features is None and labels is None and table is None:
            raise ValueError("give at least one of features, labels and table=")
        X = None if features is None else read_features(features)
        n = count_rows(X, labels, table)
        labels, task = (None, None) if labels is None else read_labels(labels, n, task)
        super().__init__(n, batch_size, drop_last, generator, seed, num_replicas, rank)
        self._table = None if table is None else read_table(table, X, labels, n)
        self._labels, self._task, self._progress = labels, task, progress
        self._features, self._classes = (
            X,
            number_classes(labels) if task == "classification" else None,
        )
        self._chosen = None if arms is None else read_arms(arms, self._classes, self.batch_size)
        self._norms, self._memory, self._trust = RowNorms(n), Observations(n), Trust()
        self._main = SHUFFLED
        self._linear = False  # whether nothing but a linear layer is trained, as far as is known
        self._passes = self._unweighed = 0  # since the arms were last chosen
        self._resumed = False
        self._plan: EpochPlan | None = None

    def _arms(self) -> list[int]:
        """Arms that may be used, shuffled batches first."""
        if self._chosen is not None:
            return [SHUFFLED, *self._chosen]
        groups = (self._linear or self._task == "regression") and self.batch_size > 1
        found = [SHUFFLED]
        found += [STRATIFIED] * (self._classes is not None)
        return found + [GROUPS] * groups + [IMPORTANCE]

    def watch(self, observer: ObserveHead | None) -> None:
        """Tell one observer, or none, which batches are handed out."""
        super().watch(observer)
        if observer is not None:
            self._linear = observer.linear

    @property
    def keeps_vectors(self) -> bool:  # type: ignore[override]
        """Whether gradients of rows are wanted, or their norms alone."""
        return GROUPS in self._arms()

    @property
    def weights(self) -> Tensor:
        """Weights of the rows of the current batch, shape (m,).

        All ones unless the batch was drawn by importance. :meth:`batch_loss` applies them.
        """
        batch = self._batch_in_model()
        if batch is None:
            raise ValueError(
                "weights are available only after the forward pass of an observed model, or after"
                " sampler.announce(batch)"
            )
        if batch.weights is None:
            return torch.ones(len(batch.rows))
        return torch.from_numpy(batch.weights.copy())

    def _batch_in_model(self) -> Batch | None:
        """Return the batch that training passes are of, if it is known."""
        if self.announces or self._watch is None:
            return self.announced
        return None if self._watch.current is None else self._watch.current.batch

    def batch_loss(self, losses: Tensor) -> Tensor:
        r"""Return the loss of a batch from the losses of its rows, weighted as the batch was drawn.

        That is :math:`\frac1b \sum_i w_i \ell_i`, where the weights are 1 unless the batch was
        drawn by importance, and b is the batch size, even for a short batch. Importance is used
        only if every loss goes through this method.

        Parameters
        ----------
        losses : Tensor of shape (m,) or (m, ...)
            The losses of the rows, not reduced (``reduction="none"``), in the order of the batch.
            If a row has several, their mean is used.

        Returns
        -------
        Tensor
            A scalar. During validation, where no gradient is needed, the mean of the losses.
        """
        if self._watch is not None:
            self._watch.check_losses(losses)
        loss = weigh(self._batch_in_model(), losses, self.batch_size)
        if self._watch is not None and loss.requires_grad:
            self._watch.take_loss(loss)
        return loss

    def report(self) -> TrustReport:
        """Return what the test has measured for each arm on this model; prints as a table."""
        return self._trust.report(self._arms(), self._main, self.left_out)

    def learn(self, rows: Indices, vectors: Vectors, slopes: Vectors) -> None:
        """Take in gradients of rows."""
        self._memory.record(rows, vectors, slopes)

    def learn_norms(self, rows: Indices, norms: Vectors, weights: Vectors, counts: Indices) -> None:
        """Take in the norms of gradients of rows that had these weights in their batches."""
        self._norms.learn(rows, norms, weights, counts)

    def count_pass(self, *, weighed: bool) -> None:
        """Take note of a training pass, and of whether its loss went through ``batch_loss``."""
        self._passes += 1
        self._unweighed += not weighed

    def compare(self, batch: Batch, square: float) -> None:
        """Take in the squared norm of a batch's gradient."""
        epoch = 0 if self._current is None else self._current.epoch
        self._trust.add((epoch, batch.block), batch.arm, batch.width, square)

    def forget(self) -> None:
        """Give up what was observed since the epoch began: these rows count as never seen."""
        self._memory.forget()
        self._norms.forget()
        self._trust.forget()

    def _prepare(self, epoch: int, processes: int) -> None:  # noqa: ARG002
        if self._resumed:  # a state from the beginning of the epoch, for which all was done
            self._resumed = False
            return
        self._rounds = []
        if self._watch is None:
            return
        self._norms.begin_epoch(processes)
        if self.keeps_vectors:
            self._memory.begin_epoch(processes)
        self._trust.forget()
        self._trust.begin_epoch()

    def _arrange(self, epoch: int) -> None:
        """Rows of the epoch, for all processes: in random order, or in groups made of the data."""
        rng = np.random.default_rng((self.seed, epoch))
        groups, size = self._first_groups() if epoch == 0 else (None, 1)
        order = random_order(rng, self.n) if groups is None else shuffle_groups(rng, groups, size)
        spare = self._shard.rows * self.num_replicas - self.n
        if spare > 0:
            order = np.concatenate([order, np.resize(order, spare)])
        grouped = groups is not None
        self._plan = EpochPlan(self._shard, self.seed, epoch, order, grouped, self._classes)

    def _first_groups(self) -> tuple[Indices | None, int]:
        """Groups of the data, for the first epoch of a linear model, or a table's."""
        if self._table is not None:
            return self._table.order, self._table.size
        watch, X, labels, task = self._watch, self._features, self._labels, self._task
        if watch is None or X is None or labels is None or task is None:
            return None, 1
        if not watch.linear or GROUPS not in self._arms():
            return None, 1
        size, bias = group_size(self.batch_size), watch.head.bias is not None
        made = Source(X, labels, task).make(size, self.seed, bias=bias, progress=self._progress)
        # made once: a state that is loaded, or set_epoch, may ask for the first epoch again
        self._table = GroupTable(made, size)
        return made, size

    def _make_round(self, epoch: int, first: int, processes: int) -> Round:
        assert self._plan is not None
        arms = self._ready(epoch, processes)
        choice = self._choose(epoch, arms)
        self._main = choice.main
        most = 1 if len(arms) == 1 else _ROUNDS // 4 if GROUPS in arms else _ROUNDS
        rounds = min(most, max(1, len(self) // _FEWEST))
        stop = min(first + -(-len(self) // rounds), len(self))
        taken = self._rounds[-1].taken if self._rounds else 0
        return self._plan.make_round(
            first,
            stop,
            choice,
            taken,
            self._norms.values,
            lambda rows, size: self._pair_up(rows, size, processes),
        )

    def _ready(self, epoch: int, processes: int) -> list[int]:
        """Arms that take part in the test of the next round."""
        watch = self._watch
        if watch is None or epoch == 0:
            return [SHUFFLED]
        watch.flush()
        weighed = self._passes > 0 and not self._unweighed
        self._passes = self._unweighed = 0
        known = {
            SHUFFLED: True,
            STRATIFIED: True,
            GROUPS: self._memory.share >= _ENOUGH,
            IMPORTANCE: weighed and self._norms.share >= _ENOUGH,
        }
        self._trust.decide(processes)
        arms = self._arms()
        flags = [int(known[arm]) for arm in arms]
        flags = least(flags) if processes > 1 else flags
        return [arm for arm, flag in zip(arms, flags, strict=True) if flag]

    def _choose(self, epoch: int, arms: list[int]) -> ArmChoice:
        """Return what the test has found, or for the first epoch what is known to help."""
        assert self._plan is not None
        if epoch > 0 and self._watch is not None:
            return ArmChoice(arms, *self._trust.choose(arms))
        if self._plan.grouped:
            return ArmChoice(arms, GROUPS, 0.0)
        return ArmChoice(arms, STRATIFIED if STRATIFIED in self._arms() else SHUFFLED, 0.0)

    def _pair_up(self, rows: Indices, size: int, processes: int) -> Indices:
        """Rows in groups whose gradients, as last observed, cancel; made in the first process."""
        if processes > 1 and not is_first():
            return share(np.empty(len(rows), dtype=np.intp))
        points = self._memory.points(rows, self.seed)
        order = rows[pair_rows(points, nest=size, random_state=self.seed).order]
        return share(order) if processes > 1 else order

    def _data(self) -> dict[str, Any]:
        return {
            "features": self._features,
            "labels": self._classes if self._classes is not None else self._labels,
            "table": None if self._table is None else self._table.order,
            "arms": np.array(self._arms()),
        }

    def _identity(self) -> dict[str, Any]:
        chosen = "auto" if self._chosen is None else ", ".join(ARMS[arm] for arm in self._chosen)
        labels = self._classes if self._classes is not None else self._labels
        return {**super()._identity(), "arms": chosen, "labels": mark_of(labels)}

    def _learnt(self, place: Place) -> dict[str, Any]:
        current = self._current is not None and self._current.epoch == place.epoch
        rounds = [made for made in self._rounds if made.stop > place.batches] if current else []
        return {
            "rank": self.rank,
            "main": self._main,
            "passes": [self._passes, self._unweighed],
            "norms": self._norms.state(),
            "trust": self._trust.state(),
            "memory": self._memory.state(),
            "rounds": [made.state() for made in rounds],
        }

    def _relearn(self, state: dict[str, Any]) -> None:
        if state.get("rank") != self.rank:
            raise ValueError(
                f"the state belongs to process {state.get('rank')}, and this is process"
                f" {self.rank}; each process saves and loads its own state"
            )
        self._main = int(state["main"])
        self._passes, self._unweighed = (int(count) for count in state["passes"])
        self._norms.load(state["norms"])
        self._trust.load(state["trust"])
        self._memory.load(state["memory"])
        self._rounds = [Round.load(made, self.n) for made in state["rounds"]]
        self._resumed = bool(self._rounds) and not state["batches"]
