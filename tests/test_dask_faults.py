"""Workers that die, workers that come, a scheduler that is lost, and data larger than memory: with real processes."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask.array as da
from dask_cases import cluster, in_blocks, labelled
from distributed import LocalCluster, get_worker

from antithetic.dask import ClusterLostError, SGDClassifier, pair

X, Y = labelled(800)
CHOSEN = {"loss": "log_loss", "alpha": 1e-2, "max_iter": 4, "tol": None, "random_state": 0}


def slowly(block, seconds=0.15):
    """A block that takes its time, so that a worker can be killed while it has it."""
    time.sleep(seconds)
    return block


def slow_blocks(marker=None, lengths=(100,) * 8):
    """Blocks that leave a mark when they are read."""

    def read(block):
        if marker is not None:
            with open(marker, "a") as file:
                file.write(f"{os.getpid()}\n")
        return slowly(block)

    rows, labels = in_blocks(X, Y, lengths)
    return rows.map_blocks(read, dtype=float, meta=np.empty((0, 0))), labels


def kill_one(marker, after):
    """Kill the process of a worker, by SIGKILL, once so many blocks were read in all."""

    def wait_and_kill():
        limit = time.monotonic() + 120.0
        while time.monotonic() < limit:
            read = marker.read_text().split() if marker.exists() else []
            if len(read) >= after:
                killed.append(int(read[-1]))  # which has just read one, and is at work on it
                os.kill(killed[-1], signal.SIGKILL)
                return
            time.sleep(0.01)

    killed = []
    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread, killed


@pytest.fixture(scope="module")
def workers():
    with cluster(processes=True) as client:
        yield client


@pytest.fixture(scope="module")
def undisturbed(workers):
    return SGDClassifier(**CHOSEN, client=workers).fit(*in_blocks(X, Y, [100] * 8)), pair(*in_blocks(X, Y, [100] * 8)).partner.compute()


@pytest.mark.parametrize("after", [4, 20], ids=["in the first look", "in an epoch"])
def test_a_worker_that_is_killed_changes_no_bit(workers, undisturbed, tmp_path, after):
    """Its blocks are read again, and nothing else is."""
    marker = tmp_path / "read"
    thread, killed = kill_one(marker, after)
    model = SGDClassifier(**CHOSEN, client=workers).fit(*slow_blocks(marker))
    thread.join()
    assert killed
    assert killed[0] not in workers.run(os.getpid).values()
    np.testing.assert_array_equal(model.coef_, undisturbed[0].coef_)
    np.testing.assert_array_equal(model.intercept_, undisturbed[0].intercept_)
    np.testing.assert_array_equal(model.history_["objective"], undisturbed[0].history_["objective"])


def test_a_worker_that_is_killed_with_tables_and_data_in_its_memory(workers, tmp_path):
    """They are made again from what they were made of."""
    plain = SGDClassifier(**CHOSEN, pairing="tree", client=workers).fit(*in_blocks(X, Y, [100] * 8))
    marker = tmp_path / "read"
    rows, labels = slow_blocks(marker)
    kept = workers.persist(rows)
    thread, killed = kill_one(marker, 6)
    model = SGDClassifier(**CHOSEN, pairing="tree", client=workers).fit(kept, labels)
    thread.join()
    assert killed
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_a_worker_that_is_killed_while_pairing(workers, undisturbed, tmp_path):
    """The tables are the same."""
    marker = tmp_path / "read"
    table = pair(*slow_blocks(marker), client=workers)
    thread, killed = kill_one(marker, 3)
    partner = workers.compute(table.partner).result(timeout=300)
    thread.join()
    assert killed
    np.testing.assert_array_equal(partner, undisturbed[1])


def test_a_worker_that_joins_is_used():
    """Blocks of later rounds go to it, and the result is the same."""
    with cluster(processes=True, n_workers=1) as client:
        alone = SGDClassifier(**CHOSEN, client=client).fit(*in_blocks(X, Y, [100] * 8))

        def who(block):
            time.sleep(0.05)
            return block * (1.0 + 0.0 * len(get_worker().address))

        client.cluster.scale(2)
        client.wait_for_workers(2, timeout=120)
        rows, labels = in_blocks(X, Y, [100] * 8)
        model = SGDClassifier(**CHOSEN, client=client).fit(rows.map_blocks(who, dtype=float, meta=np.empty((0, 0))), labels)
        np.testing.assert_array_equal(model.coef_, alone.coef_)
        done = client.run(lambda dask_worker: sum(1 for event in dask_worker.state.log if "antithetic-epoch" in str(event)))
        assert len(done) == 2
        assert min(done.values()) > 0


def test_a_scheduler_that_is_lost(tmp_path):
    """A clear error that names the checkpoint; a new cluster goes on from there to the same bits."""
    path = tmp_path / "fit.npz"
    rows, labels = slow_blocks()
    with cluster(processes=True, config={"distributed.comm.timeouts.connect": "5s"}) as client:
        model = SGDClassifier(**CHOSEN | {"max_iter": 6}, client=client, checkpoint=path)
        ender = threading.Thread(target=_close_once_there, args=(client.cluster, path))
        ender.start()
        with pytest.raises(ClusterLostError, match=r"fit again: it goes on from .*fit\.npz"):
            model.fit(rows, labels)
        ender.join()
        assert 1 <= model.n_iter_ < 6
    with cluster(processes=True) as client:
        resumed = SGDClassifier(**CHOSEN | {"max_iter": 6}, client=client, checkpoint=path).fit(*in_blocks(X, Y, [100] * 8))
        whole = SGDClassifier(**CHOSEN | {"max_iter": 6}, client=client).fit(*in_blocks(X, Y, [100] * 8))
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)


def _close_once_there(own, path):
    limit = time.monotonic() + 120.0
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.01)
    if path.exists():
        own.sync(own.scheduler.close)


def test_no_scheduler_at_an_address():
    """Is said in a sentence."""
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(ClusterLostError, match="no scheduler to be reached"):
        SGDClassifier(**CHOSEN, client="tcp://127.0.0.1:9").fit(*in_blocks(X, Y, [400] * 2))


def test_an_address_and_a_cluster_of_its_own(workers, undisturbed, monkeypatch):
    """Give the same bits; a local cluster is there for the time of the fit."""
    data = in_blocks(X, Y, [100] * 8)
    by_address = SGDClassifier(**CHOSEN, client=workers.scheduler.address).fit(*data)
    np.testing.assert_array_equal(by_address.coef_, undisturbed[0].coef_)
    started = []

    class Watched(LocalCluster):
        def __init__(self, **given):
            started.append(given)
            super().__init__(**given)

    monkeypatch.setattr("antithetic.dask.cluster.LocalCluster", Watched)
    own = SGDClassifier(**CHOSEN).fit(*data)
    assert started[0]["processes"]
    np.testing.assert_array_equal(own.coef_, undisturbed[0].coef_)


def test_data_larger_than_the_memory_of_the_workers(tmp_path):
    """Train from disk, 480 MB with a worker that is ended beyond 400: a task has its own block in memory, and no other."""
    length, d, blocks = 40_000, 64, 24  # blocks of 20 MB
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(length, d))
    labels = (rows[:, 0] + rng.normal(size=length) > 0.0).astype(np.int8)
    for k in range(blocks):
        np.save(tmp_path / f"rows{k}.npy", rows)
        rows[:, k % d] *= 1.5

    def read(block_id):
        return np.load(tmp_path / f"rows{block_id[0]}.npy")

    on_disk = da.map_blocks(read, chunks=((length,) * blocks, (d,)), dtype=float, meta=np.empty((0, 0)))
    terminating = {"distributed.worker.memory.terminate": 0.95}
    with cluster(processes=True, n_workers=1, memory_limit="400 MiB", config=terminating) as client:
        before = client.run(os.getpid)
        model = SGDClassifier("log_loss", max_iter=2, tol=None, random_state=0, client=client).fit(on_disk, np.tile(labels, blocks))
        assert client.run(os.getpid) == before  # nobody was ended on the way
        held = client.run(lambda dask_worker: dask_worker.state.nbytes)
    assert model.n_iter_ == 2
    assert max(held.values()) < length * d * 8
