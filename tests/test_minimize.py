"""`minimize`: the paper's two algorithms, what is recorded, and what happens on failure."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from drive import draws_of
from reference import sgd_steps, split
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import antithetic
from antithetic import AntitheticTable, Distance, DivergenceError, Interrupted, minimize
from antithetic.orders import Importance, Pairs, Shuffle, Stratified, Uniform
from antithetic.problem import Problem
from antithetic.steps import Adaptive, Constant, InverseTime
from antithetic.stochastic import sgd
from antithetic.stopping import Stalled, Target

pytestmark = pytest.mark.lowest

FEW = {"steps": 0.1, "epochs": 3, "l2": 1e-2}


@pytest.fixture(scope="module")
def data():
    return antithetic.datasets.load("sonar_scale", return_X_y=True)


@pytest.mark.parametrize("pairs", [None, "greedy"])
def test_it_is_the_papers_algorithm(data, pairs):
    """SGD and SGD-as: uniform draws, batches of two, w = 0, eta0 / (1 + eta0 eta t)."""
    X, y = data
    table = None if pairs is None else antithetic.pair(X, y, pairs)
    sampler = draws_of("uniform", len(y), 2, 4, table)
    batches = [rows for epoch in range(3) for rows in split(sampler.batches(epoch))]
    expected = sgd_steps(
        Problem.build(X, y, l2=1e-2),
        batches,
        2,
        lambda t, _: 0.1 / (1 + 0.1 * 1e-2 * (t + 1)),
        coef=np.zeros(60),
    )[0]
    found = minimize(X, y, order=Uniform(pairs=pairs), seed=4, **FEW)
    np.testing.assert_allclose(found.coef, expected[0], rtol=1e-9)
    if table is not None:
        assert all(rows[1] == table.partner[rows[0]] for rows in batches)


@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], ["mine", "rock"]])
def test_labels_of_any_two_values(data, labels):
    """The smaller label is the negative one, and the table is the same: the paper's last remark."""
    X, y = data
    usual, named = (
        minimize(X, labelled, order=Uniform(pairs="greedy"), **FEW)
        for labelled in (y, np.where(y > 0, labels[1], labels[0]))
    )
    np.testing.assert_array_equal(usual.coef, named.coef)
    assert list(named.classes) == labels


def test_the_same_seed_gives_the_same_bits(data):
    """The same seed gives the same bits, and another seed gives others."""
    first, again, other = (
        minimize(*data, order=Shuffle(pairs="random"), seed=seed, **FEW).coef for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("kind", [Uniform, Shuffle])
@pytest.mark.parametrize("pairs", [None, "greedy"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 1000])
def test_every_combination_learns(data, kind, pairs, size):
    """The objective falls for each order, with and without pairs, for any batch size."""
    order = kind(pairs=pairs)
    result = minimize(*data, order=order, batch_size=size, trace="objective", **FEW)
    assert result.trace["objective"][-1] < result.trace["objective"][0]


def test_the_trace_records_what_it_says(data):
    """Objective, exact variance, ratio and distance, before the first step and after each epoch."""
    X, y = data
    w_star = np.full(60, 0.1)
    result = minimize(
        X,
        y,
        order=Uniform(pairs="greedy"),
        trace=["objective", "variance", "variance_ratio", Distance(w_star)],
        **FEW,
    )
    problem = Problem.build(X, y, l2=1e-2)
    np.testing.assert_array_equal(result.trace["epoch"], [0, 1, 2, 3])
    assert result.trace["objective"][-1] == problem.objective(result.coef)
    assert result.trace["variance"][-1] == antithetic.gradient_variance(
        X, y, result.coef, order=Uniform(pairs=result.table)
    )
    assert result.trace["variance_ratio"][-1] == pytest.approx(
        result.table.variance_ratio(X, y, coef=result.coef), rel=1e-12
    )
    assert result.trace["distance"][-1] == pytest.approx(np.linalg.norm(result.coef - w_star))
    assert result.trace["objective"][0] == pytest.approx(np.log(2))


def test_averaged_weights_are_what_is_returned_and_measured(data):
    """The trace's objective is that of the averaged weights."""
    result = minimize(*data, average=True, trace="objective", **FEW)
    np.testing.assert_array_equal(result.coef, result.run.own.coef)
    assert result.trace["objective"][-1] == Problem.build(*data, l2=1e-2).objective(result.coef)


def test_an_average_that_has_not_begun_is_not_returned(data):
    """average=k with fewer than k samples: the last weights."""
    result = minimize(*data, average=10**9, **FEW)
    np.testing.assert_array_equal(result.coef, result.run.state.coef)


@pytest.mark.parametrize("average", [False, 100, "linear"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_resumed_run_equals_an_uninterrupted_one(data, average, form):
    """2 epochs and 3 more are 5, bit for bit, trace included."""
    X, y = form(data[0]), data[1]
    given = {
        "order": Shuffle(pairs="greedy"),
        "average": average,
        "trace": "objective",
        "steps": 0.1,
        "l1": 1e-3,
    }
    whole = minimize(X, y, epochs=5, **given)
    resumed = minimize(X, y, epochs=5, resume=minimize(X, y, epochs=2, **given), **given)
    np.testing.assert_array_equal(whole.coef, resumed.coef)
    np.testing.assert_array_equal(whole.trace["objective"], resumed.trace["objective"])


def test_resume_refuses_another_problem(data):
    """Another number of features, float type or trace."""
    X, y = data
    earlier = minimize(X, y, **FEW)
    for rows, extra in ((X[:, 1:], {}), (X.astype(np.float32), {}), (X, {"trace": "objective"})):
        with pytest.raises(ValueError, match="resume"):
            minimize(rows, y, resume=earlier, **extra, **FEW)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"average": True}, "average"),
        ({"fit_intercept": True}, "fit_intercept"),
        ({"order": "shuffle"}, "order"),
        ({"seed": 1}, "seed"),
        ({"order": Uniform(pairs="greedy")}, "order"),
        ({"steps": 0.2}, "steps"),
        ({"batch_size": 4}, "batch_size"),
        ({"l2": 0.2}, "penalty"),
        ({"loss": "hinge"}, "loss"),
        ({"resume": 3}, "Result"),
    ],
)
def test_resume_refuses_another_run(data, changed, named):
    """Resuming with other settings is refused, and the error names them."""
    earlier = minimize(*data, **FEW)
    with pytest.raises(ValueError, match=named):
        minimize(*data, **({"resume": earlier} | FEW | changed))


