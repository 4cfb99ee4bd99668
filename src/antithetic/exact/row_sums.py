"""Sums over the rows of a problem that second-order solvers need."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._core.losses import LOG_LOSS, SQUARED_ERROR
from antithetic.exact.class_rows import effective_rows
from antithetic.exact.drawing import draw_places, rows_by_class, thin_out
from antithetic.exact.row_totals import evaluation, visit
from antithetic.exact.shared_sums import add_up
from antithetic.exact.sums import (
    Dual,
    Evaluation,
    Outcome,
    Vector,
    absolute_predictions,
    diagonal_of,
)
from antithetic.problem.constant import best_constant
from antithetic.problem.objective import Problem
from antithetic.problem.penalties import Penalty

_ENTRIES_AT_ONCE = 1 << 18  # of a block of rows whose products are added to a Hessian
_FEW_ROWS = 50.0  # a column whose square is mostly that of so few rows is rare
_LONG_ROWS = 10.0  # entries of a row from which on it pays to leave rows out of a Hessian
_ROWS_PER_COLUMN = 40  # that a Hessian needs
ENTRIES_PER_THREAD = 1 << 18  # less work than this is done before a thread has started


class RowSums:
    """Sums over the rows of a problem.

    Parameters
    ----------
    problem : Problem
    centre : ndarray of shape (d,) or None
        What is subtracted from each column; None without an intercept.
    threads : int, default=1
    """

    most_sampled = np.inf

    def __init__(self, problem: Problem, centre: Vector | None, threads: int = 1) -> None:
        self.problem, self.centre = problem, centre
        self.n, self.d, self.fit_intercept = problem.n, problem.d, problem.fit_intercept
        self.loss, self.penalty = problem.loss, problem.penalty
        self.is_quadratic = problem.loss.code == SQUARED_ERROR
        self.is_single = problem.X.dtype == np.float32
        entries = problem.X.nnz if sparse.issparse(problem.X) else problem.X.size
        self.threads = int(min(threads, max(1, entries // ENTRIES_PER_THREAD)))
        self._targets, self.size = problem.targets, effective_rows(problem.n, problem.weight)

    @property
    def columns(self) -> int:
        """Length of a point: columns and, if there is one, the intercept."""
        return self.d + self.fit_intercept

    def with_penalty(self, penalty: Penalty) -> RowSums:
        """The same rows with another penalty."""
        other = copy.copy(self)
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

    def constant(self) -> tuple[float, float]:
        """Best prediction without weights, and its mean loss."""
        if not self.fit_intercept:
            return 0.0, self.problem.loss_at_zero()
        return best_constant(self.loss, self.problem.y, self.problem.weight)

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient, in one pass over the rows."""
        slopes, curvatures = np.empty(self.n), np.empty(self.n)
        predictions = np.empty(0 if self.loss.code == LOG_LOSS else self.n)
        totals, gradient = visit(self, theta, slopes, curvatures, predictions)
        return evaluation(self, theta, totals, gradient)._replace(
            slopes=slopes, curvatures=curvatures, predictions=predictions
        )

    def average(self, sums: Vector, constant: float) -> None:
        """Divide sums over rows by their number, and centre them if there is a centre."""
        if not self.fit_intercept:
            sums /= self.n
            return
        assert self.centre is not None
        sums[-1] = constant
        sums /= self.n
        sums[:-1] -= (constant / self.n) * self.centre

    def times(self, point: Evaluation, vector: Vector) -> Vector:
        """Product of the Hessian with a vector: one pass over the rows."""
        assert point.curvatures is not None
        along, constant = self.split(vector)
        product = np.empty(len(vector))
        total = self.problem.rows.gram_product(
            point.curvatures,
            np.ascontiguousarray(along),
            constant,
            product[: self.d],
            self.threads,
        )
        self.average(product, total)
        product[: self.d] += self.penalty.l2 * along
        return product

    def diagonal(self, point: Evaluation, *, care: float = 0.0) -> Vector:
        """Diagonal of :meth:`hessian`: one pass over the rows."""
        squares = self._gram_diagonal(self._curvatures(point, care)) / self.n
        squares[: self.d] += self.penalty.l2
        return squares

    def _gram_diagonal(self, weight: Vector) -> Vector:
        """Weighted sums of the squares of centred columns."""
        sums, squares = np.zeros(self.d), np.zeros(self.d)
        self.problem.rows.weighted_squares(weight, squares)
        if not self.fit_intercept:
            return squares
        self.problem.rows.combine(weight, sums, self.threads)
        return self.centred_squares(sums, squares, float(weight.sum()))

    def centred_squares(self, sums: Vector, squares: Vector, total: float) -> Vector:
        """Sums of the squares of centred columns, from those of the columns as they are."""
        if self.centre is None:
            return squares
        return np.append(squares + self.centre * (self.centre * total - 2.0 * sums), total)

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each column: its mean square where it is not zero, in curvature.

        How often a column is zero does not change its unit, nor does a row of weight zero.
        """
        assert point.curvatures is not None
        problem, weight = self.problem, float(point.curvatures.mean())
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

    def hessian(self, point: Evaluation, *, exact: bool = False, care: float = 0.0) -> Vector:
        """Matrix of second derivatives; products of float32 unless it is to be exact.

        ``care`` is a share of the curvatures of parabolas above each row's loss, which rows have at
        least: with 1, the matrix is that of a quadratic function above the objective.
        """
        return self._gram(self._curvatures(point, care), exact)

    def _gram(self, weight: Vector, exact: bool) -> Vector:
        """Weighted mean of the rows' products, and the curvature of the penalty."""
        if sparse.issparse(self.problem.X) and self.has_few_pairs:
            some = None if exact else self._gram_of_some(weight)
            hessian = self._gram_of_pairs(weight) if some is None else some
        else:
            hessian = self._gram_of_blocks(weight, np.float64 if exact else np.float32)
            if not exact and not np.isfinite(hessian).all():
                hessian = self._gram_of_blocks(weight, np.float64)
        hessian /= self.n
        diagonal_of(hessian)[: self.d] += self.penalty.l2
        return hessian

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        care: float = 0.0,
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
        return RowSums(part, centre, self.threads)._gram(self._curvatures(point, care), exact)

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:
        """Curvature along a vector of a function above the mean loss: one pass over the rows."""
        along = self.problem.predictions(*self.split(vector))
        with np.errstate(over="ignore"):
            return float(self._above(point) @ (along * along)) / self.n

    def _curvatures(self, point: Evaluation, care: float) -> Vector:
        """Curvatures of the rows, at least a share of those of parabolas above their losses."""
        assert point.curvatures is not None
        if care == 0.0:
            return point.curvatures
        return np.maximum(point.curvatures, care * self._above(point))

    def _above(self, point: Evaluation) -> Vector:
        """Curvatures of parabolas that touch each row's loss and are nowhere below it."""
        problem, predictions = self.problem, point.predictions
        if self.loss.code == LOG_LOSS:
            predictions = absolute_predictions(point, problem.weight)
        assert predictions is not None
        above = self.loss.curvatures_above(problem.y, predictions)
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

    def _gram_of_some(self, weight: Vector) -> Vector | None:
        """The same from some of the rows, where that is much less work; None where it is not.

        A rare column may be in none of them, so the diagonal is at least that of all rows.
        """
        X = self.problem.X
        if X.nnz < _LONG_ROWS * self.n:
            return None
        kept, chances = thin_out(weight, _ROWS_PER_COLUMN * self.d)
        if 2 * len(kept) > self.n:
            return None
        some = np.zeros(self.n)
        some[kept] = weight[kept] / chances
        gram = self._gram_of_pairs(some)
        own = diagonal_of(gram)
        np.maximum(own, self._gram_diagonal(weight), out=own)
        return gram

    def _gram_of_blocks(self, weight: Vector, kind: Any) -> Vector:
        D, rows = self.columns, self.problem.rows
        roots, centre = np.sqrt(weight), np.empty(0) if self.centre is None else self.centre
        at_once = max(1, min(self.n, _ENTRIES_AT_ONCE // max(1, D)))

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

    def rare_columns(self, point: Evaluation) -> NDArray[np.bool_]:
        """Columns whose square is that of so few rows that others may have a larger one."""
        X = self.problem.X
        if sparse.issparse(X):
            return np.bincount(X.indices, minlength=self.d) < _FEW_ROWS
        assert point.curvatures is not None
        centre = np.zeros(self.d) if self.centre is None else self.centre
        total, squares = np.zeros(self.d), np.zeros(self.d)
        least, greatest = np.full(self.d, np.inf), np.full(self.d, -np.inf)
        self.problem.rows.column_sums(point.curvatures, centre, total, squares, least, greatest)
        mean = float(point.curvatures.mean())
        if mean == 0.0:  # every column has its curvature from rows that are not here
            return np.ones(self.d, dtype=bool)
        top = np.maximum(greatest - centre, centre - least)
        with np.errstate(over="ignore"):
            rare: NDArray[np.bool_] = _FEW_ROWS * mean * top * top > squares
        return rare

    def near_samples(
        self,
        solve: Callable[[RowSums], Outcome | None],
        size: int,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> Outcome | None:
        """Call a function with these rows: samples of any size can be drawn here."""
        return solve(self)

    def sample(self, size: int, seed: int) -> RowSums | None:
        """Rows drawn at random, evenly from the first to the last of each class.

        Fewer than five of a class are too few, and give None.
        """
        problem = self.problem
        if size >= self.n:
            return self
        parts = rows_by_class(problem)
        drawn = draw_places([len(part) for part in parts], size, seed)
        if drawn is None:
            return None
        chosen, factors = drawn
        rows = np.concatenate([part[places] for part, places in zip(parts, chosen, strict=True)])
        weight = None if problem.weight is None else problem.weight[rows]
        if factors[0] != 1.0:
            counted = np.repeat(factors, [len(places) for places in chosen])
            weight = counted if weight is None else counted * weight
        if weight is not None and not weight.any():
            return None
        some = Problem(
            problem.X[rows],
            problem.y[rows],
            problem.loss,
            self.penalty,
            weight,
            problem.fit_intercept,
            problem.classes,
        )
        return RowSums(some, self.centre, self.threads)

    def dual(self, point: Evaluation) -> Dual:
        """Slopes that sum to zero, as the dual of an intercept must, near those of the point.

        Without an intercept any slopes are allowed, and cost nothing.
        """
        if not self.fit_intercept:
            return Dual(point.gradient - self.penalty.l2 * point.theta, 0.0)
        slopes = point.slopes
        assert slopes is not None
        up, down = float(np.maximum(slopes, 0.0).sum()), -float(np.minimum(slopes, 0.0).sum())
        smaller = min(up, down)
        scales = (smaller / up if up > 0.0 else 1.0, smaller / down if down > 0.0 else 1.0)
        return self.scaled_dual(point, *scales)

    def scaled_dual(self, point: Evaluation, up: float, down: float) -> Dual:
        """Slopes of the point, with given factors for those above and below zero."""
        scaled, cost = self._scale(point, up, down)
        gradient = np.empty(self.d)
        self.problem.rows.combine(scaled, gradient, self.threads)
        if self.centre is not None:
            gradient -= float(scaled.sum()) * self.centre  # the sum of all is zero up to rounding
        return Dual(gradient / self.n, cost, up, down)

    def dual_cost(self, point: Evaluation, up: float, down: float) -> float:
        """What it costs to scale the slopes above and below zero by given factors."""
        return self._scale(point, up, down)[1]

    def _scale(self, point: Evaluation, up: float, down: float) -> tuple[Vector, float]:
        scaled, nothing = np.empty(self.n), np.empty(0)
        assert point.slopes is not None
        assert point.curvatures is not None
        cost = kernels.scale_slopes(
            self._targets,
            self.loss.code,
            self.loss.epsilon,
            point.slopes,
            point.curvatures,
            nothing if point.predictions is None else point.predictions,
            up,
            down,
            scaled,
        )
        return scaled, cost / self.n
