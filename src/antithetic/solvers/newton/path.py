"""Solutions along several penalties, each from where the one before ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from antithetic.exact.sums import Vector
from antithetic.problem.penalties import Penalty
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.iterations import Newton


class _Penalised(Protocol):
    def with_penalty(self, penalty: Penalty) -> Any:
        """The same rows with another penalty."""


Found = TypeVar("Found")
Rows = TypeVar("Rows", bound=_Penalised)


class PathEffort(NamedTuple):
    """How far each solution goes, and the seed of the samples.

    ``check`` raises an error if an entry of the rows is not finite; None where that is known.
    """

    tol: float
    max_iter: int
    seed: int
    check: Callable[[], object] | None = None


def follow_path(
    sums: Rows,
    penalties: Sequence[Penalty],
    effort: PathEffort,
    start: Vector | None,
    first: Callable[[Rows, Newton], Vector | None],
    found: Callable[[Rows, Newton, Iterate], Found],
    watch: Callable[[Callable[[], Found]], object] | None,
) -> list[Found]:
    """Minimise with each penalty in turn.

    Parameters
    ----------
    sums : object
        Sums over the rows, which also have ``with_penalty``.
    penalties : sequence of Penalty
        Strong ones first.
    effort : PathEffort
    start : ndarray or None
        Given weights to begin with.
    first : callable
        Finds weights to begin with if none are given; returns None for samples.
    found : callable
        Makes a result of an iterate.
    watch : callable or None
        Called before the first and after each iteration over all rows, with a function that makes
        the result so far.
    """
    newton, results = None, []
    for penalty in penalties:
        sums = sums.with_penalty(penalty)
        if newton is None or effort.max_iter == 0:
            newton = Newton(
                sums,  # type: ignore[arg-type]  # all of Sums
                effort.tol,
                effort.seed,
                plain=len(penalties) == 1,
            )
            starting = partial(begin, newton, start, partial(first, sums, newton), effort.max_iter)
            iterate = _checked(starting, effort.check)
        else:
            some: Any = newton.sample
            some = None if some is None else some.with_penalty(penalty)
            newton, iterate = newton.follow(sums, iterate, some)  # type: ignore[arg-type]
        result = partial(found, sums, newton)
        watching = None if watch is None else lambda now: watch(partial(result, now))  # noqa: B023
        iterate = _solve(newton, iterate, effort.max_iter, watching)
        results.append(result(iterate))
    return results


def begin(
    newton: Newton, start: Vector | None, first: Callable[[], Vector | None], max_iter: int
) -> Iterate:
    """Pass over all rows for the first time.

    With ``max_iter=0``, the iterate has the weights of ``start``, else zero. Otherwise the method
    begins with them, or with what ``first`` finds.
    """
    if max_iter == 0:
        return newton.at(start)
    return newton.start(first() if start is None else start)


def _checked(starting: Callable[[], Iterate], check: Callable[[], object] | None) -> Iterate:
    """Pass over all rows for the first time, and ask for a check where these may not be finite.

    Every entry is a term of the gradient, times a finite slope or one that is not a number: if all
    of the gradient is finite, so are all entries.
    """
    try:
        begun = starting()
    except Exception:  # from any code that does not expect such numbers
        if check is not None:
            check()
        raise
    if check is not None and not np.isfinite(begun.point.gradient).all():
        check()
    return begun


def _solve(
    newton: Newton,
    progress: Iterate,
    max_iter: int,
    watch: Callable[[Iterate], object] | None = None,
) -> Iterate:
    """Iterate until the gap is small enough, and at most so often."""
    if watch is not None:
        watch(progress)
    while not progress.ended and progress.iterations < max_iter:
        before, progress = progress.iterations, newton.step(progress)
        if watch is not None and progress.iterations > before:
            watch(progress)
    return progress if progress.ended else newton.close(progress)
