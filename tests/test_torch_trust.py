"""The test of the arms: differences within blocks, standard errors, switching on and off."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from antithetic.torch.rounds import GROUPS, IMPORTANCE, SHUFFLED, STRATIFIED  # noqa: E402
from antithetic.torch.trust import ENOUGH, Figures, Trust  # noqa: E402

ARMS = [SHUFFLED, STRATIFIED, IMPORTANCE]


def run(trust, rng, blocks, means, epoch=0):
    """Blocks whose squared norms are exponentially distributed around these means."""
    for block in range(blocks):
        for arm, mean in means.items():
            trust.add((epoch, block), arm, len(means), mean * rng.exponential())


def figures(trust):
    return Figures.of(trust.sums)


def test_an_arm_that_is_better_is_switched_on_and_off_again():
    """On by three standard errors, off when its advantage is gone; then all is tested again."""
    trust, rng = Trust(), np.random.default_rng(0)
    assert trust.choose(ARMS) == (SHUFFLED, 1.0)
    run(trust, rng, 200, {SHUFFLED: 1.0, STRATIFIED: 1.0, IMPORTANCE: 0.3})
    trust.decide(1)
    assert trust.on.tolist() == [False, False, False, True]
    main, share = trust.choose(ARMS)
    assert main == IMPORTANCE
    assert share == 0.05  # stratified batches are worse by more than three errors
    found = figures(trust)
    assert abs(found.ratios[IMPORTANCE] - 0.3) < 3 * found.errors[IMPORTANCE]
    assert abs(found.ratios[STRATIFIED] - 1.0) < 3 * found.errors[STRATIFIED]
    for epoch in range(1, 9):
        trust.begin_epoch()
        run(trust, rng, 200, {SHUFFLED: 1.0, STRATIFIED: 1.0, IMPORTANCE: 1.1}, epoch)
        trust.decide(1)
        trust.choose(ARMS)
    assert not trust.on.any()
    assert trust.choose(ARMS)[0] == SHUFFLED


def test_few_blocks_decide_nothing():
    """No arm is switched on after few blocks, however large the difference looks."""
    trust = Trust()
    for block in range(20):
        trust.add((0, block), SHUFFLED, 2, 10.0 + 0.1 * (block % 2))
        trust.add((0, block), IMPORTANCE, 2, 1.0)
    trust.decide(1)
    assert not trust.on.any()


def test_arms_without_effect_are_resolved_in_the_end():
    """After 400 blocks the test shrinks to 5 % of the batches, with shuffled batches in use."""
    trust, rng = Trust(), np.random.default_rng(1)
    arms = [SHUFFLED, STRATIFIED]
    run(trust, rng, ENOUGH - 1, {SHUFFLED: 1.0, STRATIFIED: 1.0})
    trust.decide(1)
    assert trust.choose(arms) == (SHUFFLED, 1.0)
    run(trust, rng, 2, {SHUFFLED: 1.0, STRATIFIED: 1.0}, epoch=1)
    trust.decide(1)
    assert trust.choose(arms) == (SHUFFLED, 0.05)
    trust.begin_epoch()  # fewer blocks count now, and it stays so
    assert trust.choose(arms) == (SHUFFLED, 0.05)


def test_other_arms_are_still_tested_when_one_is_in_use():
    """Half of the batches test the other arms, unless these cannot be better."""
    trust, rng = Trust(), np.random.default_rng(2)
    run(trust, rng, 100, {SHUFFLED: 1.0, STRATIFIED: 0.3, IMPORTANCE: 0.32})
    trust.decide(1)
    trust.on[IMPORTANCE] = trust.settled[IMPORTANCE] = False
    assert trust.choose(ARMS) == (STRATIFIED, 0.5)
    trust.on[IMPORTANCE] = True
    assert trust.choose(ARMS)[1] == 0.05
    assert trust.choose([SHUFFLED, IMPORTANCE])[0] == IMPORTANCE  # of those that are to be had
    assert trust.choose([SHUFFLED, STRATIFIED, GROUPS])[1] == 0.5  # groups were never measured


@pytest.mark.parametrize("seed", range(3))
def test_useless_arms_are_seldom_switched_on(seed):
    """Three of them, looked at 20 times in each of 30 runs: at most 4 runs switch one on.

    With normal differences the probability for a run is below 5 %, so that more than 4 of 30 have a
    probability below 2 %.
    """
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(30):
        trust, found = Trust(), False
        for epoch in range(20):
            run(trust, rng, 25, dict.fromkeys(range(4), 1.0), epoch)
            trust.decide(1)
            found |= bool(trust.on.any())
        wrong += found
    assert wrong <= 4


def test_scales_of_the_gradients_do_not_matter():
    """Gradients shrink by orders of magnitude in training; late blocks count like early ones."""
    trust, rng = Trust(), np.random.default_rng(3)
    for block in range(300):
        size = 10.0 ** (-block / 60)
        trust.add((0, block), SHUFFLED, 2, size * rng.exponential())
        trust.add((0, block), IMPORTANCE, 2, 0.5 * size * rng.exponential())
    trust.decide(1)
    found = figures(trust)
    assert 0.35 < found.ratios[IMPORTANCE] < 0.65
    assert found.blocks[IMPORTANCE] == pytest.approx(300)


def test_blocks_with_nan_and_incomplete_ones_do_not_count():
    trust = Trust()
    trust.add((0, 0), SHUFFLED, 2, 1.0)
    trust.add((0, 0), IMPORTANCE, 2, np.nan)
    trust.add((0, 1), SHUFFLED, 2, 1.0)
    trust.add((0, 2), SHUFFLED, 2, 0.0)
    trust.add((0, 2), IMPORTANCE, 2, 0.0)
    trust.decide(1)
    assert not trust.sums.any()


def test_the_report_is_a_table():
    """Arm, batches, ratio and error, in use or not; arms that were not measured say so."""
    trust, rng = Trust(), np.random.default_rng(0)
    run(trust, rng, 100, {SHUFFLED: 1.0, IMPORTANCE: 0.4})
    found = trust.report([SHUFFLED, GROUPS, IMPORTANCE], IMPORTANCE, 3)
    assert found.arms == ("shuffled", "groups", "importance")
    assert found.batches == (100, 0, 100)
    assert found.in_use == (False, False, True)
    lines = str(found).splitlines()
    assert repr(found) == str(found)
    assert lines[1].split() == ["shuffled", "100", "1.000", "±", "0.000", "no"]
    assert lines[2].split() == ["groups", "0", "not", "measured", "no"]
    assert lines[3].split()[-1] == "yes"
    assert lines[4].startswith("3 batches left out")
    assert len(lines) == 5
    assert "not been tested yet" in str(Trust().report(ARMS, SHUFFLED, 0))


def test_a_state_has_the_counts_and_open_blocks():
    trust, rng = Trust(), np.random.default_rng(0)
    run(trust, rng, 50, {SHUFFLED: 1.0, IMPORTANCE: 0.3})
    trust.decide(1)
    trust.choose(ARMS)
    trust.add((0, 77), SHUFFLED, 2, 1.0)
    again = Trust()
    again.load(trust.state())
    for one in (trust, again):
        one.add((0, 77), IMPORTANCE, 2, 0.1)
        one.decide(1)
    np.testing.assert_array_equal(again.sums, trust.sums)
    assert again.choose(ARMS) == trust.choose(ARMS)
    with pytest.raises(ValueError, match="of the test has shape"):
        again.load({**trust.state(), "sums": torch.zeros(2)})
