"""A first look at the blocks: sizes, labels, possible step sizes, and some rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.dask.blocks import Block, Blocks, open_block
from antithetic.dask.cluster import gather
from antithetic.dask.common import Common
from antithetic.dask.mapping import map_blocks
from antithetic.dask.moments import BlockMoments, Census, join_means, moments_of
from antithetic.dask.tasks import one_thread
from antithetic.estimators.one_vs_rest import classes_of
from antithetic.problem import Problem
from antithetic.problem.losses import Loss
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.smoothness import row_squares, smoothness, typical_square
from antithetic.solvers.step_search import find_steps
from antithetic.solvers.steps import InverseTime

_SAMPLED_BLOCKS, _SAMPLED_ROWS = 64, 4000  # of these blocks, so many rows in all of each class
_POWER_ROWS = 20_000  # rows for the largest curvature of the mean
_MARKED_ROWS = 256  # of each block, by which checkpoints recognise their data
_LEAST_SHARE = 0.5  # of the longest row, as for SVRG on one machine
_STEPS_PER_SMOOTHNESS = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Glance:
    """What the first look finds out about one block.

    Attributes
    ----------
    rows, width : int
    kind : str
        Float type, and "sparse" if it is.
    classes, counts : ndarray
        Labels in order, and the number of rows with each; empty for regression.
    weighted : float
        Sum of the weights.
    worst, mean : float
        Bounds on the curvature of one row, and of the mean.
    mark : str
        Hash of labels, weights and some rows, for checkpoints.
    X, y, weight, factor
        Sampled rows, and how many rows of the block each represents; None if none were sampled.
    moments : BlockMoments or None
        What Newton's method needs to know.
    """

    rows: int
    width: int
    kind: str
    classes: NDArray[Any]
    counts: NDArray[np.intp]
    weighted: float
    worst: float
    mean: float
    mark: str
    X: Any = None
    y: Any = None
    weight: Any = None
    factor: Any = None
    moments: BlockMoments | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What to look for.

    Attributes
    ----------
    loss : Loss
    fit_intercept : bool
    seed : int
    for_newton : bool
        Whether Newton's method follows, which needs sums but no steps or rows.
    marks : bool
        Whether blocks are hashed, for a checkpoint.
    """

    loss: Loss
    fit_intercept: bool
    seed: int
    for_newton: bool = False
    marks: bool = True


