"""Print the figures against every peer, each with its bar.

The figures are the seconds to gaps of 1e-3 and 1e-4, the seconds per pass, and the held-out loss.

All of it is measured by ``antithetic bench``, whose rows are kept in a folder: what is finished
there is not run again. Rows of other code, versions, settings or of another machine are refused in
a folder given by ``--out`` and set aside in the usual one. A gap is ``(f - f*) / (f(0) - f*)``,
logistic loss, no intercept, lambda 1e-4 (1e-5 for the made set). Ours has all defaults but loss,
alpha, ``fit_intercept=False``, ``max_iter``, ``tol=None`` and ``random_state``; a peer has its best
published settings, one thread, and the least effort that just gets there. Seconds are the least of
repeats in which all peers take turns, and of seeds the median. All run once before the clock
starts, so that our compiling and their imports do not count.

Run ``python benchmarks/peers.py`` on a quiet machine. It climbs no further than the two targets,
and gives a peer up on a set where a fit takes ten times the fastest way to the last: some twenty
minutes, less with ``--repeats 3``. ``--targets all --behind inf`` does neither. ``--quick`` takes
two small sets, one seed and fewer repeats. The exit status is 1 if a bar is missed. Sets need the
environment variable ANTITHETIC_DATA and are left out, with a line that says so, without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from common import Figure, close, machine, report

from antithetic.bench import FIGURE_SETS, Limits, Row, choose_peers, read_rows, run
from antithetic.bench.resume import set_aside, sets_kept
from antithetic.bench.rows import RefusedError
from antithetic.bench.sklearn_peers import OURS
from antithetic.bench.summary import Duel, missing, standings, value_table
from antithetic.bench.tasks import TARGETS as EVERY_TARGET
from antithetic.bench.tasks import choose_sets

QUICK = ("phishing", "mushrooms")
TARGETS = (1e-3, 1e-4)
MOST, WINS = 2.0, 6


def measure(names: list[str], path: Path, limits: Limits) -> list[Row]:
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

    for _ in run(
        names, ["log_loss"], choose_peers(None), path, limits, pairing=False, progress=tell
    ):
        pass
    return [row for row in read_rows(path) if row.data in names]


def races(rows: list[Row], names: list[str]) -> Iterator[Figure]:
    """Our seconds divided by those of the fastest peer, and on how many sets we are the fastest."""
    found = {(one.data, one.target): one for one in standings(rows) if one.target in TARGETS}
    for target in TARGETS:
        for name in names:
            if (one := found.get((name, target))) is None:
                yield Figure(
                    f"seconds to {target:g}, ours / fastest other: {name}",
                    np.nan,
                    most=MOST,
                    remark="nobody gets there",
                )
            else:
                yield Figure(
                    f"seconds to {target:g}, ours / fastest other: {name}",
                    one.ratio,
                    most=MOST,
                    remark=remark(one),
                )
    whole = len(names) == len(FIGURE_SETS)
    for target in TARGETS:
        wins = sum(found[name, target].ratio <= 1.0 for name in names if (name, target) in found)
        yield Figure(
            f"sets of {len(names)} where ours is the fastest to {target:g}",
            wins,
            least=WINS if whole else None,
        )
    both = sum(
        all((name, target) in found and found[name, target].ratio <= 1.0 for target in TARGETS)
        for name in names
    )
    yield Figure(
        f"sets of {len(names)} where ours is the fastest to both",
        both,
        least=WINS if whole else None,
    )


def remark(one: Duel) -> str:
    ours = f"{one.ours * 1e3:.2f} ms" if np.isfinite(one.ours) else "not reached"
    return f"{ours} against {one.best * 1e3:.2f} ms of {one.peer}"


def others(rows: list[Row]) -> Iterator[Figure]:
    """Without bars: seconds per pass against scikit-learn's SGD, held-out loss against the best."""
    for part, quantity, words in (
        ("epoch", "seconds per pass", "seconds per pass, ours / "),
        ("held-out", "log_loss", "held-out loss, ours / "),
    ):
        columns, lines = value_table(rows, part, quantity)
        values = {line[0]: line[1:] for line in lines}
        for place, name in enumerate(columns[1:]):
            ours = values.get(OURS, {})
            column = {
                peer: of[place]
                for peer, of in values.items()
                if peer != OURS and np.isfinite(of[place])
            }
            if ours and column:
                peer = (
                    "sklearn SGDClassifier"
                    if part == "epoch"
                    else min(column, key=column.__getitem__)
                )
                if peer in column:
                    yield Figure(
                        f"{words}{peer}: {name}",
                        ours[place] / column[peer],
                        remark=f"{ours[place]:.3g} against {column[peer]:.3g}",
                    )


def limits_of(options: argparse.Namespace) -> Limits:
    seconds, seeds = (
        options.seconds or (1.0 if options.quick else 10.0),
        ((0,) if options.quick else (0, 1)),
    )
    repeats = options.repeats or (3 if options.quick else 5)
    return Limits(
        seconds,
        12.0 * seconds,
        seeds,
        repeats,
        options.clock,
        EVERY_TARGET if options.targets == "all" else TARGETS,
        options.behind,
    )


def figures(quick: bool, path: Path, limits: Limits) -> Iterator[Figure]:
    names, absent = choose_sets(QUICK if quick else list(FIGURE_SETS), quick)
    for name in absent:
        print(
            f"left out: {name}, which is not in the package; set ANTITHETIC_DATA to a folder that"
            " holds it"
        )
    rows = measure(names, path, limits)
    for peer, status in missing(rows).items():
        print(f"{peer}: {status}")
    yield from races(rows, names)
    yield from others(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
        help="cpu on a machine that is busy with other things",
    )
    parser.add_argument(
        "--targets",
        choices=("bars", "all"),
        default="bars",
        help="climb to 1e-4, the last with a bar, or on to 1e-8",
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
        help="most of one fit, twelve times that for all of a peer on a set; 10 if not given",
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
        return close(report(figures(options.quick, path, limits)))
    except RefusedError as why:
        print(f"peers.py: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
