"""`minimize`: the paper's two algorithms, what is recorded, and what happens on failure."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from reference import algorithm_2, split
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import antithetic
from antithetic import AntitheticTable, DivergenceError, Interrupted, minimize
from antithetic.orders import make_sampler
from antithetic.problem import Problem
from antithetic.solvers import sgd

FEW = {"eta0": 0.1, "epochs": 3, "l2": 1e-2}


@pytest.fixture(scope="module")
def data():
    return antithetic.datasets.load("sonar_scale", return_X_y=True)


@pytest.mark.parametrize("pairing", [None, "greedy"])
def test_it_is_the_papers_algorithm(data, pairing):
    """SGD and SGD-as: uniform draws, batches of two, w = 0, eta0 / (1 + eta0 eta t)."""
    X, y = data
    table = None if pairing is None else antithetic.pair(X, y, pairing)
    sampler = make_sampler("uniform", len(y), 2, 4, table)
    batches = [rows for epoch in range(3) for rows in split(sampler.batches(epoch))]
    expected = algorithm_2(
        Problem.build(X, y, l2=1e-2),
        batches,
        2,
        lambda t, _: 0.1 / (1 + 0.1 * 1e-2 * (t + 1)),
        coef=np.zeros(60),
    )[0]
    found = minimize(X, y, pairing=pairing, seed=4, **FEW)
    np.testing.assert_allclose(found.coef, expected[0], rtol=1e-9)
    if table is not None:
        assert all(rows[1] == table.partner[rows[0]] for rows in batches)


@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], ["mine", "rock"]])
def test_labels_of_any_two_values(data, labels):
    """The smaller label is the negative one, and the table is the same: the paper's last remark."""
    X, y = data
    usual, named = (
        minimize(X, y, pairing="greedy", **FEW),
        minimize(X, np.where(y > 0, labels[1], labels[0]), pairing="greedy", **FEW),
    )
    np.testing.assert_array_equal(usual.coef, named.coef)
    assert list(named.classes) == labels


