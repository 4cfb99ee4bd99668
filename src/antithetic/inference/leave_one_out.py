"""Leave-one-out: for each row, the score of the model that did not see it, with a proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from antithetic._util.progress import progress_bar
from antithetic._util.threads import limit_blas
from antithetic._util.validation import check_count, check_weights
from antithetic._util.warnings import warn
from antithetic.exact.linear_algebra import NotDefiniteError
from antithetic.exact.sums import Vector, rounding_of
from antithetic.inference.fitted import Fitted, read_fitted
from antithetic.inference.left_out import Expansion, Found, Group, Members, radius_of

_MOST_OF_CLASSES = 500  # weights of many classes: time grows with their cube
_MOST_TOGETHER = 200  # scores of a group
_MOST_REFITS = 200
_WIDE = 0.1  # of the logarithm of a mean, either side: wider intervals are refined
_WIDE_LOSS = 0.05  # wider intervals of log losses are refined if that is cheap
_CHEAP = 2e7  # operations: some thousandths of a second
_OF_A_LOSS = 30  # operations, beside those of a product
_PATIENCE = 2.0  # seconds before progress is shown
_REFITS = ("undecided", "all", None)


class Suspect(NamedTuple):
    """A row whose label the other rows contradict.

    Attributes
    ----------
    row : int
    label : object
        As given.
    predicted : object
        By the model that did not see the row.
    probability : float
        Of the given label, by that model.
    lower, upper : float
        Bounds on this probability.
    """

    row: int
    label: Any
    predicted: Any
    probability: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class LeaveOneOut:
    """Scores of the rows by models without them: :func:`antithetic.inference.leave_one_out`.

    Attributes
    ----------
    score : ndarray of shape (n,) or (n, n_classes)
        Of each row, the decision function of the model fitted without it: the log-odds of
        ``classes[1]``, or a score for each of many classes, whose mean is zero. For a regression
        the prediction, or its logarithm for a log link.
    lower, upper : ndarray of the same shape
        The score is proved to lie between these; infinite where there is no bound.
    is_open : ndarray of bool of shape (n,)
        Whether the predicted label could be right or wrong, as far as the bounds tell. For a
        regression, whether the score has no bound.
    error_rate : tuple of float, or None
        Bounds on the weighted share of rows whose label is predicted wrongly.
    log_loss : tuple of float, or None
        Bounds on the weighted mean of the log loss.
    deviance : tuple of float, or None
        For a regression, bounds on the weighted mean of the deviance, that of
        ``sklearn.metrics.mean_poisson_deviance`` and the like; of squared errors for a `Ridge`.
    loss : ndarray of shape (n, 2)
        Bounds on the log loss, or deviance, of each row.
    margin : ndarray of shape (n, 2), or None
        Bounds on how far the score of the row's own class is above the best other one.
    fitted_score : ndarray, of the shape of ``score``
        Of the model that saw all rows.
    tier : ndarray of int of shape (n,)
        What gave the interval: 1 leverages, 2 one Newton step, 3 further steps, 4 a fit.
    y : ndarray of shape (n,)
        Targets: codes of the classes, or numbers.
    weight : ndarray of shape (n,)
        ``sample_weight``, which means are weighted by.
    classes : ndarray or None
    groups : ndarray or None
        As given.
    """

    score: Vector
    lower: Vector
    upper: Vector
    is_open: NDArray[np.bool_]
    error_rate: tuple[float, float] | None
    log_loss: tuple[float, float] | None
    deviance: tuple[float, float] | None
    loss: Vector
    margin: Vector | None
    fitted_score: Vector
    tier: NDArray[np.intp]
    y: NDArray[Any]
    weight: Vector
    classes: NDArray[Any] | None
    groups: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def probability(self) -> Vector:
        """Probabilities of the classes by the models that did not see the row, shape (n, K).

        At ``score``, in the order of ``classes``: what other libraries call out-of-sample
        probabilities.
        """
        if self.classes is None:
            raise ValueError("probabilities need classes; this is a regression: see score")
        if self.score.ndim == 2:
            return softmax(self.score, axis=1)  # type: ignore[no-any-return]  # SciPy is untyped
        return np.stack([expit(-self.score), expit(self.score)], axis=1)

    def suspects(self, k: int = 10) -> list[Suspect]:
        """Return the rows most likely mislabelled, the likeliest first.

        These are the rows whose own label has the least probability according to the model that
        did not see them.

        Parameters
        ----------
        k : int, default=10

        Returns
        -------
        list of Suspect
        """
        if self.classes is None:
            raise ValueError("only labels can be wrong; for a regression, see deviance and loss")
        k = check_count(k, "k", least=1)
        chances = self.probability
        own = chances[np.arange(len(self.y)), self.y]
        rows = np.argsort(np.where(self.weight > 0.0, own, np.inf), kind="stable")
        rows = rows[: min(k, int(np.count_nonzero(self.weight)))]
        predicted, names = chances.argmax(axis=1), self.classes.tolist()
        return [
            Suspect(
                int(row),
                names[self.y[row]],
                names[predicted[row]],
                float(own[row]),
                float(np.exp(-self.loss[row, 1])),
                float(np.exp(-self.loss[row, 0])),
            )
            for row in rows
        ]

    def __repr__(self) -> str:
        n = len(self.y)
        left_out = "one row" if self.groups is None else "one group"
        lines = [f"LeaveOneOut of {n} rows, {left_out} left out at a time"]
        for name in ("error_rate", "log_loss", "deviance"):
            bounds = getattr(self, name)
            if bounds is not None:
                low, high = bounds
                shown = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
                lines.append(f"  {name.replace('_', ' ')}: {shown}")
        unknown = "label" if self.classes is not None else "score"
        lines.append(f"  rows whose {unknown} is open: {int(self.is_open.sum())}")
        counts = np.bincount(self.tier, minlength=5)[1:]
        names = ("leverages", "a Newton step", "further steps", "a fit")
        by = ", ".join(f"{c} {name}" for c, name in zip(counts, names, strict=True) if c)
        lines.append(f"  intervals by: {by}")
        return "\n".join(lines)


def leave_one_out(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    groups: Any = None,
    refit: str | None = "undecided",
) -> LeaveOneOut:
    r"""Bound, for each row, the score of the model fitted without it.

    This is leave-one-out cross-validation without its n fits. One Hessian of all rows gives each
    row's leverage, and from it an interval that is proved to contain the score of the model that
    would have been fitted without the row (see :mod:`antithetic.inference.left_out` for the proof).
    Rows whose interval does not decide the label are refined in up to three further tiers, the last
    of which is a fit without them. For squared errors the scores are exact.

    Time and memory are those of a Hessian of all rows and as many operations again, much less than
    five-fold cross-validation as a rule.

    Parameters
    ----------
    model : estimator or Result
        A fitted `LogisticRegression` or `LogisticRegressionCV` (two classes or many), `Ridge`,
        `PoissonRegressor`, `GammaRegressor` or `TweedieRegressor`, or the Result of
        :func:`antithetic.solve`, without an L1 penalty. It is not changed.
    X : {array-like, sparse matrix} of shape (n, d)
        The rows it was fitted on; a model that was fitted on others is refused.
    y : array-like of shape (n,)
        Labels or targets of the fit.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows in the fit. Means are weighted by them too. ``class_weight="balanced"``
        stays what it was with all rows.
    offset : array-like of shape (n,), default=None
        Offsets of the fit, if there were any.
    groups : array-like of shape (n,), default=None
        Labels of groups that are left out together, such as the rows of one patient. They should be
        small: up to 200 rows.
    refit : {"undecided", "all"} or None, default="undecided"
        Which rows are fitted without: those that the first three tiers leave open (at most 200, the
        widest first), all, which is slow, or none.

    Returns
    -------
    LeaveOneOut
        With ``score``, ``lower``, ``upper``, ``is_open``, and bounds on the ``error_rate`` and
        ``log_loss``, or the ``deviance``.

    Notes
    -----
    The area under the ROC curve of pooled leave-one-out scores is biased low (it is 0 for data
    without signal), so it is not given.

    Examples
    --------
    >>> import antithetic
    >>> from antithetic.inference import leave_one_out
    >>> X, y = antithetic.datasets.load("breast-cancer_scale", return_X_y=True)
    >>> model = antithetic.LogisticRegression().fit(X, y)
    >>> result = leave_one_out(model, X, y)
    >>> print(result)  # doctest: +ELLIPSIS
    LeaveOneOut of 683 rows, one row left out at a time
      error rate: 0.0322108
      log loss: 0.08... to 0.08...
      rows whose label is open: 0
      intervals by: ... leverages, ... a Newton step, ... further steps
    >>> low, high = result.error_rate
    >>> low == high, bool((result.lower <= result.score).all())
    (True, True)
    >>> worst = result.suspects(1)[0]
    >>> worst.probability < 0.01
    True
    """
    if refit not in _REFITS:
        raise ValueError(f'refit must be "undecided", "all" or None; got {refit!r}')
    fitted = read_fitted(model, X, y, sample_weight=sample_weight, offset=offset)
    refuse_size(fitted)
    given = check_weights(sample_weight, fitted.n)
    weight = np.ones(fitted.n) if given is None else given
    codes, labels = codes_of_groups(groups, fitted)
    with limit_blas(1):
        try:
            search = Search.of(fitted, codes, check=True)
        except NotDefiniteError as error:
            raise ValueError(
                "the Hessian of the model is not positive definite, so nothing is proved without a"
                " row: some columns depend on others, or the classes are separated and there is no"
                " penalty. Drop such columns or fit with a penalty"
            ) from error
        search.refine(refit)
    return result_of(search, weight, labels)


def refuse_size(fitted: Fitted) -> None:
    """Raise ValueError for too many weights of many classes."""
    size = fitted.p * fitted.n_classes
    if fitted.n_classes > 1 and size > _MOST_OF_CLASSES:
        raise ValueError(
            f"{fitted.n_classes} classes with {fitted.p} weights each make a Hessian of {size}"
            f" columns; many classes are supported up to {_MOST_OF_CLASSES}. Use fewer columns (say"
            " TruncatedSVD), one class against the rest, or cross-validation with folds"
        )


def codes_of_groups(
    groups: Any, fitted: Fitted
) -> tuple[NDArray[np.intp] | None, NDArray[Any] | None]:
    """Number the groups; ValueError for one without which a class is unknown."""
    codes, labels = None, None
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (fitted.n,):
            raise ValueError(
                f"groups must have one label per row, shape ({fitted.n},); got {labels.shape}"
            )
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise ValueError(f"groups has NaN, first in row {int(np.argmax(np.isnan(labels)))}")
        names, codes = np.unique(labels, return_inverse=True)
        codes = codes.ravel()
        sizes = np.bincount(codes) * fitted.n_classes
        if sizes.max() > _MOST_TOGETHER:
            raise ValueError(
                f"group {names.tolist()[sizes.argmax()]!r} has {np.bincount(codes).max()} rows;"
                f" groups are left out together up to {_MOST_TOGETHER // fitted.n_classes} rows."
                " Use cross-validation with GroupKFold or LeaveOneGroupOut"
            )
        if len(names) < 2:
            raise ValueError("groups has one group only, without which there are no rows")
    if fitted.classes is not None:
        _refuse_lone_classes(fitted, codes, labels)
    return codes, labels


def _refuse_lone_classes(
    fitted: Fitted, codes: NDArray[np.intp] | None, labels: NDArray[Any] | None
) -> None:
    """Raise ValueError if leaving out a row, or a group, leaves no row of a class."""
    assert fitted.classes is not None
    of_row = class_codes(fitted)
    for code, name in enumerate(fitted.classes.tolist()):
        rows = np.flatnonzero((of_row == code) & (fitted.weight > 0.0))
        if codes is None and len(rows) == 1:
            raise ValueError(
                f"class {name!r} has one row only, row {rows[0]}: a model fitted without it would"
                " not know the class; leave this row out"
            )
        if codes is not None and len(rows) and (codes[rows] == codes[rows[0]]).all():
            assert labels is not None
            raise ValueError(
                f"all rows of class {name!r} are in group {labels.tolist()[rows[0]]!r}: a model"
                " fitted without the group would not know the class"
            )


def class_codes(fitted: Fitted) -> NDArray[np.intp]:
    """Return the class of each row, from 0."""
    if fitted.n_classes > 1:
        return fitted.y
    return (fitted.y > 0.0).astype(np.intp)


# ---- the search: bounds of all rows, refined where they decide too little


@dataclass(slots=True, eq=False)
class Search:
    """Bounds on the scores of all rows, and how each row's was found.

    Attributes
    ----------
    expansion : Expansion
    clusters : list of ndarray of shape (m, k)
        Rows that are left out together, by the size of the group.
    found : list of Found
        Of each array of groups.
    tier : list of ndarray of shape (m,)
    """

    expansion: Expansion
    clusters: list[Members]
    found: list[Found]
    tier: list[NDArray[np.intp]]
    _bounds: Bounds | None = None

    @property
    def bounds(self) -> Bounds:
        """Intervals of the rows, as far as they are known."""
        if self._bounds is None:
            self._bounds = Bounds.of(self)
        return self._bounds

    @classmethod
    def of(
        cls, fitted: Fitted, codes: NDArray[np.intp] | None = None, *, check: bool = False
    ) -> Search:
        """Bound all scores by the leverages: tier 1."""
        expansion = Expansion.at(fitted, check=check)
        clusters = list(_by_size(fitted.n, codes))
        search = cls(expansion, clusters, [], [])
        for members in clusters:
            parts = [expansion.first(group) for group in search._groups(members)]
            search.found.append(Found(*(np.concatenate(part) for part in zip(*parts, strict=True))))
            search.tier.append(np.ones(len(members), dtype=np.intp))
        return search

    def _groups(self, members: Members) -> Iterator[Group]:
        """Yield the small matrices of groups of one size, in batches of bounded memory."""
        k = members.shape[1]
        size = len(members) if k == 1 else self.expansion.batch_size(k)
        for start in range(0, len(members), size):
            yield self.expansion.group(members[start : start + size])

    def rows(self) -> tuple[Vector, Vector, Vector, NDArray[np.intp]]:
        """Return scores, distances, spreads and tiers of the rows."""
        fitted = self.expansion.fitted
        scores = np.empty_like(fitted.scores)
        rho, tier = np.empty(fitted.n), np.empty(fitted.n, dtype=np.intp)
        spread = np.empty((*fitted.scores.shape, *fitted.scores.shape[1:]))
        for members, found, tiers in zip(self.clusters, self.found, self.tier, strict=True):
            scores[members], spread[members] = found.scores, found.spread
            rho[members], tier[members] = found.rho[:, None], tiers[:, None]
        return scores, rho, spread, tier

    def refine(self, refit: str | None) -> None:
        """Take the groups that are undecided through tiers 2 and 3, and refits."""
        if refit == "all":
            self._refit([np.arange(len(members)) for members in self.clusters])
            return
        for tier in (1, 2, 3):
            self.improve(tier, self.undecided(and_wide=True))
        if refit is None:
            return
        left = self.undecided()
        total = sum(len(part) for part in left)
        if total > _MOST_REFITS:
            left = self._widest(left)
            warn(
                f"{total} rows or groups are undecided after three tiers; {_MOST_REFITS} of them"
                " are fitted without, the others stay open. A stronger penalty, or fewer columns"
                " that few rows have, would help",
                UserWarning,
            )
        self._refit(left)

    def undecided(self, *, and_wide: bool = False) -> list[NDArray[np.intp]]:
        """Return the places of groups with an undecided row, by the size of the group.

        Its label is open, or its loss has no bound. With ``and_wide`` also those whose mean has a
        wide interval, and, if these are few, those whose log loss has one.
        """
        bounds, fitted = self.bounds, self.expansion.fitted
        rows = bounds.is_open | ~np.isfinite(bounds.loss[:, 1])
        if and_wide and fitted.loss.has_log_link:
            rows |= bounds.upper - bounds.lower > 2.0 * _WIDE
        if and_wide and fitted.loss.classification:
            is_wide = bounds.width() > _WIDE_LOSS
            if np.count_nonzero(is_wide) * work_of(fitted) <= _CHEAP:
                rows |= is_wide
        return [np.flatnonzero(rows[members].any(axis=1)) for members in self.clusters]

    def improve(self, tier: int, places: list[NDArray[np.intp]]) -> None:
        """Take some groups through a tier; 1 is tier 2 with the foremost rows only, 4 fits."""
        expansion = self.expansion
        if tier == 4:
            self._refit(places)
            return
        bound = (expansion.nearly_second, expansion.second, expansion.third)[tier - 1]
        if tier == 1 and len(expansion.foremost) == expansion.fitted.n:
            return
        total, done = sum(len(part) for part in places), 0
        name = f"leaving rows out, tier {max(tier, 2)}"
        with progress_bar(name, total, True, after=_PATIENCE) as tell:
            for number, part in enumerate(places):
                size = expansion.batch_size(self.clusters[number].shape[1], tier)
                for start in range(0, len(part), size):
                    some = part[start : start + size]
                    group = expansion.group(self.clusters[number][some])
                    self._keep(number, some, max(tier, 2), bound(group))
                    done += len(some)
                    tell(done)

    def _keep(self, number: int, places: NDArray[np.intp], tier: int, found: Found) -> None:
        """Take over the bounds that are tighter than those there were."""
        self._bounds = None
        kept = Found(*(part[places] for part in self.found[number]))
        is_better = found.size() < kept.size()
        self.found[number].put(places, kept.better_of(found))
        self.tier[number][places[is_better]] = tier

    def _refit(self, places: list[NDArray[np.intp]]) -> None:
        total, done = sum(len(part) for part in places), 0
        with progress_bar("fits without a row", total, True, after=_PATIENCE) as tell:
            for number, part in enumerate(places):
                for place in part:
                    found = self.expansion.refitted(self.clusters[number][place])
                    self._keep(number, np.array([place]), 4, found)
                    done += 1
                    tell(done)

    def _widest(self, places: list[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
        """Choose as many groups as are fitted without: the widest."""
        sizes = [self.found[number].size()[part] for number, part in enumerate(places)]
        least = np.sort(np.concatenate(sizes))[::-1][:_MOST_REFITS][-1]
        chosen, left = [], _MOST_REFITS
        for part, size in zip(places, sizes, strict=True):
            chosen.append(part[size >= least][:left])
            left -= len(chosen[-1])
        return chosen


def work_of(fitted: Fitted) -> int:
    """Return the operations of tier 2 for one row."""
    return fitted.n * (fitted.p + _OF_A_LOSS) * fitted.n_classes


def _by_size(n: int, codes: NDArray[np.intp] | None) -> Iterator[Members]:
    """Yield rows that are left out together, an array for each size of groups."""
    if codes is None:
        yield np.arange(n)[:, None]
        return
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        yield order[starts[sizes == size][:, None] + np.arange(size)]


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Intervals of the rows: of scores, of margins and of losses."""

    score: Vector
    lower: Vector
    upper: Vector
    is_open: NDArray[np.bool_]
    is_wrong: NDArray[np.bool_]
    loss: Vector
    margin: Vector | None
    tier: NDArray[np.intp]

    @classmethod
    def of(cls, search: Search) -> Bounds:
        """Return the intervals that a search has found so far."""
        fitted = search.expansion.fitted
        if fitted.n_classes > 1:
            return _of_many(search)
        return _of_two(search) if fitted.loss.classification else _of_numbers(search)

    def width(self) -> Vector:
        """Return the widths of the losses' intervals."""
        low, high = self.loss.T
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(high), high - low, np.inf)


