"""`VarianceDisplay`: the exact variance of a batch's gradient, by how the batch is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any, Self

import numpy as np

from antithetic._util.validation import check_count
from antithetic.display._axes import escaped, new_axes, pyplot
from antithetic.display._linear_model import SolvedProblem
from antithetic.pairing import AntitheticTable

_NAME_COLUMNS = 28  # longer names of bars are wrapped


class VarianceDisplay:
    """Bars of the exact variance of a batch's gradient, by how the batch is drawn.

    Variances are relative to that of independent rows.

    :meth:`from_estimator` computes them. All parameters are stored as attributes.

    Parameters
    ----------
    names : list of str of length k
        The ways of drawing.
    ratios_at_zero : array-like of shape (k,)
        Variance at zero weights, divided by that of independent rows.
    ratios_at_fit : array-like of shape (k,)
        The same at the fitted weights.
    iid_variances : (float, float)
        The variance of independent rows, at zero and at the fitted weights: what a ratio of 1
        stands for.
    batch_size : int, default=2
        Rows of a batch.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn last.
    figure_ : matplotlib Figure
        The figure of these axes.
    bars_ : list of two matplotlib BarContainer
        At zero, and at the fitted weights.

    See Also
    --------
    ConvergenceDisplay : What an estimator recorded epoch by epoch.
    antithetic.gradient_variance : The variance, as a number.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # or leave ax out, and pyplot opens a figure
    >>> from antithetic.display import VarianceDisplay
    >>> names = ["independent rows", "pairs"]
    >>> display = VarianceDisplay(names, [1.0, 0.4], [1.0, 0.7], (2.5, 0.3))
    >>> display = display.plot(ax=Figure().subplots())
    >>> [float(bar.get_width()) for bar in display.bars_[1]]
    [1.0, 0.7]
    """

    ax_: Any
    figure_: Any
    bars_: list[Any]

    def __init__(
        self,
        names: Sequence[str],
        ratios_at_zero: Any,
        ratios_at_fit: Any,
        iid_variances: tuple[float, float],
        *,
        batch_size: int = 2,
    ) -> None:
        self.names = names
        self.ratios_at_zero = ratios_at_zero
        self.ratios_at_fit = ratios_at_fit
        self.iid_variances = iid_variances
        self.batch_size = batch_size

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        table: AntitheticTable | Mapping[str, AntitheticTable] | None = None,
        sample_weight: Any = None,
        batch_size: int | None = None,
        target: Any = None,
        ax: Any = None,
        bar_kw: Mapping[str, Any] | None = None,
    ) -> Self:
        """Draw the variances on given data, at zero and at the fitted weights.

        Compared are independent rows, reshuffled rows and antithetic pairs.

        Parameters
        ----------
        estimator : estimator
            A fitted linear model with a ``loss``, such as SGDClassifier or SGDRegressor, of this
            package or of scikit-learn. Its ``class_weight`` counts.
        X : {array-like, sparse matrix} of shape (n, d)
        y : array-like of shape (n,)
        table : AntitheticTable, or dict of str -> AntitheticTable, default=None
            Pairs that are drawn uniformly, or several such by name. None means those of
            :func:`antithetic.pair`.
        sample_weight : array-like of shape (n,), default=None
        batch_size : int, default=None
            Rows of a batch, at most n; None means the estimator's, or 2 where it has none.
        target : label, default=None
            Of more than two classes, the one that is told from the rest: each is a problem of its
            own.
        ax : matplotlib Axes, default=None
            Where to draw; None means on a new figure.
        bar_kw : dict, default=None
            Passed to matplotlib's ``barh``.

        Returns
        -------
        VarianceDisplay

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sklearn.linear_model import SGDClassifier
        >>> from antithetic.display import VarianceDisplay
        >>> X, y = [[1.0], [2.0], [3.0], [2.0]], [1, 1, 0, 0]
        >>> model = SGDClassifier(loss="log_loss", fit_intercept=False, random_state=0).fit(X, y)
        >>> display = VarianceDisplay.from_estimator(model, X, y, ax=Figure().subplots())
        >>> dict(zip(display.names, display.ratios_at_zero.round(3).tolist()))
        {'independent rows': 1.0, 'reshuffled rows': 0.667, 'antithetic pairs': 0.0}
        """
        if ax is None:
            pyplot()  # before the work, not after it
        model = SolvedProblem.read(estimator, X, y, sample_weight, target)
        batch_size = getattr(estimator, "batch_size", 2) if batch_size is None else batch_size
        batch_size = min(check_count(batch_size, "batch_size", least=1), model.X.shape[0])
        tables = model.tables(table, y)
        zero, iid_at_zero = model.ratios(None, 0.0, tables, batch_size)
        fit, iid_at_fit = model.ratios(model.coef, model.intercept, tables, batch_size)
        names = ["independent rows", "reshuffled rows", *tables]
        return cls(names, zero, fit, (iid_at_zero, iid_at_fit), batch_size=batch_size).plot(
            ax=ax, bar_kw=bar_kw
        )

    def plot(self, ax: Any = None, *, bar_kw: Mapping[str, Any] | None = None) -> Self:
        """Draw the bars, with their numbers.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None means on a new figure, which is the higher the more bars there are.
        bar_kw : dict, default=None
            Passed to matplotlib's ``barh``.

        Returns
        -------
        VarianceDisplay
        """
        k = len(self.names)
        ax = new_axes(figsize=(7.0, 1.7 + 0.55 * k)) if ax is None else ax
        heights = {
            "at zero weights": self.ratios_at_zero,
            "at the fitted weights": self.ratios_at_fit,
        }
        self.bars_ = []
        for shift, (where, ratios), iid in zip(
            (-0.2, 0.2), heights.items(), self.iid_variances, strict=True
        ):
            label = f"{where} (1 stands for {iid:.3g})"
            # An infinite bar breaks the axes.
            finite = np.where(np.isfinite(ratios), ratios, np.nan)
            bars = ax.barh(
                np.arange(k) + shift, finite, **{"height": 0.36, "label": label, **(bar_kw or {})}
            )
            ax.bar_label(
                bars,
                fmt="%.3g",
                padding=4,
                fontsize="small",
                bbox={"color": ax.get_facecolor(), "alpha": 0.8, "pad": 0.5},
            )
            self.bars_.append(bars)
        ax.axvline(1.0, linestyle=":", color="0.4", zorder=0.9)
        self._label(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _label(self, ax: Any) -> None:
        k = len(self.names)
        ax.set_yticks(
            np.arange(k), [escaped(fill(str(name), _NAME_COLUMNS)) for name in self.names]
        )
        ax.set_ylim(k - 0.5, -0.5)  # the first on top
        ax.margins(x=0.12)  # room for the numbers
        rows = "row" if self.batch_size == 1 else "rows"
        ax.set(
            xlabel=(
                f"variance of the gradient of {self.batch_size} {rows}, relative to independent"
                " rows"
            ),
            ylabel="how a batch is drawn",
        )
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            fontsize="small",
            borderaxespad=0.2,
        )
