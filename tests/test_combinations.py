"""Every combination of pairs, order, solver and penalty works, or is refused with advice.

The direction of each step is unbiased.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from every_draw import every_draw
from make_combinations import (
    PAIRS,
    PENALTIES,
    Combination,
    every_combination,
    refusal,
)
from scipy import sparse

import antithetic
from antithetic import AntitheticTable, GroupTable
from antithetic.orders import Importance, Stratified, Uniform
from antithetic.orders.order import ORDERS
from antithetic.penalties import GroupLasso
from antithetic.problem import Problem
from antithetic.steps import Constant
from antithetic.stochastic import SOLVERS
from antithetic.stochastic.corrected import Remembered
from antithetic.stochastic.loop import begin
from antithetic.stochastic.spec import make_spec
from antithetic.stopping import Stalled, Target

N, D = 40, 6


class HalfSquare:
    """A user's penalty: 0.05 |w|^2."""

    separable = True

    def value(self, w):
        return 0.05 * float(w @ w)

    def prox(self, w, step):
        return w / (1.0 + 0.1 * step)


GROUPS = GroupLasso([0, 0, 1, 1, 2, 2])
PENALTY_OF = {
    "none": {},
    "l2": {"l2": 0.01},
    "l1": {"l1": 0.01},
    "elastic net": {"l2": 0.01, "l1": 0.01},
    "group lasso": {"penalty": GROUPS, "l1": 0.01},
    "own": {"penalty": HalfSquare()},
}
PENALTY_OF_ESTIMATOR = {
    "none": None,
    "l2": "l2",
    "l1": "l1",
    "elastic net": "elasticnet",
    "group lasso": GROUPS,
    "own": HalfSquare(),
}
OTHER_WORDS = {  # what the refusals may name as alternatives: each must itself be allowed
    'order="shuffle"': {"order": "shuffle"},
    'order="auto"': {"order": "auto", "pairs": "rows"},
    'solver="saga"': {"solver": "saga"},
    'solver="sgd"': {"solver": "sgd"},
    'solver="svrg"': {"solver": "svrg"},
    'solver="svrg" or "sgd"': {"solver": "sgd"},
    'or solver="sdca"': {"solver": "sdca"},
    'penalty="l2"': {"penalty": "l2"},
    'or "balanced"': {"order": "balanced"},
    "nest=8": {"pairs": "groups"},
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7)
    return X, np.where(X @ rng.normal(size=D) + 0.3 * rng.normal(size=N) > 0.0, 1, 0)


