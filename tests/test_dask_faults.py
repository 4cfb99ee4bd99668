"""Workers that die or join, a lost scheduler, and data larger than memory: real processes."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask
import dask.array as da
from dask_cases import cluster, in_blocks, labelled
from distributed import LocalCluster

from antithetic.dask import ClusterLostError, LogisticRegression, checkpoint, learner, pair
from antithetic.dask.cluster import _check_package

# Killed processes leave sockets open.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
X, Y = labelled(1600)
CHOSEN = {"C": 0.1, "tol": 1e-10}

LENGTHS = (200,) * 8


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Ten minutes without a worker before a warning: a busy machine starts processes slowly."""
    monkeypatch.setattr("antithetic.dask.cluster._SECONDS_OF_SILENCE", 600.0)


def slow_blocks(marker=None, lengths=LENGTHS):
    """Slow blocks that leave a mark when read, so that a worker can be killed while it has one."""

    def read(block):  # shipped as it is: a worker need not import the tests
        if marker is not None:
            with open(marker, "a") as file:
                file.write(f"{os.getpid()}\n")
        time.sleep(0.1)
        return block

    rows, labels = in_blocks(X, Y, lengths)
    return rows.map_blocks(read, dtype=float, meta=np.empty((0, 0))), labels


def kill(marker, *after):
    """Kill the process of a worker, by SIGKILL, each time that so many blocks were read in all."""

    def wait_and_kill():
        limit = time.monotonic() + 600.0
        for many in after:
            while time.monotonic() < limit:
                read = marker.read_text().splitlines() if marker.exists() else []
                if len(read) >= many and int(read[-1]) not in killed:
                    killed.append(int(read[-1]))  # which has just read one, and is at work on it
                    os.kill(killed[-1], signal.SIGKILL)
                    break
                time.sleep(0.01)

    killed = []
    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread, killed


@pytest.fixture(scope="module")
def workers():
    """A worker, which a second joins in the first test."""
    with cluster(processes=True, n_workers=1) as client:
        yield client


@pytest.fixture(scope="module")
def undisturbed(workers):
    """Fits and a table of one worker; then there are two."""
    data = in_blocks(X, Y, LENGTHS)
    found = {"model": LogisticRegression(**CHOSEN, client=workers).fit(*data)}
    found["table"] = pair(*data).partner.compute(scheduler="sync")
    workers.cluster.scale(2)
    workers.wait_for_workers(2, timeout=600)
    return found


def test_a_worker_that_joins_is_used(workers, undisturbed):
    """A worker that joins gets blocks, and the result is the same."""
    model = LogisticRegression(**CHOSEN, client=workers).fit(*slow_blocks())
    np.testing.assert_array_equal(model.coef_, undisturbed["model"].coef_)
    done = workers.run(
        lambda dask_worker: sum(
            1 for event in dask_worker.state.log if "antithetic-gradient" in str(event)
        )
    )
    assert len(done) == 2
    assert min(done.values()) > 0


def test_workers_that_are_killed_change_no_bit(workers, undisturbed, tmp_path):
    """Blocks of workers that are killed, early or late, are read again."""
    marker = tmp_path / "read"
    thread, killed = kill(marker, 4, 20)
    model = LogisticRegression(**CHOSEN, client=workers).fit(*slow_blocks(marker))
    thread.join()
    assert len(killed) == 2
    assert not set(killed) & set(workers.run(os.getpid).values())
    expected = undisturbed["model"]
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.intercept_, expected.intercept_)
    np.testing.assert_array_equal(model.history_["objective"], expected.history_["objective"])


def test_a_worker_that_is_killed_while_pairing(workers, undisturbed, tmp_path):
    """The tables are the same: lost data and tables are rebuilt from their sources."""
    marker = tmp_path / "read"
    rows, labels = slow_blocks(marker)
    thread, killed = kill(marker, 6)  # with data and tables in its memory
    table = pair(workers.persist(rows), labels, client=workers).persist(workers)
    partner = workers.compute(table.partner).result(timeout=600)
    thread.join()
    assert len(killed) == 1
    np.testing.assert_array_equal(partner, undisturbed["table"])