def test_an_adaptive_run_is_resumed_with_its_lowered_step(data):
    """A resumed adaptive run ends where the uninterrupted run does.

    The best objective, the epochs waited and the step are part of the state.
    """
    given = {
        "steps": Adaptive(0.5),
        "stop": Stalled(1e-2, epochs=2),
        "order": "shuffle",
        "l2": 1e-2,
    }
    whole = minimize(*data, epochs=60, **given)
    resumed = minimize(*data, epochs=60, resume=minimize(*data, epochs=7, **given), **given)
    np.testing.assert_array_equal(whole.coef, resumed.coef)
    assert whole.epochs == resumed.epochs < 60
    assert whole.run.lowered == resumed.run.lowered > 0
    assert minimize(*data, epochs=60, resume=whole, **given).epochs == whole.epochs


def test_a_result_is_the_users_to_change(data):
    """Changing the weights of a result does not change what a resumed run starts from."""
    first, whole = minimize(*data, **(FEW | {"epochs": 1})), minimize(*data, **FEW)
    first.coef[:] = 7.0
    np.testing.assert_array_equal(minimize(*data, resume=first, **FEW).coef, whole.coef)


def test_what_is_not_a_table_is_named():
    """An array in place of a table is refused, and the error says how to make one of it."""
    with pytest.raises(ValueError, match=r"AntitheticTable\(partner\) makes one from an array"):
        Uniform(pairs=np.arange(208))


def test_groups_may_be_given(data):
    """The run is that of the method which made them; those of other data are refused."""
    groups = antithetic.pair(*data, method="tree", nest=4)
    given = FEW | {"batch_size": 4}
    made, found = (
        minimize(*data, order=Uniform(pairs=pairs), **given)
        for pairs in (Pairs("tree", nest=4), groups)
    )
    np.testing.assert_array_equal(found.coef, made.coef)
    other = Uniform(pairs=antithetic.GroupTable(np.arange(207), 2))
    with pytest.raises(ValueError, match="a table of 207 rows and X has 208"):
        minimize(*data, order=other, **FEW)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_float32_loses_neither_small_shrinking_nor_late_averages(form):
    """In float32, factors very near 1 still shrink, and late steps still move the average."""
    X, y = np.ones((20000, 1)), np.tile([0.0, 1.0], 10000)
    given = {
        "loss": "squared_error",
        "l2": 1e-3,
        "steps": Constant(2e-5),
        "batch_size": 1,
        "epochs": 3,
    }
    for average in (False, True):
        single, double = (
            minimize(form(X.astype(dtype)), y, average=average, init=([5.0], 0.0), **given).coef
            for dtype in (np.float32, np.float64)
        )
        assert single[0] == pytest.approx(double[0], rel=2e-4)


