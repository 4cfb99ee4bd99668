"""A user's own file: SVMlight and NumPy files, whole, damaged and hostile."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import zipfile

import numpy as np
import pytest
from data import needs_data
from scipy import sparse

from antithetic import datasets
from antithetic.datasets import read_file

TEXT = b"1 1:0.5 3:-2\n-1 2:0.25\n1 1:3 2:1 3:1\n"
X = np.array([[0.5, 0, -2], [0, 0.25, 0], [3, 1, 1]])
Y = np.array([1.0, -1.0, 1.0])


def name_of(parameter):
    """Name of a test's parameter, the same in every process of pytest-xdist.

    Archives hold the time, so their bytes differ.
    """
    return "bytes" if isinstance(parameter, bytes) else None


@pytest.fixture
def write(tmp_path):
    """Write a file and give its path."""

    def writer(content, name="data"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return writer


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npz(save=np.savez, **arrays):
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["data", "data.svm", "data.txt", "data.csv"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_svmlight_is_known_by_its_content(write, name, pack):
    """SVMlight is recognised by its content, for any name and compression."""
    bunch = read_file(write(pack(TEXT), name))
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, Y)
    assert (bunch.feature_names, bunch.target_name, bunch.name) == (["x1", "x2", "x3"], "y", name)
    assert bunch.classes.tolist() == [-1.0, 1.0]
    assert bunch.target_names == ["-1", "1"]
    assert "3 rows, 3 features, 2 classes" in bunch.DESCR


def test_svmlight_comments_queries_and_empty_rows(write):
    """Comments, query ids and empty rows are read as the format allows."""
    bunch = read_file(write(b"# a comment\n1 qid:3 1:2 # more\n\n-1\n+1 2:1e-3\n"))
    np.testing.assert_array_equal(bunch.data, [[2, 0], [0, 0], [0, 1e-3]])
    assert bunch.target.tolist() == [1, -1, 1]


def test_svmlight_may_count_from_zero(write):
    """An index 0 means counting from zero, as in scikit-learn."""
    bunch = read_file(write(b"1 0:1 2:3\n-1 1:2\n"))
    np.testing.assert_array_equal(bunch.data, [[1, 0, 3], [0, 2, 0]])
    assert bunch.feature_names == ["x0", "x1", "x2"]


def test_sparse_rows_stay_sparse(write):
    """Rows with less than a third of their entries stored stay sparse."""
    bunch = read_file(write(b"1 1:1\n-1 9:2\n"))
    assert isinstance(bunch.data, sparse.csr_array)
    assert bunch.data.shape == (2, 9)


def test_n_features_adds_empty_ones(write):
    """n_features adds empty features, so that a test file fits its training file."""
    path = write(TEXT)
    assert read_file(path, n_features=5).data.shape == (3, 5)
    with pytest.raises(ValueError, match="3 features, more than n_features=2"):
        read_file(path, n_features=2)
    with pytest.raises(ValueError, match="whole number"):
        read_file(path, n_features=2.5)


def test_features_are_chosen_by_name_or_number(write):
    """Features are chosen by name or number, in the order given."""
    bunch = read_file(write(TEXT), features=["x3", 0])
    np.testing.assert_array_equal(bunch.data, X[:, [2, 0]])
    assert bunch.feature_names == ["x3", "x1"]
    for features, message in (
        (["x9"], "no column 'x9'; it has 'x1'"),
        ([7], "0 to 2"),
        ([], "at least one"),
        ("x1", "list"),
        ([0, "x1"], "twice"),
    ):
        with pytest.raises(ValueError, match=message):
            read_file(write(TEXT), features=features)


def test_continuous_labels_have_no_classes(write):
    """Numbers that are not whole, more than two."""
    bunch = read_file(write(b"0.5 1:1\n1.5 1:2\n2.25 1:3\n"))
    assert bunch.classes is None
    assert bunch.target_names is None
    assert "continuous" in bunch.DESCR


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 1:1\n-1 3:1 2:1\n", "line 2.*ascend"),
        (b"1 1:1\n-1 2:1 2:1\n", "line 2.*ascend"),
        (b"1 1:1\n-1 2:x\n", "line 2.*float"),
        (b"1 1:1\n-1 2\n", "line 2.*colon|comma"),
        (b"1 1:1\n-1 -2:1\n", "line 2|comma"),
        (b"1 1:1\n-1 99999999999999999999:1\n", "line 2.*too large"),
        (b"1 1:1\n-1 2000000000:1\n", "index 2000000000.*n_features=2000000000"),
        (b"1 1:1\n-1 1:nan\n", "NaN or infinity, first in row 1"),
        (b"1 1:1\n-1 1:1e999\n", "NaN or infinity, first in row 1"),
        (b"1 1:1\n1 1:2\n", "one class only"),
        (b"1 1:1\nnan 1:2\n", "NaN|line 2|comma"),
        (b"1\n-1\n", "comma|no entries"),
        (b"1 1:1\n" * 200 + b"what 1:1\n", "line 201"),
        (b"", "empty"),
        (gzip.compress(b""), "empty"),
        (b"hello\n", "not a table"),
        (b"\x00\x01\x02" * 100, "not text"),
        (bytes(range(128, 256)), "not UTF-8"),
        (gzip.compress(TEXT)[:-9], "damaged or cut off"),
        (bz2.compress(TEXT)[:-9], "damaged or cut off"),
        (lzma.compress(TEXT)[:-9], "damaged or cut off"),
        (gzip.compress(TEXT)[:12] + b"junkjunkjunk", "damaged or cut off"),
        # quadratic time would be minutes here
        (b"a,b,y\n1," + b"1" * 200_000 + b"x,0\n2,3,1\n", "field larger than field limit"),
        (b"1" * 100_000 + b",2,0\n3,4,1\n", "infinite value '1{100}' in"),
        (b"1" * 200_000 + b" 1:2\n1 1:2\n", "NaN or infinity, first in row 0"),
        (b"1 " + b"1" * 200_000 + b":2\n0 1:2\n", "line 1.*an index is too large"),
    ],
    ids=name_of,
)
def test_a_broken_file_is_refused_with_a_sentence(write, content, message):
    """That names the file, and the line where there is one."""
    path = write(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_file(path)
    assert str(path) in str(caught.value)


def test_many_features_are_taken_when_asked_for(write):
    """Many features are accepted on request; the limit protects from mistakes."""
    bunch = read_file(write(b"1 1:1\n-1 20000000:1\n"), n_features=20_000_000)
    assert bunch.data.shape == (2, 20_000_000)
    assert bunch.feature_names is None  # they would take more memory than most sets


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_the_limit_counts_decompressed_bytes(write, pack):
    """One byte more than it is refused, wherever it is."""
    path = write(pack(TEXT))
    assert read_file(path, max_bytes=len(TEXT)).data.shape == (3, 3)
    with pytest.raises(ValueError, match="more than 36 bytes; set a larger max_bytes"):
        read_file(path, max_bytes=len(TEXT) - 1)
    with pytest.raises(ValueError, match="max_bytes must be a whole number"):
        read_file(path, max_bytes=0)


def test_a_bomb_takes_no_memory(write, monkeypatch):
    """Neither a line without end nor a file without end is decompressed further than its limit."""
    import tracemalloc

    from antithetic.datasets import _stream

    path = write(gzip.compress(b"1" * 50_000_000))
    monkeypatch.setattr(_stream, "_LONGEST_LINE", 1 << 20)
    tracemalloc.start()
    with pytest.raises(ValueError, match="line 1 is longer than"):
        read_file(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_what_is_not_a_file_is_refused(tmp_path):
    """A folder, a pipe and a missing file are refused."""
    with pytest.raises(ValueError, match="is a folder"):
        read_file(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="not a regular file"):
            read_file(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError, match="nothing"):
        read_file(tmp_path / "nothing")


def test_where_labels_are_fixed_no_target_is_chosen(write):
    """SVMlight and npz have fixed labels, so choosing a target is refused."""
    with pytest.raises(ValueError, match="target='x1'"):
        read_file(write(TEXT), target="x1")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("names", [("X", "y"), ("data", "target")])
def test_npz_holds_rows_and_labels(write, save, names):
    """npz holds rows of any number type and memory order, and labels as numbers or strings."""
    for rows in (X, X.astype(np.float32), np.asfortranarray(X), X.astype(int), X.astype(">f8")):
        bunch = read_file(write(npz(save, **{names[0]: rows, names[1]: np.array(["a", "b", "a"])})))
        np.testing.assert_array_equal(bunch.data, rows)
        assert bunch.target.tolist() == ["a", "b", "a"]
        assert bunch.target_names == ["a", "b"]
    named = read_file(
        write(npz(save, **{names[0]: X, names[1]: Y}, feature_names=np.array(["u", "v", "w"]))),
        features=["w"],
    )
    np.testing.assert_array_equal(named.data, X[:, [2]])


def test_npz_holds_csr(write):
    """npz holds CSR as scipy's save_npz writes it, with labels beside it."""
    rows = sparse.csr_array(X)
    parts = {
        "data": rows.data,
        "indices": rows.indices,
        "indptr": rows.indptr,
        "shape": np.array(rows.shape),
    }
    for extra in ({"y": Y}, {"target": Y, "format": np.array(b"csr")}):
        bunch = read_file(write(npz(**parts, **extra)))
        assert isinstance(bunch.data, sparse.csr_array)
        np.testing.assert_array_equal(bunch.data.toarray(), X)
    for change, message in (
        ({"indices": rows.indices + 3}, "wrong parts"),
        ({"indices": rows.indices - 5}, "wrong parts"),
        ({"indptr": rows.indptr[::-1].copy()}, "wrong parts"),
        ({"indptr": rows.indptr + 1}, "wrong parts"),
        ({"indices": rows.indices[:-1]}, "wrong parts"),
        ({"indices": rows.indices.astype(float)}, "incomplete CSR"),
        ({"shape": np.array([3, 1 << 40])}, "n_features"),
        ({"shape": np.array([1 << 62, 3])}, "wrong parts"),
        ({"shape": np.array([3])}, "incomplete CSR"),
        ({"format": np.array("csc")}, "layout 'csc'"),
        ({"y": Y[:2]}, "labels"),
    ):
        with pytest.raises(ValueError, match=message):
            read_file(write(npz(**(parts | {"y": Y} | change))))


