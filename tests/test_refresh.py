"""Tables rebuilt during a run: when, from which gradients, with what gain; and Algorithm 2."""

from __future__ import annotations

import numpy as np
import pytest
from reference import algorithm_2
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
from antithetic.orders import make_sampler
from antithetic.orders.shuffle import ShufflePairs
from antithetic.problem import Problem
from antithetic.solvers import Care, make_sgd, run, sgd
from antithetic.solvers.steps import make_schedule

pytestmark = pytest.mark.kernel

SAMPLINGS = pytest.mark.parametrize("sampling", ["uniform", "shuffle", "balanced"])
GIVEN = {"l2": 0.01, "eta0": 0.2}


def data(n=40, d=3):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.0, 1.0, -1.0)


def tables_of(X, y, epochs, **given):
    """Partners in use during each epoch, and the weights before it."""
    runs = [minimize(X, y, epochs=epoch, **GIVEN, **given) for epoch in range(epochs + 1)]
    rows = [
        run.table.partner if isinstance(run.table, AntitheticTable) else run.table.order
        for run in runs
    ]
    return rows[1:], [run.state for run in runs[:-1]]


@SAMPLINGS
@pytest.mark.parametrize("pairing", ["greedy", "optimal", "tree"])
@pytest.mark.parametrize(
    ("refresh", "renewed"),
    [(1, {1, 2, 3}), (2, {2}), ([1, 3], {1, 3}), (range(0, 5, 2), {2}), ([], set())],
)
def test_tables_are_made_from_the_gradients_of_the_moment(sampling, pairing, refresh, renewed):
    """Tables are rebuilt before the requested epochs and no others.

    The first epoch has the table of the signed rows.
    """
    X, y = data()
    used, states = tables_of(X, y, 4, sampling=sampling, pairing=pairing, refresh=refresh)
    first = pair(X, y, pairing)
    expected = first if sampling == "uniform" else first.to_matching(X, y)
    for epoch, state in enumerate(states):
        if epoch in renewed:
            if not (pairing == "tree" and epoch > 1):  # which polishes the one there was
                expected = pair(X, y, pairing, coef=state.coef)
                expected = (
                    expected
                    if sampling == "uniform"
                    else expected.to_matching(X, y, coef=state.coef)
                )
            elif not np.array_equal(used[epoch], used[epoch - 1]):
                expected = AntitheticTable(used[epoch])
                assert expected.variance_ratio(X, y, coef=state.coef) <= AntitheticTable(
                    used[epoch - 1]
                ).variance_ratio(X, y, coef=state.coef)
        np.testing.assert_array_equal(used[epoch], expected.partner, err_msg=f"epoch {epoch}")


@SAMPLINGS
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_a_refreshed_epoch_by_hand(sampling, form):
    """The second epoch follows a sampler of the new table, in a fresh order where balanced."""
    X, y = data()
    found = minimize(form(X), y, epochs=2, sampling=sampling, pairing="optimal", refresh=1, **GIVEN)
    before = minimize(form(X), y, epochs=1, sampling=sampling, pairing="optimal", **GIVEN)
    problem = Problem.build(form(X), y, l2=0.01)
    table = pair(form(X), y, "optimal", coef=before.coef)
    table = table if sampling == "uniform" else table.to_matching(X, y, coef=before.coef)
    schedule = make_schedule(
        "inverse_time", eta0=0.2, decay=0.01, alpha=0.01, power_t=0.5, loss=problem.loss
    )
    after = make_sgd(problem, False).epoch(
        before.state, make_sampler(sampling, 40, 2, 0, table).batches(1), schedule
    )
    np.testing.assert_array_equal(found.coef, after.coef)
    assert not np.array_equal(found.table.partner, before.table.partner)


def test_gradients_of_the_moment_know_the_intercept():
    """Far from zero it changes which gradients are large."""
    X, y = data()
    given = {"pairing": "optimal", "fit_intercept": True, "intercept_init": 3.0, **GIVEN}
    before, after = minimize(X, y, epochs=1, **given), minimize(X, y, epochs=2, refresh=1, **given)
    right, wrong = (
        pair(X, y, "optimal", coef=before.coef, intercept=b, fit_intercept=True).partner
        for b in (before.intercept, 0.0)
    )
    np.testing.assert_array_equal(after.table.partner, right)
    assert not np.array_equal(right, wrong)


