"""`Claim`: a sentence of the paper, whether it holds, and by which rule that was decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from antithetic.paper.parts import Part

Verdict = Literal["holds", "does not hold", "holds in part", "not measured"]
Row = dict[str, Any]
Outcome = Literal["better", "undecided", "worse"]
OVERALL = (
    "The claim holds if all cases count, holds in part if at least half of them do, and does not"
    " hold otherwise."
)
OVERALL_RUNS = (
    "Clearly means by more than two standard errors of the difference of two means over runs; a"
    " case that is neither clearly better nor clearly worse is undecided. The claim holds if most"
    " cases are clearly better and none clearly worse; it does not hold if at least half are"
    " clearly worse, none clearly better, or fewer clearly better than clearly worse; otherwise it"
    " holds in part."
)
BOTH = (
    "A case is clearly better if both are, clearly worse if one is and the other is not clearly"
    " better, and undecided otherwise."
)
THEOREM = "a theorem, checked"
_STANDARD_ERRORS = 2.0  # by which two means must differ to differ clearly
_SUMMED: dict[Verdict, str] = {
    "holds": "hold",
    "holds in part": "hold in part",
    "does not hold": "do not hold",
    "not measured": "not measured",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim and its verdict.

    Attributes
    ----------
    number : int
        From 1.
    claim : str
        One sentence.
    verdict : {"holds", "does not hold", "holds in part", "not measured"}
    measured : str
        The key numbers, short.
    detail : str
        The rule by which it was decided, remarks, and the key number of each case.
    rows : tuple of dict
        One per case, usually a set with a loss; ``"held"`` says how the case was counted, None
        where it was not. Where runs are compared there is also ``"outcome"``, one of "better",
        "undecided" and "worse", and only the first is held.
    by_construction : bool
        Whether it follows by arithmetic: then it is a check of the program, not a finding.
    """

    number: int
    claim: str
    verdict: Verdict
    measured: str
    detail: str
    rows: tuple[Row, ...]
    by_construction: bool = False


def judge(held: Iterable[bool | None]) -> Verdict:
    """Verdict over all cases; None is a case that does not count.

    Examples
    --------
    >>> judge([True, True]), judge([True, False]), judge([True, False, False]), judge([None])
    ('holds', 'holds in part', 'does not hold', 'not measured')
    """
    counted = [case for case in held if case is not None]
    if not counted:
        return "not measured"
    if all(counted):
        return "holds"
    return "holds in part" if 2 * sum(counted) >= len(counted) else "does not hold"


def judge_outcomes(outcomes: Iterable[Outcome]) -> Verdict:
    """Verdict over cases in which runs were compared: what may be noise counts for neither side.

    Examples
    --------
    >>> judge_outcomes(["better", "better", "undecided"])
    'holds'
    >>> judge_outcomes(["better", "undecided"])
    'holds in part'
    >>> judge_outcomes(["undecided"])
    'does not hold'
    """
    found = list(outcomes)
    if not found:
        return "not measured"
    better, worse = found.count("better"), found.count("worse")
    if 2 * better > len(found) and not worse:
        return "holds"
    if 2 * worse >= len(found) or not better or better < worse:
        return "does not hold"
    return "holds in part"


def make_claim(
    number: int,
    claim: str,
    rows: Sequence[Row],
    *,
    rule: str,
    key: str,
    measured: Callable[[Sequence[Row]], str],
    remark: str = "",
    by_construction: bool = False,
) -> Claim:
    """Judge the rows by their ``"held"``.

    ``key`` names the number that the detail text lists for each case.
    """
    verdict = judge(row["held"] for row in rows)
    counted = [row for row in rows if row["held"] is not None]
    said = f"{count(counted)}; {measured(counted)}" if counted else "no case to measure it on"
    if by_construction and counted:
        said = f"{said} ({THEOREM})"
    detail = _detail(f"A case counts if {rule}.", OVERALL, remark, rows, key)
    return Claim(number, claim, verdict, said, detail, tuple(rows), by_construction)


