"""Where the work is done, and what the user is told when it is lost.

It is done by a given client, by the scheduler at a given address, or by a local cluster.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client, LocalCluster, wait
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from antithetic._util.threads import count_threads

_IS_INSTALLED = "bool(__import__('importlib.util', fromlist=['util']).find_spec('antithetic'))"
_SECONDS_BETWEEN_QUESTIONS = 5.0
_SECONDS_OF_SILENCE = 30.0  # without a worker that can work, before the user is warned
_CANCELLED = (concurrent.futures.CancelledError, asyncio.CancelledError)
_DISCONNECTED = (ClosedClientError, CommClosedError, OSError)


class ClusterLostError(RuntimeError):
    """The scheduler was lost, or data that only the workers held.

    The message says how to resume.
    """


@contextmanager
def client_of(given: Any) -> Iterator[Client]:
    """Yield the given client, or a client of the scheduler at the given address.

    Without either, it is the current client, or that of a local cluster if there is none. Clients
    and clusters started here are closed at the end; a client of the user's is left as it is.
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
    """Refuse a closed client, and workers that cannot import this package."""
    if client.status == "closed":
        raise ClusterLostError(
            "the client is closed, perhaps because it lost its scheduler; connect a new client and"
            " pass it as client="
        )
    with starting(client):
        # a built-in, since workers without the package cannot unpickle our functions; a bool, since
        # the specification of a module may not be picklable
        found = client.run(eval, _IS_INSTALLED, on_error="ignore")
    lacking = sorted(str(worker) for worker, is_installed in found.items() if not is_installed)
    if lacking:
        raise RuntimeError(
            f"{len(lacking)} of {len(found)} workers cannot import antithetic, for example"
            f" {lacking[0]}; install it where they run: pip install 'antithetic[dask]'"
        )


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        client = Client(address, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterLostError(
            f"no scheduler answers at {address!r} ({error}); check the address, or start one there"
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

    ``after_loss`` tells the user what to do if the scheduler is lost.
    """
    with starting(client, after_loss):
        futures = client.compute(list(tasks))
    return gather(client, futures, after_loss=after_loss)


@contextmanager
def starting(client: Client, after_loss: str = "") -> Iterator[None]:
    """Start tasks; if the scheduler is lost meanwhile, raise an error that says what to do."""
    try:
        yield
    except Exception as error:
        # a closed client raises errors of many kinds, AttributeError among them
        is_known = isinstance(error, (*_DISCONNECTED, RuntimeError))
        if is_known or client.status == "closed":
            raise _lost(error, after_loss) from error
        raise


def gather(client: Client, futures: Sequence[Any], *, after_loss: str = "") -> list[Any]:
    """Wait for tasks that were started, and return their results.

    On Ctrl-C and on errors, the remaining tasks are cancelled. ``after_loss`` tells the user what
    to do if the scheduler is lost.
    """
    try:
        _wait(client, futures)
        gathered: list[Any] = client.gather(list(futures))
    except KilledWorker as error:
        raise RuntimeError(
            f"{error.allowed_failures + 1} workers died while they ran {error.task!r}, probably"
            " because they ran out of memory; use smaller blocks (X.rechunk, or more partitions),"
            " fewer threads per worker, or a larger memory_limit"
        ) from error
    except (Exception, *_CANCELLED) as error:
        if any(future.status == "error" for future in futures):
            raise  # of a block that could not be read
        if isinstance(error, (*_CANCELLED, *_DISCONNECTED)) or client.status == "closed":
            raise _lost(error, after_loss) from error
        raise
    finally:
        for future in futures:
            future.release()
    return gathered


def compute_anywhere(client: Client | None, tasks: Sequence[Any]) -> list[Any]:
    """Compute delayed values on a cluster, or, without a client, by Dask's default scheduler."""
    return list(dask.compute(*tasks)) if client is None else compute(client, tasks)


def _wait(client: Client, futures: Sequence[Any]) -> None:
    """Wait until all are done, and ask the scheduler now and then whether it still exists.

    A scheduler that was closed sends no message. Neither do workers that are paused or lost: after
    a while the user is warned.
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
    """Why no worker can work, and what to do about it; None if one can."""
    if not client.nthreads():  # raises an error if the scheduler is gone, unlike scheduler_info
        return "the cluster has no workers; start some, or wait for them"
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if workers and all(worker["status"] == "paused" for worker in workers):
        return (
            "all workers have paused because their memory is full; use smaller blocks (X.rechunk,"
            " or more partitions), fewer threads per worker, a larger memory_limit, or release data"
            " that the cluster holds"
        )
    return None


def _lost(error: BaseException, after_loss: str) -> ClusterLostError:
    reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
    return ClusterLostError(
        f"the scheduler was lost, or data that only its workers held ({reason}); start a new"
        " cluster" + (f" and {after_loss}" if after_loss else "")
    )
