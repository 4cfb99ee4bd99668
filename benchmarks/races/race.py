"""All peers on one problem: the gap by time, and the cheapest way of each to every target.

The cheapest ways are timed side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from races import other_peers, sklearn_peers, vowpal
from races.climb import (
    CLOCKS,
    Limits,
    Point,
    candidates,
    cheapest,
    climb,
    efforts,
    failure,
    recall,
    refine,
    retrace,
    seeds_of,
    time_together,
    timed,
)
from races.first import FirstFit, first_seconds
from races.peer import Config, EstimatorFit, Peer
from races.rows import Row, version_of
from races.tasks import Task, hold_out

Tell = Callable[[str], None]
PEERS = (*sklearn_peers.PEERS, *other_peers.PEERS, *vowpal.PEERS)
_TIMED_WITHIN = 10.0  # times the fastest; what is slower keeps the time of its climb
_NOISE = 0.05  # seconds up to which no peer counts as far behind
_HELD_OUT_AT, _HELD_OUT_TRIES = 1e-4, 8
_FIRST_AT, _FIRST_REPEATS = 1e-3, 5
_FEW, _MANY = 2, 12  # passes whose difference in seconds gives those of one


@dataclass(slots=True, eq=False)
class Runner:
    """A peer on a problem: its configurations, the points measured so far, and what went wrong.

    ``retraced`` says that its efforts come from a race of one thread: no search is needed.
    """

    peer: Peer
    configs: Sequence[Config]
    points: list[Point]
    status: str = "ok"
    retraced: bool = False

    @classmethod
    def prepare(cls, peer: Peer, task: Task) -> Runner:
        """Set it up; the status says what failed."""
        if task.loss not in peer.losses:
            return cls(peer, (), [], f"does not minimise {task.loss}")
        try:
            return cls(peer, peer.configs(task), [])
        except ImportError:
            return cls(peer, (), [], "not installed")
        except Exception as error:  # a peer that fails must not end the run
            return cls(peer, (), [], failure(error))

    def curve(self, row: Row, points: Iterator[Point], limits: Limits) -> Iterator[Row]:
        """Keep points as they come, until one fails; yield a row for each, and for the failure."""
        try:
            for point in points:
                self.points.append(point)
                yield _row(row, "curve", self, point, limits)
        except Exception as error:
            self.status = failure(error)
            yield _lacking(row, "curve", self)


def race(
    task: Task, peers: Sequence[Peer], limits: Limits, tell: Tell, known: Sequence[Row] = ()
) -> Iterator[Row]:
    """Rows of the parts "curve" and "target", "epoch", "first" and "held-out" of one problem.

    ``known`` are the rows of the same race with one thread, if there are any: with more threads a
    peer takes the efforts that it needed then.
    """
    row = Row("optimum", task.name, task.n, task.d, task.loss, task.l2, threads=task.threads)
    yield replace(row, quantity="objective", value=task.least)
    yield replace(row, quantity="error", value=task.error)
    targets = [target for target in limits.targets if target > task.certain]
    runners: list[Runner] = []
    for peer in peers:
        tell(f"{task.name}, {task.loss}: {peer.name}")
        runner = Runner.prepare(peer, task)
        if runner.configs:
            last = min(targets, default=max(limits.targets))
            within = replace(
                limits,
                seconds=min(limits.seconds, max(_NOISE, limits.behind * _fastest(runners, last))),
            )
            if earlier := recall(runner.configs, [one for one in known if one.peer == peer.name]):
                runner.retraced = True
                points = retrace(earlier, targets, task, within)
            else:
                points = climb(peer, runner.configs, task, last, within)
            yield from runner.curve(row, points, limits)
        elif runner.status != "ok":
            yield _lacking(row, "curve", runner)
        runners.append(runner)
    runners = [runner for runner in runners if task.loss in runner.peer.losses]
    tell(f"{task.name}, {task.loss}: side by side")
    for target in targets:
        for runner in (runner for runner in runners if not runner.retraced):
            found = cheapest(runner.points, target)
            if found is not None and found.seconds <= _TIMED_WITHIN * _fastest(runners, target):
                yield from runner.curve(row, refine(runner.points, target, task, limits), limits)
    yield from _targets(row, runners, targets, limits)
    if task.threads == 1:
        yield from _epochs(row, runners, limits)
        if task.name in limits.first:
            tell(f"{task.name}, {task.loss}: fresh processes")
            yield from _first_fits(row, runners, limits)
        tell(f"{task.name}, {task.loss}: held-out rows")
        yield from _held_out(row, task, runners, limits)


def _fastest(runners: Sequence[Runner], target: float) -> float:
    return min(
        (found.seconds for runner in runners if (found := cheapest(runner.points, target))),
        default=np.inf,
    )


def _row(
    row: Row, part: str, runner: Runner, point: Point, limits: Limits, target: float = np.nan
) -> Row:
    return replace(
        row,
        part=part,
        peer=runner.peer.name,
        setting=point.setting,
        seed=" ".join(map(str, seeds_of(point.config, limits))),
        target=target,
        quantity="gap",
        value=point.gap,
        seconds=point.seconds,
        passes=point.passes,
        iterations=point.iterations,
        repeats=point.repeats,
        status=point.status,
        version=version_of(runner.peer.package),
    )


def _lacking(row: Row, part: str, runner: Runner) -> Row:
    """A row that says what went wrong."""
    return replace(
        row,
        part=part,
        peer=runner.peer.name,
        quantity="gap",
        status=runner.status,
        version=version_of(runner.peer.package),
    )


def _targets(
    row: Row, runners: Sequence[Runner], targets: Sequence[float], limits: Limits
) -> Iterator[Row]:
    """Time the candidates of all peers side by side, and give the cheapest of each peer.

    Candidates are configurations that reach some target in a reasonable time.

    One that fails here gets its own row, and counts with the time of its climb.
    """
    together: dict[int, tuple[Runner, Point]] = {}
    for target in targets:
        slowest = min(_TIMED_WITHIN * _fastest(runners, target), limits.seconds)
        for runner in runners:
            for point in candidates(runner.points, target):
                if point.seconds <= slowest:
                    together[id(point)] = runner, point
    again = dict(
        zip(together, time_together([point for _, point in together.values()], limits), strict=True)
    )
    for key, (runner, point) in together.items():
        if again[key].status != "ok":
            yield _row(row, "curve", runner, again[key], limits)
            again[key] = point
    for runner in runners:
        for target in targets:
            ways = [again.get(id(point), point) for point in candidates(runner.points, target)]
            found = cheapest([point for point in ways if point.repeats > 1], target) or cheapest(
                ways, target
            )
            if found is not None:
                yield _row(row, "target", runner, found, limits, target)
            else:
                nearest = min((point.gap for point in runner.points), default=np.nan)
                status = _not_reached(limits) if runner.status == "ok" else runner.status
                yield replace(
                    _lacking(row, "target", runner), target=target, value=nearest, status=status
                )


def _not_reached(limits: Limits) -> str:
    behind = f" or {limits.behind:g} times the fastest" if np.isfinite(limits.behind) else ""
    return f"not reached within {limits.seconds:g} s{behind}"


def _epochs(row: Row, runners: Sequence[Runner], limits: Limits) -> Iterator[Row]:
    """Seconds of one more pass, all peers in turn."""
    clock = CLOCKS[limits.clock]
    chosen = [
        (runner, config)
        for runner in runners
        if runner.points
        for config in runner.configs
        if config.setting == runner.peer.one_pass
    ]
    best = np.full((len(chosen), 2), np.inf)
    broken = dict[int, str]()
    for _ in range(limits.repeats):
        for place, (_runner, config) in enumerate(chosen):
            try:
                for side, effort in enumerate((_FEW, _MANY)):
                    best[place, side] = min(
                        best[place, side], timed(config, effort, limits.seeds[0], clock)[0]
                    )
            except Exception as error:
                broken[place] = failure(error)
    for place, (runner, config) in enumerate(chosen):
        seconds = float(best[place, 1] - best[place, 0]) / (_MANY - _FEW)
        if place not in broken and not seconds > 0.0:
            broken[place], seconds = "too quick to be timed", np.nan
        known = replace(
            row,
            part="epoch",
            peer=runner.peer.name,
            setting=config.setting,
            quantity="seconds per pass",
            value=seconds,
        )
        yield replace(
            known,
            seconds=seconds,
            repeats=limits.repeats,
            status=broken.get(place, "ok"),
            version=version_of(runner.peer.package),
        )


def _first_fits(row: Row, runners: Sequence[Runner], limits: Limits) -> Iterator[Row]:
    """Seconds of import and fit in a fresh process, to 1e-3 or as close as a peer came.

    A peer whose first fit is compared with that of another goes no further than that one came:
    otherwise the difference would be what more digits cost.
    """
    closest = {
        runner.peer.name: min((point.gap for point in runner.points), default=0.0)
        for runner in runners
    }
    known, fits = [], []
    for runner in runners:
        target = max(_FIRST_AT, closest.get(runner.peer.first_beside, 0.0))
        point = _nearest(runner.points, target)
        if point is None or not isinstance(point.config.fit, EstimatorFit):
            continue
        one = _row(row, "first", runner, point, limits, target)
        known.append(replace(one, quantity="seconds of first fit"))
        fits.append(FirstFit(point.config.fit, point.effort, limits.seeds[0]))
    repeats = min(_FIRST_REPEATS, limits.repeats)
    found = first_seconds(fits, clock=limits.clock, threads=row.threads, repeats=repeats)
    for one, seconds in zip(known, found, strict=True):
        if isinstance(seconds, RuntimeError):
            yield replace(one, value=np.nan, seconds=np.nan, status=failure(seconds))
        else:
            yield replace(one, value=seconds, seconds=seconds)


def _nearest(points: Sequence[Point], target: float) -> Point | None:
    """The cheapest way to a target, or the point that comes closest; None if there is none."""
    return cheapest(points, target) or min(points, key=lambda point: point.gap, default=None)


def _held_out(row: Row, task: Task, runners: Sequence[Runner], limits: Limits) -> Iterator[Row]:
    """Train on four fifths to 1e-4, or with what comes closest, and evaluate on the rest."""
    runners = [runner for runner in runners if runner.points]
    X, y, X_held, y_held = hold_out(task.X, task.y)
    try:
        train = Task.build(task.name, task.loss, X, y, task.l2)
    except Exception as error:  # rows of one class, or a minimum that is not found
        for runner in runners:
            yield replace(
                _lacking(row, "held-out", runner),
                n=len(y),
                quantity=task.loss,
                status=failure(error),
            )
        return
    for runner in runners:
        point = _nearest(runner.points, _HELD_OUT_AT)
        assert point is not None
        place = next(place for place, config in enumerate(runner.configs) if config is point.config)
        known = replace(
            row,
            part="held-out",
            n=train.n,
            peer=runner.peer.name,
            version=version_of(runner.peer.package),
        )
        try:
            config = runner.peer.configs(train)[place]
            tries = _HELD_OUT_TRIES if point.gap <= _HELD_OUT_AT else 1
            effort, gap, (seconds, coef, passes, iterations) = _train(
                config, point.effort, tries, train, limits
            )
        except Exception as error:
            yield replace(known, quantity=task.loss, status=failure(error))
            continue
        setting = replace(point, config=config, effort=effort).setting
        known = replace(
            known,
            setting=setting,
            seconds=seconds,
            passes=passes,
            iterations=iterations,
            repeats=1,
            seed=str(limits.seeds[0]),
        )
        yield replace(known, quantity="gap", value=gap)
        for quantity, value in train.scores(coef, X_held, y_held).items():
            yield replace(known, quantity=quantity, value=value)


def _train(
    config: Config, effort: int, tries: int, task: Task, limits: Limits
) -> tuple[int, float, tuple[float, np.ndarray, float, float]]:
    """Raise the effort that was enough for all rows until it is enough for these.

    A solver may meet some of these rows in a less lucky order.
    """
    for more in islice(efforts(effort), tries):
        found = timed(config, more, limits.seeds[0], CLOCKS[limits.clock])
        gap = task.gap(found[1])
        if gap <= _HELD_OUT_AT or found[0] > limits.seconds:
            break
    return more, gap, found
