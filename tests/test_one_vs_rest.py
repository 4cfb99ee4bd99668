"""One against the rest: targets, labels and class weights of each problem."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import compute_class_weight

from antithetic import SGDClassifier, SGDRegressor
from antithetic.estimators.one_vs_rest import (
    OneVsRest,
    check_classes,
    check_known,
    classes_of,
    weights_of_classes,
)

pytestmark = pytest.mark.lowest

WORDS = np.array(["ape", "bee", "cat"])
THREE = WORDS[[0, 1, 2, 2, 1, 2]]
TWO = np.array([0, 1, 1, 0, 1, 1])
ROWS = np.array([1.0, 2.0, 0.5, 1.0, 0.0, 4.0])  # weights of six rows


# ---- problems


@pytest.mark.parametrize(
    ("classes", "n_problems"),
    [(None, 1), (np.array([0, 1]), 1), (WORDS, 3), (np.arange(7), 7)],
    ids=["numbers", "two", "three", "seven"],
)
def test_there_is_one_problem_for_two_classes_and_one_per_class_for_more(classes, n_problems):
    """A regression is one problem, too."""
    assert OneVsRest(classes).n_problems == n_problems


@pytest.mark.parametrize(
    "labels", [[0, 1], [-1, 1], [2.0, 7.0], ["no", "yes"], [False, True]], ids=str
)
def test_of_two_classes_the_second_is_plus_one(labels):
    """Labels of any kind; the label that is named is a plain Python value."""
    parts = OneVsRest(np.array(labels))
    np.testing.assert_array_equal(
        parts.target(np.array(labels)[TWO], 0), np.where(TWO == 1, 1.0, -1.0)
    )
    assert parts.positive(0) == 1
    assert parts.label(0) == labels[1]
    assert type(parts.label(0)) is type(labels[1])


def test_of_more_classes_each_is_plus_one_once():
    """In problem k class k is +1 and all others are -1, so each row is +1 in exactly one."""
    parts = OneVsRest(WORDS)
    targets = np.array([parts.target(THREE, number) for number in range(3)])
    np.testing.assert_array_equal(targets > 0.0, WORDS[:, None] == THREE)
    np.testing.assert_array_equal(np.unique(targets), [-1.0, 1.0])
    np.testing.assert_array_equal(targets.sum(axis=0), -1.0)
    assert [parts.label(number) for number in range(3)] == WORDS.tolist()
    assert [parts.positive(number) for number in range(3)] == [0, 1, 2]


def test_numbers_are_their_own_targets():
    """Regression has no classes: numbers of any type are targets in float64, and have no label."""
    parts = OneVsRest()
    for dtype in (np.int64, np.float32, np.float64):
        found = parts.target(np.array([3, -1, 2], dtype=dtype), 0)
        np.testing.assert_array_equal(found, [3.0, -1.0, 2.0])
        assert found.dtype == np.float64
    assert parts.label(0) is None
    assert parts.weigh(np.ones(3), None, 0) is None
    given = np.array([1.0, 2.0, 3.0])
    assert parts.weigh(np.ones(3), given, 0) is given


# ---- class weights


@pytest.mark.parametrize("weight", [None, ROWS], ids=["plain", "weighted"])
def test_two_classes_have_their_own_weights(weight):
    """Each row has the weight of its class, times its own."""
    parts = OneVsRest(np.array([0, 1]), np.array([3.0, 0.5]))
    expected = np.where(TWO == 1, 0.5, 3.0) * (1.0 if weight is None else weight)
    np.testing.assert_array_equal(parts.weigh(parts.target(TWO, 0), weight, 0), expected)


@pytest.mark.parametrize("weight", [None, ROWS], ids=["plain", "weighted"])
def test_of_more_classes_the_rest_has_the_weight_one(weight):
    """In problem k the rows of class k have its weight and all others 1, as in scikit-learn."""
    weights = np.array([3.0, 0.5, 2.0])
    parts = OneVsRest(WORDS, weights)
    for number in range(3):
        own = np.where(WORDS[number] == THREE, weights[number], 1.0)
        found = parts.weigh(parts.target(THREE, number), weight, number)
        np.testing.assert_array_equal(found, own * (1.0 if weight is None else weight))


def test_weights_of_one_leave_the_rows_weights_as_they_are():
    """Nothing is copied where no class weighs other than 1, problem by problem."""
    plain, mixed = OneVsRest(WORDS), OneVsRest(WORDS, np.array([1.0, 2.0, 1.0]))
    for weight in (None, ROWS):
        for number in (0, 2):
            target = mixed.target(THREE, number)
            assert plain.weigh(target, weight, number) is weight
            assert mixed.weigh(target, weight, number) is weight
        assert mixed.weigh(mixed.target(THREE, 1), weight, 1) is not weight


def test_a_class_may_weigh_nothing():
    """A weight of zero takes its rows out of the problem of its own class."""
    two = OneVsRest(np.array([0, 1]), np.array([0.0, 2.0]))
    np.testing.assert_array_equal(two.weigh(two.target(TWO, 0), None, 0), 2.0 * TWO)
    three = OneVsRest(WORDS, np.array([0.0, 1.0, 1.0]))
    found = three.weigh(three.target(THREE, 0), None, 0)
    np.testing.assert_array_equal(found, np.where(THREE == "ape", 0.0, 1.0))


def test_the_rows_weights_are_not_written_to():
    """A product is a new array, and the given one stays as it was."""
    given = ROWS.copy()
    parts = OneVsRest(np.array([0, 1]), np.array([3.0, 0.5]))
    found = parts.weigh(parts.target(TWO, 0), given, 0)
    assert not np.shares_memory(found, given)
    np.testing.assert_array_equal(given, ROWS)


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_balanced_weights_are_scikit_learns(y):
    """n / (k n_c): all classes together weigh as much as all rows."""
    classes = np.unique(y)
    found = weights_of_classes("balanced", classes, y)
    np.testing.assert_array_equal(found, compute_class_weight("balanced", classes=classes, y=y))
    counts = np.array([np.sum(y == label) for label in classes])
    np.testing.assert_allclose(found, len(y) / (len(classes) * counts), rtol=1e-15)
    assert found @ counts == pytest.approx(len(y))


@pytest.mark.parametrize("given", [None, {}, {"ape": 1.0}, dict.fromkeys(WORDS.tolist(), 1)])
def test_no_weights_and_weights_of_one_are_none(given):
    """Without weights, or with weights of 1, nothing is multiplied."""
    assert weights_of_classes(given, WORDS, THREE) is None


def test_balanced_weights_of_equal_classes_are_none():
    """Classes of one size are balanced already."""
    assert weights_of_classes("balanced", np.array([0, 1]), np.array([0, 1, 1, 0])) is None


def test_classes_that_a_dict_leaves_out_have_the_weight_one():
    """Only the classes named have another."""
    found = weights_of_classes({"bee": 2.5, "cat": 0.0}, WORDS, THREE)
    np.testing.assert_array_equal(found, [1.0, 2.5, 0.0])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, -0.5])
@pytest.mark.parametrize("label", WORDS.tolist())
def test_class_weights_must_be_finite_and_not_negative(label, bad):
    """Infinite, NaN and negative weights are refused, with what was given."""
    with pytest.raises(ValueError, match="class_weight must be finite numbers, at least 0; got"):
        weights_of_classes({label: bad}, WORDS, THREE)


@pytest.mark.parametrize("labels", [{"dog": 2.0}, {"ape": 1.0, "dog": 2.0}])
def test_weights_of_classes_that_are_not_there_are_refused(labels):
    """scikit-learn's error names the classes without a weight."""
    with pytest.raises(ValueError, match=r"\['bee', 'cat'\], are not in class_weight"):
        weights_of_classes(labels, np.array(["bee", "cat"]), THREE[1:])


