"""Given(function): rows in the order that a function gives for each epoch."""

from __future__ import annotations

import re

import numpy as np
import pytest
from drive import draws_of
from solver_cases import TWO, X

from antithetic import SGDClassifier, minimize, pair
from antithetic.orders import Given
from antithetic.orders.order import InOrder

RUN = {"l2": 0.05, "steps": 0.1, "epochs": 3}


def reversed_rows(epoch):
    return np.roll(np.arange(len(X))[::-1], epoch)


@pytest.mark.parametrize("solver", ["sgd", "svrg", "saga", "sdca"])
def test_the_solvers_visit_rows_in_that_order(solver):
    """The solvers behave as if the rows were stored in the given order, in every epoch."""
    given = {"l2": 0.05, "solver": solver, "epochs": 1}
    given |= {} if solver == "sdca" else {"steps": 0.1}
    own = minimize(X, TWO, order=Given(reversed_rows), **given)
    turned = minimize(X[::-1].copy(), TWO[::-1].copy(), order=InOrder(), **given)
    np.testing.assert_array_equal(own.coef, turned.coef)


def test_every_epoch_is_asked_for_by_its_number():
    """The function is called once per epoch, with 0, 1, 2 and so on."""
    asked = []

    def order(epoch):
        asked.append(epoch)
        return reversed_rows(epoch)

    minimize(X, TWO, order=Given(order), **RUN)
    assert asked == [0, 1, 2]


def test_batches_are_cut_from_it():
    """Batches are consecutive rows of the order, the last one shorter."""
    sampler = draws_of(Given(lambda _: [2, 0, 1, 4, 3]), 5, 2, 0)
    batches = sampler.batches(0)
    assert batches.rows.tolist() == [2, 0, 1, 4, 3]
    assert batches.starts.tolist() == [0, 2, 4, 5]


def test_a_run_is_resumed_and_traced():
    """The trace asks for the epoch to come, and a resumed run begins with that."""
    given = RUN | {"order": Given(reversed_rows), "trace": ["variance_ratio", "partial_sum"]}
    whole, first = minimize(X, TWO, **given), minimize(X, TWO, **given | {"epochs": 1})
    rest = minimize(X, TWO, resume=first, **given)
    np.testing.assert_array_equal(rest.coef, whole.coef)
    np.testing.assert_array_equal(rest.trace["variance_ratio"], whole.trace["variance_ratio"])


@pytest.mark.parametrize(
    ("order", "what"),
    [
        (lambda _: np.arange(len(X) - 1), f"{len(X)} whole numbers, one for each row"),
        (lambda _: np.arange(len(X)) / 1.0, "whole numbers"),
        (lambda _: None, "whole numbers"),
        (lambda _: np.zeros(len(X), int), "once; otherwise some rows would count more than others"),
        (lambda _: np.arange(len(X)) + 1, f"each of 0..{len(X) - 1} exactly once"),
        (lambda _: np.arange(len(X)) - 1, f"each of 0..{len(X) - 1} exactly once"),
    ],
    ids=["too few", "floats", "nothing", "repeated", "beyond", "negative"],
)
def test_what_is_not_an_order_of_all_rows_is_refused(order, what):
    """An epoch that leaves a row out, or repeats one, is refused with what is needed."""
    with pytest.raises(ValueError, match=re.escape(what)):
        minimize(X, TWO, order=Given(order), **RUN)


def test_a_bare_function_is_refused_with_advice():
    """A function in place of an order is refused, and the error names Given."""
    with pytest.raises(ValueError, match=r"wrap it as Given\(function\)"):
        minimize(X, TWO, order=reversed_rows, **RUN)


def test_it_takes_no_table():
    """An order that is given leaves no choice to a table: fit(table=) is refused with advice."""
    model = SGDClassifier("log_loss", order=Given(reversed_rows))
    with pytest.raises(ValueError, match="leave table= out, or use order='shuffle'"):
        model.fit(X, TWO, table=pair(X, TWO))
    with pytest.raises(TypeError, match="pairs"):
        Given(reversed_rows, pairs=pair(X, TWO))
