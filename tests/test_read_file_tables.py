"""A user's own table: CSV and TSV, Parquet and Arrow."""

from __future__ import annotations

import gzip
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from antithetic.datasets import read_file

CSV = 'length,"width, in cm",species\n1.5,2,setosa\n3,-4e-1,virginica\n'


def name_of(parameter):
    """Name of a test's parameter, the same in every process of pytest-xdist.

    Archives hold the time, so their bytes differ.
    """
    return "bytes" if isinstance(parameter, bytes) else None


@pytest.fixture
def write(tmp_path):
    """Write a text and give its path."""

    def writer(text, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return writer


def test_a_plain_table(write):
    """Names from the header, quoted or not; labels of words from the last column."""
    bunch = read_file(write(CSV))
    np.testing.assert_array_equal(bunch.data, [[1.5, 2], [3, -0.4]])
    assert bunch.data.flags.c_contiguous
    assert bunch.feature_names == ["length", "width, in cm"]
    assert bunch.target_name == "species"
    assert bunch.target.tolist() == ["setosa", "virginica"]
    assert bunch.classes.tolist() == bunch.target_names == ["setosa", "virginica"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt", "t"])
def test_delimiters_line_ends_and_endings(write, delimiter, end, name):
    """All give the same, with a byte order mark, blank lines or without a last line end too."""
    text = delimiter.join("abc") + end + delimiter.join("120") + end + delimiter.join("341") + end
    for variant in (
        text.encode(),
        b"\xef\xbb\xbf" + text.encode(),
        (text + end).encode(),
        text.rstrip().encode(),
        gzip.compress(text.encode()),
    ):
        bunch = read_file(write(variant, name))
        np.testing.assert_array_equal(bunch.data, [[1, 2], [3, 4]])
        assert bunch.feature_names == ["a", "b"]
        assert bunch.target.tolist() == [0, 1]


def test_a_header_is_seen_or_said(write):
    """Numbers in the first line make it a row, unless the caller knows better."""
    assert read_file(write("1,2,0\n3,4,1\n")).feature_names == ["x1", "x2"]
    assert read_file(write("2019,2020,y\n1,2,0\n3,4,1\n"), header=True).feature_names == [
        "2019",
        "2020",
    ]
    # A repeated name and no numbers: this is a row of words, not a header.
    words = read_file(write("p,x,x\ne,x,y\n"), one_hot=True)
    assert words.feature_names == ["x1=e", "x1=p", "x2=x"]
    assert read_file(write("p,x,z\ne,x,y\n"), one_hot=True, header=False).data.shape == (2, 3)
    assert read_file(write(",a,y\n0,1,0\n1,2,1\n")).feature_names == ["x1", "a"]


@pytest.mark.parametrize("name", ["target", "Label", "CLASS", "y"])
def test_a_column_called_target_is_the_target(write, name):
    """A column called "target" is the target, in any position."""
    bunch = read_file(write(f"a,{name},b\n1,0,2\n3,1,4\n"))
    assert bunch.target_name == name
    np.testing.assert_array_equal(bunch.data, [[1, 2], [3, 4]])


def test_columns_are_chosen(write):
    """Columns are chosen by name or number; others may hold anything."""
    path = write("id,a,b,kind,c\nn-1,1,2,u,?\nn-2,3,4,v,\n")
    bunch = read_file(path, target="kind", features=["b", 1])
    np.testing.assert_array_equal(bunch.data, [[2, 1], [4, 3]])
    assert bunch.feature_names == ["b", "a"]
    assert read_file(path, target=-2, features=["a"]).target.tolist() == ["u", "v"]
    for options, message in (
        ({"target": "q"}, "no column 'q'; it has 'id', 'a'"),
        ({"target": 9}, "0 to 4"),
        ({"target": "a", "features": ["a"]}, "'a' is the target"),
        ({"target": True}, "no column True"),
    ):
        with pytest.raises(ValueError, match=message):
            read_file(path, **options)
    with pytest.raises(ValueError, match="'class' and 'y' could all be"):
        read_file(write("a,class,y\n1,2,3\n1,3,4\n"))
    with pytest.raises(ValueError, match="has 2 features, not n_features=3"):
        read_file(write(CSV), n_features=3)


def test_words_become_columns_when_asked(write):
    """One for each word, in order; and without asking an error names the columns."""
    path = write("colour,size,shape,y\nred, 2,round,0\nblue,3,flat,1\nred,4,flat,1\n")
    with pytest.raises(ValueError, match=r"columns 'colour', 'shape' hold text; pass one_hot=True"):
        read_file(path)
    bunch = read_file(path, one_hot=True)
    assert bunch.feature_names == ["colour=blue", "colour=red", "size", "shape=flat", "shape=round"]
    np.testing.assert_array_equal(bunch.data, [[0, 1, 2, 0, 1], [1, 0, 3, 1, 0], [0, 1, 4, 1, 0]])
    many = read_file(write("w,y\n" + "".join(f"w{i},{i % 2}\n" for i in range(20))), one_hot=True)
    assert isinstance(many.data, sparse.csr_array)
    assert many.data.shape == (20, 20)


LONG = "a,b,y\n" + "1,2,0\n3,4,1\n" * 150  # longer than the sample that the layout is taken from


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y\n1,2,0\n3,,1\n", "line 3 has no value in column 'b'"),
        ("a,b,y\n1,2,0\n3,NA,1\n", "line 3 has no value in column 'b' .'NA'"),
        ("a,b,y\n1,2,0\n3,nan,1\n", "line 3 has no value in column 'b'"),
        ("a,b,y\n1,2,0\n3,4,\n", "line 3 has no value in column 'y'"),
        ("a,b,y\n1,2,u\n3,4,?\n", "line 3 has no value in column 'y'"),
        ("a,b,y\n1,2,0\n3,-inf,1\n", "line 3 has the infinite value '-inf' in column 'b'"),
        ("a,b,y\n1,2,0\n3,1e999,1\n", "line 3 has the infinite value"),
        ("a,b,y\n1,2,0\n3,4\n", "line 3 has 2 fields instead of 3"),
        ("a,b,y\n1,2,0\n3,4,1,5\n", "line 3 has 4 fields instead of 3"),
        ("a,b,y\n1,2,0\n3,x,1\n", "line 3 has the word 'x' in column 'b'"),
        ("a,b,y\n1,2,0\n3,1_0,1\n", "line 3 has the word '1_0' in column 'b'"),
        (LONG + "1,,0\n", "line 302 has no value in column 'b'"),
        (LONG + "1,0\n", "line 302 has 2 fields"),
        (LONG + "1,x,0\n", "line 302 has the word 'x' in column 'b'"),
        (LONG + "1,inf,0\n", "line 302 has the infinite"),
        (LONG + '1,"2\n,0\n', "line 30.*unexpected end|fields"),
        ("a,b,y\n", "header but no rows"),
        ("a,a,y\n1,2,0\n3,4,1\n", "more than one column called 'a'"),
        ("a,b,y\n1,2,0\n3,4,0\n", "one class only"),
        ('a,b,y\n"1,2,0\n3,4,1\n', "unexpected end"),
        ("a,b,y\n1,é,0\n".encode("latin-1"), "line 2 is not UTF-8"),
        ("a,b,y\n1,2,0\n3,4,1\n".encode("utf-16"), "not text|not UTF-8"),
        (LONG.encode() + b"1,\xff,1\n", "line 302 is not UTF-8"),
        (LONG.encode() + b"1,\x00,1\n", "line 302"),
        ("\n\n\n", "no rows"),
        ("y\n1\n2\n", "not a table"),
        ("a,b,y\r1,2,0\r3,4,1\r", "end in carriage returns alone"),
        (gzip.compress(LONG.encode())[:-20], "damaged or cut off"),
    ],
    ids=name_of,
)
def test_a_broken_table_is_refused_with_its_line(write, text, message):
    """A broken table is refused, with the line and the column's name."""
    path = write(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_file(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["a,b,y\n1,u,0\n2,3,1\n", LONG + "1,u,0\n"])
def test_numbers_and_words_are_not_mixed(write, text):
    """A slip of the pen must not turn a column of numbers into hundreds of columns."""
    with pytest.raises(ValueError, match=r"in column 'b', which has (numbers|words) in other rows"):
        read_file(write(text), one_hot=True)


def test_labels_may_mix_numbers_and_words(write):
    """Digits and letters as classes, the letters late in the file."""
    bunch = read_file(write(LONG + "1,2,A\n"))
    assert bunch.classes.tolist() == ["0", "1", "A"]
    assert bunch.data.shape == (301, 2)


def test_fields_over_several_lines(write):
    """Line numbers go on counting lines of the file."""
    text = 'a,"na\nme",y\n1,2,"u\nv"\n3,4,w\n'
    bunch = read_file(write(text))
    assert bunch.target.tolist() == ["u\nv", "w"]
    assert bunch.feature_names == ["a", "na\nme"]
    with pytest.raises(ValueError, match="line 6 has 1 fields"):
        read_file(write(text + "5\n"))


def test_a_large_table_is_read_fast(write):
    """2 MB of numbers with text labels are read at 2 MB/s or more (20 MB/s when idle)."""
    rows = np.random.default_rng(0).normal(size=(20_000, 12))
    lines = [
        ",".join(f"{value:.6f}" for value in row) + (",yes" if row[0] > 0 else ",no")
        for row in rows
    ]
    path = write("\n".join(lines))
    started = time.process_time()
    bunch = read_file(path)
    assert time.process_time() - started < 1.5
    np.testing.assert_allclose(bunch.data, rows, atol=1e-6)
    np.testing.assert_array_equal(bunch.target == "yes", rows[:, 0] > 0)


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.floats(-1, 1),
            st.sampled_from(["u", "v,w", 'x"y']),
        ),
        min_size=2,
    )
)
def test_what_csv_writes_is_read(tmp_path_factory, rows):
    """Every number to the last bit, every word with its quotes."""
    import csv

    rows = [*rows, (0.0, 0.0, "u"), (0.0, 0.0, "v,w")]
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "y"), *rows])
    bunch = read_file(path)
    np.testing.assert_array_equal(bunch.data, [row[:2] for row in rows])
    assert bunch.target.tolist() == [row[2] for row in rows]