def test_npy_is_a_table(write):
    """The last column holds the labels unless another is named."""
    array = np.column_stack([X, Y])
    bunch = read_file(write(npy(array)))
    np.testing.assert_array_equal(bunch.data, X)
    assert bunch.target_name == "x4"
    bunch = read_file(write(npy(np.asfortranarray(array))), target=0, features=[3, 1])
    np.testing.assert_array_equal(bunch.data, array[:, [3, 1]])
    np.testing.assert_array_equal(bunch.target, array[:, 0])


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("/nonexistent/evil",)


def header(shape, kind="<f8"):
    """Head of an array that promises what does not follow."""
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(np.array([Evil()], dtype=object), allow_pickle=True), "nothing is unpickled"),
        (npz(X=np.array([Evil()], dtype=object), y=Y), "nothing is unpickled"),
        (header((10**6, 10**3)), "cut off: it should have 8000000000 bytes"),
        (header((10**9, 10**9)), "max_bytes"),
        (header((-1, 3)), "shape"),
        (zipped(X=header((10**6, 10**3)), y=npy(Y)), "cut off"),
        (zipped(X=b"junk", y=npy(Y)), "not a NumPy array"),
        (header("(3"), "not a NumPy array"),
        (header((2, 2)).replace(b"(2, 2)", b"((2, 2"), "not a NumPy array"),
        (npz(X=X, y=Y)[:-22] + b"PK\x05\x06" + b"\xff" * 14 + bytes(4), "not a readable npz"),
        (npy(X)[:-3], "cut off"),
        (npy(X) + b"more", "more bytes"),
        (npy(Y), "rows and columns"),
        (npy(np.empty((0, 3))), "at least one row"),
        (npy(X.astype(str)), "rows and columns"),
        (npy(X[:, :1]), "one column only"),
        (npy(np.array([[1, 2], [np.nan, 3]])), "NaN or infinity"),
        (npz(X=X, y=Y)[:-30], "not a readable npz"),
        (npz(X=X, y=Y).replace(X.tobytes(), X[::-1].tobytes()), "damaged"),
        (npz(X=X), "holds 'X'; it must hold"),
        (zipped(), "no arrays"),
        (npz(X=X, y=Y[:2]), "labels"),
        (npz(X=X, y=np.ones(3)), "one class"),
        (npz(X=X.astype(complex), y=Y), "complex"),
        (npz(X=X.astype(str), y=Y), "as numbers"),
        (npz(X=Y, y=Y), "two axes"),
        (npz(X=X, y=Y, feature_names=np.array(["a"])), "1 feature_names"),
        (npz(X=X, y=Y, feature_names=np.array(["a", "b", "a"])), "more than one column called 'a'"),
    ],
    ids=name_of,
)
def test_a_broken_numpy_file_is_refused(write, content, message):
    """Nothing is unpickled, and no promise of a header is believed."""
    path = write(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_file(path)
    assert str(path) in str(caught.value)


def test_the_limit_holds_for_all_arrays_together(write):
    """Two arrays that are each below the limit, but exceed it together, are refused."""
    path = write(npz(np.savez_compressed, X=np.zeros((1000, 10)), y=np.arange(1000.0)))
    with pytest.raises(ValueError, match="max_bytes"):
        read_file(path, max_bytes=85_000)
    assert read_file(path, max_bytes=100_000).data.shape == (1000, 10)


@pytest.mark.parametrize("ending", ["parquet", "feather", "npy", "npz"])
def test_an_ending_that_promises_too_much(write, ending):
    """Text in a file with a binary ending is refused."""
    with pytest.raises(ValueError, match=f"ends in .{ending}"):
        read_file(write(TEXT, f"data.{ending}"))


@needs_data
@pytest.mark.parametrize("name", ["fourclass", "bench/mushrooms", "bench/farm-ads"])
def test_real_files_read_as_load_reads_them(name):
    """Real files read by path equal the sets that ``load`` reads by name."""
    ours = read_file(f"{os.environ['ANTITHETIC_DATA']}/{name}.bz2")
    theirs = datasets.load(name.split("/")[-1])
    assert abs(ours.data - theirs.data).sum() == 0
    np.testing.assert_array_equal(ours.target, theirs.target)
    assert ours.feature_names == theirs.feature_names
