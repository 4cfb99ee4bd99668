"""`Experiment`: all runs and measurements on one set with one loss (`run_experiment`)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from antithetic._util.files import write_atomically
from antithetic._util.threads import thread_map
from antithetic._util.validation import check_count
from antithetic._util.versions import package_version
from antithetic.pairing import pair
from antithetic.paper import measures
from antithetic.paper.optimum import find_optimum
from antithetic.paper.workbench import (
    BATCH_SIZE,
    LAMBDAS,
    LOSSES,
    METHODS,
    PAPER,
    POINTS,
    SHEET_EPOCHS,
    SHEET_METHODS,
    STEP_RULE,
    Array,
    Workbench,
    constant_steps,
    curvature,
    first_steps,
    iterations_inside,
    jitter,
    mean_steps,
    objectives,
)
from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.stochastic.sgd import make_sgd
from antithetic.stochastic.steps import Constant, InverseTime

ByName = dict[str, dict[str, Array]]
Progress = Callable[[str, int, int], object]
"""Called with the current task, the finished stages and the number of all stages."""
STAGES = 5 + len(METHODS)
STEPS = {"chosen": 1.0, "four times": 4.0}
"""The steps at which variances are measured, as factors of the first step that was chosen."""
MEASURES = ("same weights", "own runs")
"""Where a variance of SGD-as is compared with one of SGD: both at the weights of SGD, or each along
its own run."""

_FORMAT = 4
_MANY, _FEWER, _LARGE = 8, 4, 10_000
_MORE_BATCH_SIZES = (4, 8, 16)
_SHARE_OF_L1 = 0.1  # of the least strength at which all weights stay zero
_EPOCHS_OF_CONSTANT_STEPS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """One set, one loss: every run and measurement.

    Shapes: S seeds, E epochs; the first of E + 1 entries is before the first step. Runs that
    diverged are infinite.

    Attributes
    ----------
    name, loss : str
    protocol : dict
        All that the numbers depend on.
    n, d : int
    seconds : float
        That it took.
    at_zero : float
        Objective at zero weights.
    optimum, optimum_error : float
        Least objective that was found, and by how much it may be too large at most.
    w_star : ndarray of shape (d,)
        Its weights.
    curvature, eta0, decay : float
        L of the grid, and the steps that all methods share.
    grid : ndarray of shape (K,)
        Candidates for eta0.
    grid_gap : dict of method to ndarray of shape (K, S)
        Relative gap after the run with each of them.
    ends, own_ends : dict of method to dict of str to ndarray
        ``"objective"`` and ``"distance"`` after many runs, (M,) each, with ``"eta0"`` (1,): the
        shared one, or the method's own best of the grid. The first S of ``ends`` are those of the
        curves.
    objective, distance : dict of method to ndarray of shape (S, E + 1)
        Objective, and distance to ``w_star``.
    variance : dict of step to dict of estimator to dict of run to ndarray of shape (S, E + 1)
        Exact, with each of ``STEPS``: of ``"SGD"`` (independent rows) at the weights of its own
        runs, and of ``"SGD-as"`` (pairs) at those of both: ``["SGD-as"]["SGD"]`` is that of pairs
        at the weights of SGD.
    squares : dict of step to dict of run to ndarray of shape (S, E + 1)
        ``|grad f|^2``, penalty included, along each run. The second moment of an estimator is this
        plus its variance.
    inside : dict of str to dict of method to ndarray of shape (S, P)
        ``"objective"`` of ``SHEET_METHODS`` and ``"variance"`` of ``PAPER``, exact, along each
        one's own runs, after the P numbers of steps of :attr:`iterations`.
    jitter : dict of method to ndarray of shape (M // 2, E)
        See :func:`antithetic.paper.workbench.jitter`.
    steps : ndarray of shape (E,)
        Mean step size of each epoch.
    bias : ndarray of shape (E + 1,)
        Of SGD-as along its first run, by enumeration.
    labels : dict of str to float
        Share of partners with opposite labels, the largest possible one, and that of random
        partners.
    products, ranks, ideal : dict of str to ndarray
        See :mod:`antithetic.paper.measures`: ``partner_products``, ``rank_correlations``,
        ``negative_pairs``.
    constant_steps, non_smooth, zero_one : dict of str to ndarray
        See the functions of these names.
    batches : dict of str to dict of str to ndarray
        By batch size; see ``larger_batches``.
    """

    name: str
    loss: str
    protocol: dict[str, Any]
    n: int
    d: int
    seconds: float
    at_zero: float
    optimum: float
    optimum_error: float
    w_star: Array
    curvature: float
    eta0: float
    decay: float
    grid: Array
    grid_gap: dict[str, Array]
    ends: dict[str, dict[str, Array]]
    own_ends: dict[str, dict[str, Array]]
    objective: dict[str, Array]
    distance: dict[str, Array]
    variance: dict[str, dict[str, dict[str, Array]]]
    squares: dict[str, dict[str, Array]]
    inside: ByName
    jitter: dict[str, Array]
    steps: Array
    bias: Array
    labels: dict[str, float]
    products: dict[str, Array]
    ranks: dict[str, Array]
    ideal: dict[str, Array]
    constant_steps: dict[str, Array]
    batches: dict[str, dict[str, Array]]
    non_smooth: dict[str, Array]
    zero_one: dict[str, Array]

    @property
    def key(self) -> str:
        """The set and the loss, as in the names of files."""
        return f"{self.name}-{self.loss}"

    @property
    def iterations(self) -> NDArray[np.intp]:
        """Steps before each point of ``inside``."""
        return iterations_inside(self.n, min(self.protocol["epochs"], SHEET_EPOCHS))

    def gap(self, method: str) -> Array:
        """Relative gap of a method, shape (S, E + 1)."""
        return self.relative_gap(self.objective[method])

    def end_gap(self, method: str, *, own: bool = False) -> Array:
        """Relative gap after many runs, shape (M,), with the shared or the method's own eta0."""
        return self.relative_gap((self.own_ends if own else self.ends)[method]["objective"])

    def relative_gap(self, objective: Array) -> Array:
        """Return ``(f - f*) / (f(0) - f*)``."""
        return (objective - self.optimum) / (self.at_zero - self.optimum)

    def variances(self, measure: str, step: str = "chosen") -> tuple[Array, Array]:
        """Variances of SGD-as and of SGD as one of ``MEASURES`` compares them, (S, E + 1) each."""
        variance, run = self.variance[step], _run_of_pairs(measure)
        return variance["SGD-as"][run], variance["SGD"]["SGD"]

    def second_moments(self, measure: str, step: str = "chosen") -> tuple[Array, Array]:
        """Second moments of SGD-as and of SGD, like :meth:`variances`."""
        pairs, rows = self.variances(measure, step)
        squares = self.squares[step]
        return pairs + squares[_run_of_pairs(measure)], rows + squares["SGD"]

    def variance_ratio(self, step: str = "chosen", measure: str = "same weights") -> Array:
        """Variance of pairs divided by that of independent rows, run by run, (S, E + 1).

        0 / 0 is 1. Along own runs, the two of a seed do not share their draws.
        """
        pairs, rows = self.variances(measure, step)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((pairs == rows), 1.0, pairs / rows)

    def save(self, path: Path) -> None:
        """Write all numbers with all their digits; the file appears only when it is complete."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), default=np.ndarray.tolist)
        write_atomically(path, f'["{_digest(text)}", {text}]'.encode())

    @classmethod
    def load(cls, path: Path, protocol: Mapping[str, Any]) -> Experiment | None:
        """Read an experiment that was run by the same protocol.

        None if there is none, or another, or the file has been changed.
        """
        try:
            digest, given = json.loads(path.read_text(encoding="utf-8"))
            if digest != _digest(json.dumps(given)) or given["protocol"] != dict(protocol):
                return None
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return cls(**_arrays(given))


def _run_of_pairs(measure: str) -> str:
    return {"same weights": "SGD", "own runs": "SGD-as"}[measure]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _arrays(inner) for key, inner in value.items()}
    return np.array(value, dtype=np.float64) if isinstance(value, list) else value


def protocol_of(name: str, loss: str, seeds: int, epochs: int) -> dict[str, Any]:
    """Everything that the numbers of an experiment depend on.

    A finished one is used again only if all of it is the same.
    """
    (name,), (loss,) = check_names(name, LAMBDAS, "set"), check_names(loss, LOSSES, "loss")
    return {
        "antithetic": package_version(),
        "format": _FORMAT,
        "set": name,
        "loss": loss,
        "seeds": check_count(seeds, "seeds", least=1),
        "epochs": check_count(epochs, "epochs", least=1),
        "lambda": LAMBDAS[name],
        "batch_size": BATCH_SIZE,
        "step": STEP_RULE,
        "methods": "; ".join(f"{method}: {order!r}" for method, order in METHODS.items()),
    }


def fingerprint(protocol: Any) -> str:
    """Eight digits that differ if protocols do."""
    return _digest(json.dumps(protocol, sort_keys=True))[:8]


def check_names(names: Any, known: Any, what: str) -> tuple[str, ...]:
    """Return the names that were asked for, all of the known ones for None; refuse others."""
    asked = tuple(known) if names is None else (names,) if isinstance(names, str) else tuple(names)
    for name in asked:
        if name not in known:
            raise ValueError(
                f"{what} {name!r} is not one of the experiments; use some of {', '.join(known)}"
            )
    return tuple(dict.fromkeys(asked))


def run_experiment(
    name: str, loss: str, *, seeds: int = 5, epochs: int = 20, progress: Progress | None = None
) -> Experiment:
    """Run all methods on a set of the paper, and measure.

    Parameters
    ----------
    name : str
        One of ``LAMBDAS``.
    loss : {"log_loss", "hinge"}
    seeds : int, default=5
        Runs of each method, with seeds from 0.
    epochs : int, default=20
    progress : callable, default=None
        Called with ``(what, done, total)`` before each stage.

    Returns
    -------
    Experiment

    Raises
    ------
    OSError
        If the set is not in the package and not in the folder ``ANTITHETIC_DATA``.
    """
    protocol = protocol_of(name, loss, seeds, epochs)
    # With thousands of small products on a busy machine, BLAS threads that wait for each other made
    # it 4 times slower.
    with thread_map(1):
        return _Run(Workbench.of(name, loss), protocol, progress).experiment()


class _Run:
    """The stages of an experiment, which use what earlier ones found."""

    def __init__(
        self, workbench: Workbench, protocol: dict[str, Any], progress: Progress | None
    ) -> None:
        self.start = time.perf_counter()
        self.workbench, self.problem, self.protocol = workbench, workbench.problem, protocol
        self.seeds, self.epochs = protocol["seeds"], protocol["epochs"]
        # Single ends scatter by as much as the methods differ: with 5 runs each, a verdict would be
        # a matter of luck on half of the sets.
        self.many = self.seeds * (_MANY if self.problem.n <= _LARGE else _FEWER)
        self.progress, self.stage = progress, 0

    def tell(self, what: str) -> None:
        """Report the next stage."""
        if self.progress is not None:
            self.progress(what, self.stage, STAGES)
        self.stage += 1

    def experiment(self) -> Experiment:
        """Run all stages."""
        workbench, problem = self.workbench, self.problem
        self.tell("optimum")
        self.optimum = find_optimum(problem)
        scale = curvature(problem)
        self.grid = first_steps(scale)
        self.weights = self._search()
        self.best = {method: int(np.argmin(self._means(method))) for method in METHODS}
        eta0 = float(self.grid[self.best["SGD"]])  # the baseline's choice, good for others or not
        self.tell("variances")
        moments = self._moments()
        inside, shaken = self._inside(eta0)
        self.tell("many runs")
        ends, own_ends = self._ends()
        chosen = {method: self.weights[method][self.best["SGD"]] for method in METHODS}
        along = chosen["SGD-as"][0]
        along, table = along[np.isfinite(along).all(axis=1)], workbench.paper_table()
        self.tell("constant steps")
        at_constant_steps = constant_step_runs(
            workbench, scale, seeds=self.seeds, epochs=self.epochs
        )
        self.tell("larger batches, L1")
        return Experiment(
            name=self.protocol["set"],
            loss=problem.loss.name,
            protocol=self.protocol,
            n=problem.n,
            d=problem.d,
            at_zero=problem.loss_at_zero(),
            optimum=self.optimum.value,
            optimum_error=self.optimum.error,
            w_star=self.optimum.coef,
            curvature=scale,
            eta0=eta0,
            decay=problem.penalty.l2,
            grid=self.grid,
            grid_gap={method: self._gaps(method) for method in METHODS},
            ends=ends,
            own_ends=own_ends,
            objective={method: objectives(problem, found) for method, found in chosen.items()},
            distance={method: self._distances(found) for method, found in chosen.items()},
            variance=moments[0],
            squares=moments[1],
            inside=inside,
            jitter=shaken,
            steps=mean_steps(problem, InverseTime(eta0), self.epochs),
            bias=measures.bias(problem, table, along),
            labels=measures.label_shares(problem, table),
            products=measures.partner_products(problem, table, along),
            ranks=measures.rank_correlations(problem, along),
            ideal=measures.negative_pairs(problem, table, along),
            constant_steps=at_constant_steps,
            batches=self._larger_batches(chosen["SGD"][0, -1]),
            non_smooth=self._non_smooth_penalty(),
            zero_one=zero_one_labels(workbench, eta0),
            seconds=time.perf_counter() - self.start,
        )

    def _search(self) -> dict[str, list[Array]]:
        """Run each method with each first step of the grid; weights as `Workbench.weights` does."""
        found = {}
        for method in METHODS:
            self.tell(method)
            found[method] = [self._weights(method, eta0) for eta0 in self.grid]
        return found

    def _weights(self, method: str, eta0: float) -> Array:
        return self.workbench.weights(
            method, InverseTime(eta0), seeds=self.seeds, epochs=self.epochs
        )

    def _gaps(self, method: str) -> Array:
        at_zero, optimum = self.problem.loss_at_zero(), self.optimum.value
        after = [objectives(self.problem, runs[:, -1]) for runs in self.weights[method]]
        return (np.array(after) - optimum) / (at_zero - optimum)

    def _means(self, method: str) -> Array:
        means: Array = self._gaps(method).mean(axis=1)
        return means

    def _distances(self, weights: Array) -> Array:
        found = np.linalg.norm(weights - self.optimum.coef, axis=-1)
        return np.where(np.isnan(found), np.inf, found)

    def _moments(
        self,
    ) -> tuple[dict[str, dict[str, dict[str, Array]]], dict[str, dict[str, Array]]]:
        """Variances and squared gradients along the runs of the paper's methods, by step."""
        problem, table, best = self.problem, self.workbench.paper_table(), self.best["SGD"]
        variance, squares = {}, {}
        for place, (step, factor) in enumerate(STEPS.items(), best):  # the grid's factor is 4, too
            runs = {
                method: self.weights[method][place]
                if place < len(self.grid)
                else self._weights(method, factor * float(self.grid[best]))
                for method in PAPER
            }
            # Independent rows at the weights of SGD-as are not needed.
            variance[step] = {
                "SGD": {"SGD": measures.variances(problem, None, runs["SGD"])},
                "SGD-as": {run: measures.variances(problem, table, runs[run]) for run in PAPER},
            }
            squares[step] = {run: measures.squared_gradients(problem, runs[run]) for run in PAPER}
        return variance, squares

    def _inside(self, eta0: float) -> tuple[ByName, dict[str, Array]]:
        """Objectives and variances inside epochs, and the jitter, which needs more seeds."""
        problem, tables = self.problem, {"SGD": None, "SGD-as": self.workbench.paper_table()}
        objective, variance, shaken = {}, {}, {}
        shown = np.s_[: self.seeds, : SHEET_EPOCHS * POINTS + 1]
        for method in SHEET_METHODS:
            seeds = max(self.seeds, self.many // 2) if method in PAPER else self.seeds
            weights = self.workbench.inside(
                method, InverseTime(eta0), seeds=seeds, epochs=self.epochs
            )
            along = objectives(problem, weights)
            objective[method] = along[shown]
            if method in PAPER:
                variance[method] = measures.variances(problem, tables[method], weights[shown])
                shaken[method] = jitter(along)
        return {"objective": objective, "variance": variance}, shaken

    def _ends(self) -> tuple[ByName, ByName]:
        """Ends of many runs, with the first step that is best for SGD, and each one's own best."""
        shared = self.best["SGD"]
        found = {
            (method, place): self._ends_with(method, float(self.grid[place]))
            for method in METHODS
            for place in {shared, self.best[method]}
        }
        return (
            {method: found[method, shared] for method in METHODS},
            {method: found[method, self.best[method]] for method in METHODS},
        )

    def _ends_with(self, method: str, eta0: float) -> dict[str, Array]:
        weights = self.workbench.weights(
            method, InverseTime(eta0), seeds=self.many, epochs=self.epochs
        )[:, -1]
        return {
            "eta0": np.array([eta0]),
            "objective": objectives(self.problem, weights),
            "distance": self._distances(weights),
        }

    def _larger_batches(self, at: Array) -> dict[str, dict[str, Array]]:
        """Compare both methods by batch size.

        The result has, by batch size, eta0, the objectives of both methods after the run (M,), and
        the variance ratio at weights (d,). The eta0 is the best for SGD over a few seeds, then both
        methods have many runs; larger batches allow larger steps.
        """
        best = self.best["SGD"]
        candidates, found = self.grid[max(0, best - 1) : best + 3], {}
        for size in _MORE_BATCH_SIZES:

            def ends(method: str, eta0: float, seeds: int, size: int = size) -> Array:
                weights = self.workbench.weights(
                    method, InverseTime(eta0), seeds=seeds, epochs=self.epochs, batch_size=size
                )
                return objectives(self.problem, weights[:, -1])

            means = [ends("SGD", eta0, self.seeds).mean() for eta0 in candidates]
            eta0 = float(candidates[int(np.argmin(means))])
            own, alone = (
                measures.variances(self.problem, table, at[None], size)[0]
                for table in (self.workbench.paper_table(), None)
            )
            ratio = own / alone if alone > 0.0 else 1.0
            found[str(size)] = {
                "eta0": np.array([eta0]),
                "variance_ratio": np.array([ratio]),
            } | {method: ends(method, eta0, self.many) for method in PAPER}
        return found

    def _non_smooth_penalty(self) -> dict[str, Array]:
        """Run Prox-SGD with an L1 penalty in addition to lambda.

        The result has the objectives after the run (M,), with eta0 chosen as in
        ``_larger_batches``, and the variance ratio there (S,). The strength is a tenth of that at
        which all weights stay zero.
        """
        plain, table, best = self.problem, self.workbench.paper_table(), self.best["SGD"]
        l1 = _SHARE_OF_L1 * float(np.abs(plain.gradient(np.zeros(plain.d))[0]).max())
        problem = replace(plain, penalty=ElasticNet(plain.penalty.l2, l1))

        def ends(method: str, eta0: float, seeds: int) -> Array:
            steps, epochs = InverseTime(eta0), self.epochs
            return self.workbench.weights(
                method, steps, seeds=seeds, epochs=epochs, problem=problem
            )[:, -1]

        candidates = self.grid[max(0, best - 1) : best + 2]
        means = [objectives(problem, ends("SGD", eta0, self.seeds)).mean() for eta0 in candidates]
        eta0 = float(candidates[int(np.argmin(means))])
        at = ends("SGD", eta0, self.many)
        pairs, rows = (measures.variances(problem, of, at[: self.seeds]) for of in (table, None))
        return {
            "l1": np.array([l1]),
            "eta0": np.array([eta0]),
            "SGD": objectives(problem, at),
            "SGD-as": objectives(problem, ends("SGD-as", eta0, self.many)),
            "variance_ratio": pairs / rows,
            "zeros": np.array([np.mean(at == 0.0)]),
        }


def last_quarter(epochs: int) -> int:
    """Number of epochs that count as the last ones of a run: a quarter, at least one."""
    return max(1, epochs // 4)


def constant_step_runs(
    workbench: Workbench, scale: float, *, seeds: int, epochs: int
) -> dict[str, Array]:
    """Mean objective over the last quarter of at most 8 epochs with a constant step.

    The result has ``"eta0"`` (k,) and, by method, the objectives (k, seeds). Steps are tried from
    the smallest on until one ends no better, in the mean of seeds, than zero weights; longer ones
    count as infinite.
    """
    problem, epochs = workbench.problem, min(epochs, _EPOCHS_OF_CONSTANT_STEPS)
    found = {"eta0": constant_steps(scale)}
    for method in PAPER:
        found[method] = np.full((len(found["eta0"]), seeds), np.inf)
        for place, eta0 in enumerate(found["eta0"]):
            weights = workbench.weights(method, Constant(eta0), seeds=seeds, epochs=epochs)
            late = objectives(problem, weights[:, -last_quarter(epochs) :])
            found[method][place] = late.mean(axis=1)
            if not found[method][place].mean() < problem.loss_at_zero():
                break
    return found


def zero_one_labels(workbench: Workbench, eta0: float) -> dict[str, Array]:
    """Compare labels 0 and 1 with labels -1 and 1.

    The result says whether table and weights of one epoch have the same bits. ``"formula"``, of the
    logistic loss, is the largest difference between the slopes and the paper's ``mu_i - y_i`` at
    those weights.
    """
    problem, labels = workbench.problem, (workbench.problem.y + 1.0) / 2.0
    other = Problem.build(problem.X, labels, loss=problem.loss, l2=problem.penalty.l2)
    table = pair(other.X, labels, "greedy", loss=other.loss)
    there = Workbench(other, labels, {"SGD-as": table})
    schedule, ends = InverseTime(eta0).schedule(problem.loss, problem.penalty), []
    for these in (workbench, there):
        solver = make_sgd(these.problem, average=False)
        batches = these.draws("SGD-as", 0).batches(0)
        ends.append(solver.epoch(*solver.init(), batches, schedule).state.coef)
    same_table = np.array_equal(workbench.paper_table().partner, there.paper_table().partner)
    found = {
        "same_table": np.array([float(same_table)]),
        "same_weights": np.array([float(ends[0].tobytes() == ends[1].tobytes())]),
    }
    if problem.loss.name == "log_loss":
        X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
        off = np.abs(expit(X @ ends[0]) - labels - other.slopes(ends[1]))
        found["formula"] = np.array([off.max()])
    return found
