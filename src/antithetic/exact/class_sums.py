r"""Sums over rows of many classes, as a second-order solver asks for them.

The objective is the mean of :math:`s_i (\log \sum_k e^{z_{ik}} - z_{i y_i})`, with scores
:math:`z_{ik} = \langle w_k, x_i \rangle + b_k`, plus the penalty of all weights. Rows are visited
in blocks: scores by a matrix product, their slopes in place by a kernel, and the gradient by
another product while the block is in the cache. Nothing of length n is kept.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

from antithetic._core import kernels
from antithetic._util.threads import Sums, add_up, in_shares, threads_worth
from antithetic._util.validation import Matrix
from antithetic.exact.linear_algebra import Factor
from antithetic.exact.sums import (
    Evaluation,
    Leverage,
    Restored,
    Vector,
    Visit,
    Whitening,
    effective_rows,
    left_of,
    line_of,
    no_step,
    rounding_of,
)
from antithetic.problem.columns import Columns, columns_of
from antithetic.problem.losses import SOFTMAX
from antithetic.problem.penalties import Penalty
from antithetic.problem.sampling import DrawShares, importance_of
from antithetic.problem.softmax import SoftmaxProblem

_ROWS_AT_ONCE = 1024  # of a dense block
# One thread of BLAS takes products of so many multiplications without copies of its matrices,
# which is twice as fast; blocks of fewer rows than these are not worth it.
_SMALL_PRODUCT, _SHORT_BLOCK = 1_000_000, 128
_SCORES_AT_ONCE = 1 << 21  # of a block of sparse rows
_ENTRIES_AT_ONCE = 1 << 18  # of a block of rows whose products are added to a Hessian
_FAR = 30.0  # times its spread: a column so far from zero needs float64 for its products
ROWS_PER_COLUMN = 20  # of a sample that second derivatives are taken of
_MOST_IN_BLOCKS = 1 << 24  # entries of a block of the Hessian for each class
_CONSTANT = 1e-6  # of its mean: a column of so small a spread is constant
_ROWS_LOOKED_AT = 1000
_NO_WEIGHT = np.empty(0)
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
MOST_SQUARE = 3000  # columns of a matrix of their products
_FEW_CLASSES = 32  # of which a product with zeros costs less than to make a sparse matrix
_MOST_TIGHTENED = 500  # weights, of a Hessian that makes a bound tighter
_MOST_CORRECTIONS = 8  # of the slopes of a sample, for one bound
_FURTHEST = 30.0  # a share of exp(-30) of one class is as good as none


class ClassPoints:
    """The meaning of a point with many classes, independent of where the rows are.

    A point is one vector: the weights of the first class, those of the second and so on, and then,
    with intercepts, the intercepts of *centred* columns.

    Parameters
    ----------
    classes, features : int
    penalty : Penalty
    centre : ndarray of shape (features,) or None
        What is subtracted from each column; None without intercepts.
    """

    is_single: bool  # whether the rows are float32
    kind: Any  # float type of the products
    loss = SOFTMAX

    def __init__(
        self, classes: int, features: int, penalty: Penalty, centre: Vector | None
    ) -> None:
        self.classes, self.features, self.penalty, self.centre = classes, features, penalty, centre
        self.d = classes * features
        self.fit_intercept = centre is not None
        self.hessian_passes = 1.0 + self.d / 8.0

    @property
    def columns(self) -> int:
        """Length of a point."""
        return self.d + self.classes * int(self.fit_intercept)

    def _centred(self, theta: Vector) -> tuple[Vector, Vector]:
        """Weights, shape (classes, features), and intercepts of centred columns."""
        coef = theta[: self.d].reshape(self.classes, self.features)
        return coef, theta[self.d :] if self.fit_intercept else np.zeros(self.classes)

    def split(self, theta: Vector) -> tuple[Vector, Vector]:
        """Weights, shape (classes, features), and the user's intercepts."""
        coef, intercepts = self._centred(theta)
        return coef, intercepts if self.centre is None else intercepts - coef @ self.centre

    def join(self, coef: Vector, intercepts: Vector) -> Vector:
        """Point of some weights and the user's intercepts."""
        if self.centre is None:
            return np.array(coef, dtype=np.float64).ravel()
        return np.concatenate([np.ravel(coef), intercepts + coef @ self.centre])

    def in_gauge(self, theta: Vector) -> Vector:
        """The same predictions, by numbers that sum to zero over classes.

        These are the intercepts and, where that makes no penalty larger, the weights.
        """
        coef, intercepts = self._centred(theta)
        if self.penalty.l1 == 0.0:
            coef = coef - coef.mean(axis=0)
        parts = [coef.ravel(), intercepts - intercepts.mean()]
        return np.concatenate(parts[: 1 + self.fit_intercept])

    def regauged(self, point: Evaluation) -> Evaluation:
        """Return the point of the least penalty among those with the same probabilities.

        The same number added to a weight of every class changes no probability. So along these
        directions the best weights are known without a visit to the rows: for each column, the
        number c that minimises the sum over classes of l1 |w - c| + l2 / 2 (w - c)^2.
        """
        l1, l2, d = self.penalty.l1, self.penalty.l2, self.d
        coef = point.theta[:d].reshape(self.classes, self.features)
        shift = best_shift(coef, l1, l2)
        if l1 == 0.0 or not shift.any():  # steps keep the sum of the classes at zero
            return point
        moved = (coef - shift).ravel()
        gradient, theta = point.gradient.copy(), point.theta.copy()
        gradient[:d] += l2 * (moved - theta[:d])
        added = 0.5 * l2 * float(moved @ moved - theta[:d] @ theta[:d])
        theta[:d] = moved
        return point._replace(theta=theta, gradient=gradient, objective=point.objective + added)

    def shares(self) -> Vector:
        """Weight of each class, as a share of n."""
        raise NotImplementedError

    def class_means(self) -> Vector:
        """Mean of the rows of each class, centred if there are intercepts, as a share of all."""
        raise NotImplementedError

    def constant(self) -> tuple[Vector, float]:
        """Best intercepts without weights, and their mean loss."""
        shares = self.shares()
        if not self.fit_intercept:
            return np.zeros(0), float(np.log(self.classes) * shares.sum())
        return best_constants(shares)

    def rounding(self, point: Evaluation) -> float:
        """Estimate the rounding error of the objective, generously.

        Scores lose most if columns are far from zero: large intercepts then make up for them. No
        row's slope exceeds its loss.
        """
        coef, intercepts = self.split(point.theta)
        offset = np.abs(intercepts)
        if self.centre is not None:
            offset = offset + np.abs(coef) @ np.abs(self.centre)
        unit = _ROUNDING if self.kind == np.float64 else float(np.finfo(np.float32).eps)
        return unit * abs(point.objective) * (1.0 + float(offset.max(initial=0.0)))

    def given_back(self, theta: Vector) -> Vector:
        """Weights as the user gets them: rounded to the rows' type, intercepts of sum zero."""
        coef, intercepts = self.split(self.in_gauge(theta))
        intercepts = intercepts - intercepts.mean()
        kind = np.float32 if self.is_single else np.float64
        return self.join(coef.astype(kind), intercepts.astype(kind).astype(np.float64))

    def stay(self, point: Evaluation) -> Visit:
        """Return the visit of a step of length zero, which expects the slopes of the point."""
        return no_step(self.d, self.penalty, point)

    def dual_points(self, point: Evaluation, visit: Visit) -> Iterator[Restored]:  # noqa: ARG002
        """Yield slopes near those that a step expects, whose sums are zero for intercepts.

        Probabilities of classes that have too much are scaled down, and those of the others get
        what is left over.
        """
        assert visit.expected is not None
        gradient = visit.expected[: self.d]
        if not self.fit_intercept:
            yield Restored(gradient, (np.ones(self.classes), np.zeros(self.classes)))
            return
        shares = self.shares()
        how = move_chances(shares, shares + visit.expected[self.d :])
        yield Restored(move_gradient(gradient, self.class_means(), *how), how)