def make_claim_of_runs(
    number: int,
    claim: str,
    rows: Sequence[Row],
    *,
    rule: str,
    key: str,
    measured: Callable[[Sequence[Row]], str],
    remark: str = "",
) -> Claim:
    """Judge the rows by their ``"outcome"``."""
    said = f"{count_outcomes(rows)}; {measured(rows)}" if rows else "no case to measure it on"
    verdict = judge_outcomes(row["outcome"] for row in rows)
    return Claim(
        number,
        claim,
        verdict,
        said,
        _detail(f"A case is clearly better if {rule}.", OVERALL_RUNS, remark, rows, key),
        tuple(rows),
    )


def _detail(rule: str, overall: str, remark: str, rows: Sequence[Row], key: str) -> str:
    cases = "; ".join(f"{_case(row)} {show(row[key])}" for row in rows)
    return " ".join(
        text for text in (rule, overall, remark, f"{key}: {cases}." if rows else "") if text
    )


def headline(claims: Sequence[Claim]) -> str:
    """Summary of the verdicts: those that hold by construction, then the findings."""
    theorems = [claim.verdict for claim in claims if claim.by_construction]
    findings = [claim.verdict for claim in claims if not claim.by_construction]
    sure = f"{theorems.count('holds')} hold by construction"
    for verdict, said in _SUMMED.items():
        if verdict != "holds" and verdict in theorems:
            sure += f", {theorems.count(verdict)} of that kind {said}"
    found = []
    for verdict, said in _SUMMED.items():
        number = findings.count(verdict)
        if number or verdict != "not measured":
            found.append(f"{number} {verdict if number == 1 else said}")
    return f"{len(claims)} claims: {sure}; {len(findings)} findings: {', '.join(found)}"


def count_outcomes(rows: Sequence[Row]) -> str:
    """Say in how many cases the outcome was which."""
    outcomes = [row["outcome"] for row in rows]
    better, undecided, worse = (outcomes.count(each) for each in ("better", "undecided", "worse"))
    return (
        f"clearly better in {better}, undecided in {undecided}, clearly worse in {worse} of"
        f" {len(rows)}"
    )


def count(rows: Sequence[Row], column: str = "held") -> str:
    """Say in how many of the cases something is true."""
    return f"{sum(bool(row[column]) for row in rows)} of {len(rows)}"


def case(part: Part, held: bool | None, **values: Any) -> Row:
    """Row of a part."""
    return {
        "set": part.name,
        "loss": part.loss,
        "held": None if held is None else bool(held),
    } | values


def case_of_runs(part: Part, outcome: Outcome, **values: Any) -> Row:
    """Row of a part in which runs were compared."""
    return case(part, outcome == "better", outcome=outcome, **values)


def _case(row: Row) -> str:
    more = [str(row[name]) for name in ("batch", "order") if name in row]
    return " ".join([row["set"], row["loss"], *more])


def show(value: Any) -> str:
    """Show a number with three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def column(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    """Numbers of a column."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def middle(rows: Sequence[Row], name: str) -> str:
    """Median of a column, for a sentence."""
    return show(float(np.median(column(rows, name))))


def span(rows: Sequence[Row], name: str) -> str:
    """Least, median and largest of a column, for a sentence."""
    values = column(rows, name)
    return (
        f"{show(float(values.min()))} to {show(float(values.max()))}, median"
        f" {show(float(np.median(values)))}"
    )


def divide(a: float, b: float) -> float:
    """Ratio as a plain number; 0 / 0 is 1."""
    if a == b:
        return 1.0
    return float(a / b) if b != 0.0 else float("inf")


def clearly_below(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether the mean of a is below that of b by more than two standard errors.

    The means are over seeds; the standard error is that of their difference.
    """
    if len(a) < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return bool(b.mean() - a.mean() > _STANDARD_ERRORS * error)


def compare(own: NDArray[np.float64], peer: NDArray[np.float64]) -> Outcome:
    """Whether values of runs, the less the better, are clearly better or worse than others.

    Runs that diverged are worse than any.
    """
    fine, peer_fine = bool(np.isfinite(own).all()), bool(np.isfinite(peer).all())
    if fine != peer_fine:
        return "better" if fine else "worse"
    return (
        "better"
        if clearly_below(own, peer)
        else "worse"
        if clearly_below(peer, own)
        else "undecided"
    )


def both(first: Outcome, second: Outcome) -> Outcome:
    """Outcome of a case with two comparisons, see ``BOTH``."""
    found = (first, second)
    if found == ("better", "better"):
        return "better"
    return "worse" if "worse" in found and "better" not in found else "undecided"
