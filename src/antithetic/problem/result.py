"""The result of both roads: weights of a problem, and how they were found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The result of :func:`antithetic.minimize` and :func:`antithetic.solve`.

    Attributes
    ----------
    coef : ndarray of shape (d,), or (n_classes, d) for ``"softmax"``
        Weights: the averaged ones if averaging was asked for, except that ``average="epoch"``
        may return the last ones.
    intercept : float, or ndarray of shape (n_classes,)
    classes : ndarray of shape (2,) or (n_classes,), or None
        The labels that were taken as -1 and +1, or those of the rows of weights.
    epochs : int
        Epochs of ``minimize``, or iterations of ``solve`` over all rows.
    converged : bool
        Whether ``stop``, or ``tol`` of ``solve``, ended the run, rather than the number of epochs.
    gap : float, default=nan
        Of ``solve``: distance of the objective from its optimum, relative to that of the best
        constant prediction (of zero weights, without an intercept). ``minimize`` does not know it:
        see ``trace="gap"`` there.
    gap_certified : bool, default=False
        Whether ``gap`` is a bound; otherwise it is an estimate.
    coef_error : float, default=nan
        Of ``solve``: bound on the error of each weight, in units of its standard error; see
        ``coef_error_`` of :class:`antithetic.LogisticRegression`.
    trace : dict of str to ndarray of shape (epochs + 1,), default={}
        Of ``minimize``: ``"epoch"``, and one entry per epoch of everything that was asked for; the
        first entry is before the first step.
    table : AntitheticTable, GroupTable or None, default=None
        The table that ``minimize`` used last; if each row is visited once, the matching made from
        it, whose ``matching_loss`` has the cost.
    run : Run or None, default=None
        State of ``minimize``, without the data: pass the whole result as ``resume=`` to continue.
    settings : dict, default={}
        Settings of ``minimize``, so that it is resumed with the same; of ``solve``, its loss and
        penalties, which :mod:`antithetic.inference` asks for.
    """

    coef: NDArray[Any]
    intercept: Any
    classes: NDArray[Any] | None
    epochs: int
    converged: bool
    gap: float = np.nan
    gap_certified: bool = False
    coef_error: float = np.nan
    trace: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    table: Any = None
    run: Any = field(default=None, repr=False)
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
