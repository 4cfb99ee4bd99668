"""Parts of ``proof.py``: how near bounds are to what they bound, and what they cost.

Part *gaps*: bounds on the gap of LogisticRegression along its own iterates, divided by true gaps,
on real sets as they are and standardised and on made ones, with C = 0.01, 1, 100 and inf; visits
to the rows after which a fit knows its gap, less those after which it had it; and how many fits
end with a finite bound. Visits count as in ``samples.py``.

Part *problems*: bounds on random problems in four kinds, each hard in its own way, against optima
in long double.

Part *seconds*: default fits against those of other code, taken in turns by two processes; give the
``src`` folder of the other code as the environment variable ANTITHETIC_OLD.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from certificates import Exact
from common import Figure, load
from samples import TIGHT, counted, forms, replaced

import antithetic
from antithetic.exact import newton
from antithetic.exact.certificate import certified_gap, gap_of_start
from antithetic.exact.newton import value
from antithetic.exact.path import solve_problem
from antithetic.exact.row_sums import RowSample
from antithetic.exact.sums import Vector
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES

GAPS = (1e-2, 1e-4, 1e-6, 1e-8)
STRENGTHS = (0.01, 1.0, 100.0, np.inf)
REAL = (
    *("sonar_scale", "breast-cancer", "diabetes", "splice", "splice.t", "mushrooms", "phishing"),
    *("a9a", "w8a", "ijcnn1.tr", "ijcnn1.t", "cod-rna_scale", "skin_nonskin"),
)
QUICK = ("breast-cancer", "phishing", "ijcnn1.tr")
ROUNDING = 16.0 * np.finfo(np.float64).eps  # of the constant's objective, as fits allow
MANY_ROWS = 1200  # per column, from which on the Hessian is that of a sample


# ---- made sets


def made_sets() -> dict[str, Callable[[], tuple]]:
    """Return sets of 60,000 rows that are hard for samples, each in its own way."""
    n, d = 60_000, 20

    def labels(rng: Any, X: Any, size: float, rare: float = 0.0) -> Any:
        score = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=X.shape[1])
        score = size * score / score.std() + rng.logistic(size=len(X))
        return (score > np.quantile(score, 1.0 - rare) if rare else score > 0.0).astype(int)

    def lognormal() -> tuple:
        rng = np.random.default_rng(0)
        X = np.exp(2.0 * rng.normal(size=(n, d)))
        return X, labels(rng, np.log(X), 2.0)

    def binary() -> tuple:
        rng = np.random.default_rng(1)
        X = (rng.random((n, 2 * d)) < np.geomspace(1e-3, 0.3, 2 * d)).astype(float)
        return X, labels(rng, X, 2.0)

    def condition() -> tuple:
        rng = np.random.default_rng(2)
        X = rng.normal(size=(n, d)) @ (
            np.geomspace(1.0, 1e-4, d)[:, None] * rng.normal(size=(d, d))
        )
        return X, labels(rng, X, 2.0)

    def separated() -> tuple:
        rng = np.random.default_rng(3)
        X = rng.normal(size=(n, d))
        return X, labels(rng, X, 30.0)

    def rare() -> tuple:
        rng = np.random.default_rng(4)
        X = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1))
        return X, labels(rng, X, 2.0, rare=0.02)

    def cauchy() -> tuple:
        rng = np.random.default_rng(5)
        X = rng.standard_t(2.0, size=(n, d))
        return X, labels(rng, np.arctan(X), 2.0)

    made = (lognormal, binary, condition, separated, rare, cauchy)
    return {f"made, {one.__name__}": one for one in made}


# ---- bounds along iterates


class Bound(NamedTuple):
    """A bound on the gap at the start of a step, and the objectives at both ends."""

    bound: float
    start: float
    end: float


@contextmanager
def traced() -> Iterator[list[Bound]]:
    """Note the bounds at the start of each step over all rows, whether a fit asks for them or not.

    They are the step's own and that of the point with the sample's rows, of which the less counts.
    """
    found: list[Bound] = []
    bounded = newton.bounded

    def noting(sums: Any, goal: Any, state: Any, visit: Any, *given: Any) -> Any:
        if visit.expected is not None and (sums.penalty.l2 > 0.0 or sums.penalty.l1 > 0.0):
            bound, _ = gap_of_start(sums, state.point, visit, np.inf)
            bound = min(bound, certified_gap(sums, state.point, state.sample, 0.0))
            found.append(Bound(bound, value(sums, state.point), value(sums, visit.after)))
        return bounded(sums, goal, state, visit, *given)

    with replaced(newton, bounded=noting):
        yield found


class Found(NamedTuple):
    """What the fits of one form with one C have shown; gaps are in units of the constant's.

    Attributes
    ----------
    steps : list of tuple
        True gap at the start of a step, the bound on it, true gap at the end, the bound on that.
    beyond : dict of float to tuple of float
        Visits until a gap was known and until it was there, for each gap.
    finite : list of bool
        Whether a fit ended with a certified gap, for each gap.
    """

    form: str
    many_rows: bool
    C: float
    steps: list[tuple[float, float, float, float]]
    beyond: dict[float, tuple[float, float]]
    finite: list[bool]

    def line(self) -> str:
        """Format it as a line of the table."""
        ratios = " ".join(
            f"{np.median(some):8.3g}" if (some := at_gap([self], gap)) else f"{'-':>8}"
            for gap in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
        )
        visits = " ".join(f"{known:5.1f}/{true:4.1f}" for known, true in self.beyond.values())
        return f"{self.form:<34}{self.C:>5g} {ratios}   {visits}"


def at_gap(found: list[Found], gap: float, *, at_end: bool = False) -> list[float]:
    """Return bounds divided by true gaps, of true gaps near the given one."""
    pairs = [(step[2:] if at_end else step[:2]) for one in found for step in one.steps]
    near = 10.0**0.5
    return [bound / true for true, bound in pairs if gap / near <= true < gap * near]


def measured(form: str, X: Any, y: Any, C: float) -> Found | None:
    """Fit one form with one C; None if there is no optimum."""
    n, d = X.shape

    def fit(gap: float) -> antithetic.LogisticRegression:
        return antithetic.LogisticRegression(C=C, tol=gap, random_state=0, n_jobs=1).fit(X, y)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with counted(n) as tight, traced() as bounds:
            fit(TIGHT)
    if any("separat" in str(one.message) for one in said):
        return None
    least = min(one[2] for one in tight.trail)
    share = np.mean(y == y[0])
    unit = -share * np.log(share) - (1.0 - share) * np.log1p(-share) - least
    steps = [
        (
            (one.start - least) / unit,
            one.bound / unit,
            (one.end - least) / unit,
            (one.bound - (one.start - one.end)) / unit,
        )
        for one in bounds
    ]
    beyond, finite = {}, []
    for gap in GAPS:
        with counted(n) as count:
            model = fit(gap)
        known = count.visits + count.hessians + count.proof
        beyond[gap] = known, sum(count.until(least + gap * unit))
        finite.append(bool(model.gap_certified_))
    return Found(form, n >= MANY_ROWS * d, C, steps, beyond, finite)


def gaps(quick: bool) -> Iterator[Figure]:
    """Bounds on the gap, divided by the gap; and the visits that a proof takes."""
    found: list[Found] = []
    print("bound / gap at 1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8; visits to a known / a true gap")
    for form, X, y in forms(QUICK if quick else REAL, {} if quick else made_sets()):
        for C in STRENGTHS:
            if (one := measured(form, X, y, C)) is None:
                print(f"{form:<34}{C:>5g} no optimum, because classes are separated", flush=True)
                continue
            print(one.line(), flush=True)
            found.append(one)
    few = [one for one in found if not one.many_rows]
    yield from few_rows(few)
    yield from few_rows([one for one in few if one.C <= 1.0], is_weak=False)
    many = [one for one in found if one.many_rows]
    yield from samples([one for one in many if one.C <= 1.0], "C at most 1", has_bars=True)
    yield from samples([one for one in many if one.C > 1.0], "larger C", has_bars=False)
    ends = [one for some in found for one in some.finite]
    yield Figure("share of fits that end with a finite bound", np.mean(ends), least=0.95)


def few_rows(found: list[Found], *, is_weak: bool = True) -> Iterator[Figure]:
    """Bounds where the Hessian is that of all rows."""
    if is_weak:
        for at_end in (False, True):
            some = [one for k in range(4, 9) for one in at_gap(found, 10.0**-k, at_end=at_end)]
            if some:
                where = "end" if at_end else "start"
                yield Figure(
                    f"bound / gap at the {where} of a step, few rows, 1e-4 to 1e-8",
                    float(np.median(some)),
                    most=None if at_end else 1.1,
                    remark=f"median of {len(some)}; 90 % at most {np.quantile(some, 0.9):.3g}"
                    + ("" if at_end else f", at most 3: {np.mean(np.array(some) <= 3.0):.3f}"),
                )
        yield from beyond_oracle(found, "few rows", has_bars=False)
        return
    for gap, most in ((1e-2, 2.0), (1e-3, 1.3)):
        if some := at_gap(found, gap):
            yield Figure(
                f"bound / gap at the start of a step, few rows, C at most 1, {gap:g}",
                float(np.median(some)),
                most=most,
                remark=f"median of {len(some)}",
            )


def samples(found: list[Found], which: str, *, has_bars: bool) -> Iterator[Figure]:
    """Bounds where the Hessian is that of a sample."""
    some = [one for k in range(1, 9) for one in at_gap(found, 10.0**-k)]
    if some:
        yield Figure(
            f"bound / gap at the start of a step, samples, {which}, median",
            float(np.median(some)),
            most=5.0 if has_bars else None,
            remark=f"of {len(some)}",
        )
        yield Figure(
            f"bound / gap at the start of a step, samples, {which}, 90 %",
            float(np.quantile(some, 0.9)),
            most=200.0 if has_bars else None,
        )
    yield from beyond_oracle(found, f"samples, {which}", has_bars=has_bars)


def beyond_oracle(found: list[Found], which: str, *, has_bars: bool) -> Iterator[Figure]:
    """Visits that a proof takes, to gaps that are proved."""
    more = [known - true for one in found if np.inf > one.C for known, true in one.beyond.values()]
    if more:
        for share, most in ((0.5, 1.0), (0.9, 2.0)):
            yield Figure(
                f"visits beyond an oracle's, {which}, quantile {share}",
                float(np.quantile(more, share)),
                most=most if has_bars else None,
                remark=f"{len(more)} fits, at most {max(more):.3g}",
            )


# ---- random problems


def hard_problem(kind: str, seed: int) -> Problem:
    """Draw a small problem that is hard in a way that has a name."""
    rng = np.random.default_rng((len(kind), seed))
    n, d = int(rng.integers(10, 150)), int(rng.integers(1, 7))
    X, noise, weight = rng.normal(size=(n, d)), 1.0, None
    if kind == "nearly separated":
        noise = 10.0 ** rng.uniform(-3.0, -1.0)
    elif kind == "an offset of 1e6":
        X[:, rng.integers(d)] += 1e6
    elif kind == "condition 1e10":
        X = X @ (np.geomspace(1.0, 1e-10, d)[:, None] * rng.normal(size=(d, d)))
    else:
        rare = rng.random(n) < 3.0 / n
        X[:, 0], weight = rare, np.where(rare, 1e3, rng.uniform(0.1, 2.0, n))
    units = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    score = (X - X.mean(axis=0)) / units @ rng.normal(size=d) + noise * rng.logistic(size=n)
    loss = rng.choice(["log_loss", "log_loss", "squared_hinge", "huber", "squared_error"])
    y = np.where(score > 0.0, 1.0, -1.0) if LOSSES[loss].classification else score
    y[:2] = -1.0, 1.0
    l2, l1 = 10.0 ** rng.uniform(-6.0, 0.0), rng.choice([0.0, 0.0, 1e-2])
    given = {"sample_weight": weight, "fit_intercept": bool(rng.random() < 0.7)}
    return Problem.build(X, y, loss=str(loss), l2=l2, l1=l1, **given)


KINDS = ("nearly separated", "an offset of 1e6", "condition 1e10", "rare columns, heavy weights")


class Checked(NamedTuple):
    """Bounds along the iterates of a fit, those with a sample among them, and what they bound.

    The bounds contain what fits allow for rounding, at both ends of a step.
    """

    bounds: Vector
    gaps: Vector


def checked(problem: Problem, seed: int) -> Checked:
    """Fit a problem, and compare its bounds with gaps in long double."""
    found: list[tuple] = []
    bounded = newton.bounded

    def noting(sums: Any, goal: Any, state: Any, visit: Any, *given: Any) -> Any:
        point, bounds = state.point, [np.inf]
        sample = RowSample(sums, 0.5 * sums.n, seed)
        if visit.expected is not None:
            bounds.append(gap_of_start(sums, point, visit, np.inf)[0])
        if sample.n:
            bounds.append(certified_gap(sums, point, sample, 0.0))
        allowance = max(sums.rounding(point), sums.rounding(visit.after))
        allowance += ROUNDING * goal.zero_objective
        found.append((*sums.split(point.theta), [one + allowance for one in bounds[1:]]))
        return bounded(sums, goal, state, visit, *given)

    with replaced(newton, bounded=noting), np.errstate(all="ignore"):
        solved = solve_problem(problem, tol=1e-13, max_iter=50)
    exact = Exact(problem)
    values = [exact.objective(exact.join(coef, intercept)) for coef, intercept, _ in found]
    end = exact.join(solved.coef[0], solved.intercept[0])
    least = min([*values, exact.objective(end), exact.least(end)])
    pairs = [
        (bound, float(at - least))
        for (*_, bounds), at in zip(found, values, strict=True)
        for bound in bounds
    ]
    bounds, gaps = np.array(pairs).reshape(-1, 2).T
    return Checked(bounds, gaps)


def problems(quick: bool) -> Iterator[Figure]:
    """Bounds on hard random problems, against optima in long double."""
    for kind in KINDS:
        found = [checked(hard_problem(kind, seed), seed) for seed in range(50 if quick else 1000)]
        wrong = sum(int((one.bounds < one.gaps).sum()) for one in found)
        finite = np.concatenate([np.isfinite(one.bounds) for one in found])
        yield Figure(
            f"bounds below the gap, {kind}",
            wrong,
            most=0,
            remark=f"of {len(finite)} on {len(found)} problems; finite: {finite.mean():.4f}",
        )


# ---- seconds


# Fits the sets that are named on the standard input, and prints the CPU seconds of each fit. It
# needs nothing that other code may lack.
WORKER = """
import sys, time, warnings
import numpy as np
from scipy import sparse
import antithetic

