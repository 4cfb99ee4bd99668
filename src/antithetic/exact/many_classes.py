r"""Many classes: how steps are found and where fits begin.

The Hessian of K classes has :math:`(K d)^2` entries. It is taken if there are few weights. Its
blocks on the diagonal are much alike, :math:`\frac1n \sum_i s_i p_{ik} (1 - p_{ik}) x_i x_i^\top`,
so one Cholesky factor of their mean, the *shared factor*, removes the scales and correlations of
the columns. It is the first matrix of L-BFGS; once that is slow, the blocks themselves take its
place, then a Hessian or products with it. With very many rows, it preconditions conjugate
gradients, which find Newton's step with the Hessian of a sample of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import Matrix
from antithetic.exact.certificate import Closeness
from antithetic.exact.class_sums import MOST_SQUARE, ClassSample, ClassSums
from antithetic.exact.epoch import class_epoch_start
from antithetic.exact.goal import FEW_ROWS, Goal
from antithetic.exact.l1 import Lasso
from antithetic.exact.linear_algebra import Factor, conjugate_gradients
from antithetic.exact.models import (
    Model,
    Pairs,
    Proposal,
    QuasiNewton,
    corrected,
    is_worth_renewing,
    next_damping,
    with_pair,
)
from antithetic.exact.newton import settle, value
from antithetic.exact.path import Effort, Solved, Start, follow
from antithetic.exact.sums import Evaluation, Vector, Whitening, diagonal_of
from antithetic.problem.columns import centre_of
from antithetic.problem.penalties import Penalty

if TYPE_CHECKING:
    from antithetic.exact.newton import Moved

_FACTOR_ROWS = 15.0  # per column, that the shared factor is made from
_GIVEN = "all rows from the start, because the fit began with given weights"
_EPOCH = "an epoch of stochastic gradient descent first, which costs about two visits to the rows"
_SAMPLES = "samples first, because far from the optimum they are accurate enough"

# which model
MOST_WITH_L1 = 1000  # weights whose Hessian is formed with an L1 penalty
_FEW_WEIGHTS = 160  # whose Hessian is taken if samples make up for it or it is no work, ...
_ROWS_PER_WEIGHT, _NO_WORK = 60, 1.5e6  # ... with so many rows, or products of them
_FEWEST_WEIGHTS = 40  # whose Hessian is always taken
_ROWS_PER_SAMPLED = 100.0  # of all rows: products with the sample's Hessian then cost next to none

# samples
_LEAST_ROWS = 1500  # fewer are not worth a sample
_ROWS_PER_COLUMN, _PER_WEIGHT, _LEAST_SAMPLE = 150.0, 5.0, 2000.0
_LARGEST_SHARE = 0.5  # of the rows in a sample
_FIRST_ROWS, _FIRST_PER_COLUMN, _FIRST_SHARE = 500.0, 5.0, 1.0 / 64.0
_LEAST_GROWTH = 1.5  # from the first sample to the second

# conjugate gradients and the shared factor
_PROBES = 16  # random vectors that a trace is estimated by
_MOST_PRODUCTS, _LEFT_OVER = 30, 0.01  # of the Hessian with a vector; of the squared residual
_MOST_TO_PROVE = 100  # products, if a gap is to be estimated
_POOR_SAMPLE = 0.5  # of the gradient that a step with a sample's Hessian may leave

# L-BFGS
_STEPS_SEEN = 6  # that tell how fast L-BFGS is
_FEW_SEEN = 3  # the same, if a block for each class is at stake
_OTHER = 0.75  # of the curvature, or its inverse: blocks of so different a point are old
_MOST_STEPS = 40  # of L-BFGS: less than half of what a fit may take
_MOST_IN_HESSIAN = 2000  # weights of a Hessian that is formed
_MOST_TO_CERTIFY = 500  # the same, for a proof alone
_SLOWEST = 0.95  # of the decrement that a step leaves: slower ones tell nothing of what is left


class SharedFactor:
    """Inverse of a matrix whose blocks, one for each class, differ by numbers alone.

    The result has no part along which all classes change alike, as gradients have none.
    """

    def __init__(self, whitening: Whitening, l2: float, *, fit_intercept: bool) -> None:
        products, shares = whitening.products, np.maximum(whitening.shares, 1e-6)
        self._classes, self._features = len(shares), len(products)
        if products.ndim == 2:
            places = np.arange(self._features)
            matrix = products.copy()
            matrix[places, places] += l2
            self._factor: Factor | None = Factor(matrix)
        else:
            self._factor = None
            diagonal = products + l2
            self._diagonal = np.where(diagonal > 0.0, diagonal, 1.0)
        data = 1.0 - l2 * self._mean_of_inverse()  # what the rows have of the curvature
        data = min(1.0, max(0.0, data))
        self._scales = 1.0 / (data * shares + (1.0 - data))
        least = np.finfo(np.float64).tiny
        self._constants = (
            1.0 / np.maximum(whitening.mean * shares, least) if fit_intercept else None
        )

    def _mean_of_inverse(self) -> float:
        """Mean of the diagonal of the inverse, roughly."""
        if self._factor is None:
            return float((1.0 / self._diagonal).mean())
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(self._features, _PROBES))
        return float((signs * self._factor.solve(signs)).mean())

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system, of a point's length."""
        d = self._classes * self._features
        rows = vector[:d].reshape(self._classes, self._features)
        rows = rows - rows.mean(axis=0)
        solved = rows / self._diagonal if self._factor is None else self._factor.solve(rows.T).T
        solved = solved * self._scales[:, None]
        solved -= solved.mean(axis=0)
        if self._constants is None:
            return np.ravel(solved)
        constants = self._constants * (vector[d:] - vector[d:].mean())
        return np.concatenate([np.ravel(solved), constants - constants.mean()])


