"""Tables rebuilt during a run: when, from which gradients, with what gain; and Algorithm 2."""

from __future__ import annotations

import numpy as np
import pytest
from drive import draws_of
from reference import sgd_steps
from scipy import sparse

from antithetic import (
    AntitheticTable,
    GroupTable,
    Interrupted,
    SGDClassifier,
    datasets,
    minimize,
    pair,
)
from antithetic.orders import Balanced, Pairs, Shuffle, Uniform
from antithetic.problem import Problem
from antithetic.steps import Auto, Constant, InverseTime
from antithetic.stochastic import loop, sgd
from antithetic.stochastic.loop import begin, train
from antithetic.stochastic.sgd import make_sgd
from antithetic.stochastic.spec import make_spec
from antithetic.stopping import Stalled

pytestmark = pytest.mark.kernel

ORDERS = pytest.mark.parametrize("kind", [Uniform, Shuffle, Balanced])
GIVEN = {"l2": 0.01, "steps": 0.2}


def data(n=40, d=3):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.0, 1.0, -1.0)


def tables_of(X, y, epochs, order):
    """Partners in use during each epoch, and the weights before it."""
    runs = [minimize(X, y, epochs=epoch, order=order, **GIVEN) for epoch in range(epochs + 1)]
    rows = [
        run.table.partner if isinstance(run.table, AntitheticTable) else run.table.order
        for run in runs
    ]
    return rows[1:], [run.run.state for run in runs[:-1]]


@ORDERS
@pytest.mark.parametrize("method", ["greedy", "optimal", "tree"])
@pytest.mark.parametrize(
    ("refresh", "renewed"),
    [(1, {1, 2, 3}), (2, {2}), ([1, 3], {1, 3}), (range(0, 5, 2), {2}), ([], set())],
)
def test_tables_are_made_from_the_gradients_of_the_moment(kind, method, refresh, renewed):
    """Tables are rebuilt before the requested epochs and no others.

    The first epoch has the table of the signed rows.
    """
    X, y = data()
    used, states = tables_of(X, y, 4, kind(pairs=Pairs(method, refresh=refresh)))
    first = pair(X, y, method)
    expected = first if kind is Uniform else first.to_matching(X, y)
    for epoch, state in enumerate(states):
        if epoch in renewed:
            if not (method == "tree" and epoch > 1):  # which polishes the one there was
                expected = pair(X, y, method, coef=state.coef)
                if kind is not Uniform:
                    expected = expected.to_matching(X, y, coef=state.coef)
            elif not np.array_equal(used[epoch], used[epoch - 1]):
                expected = AntitheticTable(used[epoch])
                assert expected.variance_ratio(X, y, coef=state.coef) <= AntitheticTable(
                    used[epoch - 1]
                ).variance_ratio(X, y, coef=state.coef)
        np.testing.assert_array_equal(used[epoch], expected.partner, err_msg=f"epoch {epoch}")


@ORDERS
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_a_refreshed_epoch_by_hand(kind, form):
    """The second epoch follows a sampler of the new table, in a fresh order where balanced."""
    X, y = data()
    order = kind(pairs=Pairs("optimal", refresh=1))
    found = minimize(form(X), y, epochs=2, order=order, **GIVEN)
    before = minimize(form(X), y, epochs=1, order=kind(pairs="optimal"), **GIVEN)
    problem = Problem.build(form(X), y, l2=0.01)
    table = pair(form(X), y, "optimal", coef=before.coef)
    table = table if kind is Uniform else table.to_matching(X, y, coef=before.coef)
    schedule = InverseTime(0.2).schedule(problem.loss, problem.penalty)
    batches = draws_of(kind(pairs=table), 40, 2, 0, table).batches(1)
    run = before.run
    after = make_sgd(problem, False).epoch(run.state, run.own, batches, schedule)
    np.testing.assert_array_equal(found.coef, after.state.coef)
    assert not np.array_equal(found.table.partner, before.table.partner)


def test_gradients_of_the_moment_know_the_intercept():
    """Far from zero it changes which gradients are large."""
    X, y = data()
    given = {"fit_intercept": True, "init": (None, 3.0), **GIVEN}
    before = minimize(X, y, epochs=1, order=Uniform(pairs="optimal"), **given)
    order = Uniform(pairs=Pairs("optimal", refresh=1))
    after = minimize(X, y, epochs=2, order=order, **given)
    right, wrong = (
        pair(X, y, "optimal", coef=before.coef, intercept=b, fit_intercept=True).partner
        for b in (before.intercept, 0.0)
    )
    np.testing.assert_array_equal(after.table.partner, right)
    assert not np.array_equal(right, wrong)


