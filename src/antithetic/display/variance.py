"""`VarianceDisplay`: the variance of a batch's gradient, by how the batch is drawn."""

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
    """Bars of the variance of a batch's gradient, by how the batch is drawn.

    Variances are exact, and relative to that of independent rows.

    :meth:`from_estimator` computes them; :meth:`from_report` shows what a batch sampler for PyTorch
    has measured instead. All parameters are stored as attributes.

    Parameters
    ----------
    names : list of str of length k
        The ways of drawing.
    ratios_at_zero : array-like of shape (k,) or None
        Variance at zero weights, divided by that of independent rows; None where it is not known.
    ratios_at_fit : array-like of shape (k,)
        The same at the fitted weights.
    iid_variances : (float, float) or None
        The variance of independent rows, at zero and at the fitted weights, which a ratio of 1
        corresponds to. None means that the ratios were measured on a model, as in a report.
    batch_size : int, default=2
        Rows of a batch.
    errors : array-like of shape (k,), default=None
        Standard errors of the ratios at the fitted weights, drawn as lines.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn last.
    figure_ : matplotlib Figure
        The figure of these axes.
    bars_ : list of matplotlib BarContainer
        At zero, where known, and at the fitted weights.

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
        iid_variances: tuple[float, float] | None,
        *,
        batch_size: int = 2,
        errors: Any = None,
    ) -> None:
        self.names = names
        self.ratios_at_zero = ratios_at_zero
        self.ratios_at_fit = ratios_at_fit
        self.iid_variances = iid_variances
        self.batch_size = batch_size
        self.errors = errors

    @classmethod
    def from_report(
        cls, report: Any, *, ax: Any = None, bar_kw: Mapping[str, Any] | None = None
    ) -> Self:
        """Draw what the test of a batch sampler has found about each way of making batches.

        Parameters
        ----------
        report : TrustReport
            As :meth:`antithetic.torch.AntitheticBatchSampler.report` returns it.
        ax : matplotlib Axes, default=None
            Where to draw; None means on a new figure.
        bar_kw : dict, default=None
            Passed to matplotlib's ``barh``.

        Returns
        -------
        VarianceDisplay
        """
        names = [
            f"{name} (in use)" if used else name
            for name, used in zip(report.arms, report.in_use, strict=True)
        ]
        ratios, errors = np.array(report.ratios), np.array(report.errors)
        return cls(names, None, ratios, None, errors=errors).plot(ax=ax, bar_kw=bar_kw)

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

        It compares independent rows, reshuffled rows and antithetic pairs.

        Parameters
        ----------
        estimator : estimator
            A fitted linear model with a ``loss``, such as SGDClassifier or SGDRegressor, of this
            package or of scikit-learn. Its ``class_weight`` is taken into account.
        X : {array-like, sparse matrix} of shape (n, d)
        y : array-like of shape (n,)
        table : AntitheticTable, or dict of str -> AntitheticTable, default=None
            Pairs that are drawn uniformly, or several such by name. None means those of
            :func:`antithetic.pair`.
        sample_weight : array-like of shape (n,), default=None
        batch_size : int, default=None
            Rows of a batch, at most n; None means the estimator's, or 2 where it has none.
        target : label, default=None
            With more than two classes, the one against the rest, since each is a separate
            problem.
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
        if batch_size is None:
            given = getattr(estimator, "batch_size", 2)
            batch_size = 2 if isinstance(given, str) else given  # "auto"
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
            Where to draw; None means on a new figure, whose height depends on the number of bars.
        bar_kw : dict, default=None
            Passed to matplotlib's ``barh``.

        Returns
        -------
        VarianceDisplay
        """
        k = len(self.names)
        ax = new_axes(figsize=(7.0, 1.7 + 0.55 * k)) if ax is None else ax
        self.bars_ = []
        series = self._series()
        height = 0.72 / len(series)
        for number, (label, ratios, errors) in enumerate(series):
            # An infinite bar breaks the axes.
            finite = np.where(np.isfinite(ratios), ratios, np.nan)
            shift = (number - (len(series) - 1) / 2.0) * (height + 0.04)
            given = {"height": height, "label": label, "xerr": errors, **(bar_kw or {})}
            bars = ax.barh(np.arange(k) + shift, finite, **given)
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

    def _series(self) -> list[tuple[str | None, Any, Any]]:
        """Label, ratios and errors of the bars."""
        if self.iid_variances is None:
            return [(None, self.ratios_at_fit, self.errors)]
        places = ("at zero weights", "at the fitted weights")
        labels = [
            f"{where} (1 stands for {iid:.3g})"
            for where, iid in zip(places, self.iid_variances, strict=True)
        ]
        fitted = (labels[1], self.ratios_at_fit, self.errors)
        if self.ratios_at_zero is None:
            return [fitted]
        return [(labels[0], self.ratios_at_zero, None), fitted]

    def _label(self, ax: Any) -> None:
        k = len(self.names)
        ax.set_yticks(
            np.arange(k), [escaped(fill(str(name), _NAME_COLUMNS)) for name in self.names]
        )
        ax.set_ylim(k - 0.5, -0.5)  # the first on top
        ax.margins(x=0.12)  # room for the numbers
        ax.spines[["top", "right"]].set_visible(False)
        if self.iid_variances is None:
            ax.set(
                xlabel="mean squared norm of a batch's gradient, relative to shuffled batches",
                ylabel="how a batch is made",
            )
            ax.set_xlim(left=0.0)
            return
        rows = "row" if self.batch_size == 1 else "rows"
        ax.set(
            xlabel=(
                f"variance of the gradient of {self.batch_size} {rows}, relative to independent"
                " rows"
            ),
            ylabel="how a batch is drawn",
        )
        ax.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            fontsize="small",
            borderaxespad=0.2,
        )
