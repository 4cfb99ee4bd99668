"""A run of Newton's method as plain arrays, from which it resumes bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from antithetic.exact.sums import Evaluation, Vector, Whitening
from antithetic.solvers.newton.factor import Factor
from antithetic.solvers.newton.iterations import Newton
from antithetic.solvers.newton.models import Conjugate, QuasiNewton, WithL1, WorkingSet
from antithetic.solvers.newton.sampled import FromSample
from antithetic.solvers.newton.whitened import SharedFactor, Whitened

NAMES = (
    "kept",
    "sizes",
    "hessian",
    "pairs",
    "strengths",
    "columns",
    "scales",
    "decrements",
    "steps",
    "whitening",
    "shared",
    "origin",
    "floor",
)
_KEPT = (  # numbers that change from one iteration to the next
    "_needs_exact",
    "_ratio",
    "_last",
    "_care",
    "_looseness",
    "_is_exact",
    "_is_fresh",
    "_was_fresh",
    "_idle",
    "_is_refined",
    "_least",
)


def export(newton: Newton) -> dict[str, Vector]:
    """Everything that a run needs to resume, apart from the rows, as one-dimensional arrays."""
    model = newton._model
    kept = [float(getattr(newton, name)) for name in _KEPT]
    arrays = {
        "kept": np.array([*kept, model.passes]),
        "sizes": np.array(newton.sizes, np.float64),
    }
    if isinstance(model, WorkingSet):
        arrays["columns"] = model._columns.astype(np.float64)
        model = model._inner
    if isinstance(model, Conjugate):
        assert model._scales is not None
        return arrays | {"scales": model._scales}
    if isinstance(model, Whitened):
        arrays["decrements"] = np.array(model._decrements)
        arrays["steps"] = np.array([model._steps], np.float64)
        if not model.is_full:
            return arrays | _export_shared(model)
    if isinstance(model, FromSample):
        held = {"origin": model._theta, "floor": model._floor}
        return arrays | held | {"pairs": _flat(model._pairs)}
    assert isinstance(model, (QuasiNewton, WithL1))
    assert model._hessian is not None
    arrays["hessian"] = model._hessian.ravel()
    if isinstance(model, WithL1):
        return arrays | {"strengths": model._strengths}
    return arrays | {"pairs": _flat(model._pairs)}


def _flat(pairs: list[tuple[Vector, Vector, float]]) -> Vector:
    return np.ravel([np.hstack(pair) for pair in pairs])


def _export_shared(model: Whitened) -> dict[str, Vector]:
    """What the classes share, or a note that it is still to be computed at these weights."""
    if model._asked is not None:
        return {"shared": np.array([1.0, model._asked[2]])}
    assert model._whitening is not None
    assert isinstance(model._factor, SharedFactor)
    products, shares, mean = model._whitening
    return {
        "shared": np.array([0.0, model._factor.unit, mean, products.ndim]),
        "whitening": np.concatenate([products.ravel(), shares]),
        "pairs": _flat(model._pairs),
    }


def restore(newton: Newton, point: Evaluation, arrays: Mapping[str, Vector]) -> None:
    """Restore an exported run on the same rows, at a point."""
    model: Any = newton._model
    columns = len(point.theta)
    *kept, passes = arrays["kept"].tolist()
    for name, number in zip(_KEPT, kept, strict=True):
        setattr(newton, name, type(getattr(newton, name))(number))
    newton.sizes = tuple(int(size) for size in arrays["sizes"])
    model.passes = passes
    if isinstance(model, WorkingSet):
        model._columns = arrays["columns"].astype(np.intp)
        columns, model = len(model._columns), model._inner
    if isinstance(model, Conjugate):
        model._scales, model.sums = arrays["scales"].reshape(columns), newton.sums
        return
    if isinstance(model, Whitened):
        model._decrements = arrays["decrements"].tolist()
        model._steps = int(arrays["steps"].item())
        model.is_full = "hessian" in arrays
        if not model.is_full:
            _restore_shared(newton, model, point, arrays)
            return
    if isinstance(model, FromSample):
        model.take(arrays["origin"].reshape(columns), arrays["floor"].reshape(columns))
        model.on(newton.sums)
        model._pairs = _pairs(arrays["pairs"], columns)
        return
    hessian = arrays["hessian"].reshape(columns, columns)
    model._hessian = hessian
    if isinstance(model, WithL1):
        model._strengths = arrays["strengths"].reshape(columns)
        return
    model._factor = Factor(hessian)
    model._pairs = _pairs(arrays["pairs"], columns)


def _pairs(flat: Vector, columns: int) -> list[tuple[Vector, Vector, float]]:
    rows = flat.reshape(-1, 2 * columns + 1)
    return [(one[:columns], one[columns:-1], float(one[-1])) for one in rows]


def _restore_shared(
    newton: Newton, model: Any, point: Evaluation, arrays: Mapping[str, Vector]
) -> None:
    is_asked, *numbers = arrays["shared"].tolist()
    sums: Any = newton.sums
    if is_asked:
        (care,) = numbers
        model._asked = (sums, point, care)
        return
    unit, mean, dimensions = numbers
    products, shares = np.split(arrays["whitening"], [-sums.classes])
    shape = (sums.features,) * int(dimensions)
    model._whitening = Whitening(products.reshape(shape), shares, mean)
    model._factor = model._inverse(sums.penalty.l2, fit_intercept=sums.fit_intercept)
    model._factor.unit = unit
    model._pairs = _pairs(arrays["pairs"], len(point.theta))
