"""Data sets: the embedded ones from the package, the others from a folder or the cache."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from data import needs_data
from scipy import sparse

from antithetic import datasets
from antithetic.datasets import _download, _known, _places
from antithetic.datasets._content import digest
from antithetic.datasets._sets import SETS, KnownSet

pytestmark = pytest.mark.wheel

EMBEDDED = [
    "sonar_scale",
    "breast-cancer",
    "breast-cancer_scale",
    "splice",
    "splice_scale",
    "splice.t",
    "diabetes",
    "diabetes_scale",
]
TINY = b"1 1:0.5 3:-2\n-1 2:0.25\n1 1:3 2:1 3:1\n"
X_TINY = np.array([[0.5, 0, -2], [0, 0.25, 0], [3, 1, 1]])
Y_TINY = np.array([1.0, -1.0, 1.0])


@pytest.fixture(autouse=True)
def _no_net_and_an_empty_cache(monkeypatch, tmp_path_factory):
    """Nothing is downloaded here, and no cache of the user is seen."""
    monkeypatch.setattr(_download, "PAGES", "http://127.0.0.1:9/")
    monkeypatch.setattr(_download, "_WAITS", ())
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("ANTITHETIC_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def tiny(monkeypatch):
    """A set of three rows that the package takes for one of its own."""
    known = KnownSet(
        3,
        3,
        "this test",
        remote="tiny",
        labels={-1: 1, 1: 2},
        digest=digest(X_TINY, Y_TINY),
        l2=0.5,
    )
    monkeypatch.setitem(SETS, "tiny", known)
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    return known


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_need_no_folder(name, monkeypatch):
    """Embedded sets come with the package."""
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    bunch = datasets.load(name)
    assert bunch.data.shape[0] == bunch.target.shape[0]
    assert len(np.unique(bunch.target)) == 2
    assert name in bunch.DESCR


@pytest.mark.parametrize("name", [name for name in datasets.names() if name not in EMBEDDED])
@needs_data
def test_the_others_are_found_through_the_environment(name):
    """Other sets are found in the folder of the variable, in ``bench`` and in ``mnist``."""
    X, y = datasets.load(name, return_X_y=True)
    assert X.shape[0] == len(y)
    assert sparse.issparse(X) == (name in {"a9a", "w8a", "mushrooms", "farm-ads"})


@pytest.mark.parametrize("name", EMBEDDED)
@needs_data
def test_embedded_sets_equal_those_of_the_collection(name, monkeypatch):
    """Embedded sets equal the originals to the printed digits, with labels in the same order."""
    monkeypatch.setitem(
        datasets._load._SETS,
        name,
        datasets._load._Set(*datasets.load(name).data.shape, "the collection"),
    )
    theirs = datasets.load(name)
    monkeypatch.undo()
    ours = datasets.load(name)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=1e-6, atol=2e-6)
    np.testing.assert_array_equal(ours.target, theirs.target)


def test_an_unknown_name_lists_the_known_ones():
    """An unknown name gives an error that lists the known ones."""
    with pytest.raises(ValueError, match=r"sonar_scale.*ijcnn1\.tr"):
        datasets.load("sonar")


def test_a_missing_file_says_where_it_was_looked_for(tmp_path, monkeypatch):
    """The error for a missing file says where it was looked for, and which variable to set."""
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="ANTITHETIC_DATA"):
        datasets.load("a9a")
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        datasets.load("a9a", data_home=tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"no archive",
        bz2.compress(b"1 1:0.5 2:x\n"),
        bz2.compress(b"1 1:0.5\n-1 2:0.25\n"),
        bz2.compress(b"1 9:1\n"),
    ],
)
def test_a_damaged_or_other_file_is_refused(content, tmp_path):
    """A file is refused if its format, number of rows or number of features is wrong."""
    (tmp_path / "fourclass.bz2").write_bytes(content)
    with pytest.raises(ValueError, match="fourclass"):
        datasets.load("fourclass", data_home=tmp_path)


def test_all_is_what_is_public():
    """``__all__`` has three names, each with a docstring."""
    assert datasets.__all__ == ["load", "names", "read_file"]
    assert all(getattr(datasets, name).__doc__ for name in datasets.__all__)


def test_a_bunch_says_what_it_holds():
    """Shape, labels and how often they occur, origin, the paper's lambda."""
    bunch = datasets.load("sonar_scale")
    for part in (
        "208 rows",
        "60 features",
        "-1: 111, 1: 97",
        "Gorman and Sejnowski",
        "lambda: 0.01",
        "mine, rock",
    ):
        assert part in bunch.DESCR
    assert bunch.target_names == ["mine", "rock"]
    assert bunch.classes.tolist() == [-1.0, 1.0]
    assert bunch.feature_names[0] == "x1"
    assert len(bunch.feature_names) == 60
    assert "lambda" not in datasets.load("splice").DESCR


def test_the_papers_lambdas():
    """Table 1 of the paper, for the six sets and no other."""
    six = {
        "sonar_scale": 1e-2,
        "breast-cancer_scale": 1e-2,
        "splice_scale": 1e-3,
        "fourclass_scale": 1e-2,
        "diabetes_scale": 1e-2,
    }
    assert {name: known.l2 for name, known in SETS.items() if known.l2 is not None} == six | {
        "ijcnn1.tr": 1e-4
    }


def test_the_table_of_sets_is_whole():
    """What comes from outside is checked; what has no download is known to have none."""
    for name, known in SETS.items():
        if not known.embedded:
            assert sum(known.labels.values()) == known.n, name
            assert len(known.digest) == 64, name
    without = {name for name, known in SETS.items() if not known.embedded and known.remote is None}
    assert without == {"farm-ads", "cod-rna_scale", "mnist", "mnist.t"}
    assert {name for name, known in SETS.items() if (known.remote or "").endswith(".bz2")} == {
        "ijcnn1.tr",
        "ijcnn1.val",
        "ijcnn1.t",
    }