@pytest.mark.parametrize(
    "chosen",
    [pytest.param(chosen, id="-".join(chosen).replace(" ", "_")) for chosen in every_combination()],
)
def test_a_combination_works_or_is_refused_with_an_alternative(data, chosen):
    """Dense and CSR give the same run, which gets somewhere.

    A refusal is a sentence, comes first, and names what would be allowed.
    """
    X, y = data
    given = {**PENALTY_OF[chosen.penalty], "order": chosen.make_order(), "solver": chosen.solver}
    given |= {"batch_size": 8, "epochs": 4, "trace": "objective"}
    reason = refusal(chosen)
    if reason is not None:
        for form in (np.asarray, sparse.csr_array):
            with pytest.raises(ValueError, match="; use ") as refused:
                antithetic.minimize(form(X), y, **given)
            assert str(refused.value) == reason
        assert any(phrase in reason for phrase in OTHER_WORDS)
        return
    dense, csr = (
        antithetic.minimize(form(X), y, **given) for form in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(csr.coef, dense.coef, rtol=0, atol=1e-9 * np.abs(dense.coef).max())
    assert dense.trace["objective"][-1] < 0.9 * dense.trace["objective"][0]


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("kind", ["minimize", "estimator"])
def test_every_alternative_of_a_refusal_leads_to_a_run(data, loss, kind):
    """Following any alternative that a refusal names ends in a run, never in a circle."""
    for chosen in every_combination():
        open_ways = [(chosen, 0)]
        while open_ways:
            after, changes = open_ways.pop()
            reason = why_not(data, after, loss, kind)
            assert reason == refusal(after, loss=loss)
            if reason is None:
                continue
            named = [change for phrase, change in OTHER_WORDS.items() if phrase in reason]
            assert named, reason
            assert changes < 4, (chosen, reason)
            open_ways += [(after._replace(**change), changes + 1) for change in named]


RUNS = {}  # many ways lead to the same combination


def why_not(data, chosen, loss, kind):
    """Message of the refusal, None if it runs."""
    if (chosen, loss, kind) not in RUNS:
        RUNS[chosen, loss, kind] = tried(data, chosen, loss, kind)
    return RUNS[chosen, loss, kind]


def tried(data, chosen, loss, kind):
    given = {"order": chosen.make_order(), "solver": chosen.solver, "batch_size": 8, "loss": loss}
    try:
        if kind == "minimize":
            antithetic.minimize(*data, epochs=1, **PENALTY_OF[chosen.penalty], **given)
        else:
            penalty = PENALTY_OF_ESTIMATOR[chosen.penalty]
            model = antithetic.SGDClassifier(
                max_iter=1, tol=None, fit_intercept=False, penalty=penalty, **given
            )
            model.fit(*data)
    except ValueError as refused:
        return str(refused)
    return None


def test_the_axes_are_those_of_the_package():
    """The matrix has all solvers and orders, and each value occurs in a working combination."""
    working = [chosen for chosen in every_combination() if refusal(chosen) is None]
    axes = (PAIRS, ("auto", *ORDERS), SOLVERS, PENALTIES)
    for axis, values in zip(Combination._fields, axes, strict=True):
        assert {getattr(chosen, axis) for chosen in working} == set(values)


STOPS = (None, Stalled(1e-3, epochs=2), Target("gradient", 1e-3), Target("gap", 1e-3))


@pytest.mark.parametrize("stop", STOPS, ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_takes_every_rule_for_the_end(data, solver, stop):
    """A run ends by itself, or after all epochs; with a target, at the first epoch below tol."""
    result = antithetic.minimize(*data, solver=solver, l2=0.1, stop=stop, epochs=200, batch_size=8)
    assert result.epochs == 200 if stop is None else 1 <= result.epochs <= 200
    assert result.converged or result.epochs == 200
    if isinstance(stop, Target):
        met = result.trace[stop.of][1:] <= stop.tol
        assert met.any() == result.converged
        assert not met[:-1].any()


UNITS = {  # with batch sizes for which all draws of two steps can be enumerated
    "rows": (4, None, 2),
    "pairs": (4, AntitheticTable([1, 2, 3, 0]), 4),
    "odd batch of pairs": (4, AntitheticTable([1, 0, 3, 2]), 3),
    "groups": (5, GroupTable([4, 1, 0, 3, 2], 2), 4),
}
DRAWS = {
    "uniform": Uniform(),
    "importance": Importance(),
    "importance-gradients": Importance("gradients"),
    "stratified": Stratified(2),
    "stratified-optimal": Stratified(2, "optimal"),
}


@pytest.mark.parametrize(
    "form", [pytest.param(np.asarray, id="dense"), pytest.param(sparse.csr_array, id="csr")]
)
@pytest.mark.parametrize("solver", ["sgd", "svrg", "saga"])
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("units", UNITS)
def test_the_expected_step_is_along_the_gradient(form, solver, draws, units, monkeypatch):
    """Over all draws, the expected first step is minus eta times the gradient of the objective.

    This holds for any remembered gradients.
    """
    n, table, size = UNITS[units]
    order = DRAWS[draws].but(pairs=table)
    if units == "odd batch of pairs" and isinstance(order, Stratified):
        order = order.but(strata=1)  # which is all that one pair and a row have room for
    rng = np.random.default_rng(n)
    X, y = (
        rng.normal(size=(n, 2)) * rng.uniform(0.2, 3.0, size=(n, 1)),
        np.where(np.arange(n) % 2, 1.0, -1.0),
    )
    problem = Problem.build(
        form(X), y, l2=0.1, sample_weight=rng.uniform(0.5, 2.0, n), fit_intercept=True
    )
    spec = make_spec(problem, y, order=order, solver=solver, steps=Constant(0.2), batch_size=size)
    run = begin(spec, (rng.normal(size=2), 0.3))
    algorithm, state, own = spec.solver, run.state, run.own
    if solver != "sgd":  # remembered somewhere else
        memory = problem.slopes(rng.normal(size=2), -1.0)
        own = Remembered(memory, np.append(*problem.data_gradient(memory)))
        state = state._replace(epochs=1)
        if solver == "svrg":
            remember = type(algorithm)(problem, "saga")._remember(state, own)._replace(keeps=False)
            monkeypatch.setattr(type(algorithm), "_remember", lambda *_: remember)
    draws, followed = run.drawing.draws, algorithm.followed(state, own)
    expected, expected_constant = 0.0, 0.0
    with pytest.MonkeyPatch.context() as scripted:
        for probability, batches in every_draw(
            SimpleNamespace(batches=lambda epoch: draws.batches(epoch, slopes=followed)), scripted
        ):
            one = batches._replace(
                rows=batches.rows[: batches.starts[1]],
                starts=batches.starts[:2],
                factors=batches.factors[: batches.starts[1]],
            )
            after = algorithm.epoch(state, own, one, run.schedule).state
            expected = expected + probability * after.coef
            expected_constant += probability * after.intercept
    gradient, constant = problem.gradient(state.coef, state.intercept)
    np.testing.assert_allclose(expected, state.coef - 0.2 * gradient, rtol=0, atol=1e-12)
    assert expected_constant == pytest.approx(state.intercept - 0.2 * constant, abs=1e-12)