@pytest.mark.parametrize("name", ["breast-cancer_scale", "diabetes_scale"])
@pytest.mark.optimum
def test_a_refresh_lowers_the_variance(name):
    """At the weights it is made from, the new table is better than the old one.

    Along the run, it is better than one that is kept.
    """
    X, y = datasets.load(name, return_X_y=True)
    given = {"l2": 1e-2, "steps": 0.1, "trace": "variance_ratio"}
    orders = [Uniform(pairs=Pairs("optimal", refresh=refresh)) for refresh in (None, 1)]
    before = minimize(X, y, epochs=1, order=orders[0], **given)
    after = minimize(X, y, epochs=2, order=orders[1], **given)
    old, new = (result.table.variance_ratio(X, y, coef=before.coef) for result in (before, after))
    assert new < 0.9 * old
    kept, renewed = (
        minimize(X, y, epochs=3, order=order, **given).trace["variance_ratio"] for order in orders
    )
    assert kept[0] == renewed[0]
    assert (renewed[2:] < 0.9 * kept[2:]).all()


@ORDERS
def test_a_table_is_rebuilt_when_it_pays(kind):
    """ "auto": always before the second epoch, and later when a third of the reduction is lost."""
    X, y = data(200)
    used, states = tables_of(X, y, 8, kind(pairs=Pairs("optimal", refresh="auto")))
    assert not np.array_equal(used[0], used[1])
    problem = Problem.build(X, y)

    def reduction(partner, state):
        return 1.0 - AntitheticTable(partner).variance_ratio(problem.X, y, coef=state.coef)

    made = reduction(used[1], states[1])
    for epoch in range(2, 8):
        due = reduction(used[epoch - 1], states[epoch]) < 0.7 * made
        assert due or np.array_equal(used[epoch], used[epoch - 1])
        made = reduction(used[epoch], states[epoch]) if due else made


def test_a_table_that_fades_is_rebuilt():
    """refresh="auto" rebuilds a table that has lost its effect, and the new one is better."""
    X, y = datasets.load("breast-cancer_scale", return_X_y=True)
    given = {
        "l2": 1e-4,
        "steps": Constant(1e-3),
        "order": Shuffle(pairs=Pairs("optimal", refresh="auto")),
    }
    early, late = (minimize(X, y, epochs=epochs, **given) for epochs in (2, 30))
    assert not np.array_equal(early.table.partner, late.table.partner)
    kept, found = (
        table.variance_ratio(X, y, coef=late.coef) for table in (early.table, late.table)
    )
    assert found < kept


@pytest.mark.parametrize("kind", [Shuffle, Balanced])
@pytest.mark.parametrize("nest", [4, True])
@pytest.mark.parametrize("refresh", [1, [1, 3], "auto"])
def test_nested_groups_are_rebuilt(kind, nest, refresh):
    """Nested groups are rebuilt from the gradients before the epoch."""
    X, y = data()
    used, states = tables_of(X, y, 2, kind(pairs=Pairs("tree", nest, refresh)))
    expected = pair(X, y, "tree", coef=states[1].coef, nest=nest)
    assert isinstance(expected, GroupTable)
    np.testing.assert_array_equal(used[1], expected.order)
    assert not np.array_equal(used[0], used[1])


def test_a_given_table_and_one_of_a_callable_are_rebuilt():
    """A table is rebuilt by its own method or callable, or by "auto" if it is unknown."""
    X, y = data()

    def run(epochs, pairs):
        return minimize(X, y, epochs=epochs, order=Uniform(pairs=pairs), **GIVEN)

    greedy = pair(X, y, "greedy")
    found = run(2, Pairs(greedy, refresh=1)).table
    expected = pair(X, y, "greedy", coef=run(1, greedy).coef)
    np.testing.assert_array_equal(found.partner, expected.partner)
    own = AntitheticTable(np.arange(40)[::-1])
    found = run(2, Pairs(own, refresh=1)).table
    np.testing.assert_array_equal(found.partner, pair(X, y, coef=run(1, own).coef).partner)
    seen = []

    def reverse(rows):
        seen.append(rows.copy())
        return np.arange(len(rows))[::-1]

    run(2, Pairs(reverse, refresh=1))
    assert len(seen) == 2
    assert not np.array_equal(seen[0], seen[1])


