"""`pair` for collections: a table for each block, made where the block is, and its quality from sums over the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_count
from antithetic.dask.blocks import Block, Blocks, open_block, open_labels, read_blocks
from antithetic.dask.cluster import compute_anywhere
from antithetic.dask.deal import deal
from antithetic.dask.rounds import Common, one_thread
from antithetic.dask.table_quality import measure_blocks, variance_of_blocks
from antithetic.pairing import AntitheticTable, GroupTable, Quality
from antithetic.pairing._pair import make_table
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.pairer import Pairer
from antithetic.pairing.rows import Rows
from antithetic.pairing.table import matched
from antithetic.problem.losses import Loss, get_loss
from antithetic.problem.penalties import ElasticNet


@dataclass(frozen=True, slots=True, eq=False)
class BlockTable:
    """Tables of all blocks, made lazily: what :func:`antithetic.dask.pair` returns.

    Attributes
    ----------
    tables : list of Delayed
        One :class:`antithetic.AntitheticTable` per block, of rows numbered from 0 in each; None for
        an empty block.
    lengths : tuple of int
        Rows of the blocks.
    method : str
        How they were paired.
    dealt : bool
        Whether rows were dealt anew among blocks: then ``blocks`` are the new ones.
    blocks : object
        The blocks themselves, for whom it may concern: parts of X, y and the weights.
    common : object
        Loss, classes and seed of all tables.
    given : tuple
        What tells the collections it was made for from others.
    rows : list of Delayed or None
        Numbers in X of the rows of each new block; None where none were dealt.
    coef, intercept
        Weights at which gradients were paired; None and 0.0 for signed rows.
    """

    tables: list[Any]
    lengths: tuple[int, ...]
    method: str
    dealt: bool
    blocks: Blocks
    common: Common
    given: tuple[Any, Any, Any]
    rows: list[Any] | None
    coef: Any = None
    intercept: float = 0.0

    def __len__(self) -> int:
        return sum(self.lengths)

    def __repr__(self) -> str:
        return (
            f"BlockTable({len(self)} rows in {len(self.lengths)} blocks,"
            f" method={self.method!r}{', dealt anew' if self.dealt else ''})"
        )

    @property
    def partner(self) -> Any:
        """Partner of each row of X by its number in the whole, a Dask array of shape (n,), computed block by block.

        Where rows were dealt anew it is in the order of the new blocks, with the rows' numbers in
        :attr:`order`.
        """
        import dask.array as da

        firsts = np.cumsum([0, *self.lengths])
        task = dask.delayed(_global_partner, pure=True, traverse=False)
        order = self.rows if self.rows is not None else [None] * len(self.tables)
        parts = [
            task(table, int(first), rows)
            for table, first, rows in zip(self.tables, firsts[:-1], order, strict=True)
        ]
        arrays = [
            da.from_delayed(part, (n,), dtype=np.intp)
            for part, n in zip(parts, self.lengths, strict=True)
        ]
        return da.concatenate(arrays)

    @property
    def order(self) -> Any:
        """Number in X of each row of the blocks, a Dask array of shape (n,): 0..n-1 unless rows were dealt anew."""
        import dask.array as da

        if self.rows is None:
            return da.arange(len(self), chunks=(self.lengths,), dtype=np.intp)
        return da.concatenate(
            [
                da.from_delayed(part, (n,), dtype=np.intp)
                for part, n in zip(self.rows, self.lengths, strict=True)
            ]
        )

    def compute(self, client: Any = None) -> AntitheticTable:
        """Gather all tables into one :class:`antithetic.AntitheticTable` of the rows of X: 8 bytes a row, which must fit here.

        Parameters
        ----------
        client : Client, default=None
            What computes; None means Dask's default, a current client or threads.

        Returns
        -------
        AntitheticTable
        """
        partner, order = compute_anywhere(client, [self.partner, self.order])
        whole = np.empty(len(self), np.intp)
        whole[order] = partner
        return AntitheticTable(
            whole, Fingerprint(), self.method, note=f"paired within {len(self.lengths)} blocks"
        )

    def persist(self, client: Any = None) -> BlockTable:
        """Return the same with tables, and blocks if they were dealt anew, computed once and kept on the cluster.

        Parameters
        ----------
        client : Client, default=None
            What computes and keeps; None means Dask's default, a current client or threads.

        Returns
        -------
        BlockTable
        """
        columns: list[list[Any]] = [self.tables]
        if self.dealt:
            columns += [
                self.blocks.X,
                self.blocks.y or [],
                self.blocks.weight or [],
                self.rows or [],
            ]
        wanted = [part for column in columns for part in column]
        kept = iter(dask.persist(*wanted) if client is None else client.persist(wanted))
        tables, *dealt = [[next(kept) for _ in column] for column in columns]
        if not dealt:
            return replace(self, tables=tables)
        X, y, weight, rows = dealt
        return replace(
            self,
            tables=tables,
            blocks=replace(self.blocks, X=X, y=y, weight=weight or None),
            rows=rows,
        )

    def variance_ratio(
        self, *, coef: Any = None, intercept: float = 0.0, client: Any = None
    ) -> float:
        """Exact variance of the gradient of a pair, divided by that of two independent rows.

        Below 1 is a gain.

        Parameters
        ----------
        coef : array-like of shape (d,), default=None
            Where the gradients are taken; None means at zero.
        intercept : float, default=0.0
            The intercept that belongs to ``coef``.
        client : Client, default=None
            What computes; None means Dask's default.

        Returns
        -------
        float
        """
        return variance_of_blocks(client, self.blocks, self.tables, self.common, coef, intercept)

    def quality(
        self, *, coef: Any = None, intercept: float = 0.0, random_state: int = 0, client: Any = None
    ) -> Quality:
        """Say how good the tables are, as one machine does.

        ``best_ratio`` is that of all tables within these blocks.

        Parameters
        ----------
        coef : array-like of shape (d,), default=None
            Where the gradients are taken; None means at zero.
        intercept : float, default=0.0
            The intercept that belongs to ``coef``.
        random_state : int, default=0
            Chooses the rows that are solved exactly in large blocks.
        client : Client, default=None
            What computes; None means Dask's default.

        Returns
        -------
        Quality
        """
        seed = check_count(random_state, "random_state", least=0)
        return measure_blocks(client, self.blocks, self.tables, self.common, coef, intercept, seed)

    @property
    def origin(self) -> str:
        """How it was made, as text, for checkpoints."""
        at = (
            None
            if self.coef is None
            else dask.base.tokenize(np.asarray(self.coef, float), float(self.intercept))
        )
        return f"{self.method} {self.common.seeds} {self.lengths if self.dealt else ''} {at}"

    def check_for(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Raise ValueError unless the table was made for these collections.

        Parameters
        ----------
        X, y, sample_weight
            What is to be trained on.
        """
        for mine, theirs, name in zip(
            self.given,
            map(_name_of, (X, y, sample_weight)),
            ("X", "y", "sample_weight"),
            strict=True,
        ):
            if mine != theirs:
                raise ValueError(
                    f"the table was made for another {name}; make one for these data with"
                    " antithetic.dask.pair"
                )


