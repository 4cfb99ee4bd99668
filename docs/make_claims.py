"""Rebuild the table of claims in ``docs/paper.md``: ``python docs/make_claims.py [REPORT]``.

REPORT is the folder that ``antithetic reproduce --download`` leaves, with all six sets of the
paper; its ``csv/claims.csv`` and ``csv/settings.csv`` are kept as ``docs/claims.csv`` and
``docs/claims-settings.csv``. Without it, the page is written from these as they are.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parent
PAGE, KEPT, SETTINGS = DOCS / "paper.md", DOCS / "claims.csv", DOCS / "claims-settings.csv"
SHOWN = ("number", "claim", "verdict", "measured")
MARKED = re.compile(r"(<!-- claims: made by docs/make_claims.py -->).*?(<!-- end -->)", re.DOTALL)


def read(path):
    """Lines of a file, as dicts."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cell(text):
    """A text as it must stand in a table."""
    return text.replace("|", r"\|")


def table():
    """The settings of the run in a sentence, and a line for each claim."""
    known = {line["setting"]: line["value"] for line in read(SETTINGS)}
    lines = [
        f"{known['seeds']} seeds and {known['epochs']} epochs on each of the six sets, logistic and"
        f" hinge loss, so 12 cases; {known['machine']}, {known['cores']} cores, Python"
        f" {known['python']}, antithetic {known['antithetic']}, NumPy {known['numpy']}, SciPy"
        f" {known['scipy']}, scikit-learn {known['scikit-learn']}.",
        "",
        "| | claim | verdict | measured |",
        "| --- | --- | --- | --- |",
        *(f"| {' | '.join(cell(one[name]) for name in SHOWN)} |" for one in read(KEPT)),
    ]
    return "\n".join(lines)


def page(text):
    """The page with its table rebuilt."""
    return MARKED.sub(lambda found: f"{found[1]}\n\n{table()}\n\n{found[2]}", text)


def main(given):
    """Write the page."""
    if given:
        for kept, name in ((KEPT, "claims.csv"), (SETTINGS, "settings.csv")):
            shutil.copyfile(Path(given[0]) / "csv" / name, kept)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
