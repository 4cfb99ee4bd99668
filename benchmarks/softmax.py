"""Multinomial logistic regression: the speed of an epoch, and races to a gap against its peers.

Parts: ``speed`` (an epoch of softmax SGD beside one gradient by BLAS, and in the data's own units),
``races`` (to gaps of 1e-2, 1e-4 and 1e-6 against every peer that can be installed), ``intercepts``
(the same with free intercepts, on one set), ``digits`` (five-fold accuracy on scikit-learn's
digits), ``raw`` (five-fold accuracy of SGD on raw columns).

A gap is ``(f - f*) / (f_0 - f*)`` with f_0 the objective of zero weights, f the mean cross-entropy
plus ``l2 / 2 |W|^2``; but for ``intercepts`` a column of ones is penalised like any other. f* is
found in float64, everything else has rows of float32. To 1e-2 ours is ``SGDClassifier("softmax")``,
which like every peer has the fewest iterations that reach the gap; `LogisticRegression`, whose
``tol`` is the gap and which proves it, is shown beside it. To smaller gaps ours is
`LogisticRegression`. A peer that is not there after 20 times our seconds counts as beaten; but for
scikit-learn's, none is followed beyond 1e-4 or 4 times our seconds there. Seconds are CPU seconds
of one thread, the least of repeats that take turns.

Run ``python benchmarks/softmax.py`` on a quiet machine, with the environment variable
ANTITHETIC_DATA; words choose parts, ``--sets`` sets, ``--quick`` takes two sets, less rows and two
gaps. The exit status is 1 if a limit is missed. A peer that is not installed is named and left out.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before BLAS is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
if os.environ.get("ANTITHETIC_ISA") == "v3":  # BLAS is then to have the same registers
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from common import Figure, close, load, machine, report
from logistic import BEHIND, LADDER, seconds
from logistic_rows import Race
from sklearn.linear_model import LogisticRegression as Sklearn

import antithetic
from antithetic._core import kernels
from antithetic._core.schedules import INVERSE_TIME
from antithetic.orders.units import cut
from antithetic.problem import SoftmaxProblem
from antithetic.problem.preconditioner import find_preconditioner, moments_of
from antithetic.stochastic.softmax import make_softmax_sgd, softmax_batch_size
from antithetic.stochastic.steps import Schedule

GAPS = (1e-2, 1e-4, 1e-6)
L2 = 1e-4
# what our seconds may be of scikit-learn's lbfgs, and of the fastest other
LIMITS = {1e-2: (0.15, 0.3), 1e-4: (0.5, 1.0), 1e-6: (0.7, None)}
LBFGS = "scikit-learn lbfgs"
FOLLOWED = 4.0  # times our seconds to 1e-4: as far as other peers are followed
Solution = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """A problem of the races."""

    name: str
    X: np.ndarray
    y: np.ndarray
    l2: float = L2
    fit_intercept: bool = False

    @property
    def weakness(self) -> float:
        """The penalty in scikit-learn's units."""
        return 1.0 / (self.l2 * len(self.X))

    def __str__(self) -> str:
        n_classes = len(np.unique(self.y))
        shape = f"{self.X.shape[0]} x {self.X.shape[1]}, {n_classes} classes"
        return f"{self.name}, {shape}{', intercepts' if self.fit_intercept else ''}"


# ---- sets


def with_ones(X: np.ndarray) -> np.ndarray:
    """Rows in float32 with a column of ones, which is penalised like the others."""
    return np.column_stack([X, np.ones(len(X))]).astype(np.float32)


def mnist(_quick: bool) -> tuple | None:
    """Return the digits, with pixels from 0 to 1."""
    if (data := load("mnist")) is None:
        return None
    X = data[0].toarray() if hasattr(data[0], "toarray") else np.asarray(data[0])
    return with_ones(X / X.max()), data[1]


