"""Downloads, from a server of our own that is slow, breaks off, lies, and leads astray."""

from __future__ import annotations

import bz2
import errno
import os
import signal
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from antithetic import datasets
from antithetic.datasets import _download, _known
from antithetic.datasets._content import digest
from antithetic.datasets._sets import SETS, KnownSet

TEXT = b"1 1:0.5 3:-2\n-1 2:0.25\n1 1:3 2:1 3:1\n"
X = np.array([[0.5, 0, -2], [0, 0.25, 0], [3, 1, 1]])
Y = np.array([1.0, -1.0, 1.0])


class Server(ThreadingHTTPServer):
    """Answers each request by the next of ``answers``, functions of the handler.

    The last one stays.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = [], []
        self.address = f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        """Say nothing: clients go away on purpose here."""


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.0: the connection ends with the answer."""

    def do_GET(self):
        self.server.asked.append(self.path)
        answers = self.server.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *args):
        """Keep quiet."""


def send(body, length=None, code=200, **headers):
    """Answer with a body; ``length`` is what is said of it, False for nothing."""

    def answer(handler):
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        if length is not False:
            handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def drip(handler):
    """Send a byte now and then, for at most two seconds."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b"1")
        time.sleep(0.02)


def say_nothing(_handler):
    """Keep the connection open without a word, longer than the client waits."""
    time.sleep(0.5)


@pytest.fixture
def server(monkeypatch):
    """A server in the place of the LIBSVM pages."""
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(_download, "PAGES", server.address)
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache folder, short waits, and two sets of three rows."""
    monkeypatch.setattr(_download, "_WAITS", (0.0, 0.01))
    monkeypatch.setattr(_download, "_SECONDS_OF_SILENCE", 5.0)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("ANTITHETIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    for name, remote in (("plain", "plain"), ("packed", "packed.bz2")):
        monkeypatch.setitem(
            SETS,
            name,
            KnownSet(3, 3, "here", remote=remote, labels={-1: 1, 1: 2}, digest=digest(X, Y)),
        )
    return tmp_path / "cache"


def files(folder):
    return sorted(path.name for path in Path(folder).glob("*"))


@pytest.mark.parametrize(
    ("name", "body", "asked"),
    [("plain", TEXT, "/plain"), ("packed", bz2.compress(TEXT), "/packed.bz2")],
)
def test_a_download_is_kept(server, cache, name, body, asked, capsys):
    """A download is kept, compressed, under the name of the set, and is not repeated."""
    server.answers = [send(body)]
    for _ in range(2):
        bunch = datasets.load(name)
        np.testing.assert_array_equal(bunch.data, X)
        np.testing.assert_array_equal(bunch.target, Y)
    assert server.asked == [asked]
    assert files(cache) == [f"{name}.bz2"]
    assert bz2.decompress((cache / f"{name}.bz2").read_bytes()) == TEXT
    assert name in capsys.readouterr().err  # the progress


def test_a_download_without_a_length_is_taken(server):
    """The end of the connection is the end of the file."""
    server.answers = [send(TEXT, length=False)]
    np.testing.assert_array_equal(datasets.load("plain").data, X)


def test_new_files_have_the_usual_permissions(server, cache):
    """New files have the usual permissions, so that a shared cache can be read by all."""
    server.answers = [send(TEXT)]
    datasets.load("plain")
    (cache / "other").write_bytes(b"")
    assert (cache / "plain.bz2").stat().st_mode == (cache / "other").stat().st_mode


def test_nothing_is_downloaded_unasked(server):
    """With download=False nothing is downloaded."""
    with pytest.raises(FileNotFoundError, match="download=False"):
        datasets.load("plain", download=False)
    assert server.asked == []


@pytest.mark.parametrize(
    "first",
    [
        send(TEXT[:20], length=len(TEXT)),
        send(b"", code=503),
        send(b"", code=429),
        lambda handler: handler.connection.close(),
    ],
)
def test_a_passing_fault_is_tried_again(server, cache, first):
    """Whether it broke off, the server was busy, or hung up without an answer."""
    server.answers = [first, send(TEXT)]
    np.testing.assert_array_equal(datasets.load("plain").data, X)
    assert len(server.asked) == 2
    assert files(cache) == ["plain.bz2"]


@pytest.mark.parametrize(
    ("answer", "message", "tries"),
    [
        (send(TEXT[:20], length=len(TEXT)), "broke off after 20 of 37 bytes", 3),
        (send(b"", code=500), "500", 3),
        (send(b"", code=404), "404", 1),
        (send(TEXT, length=1 << 40), "more than 67108864 bytes", 1),
        (send(b"", code=302, Location="http://localhost:9/plain"), "another host", 1),
        (send(b"", code=302, Location="file:///etc/passwd"), "not allowed", 1),
        (send(b"", code=302, Location="ftp://127.0.0.1/plain"), "another host", 1),
        (send(b"", code=302, Location="/plain"), "redirect", 1),
    ],
)
def test_a_failed_download_says_what_to_do(server, cache, answer, message, tries):
    """Address, reason, where to put the file by hand; and nothing is left behind."""
    server.answers = [answer]
    with pytest.raises(FileNotFoundError, match=message) as caught:
        datasets.load("plain")
    for part in (f"{server.address}plain", str(cache), "ANTITHETIC_DATA"):
        assert part in str(caught.value)
    assert message == "redirect" or len(server.asked) == tries
    assert files(cache) == []


def test_a_server_that_sends_without_end_is_cut_off(server, cache, monkeypatch):
    """It is cut off at the limit, even if it does not say how much it will send."""
    monkeypatch.setattr(_download, "_LARGEST", 1000)
    server.answers = [send(b"1" * 5_000_000, length=False)]
    with pytest.raises(FileNotFoundError, match="more than 1000 bytes"):
        datasets.load("plain")
    assert files(cache) == []


def test_a_redirect_on_the_same_host_is_followed(server):
    """A redirect on the same host is followed."""
    server.answers = [send(b"", code=301, Location="/elsewhere"), send(TEXT)]
    np.testing.assert_array_equal(datasets.load("plain").data, X)
    assert server.asked == ["/plain", "/elsewhere"]


def test_https_does_not_become_http(monkeypatch):
    """A redirect from https to http is refused, even on the same host."""
    monkeypatch.setattr(_download, "PAGES", "https://example.org/")
    _download._check_address("https://example.org/a9a")
    for url in (
        "http://example.org/a9a",
        "https://example.org.evil/a9a",
        "https://user@example.org/a9a",
        "https://example.org:8443/a9a",
    ):
        with pytest.raises(_download.DownloadError, match="another host"):
            _download._check_address(url)


def test_silence_ends(server, cache, monkeypatch):
    """Each request ends after its time limit."""
    monkeypatch.setattr(_download, "_SECONDS_OF_SILENCE", 0.05)
    server.answers = [say_nothing]
    started = time.monotonic()
    with pytest.raises(FileNotFoundError, match="timed out"):
        datasets.load("plain")
    assert time.monotonic() - started < 5.0
    assert len(server.asked) == 3
    assert files(cache) == []


def test_dripping_ends(server, cache, monkeypatch):
    """All tries together have a time limit, even if no single wait is long."""
    monkeypatch.setattr(_download, "_SECONDS_IN_ALL", 0.2)
    server.answers = [drip]
    with pytest.raises(FileNotFoundError, match=r"more than 0\.2 seconds"):
        datasets.load("plain")
    assert files(cache) == []


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("plain", b"<html>Please log in</html>", "line 1"),
        ("plain", b"", "empty|no entries"),
        ("plain", TEXT.replace(b"0.25", b"0.26"), "other values"),
        ("plain", TEXT[:-1].rpartition(b"\n")[0], "shape"),
        ("packed", bz2.compress(TEXT)[:-5], "cut off"),
        ("packed", bz2.compress(b"1 1:1\n" * 100_000), "max_bytes"),
    ],
)
def test_a_wrong_body_is_not_kept(server, cache, monkeypatch, name, body, message):
    """A page of words, nothing, another set, a broken archive, one that expands too far.

    The address is named.
    """
    monkeypatch.setattr(_known, "LARGEST", 100_000)
    server.answers = [send(body)]
    with pytest.raises(ValueError, match=message) as caught:
        datasets.load(name)
    assert f"{server.address}{name}" in str(caught.value)
    assert "unfinished" not in str(caught.value)
    assert len(server.asked) == 1
    assert files(cache) == []