class ClassFactors:
    """Inverse of a matrix that has one block for each class, and nothing between them.

    The result has no part along which all classes change alike, as gradients have none.

    Parameters
    ----------
    blocks : ndarray of shape (classes, features, features) or (classes, features + 1, features + 1)
        Second derivatives of the mean loss by the weights of each class and, with intercepts, by
        its intercept.
    features : int
    l2 : float
    """

    def __init__(self, blocks: Vector, features: int, l2: float) -> None:
        self._features, self._size = features, blocks.shape[1]
        # of each block a root of its inverse: products with it are faster than to solve systems
        self._roots = np.empty_like(blocks)
        for root, block in zip(self._roots, blocks, strict=True):
            matrix = block.copy()
            diagonal_of(matrix)[:features] += l2
            root[:] = Factor(matrix).inverse_root()

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system, of a point's length."""
        classes, f = len(self._roots), self._features
        rows = vector[: classes * f].reshape(classes, f)
        if self._size > f:
            rows = np.column_stack([rows, vector[classes * f :]])
        rows = rows - rows.mean(axis=0)
        half = np.matmul(self._roots, rows[:, :, None])
        solved = np.matmul(half.transpose(0, 2, 1), self._roots)[:, 0]
        solved -= solved.mean(axis=0)
        if self._size == f:
            return np.ravel(solved)
        return np.concatenate([np.ravel(solved[:, :f]), solved[:, f]])