# ---- classes


@pytest.mark.parametrize(
    "y",
    [
        np.array([3, 1, 1, 3]),
        np.array([2.5, -1.0, 2.5]),
        np.array([True, False, True]),
        np.array([0, 5, 2, 5]),
        np.array(["b", "a", "b"]),
        np.array(["b", 1, "b"], dtype=object).astype(str),
        np.array([7, 7, 7]),
        np.array([0, 2**63], dtype=np.uint64),
    ],
    ids=repr,
)
def test_classes_are_the_labels_in_order(y):
    """The fast way for two numbers finds what sorting finds, of the same type."""
    found = classes_of(y)
    np.testing.assert_array_equal(found, np.unique(y))
    assert found.dtype == y.dtype


def test_classes_are_at_least_two():
    """One class or none is refused in scikit-learn's words."""
    for labels in (np.array([4]), np.array([], dtype=int)):
        with pytest.raises(ValueError, match=f"greater than one; got {len(labels)} class"):
            check_classes(labels)
    np.testing.assert_array_equal(check_classes(WORDS), WORDS)


@pytest.mark.parametrize("labels", [[0.5, 1.0], [0.0, 1e300], [1.0, 2.0, 2.5]], ids=str)
def test_numbers_of_a_regression_are_not_classes(labels):
    """Floats that are not whole, or too large to tell, are refused."""
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        check_classes(np.array(labels))


