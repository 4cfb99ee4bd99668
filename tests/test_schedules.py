"""Step sizes: the paper's and scikit-learn's formulas."""

from __future__ import annotations

import math

import pytest

from antithetic.problem.losses import LOSSES
from antithetic.solvers.steps import (
    LOWERING,
    PA1,
    PA2,
    can_be_lowered,
    make_schedule,
    row_step_size,
    step_size,
)

LOG = LOSSES["log_loss"]


def schedule(name, **changes):
    given = {"eta0": 0.5, "decay": 0.01, "alpha": 1e-4, "power_t": 0.25, "loss": LOG} | changes
    return make_schedule(name, **given)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("inverse_time", lambda steps, _: 0.5 / (1 + 0.5 * 0.01 * (steps + 1))),
        ("constant", lambda *_: 0.5),
        ("adaptive", lambda *_: 0.5),
        ("invscaling", lambda _, samples: 0.5 / (samples + 1) ** 0.25),
        (
            "optimal",
            lambda _, samples: 1 / (1e-4 * (1 / (math.sqrt(1 / math.sqrt(1e-4)) * 1e-4) + samples)),
        ),
    ],
)
@pytest.mark.parametrize(("steps", "samples"), [(0, 0), (1, 2), (1000, 2001)])
def test_the_formula(name, formula, steps, samples):
    """Each schedule is its formula; t is 1 at the first step or sample."""
    assert step_size(*schedule(name), steps, samples) == pytest.approx(
        formula(steps, samples), rel=1e-14
    )


@pytest.mark.parametrize("name", ["pa1", "pa2"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_a_passive_aggressive_penalty_takes_eta0(name, loss):
    """The penalty's step is eta0 at any step, independent of the rows' steps."""
    assert step_size(*schedule(name, loss=LOSSES[loss]), 1000, 2001) == 0.5


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
    assert row_step_size(PA1, 0.5, loss, square) == pytest.approx(pa1, rel=1e-15, nan_ok=True)
    assert row_step_size(PA2, 0.5, loss, square) == pytest.approx(pa2, rel=1e-15, nan_ok=True)


@pytest.mark.parametrize("name", ["pa1", "pa2"])
@pytest.mark.parametrize(
    "loss", [name for name in LOSSES if name not in ("hinge", "epsilon_insensitive")]
)
def test_passive_aggressive_steps_need_their_losses(name, loss):
    """Other losses are refused in scikit-learn's words, with the loss that was given."""
    message = (
        rf"Learning rate '{name}' only works with loss 'hinge' \(or 'epsilon_insensitive' for"
        rf" regression\); got loss '{loss}'"
    )
    with pytest.raises(ValueError, match=message):
        schedule(name, loss=LOSSES[loss])


def test_optimal_divides_by_the_slope_of_a_steep_regression_loss():
    """The squared error is not steep enough at a typical weight to shorten the first step.

    scikit-learn's first step is smaller where the loss is steep: d/dp (y - p)^2 / 2 at y=1, p=-typw
    is negative.
    """
    assert schedule("optimal", loss=LOSSES["squared_error"]).start == schedule("optimal").start


def test_an_adaptive_step_is_divided_by_five_until_it_is_too_small():
    """As in scikit-learn: steps of at most 1e-6 are not lowered further."""
    current, values = schedule("adaptive", eta0=1e-4), []
    while can_be_lowered(current):
        values.append(current.eta0)
        current = current._replace(eta0=current.eta0 / LOWERING)
    assert [*values, current.eta0] == pytest.approx([1e-4, 2e-5, 4e-6, 8e-7])


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("sometimes", {}, r"inverse_time, constant, optimal, invscaling, adaptive, pa1, pa2"),
        ("constant", {"eta0": None}, "eta0"),
        ("constant", {"eta0": 0.0}, "eta0"),
        ("inverse_time", {"eta0": math.nan}, "eta0"),
        ("pa1", {"eta0": None, "loss": LOSSES["hinge"]}, "eta0"),
        ("inverse_time", {"decay": -1.0}, "decay"),
        ("inverse_time", {"decay": math.inf}, "decay"),
        ("invscaling", {"power_t": math.nan}, "power_t"),
        ("optimal", {"alpha": 0.0}, "inverse_time"),
    ],
)
def test_bad_parameters_are_refused(name, changes, message):
    """Bad parameters are refused, with the parameter or the alternatives named."""
    with pytest.raises(ValueError, match=message):
        schedule(name, **changes)