class Truncated(NamedTuple):
    """Newton's step by conjugate gradients, with the Hessian of a sample or of all rows.

    Attributes
    ----------
    seed : int
        Of the rows that the shared factor is made from.
    sample : ClassSample or None
        Rows whose Hessian is taken; None for all rows.
    damping : float
        See :func:`antithetic.exact.models.next_damping`.
    """

    seed: int
    sample: ClassSample | None = None
    damping: float = 0.0
    factor: SharedFactor | ClassFactors | None = None
    pairs: Pairs = ()

    @property
    def name(self) -> str:
        """How steps are found."""
        return "conjugate gradients"

    def ready(
        self,
        sums: Any,
        point: Evaluation,
        target: float,  # noqa: ARG002
        before: float,  # noqa: ARG002
    ) -> tuple[Truncated, Proposal]:
        """Solve for Newton's step, roughly: the next one has a better Hessian."""
        some = sums if self.sample is None else self.sample.sums
        factor = self.factor
        if factor is None:
            factor = shared_factor(some, point, self.seed, self.damping)
        times = some.products(point.theta, self.damping)

        def solve(given: Vector) -> Vector:
            return conjugate_gradients(times, factor.solve, given, _MOST_PRODUCTS, _LEFT_OVER).step

        step = corrected(self.pairs, solve, point.gradient)
        slope = -float(point.gradient @ step)
        return self._replace(factor=factor), Proposal(-step, slope, -0.5 * slope)

    def learned(self, sums: Any, before: Evaluation, moved: Moved) -> Truncated:
        """Keep the pair of the step and the change of the gradient; enlarge a poor sample."""
        damping = next_damping(sums, before, moved, self.damping)
        factor = self.factor if damping <= self.damping else None
        model = self._replace(damping=damping, factor=factor)
        if self.sample is None:  # products are those of the point itself
            return model
        model = model._replace(pairs=with_pair(self.pairs, before, moved.point))
        if self._left_over(sums, before, moved) > _POOR_SAMPLE:
            larger = self.sample.larger()
            return model._replace(sample=larger, pairs=model.pairs if larger else ())
        return model

    def _left_over(self, sums: Any, before: Evaluation, moved: Moved) -> float:
        """Return what the step leaves of the linear system of all rows."""
        assert self.factor is not None
        assert moved.visit.expected is not None
        left = moved.visit.expected.copy()
        left[: sums.d] += sums.penalty.l2 * moved.visit.after.theta[: sums.d]
        given = float(before.gradient @ self.factor.solve(before.gradient))
        return math.sqrt(float(left @ self.factor.solve(left)) / given) if given > 0.0 else 0.0

    def finer(self, sums: Any, point: Evaluation) -> Truncated | None:  # noqa: ARG002
        """Take the Hessian of all rows; then with full damping."""
        if self.sample is not None:
            return Truncated(self.seed, None, self.damping, self.factor)
        return None if self.damping == 1.0 else Truncated(self.seed, None, 1.0, self.factor)

    def rough_gap(self, point: Evaluation) -> float:  # noqa: ARG002
        """Have no Hessian at hand."""
        return np.nan

    def promise(self, sums: Any, point: Evaluation, allowed: float) -> tuple[Model, Closeness]:
        """Return the decrement, of the Hessian of all rows if it may be what is allowed."""
        model, proposal = self.ready(sums, point, allowed, math.inf)
        decrement = proposal.decrement
        assert model.factor is not None
        if decrement <= allowed and sums.d <= _MOST_TO_CERTIFY:
            return QuasiNewton(factor=model.factor).promise(sums, point, allowed)
        if decrement <= allowed and self.sample is not None:
            decrement = decrement_of(sums, point, model.factor.solve)
        return model, Closeness(decrement)

    def on_sample(self, sample: Any) -> Truncated:
        """Return the same with the Hessians of a sample."""
        return self._replace(sample=sample)

    def with_penalty(self, sums: Any) -> Truncated:
        """Forget the steps, whose gradients had another penalty."""
        sample = None if self.sample is None else self.sample.with_penalty(sums.penalty)
        return Truncated(self.seed, sample, self.damping)


def shared_factor(
    sums: ClassSums, point: Evaluation, seed: int, damping: float = 0.0
) -> SharedFactor:
    """Make the factor of what the classes share, from a sample of many rows."""
    some = sums
    if max(FEW_ROWS, 2.0 * _FACTOR_ROWS * sums.features) < sums.n and sums.features <= MOST_SQUARE:
        some = sums.samples([_FACTOR_ROWS * sums.features], seed)[0].sums
    whitening = some.whitening(point, damping=damping)
    return SharedFactor(whitening, sums.penalty.l2, fit_intercept=sums.fit_intercept)


