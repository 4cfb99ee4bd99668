"""Steps and rules for the end as objects: values that check themselves, and what words mean."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from solver_cases import TWO, X

from antithetic import minimize, steps, stopping
from antithetic.steps import (
    PA1,
    PA2,
    Adaptive,
    Auto,
    Constant,
    InverseTime,
    InvScaling,
    Optimal,
)
from antithetic.stochastic import loop
from antithetic.stochastic.steps import Steps, read_steps
from antithetic.stochastic.stopping import check_stop
from antithetic.stopping import Stalled, Target

RUN = {"l2": 0.05, "epochs": 3}
WITH_ETA0 = [InverseTime, Constant, InvScaling, Adaptive, PA1, PA2]
WITH_DECAY = [lambda decay: Auto(decay=decay), lambda decay: InverseTime(0.1, decay=decay)]
MADE = [  # an object, and its repr
    (Auto, "Auto()"),
    (lambda: Auto(decay=0.5), "Auto(decay=0.5)"),
    (lambda: InverseTime(0.1), "InverseTime(0.1)"),
    (lambda: InverseTime(0.1, 0.0), "InverseTime(0.1, decay=0.0)"),
    (lambda: InverseTime(0.2), "InverseTime(0.2)"),
    (lambda: Constant(0.1), "Constant(0.1)"),
    (Optimal, "Optimal()"),
    (lambda: Optimal(0.1), "Optimal(alpha=0.1)"),
    (lambda: InvScaling(0.1), "InvScaling(0.1)"),
    (lambda: InvScaling(0.1, 0.25), "InvScaling(0.1, power=0.25)"),
    (lambda: Adaptive(0.1), "Adaptive(0.1)"),
    (lambda: PA1(0.1), "PA1(0.1)"),
    (lambda: PA2(0.1), "PA2(0.1)"),
    (lambda: Stalled(1e-3), "Stalled(0.001)"),
    (lambda: Stalled(1e-3, epochs=2), "Stalled(0.001, epochs=2)"),
    (lambda: Stalled(1e-3, of="gap"), "Stalled(0.001, of='gap')"),
    (lambda: Target("gap", 1e-6), "Target('gap', tol=1e-06)"),
    (lambda: Target("gradient", 1e-6), "Target('gradient', tol=1e-06)"),
    (lambda: Target("gap", 1e-3), "Target('gap', tol=0.001)"),
]


# ---- values


@pytest.mark.parametrize(("make", "text"), MADE, ids=[text for _, text in MADE])
def test_they_are_values(make, text):
    """Objects with the same settings are equal, hashable, frozen, and pasted back from the repr."""
    made = make()
    assert repr(made) == text
    pasted = eval(text, vars(steps) | vars(stopping))
    copies = (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)))
    for other in (make(), pasted, *copies):
        assert other == made
        assert hash(other) == hash(made)
    for name in ("eta0", "tol", "decay", "anything"):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(made, name, 1.0)


def test_objects_that_differ_are_not_equal():
    """Another class or another setting makes another value."""
    made = [make() for make, _ in MADE]
    for place, one in enumerate(made):
        assert [other == one for other in made] == [k == place for k in range(len(made))], one


def test_numbers_of_any_type_are_plain_floats():
    """Integers and NumPy's numbers are equal to the floats that they mean."""
    for eta0 in (1, np.float32(1.0), np.int64(1)):
        assert Constant(eta0) == Constant(1.0)
        assert repr(Constant(eta0)) == "Constant(1.0)"
        assert InverseTime(1.0, eta0) == InverseTime(1.0, 1.0)
    assert Stalled(1) == Stalled(np.float64(1.0))
    assert Target("gap", 0) == Target("gap", 0.0)


def test_the_modules_list_what_they_have():
    """antithetic.steps and antithetic.stopping name all objects, and each is a value."""
    listed = [make().__class__.__name__ for make, _ in MADE]
    assert {*listed} == {*steps.__all__, *stopping.__all__} - {"Steps"}
    assert all(issubclass(getattr(steps, name), Steps) for name in steps.__all__)


# ---- wrong settings


@pytest.mark.parametrize("kind", WITH_ETA0)
@pytest.mark.parametrize("eta0", [0, -1, float("nan"), float("inf"), "a", True, None, [0.1]])
def test_a_first_step_that_is_not_positive_is_refused(kind, eta0):
    """The error names eta0, the object, what is allowed and what was given."""
    message = f"eta0 of {kind.__name__} must be a finite number above 0; got "
    with pytest.raises(ValueError, match=message) as refused:
        kind(eta0)
    assert str(refused.value).endswith(repr(eta0))


