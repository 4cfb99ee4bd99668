"""`Claim`: a sentence of the paper, whether it holds, and by which rule that was decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from antithetic.experiments.parts import Part

Verdict = Literal["holds", "does not hold", "holds in part", "not measured"]
Row = dict[str, Any]
OVERALL = "It holds if it does so in all cases, in part if in at least half of them, and does not hold if in fewer."
_STANDARD_ERRORS = 2.0  # by which two means must differ to differ clearly


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim and what became of it.

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
        One per case, usually a set with a loss; ``"held"`` says how the case was counted, None where it was not.
    """

    number: int
    claim: str
    verdict: Verdict
    measured: str
    detail: str
    rows: tuple[Row, ...]


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


def make_claim(
    number: int, claim: str, rows: Sequence[Row], *, rule: str, key: str, measured: Callable[[Sequence[Row]], str], remark: str = ""
) -> Claim:
    """Judge the rows by their ``"held"``; ``key`` names the number that the detail text lists for each case."""
    verdict = judge(row["held"] for row in rows)
    counted = [row for row in rows if row["held"] is not None]
    said = f"{count(counted)}; {measured(counted)}" if counted else "no case to measure it on"
    cases = "; ".join(f"{_case(row)} {show(row[key])}" for row in rows)
    detail = " ".join(text for text in (f"A case counts if {rule}.", OVERALL, remark, f"{key}: {cases}." if rows else "") if text)
    return Claim(number, claim, verdict, said, detail, tuple(rows))


def count(rows: Sequence[Row], column: str = "held") -> str:
    """Say in how many of the cases something is true."""
    return f"{sum(bool(row[column]) for row in rows)} of {len(rows)}"


def case(part: Part, held: bool | None, **values: Any) -> Row:
    """Row of a part."""
    return {"set": part.name, "loss": part.loss, "held": None if held is None else bool(held)} | values


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
    return f"{show(float(values.min()))} to {show(float(values.max()))}, median {show(float(np.median(values)))}"


def divide(a: float, b: float) -> float:
    """Ratio as a plain number; 0 / 0 is 1."""
    if a == b:
        return 1.0
    return float(a / b) if b != 0.0 else float("inf")


def clearly_below(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether the mean of seeds of a is below that of b by more than two standard errors of the difference."""
    if len(a) < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return bool(b.mean() - a.mean() > _STANDARD_ERRORS * error)
