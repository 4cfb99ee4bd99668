"""Tables of all blocks of a collection: what `antithetic.dask.pair` returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_count
from antithetic.dask.blocks import Blocks
from antithetic.dask.cluster import compute_anywhere
from antithetic.dask.common import Common
from antithetic.dask.table_quality import measure_blocks, variance_of_blocks
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
    blocks : object
        The blocks: parts of X, y and the weights.
    common : object
        Loss and classes of all tables.
    """

    tables: list[Any]
    lengths: tuple[int, ...]
    method: str
    blocks: Blocks
    common: Common

    def __len__(self) -> int:
        return sum(self.lengths)

    def __repr__(self) -> str:
        return f"BlockTable({len(self)} rows in {len(self.lengths)} blocks, method={self.method!r})"

    @property
    def partner(self) -> Any:
        """Partner of each row of X, a Dask array of shape (n,), computed block by block.

        Rows are numbered through all of X.
        """
        import dask.array as da

        firsts = np.cumsum([0, *self.lengths])
        task = dask.delayed(_global_partner, pure=True, traverse=False)
        parts = [
            task(table, int(first)) for table, first in zip(self.tables, firsts[:-1], strict=True)
        ]
        arrays = [
            da.from_delayed(part, (n,), dtype=np.intp)
            for part, n in zip(parts, self.lengths, strict=True)
        ]
        return da.concatenate(arrays)

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
        (partner,) = compute_anywhere(client, [self.partner])
        note = f"paired within {len(self.lengths)} blocks"
        return AntitheticTable(partner, Fingerprint(), self.method, note=note)

    def persist(self, client: Any = None) -> BlockTable:
        """Return the same table, computed once and kept on the cluster.

        Parameters
        ----------
        client : Client, default=None
            The client to use; None means Dask's default: the current client, or threads.

        Returns
        -------
        BlockTable
        """
        kept = dask.persist(*self.tables) if client is None else client.persist(self.tables)
        return replace(self, tables=list(kept))

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


def _global_partner(table: AntitheticTable | None, first: int) -> NDArray[np.intp]:
    return np.empty(0, np.intp) if table is None else table.partner + first