class ClassSums(ClassPoints):
    """Sums over rows of many classes.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, features)
        Rows, float32 or float64.
    labels : ndarray of intp of shape (n,)
        Class of each row, from 0 to ``classes - 1``.
    classes : int
    penalty : Penalty
    weight : ndarray of shape (n,) or None
    centre : ndarray of shape (features,) or None
        What is subtracted from each column; None without intercepts.
    threads : int, default=1
        Threads that sums over the rows are shared between; BLAS uses one in each.
    kind : type or None, default=None
        Float type of the products; None means that of the rows if it is accurate enough.
    """

    lengths = ()  # of a step, at which the objective is known: all of them

    def __init__(
        self,
        X: Matrix,
        labels: NDArray[np.intp],
        classes: int,
        penalty: Penalty,
        weight: Vector | None,
        centre: Vector | None,
        threads: int = 1,
        kind: Any = None,
    ) -> None:
        super().__init__(classes, int(X.shape[1]), penalty, centre)
        self.X, self.labels, self.n = X, labels, int(X.shape[0])
        self.weight, self.threads = weight, threads
        self.is_single = X.dtype == np.float32
        if kind is None:
            kind = np.float32 if self.is_single and not self._is_far() else np.float64
        self.kind: Any = kind
        self.most_sampled = np.inf
        self.size = effective_rows(self.n, weight)
        self.hessian_passes = self.hessian_visits = hessian_passes(self.d, self.n)
        self.block_passes = self._block_passes()
        self._totals: Vector | None = None  # of each class, once they are asked for
        self._importance: DrawShares | None = None

    def _block_passes(self) -> float:
        """Passes that a block of the Hessian for each class costs; infinite if it is too large."""
        size = self.features
        if self.classes * size * size > _MOST_IN_BLOCKS:
            return np.inf
        sampled = min(1.0, ROWS_PER_COLUMN * size / max(1, self.n))
        # products of sampled rows, and a factor of each block, however few the rows are
        passes = 3.0 + sampled * (5.0 + size / 30.0) + 0.7 * size**2 / max(1, self.n)
        # sparse rows are made dense for it, and passes over them cost as much less
        return passes * self.n * size / max(1, self.X.nnz) if sparse.issparse(self.X) else passes

    def _means_and_spreads(self) -> tuple[Vector, Vector]:
        """Mean and standard deviation of each column, from evenly spaced rows."""
        some = self.X[:: max(1, self.n // _ROWS_LOOKED_AT)]
        with np.errstate(over="ignore", invalid="ignore"):
            if not sparse.issparse(some):
                return some.mean(axis=0, dtype=np.float64), some.std(axis=0, dtype=np.float64)
            rows = some.astype(np.float64)
            mean = np.ravel(rows.mean(axis=0))
            square = np.ravel(rows.multiply(rows).mean(axis=0))
            return mean, np.sqrt(np.maximum(square - mean * mean, 0.0))

    def _is_far(self) -> bool:
        """Whether a column is so far from zero that products of float32 lose its digits."""
        return are_far(*self._means_and_spreads())

    # ---- copies, and what the labels say

    def with_penalty(self, penalty: Penalty) -> Self:
        """The same rows with another penalty."""
        other = copy.copy(self)
        other.penalty = penalty
        return other

    def refined(self) -> Self | None:
        """The same rows with products in float64; None if they are so already."""
        if self.kind == np.float64:
            return None
        other = copy.copy(self)
        other.kind = np.float64
        return other

    def shares(self) -> Vector:
        """Weight of each class, as a share of n."""
        found: Vector = np.bincount(self.labels, self.weight, minlength=self.classes) / self.n
        return found

    # ---- blocks of rows

    def _parts(self, at_once: int) -> list[slice]:
        starts = range(0, self.n, at_once)
        return [slice(start, min(self.n, start + at_once)) for start in starts]

    def _parts_of_scores(self) -> list[slice]:
        """Parts of the rows whose scores are found at once."""
        if not sparse.issparse(self.X):
            return self._parts(self._rows_of_small_products() or _ROWS_AT_ONCE)
        # each part costs a product with all weights: one per thread, or more if scores are many
        threads = threads_worth(self.threads, self._work_of_scores(), self._entries_of_scores())
        return self._parts(min(_SCORES_AT_ONCE // self.classes, -(-self.n // threads)) or 1)

    def _dense_parts(self, width: int) -> list[slice]:
        """Parts of the rows that are made dense and centred at once, to be of some width."""
        return self._parts(max(1, min(self.n, _ENTRIES_AT_ONCE // max(1, width))))

    def _work_of_scores(self) -> float:
        """Multiplications of scores and a gradient."""
        entries = self.X.nnz if sparse.issparse(self.X) else self.X.size
        return 2.0 * float(entries) * self.classes

    def _entries_of_scores(self) -> int:
        """Entries that a thread keeps for a gradient: it, a part of it, and the weights."""
        return 3 * self.d

    def _rows_of_small_products(self) -> int:
        """Rows of a block whose products with all weights are small; 0 if they would be too few."""
        most = _SMALL_PRODUCT // max(1, self.d)
        return min(most, _ROWS_AT_ONCE) if most >= _SHORT_BLOCK else 0

    def _blocks(self, kind: Any, parts: Sequence[slice]) -> Iterator[tuple[slice, Any]]:
        """Rows as given, in the float type of the products."""
        for part in parts:
            yield part, self.X[part].astype(kind, copy=False)

    def _dense_blocks(self, kind: Any, parts: Sequence[slice]) -> Iterator[tuple[slice, Any]]:
        """Centred rows, followed by a one where there are intercepts."""
        f = self.features
        longest = max((part.stop - part.start for part in parts), default=0)
        buffer = np.empty((longest, f + self.fit_intercept), dtype=kind)
        for part in parts:
            block = buffer[: part.stop - part.start]
            rows = self.X[part].toarray() if sparse.issparse(self.X) else self.X[part]
            centre = 0.0 if self.centre is None else self.centre
            np.subtract(rows, centre, out=block[:, :f], casting="same_kind")
            block[:, f:] = 1.0
            yield part, block

    def _weights_of(self, part: slice) -> Vector:
        return _NO_WEIGHT if self.weight is None else self.weight[part]

    def _scores(
        self, theta: Vector, kind: Any, parts: Sequence[slice]
    ) -> Iterator[tuple[slice, Any, Any]]:
        """Blocks of rows and the scores of their classes; these may be overwritten."""
        coef, intercepts = self.split(theta)
        across = np.ascontiguousarray(coef.T, dtype=kind)
        is_small = self._rows_of_small_products() > 0 or self.d >= 1 << 20
        if not is_small and not sparse.issparse(self.X):
            across = np.asarray(coef, dtype=kind).T  # what BLAS reads faster
        added = intercepts.astype(kind)
        for part, block in self._blocks(kind, parts):
            scores = block @ across
            if self.fit_intercept:
                scores += added
            yield part, block, scores

    # ---- second derivatives

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Matrix of second derivatives, by products of float32 unless ``exact``.

        ``damping`` is the weight given to a matrix that is above all Hessians. Along the gauge,
        where the objective does not change, the matrix has the curvature of other directions.
        """
        found = self._whole(point, np.float64 if exact else np.float32, damping)
        if not exact and not np.isfinite(found).all():
            found = self._whole(point, np.float64, damping)
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
        damping: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some weights, and the intercepts."""
        found = self.data_hessian(point, columns, exact=exact, damping=damping)
        return penalised(self, found, columns)

    def data_hessian(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        damping: float = 0.0,
    ) -> Vector:
        """Second derivatives of the mean loss alone: of some weights, and the intercepts."""
        found = self._gram(point, columns, np.float64 if exact else np.float32, damping)
        if not exact and not np.isfinite(found).all():
            found = self._gram(point, columns, np.float64, damping)
        return found

    def _whole(self, point: Evaluation, kind: Any, damping: float) -> Vector:
        """Second derivatives of the mean loss; the intercept of a class follows its weights."""
        classes, size, above = self.classes, self.features + self.fit_intercept, 0.5 * damping

        def sums(parts: Sequence[slice]) -> tuple[Vector]:
            total = np.zeros((classes * size, classes * size))
            for part, block in self._dense_blocks(kind, parts):
                chances, curvatures = self._chances(point.theta, block, kind)
                if self.weight is not None:
                    block *= np.sqrt(self.weight[part, None]).astype(kind)
                spread = (chances[:, :, None] * block[:, None, :]).reshape(len(block), -1)
                product = spread.T @ spread
                product *= -(1.0 - damping)
                lines = product.reshape(classes, size, classes, size)
                if damping > 0.0:
                    lines -= (above / classes) * (block.T @ block)[:, None]
                weights = (1.0 - damping) * curvatures + above * (1.0 - 1.0 / classes)
                for k, roots in enumerate(np.sqrt(weights.T.astype(kind))):
                    own = block * roots[:, None]
                    lines[k, :, k] = own.T @ own
                total += product
            return (total,)

        return self._add_squares(sums, classes * size)

    def _gram(
        self, point: Evaluation, columns: NDArray[np.intp], kind: Any, damping: float
    ) -> Vector:
        places, owners = _places_and_owners(self, columns)
        members = [np.flatnonzero(owners == k) for k in range(self.classes)]
        above = 0.5 * damping

        def sums(parts: Sequence[slice]) -> tuple[Vector]:
            gram = np.zeros((len(places), len(places)))
            for part, block in self._dense_blocks(kind, parts):
                chances, curvatures = self._chances(point.theta, block, kind)
                if self.weight is not None:
                    block *= np.sqrt(self.weight[part, None]).astype(kind)
                wide = block[:, places]
                spread = wide * chances[:, owners]
                product = spread.T @ spread
                product *= -(1.0 - damping)
                if damping > 0.0:
                    product -= (above / self.classes) * (wide.T @ wide)
                for k, mine in enumerate(members):
                    weights = (1.0 - damping) * curvatures[:, k] + above * (
                        1.0 - 1.0 / self.classes
                    )
                    own = wide[:, mine] * np.sqrt(weights.astype(kind))[:, None]
                    product[np.ix_(mine, mine)] = own.T @ own
                gram += product
            return (gram,)

        return self._add_squares(sums, len(places))

    def rounded_diagonal(self, hessian: Vector) -> Vector:
        """Diagonal of the sums of products that an exact Hessian was rounded in: its own."""
        return hessian.diagonal()

    def largest_leverage(self, point: Evaluation, root: Vector) -> Leverage:
        """Visit the rows in float64, with a lower triangle whose square is near an inverse."""
        classes, f, size = self.classes, self.features, self.features + self.fit_intercept
        coef, intercepts = self._centred(point.theta)
        along = np.hstack([coef, intercepts[:, None]])[:, :size].T
        offset = np.abs(self.split(point.theta)[1])
        if self.centre is not None:
            offset = offset + np.abs(coef) @ np.abs(self.centre)
        order = np.arange(self.d).reshape(classes, f)
        if self.fit_intercept:
            order = np.hstack([order, self.d + np.arange(classes)[:, None]])
        of_class = np.moveaxis(root[:, order], 1, 0)  # what its part of a row gives
        between = [
            np.asarray(np.linalg.qr(of_class[k] - of_class[other], mode="r")).T
            for k in range(classes)
            for other in range(k)
        ]
        parts = self._dense_parts(max(size, classes))
        product, chain = rounding_of(size), max(part.stop - part.start for part in parts)
        total = rounding_of(chain + len(parts))

        def sums(parts: Sequence[slice]) -> tuple[Vector, Vector, Vector]:
            gradient, rounding = np.zeros((2, classes, size))
            largest, worst = 0.0, 0.0
            for part, block in self._dense_blocks(np.float64, parts):
                weight = np.ones(len(block)) if self.weight is None else self.weight[part]
                wrong = product * (np.abs(block) @ np.abs(along) + offset).max(axis=1)
                chances = softmax(block @ along, axis=1)
                slopes = chances.copy()
                slopes[np.arange(len(block)), self.labels[part]] -= 1.0
                errors = 4.0 * chances * (1.0 - chances) * wrong[:, None]  # of slopes, twice over
                gradient += (weight[:, None] * slopes).T @ block
                errors += total * (np.abs(slopes) + chances)
                rounding += (weight[:, None] * errors).T @ np.abs(block)
                is_counted = weight > 0.0
                for one in between:
                    apart = block @ one
                    lengths = np.einsum("ij,ij->i", apart, apart)
                    largest = max(largest, lengths.max(initial=0.0, where=is_counted))
                worst = max(worst, wrong.max(initial=0.0, where=is_counted))
            return gradient, rounding, np.array([largest, worst])

        work = float(self.n) * len(root) ** 2
        found = in_shares(sums, parts, threads_worth(self.threads, work, 2 * self.d))
        gradient, rounding = (np.sum([one[k] for one in found], axis=0) / self.n for k in (0, 1))
        largest, worst = np.max([one[2] for one in found], axis=0)
        as_point = np.argsort(order.ravel(), kind="stable")
        return Leverage(
            float(largest),
            gradient.ravel()[as_point],
            rounding.ravel()[as_point],
            2.0 * float(worst),
            0.0,
        )

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

    def diagonal(self, point: Evaluation, *, damping: float = 0.0) -> Vector:
        """Diagonal of :meth:`hessian`: one pass over the rows."""
        f, above = self.features, 0.5 * damping * (1.0 - 1.0 / self.classes)

        def sums(parts: Sequence[slice]) -> tuple[Vector]:
            squares = np.zeros((self.classes, f + self.fit_intercept))
            for part, block in self._dense_blocks(np.float64, parts):
                weights = (1.0 - damping) * self._chances(point.theta, block, np.float64)[1] + above
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

    def whitening(self, point: Evaluation, *, damping: float = 0.0) -> Whitening:
        """What the second derivatives of all classes have in common, by products of float32."""
        above = 0.5 * damping * (1.0 - 1.0 / self.classes)
        if self.features > MOST_SQUARE:
            total, of_class = self._squares(point, damping, above)
        else:
            total, of_class = self._mean_products(point, damping, above, np.float32)
            if not np.isfinite(total).all():
                total, of_class = self._mean_products(point, damping, above, np.float64)
        if not np.isfinite(total).all():  # rows whose squares overflow: no matrix is of use
            total = np.ones(self.features)
        mean = float(of_class.mean())
        return Whitening(total, of_class / mean if mean > 0.0 else np.ones(self.classes), mean)

    def _mean_products(
        self, point: Evaluation, damping: float, above: float, kind: Any
    ) -> tuple[Vector, Vector]:
        """Mean of the products of rows, times mean curvatures, and curvatures of the classes."""

        def sums(parts: Sequence[slice]) -> tuple[Vector, Vector]:
            total, of_class = np.zeros((self.features, self.features)), np.zeros(self.classes)
            for part, block in self._dense_blocks(kind, parts):
                weights = self._weights_of_classes(point, damping, above, part, block)
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
        self, point: Evaluation, damping: float, above: float, part: slice, block: Any
    ) -> Any:
        """Curvatures of each class, with a share of those above, times the weights of the rows."""
        weights = self._curvatures(point.theta, block)
        weights *= 1.0 - damping
        weights += above
        if self.weight is not None:
            weights *= self.weight[part, None].astype(block.dtype)
        return weights

    def class_blocks(self, point: Evaluation, *, damping: float = 0.0) -> Vector:
        """Second derivatives of the mean loss by the weights, and the intercept, of each class.

        These are the blocks on the diagonal of the Hessian, shape (classes, size, size), by
        products of float32 unless these overflow.
        """
        found = self._class_blocks(point, damping, np.float32)
        return found if np.isfinite(found).all() else self._class_blocks(point, damping, np.float64)

    def _class_blocks(self, point: Evaluation, damping: float, kind: Any) -> Vector:
        above, size = 0.5 * damping * (1.0 - 1.0 / self.classes), self.features + self.fit_intercept
        share = ROWS_PER_COLUMN * size / self.n

        def sums(parts: Sequence[slice]) -> tuple[Vector]:
            total = np.zeros((self.classes, size, size))
            for part, block in self._dense_blocks(kind, parts):
                weights = self._weights_of_classes(point, damping, above, part, block)
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

    def _squares(self, point: Evaluation, damping: float, above: float) -> tuple[Vector, Vector]:
        """Diagonal of the same matrix, from all rows, which stay sparse."""

        def sums(parts: Sequence[slice]) -> tuple[Vector, Vector, Vector]:
            total, squares = np.zeros(self.features), np.zeros(self.features)
            of_class = np.zeros(self.classes)
            for part, block, scores in self._scores(point.theta, np.float64, parts):
                weights = np.empty_like(scores)
                kernels.softmax_chances(scores, weights)
                weights = (1.0 - damping) * weights + above
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

    # ---- sums

    def _add(self, sums: Callable[[Sequence[slice]], Sums]) -> Sums:
        """Add up sums over the rows that take about as long as a gradient."""
        work, entries = self._work_of_scores(), self._entries_of_scores()
        return add_up(sums, self._parts_of_scores(), self.threads, work, entries)

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient at some weights: one pass over the rows."""
        kept = np.empty((self.n, self.classes), self.kind)

        def scores(parts: Sequence[slice]) -> Iterator[tuple[Any, ...]]:
            for part, block, found in self._scores(theta, self.kind, parts):
                kept[part] = found
                yield part, block, found

        return self._evaluation(theta, kept, scores)

    def scored(self, theta: Vector) -> Evaluation:
        """Scores of all rows at some weights, and nothing else that a visit would tell."""
        kept = np.empty((self.n, self.classes), self.kind)
        for part, _, found in self._scores(theta, self.kind, self._parts_of_scores()):
            kept[part] = found
        return Evaluation(theta, np.nan, np.full(len(theta), np.nan), np.nan, kept)

    def between(self, point: Evaluation, visit: Visit, length: float) -> Evaluation:
        """Objective and gradient some way along a step, from the scores at both ends."""
        kept = np.empty((self.n, self.classes), self.kind)

        def scores(parts: Sequence[slice]) -> Iterator[tuple[Any, ...]]:
            for part, block in self._blocks(self.kind, parts):
                before, after, *_ = self._step_of(point, visit, part)
                np.subtract(after, before, out=kept[part])
                kept[part] *= length
                kept[part] += before
                yield part, block, kept[part].copy()

        return self._evaluation(point.theta + length * visit.step, kept, scores)

    def _evaluation(
        self,
        theta: Vector,
        kept: Any,
        scores: Callable[[Sequence[slice]], Iterator[tuple[Any, ...]]],
    ) -> Evaluation:
        """Sum up over blocks of rows and their scores, which may be overwritten."""

        def sums(parts: Sequence[slice]) -> tuple[Vector, Vector, Vector]:
            totals, slopes = np.zeros(3), np.zeros(self.classes)
            products = np.zeros((self.classes, self.features))
            for part, block, found in scores(parts):
                weight = self._weights_of(part)
                totals += kernels.softmax_slopes(found, self.labels[part], weight, slopes)
                products += _products(found, block)
            return totals, slopes, products

        totals, slopes, products = self._add(sums)
        return self._penalised(theta, totals, self._average(products, slopes), kept)

    def _penalised(
        self, theta: Vector, totals: Vector, gradient: Vector, scores: Any
    ) -> Evaluation:
        """Add the penalty to what a visit has found; the mean gradient is changed in place."""
        loss, square, curvature = totals.tolist()
        coef, l2 = theta[: self.d], self.penalty.l2
        gradient[: self.d] += l2 * coef
        objective = loss / self.n + 0.5 * l2 * float(coef @ coef)
        noise = square / curvature if curvature > 0.0 else 0.0
        return Evaluation(theta, objective, gradient, noise, scores, (curvature / self.n,))

    def after(self, point: Evaluation, step: Vector) -> Visit:
        """Objective and gradient at the end of a step, and what its model expected there."""
        theta, kept = point.theta + step, np.empty((self.n, self.classes), self.kind)
        totals, sums, products = self._add(partial(self._slopes_after, point, theta, kept))
        k = self.classes
        gradient = self._average(products[:k], sums[:k])
        expected = self._average(products[k:], sums[k:])
        after = self._penalised(theta, totals[:3], gradient, kept)
        return Visit(after, step, expected, float(totals[3]) / self.n)

    def _slopes_after(
        self, before: Evaluation, theta: Vector, kept: Any, parts: Sequence[slice]
    ) -> tuple[Vector, Vector, Vector]:
        """Sums of losses, squares, curvatures and those of the step; of slopes and their products.

        Slopes are first those of all classes at the end of the step, then those it expects.
        """
        assert before.scores is not None
        totals, sums = np.zeros(4), np.zeros(2 * self.classes)
        products = np.zeros((2 * self.classes, self.features))
        for part, block, scores in self._scores(theta, self.kind, parts):
            kept[part] = scores
            both = np.empty((len(scores), 2 * self.classes), self.kind)
            totals += kernels.softmax_step(
                before.scores[part], scores, self.labels[part], self._weights_of(part), both, sums
            )
            products += _products(both, block)
        return totals, sums, products

    def line(self, point: Evaluation, visit: Visit) -> Callable[[float], tuple[float, float]]:
        """Return what gives the objective and its slope some way along a step, without a visit."""

        def data(length: float) -> tuple[float, float]:
            def sums(parts: Sequence[slice]) -> tuple[Vector]:
                total = np.zeros(2)
                for part in parts:
                    total += kernels.softmax_along(*self._step_of(point, visit, part), length)
                return (total,)

            loss, slope = self._add(sums)[0].tolist()
            return loss / self.n, slope / self.n

        return line_of(self.d, self.penalty, point, visit, data)

    def _step_of(
        self, point: Evaluation, visit: Visit, part: slice
    ) -> tuple[Any, Any, NDArray[np.intp], Vector]:
        """Scores of some rows before and after a step, their classes and their weights."""
        assert point.scores is not None
        assert visit.after.scores is not None
        before, after = point.scores[part], visit.after.scores[part]
        return before, after, self.labels[part], self._weights_of(part)

    def _average(self, sums: Vector, constants: Vector) -> Vector:
        """Mean over rows of sums over them, those of centred columns where there are such."""
        if self.centre is None:
            return sums.ravel() / self.n
        sums -= np.outer(constants, self.centre)
        return np.concatenate([sums.ravel(), constants]) / self.n

    def times(self, point: Evaluation, vector: Vector) -> Vector:
        """Product of the Hessian with a vector: one pass over the rows."""

        def changes(parts: Sequence[slice]) -> tuple[Vector, Vector]:
            return self._changes(vector, self._block_chances(point.theta, np.float64, parts))

        return self._product(vector, self._add(changes))

    def products(self, theta: Vector, damping: float = 0.0) -> Callable[[Vector], Vector]:
        """Products of the Hessian with vectors, one after the other.

        Rows and their probabilities are kept in the float type of products, so that a product takes
        half the time of :meth:`times`, or less. ``damping`` is the weight of a matrix that is above
        all Hessians.
        """
        blocks = list(self._block_chances(theta, self.kind, self._parts_of_scores()))
        return lambda vector: self._product(
            vector,
            add_up(
                partial(self._changes, vector, damping=damping),
                blocks,
                self.threads,
                self._work_of_scores(),
                self._entries_of_scores(),
            ),
        )

    def _block_chances(
        self, theta: Vector, kind: Any, parts: Sequence[slice]
    ) -> Iterator[tuple[slice, Any, Any]]:
        """Blocks of rows and the probabilities of their classes."""
        for part, block, scores in self._scores(theta, kind, parts):
            kernels.softmax_chances(scores, np.empty_like(scores))
            yield part, block, scores

    def _changes(
        self, vector: Vector, blocks: Iterable[tuple[slice, Any, Any]], damping: float = 0.0
    ) -> tuple[Vector, Vector]:
        """Sums of the changes of slopes along a vector, and of these times rows."""
        along, constants = self.split(vector)
        sums, total = np.zeros(self.classes), np.zeros((self.classes, self.features))
        for part, block, chances in blocks:
            changes = block @ along.T.astype(block.dtype, copy=False)
            changes += constants.astype(block.dtype, copy=False)
            above = (
                0.5 * damping * (changes - changes.mean(axis=1, keepdims=True)) if damping else 0.0
            )
            changes -= np.einsum("ik,ik->i", chances, changes)[:, None]
            changes *= chances
            if damping:
                changes *= 1.0 - damping
                changes += above
            if self.weight is not None:
                changes *= self.weight[part, None]
            sums += changes.sum(axis=0, dtype=np.float64)
            total += _products(changes, block)
        return sums, total

    def _product(self, vector: Vector, changes: tuple[Vector, Vector]) -> Vector:
        """Product of the Hessian with a vector, from the sums of :meth:`_changes`."""
        sums, total = changes
        product = self._average(total, sums)
        product[: self.d] += self.penalty.l2 * vector[: self.d]
        return product

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:  # noqa: ARG002
        """Curvature along a vector of a function above the mean loss: one pass over the rows."""

        def squares(parts: Sequence[slice]) -> tuple[Vector]:
            total = np.zeros(1)
            for part, _, changes in self._scores(vector, np.float64, parts):
                total += self.half_squares(changes, part)
            return (total,)

        (total,) = self._add(squares)
        return float(total[0]) / self.n

    def half_squares(self, changes: Any, part: slice) -> float:
        """Sum of a bound on the curvatures of some rows along changes of their scores.

        No Hessian of a row is above half the identity. The changes are overwritten.
        """
        changes -= changes.mean(axis=1, keepdims=True)
        found = np.einsum("ik,ik->i", changes, changes)
        return 0.5 * float(found.sum() if self.weight is None else found @ self.weight[part])

    # ---- samples

    def samples(self, sizes: Sequence[float], seed: int) -> list[ClassSample]:
        """Draw samples of about these many rows, by importance."""
        return [ClassSample(self, size, seed) for size in sizes]

    def importance(self, seed: int) -> DrawShares:
        """Return how likely rows are drawn, which samples of all sizes share."""
        if self._importance is None:
            self._importance = importance_of(self.problem, self.seen, seed)
        return self._importance

    @cached_property
    def seen(self) -> Columns:
        """What a pass over the rows sees of their columns."""
        return columns_of(self.problem)

    @property
    def problem(self) -> SoftmaxProblem:
        """The same rows and penalty as a problem."""
        labels = self.labels.astype(np.float64)
        given = (self.weight, self.fit_intercept, None, self.classes)
        return SoftmaxProblem(self.X, labels, SOFTMAX, self.penalty, *given)

    # ---- the dual

    def restored_cost(
        self, point: Evaluation, visit: Visit, restored: Restored, kept: float = 1.0
    ) -> float:
        """Mean cost of a dual point, and of all of its slopes times a factor."""
        of_class, given = restored.how

        def costs(parts: Sequence[slice]) -> tuple[Vector]:
            total = np.zeros(1)
            for part in parts:
                step = self._step_of(point, visit, part)
                total += kernels.softmax_step_cost(*step, of_class, given, kept)
            return (total,)

        return float(self._add(costs)[0][0]) / self.n

    def class_means(self) -> Vector:
        """Mean of the rows of each class, centred if there are intercepts, as a share of all."""
        if self._totals is None:
            (sums,) = self._add(self._sums_of_classes)
            sums /= self.n
            if self.centre is not None:
                sums -= np.outer(self.shares(), self.centre)
            self._totals = sums
        return self._totals

    def _sums_of_classes(self, parts: Sequence[slice]) -> tuple[Vector]:
        """Sum of the rows of each class, times their weights."""
        sums = np.zeros((self.classes, self.features))
        for part, block in self._blocks(np.float64, parts):
            sums += self._sums_of_block(part, block)
        return (sums,)

    def _sums_of_block(self, part: slice, block: Any) -> Any:
        rows = np.arange(part.stop - part.start)
        weight = np.ones(len(rows)) if self.weight is None else self.weight[part]
        if self.classes <= _FEW_CLASSES and not sparse.issparse(block):
            chosen = np.zeros((self.classes, len(rows)))
            chosen[self.labels[part], rows] = weight
            return chosen @ block
        of_rows = sparse.csr_array(
            (weight, (self.labels[part], rows)), shape=(self.classes, len(rows))
        )
        found = of_rows @ block
        return found.toarray() if sparse.issparse(found) else found


class ClassSample:
    """Rows drawn by importance from those of many classes, with the sums over them.

    Parameters
    ----------
    whole : ClassSums
        Over all rows.
    size : float
    seed : int
    """

    def __init__(self, whole: ClassSums, size: float, seed: int) -> None:
        self._whole, self._size, self._seed = whole, size, seed
        self.rows, self._probability = whole.importance(seed).draw(size)
        rows = self.rows
        weight = (len(rows) / whole.n) / self._probability  # means of these are those of all rows
        if whole.weight is not None:
            weight *= whole.weight[rows]
        self.sums = ClassSums(
            whole.X[rows],
            whole.labels[rows],
            whole.classes,
            whole.penalty,
            weight,
            whole.centre,
            whole.threads,
            whole.kind,
        )

    @property
    def n(self) -> int:
        """Number of its rows."""
        return self.sums.n

    def with_penalty(self, penalty: Penalty) -> ClassSample:
        """Return the same rows with another penalty."""
        other = copy.copy(self)
        other.sums = self.sums.with_penalty(penalty)
        return other

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Return its matrix of second derivatives at a point of all rows."""
        return self.sums.hessian(point, exact=exact, damping=damping)

    def inverse(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Factor:
        """Return the inverse of that matrix."""
        return Factor(self.hessian(point, exact=exact, damping=damping))

    def tightened(self, point: Evaluation, visit: Visit) -> Iterator[Visit]:
        """Yield visits whose expected slopes, changed in these rows, prove more and more.

        See :mod:`antithetic.exact.certificate`; there are none if weights are very many.
        """
        if self.sums.d > _MOST_TIGHTENED:
            return
        assert point.scores is not None
        assert visit.after.scores is not None
        sums, whole = copy.copy(self.sums), slice(0, self.n)
        weight = self.sums._weights_of(whole) * self._probability  # shares of all rows
        sums.weight = weight
        before, scores, expected = (
            point.scores[self.rows],
            visit.after.scores.copy(),
            visit.expected,
        )
        both = np.empty((self.n, 2 * sums.classes), scores.dtype)
        total = np.zeros(2 * sums.classes)

        def slopes() -> Any:
            after = scores[self.rows]
            kernels.softmax_step(before, after, sums.labels, weight, both, total)
            return both[:, sums.classes :].astype(np.float64)

        hessian, now = sums.hessian(point), slopes()
        for number in range(_MOST_CORRECTIONS):
            rho, columns = left_of(sums.d, sums.penalty, point.theta + visit.step, expected)
            if not (len(columns) and np.isfinite(rho).all() and np.isfinite(hessian).all()):
                return
            change = np.zeros(sums.columns)
            change[columns] = -Factor(hessian[np.ix_(columns, columns)]).solve(rho[columns])
            scores[self.rows] += next(sums._scores(change, scores.dtype, [whole]))[2]
            last, now = now, slopes()
            expected = expected + sums._average(
                _products(now - last, sums.X), (now - last).sum(axis=0)
            )
            if number % 2:  # every other one makes up for rounding of the Hessian
                after = visit.after._replace(scores=scores.copy())
                yield visit._replace(after=after, expected=expected)

    def larger(self) -> ClassSample | None:
        """Return a sample of twice as many rows; None if all rows cost little more."""
        if 2.0 * self._size > self._whole.n / 2.0:
            return None
        return ClassSample(
            self._whole.with_penalty(self.sums.penalty), 2.0 * self._size, self._seed
        )


def _products(slopes: Any, block: Any) -> Any:
    """Sum over rows of slopes times rows, shape (classes, features)."""
    return (block.T @ slopes).T if sparse.issparse(block) else slopes.T @ block


def hessian_passes(weights: int, rows: int) -> float:
    """What a Hessian and its factor cost, in passes over the rows."""
    hessian = weights / 7.0 * (1.0 + weights / 1500.0)
    return 1.0 + hessian + 0.09 * weights**2 / max(1, rows)


def are_far(mean: Vector, spread: Vector) -> bool:
    """Whether a column is so far from zero that products of float32 lose its digits."""
    return bool((np.abs(mean) > _FAR * spread)[spread > _CONSTANT * np.abs(mean)].any())


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


# ---- shares of the classes


def best_constants(shares: Vector) -> tuple[Vector, float]:
    """Intercepts of the least mean loss, whose sum is zero, and that loss.

    Parameters
    ----------
    shares : ndarray of shape (classes,)
        Weights of the classes, divided by the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> best_constants(np.array([0.25, 0.25, 0.25, 0.25]))[0].tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    total = float(shares.sum())
    if not total > 0.0:
        return np.zeros(len(shares)), 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(shares / shares.max())
    logs = np.maximum(logs, -_FURTHEST)
    loss = float(shares @ (np.log(np.exp(logs).sum()) - logs))
    constants: Vector = logs - logs.mean()
    return constants, loss


def best_shift(coef: Vector, l1: float, l2: float) -> Vector:
    """What to subtract from each column of weights, of shape (classes, features).

    Examples
    --------
    >>> import numpy as np
    >>> best_shift(np.array([[0.0, 5.0], [1.0, 6.0], [5.0, 7.0]]), 1.0, 0.0).tolist()
    [1.0, 6.0]
    """
    if l1 == 0.0:
        return np.asarray(coef.mean(axis=0))
    classes, ordered = len(coef), np.sort(coef, axis=0)
    if l2 == 0.0:  # any number between the two middle ones; either makes a weight exactly zero
        low, high = ordered[(classes - 1) // 2], ordered[classes // 2]
        return np.asarray(np.where(np.abs(low) <= np.abs(high), low, high))
    # where the slope is zero, if so many weights were below
    below = np.arange(classes + 1)[:, None]
    zeros = coef.mean(axis=0) + (l1 / l2) * (1.0 - 2.0 * below / classes)
    return np.asarray(np.median(np.concatenate([coef, zeros]), axis=0))


def move_chances(wanted: Vector, found: Vector) -> tuple[Vector, Vector]:
    """How to change the probabilities of all rows so that they have the wanted sums.

    Class k keeps the share ``kept[k]`` of its probabilities. What a row loses goes to the classes
    that have too little, in the shares ``given``.

    Examples
    --------
    >>> import numpy as np
    >>> kept, given = move_chances(np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.35, 0.25]))
    >>> kept.tolist(), given.round(2).tolist()
    ([0.5, 1.0, 1.0], [0.0, 0.75, 0.25])
    """
    kept = np.ones(len(wanted))
    np.divide(wanted, found, out=kept, where=found > wanted)
    lacking = np.maximum(0.0, wanted - found)
    total = float(lacking.sum())
    if not total > 0.0:  # the sums agree, or rounding leaves no class to give to
        return np.ones(len(wanted)), np.zeros(len(wanted))
    return kept, lacking / total


def move_gradient(gradient: Vector, means: Vector, kept: Vector, given: Vector) -> Vector:
    """Gradient of the mean loss after the change of :func:`move_chances`.

    Parameters
    ----------
    gradient : ndarray of shape (classes * features,)
        As it was.
    means : ndarray of shape (classes, features)
        Mean of the centred rows of each class, as a share of all rows.
    kept, given : ndarray of shape (classes,)
        Of :func:`move_chances`.
    """
    before = gradient.reshape(means.shape)
    taken = (1.0 - kept)[:, None] * (before + means)
    moved: Vector = (before - taken + np.outer(given, taken.sum(axis=0))).ravel()
    return moved
