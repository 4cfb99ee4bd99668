"""Whatever the package writes: whole files or none, through links, to pipes and devices."""

from __future__ import annotations

import os
import signal
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from races.rows import Row, Sink

from antithetic import AntitheticTable, LinearModel, LogisticRegression, pair
from antithetic._util.files import atomic_file, write_atomically
from antithetic.dask import checkpoint
from antithetic.datasets import _download
from antithetic.paper.experiments import Experiment

X = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
Y = np.array([0, 1, 1, 0, 1])


def download(path):
    with _download._appearing(path) as file:
        file.write(b"1 1:0.5\n" * 9)


@dataclass
class Small:
    """An experiment of one number, which fits into a pipe."""

    bias: float = 0.5


WRITERS = {
    "bytes": lambda path: write_atomically(path, b"content\n" * 9),
    "table": lambda path: pair(X, Y).save(path),
    "groups": lambda path: pair(X, Y, nest=2).save(path),
    "checkpoint": lambda path: checkpoint.save(path, "0", (np.ones(2), 0.5)),
    "model": lambda path: LinearModel.of(LogisticRegression().fit(X, Y)).save(path),
    "experiment": lambda path: Experiment.save(Small(), path),
    "download": download,
}
every_writer = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
posix = pytest.mark.skipif(os.name != "posix", reason="Windows has no such files or limits")


@every_writer
def test_a_file_replaces_the_old_one_and_leaves_no_other(write, tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    write(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").stat().st_size > len(b"old")


@every_writer
def test_a_file_is_on_the_disk_before_it_has_its_name(write, tmp_path, monkeypatch):
    """After a crash of the machine, there is the old file or all of the new one."""
    done, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda *given: (done.append("fsync"), sync(*given)))
    monkeypatch.setattr(os, "replace", lambda *given: (done.append("replace"), replace(*given)))
    write(tmp_path / "file")
    assert done == ["fsync", "replace"]


def test_a_name_of_the_greatest_length_can_be_written(tmp_path):
    name = "n" * 255
    write_atomically(tmp_path / name, b"content")
    assert os.listdir(tmp_path) == [name]


@posix
def test_a_file_keeps_its_permissions(tmp_path):
    """A file that others may not read is not opened to them when it is written again."""
    path = tmp_path / "file"
    path.touch()
    for mode in (0o600, 0o664):
        path.chmod(mode)
        write_atomically(path, b"content")
        assert oct(stat.S_IMODE(path.stat().st_mode)) == oct(mode)


@posix
@every_writer
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_stays_and_its_target_is_written(write, exists, tmp_path):
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target.name)
    if exists:
        target.write_bytes(b"old")
    write(link)
    assert link.is_symlink()
    assert not target.is_symlink()
    assert target.stat().st_size > len(b"old")
    assert sorted(os.listdir(tmp_path)) == ["link", "target"]


@posix
def test_a_link_to_itself_is_an_error_that_names_it(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError, match="symbolic links") as caught:
        write_atomically(link, b"content")
    assert str(caught.value.filename) == str(link)
    assert link.is_symlink()


@contextmanager
def pipe_in(folder):
    """Yield the path of a pipe, and the descriptor that reads from it."""
    path = folder / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield path, reader
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(folder) == ["pipe"]


@posix
@every_writer
def test_a_pipe_is_written_to_and_stays(write, tmp_path):
    with pipe_in(tmp_path) as (pipe, reader):
        write(pipe)
        assert len(os.read(reader, 1 << 16)) > 9


@posix
def test_a_table_that_went_through_a_pipe_is_the_same(tmp_path_factory):
    folder, other = (tmp_path_factory.mktemp(name) for name in ("folder", "other"))
    with pipe_in(folder) as (pipe, reader):
        AntitheticTable([1, 2, 0]).save(pipe)
        (other / "file").write_bytes(os.read(reader, 1 << 16))
    assert AntitheticTable.load(other / "file").partner.tolist() == [1, 2, 0]


@posix
@every_writer
def test_a_device_is_written_to_and_stays(write):
    """The device is a terminal of our own; its folder takes no files, so nothing can replace it."""
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may become that of pytest
    ours, other = os.openpty()
    try:
        device = Path(os.ttyname(other))
        before = device.stat()
        write(device)
        after = device.stat()
        assert len(os.read(ours, 1 << 16)) > 9
    finally:
        os.close(ours)
        os.close(other)
        signal.signal(signal.SIGHUP, hang_up)
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)


@pytest.mark.skipif(not Path(os.devnull).is_char_device(), reason="Windows has another one")
@every_writer
def test_the_null_device_takes_every_file(write, monkeypatch):
    """It says that it is at its beginning after each write, which archives do not expect."""

    def refuse(*_arguments):
        raise AssertionError("a device must not be replaced")

    monkeypatch.setattr(os, "replace", refuse)
    write(Path(os.devnull))
    assert Path(os.devnull).is_char_device()


@contextmanager
def full_disk():
    """Let no file of this process grow."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@posix
@every_writer
def test_a_full_disk_is_named_and_leaves_the_old_file(write, tmp_path):
    """The error names the file, or the cache folder, and no other file is left."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with full_disk(), pytest.raises(OSError, match="large") as caught:
        write(path)
    assert caught.value.filename == str(tmp_path if write is download else path)
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"old"


@posix
def test_a_full_disk_is_named_by_rows_that_are_added(tmp_path):
    with Sink(tmp_path / "rows.csv") as sink:
        with full_disk(), pytest.raises(OSError, match="large") as caught:
            sink.add(Row("epoch", "set"))
        assert caught.value.filename == str(tmp_path / "rows.csv")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_any_failure_leaves_the_old_file(failing, error, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_arguments):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(type(error)):
            write_atomically(path, b"new")
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["bytes", "table", "groups", "checkpoint", "model"])
def test_a_missing_folder_is_named_by_the_path_that_was_given(name, tmp_path):
    path = tmp_path / "no folder" / "file"
    with pytest.raises(FileNotFoundError) as caught:
        WRITERS[name](path)
    assert caught.value.filename == str(path)


def test_an_error_about_another_file_names_that_one(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_file(tmp_path / "file"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")
