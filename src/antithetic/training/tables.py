"""What a run currently draws from, and when its table is rebuilt from the gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import Draws
from antithetic.orders.pairs import reduction_of
from antithetic.orders.units import Table, cut
from antithetic.pairing import AntitheticTable
from antithetic.problem.smoothness import row_squares
from antithetic.solvers import After, State
from antithetic.solvers.corrected import safe_step
from antithetic.training.spec import Spec

if TYPE_CHECKING:
    from antithetic.orders.units import Batches
    from antithetic.solvers.steps import Schedule
    from antithetic.training.loop import Run


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """What a run currently draws from.

    Attributes
    ----------
    table : AntitheticTable, GroupTable or None
    draws : Draws or None
        The order, applied to it; None if the data are not kept.
    worth : float
        By how much the table lowered the variance when it was made.
    """

    table: Table | None
    draws: Draws | None
    worth: float = 1.0

    def on(self, spec: Spec) -> Drawing:
        """Draw from the same table with the data of a spec."""
        return replace(self, draws=spec.draws(self.table))

    def without_data(self) -> Drawing:
        """What a resumed run needs of it."""
        return replace(self, draws=None)


def first_drawing(spec: Spec, table: Table | None = None) -> Drawing:
    """Start with a known table, with the one given, or with a new one."""
    pairs = spec.order.pairs
    if table is None and pairs is not None:
        table = pairs.first_table(spec.problem, spec.y, once=spec.order.once, seed=spec.seed)
    return Drawing(table, spec.draws(table))


def renewed(spec: Spec, run: Run) -> Run:
    """Rebuild the table if it is due; the order that the last epoch left is then discarded."""
    pairs, table = spec.order.pairs, run.drawing.table
    if pairs is None or table is None:
        return run

    def reduction() -> float:
        return reduction_of(table, spec.problem, _opposed(spec, run.state, run.own))

    if not pairs.is_due(run.state.epochs, reduction, run.drawing.worth):
        return run
    slopes = _opposed(spec, run.state, run.own)
    # gradients that are not corrected have changed little
    polish = run.state.epochs > 1 and spec.solver_name == "sgd"
    made = pairs.table_at(
        spec.problem,
        spec.y,
        slopes,
        once=spec.order.once,
        seed=spec.seed,
        polish=table if polish and isinstance(table, AntitheticTable) else None,
    )
    worth = reduction_of(made, spec.problem, slopes) if pairs.refresh == "auto" else 1.0
    return run._replace(drawing=Drawing(made, spec.draws(made), worth), order=None)


def _opposed(spec: Spec, state: State, own: Any) -> NDArray[np.float64]:
    """Slopes of the gradients that partners should oppose.

    Those that are stepped along, unless all of them are zero.
    """
    followed = spec.solver.followed(state, own)
    if followed.any():
        return followed
    return spec.problem.slopes(state.coef, state.intercept)


def automatic_step(spec: Spec, drawing: Drawing) -> float:
    """Constant step size of SVRG and SAGA.

    Members of a pair or group may lie on one line: their gradients cancel, but their curvatures add
    up. So a unit counts as one row.
    """
    table = drawing.table
    together = 1 if table is None else 2 if isinstance(table, AntitheticTable) else table.size
    assert drawing.draws is not None
    squares = drawing.draws.drawn_squares(row_squares(spec.problem))
    n_units = max(1, spec.batch_size // together)
    return safe_step(spec.problem, n_units, squares, spec.solver_name)


def step_by_step(
    spec: Spec, run: Run, batches: Batches, schedule: Schedule
) -> tuple[After, Drawing]:
    """Algorithm 2 to the letter: each step has a table made from the current gradients.

    The first row of each pair in the given batches is kept, and its partner is looked up again.
    """
    pairs, after, table = spec.order.pairs, After(run.state, run.own), run.drawing.table
    assert pairs is not None
    for rows in np.split(batches.rows, batches.starts[1:-1]):
        slopes = _opposed(spec, after.state, after.own)
        table = pairs.table_at(spec.problem, spec.y, slopes, once=False, seed=spec.seed)
        assert isinstance(table, AntitheticTable)
        drawn = rows.copy()
        drawn[1::2] = table.partner[drawn[: len(rows) // 2 * 2 : 2]]
        after = spec.solver.epoch(after.state, after.own, cut(drawn, batches.size), schedule)
    state = after.state._replace(epochs=run.state.epochs + 1)
    return after._replace(state=state), Drawing(table, spec.draws(table))
