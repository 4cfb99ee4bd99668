"""Pictures in scikit-learn's manner: how a fit converged, and what each way of drawing a batch does to the gradient's variance.

A display holds plain data, and draws them as often as wanted, on axes of its own or of the user's.
matplotlib is imported when something is drawn, here and nowhere else in the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix, check_count, check_rows, check_weights
from antithetic.orders import gradient_variance
from antithetic.pairing import AntitheticTable, pair
from antithetic.pairing.table import check_table
from antithetic.problem import ratio
from antithetic.problem.losses import Loss, get_loss

_X_AXES = ("epoch", "seconds")
_MARKED_POINTS = 50  # a longer line reads better without a mark at each point
_LEGEND_ROWS = 12
_NAME_COLUMNS = 28  # longer names of bars are wrapped
_INNER = "of a pipeline, give the last step; of a search, best_estimator_"


class ConvergenceDisplay:
    """Lines of what a fitted estimator recorded epoch by epoch.

    :meth:`from_estimator` makes one of an estimator's ``history_``. All parameters are stored as attributes.

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
    >>> display = ConvergenceDisplay({"reshuffled": ([1, 2, 3], [0.7, 0.4, 0.3])}).plot(ax=Figure().subplots())
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
        """Draw what an estimator recorded: one line, or one per class where each class was a problem of its own.

        Parameters
        ----------
        estimator : estimator
            Fitted, with a ``history_``.
        metric : str, default="objective"
            Which entry of ``history_``.
        x : {"epoch", "seconds"}, default="epoch"
        optimum : float or array-like of shape (n_classes,), default=None
            The least value the metric can take, one for all lines or one for each: the distance to
            it is drawn, on a log axis, without the points at or below it. None draws the metric
            itself.
        name : str, default=None
            Name of the line, and prefix of those of several classes. None means the name of the
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
        >>> model.history_ = {"epoch": np.array([1, 2]), "objective": np.array([0.6, 0.3])}  # estimators of this package record it
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
        ax = _new_axes() if ax is None else ax
        self.lines_ = [
            line
            for name, (x, y) in self.curves.items()
            for line in self._draw(ax, name, x, y, line_kw or {})
        ]
        if self.log:
            ax.set_yscale("log")
        if self.x_label == "epoch" and ax.get_xscale() == "linear":
            _whole_ticks(ax)
        ax.set(xlabel=_text(self.x_label), ylabel=_text(self.y_label))
        ax.grid(visible=True, alpha=0.3)
        ax.legend(ncols=1 + (len(ax.get_legend_handles_labels()[0]) - 1) // _LEGEND_ROWS)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, name: str, x: Any, y: Any, line_kw: Mapping[str, Any]) -> list[Any]:
        y = np.asarray(y, dtype=np.float64)
        if self.log:
            y = np.ma.masked_where(~(y > 0.0), y)
        marker = "." if len(y) <= _MARKED_POINTS else None
        drawn: list[Any] = ax.plot(x, y, **{"label": _text(name), "marker": marker, **line_kw})
        return drawn


def _histories(estimator: Any, name: str | None) -> dict[str, Mapping[str, Any]]:
    """What an estimator recorded, by the name of each line."""
    from sklearn.utils.validation import check_is_fitted  # a second of import that only this needs

    check_is_fitted(estimator)
    own = type(estimator).__name__
    if not hasattr(estimator, "history_"):
        raise ValueError(
            f"{own} has no history_; give a fitted antithetic.SGDClassifier or SGDRegressor"
            f" ({_INNER})"
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
            " the least value, or None"
        )
    return shifted


class VarianceDisplay:
    """Bars of the exact variance of a batch's gradient, relative to independent rows, by how the batch is drawn.

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
    >>> display = VarianceDisplay(["independent rows", "pairs"], [1.0, 0.4], [1.0, 0.7], (2.5, 0.3)).plot(ax=Figure().subplots())
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
        """Draw the variances on given data, at zero and at the fitted weights: independent rows, reshuffled rows, antithetic pairs.

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
            _pyplot()  # before the work, not after it
        model = _Model.read(estimator, X, y, sample_weight, target)
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
        ax = _new_axes(figsize=(7.0, 1.7 + 0.55 * k)) if ax is None else ax
        heights = {
            "at zero weights": self.ratios_at_zero,
            "at the fitted weights": self.ratios_at_fit,
        }
        self.bars_ = []
        for shift, (where, ratios), iid in zip(
            (-0.2, 0.2), heights.items(), self.iid_variances, strict=True
        ):
            label = f"{where} (1 stands for {iid:.3g})"
            finite = np.where(
                np.isfinite(ratios), ratios, np.nan
            )  # an infinite bar breaks the axes
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
        ax.set_yticks(np.arange(k), [_text(fill(str(name), _NAME_COLUMNS)) for name in self.names])
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


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The two-class or regression problem that a linear estimator solved, and its weights."""

    X: Matrix
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    loss: Loss
    fit_intercept: bool
    coef: NDArray[np.float64]
    intercept: float

    @classmethod
    def read(cls, estimator: Any, X: Any, y: Any, sample_weight: Any, target: Any) -> _Model:
        loss = _check_linear(estimator)
        X = check_rows(X)
        weight = check_weights(sample_weight, X.shape[0])
        classes = getattr(estimator, "classes_", None)
        place = _place(type(estimator).__name__, classes, target)
        y = _column(y, X.shape[0])
        if classes is not None:
            signs = _signs(y, classes, place)
            y, weight = signs, _class_weighted(weight, estimator, y, signs, place)
        coef = (
            estimator.coef_.toarray()
            if sparse.issparse(estimator.coef_)
            else np.asarray(estimator.coef_)
        )
        intercept = np.atleast_1d(estimator.intercept_)
        if classes is not None and len(classes) > 2:
            coef, intercept = coef[place], intercept[place:]
        return cls(X, y, weight, loss, bool(estimator.fit_intercept), coef, float(intercept[0]))

    def tables(self, table: Any, y: Any) -> dict[str, AntitheticTable]:
        """Tables by name, without their fingerprints once these are known to be those of the data."""
        if table is None:
            made = pair(
                self.X,
                self.y,
                loss=self.loss,
                fit_intercept=self.fit_intercept,
                sample_weight=self.weight,
            )
            return {"antithetic pairs": check_table(made)}
        given = table if isinstance(table, Mapping) else {"antithetic pairs": table}
        return {str(name): self._checked(check_table(one), y) for name, one in given.items()}

    def _checked(self, table: AntitheticTable, y: Any) -> AntitheticTable:
        """Accept a table of the labels as given, or of one class against the rest, written as signs or as True and False."""
        refusals = []
        for labels in (y, self.y, self.y == 1.0):
            try:
                table.check(self.X, labels)
            except ValueError as refusal:
                refusals.append(refusal)
            else:
                return AntitheticTable(table.partner)
        raise refusals[0]

    def ratios(
        self, coef: Any, intercept: float, tables: Mapping[str, AntitheticTable], batch_size: int
    ) -> tuple[NDArray[np.float64], float]:
        """Variance of each way of drawing divided by that of independent rows, which is also given."""
        ways = [
            (None, "uniform"),
            (None, "shuffle"),
            *((table, "uniform") for table in tables.values()),
        ]
        variances = [
            gradient_variance(
                self.X,
                self.y,
                coef,
                intercept=intercept,
                loss=self.loss,
                table=table,
                sampling=sampling,
                batch_size=batch_size,
                fit_intercept=self.fit_intercept,
                sample_weight=self.weight,
            )
            for table, sampling in ways
        ]
        return np.array([ratio(variance, variances[0]) for variance in variances]), variances[0]


