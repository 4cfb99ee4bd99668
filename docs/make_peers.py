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
from pathlib import Path

from antithetic.bench import read_rows
from antithetic.bench.summary import ratio_table, standings, value_table

DOCS = Path(__file__).parent
KEPT, PAGES = DOCS / "peers.csv", (DOCS / "peers.md", DOCS.parent / "README.md")
PARTS = ("target", "epoch", "held-out")
OURS = "antithetic.SGDClassifier"
MARKED = re.compile(r"(<!-- (\S+): made by docs/make_peers.py -->).*?(<!-- end -->)", re.DOTALL)


def keep(rows):
    """Copy the lines that the page shows, as they are."""
    with open(rows, newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    part = head.index("part")
    with open(KEPT, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [head, *(line for line in lines if line[part] in PARTS)]
        )


def table(columns, lines):
    """A table in Markdown."""
    return "\n".join(
        f"| {' | '.join(map(str, line))} |" for line in (columns, ["---"] * len(columns), *lines)
    )


def ours(rows):
    """One line per set: our milliseconds to each target, those of the fastest peer, the ratio."""
    found = {(one.data, one.target): one for one in standings(rows)}
    targets = sorted({target for _, target in found}, reverse=True)
    columns = ["data"] + [
        f"{what} to {target:g}"
        for target in targets
        for what in ("ours, ms,", "fastest other, ms,", "ratio")
    ]
    lines = []
    for name in dict.fromkeys(name for name, _ in found):
        line = [name]
        for target in targets:
            one = found[name, target]
            line += [
                f"{1e3 * one.ours:.1f}",
                f"{1e3 * one.best:.1f}, {one.peer}",
                f"{one.ratio:.2f}",
            ]
        lines.append(line)
    return table(columns, lines)


def in_short(rows):
    """A line per target: our seconds divided by those of the fastest other, on each set."""
    found = standings(rows)
    names = list(dict.fromkeys(one.data for one in found))
    ratios = {(one.target, one.data): f"{one.ratio:.2f}" for one in found}
    targets = sorted({one.target for one in found}, reverse=True)
    return table(
        ["seconds to a gap of", *names],
        [
            [f"{target:g}", *(ratios.get((target, name), "") for name in names)]
            for target in targets
        ],
    )


def values(rows, part, quantity, unit):
    """One quantity of all peers."""
    columns, lines = value_table(rows, part, quantity)
    return table(
        columns,
        [
            [line[0], *("" if math.isnan(value) else f"{unit * value:.3g}" for value in line[1:])]
            for line in lines
        ],
    )


def tables(rows):
    """All tables of the pages by their names in these."""
    return {
        "ours": ours(rows),
        "in-short": in_short(rows),
        **{
            f"{target:g}": table(*ratio_table(rows, target))
            for target in sorted({row.target for row in rows if row.part == "target"})
        },
        "pass": values(rows, "epoch", "seconds per pass", 1e3),
        "held-out": values(rows, "held-out", "log_loss", 1.0),
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
        path.write_text(page(path.read_text(encoding="utf-8"), read_rows(KEPT)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
