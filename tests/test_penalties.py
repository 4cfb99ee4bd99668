"""Penalties: value, and the proximal step as the minimiser that defines it.

Groups of features, and penalties of one's own.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from antithetic.problem.penalties import (
    ElasticNet,
    GroupLasso,
    GroupNorms,
    OwnPenalty,
    make_penalty,
    read_groups,
)

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
    """The smooth gradient is ``l2 w``."""
    np.testing.assert_array_equal(
        ElasticNet(2.0, 9.0).smooth_gradient(np.array([1.0, -2.0])), [2.0, -4.0]
    )


@pytest.mark.parametrize("strength", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["l2", "l1"])
def test_bad_strengths_are_refused_by_name(name, strength):
    """Negative and infinite strengths are refused by name."""
    with pytest.raises(ValueError, match=name):
        ElasticNet(**{name: strength})


# ---- groups and penalties of one's own


class Lasso:
    """0.8 |w|_1, as a user would write it."""

    separable = True

    def __repr__(self):  # for names of tests, which an address would change
        return "Lasso()"

    def value(self, w):
        return 0.8 * float(np.abs(w).sum())

    def prox(self, w, step):
        return np.sign(w) * np.maximum(np.abs(w) - 0.8 * step, 0.0)


class Box:
    """Weights between -1 and 2: nothing inside, infinite outside."""

    separable = True

    def __repr__(self):  # for names of tests, which an address would change
        return "Box()"

    def value(self, w):
        return 0.0 if ((w >= -1.0) & (w <= 2.0)).all() else math.inf

    def prox(self, w, step):  # noqa: ARG002 - the nearest point, whatever the step
        return np.clip(w, -1.0, 2.0)


@st.composite
def penalties(draw):
    """A non-separable or custom penalty of five weights, with and without an L2 part."""
    l2 = draw(st.just(0.0) | strengths)
    if draw(st.booleans()):
        return OwnPenalty(draw(st.sampled_from([Lasso(), Box()])), l2)
    owner = draw(st.lists(st.integers(-1, 2), min_size=5, max_size=5))  # -1: in no group
    groups = tuple(tuple(j for j in range(5) if owner[j] == g) for g in sorted(set(owner) - {-1}))
    return GroupNorms(groups, draw(strengths), l2)


def vectors(size):
    return arrays(np.float64, 5, elements=st.floats(-size, size))


@given(
    penalties(),
    vectors(5.0),
    st.floats(0.01, 10.0),
    vectors(1.0),
    st.sampled_from([1.0, 1e-2, 1e-4]),
)
def test_no_vector_is_better_than_the_prox(penalty, w, step, direction, length):
    """prox(w) minimises r(v) + |v - w|^2 / (2 step): against points near it, w itself, and zero."""

    def target(v):
        return penalty.value(v) + float((v - w) @ (v - w)) / (2.0 * step)

    best = penalty.prox(w, step)
    least = target(best)
    assert math.isfinite(least)
    for other in (best + length * direction, w, np.zeros(5), best * (1.0 + length)):
        assert least <= target(other) + 1e-10 * max(1.0, least)


@given(penalties(), vectors(5.0), vectors(5.0), st.floats(0.01, 10.0))
def test_the_prox_of_groups_does_not_expand(penalty, a, b, step):
    """Two vectors are never further apart after the step."""
    apart = np.linalg.norm(penalty.prox(a, step) - penalty.prox(b, step))
    assert apart <= np.linalg.norm(a - b) * (1.0 + 1e-12) + 1e-12


@given(penalties(), vectors(5.0), st.floats(0.01, 10.0))
def test_the_prox_leaves_its_argument_alone(penalty, w, step):
    """The prox does not change its argument, and keeps shape and float type."""
    before = w.copy()
    for real in (np.float64, np.float32):
        assert penalty.nonsmooth_prox(w.astype(real), step).dtype == real
        assert penalty.prox(w.astype(real), step).shape == (5,)
    penalty.prox(w, step)
    np.testing.assert_array_equal(w, before)


@given(penalties(), vectors(5.0))
def test_the_smooth_part_of_every_penalty_is_quadratic(penalty, w):
    """l2 w, which with the value of the rest makes the whole."""
    np.testing.assert_array_equal(penalty.smooth_gradient(w), penalty.l2 * w)
    rest = (
        OwnPenalty(penalty.given)
        if isinstance(penalty, OwnPenalty)
        else GroupNorms(penalty.groups, penalty.l1)
    )
    assert penalty.value(w) == pytest.approx(rest.value(w) + 0.5 * penalty.l2 * float(w @ w))


def test_the_value_of_groups_is_the_formula():
    """l2 / 2 |w|^2 + l1 sum sqrt(|g|) |w_g|; what is in no group is in the first sum only.

    Float32 does not overflow.
    """
    penalty = GroupNorms(((0, 2), (3,)), l1=0.5, l2=2.0)
    w = np.array([3.0, 7.0, -4.0, -2.0])
    assert penalty.value(w) == pytest.approx(78.0 + 0.5 * (math.sqrt(2.0) * 5.0 + 2.0))
    assert (
        1e30
        < GroupNorms(((0, 2), (3,)), l1=0.5).value(w.astype(np.float32) * np.float32(1e30))
        < math.inf
    )


def test_groups_are_zero_together_or_not_at_all():
    """Groups shorter than step l1 sqrt(|g|) become zero; others keep their direction.

    Weights in no group are unchanged.
    """
    w = np.array([3.0, 7.0, -4.0, 1.0, 1.0])
    moved = GroupNorms(((0, 2), (3, 4)), l1=1.0).prox(w, 1.0)
    np.testing.assert_array_equal(moved[3:], 0.0)
    np.testing.assert_allclose(moved[[0, 2]], w[[0, 2]] * (1.0 - math.sqrt(2.0) / 5.0))
    assert moved[1] == 7.0


def test_groups_of_one_are_the_lasso():
    """Groups of one have the value and prox of the lasso."""
    w, alone, lasso = (
        np.array([2.0, -0.3, 0.0]),
        GroupNorms(((0,), (1,), (2,)), l1=0.5, l2=0.1),
        ElasticNet(l2=0.1, l1=0.5),
    )
    assert alone.value(w) == pytest.approx(lasso.value(w))
    np.testing.assert_allclose(alone.prox(w, 1.0), lasso.prox(w, 1.0))


def test_without_groups_there_is_no_penalty():
    """An empty tuple of groups is no penalty."""
    w = np.array([2.0, -0.3])
    assert GroupNorms((), l1=1.0).value(w) == 0.0
    np.testing.assert_array_equal(GroupNorms((), l1=1.0).prox(w, 1.0), w)


@pytest.mark.parametrize(
    "labels",
    [
        list("abbac"),
        [5, -1, -1, 5, 9],
        [0.5, 0.1, 0.1, 0.5, 2.0],
        [False, True, True, False, True][:5],
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_labels_of_any_kind_make_groups(labels, form):
    """Words, numbers and truth values: features with one label are one group."""
    found = read_groups(form(labels), 5)
    assert sorted(feature for group in found for feature in group) == [0, 1, 2, 3, 4]
    for group in found:
        assert len({labels[feature] for feature in group}) == 1
    assert len(found) == len(set(labels))


@pytest.mark.parametrize(
    "groups",
    [
        [[0, 3], [1, 2]],
        ((0, 3), (1, 2)),
        [np.array([0, 3]), range(1, 3)],
        np.array([[0, 3], [1, 2]]),
    ],
    ids=["lists", "tuples", "mixed", "array"],
)
def test_lists_of_features_make_groups(groups):
    """Lists of any kind make groups, and a feature may be in none."""
    assert read_groups(groups, 5) == ((0, 3), (1, 2))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0, 1], [1, 2]], "feature 1 twice"),
        ([[0, 0]], "feature 0 twice"),
        ([[0, 5]], "from 0 to 4; got 0 to 5"),
        ([[-1, 2]], "from 0 to 4; got -1 to 2"),
        ([[0], []], "group without features"),
        ([[]], "group without features"),
        ([0, 1], r"each of the 5 features, .* got shape \(2,\)"),
        ([], r"got shape \(0,\)"),
        (3, r"got shape \(\)"),
        (np.zeros((2, 2, 2)), "list of lists of features"),
        ({"a": [0, 1]}, "list of lists of features"),
    ],
    ids=str,
)
def test_groups_that_are_refused(groups, message):
    """The error says what is wrong with the groups and what is allowed."""
    with pytest.raises(ValueError, match=message):
        read_groups(groups, 5)


@pytest.mark.parametrize("groups", [[[0.5, 1.7]], [[True, False]], [["0", "1"]]], ids=str)
def test_features_that_are_not_whole_numbers_are_refused(groups):
    """A mask of two features is not the features 1 and 0."""
    with pytest.raises(ValueError, match="groups"):
        read_groups(groups, 2)


@pytest.mark.parametrize("groups", [["a", 1, None], [[0, 1], 2], [["a", "b"], ["c"]]], ids=str)
def test_groups_that_cannot_be_read_are_named(groups):
    """Groups that cannot be read give a ValueError that names ``groups``."""
    with pytest.raises(ValueError, match="groups"):
        read_groups(groups, 3)


@pytest.mark.parametrize(("l1", "l2"), [(-1.0, 0.0), (0.0, math.nan), (math.inf, 0.0)])
def test_bad_strengths_of_groups_are_refused(l1, l2):
    """Bad strengths are refused as for the elastic net."""
    with pytest.raises(ValueError, match="finite number, at least 0"):
        GroupNorms(((0,),), l1, l2)


@pytest.mark.parametrize(
    ("lacking", "others"),
    [
        ("value", ("prox", "separable")),
        ("prox", ("value", "separable")),
        ("separable", ("value", "prox")),
    ],
)
def test_what_a_custom_penalty_lacks_is_named(lacking, others):
    """The error names the missing one of ``value``, ``prox`` and ``separable``."""
    given = type("Given", (), {name: getattr(Lasso, name) for name in others})()
    with pytest.raises(ValueError, match=f"lacks {lacking}$"):
        OwnPenalty(given)


def test_a_class_is_not_a_penalty():
    """The error for a class without parentheses says what is missing."""
    with pytest.raises(ValueError, match="penalty"):
        OwnPenalty(Lasso)


@pytest.mark.parametrize("moved", [np.zeros(3), np.zeros((2, 1)), 0.0, None], ids=str)
def test_a_prox_of_the_wrong_shape_is_named(moved):
    """A prox of the wrong shape is refused, not broadcast; None comes from a missing return."""
    given = type(
        "Given", (), {"separable": True, "value": lambda *_: 0.0, "prox": lambda *_: moved}
    )()
    with pytest.raises(
        ValueError,
        match=r"prox of the penalty returned (shape .*|None) for weights of shape \(2,\)",
    ):
        OwnPenalty(given).prox(np.zeros(2), 1.0)


def test_an_own_penalty_with_l2_is_the_elastic_net():
    """The prox of a sum with a quadratic is that of the rest, at a shorter step."""
    w, own, net = (
        np.array([3.0, -0.5, 0.1]),
        OwnPenalty(Lasso(), l2=0.7),
        ElasticNet(l2=0.7, l1=0.8),
    )
    assert own.value(w) == pytest.approx(net.value(w))
    for step in (0.1, 1.0, 10.0):
        np.testing.assert_allclose(own.prox(w, step), net.prox(w, step), atol=1e-15)
    assert own.separable is True
    np.testing.assert_array_equal(
        OwnPenalty(Box(), l2=1.0).prox(np.array([9.0, -9.0]), 1.0), [2.0, -1.0]
    )


@pytest.mark.parametrize(
    ("given", "l1", "kind"),
    [
        (None, 0.0, ElasticNet),
        (GroupLasso([0, 0, 1]), 0.1, GroupNorms),
        (Lasso(), 0.0, OwnPenalty),
    ],
    ids=["none", "groups", "own"],
)
def test_penalties_by_object(given, l1, kind):
    """penalty= takes None, groups or your own object, each with the given strengths."""
    penalty = make_penalty(given, 3, l2=0.5, l1=l1)
    assert isinstance(penalty, kind)
    assert (penalty.l2, penalty.l1) == (0.5, l1)


def test_an_elastic_net_has_strengths_of_its_own():
    """It is taken as it is, so none may be given besides."""
    net = ElasticNet(l2=0.1, l1=0.2)
    assert make_penalty(net, 3, l2=0.0, l1=0.0) is net
    for twice in ({"l2": 0.1, "l1": 0.0}, {"l2": 0.0, "l1": 0.1}):
        with pytest.raises(ValueError, match="given twice"):
            make_penalty(net, 3, **twice)


@pytest.mark.parametrize(
    ("given", "l1", "message"),
    [
        ("lasso", 0.0, r"use l2= and l1= without penalty=, or penalty=GroupLasso\(groups\)"),
        ("group_lasso", 0.1, r"'group_lasso' is not known; use .*GroupLasso\(groups\)"),
        (GroupLasso([0, 0, 1]), 0.0, "takes its strength from l1=; set l1= above 0"),
        (GroupLasso([0, 0]), 0.1, r"each of the 3 features, .* got shape \(2,\)"),
        (GroupLasso([[0, 3]]), 0.1, "from 0 to 2; got 0 to 3"),
        (Lasso(), 0.1, "make it part of the penalty"),
        (SimpleNamespace(), 0.0, "lacks value, prox, separable"),
    ],
    ids=str,
)
def test_penalties_that_are_refused(given, l1, message):
    """The error says what to do instead."""
    with pytest.raises(ValueError, match=message):
        make_penalty(given, 3, l2=0.0, l1=l1)


@pytest.mark.parametrize(
    "groups", [[], None, "ab", [[0], []], [[0.5]], np.zeros((2, 2, 2))], ids=str
)
def test_groups_that_fit_no_data_are_refused_at_once(groups):
    """The object itself refuses what cannot be groups of any number of features."""
    with pytest.raises(ValueError, match="groups"):
        GroupLasso(groups)


def test_a_group_lasso_is_a_value():
    """Equal by its groups, with a repr that can be pasted back; its groups cannot be changed."""
    lists, labels = GroupLasso([[0, 1], [2]]), GroupLasso(np.array([0, 0, 1]))
    assert lists == GroupLasso(((0, 1), (2,))) == eval(repr(lists))
    assert labels == GroupLasso([0, 0, 1])
    assert labels != GroupLasso([0, 1, 1])
    assert lists.on(3, 0.5) == labels.on(3, 0.5) == GroupNorms(((0, 1), (2,)), 0.5)
    given = np.array([0, 0, 1])
    kept = GroupLasso(given)
    given[:] = 7
    assert kept == labels
    with pytest.raises(ValueError, match="read-only"):
        kept.groups[0] = 1
