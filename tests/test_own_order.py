"""Orders of the user's own: a function from epochs to rows."""

from __future__ import annotations

import re

import numpy as np
import pytest
from solver_cases import TWO, X

from antithetic import minimize, pair
from antithetic.orders import make_sampler

RUN = {"l2": 0.05, "eta0": 0.1, "epochs": 3}


def reversed_rows(epoch):
    return np.roll(np.arange(len(X))[::-1], epoch)


@pytest.mark.parametrize("solver", ["sgd", "svrg", "saga", "sdca"])
def test_the_solvers_visit_rows_in_that_order(solver):
    """The solvers behave as if the rows were stored in the given order, in every epoch."""
    given = {"l2": 0.05, "solver": solver, "epochs": 1} | (
        {} if solver == "sdca" else {"eta0": 0.1}
    )
    own = minimize(X, TWO, sampling=reversed_rows, **given)
    turned = minimize(X[::-1].copy(), TWO[::-1].copy(), sampling="in order", **given)
    np.testing.assert_array_equal(own.coef, turned.coef)


def test_every_epoch_is_asked_for_by_its_number():
    asked = []

    def order(epoch):
        asked.append(epoch)
        return reversed_rows(epoch)

    minimize(X, TWO, sampling=order, **RUN)
    assert asked == [0, 1, 2]


def test_batches_are_cut_from_it():
    sampler = make_sampler(lambda _: [2, 0, 1, 4, 3], 5, 2, 0)
    batches = sampler.batches(0)
    assert batches.rows.tolist() == [2, 0, 1, 4, 3]
    assert batches.starts.tolist() == [0, 2, 4, 5]


def test_a_run_is_resumed_and_traced():
    """The trace asks for the epoch to come, and a resumed run begins with that."""
    whole = minimize(X, TWO, sampling=reversed_rows, trace=["variance_ratio", "partial_sum"], **RUN)
    first = minimize(
        X,
        TWO,
        sampling=reversed_rows,
        trace=["variance_ratio", "partial_sum"],
        **RUN | {"epochs": 1},
    )
    rest = minimize(
        X, TWO, sampling=reversed_rows, trace=["variance_ratio", "partial_sum"], resume=first, **RUN
    )
    np.testing.assert_array_equal(rest.coef, whole.coef)
    np.testing.assert_array_equal(rest.trace["variance_ratio"], whole.trace["variance_ratio"])


@pytest.mark.parametrize(
    ("order", "what"),
    [
        (lambda _: np.arange(len(X) - 1), f"{len(X)} whole numbers, one for each row"),
        (lambda _: np.arange(len(X)) / 1.0, "whole numbers"),
        (lambda _: None, "whole numbers"),
        (lambda _: np.zeros(len(X), int), "once, or rows would count more than others"),
        (lambda _: np.arange(len(X)) + 1, f"each of 0..{len(X) - 1} once"),
        (lambda _: np.arange(len(X)) - 1, f"each of 0..{len(X) - 1} once"),
    ],
    ids=["too few", "floats", "nothing", "repeated", "beyond", "negative"],
)
def test_an_order_that_is_none_is_refused(order, what):
    with pytest.raises(ValueError, match=re.escape(what)):
        minimize(X, TWO, sampling=order, **RUN)


def test_it_goes_without_a_table():
    with pytest.raises(ValueError, match="leave pairing= and table= out"):
        minimize(X, TWO, sampling=reversed_rows, table=pair(X, TWO), **RUN)
