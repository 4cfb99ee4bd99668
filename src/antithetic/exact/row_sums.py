"""Sums over the rows of a problem that second-order solvers need."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.blas import dtrmm

from antithetic._core import kernels
from antithetic._core.losses import LOG_LOSS, SQUARED_ERROR
from antithetic._util.threads import add_up, in_shares, threads_worth
from antithetic.exact.linear_algebra import Factor
from antithetic.exact.sums import (
    Evaluation,
    Leverage,
    Restored,
    Vector,
    Visit,
    diagonal_of,
    effective_rows,
    hessian_visits,
    left_of,
    line_of,
    no_step,
    rounding_of,
)
from antithetic.problem.columns import Columns
from antithetic.problem.constant import best_constant
from antithetic.problem.objective import Problem
from antithetic.problem.penalties import Penalty
from antithetic.problem.sampling import DrawShares, importance_of

_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
_NO_SURPLUS = 8.0 * float(np.finfo(np.float64).eps)  # of the mean slope: a sum that is zero
_ENTRIES_AT_ONCE = 1 << 18  # of a block of rows whose products are added to a Hessian
_ENTRIES_IN_CACHE = 1 << 16  # of a block that is visited several times
_MOST_CORRECTIONS = 8  # of the slopes of a sample, for one bound
ENTRIES_PER_THREAD = 1 << 18  # less work than this is done before a thread has started
_Totals = tuple[float, float, float, float]
_NOTHING = np.empty(0)


class RowSums:
    """Sums over the rows of a problem.

    Parameters
    ----------
    problem : Problem
    centre : ndarray of shape (d,) or None
        What is subtracted from each column; None without an intercept.
    threads : int, default=1
    seen : Columns or None, default=None
        What the first pass has seen, whose means are the centre if there is an intercept. Samples
        need it.
    """

    most_sampled = np.inf

    def __init__(
        self,
        problem: Problem,
        centre: Vector | None,
        threads: int = 1,
        seen: Columns | None = None,
    ) -> None:
        self.problem, self.centre, self.seen = problem, centre, seen
        self.n, self.d, self.fit_intercept = problem.n, problem.d, problem.fit_intercept
        self.loss, self.penalty = problem.loss, problem.penalty
        self.is_quadratic = problem.loss.code == SQUARED_ERROR
        self.is_single = problem.X.dtype == np.float32
        entries = problem.X.nnz if sparse.issparse(problem.X) else problem.X.size
        self.threads = int(min(threads, max(1, entries // ENTRIES_PER_THREAD)))
        self._targets, self.size = problem.targets, effective_rows(problem.n, problem.weight)
        self._importance: DrawShares | None = None
        self._judged: tuple[Any, Vector, Vector] | None = None

    @property
    def hessian_visits(self) -> float:
        """What a Hessian of all rows costs, in visits to them."""
        return hessian_visits(self.d)

    @property
    def columns(self) -> int:
        """Length of a point: columns and, if there is one, the intercept."""
        return self.d + self.fit_intercept

    def with_penalty(self, penalty: Penalty) -> RowSums:
        """The same rows with another penalty."""
        other = copy.copy(self)  # what is known of the rows is shared
        other.penalty = penalty
        return other

    def split(self, theta: Vector) -> tuple[Vector, float]:
        """Weights and the user's intercept."""
        if not self.fit_intercept:
            return theta, 0.0
        coef = theta[:-1]
        assert self.centre is not None
        return coef, float(theta[-1] - self.centre @ coef)

    def join(self, coef: Vector, intercept: float) -> Vector:
        """Evaluation of some weights and the user's intercept."""
        if not self.fit_intercept:
            return np.array(coef, dtype=np.float64)
        assert self.centre is not None
        return np.append(coef, intercept + self.centre @ coef)

    def given_back(self, theta: Vector) -> Vector:
        """Weights as the user gets them.

        The intercept of columns far from zero is rounded, and weights of float32 rows are float32.
        """
        coef, intercept = self.split(theta)
        kind = self.problem.X.dtype.type
        return self.join(coef.astype(kind), float(kind(intercept)))

    def regauged(self, point: Evaluation) -> Evaluation:
        """Return the point itself: each weight changes predictions."""
        return point

    def refined(self) -> None:
        """Products are those of float64."""

    def constant(self) -> tuple[float, float]:
        """Best prediction without weights, and its mean loss."""
        return self._constant

    @cached_property
    def _constant(self) -> tuple[float, float]:
        if not self.fit_intercept:
            return 0.0, self.problem.loss_at_zero()
        return best_constant(self.loss, self.problem.y, self.problem.weight)

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient, in one pass over the rows."""
        scores, gradient = np.empty(self.n), np.empty(len(theta))
        coef, intercept = self.split(theta)
        totals = self.problem.rows.evaluate(
            self._targets,
            self.loss.code,
            self.loss.epsilon,
            np.ascontiguousarray(coef),
            intercept,
            _NOTHING,  # slopes and curvatures of the rows
            _NOTHING,
            scores,
            gradient[: self.d],
            self.threads,
        )
        self.average(gradient, totals[1])
        return evaluation(self, theta, totals, gradient)._replace(scores=scores)

    def rounding(self, point: Evaluation) -> float:
        """Estimate the rounding error of the objective, generously.

        Predictions lose most if columns are far from zero: a large intercept then makes up for
        them.
        """
        coef, intercept = self.split(point.theta)
        offset = abs(intercept)
        if self.centre is not None:
            offset += float(np.abs(coef) @ np.abs(self.centre))
        slope = float(np.abs(self.judged(point)[0]).mean()) if offset else 0.0
        return _ROUNDING * (abs(point.objective) + slope * offset)

    def judged(self, point: Evaluation) -> tuple[Vector, Vector]:
        """Weighted slopes and curvatures of the rows at a point; the last ones are kept."""
        if self._judged is None or self._judged[0] is not point.scores:
            slopes, curvatures = np.empty(self.n), np.empty(self.n)
            kernels.bend_predictions(
                self._targets, self.loss.code, self.loss.epsilon, point.scores, slopes, curvatures
            )
            self._judged = point.scores, slopes, curvatures
        return self._judged[1:]

    def after(self, point: Evaluation, step: Vector) -> Visit:
        """Objective and gradient at the end of a step, and what its model expected there."""
        theta, scores, sums = point.theta + step, np.empty(self.n), np.empty((2, self.d))
        coef, intercept = self.split(theta)
        found = self.problem.rows.visit_after_step(
            self.problem.targets,
            self.loss.code,
            self.loss.epsilon,
            np.ascontiguousarray(coef),
            intercept,
            point.scores,
            scores,
            sums,
            self.threads,
        )
        totals, (slope, square) = found[:4], found[4:]
        gradient, expected = np.empty(len(theta)), np.empty(len(theta))
        gradient[: self.d], expected[: self.d] = sums
        self.average(gradient, totals[1])
        self.average(expected, slope)
        after = evaluation(self, theta, totals, gradient)._replace(scores=scores)
        return Visit(after, step, expected, square / self.n)

    def stay(self, point: Evaluation) -> Visit:
        """Return the visit of a step of length zero, which expects the slopes of the point."""
        return no_step(self.d, self.penalty, point)

    def between(self, point: Evaluation, visit: Visit, length: float) -> Evaluation:
        """Objective and gradient some way along a step, in one pass over the rows."""
        return self.at(point.theta + length * visit.step)

    def line(self, point: Evaluation, visit: Visit) -> Callable[[float], tuple[float, float]]:
        """Return what gives the objective and its slope some way along a step, without a visit."""

        def loss(length: float) -> tuple[float, float]:
            total, slope = kernels.loss_along(
                self._targets,
                self.loss.code,
                self.loss.epsilon,
                point.scores,
                visit.after.scores,
                length,
            )
            return total / self.n, slope / self.n

        return line_of(self.d, self.penalty, point, visit, loss)

    def dual_points(self, point: Evaluation, visit: Visit) -> Iterator[Restored]:
        """Yield slopes near those that a step expects, those first that need no visit.

        They sum to zero if there is an intercept, up to rounding. Their cost may be infinite.
        """
        gradient = visit.expected[: self.d]
        surplus = float(visit.expected[-1]) if self.fit_intercept else 0.0
        slopes, curvatures = self.judged(point)
        if abs(surplus) <= _NO_SURPLUS * float(np.abs(slopes).mean()):
            yield Restored(gradient, {})
            return
        sided = numbers_in_slopes(self, 1 if surplus > 0.0 else -1)
        if sided is not None:
            yield from scaled_numbers(gradient, surplus, *sided)
        curved = float(curvatures.mean())
        if curved > 0.0:  # the intercept moves to where the quadratic model is smallest
            shift, bent = -surplus / curved, np.empty(self.columns)
            self.problem.rows.combine(curvatures, bent[: self.d], self.threads)
            self.average(bent, curved * self.n)
            yield Restored(gradient + shift * bent[: self.d], {"shift": shift})
        if sided is not None:
            return
        slopes = self.expected_slopes(point, visit)
        up, down = float(np.maximum(slopes, 0.0).sum()), -float(np.minimum(slopes, 0.0).sum())
        smaller = min(up, down)
        how = {
            "up": smaller / up if up > 0.0 else 1.0,
            "down": smaller / down if down > 0.0 else 1.0,
        }
        slopes *= np.where(slopes > 0.0, how["up"], how["down"])
        moved = np.empty(self.d)
        self.problem.rows.combine(slopes, moved, self.threads)
        assert self.centre is not None
        moved -= float(slopes.sum()) * self.centre
        yield Restored(moved / self.n, how)

    def expected_slopes(self, point: Evaluation, visit: Visit) -> Vector:
        """Weighted slopes that a step expects at its end, cut to what the loss allows."""
        slopes = np.empty(self.n)
        self._cost(point, visit, {}, slopes)
        return slopes

    def restored_cost(
        self, point: Evaluation, visit: Visit, restored: Restored, kept: float = 1.0
    ) -> float:
        """Mean cost of a dual point, and of all of its slopes times a factor."""
        return self._cost(point, visit, restored.how | {"kept": kept}, np.empty(0)) / self.n

    def _cost(self, point: Evaluation, visit: Visit, how: Any, slopes: Vector) -> float:
        return kernels.dual_cost(
            self.problem.targets,
            self.loss.code,
            self.loss.epsilon,
            point.scores,
            visit.after.scores,
            kernels.Restoration(**how),
            slopes,
        )

    @cached_property
    def of_positive(self) -> Vector:
        """Mean of centred rows, times their target if it is positive: one visit."""
        return self._mean_of(np.maximum(self.problem.y, 0.0))

    @cached_property
    def of_all(self) -> Vector:
        """Mean of the rows, of centred columns: zero if the centre is their mean."""
        return self._mean_of(np.ones(self.n)) if self.seen is None else np.zeros(self.d)

    def _mean_of(self, numbers: Vector) -> Vector:
        """Weighted mean of centred rows, each times a number."""
        numbers = numbers if self.problem.weight is None else numbers * self.problem.weight
        mean = np.empty(self.d)
        self.problem.rows.combine(numbers, mean, self.threads)
        assert self.centre is not None
        return np.asarray((mean - float(numbers.sum()) * self.centre) / self.n)

    @cached_property
    def shares(self) -> tuple[float, float]:
        """Mean weight of the rows, and mean weighted target, zero for those below."""
        y, weight = self.problem.y, self.problem.weight
        if weight is None:
            return 1.0, float(np.maximum(y, 0.0).mean())
        return float(weight.mean()), float((weight * np.maximum(y, 0.0)).mean())

    def average(self, sums: Vector, constant: float) -> None:
        """Divide sums over rows by their number, and centre them if there is a centre."""
        if not self.fit_intercept:
            sums /= self.n
            return
        assert self.centre is not None
        sums[-1] = constant
        sums /= self.n
        sums[:-1] -= (constant / self.n) * self.centre

    def times(self, point: Evaluation, vector: Vector, *, damping: float = 0.0) -> Vector:
        """Product of the Hessian with a vector: one pass over the rows."""
        along, constant = self.split(vector)
        product = np.empty(len(vector))
        total = self.problem.rows.gram_product(
            self._curvatures(point, damping),
            np.ascontiguousarray(along),
            constant,
            product[: self.d],
            self.threads,
        )
        self.average(product, total)
        product[: self.d] += self.penalty.l2 * along
        return product

    def diagonal(self, point: Evaluation, *, damping: float = 0.0) -> Vector:
        """Diagonal of :meth:`hessian`: two passes over the rows, one without an intercept."""
        weight, squares = self._curvatures(point, damping), np.zeros(self.d)
        self.problem.rows.weighted_squares(weight, squares)
        if self.centre is not None:
            sums, total = np.zeros(self.d), float(weight.sum())
            self.problem.rows.combine(weight, sums, self.threads)
            squares += self.centre * (self.centre * total - 2.0 * sums)
            squares = np.append(squares, total)
        squares /= self.n
        squares[: self.d] += self.penalty.l2
        return squares

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each column: its mean square where it is not zero, in curvature.

        How often a column is zero does not change its unit, nor does a row of weight zero.
        """
        problem, weight = self.problem, float(self.judged(point)[1].mean())
        X, scales = problem.X, np.full(len(point.theta), weight)
        counted = np.ones(self.n) if problem.weight is None else np.sign(problem.weight)
        squares = np.zeros(self.d)
        problem.rows.weighted_squares(counted, squares)
        if sparse.issparse(X):
            squares /= np.maximum(1, np.bincount(X.indices, minlength=self.d))
        else:
            squares /= counted.sum()
            if self.centre is not None:
                squares = np.maximum(squares - self.centre**2, 1e-6 * squares)
        scales[: self.d] = weight * squares + self.penalty.l2
        return scales

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Matrix of second derivatives; products of float32 unless it is to be exact.

        ``damping`` is a share of the curvatures of parabolas above each row's loss, which rows have
        at least: with 1, the matrix is that of a quadratic function above the objective.
        """
        return self.gram(self._curvatures(point, damping), exact=exact)

    def gram(self, weight: Vector, *, exact: bool = False) -> Vector:
        """Weighted mean of the rows' products, and the curvature of the penalty."""
        if not sparse.issparse(self.problem.X):
            hessian = self._gram_of_columns(weight, is_single=not exact)
        elif self.has_few_pairs:
            hessian = self._gram_of_pairs(weight)
        else:
            hessian = self._gram_of_blocks(weight, np.float64 if exact else np.float32)
        if not exact and not np.isfinite(hessian).all():
            return self.gram(weight, exact=True)
        hessian /= self.n
        diagonal_of(hessian)[: self.d] += self.penalty.l2
        return hessian

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        damping: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some columns, and the intercept."""
        problem = self.problem
        part = Problem(
            problem.X[:, columns],
            problem.y,
            problem.loss,
            self.penalty,
            problem.weight,
            problem.fit_intercept,
            problem.classes,
        )
        centre = None if self.centre is None else self.centre[columns]
        return RowSums(part, centre, self.threads).gram(
            self._curvatures(point, damping), exact=exact
        )

    def rounded_diagonal(self, hessian: Vector) -> Vector:
        """Diagonal of the sums of products that an exact Hessian was rounded in.

        Sums over sparse rows may have been centred at the end.
        """
        return uncentred_diagonal(self, hessian, is_sparse=sparse.issparse(self.problem.X))

    def largest_leverage(self, point: Evaluation, root: Vector) -> Leverage:
        """Visit the rows in float64, with a lower triangle whose square is near an inverse."""
        coef, intercept = self.split(point.theta)
        weight = np.ones(self.n) if self.problem.weight is None else self.problem.weight
        turned, at_once = np.asfortranarray(root), max(1, _ENTRIES_IN_CACHE // self.columns)
        offset = abs(intercept)  # what the user's weights and those of centred columns differ by
        if self.centre is not None:
            offset += float(np.abs(coef) @ np.abs(self.centre))
        product = rounding_of(self.columns)
        total = rounding_of(at_once + self.n / at_once)

        def sums(starts: Sequence[int]) -> tuple[Vector, Vector, Vector]:
            # gradient, its rounding, and (largest leverage, largest error of scores, residuals)
            gradient, rounding = np.zeros(self.columns), np.zeros(self.columns)
            seen, tables = np.zeros((len(starts), 3)), np.empty((2, at_once, self.columns))
            for number, start in enumerate(starts):
                part = slice(start, min(self.n, start + at_once))
                rows, y, counts = self._centred(part, tables), self.problem.y[part], weight[part]
                scores = rows.times(point.theta)
                sizes = rows.sizes()
                wrong = product * (sizes.times(np.abs(point.theta)) + offset)
                slopes = counts * self.loss.slope(y, scores)
                curvatures = counts * self.loss.curvature(y, scores)
                gradient += rows.gathered(slopes)
                rounding += sizes.gathered(total * np.abs(slopes) + wrong * curvatures)
                pearson = 0.0
                if not self.loss.has_known_dispersion:
                    pearson = float(counts @ self.loss.pearson(y, scores))
                leverage, is_counted = rows.squares(turned), counts > 0.0
                seen[number, 0] = leverage.max(initial=0.0, where=is_counted)
                seen[number, 1:] = wrong.max(initial=0.0, where=is_counted), pearson
            return gradient, rounding, np.append(seen[:, :2].max(axis=0), seen[:, 2].sum())

        work = float(self.n) * self.columns**2
        found = in_shares(
            sums, range(0, self.n, at_once), threads_worth(self.threads, work, self.columns)
        )
        gradient, rounding = (np.sum([one[k] for one in found], axis=0) / self.n for k in (0, 1))
        largest, of_scores, _ = np.max([one[2] for one in found], axis=0)
        pearson = sum(float(one[2][2]) for one in found) / self.n
        return Leverage(float(largest), gradient, rounding, float(of_scores), pearson)

    def _centred(self, part: slice, tables: Vector) -> _CentredRows:
        """Some rows in float64, in the first of two tables if they are dense."""
        if sparse.issparse(self.problem.X):
            rows = self.problem.X[part].astype(np.float64)
            return _CentredRows(rows, self.centre, self.columns)
        used = tables[:, : part.stop - part.start]
        centre = 0.0 if self.centre is None else self.centre
        np.subtract(self.problem.X[part], centre, out=used[0, :, : self.d], dtype=np.float64)
        used[0, :, self.d :] = 1.0
        return _CentredRows(used[0], None, self.columns, used[1])

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:
        """Curvature along a vector of a function above the mean loss: one pass over the rows."""
        along = self.problem.predictions(*self.split(vector))
        with np.errstate(over="ignore"):
            return float(self.curvatures_above(point) @ (along * along)) / self.n

    def _curvatures(self, point: Evaluation, damping: float) -> Vector:
        """Curvatures of the rows, at least a share of those of parabolas above their losses."""
        curvatures = self.judged(point)[1]
        return (
            curvatures
            if damping == 0.0
            else np.maximum(curvatures, damping * self.curvatures_above(point))
        )

    def curvatures_above(self, point: Evaluation) -> Vector:
        """Curvatures of parabolas that touch each row's loss and are nowhere below it."""
        problem = self.problem
        above = self.loss.curvatures_above(problem.y, point.scores)
        return above if problem.weight is None else above * problem.weight

    @cached_property
    def has_few_pairs(self) -> bool:
        """Whether products of stored entries are less work than products of full rows."""
        lengths = np.diff(self.problem.X.indptr).astype(np.float64)
        return bool(16.0 * float(lengths @ lengths) < self.n * float(self.d) ** 2)

    def _gram_of_pairs(self, weight: Vector) -> Vector:
        d, D = self.d, self.d + self.fit_intercept
        gram = np.zeros((d, d))
        self.problem.rows.gram(weight, gram)
        whole = np.empty((D, D))
        np.add(gram, gram.T, out=whole[:d, :d])
        diagonal_of(whole)[:d] *= 0.5
        if self.fit_intercept:
            assert self.centre is not None
            sums, total = np.empty(d), float(weight.sum())
            self.problem.rows.combine(weight, sums, self.threads)
            whole[:d, :d] -= np.outer(self.centre, sums) + np.outer(
                sums - total * self.centre, self.centre
            )
            whole[:d, d] = whole[d, :d] = sums - total * self.centre
            whole[d, d] = total
        return whole

    def _gram_of_columns(self, weight: Vector, *, is_single: bool) -> Vector:
        """Weighted sums of the products of dense columns, in one visit to the rows."""
        centre = np.zeros(self.d) if self.centre is None else self.centre
        gram = np.zeros((self.columns, self.columns))
        self.problem.rows.squares(
            np.empty(0), weight, centre, 0.0, self.fit_intercept, is_single, gram, self.threads
        )
        gram *= self.n
        return gram

    def _gram_of_blocks(self, weight: Vector, kind: Any) -> Vector:
        """Make sparse rows dense, some at a time."""
        D, rows = self.columns, self.problem.rows
        roots, centre = np.sqrt(weight), np.empty(0) if self.centre is None else self.centre
        at_once = max(1, min(self.n, _ENTRIES_AT_ONCE // max(1, D)))
        if at_once == self.n:
            block = np.empty((self.n, D), dtype=kind)
            rows.weigh_rows(roots, centre, 0, block, 1)
            with np.errstate(over="ignore", invalid="ignore"):
                return (block.T @ block).astype(np.float64, copy=False)

        def sums(starts: Sequence[int]) -> tuple[Vector]:
            buffer = np.empty((at_once, D), dtype=kind)
            gram = np.empty((0, 0))
            for start in starts:
                block = buffer[: self.n - start]
                rows.weigh_rows(roots, centre, start, block, 1)
                products = block.T @ block
                if start != starts[0]:
                    gram += products
                else:
                    gram = products.astype(np.float64, copy=False)
            return (gram,)

        starts = range(0, self.n, at_once)
        with np.errstate(over="ignore", invalid="ignore"):
            (gram,) = add_up(sums, starts, self.threads, self.n * float(D) ** 2, D**2)
        return gram

    def samples(self, sizes: Sequence[float], seed: int) -> list[RowSample]:
        """Draw samples of about these many rows, by importance."""
        return [RowSample(self, size, seed) for size in sizes]

    def importance(self, seed: int) -> DrawShares:
        """Return how likely rows are drawn, which samples of all sizes share."""
        if self._importance is None:
            assert self.seen is not None
            self._importance = importance_of(self.problem, self.seen, seed)
        return self._importance


def numbers_in_slopes(sums: Any, way: int) -> tuple[int, float, Vector] | None:
    """Return the sign of a - b in slopes with positive numbers a and b, if they have these.

    With the mean of b, and that of the centred rows times b. In a slope of a class, a is its
    probability and b is 0 or 1; in Poisson's a mean and a count; in gamma's they are the target in
    units of the mean, with the sign changed, and 1. Which class that is tells the ``way``.

    Parameters
    ----------
    sums : RowSums, or others that have ``shares``, ``of_all`` and ``of_positive``
    way : int
        1 or -1.
    """
    (total, positive), power = sums.shares, sums.loss.epsilon
    if sums.loss.code == LOG_LOSS and way < 0:
        return -1, total - positive, sums.of_all - sums.of_positive
    if sums.loss.code == LOG_LOSS or (sums.loss.has_log_link and power == 1.0):
        return 1, positive, sums.of_positive
    if sums.loss.has_log_link and power == 2.0:
        return -1, total, sums.of_all
    return None


def scaled_numbers(
    gradient: Vector, surplus: float, side: int, total: float, rows: Vector
) -> Iterator[Restored]:
    """Yield slopes whose numbers on one side are scaled so that they sum to zero, if that can be.

    The last three arguments are what :func:`numbers_in_slopes` returns.
    """
    current = total + side * surplus
    if current > 0.0:
        factor = total / current
        moved = factor * gradient + (factor - 1.0) * side * rows
        yield Restored(moved, {"factor": factor, "side": side})


def uncentred_diagonal(sums: Any, hessian: Vector, *, is_sparse: bool) -> Vector:
    """Diagonal of a Hessian, or if rows are sparse that of columns that are not centred."""
    diagonal = hessian.diagonal()
    if sums.centre is None or not is_sparse:
        return diagonal
    total, centre, own = hessian[-1, -1], sums.centre, diagonal.copy()
    own[:-1] += centre * (2.0 * hessian[-1, :-1] + total * centre)
    return np.maximum(own, diagonal)


class _CentredRows(NamedTuple):
    """Some rows of centred columns, followed by 1 if there is an intercept.

    Attributes
    ----------
    rows : ndarray of shape (m, columns) or csr_array of shape (m, d)
    centre : ndarray of shape (d,) or None
        What is still to be subtracted from sparse rows, if there is an intercept.
    columns : int
    table : ndarray of shape (m, columns) or None
        Room for the sizes of dense rows.
    """

    rows: Any
    centre: Vector | None
    columns: int
    table: Vector | None = None

    def sizes(self) -> _CentredRows:
        """Return what bounds the size of each entry."""
        if self.table is not None:
            return self._replace(rows=np.abs(self.rows, out=self.table))
        centre = None if self.centre is None else -np.abs(self.centre)
        return self._replace(rows=abs(self.rows), centre=centre)

    def times(self, weights: Vector) -> Vector:
        """Products of the rows with a vector, or with the columns of a matrix."""
        d = self.rows.shape[1]
        found: Vector = self.rows @ weights[:d]
        return found if self.centre is None else found + (weights[d] - self.centre @ weights[:d])

    def gathered(self, values: Vector) -> Vector:
        """Sum of the rows times a value of each."""
        found: Vector = self.rows.T @ values
        if self.centre is None:
            return found
        total = float(values.sum())
        return np.append(found - total * self.centre, total)

    def squares(self, root: Vector) -> Vector:
        """Squared lengths of the products of a lower triangle with each row, which may be lost."""
        if sparse.issparse(self.rows):
            moved = self.times(np.ascontiguousarray(root.T))
            return np.asarray(np.einsum("ij,ij->i", moved, moved))
        moved = dtrmm(1.0, root, self.rows.T, lower=1, overwrite_b=1)
        return np.asarray(np.einsum("ji,ji->i", moved, moved))


class RowSample:
    """Rows drawn by importance from those of a problem, with the sums over them.

    Parameters
    ----------
    whole : RowSums
        Over all rows.
    size : float
    seed : int
    """

    def __init__(self, whole: RowSums, size: float, seed: int) -> None:
        problem = whole.problem
        self._whole, self._size, self._seed = whole, size, seed
        self.rows, self._probability = whole.importance(seed).draw(size)
        # means of these rows are those of all
        some = problem.take(self.rows, (max(1, len(self.rows)) / problem.n) / self._probability)
        self.sums = RowSums(some, whole.centre, whole.threads).with_penalty(whole.penalty)
        self.n = len(self.rows)

    def with_penalty(self, penalty: Penalty) -> RowSample:
        """Return the same rows with another penalty."""
        other = copy.copy(self)
        other.sums = self.sums.with_penalty(penalty)
        return other

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Return its matrix of second derivatives at a point of all rows."""
        assert point.scores is not None
        here = point._replace(scores=point.scores[self.rows])
        return self.sums.hessian(here, exact=exact, damping=damping)

    def inverse(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Factor:
        """Return the inverse of its matrix of second derivatives at a point of all rows."""
        return Factor(self.hessian(point, exact=exact, damping=damping))

    def tightened(self, point: Evaluation, visit: Visit) -> Iterator[Visit]:
        """Yield visits whose expected slopes, changed in these rows, prove more and more.

        See :mod:`antithetic.exact.certificate`. The slopes of a row are changed by another
        prediction at the end of the step.
        """
        assert point.scores is not None
        assert visit.after.scores is not None
        sums, here = self.sums, point._replace(scores=point.scores[self.rows])
        share = self._probability  # by which weights here are larger than those of all rows
        hessian: Vector = sums.gram(share * sums.judged(here)[1])
        if not np.isfinite(hessian).all():
            return
        predictions, expected = visit.after.scores.copy(), visit.expected

        def slopes() -> Vector:
            after = visit.after._replace(scores=predictions[self.rows])
            found: Vector = share * sums.expected_slopes(here, visit._replace(after=after))
            return found

        before, used, factor = slopes(), np.arange(sums.columns), Factor(hessian)
        for number in range(_MOST_CORRECTIONS):
            rho, columns = left_of(sums.d, sums.penalty, point.theta + visit.step, expected)
            if not (len(columns) and np.isfinite(rho).all()):
                return
            if not np.array_equal(columns, used):
                used, factor = columns, Factor(hessian[np.ix_(columns, columns)])
            change, mean = np.zeros(sums.columns), np.empty(sums.columns)
            change[columns] = -factor.solve(rho[columns])
            if not np.isfinite(change).all():
                return
            predictions[self.rows] += sums.problem.predictions(*sums.split(change))
            now = slopes()
            sums.problem.rows.combine(now - before, mean[: sums.d], sums.threads)
            sums.average(mean, float((now - before).sum()))
            expected, before = expected + mean, now
            if number % 2:  # every other one makes up for rounding of the Hessian
                after = visit.after._replace(scores=predictions.copy())
                yield visit._replace(after=after, expected=expected)

    def larger(self) -> RowSample | None:
        """Return a sample of twice as many rows; None if all rows cost little more."""
        if 2.0 * self._size > self._whole.n / 3.0:
            return None
        return RowSample(self._whole.with_penalty(self.sums.penalty), 2.0 * self._size, self._seed)


def evaluation(sums: RowSums, theta: Vector, totals: _Totals, gradient: Vector) -> Evaluation:
    """What a visit has found, with the penalty, which is added to the gradient."""
    (loss, _, square, curvature), l2 = totals, sums.penalty.l2
    objective, coef = loss / sums.n, theta[: sums.d]
    if l2:
        gradient[: sums.d] += l2 * coef
        objective += 0.5 * l2 * float(coef @ coef)
    noise = square / curvature if curvature > 0.0 else 0.0
    return Evaluation(theta, objective, gradient, noise)