@pytest.mark.parametrize(
    ("classes", "y", "unknown"),
    [
        ([0, 1], [0, 1, 2], r"\[2\]"),
        ([0, 2], [0, 1, 1, -1], r"\[-1, 1\]"),
        ([1.0, 2.0], [1.5], r"\[1.5\]"),
        (["a", "c"], ["b", "c", "z"], r"\['b', 'z'\]"),
        ([0, 1], list(range(20)), r"\[2, 3, 4, 5, 6\]$"),
    ],
    ids=str,
)
def test_labels_that_are_not_among_the_classes_are_named(classes, y, unknown):
    """Below, between and above the classes; at most five of them are named."""
    with pytest.raises(ValueError, match=rf"not among the classes \[.*\]: {unknown}"):
        check_known(np.array(classes), np.array(y))


def test_labels_that_are_known_pass():
    """All of the classes, or some of them."""
    check_known(WORDS, THREE)
    check_known(WORDS, THREE[:1])
    check_known(np.array([0, 1]), np.array([], dtype=int))


# ---- in the estimators


X = np.random.default_rng(0).normal(size=(6, 2))
FEW = {"max_iter": 3, "tol": None, "random_state": 0, "learning_rate": "constant"}


def test_the_estimators_split_their_targets_by_it():
    """A class against the rest is the binary fit with the weights of that problem."""
    weights = {"ape": 3.0, "cat": 0.5}
    model = SGDClassifier(class_weight=weights, shuffle=False, **FEW).fit(
        X, THREE, sample_weight=ROWS
    )
    parts = OneVsRest(model.classes_, weights_of_classes(weights, WORDS, THREE))
    for number in range(3):
        target = parts.target(THREE, number)
        alone = SGDClassifier(shuffle=False, **FEW).fit(
            X, target, sample_weight=parts.weigh(target, ROWS, number)
        )
        np.testing.assert_array_equal(alone.coef_[0], model.coef_[number])
    assert isinstance(SGDRegressor(**FEW).fit(X, ROWS).history_, dict)  # of a single problem
    assert isinstance(SGDClassifier(**FEW).fit(X, TWO).history_, dict)


@pytest.mark.parametrize("average", [False, True])
def test_a_class_whose_rows_have_no_weight_stays_where_it_was(average):
    """Its public weights do not change, whether they are averages or the last ones."""
    model = SGDClassifier(average=average, **FEW)
    model.partial_fit(X, THREE, classes=WORDS)
    before, of_bees = model.coef_.copy(), THREE == "bee"
    model.set_params(class_weight={"bee": 0.0}).partial_fit(X[of_bees], THREE[of_bees])
    np.testing.assert_array_equal(model.coef_[1], before[1])
    assert (model.coef_[[0, 2]] != before[[0, 2]]).any(axis=1).all()


def test_partial_fit_refuses_labels_that_were_not_announced():
    """On the first call and on later ones; the model stays as it was."""
    model = SGDClassifier(**FEW)
    with pytest.raises(ValueError, match=r"not among the classes \['ape', 'bee'\]: \['cat'\]"):
        model.partial_fit(X, THREE, classes=["bee", "ape"])
    assert not hasattr(model, "classes_")
    model.partial_fit(X[:2], THREE[:2], classes=["bee", "ape"])
    coef = model.coef_.copy()
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, THREE)
    np.testing.assert_array_equal(model.coef_, coef)
