"""Where the work is done: a client of the user's, a scheduler's address, or a local cluster.

And what happens when it is lost.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import dask
from distributed import Client, LocalCluster, wait
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from antithetic._util.threads import count_threads

_SECONDS_BETWEEN_QUESTIONS = 5.0
_SECONDS_OF_SILENCE = 30.0  # of workers that cannot work, before it is said
_CANCELLED = (concurrent.futures.CancelledError, asyncio.CancelledError)


class ClusterLostError(RuntimeError):
    """The scheduler, or data that only the cluster held, is gone; the message says how to go on."""


@contextmanager
def client_of(given: Any) -> Iterator[Client]:
    """Give a client to work with: the given one, or one for the given address of a scheduler.

    Without either, it is the current client, or else that of a local cluster.

    What was started here is closed at the end; a client of the user's is left as it is.
    """
    if isinstance(given, Client):
        _check_package(given)
        yield given
    elif isinstance(given, str):
        with _connected(given) as client:
            _check_package(client)
            yield client
    elif given is None:
        try:
            client = Client.current()
        except ValueError:
            with _local_cluster() as client:
                yield client
        else:
            _check_package(client)
            yield client
    else:
        raise ValueError(
            "client must be a dask.distributed Client, the address of a scheduler, or None; got"
            f" {type(given).__name__}"
        )


def _check_package(client: Client) -> None:
    """Refuse workers that cannot import this package, which would die of every task one by one."""
    try:  # a function of the standard library, since they cannot read one of ours
        found = client.run(find_spec, "antithetic", on_error="ignore")
    except (OSError, CommClosedError, RuntimeError) as error:
        raise _lost(error, "") from error
    lacking = sorted(str(worker) for worker, spec in found.items() if spec is None)
    if lacking:
        raise RuntimeError(
            f"{len(lacking)} of {len(found)} workers cannot import antithetic, {lacking[0]} for"
            " one; install it where they run: pip install 'antithetic[dask]'"
        )


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        client = Client(address, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterLostError(
            f"no scheduler answers at {address!r} ({error}); check the address, or start one"
        ) from error
    with client:
        yield client


@contextmanager
def _local_cluster() -> Iterator[Client]:
    """Processes of one thread each, one per core: the kernels use one thread."""
    workers = count_threads(None)
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def compute(client: Client, tasks: Sequence[Any], *, after_loss: str = "") -> list[Any]:
    """Compute delayed values on the cluster, in the order given.

    ``after_loss`` is what to tell the user to do if the scheduler is lost.
    """
    with starting(after_loss):
        futures = client.compute(list(tasks))
    return gather(client, futures, after_loss=after_loss)


@contextmanager
def starting(after_loss: str = "") -> Iterator[None]:
    """Start tasks; if the scheduler is lost, say so and what to do."""
    try:
        yield
    except (OSError, CommClosedError, RuntimeError) as error:
        raise _lost(error, after_loss) from error


def gather(client: Client, futures: Sequence[Any], *, after_loss: str = "") -> list[Any]:
    """Wait for tasks that were started, and return their results.

    On Ctrl-C and on errors, the tasks that are left are cancelled. ``after_loss`` is what to tell
    the user to do if the scheduler is lost.
    """
    try:
        _wait(client, futures)
        gathered: list[Any] = client.gather(list(futures))
    except KilledWorker as error:
        raise RuntimeError(
            f"{error.task!r} was on {error.allowed_failures + 1} workers that died, probably"
            " because they ran out of memory; use smaller blocks (X.rechunk, or more partitions),"
            " fewer threads per worker, or a larger memory_limit"
        ) from error
    except (*_CANCELLED, CommClosedError, OSError) as error:
        if any(future.status == "error" for future in futures):
            raise  # of a block that could not be read
        raise _lost(error, after_loss) from error
    finally:
        for future in futures:
            future.release()
    return gathered


def compute_anywhere(client: Client | None, tasks: Sequence[Any]) -> list[Any]:
    """Compute delayed values on a cluster, or, without a client, by Dask's default scheduler."""
    return list(dask.compute(*tasks)) if client is None else compute(client, tasks)


def _wait(client: Client, futures: Sequence[Any]) -> None:
    """Wait until all are done, asking the scheduler now and then whether it still exists.

    A scheduler that was closed sends no message, and neither do workers that have paused or are
    gone; after a while the user is warned.
    """
    idle_since, told = time.monotonic(), False
    while True:
        try:
            with client.as_current():
                wait(futures, timeout=_SECONDS_BETWEEN_QUESTIONS)
            return
        except TimeoutError:
            reason = _why_idle(client)
        if reason is None:
            idle_since = time.monotonic()
        elif not told and time.monotonic() - idle_since >= _SECONDS_OF_SILENCE:
            told = True
            warnings.warn(
                f"nothing has been computed for {_SECONDS_OF_SILENCE:.0f} s: {reason}",
                RuntimeWarning,
                stacklevel=2,
            )


def _why_idle(client: Client) -> str | None:
    """Why no worker can work, and what to do, or None if one can.

    What the scheduler says when it is asked.
    """
    if not client.nthreads():  # an error if it is gone, unlike the next question
        return "the cluster has no workers; start some, or wait for them"
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if workers and all(worker["status"] == "paused" for worker in workers):
        return (
            "all workers have paused for want of memory; use smaller blocks (X.rechunk, or more"
            " partitions), fewer threads per worker, a larger memory_limit, or release what the"
            " cluster holds"
        )
    return None


def _lost(error: BaseException, after_loss: str) -> ClusterLostError:
    return ClusterLostError(
        "the scheduler was lost, or data that only its workers held"
        f" ({error or type(error).__name__}); start a cluster again"
        + (f" and {after_loss}" if after_loss else "")
    )