def pair(
    X: Any,
    y: Any,
    method: Any = "auto",
    *,
    coef: Any = None,
    intercept: float = 0.0,
    loss: str | Loss = "log_loss",
    fit_intercept: bool = False,
    sample_weight: Any = None,
    shuffle: bool | int = False,
    client: Any = None,
    random_state: int | None = None,
) -> BlockTable:
    """Build antithetic tables of a collection, one within each block.

    Nothing is gathered, and only y is read at once.

    Blocks should hold rows in random order: partners are sought within a block. Where the data are
    sorted, ``shuffle`` deals the rows of several blocks, far apart from each other, among as many
    new ones, at random.

    Parameters
    ----------
    X : Dask array or data frame, or list of delayed blocks
        Rows, of shape (n, d); blocks dense or CSR.
    y : Dask array or series, or list of delayed blocks
        Labels of two or more values for a classification loss, numbers for regression; shape (n,).
    method : {"auto", "greedy", "optimal", "tree", "random"} or callable, default="auto"
        As in :func:`antithetic.pair`, for each block.
    coef : array-like of shape (d,), default=None
        Pair the gradients at these weights instead of the signed rows.
    intercept : float, default=0.0
        The intercept that belongs to ``coef``.
    loss : str or Loss, default="log_loss"
        Its name says whether y are classes or numbers.
    fit_intercept : bool, default=False
        Whether the model has an intercept: then rows have one more feature, 1.
    sample_weight : Dask array or series, default=None
        Weights of the rows, which scale their gradients.
    shuffle : bool or int, default=False
        Deal the rows of this many blocks among each other, True of eight. Each block is cut into so
        many parts, and all but one of these travel: with g blocks, a share of (g - 1) / g of the
        data, whenever the new blocks are computed (see ``persist``).
    client : Client, default=None
        What reads y; None means Dask's default, a current client or threads.
    random_state : int or None, default=None
        Seed; None means 0. The first block's is this, so that one block gives the table that
        :func:`antithetic.pair` gives.

    Returns
    -------
    BlockTable

    Examples
    --------
    >>> import dask.array as da, antithetic.dask
    >>> X = da.from_array([[1.0, 0.0], [0.9, 0.1], [0.2, 1.0], [0.3, 0.7]], chunks=(2, 2))
    >>> table = antithetic.dask.pair(X, da.from_array([1, 0, 1, 0], chunks=2))
    >>> table.partner.compute(scheduler="sync").tolist()
    [1, 0, 3, 2]
    """
    loss = get_loss(loss)
    seed = 0 if random_state is None else check_count(random_state, "random_state", least=0)
    pairer = Pairer(method, n_jobs=1, seed=seed)
    blocks = read_blocks(X, y, sample_weight)
    classes, lengths = _labels(client, blocks, loss)
    if len(classes) > 2 and coef is not None:
        raise ValueError(
            f"coef= pairs gradients of two classes or of a regression, and y has {len(classes)}"
            " classes; leave it at None"
        )
    rows = None
    if shuffle:
        blocks, rows, lengths = deal(
            blocks,
            lengths,
            8 if shuffle is True else check_count(shuffle, "shuffle", least=2),
            seed,
        )
    common = Common(
        loss,
        ElasticNet(),
        bool(fit_intercept),
        classes if loss.classification else None,
        None,
        sum(lengths),
        2,
        "shuffle",
        None,
        (seed,),
    )
    task = dask.delayed(pair_block, pure=True, traverse=False)
    shared = dask.delayed(common, traverse=False)
    token = dask.base.tokenize(np.random.default_rng().integers(1 << 60).item())
    tables = [
        task(
            number,
            blocks.parts(number),
            shared,
            method,
            coef,
            intercept,
            dask_key_name=(f"antithetic-pair-{token}", number),
        )
        for number in range(len(blocks))
    ]
    name = pairer.name(max(lengths))
    return BlockTable(
        tables,
        lengths,
        name,
        bool(shuffle),
        blocks,
        common,
        tuple(map(_name_of, (X, y, sample_weight))),
        rows,
        coef,
        intercept,
    )


