"""Rebuild the tables of LogisticRegression's page and README: ``docs/make_logistic.py [ROWS]``.

ROWS is a file that ``python benchmarks/logistic.py --save ROWS`` leaves; it is kept as
``docs/logistic.csv``. Without it, the pages are written from that file as it is. Draw the picture
after that: ``python docs/make_pictures.py logistic``.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "benchmarks"))

from logistic_rows import races_of, read_rows  # noqa: E402
from races.sets import SPARSE_SETS  # noqa: E402
from races.summary import TIED  # noqa: E402

KEPT, PAGES = DOCS / "logistic.csv", (DOCS / "logistic.md", DOCS.parent / "README.md")
MARKED = re.compile(r"(<!-- (\S+): made by docs/make_logistic.py -->).*?(<!-- end -->)", re.DOTALL)
TEXT = "farm-ads"


def shown_rows(path):
    """Rows of a file; on sparse rows, scikit-learn-intelex is named as what runs there."""
    return [
        row._replace(solver="scikit-learn lbfgs (called by intelex)")
        if row.solver == "scikit-learn-intelex" and row.task.split(",")[0] in SPARSE_SETS
        else row
        for row in read_rows(path)
    ]


def table(columns, lines):
    """A table in Markdown."""
    return "\n".join(
        f"| {' | '.join(map(str, line))} |" for line in (columns, ["---"] * len(columns), *lines)
    )


def cell(race):
    """Our milliseconds, and these divided by those of the fastest other."""
    ratio = f"{race.ratio:.2f}" if race.others else "all beaten"
    return f"{1e3 * race.ours:.1f} ({ratio})"


def races(found):
    """A line per problem and a column per gap."""
    gaps = sorted({race.gap for race in found}, reverse=True)
    by_place = {(race.name, race.gap): race for race in found}
    names = list(dict.fromkeys(race.name for race in found))
    return table(
        ["problem", *(f"{gap:g}" for gap in gaps)],
        [
            [name.replace("lambda", "λ"), *(cell(by_place[name, gap]) for gap in gaps)]
            for name in names
        ],
    )


def losses(found):
    """Every race that another wins, the worst first."""
    lost = sorted((race for race in found if race.ratio > TIED[1]), key=lambda race: -race.ratio)
    return table(
        ["problem", "gap", "ours / fastest", "fastest"],
        [
            [
                race.name.replace("lambda", "λ"),
                f"{race.gap:g}",
                f"{race.ratio:.2f}",
                race.fastest,
            ]
            for race in lost
        ],
    )


def summary(found):
    """How often ours is the fastest, and by how much."""
    ratios = sorted(race.ratio for race in found)
    won, lost = sum(ratio < TIED[0] for ratio in ratios), sum(ratio > TIED[1] for ratio in ratios)
    return (
        f"It wins {won} of {len(ratios)} races, ties {len(ratios) - won - lost} (ratios of"
        f" {TIED[0]} to {TIED[1]}) and loses {lost}. In {sum(ratio <= 0.5 for ratio in ratios)} it"
        " needs at most half the seconds of the fastest other solver; the median ratio is"
        f" {ratios[len(ratios) // 2]:.2f}, the largest {ratios[-1]:.2f}."
    )


def winners(found):
    """Who the fastest other is, and how often."""
    counts = {}
    for race in found:
        counts[race.fastest or "none in time"] = counts.get(race.fastest or "none in time", 0) + 1
    order = sorted(counts.items(), key=lambda one: -one[1])
    return ", ".join(f"{name} {count}" for name, count in order)


def cross_validation(found):
    """Seconds of both on each set."""
    return table(
        ["set", "`tol`", "ours, ms", "scikit-learn, ms", "ratio"],
        [
            [
                race.name,
                f"{race.gap:.1e}",
                f"{1e3 * race.ours:.0f}",
                f"{1e3 * race.others['scikit-learn']:.0f}",
                f"{race.ratio:.2f}",
            ]
            for race in found
        ],
    )


def threads(rows):
    """Seconds of one thread and of all cores."""
    by_task = {}
    for row in rows:
        if row.part == "threads":
            by_task.setdefault(row.task, {})[row.effort] = row.seconds
    counts = sorted({count for spent in by_task.values() for count in spent})
    return table(
        ["problem", *(f"{count} thread{'s' * (count > 1)}, ms" for count in counts)],
        [
            [task.replace("lambda", "λ"), *(f"{1e3 * spent[count]:.1f}" for count in counts)]
            for task, spent in by_task.items()
        ],
    )


def tables(rows):
    """All tables by the names they have in the pages."""
    found = races_of(rows)
    numbers = [race for race in found if not race.name.startswith(TEXT)]
    return {
        "summary": summary(numbers),
        "races": races(numbers),
        "losses": losses(numbers),
        "winners": f"The fastest other solver, and in how many races: {winners(numbers)}.",
        "text": or_none(races, [race for race in found if race.name.startswith(TEXT)]),
        "cv": or_none(cross_validation, races_of(rows, "cv")),
        "threads": or_none(threads, [row for row in rows if row.part == "threads"]),
    }


def page(text, rows):
    """A page with its tables rebuilt."""
    made = tables(rows)
    return MARKED.sub(lambda found: f"{found[1]}\n\n{made[found[2]]}\n\n{found[3]}", text)


def or_none(make, given):
    """What is made of rows; a sentence where there are none."""
    return make(given) if given else "This part is not measured yet."


def main(given):
    """Write the pages."""
    if given:
        shutil.copyfile(given[0], KEPT)
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8"), shown_rows(KEPT)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
