r"""Sums over rows of many classes, as a second-order solver asks for them.

The objective is the mean of :math:`s_i (\log \sum_k e^{z_{ik}} - z_{i y_i})`, with scores
:math:`z_{ik} = \langle w_k, x_i \rangle + b_k`, plus the penalty of all weights. Rows are visited
in blocks: scores by a matrix product, their slopes in place by a kernel, and the gradient by
another product while the block is in the cache. Nothing of length n is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

from antithetic._core import kernels
from antithetic.exact.class_hessians import ClassHessians, spread_places
from antithetic.exact.class_shares import move_chances, move_gradient
from antithetic.exact.shared_sums import Sums, add_up
from antithetic.exact.sums import Dual, Evaluation, Outcome, Vector

_FEW_CLASSES = 32  # of which a product with zeros costs less than to make a sparse matrix
_FEW_ROWS = 50.0  # a column whose square is mostly that of so few rows is rare


class ClassSums(ClassHessians):
    """Sums over rows of many classes; the parameters are those of :class:`ClassRows`."""

    # ---- sums

    def _add(self, sums: Callable[[Sequence[slice]], Sums]) -> Sums:
        """Add up sums over the rows that take about as long as a gradient."""
        work, entries = self._work_of_scores(), self._entries_of_scores()
        return add_up(sums, self._parts_of_scores(), self.threads, work, entries)

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient at some weights: one pass over the rows."""
        totals, sums, gradient = self._add(partial(self._slopes, theta))
        loss, square, curvature = totals.tolist()
        coef, l2 = theta[: self.d], self.penalty.l2
        slopes = self._average(gradient, sums)
        slopes[: self.d] += l2 * coef
        objective = loss / self.n + 0.5 * l2 * float(coef @ coef)
        noise = square / curvature if curvature > 0.0 else 0.0
        return Evaluation(theta, objective, slopes, noise, totals=(curvature / self.n,))

    def _slopes(self, theta: Vector, parts: Sequence[slice]) -> tuple[Vector, Vector, Vector]:
        """Sums of losses, squares and curvatures, of slopes, and of slopes times rows."""
        totals, sums = np.zeros(3), np.zeros(self.classes)
        gradient = np.zeros((self.classes, self.features))
        for part, block, scores in self._scores(theta, self.kind, parts):
            weight = self._weights_of(part)
            totals += kernels.softmax_slopes(scores, self.labels[part], weight, sums)
            gradient += _products(scores, block)
        return totals, sums, gradient

    def at_constant(self) -> Evaluation:
        """Objective and gradient at the best constant: sums over classes, without any scores."""
        constants, loss = self.constant()
        shares = self.shares()
        chances = softmax(constants if self.fit_intercept else np.zeros(self.classes))
        means = self.class_means()
        gradient = np.multiply.outer(chances, means.sum(axis=0)) - means
        slopes = chances * shares.sum() - shares
        parts = [gradient.ravel(), slopes][: 1 + self.fit_intercept]
        theta = np.concatenate([np.zeros(self.d), constants])
        return Evaluation(theta, loss, np.concatenate(parts), 0.0)

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

    def products(self, theta: Vector) -> Callable[[Vector], Vector]:
        """Products of the Hessian with vectors, one after the other.

        Rows and their probabilities are kept in the float type of products, so that a product takes
        half the time of :meth:`times`, or less.
        """
        blocks = list(self._block_chances(theta, self.kind, self._parts_of_scores()))
        return lambda vector: self._product(
            vector,
            add_up(
                partial(self._changes, vector),
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
        self, vector: Vector, blocks: Iterable[tuple[slice, Any, Any]]
    ) -> tuple[Vector, Vector]:
        """Sums of the changes of slopes along a vector, and of these times rows."""
        along, constants = self.split(vector)
        sums, total = np.zeros(self.classes), np.zeros((self.classes, self.features))
        for part, block, chances in blocks:
            changes = block @ along.T.astype(block.dtype, copy=False)
            changes += constants.astype(block.dtype, copy=False)
            changes -= np.einsum("ik,ik->i", chances, changes)[:, None]
            changes *= chances
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
                changes -= changes.mean(axis=1, keepdims=True)
                found = np.einsum("ik,ik->i", changes, changes)
                total += found.sum() if self.weight is None else found @ self.weight[part]
            return (total,)

        (total,) = self._add(squares)
        return 0.5 * float(total[0]) / self.n  # no Hessian of a row is above half the identity

    # ---- samples

    def rare_columns(self, point: Evaluation) -> NDArray[np.bool_]:  # noqa: ARG002
        """Weights of columns whose squares come from few rows, so that other rows may differ."""
        X = self.X
        if sparse.issparse(X):
            rare = np.bincount(X.indices, minlength=self.features) < _FEW_ROWS
        else:
            centre = 0.0 if self.centre is None else self.centre
            top = np.maximum(X.max(axis=0) - centre, centre - X.min(axis=0)).astype(np.float64)
            squares = np.zeros(self.features)
            for _, block in self._dense_blocks(np.float64, self._dense_parts(self.features + 1)):
                squares += np.square(block[:, : self.features]).sum(axis=0)
            rare = _FEW_ROWS * top * top > squares
        return np.tile(rare, self.classes)

    def near_samples(
        self,
        solve: Callable[[ClassSums], Outcome | None],
        size: int,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> Outcome | None:
        """Call a function with these rows: samples of any size can be drawn here."""
        return solve(self)

    def sample(self, size: int, seed: int) -> ClassSums | None:
        """Rows drawn at random, evenly from the first to the last of each class.

        Fewer than five of a class are too few, and give None.
        """
        rng = np.random.default_rng(seed)
        order = np.argsort(self.labels, kind="stable")
        ends = np.cumsum(np.bincount(self.labels, minlength=self.classes))
        chosen = []
        for part in np.split(order, ends[:-1]):
            many = round(size * len(part) / self.n)
            if many < min(5, len(part)):
                return None
            chosen.append(part[spread_places(len(part), many, rng)])
        return self._take(np.concatenate(chosen))

    # ---- the dual

    def dual(self, point: Evaluation) -> Dual:
        """Probabilities near those of the point that sum to the label counts of each class.

        Intercepts require this. Without them, the point's own probabilities do, at no cost.
        """
        data = point.gradient[: self.d] - self.penalty.l2 * point.theta[: self.d]
        if not self.fit_intercept:
            return Dual(data, 0.0)
        moved = move_gradient(data, self.class_means(), *self._moved(point))
        return Dual(moved, self.dual_cost(point, 1.0, 1.0))

    def dual_cost(self, point: Evaluation, up: float, down: float) -> float:
        """Cost of keeping only the smaller share of the way from labels to probabilities."""
        share = min(up, down)
        if not self.fit_intercept:
            kept, given = np.ones(self.classes), np.zeros(self.classes)
        else:
            kept, given = self._moved(point)
        return self.moving_cost(point, kept, given, share)

    def moving_cost(self, point: Evaluation, kept: Vector, given: Vector, share: float) -> float:
        """Cost of the change of :func:`move_chances`, keeping a share of the way."""
        if share == 1.0 and (kept == 1.0).all():
            return 0.0

        def costs(parts: Sequence[slice]) -> tuple[Vector]:
            total = np.zeros(1)
            for part, _, scores in self._scores(point.theta, self.kind, parts):
                total += kernels.softmax_divergence(
                    scores, self.labels[part], self._weights_of(part), kept, given, share
                )
            return (total,)

        (total,) = self._add(costs)
        return float(total[0]) / self.n

    def moved_dual(self, point: Evaluation, kept: Vector, given: Vector) -> tuple[Vector, float]:
        """Means of the classes, and the cost of the change of :func:`move_chances`.

        Several machines add these up; the change is the same on all of them.
        """
        return self.class_means(), self.moving_cost(point, kept, given, 1.0)

    def _moved(self, point: Evaluation) -> tuple[Vector, Vector]:
        shares = self.shares()
        return move_chances(shares, shares + point.gradient[self.d :])

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


def _products(slopes: Any, block: Any) -> Any:
    """Sum over rows of slopes times rows, shape (classes, features)."""
    return (block.T @ slopes).T if sparse.issparse(block) else slopes.T @ block
