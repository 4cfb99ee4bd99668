"""A run of Newton's method as plain arrays, from which it goes on to the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from antithetic.problem.sums import Vector
from antithetic.solvers.newton.iterations import Newton
from antithetic.solvers.newton.models import Conjugate, Factor, QuasiNewton, WithL1, WorkingSet

NAMES = ("kept", "sizes", "hessian", "pairs", "strengths", "columns", "scales")
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
)


def export(newton: Newton) -> dict[str, Vector]:
    """All that a run needs to go on besides the rows, as arrays of one dimension."""
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
    assert isinstance(model, (QuasiNewton, WithL1))
    assert model._hessian is not None
    arrays["hessian"] = model._hessian.ravel()
    if isinstance(model, WithL1):
        return arrays | {"strengths": model._strengths}
    return arrays | {"pairs": np.ravel([np.hstack(pair) for pair in model._pairs])}


def restore(newton: Newton, arrays: Mapping[str, Vector]) -> None:
    """Be where another run on these rows was that was exported."""
    model: Any = newton._model
    columns = newton.sums.d + newton.sums.fit_intercept
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
    hessian = arrays["hessian"].reshape(columns, columns)
    model._hessian = hessian
    if isinstance(model, WithL1):
        model._strengths = arrays["strengths"].reshape(columns)
        return
    model._factor = Factor(hessian)
    pairs = arrays["pairs"].reshape(-1, 2 * columns + 1)
    model._pairs = [(one[:columns], one[columns:-1], float(one[-1])) for one in pairs]
