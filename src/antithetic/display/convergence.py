"""`ConvergenceDisplay`: what a fitted estimator recorded, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from antithetic.display._axes import escaped, new_axes, whole_ticks
from antithetic.display._linear_model import INNER

_X_AXES = ("epoch", "seconds")
_MARKED_POINTS = 50  # a longer line reads better without a mark at each point
_LEGEND_ROWS = 12


class ConvergenceDisplay:
    """Lines of what a fitted estimator recorded epoch by epoch.

    :meth:`from_estimator` makes one from an estimator's ``history_``. All parameters are stored as
    attributes.

    Parameters
    ----------
    curves : dict of str -> (x, y)
        Two arrays of equal length for each line, by its name in the legend.
    x_label : str, default="epoch"
    y_label : str, default="objective"
    log : bool, default=False
        Draw y on a log axis; values that are not above zero are left out there.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn last.
    figure_ : matplotlib Figure
        The figure of these axes.
    lines_ : list of matplotlib Line2D
        One for each curve.

    See Also
    --------
    VarianceDisplay : Exact variance of the gradient, by how a batch is drawn.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # or leave ax out, and pyplot opens a figure
    >>> from antithetic.display import ConvergenceDisplay
    >>> display = ConvergenceDisplay({"reshuffled": ([1, 2, 3], [0.7, 0.4, 0.3])})
    >>> display = display.plot(ax=Figure().subplots())
    >>> display.lines_[0].get_label()
    'reshuffled'
    """

    ax_: Any
    figure_: Any
    lines_: list[Any]

    def __init__(
        self,
        curves: Mapping[str, tuple[Any, Any]],
        *,
        x_label: str = "epoch",
        y_label: str = "objective",
        log: bool = False,
    ) -> None:
        self.curves = curves
        self.x_label = x_label
        self.y_label = y_label
        self.log = log

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        metric: str = "objective",
        x: str = "epoch",
        optimum: Any = None,
        name: str | None = None,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
    ) -> Self:
        """Draw what an estimator recorded: one line, or one per class (one against the rest).

        Parameters
        ----------
        estimator : estimator
            Fitted, with a ``history_``.
        metric : str, default="objective"
            Which entry of ``history_``.
        x : {"epoch", "seconds"}, default="epoch"
        optimum : float or array-like of shape (n_classes,), default=None
            The minimum of the metric, one for all lines or one for each: the distance from it is
            drawn, on a log axis, without the points at or below it. None draws the metric itself.
        name : str, default=None
            Name of the line, and prefix of the names of several classes. None means the name of the
            estimator's class, and no prefix.
        ax : matplotlib Axes, default=None
            Where to draw; None means on a new figure. The ``ax_`` of another display shows both, to
            compare estimators.
        line_kw : dict, default=None
            Passed to matplotlib's ``plot``.

        Returns
        -------
        ConvergenceDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from sklearn.linear_model import SGDClassifier
        >>> from antithetic.display import ConvergenceDisplay
        >>> model = SGDClassifier().fit([[0.0], [1.0]], [0, 1])
        >>> # estimators of this package record it
        >>> model.history_ = {"epoch": np.array([1, 2]), "objective": np.array([0.6, 0.3])}
        >>> display = ConvergenceDisplay.from_estimator(model, optimum=0.1, ax=Figure().subplots())
        >>> display.y_label
        'objective minus optimum'
        """
        histories = _histories(estimator, name)
        _check_keys(histories, metric, x)
        curves = {
            label: (np.asarray(history[x]), np.asarray(history[metric], dtype=np.float64))
            for label, history in histories.items()
        }
        y_label = metric.replace("_", " ")
        if optimum is not None:
            curves = _above(curves, optimum, metric)
            y_label += " minus optimum"
        return cls(curves, x_label=x, y_label=y_label, log=optimum is not None).plot(
            ax=ax, line_kw=line_kw
        )

    def plot(self, ax: Any = None, *, line_kw: Mapping[str, Any] | None = None) -> Self:
        """Draw the lines.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None means on a new figure.
        line_kw : dict, default=None
            Passed to matplotlib's ``plot``.

        Returns
        -------
        ConvergenceDisplay
        """
        ax = new_axes() if ax is None else ax
        self.lines_ = [
            line
            for name, (x, y) in self.curves.items()
            for line in self._draw(ax, name, x, y, line_kw or {})
        ]
        if self.log:
            ax.set_yscale("log")
        if self.x_label == "epoch" and ax.get_xscale() == "linear":
            whole_ticks(ax)
        ax.set(xlabel=escaped(self.x_label), ylabel=escaped(self.y_label))
        ax.grid(visible=True, alpha=0.3)
        ax.legend(ncols=1 + (len(ax.get_legend_handles_labels()[0]) - 1) // _LEGEND_ROWS)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, name: str, x: Any, y: Any, line_kw: Mapping[str, Any]) -> list[Any]:
        y = np.asarray(y, dtype=np.float64)
        if self.log:
            y = np.ma.masked_where(~(y > 0.0), y)
        marker = "." if len(y) <= _MARKED_POINTS else None
        drawn: list[Any] = ax.plot(x, y, **{"label": escaped(name), "marker": marker, **line_kw})
        return drawn


def _histories(estimator: Any, name: str | None) -> dict[str, Mapping[str, Any]]:
    """What an estimator recorded, by the name of each line."""
    from sklearn.utils.validation import check_is_fitted  # slow to import

    check_is_fitted(estimator)
    own = type(estimator).__name__
    if not hasattr(estimator, "history_"):
        raise ValueError(
            f"{own} has no history_; give a fitted antithetic.SGDClassifier or SGDRegressor"
            f" ({INNER})"
        )
    history = estimator.history_
    if isinstance(history, Mapping):
        return {own if name is None else str(name): history}
    prefix = "" if name is None else f"{name}, "
    return {
        f"{prefix}class {label}": part
        for label, part in zip(estimator.classes_, history, strict=True)
    }


def _check_keys(histories: Mapping[str, Mapping[str, Any]], metric: str, x: str) -> None:
    if x not in _X_AXES:
        raise ValueError(f"x must be one of {', '.join(_X_AXES)}; got {x!r}")
    first, *others = histories.values()
    keys = [key for key in first if all(key in other for other in others)]
    for argument, key in (("metric", metric), ("x", x)):
        if key not in keys:
            raise ValueError(
                f"{argument}={key!r} was not recorded; history_ has {', '.join(keys)} (trace= of"
                " the estimator records more)"
            )


def _above(
    curves: dict[str, tuple[Any, Any]], optimum: Any, metric: str
) -> dict[str, tuple[Any, Any]]:
    """Curves of the distance to the optimum."""
    least = np.asarray(optimum, dtype=np.float64)
    if least.shape not in ((), (len(curves),)) or not np.isfinite(least).all():
        raise ValueError(
            f"optimum must be a finite number, or one for each of the {len(curves)} lines; got"
            f" {optimum!r}"
        )
    shifted = {
        name: (x, y - low)
        for (name, (x, y)), low in zip(
            curves.items(), np.broadcast_to(least, len(curves)).tolist(), strict=True
        )
    }
    if not any((y > 0.0).any() for _, y in shifted.values()):
        raise ValueError(
            f"no {metric} lies above optimum={optimum!r}, so a log axis has nothing to show; give"
            " the minimum, or None"
        )
    return shifted
