"""All combinations of pairs, order, solver and penalty: which work, and why others do not.

Each part says what it refuses; this only asks them, for the page of combinations and the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from antithetic.orders import Order, Pairs
from antithetic.orders.order import ORDERS
from antithetic.problem.losses import get_loss
from antithetic.problem.penalties import ElasticNet, GroupLasso, OwnPenalty, Penalty
from antithetic.stochastic import SOLVERS
from antithetic.stochastic.plan import order_of_the_paper
from antithetic.stochastic.solver import Choice
from antithetic.stochastic.spec import reason_against
from antithetic.stochastic.steps import Auto

PAIRS: dict[str, Pairs | None] = {
    "rows": None,
    "pairs": Pairs("greedy"),
    "groups": Pairs("tree", nest=4),
    "nested order": Pairs("tree", nest=True),
}


class _Nothing:
    """Stands for a penalty of the user's own."""

    separable = True

    def value(self, w: Any) -> float:  # noqa: ARG002
        return 0.0

    def prox(self, w: Any, step: float) -> Any:  # noqa: ARG002
        return w


PENALTIES: dict[str, Penalty] = {
    "none": ElasticNet(),
    "l2": ElasticNet(l2=1.0),
    "l1": ElasticNet(l1=1.0),
    "elastic net": ElasticNet(l2=1.0, l1=1.0),
    "group lasso": GroupLasso([[0]]).on(1, l1=1.0),
    "own": OwnPenalty(_Nothing()),
}


class Combination(NamedTuple):
    """One choice on each axis: names in ``PAIRS``, ``ORDERS``, ``SOLVERS`` and ``PENALTIES``.

    The order may also be "auto", which has no pairs.
    """

    pairs: str
    order: str
    solver: str
    penalty: str

    def make_order(self) -> Order:
        """Return the order as an object."""
        if self.order == "auto":
            return order_of_the_paper(self.solver)
        return ORDERS[self.order](pairs=PAIRS[self.pairs])  # type: ignore[call-arg]


def refusal(chosen: Combination, *, loss: str = "log_loss") -> str | None:
    """Why a combination does not work, and what to use instead; None if it works.

    It is the same for dense and sparse rows.

    Examples
    --------
    >>> refusal(Combination("pairs", "importance", "saga", "l1")) is None
    True
    >>> refusal(Combination("rows", "balanced", "saga", "l2"))[:35]
    'order="balanced" makes half of SAGA'
    """
    penalty = PENALTIES[chosen.penalty]
    return reason_against(
        Choice(chosen.solver, chosen.make_order(), penalty, get_loss(loss), Auto())
    )


def every_combination() -> Iterator[Combination]:
    """All combinations, in order."""
    for solver in SOLVERS:
        for penalty in PENALTIES:
            yield Combination("rows", "auto", solver, penalty)
        for order in ORDERS:
            for pairs in PAIRS:
                for penalty in PENALTIES:
                    yield Combination(pairs, order, solver, penalty)


def matrix() -> str:
    """All combinations as Markdown, which the page ``docs/composition.md`` shows.

    There is a table per solver, whose cells name the penalties that work, and below are the
    sentences of the refusals.
    """
    reasons: dict[str, int] = {}
    parts = []
    for solver in SOLVERS:
        lines = [
            f'**`solver="{solver}"`**',
            "",
            f"| order | {' | '.join(PAIRS)} |",
            "|---|" + "---|" * len(PAIRS),
        ]
        for order in ("auto", *ORDERS):
            cells = [_cell(pairs, order, solver, reasons) for pairs in PAIRS]
            lines.append(f"| {order} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    parts.append("\n".join(f"{number}. {reason}" for reason, number in reasons.items()))
    return "\n\n".join(parts)


def _cell(pairs: str, order: str, solver: str, reasons: dict[str, int]) -> str:
    """Penalties that work in one place of the matrix, and numbers of the reasons against others."""
    if order == "auto" and PAIRS[pairs] is not None:
        return "-"
    working, numbers = [], []
    for penalty in PENALTIES:
        reason = refusal(Combination(pairs, order, solver, penalty))
        if reason is None:
            working.append(penalty)
        else:
            numbers.append(reasons.setdefault(reason, len(reasons) + 1))
    text = "all" if not numbers else ", ".join(working) or "none"
    return text + (f" ({', '.join(map(str, sorted(set(numbers))))})" if numbers else "")
