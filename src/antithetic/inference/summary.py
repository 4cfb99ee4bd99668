"""How sure the weights of a fitted model are: standard errors, tests and intervals."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit, xlogy

from antithetic._util.validation import check_column, did_you_mean
from antithetic.exact.linear_algebra import NotDefiniteError
from antithetic.exact.sums import Vector
from antithetic.inference.covariance import (
    KINDS,
    Counts,
    contrasts,
    count_groups,
    dispersion,
    effective_weights,
    expected_root,
    middle,
    to_given_columns,
)
from antithetic.inference.fitted import Fitted, read_fitted
from antithetic.problem.result import Result

_WEIGHTS = ("frequency", "variance", "sampling")
_TITLES = {
    "log_loss": "Logistic regression",
    "softmax": "Multinomial logistic regression",
    "squared_error": "Linear regression",
    "poisson": "Poisson regression, log link",
    "gamma": "Gamma regression, log link",
    "tweedie": "Tweedie regression, log link",
}
_RATIOS = {"log_loss": "odds_ratio", "softmax": "odds_ratio", "poisson": "rate_ratio"}
_MOST_LINES = 60  # of a printed table
_STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"), (0.1, "."))
_INTERCEPT = "(Intercept)"


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The result of :func:`antithetic.inference.summary`; it prints as a table.

    The entries of its arrays are the weights, the intercept first; with many classes, those of one
    class after the other.

    Attributes
    ----------
    names : list of str of length m
        Names of the columns; ``"(Intercept)"`` for the intercept.
    of_class : list of length m, or None
        With many classes, the label that each weight belongs to.
    coef, std_err : ndarray of shape (m,)
        Weights at the optimum, and their standard errors. With a penalty, the standard deviations
        of the posterior.
    statistic, p_value : ndarray of shape (m,)
        Weight over standard error, and the probability of one as large if the true weight is 0.
        NaN with a penalty.
    lower, upper : ndarray of shape (m,)
        Ends of the intervals.
    level : float
        Their level.
    covariance : ndarray of shape (m, m)
    kind : str
        How it was computed: ``"classical"``, ``"HC0"`` to ``"HC3"``, or ``"clustered"``.
    information : str
        ``"expected"`` or ``"observed"``.
    is_penalised : bool
    dispersion : float
        Estimated for squared error, gamma and Tweedie losses, otherwise 1.
    n_observations : float
        Rows whose weight is not 0, or the sum of weights that are frequencies.
    df_residual, df_null : float
        Degrees of freedom; with a penalty, effective ones.
    df_test : float
        Degrees of freedom of the t distribution that tests and intervals use; infinite if that is
        the normal distribution.
    deviance, null_deviance : float
        Of the model, and of the best constant.
    log_likelihood, aic : float
        NaN if undefined: for Tweedie losses, and for weights other than frequencies; ``aic`` also
        with a penalty. As in R, an estimated dispersion counts as a parameter, and the gamma
        distribution's is the deviance over the number of observations.
    ratio_name : str or None
        What the exponential of a weight is: ``"odds_ratio"``, ``"rate_ratio"`` (Poisson) or
        ``"mean_ratio"`` (gamma and Tweedie).
    dropped : list of str
        Columns that depend on those before them.
    title : str
    notes : tuple of str
        What a reader should know, printed below the table.
    """

    names: list[str]
    of_class: list[Any] | None
    coef: Vector
    std_err: Vector
    statistic: Vector
    p_value: Vector
    lower: Vector
    upper: Vector
    level: float
    covariance: Vector
    kind: str
    information: str
    is_penalised: bool
    dispersion: float
    n_observations: float
    df_residual: float
    df_null: float
    df_test: float
    deviance: float
    null_deviance: float
    log_likelihood: float
    aic: float
    ratio_name: str | None
    dropped: list[str]
    title: str
    notes: tuple[str, ...] = field(repr=False)

    @property
    def ratios(self) -> Vector:
        """Exponentials of weights and of the ends of their intervals, shape (m, 3).

        They are odds, rate or mean ratios, as ``ratio_name`` says; ValueError if it is None.
        """
        if self.ratio_name is None:
            raise ValueError("exponentials of these weights are no ratios, so there are none")
        with np.errstate(over="ignore"):
            return np.exp(np.stack([self.coef, self.lower, self.upper], axis=1))

    def to_frame(self) -> Any:
        """Return the table as a pandas ``DataFrame``, with a row per weight.

        The index has the names, with many classes the labels too.
        """
        import pandas

        columns = {"coef": self.coef, "std_err": self.std_err}
        if not self.is_penalised:
            columns |= {"statistic": self.statistic, "p_value": self.p_value}
        columns |= {"lower": self.lower, "upper": self.upper}
        if self.ratio_name is not None:
            ends = (self.ratio_name, f"{self.ratio_name}_lower", f"{self.ratio_name}_upper")
            columns |= dict(zip(ends, self.ratios.T, strict=True))
        index = pandas.Index(self.names, name="name")
        if self.of_class is not None:
            index = pandas.MultiIndex.from_arrays(
                [self.of_class, self.names], names=["class", "name"]
            )
        return pandas.DataFrame(columns, index=index)

    # ---- what is printed

    def _head(self) -> list[str]:
        lines = [self.title]
        if self.is_penalised:
            lines.insert(0, self.notes[0])
        of = f" ({self.information} information)"
        named = "deviations of the posterior (Laplace)" if self.is_penalised else "classical errors"
        robust = f"{self.kind} errors"
        how = named if self.kind == "classical" else robust
        return [*lines, f"{self.n_observations:g} observations; {how}{of}"]

    def _columns(self) -> list[str]:
        low, high = 50.0 * (1.0 - self.level), 50.0 * (1.0 + self.level)
        ends = [f"{low:.6g} %", f"{high:.6g} %"]
        if self.is_penalised:
            return ["Estimate", "Deviation", *ends]
        z = "z" if np.isinf(self.df_test) else "t"
        return ["Estimate", "Std. error", f"{z} value", f"Pr(>|{z}|)", *ends, ""]

    def _cells(self, k: int) -> list[str]:
        first = [_digits(self.coef[k], 5), _digits(self.std_err[k], 4)]
        ends = [_digits(self.lower[k], 4), _digits(self.upper[k], 4)]
        if self.is_penalised:
            return [*first, *ends]
        chance = self.p_value[k]
        shown = "<2e-16" if chance < 2e-16 else _digits(chance, 3)
        stars = next((mark for bound, mark in _STARS if chance < bound), "")
        return [*first, f"{self.statistic[k]:.3f}", shown, *ends, stars]

    def _feet(self) -> list[str]:
        lines = []
        if self.dropped:
            lines.append(f"Dropped, because they depend on earlier columns: {_few(self.dropped)}")
        if len(self.coef) > _MOST_LINES:
            lines.append(f"{len(self.coef) - _MOST_LINES} more weights: see to_frame()")
        known = (
            "taken to be 1"
            if self.dispersion == 1.0
            else f"estimated as {_digits(self.dispersion, 5)}"
        )
        lines.append(f"Dispersion {known}")
        for name, deviance, df in (
            ("Null", self.null_deviance, self.df_null),
            ("Residual", self.deviance, self.df_residual),
        ):
            lines.append(f"{name} deviance: {_digits(deviance, 5)} on {df:.6g} degrees of freedom")
        if np.isfinite(self.log_likelihood):
            aic = f", AIC: {_digits(self.aic, 5)}" if np.isfinite(self.aic) else ""
            lines.append(f"Log-likelihood: {_digits(self.log_likelihood, 5)}{aic}")
        return lines + [f"Note: {note}" for note in self.notes[1 if self.is_penalised else 0 :]]

    def _parts(self) -> list[tuple[str, list[int]]]:
        """Return headings and the places of the weights that are shown under them."""
        shown = list(range(min(len(self.coef), _MOST_LINES)))
        if self.of_class is None:
            return [("", shown)]
        labels = list(dict.fromkeys(self.of_class))
        parts = [(f"{label}", [k for k in shown if self.of_class[k] == label]) for label in labels]
        return [(f"Class {label}", places) for label, places in parts if places]

    def __repr__(self) -> str:
        parts = self._parts()
        cells = {k: [self.names[k], *self._cells(k)] for _, places in parts for k in places}
        head = ["", *self._columns()]
        rows = [head, *cells.values()]
        widths = [max(len(row[j]) for row in rows) for j in range(len(head))]

        def line(row: list[str]) -> str:
            first = row[0].ljust(widths[0])
            rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            if not self.is_penalised:
                rest[-1] = row[-1].ljust(widths[-1])
            return "  ".join([first, *rest]).rstrip()

        lines = [*self._head(), ""]
        for heading, places in parts:
            lines += [heading] * bool(heading)
            lines += [line(head), *(line(cells[k]) for k in places)]
        if not self.is_penalised:
            lines += ["---", "Signif. codes: 0 *** 0.001 ** 0.01 * 0.05 . 0.1"]
        return "\n".join([*lines, "", *self._feet()])

    def _repr_html_(self) -> str:
        def row(cells: list[str], tag: str) -> str:
            return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)

        head = f"<thead><tr>{row(['', *self._columns()], 'th')}</tr></thead>"
        body = []
        for heading, places in self._parts():
            if heading:
                span = len(self._columns()) + 1
                body.append(f'<tr><th colspan="{span}">{html.escape(heading)}</th></tr>')
            body += [
                f"<tr>{row([self.names[k]], 'th')}{row(self._cells(k), 'td')}</tr>" for k in places
            ]
        above = "<br>".join(html.escape(line) for line in self._head())
        below = "<br>".join(html.escape(line) for line in self._feet())
        return f"<p>{above}</p><table>{head}<tbody>{''.join(body)}</tbody></table><p>{below}</p>"


