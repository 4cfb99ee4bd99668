"""Verdicts follow their rules: each flips with made-up numbers exactly where it should."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antithetic.paper.claims import (
    both,
    clearly_below,
    compare,
    divide,
    headline,
    judge,
    judge_claims,
    judge_outcomes,
    largest_stable,
)
from antithetic.paper.experiments import STEPS, Experiment
from antithetic.paper.measures import spearman
from antithetic.paper.workbench import METHODS

SEEDS, EPOCHS = 12, 8
FALLING = 0.9 * 0.5 ** np.arange(EPOCHS + 1.0) + 0.1  # objective: 1 at zero, 0.1 at the optimum
ONES = np.ones((SEEDS, EPOCHS + 1))
NOISE = 1e-6 * np.arange(SEEDS)[:, None]


def methods(**factors: float) -> dict[str, np.ndarray]:
    """Objectives whose gap after the first epoch is multiplied by a factor of each method."""
    found = {}
    for method in METHODS:
        gap = (FALLING - 0.1) * np.where(
            np.arange(EPOCHS + 1) > 0,
            factors.get(method.replace("-", "_").replace(" ", "_"), 1.0),
            1.0,
        )
        found[method] = 0.1 + gap + (1.0 if method == "SGD" else 0.5) * NOISE
    return found


def ends(objective: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    return {
        method: {
            "eta0": np.ones(1),
            "objective": found[:, -1],
            "distance": np.full(SEEDS, 0.9 if method == "SGD-as" else 1.0),
        }
        for method, found in objective.items()
    }


def with_ends(one: Experiment, objective: dict[str, np.ndarray]) -> Experiment:
    return replace(one, objective=objective, ends=ends(objective))


def farther(one: Experiment, distance: float) -> dict[str, dict[str, np.ndarray]]:
    return one.ends | {"SGD-as": one.ends["SGD-as"] | {"distance": np.full(SEEDS, distance)}}


Variances = dict[str, dict[str, dict[str, np.ndarray]]]


Variances = dict[str, dict[str, dict[str, np.ndarray]]]


def variances(pairs: np.ndarray, alone: np.ndarray, own: np.ndarray | None = None) -> Variances:
    """The same variances with each step: of pairs at the weights of SGD, and at their own."""
    own = pairs if own is None else own
    return {
        step: {"SGD": {"SGD": alone}, "SGD-as": {"SGD": pairs, "SGD-as": own}} for step in STEPS
    }


def made_up(**given: Any) -> Experiment:
    """An experiment on which every claim holds, except for the entries given."""
    fading = ONES * np.linspace(0.3, 0.6, EPOCHS + 1)
    shaking = np.ones((SEEDS, EPOCHS)) * np.linspace(1.0, 0.2, EPOCHS)
    values: dict[str, Any] = {
        "name": "made up",
        "loss": "log_loss",
        "protocol": {"seeds": SEEDS, "epochs": EPOCHS},
        "n": 10,
        "d": 2,
        "seconds": 0.1,
        "at_zero": 1.0,
        "optimum": 0.1,
        "optimum_error": 0.0,
        "w_star": np.ones(2),
        "curvature": 1.0,
        "eta0": 1.0,
        "decay": 0.01,
        "grid": np.array([0.5, 1.0, 2.0]),
        "grid_gap": {method: np.full((3, SEEDS), 0.01) for method in METHODS},
        "ends": ends(methods(SGD_as=0.1, reshuffled=0.2, nested_order=0.02, balanced=0.02)),
        "own_ends": ends(methods(SGD_as=0.1, reshuffled=0.2, nested_order=0.02, balanced=0.02)),
        "objective": methods(SGD_as=0.1, reshuffled=0.2, nested_order=0.02, balanced=0.02),
        "distance": {"SGD": ONES, "SGD-as": 0.9 * ONES},
        "variance": variances(fading, ONES),
        "squares": {step: {"SGD": 0.1 * ONES, "SGD-as": 0.1 * ONES} for step in STEPS},
        "inside": {},
        "jitter": {"SGD": shaking, "SGD-as": 0.5 * shaking},
        "steps": np.linspace(1.0, 0.3, EPOCHS),
        "bias": np.full(EPOCHS + 1, 1e-16),
        "labels": {"opposite": 0.8, "possible": 0.9, "random": 0.5},
        "products": {
            "negative": np.ones(EPOCHS + 1),
            "reversed": np.zeros(EPOCHS + 1),
            "bounds": np.array([0.9]),
        },
        "ranks": {
            "all": np.full(EPOCHS + 1, 0.8),
            "negative": np.full(EPOCHS + 1, 0.5),
            "positive": np.full(EPOCHS + 1, 0.4),
        },
        "ideal": {"share": np.array([0.5]), "ratio": np.full(EPOCHS + 1, 0.7)},
        "constant_steps": {
            "eta0": np.array([1.0, 2.0, 4.0]),
            "SGD": steady(0.5, 1.2, np.inf),
            "SGD-as": steady(0.4, 0.6, np.inf),
        },
        "batches": {"4": batch(0.5, 0.6)},
        "non_smooth": batch(0.5, 0.4) | {"l1": np.array([0.1]), "zeros": np.array([0.5])},
        "zero_one": {
            "same_table": np.array([1.0]),
            "same_weights": np.array([1.0]),
            "formula": np.array([1e-16]),
        },
    }
    return Experiment(**values | given)


def steady(*means: float) -> np.ndarray:
    return np.repeat(np.array(means)[:, None], SEEDS, axis=1)


def batch(alone: float, ratio: float) -> dict[str, np.ndarray]:
    return {
        "eta0": np.array([1.0]),
        "SGD": np.full(SEEDS, alone),
        "SGD-as": np.full(SEEDS, alone - 0.1),
        "variance_ratio": np.array([0.6]),
    } | ({} if ratio == 0.6 else {"variance_ratio": np.full(SEEDS, ratio)})


SPOILT: dict[str, tuple[int, Callable[[Experiment], Experiment]]] = {
    "a biased epoch": (1, lambda one: replace(one, bias=np.array([0.0, 1e-9]))),
    "one seed's variance above in one epoch": (
        2,
        lambda one: replace(one, variance=variances(at(one, 1.01, 1, 4), ONES)),
    ),
    "equal variance": (2, lambda one: replace(one, variance=variances(ONES, ONES))),
    "a reduction that is larger in one epoch": (
        3,
        lambda one: replace(one, variance=variances(at(one, 0.1, slice(None), 3), ONES)),
    ),
    "a reduction that grows": (
        3,
        lambda one: replace(
            one, variance=variances(ONES * np.linspace(0.6, 0.3, EPOCHS + 1), ONES)
        ),
    ),
    "a larger gap": (4, lambda one: with_ends(one, methods(SGD_as=1.1))),
    "the same gap": (
        4,
        lambda one: with_ends(one, one.objective | {"SGD-as": one.objective["SGD"]}),
    ),
    "more jitter": (
        5,
        lambda one: replace(one, jitter=one.jitter | {"SGD-as": 1.1 * one.jitter["SGD"]}),
    ),
    "more spread": (
        5,
        lambda one: with_ends(one, one.objective | {"SGD-as": one.objective["SGD-as"] + 2 * NOISE}),
    ),
    "jitter that stays": (
        6,
        lambda one: replace(one, jitter=one.jitter | {"SGD": np.ones((SEEDS, EPOCHS))}),
    ),
    "variance that falls": (
        6,
        lambda one: replace(one, variance=variances(0.5 ** np.arange(EPOCHS + 1.0) * ONES, ONES)),
    ),
    "partners of the same label": (
        7,
        lambda one: replace(one, labels={"opposite": 0.5, "possible": 0.9, "random": 0.5}),
    ),
    "a product that turns": (
        8,
        lambda one: replace(one, products=one.products | {"reversed": np.array([0.0, 0.01])}),
    ),
    "a logistic product that vanishes": (
        8,
        lambda one: replace(one, products=one.products | {"negative": np.array([1.0, 0.99])}),
    ),
    "the same stable step": (
        9,
        lambda one: replace(
            one, constant_steps=one.constant_steps | {"SGD-as": steady(0.5, 1.0, np.inf)}
        ),
    ),
    "a larger distance": (10, lambda one: replace(one, ends=farther(one, 1.1))),
    "nearer only at the end": (
        10,
        lambda one: replace(one, distance={"SGD": ONES, "SGD-as": ONES * (1.1 - 0.2 * LAST)}),
    ),
    "bounds that say nothing": (
        11,
        lambda one: replace(one, ranks=one.ranks | {"all": np.array([0.9, 0.2])}),
    ),
    "a larger moment": (
        12,
        lambda one: replace(one, variance=variances(at(one, 1.2, slice(None), 3), ONES)),
    ),
    "negative products in vain": (
        13,
        lambda one: replace(one, ideal=one.ideal | {"ratio": np.array([0.5, 1.0])}),
    ),
    "another variance ratio": (14, lambda one: replace(one, batches={"4": batch(0.5, 0.61)})),
    "a larger gap in larger batches": (
        14,
        lambda one: replace(one, batches={"4": batch(0.5, 0.6) | {"SGD-as": np.full(SEEDS, 0.6)}}),
    ),
    "a larger L1 objective": (
        15,
        lambda one: replace(one, non_smooth=one.non_smooth | {"SGD-as": np.full(SEEDS, 0.6)}),
    ),
    "another table": (
        16,
        lambda one: replace(one, zero_one=one.zero_one | {"same_table": np.array([0.0])}),
    ),
    "another formula": (
        16,
        lambda one: replace(one, zero_one=one.zero_one | {"formula": np.array([1e-6])}),
    ),
    "reshuffling is better": (
        17,
        lambda one: with_ends(one, methods(SGD_as=0.1, reshuffled=0.05)),
    ),
    "reshuffling is better at its best": (
        17,
        lambda one: replace(one, own_ends=ends(methods(SGD_as=0.1, reshuffled=0.05))),
    ),
    "orders are worse": (
        18,
        lambda one: with_ends(one, methods(reshuffled=0.2, nested_order=0.3, balanced=0.3)),
    ),
}
OF_RUNS = (4, 5, 10, 14, 15, 17, 18)
THEOREMS = (1, 8, 13, 16)
LAST = np.arange(EPOCHS + 1) == EPOCHS


def at(one: Experiment, value: float, *place: Any) -> np.ndarray:
    found = one.variances("same weights")[0].copy()
    found[place] = value
    return found


def verdicts(*experiments: Experiment) -> dict[int, str]:
    return {claim.number: claim.verdict for claim in judge_claims(experiments)}


def test_all_hold_where_all_is_well() -> None:
    assert verdicts(made_up()) == dict.fromkeys(range(1, 19), "holds")


@pytest.mark.parametrize("reason", SPOILT)
def test_a_claim_falls_with_its_numbers(reason: str) -> None:
    number, spoil = SPOILT[reason]
    good, bad = made_up(), spoil(made_up(name="another"))
    assert verdicts(bad)[number] == "does not hold"
    if number in OF_RUNS:
        only_undecided = all(
            row["outcome"] == "undecided" for row in judge_claims([bad])[number - 1].cases
        )
        assert verdicts(good, bad)[number] == (
            "holds in part" if only_undecided else "does not hold"
        )
        assert verdicts(good, good, bad)[number] == ("holds" if only_undecided else "holds in part")
        return
    assert verdicts(good, bad)[number] == "holds in part"
    # Each table counts once.
    assert verdicts(good, bad, bad)[number] == ("holds in part" if number == 7 else "does not hold")


def test_without_parts_nothing_is_measured() -> None:
    assert set(verdicts().values()) == {"not measured"}


def test_what_cannot_be_said_is_not_said() -> None:
    short = made_up(protocol={"seeds": SEEDS, "epochs": 2})
    assert verdicts(short)[6] == "not measured"
    assert (
        verdicts(made_up(ideal={"share": np.zeros(1), "ratio": np.full(3, np.nan)}))[13]
        == "not measured"
    )


def test_what_the_paper_allows_counts_as_holding() -> None:
    hinge = made_up(
        loss="hinge",
        products={
            "negative": np.array([1.0, 0.1]),
            "reversed": np.zeros(2),
            "bounds": np.array([1.0]),
        },
    )
    assert verdicts(hinge)[8] == "holds"
    few = made_up(labels={"opposite": 0.19, "possible": 0.2, "random": 0.18})
    assert verdicts(few)[7] == "holds"


def test_runs_that_diverged_do_not_break_the_verdicts() -> None:
    one = made_up()
    endless = replace(
        with_ends(one, one.objective | {"SGD-as": np.full_like(ONES, np.inf)}),
        distance={"SGD": ONES, "SGD-as": np.full_like(ONES, np.inf)},
        jitter=one.jitter | {"SGD-as": np.full((SEEDS, EPOCHS), np.inf)},
        variance=variances(np.full_like(ONES, np.inf), ONES),
    )
    found = verdicts(endless)
    assert {found[number] for number in (2, 4, 5, 10, 12, 17)} == {"does not hold"}


def test_every_claim_states_its_rule_and_its_cases() -> None:
    for claim in judge_claims([made_up()]):
        if claim.number in OF_RUNS:
            assert claim.detail.startswith("A case is clearly better if ")
            assert "two standard errors" in claim.detail
            assert re.match(
                r"clearly better in \d+, undecided in \d+, clearly worse in \d+ of \d+; ",
                claim.measured,
            )
        else:
            assert claim.detail.startswith("A case counts if ")
            assert "The claim holds if all cases count, holds in part if at least" in claim.detail
        assert claim.by_construction == (claim.number in THEOREMS)
        assert ("(a theorem, checked)" in claim.measured) == (claim.number in (*THEOREMS, 14))
        assert claim.cases[0]["set"] == "made up"
        assert claim.cases
        assert all(isinstance(row["held"], bool) for row in claim.cases)
        assert " of " in claim.measured


def test_judge() -> None:
    assert judge([True, True, None]) == "holds"
    assert judge([True, False]) == "holds in part"
    assert judge([True, False, False]) == "does not hold"
    assert judge([]) == judge([None]) == "not measured"


def test_noise_counts_for_neither_side() -> None:
    assert judge_outcomes([]) == "not measured"
    assert judge_outcomes(["better", "better", "undecided"]) == "holds"
    assert judge_outcomes(["better", "better", "better", "worse"]) == "holds in part"
    assert judge_outcomes(["better", "undecided"]) == "holds in part"
    assert judge_outcomes(["undecided", "undecided"]) == "does not hold"
    assert judge_outcomes(["better", "worse"]) == "does not hold"
    assert judge_outcomes(["better", "worse", "worse", *["undecided"] * 3]) == "does not hold"


@pytest.mark.parametrize("number", OF_RUNS)
def test_means_that_differ_by_chance_do_not_hold_in_part(number: int) -> None:
    """All means a little better, none beyond two standard errors: no verdict for the method."""
    noise = np.linspace(0.0, 0.2, SEEDS)
    less = {
        method: 0.3 + noise - (0.001 if method in ("SGD-as", "nested order", "balanced") else 0.0)
        for method in METHODS
    }
    chance = {
        method: {"eta0": np.ones(1), "objective": values, "distance": values}
        for method, values in less.items()
    }
    alike = {"SGD": less["SGD"], "SGD-as": less["SGD-as"]}
    one = made_up(
        ends=chance,
        own_ends=chance,
        batches={"4": batch(0.5, 0.6) | alike},
        non_smooth=made_up().non_smooth | alike,
        jitter={
            method: np.repeat(values[:, None], EPOCHS, axis=1) for method, values in alike.items()
        },
    )
    claim = judge_claims([one, one])[number - 1]
    assert {row["outcome"] for row in claim.cases} == {"undecided"}
    assert claim.verdict == "does not hold"


def test_outcomes() -> None:
    low, high, endless = np.array([1.0, 1.1]), np.array([2.0, 2.1]), np.array([1.0, np.inf])
    assert (compare(low, high), compare(high, low), compare(low, low)) == (
        "better",
        "worse",
        "undecided",
    )
    assert (compare(endless, high), compare(high, endless), compare(endless, endless)) == (
        "worse",
        "better",
        "undecided",
    )
    assert both("better", "better") == "better"
    assert (
        both("worse", "undecided")
        == both("undecided", "worse")
        == both("worse", "worse")
        == "worse"
    )
    assert (
        both("better", "worse")
        == both("better", "undecided")
        == both("undecided", "undecided")
        == "undecided"
    )


def test_the_sum_keeps_theorems_apart() -> None:
    assert (
        headline(judge_claims([made_up()]))
        == "4 of 18 claims hold by construction; of the other 14,"
        " 14 hold, 0 hold in part and 0 do not hold"
    )
    assert (
        headline(judge_claims([]))
        == "0 of 18 claims hold by construction, 4 that should are not measured; of the other 14,"
        " 0 hold, 0 hold in part, 0 do not hold and 14 are not measured"
    )


HIGH = {  # variances of pairs that spoil a claim of two measures
    2: 1.01 * ONES,
    3: ONES * np.linspace(0.6, 0.3, EPOCHS + 1),
    6: 0.5 ** np.arange(EPOCHS + 1.0) * ONES,
    12: 1.2 * ONES,
}


@pytest.mark.parametrize("number", HIGH)
def test_a_claim_on_variances_needs_both_measures(number: int) -> None:
    """It falls if it fails at the same weights, or along own runs; both are told apart."""
    good, high = made_up().variances("own runs")[0], HIGH[number]
    for measure, given in {
        "same weights": variances(high, ONES, good),
        "own runs": variances(good, ONES, high),
    }.items():
        claim = judge_claims([made_up(variance=given)])[number - 1]
        assert claim.verdict == "does not hold"
        other = ({"same weights", "own runs"} - {measure}).pop()
        assert not claim.cases[0][f"held, {measure}"]
        assert claim.cases[0][f"held, {other}"]
        assert f"{measure}: 0 of 1" in claim.measured
        assert f"{other}: 1 of 1" in claim.measured


@pytest.mark.parametrize("number", HIGH)
def test_four_times_the_step_is_shown_and_does_not_decide(number: int) -> None:
    good, high = made_up().variance["chosen"], variances(HIGH[number], ONES)["chosen"]
    claim = judge_claims([made_up(variance={"chosen": good, "four times": high})])[number - 1]
    assert claim.verdict == "holds"
    chosen, _, four_times = claim.measured.partition("four times the step: ")
    for measure in ("same weights", "own runs"):
        assert f"{measure}: 1 of 1" in chosen
        assert f"{measure}: 0 of 1" in four_times
        assert claim.by_measure["four times"][measure].startswith("0 of 1")


def test_the_worst_single_seed_is_told_though_means_are_compared() -> None:
    """Along own runs, a claim that holds for the means of seeds may fail in one of them."""
    good = made_up().variances("own runs")[0]
    own = good.copy()
    own[-1, -1] = 1.25
    claim = judge_claims([made_up(variance=variances(good, ONES, own))])[1]
    assert claim.verdict == "holds"
    assert claim.found.endswith("of single seeds along own runs at most 1.25")
    case = claim.cases[0]
    assert case["worst ratio of a seed, own runs"] == 1.25
    assert case["worst ratio, own runs"] < 1.0


def test_no_sentence_has_internal_names() -> None:
    """What a reader sees is prose: no identifiers with underscores, except in the losses' names."""
    for claim in judge_claims([made_up()]):
        prose = f"{claim.claim} {claim.measured} {claim.detail}".replace("log_loss", "")
        assert not re.search(r"[a-z]_[a-z]{2}", prose), prose


def test_the_largest_stable_step_is_before_the_first_unstable_one() -> None:
    eta0 = np.array([1.0, 2.0, 4.0])
    assert largest_stable(eta0, steady(0.5, 0.5, 0.5), 1.0) == 4.0
    # Steps after the first unstable one do not count.
    assert largest_stable(eta0, steady(0.5, 1.0, 0.5), 1.0) == 1.0
    assert np.isnan(largest_stable(eta0, steady(np.inf, 0.5, 0.5), 1.0))


def test_small_statistics() -> None:
    assert clearly_below(np.array([1.0, 1.1]), np.array([2.0, 2.1]))
    assert not clearly_below(np.array([1.0, 1.9]), np.array([1.2, 2.0]))
    assert not clearly_below(np.array([1.0]), np.array([2.0]))
    assert (divide(0.0, 0.0), divide(1.0, 0.0), divide(1.0, 2.0)) == (1.0, np.inf, 0.5)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 100.0, 1000.0])) == pytest.approx(
        1.0
    )
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0])) == 0.0
    assert spearman(np.array([1.0, 2.0]), np.array([2.0, 1.0])) == pytest.approx(-1.0)
