"""Rebuild the tables of the peers page and the README: ``python docs/make_peers.py [ROWS]``.

ROWS is the file that ``python benchmarks/peers.py`` leaves, ``antithetic-bench/rows.csv``: what the
page shows of it is kept in ``docs/peers.csv``. Without it, the pages are written from
``docs/peers.csv`` as it is. Draw the picture after that: ``python docs/make_pictures.py profile``.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from races import GROUPS, read_rows
from races.sets import SPARSE_SETS, group_of
from races.summary import (
    is_contested,
    losses,
    missing,
    ratio_table,
    seconds_to_target,
    standings,
    value_table,
)

DOCS = Path(__file__).parent
KEPT, PAGES = DOCS / "peers.csv", (DOCS / "peers.md", DOCS.parent / "README.md")
PARTS = ("target", "epoch", "first", "held-out")
MARKED = re.compile(r"(<!-- (\S+): made by docs/make_peers.py -->).*?(<!-- end -->)", re.DOTALL)
SHOWN = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10)
SHORT = {
    "antithetic.LogisticRegression": "LR",
    "antithetic.SGDClassifier": "SGD",
    "antithetic.SGDRegressor": "SGD",
    "antithetic.Ridge": "Ridge",
    "antithetic.SGDRegressor (newton)": "Newton",  # what Ridge was called when it was measured
}
EXACT = ("antithetic.LogisticRegression", "antithetic.Ridge", "antithetic.SGDRegressor (newton)")
NOTHING = "Not measured yet."


def keep(rows):
    """Copy the lines that the page shows; only the first one names the machine and the versions."""
    with open(rows, newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    part, status = head.index("part"), head.index("status")
    shown = [line for line in lines if line[part] in PARTS or line[status] == "not installed"]
    for line in shown[1:]:
        for name in ("cpu", "versions"):
            line[head.index(name)] = ""
    with open(KEPT, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *shown])


def shown_rows(path):
    """Rows of a file; on sparse rows, scikit-learn-intelex is named as what runs there."""
    return [
        replace(row, peer="sklearn lbfgs, called by intelex")
        if row.peer == "scikit-learn-intelex" and row.data in SPARSE_SETS
        else row
        for row in read_rows(path)
    ]


def table(columns, lines):
    """A table in Markdown."""
    return "\n".join(
        f"| {' | '.join(map(str, line))} |" for line in (columns, ["---"] * len(columns), *lines)
    )


def of_group(rows, group, threads=1):
    """Rows of the sets of a group, with a number of threads (0: any but one)."""
    return [
        row
        for row in rows
        if group_of(row.data) == group
        and (row.threads == threads or (threads == 0 and row.threads > 1))
    ]


def milliseconds(seconds):
    """Three digits, or a word."""
    return f"{1e3 * seconds:.3g}" if math.isfinite(seconds) else "not reached"


def times(ratio):
    """A ratio, or a word."""
    return f"{ratio:.2f}" if math.isfinite(ratio) else "not reached"


def cell(one):
    """The ratio, our milliseconds and those of the fastest other."""
    theirs = f"{one.peer} {milliseconds(one.best)}"
    if not math.isfinite(one.ours):
        return f"not reached, {theirs}"
    ratio = f"**{one.ratio:.2f}**" if one.outcome == "won" else f"{one.ratio:.2f}"
    return f"{ratio}: {milliseconds(one.ours)}, {theirs}"


def duels(rows):
    """A line for each set and estimator of ours, and a column per gap."""
    found = {(one.data, one.entry, one.target): one for one in standings(rows)}
    if not found:
        return NOTHING
    targets = [target for target in SHOWN if any(target == known for *_, known in found)]
    shape = {row.data: f"{row.data}, {row.n} x {row.d}" for row in rows if row.part == "target"}
    return table(
        ["set", "ours", *(f"{target:g}" for target in targets)],
        [
            [
                shape[name],
                SHORT[entry],
                *(
                    cell(found[name, entry, target]) if (name, entry, target) in found else ""
                    for target in targets
                ),
            ]
            for name, entry in sorted(
                dict.fromkeys((name, entry) for name, entry, _ in found),
                key=lambda line: [list(shape).index(line[0]), line[1] not in EXACT],
            )
        ],
    )


def slowdowns(rows, target):
    """Every peer on every set of a group."""
    columns, lines = ratio_table(rows, target)
    return table(columns, lines) if lines else NOTHING


def values(rows, part, quantity, unit):
    """One quantity of all peers."""
    columns, lines = value_table(rows, part, quantity)
    if not lines:
        return NOTHING
    return table(
        columns,
        [
            [line[0], *("" if math.isnan(value) else f"{unit * value:.3g}" for value in line[1:])]
            for line in lines
        ],
    )


def lost(rows):
    """Every race that an exact estimator loses, the worst first."""
    found = losses([one for one in standings(rows) if one.entry in EXACT])
    if not found:
        return "None."
    return table(
        ["set", "threads", "gap", "ours / fastest", "fastest", "in ms"],
        [
            [
                one.data,
                one.threads,
                f"{one.target:g}",
                f"{one.ratio:.3f}" if math.isfinite(one.ratio) else "not reached",
                one.peer,
                milliseconds(one.best),
            ]
            for one in found
        ],
    )


def in_short(rows):
    """A line per group: races won, tied and lost, and median ratios, of both kinds of estimators.

    The worst ratio is that of the exact estimator.
    """
    lines = []
    for group in GROUPS:
        found = standings(of_group(rows, group))
        exact = [one for one in found if one.entry in EXACT]
        steps = [one for one in found if one.entry not in EXACT]
        if exact:
            sets, worst = len({one.data for one in exact}), max(exact, key=lambda one: one.ratio)
            lines.append(
                [
                    f"{group} ({sets} {'set' if sets == 1 else 'sets'})",
                    *results(exact),
                    f"{times(worst.ratio)} ({worst.data}, {worst.peer})",
                    *results(steps),
                ]
            )
    return table(
        ["sets", "exact: won, tied, lost", "median", "worst", "SGD: won, tied, lost", "median"],
        lines,
    )


def results(found):
    """Races won, tied and lost, and the median ratio."""
    count = Counter(one.outcome for one in found)
    return (
        ", ".join(str(count[outcome]) for outcome in ("won", "tied", "lost")),
        times(float(np.median([one.ratio for one in found]))),
    )


def uncontested(rows):
    """Races with one thread that only ours finished within the limits of the run."""
    found = {
        (data, target)
        for (data, _, threads, target), seconds in seconds_to_target(rows).items()
        if threads == 1 and not is_contested(seconds) and min(seconds.values()) < math.inf
    }
    sets = ", ".join(sorted({data for data, _ in found}))
    return (
        f"{len(found)} races are not counted, because no other solver finished them within a second"
        f" or ten times the fastest ({sets})."
        if found
        else "In every race, another solver finished as well."
    )


def tables(rows):
    """All tables, by the names they have in the pages."""
    one_thread = [row for row in rows if row.threads == 1]
    made = {"in-short": in_short(rows), "lost": lost(rows), "uncontested": uncontested(rows)}
    for group in GROUPS:
        own, slug = of_group(rows, group), group.replace(" ", "-")
        made[slug] = duels(own)
        made[f"{slug}-1e-3"], made[f"{slug}-1e-8"] = slowdowns(own, 1e-3), slowdowns(own, 1e-8)
        made[f"{slug}-threads"] = duels(of_group(rows, group, threads=0))
    absent = [peer for peer, status in missing(rows).items() if status == "not installed"]
    first = rows[0]
    return made | {
        "machine": f"Machine: {first.cpu}; {first.versions}.",
        "absent": f"Not installed in this run: {', '.join(absent) or 'none'}.",
        "first": values(one_thread, "first", "seconds of first fit", 1e3),
        "pass": values(one_thread, "epoch", "seconds per pass", 1e3),
        **{
            f"held-out-{loss}": values(
                [row for row in one_thread if row.loss == loss], "held-out", loss, 1.0
            )
            for loss in ("log_loss", "softmax", "squared_error")
        },
    }


def page(text, rows):
    """A page with its tables rebuilt."""
    made = tables(rows)
    return MARKED.sub(lambda found: f"{found[1]}\n\n{made[found[2]]}\n\n{found[3]}", text)


def main(given):
    """Write the pages."""
    if given:
        keep(given[0])
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8"), shown_rows(KEPT)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
