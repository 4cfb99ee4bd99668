"""States: small, private to each solver, never changed by the epochs that begin with them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from drive import draws_of
from scipy import sparse
from solver_cases import GROUPS, TWO, Box, X, make_data

from antithetic import Interrupted, minimize
from antithetic.exact.dual import Duals
from antithetic.orders import Balanced, Importance, Pairs, Shuffle
from antithetic.penalties import GroupLasso
from antithetic.problem import Problem
from antithetic.steps import Constant, InverseTime
from antithetic.stochastic import After, State, make_solver
from antithetic.stochastic.corrected import Remembered
from antithetic.stochastic.sgd import LAST, MEAN, Averages

pytestmark = pytest.mark.kernel

AVERAGES = [False, True, 30, "linear", "epoch"]
EPOCHS = 8
MANY, LABELS, _, _ = make_data(300)  # enough rows for some of them to rest

# solver, average and penalty
CASES = {
    **{f"sgd, average={average}": ("sgd", average, {"l2": 0.01}) for average in AVERAGES},
    **{f"sgd, l1, average={average}": ("sgd", average, {"l1": 0.02}) for average in AVERAGES},
    "sgd, groups": ("sgd", False, {"penalty": GroupLasso(GROUPS), "l1": 0.02}),
    "sgd, own penalty": ("sgd", False, {"penalty": Box(-0.5, 0.5)}),
    "svrg": ("svrg", False, {"l2": 0.01}),
    "svrg, l1": ("svrg", False, {"l1": 0.02}),
    "saga": ("saga", False, {"l2": 0.01}),
    "saga, l1": ("saga", False, {"l1": 0.02}),
    "saga, groups": ("saga", False, {"penalty": GroupLasso(GROUPS), "l1": 0.02}),
    "sdca": ("sdca", False, {"l2": 0.01}),
}
EVERY = pytest.mark.parametrize("case", CASES)
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
TYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def path_of(case, order="shuffle", form=np.asarray, dtype=np.float64, epochs=EPOCHS):
    """A solver, and how an epoch is made from a state; and where it leads, from the start on."""
    name, average, penalty = CASES[case]
    intercept = name != "sdca"
    problem = Problem.build(form(X.astype(dtype)), TWO, fit_intercept=intercept, **penalty)
    solver = make_solver(name, problem, average)
    sampler = draws_of(order, problem.n, 2, seed=1)
    schedule = Constant(0.05).schedule(problem.loss, problem.penalty)

    def go_on(after):
        batches = sampler.batches(after.state.epochs, after.order)
        return solver.epoch(after.state, after.own, batches, schedule)

    path = [After(*solver.init())]
    for _ in range(epochs):
        path.append(go_on(path[-1]))
    return path, go_on


def bits(value):
    """All numbers in nested tuples and arrays, as bytes: NaN equals NaN, and -0 is not 0."""
    if isinstance(value, tuple):
        return tuple(bits(part) for part in value)
    return None if value is None else (np.asarray(value).dtype.str, np.asarray(value).tobytes())


def arrays_in(value):
    if isinstance(value, tuple):
        return [array for part in value for array in arrays_in(part)]
    return [value] if isinstance(value, np.ndarray) else []


# ---- what a state is


def test_a_state_has_five_fields():
    """Weights, intercept, and how many steps, samples and epochs led to them."""
    assert State._fields == ("coef", "intercept", "steps", "samples", "epochs")


@EVERY
def test_a_state_counts_what_led_to_it(case):
    """Each epoch of 60 rows in batches of two adds 30 steps; a visit of SDCA is one row."""
    path, _ = path_of(case)
    steps = 60 if case == "sdca" else 30
    for epochs, after in enumerate(path):
        assert type(after.state) is State
        assert after.state[2:] == (epochs * steps, epochs * 60, epochs)


@pytest.mark.parametrize(
    ("case", "kind", "fields"),
    [
        ("sgd, average=True", Averages, ("coef", "intercept", "weight", "received", "settled")),
        ("sgd, groups", Remembered, ("slopes", "mean")),
        ("svrg", Remembered, ("slopes", "mean")),
        ("saga", Remembered, ("slopes", "mean")),
        ("sdca", Duals, ("values", "resting")),
    ],
)
def test_each_solver_keeps_a_small_tuple_of_its_own(case, kind, fields):
    """It is of one type from the start on, and holds nothing of another solver."""
    path, _ = path_of(case)
    assert kind._fields == fields
    assert {type(after.own) for after in path} == {kind}


def test_a_solver_keeps_only_what_it_needs():
    """No average, no charge of an L1 penalty and no slopes where these are not used."""
    plain, charged, averaged, groups, saga = (
        path_of(case)[0][-1].own
        for case in (
            "sgd, average=False",
            "sgd, l1, average=False",
            "sgd, average=True",
            "sgd, groups",
            "saga",
        )
    )
    assert plain == Averages()
    assert charged.coef is None
    assert charged.received.shape == (6,)
    assert averaged.received is None
    assert averaged.coef.shape == (5,)
    assert groups == Remembered()
    assert (saga.slopes.shape, saga.mean.shape) == ((60,), (6,))


# ---- epochs leave the state that they begin with alone


@EVERY
@FORMS
@TYPES
def test_continuing_twice_gives_the_same_bits(case, form, dtype):
    """From each state of a run, two epochs with the same batches lead to one and the same state.

    Neither changes an array of the state that it begins with.
    """
    path, go_on = path_of(case, form=form, dtype=dtype)
    kept = [bits(after) for after in path]
    for before, after in pairwise(path):
        assert bits(go_on(before)) == bits(go_on(before)) == bits(after)
    assert [bits(after) for after in path] == kept


@pytest.mark.parametrize("case", ["sgd, average=epoch", "sgd, l1, average=True", "svrg"])
@FORMS
def test_continuing_twice_along_a_balanced_order(case, form):
    """The order that an epoch leaves is not changed by the epoch that follows it."""
    path, go_on = path_of(case, order="balanced", form=form)
    kept = [bits(after) for after in path]
    for before, after in pairwise(path):
        assert bits(go_on(before)) == bits(after)
    assert [bits(after) for after in path] == kept


@EVERY
def test_a_state_shares_no_array_with_the_one_before(case):
    """An epoch copies what it changes; only the reference of resting rows is kept as it is."""
    path, _ = path_of(case)

    def changing(after):
        own = after.own._replace(resting=None) if case == "sdca" else after.own
        return arrays_in(after.state) + arrays_in(own)

    for before, after in pairwise(path):
        pairs = [(old, new) for old in changing(before) for new in changing(after)]
        assert not any(np.shares_memory(*both) for both in pairs)


@FORMS
@TYPES
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_rows_that_rest_belong_to_the_state(form, dtype, loss):
    """SDCA continues from any of its states, in any order and by another solver, to the same bits.

    The run is long enough that rows rest, and that their reference is renewed.
    """
    problem = Problem.build(form(MANY.astype(dtype)), LABELS, loss=loss, l2=0.01)
    sampler, schedule = (
        draws_of("shuffle", 300, 2),
        Constant(1.0).schedule(problem.loss, problem.penalty),
    )

    def go_on(after):
        batches = sampler.batches(after.state.epochs)
        return make_solver("sdca", problem).epoch(after.state, after.own, batches, schedule)

    path = [After(*make_solver("sdca", problem).init())]
    for _ in range(30):
        path.append(go_on(path[-1]))
    kept = [bits(after) for after in path]
    resting = [after.own.resting for after in path if after.own.resting is not None]
    if loss == "hinge":
        assert any((rest.limits > 0.0).any() for rest in resting)
        assert len({rest.reference.tobytes() for rest in resting}) > 1
    for before, after in reversed(list(pairwise(path))):
        assert bits(go_on(before)) == bits(go_on(before)) == bits(after)
    assert [bits(after) for after in path] == kept


def test_which_weights_were_better_does_not_matter_to_the_next_epoch():
    """A state that was looked at leads to the same bits as one that was not."""
    path, go_on = path_of("sgd, average=epoch", epochs=9)
    for before, after in pairwise(path[5:]):
        for settled in (MEAN, LAST):
            looked_at = before._replace(own=before.own._replace(settled=settled))
            assert bits(go_on(looked_at)) == bits(after)


# ---- runs that are interrupted


RUNS = {
    **{
        name: {
            "solver": solver,
            "average": average,
            "fit_intercept": solver != "sdca",
            "steps": InverseTime(0.1, 0.01) if solver == "sgd" else "auto",
            "order": "shuffle",
            **penalty,
        }
        for name, (solver, average, penalty) in CASES.items()
    },
    "automatic steps": {"l2": 0.01, "order": "balanced"},
    "automatic steps, a square": {"loss": "squared_hinge", "l2": 0.01, "fit_intercept": True},
    "balanced svrg": {"l2": 0.01, "order": Balanced(pairs="greedy"), "solver": "svrg"},
    "by gradients": {"l2": 0.01, "order": Importance("gradients"), "solver": "saga"},
    "refreshed pairs": {"l2": 0.01, "order": Shuffle(pairs=Pairs("tree", refresh="auto"))},
    "sdca, hinge": {"loss": "hinge", "l2": 0.05, "solver": "sdca"},
}


class Interruption:
    """A measure that interrupts the run once it is at an epoch; its name is all that is kept."""

    name = "interruption"

    def __init__(self, epoch=None):
        self.epoch = epoch

    def of(self, view):
        if view.run.state.epochs == self.epoch:
            raise KeyboardInterrupt
        return 0.0


def assert_same_run(one, other):
    """The same weights, private state, trace and count of epochs, to the bit."""
    assert one.coef.tobytes() == other.coef.tobytes()
    assert one.intercept == other.intercept
    assert bits((one.run.state, one.run.own, one.run.order)) == bits(
        (other.run.state, other.run.own, other.run.order)
    )
    assert one.trace.keys() == other.trace.keys()
    for name, column in one.trace.items():
        assert column.tobytes() == other.trace[name].tobytes()
    assert (one.run.lowered, one.run.easing.eased) == (other.run.lowered, other.run.easing.eased)


@pytest.mark.parametrize("name", RUNS)
@FORMS
def test_a_run_resumed_after_each_epoch_is_the_uninterrupted_one(name, form):
    """Every epoch may be the last of a call of minimize, and none of the results is changed."""
    given = RUNS[name] | {"trace": "objective"}
    rows = form(X)
    parts = [minimize(rows, TWO, epochs=0, **given)]
    for epochs in range(1, EPOCHS + 1):
        parts.append(minimize(rows, TWO, epochs=epochs, resume=parts[-1], **given))
    for epochs, part in enumerate(parts):
        assert_same_run(part, minimize(rows, TWO, epochs=epochs, **given))


@pytest.mark.parametrize("name", RUNS)
def test_an_interruption_loses_no_whole_epoch(name):
    """Ctrl-C in any epoch leaves the result of the last whole one, from which the run continues."""
    given, calm = RUNS[name], Interruption()
    whole = minimize(X, TWO, epochs=5, trace=calm, **given)
    for epoch in range(1, 6):
        with pytest.raises(Interrupted) as caught:
            minimize(X, TWO, epochs=5, trace=Interruption(epoch), **given)
        result = caught.value.result
        assert result.epochs == epoch - 1
        for _ in range(2):  # the result can be gone on from more than once
            assert_same_run(minimize(X, TWO, epochs=5, trace=calm, resume=result, **given), whole)


def test_long_runs_of_sdca_are_resumed_while_rows_rest():
    """A resumed run leaves out the same rows, and ends at the same bits."""
    given = {"loss": "hinge", "l2": 0.01, "solver": "sdca"}
    whole = minimize(MANY, LABELS, epochs=25, **given)
    part = minimize(MANY, LABELS, epochs=1, **given)
    rested = 0
    for epochs in range(2, 26):
        part = minimize(MANY, LABELS, epochs=epochs, resume=part, **given)
        rest = part.run.own.resting
        rested += 0 if rest is None else int((rest.limits > 0.0).sum())
    assert_same_run(part, whole)
    assert rested > 0


def test_the_weights_of_a_result_are_the_users_own():
    """Changing them in place does not change where a resumed run continues from."""
    given = {"l2": 0.01, "steps": 0.1}
    first, whole = minimize(X, TWO, epochs=2, **given), minimize(X, TWO, epochs=4, **given)
    first.coef[:] = 7.0
    assert_same_run(minimize(X, TWO, epochs=4, resume=first, **given), whole)
