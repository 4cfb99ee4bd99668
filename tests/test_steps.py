"""Step sizes: the paper's and scikit-learn's formulas, and objects that check themselves."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

from antithetic import steps
from antithetic._core.schedules import PA1 as PA1_CODE
from antithetic._core.schedules import PA2 as PA2_CODE
from antithetic._core.schedules import row_step_size, step_size
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.steps import PA1, PA2, Adaptive, Auto, Constant, InverseTime, InvScaling, Optimal
from antithetic.stochastic.solver import Choice
from antithetic.stochastic.spec import check_choice, check_stopping
from antithetic.stochastic.steps import LOWERING, can_be_lowered, read_steps
from antithetic.stopping import Stalled, Target

LOG = LOSSES["log_loss"]
EVERY = [
    Auto(),
    Auto(decay=0.5),
    InverseTime(0.1),
    InverseTime(0.1, decay=0.01),
    Constant(0.1),
    Adaptive(0.1),
    Optimal(),
    Optimal(alpha=0.1),
    InvScaling(0.1),
    InvScaling(0.1, power=0.25),
    PA1(0.1),
    PA2(0.1),
]


def schedule(given, loss=LOG, l2=0.0, l1=0.0):
    return given.schedule(loss, ElasticNet(l2, l1))


@pytest.mark.parametrize(
    ("given", "formula"),
    [
        (InverseTime(0.5, 0.01), lambda steps, _: 0.5 / (1 + 0.5 * 0.01 * (steps + 1))),
        (Constant(0.5), lambda *_: 0.5),
        (Adaptive(0.5), lambda *_: 0.5),
        (InvScaling(0.5, 0.25), lambda _, samples: 0.5 / (samples + 1) ** 0.25),
        (
            Optimal(1e-4),
            lambda _, samples: 1 / (1e-4 * (1 / (math.sqrt(1 / math.sqrt(1e-4)) * 1e-4) + samples)),
        ),
    ],
)
@pytest.mark.parametrize(("steps", "samples"), [(0, 0), (1, 2), (1000, 2001)])
def test_the_formula(given, formula, steps, samples):
    """Each schedule is its formula; t is 1 at the first step or sample."""
    assert step_size(*schedule(given), steps, samples) == pytest.approx(
        formula(steps, samples), rel=1e-14
    )


def test_a_rate_that_is_left_open_is_that_of_the_penalty():
    """InverseTime decays with l2, the paper's rule; Optimal takes l2 and l1 together."""
    assert schedule(InverseTime(0.5), l2=0.02, l1=0.3) == schedule(InverseTime(0.5, 0.02))
    assert schedule(InverseTime(0.5)).rate == 0.0
    assert schedule(Optimal(), l2=0.02, l1=0.03) == schedule(Optimal(0.05))


@pytest.mark.parametrize("kind", [PA1, PA2])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_a_passive_aggressive_penalty_takes_eta0(kind, loss):
    """The penalty's step is eta0 at any step, independent of the rows' steps."""
    assert step_size(*schedule(kind(0.5), LOSSES[loss]), 1000, 2001) == 0.5


@pytest.mark.parametrize(
    ("loss", "square", "pa1", "pa2"),
    [
        (2.0, 8.0, 0.25, 2.0 / 9.0),  # as far as it takes the row's loss to zero
        (9.0, 3.0, 0.5, 9.0 / 4.0),  # eta0 at most
        (0.0, 3.0, 0.0, 0.0),  # passive
        (2.0, 0.0, 0.0, 2.0),  # a row without entries
        (0.0, 0.0, 0.0, 0.0),
        (2.0, 5e-324, 0.5, 2.0),  # the ratio overflows
        (2.0, math.inf, 0.0, 0.0),  # the square did
        (math.inf, 3.0, 0.5, math.inf),
        (math.inf, math.inf, math.nan, math.nan),  # not to be taken for a good step
        (math.nan, 3.0, math.nan, math.nan),
    ],
)
def test_the_passive_aggressive_formula(loss, square, pa1, pa2):
    """The least of eta0 and l / |x|^2, and l / (|x|^2 + 1 / (2 eta0)).

    Never more than eta0 with PA-I, and NaN stays NaN.
    """
    assert row_step_size(PA1_CODE, 0.5, loss, square) == pytest.approx(pa1, rel=1e-15, nan_ok=True)
    assert row_step_size(PA2_CODE, 0.5, loss, square) == pytest.approx(pa2, rel=1e-15, nan_ok=True)


@pytest.mark.parametrize("kind", [PA1, PA2])
@pytest.mark.parametrize(
    "loss", [name for name in LOSSES if name not in ("hinge", "epsilon_insensitive")]
)
def test_passive_aggressive_steps_need_their_losses(kind, loss):
    """Other losses are refused in scikit-learn's words, with the loss that was given."""
    message = (
        rf"Learning rate '{kind.__name__.lower()}' only works with loss 'hinge' \(or"
        rf" 'epsilon_insensitive' for regression\); got loss '{loss}'"
    )
    with pytest.raises(ValueError, match=message):
        check_choice(Choice("sgd", None, ElasticNet(), LOSSES[loss], kind(0.5)))


