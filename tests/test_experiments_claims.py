"""Verdicts follow their rules: each flips with made-up numbers exactly where it should."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antithetic.paper import METHODS, Part, claims, judge
from antithetic.paper.about_runs import largest_stable
from antithetic.paper.claim import (
    both,
    clearly_below,
    compare,
    divide,
    headline,
    judge_outcomes,
)
from antithetic.paper.measures import spearman

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


def with_ends(part: Part, objective: dict[str, np.ndarray]) -> Part:
    return replace(part, objective=objective, ends=ends(objective))


def farther(part: Part, distance: float) -> dict[str, dict[str, np.ndarray]]:
    return part.ends | {"SGD-as": part.ends["SGD-as"] | {"distance": np.full(SEEDS, distance)}}


def two_by_two(pairs: np.ndarray, alone: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    return {"SGD": {"SGD": alone}, "SGD-as": {"SGD": pairs, "SGD-as": pairs}}


def made_up(**given: Any) -> Part:
    """A part on which every claim holds, except for the entries given."""
    fading = ONES * np.linspace(0.3, 0.6, EPOCHS + 1)
    shaking = np.ones((SEEDS, EPOCHS)) * np.linspace(1.0, 0.2, EPOCHS)
    values: dict[str, Any] = {
        "name": "made up",
        "loss": "log_loss",
        "settings": {"seeds": SEEDS, "epochs": EPOCHS},
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
        "variance": two_by_two(fading, ONES),
        "second_moment": two_by_two(0.8 * ONES, ONES),
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
    return Part(**values | given)


def steady(*means: float) -> np.ndarray:
    return np.repeat(np.array(means)[:, None], SEEDS, axis=1)


def batch(alone: float, ratio: float) -> dict[str, np.ndarray]:
    return {
        "eta0": np.array([1.0]),
        "SGD": np.full(SEEDS, alone),
        "SGD-as": np.full(SEEDS, alone - 0.1),
        "variance_ratio": np.array([0.6]),
    } | ({} if ratio == 0.6 else {"variance_ratio": np.full(SEEDS, ratio)})


SPOILT: dict[str, tuple[int, Callable[[Part], Part]]] = {
    "a biased epoch": (1, lambda part: replace(part, bias=np.array([0.0, 1e-9]))),
    "one seed's variance above in one epoch": (
        2,
        lambda part: replace(part, variance=two_by_two(at(part, 1.01, 1, 4), ONES)),
    ),
    "equal variance": (2, lambda part: replace(part, variance=two_by_two(ONES, ONES))),
    "a reduction that is larger in one epoch": (
        3,
        lambda part: replace(part, variance=two_by_two(at(part, 0.1, slice(None), 3), ONES)),
    ),
    "a reduction that grows": (
        3,
        lambda part: replace(
            part, variance=two_by_two(ONES * np.linspace(0.6, 0.3, EPOCHS + 1), ONES)
        ),
    ),
    "a larger gap": (4, lambda part: with_ends(part, methods(SGD_as=1.1))),
    "the same gap": (
        4,
        lambda part: with_ends(part, part.objective | {"SGD-as": part.objective["SGD"]}),
    ),
    "more jitter": (
        5,
        lambda part: replace(part, jitter=part.jitter | {"SGD-as": 1.1 * part.jitter["SGD"]}),
    ),
    "more spread": (
        5,
        lambda part: with_ends(
            part, part.objective | {"SGD-as": part.objective["SGD-as"] + 2 * NOISE}
        ),
    ),
    "jitter that stays": (
        6,
        lambda part: replace(part, jitter=part.jitter | {"SGD": np.ones((SEEDS, EPOCHS))}),
    ),
    "variance that falls": (
        6,
        lambda part: replace(
            part, variance=two_by_two(0.5 ** np.arange(EPOCHS + 1.0) * ONES, ONES)
        ),
    ),
    "partners of the same label": (
        7,
        lambda part: replace(part, labels={"opposite": 0.5, "possible": 0.9, "random": 0.5}),
    ),
    "a product that turns": (
        8,
        lambda part: replace(part, products=part.products | {"reversed": np.array([0.0, 0.01])}),
    ),
    "a logistic product that vanishes": (
        8,
        lambda part: replace(part, products=part.products | {"negative": np.array([1.0, 0.99])}),
    ),
    "the same stable step": (
        9,
        lambda part: replace(
            part, constant_steps=part.constant_steps | {"SGD-as": steady(0.5, 1.0, np.inf)}
        ),
    ),
    "a larger distance": (10, lambda part: replace(part, ends=farther(part, 1.1))),
    "nearer only at the end": (
        10,
        lambda part: replace(part, distance={"SGD": ONES, "SGD-as": ONES * (1.1 - 0.2 * LAST)}),
    ),
    "bounds that say nothing": (
        11,
        lambda part: replace(part, ranks=part.ranks | {"all": np.array([0.9, 0.2])}),
    ),
    "a larger moment": (
        12,
        lambda part: replace(part, second_moment=two_by_two(at(part, 1.2, slice(None), 3), ONES)),
    ),
    "negative products in vain": (
        13,
        lambda part: replace(part, ideal=part.ideal | {"ratio": np.array([0.5, 1.0])}),
    ),
    "another variance ratio": (14, lambda part: replace(part, batches={"4": batch(0.5, 0.61)})),
    "a larger gap in larger batches": (
        14,
        lambda part: replace(
            part, batches={"4": batch(0.5, 0.6) | {"SGD-as": np.full(SEEDS, 0.6)}}
        ),
    ),
    "a larger L1 objective": (
        15,
        lambda part: replace(part, non_smooth=part.non_smooth | {"SGD-as": np.full(SEEDS, 0.6)}),
    ),
    "another table": (
        16,
        lambda part: replace(part, zero_one=part.zero_one | {"same_table": np.array([0.0])}),
    ),
    "another formula": (
        16,
        lambda part: replace(part, zero_one=part.zero_one | {"formula": np.array([1e-6])}),
    ),
    "reshuffling is better": (
        17,
        lambda part: with_ends(part, methods(SGD_as=0.1, reshuffled=0.05)),
    ),
    "reshuffling is better at its best": (
        17,
        lambda part: replace(part, own_ends=ends(methods(SGD_as=0.1, reshuffled=0.05))),
    ),
    "orders are worse": (
        18,
        lambda part: with_ends(part, methods(reshuffled=0.2, nested_order=0.3, balanced=0.3)),
    ),
}
OF_RUNS = (4, 5, 10, 14, 15, 17, 18)
THEOREMS = (1, 8, 13, 16)
LAST = np.arange(EPOCHS + 1) == EPOCHS


def at(part: Part, value: float, *place: Any) -> np.ndarray:
    found = part.variance["SGD-as"]["SGD"].copy()
    found[place] = value
    return found


def verdicts(*parts: Part) -> dict[int, str]:
    return {claim.number: claim.verdict for claim in claims(parts)}


def test_all_hold_where_all_is_well() -> None:
    assert verdicts(made_up()) == dict.fromkeys(range(1, 19), "holds")


@pytest.mark.parametrize("reason", SPOILT)
def test_a_claim_falls_with_its_numbers(reason: str) -> None:
    number, spoil = SPOILT[reason]
    good, bad = made_up(), spoil(made_up(name="another"))
    assert verdicts(bad)[number] == "does not hold"
    if number in OF_RUNS:
        only_undecided = all(
            row["outcome"] == "undecided" for row in claims([bad])[number - 1].rows
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
    short = made_up(settings={"seeds": SEEDS, "epochs": 2})
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
    part = made_up()
    endless = replace(
        with_ends(part, part.objective | {"SGD-as": np.full_like(ONES, np.inf)}),
        distance={"SGD": ONES, "SGD-as": np.full_like(ONES, np.inf)},
        jitter=part.jitter | {"SGD-as": np.full((SEEDS, EPOCHS), np.inf)},
        variance=two_by_two(np.full_like(ONES, np.inf), ONES),
        second_moment=two_by_two(np.full_like(ONES, np.inf), ONES),
    )
    found = verdicts(endless)
    assert {found[number] for number in (2, 4, 5, 10, 12, 17)} == {"does not hold"}


def test_every_claim_states_its_rule_and_its_cases() -> None:
    for claim in claims([made_up()]):
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
        assert "made up" in claim.detail
        assert claim.rows
        assert all(isinstance(row["held"], bool) for row in claim.rows)
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
    part = made_up(
        ends=chance,
        own_ends=chance,
        batches={"4": batch(0.5, 0.6) | alike},
        non_smooth=made_up().non_smooth | alike,
        jitter={
            method: np.repeat(values[:, None], EPOCHS, axis=1) for method, values in alike.items()
        },
    )
    claim = claims([part, part])[number - 1]
    assert {row["outcome"] for row in claim.rows} == {"undecided"}
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
        headline(claims([made_up()]))
        == "18 claims: 4 hold by construction; 14 findings: 14 hold, 0 hold in part, 0 do not hold"
    )
    assert (
        headline(claims([])) == "18 claims: 0 hold by construction, 4 of that kind not measured; "
        "14 findings: 0 hold, 0 hold in part, 0 do not hold, 14 not measured"
    )


def test_the_remark_on_spread_has_the_numbers_of_the_runs() -> None:
    assert f"one of {SEEDS} runs by 21 %" in claims([made_up()])[4].detail


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
