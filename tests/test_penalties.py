"""Penalties: value, and the proximal step as the minimiser that defines it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antithetic.penalties import ElasticNet

strengths = st.floats(0.0, 3.0)
weights = st.floats(-5.0, 5.0)


@given(strengths, strengths, weights, st.floats(0.01, 10.0), st.floats(-6.0, 6.0))
def test_no_point_is_better_than_the_prox(l2, l1, w, step, other):
    """prox(w) minimises r(v) + |v - w|^2 / (2 step)."""
    penalty = ElasticNet(l2, l1)

    def target(v):
        return penalty.value(np.array([v])) + (v - w) ** 2 / (2 * step)

    best = penalty.prox(np.array([w]), step)[0]
    assert target(best) <= target(other) + 1e-12


@given(weights, weights, strengths, strengths)
def test_the_prox_does_not_expand(a, b, l2, l1):
    """Two points are never further apart after the step."""
    prox = ElasticNet(l2, l1).prox(np.array([a, b]), 0.7)
    assert abs(prox[0] - prox[1]) <= abs(a - b) + 1e-12


def test_the_value_is_the_formula():
    """l2 / 2 |w|^2 + l1 |w|_1, in float64 for float32 weights too."""
    w = np.array([3.0, -4.0])
    assert ElasticNet(2.0, 0.5).value(w) == 25.0 + 3.5
    assert ElasticNet(2.0, 0.5).value(w.astype(np.float32) * np.float32(1e30)) > 1e60


def test_the_smooth_gradient_is_that_of_the_quadratic_part():
    """l2 w."""
    np.testing.assert_array_equal(ElasticNet(2.0, 9.0).smooth_gradient(np.array([1.0, -2.0])), [2.0, -4.0])


@pytest.mark.parametrize("strength", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["l2", "l1"])
def test_bad_strengths_are_refused_by_name(name, strength):
    """Neither negative nor without end."""
    with pytest.raises(ValueError, match=name):
        ElasticNet(**{name: strength})