def test_optimal_divides_by_the_slope_of_a_steep_regression_loss():
    """The squared error is not steep enough at a typical weight to shorten the first step.

    scikit-learn's first step is smaller where the loss is steep: d/dp (y - p)^2 / 2 at y=1, p=-typw
    is negative.
    """
    given = Optimal(1e-4)
    assert schedule(given, LOSSES["squared_error"]).start == schedule(given).start


def test_an_adaptive_step_is_divided_by_five_until_it_is_too_small():
    """As in scikit-learn: steps of at most 1e-6 are not lowered further."""
    current, values = schedule(Adaptive(1e-4)), []
    while can_be_lowered(current):
        values.append(current.eta0)
        current = current._replace(eta0=current.eta0 / LOWERING)
    assert [*values, current.eta0] == pytest.approx([1e-4, 2e-5, 4e-6, 8e-7])


@pytest.mark.parametrize("kind", [InverseTime, Constant, Adaptive, InvScaling, PA1, PA2])
@pytest.mark.parametrize("eta0", [None, 0.0, -1.0, math.nan, math.inf, True, "0.1"])
def test_a_bad_first_step_is_refused(kind, eta0):
    """It is refused when the object is made, by the name of the argument and of the class."""
    message = f"eta0 of {kind.__name__} must be a finite number above 0; got"
    with pytest.raises(ValueError, match=message):
        kind(eta0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InverseTime(0.1, -1.0), "decay of InverseTime"),
        (lambda: InverseTime(0.1, math.inf), "decay of InverseTime"),
        (lambda: Auto(decay=math.nan), "decay of Auto"),
        (lambda: Auto(decay="slow"), "decay of Auto must be a finite number, at least 0, or None"),
        (lambda: InvScaling(0.1, power=math.nan), "power of InvScaling"),
        (lambda: InvScaling(0.1, power="half"), "power of InvScaling must be a finite number"),
        (lambda: Optimal(alpha=0.0), "alpha of Optimal"),
    ],
)
def test_other_bad_settings_are_refused(make, message):
    """They are refused when the object is made, with the argument and its class named."""
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("given", EVERY, ids=repr)
def test_steps_are_values(given):
    """Equal by value, with a repr that can be pasted back, and copies that are equal."""
    assert eval(repr(given), vars(steps)) == given
    assert copy.deepcopy(given) == pickle.loads(pickle.dumps(given)) == given
    assert hash(given) == hash(eval(repr(given), vars(steps)))
    assert [other for other in EVERY if other == given] == [given]


@pytest.mark.parametrize("name", steps.__all__)
def test_every_kind_of_steps_is_tried_here(name):
    """The list above has each of the public ones."""
    assert name in {type(given).__name__ for given in EVERY}


@pytest.mark.parametrize(
    ("given", "solver", "expected"),
    [
        ("auto", "sgd", Auto()),
        ("optimal", "sgd", Optimal()),
        (0.1, "sgd", InverseTime(0.1)),
        (1, "sgd", InverseTime(1.0)),
        (0.1, "svrg", Constant(0.1)),
        (0.1, "saga", Constant(0.1)),
        (PA1(0.3), "sgd", PA1(0.3)),
    ],
)
def test_words_and_numbers_mean_steps(given, solver, expected):
    """A number is the paper's first step, and for SVRG and SAGA a constant one."""
    assert read_steps(given, solver) == expected


@pytest.mark.parametrize("given", ["fast", "constant", None, True, [0.1], Constant])
def test_what_are_not_steps_is_refused(given):
    """The error says what to give instead."""
    with pytest.raises(ValueError, match=r"is not known; use .*say InverseTime\(0\.1\)"):
        read_steps(given, "sgd")


def test_optimal_steps_need_a_penalty():
    """Without one there is nothing to divide by, unless alpha is given."""
    with pytest.raises(ValueError, match="need l2 or l1 above 0; use InverseTime or Constant"):
        check_choice(Choice("sgd", None, ElasticNet(), LOG, Optimal()))
    check_choice(Choice("sgd", None, ElasticNet(), LOG, Optimal(0.1)))
    check_choice(Choice("sgd", None, ElasticNet(l1=0.1), LOG, Optimal()))


@pytest.mark.parametrize("stop", [None, Target("gradient", 1e-3)])
def test_adaptive_steps_need_to_know_when_to_fall(stop):
    """They go with Stalled, which says when the objective stops falling; others with any rule."""
    with pytest.raises(ValueError, match=r"give stop=Stalled\(tol\)"):
        check_stopping(Adaptive(0.1), stop)
    check_stopping(Adaptive(0.1), Stalled(1e-3))
    check_stopping(Constant(0.1), stop)


def test_passive_aggressive_steps_are_those_of_sgd():
    """Other solvers and penalties without such a rule refuse them."""
    for solver in ("svrg", "saga"):
        with pytest.raises(ValueError, match='PA1 is a rule for solver="sgd" with L2 or L1'):
            check_choice(Choice(solver, None, ElasticNet(), LOSSES["hinge"], PA1(0.1)))