@pytest.mark.parametrize("name", ["breast-cancer_scale", "diabetes_scale"])
def test_a_refresh_lowers_the_variance(name):
    """At the weights it is made from, the new table is better than the old one.

    Along the run, than one that is kept.
    """
    X, y = datasets.load(name, return_X_y=True)
    given = {"l2": 1e-2, "eta0": 0.1, "pairing": "optimal", "trace": "variance_ratio"}
    before = minimize(X, y, epochs=1, **given)
    after = minimize(X, y, epochs=2, refresh=1, **given)
    old, new = (result.table.variance_ratio(X, y, coef=before.coef) for result in (before, after))
    assert new < 0.9 * old
    kept, renewed = (
        minimize(X, y, epochs=3, refresh=refresh, **given).trace["variance_ratio"]
        for refresh in (None, 1)
    )
    assert kept[0] == renewed[0]
    assert (renewed[2:] < 0.9 * kept[2:]).all()


@SAMPLINGS
def test_a_table_is_made_anew_when_it_pays(sampling):
    """ "auto": always before the second epoch, and later when a third of the reduction is lost."""
    X, y = data(200)
    given = {"sampling": sampling, "pairing": "optimal"}
    used, states = tables_of(X, y, 8, refresh="auto", **given)
    assert not np.array_equal(used[0], used[1])
    problem = Problem.build(X, y)

    def reduction(partner, state):
        return 1.0 - AntitheticTable(partner).variance_ratio(problem.X, y, coef=state.coef)

    made = reduction(used[1], states[1])
    for epoch in range(2, 8):
        due = reduction(used[epoch - 1], states[epoch]) < 0.7 * made
        assert due or np.array_equal(used[epoch], used[epoch - 1])
        made = reduction(used[epoch], states[epoch]) if due else made


def test_a_table_that_fades_is_made_anew():
    """refresh="auto" rebuilds a table that has lost its effect, and the new one is better."""
    X, y = datasets.load("breast-cancer_scale", return_X_y=True)
    given = {
        "l2": 1e-4,
        "learning_rate": "constant",
        "eta0": 1e-3,
        "pairing": "optimal",
        "sampling": "shuffle",
    }
    early, late = (minimize(X, y, epochs=epochs, refresh="auto", **given) for epochs in (2, 30))
    assert not np.array_equal(early.table.partner, late.table.partner)
    kept, found = (
        table.variance_ratio(X, y, coef=late.coef) for table in (early.table, late.table)
    )
    assert found < kept


@pytest.mark.parametrize("sampling", ["shuffle", "balanced"])
@pytest.mark.parametrize("nest", [4, True])
@pytest.mark.parametrize("refresh", [1, [1, 3], "auto"])
def test_nested_groups_are_made_anew(sampling, nest, refresh):
    """Nested groups are rebuilt from the gradients before the epoch."""
    X, y = data()
    given = {"sampling": sampling, "nest": nest, "pairing": "tree"}
    used, states = tables_of(X, y, 2, refresh=refresh, **given)
    expected = pair(X, y, "tree", coef=states[1].coef, nest=nest)
    assert isinstance(expected, GroupTable)
    np.testing.assert_array_equal(used[1], expected.order)
    assert not np.array_equal(used[0], used[1])


def test_a_given_table_and_one_of_a_callable_are_made_anew():
    """A table is rebuilt by its own method or callable, or by "auto" if it is unknown."""
    X, y = data()
    before = minimize(X, y, epochs=1, table=pair(X, y, "greedy"), **GIVEN).coef
    greedy = minimize(X, y, epochs=2, table=pair(X, y, "greedy"), refresh=1, **GIVEN).table
    np.testing.assert_array_equal(greedy.partner, pair(X, y, "greedy", coef=before).partner)
    own = AntitheticTable(np.arange(40)[::-1])
    before = minimize(X, y, epochs=1, table=own, **GIVEN).coef
    anew = minimize(X, y, epochs=2, table=own, refresh=1, **GIVEN).table
    np.testing.assert_array_equal(anew.partner, pair(X, y, coef=before).partner)
    seen = []

    def reverse(rows):
        seen.append(rows.copy())
        return np.arange(len(rows))[::-1]

    minimize(X, y, epochs=2, pairing=reverse, refresh=1, **GIVEN)
    assert len(seen) == 2
    assert not np.array_equal(seen[0], seen[1])


