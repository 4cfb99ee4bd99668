"""Second derivatives of many classes: whole, of some weights, and what the classes share."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic.exact.class_points import ClassPoints
from antithetic.exact.class_rows import ROWS_PER_COLUMN, ClassRows, effective_rows
from antithetic.exact.shared_sums import add_up
from antithetic.exact.sums import Evaluation, Vector, Whitening

MOST_SQUARE = 3000  # columns of a matrix of their products


class ClassHessians(ClassRows):
    """Rows of many classes, with second derivatives."""

    def hessian(self, point: Evaluation, *, exact: bool = False, care: float = 0.0) -> Vector:
        """Matrix of second derivatives, by products of float32 unless ``exact``.

        ``care`` is the weight given to a matrix that is above all Hessians. Along the gauge, where
        the objective does not change, the matrix has the curvature of other directions.
        """
        found = self._whole(point, np.float64 if exact else np.float32, care)
        if not exact and not np.isfinite(found).all():
            found = self._whole(point, np.float64, care)
        f, size = self.features, self.features + self.fit_intercept
        lines = found.reshape(self.classes, size, self.classes, size)
        diagonal = np.einsum("kiki->ki", lines)  # a view
        is_free = self.penalty.l2 == 0.0 and self.penalty.l1 == 0.0
        free = np.arange(0 if is_free else f, size)
        raised = diagonal[:, free].mean(axis=0) / self.classes
        lines[:, free, :, free] += raised[:, None, None]
        diagonal[:, :f] += self.penalty.l2
        if not self.fit_intercept:
            return found
        order = np.arange(len(found)).reshape(self.classes, -1)
        ordered = np.concatenate([order[:, :f].ravel(), order[:, f]])
        whole: Vector = found[ordered[:, None], ordered]
        return whole

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        care: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some weights, and the intercepts."""
        found = self.data_hessian(point, columns, exact=exact, care=care)
        return penalised(self, found, columns)

    def data_hessian(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        care: float = 0.0,
    ) -> Vector:
        """Second derivatives of the mean loss alone: of some weights, and the intercepts."""
        found = self._gram(point, columns, np.float64 if exact else np.float32, care)
        if not exact and not np.isfinite(found).all():
            found = self._gram(point, columns, np.float64, care)
        return found

    def _whole(self, point: Evaluation, kind: Any, care: float) -> Vector:
        """Second derivatives of the mean loss; the intercept of a class follows its weights."""
        classes, size, above = self.classes, self.features + self.fit_intercept, 0.5 * care

        def sums(parts: Sequence[slice]) -> tuple[Vector]:
            total = np.zeros((classes * size, classes * size))
            for part, block in self._dense_blocks(kind, parts):
                chances, curvatures = self._chances(point.theta, block, kind)
                if self.weight is not None:
                    block *= np.sqrt(self.weight[part, None]).astype(kind)
                spread = (chances[:, :, None] * block[:, None, :]).reshape(len(block), -1)
                product = spread.T @ spread
                product *= -(1.0 - care)
                lines = product.reshape(classes, size, classes, size)
                if care > 0.0:
                    lines -= (above / classes) * (block.T @ block)[:, None]
                weights = (1.0 - care) * curvatures + above * (1.0 - 1.0 / classes)
                for k, roots in enumerate(np.sqrt(weights.T.astype(kind))):
                    own = block * roots[:, None]
                    lines[k, :, k] = own.T @ own
                total += product
            return (total,)

        return self._add_squares(sums, classes * size)

    def _gram(self, point: Evaluation, columns: NDArray[np.intp], kind: Any, care: float) -> Vector:
        places, owners = _places_and_owners(self, columns)
        members = [np.flatnonzero(owners == k) for k in range(self.classes)]
        above = 0.5 * care

        def sums(parts: Sequence[slice]) -> tuple[Vector]:
            gram = np.zeros((len(places), len(places)))
            for part, block in self._dense_blocks(kind, parts):
                chances, curvatures = self._chances(point.theta, block, kind)
                if self.weight is not None:
                    block *= np.sqrt(self.weight[part, None]).astype(kind)
                wide = block[:, places]
                spread = wide * chances[:, owners]
                product = spread.T @ spread
                product *= -(1.0 - care)
                if care > 0.0:
                    product -= (above / self.classes) * (wide.T @ wide)
                for k, mine in enumerate(members):
                    weights = (1.0 - care) * curvatures[:, k] + above * (1.0 - 1.0 / self.classes)
                    own = wide[:, mine] * np.sqrt(weights.astype(kind))[:, None]
                    product[np.ix_(mine, mine)] = own.T @ own
                gram += product
            return (gram,)

        return self._add_squares(sums, len(places))

    def _add_squares(self, sums: Callable[[Sequence[slice]], tuple[Vector]], size: int) -> Vector:
        """Mean over the rows of square matrices of some size."""
        parts = self._dense_parts(max(size, self.features + 1))
        work = float(self.n) * (float(size) ** 2 + self.d)  # products, and scores of all features
        with np.errstate(over="ignore", invalid="ignore"):
            (total,) = add_up(sums, parts, self.threads, work, size**2)
        total /= self.n
        return total

    def _chances(self, theta: Vector, block: Any, kind: Any) -> tuple[Any, Any]:
        """Probabilities p of the classes of centred rows, and p (1 - p)."""
        coef, intercepts = self._centred(theta)
        scores = block[:, : self.features].astype(np.float64) @ coef.T + intercepts
        curvatures = np.empty_like(scores)
        kernels.softmax_chances(scores, curvatures)
        chances = scores.astype(kind)
        # products of these underflow, and numbers below the normal ones are many times slower
        chances[chances < math.sqrt(np.finfo(kind).tiny)] = 0.0
        return chances, curvatures

    def _curvatures(self, theta: Vector, block: Any) -> Any:
        """Products p (1 - p) of each class, in the float type of centred rows."""
        coef, intercepts = self._centred(theta)
        scores = block[:, : self.features] @ coef.T.astype(block.dtype)
        scores += intercepts.astype(block.dtype)
        curvatures = np.empty_like(scores)
        kernels.softmax_chances(scores, curvatures)
        return curvatures

    def diagonal(self, point: Evaluation, *, care: float = 0.0) -> Vector:
        """Diagonal of :meth:`hessian`: one pass over the rows."""
        f, above = self.features, 0.5 * care * (1.0 - 1.0 / self.classes)

        def sums(parts: Sequence[slice]) -> tuple[Vector]:
            squares = np.zeros((self.classes, f + self.fit_intercept))
            for part, block in self._dense_blocks(np.float64, parts):
                weights = (1.0 - care) * self._chances(point.theta, block, np.float64)[1] + above
                if self.weight is not None:
                    weights *= self.weight[part, None]
                squares += weights.T @ (block * block)
            return (squares,)

        (squares,) = add_up(
            sums, self._dense_parts(f + 1), self.threads, 2.0 * self.n * self.d, self.d
        )
        squares /= self.n
        squares[:, :f] += self.penalty.l2
        return np.concatenate([squares[:, :f].ravel(), squares[:, f:].ravel()])

    def whitening(
        self, point: Evaluation, seed: int, *, care: float = 0.0, exact: bool = False
    ) -> Whitening:
        """What the second derivatives of all classes have in common, from a sample of the rows.

        Products are of float32 unless they are to be exact.
        """
        above = 0.5 * care * (1.0 - 1.0 / self.classes)
        if self.features > MOST_SQUARE:
            total, of_class = self._squares(point, care, above)
        else:
            some = self.some_rows(ROWS_PER_COLUMN * self.features, seed)
            kind = np.float64 if exact else np.float32
            total, of_class = some._products(point, care, above, kind)
            if not (exact or np.isfinite(total).all()):
                total, of_class = some._products(point, care, above, np.float64)
        if not np.isfinite(total).all():  # rows whose squares overflow: no matrix is of use
            total = np.ones(self.features)
        mean = float(of_class.mean())
        return Whitening(total, of_class / mean if mean > 0.0 else np.ones(self.classes), mean)

    def _products(
        self, point: Evaluation, care: float, above: float, kind: Any
    ) -> tuple[Vector, Vector]:
        """Mean of the products of rows, times mean curvatures, and curvatures of the classes."""

        def sums(parts: Sequence[slice]) -> tuple[Vector, Vector]:
            total, of_class = np.zeros((self.features, self.features)), np.zeros(self.classes)
            for part, block in self._dense_blocks(kind, parts):
                weights = self._weights_of_classes(point, care, above, part, block)
                of_class += weights.sum(axis=0, dtype=np.float64)
                roots = np.sqrt(weights.mean(axis=1))
                rows = block[:, : self.features] * roots[:, None]
                total += rows.T @ rows
            return total, of_class

        f, parts = self.features, self._dense_parts(self.features + 1)
        work = float(self.n) * f * (f + self.classes)
        with np.errstate(over="ignore", invalid="ignore"):
            total, of_class = add_up(sums, parts, self.threads, work, f * f)
        return total / self.n, of_class / self.n

    def _weights_of_classes(
        self, point: Evaluation, care: float, above: float, part: slice, block: Any
    ) -> Any:
        """Curvatures of each class, with a share of those above, times the weights of the rows."""
        weights = self._curvatures(point.theta, block)
        weights *= 1.0 - care
        weights += above
        if self.weight is not None:
            weights *= self.weight[part, None].astype(block.dtype)
        return weights

    def class_blocks(self, point: Evaluation, *, care: float = 0.0) -> Vector:
        """Second derivatives of the mean loss by the weights, and the intercept, of each class.

        These are the blocks on the diagonal of the Hessian, shape (classes, size, size), by
        products of float32 unless these overflow.
        """
        found = self._class_blocks(point, care, np.float32)
        return found if np.isfinite(found).all() else self._class_blocks(point, care, np.float64)

    def _class_blocks(self, point: Evaluation, care: float, kind: Any) -> Vector:
        above, size = 0.5 * care * (1.0 - 1.0 / self.classes), self.features + self.fit_intercept
        share = ROWS_PER_COLUMN * size / self.n

        def sums(parts: Sequence[slice]) -> tuple[Vector]:
            total = np.zeros((self.classes, size, size))
            for part, block in self._dense_blocks(kind, parts):
                weights = self._weights_of_classes(point, care, above, part, block)
                phases = np.random.default_rng(part.start).random(self.classes)
                for k, own in enumerate(np.ascontiguousarray(weights.T)):
                    # of millions of rows, less than one is drawn from each block of them
                    used, heavier = thinned(own, share, phases[k])
                    rows = block[used]
                    rows *= np.sqrt(heavier)[:, None]
                    total[k] += rows.T @ rows
            return (total,)

        entries = self.classes * size**2
        work = self.n * (min(1.0, share) * entries + self.d)
        with np.errstate(over="ignore", invalid="ignore"):
            (total,) = add_up(sums, self._dense_parts(size), self.threads, work, entries)
        total /= self.n
        return total

    def _squares(self, point: Evaluation, care: float, above: float) -> tuple[Vector, Vector]:
        """Diagonal of the same matrix, from all rows, which stay sparse."""

        def sums(parts: Sequence[slice]) -> tuple[Vector, Vector, Vector]:
            total, squares = np.zeros(self.features), np.zeros(self.features)
            of_class = np.zeros(self.classes)
            for part, block, scores in self._scores(point.theta, np.float64, parts):
                weights = np.empty_like(scores)
                kernels.softmax_chances(scores, weights)
                weights = (1.0 - care) * weights + above
                if self.weight is not None:
                    weights *= self.weight[part, None]
                of_class += weights.sum(axis=0)
                means = weights.mean(axis=1)
                total += block.T @ means
                squared = block.multiply(block) if sparse.issparse(block) else block * block
                squares += squared.T @ means
            return total, squares, of_class

        total, squares, of_class = add_up(
            sums,
            self._parts_of_scores(),
            self.threads,
            self._work_of_scores(),
            self._entries_of_scores(),
        )
        if self.centre is not None:
            squares += self.centre * (self.centre * float(of_class.mean()) - 2.0 * total)
        return np.maximum(squares, 0.0) / self.n, of_class / self.n

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each weight, in curvature."""
        return self.diagonal(point)

    def some_rows(self, size: int, seed: int) -> Self:
        """Rows drawn evenly from the first to the last, whatever their class."""
        if size >= self.n:
            return self
        found = self._take(spread_places(self.n, size, np.random.default_rng(seed)))
        return self if found is None else found

    def _take(self, rows: NDArray[np.intp]) -> Self | None:
        weight = None if self.weight is None else self.weight[rows]
        if weight is not None and not weight.any():
            return None
        other = copy.copy(self)
        other.X, other.labels, other.weight = self.X[rows], self.labels[rows], weight
        other.n, other.size = len(rows), effective_rows(len(rows), weight)
        other._totals = None
        return other


def _places_and_owners(
    points: ClassPoints, columns: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Columns of the rows, the intercept's last, and classes of some weights and all intercepts."""
    places, owners = columns % points.features, columns // points.features
    if not points.fit_intercept:
        return places, owners
    constant = np.full(points.classes, points.features)
    return np.append(places, constant), np.append(owners, np.arange(points.classes))


