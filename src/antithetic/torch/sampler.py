"""`AntitheticBatchSampler`: batches made of rows whose gradients cancel."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from antithetic._util.validation import Matrix, check_count
from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.pairing.rows import Rows as Gradients
from antithetic.torch.coordinates import Vectors
from antithetic.torch.data import read_features, read_labels, to_indices, to_numpy
from antithetic.torch.epochs import EpochSampler
from antithetic.torch.memory import Observations, read_observed
from antithetic.torch.order import EpochOrder, Indices, as_groups, epoch_order
from antithetic.torch.shards import place_among_observers, share
from antithetic.torch.source import (
    Source,
    chances_of,
    check_given,
    group_size,
    read_importance,
    regroup,
)

_ENOUGH = 0.5  # of the rows must have been observed before groups are made of that


class AntitheticBatchSampler(EpochSampler):
    r"""Batches of row groups whose gradients cancel, for ``DataLoader(..., batch_sampler=...)``.

    Before training, groups are made from the data alone: of rows whose gradients in a linear model
    at its start nearly cancel, which are :math:`(e_y - 1/K) \otimes x` for K classes. While
    training goes on, :meth:`observing` shows the sampler the gradients of the model's last layer,
    and the next epoch's groups are made of these. Each row comes once per epoch, whatever the
    groups are.

    Parameters
    ----------
    features : array-like, tensor or sparse matrix of shape (n, ...), or None
        Inputs, or embeddings of them, scaled as the model sees them; flattened per row. Bytes are
        taken as pixels and divided by 255. Not copied where float32 or float64 already. May be None
        with ``table=``.
    labels : array-like or tensor of shape (n,), default=None
        Classes or numbers. None means that the features are vectors of your own that are to cancel,
        such as gradients.
    batch_size : int, default=64
        The more often it can be halved, the larger the groups that fit into it: 64 is better than
        60.
    drop_last : bool, default=False
        Leave out the short batch, other rows each epoch, instead of making it.
    generator : torch.Generator, default=None
        Its seed (``initial_seed()``) is used in place of ``seed``; nothing is drawn from it.
    seed : int, default=0
        An epoch is a function of the seed, its number, and what was observed; no global generator
        is used.
    nest : bool or int, default=True
        Rows of a group, a power of two: True means the largest that divides ``batch_size`` (for odd
        sizes 2), False pairs.
    method : str, default="auto"
        How pairs are found; see :func:`antithetic.pair`.
    task : {"classification", "regression"}, default=None
        None goes by the type of the labels: floating-point numbers are a regression, with gradients
        :math:`-y_i x_i`, those at predictions of 0 (subtract from the labels what the model
        predicts at its start, if that is another number); whole numbers, booleans and strings are
        classes.
    num_replicas, rank : int, default=None
        Number of processes, and that of this one; None asks torch.distributed if it is initialised,
        else there is one.
    sample_weight : array-like of shape (n,), default=None
        Weights with which the loss counts the rows.
    fit_intercept : bool, default=True
        Whether the gradient of a bias counts as well, as models mostly have one.
    table : AntitheticTable or GroupTable, default=None
        A table made before, by :func:`antithetic.pair` or read from a file; checked against
        features and labels where these are given.
    refresh : int or None, default=1
        Make groups anew every so many epochs where something was observed; None never does. That
        takes a few seconds for 60,000 rows on one core, more than an epoch of a small model does:
        then 5 or so is better.
    importance : bool, "gradients" or array-like of shape (n,), default=False
        Draw groups in proportion to the norm of their gradients, or to numbers of your own for each
        row, mixed with equal chances. Rows may then come several times in an epoch or not at all,
        and the loss of each must be multiplied by its weight: see :meth:`weights`.
    progress : bool, default=False
        Show how far the making of groups is.

    Attributes
    ----------
    table : GroupTable
        The groups that are used now.

    Notes
    -----
    Rows that do not fill a group, and groups that do not fill a batch, come last, others each
    epoch. The mean over a short batch counts its rows more than the others; multiply its loss by
    ``len(batch) / batch_size``, or set ``drop_last``, if that matters.

    An odd batch size parts one pair per batch; its members are in two batches that follow each
    other.

    *Several processes.* Batches are dealt out, so that groups stay whole; every process has the
    same number of batches and rows. Without ``drop_last``, the fewest pairs are repeated that this
    takes, others each epoch. What is observed is gathered before the next epoch, so all processes
    must observe. Without :meth:`set_epoch`, each iteration is the next epoch, in all processes
    alike.

    *Lightning*: set ``Trainer(use_distributed_sampler=False)``, since this sampler deals out
    batches by itself, and make it in ``train_dataloader``, when the processes know of each other.
    *accelerate*: with several processes either do not prepare the loader, or give ``num_replicas=1,
    rank=0`` and let accelerate deal out batches, which keeps them whole unless ``split_batches`` is
    set (``drop_last=True`` also keeps it from filling up the last ones with rows of the first);
    then say which rows come next with ``watch.batch``.

    *Memory.* The table has 8 bytes per row (and the one made of the data is kept beside that of
    what was observed), the order of an epoch 8 bytes per group, and what is observed 4 bytes for
    each number.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from antithetic.torch import AntitheticBatchSampler
    >>> X, y = torch.randn(100, 5), torch.arange(100) % 3
    >>> sampler = AntitheticBatchSampler(X, y, batch_size=8, seed=1)
    >>> loader = DataLoader(TensorDataset(X, y), batch_sampler=sampler)
    >>> model = torch.nn.Linear(5, 3)
    >>> with sampler.observing(model):  # the next epoch's batches follow the model
    ...     for epoch in range(2):
    ...         for inputs, targets in loader:
    ...             loss = torch.nn.functional.cross_entropy(model(inputs), targets)
    >>> len(sampler), sampler.epoch
    (13, 2)
    """

    def __init__(
        self,
        features: Any,
        labels: Any = None,
        batch_size: int = 64,
        *,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        seed: int = 0,
        nest: bool | int = True,
        method: str = "auto",
        task: str | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
        sample_weight: Any = None,
        fit_intercept: bool = True,
        table: AntitheticTable | GroupTable | None = None,
        refresh: int | None = 1,
        importance: bool | str | Any = False,
        progress: bool = False,
    ) -> None:
        # Lightning tries to put a sampler of its own into this one.
        if isinstance(features, Sampler):
            raise TypeError(
                f"{type(self).__name__} deals out batches by itself: set"
                " Trainer(use_distributed_sampler=False)"
            )
        if features is None and table is None:
            raise ValueError("give features, or a table= made before")
        given = None if table is None else check_given(table)
        X: Matrix = None if features is None else read_features(features)
        n = len(given) if given is not None else int(X.shape[0])
        labels, task = (None, None) if labels is None else read_labels(labels, n, task)
        super().__init__(n, batch_size, drop_last, generator, seed, num_replicas, rank)
        self.refresh = None if refresh is None else check_count(refresh, "refresh", least=1)
        self._labels, self._task, self._method = labels, task, method
        self._size = group_size(nest, self.batch_size, n)
        self._importance = read_importance(importance, n)
        source = None if X is None else Source(X, labels, task, sample_weight, bool(fit_intercept))
        self.table = self._groups_of(source, given, progress)
        self._mark = zlib.crc32(self.table.order.data)
        self._memory = Observations(n)
        self._regrouped: int | None = None  # the epoch that began with new groups
        rows = source.rows() if source is not None and self._importance is True else None
        self._chances = (
            None if self._importance is False else chances_of(rows, self.table, self._importance)
        )
        self._first_table, self._first_chances = self.table, self._chances
        self._saved: Tensor | None = None
        self._order: EpochOrder | None = None
        self._weights: NDArray[np.float32] | None = None

    def _groups_of(
        self,
        source: Source | None,
        given: AntitheticTable | GroupTable | None,
        progress: bool,
    ) -> GroupTable:
        """Groups before anything was observed: of a table made before, or made of the data."""
        if source is not None:
            if given is not None:
                return source.take(given)
            return source.make(self._size, self._method, self.seed, progress)
        if self._importance is True:
            raise ValueError(
                "importance=True needs features, whose gradients it begins with; or give a"
                " number for each row"
            )
        assert given is not None
        return as_groups(given)

    def observe(self, indices: Any, vectors: Any, slopes: Any = None) -> None:
        r"""Show the sampler the gradients of some rows, or vectors that stand for them.

        The next epoch's groups are made from these.

        Rows that are not seen in an epoch keep their last vector; those never seen count as zero.
        Groups are made as soon as half of all rows were seen once.

        Parameters
        ----------
        indices : array-like or tensor of shape (m,)
            Row numbers.
        vectors : array-like or tensor of shape (m, k)
            One vector for each, always of the same length; see :func:`head_gradients`. They are
            kept as float32.
        slopes : array-like or tensor of shape (m, l), default=None
            Where given, the vector of a row is the product :math:`s_i \otimes x_i` of its slopes
            and what ``vectors`` has, and is kept as its two factors; see :func:`head_factors`.
        """
        self.learn(*read_observed(indices, vectors, slopes, self.n))

    def learn(self, rows: Indices, vectors: Vectors, slopes: Vectors) -> None:
        """Keep vectors that need no checks."""
        self._memory.record(rows, vectors, slopes)

    def forget(self) -> None:
        """Give up what was observed since groups were last made: these rows count as never seen."""
        self._memory.forget()

    def weights(self, indices: Any) -> Tensor:
        r"""What the loss of each row must be multiplied by in this epoch, shape (m,), float32.

        With ``importance``, a group that is drawn with probability :math:`p_k` for each of K places
        has the weight :math:`1 / (K p_k)`, so that every row counts once on average; divide the sum
        of a batch by its number of rows, not by the sum of the weights. Else 1.
        """
        rows = to_indices(indices, self.n)
        if self._weights is None:
            return torch.ones(len(rows))
        return torch.from_numpy(self._weights[rows])

    def _prepare(self, epoch: int) -> None:
        memory = self._memory
        if not (memory.fresh or self._watch is not None):
            return
        last = self._regrouped
        due = self.refresh is not None and (
            last is None or epoch < last or epoch - last >= self.refresh
        )
        if not due and self._importance is not True:
            return
        processes, number = place_among_observers(self.num_replicas)
        if memory.gather(processes) and memory.share >= _ENOUGH:
            self._follow(memory, epoch if due else None, several=processes > 1, first=number == 0)

    def _follow(
        self, memory: Observations, epoch: int | None, *, several: bool, first: bool
    ) -> None:
        """Make groups, if an epoch is given, and their probabilities from what was observed.

        The first process does it for all.
        """
        points = memory.points(self.seed) if first else None
        if epoch is not None:
            order = (
                np.empty(self.n, dtype=np.intp)
                if points is None
                else regroup(points, self.table.size, self._method, self.seed)
            )
            self.table = GroupTable(
                share(order) if several else order, self.table.size, method="observed"
            )
            self._regrouped, self._saved = epoch, None
        if self._importance is True:
            chances = (
                np.empty(len(self.table.groups))
                if points is None
                else chances_of(Gradients(points), self.table, True)
            )
            self._chances = share(chances) if several else chances
        elif self._importance is not False:
            self._chances = chances_of(None, self.table, self._importance)

    def _arrange(self, epoch: int) -> None:
        table = self.table
        # The first groups are repeated, with any member equally likely.
        repeats = self.num_replicas > 1 and not self.drop_last
        turned = bool(self.batch_size % table.size) or repeats
        self._order = order = epoch_order(
            table, self.seed, epoch, turned=turned, chances=self._chances
        )
        self._weights = None if self._chances is None else _row_weights(order, self._chances)

    def _rows(self, start: int, stop: int) -> Indices:
        assert self._order is not None
        return self._shard.take(self._order, start, stop)

    def _default_targets(self) -> Any:
        labels = self._labels
        # classes may be written 0.0, 1.0; numbers of a regression stay what they are, and losses of
        # classes refuse them
        whole = (
            labels is not None
            and self._task == "classification"
            and labels.dtype.kind == "f"
            and (labels == np.floor(labels)).all()
        )
        return labels.astype(np.int64) if labels is not None and whole else labels

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "table": self._mark}

    def _learnt(self) -> dict[str, Any]:
        state: dict[str, Any] = self._memory.state()
        if self._regrouped is not None:
            if self._saved is None:  # once per table: loaders may ask for the state at every batch
                self._saved = torch.from_numpy(self.table.order.copy())
            state |= {"regrouped": self._regrouped, "order": self._saved}
        if self._chances is not None:
            state["chances"] = torch.from_numpy(self._chances)
        return state

    def _relearn(self, state: dict[str, Any]) -> None:
        self._memory.load(state)
        self._regrouped = state.get("regrouped")
        self.table, self._chances, self._saved = self._first_table, self._first_chances, None
        if "order" in state:
            self.table = GroupTable(
                to_numpy(state["order"], "order"), self.table.size, method="observed"
            )
        if "chances" in state:
            self._chances = to_numpy(state["chances"], "chances").astype(np.float64)


def _row_weights(order: EpochOrder, chances: NDArray[np.float64]) -> NDArray[np.float32]:
    """Weights of the rows in an epoch; what is left over counts once."""
    weights = np.ones(len(order), dtype=np.float32)
    of_groups = (1.0 / (len(chances) * chances)).astype(np.float32)
    weights[order.groups] = of_groups[:, None]
    if order.broken >= 0:
        weights[order.mended] = of_groups[order.broken]
        weights[order.left] = 1.0
    return weights