def _check_linear(estimator: Any) -> Loss:
    """Loss of a fitted linear model, or say what is missing."""
    from sklearn.utils.validation import check_is_fitted

    own = type(estimator).__name__
    advice = f"give a fitted SGDClassifier or SGDRegressor ({_INNER})"
    if not hasattr(estimator, "loss"):
        raise ValueError(f"{own} has no loss, so its gradients are not known; {advice}")
    check_is_fitted(estimator)
    if not all(hasattr(estimator, name) for name in ("coef_", "intercept_", "fit_intercept")):
        raise ValueError(
            f"{own} is not a linear model with coef_, intercept_ and fit_intercept; {advice}"
        )
    loss = get_loss(estimator.loss)
    if loss.classification and not hasattr(estimator, "classes_"):
        raise ValueError(
            f"{own} has the loss {loss.name} of a classifier but no classes_; {advice}"
        )
    return replace(loss, epsilon=getattr(estimator, "epsilon", loss.epsilon))


def _place(own: str, classes: Any, target: Any) -> int:
    """Place of the positive class among the classes: the last of two, the target of more."""
    if classes is None:
        if target is not None:
            raise ValueError(
                f"target={target!r} picks one of several classes, and {own} has none; leave it at"
                " None"
            )
        return 0
    labels = np.asarray(classes).tolist()
    shown = ", ".join(map(repr, labels))
    if target is None and len(labels) > 2:
        raise ValueError(
            f"{own} has {len(labels)} classes, and each has its own weights and gradients; give"
            f" target=, one of {shown}"
        )
    if target is not None and target not in labels:
        raise ValueError(f"target={target!r} is no class of {own}; use one of {shown}")
    return 1 if len(labels) == 2 else labels.index(target)


def _column(y: Any, n: int) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape not in ((n,), (n, 1)):
        raise ValueError(f"y must have shape ({n},), one label per row of X; got {labels.shape}")
    return labels.ravel()


def _signs(y: NDArray[Any], classes: Any, place: int) -> NDArray[np.float64]:
    """+1 where a label is the positive class, -1 where it is another."""
    labels = np.asarray(classes).tolist()
    unknown = sorted(map(repr, set(y.tolist()).difference(labels)))
    if unknown:
        raise ValueError(
            f"y has {', '.join(unknown[:5])}, which the estimator was not fitted on; its classes"
            f" are {labels}"
        )
    signs = np.where(y == labels[place], 1.0, -1.0)
    if abs(signs.sum()) == signs.size:
        raise ValueError(
            f"y must have rows of the class {labels[place]!r} and of others; got"
            f" {'only' if signs[0] > 0 else 'none of'} it"
        )
    return signs


def _class_weighted(
    weight: NDArray[np.float64] | None,
    estimator: Any,
    y: NDArray[Any],
    signs: NDArray[np.float64],
    place: int,
) -> NDArray[np.float64] | None:
    """Weights of the rows times those of the classes.

    Of more than two classes, scikit-learn gives the rest the weight 1.
    """
    if getattr(estimator, "class_weight", None) is None:
        return weight
    from sklearn.utils.class_weight import compute_class_weight

    of_class = compute_class_weight(estimator.class_weight, classes=estimator.classes_, y=y)
    factors = np.where(signs > 0.0, of_class[place], of_class[0] if len(of_class) == 2 else 1.0)
    return factors if weight is None else weight * factors


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib; install it with pip install "antithetic[cli]"'
        ) from error
    return plt


def _new_axes(**figure_kw: Any) -> Any:
    return _pyplot().subplots(layout="constrained", **figure_kw)[1]


def _whole_ticks(ax: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))


def _text(name: Any) -> str:
    """A name as matplotlib shows it: a dollar would begin a formula, and a leading underscore would hide it from the legend."""
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