def penalised(points: ClassPoints, hessian: Vector, columns: NDArray[np.intp]) -> Vector:
    """Add what a Hessian of the mean loss lacks: the penalty, and some curvature along the gauge.

    Along the gauge all classes change alike, which changes no chance. Gradients have no part there,
    so steps stay as they are.
    """
    places, owners = _places_and_owners(points, columns)
    free = [points.features] if points.fit_intercept else []
    if points.penalty.l2 == 0.0 and points.penalty.l1 == 0.0:
        free = list(np.unique(places))
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], free)
    for place, start in zip(free, starts, strict=True):
        mine = order[start : start + int((places == place).sum())]
        if len(np.unique(owners[mine])) == points.classes:
            hessian[np.ix_(mine, mine)] += hessian[mine, mine].mean() / points.classes
    spots = np.arange(len(columns))
    hessian[spots, spots] += points.penalty.l2
    return hessian


def thinned(weight: Vector, share: float, phase: float = 0.5) -> tuple[NDArray[np.intp], Vector]:
    """About this share of the rows, the likelier the heavier, and weights of the same sums.

    If the phase is random, between 0 and 1, sums are the same in the mean, however few are drawn.
    """
    mean = weight.mean()
    if not mean > 0.0:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=weight.dtype)
    chances = np.minimum(1.0, (share / mean) * weight)
    ends = np.floor(np.cumsum(chances, dtype=np.float64) + phase)
    used = np.flatnonzero(np.diff(ends, prepend=0.0))
    return used, weight[used] / chances[used]


def spread_places(n: int, many: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Choose ``many`` of n places, one at random in each of ``many`` equal cells."""
    cells = (np.arange(many) + rng.random(many)) * (n / many)
    return np.minimum(cells.astype(np.intp), n - 1)
