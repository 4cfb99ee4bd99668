"""Print the figures against every peer, each with its limit.

The figures are the seconds to gaps of 1e-3 and 1e-8, and the first fit of a fresh process. All of
it is measured by ``benchmarks/race.py``, whose rows are kept in a folder: what is finished there is
not run again. Rows of other code, versions, settings or of another machine are refused in a folder
given by ``--out`` and set aside in the usual one.

A gap is ``(f - f*) / (f(0) - f*)``, without intercept. Ours are `SGDClassifier` and `SGDRegressor`
with all defaults but loss, alpha, ``fit_intercept=False``, ``max_iter``, ``tol=None`` and
``random_state``, and `LogisticRegression` and `Ridge` with ``tol``; a peer has its best published
settings and the least effort that just reaches the gap. Seconds are the least of repeats in which
all peers take turns, and of seeds the median. All run once before the clock starts.

Run ``python benchmarks/peers.py`` on a quiet machine, some forty minutes; ``--threads 1`` leaves
out the races with all threads, and words choose sets or groups of sets. A peer is given up on a set
where a fit takes ten times as long as the fastest way to the last gap; ``--behind inf`` gives up
nobody. ``--quick`` takes two small sets, one seed and fewer repeats. The exit status is 1 if a
limit is missed. Sets that are not in the package need the environment variable ANTITHETIC_DATA;
they are named and left out without it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from common import Figure, close, machine, report
from races import GROUPS, LOSSES, Limits, Row, choose_peers, read_rows, run
from races.resume import set_aside, sets_kept
from races.rows import RefusedError
from races.sets import choose_sets, group_of
from races.sklearn_peers import OURS, PEERS
from races.summary import Duel, missing, standings, value_table
from races.tasks import TARGETS

# the last is what Ridge was called when docs/peers.csv was measured
EXACT = ("antithetic.LogisticRegression", "antithetic.Ridge", "antithetic.SGDRegressor (newton)")
QUICK = ("phishing", "diabetes_scale")
RACED = tuple(loss for loss in LOSSES if loss != "hinge")
SHARES = {1e-3: 0.9, 1e-8: 0.8}  # of the sets with few columns
FEW_COLUMNS, MANY_ROWS = 500, 5000
MOST, MOST_WAIT = 1.5, 0.15


def measure(names: list[str], path: Path, limits: Limits, threads: list[int]) -> list[Row]:
    """Rows of the sets, those that are in the file already included.

    A line for each problem on the error stream.
    """
    kept = sets_kept(path)
    said = [""]

    def tell(what: str, done: int, total: int) -> None:
        if kept and not said[0]:  # only now is it known that they are not refused
            print(kept, flush=True)
        if what != said[0]:
            said[0] = what
            print(f"  {what} ({done} of {total})", file=sys.stderr, flush=True)

    given = {"threads": threads, "pairing": False, "progress": tell}
    for _ in run(names, RACED, choose_peers(None), path, limits, **given):
        pass
    return [row for row in read_rows(path) if row.data in names]


def races(rows: list[Row], threads: int) -> Iterator[Figure]:
    """How often the exact estimator is faster than all others, and the worst ratio."""
    shape = {row.data: (row.n, row.d) for row in rows if row.n}
    found = [one for one in standings(rows) if one.threads == threads and one.entry in EXACT]
    few = [one for one in found if shape[one.data][1] <= FEW_COLUMNS]
    words = f", {threads} threads" if threads > 1 else ""
    barred = threads == 1
    for target, share in SHARES.items():
        own = [one for one in few if one.target == target]
        if own:
            lost = [one.data for one in own if one.outcome == "lost"]
            yield Figure(
                f"share of sets, d <= 500, fastest or tied to {target:g}{words}",
                float(np.mean([one.outcome != "lost" for one in own])),
                least=share if barred else None,
                remark=f"{len(own)} sets" + (f"; not {', '.join(lost)}" if lost else ""),
            )
    many = [one for one in few if shape[one.data][0] >= MANY_ROWS]
    if many:
        worst = max(many, key=lambda one: one.ratio)
        yield Figure(
            f"worst of ours / fastest other, n >= 5000, d <= 500{words}",
            worst.ratio,
            most=MOST if barred else None,
            remark=remark(worst),
        )
    small = [one for one in few if shape[one.data][0] < MANY_ROWS]
    if small:
        worst = max(small, key=lambda one: one.ours / one.sklearn)
        yield Figure(
            f"worst of ours / scikit-learn's fastest, n < 5000{words}",
            worst.ours / worst.sklearn,
            most=MOST if barred else None,
            remark=f"{worst.data} to {worst.target:g}",
        )
    for group in GROUPS:
        own = [one for one in found if group_of(one.data) == group]
        if own:
            yield Figure(
                f"share of races won, {group}{words}",
                float(np.mean([one.outcome == "won" for one in own])),
                remark=f"{len(own)} races to gaps of {TARGETS[0]:g} to {TARGETS[-1]:g}",
            )


def remark(one: Duel) -> str:
    ours = f"{one.ours * 1e3:.2f} ms" if np.isfinite(one.ours) else "not reached"
    return f"{one.data} to {one.target:g}: {ours} against {one.best * 1e3:.2f} ms of {one.peer}"


def first_fits(rows: list[Row]) -> Iterator[Figure]:
    """Import and fit in a fresh process, beyond scikit-learn's of the same kind."""
    columns, lines = value_table(rows, "first", "seconds of first fit")
    values = {line[0]: line[1:] for line in lines}
    for ours, theirs in ((peer.name, peer.first_beside) for peer in PEERS if peer.first_beside):
        waits = {
            name: (own - other, own, other)
            for name, own, other in zip(
                columns[1:], values.get(ours, ()), values.get(theirs, ()), strict=False
            )
            if np.isfinite(own - other)
        }
        if waits:
            name = max(waits, key=waits.__getitem__)
            wait, own, other = waits[name]
            yield Figure(
                f"first fit, s beyond scikit-learn: {ours.removeprefix('antithetic.')}",
                wait,
                most=MOST_WAIT,
                remark=f"{name}: {own:.2f} s against {other:.2f} s of {theirs}",
            )


