"""What the estimators of one machine offer and those of a cluster do not: refused before the first task, with what is possible."""

from __future__ import annotations

from typing import Any

from antithetic.problem.losses import PERCEPTRON
from antithetic.solvers import Steps
from antithetic.training.tables import check_nest

_SOLVERS = ("svrg", "sgd")
_SAMPLINGS = ("auto", "shuffle", "uniform")


def check_supported(estimator: Any) -> None:
    """Raise ValueError for parameters that blocks cannot have."""
    for reason in _reasons(estimator):
        if reason is not None:
            raise ValueError(
                f"{reason} (on one machine, antithetic.{type(estimator).__name__} takes it)"
            )
    own = estimator
    if own.penalty == "elasticnet" and own.l1_ratio is None:
        raise ValueError("l1_ratio must be set when penalty is 'elasticnet'")
    if (own.penalty == "group_lasso") != (own.groups is not None):
        raise ValueError("penalty='group_lasso' and groups= belong together; give both or neither")
    if not own.shuffle and (
        own.sampling not in ("auto", "shuffle") or own.pairing not in (None, "auto")
    ):
        raise ValueError(
            "shuffle=False takes the rows in the order given: leave sampling= and pairing= out"
        )
    if own.stopping == "gradient" and own.tol is None:
        raise ValueError(
            "stopping='gradient' ends a run once that is at most tol, so it needs tol, say 1e-6"
        )
    nest = None if isinstance(own.nest, str) else check_nest(own.nest)
    if nest is not None and own.pairing in (None, "auto"):
        raise ValueError(
            "nest= refines a pairing, and 'auto' makes none; name one, say pairing='tree'"
        )
    if nest is True and own.sampling == "uniform":
        raise ValueError(
            "nested groups are an order, which draws with replacement have not; use"
            " sampling='shuffle', or nest=8, say"
        )
    own._schedule(Steps(1.0, 0.0))
    if own._loss().code == PERCEPTRON and own.solver != "sgd":
        raise ValueError(
            "loss 'perceptron' is least at zero weights, where a search would stay; use"
            " solver='sgd', or loss='hinge'"
        )
    if getattr(own, "_skl_callbacks", None):
        raise ValueError(
            "callbacks are for the estimators of one machine; here, verbose=1 prints a line per"
            " round, history_ keeps them"
        )


def _reasons(own: Any) -> Any:
    """Sentences for what cannot be had, or None."""
    yield (
        None
        if own.solver in _SOLVERS
        else f"solver={own.solver!r} keeps a number per row; use solver='svrg' or 'sgd'"
    )
    yield (
        None
        if own.sampling in _SAMPLINGS
        else (
            f"sampling={own.sampling!r} cannot be had on blocks, whose orders follow from seed and"
            " round alone; use 'shuffle' or 'uniform'"
        )
    )
    yield (
        None
        if not own.average
        else "average= cannot be had on blocks, whose models are averaged each round; leave it out"
    )
    yield (
        None
        if not own.early_stopping
        else "early_stopping cannot be had on blocks; use tol=, or stopping='gradient'"
    )
    yield (
        None
        if own.stopping != "gap"
        else "stopping='gap' cannot be had on blocks; use 'objective' or 'gradient'"
    )
    yield (
        None
        if own.learning_rate not in ("adaptive", "pa1", "pa2")
        else (
            f"learning_rate={own.learning_rate!r} cannot be had on blocks; use 'auto', which finds"
            " its steps"
        )
    )
    yield (
        None
        if own.refresh is None or own.refresh == "auto"
        else "refresh= cannot be had on blocks; leave it out"
    )
    yield None if own.n_strata is None else "n_strata= cannot be had on blocks; leave it out"
    other = set(own._trace()) - {"objective", "gradient"}
    yield (
        None
        if not other
        else f"trace={sorted(other)[0]!r} cannot be had on blocks; use 'objective' or 'gradient'"
    )
    smooth = own._loss().curvature < float("inf") and own.penalty in (None, "l2")
    needs = own.stopping == "gradient" or "gradient" in own._trace()
    yield (
        None
        if smooth or not needs
        else "the gradient need not vanish with a kink in loss or penalty; use stopping='objective'"
    )