def test_the_same_seed_gives_the_same_bits(data):
    """The same seed gives the same bits, and another seed gives others."""
    first, again, other = (
        minimize(*data, pairing="random", sampling="shuffle", seed=seed, **FEW).coef
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("sampling", ["uniform", "shuffle"])
@pytest.mark.parametrize("pairing", [None, "greedy"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 1000])
def test_every_combination_learns(data, sampling, pairing, size):
    """The objective falls for each sampling, with and without pairs, for any batch size."""
    result = minimize(
        *data, sampling=sampling, pairing=pairing, batch_size=size, trace="objective", **FEW
    )
    assert result.trace["objective"][-1] < result.trace["objective"][0]


def test_the_trace_records_what_it_says(data):
    """Objective, exact variance, ratio and distance, before the first step and after each epoch."""
    X, y = data
    w_star = np.full(60, 0.1)
    result = minimize(
        X,
        y,
        pairing="greedy",
        trace=["objective", "variance", "variance_ratio", "distance"],
        w_star=w_star,
        **FEW,
    )
    problem = Problem.build(X, y, l2=1e-2)
    np.testing.assert_array_equal(result.trace["epoch"], [0, 1, 2, 3])
    assert result.trace["objective"][-1] == problem.objective(result.coef)
    assert result.trace["variance"][-1] == antithetic.gradient_variance(
        X, y, result.coef, table=result.table
    )
    assert result.trace["variance_ratio"][-1] == pytest.approx(
        result.table.variance_ratio(X, y, coef=result.coef), rel=1e-12
    )
    assert result.trace["distance"][-1] == pytest.approx(np.linalg.norm(result.coef - w_star))
    assert result.trace["objective"][0] == pytest.approx(np.log(2))


def test_averaged_weights_are_what_is_returned_and_measured(data):
    """The trace's objective is that of the averaged weights."""
    result = minimize(*data, average=True, trace="objective", **FEW)
    np.testing.assert_array_equal(result.coef, result.state.average)
    assert result.trace["objective"][-1] == Problem.build(*data, l2=1e-2).objective(result.coef)


def test_an_average_that_has_not_begun_is_not_returned(data):
    """average=k with fewer than k samples: the last weights."""
    result = minimize(*data, average=10**9, **FEW)
    np.testing.assert_array_equal(result.coef, result.state.coef)


@pytest.mark.parametrize("average", [False, 100, "linear"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_resumed_run_equals_an_uninterrupted_one(data, average, form):
    """2 epochs and 3 more are 5, bit for bit, trace included."""
    X, y = form(data[0]), data[1]
    given = {
        "pairing": "greedy",
        "sampling": "shuffle",
        "average": average,
        "trace": "objective",
        "eta0": 0.1,
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
        ({"sampling": "shuffle"}, "sampling"),
        ({"seed": 1}, "seed"),
        ({"pairing": "greedy"}, "pairing"),
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
        "learning_rate": "adaptive",
        "eta0": 0.5,
        "tol": 1e-2,
        "n_iter_no_change": 2,
        "sampling": "shuffle",
        "l2": 1e-2,
    }
    whole = minimize(*data, epochs=60, **given)
    resumed = minimize(*data, epochs=60, resume=minimize(*data, epochs=7, **given), **given)
    np.testing.assert_array_equal(whole.coef, resumed.coef)
    assert whole.state.epochs == resumed.state.epochs < 60
    assert minimize(*data, epochs=60, resume=whole, **given).state.epochs == whole.state.epochs


def test_a_result_is_the_users_to_change(data):
    """Without changing what a resumed run starts from."""
    first, whole = minimize(*data, **(FEW | {"epochs": 1})), minimize(*data, **FEW)
    first.coef[:] = 7.0
    np.testing.assert_array_equal(minimize(*data, resume=first, **FEW).coef, whole.coef)


def test_what_is_no_table_is_named(data):
    """An array in place of a table is refused by name."""
    with pytest.raises(ValueError, match="must be an AntitheticTable"):
        minimize(*data, table=np.arange(208), **FEW)
    with pytest.raises(ValueError, match="must be an AntitheticTable"):
        antithetic.gradient_variance(*data, table=np.arange(208))


def test_groups_may_be_given(data):
    """The run is that of the method which made them; those of other data are refused."""
    groups = antithetic.pair(*data, method="tree", nest=4)
    given = FEW | {"batch_size": 4, "sampling": "uniform"}
    made = minimize(*data, pairing="tree", nest=4, **given)
    np.testing.assert_array_equal(minimize(*data, table=groups, **given).coef, made.coef)
    with pytest.raises(ValueError, match="groups have 207 rows and X has 208"):
        minimize(*data, table=antithetic.GroupTable(np.arange(207), 2), **FEW)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_float32_loses_neither_small_shrinking_nor_late_averages(form):
    """In float32, factors very near 1 still shrink, and late steps still move the average."""
    X, y = np.ones((20000, 1)), np.tile([0.0, 1.0], 10000)
    given = {
        "loss": "squared_error",
        "l2": 1e-3,
        "learning_rate": "constant",
        "eta0": 2e-5,
        "batch_size": 1,
        "epochs": 3,
    }
    for average in (False, True):
        single, double = (
            minimize(form(X.astype(dtype)), y, average=average, coef_init=[5.0], **given).coef
            for dtype in (np.float32, np.float64)
        )
        assert single[0] == pytest.approx(double[0], rel=2e-4)


def test_diverging_steps_stop_with_advice_and_the_last_good_result(data):
    """The message names a step that does not diverge."""
    X, y = data
    with pytest.raises(DivergenceError, match=r"eta0=\S+ or less.*StandardScaler") as caught:
        minimize(X, y, loss="squared_hinge", learning_rate="constant", eta0=100.0, epochs=50)
    assert np.isfinite(caught.value.result.coef).all()
    advised = float(str(caught.value).split("eta0=")[1].split()[0])
    minimize(X, y, loss="squared_hinge", learning_rate="constant", eta0=advised, epochs=5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_divergence_is_seen_in_every_kernel(dtype, form):
    """Divergence is detected in dense and CSR, float32 and float64 kernels."""
    X = form(np.array([[1e10, 1.0], [-1e10, 2.0], [3e9, 0.0]], dtype=dtype))
    with pytest.raises(DivergenceError):
        minimize(
            X, [1.0, 2.0, 3.0], loss="squared_error", learning_rate="constant", eta0=1.0, epochs=50
        )


def test_an_objective_that_rose_is_reported(data):
    """Steps that are too long but do not blow up."""
    with pytest.warns(ConvergenceWarning, match="rose from"):
        minimize(*data, learning_rate="constant", eta0=1e4, epochs=1)


def test_ctrl_c_leaves_the_last_whole_epoch(data, monkeypatch):
    """The KeyboardInterrupt holds a result, and resuming it gives the uninterrupted run."""
    whole = minimize(*data, **FEW)
    kernel, calls = sgd._run_kernel, []

    def interrupted(*arguments):
        calls.append(1)
        kernel(*arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(sgd, "_run_kernel", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        minimize(*data, **FEW)
    assert isinstance(caught.value, Interrupted)
    assert caught.value.result.state.epochs == 1
    monkeypatch.undo()
    np.testing.assert_array_equal(
        minimize(*data, resume=caught.value.result, **FEW).coef, whole.coef
    )


def test_tol_stops_early_and_adaptive_goes_on(data):
    """A constant step stops when the objective no longer falls.

    An adaptive one is lowered first, and ends lower.
    """
    given = {
        "eta0": 0.5,
        "l2": 1e-2,
        "epochs": 400,
        "tol": 1e-3,
        "n_iter_no_change": 2,
        "sampling": "shuffle",
        "trace": "objective",
    }
    constant, adaptive = (
        minimize(*data, learning_rate=name, **given) for name in ("constant", "adaptive")
    )
    assert constant.state.epochs < adaptive.state.epochs < 400
    assert adaptive.trace["objective"][-1] < constant.trace["objective"][-1]


def test_a_given_table_takes_the_place_of_pairing(data):
    """table= beats pairing=, and pairing= takes a table too."""
    X, y = data
    table = antithetic.pair(X, y, "optimal")
    expected = minimize(X, y, pairing="optimal", **FEW).coef
    np.testing.assert_array_equal(
        minimize(X, y, table=table, pairing="greedy", **FEW).coef, expected
    )
    np.testing.assert_array_equal(minimize(X, y, pairing=table, **FEW).coef, expected)


def test_a_table_of_other_data_is_refused(data):
    """A table of other data is refused by its fingerprint."""
    X, y = data
    table = antithetic.pair(X, y)
    changed = X.copy()
    changed[7, 3] += 1.0
    with pytest.raises(ValueError, match="other values"):
        minimize(changed, y, table=table, **FEW)
    with pytest.raises(ValueError, match="207"):
        minimize(X[1:], y[1:], table=table, **FEW)


def test_shuffled_pairs_record_what_the_matching_cost(data):
    """The greedy table is no matching; the result holds the one that was used."""
    result = minimize(*data, pairing="greedy", sampling="shuffle", **FEW)
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
        ({"sampling": "sorted"}, "uniform, shuffle, balanced"),
        ({"pairing": "best"}, "greedy, optimal, tree, random"),
        ({"loss": "logistic"}, "log_loss"),
        ({"learning_rate": "fast"}, "inverse_time"),
        ({"learning_rate": "adaptive"}, "needs tol"),
        ({"eta0": None}, "eta0"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": 1.5}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
        ({"l2": -1.0}, "l2"),
        ({"trace": "loss"}, "objective, gradient, gap, variance"),
        ({"trace": "distance"}, "w_star"),
        ({"trace": "distance", "w_star": [1.0]}, "w_star"),
        ({"coef_init": [1.0, 2.0]}, "coef_init"),
        ({"tol": float("nan")}, "tol"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"average": "sometimes"}, "average"),
    ],
)
def test_bad_parameters_are_refused_by_name(data, given, message):
    """The message says what is allowed, or which parameter it is about."""
    with pytest.raises(ValueError, match=message):
        minimize(*data, **(FEW | given))


def test_no_epochs_give_the_start(data):
    """epochs=0 returns coef_init."""
    result = minimize(
        *data, eta0=0.1, epochs=0, coef_init=np.arange(60.0), intercept_init=2.0, fit_intercept=True
    )
    np.testing.assert_array_equal(result.coef, np.arange(60.0))
    assert result.intercept == 2.0


@pytest.mark.parametrize("n", [2, 3])
def test_tiny_data(n):
    """Two and three rows, any batch size, with and without pairs."""
    X, y = np.arange(2.0 * n).reshape(n, 2), [0, 1, 1][:n]
    for size in (1, 2, 3):
        for pairing in (None, "greedy", "optimal", "random"):
            for sampling in ("uniform", "shuffle"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    assert np.isfinite(
                        minimize(
                            X, y, batch_size=size, pairing=pairing, sampling=sampling, **FEW
                        ).coef
                    ).all()


def test_one_row_of_regression():
    """n = 1, where the only pair is the row with itself."""
    result = minimize(
        [[1.0]],
        [2.0],
        loss="squared_error",
        pairing="greedy",
        learning_rate="constant",
        eta0=0.5,
        epochs=50,
    )
    assert result.coef[0] == pytest.approx(2.0)
    assert isinstance(result.table, AntitheticTable)


@pytest.mark.parametrize("start", [None, 0.5])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sampling": "importance"},
        {"sampling": "importance", "importance": "gradients"},
        {"sampling": "stratified"},
    ],
)
def test_the_traced_variance_is_that_of_gradient_variance(data, start, paired, given):
    """The traced variance is gradient_variance at the start, for every draw of rows and pairs."""
    X, y = data
    coef, table = (
        None if start is None else np.full(X.shape[1], start),
        (antithetic.pair(X, y) if paired else None),
    )
    found = minimize(
        X,
        y,
        coef_init=coef,
        table=table,
        batch_size=4,
        eta0=0.1,
        epochs=0,
        trace="variance",
        **given,
    )
    wanted = antithetic.gradient_variance(X, y, coef, table=table, batch_size=4, **given)
    assert found.trace["variance"][0] == pytest.approx(wanted, rel=1e-12)


def test_a_run_says_whether_tol_ended_it(data):
    """A result says whether tol or the number of epochs ended the run."""
    given = {"l2": 0.1, "solver": "saga", "stopping": "gradient", "tol": 1e-4}
    assert minimize(*data, epochs=200, **given).converged
    assert not minimize(*data, epochs=1, **given).converged
