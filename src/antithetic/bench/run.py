"""All problems in turn, rows written as they come; a problem that is finished is not run again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from antithetic.bench.climb import CLOCKS, Limits
from antithetic.bench.pairing import MADE, pairing_rows
from antithetic.bench.peer import Peer
from antithetic.bench.race import PEERS, race
from antithetic.bench.resume import finished_row, keep_finished, only_run_in
from antithetic.bench.rows import THREADS, Row, Sink
from antithetic.bench.sklearn_peers import OURS
from antithetic.bench.tasks import LOSSES, SETS, Task, load_set

Progress = Callable[[str, int, int], None]


def choose_peers(given: Sequence[str] | None) -> tuple[Peer, ...]:
    """Peers whose names contain one of the given words, ignoring case; all if none is given.

    Our own estimator is always among them.
    """
    if not given:
        return PEERS
    unknown = [
        word for word in given if not any(word.lower() in peer.name.lower() for peer in PEERS)
    ]
    if unknown:
        raise ValueError(
            f"no peer is called {', '.join(map(repr, unknown))}; there are"
            f" {', '.join(peer.name for peer in PEERS)}"
        )
    return tuple(
        peer
        for peer in PEERS
        if peer.name == OURS or any(word.lower() in peer.name.lower() for word in given)
    )


def run(
    names: Sequence[str],
    losses: Sequence[str],
    peers: Sequence[Peer],
    path: str | os.PathLike[str],
    limits: Limits,
    *,
    pairing: bool = True,
    quick: bool = False,
    progress: Progress | None = None,
) -> Iterator[Row]:
    """Measure what is not in the file yet, and yield each row when it is there.

    Parameters
    ----------
    names, losses : sequence of str
    peers : sequence of Peer
    path : path
        CSV file; problems that are finished in it are left alone, the rows of others are replaced.
        It is refused if they were measured with other settings, or while another run writes into
        its folder.
    limits : Limits
    pairing : bool, default=True
        Measure tables as well.
    quick : bool, default=False
        Smaller tables.
    progress : callable, default=None
        Is told what is being done, and how many problems of how many are behind.

    Yields
    ------
    Row
    """
    for loss in losses:
        if loss not in LOSSES:
            raise ValueError(f"loss {loss!r} is not compared; use {' or '.join(LOSSES)}")
    if limits.clock not in CLOCKS:
        raise ValueError(f"clock {limits.clock!r} is not known; use {' or '.join(CLOCKS)}")
    called, settings = [peer.name for peer in peers], limits.words + quick * "; small tables"
    tell = progress or _say_nothing
    folder = Path(path).absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    with only_run_in(folder):
        finished = keep_finished(path, called, settings)
        problems = [
            (name, loss) for name in names for loss in losses if (name, loss) not in finished
        ]
        pairing = pairing and (MADE, "") not in finished
        total = len(problems) + pairing
        with Sink(path, limits.clock) as sink, threadpool_limits(THREADS):
            for done, (name, loss) in enumerate(problems):
                tell(f"{name}, {loss}: least objective", done, total)
                for row in _problem_rows(
                    name, loss, peers, limits, partial(_tell_of, tell, done, total)
                ):
                    yield sink.add(row)
                yield sink.add(finished_row(row, called, settings))
            if pairing:
                tell("tables", total - 1, total)
                for row in pairing_rows(quick, min(3, limits.repeats), limits.clock):
                    yield sink.add(row)
                yield sink.add(finished_row(Row("finished", MADE), [], settings))
        tell("finished", total, total)


def _problem_rows(
    name: str, loss: str, peers: Sequence[Peer], limits: Limits, tell: Callable[[str], None]
) -> Iterator[Row]:
    data = load_set(name)
    if data is None:
        raise FileNotFoundError(
            f"{name} is not on this computer; set ANTITHETIC_DATA to a folder that holds it"
        )
    return race(Task.build(name, loss, *data, SETS[name]), peers, limits, tell)


def _say_nothing(_what: str, _done: int, _total: int) -> None:
    pass


def _tell_of(tell: Progress, done: int, total: int, what: str) -> None:
    tell(what, done, total)