@given(st.binary(max_size=200))
def test_junk_is_a_value_error_or_data(tmp_path_factory, junk):
    """Junk is read as data or refused by ValueError, never another error."""
    path = tmp_path_factory.mktemp("junk") / "data"
    path.write_bytes(junk)
    try:
        bunch = read_file(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert bunch.data.shape[0] == len(bunch.target)


@pytest.mark.parametrize("magic", [b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"])
def test_without_pyarrow_the_extra_is_named(write, magic, monkeypatch):
    """Without pyarrow the error names the extra and how to install it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"antithetic\[tables\]"):
        read_file(write(magic + b"...."))


@pytest.fixture
def arrow():
    """The library, where it is installed."""
    return pytest.importorskip("pyarrow")


@pytest.fixture(params=["parquet", "arrow", "stream"])
def write_arrow(request, arrow, tmp_path):
    """Write a dict of columns in one of three formats."""

    def writer(columns, batch=2):
        table = arrow.table(columns) if isinstance(columns, dict) else columns
        path = tmp_path / f"data.{request.param.replace('stream', 'arrow')}"
        if request.param == "parquet":
            from pyarrow import parquet

            parquet.write_table(table, path, row_group_size=batch)
        else:
            new = arrow.ipc.new_file if request.param == "arrow" else arrow.ipc.new_stream
            with arrow.OSFile(str(path), "wb") as file, new(file, table.schema) as sink:
                sink.write_table(table, max_chunksize=batch)
        return path

    return writer


def test_arrow_columns_of_all_kinds(arrow, write_arrow):
    """Numbers, truth values and decimals as they are; words, plain or as a dictionary, when asked.

    Over several batches.
    """
    from decimal import Decimal

    columns = {
        "n": arrow.array([1, 2, 3], arrow.int8()),
        "f": arrow.array([0.5, 1.5, 2.5], arrow.float32()),
        "t": [True, False, True],
        "d": [Decimal("1.25"), Decimal("2.50"), Decimal("0.75")],
        "w": ["u", "v", "u"],
        "c": arrow.array(["p", "p", "q"]).dictionary_encode(),
        "label": ["no", "yes", "no"],
        "when": arrow.array([0, 1, 2], arrow.timestamp("s")),
    }
    path = write_arrow(columns)
    with pytest.raises(ValueError, match=r"column 'when' has type timestamp"):
        read_file(path)
    with pytest.raises(ValueError, match=r"columns 'w', 'c' hold text"):
        read_file(path, features=["n", "w", "c"])
    bunch = read_file(path, features=["c", "n", "f", "t", "d", "w"], one_hot=True)
    assert bunch.feature_names == ["c=p", "c=q", "n", "f", "t", "d", "w=u", "w=v"]
    np.testing.assert_array_equal(
        bunch.data,
        [
            [1, 0, 1, 0.5, 1, 1.25, 1, 0],
            [1, 0, 2, 1.5, 0, 2.5, 0, 1],
            [0, 1, 3, 2.5, 1, 0.75, 1, 0],
        ],
    )
    assert bunch.target.tolist() == ["no", "yes", "no"]
    assert bunch.target_name == "label"


def test_arrow_faults_are_named(arrow, write_arrow):
    """Missing values with row and column; no rows; one class; names twice; too many bytes."""
    for columns, message in (
        ({"a": [1.0, 2.0, None], "y": [0, 1, 1]}, "no value in column 'a', first in row 2"),
        ({"a": [1.0, 2.0, float("nan")], "y": [0, 1, 1]}, "no value in column 'a', first in row 2"),
        ({"a": [1.0, 2.0, float("inf")], "y": [0, 1, 1]}, "NaN or infinity, first in row 2"),
        ({"a": [1.0, 2.0], "y": ["u", None]}, "no value in column 'y', first in row 1"),
        ({"a": arrow.array([], arrow.float64()), "y": arrow.array([], arrow.float64())}, "no rows"),
        ({"a": [1.0, 2.0], "y": [1, 1]}, "one class"),
        ({"y": [1, 2]}, "one column only"),
        ({"a": [[1.0], [2.0]], "y": [1, 2]}, "column 'a' has type list"),
        (
            arrow.table([[1.0, 2.0], [1.0, 2.0], [0, 1]], names=["a", "a", "y"]),
            "more than one column called 'a'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            read_file(write_arrow(columns))
    path = write_arrow({"a": np.arange(1000.0), "y": np.arange(1000) % 2}, batch=100)
    with pytest.raises(ValueError, match="more than 5,000 bytes; set a larger max_bytes"):
        read_file(path, max_bytes=5000)
    np.testing.assert_array_equal(read_file(path).data.ravel(), np.arange(1000.0))


def test_cut_off_arrow_files_are_refused(write_arrow):
    """At every length, with a ValueError that names the file (a stream may end at any batch)."""
    path = write_arrow({"a": [1.0, 2.0, 3.0], "y": ["u", "v", "w"]})
    content = path.read_bytes()
    for length in range(8, len(content) - 8, 37):
        path.write_bytes(content[:length])
        try:
            assert read_file(path).data.shape[0] < 4
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017


def test_the_index_of_pandas_is_not_a_feature(arrow, tmp_path):
    """The index that pandas stores as a column is not a feature."""
    frame = pytest.importorskip("pandas").DataFrame(
        {"a": [1.0, 2.0], "y": [0, 1]}, index=["r", "s"]
    )
    from pyarrow import parquet

    parquet.write_table(arrow.Table.from_pandas(frame), tmp_path / "data.parquet")
    assert read_file(tmp_path / "data.parquet").feature_names == ["a"]


def test_wide_tables_are_read_in_linear_time(tmp_path, monkeypatch):
    """The used columns are listed a fixed number of times, however many columns there are."""
    from antithetic.datasets import _table

    counted = []
    used = _table.ColumnChoice.used.fget
    counter = property(lambda choice: (counted.append(1), used(choice))[1])
    monkeypatch.setattr(_table.ColumnChoice, "used", counter)
    width = 3000
    path = tmp_path / "wide.csv"
    names = [f"f{number}" for number in range(width)]
    rows = "".join(",".join([str(row)] * width) + f",{row}\n" for row in range(3))
    path.write_text(",".join([*names, "y"]) + "\n" + rows)
    found = read_file(path, features=names[::-1])
    assert found.data.shape == (3, width)
    assert found.feature_names == names[::-1]
    assert found.data[2].tolist() == [2.0] * width
    assert len(counted) <= 4


def test_a_million_columns_are_read(tmp_path):
    """A table of a million columns is read, and half of them are chosen by name."""
    width = 1_000_000
    path = tmp_path / "million.csv"
    zeros = ",".join(["0.5"] * (width - 1))
    names = ",".join([f"f{number}" for number in range(width - 1)])
    path.write_text(f"{names},y\n" + "".join(f"{zeros},{label}\n" for label in (0, 1, 0)))
    chosen = [f"f{number}" for number in range(0, width - 1, 2)]
    found = read_file(path, features=chosen)
    assert found.data.shape == (3, 500_000)
    assert found.target.tolist() == [0.0, 1.0, 0.0]


def test_the_first_lines_of_a_wide_table_are_enough_to_know_it(tmp_path):
    """Words in every row are found, though only a few lines of a wide table are sampled."""
    width = 60_000
    path = tmp_path / "wide.csv"
    row = ",".join(["0.123456"] * width)
    path.write_text("".join(f"{row},word{number % 2}\n" for number in range(30)))
    found = read_file(path)
    assert found.data.shape == (30, width)
    assert found.classes.tolist() == ["word0", "word1"]
