"""What an earlier run left in a folder: what is finished is kept, and nothing that was measured is dropped or mixed with other settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from antithetic.bench.rows import Row, read_rows, write_rows


def finished_row(row: Row, peers: Sequence[str], settings: str) -> Row:
    """The row that ends a problem."""
    return Row("finished", row.data, row.n, row.d, row.loss, row.l2, ", ".join(peers), settings)


def keep_finished(path: str | os.PathLike[str], peers: Sequence[str], settings: str) -> set[tuple[str, str]]:
    """Drop the rows of problems that were interrupted; return the (set, loss) of those that were finished.

    Raises
    ------
    ValueError
        Some were finished with other settings, or without some of the peers.
    """
    if not Path(path).exists():
        return set()
    rows = read_rows(path)
    ends = [row for row in rows if row.part == "finished" and row.status == "ok"]
    for row in ends:
        lacking = [peer for peer in peers if row.loss and peer not in row.peer.split(", ")]
        if row.setting != settings or lacking:
            how = f"without {', '.join(lacking)}" if lacking else f"with {row.setting or 'unknown settings'}, not {settings}"
            raise ValueError(
                f"{os.fspath(path)}: {row.data} was measured {how}; repeat those settings, name another folder, or remove that file"
            )
    finished = {(row.data, row.loss) for row in ends}
    write_rows(path, [row for row in rows if (row.data, row.loss) in finished])
    return finished


def sets_kept(path: str | os.PathLike[str]) -> str:
    """What a run into this file would not measure again, in a sentence; nothing if there is nothing."""
    rows = read_rows(path) if Path(path).exists() else []
    names = dict.fromkeys(row.data for row in rows if row.part == "finished" and row.status == "ok")
    return f"Kept from an earlier run: {', '.join(names)}. To measure anew, remove {os.fspath(path)}." if names else ""


@contextmanager
def only_run_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Refuse a folder that another run writes into; the system forgets the lock with the process. Windows has no such locks."""
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
        raise ValueError(f"another run writes into {os.fspath(folder)}: wait for its end, or name another folder") from error
    except OSError:  # some network drives have no locks
        pass