def others(rows: list[Row]) -> Iterator[Figure]:
    """Without limits: seconds per pass against scikit-learn's SGD."""
    columns, lines = value_table(rows, "epoch", "seconds per pass")
    values = {line[0]: line[1:] for line in lines}
    theirs = values.get("sklearn SGDClassifier", ())
    for name, own, other in zip(columns[1:], values.get(OURS, ()), theirs, strict=False):
        if np.isfinite(own) and np.isfinite(other):
            yield Figure(
                f"seconds per pass, ours / sklearn SGDClassifier: {name}",
                own / other,
                remark=f"{own:.3g} against {other:.3g}",
            )


def limits_of(options: argparse.Namespace) -> Limits:
    seconds = options.seconds or (1.0 if options.quick else 5.0)
    return Limits(
        seconds,
        12.0 * seconds,
        (0,) if options.quick else (0, 1),
        options.repeats or (3 if options.quick else 5),
        options.clock,
        TARGETS,
        options.behind,
    )


def figures(options: argparse.Namespace, path: Path, limits: Limits) -> Iterator[Figure]:
    words = options.sets or (list(QUICK) if options.quick else list(GROUPS))
    names, absent = choose_sets([n for w in words for n in GROUPS.get(w, (w,))], options.quick)
    for name in absent:
        print(
            f"left out: {name}, which is not in the package; set ANTITHETIC_DATA to a folder that"
            " holds it"
        )
    counts = list(
        dict.fromkeys((os.cpu_count() or 1) if w == "all" else 1 for w in options.threads)
    )
    rows = measure(names, path, limits, counts)
    for peer, status in missing(rows).items():
        print(f"{peer}: {status}")
    for threads in counts:
        yield from races(rows, threads)
    yield from first_fits(rows)
    yield from others([row for row in rows if row.threads == 1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="sets or groups of sets; all if none is named")
    parser.add_argument(
        "--quick", action="store_true", help="fewer sets, seeds and repeats, less to be trusted"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of the rows; antithetic-bench, or antithetic-bench-quick, if not given",
    )
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu, for races of one thread, if the machine has other work",
    )
    parser.add_argument(
        "--threads",
        type=lambda text: text.split(","),
        default=["1", "all"],
        help="1, all, or 1,all (the default)",
    )
    parser.add_argument(
        "--behind",
        type=float,
        default=10.0,
        help="give a peer up at so many times the fastest; inf never does",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        help="most of one fit, twelve times that for all of a peer on a set; 5 if not given",
    )
    parser.add_argument("--repeats", type=int, help="of the last timing; 5 if not given")
    options = parser.parse_args()
    folder, limits = (
        options.out or Path("antithetic-bench-quick" if options.quick else "antithetic-bench"),
        limits_of(options),
    )
    path = folder / "rows.csv"
    print(machine())
    try:
        if options.out is None and (
            aside := set_aside(path, [peer.name for peer in choose_peers(None)], limits.words)
        ):
            print(aside)
        return close(report(figures(options, path, limits)))
    except RefusedError as why:
        print(f"peers.py: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
