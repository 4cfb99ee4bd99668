"""Race `LogisticRegression` against every solver of logistic regression that can be installed.

A race is a set, a penalty, with or without an intercept, and a gap ``(f - f*) / (f_0 - f*)``, where
f_0 is the objective of the best constant prediction (zero weights, without an intercept). Ours has
``tol`` set to the gap and all other defaults but ``C`` and ``fit_intercept``; its seconds include
the bound that certifies it. A peer has the fewest iterations that reach the gap, to within 5 %; one
that is not there after 20 times our seconds, or twice those of another, is left out. Seconds are
CPU seconds of one thread, the least of repeats that take turns.

Run ``python benchmarks/logistic.py`` on a quiet machine, with the environment variables
OMP_NUM_THREADS=1 and ANTITHETIC_DATA; ``--quick`` takes four sets and two gaps, and words choose
sets. The whole takes half an hour; ``--save FILE`` adds the rows of a run to a file, so that it can
be done set by set, and ``--saved FILE`` prints the figures of all rows in it. Most of the time is
spent to find out how many iterations each peer needs: ``--efforts FILE`` keeps that in a file, so
that only the races themselves need a quiet machine. The exit status is 1 if a limit is missed. A
peer that is not installed is named and left out.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before BLAS is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Figure, close, load, machine, report
from logistic_cv import TIMES, cross_validation
from logistic_peers import QUICK, SETS, Task, peers, sklearn_peer, tasks, weights_of
from logistic_rows import Efforts, Race, Row, add_rows, races_of, read_rows
from races.summary import TIED

import antithetic
from antithetic.problem import Problem
from antithetic.problem.constant import best_constant

GAPS = (1e-3, 1e-4, 1e-6, 1e-8, 1e-10)
BEHIND = 20.0
HOPELESS = 2.0  # times a rival's seconds: a peer that is not there by then is not the fastest
CLOSE = 1.05  # fewer iterations than this factor apart are not told apart
LADDER = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 512, 1024, 2048, 4096)
MANY_ROWS, MANY_COLUMNS = 5000, 500
PARTS = ("text", "cv", "threads")
TEXT = "farm-ads"
SHOWN = ("a9a, lambda 0.0001, intercept", "skin_nonskin, lambda 0.0001, intercept")  # as curves
THREADED = ("made 300000 x 50", "made 20000 x 500, condition 1e4", "a9a", "skin_nonskin")


# ---- races


def ours(task: Task, tol: float, **more: Any) -> tuple[np.ndarray, float]:
    """Our solution to a gap."""
    model = antithetic.LogisticRegression(
        C=task.weakness, fit_intercept=task.fit_intercept, tol=tol, **more
    )
    return weights_of(model.fit(task.X, task.y))


def seconds(job: Callable[[], object]) -> float:
    """CPU seconds of a job."""
    start = time.process_time()
    job()
    return time.process_time() - start


class Judge:
    """Measures gaps on a task, from the best objective that anyone has reached."""

    def __init__(self, task: Task) -> None:
        self._problem = Problem.build(task.X, task.y, l2=task.l2, fit_intercept=task.fit_intercept)
        problem = self._problem
        self._zero = (
            best_constant(problem.loss, problem.y, problem.weight)[1]
            if task.fit_intercept
            else problem.loss_at_zero()
        )
        self._best = self._problem.objective(*ours(task, 1e-13))

    def gap(self, solution: tuple[np.ndarray, float]) -> float:
        """Distance of a solution from the optimum, in units of that of the constant."""
        objective = self._problem.objective(*solution)
        return (objective - self._best) / (self._zero - self._best)


class Runner:
    """One peer on one task: what it reached after some numbers of iterations."""

    def __init__(
        self, task: Task, judge: Judge, fit: Any, known: dict[int, tuple[float, float]]
    ) -> None:
        self._task, self._judge, self._fit = task, judge, fit
        self.tried = known  # iterations: seconds and gap

    def climb(self, most: float, rivals: dict[float, float]) -> None:
        """Try more and more iterations until it is there, too late, or too late to be the fastest.

        ``rivals`` are the least seconds of others to each gap.
        """
        for iterations in () if self.tried else LADDER:
            try:
                spent, gap = self.attempt(iterations)
            except Exception as error:  # a peer's own; it takes no part in this race
                print(f"    {type(error).__name__}: {error}"[:150].replace("\n", " "))
                break
            ahead = [goal for goal in rivals if gap > goal]
            if spent > most or all(spent > HOPELESS * rivals[goal] for goal in ahead):
                break

    def seconds_to(self, gap: float) -> float:
        """Least seconds in which a gap was reached, so far."""
        there = [spent for spent, reached in self.tried.values() if reached <= gap]
        return min(there, default=np.inf)

    def attempt(self, iterations: int) -> tuple[float, float]:
        """Seconds and gap."""
        if iterations not in self.tried:
            solution: list[tuple] = []
            spent = seconds(lambda: solution.append(self._fit(self._task, iterations)))
            self.tried[iterations] = spent, self._judge.gap(solution[0])
        return self.tried[iterations]

    def fewest(self, gap: float, most: float) -> int | None:
        """Fewest iterations that reach a gap in time; None if none do."""
        there = [k for k, (spent, reached) in self.tried.items() if reached <= gap]
        if not there or self.tried[min(there)][0] > most:
            return None
        high = min(there)
        low = max((k for k in self.tried if k < high), default=0)
        while high - low > 1 and high > CLOSE * low:
            middle = (low + high) // 2
            low, high = (low, middle) if self.attempt(middle)[1] <= gap else (middle, high)
        return high


def run(
    task: Task, others: dict[str, Any], gaps: tuple[float, ...], repeats: int, efforts: Efforts
) -> list[Row]:
    """Race to each gap."""
    judge = Judge(task)
    for gap in gaps:
        reached = judge.gap(ours(task, gap))
        if reached > gap:
            print(f"    OURS IS NOT THERE: {task} to {gap:g}, reached {reached:.1e}")
    late = BEHIND * min(seconds(lambda: ours(task, min(gaps))) for _ in range(2))
    runners: dict[str, Runner] = {}
    for name, fit in others.items():
        if not (task.fit_intercept and "liblinear" in name):  # which penalises it
            rivals = {
                gap: min((one.seconds_to(gap) for one in runners.values()), default=np.inf)
                for gap in gaps
            }
            if str(task) in SHOWN:
                rivals = dict.fromkeys(gaps, np.inf)
            runners[name] = Runner(task, judge, fit, efforts.of(str(task), name))
            runners[name].climb(late, rivals)
    row = partial(Row, "race", str(task), *task.X.shape)
    rows = []
    for gap in gaps:
        first = min(seconds(lambda: ours(task, gap)) for _ in range(2))  # noqa: B023
        found = {name: runner.fewest(gap, BEHIND * first) for name, runner in runners.items()}
        chosen = {name: k for name, k in found.items() if k is not None}
        best = dict.fromkeys(("", *chosen), np.inf)
        for _ in range(repeats):
            best[""] = min(best[""], seconds(lambda: ours(task, gap)))  # noqa: B023
            for name, k in chosen.items():
                least = min(best[name], runners[name].tried[k][0])  # one slow run excludes nobody
                if least <= 3.0 * best[""] or best[name] == np.inf:  # others are out of it
                    best[name] = min(best[name], seconds(partial(others[name], task, k)))
        rows += [row(gap, "ours", 0, best.pop(""))]
        rows += [row(gap, name, chosen[name], spent) for name, spent in best.items()]
    if str(task) in SHOWN:
        rows += curves(task, judge, runners)
    efforts.save()
    return rows


def curves(task: Task, judge: Judge, runners: dict[str, Runner]) -> Iterator[Row]:
    """Gap against seconds of all solvers."""
    row = partial(Row, "curve", str(task), *task.X.shape)
    for tol in np.geomspace(1.0, 1e-12, 25):
        spent = min(seconds(lambda: ours(task, tol)) for _ in range(3))  # noqa: B023
        yield row(judge.gap(ours(task, tol)), "ours", 0, spent)
    for name, runner in runners.items():
        for iterations, (spent, gap) in sorted(runner.tried.items()):
            yield row(gap, name, iterations, spent)


def show(rows: list[Row]) -> None:
    """Print each race as one line."""
    for race in races_of(rows):
        order = sorted(race.others.items(), key=lambda other: other[1])[:3]
        rest = ", ".join(f"{name} {1e3 * spent:.1f}" for name, spent in order) or "all beaten"
        print(
            f"{race.name:<58}{race.gap:>7.0e}{1e3 * race.ours:>9.1f} ms{race.ratio:>7.2f}   {rest}",
            flush=True,
        )


# ---- figures


def figures(rows: list[Row]) -> Iterator[Figure]:
    """The limits."""
    races = [race for race in races_of(rows) if not race.name.startswith(TEXT)]
    if races:
        yield from race_figures(races)
    for race in races_of(rows):
        if race.name.startswith(TEXT):
            yield Figure(f"text, ours / fastest other, to {race.gap:g}", race.ratio, most=1.3)
    for race in races_of(rows, "cv"):
        yield Figure(
            f"LogisticRegressionCV on {race.name}, ours / scikit-learn",
            race.ratio,
            most=TIMES,
            remark=f"tol {race.gap:.1e}",
        )


def race_figures(races: list[Race]) -> Iterator[Figure]:
    """The limits of the races on tables of numbers."""
    yield Figure(
        "share of races won",
        float(np.mean([race.ratio < TIED[0] for race in races])),
        least=0.8,
        remark=f"{len(races)} races",
    )
    yield Figure(
        "median of ours / fastest other", float(np.median([r.ratio for r in races])), most=0.5
    )
    many = [race for race in races if race.n >= MANY_ROWS and race.d <= MANY_COLUMNS]
    if many:
        worst = max(many, key=lambda race: race.ratio)
        yield Figure(
            "worst of ours / fastest other, many rows",
            worst.ratio,
            most=1.5,
            remark=f"{worst.name}, {worst.gap:g}",
        )
    few = [race for race in races if race.n < MANY_ROWS]
    if few:
        worst = max(few, key=lambda race: race.sklearn_ratio)
        yield Figure(
            "worst of ours / scikit-learn's fastest, few rows",
            worst.sklearn_ratio,
            most=1.5,
            remark=f"{worst.name}, {worst.gap:g}",
        )


# ---- parts


def text(repeats: int, efforts: Efforts) -> list[Row]:
    """Race on text against liblinear and newton-cg."""
    if (data := load(TEXT)) is None:
        return []
    others = {
        "scikit-learn liblinear": sklearn_peer("liblinear"),
        "liblinear dual": sklearn_peer("liblinear", dual=True),
        "scikit-learn newton-cg": sklearn_peer("newton-cg"),
    }
    return run(Task(TEXT, *data, 1e-4, False), others, GAPS, repeats, efforts)


def threads(repeats: int) -> Iterator[Row]:
    """Seconds of one thread and of all cores, by the clock on the wall."""
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) == 1:
        print("left out: threads, since this process may use only one core")
        return
    for task in tasks([name for name in THREADED if SETS[name]() is not None], (True,)):
        if task.l2 != 1e-4:
            continue
        best = {1: np.inf, -1: np.inf}
        for _ in range(repeats):
            for n_jobs in best:
                start = time.perf_counter()
                ours(task, 1e-6, n_jobs=n_jobs)
                best[n_jobs] = min(best[n_jobs], time.perf_counter() - start)
        for n_jobs, spent in best.items():
            print(f"{task!s:<58}n_jobs={n_jobs:<3}{1e3 * spent:>9.1f} ms")
            count = 1 if n_jobs == 1 else os.cpu_count() or 1
            yield Row("threads", str(task), *task.X.shape, 1e-6, "ours", count, spent)


def measure(options: argparse.Namespace) -> Iterator[list[Row]]:
    """Rows of all that was asked for."""
    names = options.sets or (list(QUICK) if options.quick else [*SETS, *PARTS])
    others, gaps = peers(), (1e-3, 1e-8) if options.quick else GAPS
    efforts = Efforts(options.efforts)
    intercepts = {"both": (False, True), "without": (False,), "with": (True,)}[options.intercept]
    print(f"{'race':<58}{'gap':>7}{'ours':>12}{'ratio':>7}   the fastest others, ms")
    for task in tasks([name for name in names if name in SETS], intercepts):
        yield run(task, others, gaps, options.repeats, efforts)
    if "text" in names:
        yield text(options.repeats, efforts)
    if "cv" in names:
        yield list(cross_validation(options.repeats))
    if "threads" in names:
        yield list(threads(options.repeats))


def main() -> int:
    """Run all races and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help=f"some of: {'; '.join([*SETS, *PARTS])}")
    parser.add_argument("--quick", action="store_true", help="four sets, two gaps")
    parser.add_argument("--intercept", choices=("both", "without", "with"), default="both")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--efforts", type=Path, help="keep what peers need in a file")
    parser.add_argument("--save", type=Path, help="add the rows of this run to a file")
    parser.add_argument("--saved", type=Path, help="race nobody, print the figures of a file")
    options = parser.parse_args()
    if unknown := set(options.sets) - {*SETS, *PARTS}:
        parser.error(
            f"no such set: {', '.join(sorted(unknown))}; there are {'; '.join([*SETS, *PARTS])}"
        )
    warnings.simplefilter("ignore")
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
    print(machine())
    rows: list[Row] = []
    if options.saved:
        rows = read_rows(options.saved)
        show(rows)
    else:
        for found in measure(options):
            show(found)
            rows += found
            if options.save:
                add_rows(options.save, found)
    print()
    return close(report(figures(rows)))


if __name__ == "__main__":
    sys.exit(main())