def test_what_the_server_unpacked_is_accepted(server):
    """Content that the server has unpacked is accepted."""
    server.answers = [send(TEXT)]
    for _ in range(2):
        np.testing.assert_array_equal(datasets.load("packed").data, X)


@pytest.mark.skipif(sys.platform == "win32", reason="there the signal ends the process")
def test_ctrl_c_leaves_nothing(server, cache):
    """A signal in the middle of a download leaves no file."""

    def interrupt(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(TEXT)))
        handler.end_headers()
        handler.wfile.write(TEXT[:10])
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        drip_on(handler)

    def drip_on(handler):
        # Slow enough for a busy machine, and never to the end.
        for _ in range(len(TEXT) - 11):
            time.sleep(0.05)
            handler.wfile.write(b" ")

    server.answers = [interrupt]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            datasets.load("plain")
    finally:
        signal.signal(signal.SIGINT, before)
    assert files(cache) == []


def test_a_full_disk_leaves_nothing(server, cache, monkeypatch):
    """A full disk leaves no file, and the error says what is full and what to do."""
    store = _download._store

    def store_until_full(body, file, packed):
        store(body, file, packed)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_download, "_store", store_until_full)
    server.answers = [send(TEXT)]
    with pytest.raises(OSError, match=r"disk is full.*ANTITHETIC_CACHE") as caught:
        datasets.load("plain")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(cache)
    assert files(cache) == []


def test_a_cache_that_is_not_a_folder_is_named(server, cache):
    """If a file is in the place of the cache folder, the error names it."""
    cache.write_bytes(b"")
    server.answers = [send(TEXT)]
    with pytest.raises(OSError, match="ANTITHETIC_CACHE") as caught:
        datasets.load("plain")
    assert caught.value.filename == str(cache)


def test_offline_says_what_to_do(cache, monkeypatch):
    """Offline, the error says which file to get from where, and where to put it."""
    with Server() as closed:
        pass
    monkeypatch.setattr(_download, "PAGES", closed.address)
    with pytest.raises(
        FileNotFoundError, match=r"cannot be reached.*To get it: get http.*plain.*ANTITHETIC_DATA"
    ) as caught:
        datasets.load("plain")
    assert str(cache) in str(caught.value)
    assert files(cache) == []


def test_an_unknown_host_is_not_tried_again(cache, monkeypatch):
    """Without a name service there is no network: the error comes at once."""
    monkeypatch.setattr(_download, "PAGES", "http://nowhere.invalid/")
    monkeypatch.setattr(_download, "_WAITS", (60.0,))

    def no_names(*_args, **_kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    with pytest.raises(FileNotFoundError, match="Name or service not known"):
        datasets.load("plain")
    assert files(cache) == []
