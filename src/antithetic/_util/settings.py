"""Small frozen objects that hold settings: equal by value, with a repr that can be pasted back."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any, Self

import numpy as np

_SHOWN = 6  # numbers of an array that a repr shows


class Settings:
    """Base of the dataclasses behind ``order=``, ``steps=``, ``stop=`` and ``penalty=``.

    Subclasses are ``@dataclass(frozen=True)``; settings that differ from their defaults appear in
    the repr. Since nothing can change, copies are the object itself. Those of this package add
    ``eq=False, repr=False``, so that no methods are generated only to be discarded.
    """

    def __init_subclass__(cls) -> None:
        """Keep these methods in a plain ``@dataclass(frozen=True)``, whose own fail for arrays."""
        for name in ("__eq__", "__hash__", "__repr__"):
            if name not in cls.__dict__:
                setattr(cls, name, getattr(cls, name))

    def but(self, **changes: Any) -> Self:
        """Return the same settings with some of them changed."""
        return replace(self, **changes)  # type: ignore[type-var]  # subclasses are dataclasses

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, others = values_of(self), values_of(other)
        return mine.keys() == others.keys() and all(same(mine[k], others[k]) for k in mine)

    def __hash__(self) -> int:
        values = values_of(self).values()
        plain = (value for value in values if isinstance(value, (str, int, float, Settings)))
        return hash((type(self).__name__, *plain))

    def __repr__(self) -> str:
        shown = []
        if not is_dataclass(self):
            shown = [f"{name}={abridged(value)}" for name, value in vars(self).items()]
        for place, one in enumerate(fields_of(self)):
            value = getattr(self, one.name)
            needed = one.default is MISSING
            if needed or not same(value, one.default):
                name = "" if place == 0 and needed else f"{one.name}="
                shown.append(f"{name}{abridged(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        return self


def fields_of(settings: Any) -> tuple[Field[Any], ...]:
    """Fields of a dataclass; of anything else, none."""
    return fields(settings) if is_dataclass(settings) else ()


def values_of(settings: Any) -> dict[str, Any]:
    """Settings by name; of a subclass that is not a dataclass, its attributes."""
    if is_dataclass(settings):
        return {one.name: getattr(settings, one.name) for one in fields(settings)}
    return dict(vars(settings))


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal; arrays, and tables made of one, entry by entry."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype.kind == b.dtype.kind and np.array_equal(a, b)
    if type(a) is not type(b):
        return bool(isinstance(a, (int, float)) and isinstance(b, (int, float)) and a == b)
    for name in ("partner", "order"):  # an AntitheticTable, a GroupTable
        if isinstance(getattr(a, name, None), np.ndarray):
            return (
                same(getattr(a, name), getattr(b, name))
                and len(a) == len(b)
                and (getattr(a, "size", None) == getattr(b, "size", None))
            )
    return bool(a == b)


def abridged(value: Any) -> str:
    """Text of a value, long arrays and tables shortened; a function is shown by its name."""
    if isinstance(value, np.ndarray):
        return np.array2string(
            value, separator=", ", threshold=_SHOWN, edgeitems=_SHOWN // 2, max_line_width=1000
        )
    for name in ("partner", "order"):  # an AntitheticTable, a GroupTable
        rows = getattr(value, name, None)
        if isinstance(rows, np.ndarray):
            size = f", {value.size}" if hasattr(value, "size") else ""
            return f"{type(value).__name__}({abridged(rows)}{size})"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return repr(value)