def features(quick: bool) -> tuple:
    """Return random features, as the last layer of a network has them: 384 of 45 classes."""
    rng = np.random.default_rng(0)
    n = 8000 if quick else 26_000
    centres = rng.normal(size=(3 * 45, 40))  # three places for each class
    place = rng.integers(0, 3 * 45, n)
    hidden = centres[place] + 0.9 * rng.normal(size=(n, 40))
    rows = np.maximum(0.0, hidden @ rng.normal(size=(40, 384)) / np.sqrt(40.0))
    return with_ones(rows / np.linalg.norm(rows, axis=1, keepdims=True)), place % 45


def made(n: int, d: int, n_classes: int) -> tuple:
    """Return classes around centres of their own, in columns of falling size."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    sizes = np.geomspace(1.0, 0.05, d).astype(np.float32)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X += 0.5 * rng.normal(size=(n_classes, d)).astype(np.float32)[y]
    X *= sizes / np.sqrt(float(sizes @ sizes))
    return with_ones(X), y


SETS: dict[str, Callable[[bool], tuple | None]] = {
    "MNIST": mnist,
    "features": features,
    "made 100": lambda quick: made(20_000 if quick else 200_000, 512, 100),
    "made 1000": lambda quick: made(8000 if quick else 50_000, 256, 1000),
}
QUICK = ("MNIST", "features")


@cache
def task_of(name: str, quick: bool) -> Task | None:
    """Return a set by name; None if it is not available."""
    data = SETS[name](quick)
    return None if data is None else Task(name, *data)


# ---- ours and its peers: functions of a task and a number of iterations


def ours(task: Task, tol: float) -> Solution:
    """Our solution to a gap."""
    model = antithetic.LogisticRegression(
        C=task.weakness, fit_intercept=task.fit_intercept, tol=tol, n_jobs=1
    ).fit(task.X, task.y)
    return model.coef_, model.intercept_


def our_sgd(task: Task, iterations: int) -> Solution:
    """Our SGD alone, after so many epochs."""
    model = antithetic.SGDClassifier(
        "softmax",
        alpha=task.l2,
        fit_intercept=task.fit_intercept,
        max_iter=iterations,
        tol=None,
        n_jobs=1,
        random_state=0,
    ).fit(task.X, task.y)
    return model.coef_, model.intercept_


def of_scikit_learn(kind: type, task: Task, iterations: int) -> Solution:
    """L-BFGS of scikit-learn or of an extension with its interface."""
    model = kind(
        C=task.weakness,
        fit_intercept=task.fit_intercept,
        solver="lbfgs",
        tol=1e-15,
        max_iter=iterations,
    ).fit(task.X, task.y)
    return model.coef_, np.ravel(model.intercept_)


def intelex_peer() -> Callable[[Task, int], Solution]:
    """scikit-learn-intelex: L-BFGS."""
    from sklearnex.linear_model import LogisticRegression

    return partial(of_scikit_learn, LogisticRegression)


def cyanure_peer() -> Callable[[Task, int], Solution]:
    """Cyanure: incremental gradients with quasi-Newton steps."""
    from cyanure.estimators import Classifier

    def fit(task: Task, iterations: int) -> Solution:
        model = Classifier(
            loss="multiclass-logistic",
            penalty="l2",
            solver="qning-miso",
            lambda_1=task.l2,
            fit_intercept=task.fit_intercept,
            tol=1e-14,
            max_iter=iterations,
            duality_gap_interval=iterations,
            n_threads=1,
            random_state=0,
            verbose=False,
        )
        model.fit(task.X, np.asarray(task.y))
        n_classes = len(np.unique(task.y))
        coef = np.asarray(model.coef_)
        coef = coef if coef.shape[0] == n_classes else coef.T
        zeros = np.zeros(n_classes)
        return coef, np.ravel(model.intercept_) if task.fit_intercept else zeros

    return fit


def torch_peer(kind: str, rate: float = 1.0) -> Callable[[Task, int], Solution]:
    """torch: L-BFGS on all rows, or Adam on batches of 128, one iteration an epoch."""
    import torch

    torch.set_num_threads(1)

    def fit(task: Task, iterations: int) -> Solution:
        X, y = torch.from_numpy(task.X), torch.from_numpy(np.asarray(task.y, dtype=np.int64))
        torch.manual_seed(0)
        layer = torch.nn.Linear(X.shape[1], int(y.max()) + 1, bias=task.fit_intercept)
        torch.nn.init.zeros_(layer.weight)
        if task.fit_intercept:
            torch.nn.init.zeros_(layer.bias)

        def objective(rows: Any, labels: Any) -> Any:
            loss = torch.nn.functional.cross_entropy(layer(rows), labels)
            return loss + 0.5 * task.l2 * layer.weight.square().sum()

        if kind == "lbfgs":
            solver = torch.optim.LBFGS(
                layer.parameters(),
                max_iter=iterations,
                tolerance_grad=0.0,
                tolerance_change=0.0,
                line_search_fn="strong_wolfe",
            )

            def closure() -> Any:
                solver.zero_grad()
                loss = objective(X, y)
                loss.backward()
                return loss

            solver.step(closure)
        else:
            adam = torch.optim.Adam(layer.parameters(), lr=rate)
            falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, iterations)
            for _ in range(iterations):
                for rows in torch.randperm(len(X)).split(128):
                    adam.zero_grad()
                    objective(X[rows], y[rows]).backward()
                    adam.step()
                falling.step()
        coef = layer.weight.detach().numpy().astype(np.float64)
        bias = layer.bias.detach().numpy() if task.fit_intercept else np.zeros(len(coef))
        return coef, bias.astype(np.float64)

    return fit


def peers() -> dict[str, Callable[[Task, int], Solution]]:
    """All that can be imported; the others are named."""
    found: dict[str, Callable[[Task, int], Solution]] = {
        LBFGS: partial(of_scikit_learn, Sklearn),
    }
    for name, make in (
        ("scikit-learn-intelex", intelex_peer),
        ("Cyanure", cyanure_peer),
        ("torch L-BFGS", partial(torch_peer, "lbfgs")),
        ("torch Adam 1e-3", partial(torch_peer, "adam", 1e-3)),
        ("torch Adam 1e-2", partial(torch_peer, "adam", 1e-2)),
    ):
        try:
            found[name] = make()
        except ImportError:
            print(f"left out: {name}, which is not installed")
    return found


# ---- races


class Judge:
    """Measures gaps on a task, in float64, from our solution of high accuracy."""

    def __init__(self, task: Task) -> None:
        self._problem = SoftmaxProblem.build(
            task.X.astype(np.float64), task.y, l2=task.l2, fit_intercept=task.fit_intercept
        )
        exact = replace(task, X=task.X.astype(np.float64))
        self._best = self._problem.objective(*ours(exact, 1e-9))
        self._zero = self._problem.loss_at_zero()

    def gap(self, solution: Solution) -> float:
        """Distance of a solution from the optimum, in units of that of zero weights."""
        objective = self._problem.objective(*solution)
        return (objective - self._best) / (self._zero - self._best)


def efforts(
    task: Task, judge: Judge, fit: Any, most: float, least_gap: float
) -> list[tuple[int, float, float]]:
    """Iterations, seconds and gaps of a solver, until it is too late or there."""
    found = []
    for iterations in LADDER:
        solution: list[Solution] = []
        try:
            spent = seconds(lambda: solution.append(fit(task, iterations)))  # noqa: B023
        except Exception as error:  # a peer's own; it takes no part in this race
            print(f"    {type(error).__name__}: {error}"[:150].replace("\n", " "))
            break
        found.append((iterations, spent, judge.gap(solution[0])))
        if spent > most or found[-1][2] <= least_gap:
            break
    return found


def runner(task: Task, judge: Judge, gap: float) -> Callable[[], Solution]:
    """Our way to a gap: SGD with the fewest epochs that reach it, or `LogisticRegression`."""
    if gap >= 1e-2:
        for epochs in LADDER[:8]:
            if judge.gap(our_sgd(task, epochs)) <= gap:
                return partial(our_sgd, task, epochs)
        print(f"    SGD IS NOT THERE: {task} to {gap:g}")
    if (reached := judge.gap(ours(task, gap))) > gap:
        print(f"    OURS IS NOT THERE: {task} to {gap:g}, reached {reached:.1e}")
    return partial(ours, task, gap)


def race(task: Task, others: dict[str, Any], gaps: tuple[float, ...], repeats: int) -> list[Race]:
    """Race to each gap."""
    judge = Judge(task)
    own = {gap: runner(task, judge, gap) for gap in gaps}
    first = {gap: seconds(run) for gap, run in own.items()}
    known = {}
    for name, fit in others.items():
        last = min(gaps) if name == LBFGS else min(gap for gap in gaps if gap >= 1e-4)
        most = BEHIND * first[last] if name == LBFGS else FOLLOWED * first[last]
        known[name] = efforts(task, judge, fit, most, last)
    races = []
    for gap, run in own.items():
        best, fewest = {"": first[gap], "certified": np.inf}, {}
        for name, steps in known.items():
            there = [(spent, k) for k, spent, reached in steps if reached <= gap]
            if there and min(there)[0] <= BEHIND * first[gap]:
                best[name], fewest[name] = min(there)
        for _ in range(repeats):
            best[""] = min(best[""], seconds(run))
            if gap >= 1e-2:
                best["certified"] = min(best["certified"], seconds(partial(ours, task, gap)))
            for name, k in fewest.items():
                if best[name] <= 3.0 * best[""] or name == LBFGS:  # others are out of it
                    best[name] = min(best[name], seconds(partial(others[name], task, k)))
        races.append(Race(str(task), *task.X.shape, gap, best.pop(""), best))
    return races


def figures_of(races: list[Race]) -> Iterator[Figure]:
    """The limits of each race."""
    for one in races:
        of_lbfgs, of_fastest = LIMITS[one.gap]
        name, beaten = f"{one.name}, to {one.gap:g}", BEHIND * one.ours
        theirs = one.others.get(LBFGS, beaten)  # not there after so long: the ratio is a bound
        certified = one.others.pop("certified")
        more = "more than " if theirs == beaten else ""
        remark = f"{one.ours:.3f} s; lbfgs {more}{theirs:.3f} s"
        yield Figure(f"{name}, ours / lbfgs", one.ours / theirs, most=of_lbfgs, remark=remark)
        if one.gap >= 1e-2:
            remark = f"LogisticRegression(tol={one.gap:g}): {certified:.3f} s"
            yield Figure(f"{name}, certified / lbfgs", certified / theirs, remark=remark)
        if of_fastest is not None:
            order = sorted(one.others.items(), key=lambda other: other[1])[:3]
            remark = ", ".join(f"{other} {spent:.3f} s" for other, spent in order) or "all beaten"
            yield Figure(f"{name}, ours / fastest", one.ratio, most=of_fastest, remark=remark)


# ---- parts


def speed(options: argparse.Namespace) -> Iterator[Figure]:
    """GFLOP/s of an epoch (4 n d K operations), as a share of a gradient by BLAS."""
    for n, d, n_classes in ((20_000, 512, 100), (8000, 256, 1000), (20_000, 784, 10)):
        X, y = made(n // 4 if options.quick else n, d - 1, n_classes)
        problem = SoftmaxProblem.build(X, y, l2=L2)
        size = softmax_batch_size(problem.n_weights, 4)
        solver = make_softmax_sgd(problem, "epoch", threads=1)
        batches = cut(np.random.default_rng(0).permutation(len(X)), size)
        start, schedule = solver.init(), Schedule(INVERSE_TIME, 0.1, L2)
        units = find_preconditioner(problem, moments_of(problem.X, problem.rows, None))
        in_units = replace(solver, preconditioner=units)
        coef = np.zeros((n_classes, d), np.float32)
        best = [np.inf, np.inf, np.inf]
        for _ in range(options.repeats + 2):
            best[0] = min(best[0], seconds(partial(solver.epoch, *start, batches, schedule)))
            best[1] = min(best[1], seconds(partial(gradient, X, y, coef)))
            best[2] = min(best[2], seconds(partial(in_units.epoch, *start, batches, schedule)))
        flops = 4.0 * X.size * n_classes / 1e9
        remark = f"{flops / best[0]:.0f} of {flops / best[1]:.0f} GFLOP/s, {kernels.isa}"
        name = f"epoch of {d} columns, {n_classes} classes, batches of {size}"
        least = 0.8 if n_classes >= 100 else None
        yield Figure(name, best[1] / best[0], least=least, remark=remark)
        yield Figure(f"{name}: in the data's units / plain", best[2] / best[0])


def gradient(X: np.ndarray, y: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Gradient by BLAS, in blocks of rows."""
    total, block = np.zeros_like(coef), 1024
    for start in range(0, len(X), block):
        rows, labels = X[start : start + block], y[start : start + block]
        shares = rows @ coef.T
        shares -= shares.max(axis=1, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(rows)), labels] -= 1.0
        total += shares.T @ rows
    return total