def test_diverging_steps_stop_with_advice_and_the_last_good_result(data):
    """The message names a step that does not diverge."""
    X, y = data
    with pytest.raises(DivergenceError, match=r"try \S+ or less.*StandardScaler") as caught:
        minimize(X, y, loss="squared_hinge", steps=Constant(100.0), epochs=50)
    assert np.isfinite(caught.value.result.coef).all()
    advised = float(str(caught.value).split("try ")[1].split()[0])
    minimize(X, y, loss="squared_hinge", steps=Constant(advised), epochs=5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_divergence_is_seen_in_every_kernel(dtype, form):
    """Divergence is detected in dense and CSR, float32 and float64 kernels."""
    X = form(np.array([[1e10, 1.0], [-1e10, 2.0], [3e9, 0.0]], dtype=dtype))
    with pytest.raises(DivergenceError):
        minimize(X, [1.0, 2.0, 3.0], loss="squared_error", steps=Constant(1.0), epochs=50)


def test_an_objective_that_rose_is_reported(data):
    """Steps that are too long but do not overflow are warned of."""
    with pytest.warns(ConvergenceWarning, match="rose from"):
        minimize(*data, steps=Constant(1e4), epochs=1)


def test_ctrl_c_leaves_the_last_whole_epoch(data, monkeypatch):
    """The KeyboardInterrupt holds a result, and resuming it gives the uninterrupted run."""
    whole = minimize(*data, **FEW)
    kernel, calls = sgd.Sgd.epoch, []

    def interrupted(*arguments):
        calls.append(1)
        after = kernel(*arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return after

    monkeypatch.setattr(sgd.Sgd, "epoch", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        minimize(*data, **FEW)
    assert isinstance(caught.value, Interrupted)
    assert caught.value.result.epochs == 1
    monkeypatch.undo()
    np.testing.assert_array_equal(
        minimize(*data, resume=caught.value.result, **FEW).coef, whole.coef
    )


def test_tol_stops_early_and_adaptive_continues(data):
    """A constant step stops when the objective no longer falls.

    An adaptive one is lowered first, and ends lower.
    """
    given = {
        "l2": 1e-2,
        "epochs": 400,
        "stop": Stalled(1e-3, epochs=2),
        "order": "shuffle",
        "trace": "objective",
    }
    constant, adaptive = (
        minimize(*data, steps=steps, **given) for steps in (Constant(0.5), Adaptive(0.5))
    )
    assert constant.epochs < adaptive.epochs < 400
    assert adaptive.trace["objective"][-1] < constant.trace["objective"][-1]


def test_a_given_table_takes_the_place_of_a_method(data):
    """A table gives the bits of the method that made it."""
    table = antithetic.pair(*data, "optimal")
    expected, found = (
        minimize(*data, order=Uniform(pairs=pairs), **FEW).coef for pairs in ("optimal", table)
    )
    np.testing.assert_array_equal(found, expected)


def test_a_table_of_other_data_is_refused(data):
    """A table of other data is refused by its fingerprint."""
    X, y = data
    order = Uniform(pairs=antithetic.pair(X, y))
    changed = X.copy()
    changed[7, 3] += 1.0
    with pytest.raises(ValueError, match="other values"):
        minimize(changed, y, order=order, **FEW)
    with pytest.raises(ValueError, match="208 rows and X has 207"):
        minimize(X[1:], y[1:], order=order, **FEW)


def test_shuffled_pairs_record_what_the_matching_cost(data):
    """The greedy table is not a matching; the result holds the one that was used."""
    result = minimize(*data, order=Shuffle(pairs="greedy"), **FEW)
    assert result.table.is_matching
    assert result.table.matching_loss.before == pytest.approx(0.346, abs=0.01)


def test_progress_goes_to_the_error_stream(data, capsys):
    """Progress goes to the error stream only."""
    minimize(*data, progress=True, **FEW)
    captured = capsys.readouterr()
    assert "epochs" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"solver": "adam"}, "sgd, svrg, saga, sdca"),
        ({"order": "sorted"}, "auto, uniform, shuffle, balanced"),
        ({"order": Uniform}, r"the class Uniform; pass an object, Uniform\(\)"),
        ({"loss": "logistic"}, "log_loss"),
        ({"steps": "fast"}, r'steps \'fast\' is not known; use "auto", "optimal".*InverseTime'),
        ({"steps": Adaptive(0.1)}, r"give stop=Stalled\(tol\), say Stalled\(1e-3\)"),
        ({"steps": None}, "steps of type NoneType is not known"),
        ({"steps": -0.1}, "eta0 of InverseTime must be a finite number above 0; got -0.1"),
        ({"stop": 1e-3}, r"stop must be None, Stalled\(tol\), Target"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": 1.5}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
        ({"l2": -1.0}, "l2"),
        ({"trace": "loss"}, "objective, gradient, gap, variance"),
        ({"trace": "distance"}, r"use trace=\[Distance\(w_star\)\]"),
        ({"trace": Distance([1.0])}, "w_star"),
        ({"init": ([1.0, 2.0], 0.0)}, "coef of init"),
        ({"init": np.zeros(60)}, "init must be a pair"),
        ({"init": (None, np.inf)}, "intercept of init"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"average": "sometimes"}, "average"),
    ],
)
def test_bad_parameters_are_refused_by_name(data, given, message):
    """The message says what is allowed, or which parameter it is about."""
    with pytest.raises(ValueError, match=message):
        minimize(*data, **(FEW | given))


