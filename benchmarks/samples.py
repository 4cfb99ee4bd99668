"""Say how much samples of the rows bring: LogisticRegression with and without them.

Ten sets of two classes with at least 1500 rows, fewer than which are never sampled, are fitted as
dense rows, as they are and with standardised columns, with an intercept, with C = 1, 100 and inf
(whose gaps are proved at the end), to gaps of 1e-2, 1e-4 and 1e-8. Sparse rows begin with an epoch
of SGD instead. Both ways take turns, one thread, and the least CPU seconds of the repeats count.

*Visits* are readings of all rows after the two passes that a sample takes to be drawn: a Hessian of
all rows counts 1.4 + d / 54 of them and is written after a plus sign, and so does the search for
the largest leverage, which ends a fit with C = inf. Products of the rows with one vector, for a
proof of the gap, count 0.3 and stand apart. Work on samples is in the seconds alone.

*True* are the visits after which the gap is as small as was asked for, known or not; *Newton* are
the same with the Hessian of all rows at each point, from the same start. A fit goes on until it
knows its gap, which is what visits are counted to; seconds contain further steps, until each weight
is within 0.01 standard errors of its optimum, if these are cheap (see the parameter ``tol``).

Run ``python benchmarks/samples.py``, three minutes; ``--quick`` leaves out sets and repeats. Sets
that are not in the package need the environment variable ANTITHETIC_DATA.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from common import Figure, best_seconds, close, load, machine, report
from logistic_peers import made
from scipy import sparse

import antithetic
from antithetic.exact import goal, path
from antithetic.exact.models import QuasiNewton
from antithetic.exact.newton import value
from antithetic.exact.row_sums import RowSums
from antithetic.exact.samples import SamplePlan

GAPS = (1e-2, 1e-4, 1e-8)
STRENGTHS = (1.0, 100.0, np.inf)
REAL = (
    "ijcnn1.tr",
    "cod-rna_scale",
    "skin_nonskin",
    "phishing",
    "mushrooms",
    "splice.t",
    "a9a",
    "w8a",
)
MADE = {
    "made 300000 x 50": lambda: made(300_000, 50),
    "made 20000 x 500, condition 1e4": lambda: made(20_000, 500, condition=1e4),
}
QUICK = ("phishing", "splice.t")
MANY_ROWS = 1200  # per column, from which on the Hessian is that of a sample
FEW_VISITS = {1e-4: 4.0, 1e-8: 8.0}
OF_A_PRODUCT = 0.3  # of a visit
TIGHT = 1e-13  # gap of the objective that counts as the optimum's


def forms(names: tuple[str, ...], more: dict[str, Callable[[], tuple]]) -> Iterator[tuple]:
    """Name, rows and labels of each set, as it is and with standardised columns."""
    for name in (*names, *more):
        if (found := more[name]() if name in more else load(name)) is None:
            continue
        X, y = found
        X = X.toarray() if sparse.issparse(X) else np.ascontiguousarray(X)
        yield name, X, y
        spread = X.std(axis=0)
        yield f"{name}, standardised", (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), y


# ---- counts


@dataclass
class Count:
    """Readings of all rows so far, and the objective after each iteration."""

    visits: float = 0.0
    hessians: float = 0.0
    proof: float = 0.0
    trail: list[tuple[float, float, float]] = field(default_factory=list)

    def until(self, objective: float) -> tuple[float, float]:
        """Visits and Hessians until the objective is no larger; infinite if it never is."""
        done = (one[:2] for one in self.trail if one[2] <= objective)
        return next(done, (np.inf, np.inf))


@contextmanager
def replaced(place: Any, **others: Any) -> Iterator[None]:
    """Replace attributes of a module or class."""
    kept = {name: place.__dict__[name] for name in others}
    try:
        for name, other in others.items():
            setattr(place, name, other)
        yield
    finally:
        for name, one in kept.items():
            setattr(place, name, one)


def without_samples() -> Any:
    """Start on all rows."""
    return replaced(path, plan_samples=lambda *_, **__: SamplePlan((), gives_hessians=False))


def with_newton() -> Any:
    """Take the Hessian of all rows at each point."""
    begin = path.begin

    def begin_newton(*given: Any) -> path.Start:
        return begin(*given)._replace(model=QuasiNewton(is_cheap=True))

    return replaced(path, begin=begin_newton)


@contextmanager
def counted(n: int) -> Iterator[Count]:
    """Count what is read of all n rows."""
    count = Count()

    def counting(name: str, attribute: str, cost: Callable[[RowSums], float]) -> Callable:
        method = getattr(RowSums, name)

        def call(sums: RowSums, *given: Any, **named: Any) -> Any:
            if sums.n == n:
                setattr(count, attribute, getattr(count, attribute) + cost(sums))
            return method(sums, *given, **named)

        return call

    def dual_points(sums: RowSums, *given: Any) -> Iterator[Any]:
        for restored in kept["dual_points"](sums, *given):
            if {"shift", "up"} & set(restored.how):  # else it follows from what is known
                count.proof += OF_A_PRODUCT
            yield restored

    def of_positive(sums: RowSums) -> Any:
        count.proof += OF_A_PRODUCT
        return kept["of_positive"].func(sums)

    def begun(*given: Any) -> Any:
        state = init(*given)
        note(given[0], state)
        return state

    def stepped(sums: Any, *given: Any) -> Any:
        after = step(sums, *given)
        note(sums, after)
        return after

    def note(sums: Any, state: Any) -> None:
        count.trail.append((count.visits, count.hessians, value(sums, state.point)))

    one, methods = (lambda _sums: 1.0), ("at", "after", "times", "diagonal", "scales")
    others: dict[str, Any] = {
        **{name: counting(name, "visits", one) for name in (*methods, "curvature_above")},
        "gram": counting("gram", "hessians", lambda sums: 1.4 + sums.d / 54.0),
        "largest_leverage": counting(
            "largest_leverage", "hessians", lambda sums: 1.4 + sums.d / 54.0
        ),
        "dual_points": dual_points,
        "of_positive": cached_property(of_positive),
    }
    others["of_positive"].__set_name__(RowSums, "of_positive")
    kept = {name: RowSums.__dict__[name] for name in others}
    init, step = path.init, path.step
    no_further = replaced(goal, settled_distance=lambda _sums: np.inf)
    with replaced(RowSums, **others), replaced(path, init=begun, step=stepped), no_further:
        yield count


# ---- one setting


class Found(NamedTuple):
    """What fits of one form with one C to one gap took."""

    form: str
    many_rows: bool
    C: float
    gap: float
    seconds: float
    plain_seconds: float
    count: Count
    plain: Count
    true: tuple[float, float]
    newton: tuple[float, float]

    def line(self) -> str:
        """Format it as a line of the table."""
        ours, plain = self.count, self.plain
        return (
            f"{self.form:<46}{self.C:>5g}{self.gap:>7.0e}{1e3 * self.seconds:>9.1f}"
            f"{1e3 * self.plain_seconds:>9.1f}{self.plain_seconds / self.seconds:>7.2f}"
            f"{_pair(ours.visits, ours.hessians):>11}{ours.proof:>7.1f}{_pair(*self.true):>11}"
            f"{_pair(plain.visits, plain.hessians):>11}{_pair(*self.newton):>11}"
        )


HEAD = (
    f"{'set':<46}{'C':>5}{'gap':>7}{'ms':>9}{'without':>9}{'ratio':>7}{'visits':>11}{'proof':>7}"
    f"{'true':>11}{'without':>11}{'Newton':>11}"
)


def _pair(visits: float, hessians: float) -> str:
    return f"{visits:.0f}+{hessians:.1f}" if visits < np.inf else "-"


def measured(form: str, X: Any, y: Any, C: float, repeats: int) -> Iterator[Found]:
    """Fit one form with one C to each gap; nothing if there is no optimum."""
    n, d = X.shape

    def fit(gap: float) -> antithetic.LogisticRegression:
        return antithetic.LogisticRegression(C=C, tol=gap, random_state=0, n_jobs=1).fit(X, y)

    def plain(gap: float) -> None:
        with without_samples():
            fit(gap)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with counted(n) as tight:
            fit(TIGHT)
    if any("separat" in str(one.message) for one in said):
        print(f"{form:<46}{C:>5g}   no optimum, because classes are separated", flush=True)
        return
    least = min(one[2] for one in tight.trail)
    share = np.mean(y == y[0])
    unit = -share * np.log(share) - (1.0 - share) * np.log1p(-share) - least
    with with_newton(), counted(n) as newton:
        fit(TIGHT)
    for gap in GAPS:
        jobs = [partial(fit, gap), partial(plain, gap)]
        counts = []
        for job in jobs:
            with counted(n) as count:
                job()
            counts.append(count)
        yield Found(
            form,
            n >= MANY_ROWS * d,
            C,
            gap,
            *best_seconds(jobs, repeats, time.process_time),
            *counts,
            tight.until(least + gap * unit),
            newton.until(least + gap * unit),
        )


# ---- figures


def figures(found: list[Found]) -> Iterator[Figure]:
    """Medians, and how often few visits are enough."""
    for C, gap in product(STRENGTHS, GAPS):
        some = [one for one in found if (one.C, one.gap) == (C, gap)]
        if not some:
            continue
        ratios = [one.plain_seconds / one.seconds for one in some]
        visits, plain = (
            np.median([one.visits + one.hessians for one in counts])
            for counts in ([one.count for one in some], [one.plain for one in some])
        )
        yield Figure(
            f"seconds without samples / with them, C = {C:g}, to {gap:g}",
            float(np.median(ratios)),
            remark=f"median of {len(some)} forms of sets, {min(ratios):.2f} to {max(ratios):.2f};"
            f" visits, median: {visits:.3g} with, {plain:.3g} without",
        )
    for C in STRENGTHS:
        seconds = {(one.form, one.gap): one.seconds for one in found if one.C == C}
        ratios = [
            seconds[f"{form}, standardised", gap] / spent
            for (form, gap), spent in seconds.items()
            if (f"{form}, standardised", gap) in seconds
        ]
        if ratios:
            yield Figure(
                f"seconds standardised / as they are, C = {C:g}",
                float(np.median(ratios)),
                most=1.3,
                remark=f"median of {len(ratios)}, {min(ratios):.2f} to {max(ratios):.2f}",
            )
    for gap, most in FEW_VISITS.items():
        some = [one for one in found if one.many_rows and one.C <= 1.0 and one.gap == gap]
        known = [one.count.visits + one.count.hessians + one.count.proof for one in some]
        for word, visits, least in (
            ("a known", known, 0.85),
            ("a true", [sum(one.true) for one in some], None),
        ):
            if some:
                yield Figure(
                    f"share with at most {most:g} visits to {word} gap of {gap:g}, C = 1",
                    float(np.mean(np.array(visits) <= most)),
                    least=least,
                    remark=f"{len(some)} forms with {MANY_ROWS} rows per column or more; at most"
                    f" {max(visits):.3g}",
                )
    few = [one for one in found if not one.many_rows]
    yield from more_than_newton(few, f"fewer than {MANY_ROWS} rows per column", with_hessians=True)
    many = [one for one in found if one.many_rows and one.C > 1.0]
    yield from more_than_newton(many, "more rows, C above 1", with_hessians=False)


def more_than_newton(found: list[Found], which: str, *, with_hessians: bool) -> Iterator[Figure]:
    """Compare visits with those of Newton's method, for which its Hessians may be left out."""
    more = [
        sum(one.true) - (sum(one.newton) if with_hessians else one.newton[0])
        for one in found
        if max(*one.true, *one.newton) < np.inf
    ]
    if more:
        yield Figure(
            f"visits more than Newton's, {which}, most",
            max(more),
            most=0.0 if with_hessians else 2.0,
            remark=f"{len(more)} settings, median {np.median(more):.3g}",
        )


def main() -> int:
    """Print a line for each set, C and gap, and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sets and fewer repeats")
    quick = parser.parse_args().quick
    print(machine())
    print(HEAD)
    found: list[Found] = []
    for form, X, y in forms(QUICK, {}) if quick else forms(REAL, MADE):
        for C in STRENGTHS:
            for one in measured(form, X, y, C, 2 if quick else 3):
                found.append(one)
                print(one.line(), flush=True)
    print()
    return close(report(figures(found)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
