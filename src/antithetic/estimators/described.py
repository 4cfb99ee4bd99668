"""Parameters of an estimator as JSON, and back: words, numbers and the objects of this package.

No code in a file is run: a class is looked up among those listed here, and checks its settings.
"""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

import numpy as np

from antithetic._util.settings import Settings, abridged, fields_of, same
from antithetic.orders import Balanced, Importance, Pairs, Shuffle, Stratified, Uniform
from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.pairing.fingerprint import Fingerprint
from antithetic.problem.penalties import ElasticNet, GroupLasso
from antithetic.stochastic.trace import Distance

_SETTINGS = (
    Balanced,
    Distance,
    ElasticNet,
    GroupLasso,
    Importance,
    Pairs,
    Shuffle,
    Stratified,
    Uniform,
)
_CLASSES: dict[str, Any] = {kind.__name__: kind for kind in _SETTINGS}
_KINDS = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64, "U": np.str_}


def describe(value: Any, name: str) -> Any:
    """Return a parameter as JSON, or raise ValueError for one that a file cannot hold."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        # JSON has no infinity, which C may be
        return float(value) if np.isfinite(value) else {"class": "float", "value": str(value)}
    if isinstance(value, (list, tuple)):
        return [describe(one, name) for one in value]
    if isinstance(value, dict):
        pairs = [[describe(key, name), describe(one, name)] for key, one in value.items()]
        return {"class": "dict", "items": pairs}
    if isinstance(value, np.ndarray) and value.dtype.kind in _KINDS:
        return {"class": "array", "kind": value.dtype.kind, "entries": value.tolist()}
    if isinstance(value, (AntitheticTable, GroupTable)):
        return _describe_table(value)
    if type(value) in _CLASSES.values():
        return {"class": type(value).__name__} | {
            one.name: describe(getattr(value, one.name), name) for one in _changed(value)
        }
    raise ValueError(
        f"a model file cannot hold {name}={abridged(value)}, which is your own code; set another"
        f" {name} before saving, say with set_params({name}={_default(name)!r})"
    )


def _default(name: str) -> str:
    return {"order": "auto", "penalty": "l2"}.get(name, "None")


def _changed(value: Settings | ElasticNet) -> list[Any]:
    """Fields that differ from their defaults."""
    held = ((one, getattr(value, one.name)) for one in fields_of(value) if one.init)
    return [one for one, given in held if one.default is MISSING or not same(given, one.default)]


def _describe_table(table: AntitheticTable | GroupTable) -> dict[str, Any]:
    mark = table.fingerprint
    labels = None if mark.labels is None else mark.labels.tolist()
    about = {"labels": labels, "width": mark.width, "values": mark.values, "method": table.method}
    if isinstance(table, GroupTable):
        order = table.order.tolist()
        return {"class": "GroupTable", "order": order, "size": int(table.size)} | about
    rows = {"partner": table.partner.tolist(), "derived": table.derived}
    return {"class": "AntitheticTable"} | rows | about


def restore(held: Any) -> Any:
    """Return what :func:`describe` wrote; ValueError for anything else."""
    if isinstance(held, list):
        return [restore(one) for one in held]
    if not isinstance(held, dict):
        return held
    name = held.get("class")
    given = {key: value for key, value in held.items() if key != "class"}
    if name == "float":
        return float(given["value"])
    if name == "dict":
        return {restore(key): restore(value) for key, value in given["items"]}
    if name == "array":
        return np.array(given["entries"], dtype=_KINDS[given["kind"]])
    if name in ("AntitheticTable", "GroupTable"):
        return _restore_table(name, given)
    if not isinstance(name, str) or name not in _CLASSES:
        raise ValueError(f"its parameters name an object {name!r}, which is not known")
    return _CLASSES[name](**{key: restore(value) for key, value in given.items()})


def _restore_table(name: str, given: dict[str, Any]) -> AntitheticTable | GroupTable:
    labels = given.pop("labels")
    marks = None if labels is None else np.array(labels, dtype=np.uint64)
    mark = Fingerprint(marks, given.pop("width"), given.pop("values"))
    if name == "GroupTable":
        return GroupTable(np.array(given.pop("order")), fingerprint=mark, **given)
    return AntitheticTable(np.array(given.pop("partner")), fingerprint=mark, **given)
