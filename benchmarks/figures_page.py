"""The page of all figures, from what the scripts printed: see ``all.py``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_CLOSING = re.compile(r"\d+ missed|all bars met")  # the last line of a script that came to its end
_VERDICT = re.compile(r"(at least|at most) \S+.*?\s(pass|FAIL)\b")
_FIGURE = re.compile(
    r"(?P<name>\S.*?)\s+(?P<value>-?[\d.]+|-?inf|nan)\s{2,}"
    r"(?P<limit>(?:at least \S+?)?(?:, )?(?:at most \S+)?|no bar)\s*"
    r"(?P<verdict>pass|FAIL)?(?:\s+(?P<remark>\S.*))?"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one script: its figure lines that have a bar, and why it failed, if it did.

    ``lines`` is all that it printed, ``seconds`` how long it ran.
    """

    script: str
    passed: list[str]
    missed: list[str]
    trouble: str = ""
    lines: list[str] = field(default_factory=list)
    seconds: float = 0.0
    quick: bool = False


def is_closing(line: str) -> bool:
    """Whether a line is the last of a script that came to its end."""
    return _CLOSING.fullmatch(line) is not None


def verdict_of(line: str) -> str:
    """Say "pass" or "FAIL" for the line of a figure with a bar, nothing for other lines."""
    found = _VERDICT.search(line)
    return found[2] if found else ""


def figure_of(line: str) -> dict[str, str] | None:
    """The parts of a figure's line; None for other lines."""
    found = _FIGURE.fullmatch(line.rstrip())
    if found is None or not found["limit"]:
        return None
    return {key: value or "" for key, value in found.groupdict().items()}


def page(outcomes: list[Outcome], missing: list[str]) -> str:
    """All figures in Markdown, the missed ones first."""
    figures = {
        one.script: [found for line in one.lines if (found := figure_of(line))] for one in outcomes
    }
    barred = [found for own in figures.values() for found in own if found["verdict"]]
    missed = sum(found["verdict"] == "FAIL" for found in barred)
    parts = [
        "# All figures",
        "Every figure that the scripts in `benchmarks` print, with its limit. `make bench` runs all"
        " of them and writes this page.",
        f"{len(barred) - missed} of {len(barred)} figures with a limit meet it; {missed}"
        f" {'is' if missed == 1 else 'are'} missed.",
    ]
    if broken := [f"`{one.script}.py` ({one.trouble})" for one in outcomes if one.trouble]:
        parts.append(f"**Did not finish: {', '.join(broken)}.**")
    if missing:
        parts.append(f"Not run: {', '.join(f'`{name}.py`' for name in missing)}.")
    lost = [
        [f"`{script}.py`", *_cells(found)]
        for script, own in figures.items()
        for found in own
        if found["verdict"] == "FAIL"
    ]
    if lost:
        parts += ["## Missed", _table(["script", "figure", "measured", "limit", "remark"], lost)]
    for one in outcomes:
        parts += [f"## {one.script}.py", *_section(one, figures[one.script])]
    return "\n\n".join(parts) + "\n"


def _section(one: Outcome, figures: list[dict[str, str]]) -> list[str]:
    """What one script printed: machine, trouble, figures."""
    machine = " ".join(line for line in one.lines[:2] if ", " in line and not figure_of(line))
    quick = ", with `--quick`" if one.quick else ""
    parts = [f"{machine}; {one.seconds / 60.0:.1f} minutes{quick}.".lstrip("; ")]
    if one.trouble:
        before = " The figures below were printed before that." if figures else ""
        parts.append(
            f"**It {'was ' if one.trouble.startswith('stopped') else ''}{one.trouble}.**{before}"
        )
    if figures:
        words = {"pass": "met", "FAIL": "**missed**", "": ""}
        lines = []
        for found in figures:
            *start, remark = _cells(found)
            lines.append([*start, words[found["verdict"]], remark])
        parts.append(_table(["figure", "measured", "limit", "", "remark"], lines))
    return parts


def _cells(found: dict[str, str]) -> list[str]:
    limit = "" if found["limit"] == "no bar" else found["limit"]
    return [found["name"], found["value"], limit, found["remark"]]


def _table(columns: list[str], lines: list[list[str]]) -> str:
    """A table in Markdown."""
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows
    )