def _intervals(search: Search) -> tuple[Vector, Vector, NDArray[np.intp]]:
    """Return scores, the radii of their intervals, and tiers, for rows with one score."""
    scores, rho, spread, tier = search.rows()
    return scores, radius_of(rho, spread) + search.expansion.of_scores, tier


def _of_two(search: Search) -> Bounds:
    """Return the intervals for two classes."""
    expansion, fitted = search.expansion, search.expansion.fitted
    scores, radius, tier = _intervals(search)
    margin = fitted.y * scores
    low, high = margin - radius, margin + radius
    if len(search.clusters) == 1 and search.clusters[0].shape[1] == 1 and _is_sum(fitted):
        # without its own loss, no row can have a smaller one
        above = radius_of(expansion.distance, expansion.leverages) + expansion.of_scores
        high = np.minimum(high, fitted.y * fitted.scores + above)
        margin = np.minimum(margin, high)
    lower = np.where(fitted.y > 0.0, low, -high)
    upper = np.where(fitted.y > 0.0, high, -low)
    is_wrong = np.where(fitted.y > 0.0, high <= 0.0, high < 0.0)
    is_right = np.where(fitted.y > 0.0, low > 0.0, low >= 0.0)
    with np.errstate(over="ignore"):
        loss = np.stack([np.logaddexp(0.0, -high), np.logaddexp(0.0, -low)], axis=1)
    return Bounds(
        fitted.y * margin, lower, upper, ~(is_wrong | is_right), is_wrong, loss,
        np.stack([low, high], axis=1), tier,
    )  # fmt: skip