def decrement_of(sums: ClassSums, point: Evaluation, solve: Any) -> float:
    """Return what Newton's step promises, by products with the Hessian of all rows."""
    solved = conjugate_gradients(
        lambda along: sums.times(point, along),
        solve,
        point.gradient,
        _MOST_TO_PROVE,
        _LEFT_OVER,
    )
    return 0.5 * float(point.gradient @ solved.step)


class Whitened(NamedTuple):
    """L-BFGS whose first matrix all classes share or, once that is slow, has a block for each.

    If it is slow nevertheless, a Hessian of all weights takes its place, or products with it.

    Attributes
    ----------
    seed : int
        Of the rows that the shared factor is made from.
    """

    seed: int
    factor: SharedFactor | ClassFactors | None = None
    unit: float = 1.0
    pairs: Pairs = ()
    decrements: tuple[float, ...] = ()  # since the matrix was made
    then: float = math.inf  # mean curvature of all rows where blocks were made
    spent: float = 0.0  # visits, those for blocks included
    steps: int = 0

    @property
    def name(self) -> str:
        """How steps are found."""
        return "whitened L-BFGS"

    def ready(
        self,
        sums: Any,
        point: Evaluation,
        target: float,
        before: float,  # noqa: ARG002
    ) -> tuple[Model, Proposal]:
        """Return a step of L-BFGS, from blocks or from a Hessian once these pay."""
        model = self if self.factor is not None else self._with_shared(sums, point)
        proposal = model._propose(point)
        decrements = (*model.decrements, proposal.decrement)[-_STEPS_SEEN:]
        model = model._replace(
            decrements=decrements, steps=model.steps + 1, spent=model.spent + 1.0
        )
        if model._is_full_worth_it(sums, target):
            return model._full(sums).ready(sums, point, target, math.inf)
        if model._are_blocks_worth_it(sums, point, target):
            model = model._with_blocks(sums, point)
            return model, model._propose(point)
        return model, proposal

    def _with_shared(self, sums: ClassSums, point: Evaluation) -> Whitened:
        return self._replace(factor=shared_factor(sums, point, self.seed))

    def _with_blocks(self, sums: ClassSums, point: Evaluation) -> Whitened:
        factor = ClassFactors(sums.class_blocks(point), sums.features, sums.penalty.l2)
        spent = self.spent + sums.block_passes
        return self._replace(
            factor=factor,
            unit=1.0,
            pairs=(),
            decrements=(),
            then=point.totals[0],
            spent=spent,
        )

    def _propose(self, point: Evaluation) -> Proposal:
        step = corrected(self.pairs, self._solve, point.gradient)
        slope = -float(point.gradient @ step)
        return Proposal(-step, slope, -0.5 * slope, is_newton=False)

    def _solve(self, vector: Vector) -> Vector:
        assert self.factor is not None
        return self.unit * self.factor.solve(vector)

    def _is_full_worth_it(self, sums: ClassSums, target: float) -> bool:
        """Whether Newton's steps should follow: they pay, or max_iter may end the fit."""
        is_late, visits = self.steps > _MOST_STEPS, sums.hessian_visits
        if sums.d > _MOST_IN_HESSIAN:  # products then, once L-BFGS would take too many steps
            if not is_late:
                return False
            visits = max(0.0, 2.0 * _MOST_STEPS - self.steps)
        elif is_late or self.spent > visits:
            return True
        ratio = self._ratio(_STEPS_SEEN)
        if ratio is None:  # new blocks may hide for ever how slow steps are
            return self.steps > 2 * _MOST_STEPS
        return is_worth_renewing(self.decrements[-1], target, ratio, visits)

    def _are_blocks_worth_it(self, sums: ClassSums, point: Evaluation, target: float) -> bool:
        """Whether a block for each class is worth its visits, or new ones if they are old."""
        ratio, visits = self._ratio(_FEW_SEEN), sums.block_passes
        if ratio is None:
            return False
        if self.then < math.inf:  # new ones gain less than the first
            visits *= 2.0
            if _OTHER * self.then < point.totals[0] < self.then / _OTHER:
                return False
        return is_worth_renewing(self.decrements[-1], target, ratio, visits)

    def _ratio(self, many: int) -> float | None:
        """What a step leaves of the decrement, by so many of the last ones; None if too few."""
        seen = self.decrements[-many:]
        if len(seen) < many:
            return None
        ratio = (seen[-1] / seen[0]) ** (1.0 / (many - 1)) if seen[0] > 0.0 else 1.0
        return min(ratio, _SLOWEST)

    def learned(self, sums: Any, before: Evaluation, moved: Moved) -> Whitened:  # noqa: ARG002
        """Keep the pair of the step and the change of the gradient, and the unit that it shows.

        Steps go where a few rows and classes are undecided, so that they meet more curvature than
        the mean of all.
        """
        assert self.factor is not None
        pairs = with_pair(self.pairs, before, moved.point)
        if pairs is self.pairs:
            return self
        _, change, inverse = pairs[-1]
        curvature = inverse * float(change @ self.factor.solve(change))
        return self._replace(pairs=pairs, unit=1.0 / curvature if curvature > 0.0 else self.unit)

    def finer(self, sums: Any, point: Evaluation) -> Model:  # noqa: ARG002
        """Start again from this point with new pairs; after that, take Newton's steps."""
        if self.pairs:
            return Whitened(self.seed, spent=self.spent, steps=self.steps)
        return self._full(sums)

    def on_sample(self, sample: Any) -> Whitened:  # noqa: ARG002
        """Return the same: no Hessian is taken at first."""
        return self

    def _full(self, sums: ClassSums) -> Model:
        if sums.d > _MOST_IN_HESSIAN:
            return Truncated(self.seed, factor=self.factor)
        return QuasiNewton(is_exact=sums.n < FEW_ROWS)

    def rough_gap(self, point: Evaluation) -> float:  # noqa: ARG002
        """Have no Hessian at hand."""
        return np.nan

    def promise(self, sums: Any, point: Evaluation, allowed: float) -> tuple[Model, Closeness]:
        """Return the decrement, of the Hessian of all rows if it may be what is allowed."""
        model = self if self.factor is not None else self._with_shared(sums, point)
        decrement = model._propose(point).decrement
        if decrement <= allowed:
            decrement = decrement_of(sums, point, model._solve)
        if decrement <= allowed and sums.d <= _MOST_TO_CERTIFY:
            return QuasiNewton(factor=model.factor).promise(sums, point, np.inf)
        return model, Closeness(decrement)

    def with_penalty(self, sums: Any) -> Whitened:  # noqa: ARG002
        """Forget the steps, whose gradients had another penalty."""
        return Whitened(self.seed)


