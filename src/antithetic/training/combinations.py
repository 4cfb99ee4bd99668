"""Which pairings, samplings, solvers and penalties go together.

The others are refused before the first step, with what to use instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from antithetic.orders import ONCE_PER_EPOCH, SAMPLINGS
from antithetic.problem.losses import Loss
from antithetic.problem.penalties import ElasticNet, GroupLasso, Penalty
from antithetic.solvers import SOLVERS

PAIRINGS = ("rows", "pairs", "groups", "nested order")
PENALTIES = ("none", "l2", "l1", "elastic net", "group lasso", "own")
STOPPINGS = ("objective", "gradient", "gap")


class Combination(NamedTuple):
    """One choice on each axis: ``pairing`` in ``PAIRINGS``, ``sampling`` in ``SAMPLINGS``, and so on."""

    pairing: str
    sampling: str
    solver: str
    penalty: str


def refusal(chosen: Combination, *, has_kink: bool = False) -> str | None:
    """Why a combination cannot be had, and what to use instead; None if it can.

    Dense and sparse rows are alike in this. A loss that has a kink is not for SAGA, so that is not
    offered then.

    Examples
    --------
    >>> refusal(Combination("pairs", "importance", "saga", "l1")) is None
    True
    >>> refusal(Combination("rows", "shuffle", "sdca", "l1"))
    'solver="sdca" takes an L2 penalty, alone and above 0; use penalty="l2" (minimize: l2=, without l1= and penalty=), or solver="saga"'
    """
    if chosen.pairing == "nested order" and chosen.sampling not in ONCE_PER_EPOCH:
        return (
            "nested groups are an order, which draws with replacement have not; use"
            ' sampling="shuffle" or "balanced", or nest=8, say'
        )
    if chosen.sampling == "balanced" and chosen.solver == "saga":
        # of two rows one goes from the front to the back and is remembered for two epochs:
        # measured, it loses linear convergence
        return (
            'sampling="balanced" lets half of what SAGA remembers grow old; use sampling="shuffle",'
            ' or solver="svrg" or "sgd"'
        )
    if chosen.sampling == "balanced" and chosen.solver == "sdca":
        return (
            'sampling="balanced" orders gradients, and solver="sdca" steps along none; use'
            ' sampling="shuffle", or solver="sgd"'
        )
    if chosen.solver == "sdca" and chosen.penalty != "l2":
        return (
            'solver="sdca" takes an L2 penalty, alone and above 0; use penalty="l2" (minimize:'
            f' l2=, without l1= and penalty=), or solver="{_instead_of_sdca(has_kink)}"'
        )
    return None


def _instead_of_sdca(has_kink: bool) -> str:
    return "sgd" if has_kink else "saga"


def _named(penalty: str) -> str:
    return 'penalty="group_lasso"' if penalty == "group lasso" else "a penalty of your own"


def every_combination() -> Iterator[Combination]:
    """All there are, in order."""
    for solver in SOLVERS:
        for sampling in SAMPLINGS:
            for pairing in PAIRINGS:
                for penalty in PENALTIES:
                    yield Combination(pairing, sampling, solver, penalty)


def name_pairing(pairing: Any, nest: Any) -> str:
    """Name of what travels together."""
    if pairing is None:
        return "rows"
    if nest is None:
        return "pairs"
    return "nested order" if nest is True else "groups"


def name_penalty(penalty: Penalty) -> str:
    """Name of a penalty."""
    if isinstance(penalty, ElasticNet):
        return {
            (False, False): "none",
            (True, False): "l2",
            (False, True): "l1",
            (True, True): "elastic net",
        }[penalty.l2 > 0.0, penalty.l1 > 0.0]
    return "group lasso" if isinstance(penalty, GroupLasso) else "own"


def check_combination(
    pairing: Any,
    nest: Any,
    sampling: str | Callable[[int], Any],
    solver: str,
    penalty: Penalty,
    loss: Loss,
    *,
    average: Any = False,
    learning_rate: str = "auto",
    intercept: bool = False,
) -> None:
    """Raise ValueError for names that are not known and for what does not go together."""
    if solver not in SOLVERS:
        raise ValueError(f"solver {solver!r} is not known; use one of {', '.join(SOLVERS)}")
    if not callable(sampling) and sampling not in (*SAMPLINGS, "in order"):
        raise ValueError(
            f"sampling {sampling!r} is not known; use one of {', '.join(SAMPLINGS)}, or a function"
            " from epochs to orders"
        )
    if callable(sampling) and pairing is not None:
        raise ValueError(
            "an order of your own says by itself which rows travel together; leave pairing= and"
            " table= out"
        )
    known = (
        "shuffle" if callable(sampling) or sampling == "in order" else sampling
    )  # an order like any other
    has_kink = not math.isfinite(loss.curvature)
    reason = refusal(
        Combination(name_pairing(pairing, nest), known, solver, name_penalty(penalty)),
        has_kink=has_kink,
    )
    if reason is not None:
        raise ValueError(reason)
    plain = solver == "sgd" and isinstance(penalty, ElasticNet)
    if average and not plain:
        with_what = f"solver={solver!r}" if solver != "sgd" else _named(name_penalty(penalty))
        raise ValueError(
            f"average= takes noise out of SGD's weights, and is not there with {with_what}; leave"
            " it out"
        )
    if learning_rate in ("pa1", "pa2") and not plain:
        raise ValueError(
            f'learning_rate={learning_rate!r} is a rule for solver="sgd" with L2 or L1 penalties;'
            ' use learning_rate="auto"'
        )
    if intercept and solver == "sdca":
        raise ValueError(
            'solver="sdca" has no intercept that is not penalised: use fit_intercept=False, or add'
            f' a column of ones, or solver="{_instead_of_sdca(has_kink)}"'
        )
    if has_kink and learning_rate == "auto" and solver in ("svrg", "saga"):
        dual = (
            ', or solver="sdca"'
            if loss.name == "hinge" and not intercept and name_penalty(penalty) == "l2"
            else ""
        )
        raise ValueError(
            f"loss {loss.name!r} has a kink, so no step size for solver={solver!r} follows from its"
            " smoothness; "
            'give learning_rate="constant", say, and eta0=, or use a loss without a kink, or'
            f' solver="sgd"{dual}'
        )
    if learning_rate != "auto" and solver == "sdca":
        raise ValueError(
            'solver="sdca" has no step size: leave learning_rate= and eta0= out, or use'
            ' learning_rate="auto"'
        )


def check_stopping(stopping: str) -> str:
    """Return what ``tol`` is compared with."""
    if stopping not in STOPPINGS:
        raise ValueError(f"stopping {stopping!r} is not known; use one of {', '.join(STOPPINGS)}")
    return stopping


def matrix() -> str:
    """All combinations as Markdown: a table per solver, whose cells name the penalties that work, and the sentences of the refusals.

    The page ``docs/composition.md`` shows it.
    """
    reasons: dict[str, int] = {}
    parts = []
    for solver in SOLVERS:
        lines = [
            f'**`solver="{solver}"`**',
            "",
            f"| sampling | {' | '.join(PAIRINGS)} |",
            "|---|" + "---|" * len(PAIRINGS),
        ]
        for sampling in SAMPLINGS:
            cells = [_cell(pairing, sampling, solver, reasons) for pairing in PAIRINGS]
            lines.append(f"| {sampling} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    parts.append("\n".join(f"{number}. {reason}" for reason, number in reasons.items()))
    return "\n\n".join(parts)


def _cell(pairing: str, sampling: str, solver: str, reasons: dict[str, int]) -> str:
    """Penalties that work in one place of the matrix, and the numbers of the reasons why others do not."""
    working, numbers = [], []
    for penalty in PENALTIES:
        reason = refusal(Combination(pairing, sampling, solver, penalty))
        if reason is None:
            working.append(penalty)
        else:
            numbers.append(reasons.setdefault(reason, len(reasons) + 1))
    text = "all" if not numbers else ", ".join(working) or "none"
    return text + (f" ({', '.join(map(str, sorted(set(numbers))))})" if numbers else "")