def pair_block(
    number: int, parts: Sequence[Any], common: Common, method: Any, coef: Any, intercept: float
) -> AntitheticTable | None:
    """Table of a block."""
    with one_thread():
        block = open_block(number, parts)
        if not block.X.shape[0]:
            return None
        pairer = Pairer(method, n_jobs=1, seed=common.seed(0, number))
        rows = rows_of(block, common, coef, intercept)
        return make_table(rows, pairer, None, False, Fingerprint())


def rows_of(block: Block, common: Common, coef: Any, intercept: float) -> Rows:
    """Vectors of a block that should cancel."""
    if common.n_problems > 1:
        assert common.classes is not None
        assert block.y is not None
        codes = np.searchsorted(common.classes, block.y)
        return Rows.of_classes(
            block.X, codes, len(common.classes), block.weight, common.fit_intercept
        )
    return Rows.of_problem(common.problem(block, 0), coef, intercept)


def tables_of(
    client: Any, blocks: Blocks, common: Common, method: Any, given: BlockTable | None
) -> list[Any]:
    """Tables of all blocks for a fit, kept on the cluster: a list per block, one per problem."""
    task = dask.delayed(_tables_of_block, pure=False, traverse=False)
    if given is not None and common.n_problems > 1:
        raise ValueError(
            f"table= serves two classes or a regression, and y has {common.n_problems} classes;"
            " name a method, say pairing='tree', which makes a table for each"
        )
    shared = dask.delayed(common, traverse=False)
    made = given.tables if given is not None else [None] * len(blocks)
    token = dask.base.tokenize(np.random.default_rng().integers(1 << 60).item())
    delayed = [
        task(
            number,
            blocks.parts(number),
            shared,
            method,
            made[number],
            dask_key_name=(f"antithetic-table-{token}", number),
        )
        for number in range(len(blocks))
    ]
    kept: list[Any] = client.persist(delayed)
    return kept