# ---- Algorithm 2 to the letter


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("method", ["greedy", "optimal"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_table_in_every_step(form, size, method, intercept):
    """Draw i, pair the gradients at the present weights, step along those of i and S[i].

    Two epochs equal the plain loop.
    """
    X, y = data(12)
    problem = Problem.build(X, y, l2=0.05, fit_intercept=intercept)
    w, b, steps = np.zeros(3), 0.0, 0
    for epoch in range(2):
        rng = np.random.default_rng((3, epoch))
        for drawn in rng.integers(12, size=(-(-12 // size), (size + 1) // 2)):
            partner = pair(X, y, method, coef=w, intercept=b, fit_intercept=intercept).partner
            rows = [row for i in drawn[: size // 2] for row in (i, partner[i])] + list(
                drawn[size // 2 :]
            )
            steps += 1
            eta = 0.3 / (1.0 + 0.3 * 0.05 * steps)
            (w, b), _, _ = sgd_steps(
                problem, [np.array(rows)], size, lambda *_, eta=eta: eta, coef=w, intercept=b
            )
    given = {
        "order": Uniform(pairs=Pairs(method, refresh="step")),
        "batch_size": size,
        "seed": 3,
        "l2": 0.05,
        "steps": 0.3,
        "fit_intercept": intercept,
    }
    found = minimize(form(X), y, epochs=2, **given)
    np.testing.assert_allclose(found.coef, w, atol=1e-12)
    assert found.intercept == pytest.approx(b, abs=1e-12)
    assert (found.run.state.epochs, found.run.state.steps) == (2, steps)
    resumed = minimize(
        form(X), y, epochs=2, resume=minimize(form(X), y, epochs=1, **given), **given
    )
    np.testing.assert_array_equal(resumed.coef, found.coef)


STEP = Pairs("greedy", refresh="step")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"order": Shuffle(pairs=STEP)}, r"Algorithm 2.*order=Uniform"),
        ({"order": Balanced(pairs=STEP)}, r"Algorithm 2.*order=Uniform"),
        ({"order": Uniform(pairs=STEP), "batch_size": 1}, "batch_size of at least 2"),
        ({"order": Uniform(pairs=STEP.but(nest=4)), "batch_size": 4}, "without nest="),
        ({"order": Uniform(pairs=STEP), "average": "epoch"}, 'average="epoch"'),
        ({"order": Uniform(pairs=STEP), "solver": "svrg"}, 'solver="sgd"'),
    ],
    ids=str,
)
def test_a_table_for_every_step_is_refused_where_unsupported(given, message):
    """Where a table for every step is not supported, the error says what is needed."""
    X, y = data()
    with pytest.raises(ValueError, match=message):
        minimize(X, y, epochs=1, **GIVEN, **given)


def test_tables_in_every_step_need_few_rows():
    """At most 2000 rows are allowed; nothing is computed before the refusal."""
    X, y = data(2001, 1)
    given = GIVEN | {"order": Uniform(pairs=Pairs("random", refresh="step"))}
    with pytest.raises(ValueError, match=r'at most 2000 rows.*2001.*refresh="auto"'):
        minimize(X, y, epochs=1, **given)
    assert minimize(X[:2000], y[:2000], epochs=0, **given).run.state.steps == 0


# ---- resuming and refusing


@ORDERS
@pytest.mark.parametrize("method", ["optimal", "tree"])
@pytest.mark.parametrize("refresh", [1, 2, [1, 2], [0, 1], "auto"])
def test_a_resumed_run_is_the_unbroken_one(kind, method, refresh):
    """A resumed run is exact, whether a table was rebuilt before or after the break."""
    X, y = data()
    given = {"order": kind(pairs=Pairs(method, refresh=refresh)), **GIVEN}
    whole = minimize(X, y, epochs=5, **given)
    for at in (1, 2, 3):
        resumed = minimize(X, y, epochs=5, resume=minimize(X, y, epochs=at, **given), **given)
        np.testing.assert_array_equal(resumed.coef, whole.coef)
        np.testing.assert_array_equal(resumed.table.partner, whole.table.partner)


def test_a_run_is_resumed_before_an_epoch_that_was_asked_for():
    """``refresh=[1, 4]`` stopped after two epochs is the same run as one of six."""
    X, y = data()
    given = {"order": Uniform(pairs=Pairs("optimal", refresh=[1, 4])), **GIVEN}
    resumed = minimize(X, y, epochs=6, resume=minimize(X, y, epochs=2, **given), **given)
    np.testing.assert_array_equal(resumed.coef, minimize(X, y, epochs=6, **given).coef)


def test_an_automatic_refresh_is_resumed_when_its_table_fades():
    """What a table was worth when it was made is kept, and decides as in an unbroken run."""
    X, y = datasets.load("breast-cancer_scale", return_X_y=True)
    given = {
        "l2": 1e-4,
        "steps": Constant(1e-3),
        "order": Shuffle(pairs=Pairs("optimal", refresh="auto")),
    }
    whole, first = minimize(X, y, epochs=30, **given), minimize(X, y, epochs=5, **given)
    resumed = minimize(X, y, epochs=30, resume=first, **given)
    assert not np.array_equal(first.table.partner, whole.table.partner)
    np.testing.assert_array_equal(resumed.table.partner, whole.table.partner)
    np.testing.assert_array_equal(resumed.coef, whole.coef)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (Pairs("optimal", refresh=2), Pairs("optimal", refresh=1)),
        (Pairs("optimal", nest=2), Pairs("optimal", nest=4)),
        (Pairs("optimal"), Pairs("greedy")),
    ],
    ids=["refresh", "nest", "method"],
)
def test_a_run_is_not_resumed_with_other_pairs(earlier, later):
    """Resuming with another refresh, nest or method is refused."""
    X, y = data()
    before = minimize(X, y, epochs=1, order=Shuffle(pairs=earlier), **GIVEN)
    with pytest.raises(ValueError, match="resume= was made with different settings: order"):
        minimize(X, y, epochs=2, order=Shuffle(pairs=later), resume=before, **GIVEN)


@pytest.mark.parametrize(
    ("refresh", "message"),
    [
        (0, "refresh must be a whole number, at least 1; got 0"),
        (-1, "refresh must be a whole number, at least 1"),
        (1.5, "refresh must be a whole number"),
        (True, "refresh must be a whole number"),
        ([1, -2], "refresh must be a whole number, at least 0; got -2"),
        ([1.5], "refresh must be a whole number"),
        ("often", r'"auto", "step"'),
    ],
)
def test_bad_values_are_refused(refresh, message):
    """Bad values are refused when the object is made, with what is allowed."""
    with pytest.raises(ValueError, match=message):
        Pairs("random", refresh=refresh)


@pytest.mark.parametrize(
    "epochs",
    [np.array([1, 2]), np.array([2]), (1, 2), range(1, 3), {1, 2}, frozenset([2])],
    ids=repr,
)
def test_epochs_may_come_in_any_collection(epochs):
    """Epochs in any collection mean the same as in a list."""
    X, y = data()
    found, expected = (
        minimize(X, y, order=Uniform(pairs=Pairs("optimal", refresh=refresh)), epochs=3, **GIVEN)
        for refresh in (epochs, list(epochs))
    )
    np.testing.assert_array_equal(found.coef, expected.coef)


def test_an_estimator_takes_epochs_in_an_array():
    """An array of epochs means the same as a list in an estimator."""
    X, y = data()
    models = [
        SGDClassifier(
            order=Shuffle(pairs=Pairs("optimal", refresh=refresh)),
            max_iter=3,
            tol=None,
            random_state=0,
        ).fit(X, y)
        for refresh in (np.array([1, 2]), [1, 2])
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_an_estimator_refreshes():
    """An estimator refreshes its table, says so in its plan, and lowers the variance."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    given = {"loss": "log_loss", "max_iter": 3, "tol": None, "trace": "variance_ratio"}
    kept, renewed = (
        SGDClassifier(
            order=Shuffle(pairs=Pairs("optimal", refresh=refresh)), random_state=0, **given
        ).fit(X, y)
        for refresh in (None, 1)
    )
    assert (kept.plan_.order.pairs.refresh, renewed.plan_.order.pairs.refresh) == (None, 1)
    assert renewed.history_["variance_ratio"][-1] < kept.history_["variance_ratio"][-1]


def test_an_estimator_takes_tables_in_every_step_only_as_minimize_does():
    """The patience of tol= is refused with refresh="step"; without it the oracle runs."""
    X, y = data()
    given = {"loss": "log_loss", "order": Uniform(pairs=STEP), "average": False}
    model = SGDClassifier(max_iter=2, random_state=0, **given)
    with pytest.raises(ValueError, match=r'refresh="step" is Algorithm 2.*without.*stop='):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    assert model.set_params(tol=None).fit(X, y).n_iter_ == 2


def test_nothing_is_rebuilt_for_a_chunk(monkeypatch):
    """``partial_fit`` makes one table of the rows of each call, at most."""
    X, y = data()
    made = []
    monkeypatch.setattr(
        "antithetic.pairing._pair.pair",
        lambda *args, **given: made.append(given) or pair(*args, **given),
    )
    monkeypatch.setattr(
        "antithetic.pairing._pair.pair_slopes", lambda *_, **__: pytest.fail("a table was rebuilt")
    )
    model = SGDClassifier(order=Shuffle(pairs=Pairs("optimal", refresh=1)))
    for _ in range(3):
        model.partial_fit(X, y, classes=[-1.0, 1.0])
    assert len(made) == 3


def test_the_table_stays_a_matching():
    """Where each row is visited once, a new table is cut into pairs as the first was."""
    X, y = data(41)
    for kind in (Shuffle, Balanced):
        order = kind(pairs=Pairs("greedy", refresh=1))
        table = minimize(X, y, order=order, epochs=3, **GIVEN).table
        assert table.is_matching


def test_the_oracle_has_no_patience():
    """refresh="step" with stop= is refused.

    Each step is an epoch to the solver, so there is no loss of a whole epoch to compare.
    """
    X, y = data()
    with pytest.raises(ValueError, match="without nest=, stop="):
        minimize(X, y, order=Uniform(pairs=STEP), stop=Stalled(1e-3), epochs=1, **GIVEN)


def test_chunks_are_not_all_in_one_order():
    """A balanced order begins at random.

    partial_fit, whose calls are single epochs, draws another for each.
    """
    X, y = data()
    models = [
        SGDClassifier("log_loss", order=word, random_state=0, learning_rate="constant", tol=None)
        for word in ("balanced", "shuffle")
    ]
    for model in models:
        for _ in range(3):
            model.partial_fit(X, y, classes=[-1.0, 1.0])
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_an_interrupted_run_resumes_with_the_table_of_its_last_whole_epoch(monkeypatch):
    """It resumes with that table even though the next one had been made."""
    X, y = data()
    given = {"order": Shuffle(pairs=Pairs("optimal", refresh=[2])), **GIVEN}
    whole, kernel, calls = minimize(X, y, epochs=4, **given), sgd.Sgd.epoch, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return kernel(*arguments)

    monkeypatch.setattr(sgd.Sgd, "epoch", interrupted)
    with pytest.raises(Interrupted) as stop:
        minimize(X, y, epochs=4, **given)
    monkeypatch.undo()
    np.testing.assert_array_equal(
        minimize(X, y, epochs=4, resume=stop.value.result, **given).coef, whole.coef
    )


def test_resume_with_refresh_checks_what_it_is_given():
    """Other rows, another method, or no result at all are refused."""
    X, y = data()
    optimal, greedy = (Shuffle(pairs=Pairs(method, refresh=2)) for method in ("optimal", "greedy"))
    result = minimize(X, y, order=optimal, epochs=1, **GIVEN)
    for rows, order, resume, message in (
        (X + 1.0, optimal, result, "other data"),
        (X, greedy, result, "different settings: order was"),
        (X, optimal, 1, "must be a Result"),
    ):
        with pytest.raises(ValueError, match=message):
            minimize(rows, y, order=order, epochs=2, resume=resume, **GIVEN)


def test_an_epoch_that_is_done_again_keeps_its_table(monkeypatch):
    """An epoch that is done again with shorter steps has the table of the first attempt."""
    X, _ = data()
    problem = Problem.build(X, 1e3 * X[:, 0], loss="squared_error")
    asked, renewed = [], loop.renewed

    def counted(spec, run):
        asked.append(run.state.epochs)
        return renewed(spec, run)

    monkeypatch.setattr(loop, "renewed", counted)
    order = Shuffle(pairs=Pairs("optimal", refresh=1))
    spec = make_spec(problem, problem.y, order=order, solver="sgd", steps=Auto(), batch_size=2)
    schedule = Constant(1e6).schedule(problem.loss, problem.penalty)
    *_, run = train(spec, begin(spec, schedule=schedule), 2)
    assert run.lowered > 1
    assert asked == [0, 1]
