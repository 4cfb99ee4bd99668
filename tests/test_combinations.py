"""Every combination of pairing, sampling, solver and penalty works, or is refused with advice.

The direction of each step is unbiased.
"""

from __future__ import annotations

import numpy as np
import pytest
from every_draw import every_draw
from scipy import sparse

import antithetic
from antithetic import AntitheticTable, GroupTable
from antithetic.orders import SAMPLINGS
from antithetic.problem import Problem
from antithetic.solvers import SOLVERS, make_solver
from antithetic.solvers.steps import make_schedule
from antithetic.training.combinations import (
    PAIRINGS,
    PENALTIES,
    STOPPINGS,
    Combination,
    every_combination,
    refusal,
)
from antithetic.training.tables import Draws, Tables

N, D = 40, 6


class HalfSquare:
    """A penalty of one's own: 0.05 |w|^2."""

    separable = True

    def value(self, w):
        return 0.05 * float(w @ w)

    def prox(self, w, step):
        return w / (1.0 + 0.1 * step)


PAIRING_OF = {
    "rows": {},
    "pairs": {"pairing": "greedy"},
    "groups": {"pairing": "tree", "nest": 4},
    "nested order": {"pairing": "tree", "nest": True},
}
PENALTY_OF = {
    "none": {},
    "l2": {"l2": 0.01},
    "l1": {"l1": 0.01},
    "elastic net": {"l2": 0.01, "l1": 0.01},
    "group lasso": {"penalty": "group_lasso", "groups": [0, 0, 1, 1, 2, 2], "l1": 0.01},
    "own": {"penalty": HalfSquare()},
}
OTHER_WORDS = {  # what the refusals may name as alternatives: each must itself be allowed
    'sampling="shuffle"': {"sampling": "shuffle"},
    'solver="saga"': {"solver": "saga"},
    'solver="sgd"': {"solver": "sgd"},
    'solver="svrg"': {"solver": "svrg"},
    'or "svrg"': {"solver": "svrg"},
    'or solver="sdca"': {"solver": "sdca"},
    'penalty="l2"': {"penalty": "l2"},
    'or "balanced"': {"sampling": "balanced"},
    "nest=8": {"pairing": "groups"},
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
    given = {
        **PAIRING_OF[chosen.pairing],
        **PENALTY_OF[chosen.penalty],
        "sampling": chosen.sampling,
        "solver": chosen.solver,
    }
    given |= {"batch_size": 8, "epochs": 4, "learning_rate": "auto", "trace": "objective"}
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
        if chosen.penalty == "own" or chosen.pairing in ("groups", "nested order"):
            continue  # which refusals treat as they treat the group lasso, and rows
        open_ways = [(chosen, 0)]
        while open_ways:
            after, changes = open_ways.pop()
            reason = why_not(data, after, loss, kind)
            if reason is None:
                continue
            named = [change for phrase, change in OTHER_WORDS.items() if phrase in reason]
            assert named, reason
            assert changes < 4, (chosen, reason)
            open_ways += [(after._replace(**change), changes + 1) for change in named]


def why_not(data, chosen, loss, kind):
    """Message of the refusal, None if it runs."""
    X, y = data
    given = {
        **PAIRING_OF[chosen.pairing],
        "sampling": chosen.sampling,
        "solver": chosen.solver,
        "batch_size": 8,
        "loss": loss,
    }
    try:
        if kind == "minimize":
            antithetic.minimize(
                X, y, epochs=1, learning_rate="auto", **PENALTY_OF[chosen.penalty], **given
            )
        else:
            penalty = {"none": None, "elastic net": "elasticnet", "group lasso": "group_lasso"}.get(
                chosen.penalty, chosen.penalty
            )
            groups = [0, 0, 1, 1, 2, 2] if penalty == "group_lasso" else None
            antithetic.SGDClassifier(
                max_iter=1, tol=None, fit_intercept=False, penalty=penalty, groups=groups, **given
            ).fit(X, y)
    except ValueError as refused:
        return str(refused)
    return None


def test_the_axes_are_those_of_the_package():
    """The matrix has all solvers and samplings, and each value occurs in a working combination."""
    working = [chosen for chosen in every_combination() if refusal(chosen) is None]
    for axis, values in zip(
        Combination._fields, (PAIRINGS, SAMPLINGS, SOLVERS, PENALTIES), strict=True
    ):
        assert {getattr(chosen, axis) for chosen in working} == set(values)
    assert STOPPINGS == ("objective", "gradient", "gap")


UNITS = {  # with batch sizes for which all draws of two steps can be enumerated
    "rows": (4, None, 2),
    "pairs": (4, AntitheticTable([1, 2, 3, 0]), 4),
    "odd batch of pairs": (4, AntitheticTable([1, 0, 3, 2]), 3),
    "groups": (5, GroupTable([4, 1, 0, 3, 2], 2), 4),
}
DRAWS = {
    "uniform": ("uniform", Draws()),
    "importance": ("importance", Draws("bounds")),
    "importance-gradients": ("importance", Draws("gradients")),
    "stratified": ("stratified", Draws(n_strata=2)),
    "stratified-optimal": ("stratified", Draws(n_strata=2, allocation="optimal")),
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
    sampling, how = DRAWS[draws]
    if units == "odd batch of pairs" and sampling == "stratified":
        size = 5 if n >= 5 else size
        if size // 2 < 2:
            how = Draws(n_strata=1, allocation=how.allocation)
    rng = np.random.default_rng(n)
    X, y = (
        rng.normal(size=(n, 2)) * rng.uniform(0.2, 3.0, size=(n, 1)),
        np.where(np.arange(n) % 2, 1.0, -1.0),
    )
    problem = Problem.build(
        form(X), y, l2=0.1, sample_weight=rng.uniform(0.5, 2.0, n), fit_intercept=True
    )
    algorithm = make_solver(solver, problem, average=False)
    state = algorithm.init(rng.normal(size=2), 0.3)
    if solver != "sgd":  # remembered somewhere else
        memory = problem.slopes(rng.normal(size=2), -1.0)
        state = state._replace(
            epochs=1, memory=memory, mean=np.append(*problem.data_gradient(memory))
        )
        if solver == "svrg":
            remember = type(algorithm)(problem, "saga")._remember(state)._replace(keeps=False)
            monkeypatch.setattr(type(algorithm), "_remember", lambda _self, _state: remember)
    sampler = Tables(problem, y, table, sampling, size, 0, draws=how).sampler(state)
    schedule = make_schedule(
        "constant", eta0=0.2, decay=0.0, alpha=0.1, power_t=0.5, loss=problem.loss
    )
    expected, expected_constant = 0.0, 0.0
    with pytest.MonkeyPatch.context() as scripted:
        for probability, batches in every_draw(sampler, scripted):
            one = batches._replace(
                rows=batches.rows[: batches.starts[1]],
                starts=batches.starts[:2],
                factors=None if batches.factors is None else batches.factors[: batches.starts[1]],
            )
            after = algorithm.epoch(state, one, schedule)
            expected = expected + probability * after.coef
            expected_constant += probability * after.intercept
    gradient, constant = problem.gradient(state.coef, state.intercept)
    np.testing.assert_allclose(expected, state.coef - 0.2 * gradient, rtol=0, atol=1e-12)
    assert expected_constant == pytest.approx(state.intercept - 0.2 * constant, abs=1e-12)
