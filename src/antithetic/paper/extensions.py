"""What the paper mentions: larger steps and batches, a non-smooth penalty, labels 0 and 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from antithetic.pairing import pair
from antithetic.paper.measures import variances
from antithetic.paper.runs import Bench, objectives
from antithetic.paper.settings import MORE_BATCH_SIZES, PAPER, constant_steps
from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.sgd import make_sgd
from antithetic.solvers.steps import Constant, InverseTime

Numbers = dict[str, NDArray[np.float64]]
_SHARE_OF_L1 = 0.1  # of the least strength at which all weights stay zero
_EPOCHS_OF_CONSTANT_STEPS = 8


def last_quarter(epochs: int) -> int:
    """Number of epochs that count as the last ones of a run: a quarter, at least one."""
    return max(1, epochs // 4)


def constant_step_runs(bench: Bench, scale: float, *, seeds: int, epochs: int) -> Numbers:
    """Mean objective over the last quarter of at most 8 epochs with a constant step.

    The result has ``"eta0"`` (k,) and, by method, the objectives (k, seeds).

    Steps are tried from the smallest on until one ends no better, in the mean of seeds, than zero
    weights; longer ones count as infinite.
    """
    epochs, grid = min(epochs, _EPOCHS_OF_CONSTANT_STEPS), constant_steps(scale)
    found: Numbers = {"eta0": grid}
    for method in PAPER:
        found[method] = np.full((len(grid), seeds), np.inf)
        for place, eta0 in enumerate(grid):
            weights = bench.weights(method, Constant(eta0), seeds=seeds, epochs=epochs)
            found[method][place] = objectives(
                bench.problem, weights[:, -last_quarter(epochs) :]
            ).mean(axis=1)
            if not found[method][place].mean() < bench.problem.loss_at_zero():
                break
    return found


def larger_batches(
    bench: Bench,
    candidates: NDArray[np.float64],
    at: NDArray[np.float64],
    *,
    seeds: int,
    runs: int,
    epochs: int,
) -> dict[str, Numbers]:
    """Compare both methods by batch size.

    The result has, by batch size, eta0, the objectives of both methods after the run (runs,), and
    the variance ratio at weights (d,).

    The eta0 is the best for SGD over so many seeds, then both methods have so many runs.
    """
    found = {}
    for size in MORE_BATCH_SIZES:
        means = [_ends(bench, "SGD", eta0, size, seeds, epochs).mean() for eta0 in candidates]
        eta0 = float(candidates[int(np.argmin(means))])
        own, alone = (
            variances(bench.problem, table, at[None], size)[0]
            for table in (bench.paper_table(), None)
        )
        ratio = own / alone if alone > 0.0 else 1.0
        found[str(size)] = {
            "eta0": np.array([eta0]),
            "variance_ratio": np.array([ratio]),
        } | {method: _ends(bench, method, eta0, size, runs, epochs) for method in PAPER}
    return found


def _ends(
    bench: Bench, method: str, eta0: float, size: int, seeds: int, epochs: int
) -> NDArray[np.float64]:
    weights = bench.weights(method, InverseTime(eta0), seeds=seeds, epochs=epochs, batch_size=size)
    return objectives(bench.problem, weights[:, -1])


def non_smooth_penalty(
    bench: Bench, candidates: NDArray[np.float64], *, seeds: int, runs: int, epochs: int
) -> Numbers:
    """Run Prox-SGD with an L1 penalty in addition to lambda.

    The result has the objectives after the run (runs,), with eta0 chosen as in
    :func:`larger_batches`, and the variance ratio there.

    The strength is a tenth of that at which all weights stay zero.
    """
    plain = bench.problem
    l1 = _SHARE_OF_L1 * float(np.abs(plain.gradient(np.zeros(plain.d))[0]).max())
    problem = replace(plain, penalty=ElasticNet(plain.penalty.l2, l1))

    def ends(method: str, eta0: float, runs: int) -> NDArray[np.float64]:
        found = bench.weights(method, InverseTime(eta0), seeds=runs, epochs=epochs, problem=problem)
        return found[:, -1]

    means = [objectives(problem, ends("SGD", eta0, seeds)).mean() for eta0 in candidates]
    eta0 = float(candidates[int(np.argmin(means))])
    at = ends("SGD", eta0, runs)
    ratios = variances(problem, bench.paper_table(), at[:seeds]) / variances(
        problem, None, at[:seeds]
    )
    return {
        "l1": np.array([l1]),
        "eta0": np.array([eta0]),
        "SGD": objectives(problem, at),
        "SGD-as": objectives(problem, ends("SGD-as", eta0, runs)),
        "variance_ratio": ratios,
        "zeros": np.array([np.mean(at == 0.0)]),
    }


def zero_one_labels(bench: Bench, eta0: float) -> Numbers:
    """Compare labels 0 and 1 with labels -1 and 1.

    The result says whether table and weights of one epoch have the same bits, and how far the
    paper's own formula is off.

    ``"formula"``, of the logistic loss, is the largest difference between the slopes and ``mu_i -
    y_i`` at those weights.
    """
    problem, labels = bench.problem, (bench.problem.y + 1.0) / 2.0
    other = Problem.build(problem.X, labels, loss=problem.loss, l2=problem.penalty.l2)
    there = Bench(other, labels, {"SGD-as": pair(other.X, labels, "greedy", loss=other.loss)})
    schedule = InverseTime(eta0).schedule(problem.loss, problem.penalty)
    ends = []
    for these in (bench, there):
        solver, batches = (
            make_sgd(these.problem, average=False),
            these.sampler("SGD-as", 0).batches(0),
        )
        ends.append(solver.epoch(*solver.init(), batches, schedule).state.coef)
    found = {
        "same_table": np.array(
            [float(np.array_equal(bench.paper_table().partner, there.paper_table().partner))]
        ),
        "same_weights": np.array([float(ends[0].tobytes() == ends[1].tobytes())]),
    }
    if problem.loss.name == "log_loss":
        margins = np.asarray(
            (problem.X.toarray() if sparse.issparse(problem.X) else problem.X) @ ends[0]
        )
        found["formula"] = np.array([np.abs(expit(margins) - labels - other.slopes(ends[1])).max()])
    return found