def races(options: argparse.Namespace) -> Iterator[Figure]:
    """Races to a gap, the bias a penalised column."""
    others = peers()
    gaps = GAPS[:2] if options.quick else GAPS
    for name in options.sets:
        if (task := task_of(name, options.quick)) is None:
            continue
        yield from figures_of(race(task, others, gaps, options.repeats))


def intercepts(options: argparse.Namespace) -> Iterator[Figure]:
    """The same races with free intercepts, on one set."""
    task = task_of("features", options.quick)
    assert task is not None
    free = Task(task.name, np.ascontiguousarray(task.X[:, :-1]), task.y, fit_intercept=True)
    gaps = GAPS[:2] if options.quick else GAPS
    yield from figures_of(race(free, peers(), gaps, options.repeats))


def digits(_options: argparse.Namespace) -> Iterator[Figure]:
    """Five-fold accuracy on scikit-learn's digits, all defaults, less scikit-learn's, in points."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import cross_val_score

    X, y = load_digits(return_X_y=True)
    own, theirs = (
        100.0 * cross_val_score(model, X, y, cv=5).mean()
        for model in (antithetic.LogisticRegression(), Sklearn(max_iter=10_000))
    )
    yield Figure("digits, ours less scikit-learn's", own - theirs, least=-0.3, most=0.3)


def raw(_options: argparse.Namespace) -> Iterator[Figure]:
    """Five-fold accuracy of SGD on raw columns, less that of the exact optimum, in points."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine
    from sklearn.model_selection import cross_val_score

    for read in (load_wine, load_breast_cancer, load_digits):
        X, y = read(return_X_y=True)
        strength = (2.0 if y.max() == 1 else 1.0) / (L2 * 0.8 * len(y))
        models = (
            antithetic.SGDClassifier("softmax", alpha=L2, random_state=0),
            antithetic.LogisticRegression(C=strength, max_iter=10_000),
        )
        own, best = (100.0 * cross_val_score(model, X, y, cv=5).mean() for model in models)
        name = f"{read.__name__.removeprefix('load_')}, SGD less the optimum"
        yield Figure(name, own - best, least=-0.5, remark=f"{own:.2f} and {best:.2f} %")


PARTS = {"speed": speed, "races": races, "intercepts": intercepts, "digits": digits, "raw": raw}


def main() -> int:
    """Run the parts and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--sets", nargs="*", help=f"some of: {'; '.join(SETS)}")
    parser.add_argument("--quick", action="store_true", help="two sets, less rows, two gaps")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    options.sets = options.sets or (QUICK if options.quick else tuple(SETS))
    if unknown := set(options.sets) - set(SETS):
        parser.error(f"no such set: {', '.join(sorted(unknown))}; there are {'; '.join(SETS)}")
    warnings.simplefilter("ignore")
    print(machine())
    missed = 0
    for name in options.parts or PARTS:
        print(f"\n{PARTS[name].__doc__.splitlines()[0]}")
        missed += report(PARTS[name](options))
    return close(missed)


if __name__ == "__main__":
    sys.exit(main())