@pytest.mark.parametrize("method", ["best", 3, [1, 0]])
def test_unknown_methods_are_refused_when_the_order_is_made(method):
    """The message names the methods that are known, or what pairs= takes."""
    with pytest.raises(ValueError, match=r"greedy, optimal, tree, random|pairs= must be a Pairs"):
        Uniform(pairs=method)


def test_no_epochs_give_the_start(data):
    """epochs=0 returns init."""
    result = minimize(*data, steps=0.1, epochs=0, init=(np.arange(60.0), 2.0), fit_intercept=True)
    np.testing.assert_array_equal(result.coef, np.arange(60.0))
    assert result.intercept == 2.0


@pytest.mark.parametrize("n", [2, 3])
def test_tiny_data(n):
    """Two and three rows give finite weights for any batch size, with and without pairs."""
    X, y = np.arange(2.0 * n).reshape(n, 2), [0, 1, 1][:n]
    for size in (1, 2, 3):
        for pairs in (None, "greedy", "optimal", "random"):
            for kind in (Uniform, Shuffle):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    result = minimize(X, y, batch_size=size, order=kind(pairs=pairs), **FEW)
                assert np.isfinite(result.coef).all()


def test_one_row_of_regression():
    """n = 1, where the only pair is the row with itself."""
    result = minimize(
        [[1.0]],
        [2.0],
        loss="squared_error",
        order=Uniform(pairs="greedy"),
        steps=Constant(0.5),
        epochs=50,
    )
    assert result.coef[0] == pytest.approx(2.0)
    assert isinstance(result.table, AntitheticTable)


@pytest.mark.parametrize("start", [None, 0.5])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(
    "order", [Uniform(), Importance(), Importance("gradients"), Stratified()], ids=str
)
def test_the_traced_variance_is_that_of_gradient_variance(data, start, paired, order):
    """The traced variance is gradient_variance at the start, for every draw of rows and pairs."""
    X, y = data
    coef = None if start is None else np.full(X.shape[1], start)
    order = order.but(pairs=antithetic.pair(X, y) if paired else None)
    given = {"steps": 0.1, "epochs": 0, "trace": "variance"}
    found = minimize(X, y, init=(coef, 0.0), order=order, batch_size=4, **given)
    wanted = antithetic.gradient_variance(X, y, coef, order=order, batch_size=4)
    assert found.trace["variance"][0] == pytest.approx(wanted, rel=1e-12)


def test_a_number_is_the_first_step_of_inverse_time(data):
    """steps=0.1 and InverseTime(0.1) give the same bits, and SAGA takes a number as constant."""
    for solver, steps in (("sgd", InverseTime(0.1)), ("saga", Constant(0.1))):
        number, named = (
            minimize(*data, solver=solver, **(FEW | {"steps": given})).coef
            for given in (0.1, steps)
        )
        np.testing.assert_array_equal(number, named)


def test_a_run_says_whether_tol_ended_it(data):
    """A result says whether tol or the number of epochs ended the run."""
    given = {"l2": 0.1, "solver": "saga", "stop": Target("gradient", 1e-4)}
    assert minimize(*data, epochs=200, **given).converged
    assert not minimize(*data, epochs=1, **given).converged