def _is_sum(fitted: Fitted) -> bool:
    return fitted.penalty_share is None


def _of_many(search: Search) -> Bounds:
    """Return the intervals for many classes, from those of differences of their scores."""
    fitted = search.expansion.fitted
    scores, rho, spread, tier = search.rows()
    scores = scores - scores.mean(axis=1, keepdims=True)
    rho = rho[:, None]
    rounding = 2.0 * search.expansion.of_scores[:, None]
    rows = np.arange(fitted.n)
    own = np.einsum("nkk->nk", spread)
    cancelled = 4.0 * rounding_of(fitted.p * fitted.n_classes) * own.max(axis=1)  # in differences
    own = own + cancelled[:, None]
    means = spread.mean(axis=2)
    radius = radius_of(rho, own - 2.0 * means + means.mean(axis=1, keepdims=True)) + rounding
    y = fitted.y
    apart = scores[rows, y][:, None] - scores
    off = radius_of(rho, own[rows, y][:, None] + own - 2.0 * spread[rows, y]) + rounding
    low, high = apart - off, apart + off
    with np.errstate(over="ignore", invalid="ignore"):
        others = np.ones_like(low, dtype=bool)
        others[rows, y] = False
        losses = [
            np.logaddexp.reduce(np.where(others, -part, -np.inf), axis=1) for part in (high, low)
        ]
    loss = np.logaddexp(0.0, np.stack(losses, axis=1))
    margin = np.stack([np.where(others, part, np.inf).min(axis=1) for part in (low, high)], axis=1)
    is_wrong = margin[:, 1] < 0.0
    return Bounds(
        scores, scores - radius, scores + radius, ~(is_wrong | (margin[:, 0] > 0.0)), is_wrong,
        loss, margin, tier,
    )  # fmt: skip


