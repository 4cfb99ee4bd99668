"""Checks of a checkpoint: the fit that it belongs to, and its entries."""

from __future__ import annotations

from typing import Any

ADVICE = "delete the file to start again, or choose another file"


def check_same(name: str, written: dict[str, Any], mark: dict[str, Any]) -> None:
    """Raise ValueError if a checkpoint belongs to a fit with other parameters or data."""
    before, settings = written["settings"], mark["settings"]
    changed = [key for key in before | settings if before.get(key) != settings.get(key)]
    if changed:
        raise ValueError(
            f"checkpoint {name!r} belongs to a fit with other parameters"
            f" ({', '.join(sorted(changed))}); {ADVICE}"
        )
    if written["data"] != mark["data"]:
        raise _of_other_data(name)


def _of_other_data(name: str) -> ValueError:
    return ValueError(
        f"checkpoint {name!r} belongs to other data, other blocks or other initial weights;"
        f" {ADVICE}"
    )


def checked_mark(mark: Any) -> dict[str, Any]:
    """What a fit belongs to: its settings as text, and a hash of its data."""
    require(
        isinstance(mark, dict)
        and set(mark) == {"settings", "data"}
        and isinstance(mark["data"], str),
        "mark",
    )
    require(
        isinstance(mark["settings"], dict)
        and all(isinstance(value, str) for value in mark["settings"].values()),
        "mark",
    )
    return dict(mark)


def require(holds: bool, what: str) -> None:
    """Raise ValueError for an entry that no fit would write."""
    if not holds:
        raise ValueError(f"its entry {what} is not valid")
