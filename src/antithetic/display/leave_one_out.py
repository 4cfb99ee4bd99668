"""`LeaveOneOutDisplay`: the scores of models that did not see the row, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from antithetic._util.validation import check_count
from antithetic.display._axes import new_axes, pyplot, whole_ticks

if TYPE_CHECKING:
    from antithetic.inference.leave_one_out import LeaveOneOut

_MOST_LINES = 2000  # intervals: more would hide each other


class LeaveOneOutDisplay:
    """Score of each row in the model that did not see it, with the proved interval.

    For classes the score is the margin of the row's own class: below zero the row would be
    predicted wrongly. For a regression it is the prediction, or its logarithm. Rows whose label is
    open are marked, and those that move most when they are left out are joined to the score that
    the fit with all rows gives them, and numbered.

    Parameters
    ----------
    scores : array-like of shape (n,)
    intervals : array-like of shape (n, 2)
        Of an infinite interval, only the score is drawn.
    fitted_scores : array-like of shape (n,)
        Of the model that saw all rows.
    is_open : array-like of bool of shape (n,)
    has_classes : bool, default=True
    most_moved : int, default=5
        Number of rows that are numbered.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn last.
    figure_ : matplotlib Figure
        The figure of these axes.
    points_ : matplotlib PathCollection
        The scores.
    open_ : matplotlib PathCollection
        Those of rows whose label is open.
    moves_ : matplotlib LineCollection
        From the scores of the fit to those without the row, of the rows that move most.

    See Also
    --------
    antithetic.inference.leave_one_out : What is shown.

    Examples
    --------
    >>> import antithetic
    >>> from matplotlib.figure import Figure  # or leave ax out, and pyplot opens a figure
    >>> X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    >>> model = antithetic.LogisticRegression().fit(X, y)
    >>> result = antithetic.inference.leave_one_out(model, X, y)
    >>> display = antithetic.LeaveOneOutDisplay.from_result(result, ax=Figure().subplots())
    >>> len(display.points_.get_offsets())
    208
    """

    ax_: Any
    figure_: Any
    points_: Any
    open_: Any
    moves_: Any

    def __init__(
        self,
        scores: Any,
        intervals: Any,
        fitted_scores: Any,
        is_open: Any,
        *,
        has_classes: bool = True,
        most_moved: int = 5,
    ) -> None:
        self.scores = scores
        self.intervals = intervals
        self.fitted_scores = fitted_scores
        self.is_open = is_open
        self.has_classes = has_classes
        self.most_moved = most_moved

    @classmethod
    def from_result(
        cls,
        result: LeaveOneOut,
        *,
        most_moved: int = 5,
        ax: Any = None,
        scatter_kw: Mapping[str, Any] | None = None,
    ) -> Self:
        """Draw the result of :func:`antithetic.inference.leave_one_out`.

        Parameters
        ----------
        result : LeaveOneOut
        most_moved : int, default=5
            Number of rows that are numbered: those whose score changes most without them.
        ax : matplotlib Axes, default=None
            Where to draw; None means on a new figure.
        scatter_kw : dict, default=None
            Passed to matplotlib's ``scatter`` for the scores.

        Returns
        -------
        LeaveOneOutDisplay
        """
        check_count(most_moved, "most_moved", least=0)
        if ax is None:
            pyplot()  # before the work, not after it
        if result.margin is None:
            scores, fitted = result.score, result.fitted_score
            intervals = np.stack([result.lower, result.upper], axis=1)
        else:
            scores, fitted = (
                _margins(part, result.y) for part in (result.score, result.fitted_score)
            )
            intervals = result.margin
        display = cls(
            scores,
            intervals,
            fitted,
            result.is_open,
            has_classes=result.margin is not None,
            most_moved=most_moved,
        )
        return display.plot(ax=ax, scatter_kw=scatter_kw)

    def plot(self, ax: Any = None, *, scatter_kw: Mapping[str, Any] | None = None) -> Self:
        """Draw the scores, their intervals, the open rows and those that move most.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None means on a new figure.
        scatter_kw : dict, default=None
            Passed to matplotlib's ``scatter`` for the scores.

        Returns
        -------
        LeaveOneOutDisplay
        """
        ax = new_axes(figsize=(8.0, 4.5)) if ax is None else ax
        scores, fitted = np.asarray(self.scores), np.asarray(self.fitted_scores)
        intervals, is_open = np.asarray(self.intervals), np.asarray(self.is_open, dtype=bool)
        rows = np.arange(len(scores))
        is_finite = np.isfinite(intervals).all(axis=1)
        widest = np.argsort(np.where(is_finite, np.ptp(intervals, axis=1), -np.inf))[-_MOST_LINES:]
        drawn = widest[is_finite[widest]]
        ax.vlines(rows[drawn], *intervals[drawn].T, color="0.6", linewidth=1.0, zorder=1)
        given = {"s": 9.0, "color": "C0", "label": "without the row", **(scatter_kw or {})}
        self.points_ = ax.scatter(rows, scores, **given, zorder=2)
        open_label = f"{'label' if self.has_classes else 'score'} open: {is_open.sum()}"
        self.open_ = ax.scatter(
            rows[is_open], scores[is_open], s=45.0, facecolors="none", edgecolors="C3",
            label=open_label, zorder=3,
        )  # fmt: skip
        moved = np.argsort(-np.abs(scores - fitted), kind="stable")[: self.most_moved]
        self.moves_ = ax.vlines(
            rows[moved], fitted[moved], scores[moved], color="C1", linewidth=1.5, zorder=1.5,
            label="moved from the fit with all rows",
        )  # fmt: skip
        for row in moved.tolist():
            ax.annotate(
                str(row), (row, scores[row]), xytext=(4, 0), textcoords="offset points",
                fontsize="small", va="center",
            )  # fmt: skip
        self._label(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _label(self, ax: Any) -> None:
        if self.has_classes:
            ax.axhline(0.0, linestyle=":", color="0.4", zorder=0.9)
        name = "margin of the row's own class" if self.has_classes else "linear prediction"
        ax.set(xlabel="row", ylabel=f"{name}, fitted without it")
        whole_ticks(ax)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False,
            fontsize="small", borderaxespad=0.2,
        )  # fmt: skip


def _margins(scores: Any, y: Any) -> Any:
    """Return how far the score of the row's own class is above the best other one."""
    if scores.ndim == 1:
        return np.where(y == 1, scores, -scores)
    rows = np.arange(len(y))
    others = scores.copy()
    others[rows, y] = -np.inf
    return scores[rows, y] - others.max(axis=1)