def _of_numbers(search: Search) -> Bounds:
    """Return the intervals for a regression."""
    fitted = search.expansion.fitted
    scores, radius, tier = _intervals(search)
    lower, upper = scores - radius, scores + radius
    y = fitted.y
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        best = np.clip(np.log(y) if fitted.loss.has_log_link else y, lower, upper)
        ends = [2.0 * fitted.loss.value(y, at) for at in (best, lower, upper)]
    is_known = np.isfinite(radius)
    most = np.where(is_known, np.maximum(ends[1], ends[2]), np.inf)
    loss = np.stack([np.where(is_known, np.maximum(ends[0], 0.0), 0.0), most], axis=1)
    is_open = ~is_known
    return Bounds(scores, lower, upper, is_open, np.zeros_like(is_open), loss, None, tier)


def losses_at(search: Search) -> Vector:
    """Return the log losses of the rows at the scores that were found, without bounds."""
    score, fitted = search.bounds.score, search.expansion.fitted
    if score.ndim == 1:
        return np.logaddexp(0.0, -fitted.y * score)
    own = score[np.arange(fitted.n), fitted.y]
    return np.logaddexp.reduce(score, axis=1) - own  # type: ignore[no-any-return]


def mean_bounds(values: Vector, weight: Vector) -> tuple[float, float]:
    """Return weighted means of lower and upper bounds; rows of weight zero do not count."""
    counts = weight > 0.0
    low, high = (float(np.average(part[counts], weights=weight[counts])) for part in values.T)
    return low, high


def result_of(search: Search, weight: Vector, groups: NDArray[Any] | None = None) -> LeaveOneOut:
    """Return what a search has found."""
    fitted, bounds = search.expansion.fitted, search.bounds
    mean = mean_bounds(bounds.loss, weight)
    error: tuple[float, float] | None = None
    log_loss: tuple[float, float] | None = None
    deviance: tuple[float, float] | None = mean
    y = fitted.y
    if fitted.loss.classification:
        wrong = np.stack([bounds.is_wrong, bounds.is_wrong | bounds.is_open], axis=1)
        error, log_loss, deviance = mean_bounds(wrong.astype(np.float64), weight), mean, None
        y = class_codes(fitted)
    at_fit = fitted.scores
    if fitted.n_classes > 1:
        at_fit = at_fit - at_fit.mean(axis=1, keepdims=True)
    return LeaveOneOut(
        bounds.score, bounds.lower, bounds.upper, bounds.is_open, error, log_loss, deviance,
        bounds.loss, bounds.margin, at_fit, bounds.tier, y, weight, fitted.classes, groups,
    )  # fmt: skip