def _tables_of_block(
    number: int, parts: Sequence[Any], common: Common, method: Any, given: AntitheticTable | None
) -> list[Any]:
    """One table per problem, cut into a matching where rows are visited once.

    None where all labels are the same.
    """
    with one_thread():
        block = open_block(number, parts)
        found: list[Any] = []
        for place in range(common.n_problems):
            problem = common.problem(block, place) if block.X.shape[0] else None
            if (
                problem is None
                or problem.n < 2
                or (common.classes is not None and (problem.y == problem.y[0]).all())
            ):
                found.append(None)
                continue
            table: AntitheticTable | GroupTable | None = given
            if table is None:
                nest = (
                    None
                    if common.nest is not True
                    and common.nest is not None
                    and common.nest > problem.n
                    else common.nest
                )
                pairer = Pairer(method, n_jobs=1, seed=common.seed(place, number))
                table = make_table(Rows.of_problem(problem), pairer, nest, False, Fingerprint())
            once = isinstance(table, AntitheticTable) and common.sampling == "shuffle"
            found.append(
                matched(table, problem) if once and isinstance(table, AntitheticTable) else table
            )
        return found


def _labels(client: Any, blocks: Blocks, loss: Loss) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Labels of all blocks in order, empty for regression, and the lengths of the blocks."""
    task = dask.delayed(_labels_of_block, pure=False, traverse=False)
    assert blocks.y is not None
    seen = compute_anywhere(
        client, [task(number, part, loss.classification) for number, part in enumerate(blocks.y)]
    )
    lengths = tuple(length for _, length in seen)
    if not sum(lengths):
        raise ValueError("X has no rows: all its blocks are empty")
    classes = join_classes([found for found, length in seen if length])
    if loss.classification and len(classes) < 2:
        raise ValueError(f"y has one class only, {classes.tolist()[0]!r}; a classifier needs two")
    return classes, lengths


def join_classes(found: list[NDArray[Any]]) -> NDArray[Any]:
    """All labels in order."""
    if len({"text" if labels.dtype.kind in "US" else "number" for labels in found}) > 1:
        raise ValueError("y has words in some blocks and numbers in others; use one kind")
    return np.unique(np.concatenate(found))


def _labels_of_block(number: int, part: Any, classification: bool) -> tuple[NDArray[Any], int]:
    labels = open_labels(number, part)
    return np.unique(labels) if classification else labels[:0], len(labels)


def _global_partner(
    table: AntitheticTable | None, first: int, rows: NDArray[np.intp] | None
) -> NDArray[np.intp]:
    if table is None:
        return np.empty(0, np.intp)
    return table.partner + first if rows is None else rows[table.partner]


def _name_of(collection: Any) -> Any:
    """What tells a collection from others: its key in Dask."""
    if isinstance(collection, (list, tuple)):
        return tuple(str(part.key) for part in collection)
    return dask.base.tokenize(collection)
