"""What the estimators do not support on Dask, refused before the first task."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from antithetic._core.losses import PERCEPTRON
from antithetic.estimators.fitted import FittedLinearModel
from antithetic.orders import Order, Shuffle, Uniform
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.training.trace import measures_of

WORDS = {
    "learning_rate": ("auto", "inverse_time", "constant", "optimal", "invscaling"),
    "order": ("auto", "shuffle", "uniform"),
    "solver": ("auto", "newton", "svrg", "sgd"),
    "stopping": ("objective", "gradient"),
}
BATCH_SIZE = 2  # the default
_TRACES = ("objective", "gradient")


def check_words(model: FittedLinearModel) -> None:
    """Raise ValueError for words and orders that are not supported on Dask."""
    for name, allowed in WORDS.items():
        value = getattr(model, name)
        is_word = isinstance(value, str) and value not in allowed
        if is_word or (isinstance(value, Order) and not isinstance(value, (Shuffle, Uniform))):
            raise ValueError(_unsupported(f"{name}={value!r}", f"use {_listed(allowed)}"))


def check_supported(model: FittedLinearModel) -> None:
    """Raise ValueError for parameters that Dask does not support."""
    reason = next(_reasons(model), None)
    if reason is not None:
        raise ValueError(reason)


def traced(model: FittedLinearModel) -> tuple[str, ...]:
    """Names of what ``trace`` asks for, and of what ``stopping`` needs."""
    measures = measures_of(() if model.trace is None else model.trace, model._stop())
    return tuple(measure.name for measure in measures)


def _reasons(model: FittedLinearModel) -> Iterator[str]:
    """Messages about what is not supported."""
    order, names, loss = model._order(), traced(model), model._loss()
    if order is not None and order.pairs is not None:
        if order.pairs.given is not None:
            yield _unsupported(
                "a table in order=",
                "use a table from antithetic.dask.pair, in fit(..., table=table), or pairs='tree'",
            )
        if order.pairs.refresh is not None:
            what = f"Pairs(refresh={order.pairs.refresh!r})"
            yield _unsupported(what, "use Pairs without refresh, so that tables are kept")
    for name in names:
        if name not in _TRACES:
            yield _unsupported(f"trace={name!r}", f"use {_listed(_TRACES)}")
    if "gradient" in names and not _is_smooth(model):
        yield (
            "stopping='gradient' and trace='gradient' need a loss and a penalty without a kink,"
            " since the gradient need not vanish at a kink; use 'objective' instead"
        )
    if loss.name not in LOSSES:
        local = "SGDClassifier" if loss.classification else "SGDRegressor"
        yield (
            f"loss={loss.name!r} is not supported on Dask; use antithetic.{local} and its"
            " partial_fit, block by block"
        )
    if model.solver == "newton" and model.batch_size != BATCH_SIZE:
        yield "solver='newton' has no batches; leave out batch_size=, or use solver='svrg'"
    if loss.code == PERCEPTRON and model.solver != "sgd":
        yield (
            "loss='perceptron' has its minimum at zero weights, where solver='svrg' would stay; use"
            " solver='sgd', or loss='hinge'"
        )


def _is_smooth(model: FittedLinearModel) -> bool:
    penalty: Any = model.penalty
    if penalty is None or isinstance(penalty, (str, ElasticNet)):
        penalty = model._penalty(1)
    has_kink = not isinstance(penalty, ElasticNet) or penalty.l1 > 0.0
    return math.isfinite(model._loss().largest_curvature) and not has_kink


def _unsupported(what: str, instead: str) -> str:
    return f"{what} is not supported on Dask; {instead}"


def _listed(words: tuple[str, ...]) -> str:
    return f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"