warnings.simplefilter("ignore")
known = {}
for line in sys.stdin:
    form, C = line.rstrip().rsplit(" ", 1)
    if form not in known:
        name, *other = form.split(",")
        X, y = antithetic.datasets.load(name, return_X_y=True)
        X = X.toarray() if sparse.issparse(X) else np.ascontiguousarray(X)
        if other:
            spread = X.std(axis=0)
            X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        known = {form: (X, y)}
    began = time.process_time()
    antithetic.LogisticRegression(C=float(C), random_state=0, n_jobs=1).fit(*known[form])
    print(time.process_time() - began, flush=True)
"""


def seconds(quick: bool) -> Iterator[Figure]:
    """CPU seconds of default fits, divided by those of other code."""
    old = os.environ.get("ANTITHETIC_OLD", "")
    if not old:
        print("left out: give the src folder of other code as the variable ANTITHETIC_OLD")
        return
    paths = (str(Path(antithetic.__file__).parents[1]), str(Path(old).resolve()))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        for path in paths
    ]
    ratios = []
    for name in QUICK if quick else REAL:
        if load(name) is None:
            continue
        for form in (name, f"{name}, standardised"):
            for C in STRENGTHS:
                found = np.array(
                    [[ask(one, f"{form} {C}") for one in running] for _ in range(5 if quick else 9)]
                )
                new, before = found[1:].min(axis=0)
                ratios.append(new / before)
                print(f"{form:<34}{C:>5g}{1e3 * new:>9.2f}{1e3 * before:>9.2f}{new / before:>7.2f}")
    for one in running:
        one.stdin.close()
        one.wait()
    for name, value_of, most in (
        ("median", np.median(ratios), 1.0),
        ("95 %", np.quantile(ratios, 0.95), 1.1),
        ("worst", max(ratios), 1.25),
    ):
        yield Figure(f"seconds new / old, {name}", float(value_of), most=most)


def ask(process: Any, line: str) -> float:
    """Have a worker fit once, and return its CPU seconds."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())
