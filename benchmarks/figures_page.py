"""The page of all figures, from what the scripts printed: see ``all.py``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_CLOSING = re.compile(r"\d+ missed|all bars met")  # the last line of a script that came to its end
_PART = re.compile(r"(\S+)\. (\S.*)")  # its letter or word, and what it measures
# A name may end with a number ("group lasso 0.01"): the value is the one that a limit follows.
_FIGURE = re.compile(
    r"(?P<name>\S.*?)\s+(?P<value>-?[\d.]+(?:e[-+]\d+)?|-?inf|nan)\s{2,}"
    r"(?P<limit>at least \S+?(?:, at most \S+)?|at most \S+|no bar)\s*"
    r"(?P<verdict>pass|FAIL)?(?:\s+(?P<remark>\S.*))?"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one script: its figure lines that have a bar, and why it failed, if it did.

    ``lines`` is all that it printed, ``seconds`` how long it ran, ``given`` its arguments,
    ``measured_with`` the machine and the versions.
    """

    script: str
    passed: list[str]
    missed: list[str]
    trouble: str = ""
    lines: list[str] = field(default_factory=list)
    seconds: float = 0.0
    quick: bool = False
    given: str = ""
    measured_with: str = ""

    @property
    def source(self) -> str:
        """Hash of the package's source; empty if the outcome does not record it."""
        found = re.search(r"\(source (\w+)\)", self.measured_with)
        return found[1] if found else ""


def is_closing(line: str) -> bool:
    """Whether a line is the last of a script that came to its end."""
    return _CLOSING.fullmatch(line) is not None


def verdict_of(line: str) -> str:
    """Say "pass" or "FAIL" for the line of a figure with a bar, nothing for other lines."""
    found = figure_of(line)
    return found["verdict"] if found else ""


def figure_of(line: str) -> dict[str, str] | None:
    """The parts of a figure's line; None for other lines."""
    found = _FIGURE.fullmatch(line.rstrip())
    return {key: value or "" for key, value in found.groupdict().items()} if found else None


def page(outcomes: list[Outcome], missing: list[str]) -> str:
    """All figures in Markdown, the missed ones first."""
    figures = {
        one.script: [found for line in one.lines if (found := figure_of(line))] for one in outcomes
    }
    barred = [found for own in figures.values() for found in own if found["verdict"]]
    missed = sum(found["verdict"] == "FAIL" for found in barred)
    parts = [
        "# All figures",
        "Every figure for which a script in `benchmarks` has a line of its own, with its limit if"
        " it has one. `make bench` runs all scripts and writes this page.",
        f"{len(barred) - missed} of {len(barred)} figures with a limit meet it; {missed}"
        f" {'is' if missed == 1 else 'are'} missed.",
    ]
    if outcomes:
        parts.append(_measured_with(outcomes))
    if broken := [f"`{one.script}.py` ({one.trouble})" for one in outcomes if one.trouble]:
        parts.append(f"**Did not finish: {', '.join(broken)}.**")
    if missing:
        parts.append(f"Not run: {', '.join(f'`{name}.py`' for name in missing)}.")
    lost = [
        [f"`{script}.py`: {name}", value, limit]
        for script, own in figures.items()
        for name, value, limit, _ in (_cells(found) for found in own if found["verdict"] == "FAIL")
    ]
    if lost:
        parts += ["## Missed", _table(["figure", "measured", "limit"], lost)]
    for one in outcomes:
        parts += [f"## {one.script}.py", *_section(one)]
    return "\n\n".join(parts) + "\n"


def _measured_with(outcomes: list[Outcome]) -> str:
    """Whether all figures are of the same code and machine."""
    every = {one.measured_with for one in outcomes}
    if len(every) == 1 and outcomes[0].source:
        return f"All were measured on one machine with the same code (source {outcomes[0].source})."
    return (
        "They were not all measured with the same code, package versions and machine; each section"
        " says what is known."
    )


def _section(one: Outcome) -> list[str]:
    """What one script printed: machine, trouble, and a table for each of its parts."""
    described = len(one.lines) > 1 and one.lines[1].startswith("Python ")
    arguments = " --quick" * one.quick + f" {one.given}".rstrip()
    command = f"`python benchmarks/{one.script}.py{arguments}`, {one.seconds / 60.0:.1f} minutes"
    source = [f"source {one.source}"] * bool(one.source)
    parts = ["; ".join([command, *(one.lines[:2] if described else []), *source]) + "."]
    tables = _tables(one.lines)
    if one.trouble:
        before = " The figures below were printed before that." if tables else ""
        parts.append(
            f"**It {'was ' if one.trouble.startswith('stopped') else ''}{one.trouble}.**{before}"
        )
    for title, lines in tables:
        parts += [title] * bool(title) + [_table(["figure", "measured", "limit", "met"], lines)]
    return parts


def _tables(lines: list[str]) -> list[tuple[str, list[list[str]]]]:
    """The title of each part that has figures, nothing outside of parts, and its figures."""
    tables: list[tuple[str, list[list[str]]]] = [("", [])]
    for before, line in zip(["", *lines], lines, strict=False):
        if found := figure_of(line):
            tables[-1][1].append(_cells(found))
        elif not before and (part := _PART.fullmatch(line)):
            tables.append((f"**{part[1]}.** {part[2]}", []))
    return [(title, own) for title, own in tables if own]


def _cells(found: dict[str, str]) -> list[str]:
    """Name and remark, which share a cell so that a phone needs no fifth column; value; limit."""
    name, remark = (found[key].replace("<", "&lt;") for key in ("name", "remark"))
    limit = "" if found["limit"] == "no bar" else found["limit"]
    return [
        f"{name}<br><small>{remark}</small>" if remark else name,
        found["value"],
        re.sub(r"at (\w+) ", r"at&nbsp;\1&nbsp;", limit),
        {"pass": "yes", "FAIL": "**no**", "": ""}[found["verdict"]],
    ]


def _table(columns: list[str], lines: list[list[str]]) -> str:
    """A table in Markdown."""
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows
    )