def look(client: Any, blocks: Blocks, aim: Look, *, after_loss: str = "") -> list[Glance]:
    """Look at all blocks: one round; ``after_loss`` says what to do if the cluster is lost."""
    n = len(blocks)
    sampled = set(
        np.unique(np.linspace(0, n - 1, min(n, _SAMPLED_BLOCKS)).round().astype(int)).tolist()
    )
    many = -(-_SAMPLED_ROWS // len(sampled))
    taken = [many if number in sampled else 0 for number in range(n)]
    seen = map_blocks(client, glance, "look", blocks, aim, own=[taken], after_loss=after_loss)
    return gather(client, seen, after_loss=after_loss)


def glance(number: int, parts: Sequence[Any], many: int, aim: Look) -> Glance:
    """Look at a block, and sample at most ``many`` rows of each class."""
    with one_thread():
        block = open_block(number, parts)
        n, d = block.X.shape
        kind = f"{block.X.dtype.name}{' sparse' if sparse.issparse(block.X) else ''}"
        assert block.y is not None
        if not n:
            return Glance(0, d, kind, block.y[:0], np.empty(0, np.intp), 0.0, 0.0, 0.0, "")
        _check_numbers(number, block.y, aim.loss)
        classes, codes = _classes_and_codes(block.y, aim.loss)
        counts = np.bincount(codes)
        seen = Glance(
            n,
            d,
            kind,
            classes,
            counts if aim.loss.classification else counts[:0],
            float(n if block.weight is None else block.weight.sum()),
            0.0,
            0.0,
            _mark(block) if aim.marks else "",
        )
        if aim.for_newton:
            seen = replace(seen, moments=moments_of(block, codes, len(counts), aim.loss))
            if aim.loss.classification:
                return seen
        else:
            worst, mean = _curvatures(block, aim)
            seen = replace(seen, worst=worst, mean=mean)
        if not many:
            return seen
        rows, factor = _draw(codes, counts, many, np.random.default_rng((aim.seed, number)))
        weight = None if block.weight is None else block.weight[rows]
        X = None if aim.for_newton else block.X[rows]
        return replace(seen, X=X, y=block.y[rows], weight=weight, factor=factor)


def _check_numbers(number: int, y: NDArray[Any], loss: Loss) -> None:
    if not loss.classification and y.dtype.kind not in "biuf":
        raise ValueError(f"block {number}: y must be numbers for loss={loss.name!r}; got {y.dtype}")
    try:
        loss.check_targets(y)
    except ValueError as error:
        raise ValueError(f"block {number}: {error}") from error


def _classes_and_codes(y: NDArray[Any], loss: Loss) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels in order, and the position of each row's label, which is 0 for regression."""
    if not loss.classification:
        return y[:0], np.zeros(len(y), np.intp)
    classes = classes_of(y)
    if len(classes) == 2:
        return classes, (y == classes[1]).astype(np.intp)
    return classes, np.searchsorted(classes, y)


def _mark(block: Block) -> str:
    """Hash of labels, weights and evenly spaced rows, the same on all machines."""
    some = block.X[:: -(-block.X.shape[0] // _MARKED_ROWS)]
    values = (some.data, some.indices, some.indptr) if sparse.issparse(some) else (some,)
    assert block.y is not None
    mark = blake2b(digest_size=16)
    for column in (_bytes(block.y), block.weight, *values):
        mark.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
    return mark.hexdigest()


def _bytes(y: NDArray[Any]) -> NDArray[Any]:
    return y if y.dtype.kind != "U" else np.char.encode(y, "utf-8")


def _curvatures(block: Block, aim: Look) -> tuple[float, float]:
    """Bounds on the curvature of a typical row and of the mean.

    Infinite for a loss with a kink.
    """
    n, loss = block.X.shape[0], aim.loss
    if not np.isfinite(loss.largest_curvature):
        return np.inf, np.inf
    problem = Problem(
        block.X, np.ones(n), loss, ElasticNet(), block.weight, aim.fit_intercept, None
    )
    worst = loss.largest_curvature * typical_square(row_squares(problem), _LEAST_SHARE)
    some = problem
    if problem.n > _POWER_ROWS:
        rows = np.linspace(0, problem.n - 1, _POWER_ROWS).astype(np.intp)
        weight = None if problem.weight is None else problem.weight[rows]
        some = replace(problem, X=problem.X[rows], y=problem.y[rows], weight=weight)
    return worst, min(smoothness(some), worst)


def _draw(
    codes: NDArray[np.intp], counts: NDArray[np.intp], many: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Some rows of each class, in order, and how many rows each represents."""
    drawn, factors = [np.empty(0, np.intp)], [np.empty(0)]
    for code in range(len(counts) if many else 0):
        rows = np.flatnonzero(codes == code)
        taken = rng.choice(rows, min(len(rows), many), replace=False)
        drawn.append(taken)
        factors.append(np.full(len(taken), len(rows) / max(1, len(taken))))
    rows, factor = np.concatenate(drawn), np.concatenate(factors)
    order = np.argsort(rows)
    return rows[order], factor[order]


def constant_steps(
    glances: list[Glance], units: int, l2: float, heaviest: float
) -> NDArray[np.float64] | None:
    """Step size of each block's corrected steps; None for a loss with a kink.

    It follows from the block's own rows, but is at most that of the average block.
    """
    curvature = np.array(
        [heaviest * (one.worst + (units - 1) * one.mean) / units for one in glances]
    )
    if np.isinf(curvature).any():
        if any(np.isfinite(one.worst) for one in glances if one.rows):
            raise ValueError(
                "the squares of the features are too large; scale the features, for example with"
                " dask_ml.preprocessing.StandardScaler"
            )
        return None
    rows = np.array([one.rows for one in glances])
    mean = float(rows @ curvature) / max(1, rows.sum())
    largest = np.maximum(curvature, mean) + l2
    return np.where(
        largest > 0.0, _STEPS_PER_SMOOTHNESS / np.where(largest > 0.0, largest, 1.0), 1.0
    )


def sampled_problem(glances: list[Glance], common: Common, number: int) -> Problem:
    """A small problem of the sampled rows, weighted to approximate the objective of all rows."""
    seen = [one for one in glances if one.factor is not None and len(one.factor)]
    X = (
        sparse.csr_array(sparse.vstack([one.X for one in seen]))
        if sparse.issparse(seen[0].X)
        else np.concatenate([one.X for one in seen])
    )
    factor = np.concatenate([one.factor for one in seen])
    given = [np.ones(len(one.factor)) if one.weight is None else one.weight for one in seen]
    block = Block(
        X,
        np.concatenate([one.y for one in seen]),
        np.concatenate(given) * factor * (len(factor) / factor.sum()),
    )
    return common.problem(block, number)


def first_steps(glances: list[Glance], common: Common, number: int) -> InverseTime:
    """Step size and decay for plain steps, found on the sampled rows."""
    problem = sampled_problem(glances, common, number)
    return find_steps(problem, common.batch_size, common.seeds[number])


def census_of(glances: list[Glance], classes: NDArray[Any] | None, loss: Loss) -> Census:
    """Join what was found out about all blocks; ``classes`` is None for regression."""
    many = 1 if classes is None else len(classes)
    counts = np.zeros((len(glances), many), np.intp)
    weights, squares = np.zeros(many), np.zeros(many)
    seen = [(k, one, one.moments) for k, one in enumerate(glances) if one.moments is not None]
    for k, one, sums in seen:
        places = np.zeros(1, np.intp) if classes is None else np.searchsorted(classes, one.classes)
        counts[k, places] = one.rows if classes is None else one.counts
        weights[places] += sums.weights
        squares[places] += sums.squares
    rows = int(counts.sum())
    # blocks count as their weights say: those of weight zero may hold anything
    lengths = np.array([sums.weights.sum() for *_, sums in seen])
    lengths /= max(float(lengths.sum()), float(np.finfo(np.float64).tiny))

    def mean_of(name: str) -> NDArray[np.float64]:
        found: NDArray[np.float64] = lengths @ np.array([getattr(sums, name) for *_, sums in seen])
        return np.where(np.isfinite(found), found, 0.0)

    real = np.dtype(seen[0][1].kind.split()[0])
    is_sparse = seen[0][1].kind.endswith("sparse")
    entry_bytes = real.itemsize + (4 if is_sparse else 0)
    mean, spread = 0.0, 0.0
    if classes is None:
        parts = [(float(sums.weights.sum()), sums.mean, sums.spread) for *_, sums in seen]
        mean, spread = join_means(loss, parts)
    numbers, shares = _numbers(glances) if classes is None else (np.empty(0), np.empty(0))
    return Census(
        rows,
        counts,
        weights,
        squares,
        mean_of("centre"),
        mean_of("spreads"),
        mean_of("filled"),
        mean,
        spread,
        float(sum(sums.loss for *_, sums in seen)),
        numbers,
        shares,
        entry_bytes * float(mean_of("entries")),
        real == np.float32,
    )


def _numbers(glances: list[Glance]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Some targets of a regression, and the number of rows times the weight each represents."""
    seen = [one for one in glances if one.factor is not None and len(one.factor)]
    numbers = np.concatenate([np.asarray(one.y, np.float64) for one in seen])
    shares = [one.factor if one.weight is None else one.factor * one.weight for one in seen]
    return numbers, np.concatenate(shares)
