"""The value of ``C`` by leave-one-out: one fit for each, and a proof of which is best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.threads import limit_blas, thread_map
from antithetic.estimators.logistic import LogisticProblem, LogisticRegression
from antithetic.exact.linear_algebra import NotDefiniteError
from antithetic.exact.path import Solved
from antithetic.inference.fitted import Fitted, read_fitted
from antithetic.inference.leave_one_out import (
    Search,
    codes_of_groups,
    losses_at,
    refuse_size,
    work_of,
)

_MOST_WORK = 1e9  # operations: some tenths of a second for a C in each tier, to prove which is best
_MOST_FITS = 200
_TIERS = (1, 3, 4)  # those of `Search.improve`; tier 2 gains little on 3 here, and costs a third


@dataclass(frozen=True, slots=True, eq=False)
class LeaveOneOutChoice:
    """How ``LogisticRegressionCV(cv="loo")`` chose ``C``.

    Attributes
    ----------
    Cs : ndarray of shape (n_cs,)
    C : float
        That of the fit.
    best : float
        The one with the least log loss.
    log_loss : ndarray of shape (n_cs,)
        Weighted mean of the rows' leave-one-out log losses.
    log_loss_bounds : ndarray of shape (n_cs, 2)
        It is proved to lie between these.
    difference, standard_error : ndarray of shape (n_cs,)
        Of the rows' log losses from those with ``best``: the mean, and its standard error (of
        the groups, if there are any). What differs by less cannot be told apart by these data.
    proved : bool
        Whether the bounds prove that no other value in ``Cs`` has a smaller loss than ``best``.
    overlapping : ndarray
        Values of ``C`` for which they do not.
    rule : str
        "best", or "1se".
    """

    Cs: NDArray[np.float64]
    C: float
    best: float
    log_loss: NDArray[np.float64]
    log_loss_bounds: NDArray[np.float64]
    difference: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    proved: bool
    overlapping: NDArray[np.float64]
    rule: str

    def __repr__(self) -> str:
        lines = [f"C={self.C:g} by leave-one-out log loss (rule {self.rule!r})"]
        lines.append(f"{'C':>10}  log loss  {'between':^21}  above the best, +- standard error")
        rows = zip(
            self.Cs, self.log_loss, self.log_loss_bounds, self.difference, self.standard_error,
            strict=True,
        )  # fmt: skip
        for C, loss, (low, high), apart, error in rows:
            lines.append(
                f"{C:>10.4g}  {loss:.6f}  {low:.6f} to {high:.6f}  {apart:.6f} +- {error:.6f}"
            )
        others = ", ".join(f"{C:g}" for C in self.overlapping)
        lines.append(
            f"C={self.best:g} has the least log loss: proved"
            if self.proved
            else f"C={self.best:g} has the least log loss as far as computed; not proved"
            f" against C={others}"
        )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class LeftOutPath:
    """Leave-one-out scores of the fits along ``C``.

    Attributes
    ----------
    choice : LeaveOneOutChoice
    scores : ndarray of shape (n_folds, 1, n_cs)
        Negative log losses of the rows; of the groups, their weighted means.
    bounds : ndarray of shape (2, n_folds, 1, n_cs)
    """

    choice: LeaveOneOutChoice
    scores: NDArray[np.float64]
    bounds: NDArray[np.float64]


def choose_by_leave_one_out(
    fits: list[Solved],
    Cs: NDArray[np.float64],
    problem: LogisticProblem,
    weight: NDArray[np.float64] | None,
    *,
    groups: Any,
    rule: str,
    threads: int,
) -> LeftOutPath:
    """Compare fits by the log loss of each row in a fit without it.

    Parameters
    ----------
    fits : list of Solved
        Of all rows, one for each of ``Cs``.
    weight : ndarray of shape (n,) or None
        Which means are weighted by; those of the problem are multiplied with those of the classes.
    """
    fitted = [_fitted(fit, float(C), problem) for fit, C in zip(fits, Cs, strict=True)]
    refuse_size(fitted[0])
    codes, _ = codes_of_groups(groups, fitted[0])
    with limit_blas(1), thread_map(min(threads, len(fitted))) as run:
        paths = _Paths(run(lambda one: _search(one, codes), fitted), fitted, _Means(weight, codes))
        best = paths.prove()
    return paths.chosen(Cs, best, rule)


def _fitted(fit: Solved, C: float, problem: LogisticProblem) -> Fitted:
    model, data = LogisticRegression(C=C, fit_intercept=problem.setting.fit_intercept), problem.data
    model.classes_, model.coef_, model.intercept_ = problem.classes, fit.coef, fit.intercept
    model.gap_ = fit.gap
    return read_fitted(model, data.X, data.y, sample_weight=data.weight)


def _search(fitted: Fitted, codes: NDArray[np.intp] | None) -> Search | None:
    """Bound the losses by the leverages; None if there is no optimum."""
    try:
        search = Search.of(fitted, codes)
    except NotDefiniteError:
        return None
    is_proved = fitted.penalty.any() or np.isfinite(search.expansion.distance)
    return search if is_proved else None


@dataclass(frozen=True, slots=True, eq=False)
class _Means:
    """Weighted means over the rows, and where their folds are.

    Attributes
    ----------
    weight : ndarray of shape (n,) or None
    codes : ndarray of shape (n,) or None
        Numbers of the groups.
    """

    weight: NDArray[np.float64] | None
    codes: NDArray[np.intp] | None

    def of(self, values: NDArray[np.float64]) -> float:
        """Return the weighted mean; rows of weight zero do not count, whatever their value."""
        if self.weight is None:
            return float(values.mean())
        counts = self.weight > 0.0
        return float(np.average(values[counts], weights=self.weight[counts]))

    def error_of(self, values: NDArray[np.float64]) -> float:
        """Return the standard error of the mean of independent rows, or of independent groups."""
        weight = np.ones(len(values)) if self.weight is None else self.weight
        with np.errstate(invalid="ignore"):
            apart = weight * (values - self.of(values))
        apart[weight == 0.0] = 0.0
        if self.codes is not None:
            apart = np.asarray(np.bincount(self.codes, apart), dtype=np.float64)
            count = len(np.unique(self.codes[weight > 0.0]))
        else:
            count = int(np.count_nonzero(weight))
        if count < 2:
            return np.nan
        return float(np.sqrt(count / (count - 1.0) * np.sum(apart**2)) / weight.sum())

    def by_fold(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of the rows, or weighted means of the groups."""
        if self.codes is None:
            return values
        weight = np.ones(len(values)) if self.weight is None else self.weight
        counts, sizes = np.bincount(self.codes, weight), np.bincount(self.codes)
        shares = np.where(counts[self.codes] > 0.0, weight, 1.0)  # a group of no weight
        with np.errstate(invalid="ignore"):
            terms = np.where(shares > 0.0, shares * values, 0.0)
        return np.bincount(self.codes, terms) / np.where(counts > 0.0, counts, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class _Paths:
    """Searches along ``C``."""

    searches: list[Search | None]
    fitted: list[Fitted]
    means: _Means

    def losses(self, number: int) -> NDArray[np.float64]:
        """Return log losses at the scores found, and bounds on them, shape (n, 3)."""
        search = self.searches[number]
        if search is None:
            n = self.fitted[number].n
            return np.stack([np.full(n, np.inf), np.zeros(n), np.full(n, np.inf)], axis=1)
        return np.column_stack([losses_at(search), search.bounds.loss])

    def table(self) -> NDArray[np.float64]:
        """Return mean losses, and bounds on them, shape (n_cs, 3)."""
        found = []
        for number in range(len(self.fitted)):
            losses = self.losses(number)
            found.append([self.means.of(losses[:, part]) for part in range(3)])
        return np.array(found)

    def prove(self) -> int:
        """Refine what decides which mean is least; return its number."""
        for tier in _TIERS:
            table = self.table()
            best = int(table[:, 0].argmin())
            others = _overlapping(table, best)
            if not len(others):
                break
            apart = np.abs(table[others, 0] - table[best, 0])
            for number, goal in [*zip(others, apart, strict=True), (best, apart.min())]:
                self._refine(int(number), tier, goal / 4.0)
        return int(self.table()[:, 0].argmin())

    def _refine(self, number: int, tier: int, goal: float) -> None:
        """Refine the widest intervals until those left make the mean's narrower than the goal."""
        search = self.searches[number]
        if search is None:
            return
        weight = self.means.weight
        width = search.bounds.width() * (1.0 if weight is None else weight)
        if weight is not None:
            width[weight == 0.0] = 0.0
        total = float(len(width) if weight is None else weight.sum())
        order = np.argsort(width)
        is_narrow = np.zeros(len(width), dtype=bool)
        is_narrow[order] = np.cumsum(width[order]) <= goal * total
        most = max(1, int(_MOST_WORK / work_of(self.fitted[number])))
        if tier == 4:
            most = _MOST_FITS
        if np.count_nonzero(~is_narrow) > most:  # then only those that make the mean infinite
            is_narrow = np.isfinite(width)
        if np.count_nonzero(~is_narrow) > most:
            return
        search.improve(
            tier,
            [np.flatnonzero(~is_narrow[members].all(axis=1)) for members in search.clusters],
        )

    def chosen(self, Cs: NDArray[np.float64], best: int, rule: str) -> LeftOutPath:
        """Choose by the rule, and say what is proved."""
        table = self.table()
        losses = [self.losses(number) for number in range(len(Cs))]
        difference, error = np.zeros(len(Cs)), np.zeros(len(Cs))
        for number, found in enumerate(losses):
            with np.errstate(invalid="ignore"):
                apart = found[:, 0] - losses[best][:, 0]
                difference[number] = self.means.of(apart)
                error[number] = self.means.error_of(apart)
        place = best
        if rule == "1se":
            with np.errstate(invalid="ignore"):
                good = np.flatnonzero((difference <= error) | (np.arange(len(Cs)) == best))
            place = int(good[Cs[good].argmin()])
        others = _overlapping(table, best)
        choice = LeaveOneOutChoice(
            Cs, float(Cs[place]), float(Cs[best]), table[:, 0], table[:, 1:], difference, error,
            not len(others), Cs[others], rule,
        )  # fmt: skip
        of_folds = [[self.means.by_fold(-found[:, part]) for found in losses] for part in (0, 2, 1)]
        scores, least, most = (np.stack(part, axis=1)[:, None, :] for part in of_folds)
        return LeftOutPath(choice, scores, np.stack([least, most]))


def _overlapping(table: NDArray[np.float64], best: int) -> NDArray[np.intp]:
    """Return the numbers of the others whose mean loss may be below that of the best."""
    is_other = np.arange(len(table)) != best
    return np.flatnonzero((table[:, 1] < table[best, 2]) & is_other)