# ---- Algorithm 2 to the letter


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("pairing", ["greedy", "optimal"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_table_in_every_step(form, size, pairing, intercept):
    """Draw i, pair the gradients at the present weights, step along those of i and S[i].

    Two epochs equal the plain loop.
    """
    X, y = data(12)
    problem = Problem.build(X, y, l2=0.05, fit_intercept=intercept)
    w, b, steps = np.zeros(3), 0.0, 0
    for epoch in range(2):
        rng = np.random.default_rng((3, epoch))
        for drawn in rng.integers(12, size=(-(-12 // size), (size + 1) // 2)):
            partner = pair(X, y, pairing, coef=w, intercept=b, fit_intercept=intercept).partner
            rows = [row for i in drawn[: size // 2] for row in (i, partner[i])] + list(
                drawn[size // 2 :]
            )
            steps += 1
            eta = 0.3 / (1.0 + 0.3 * 0.05 * steps)
            (w, b), _, _ = algorithm_2(
                problem, [np.array(rows)], size, lambda *_, eta=eta: eta, coef=w, intercept=b
            )
    given = {
        "pairing": pairing,
        "refresh": "step",
        "batch_size": size,
        "seed": 3,
        "l2": 0.05,
        "eta0": 0.3,
        "fit_intercept": intercept,
    }
    found = minimize(form(X), y, epochs=2, **given)
    np.testing.assert_allclose(found.coef, w, atol=1e-12)
    assert found.intercept == pytest.approx(b, abs=1e-12)
    assert (found.state.epochs, found.state.steps) == (2, steps)
    resumed = minimize(
        form(X), y, epochs=2, resume=minimize(form(X), y, epochs=1, **given), **given
    )
    np.testing.assert_array_equal(resumed.coef, found.coef)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampling": "shuffle"}, r'Algorithm 2.*sampling="uniform"'),
        ({"sampling": "balanced"}, r'Algorithm 2.*sampling="uniform"'),
        ({"batch_size": 1}, "batch_size of at least 2"),
        ({"nest": 4, "sampling": "shuffle"}, "no nest="),
        ({"pairing": None}, "need pairing="),
    ],
)
def test_where_there_is_no_table_for_every_step(given, message):
    """Without a table for every step, the error says what is needed."""
    X, y = data()
    with pytest.raises(ValueError, match=message):
        minimize(X, y, **{"pairing": "greedy", "refresh": "step", "epochs": 1, **GIVEN, **given})


def test_tables_in_every_step_need_few_rows():
    """At most 2000; nothing is computed before the refusal."""
    X, y = data(2001, 1)
    with pytest.raises(ValueError, match=r'at most 2000 rows.*2001.*refresh="auto"'):
        minimize(X, y, pairing="random", refresh="step", epochs=1, **GIVEN)
    assert (
        minimize(
            X[:2000], y[:2000], pairing="random", refresh="step", epochs=0, **GIVEN
        ).state.steps
        == 0
    )


# ---- resuming and refusing


@SAMPLINGS
@pytest.mark.parametrize("pairing", ["optimal", "tree"])
@pytest.mark.parametrize("refresh", [1, 2, [1, 2], [0, 1]])
def test_a_resumed_run_is_the_unbroken_one(sampling, pairing, refresh):
    """A resumed run is exact, whether a table was rebuilt before or after the break."""
    X, y = data()
    given = {"sampling": sampling, "pairing": pairing, "refresh": refresh, **GIVEN}
    whole = minimize(X, y, epochs=5, **given)
    for at in (2, 3):
        resumed = minimize(X, y, epochs=5, resume=minimize(X, y, epochs=at, **given), **given)
        np.testing.assert_array_equal(resumed.coef, whole.coef)
        np.testing.assert_array_equal(resumed.table.partner, whole.table.partner)


def test_a_run_is_resumed_before_an_epoch_that_was_asked_for():
    """``refresh=[1, 4]`` stopped after two epochs is the same run as one of six."""
    X, y = data()
    given = {"pairing": "optimal", "refresh": [1, 4], **GIVEN}
    resumed = minimize(X, y, epochs=6, resume=minimize(X, y, epochs=2, **given), **given)
    np.testing.assert_array_equal(resumed.coef, minimize(X, y, epochs=6, **given).coef)


def test_an_automatic_refresh_is_not_resumed():
    """What the table was worth when it was made is not kept."""
    X, y = data()
    given = {"pairing": "optimal", "refresh": "auto", **GIVEN}
    with pytest.raises(ValueError, match=r'refresh="auto" cannot be resumed.*give the epochs'):
        minimize(X, y, epochs=4, resume=minimize(X, y, epochs=2, **given), **given)


def test_a_run_is_not_resumed_with_another_refresh():
    """Resuming with another refresh or nest is refused."""
    X, y = data()
    before = minimize(X, y, epochs=1, pairing="optimal", refresh=2, **GIVEN)
    with pytest.raises(ValueError, match="another refresh"):
        minimize(X, y, epochs=2, pairing="optimal", refresh=1, resume=before, **GIVEN)
    before = minimize(X, y, epochs=1, pairing="optimal", sampling="shuffle", nest=2, **GIVEN)
    with pytest.raises(ValueError, match="another nest"):
        minimize(
            X, y, epochs=2, pairing="optimal", sampling="shuffle", nest=4, resume=before, **GIVEN
        )


@pytest.mark.parametrize(
    ("refresh", "message"),
    [
        (0, "refresh"),
        (-1, "refresh"),
        (1.5, "refresh"),
        ([1, -2], "refresh"),
        ([1.5], "refresh"),
        ("often", r'"auto", "step"'),
    ],
)
def test_bad_values_are_refused(refresh, message):
    """Bad values are refused before the first step, with what is allowed."""
    X, y = data()
    with pytest.raises(ValueError, match=message):
        minimize(X, y, pairing="random", refresh=refresh, epochs=1, **GIVEN)


@pytest.mark.parametrize("refresh", [1, [1], "auto", "step"])
def test_without_a_table_there_is_nothing_to_refresh(refresh):
    """refresh without a table is refused, and the error says what is needed."""
    X, y = data()
    with pytest.raises(ValueError, match=r"nest= and refresh= refine a table; they need pairing="):
        minimize(X, y, refresh=refresh, epochs=1, **GIVEN)


@pytest.mark.parametrize(
    "epochs",
    [np.array([1, 2]), np.array([2]), (1, 2), range(1, 3), {1, 2}, frozenset([2])],
    ids=repr,
)
def test_epochs_may_come_in_any_collection(epochs):
    """Epochs in any collection mean the same as in a list."""
    X, y = data()
    found, expected = (
        minimize(X, y, pairing="optimal", refresh=refresh, epochs=3, **GIVEN)
        for refresh in (epochs, list(epochs))
    )
    np.testing.assert_array_equal(found.coef, expected.coef)


def test_an_estimator_takes_epochs_in_an_array():
    """The parameter constraints of estimators accept an array of epochs."""
    X, y = data()
    models = [
        SGDClassifier(
            pairing="optimal",
            refresh=refresh,
            sampling="shuffle",
            max_iter=3,
            tol=None,
            random_state=0,
        ).fit(X, y)
        for refresh in (np.array([1, 2]), [1, 2])
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_an_estimator_refreshes():
    """An estimator refreshes its table, says so in its plan, and lowers the variance.

    Algorithm 2 to the letter is left to ``minimize``.
    """
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    given = {
        "loss": "log_loss",
        "pairing": "optimal",
        "sampling": "shuffle",
        "max_iter": 3,
        "tol": None,
        "trace": "variance_ratio",
    }
    kept, renewed = (
        SGDClassifier(refresh=refresh, random_state=0, **given).fit(X, y) for refresh in (None, 1)
    )
    assert (kept.plan_.refresh, renewed.plan_.refresh) == (None, 1)
    assert renewed.history_["variance_ratio"][-1] < kept.history_["variance_ratio"][-1]
    with pytest.raises(ValueError, match="refresh"):
        SGDClassifier(refresh="step", pairing="greedy").fit(X, y)


def test_nothing_is_made_anew_for_a_chunk(monkeypatch):
    """``partial_fit`` makes one table of the rows of each call, at most."""
    X, y = data()
    made = []
    monkeypatch.setattr(
        "antithetic.training.tables.pair",
        lambda *args, **given: made.append(given) or pair(*args, **given),
    )
    model = SGDClassifier(pairing="optimal", refresh=1, sampling="shuffle")
    for _ in range(3):
        model.partial_fit(X, y, classes=[-1.0, 1.0])
    assert len(made) == 3


def test_the_table_stays_a_matching():
    """Where each row is visited once, a new table is cut into pairs as the first was."""
    X, y = data(41)
    for sampling in ("shuffle", "balanced"):
        table = minimize(
            X, y, pairing="greedy", sampling=sampling, refresh=1, epochs=3, **GIVEN
        ).table
        assert table.is_matching
        assert isinstance(make_sampler("shuffle", 41, 2, 0, table), ShufflePairs)


def test_the_oracle_has_no_patience():
    """refresh="step" with tol is refused.

    Each step is an epoch to the solver, so there is no loss of a whole epoch to compare.
    """
    X, y = data()
    with pytest.raises(ValueError, match="without tol"):
        minimize(X, y, pairing="optimal", refresh="step", tol=1e-3, epochs=1, **GIVEN)


def test_chunks_are_not_all_in_one_order():
    """A balanced order begins at random.

    Partial_fit, whose calls are single epochs, draws another for each.
    """
    X, y = data()
    models = [
        SGDClassifier("log_loss", sampling=s, random_state=0, learning_rate="constant", tol=None)
        for s in ("balanced", "shuffle")
    ]
    for model in models:
        for _ in range(3):
            model.partial_fit(X, y, classes=[-1.0, 1.0])
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_an_interrupted_run_resumes_with_the_table_of_its_last_whole_epoch(monkeypatch):
    """It resumes with that table even though the next one had been made."""
    X, y = data()
    given = {"pairing": "optimal", "refresh": [2], "sampling": "shuffle", **GIVEN}
    whole, kernel, calls = minimize(X, y, epochs=4, **given), sgd._run_kernel, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return kernel(*arguments)

    monkeypatch.setattr(sgd, "_run_kernel", interrupted)
    with pytest.raises(Interrupted) as stop:
        minimize(X, y, epochs=4, **given)
    monkeypatch.undo()
    np.testing.assert_array_equal(
        minimize(X, y, epochs=4, resume=stop.value.result, **given).coef, whole.coef
    )


def test_resume_with_refresh_checks_what_it_is_given():
    """Other rows, another pairing, or no result at all."""
    X, y = data()
    given = {"refresh": 2, "sampling": "shuffle", **GIVEN}
    result = minimize(X, y, pairing="optimal", epochs=1, **given)
    for rows, pairing, resume in (
        (X + 1.0, "optimal", result),
        (X, "greedy", result),
        (X, "optimal", 1),
    ):
        with pytest.raises(ValueError, match=r"other values|another pairing|must be a Result"):
            minimize(rows, y, pairing=pairing, epochs=2, resume=resume, **given)


def test_an_epoch_that_is_done_again_keeps_its_table():
    """Care lowers the steps of an epoch; the table before it is made once."""
    X, _ = data()
    problem = Problem.build(X, 1e3 * X[:, 0], loss="squared_error")
    asked, solver = [], make_sgd(problem, False, watch=True)
    schedule = make_schedule("constant", eta0=1e6, decay=0, alpha=0, power_t=0, loss=problem.loss)
    sampler = make_sampler("shuffle", problem.n, 2, 0)
    *_, state = run(
        solver,
        sampler,
        schedule,
        solver.init(),
        epochs=2,
        care=Care(0.0),
        renew=lambda state: asked.append(state.epochs) or None,
    )
    assert state.lowered > 1
    assert asked == [0, 1]