@pytest.mark.parametrize("make", WITH_DECAY, ids=["Auto", "InverseTime"])
@pytest.mark.parametrize("decay", [-1, float("nan"), float("inf"), "a", True])
def test_a_negative_decay_is_refused(make, decay):
    """The error names decay, the object, and what is allowed."""
    with pytest.raises(
        ValueError, match=r"decay of \w+ must be a finite number, at least 0, or None; got"
    ):
        make(decay)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InvScaling(0.1, power=np.nan), "power of InvScaling must be a finite number"),
        (lambda: InvScaling(0.1, power=np.inf), "power of InvScaling must be a finite number"),
        (
            lambda: InvScaling(0.1, power="a"),
            "power of InvScaling must be a finite number; got 'a'",
        ),
        (lambda: InvScaling(0.1, power=None), "power of InvScaling must be a finite number"),
        (lambda: Optimal(0.0), "alpha of Optimal must be a finite number above 0; got 0.0"),
        (lambda: Optimal("a"), "alpha of Optimal must be a finite number above 0; got 'a'"),
        (lambda: Stalled(np.nan), "tol of Stalled must be a number; got nan"),
        (lambda: Stalled("a"), "tol of Stalled must be a number; got 'a'"),
        (lambda: Stalled(True), "tol of Stalled must be a number; got True"),
        (lambda: Stalled(None), "tol of Stalled must be a number; got None"),
        (lambda: Stalled(1e-3, epochs=0), "epochs of Stalled must be .*at least 1; got 0"),
        (lambda: Stalled(1e-3, epochs=1.5), "epochs of Stalled must be a whole number"),
        (lambda: Stalled(1e-3, of=3), 'of= of Stalled must be "objective" or a name in the trace'),
        (lambda: Target("time", 1.0), "of= of Target must be one of gradient, gap; got 'time'"),
        (lambda: Target("objective", 1.0), "must be one of gradient, gap; got 'objective'"),
        (lambda: Target(1e-3, "gap"), "must be one of gradient, gap; got 0.001"),
        (lambda: Target("gap", np.nan), "tol of Target must be a number; got nan"),
        (lambda: Target("gap", None), "tol of Target must be a number; got None"),
    ],
)
def test_wrong_settings_are_refused_when_the_object_is_made(make, message):
    """The error names the argument, what was given and what is allowed."""
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", [*WITH_ETA0, Stalled, Target])
def test_what_has_no_default_must_be_given(kind):
    """A first step and a tolerance are never guessed."""
    with pytest.raises(TypeError, match=r"missing .* required positional argument"):
        kind()


# ---- words and numbers


@pytest.mark.parametrize(
    ("given", "solver", "meant"),
    [
        ("auto", "sgd", Auto()),
        ("auto", "saga", Auto()),
        ("auto", "sdca", Auto()),
        ("optimal", "sgd", Optimal()),
        (0.1, "sgd", InverseTime(0.1)),
        (1, "sgd", InverseTime(1.0)),
        (np.float32(0.5), "sgd", InverseTime(0.5)),
        (0.1, "svrg", Constant(0.1)),
        (0.1, "saga", Constant(0.1)),
        (PA1(0.1), "sgd", PA1(0.1)),
    ],
)
def test_words_and_numbers_mean_objects(given, solver, meant):
    """A number is the paper's first step for SGD, and a constant step for SVRG and SAGA."""
    assert read_steps(given, solver) == meant


@pytest.mark.parametrize("given", [0.1, "optimal", "auto"])
def test_words_and_numbers_give_the_bits_of_their_objects(given):
    """minimize runs the same steps for a word or number and for the object it means."""
    named, meant = (
        minimize(X, TWO, steps=one, **RUN).coef for one in (given, read_steps(given, "sgd"))
    )
    np.testing.assert_array_equal(named, meant)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("fast", "steps 'fast' is not known"),
        ("constant", "steps 'constant' is not known"),
        (None, "steps of type NoneType is not known"),
        (True, "steps of type bool is not known"),
        ([0.1], "steps of type list is not known"),
        (Constant, "steps <class .*Constant'> is not known"),
    ],
    ids=str,
)
def test_minimize_refuses_unknown_steps(given, message):
    """The error says what was given, and names words, a number and an object."""
    allowed = 'use "auto", "optimal", a first step size, or an object of antithetic.steps, say Inv'
    with pytest.raises(ValueError, match=message) as refused:
        minimize(X, TWO, steps=given, **RUN)
    assert allowed in str(refused.value)


