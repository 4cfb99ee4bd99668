"""All problems in turn, rows written as they come; a problem that is finished is not run again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from races.climb import CLOCKS, Limits
from races.pairing import MADE, pairing_rows
from races.peer import Peer, load_packages
from races.race import PEERS, race
from races.resume import finished_row, keep_finished, only_run_in
from races.rows import Row, Sink, clock_of, read_rows
from races.sets import LOSSES, SETS, load_set, losses_of
from races.sklearn_peers import is_ours
from races.tasks import Task

Progress = Callable[[str, int, int], None]


def choose_peers(given: Sequence[str] | None) -> tuple[Peer, ...]:
    """Peers whose names contain one of the given words, ignoring case; all if none is given.

    Our own estimators are always among them.
    """
    if not given:
        return PEERS
    unknown = [
        word for word in given if not any(word.lower() in peer.name.lower() for peer in PEERS)
    ]
    if unknown:
        raise ValueError(
            f"peer {', '.join(map(repr, unknown))} is not known; use some of"
            f" {', '.join(peer.name for peer in PEERS)}"
        )
    return tuple(
        peer
        for peer in PEERS
        if is_ours(peer.name) or any(word.lower() in peer.name.lower() for word in given)
    )


def run(
    names: Sequence[str],
    losses: Sequence[str],
    peers: Sequence[Peer],
    path: str | os.PathLike[str],
    limits: Limits,
    *,
    threads: Sequence[int] = (1,),
    pairing: bool = True,
    quick: bool = False,
    progress: Progress | None = None,
) -> Iterator[Row]:
    """Measure what is not in the file yet, and yield each row when it is there.

    Parameters
    ----------
    names, losses : sequence of str
        Each set is raced with those of the losses that its labels are made for.
    peers : sequence of Peer
    path : path
        CSV file; problems that are finished in it are left alone, the rows of others are replaced.
        It is refused if they were measured with other settings, or while another run writes into
        its folder.
    limits : Limits
    threads : sequence of int, default=(1,)
        Each problem is run with each of these; with more than one, the wall clock is used. After a
        run with one thread, a run with several takes the efforts that were found there.
    pairing : bool, default=True
        Measure tables as well.
    quick : bool, default=False
        Smaller tables.
    progress : callable, default=None
        Called with what is being done, how many problems are done, and how many there are.

    Yields
    ------
    Row
    """
    for loss in losses:
        if loss not in LOSSES:
            raise ValueError(f"loss {loss!r} is not supported; use {' or '.join(LOSSES)}")
    if limits.clock not in CLOCKS:
        raise ValueError(f"clock {limits.clock!r} is not known; use {' or '.join(CLOCKS)}")
    called, settings = [peer.name for peer in peers], limits.words + quick * "; small tables"
    tell = progress or _say_nothing
    folder = Path(path).absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    with only_run_in(folder):
        finished = keep_finished(path, called, settings)
        problems = [
            (name, loss, count)
            for count in threads
            for name in names
            for loss in losses
            if loss in losses_of(name) and (name, loss, count) not in finished
        ]
        pairing = pairing and (MADE, "", 1) not in finished
        total = len(problems) + pairing
        load_packages(peers)
        with Sink(path, limits.clock) as sink:
            for done, problem in enumerate(problems):
                tell(f"{problem[0]}, {problem[1]}: minimum", done, total)
                known = _with_one_thread(path, problem)
                with threadpool_limits(problem[2]):
                    for row in _problem_rows(
                        problem, peers, limits, partial(_tell_of, tell, done, total), known
                    ):
                        yield sink.add(row)
                yield sink.add(finished_row(row, called, settings))
            if pairing:
                tell("tables", total - 1, total)
                with threadpool_limits(1):
                    for row in pairing_rows(quick, min(3, limits.repeats), limits.clock):
                        yield sink.add(row)
                yield sink.add(finished_row(Row("finished", MADE), [], settings))
        tell("finished", total, total)


def _problem_rows(
    problem: tuple[str, str, int],
    peers: Sequence[Peer],
    limits: Limits,
    tell: Callable[[str], None],
    known: Sequence[Row],
) -> Iterator[Row]:
    name, loss, threads = problem
    data = load_set(name)
    if data is None:
        raise FileNotFoundError(
            f"{name} is not on this computer; set ANTITHETIC_DATA to a folder that holds it"
        )
    task = Task.build(name, loss, *data, SETS[name], threads)
    return race(task, peers, replace(limits, clock=clock_of(limits.clock, threads)), tell, known)


def _with_one_thread(path: str | os.PathLike[str], problem: tuple[str, str, int]) -> list[Row]:
    """Rows of the same race with one thread, for a race with several."""
    name, loss, threads = problem
    if threads == 1:
        return []
    rows = read_rows(path)
    return [row for row in rows if (row.data, row.loss, row.threads) == (name, loss, 1)]


def _say_nothing(_what: str, _done: int, _total: int) -> None:
    pass


def _tell_of(tell: Progress, done: int, total: int, what: str) -> None:
    tell(what, done, total)