def test_the_digest_is_of_the_values_only():
    """Sparsity, stored zeros, index order and type, and number type do not change the digest."""
    same = digest(X_TINY, Y_TINY)
    rows = sparse.csr_array(X_TINY)
    wide = sparse.csr_array(
        (rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=rows.shape
    )
    unsorted = sparse.csr_array(
        (
            np.array([-2, 0.5, 0.25, 0, 3, 1, 1]),
            np.array([2, 0, 1, 2, 0, 1, 2]),
            np.array([0, 2, 4, 7]),
        ),
        shape=(3, 3),
    )
    for X in (
        rows,
        wide,
        unsorted,
        X_TINY.astype(np.float32),
        np.asfortranarray(X_TINY),
        X_TINY * np.where(X_TINY == 0, -1, 1),
    ):
        assert digest(X, Y_TINY) == same
    assert digest(X_TINY, Y_TINY.astype(np.int8)) == same
    # The input is not modified.
    assert unsorted.indices.tolist() == [2, 0, 1, 2, 0, 1, 2]
    assert same == "d2ae56ba8f9977973d6c1091847203fdc26c984f63c0e51b0912943e6c76bbb3"


@pytest.mark.parametrize("change", ["value", "place", "label", "order", "width"])
def test_the_digest_sees_every_change(change):
    """The digest changes with a last bit, a column, a label, the row order, an empty feature."""
    X, y = X_TINY.copy(), Y_TINY.copy()
    if change == "value":
        X[0, 0] = np.nextafter(0.5, 1)
    elif change == "place":
        X[1] = X[1, [1, 0, 2]]
    elif change == "label":
        y[0] = -1
    elif change == "order":
        X, y = X[[2, 1, 0]], y[[2, 1, 0]]
    else:
        X = np.hstack([X, np.zeros((3, 1))])
    assert digest(X, y) != digest(X_TINY, Y_TINY)


@pytest.mark.usefixtures("tiny")
def test_places_come_in_order(tmp_path, monkeypatch):
    """data_home, then ANTITHETIC_DATA and its folders, then the cache.

    Compressed or as LIBSVM has it.
    """
    cache, data, home = Path(_places.cache_folder()), tmp_path / "data", tmp_path / "home"
    monkeypatch.setenv("ANTITHETIC_DATA", str(data))
    (data / "bench").mkdir(parents=True)
    home.mkdir()
    for path in (cache / "tiny", data / "bench" / "tiny.bz2", home / "tiny"):
        path.write_bytes(bz2.compress(TINY) if path.suffix else TINY)
        assert _places.find("tiny", home) == [path]
        np.testing.assert_array_equal(datasets.load("tiny", home).data, X_TINY)


def test_the_cache_folder_follows_the_platform(monkeypatch):
    """Our own variable first; a relative XDG_CACHE_HOME is passed over."""
    assert str(_places.cache_folder()) != "/c/antithetic"
    monkeypatch.delenv("ANTITHETIC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setattr(sys, "platform", "linux")
    assert _places.cache_folder() == Path("/c/antithetic")
    monkeypatch.setenv("XDG_CACHE_HOME", "c")
    assert _places.cache_folder() == Path("/h/.cache/antithetic")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/l")
    assert _places.cache_folder() == Path("/l/antithetic")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TINY.replace(b"0.25", b"0.26"), "other values"),
        (TINY.replace(b"-1 2", b"1 2"), "labels 1: 3 instead of -1: 1, 1: 2"),
        (TINY + b"1 1:1\n", r"shape \(4, 3\) instead of \(3, 3\)"),
        (TINY.replace(b"1:0.5", b"0:0.5"), "index 0"),
        (b"<html>moved</html>", "line 1"),
        (b"", "empty"),
    ],
)
def test_a_wrong_file_of_the_users_own_is_named(content, message, tmp_path):
    """A wrong file of the user's own is named, for any kind of error."""
    (tmp_path / "tiny").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        datasets.load("tiny", tmp_path)
    assert str(tmp_path / "tiny") in str(caught.value)


@pytest.mark.usefixtures("tiny")
def test_an_archive_that_expands_without_end_is_refused(tmp_path, monkeypatch):
    """An archive that expands without end is refused: it is read in pieces up to a limit."""
    monkeypatch.setattr(_known, "LARGEST", 1000)
    (tmp_path / "tiny.bz2").write_bytes(bz2.compress(b"1 1:1\n" * 1_000))
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        datasets.load("tiny", tmp_path)


@pytest.mark.parametrize("name", ["farm-ads", "cod-rna_scale", "mnist", "mnist.t"])
def test_sets_without_a_download_say_so(name, monkeypatch):
    """Sets without a download say which file to put where."""
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=f"{name} cannot be downloaded; put .*(bz2|gz).*ANTITHETIC_DATA"
    ):
        datasets.load(name)


@needs_data
@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:3],
        lambda b: b[:-1],
        lambda b: b"\0\0\x09" + b[3:],
        lambda b: b[:4] + b"\xff" * 4 + b[8:],
    ],
)
def test_damaged_images_are_refused(damage, tmp_path):
    """Too short, another type, axes that do not fit."""
    labels = gzip.compress(damage(b"\0\0\x08\x01" + (10000).to_bytes(4, "big") + bytes(10000)))
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(labels)
    with pytest.raises(ValueError, match=r"mnist\.t.*t10k-labels"):
        datasets.load("mnist.t", tmp_path)


def test_the_table_is_not_for_writing(tiny):
    """The table of known sets is read-only."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiny.n = 4
