"""Find the least effort with which each peer reaches each target.

Tolerances are loosened as far as the target allows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from races.peer import Config, Peer
from races.rows import Row
from races.sets import FIRST_SETS
from races.tasks import TARGETS, Task

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
# of the effort, from one rung to the next; the gap between the last two is bisected afterwards
_GROWTH = 1.3
_TIMED_AGAIN = 0.1  # seconds below which a single timing cannot be trusted
_DOMINATED = 3.0  # this many times slower than another configuration that is as close: dropped
# Rungs after which the worse half of the rivals is dropped, except those marked as late.
_HALVED_AT = (2, 4)
# The same for all: after 9 passes scikit-learn's "adaptive" has shortened its steps, and is often
# the best.
_ALL_HALVED_AT = (7, 10)
_STALLED_RUNGS, _STALLED = 5, 0.99
_LEAST_LEFT = 2
# Configurations of one peer whose first times differ by less are both timed side by side.
_NEARLY = 1.5
_MORE = 4  # efforts to try, from the one that was enough with one thread on
_WARM_UP = 3  # passes: the first of a balanced order is another kernel than the next


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is done.

    Attributes
    ----------
    seconds : float
        Of one fit; a configuration that takes longer climbs no further.
    in_all : float
        Of all fits of one peer on one problem, the last timing apart.
    seeds : tuple of int
    repeats : int
        Of the last timing.
    clock : {"wall", "cpu"}
    targets : tuple of float
        Gaps to be reached; no peer climbs beyond the smallest of them.
    behind : float
        A peer whose fit takes this many times the seconds of the fastest so far to the smallest
        target climbs no further.
    first : tuple of str
        Sets on which the first fit of a fresh process is timed as well.
    """

    seconds: float = 10.0
    in_all: float = 120.0
    seeds: tuple[int, ...] = (0, 1)
    repeats: int = 5
    clock: str = "wall"
    targets: tuple[float, ...] = TARGETS
    behind: float = np.inf
    first: tuple[str, ...] = FIRST_SETS

    @property
    def words(self) -> str:
        """All of them in words, as in the rows."""
        targets, seeds = (
            " ".join(f"{value:g}" for value in values) for values in (self.targets, self.seeds)
        )
        cost = (
            f"{self.seconds:g} s a fit, {self.in_all:g} s a peer, {self.behind:g} times the fastest"
        )
        return (
            f"{cost}; targets {targets}; seeds {seeds}; {self.repeats} repeats; {self.clock} clock"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A configuration at one effort: mean gap over seeds, median seconds."""

    config: Config
    effort: int
    gap: float
    seconds: float
    passes: float
    iterations: float
    repeats: int = 1
    status: str = "ok"

    @property
    def setting(self) -> str:
        """Configuration and effort in words."""
        return f"{self.config.setting}, {self.config.effort}={self.effort}"


def efforts(effort: int = 1) -> Iterator[int]:
    """1, 2, 3, 4, 5, 6, 7, 9, 11, ...: from 4 on, the ratio of neighbours is at most 1.3."""
    while True:
        yield effort
        effort = max(effort + 1, int(effort * _GROWTH))


def timed(
    config: Config, effort: int, seed: int, clock: Callable[[], float]
) -> tuple[float, np.ndarray, float, float]:
    """Seconds of one fit, its weights, passes and iterations."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # solvers that are stopped early say so
        start = clock()
        fit = config.fit(effort, seed)
        seconds = clock() - start
    return seconds, np.asarray(fit.coef), float(fit.passes), float(fit.iterations)


def failure(error: Exception) -> str:
    """The status of a peer that failed."""
    return f"failed: {' '.join(str(error).split())[:200] or type(error).__name__}"


def seeds_of(config: Config, limits: Limits) -> tuple[int, ...]:
    """One seed if they do not matter."""
    return limits.seeds if config.stochastic else limits.seeds[:1]


def measure(config: Config, effort: int, task: Task, limits: Limits) -> Point:
    """Fit once with every seed, twice if that is quick."""
    clock, found = CLOCKS[limits.clock], []
    for seed in seeds_of(config, limits):
        seconds, coef, passes, iterations = timed(config, effort, seed, clock)
        if seconds < _TIMED_AGAIN:
            seconds = min(seconds, timed(config, effort, seed, clock)[0])
        found.append((task.gap(coef), seconds, passes, iterations))
    gap, seconds, passes, iterations = np.array(found).T
    return Point(
        config,
        effort,
        float(gap.mean()),
        float(np.median(seconds)),
        float(passes.mean()),
        float(iterations.mean()),
    )


def climb(
    peer: Peer, configs: Sequence[Config], task: Task, target: float, limits: Limits
) -> Iterator[Point]:
    """Raise the effort until the target is reached or the time is over.

    Configurations that fall behind are dropped.
    """
    points: list[Point] = []
    alive, spent = list(configs), 0.0
    # Imports are not timed, for any peer.
    timed(alive[0], _WARM_UP, limits.seeds[0], CLOCKS[limits.clock])
    for place, effort in enumerate(efforts()):
        rung = []
        for config in alive:
            rung.append(measure(config, effort, task, limits))
            spent += rung[-1].seconds * len(seeds_of(config, limits))
            yield rung[-1]
        points += rung
        going = [point for point in rung if point.gap > target and point.seconds <= limits.seconds]
        going = [
            point for point in going if _too_early(point, place) or not _hopeless(point, points)
        ]
        alive = [point.config for point in (_halved(going, place) if peer.rivals else going)]
        if not alive or spent > limits.in_all:
            return


def _too_early(point: Point, place: int) -> bool:
    """Whether it cannot be judged yet."""
    return point.config.late and place < _ALL_HALVED_AT[0]


def _halved(rung: Sequence[Point], place: int) -> Sequence[Point]:
    """The better half of those that can be judged, and the others, if it is time for that."""
    if place not in _HALVED_AT + _ALL_HALVED_AT:
        return rung
    judged = sorted(
        (point for point in rung if not _too_early(point, place)), key=lambda point: point.gap
    )
    return judged[: max(_LEAST_LEFT, len(judged) // 2)] + [
        point for point in rung if _too_early(point, place)
    ]


def _hopeless(point: Point, points: Sequence[Point]) -> bool:
    """Whether it diverged, stalled, or another configuration is as close in a third of the time."""
    own = [other for other in points if other.config is point.config]
    before = min((other.gap for other in own[:-_STALLED_RUNGS]), default=np.inf)
    # Infinity is not below infinity.
    if len(own) > _STALLED_RUNGS and not point.gap <= _STALLED * min(before, 1e300):
        return True
    return any(
        other.config is not point.config
        and other.gap <= point.gap
        and _DOMINATED * other.seconds <= point.seconds
        for other in points
    )


def cheapest(points: Sequence[Point], target: float) -> Point | None:
    """The quickest of the points that are close enough."""
    return min(
        (point for point in points if point.gap <= target),
        key=lambda point: point.seconds,
        default=None,
    )


def refine(points: list[Point], target: float, task: Task, limits: Limits) -> Iterator[Point]:
    """Bisect the least sufficient effort of the cheapest configuration.

    The search starts between the last effort that is too little and the first that is enough.
    """
    found = cheapest(points, target)
    if found is None:
        return
    own = sorted(
        (point for point in points if point.config is found.config), key=lambda point: point.effort
    )
    enough = next(point.effort for point in own if point.gap <= target)
    too_little = max((point.effort for point in own if point.effort < enough), default=0)
    while enough - too_little > 1:
        middle = measure(found.config, (enough + too_little) // 2, task, limits)
        yield middle
        if middle.gap <= target:
            enough = middle.effort
        else:
            too_little = middle.effort


def candidates(points: Sequence[Point], target: float, within: float = _NEARLY) -> list[Point]:
    """The least effort with which each configuration reaches the target.

    Configurations that take more than ``within`` times as long as the quickest are left out.
    """
    least: dict[int, Point] = {}
    for point in sorted(points, key=lambda point: point.effort):
        if point.gap <= target:
            least.setdefault(id(point.config), point)
    quickest = min((point.seconds for point in least.values()), default=np.inf)
    return [point for point in least.values() if point.seconds <= within * quickest]


def recall(configs: Sequence[Config], rows: Sequence[Row]) -> list[Point]:
    """The points of these configurations among rows that were measured earlier."""
    points = []
    for row in rows:
        for config in configs:
            words = f"{config.setting}, {config.effort}="
            if row.part == "curve" and row.status == "ok" and row.setting.startswith(words):
                effort = int(row.setting.removeprefix(words))
                given = (row.value, row.seconds, row.passes, row.iterations)
                points.append(Point(config, effort, *given))
    return points


def retrace(
    earlier: Sequence[Point], targets: Sequence[float], task: Task, limits: Limits
) -> Iterator[Point]:
    """Measure with several threads the least efforts that were enough with one.

    Threads change the order of sums, and the result of solvers that update weights without locks,
    so an effort that is no longer enough is raised. A configuration that was slower with one thread
    by more than the number of threads cannot become the fastest. A gap that one thread did not
    reach in time is not tried.
    """
    found: dict[tuple[int, int], Point] = {}
    timed(earlier[0].config, _WARM_UP, limits.seeds[0], CLOCKS[limits.clock])
    for target in targets:
        for point in candidates(earlier, target, _NEARLY * task.threads):
            for effort in islice(efforts(point.effort), _MORE):
                key = id(point.config), effort
                if key not in found:
                    found[key] = measure(point.config, effort, task, limits)
                    yield found[key]
                if found[key].gap <= target or found[key].seconds > limits.seconds:
                    break


def time_together(points: Sequence[Point], limits: Limits) -> list[Point]:
    """Run the points in turn, repeatedly.

    Takes the smallest time of each seed, and the median of those.

    One that fails is left out from then on, keeps its first time and says in its status what
    happened.
    """
    clock, broken = CLOCKS[limits.clock], dict[int, str]()
    best = [dict.fromkeys(seeds_of(point.config, limits), np.inf) for point in points]
    for _ in range(limits.repeats):
        for place, (point, least) in enumerate(zip(points, best, strict=True)):
            if place in broken:
                continue
            try:
                for seed in least:
                    least[seed] = min(
                        least[seed], timed(point.config, point.effort, seed, clock)[0]
                    )
            except Exception as error:  # a peer that fails must not end the run
                broken[place] = failure(error)
    return [
        (
            replace(point, status=broken[place])
            if place in broken
            else replace(
                point, seconds=float(np.median(list(least.values()))), repeats=limits.repeats
            )
        )
        for place, (point, least) in enumerate(zip(points, best, strict=True))
    ]
