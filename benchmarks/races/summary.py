"""Tables from the rows: slowdowns, wins and losses, and shares of problems solved.

A slowdown is how many times longer than the fastest a peer takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from races.rows import Row
from races.sklearn_peers import is_ours

Problem = tuple[str, str, int]
Key = tuple[str, str, int, float]


TIED = (0.9, 1.1)
"""Ratios of seconds that a shared machine cannot tell from 1."""


class Duel(NamedTuple):
    """Seconds of one of our estimators and of the fastest other solver to one target.

    Ours are infinite where the estimator did not get there. ``sklearn`` are the seconds of the
    fastest of scikit-learn's, infinite where none did.
    """

    data: str
    loss: str
    target: float
    threads: int
    entry: str
    ours: float
    peer: str
    best: float
    sklearn: float = np.inf

    @property
    def ratio(self) -> float:
        """Our seconds divided by those of the fastest other."""
        return self.ours / self.best

    @property
    def outcome(self) -> str:
        """``"won"``, ``"tied"`` or ``"lost"``."""
        return "won" if self.ratio < TIED[0] else "tied" if self.ratio <= TIED[1] else "lost"


def seconds_to_target(rows: Iterable[Row]) -> dict[Key, dict[str, float]]:
    """Seconds of each peer by (set, loss, threads, target); infinite where it did not get there.

    Peers that are not installed are left out.
    """
    found: dict[Key, dict[str, float]] = {}
    for row in rows:
        if row.part == "target" and row.status != "not installed":
            found.setdefault((row.data, row.loss, row.threads, row.target), {})[row.peer] = (
                row.seconds if row.status == "ok" else np.inf
            )
    return found


def is_contested(seconds: Mapping[str, float]) -> bool:
    """Return whether a solver other than ours finished a race; else nobody can win it."""
    return any(np.isfinite(taken) for peer, taken in seconds.items() if not is_ours(peer))


def standings(rows: Iterable[Row]) -> list[Duel]:
    """Return the standing of each of our estimators in each contested race."""
    result = []
    for (data, loss, threads, target), seconds in seconds_to_target(rows).items():
        if not is_contested(seconds):
            continue
        others = {peer: taken for peer, taken in seconds.items() if not is_ours(peer)}
        peer = min(others, key=others.__getitem__)
        theirs = [taken for name, taken in others.items() if name.startswith("sklearn ")]
        result += [
            Duel(
                data,
                loss,
                target,
                threads,
                entry,
                taken,
                peer,
                others[peer],
                min(theirs, default=np.inf),
            )
            for entry, taken in seconds.items()
            if is_ours(entry)
        ]
    return result


def profile(
    rows: Iterable[Row], factors: Sequence[float], targets: Sequence[float] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Share of problems that a peer solves within each factor of the fastest.

    A problem is a set, a loss, a number of threads and a target. Problems that no solver but ours
    solves are left out, and so are, for each peer, those with a loss that it does not support.
    """
    solved: dict[str, list[float]] = {}
    for (*_, target), seconds in seconds_to_target(rows).items():
        fastest = min(seconds.values())
        if is_contested(seconds) and (targets is None or target in targets):
            for peer, taken in seconds.items():
                solved.setdefault(peer, []).append(taken / fastest)
    return {
        peer: np.array([np.mean(np.array(ratios) <= factor) for factor in factors])
        for peer, ratios in solved.items()
    }


def ratio_table(rows: Sequence[Row], target: float) -> tuple[list[str], list[list[object]]]:
    """Columns and lines of a table of slowdowns, below the milliseconds of the fastest.

    A slowdown is how many times longer than the fastest a peer takes on a problem.
    """
    seconds = {key[:3]: taken for key, taken in seconds_to_target(rows).items() if key[3] == target}
    fastest = {problem: min(taken.values()) for problem, taken in seconds.items()}
    peers = dict.fromkeys(peer for taken in seconds.values() for peer in taken)
    lines: list[list[object]] = [
        [
            "the fastest, in ms",
            *(f"{1e3 * least:.3g}" if np.isfinite(least) else "" for least in fastest.values()),
        ]
    ]
    lines += [
        [peer, *(_ratio(taken.get(peer), fastest[problem]) for problem, taken in seconds.items())]
        for peer in peers
    ]
    return ["", *_names(list(seconds))], lines if seconds else []


def _ratio(seconds: float | None, fastest: float) -> str:
    if seconds is None:
        return ""
    return f"{seconds / fastest:.2f}" if np.isfinite(seconds) else "no"


def value_table(
    rows: Iterable[Row], part: str, quantity: str
) -> tuple[list[str], list[list[object]]]:
    """Columns and lines of one quantity of a part: one line per peer, one column per problem."""
    found: dict[Problem, dict[str, float]] = {}
    for row in rows:
        if row.part == part and row.quantity == quantity and row.status == "ok":
            found.setdefault((row.data, row.loss, row.threads), {})[row.peer] = row.value
    peers = dict.fromkeys(peer for values in found.values() for peer in values)
    lines: list[list[object]] = [
        [peer, *(values.get(peer, np.nan) for values in found.values())] for peer in peers
    ]
    return ["", *_names(list(found))], lines


def table_costs(rows: Iterable[Row]) -> tuple[list[str], list[list[object]]]:
    """Columns and lines of the part "pairing"."""
    found: dict[tuple[str, int, int], dict[str, float]] = {}
    for row in rows:
        if row.part == "pairing":
            found.setdefault((row.peer.rpartition(", ")[2], row.n, row.d), {})[row.quantity] = (
                row.value
            )
    quantities = {
        "seconds": "s",
        "megabytes": "MB",
        "variance ratio": "ratio",
        **{f"exponent of seconds in {axis}": f"s ~ {axis}^" for axis in "nd"},
    }
    lines: list[list[object]] = [
        [*key, *(values.get(name, np.nan) for name in quantities)] for key, values in found.items()
    ]
    return ["method", "n", "d", *quantities.values()], lines


def _names(problems: Sequence[Problem]) -> list[str]:
    """Sets, with the loss and the number of threads where there are several of a set."""
    losses = len({loss for _, loss, _ in problems}) > 1
    counts = len({threads for _, _, threads in problems}) > 1
    return [
        f"{data}{f' {loss}' * losses}{f', {threads} threads' * counts}"
        for data, loss, threads in problems
    ]


def missing(rows: Iterable[Row]) -> dict[str, str]:
    """Peers that have a status other than "ok" and nothing measured, with that status."""
    measured, statuses = set(), dict[str, str]()
    for row in rows:
        if row.part in ("curve", "target"):
            if row.status == "ok":
                measured.add(row.peer)
            elif not row.status.startswith(("not reached", "does not minimise")):
                statuses[row.peer] = row.status
    return {
        peer: status
        for peer, status in statuses.items()
        if peer not in measured or status.startswith("failed")
    }


def verdict(found: Sequence[Duel]) -> str:
    """Say how often each of our estimators won, tied and lost."""
    counts = {entry: Counter[str]() for entry in dict.fromkeys(one.entry for one in found)}
    for one in found:
        counts[one.entry][one.outcome] += 1
    return "; ".join(
        f"{entry}: {count['won']} won, {count['tied']} tied, {count['lost']} lost"
        for entry, count in counts.items()
    )


def losses(found: Sequence[Duel]) -> list[Duel]:
    """Return the races that another solver wins, the worst first."""
    return sorted((one for one in found if one.outcome == "lost"), key=lambda one: -one.ratio)