def summary(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    weights: str = "frequency",
    covariance: str = "classical",
    groups: Any = None,
    offset: Any = None,
    level: float = 0.95,
    reference: int | None = 0,
) -> Summary:
    """Return standard errors, tests and intervals of a fitted model's weights.

    They are those of the optimum: a few of Newton's steps lead there from the model's weights. The
    model itself is not changed. The cost is a few orthogonal factors of the rows, ``n_samples *
    n_weights ** 2`` operations each.

    Parameters
    ----------
    model : estimator or Result
        A fitted :class:`~antithetic.LogisticRegression`, :class:`~antithetic.LogisticRegressionCV`,
        :class:`~antithetic.Ridge`, :class:`~antithetic.PoissonRegressor`,
        :class:`~antithetic.GammaRegressor` or :class:`~antithetic.TweedieRegressor`, or the result
        of :func:`antithetic.solve`. Tests and p-values need a fit without a penalty: ``C=inf``,
        ``alpha=0`` or ``l2=0``.
    X, y : array-like
        The rows and targets that it was fitted on. Others are refused, as far as the gradient at
        the model's weights shows it.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights that it was fitted with.
    weights : {"frequency", "variance", "sampling"}, default="frequency"
        What they mean: a row stands for so many equal ones; its variance is that much smaller; or
        it was drawn with a probability that is one over its weight. The last has robust errors,
        HC0 unless ``covariance`` or ``groups`` say otherwise.
    covariance : {"classical", "HC0", "HC1", "HC2", "HC3", "clustered"}, default="classical"
        Classical errors hold if the model does. The robust ones, HC0 to HC3, hold also if its
        variances are wrong; clustered ones also if rows of one group depend on each other. With
        ``class_weight``, only these are supported.
    groups : array-like of shape (n_samples,), default=None
        Cluster of each row. With groups, errors are clustered.
    offset : array-like of shape (n_samples,), default=None
        The offsets that it was fitted with.
    level : float, default=0.95
        Level of the intervals.
    reference : int or None, default=0
        With more than two classes, weights are differences from those of ``classes_[reference]``;
        with None, from their mean over the classes. Of two classes, 1 changes the signs.

    Returns
    -------
    Summary

    Notes
    -----
    Tests and intervals use the t distribution if the dispersion is estimated (squared error, gamma,
    Tweedie), with the residual degrees of freedom, for clustered errors with one less than there
    are groups; otherwise the normal distribution. The dispersion is Pearson's estimate. Columns
    that are constant or depend on earlier ones are dropped and named.

    With a penalty, weights are biased towards 0, and there are no tests. What is printed is then
    the standard deviation of the posterior if the penalty is read as a prior (Laplace's
    approximation), and intervals of that.

    Examples
    --------
    >>> import antithetic
    >>> X, y = antithetic.datasets.load("breast-cancer", return_X_y=True)
    >>> model = antithetic.LogisticRegression(C=float("inf")).fit(X[:, 1:4], y)
    >>> found = antithetic.inference.summary(model, X[:, 1:4], y)
    >>> found.names, found.std_err.round(3).tolist()
    (['(Intercept)', 'x0', 'x1', 'x2'], [0.697, 0.103, 0.17, 0.166])
    """
    kind = _read_kind(covariance, weights, groups)
    if not (isinstance(level, (float, np.floating)) and 0.0 < level < 1.0):
        raise ValueError(f"level must be a number between 0 and 1; got {level!r}")
    fitted = read_fitted(model, X, y, sample_weight=sample_weight, offset=offset)
    _check_reference(reference, fitted)
    clusters = None if groups is None else _read_groups(groups, fitted.n)
    copies = _copies(fitted, sample_weight, weights)
    weighs_classes = getattr(model, "class_weight", None) is not None
    if weighs_classes and kind == "classical":
        raise ValueError(
            "class_weight changes what the weights estimate, so classical errors do not hold; use"
            ' covariance="HC0", or fit without class_weight'
        )
    is_penalised = bool(fitted.penalty.any())
    columns = [] if is_penalised else fitted.dependent_columns()
    names = fitted.names
    if columns:
        fitted = fitted.without(columns)
    try:
        root = fitted.root()
    except NotDefiniteError as error:
        raise ValueError(
            "the weights of the model are not determined: the Hessian is not positive definite,"
            " because columns separate the classes or have targets of 0 only. Use a penalty, or"
            " leave such columns out"
        ) from error
    fitted.check_optimum(root, fitted.gradient())
    fitted, root = fitted.optimum(root)
    counts = Counts(copies, float(copies.sum()), effective_weights(fitted, root))
    scale, information = dispersion(fitted, counts), "observed"
    if kind == "classical" and not is_penalised:
        root, information = expected_root(fitted, root), "expected"
    between, of_class = _between(fitted, reference)
    spread, coef = between @ root.inverse_root().T, between @ fitted.theta.ravel()
    if kind == "classical":
        found = scale * spread @ spread.T
    else:
        found = spread @ middle(fitted, root, counts, kind, clusters) @ spread.T

    df_test = np.inf
    if not fitted.loss.has_known_dispersion:
        df_test = counts.left if clusters is None else count_groups(fitted, clusters) - 1.0
    std_err = np.sqrt(np.maximum(found.diagonal(), 0.0))
    far = ndtri((1.0 + level) / 2.0) if np.isinf(df_test) else stdtrit(df_test, (1.0 + level) / 2.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # of a perfect fit
        statistic = np.full(len(coef), np.nan) if is_penalised else coef / std_err
    tail = ndtr(-np.abs(statistic)) if np.isinf(df_test) else stdtr(df_test, -np.abs(statistic))
    is_plain = weights == "frequency" and not weighs_classes
    likelihood = _log_likelihood(fitted, counts.rows) if is_plain else np.nan
    parameters = counts.weights + (not fitted.loss.has_known_dispersion)
    per_class = max(1, fitted.n_classes - 1)
    own = _INTERCEPT if fitted.fit_intercept else None
    labels = [*([own] if own else []), *fitted.names]
    return Summary(
        names=labels * (len(coef) // len(labels)),
        of_class=of_class,
        coef=coef,
        std_err=std_err,
        statistic=statistic,
        p_value=2.0 * tail,
        lower=coef - far * std_err,
        upper=coef + far * std_err,
        level=float(level),
        covariance=found,
        kind=kind,
        information=information,
        is_penalised=is_penalised,
        dispersion=scale,
        n_observations=counts.rows,
        df_residual=counts.rows * per_class - counts.weights,
        df_null=per_class * (counts.rows - fitted.fit_intercept),
        df_test=float(df_test),
        deviance=2.0 * float(fitted.weight @ fitted.losses()),
        null_deviance=2.0 * fitted.constant_objective(),
        log_likelihood=likelihood,
        aic=np.nan if is_penalised else 2.0 * (parameters - likelihood),
        ratio_name=_ratio_name(fitted, reference),
        dropped=[names[k] for k in sorted(columns)],
        title=_title(fitted, reference),
        notes=tuple(_notes(model, fitted, kind, copies, clusters, is_penalised)),
    )


def _read_kind(covariance: Any, weights: Any, groups: Any) -> str:
    """Return how the covariance is computed."""
    for name, given, allowed in (
        ("covariance", covariance, KINDS),
        ("weights", weights, _WEIGHTS),
    ):
        if given not in allowed:
            words = ", ".join(repr(word) for word in allowed)
            raise ValueError(
                f"{name} must be one of {words}; got {given!r}{did_you_mean(given, allowed)}"
            )
    if covariance == "clustered" and groups is None:
        raise ValueError('covariance="clustered" needs groups=, the cluster of each row')
    if groups is not None:
        if covariance not in ("classical", "clustered"):
            raise ValueError(
                f'groups= is for clustered errors; leave out groups or covariance="{covariance}"'
            )
        return "clustered"
    return "HC0" if weights == "sampling" and covariance == "classical" else str(covariance)


def _check_reference(reference: Any, fitted: Fitted) -> None:
    """Raise ValueError for a reference class that does not exist."""
    k = 1 if fitted.classes is None else len(fitted.classes)
    if reference is None and k > 2:
        return
    is_number = isinstance(reference, (int, np.integer)) and not isinstance(reference, bool)
    if not (is_number and 0 <= reference < k):
        allowed = {1: "0 for a regression", 2: "0 or 1 for two classes"}.get(
            k, f"None, or a number from 0 to {k - 1}, the place of a class in classes_"
        )
        raise ValueError(f"reference must be {allowed}; got {reference!r}")


def _read_groups(groups: Any, n: int) -> NDArray[np.intp]:
    """Return the cluster of each row as a number."""
    given = np.asarray(groups)
    if given.shape == (n, 1):
        given = given.ravel()
    if given.shape != (n,):
        raise ValueError(f"groups must have shape ({n},), one per row of X; got {given.shape}")
    try:
        missing = given != given  # NaN differs from itself
        if missing.any():
            raise ValueError(f"groups has NaN, first in row {int(np.argmax(missing))}")
        return np.asarray(np.unique(given, return_inverse=True)[1])
    except TypeError as error:
        raise ValueError(
            "groups mixes labels that cannot be compared, or has missing values; use one kind"
        ) from error


def _copies(fitted: Fitted, sample_weight: Any, weights: str) -> Vector:
    """Return the number of observations that each row stands for."""
    counted = (fitted.weight > 0.0).astype(np.float64)
    if sample_weight is None or weights != "frequency":
        return counted
    given = np.asarray(sample_weight)
    return counted * check_column(
        np.full(fitted.n, given) if given.ndim == 0 else given, fitted.n, "sample_weight"
    )


def _between(fitted: Fitted, reference: int | None) -> tuple[Vector, list[Any] | None]:
    """Return the matrix from weights to those that are shown, and the class of each of these."""
    to_given = to_given_columns(fitted)
    if fitted.n_classes == 1:
        return -to_given if reference == 1 else to_given, None
    assert fitted.classes is not None
    labels = fitted.classes.tolist()
    if reference is not None:
        del labels[reference]
    of_class = [label for label in labels for _ in range(fitted.p)]
    between = np.kron(contrasts(fitted.n_classes, reference), to_given)
    return np.asarray(between, dtype=np.float64), of_class


def _log_likelihood(fitted: Fitted, rows: float) -> float:
    """Return the log-likelihood of the distribution that the loss stands for; NaN if none."""
    y, weight, name = fitted.y, fitted.weight, fitted.loss.name
    if fitted.loss.classification:
        return -float(weight @ fitted.losses())
    scores, means = fitted.scores, fitted.loss.means(fitted.scores)
    if name == "squared_error":
        squares = 2.0 * float(weight @ fitted.losses())
        return -0.5 * rows * (float(np.log(2.0 * np.pi * squares / rows)) + 1.0)
    if name == "poisson":
        if (y != np.floor(y)).any():
            return np.nan
        return float(weight @ (y * scores - means - gammaln(y + 1.0)))
    if name == "gamma":
        scale = 2.0 * float(weight @ fitted.losses()) / rows
        shape = 1.0 / scale
        each = xlogy(shape, y / (means * scale)) - y / (means * scale) - np.log(y) - gammaln(shape)
        return float(weight @ each)
    return np.nan


def _ratio_name(fitted: Fitted, reference: int | None) -> str | None:
    if fitted.loss.name == "squared_error" or reference is None:
        return None
    return _RATIOS.get(fitted.loss.name, "mean_ratio")


def _title(fitted: Fitted, reference: int | None) -> str:
    title = _TITLES[fitted.loss.name]
    if fitted.loss.name == "tweedie":
        title += f", power {fitted.loss.epsilon:g}"
    if fitted.classes is None:
        return title
    if reference is None:
        return f"{title}: classes against their mean"
    labels = fitted.classes.tolist()
    if len(labels) > 2:
        return f"{title}: classes against {labels[reference]}"
    return f"{title}: class {labels[1 - reference]} against {labels[reference]}"


def _notes(
    model: Any,
    fitted: Fitted,
    kind: str,
    copies: Vector,
    clusters: NDArray[np.intp] | None,
    is_penalised: bool,
) -> list[str]:
    """Return what a reader should know, with a penalty first what that means."""
    notes = []
    if is_penalised:
        word = "l2=0" if isinstance(model, Result) else "alpha=0"
        without = "C=inf" if fitted.loss.classification and word != "l2=0" else word
        notes.append(f"Penalised weights are biased towards 0; for tests, fit with {without}")
        if hasattr(model, "C_"):
            notes.append(f"C={float(np.max(model.C_)):g} was chosen from the data; ignored here")
        if kind != "classical":
            notes.append(f"{kind} errors ignore the bias that the penalty makes")
    if getattr(model, "class_weight", None) is not None:
        notes.append("class_weight was used: these are the weights of the reweighted classes")
    if clusters is not None:
        count = count_groups(fitted, clusters)
        few = ", fewer than weights" if count <= fitted.theta.size else ""
        notes.append(f"{count} groups{few}")
    if (copies != np.floor(copies)).any():
        notes.append(
            "sample_weight has fractions, and is taken as frequencies; weights='variance' or"
            " 'sampling' have other errors"
        )
    return notes


def _digits(number: float, count: int) -> str:
    """Write a number with so many digits, zeros at the end included."""
    return f"{number:#.{count}g}".removesuffix(".")


def _few(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