@pytest.mark.parametrize("steps", [0, -0.1, float("nan")])
def test_minimize_refuses_a_first_step_that_is_not_positive(steps):
    """A number is checked like the object that it means."""
    with pytest.raises(ValueError, match="eta0 of InverseTime must be a finite number above 0"):
        minimize(X, TWO, steps=steps, **RUN)


@pytest.mark.parametrize("stop", [1e-3, "gradient", True, ("gap", 1e-3), Stalled])
def test_minimize_refuses_unknown_rules_for_the_end(stop):
    """A tolerance alone is refused; the error names the two objects."""
    message = (
        r'stop must be None, Stalled\(tol\), Target\("gradient", tol\) or Target\("gap", tol\); got'
    )
    with pytest.raises(ValueError, match=message):
        minimize(X, TWO, stop=stop, **RUN)
    assert check_stop(None) is None
    assert check_stop(Stalled(1e-3)) == Stalled(1e-3)


def test_minimize_refuses_what_is_not_an_order():
    """The error names the words that are known, and the module of the objects."""
    message = "order of type int is not known; use one of auto, .*or an object of antithetic.orders"
    with pytest.raises(ValueError, match=message):
        minimize(X, TWO, order=3, **RUN)


# ---- what does not go together


@pytest.mark.parametrize("stop", [None, Target("gradient", 1e-3), Target("gap", 1e-3)], ids=str)
def test_adaptive_steps_need_a_rule_that_says_when(monkeypatch, stop):
    """Adaptive steps without Stalled are refused before the first step, with what to use."""
    monkeypatch.setattr(loop, "present_schedule", lambda *_: pytest.fail("a run began"))
    with pytest.raises(ValueError, match=r"give stop=Stalled\(tol\), say Stalled\(1e-3\), or use"):
        minimize(X, TWO, steps=Adaptive(0.1), stop=stop, **RUN)


def test_the_advice_for_adaptive_steps_leads_to_a_run():
    """Adaptive steps run with Stalled(1e-3), and automatic steps without."""
    assert minimize(X, TWO, steps=Adaptive(0.1), stop=Stalled(1e-3), **RUN).epochs == 3
    assert minimize(X, TWO, steps="auto", **RUN).epochs == 3


def test_what_is_watched_must_be_recorded(monkeypatch):
    """Stalled(of=) something that is not in the trace is refused before the first step."""
    stop = Stalled(1e9, epochs=1, of="gradient")  # which ends a run as soon as it can
    assert minimize(X, TWO, stop=stop, trace="gradient", **RUN | {"epochs": 9}).epochs < 9
    monkeypatch.setattr(loop, "present_schedule", lambda *_: pytest.fail("a run began"))
    with pytest.raises(ValueError, match="not in the trace; add it to trace="):
        minimize(X, TWO, stop=stop, **RUN)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": "optimal", "l2": 0.0}, "need l2 or l1 above 0; use InverseTime or Constant"),
        ({"steps": PA1(1.0)}, "'pa1' only works with loss 'hinge'.*got loss 'log_loss'"),
        ({"steps": PA2(1.0), "solver": "saga"}, 'PA2 is a rule for solver="sgd"'),
        ({"steps": 0.1, "solver": "sdca"}, 'no step size: leave steps at "auto"'),
        ({"steps": Auto(decay=0.1), "solver": "sdca"}, "no step size; leave the decay out"),
        ({"steps": "auto", "solver": "saga", "loss": "hinge"}, "give a constant step, or use a lo"),
        ({"steps": 100.0, "solver": "saga"}, "use a step below 20, or automatic steps"),
    ],
    ids=str,
)
def test_steps_refuse_what_they_cannot_do(monkeypatch, given, message):
    """Each rule refuses other solvers, losses and penalties before the first step, with advice."""
    monkeypatch.setattr(loop, "present_schedule", lambda *_: pytest.fail("a run began"))
    with pytest.raises(ValueError, match=message):
        minimize(X, TWO, **(RUN | given))
