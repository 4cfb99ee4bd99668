"""Orders as objects: values that check themselves, and how minimize and estimators take them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from solver_cases import THREE, TWO, X

from antithetic import (
    AntitheticTable,
    GroupTable,
    SGDClassifier,
    gradient_variance,
    minimize,
    pair,
)
from antithetic.orders import (
    Balanced,
    Given,
    Importance,
    Order,
    Pairs,
    Shuffle,
    Stratified,
    Uniform,
)
from antithetic.orders.order import ORDERS, InOrder, name_order, read_order
from antithetic.stochastic import loop

N = len(X)
RUN = {"l2": 0.05, "steps": 0.1, "epochs": 3, "batch_size": 4}
FIT = {"loss": "log_loss", "max_iter": 3, "tol": None, "batch_size": 4, "random_state": 0}
TABLE, GROUPS = AntitheticTable([1, 0, 3, 2]), GroupTable([3, 1, 0, 2], 2)
WITH_PAIRS = [Uniform, Shuffle, Balanced, Importance, Stratified]


def backwards(_epoch):
    return np.arange(N)[::-1]


def reverse(rows):
    return np.arange(rows.shape[0])[::-1]


PLAIN = [  # makers of objects whose repr can be pasted back
    *WITH_PAIRS,
    InOrder,
    Pairs,
    lambda: Uniform(pairs="greedy"),
    lambda: Shuffle(pairs=Pairs("tree", nest=8, refresh=[1, 2, 4])),
    lambda: Shuffle(pairs=Pairs("tree", nest=True, refresh="auto")),
    lambda: Shuffle(pairs=TABLE),
    lambda: Shuffle(pairs=Pairs(TABLE, refresh=2)),
    lambda: Shuffle(pairs=GROUPS),
    lambda: Balanced(pairs="optimal", sketch="auto"),
    lambda: Importance("gradients", pairs=Pairs("random", refresh=2)),
    lambda: Importance([0.5, 1.0, 2.0]),
    lambda: Stratified(4),
    lambda: Stratified([0, 1, 1], "optimal", pairs="greedy"),
    lambda: Stratified(["a", "b", "a"]),
]
LONG = [
    lambda: Importance(np.arange(1.0, 1001.0)),
    lambda: Stratified(np.arange(1000) % 3),
    lambda: Shuffle(pairs=AntitheticTable(np.arange(1000)[::-1])),
    lambda: Shuffle(pairs=GroupTable(np.arange(1000), 4)),
]
CALLABLE = [
    lambda: Given(backwards),
    lambda: Uniform(pairs=reverse),
    lambda: Shuffle(pairs=Pairs(reverse, nest=4)),
]
MADE = pytest.mark.parametrize("make", [*PLAIN, *LONG, *CALLABLE], ids=lambda make: repr(make()))


# ---- values


@MADE
def test_an_order_is_frozen(make):
    """No setting can be changed, and neither can the arrays inside."""
    order = make()
    for name in ("pairs", "method", "by", "strata", "function", "anything"):
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            setattr(order, name, None)
    for name in ("by", "strata"):
        if isinstance(getattr(order, name, None), np.ndarray):
            assert not getattr(order, name).flags.writeable


def test_an_order_keeps_arrays_of_its_own():
    """Changing an array after an order was made of it does not change the order."""
    numbers, labels = np.ones(4), np.array([0, 0, 1, 1])
    by, strata = Importance(numbers), Stratified(labels)
    numbers[0], labels[0] = 7.0, 5
    assert by == Importance(np.ones(4))
    assert strata == Stratified([0, 0, 1, 1])


@MADE
def test_equal_settings_make_equal_orders(make):
    """Two objects with the same content are equal and have the same hash, also when copied."""
    order = make()
    for other in (
        make(),
        copy.copy(order),
        copy.deepcopy(order),
        pickle.loads(pickle.dumps(order)),
    ):
        assert other == order
        assert hash(other) == hash(order)
        assert repr(other) == repr(order)
    assert {order: 1}[make()] == 1
    assert order != repr(order)


def test_orders_that_differ_in_one_setting_are_not_equal():
    """No two of the objects above are equal, and neither are those with other arrays or tables."""
    made = [make() for make in (*PLAIN, *LONG, *CALLABLE)]
    made += [
        Importance([0.5, 1.0, 3.0]),
        Importance([0.5, 1.0]),
        Stratified([0, 1, 0], "optimal", pairs="greedy"),
        Stratified([0, 1, 1], pairs="greedy"),
        Stratified(["a", "b", "b"]),
        Stratified(3),
        Shuffle(pairs=AntitheticTable([3, 2, 1, 0])),
        Shuffle(pairs=GroupTable([3, 1, 0, 2], 4)),
        Shuffle(pairs=GroupTable([3, 0, 1, 2], 2)),
        Shuffle(pairs=Pairs("tree", nest=8)),
        Shuffle(pairs=Pairs("tree", nest=8, refresh=[1, 2])),
        Shuffle(pairs=Pairs("tree", nest=4, refresh=[1, 2, 4])),
        Given(lambda _: range(N)),
    ]
    for place, order in enumerate(made):
        assert [other == order for other in made].index(True) == place, order
        assert sum(other == order for other in made) == 1, order


@pytest.mark.parametrize("make", PLAIN, ids=lambda make: repr(make()))
def test_a_repr_can_be_pasted_back(make):
    """Evaluating the repr makes an equal object."""
    order = make()
    names = {kind.__name__: kind for kind in (*WITH_PAIRS, InOrder, Pairs)}
    tables = {kind.__name__: kind for kind in (AntitheticTable, GroupTable)}
    assert eval(repr(order), names | tables) == order


@pytest.mark.parametrize("make", LONG, ids=lambda make: type(make()).__name__)
def test_a_repr_abridges_long_arrays(make):
    """The repr of a thousand numbers is one short line."""
    assert len(repr(make())) < 100
    assert "..." in repr(make())
    assert "\n" not in repr(make())


def test_a_repr_names_functions():
    """A function is shown by its name, so that the repr is the same in every process."""
    assert repr(Given(backwards)) == "Given(backwards)"
    assert repr(Uniform(pairs=reverse)) == "Uniform(pairs=Pairs(method=reverse))"


@pytest.mark.parametrize("kind", WITH_PAIRS)
@pytest.mark.parametrize("method", ["auto", "greedy", "optimal", "tree", "random", reverse, TABLE])
def test_pairs_may_be_given_by_what_makes_them(kind, method):
    """pairs="greedy" equals pairs=Pairs("greedy"), and so for functions and tables."""
    assert kind(pairs=method) == kind(pairs=Pairs(method))
    assert kind(pairs=method).pairs == Pairs(method)


def test_settings_that_mean_the_same_are_equal():
    """Lists, tuples, arrays and sets of epochs are one, and groups know their size."""
    epochs = [[1, 2, 4], (4, 2, 1, 1), np.array([1, 2, 4]), {1, 2, 4}]
    assert len({Pairs(refresh=some) for some in epochs}) == 1
    assert Pairs(GROUPS) == Pairs(GROUPS, nest=2)
    assert Pairs(nest=False) == Pairs()
    assert Importance([1, 2]) == Importance(np.array([1.0, 2.0]))
    assert Stratified([0, 1]) == Stratified(np.array([0, 1]))


def test_but_changes_some_settings():
    """The result is checked like a new object, and the first one stays as it was."""
    order = Stratified(4, pairs="greedy")
    assert order.but(pairs=None) == Stratified(4)
    assert order == Stratified(4, pairs="greedy")
    with pytest.raises(ValueError, match="allocation 'equal' is not known"):
        order.but(allocation="equal")


METHODS = "auto, greedy, optimal, tree, random"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pairs("best"), f"method 'best' is not known; use one of {METHODS}"),
        (lambda: Uniform(pairs="best"), f"method 'best' is not known; use one of {METHODS}"),
        (lambda: Uniform(pairs=[1, 0]), "pairs= must be a Pairs.*AntitheticTable.*got list"),
        (lambda: Uniform(pairs=np.array([1, 0])), r"AntitheticTable\(partner\) makes one from an"),
        (lambda: Uniform(pairs=Shuffle()), "pairs= must be a Pairs.*got Shuffle"),
        (lambda: Pairs(nest=3), "nest must be a power of two, True .* or None; got 3"),
        (lambda: Pairs(nest=0), "nest must be a whole number, at least 2; got 0"),
        (lambda: Pairs(nest="top"), "nest must be a whole number, at least 2; got 'top'"),
        (lambda: Pairs(refresh="daily"), 'refresh \'daily\' is not known; use "auto", "step", a'),
        (lambda: Pairs(refresh=0), "refresh must be a whole number, at least 1; got 0"),
        (lambda: Pairs(refresh=[1, -1]), "refresh must be a whole number, at least 0; got -1"),
        (lambda: Pairs(TABLE, nest=2), "nest= .*but a table of pairs was given.*leave nest="),
        (lambda: Pairs(GROUPS, nest=4), "nest=4 differs from the groups of 2 rows"),
        (lambda: Importance("slopes"), "by 'slopes' is not known; use one of bounds, gradients"),
        (lambda: Importance(np.ones((2, 2))), r"by must be a one-dimensional .*got shape \(2, 2\)"),
        (lambda: Importance(3.0), r"by must be a one-dimensional array of numbers; got shape \(\)"),
        (lambda: Importance(["a", "b"]), "by must be a word, or real numbers"),
        (lambda: Importance([[1.0], [1.0, 2.0]]), "by must be a word, or real numbers"),
        (lambda: Stratified("x"), "strata must be labels of the rows, or the number.*got 'x'"),
        (lambda: Stratified(0), "strata must be a whole number, at least 1; got 0"),
        (lambda: Stratified(2.5), "strata must be a whole number, at least 1; got 2.5"),
        (lambda: Stratified([[0, 1]]), r"strata must be one label per row; got shape \(1, 2\)"),
        (lambda: Stratified(allocation="equal"), "use one of proportional, optimal"),
        (lambda: Balanced(sketch="big"), "sketch must be None or \"auto\"; got 'big'"),
        (lambda: Given(3), r"Given\(function\) needs a function.*got 3"),
        (lambda: Given("backwards"), r"Given\(function\) needs a function"),
    ],
)
def test_wrong_settings_are_refused_when_the_object_is_made(make, message):
    """The error names the argument, what was given and what is allowed."""
    with pytest.raises(ValueError, match=message):
        make()


def test_unknown_settings_are_refused():
    """A misspelt setting is never ignored."""
    for kind in (*WITH_PAIRS, Pairs):
        with pytest.raises(TypeError, match="unexpected keyword argument 'pair'"):
            kind(pair="greedy")


# ---- words


@pytest.mark.parametrize("word", ORDERS)
@pytest.mark.parametrize("solver", ["sgd", "svrg"])
def test_a_word_means_the_object_with_its_defaults(word, solver):
    """order="balanced" and Balanced() give the same bits, in minimize and in estimators."""
    order = ORDERS[word]()
    assert read_order(word) == order == read_order(order)
    assert name_order(order) == word
    by_word, by_object = (minimize(X, TWO, order=o, solver=solver, **RUN) for o in (word, order))
    np.testing.assert_array_equal(by_word.coef, by_object.coef)
    models = [SGDClassifier(order=o, solver=solver, **FIT).fit(X, TWO) for o in (word, order)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].plan_ == models[1].plan_


def test_auto_is_the_order_of_the_paper():
    """In minimize "auto" is Uniform(), and Shuffle() for SDCA."""
    for solver, order in (("sgd", Uniform()), ("saga", Uniform()), ("sdca", Shuffle())):
        given = {"l2": 0.05, "solver": solver, "epochs": 2}
        found = minimize(X, TWO, **given)
        np.testing.assert_array_equal(found.coef, minimize(X, TWO, order=order, **given).coef)
        assert found.settings["order"] == order


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (3, "order of type int is not known; use one of auto, uniform, shuffle, balanced, import"),
        (None, "order of type NoneType is not known; use one of auto, uniform"),
        ("sorted", "order 'sorted' is not known; use one of .*or an object of antithetic.orders"),
        (Balanced, r"order= is the class Balanced; pass an object, Balanced\(\)"),
        (backwards, r"wrap it as Given\(function\)"),
        (Pairs("greedy"), "order of type Pairs is not known"),
        (TABLE, "order of type AntitheticTable is not known"),
    ],
)
def test_what_is_not_an_order_is_refused(order, message):
    """minimize and gradient_variance say what is allowed."""
    for use in (minimize, gradient_variance):
        with pytest.raises(ValueError, match=message):
            use(X, TWO, order=order)


# ---- scikit-learn


@MADE
def test_clone_and_set_params_keep_orders(make):
    """A cloned or re-parametrised estimator has an equal order; fit leaves it as it is."""
    order = make()
    model = SGDClassifier(order=order)
    assert clone(model).order == order
    assert SGDClassifier().set_params(order=order).get_params()["order"] == order
    assert clone(clone(model)).get_params() == model.get_params()


@pytest.mark.parametrize("order", [Shuffle(pairs="greedy"), Stratified(2), "balanced"], ids=str)
def test_fit_writes_no_parameter(order):
    """The order of a fitted estimator is the object that was passed."""
    model = SGDClassifier(order=order, **FIT)
    before = model.get_params()
    model.fit(X, TWO)
    assert model.order is order
    assert model.get_params() == before


def test_a_search_over_orders():
    """GridSearchCV takes a list of orders; the best one and all results hold them."""
    orders = ["auto", "uniform", Balanced(), Shuffle(pairs=Pairs("tree", refresh=1)), Stratified(2)]
    search = GridSearchCV(SGDClassifier(**FIT), {"order": orders}, cv=2, error_score="raise")
    search.fit(X, TWO)
    assert search.best_params_["order"] in orders
    assert list(search.cv_results_["param_order"]) == orders
    assert [one["order"] for one in search.cv_results_["params"]] == orders
    assert search.best_estimator_.order == search.best_params_["order"]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Shuffle(pairs=pair(X, TWO)), r"table of 60 rows and X has 30.*fit\(table=\)"),
        (Uniform(pairs=pair(X, TWO, nest=4)), r"table of 60 rows and X has 30.*fit\(table=\)"),
        (Stratified(TWO), r"strata must have shape \(30,\).*got \(60,\).*fit\(strata=\)"),
        (Importance(np.ones(N)), r"by must have shape \(30,\).*got \(60,\)"),
    ],
    ids=["table", "groups", "strata", "importance"],
)
def test_arrays_of_all_rows_cannot_be_cross_validated_inside_an_order(order, message):
    """The error for a wrong length points to fit, which cuts tables and labels to each fold."""
    with pytest.raises(ValueError, match=message):
        cross_val_score(SGDClassifier(order=order, **FIT), X, TWO, cv=2, error_score="raise")
    with pytest.raises(ValueError, match=message):
        minimize(X[:30], TWO[:30], order=order, **RUN)


# ---- what fit is given


@pytest.mark.parametrize("kind", WITH_PAIRS)
def test_fit_fills_unset_pairs(kind):
    """fit(table=) gives the bits of an order that holds the table."""
    table = pair(X, TWO)
    inside = SGDClassifier(order=kind(pairs=table), **FIT).fit(X, TWO)
    for order in (kind(), next(word for word in ORDERS if ORDERS[word] is kind)):
        outside = SGDClassifier(order=order, **FIT).fit(X, TWO, table=table)
        np.testing.assert_array_equal(outside.coef_, inside.coef_)
        assert outside.plan_.order == kind(pairs=table)
        assert outside.order == order


def test_fit_fills_unset_strata():
    """fit(strata=) gives the bits of an order that holds the labels."""
    inside = SGDClassifier(order=Stratified(THREE, "optimal"), **FIT).fit(X, TWO)
    outside = SGDClassifier(order=Stratified(allocation="optimal"), **FIT)
    np.testing.assert_array_equal(outside.fit(X, TWO, strata=THREE).coef_, inside.coef_)
    assert outside.plan_.order == Stratified(THREE, "optimal")


@pytest.mark.parametrize(
    "pairs", ["greedy", Pairs("tree", refresh=2), pair(X, TWO)], ids=["a", "b", "c"]
)
@pytest.mark.parametrize("kind", WITH_PAIRS)
def test_a_table_given_twice_is_refused(kind, pairs):
    """fit(table=) with an order that has pairs is refused, be it a method, a Pairs or a table."""
    model = SGDClassifier(order=kind(pairs=pairs), **FIT)
    with pytest.raises(ValueError, match="table= is given twice: to fit, and in order="):
        model.fit(X, TWO, table=pair(X, TWO))
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("strata", [2, TWO], ids=["number", "labels"])
def test_strata_given_twice_are_refused(strata):
    """fit(strata=) with an order that has strata is refused, be they labels or a number."""
    model = SGDClassifier(order=Stratified(strata), **FIT)
    with pytest.raises(ValueError, match="strata= is given twice: to fit, and in order="):
        model.fit(X, TWO, strata=TWO)
    assert not hasattr(model, "coef_")


# ---- tables of other data


@pytest.mark.parametrize("kind", WITH_PAIRS)
@pytest.mark.parametrize("nest", [None, 2])
def test_a_table_of_other_data_is_refused_before_the_first_step(monkeypatch, kind, nest):
    """A table whose fingerprint differs is refused by minimize, estimators and variances."""
    monkeypatch.setattr(loop, "present_schedule", lambda *_: pytest.fail("a run began"))
    other = X.copy()
    other[7, 3] += 1.0
    order = kind(pairs=pair(other, TWO, nest=nest))
    uses = [
        lambda: minimize(X, TWO, order=order, **RUN),
        lambda: SGDClassifier(order=order, **FIT).fit(X, TWO),
        lambda: gradient_variance(X, TWO, order=order, batch_size=4),
    ]
    if nest is None:
        uses.append(lambda: SGDClassifier(order=kind(), **FIT).fit(X, TWO, table=order.pairs.given))
    for use in uses:
        with pytest.raises(ValueError, match="made for other values of X"):
            use()


def test_a_table_of_other_labels_is_refused_before_the_first_step(monkeypatch):
    """The labels are part of the fingerprint."""
    monkeypatch.setattr(loop, "present_schedule", lambda *_: pytest.fail("a run began"))
    order = Shuffle(pairs=pair(X, TWO))
    changed = TWO.copy()
    changed[0] = 1 - changed[0]
    for use in (
        lambda: minimize(X, changed, order=order, **RUN),
        lambda: SGDClassifier(order=order, **FIT).fit(X, changed),
    ):
        with pytest.raises(ValueError, match="made for other labels"):
            use()


# ---- orders of one's own


@dataclass(frozen=True)
class Rolled(Order):
    """Rows in the order given, from another one on in each epoch."""

    by: int = 1

    def rows(self, pool, epoch):
        return np.roll(np.arange(pool.n), self.by * epoch)


class PlainRolled(Order):
    """The same without a dataclass."""

    def __init__(self, by=1):
        self.by = by

    def rows(self, pool, epoch):
        return np.roll(np.arange(pool.n), self.by * epoch)


@dataclass(frozen=True)
class AllButOne(Order):
    """An order that leaves a row out, and visits another twice."""

    def rows(self, pool, epoch):  # noqa: ARG002
        return np.maximum(np.arange(pool.n), 1)


class Short(Order):
    """An order that leaves a row out."""

    def rows(self, pool, epoch):  # noqa: ARG002
        return np.arange(1, pool.n)


OWN = pytest.mark.parametrize("kind", [Rolled, PlainRolled])


@OWN
@pytest.mark.parametrize("solver", ["sgd", "svrg", "saga", "sdca"])
def test_minimize_follows_a_custom_order(kind, solver):
    """The run has the bits of the function that gives the same rows."""
    given = {"l2": 0.05, "solver": solver, "epochs": 3}
    found = minimize(X, TWO, order=kind(7), **given)
    named = minimize(X, TWO, order=Given(lambda k: np.roll(np.arange(N), 7 * k)), **given)
    np.testing.assert_array_equal(found.coef, named.coef)
    assert not np.array_equal(found.coef, minimize(X, TWO, order=kind(8), **given).coef)


@OWN
def test_a_custom_order_is_resumed_and_traced(kind):
    """A resumed run equals an uninterrupted one, and other settings are noticed."""
    given = RUN | {"trace": ["variance", "partial_sum"]}
    whole = minimize(X, TWO, order=kind(7), **given)
    first = minimize(X, TWO, order=kind(7), **given | {"epochs": 1})
    resumed = minimize(X, TWO, order=kind(7), resume=first, **given)
    np.testing.assert_array_equal(resumed.coef, whole.coef)
    np.testing.assert_array_equal(resumed.trace["variance"], whole.trace["variance"])
    with pytest.raises(ValueError, match=r"settings: order was \w+\(by=7\) and is now \w+\(by=8\)"):
        minimize(X, TWO, order=kind(8), resume=first, **given)


@OWN
def test_a_custom_order_in_an_estimator(kind):
    """SGDClassifier follows it for two classes and for three, in clones and in searches."""
    model = SGDClassifier(order=kind(7), **FIT).fit(X, TWO)
    assert model.plan_.order == kind(7)
    again = clone(model).fit(X, TWO)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert not np.array_equal(SGDClassifier(order=kind(8), **FIT).fit(X, TWO).coef_, model.coef_)
    assert SGDClassifier(order=kind(7), **FIT).fit(X, THREE).coef_.shape == (3, 5)
    orders = [kind(7), kind(8), "shuffle"]
    search = GridSearchCV(SGDClassifier(**FIT), {"order": orders}, cv=2, error_score="raise")
    assert search.fit(X, TWO).best_params_["order"] in orders


@OWN
def test_custom_orders_are_equal_by_value(kind):
    """Two objects of one class are equal if their settings are, and the repr shows these."""
    assert kind(7) == kind(7) != kind(8)
    assert hash(kind(7)) == hash(kind(7))
    assert repr(kind(7)) == f"{kind.__name__}(by=7)"
    assert Rolled(7) != PlainRolled(7)


@pytest.mark.parametrize("kind", [AllButOne, Short])
def test_an_order_that_leaves_a_row_out_is_refused(kind):
    """minimize and estimators refuse it before the first step, with what is needed."""
    for use in (
        lambda: minimize(X, TWO, order=kind(), **RUN),
        lambda: SGDClassifier(order=kind(), **FIT).fit(X, TWO),
    ):
        with pytest.raises(
            ValueError, match=r"each of 0\.\.59 exactly once|60 whole numbers, one for each"
        ):
            use()


@pytest.mark.parametrize("order", [Given(backwards), Rolled(), PlainRolled()], ids=repr)
def test_an_order_without_pairs_takes_no_table(order):
    """fit(table=) is refused where the order says by itself which rows come when, with advice."""
    model = SGDClassifier(order=order, **FIT)
    with pytest.raises(ValueError, match="leave table= out, or use order='shuffle'"):
        model.fit(X, TWO, table=pair(X, TWO))
    assert not hasattr(model, "coef_")


def test_an_order_without_a_method_rows_says_so():
    """The error names the class and the method that is missing."""
    for use in (
        lambda: minimize(X, TWO, order=Order(), **RUN),
        lambda: SGDClassifier(order=Order(), **FIT).fit(X, TWO),
    ):
        with pytest.raises(ValueError, match=r"Order has no method rows\(pool, epoch\).*Given"):
            use()


@dataclass(frozen=True)
class _Rolled(Order):
    by: np.ndarray

    def rows(self, pool, epoch):
        return np.roll(np.arange(pool.n), int(self.by[0]) + epoch)


def test_a_plain_dataclass_with_arrays_is_equal_by_value():
    """An order of your own needs no `eq=False`: it compares its arrays, and a run is resumed."""
    order = _Rolled(np.array([3, 1]))
    assert order == _Rolled(np.array([3, 1])) != _Rolled(np.array([4, 1]))
    assert hash(order) == hash(_Rolled(np.array([3, 1])))
    assert repr(order) == "_Rolled([3, 1])"
    first = minimize(X, TWO, l2=0.1, order=order, epochs=1)
    again = _Rolled(np.array([3, 1]))
    assert minimize(X, TWO, l2=0.1, order=again, epochs=2, resume=first).epochs == 2


@pytest.mark.parametrize("wrong", [-5, 5])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_arrays_of_other_data_are_refused_before_they_are_cut(wrong, early_stopping):
    """With early stopping, too long an array is not cut to some of its entries."""
    n = N + wrong
    for order, name in (
        (Importance(by=np.ones(n)), "by"),
        (Importance(by=np.ones(n), pairs="greedy"), "by"),
        (Stratified(np.arange(n) % 2), "strata"),
    ):
        model = SGDClassifier(order=order, batch_size=4, early_stopping=early_stopping)
        with pytest.raises(ValueError, match=rf"{name} must have shape \({N},\)"):
            model.fit(X, TWO)


def test_numbers_of_pairs_are_cut_with_early_stopping():
    """One number per pair (i, S[i]) is one per row, so the rows held back leave the others."""
    order = Importance(by=np.arange(1.0, N + 1.0), pairs="greedy")
    model = SGDClassifier(order=order, early_stopping=True, max_iter=3, tol=None)
    kept = model.fit(X, TWO).plan_.order.by
    assert len(kept) < N
    assert set(kept) < set(order.by)


@pytest.mark.parametrize("by", [[1.0, np.nan], [1.0, -1.0], [0.0, 0.0], []])
def test_wrong_numbers_are_refused_when_the_order_is_made(by):
    """Numbers that are wrong for any data are refused by the constructor."""
    with pytest.raises(ValueError, match="by "):
        Importance(by=by)


def test_ragged_strata_are_refused_in_a_sentence():
    """NumPy's own error does not name the argument."""
    with pytest.raises(ValueError, match="strata must be one label per row"):
        Stratified([[1], [2, 3]])


def test_a_table_given_to_fit_can_be_refreshed():
    """fit(table=) fills pairs that only set refresh=; a named method is refused."""
    table = pair(X, TWO)
    model = SGDClassifier(order=Shuffle(pairs=Pairs(refresh=1)), max_iter=2, tol=None)
    assert model.fit(X, TWO, table=table).plan_.order.pairs == Pairs(table, refresh=1)
    named = SGDClassifier(order=Shuffle(pairs=Pairs("tree", refresh=1)), max_iter=2, tol=None)
    with pytest.raises(ValueError, match="given twice"):
        named.fit(X, TWO, table=table)


def test_groups_that_do_harm_are_set_aside_for_a_class():
    """A given GroupTable serves only the classes on which it lowers the variance."""
    rows = np.lexsort((X[:, 0], THREE))  # neighbours have like gradients
    order = Shuffle(pairs=GroupTable(rows, 2))
    with pytest.warns(UserWarning, match="not used for class"):
        SGDClassifier("log_loss", order=order, max_iter=2, tol=None).fit(X, THREE)
