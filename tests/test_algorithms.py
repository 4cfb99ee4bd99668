"""The paper's algorithms as printed are the oracle of what the package computes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from data import needs_data
from reference import sgd_steps, split
from reference_pairing import largest_excess
from scipy import sparse

import antithetic
from antithetic.orders import Uniform
from antithetic.paper.algorithms import algorithm_1, algorithm_2, sgd
from antithetic.paper.workbench import LAMBDAS, POINTS, Workbench, iterations_inside
from antithetic.steps import InverseTime

EMBEDDED = ("sonar_scale", "breast-cancer_scale", "splice_scale", "diabetes_scale")
SETS = [name if name in EMBEDDED else pytest.param(name, marks=needs_data) for name in LAMBDAS]
ROWS = 5000  # of ijcnn1.tr: the literal algorithm takes a minute on all
ETA0, EPOCHS, SEED = 0.04, 3, 5


def rows_of(name):
    """Rows and labels; an even and an odd number of rows, labels -1 and 1, 2 and 4."""
    X, y = antithetic.datasets.load(name, return_X_y=True)
    X = X.toarray() if sparse.issparse(X) else X
    return X[:ROWS], y[:ROWS]


@pytest.mark.kernel
@pytest.mark.parametrize("name", SETS)
def test_the_table_equals_algorithm_1_if_products_are_exact(name):
    """On the six sets, with features rounded to multiples of 1/512, the tables are the same."""
    X, y = rows_of(name)
    X = np.round(512.0 * X) / 512.0
    np.testing.assert_array_equal(antithetic.pair(X, y, "greedy").partner, algorithm_1(X, y))


@pytest.mark.kernel
@pytest.mark.parametrize("name", SETS)
def test_each_choice_is_that_of_algorithm_1_up_to_rounding(name):
    """On the sets as they are, no choice exceeds the smallest product that was free by 1e-12."""
    X, y = rows_of(name)
    signed = np.where(y == y.max(), 1.0, -1.0)[:, None] * X
    for partner in (antithetic.pair(X, y, "greedy").partner, algorithm_1(X, y)):
        assert largest_excess(signed, partner) <= 1e-12


def case(name, loss):
    """Rows, labels, the workbench with its table, and the draws of minimize, one per iteration."""
    workbench = Workbench.of(name, loss)
    given = {"loss": loss, "l2": LAMBDAS[name]}
    return *rows_of(name), workbench, given


def draws(workbench, method):
    batches = [workbench.draws(method, SEED).batches(epoch) for epoch in range(EPOCHS)]
    return batches, np.concatenate([of.rows.reshape(-1, 2) for of in batches])


@pytest.mark.kernel
@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("name", ["sonar_scale", "breast-cancer_scale"])
def test_minimize_takes_the_steps_of_the_paper(name, loss):
    """With the same draws, weights after each epoch equal Algorithm 2's, and plain SGD's."""
    X, y, workbench, given = case(name, loss)
    S, decay = workbench.paper_table().partner, 0.02
    for method, order in (("SGD", Uniform()), ("SGD-as", Uniform(pairs=workbench.paper_table()))):
        batches, rows = draws(workbench, method)
        steps = {"eta0": ETA0, "eta": decay}
        if method == "SGD":
            path = sgd(X, y, **given, **steps, rows=rows)
        else:
            np.testing.assert_array_equal(rows[:, 1], S[rows[:, 0]])
            path = algorithm_2(X, y, S, **given, **steps, rows=rows[:, 0])
        in_epoch = len(batches[0].starts) - 1
        for epochs in range(1, EPOCHS + 1):
            found = antithetic.minimize(
                X,
                y,
                **given,
                order=order,
                steps=InverseTime(ETA0, decay),
                epochs=epochs,
                seed=SEED,
            )
            expected = path[epochs * in_epoch - 1]
            np.testing.assert_allclose(found.coef, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.kernel
@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("name", ["sonar_scale", "breast-cancer_scale"])
def test_points_inside_epochs_are_those_of_the_paper(name, loss):
    """With the same draws, weights at the recorded iterations equal SGD's and Algorithm 2's."""
    X, y, workbench, given = case(name, loss)
    S, steps = workbench.paper_table().partner, {"eta0": ETA0, "eta": LAMBDAS[name]}
    iterations = iterations_inside(len(y), EPOCHS)
    assert len(iterations) == EPOCHS * POINTS + 1
    for method in ("SGD", "SGD-as"):
        _, rows = draws(workbench, method)
        found = workbench.inside(method, InverseTime(ETA0), seeds=SEED + 1, epochs=EPOCHS)[SEED]
        assert not found[0].any()
        if method == "SGD-as":
            path = algorithm_2(X, y, S, **given, **steps, rows=rows[:, 0])
        else:
            path = sgd(X, y, **given, **steps, rows=rows)
        np.testing.assert_allclose(found[1:], path[iterations[1:] - 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("name", ["sonar_scale", "breast-cancer_scale"])
def test_the_twin_of_the_kernels_takes_the_steps_of_the_paper(name, loss):
    """The NumPy twin, which the kernels are tested against, equals Algorithm 2."""
    X, y, workbench, given = case(name, loss)
    S = workbench.paper_table().partner
    batches, rows = draws(workbench, "SGD-as")
    path, twin = algorithm_2(X, y, S, **given, eta0=ETA0, eta=0.02, rows=rows[:, 0]), []
    sgd_steps(
        workbench.problem,
        [batch for epoch in batches for batch in split(epoch)],
        2,
        lambda steps, _samples: ETA0 / (1.0 + ETA0 * 0.02 * (steps + 1)),
        coef=np.zeros(X.shape[1]),
        path=twin,
    )
    np.testing.assert_allclose([coef for coef, _ in twin], path, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_labels_of_either_convention_give_the_same_table_and_steps(loss):
    X, y = rows_of("sonar_scale")
    S, labels = algorithm_1(X, y), (y + 1.0) / 2.0
    assert set(labels) == {0.0, 1.0}
    np.testing.assert_array_equal(algorithm_1(X, labels), S)
    np.testing.assert_array_equal(algorithm_1(X.tolist(), y.tolist()), S)
    given = {"loss": loss, "l2": 0.1, "eta0": 0.5, "eta": 0.1, "iterations": 40, "seed": 1}
    np.testing.assert_array_equal(algorithm_2(X, labels, S, **given), algorithm_2(X, y, S, **given))
    np.testing.assert_array_equal(sgd(X, labels, **given), sgd(X, y, **given))


def test_rows_are_drawn_by_the_seed_unless_given():
    X, y = rows_of("sonar_scale")
    S = algorithm_1(X, y)
    given, rng = {"l2": 0.01, "iterations": 30}, np.random.default_rng
    path = algorithm_2(X, y, S, **given, seed=4)
    assert path.shape == (30, X.shape[1])
    rows = rng(4).integers(len(y), size=30)
    np.testing.assert_array_equal(path, algorithm_2(X, y, S, l2=0.01, rows=rows))
    rows = rng(4).integers(len(y), size=(30, 2))
    np.testing.assert_array_equal(sgd(X, y, **given, seed=4), sgd(X, y, l2=0.01, rows=rows))
    assert not np.array_equal(path, algorithm_2(X, y, S, **given, seed=5))


def test_another_loss_is_not_taken_for_the_logistic():
    X, y = rows_of("sonar_scale")
    for method, given in ((sgd, ()), (algorithm_2, (algorithm_1(X, y),))):
        with pytest.raises(KeyError, match="svm"):
            method(X, y, *given, loss="svm")


def test_the_module_runs_and_prints_the_first_variance_ratio():
    command = [sys.executable, "-W", "error", "-m", "antithetic.paper.algorithms"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    X, y = rows_of("sonar_scale")
    ratio = antithetic.pair(X, y, "greedy").variance_ratio(X, y)
    assert done.stdout.startswith("sonar_scale, w = 0: ")
    assert done.stdout.split()[-1] == f"{ratio:.4f}"