def test_a_worker_that_is_killed_with_the_sample(workers, tmp_path):
    """The rows that were drawn are drawn again: the bits are those of an undisturbed fit."""
    marker = tmp_path / "read"
    thread, killed = kill(marker, 14)  # of the 16 times that look and sample read blocks
    model = LogisticRegression(client=workers).fit(*slow_blocks(marker))
    thread.join()
    assert len(killed) == 1
    expected = LogisticRegression(client=workers).fit(*in_blocks(X, Y, LENGTHS))
    assert model.plan_.samples
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.gap_ == expected.gap_


def test_workers_that_are_killed_with_what_a_fit_keeps(workers, tmp_path):
    """A mean and arrays that the cluster keeps for a fit are computed and sent again."""
    marker, lengths = tmp_path / "read", (500, 500, 600)  # arrays that are large enough to be kept
    rows, labels = slow_blocks(marker, lengths)
    thread, killed = kill(marker, 5, 12)  # the mean reads three blocks, and so does each round
    model = LogisticRegression(client=workers).fit(rows - rows.mean(axis=0), labels)
    thread.join()
    assert len(killed) == 2
    rows, labels = in_blocks(X, Y, lengths)
    expected = LogisticRegression(client=workers).fit(rows - rows.mean(axis=0), labels)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.gap_ == expected.gap_


def test_a_scheduler_that_is_lost(workers, undisturbed, tmp_path):
    """A lost scheduler gives a clear error that names the checkpoint.

    A new cluster goes on from there to the same gap.
    """
    path = tmp_path / "fit.npz"
    rows, labels = slow_blocks()
    # A scheduler that does not answer for this long is lost.
    impatient = {"distributed.comm.timeouts.connect": "10s"}
    with cluster(processes=True, n_workers=1, config=impatient) as client:
        model = LogisticRegression(**CHOSEN, client=client, checkpoint=path)
        ender = threading.Thread(target=_close_once_there, args=(client.cluster, path))
        ender.start()
        with pytest.raises(ClusterLostError, match=r"fit again .* resumes from .*fit\.npz"):
            model.fit(rows, labels)
        ender.join()
        assert model.n_iter_ < undisturbed["model"].n_iter_
    resumed = LogisticRegression(**CHOSEN, client=workers, checkpoint=path).fit(
        *in_blocks(X, Y, LENGTHS)
    )
    assert resumed.gap_ <= CHOSEN["tol"]
    np.testing.assert_allclose(resumed.coef_, undisturbed["model"].coef_, atol=1e-4)


def test_a_client_that_is_closed_between_two_rounds(workers, undisturbed, tmp_path, monkeypatch):
    """A client closed while no task runs gives the same advice, and the model keeps its rounds.

    Dask then refuses new tasks with an error of its own, ``ClosedClientError``.
    """
    path, data = tmp_path / "fit.npz", in_blocks(X, Y, LENGTHS)
    chosen, save = CHOSEN | {"checkpoint": path}, checkpoint.save
    with cluster(processes=False, n_workers=1) as client:

        def save_and_close(*given):
            save(*given)
            client.close()

        model = LogisticRegression(**chosen, client=client)
        with monkeypatch.context() as patched:
            patched.setattr(learner, "save", save_and_close)
            with pytest.raises(ClusterLostError, match=r"fit again .* resumes from .*fit\.npz"):
                model.fit(*data)
        assert model.n_iter_ < undisturbed["model"].n_iter_
        with pytest.raises(ClusterLostError, match=r"the client is closed.*connect a new client"):
            model.fit(*data)
    resumed = LogisticRegression(**chosen, client=workers).fit(*data)
    assert resumed.gap_ <= CHOSEN["tol"]
    np.testing.assert_allclose(resumed.coef_, undisturbed["model"].coef_, atol=1e-4)