# ---- fits


def class_sums_of(
    X: Matrix,
    labels: NDArray[np.intp],
    classes: int,
    penalty: Penalty,
    weight: NDArray[np.float64] | None,
    *,
    fit_intercept: bool,
    threads: int = 1,
) -> ClassSums:
    """Sums over rows of many classes, of centred columns if there are intercepts."""
    centre = centre_of(X, weight) if fit_intercept else None
    return ClassSums(X, labels, classes, penalty, weight, centre, threads)


def solve_classes(
    sums: ClassSums,
    penalties: Sequence[Penalty],
    effort: Effort,
    *,
    start: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> list[Solved]:
    """Minimise the cross-entropy of many classes with each of several penalties.

    Parameters
    ----------
    sums : ClassSums
    penalties : sequence of Penalty
        Strong ones first: each begins where the one before ended.
    effort : Effort
    start : tuple of ndarrays of shape (classes, features) and (classes,), default=None
        Weights and intercepts to begin with.
    """
    given = None if start is None else sums.in_gauge(sums.join(*start))
    return follow(sums, penalties, effort, given, begin)


def begin(sums: ClassSums, goal: Goal, effort: Effort, is_given: bool) -> Start:  # noqa: ARG001
    """Choose where to begin on rows of many classes, and how to find steps."""
    model, why = choose_model(sums, effort.seed)
    sizes = sample_sizes(sums.n, sums.features, sums.classes)
    with_hessians, sample = model, None
    if isinstance(model, (QuasiNewton, Truncated)) and sizes:
        sample = ClassSample(sums, sizes[-1], effort.seed)
        with_hessians = model._replace(sample=sample)
        why = f"{why}, those of {sample.n} rows, drawn by importance"
    if is_given:
        return Start(None, with_hessians, (), (_GIVEN, why))
    if isinstance(model, Whitened):
        sizes = ()
        if (theta := class_epoch_start(sums, effort.seed)) is not None:
            return Start(theta, model, (), (_EPOCH, why))
    if not sizes:
        few = f"{sums.n} rows are too few to sample for {sums.d} weights"
        return Start(None, model, (), (f"all rows from the start, because {few}", why))
    theta, drawn = solve_samples(sums, model, sizes, effort.seed)
    return Start(theta, with_hessians, drawn, (_SAMPLES, why), sample=sample)


def choose_model(sums: ClassSums, seed: int) -> tuple[Any, str]:
    """Choose how steps are found on rows of many classes."""
    n, d = sums.n, sums.d
    matrix, is_few = f"a matrix of {d} x {d} second derivatives", n < FEW_ROWS
    if sums.penalty.l1 > 0.0:
        if d <= MOST_WITH_L1:
            return Lasso(is_cheap=is_few), f"newton, because {matrix} is small enough"
        return Lasso(is_working_set=True), f"working set, because most of {d} weights are zero"
    is_small = n >= _ROWS_PER_WEIGHT * d or float(n) * d**2 <= _NO_WORK
    if d <= (_FEW_WEIGHTS if is_small else _FEWEST_WEIGHTS):
        model = QuasiNewton(is_exact=is_few, is_cheap=is_few)
        return model, f"newton, because {matrix} is small enough"
    sizes = sample_sizes(n, sums.features, sums.classes)
    if sizes and n >= _ROWS_PER_SAMPLED * sizes[-1]:
        return Truncated(seed), f"conjugate gradients, because {matrix} costs more than products"
    matrix += " would cost more than the visits that it saves"
    return Whitened(seed), f"whitened L-BFGS, because {matrix}: smaller ones are enough"


def sample_sizes(n: int, features: int, classes: int) -> tuple[float, ...]:
    """Return the sizes of the samples of n rows, in turn; none if these are too few.

    Examples
    --------
    >>> sample_sizes(1_000_000, 50, 7), sample_sizes(1000, 50, 7)
    ((7500.0,), ())
    """
    if n < _LEAST_ROWS:
        return ()
    size = max(_ROWS_PER_COLUMN * features, _PER_WEIGHT * features * classes, _LEAST_SAMPLE)
    size = min(size, _LARGEST_SHARE * n)
    first = max(_FIRST_ROWS, _FIRST_PER_COLUMN * features, _FIRST_SHARE * n)
    return (first, size) if _LEAST_GROWTH * first < size else (size,)


def solve_samples(
    sums: ClassSums, model: Any, sizes: Sequence[float], seed: int
) -> tuple[Vector, tuple[int, ...]]:
    """Solve one sample after the other; return where they lead, and how many rows they had."""
    zero = np.concatenate([np.zeros(sums.d), sums.constant()[0]])
    theta, drawn = zero, []
    for size in sizes:
        some = ClassSample(sums, size, seed).sums
        point = some.at(theta)
        if theta is not zero:
            other = some.at(zero)
            point = point if value(some, point) < value(some, other) else other
        theta = settle(some, point, model)
        drawn.append(some.n)
    return theta, tuple(drawn)
