"""How a file is to be read: which columns, what their fields mean, and how much of it at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from antithetic._util.validation import check_count

Column: TypeAlias = str | int
MAX_BYTES = 8 << 30
DECIMALS = (".", ",")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reading:
    """The parameters of `read_file`, with the same meanings."""

    target: Column | None = None
    features: Sequence[Column] | None = None
    leave_out: Sequence[Column] = ()
    one_hot: bool = False
    dates: bool = False
    decimal: str = "."
    header: bool | None = None
    max_bytes: int = MAX_BYTES
    progress: bool = False

    def __post_init__(self) -> None:
        check_count(self.max_bytes, "max_bytes", 1)
        if self.decimal not in DECIMALS:
            raise ValueError(f"decimal must be '.' or ','; got {self.decimal!r}")
        if isinstance(self.leave_out, str):
            raise ValueError(
                f"leave_out must be a list of columns, such as [{self.leave_out!r}]; got the string"
                f" {self.leave_out!r}"
            )
        if self.features is not None and self.leave_out:
            raise ValueError("features= and leave_out= cannot be combined; use one of them")

    def number(self, field: str) -> float:
        """Value of a field; ValueError where it is not a number."""
        if "_" in field:  # which Python allows within numbers
            raise ValueError(f"{field!r} is not a number")
        if self.decimal == ",":
            if "." in field:  # 1.500 may be meant as 1500
                raise ValueError(f"{field!r} has a point, and numbers have decimal commas here")
            field = field.replace(",", ".")
        return float(field)

    def is_number(self, field: str) -> bool:
        """Whether a field holds a number."""
        try:
            self.number(field)
        except ValueError:
            return False
        return True


def has_decimal_comma(field: str) -> bool:
    """Whether a field is a number if its comma is taken for a decimal point."""
    return Reading(decimal=",").is_number(field)


def days(field: str) -> float:
    """Days from 1970-01-01 to an ISO 8601 date or time; one without a zone is taken for UTC.

    >>> days("1970-01-02"), days("1970-01-01T12:00"), days("1970-01-01 12:00+12:00")
    (1.0, 0.5, 0.0)
    """
    moment = datetime.fromisoformat(field.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH).total_seconds() / 86_400


def is_date(field: str) -> bool:
    """Whether a field holds an ISO 8601 date or time."""
    try:
        days(field)
    except (ValueError, OverflowError):
        return False
    return True