def _close_once_there(own, path):
    limit = time.monotonic() + 600.0
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.01)
    if path.exists():
        own.sync(own.scheduler.close)


def test_no_scheduler_at_an_address():
    """An address without a scheduler is reported in a sentence."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(ClusterLostError, match="no scheduler answers at"),
    ):
        LogisticRegression(**CHOSEN, client="tcp://127.0.0.1:9").fit(*in_blocks(X, Y, [800] * 2))


def test_workers_without_our_package(workers):
    """A cluster whose workers cannot import the package is told apart before the first task."""

    def hide():
        import sys

        sys.modules["hidden"], sys.modules["antithetic"] = sys.modules.get("antithetic"), None

    def show():
        import sys

        found = sys.modules.pop("hidden")
        if found is None:
            del sys.modules["antithetic"]
        else:
            sys.modules["antithetic"] = found

    workers.run(hide)
    try:
        with pytest.raises(RuntimeError, match=r"workers cannot import antithetic, .*; install it"):
            LogisticRegression(client=workers).fit(*in_blocks(X, Y, LENGTHS))
    finally:
        workers.run(show)


def test_an_address_and_a_cluster_of_its_own(workers, undisturbed, monkeypatch):
    """Both give the same bits; a local cluster exists only during the fit."""
    data = in_blocks(X, Y, LENGTHS)
    by_address = LogisticRegression(**CHOSEN, client=workers.scheduler.address).fit(*data)
    np.testing.assert_array_equal(by_address.coef_, undisturbed["model"].coef_)
    started = []

    class Watched(LocalCluster):
        def __init__(self, **given):
            started.append(given)
            super().__init__(**given)

    monkeypatch.setattr("antithetic.dask.cluster.LocalCluster", Watched)
    monkeypatch.setattr("antithetic.dask.cluster.count_threads", lambda _: 1)
    own = LogisticRegression(**CHOSEN).fit(*data)
    assert started[0]["processes"]
    np.testing.assert_array_equal(own.coef_, undisturbed["model"].coef_)


def test_data_larger_than_the_memory_of_the_workers(tmp_path):
    """Training from disk keeps one block per task in memory: 480 MB of data, a 400 MB limit."""
    length, d, blocks = 40_000, 64, 24  # blocks of 20 MB
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(length, d))
    labels = (rows[:, 0] + rng.normal(size=length) > 0.0).astype(np.int8)
    for k in range(blocks):
        np.save(tmp_path / f"rows{k}.npy", rows)
        rows[:, k % d] *= 1.5

    def read(block_id):
        return np.load(tmp_path / f"rows{block_id[0]}.npy")

    on_disk = da.map_blocks(
        read, chunks=((length,) * blocks, (d,)), dtype=float, meta=np.empty((0, 0))
    )
    terminating = {"distributed.worker.memory.terminate": 0.95}
    with cluster(processes=True, n_workers=1, memory_limit="400 MiB", config=terminating) as client:
        before = client.run(os.getpid)
        model = LogisticRegression(client=client).fit(on_disk, np.tile(labels, blocks))
        assert client.run(os.getpid) == before  # nobody was ended on the way
        held = client.run(lambda dask_worker: dask_worker.state.nbytes)
    assert model.gap_ <= 1e-4
    assert max(held.values()) < length * d * 8


def test_workers_say_only_yes_or_no():
    """What they find may not be sent, as the loader of an editable install."""
    answers = []

    class Asked:
        status = "running"

        def run(self, function, *given, on_error):  # noqa: ARG002
            answers.append(pickle.loads(pickle.dumps(function))(*given))
            return {"a worker": answers[-1]}

    _check_package(Asked())
    assert answers == [True]
