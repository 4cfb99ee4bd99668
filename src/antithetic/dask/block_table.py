"""Tables of all blocks of a collection: what `antithetic.dask.pair` returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from antithetic._util.validation import check_count
from antithetic.dask.blocks import Blocks
from antithetic.dask.cluster import compute_anywhere
from antithetic.dask.common import Common
from antithetic.dask.recipes import needed_of, refer
from antithetic.dask.table_quality import measure_blocks, variance_of_blocks
from antithetic.orders import Pairs
from antithetic.pairing import AntitheticTable, Quality
from antithetic.pairing.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True, eq=False)
class BlockTable:
    """Tables of all blocks, built lazily, as returned by :func:`antithetic.dask.pair`.

    Attributes
    ----------
    tables : list of Delayed
        One :class:`antithetic.AntitheticTable` per block, None for an empty block. The rows of each
        block are numbered from 0.
    lengths : tuple of int
        Rows of the blocks.
    method : str
        How the rows were paired.
    dealt : bool
        Whether rows were exchanged between blocks. If so, ``blocks`` are the new blocks.
    blocks : object
        The blocks: parts of X, y and the weights.
    common : object
        Loss, classes and seed of all tables, and an order whose ``pairs`` describe them.
    given : tuple
        Identifies the collections that the table was built for.
    rows : list of Delayed or None
        Row numbers in X of each new block's rows; None if no rows were exchanged.
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
            f" method={self.method!r}{', shuffled' if self.dealt else ''})"
        )

    @property
    def partner(self) -> Any:
        """Partner of each row of X, a Dask array of shape (n,), computed block by block.

        Rows are numbered through all of X. If rows were exchanged between blocks, partners are in
        the order of the new blocks, and :attr:`order` has the row numbers.
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
        """Number in X of each row of the blocks, a Dask array of shape (n,).

        It is 0..n-1 unless rows were exchanged between blocks.
        """
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
        """Gather all tables into one :class:`antithetic.AntitheticTable` of the rows of X.

        It takes 8 bytes per row in this process.

        Parameters
        ----------
        client : Client, default=None
            The client to use; None means Dask's default: the current client, or threads.

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
        """Return the same table, computed once and kept on the cluster.

        If rows were exchanged between blocks, the new blocks are kept too.

        Parameters
        ----------
        client : Client, default=None
            The client to use; None means Dask's default: the current client, or threads.

        Returns
        -------
        BlockTable
        """
        wanted = [*self.tables, *(self.rows or [])]
        if self.dealt:
            wanted += [
                Delayed(key, needed_of(self.blocks.graph, [key])) for key in self.blocks.keys
            ]
        kept = list(dask.persist(*wanted) if client is None else client.persist(wanted))
        many = len(self.tables)
        if not self.dealt:
            return replace(self, tables=kept)
        return replace(
            self,
            tables=kept[:many],
            rows=kept[many : 2 * many],
            blocks=replace(self.blocks, graph=refer(kept[2 * many :])[1]),
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
            The client to use; None means Dask's default.

        Returns
        -------
        float
        """
        return variance_of_blocks(client, self.blocks, self.tables, self.common, coef, intercept)

    def quality(
        self, *, coef: Any = None, intercept: float = 0.0, random_state: int = 0, client: Any = None
    ) -> Quality:
        """Measure how good the tables are, as on one machine.

        ``best_ratio`` is the best ratio that tables within these blocks can have.

        Parameters
        ----------
        coef : array-like of shape (d,), default=None
            Where the gradients are taken; None means at zero.
        intercept : float, default=0.0
            The intercept that belongs to ``coef``.
        random_state : int, default=0
            Seed of the rows for which large blocks are solved exactly.
        client : Client, default=None
            The client to use; None means Dask's default.

        Returns
        -------
        Quality
        """
        seed = check_count(random_state, "random_state", least=0)
        return measure_blocks(client, self.blocks, self.tables, self.common, coef, intercept, seed)

    @property
    def pairs(self) -> Pairs:
        """How the tables were made, for the ``pairs=`` of an order."""
        made = self.common.order.pairs
        assert made is not None
        return made

    @property
    def origin(self) -> str:
        """How the table was made, as text for checkpoints."""
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
            The training data.
        """
        for mine, theirs, name in zip(
            self.given,
            map(name_of, (X, y, sample_weight)),
            ("X", "y", "sample_weight"),
            strict=True,
        ):
            if mine != theirs:
                raise ValueError(
                    f"the table was made for another {name}; build one for these data with"
                    " antithetic.dask.pair"
                )


def _global_partner(
    table: AntitheticTable | None, first: int, rows: NDArray[np.intp] | None
) -> NDArray[np.intp]:
    if table is None:
        return np.empty(0, np.intp)
    return table.partner + first if rows is None else rows[table.partner]


def name_of(collection: Any) -> Any:
    """Identity of a collection: its key in Dask."""
    if isinstance(collection, (list, tuple)):
        return tuple(str(part.key) for part in collection)
    return dask.base.tokenize(collection)
