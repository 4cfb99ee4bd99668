"""Tables of the blocks for a fit: one per problem, built and kept on the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributed import Future

from antithetic.dask.block_table import BlockTable
from antithetic.dask.blocks import Blocks, open_block
from antithetic.dask.common import Common
from antithetic.dask.mapping import map_blocks
from antithetic.dask.tasks import one_thread
from antithetic.orders.units import Table
from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.pairing._pair import make_table
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.pairing.pairer import Pairer
from antithetic.pairing.rows import Rows
from antithetic.pairing.table import matched
from antithetic.problem import Problem


def tables_of(
    client: Any, blocks: Blocks, common: Common, given: BlockTable | None
) -> list[Future]:
    """Return the tables of all blocks: a list per block, one table per problem.

    They are ``given``, or built from the ``pairs`` of the order.
    """
    if given is not None and common.n_problems > 1:
        raise ValueError(
            f"table= supports two classes or regression, and y has {common.n_problems} classes;"
            " use order=Shuffle(pairs='tree') instead, which builds a table for each class"
        )
    made = given.tables if given is not None else [None] * len(blocks)
    return map_blocks(client, _tables_of_block, "table", blocks, common, own=[made])


def _tables_of_block(
    number: int, parts: Sequence[Any], given: AntitheticTable | None, common: Common
) -> list[Table | None]:
    """One table per problem, converted to a matching if rows are visited once.

    None if there is nothing to pair: all labels are the same, or there is only one row.
    """
    with one_thread():
        block = open_block(number, parts)
        found: list[Table | None] = []
        for place in range(common.n_problems):
            problem = common.problem(block, place) if block.X.shape[0] else None
            if problem is None or problem.n < 2 or _is_of_one_class(problem, common):
                found.append(None)
                continue
            table = given or _made(problem, common, common.seed(place, number))
            if common.order.once and isinstance(table, AntitheticTable):
                table = matched(table, problem)
            found.append(table)
        return found


def _is_of_one_class(problem: Problem, common: Common) -> bool:
    return common.parts.classes is not None and bool((problem.y == problem.y[0]).all())


def _made(problem: Problem, common: Common, seed: int) -> Table:
    """Build a table, of pairs if groups would be larger than the block."""
    pairs = common.order.pairs
    assert pairs is not None
    assert not isinstance(pairs.method, (AntitheticTable, GroupTable))
    nest = pairs.nest
    if nest is not None and nest is not True and nest > problem.n:
        nest = None
    pairer = Pairer(pairs.method, n_jobs=1, seed=seed)
    return make_table(Rows.of_problem(problem), pairer, nest, False, Fingerprint())
