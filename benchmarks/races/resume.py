"""Resume an earlier run from its folder: what is finished is kept, and nothing is dropped.

Results are never mixed with those of other settings, code or versions, or of another machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from races.rows import RefusedError, Row, cpu_name, read_rows, versions, write_rows


def finished_row(row: Row, peers: Sequence[str], settings: str) -> Row:
    """The row that ends a problem."""
    return Row(
        "finished",
        row.data,
        row.n,
        row.d,
        row.loss,
        row.l2,
        ", ".join(peers),
        settings,
        threads=row.threads,
    )


def keep_finished(
    path: str | os.PathLike[str], peers: Sequence[str], settings: str
) -> set[tuple[str, str, int]]:
    """Drop the rows of problems that were interrupted.

    Return the (set, loss, threads) of those that were finished.

    Raises
    ------
    RefusedError
        Some were finished with other settings, without some of the peers, by other code or
        versions, or on another machine.
    """
    if not Path(path).exists():
        return set()
    rows = read_rows(path)
    if why := difference(rows, peers, settings):
        raise RefusedError(
            f"{os.fspath(path)}: {why}; name another folder with --out, or delete that file"
        )
    finished = {(row.data, row.loss, row.threads) for row in _ends(rows)}
    write_rows(path, [row for row in rows if (row.data, row.loss, row.threads) in finished])
    return finished


def difference(rows: Sequence[Row], peers: Sequence[str], settings: str) -> str:
    """How the measurement of finished rows differs from a run now, in a clause.

    Empty if it does not.
    """
    for row in _ends(rows):
        lacking = [peer for peer in peers if row.loss and peer not in row.peer.split(", ")]
        if lacking:
            return f"{row.data} was measured without {', '.join(lacking)}"
        for then, now in (
            (row.setting, settings),
            (row.cpu, cpu_name()),
            _changed(row.versions, versions()),
        ):
            if then != now:
                how = (
                    f"without {now}"
                    if not then
                    else f"with {then}, not with {now}"
                    if now
                    else f"with {then}, which is not installed now"
                )
                return f"{row.data} was measured {how}"
    return ""


def _changed(then: str, now: str) -> tuple[str, str]:
    """The versions that are not in the other list."""
    before, after = then.split("; "), now.split("; ")
    return "; ".join(one for one in before if one not in after), "; ".join(
        one for one in after if one not in before
    )


def set_aside(path: str | os.PathLike[str], peers: Sequence[str], settings: str) -> str:
    """Rename a file that :func:`keep_finished` would refuse to rows-old.csv, rows-old-2.csv, ....

    Say so in a sentence.
    """
    path = Path(path)
    if not path.exists():
        return ""
    with only_run_in(path.absolute().parent):
        try:
            why = difference(read_rows(path), peers, settings)
        except RefusedError as error:  # other columns
            why = str(error)
        if not why:
            return ""
        numbers = chain([""], (f"-{k}" for k in count(2)))
        names = (path.with_name(f"{path.stem}-old{number}{path.suffix}") for number in numbers)
        old = next(name for name in names if not name.exists())
        path.rename(old)
    return f"Set aside as {old}: {why}."


def _ends(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.part == "finished" and row.status == "ok"]


def sets_kept(path: str | os.PathLike[str]) -> str:
    """What a run into this file would not measure again, in a sentence.

    Empty if it would measure everything.
    """
    rows = read_rows(path) if Path(path).exists() else []
    names = dict.fromkeys(row.data for row in _ends(rows))
    return (
        f"Kept from an earlier run: {', '.join(names)}. To measure them again, delete"
        f" {os.fspath(path)}."
        if names
        else ""
    )


@contextmanager
def only_run_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Refuse a folder that another run writes into; the system drops the lock with the process.

    Windows has no such locks.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(folder, lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB))
        yield
    finally:
        os.close(handle)


def _lock(folder: str | os.PathLike[str], lock: Callable[[], None]) -> None:
    try:
        lock()
    except BlockingIOError as error:
        raise RefusedError(
            f"another run writes into {os.fspath(folder)}: wait until it has finished, or use"
            " another folder"
        ) from error
    except OSError:  # some network drives have no locks
        pass
