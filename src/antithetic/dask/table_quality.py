"""Quality of the tables of all blocks: exact, as if they were one table of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import block_rows
from antithetic.dask.blocks import Block, Blocks, one_thread, open_block
from antithetic.dask.common import Common
from antithetic.dask.mapping import over_blocks
from antithetic.pairing import AntitheticTable, Quality
from antithetic.pairing.optimal import optimal_table
from antithetic.pairing.quality import EXACT_ROWS, dual_bound
from antithetic.pairing.rows import Rows, mean_square, rows_ratio
from antithetic.problem import ratio
from antithetic.problem.variance import group_spread


def variance_of_blocks(
    client: Any, blocks: Blocks, tables: list[Any], common: Common, coef: Any, intercept: float
) -> float:
    """Variance of a pair's gradient divided by that of two independent rows, over all blocks.

    It takes two rounds: the mean gradient of all rows first, then squared distances from it, so
    that no digits are lost when gradients cancel.
    """
    if common.n_problems > 1:
        return measure_blocks(client, blocks, tables, common, coef, intercept, None).variance_ratio
    given = (common, coef, intercept)
    sums = over_blocks(client, _gradient, "gradient", blocks, *given)
    centre = (sum(data for data, _ in sums), float(sum(constant for _, constant in sums)))
    spreads = over_blocks(client, _spread, "spread", blocks, *given, centre, own=[tables])
    alone, paired = np.sum(spreads, axis=0).tolist()
    return ratio(paired, alone / 2.0)


def _gradient(
    number: int, parts: Sequence[Any], common: Common, coef: Any, intercept: float
) -> tuple[Any, float]:
    block = open_block(number, parts)
    n, d = block.X.shape
    if not n:
        return np.zeros(d), 0.0
    problem = common.problem(block)
    data, constant = problem.data_gradient(problem.slopes(coef, intercept))
    return data * (n / common.rows), constant * (n / common.rows)


def _spread(
    number: int,
    parts: Sequence[Any],
    table: Any,
    common: Common,
    coef: Any,
    intercept: float,
    centre: Any,
) -> NDArray[np.float64]:
    """Mean squared distances from the centre, of rows and of pairs, times the share of the rows."""
    block = open_block(number, parts)
    n = block.X.shape[0]
    if not n:
        return np.zeros(2)
    problem = common.problem(block)
    slopes, everyone = problem.slopes(coef, intercept), np.arange(n)
    alone = group_spread(problem, slopes, everyone[:, None], centre)
    paired = group_spread(problem, slopes, np.column_stack([everyone, table.partner]), centre)
    return np.array([alone * n / common.rows, paired * n / common.rows])


def measure_blocks(
    client: Any,
    blocks: Blocks,
    tables: list[Any],
    common: Common,
    coef: Any,
    intercept: float,
    seed: int | None,
) -> Quality:
    """Quality of all tables together; without a seed, the bound is left out."""
    given = (common, coef, intercept, seed)
    answers = over_blocks(client, _look, "quality", blocks, *given, own=[tables])
    seen = [one for one in answers if one is not None]
    shares = np.array([one["rows"] for one in seen]) / sum(one["rows"] for one in seen)
    numbers = {
        name: float(shares @ [one[name] for one in seen])
        for name in ("square", "product", "negative", "opposite", "least")
    }
    total = sum(share * one["total"] for share, one in zip(shares, seen, strict=True))
    if common.n_problems > 1:
        total = total - total.mean(axis=0)
    centre = float((total * total).sum())
    alone = max(0.0, 0.5 * (numbers["square"] - centre))
    if common.n_problems > 1:
        found = ratio(max(0.0, 0.5 * (numbers["square"] + numbers["product"]) - centre), alone)
    else:
        found = variance_of_blocks(client, blocks, tables, common, coef, intercept)
    best = ratio(max(0.0, 0.5 * (numbers["square"] + numbers["least"]) - centre), alone)
    by = sorted({one["by"] for one in seen})
    return Quality(
        found,
        numbers["product"],
        numbers["negative"],
        numbers["opposite"] if common.parts.classes is not None else None,
        found if best <= found * (1.0 + 1e-9) and best > found else best,
        by[0] if len(seen) == 1 else f"within blocks: {', '.join(by)}",
    )


def rows_of(block: Block, common: Common, coef: Any, intercept: float) -> Rows:
    """Vectors of a block that should cancel."""
    if common.n_problems > 1:
        classes = common.parts.classes
        assert classes is not None
        assert block.y is not None
        codes = np.searchsorted(classes, block.y)
        return Rows.of_classes(block.X, codes, len(classes), block.weight, common.fit_intercept)
    return Rows.of_problem(common.problem(block), coef, intercept)


def _look(
    number: int,
    parts: Sequence[Any],
    table: AntitheticTable,
    common: Common,
    coef: Any,
    intercept: float,
    seed: int | None,
) -> dict[str, Any] | None:
    with one_thread():
        block = open_block(number, parts)
        if not block.X.shape[0]:
            return None
        rows = rows_of(block, common, coef, intercept)
        unit = rows.unit**2
        products = rows.products(table.partner)
        square, centre = (
            float(rows.products(np.arange(len(rows))).mean()) / unit,
            mean_square(rows) / unit,
        )
        bound, by = _bound(rows, seed, number) if seed is not None else (0.0, "")
        # the lowest mean product that the bound allows: the formula for the variance of a pair,
        # solved for the mean product
        least = (
            bound * max(0.0, square - centre) + 2.0 * centre - square
            if np.isfinite(bound)
            else square
        )
        labels = block.y
        return {
            "rows": len(rows),
            "square": square,
            "product": float(products.mean()) / unit,
            "negative": float((products < 0.0).mean()),
            "opposite": (
                0.0
                if labels is None or common.parts.classes is None
                else float((labels != labels[table.partner]).mean())
            ),
            "least": least,
            "by": by,
            "total": _mean_vector(rows),
        }


def _bound(rows: Rows, seed: int, number: int) -> tuple[float, str]:
    if len(rows) <= EXACT_ROWS:
        return rows_ratio(rows, optimal_table(rows)), "assignment"
    return dual_bound(rows, np.random.default_rng(seed if number == 0 else (seed, number)))


def _mean_vector(rows: Rows) -> NDArray[np.float64]:
    """Mean of the rows, separately for each class if there are more than two.

    Shape (classes or 1, d or d + 1).
    """
    classes = 1 if rows.codes is None else rows.classes
    total = np.zeros((classes, rows.X.shape[1] + bool(rows.constant)))
    block = block_rows(rows.X)
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        vectors = rows.take(part)
        codes = (
            np.zeros(vectors.shape[0], dtype=np.intp) if rows.codes is None else rows.codes[part]
        )
        for code in range(classes):
            total[code] += np.asarray(vectors[codes == code].sum(axis=0, dtype=np.float64)).ravel()
    return total / (len(rows) * rows.unit)
