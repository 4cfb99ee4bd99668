"""Advice: it says what was measured, and is quick."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import antithetic
from antithetic import advise, datasets
from antithetic.orders import Balanced, Shuffle
from antithetic.stochastic.plan import best_order


def test_ratios_are_exact_on_small_data():
    """On up to a thousand rows the ratios are those of the whole data."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    advice = advise(X, y, l2=1e-2)
    assert advice.rows_used == len(y)
    assert advice.ratio_now == pytest.approx(antithetic.pair(X, y).variance_ratio(X, y), rel=1e-9)
    assert advice.ratio_now < advice.ratio_faded < 1.0
    assert advice.ratio_later < advice.ratio_faded
    assert advice.table_epochs > 1.0


def test_the_sentence_names_the_setting_and_the_figures():
    """The sentence names the setting and the figures, and the result is immutable."""
    X, y = datasets.load("sonar_scale", return_X_y=True)
    advice = advise(X, y, l2=1e-2, random_state=3)
    for part in (
        "order='balanced'",
        f"{advice.ratio_now:.2f}",
        f"{advice.ratio_later:.2f}",
        "epochs",
    ):
        assert part in str(advice)
    with pytest.raises(dataclasses.FrozenInstanceError):
        advice.order = Shuffle()


def test_text_is_reshuffled_and_regression_is_supported():
    """More features than rows leave nothing to balance; numbers work as labels do."""
    rng = np.random.default_rng(0)
    wide = advise(rng.normal(size=(40, 60)), np.arange(40) % 2)
    assert wide.order == Shuffle()
    numbers = advise(
        rng.normal(size=(3000, 3)), rng.normal(size=3000), loss="squared_error", fit_intercept=True
    )
    assert (numbers.order, numbers.rows_used) == (Balanced(), 1000)


def test_a_rare_class_is_among_the_rows():
    """A rare class is always among the sampled rows."""
    y = np.zeros(50_000, int)
    y[7] = 1
    assert np.isfinite(advise(np.random.default_rng(0).normal(size=(50_000, 2)), y).ratio_now)


@pytest.mark.parametrize(
    ("n", "d", "batch_size", "epochs", "expected"),
    [
        (1000, 10, 2, 20, Balanced()),
        (1000, 501, 2, 20, Shuffle()),
        (1000, 10, 2, 1, Shuffle()),
        (1000, 10, 1000, 20, Shuffle()),
    ],
)
def test_the_order_follows_from_the_sizes(n, d, batch_size, epochs, expected):
    """The order follows from the numbers of rows, features, batches and epochs."""
    assert best_order(n, d, batch_size=batch_size, epochs=epochs)[0] == expected


def test_bad_input_is_refused():
    """Bad input is refused with an error."""
    X, y = datasets.load("sonar_scale", return_X_y=True)
    for given in ({"batch_size": 0}, {"epochs": 0}, {"loss": "logistic"}, {"random_state": -1}):
        with pytest.raises(ValueError, match=next(iter(given))):
            advise(X, y, **given)
