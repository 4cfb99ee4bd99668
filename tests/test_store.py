"""A table as a file: written in full or not at all, read without trust."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fingerprints import same
from scipy import sparse

from antithetic import AntitheticTable, MatchingLoss, pair, pair_rows
from antithetic.pairing import store

FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
X = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
Y = np.array([0, 1, 1, 0, 1])
CYCLE = [1, 2, 3, 4, 0]


def equal(table, other):
    parts = ("method", "derived", "matching_loss")
    return (
        table.partner.tolist() == other.partner.tolist()
        and same(table.fingerprint, other.fingerprint)
        and all(getattr(table, part) == getattr(other, part) for part in parts)
    )


@pytest.mark.kernel
@pytest.mark.parametrize(
    "make",
    [
        lambda: pair(X, Y),
        lambda: pair(X, np.array(["no", "yes"])[Y]),
        lambda: pair(X, Y)[[0, 1, 4]],
        lambda: pair_rows(X, "optimal"),
        lambda: AntitheticTable(CYCLE, pair(X, Y).fingerprint).to_matching(X, Y),
        lambda: AntitheticTable([0], matching_loss=MatchingLoss(1.0, float("inf"))),
    ],
    ids=["pair", "text labels", "derived", "pair_rows", "matching", "infinite loss"],
)
def test_a_saved_table_comes_back(make, tmp_path):
    """A saved table is read back whole, from exactly the file name given.

    Partners, fingerprint, method, ``derived`` and the loss of the matching are kept.
    """
    table, path = make(), tmp_path / "table"
    table.save(path)
    assert equal(AntitheticTable.load(path), table)
    assert equal(AntitheticTable.load(str(path)), table)
    assert os.listdir(tmp_path) == ["table"]


@pytest.mark.kernel
def test_a_loaded_table_still_checks_its_data(tmp_path):
    """The fingerprint survives the file."""
    pair(X, Y).save(tmp_path / "table.npz")
    table = AntitheticTable.load(tmp_path / "table.npz")
    table.check(sparse.csr_array(X), Y)
    with pytest.raises(ValueError, match="other values of X"):
        table.check(X + 1.0, Y)


def test_a_saved_table_can_be_read_by_numpy_without_pickle(tmp_path):
    """The file is an ordinary ``.npz``."""
    AntitheticTable(CYCLE).save(tmp_path / "table.npz")
    with np.load(tmp_path / "table.npz", allow_pickle=False) as arrays:
        assert arrays["partner"].tolist() == CYCLE


@pytest.mark.skipif(os.name != "posix", reason="only POSIX files have these permissions")
def test_a_saved_table_has_the_permissions_of_any_new_file(tmp_path):
    """Whoever may read files that this process makes may read the table."""
    AntitheticTable(CYCLE).save(tmp_path / "table.npz")
    (tmp_path / "plain").touch()
    table, plain = (
        stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("table.npz", "plain")
    )
    assert oct(table) == oct(plain)


def test_saving_again_replaces_the_file(tmp_path):
    """The new table replaces the old one, and no other file is left."""
    for partner in (CYCLE, [1, 0]):
        AntitheticTable(partner).save(tmp_path / "table.npz")
    assert AntitheticTable.load(tmp_path / "table.npz").partner.tolist() == [1, 0]
    assert os.listdir(tmp_path) == ["table.npz"]


@pytest.mark.parametrize("failing", ["numpy.savez", "os.replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_disk_leaves_the_old_table(failing, error, tmp_path, monkeypatch):
    """The old file is whole, no temporary file is left, and the error is seen."""
    path = tmp_path / "table.npz"
    AntitheticTable(CYCLE).save(path)

    def fail(*_arguments, **_options):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(failing, fail)
        with pytest.raises(type(error)):
            AntitheticTable([1, 0]).save(path)
    assert os.listdir(tmp_path) == ["table.npz"]
    assert AntitheticTable.load(path).partner.tolist() == CYCLE


def test_a_missing_file_is_a_missing_file(tmp_path):
    """A file or folder that does not exist is reported as missing, not as damaged."""
    with pytest.raises(FileNotFoundError):
        AntitheticTable.load(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError):
        AntitheticTable(CYCLE).save(tmp_path / "no folder" / "table.npz")


# ---- hostile files

META = {
    "format": "antithetic table 2",
    "method": "greedy",
    "derived": False,
    "width": None,
    "values": None,
    "matching_loss": None,
    "note": "",
}


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def npy_with_header(header, data=b""):
    header = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def described(meta):
    """Bytes of a description: JSON of an object, or bytes as they are."""
    return npy(
        np.frombuffer(
            meta if isinstance(meta, bytes) else json.dumps(meta).encode(), dtype=np.uint8
        )
    )


def content_of(members):
    """Hash of the arrays of a file, as the store makes it."""
    arrays = {}
    for name in ("partner", "labels"):
        with contextlib.suppress(Exception):  # what cannot be read is refused for that
            arrays[name] = np.load(io.BytesIO(members[name]), allow_pickle=False)
    return store._hash(arrays)


def archive(compression=zipfile.ZIP_STORED, meta=META, **members):
    """A file of a table of five rows, with some members replaced, added, or left out (None).

    A description that is a dict says what the file holds; bytes are taken as they are.
    """
    members = {"partner": npy(np.array(CYCLE)), **members}
    if isinstance(meta, dict):
        meta = described({"content": content_of(members), **meta})
    members = {"meta": meta, **members}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, content in members.items():
            if content is not None:
                out.writestr(f"{name}.npy", content)
    return file.getvalue()


def every(content, mark, offset, change):
    """Change a byte at a distance from each place where a mark stands."""
    content, place = bytearray(content), content.find(mark)
    while place >= 0:
        content[place + offset] = change(content[place + offset])
        place = content.find(mark, place + 1)
    return bytes(content)


FIVE = np.array(CYCLE)
ENTRY = b"PK\x01\x02"  # begins each entry of the directory of a zip file
END = b"PK\x05\x06"  # begins what follows the directory
HOSTILE = {
    "empty": b"",
    "text": b"0 1\n1 0\n",
    "one array": npy(FIVE),
    "truncated": archive()[:-30],
    "truncated early": archive()[:100],
    "beginning cut off": archive()[40:],
    "compressed": archive(zipfile.ZIP_DEFLATED),
    "encrypted": every(archive(), ENTRY, 8, lambda flags: flags | 1),
    "unknown compression": every(archive(), ENTRY, 10, lambda _method: 99),
    "a byte changed": archive().replace(FIVE.tobytes(), FIVE[::-1].tobytes()),
    "directory out of place": every(archive(), END, 16, lambda offset: (offset + 9) % 256),
    "directory far out of place": every(archive(), END, 18, lambda _offset: 255),
    "partner missing": archive(partner=None),
    "meta missing": archive(meta=None),
    "not a permutation": archive(partner=npy(np.array([0, 0, 1]))),
    "out of range": archive(partner=npy(np.array([0, 1, 7]))),
    "empty partner": archive(partner=npy(np.array([], dtype=np.int64))),
    "int32": archive(partner=npy(FIVE.astype(np.int32))),
    "float64": archive(partner=npy(FIVE.astype(float))),
    "big-endian": archive(partner=npy(FIVE.astype(">i8"))),
    "two dimensions": archive(partner=npy(FIVE[None])),
    "labels of another length": archive(labels=npy(np.zeros(4, dtype=np.uint64))),
    "labels of another type": archive(labels=npy(np.zeros(5))),
    "not an array": archive(partner=b"partners"),
    "newer array format": archive(partner=npy(FIVE).replace(b"NUMPY\x01", b"NUMPY\x03")),
    "huge shape": archive(
        partner=npy_with_header(
            "{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000,)}", FIVE.tobytes()
        )
    ),
    "shape that overflows": archive(
        partner=npy_with_header(
            "{'descr': '<i8', 'fortran_order': False, 'shape': (2305843009213693952,)}"
        )
    ),
    "negative shape": archive(
        partner=npy_with_header(
            "{'descr': '<i8', 'fortran_order': False, 'shape': (-5,)}", FIVE.tobytes()
        )
    ),
    "header with a list as key": archive(partner=npy_with_header("{[]: 1}")),
    "header with mixed keys": archive(partner=npy_with_header("{1: 2, 'descr': 3}")),
    "header that does not end": archive(partner=npy_with_header("((((")),
    "header of minus signs": archive(partner=npy_with_header("-" * 9000 + "1")),
    "header of Python 2": archive(
        partner=npy_with_header(
            "{'descr': '<i8', 'fortran_order': False, 'shape': (5L,)}", b"\0" * 40
        )
    ),
    "header longer than the file": archive(partner=b"\x93NUMPY\x01\x00\xff\xff{}"),
    "not JSON": archive(meta=described(b"greedy")),
    "not UTF-8": archive(meta=described(b'{"format": "\xff"}')),
    "JSON nested without end": archive(meta=described(b"[" * 60000)),
    "JSON list": archive(meta=described([META])),
    "JSON number": archive(meta=described(3)),
    "JSON null": archive(meta=described(None)),
    "description too long": archive(meta={**META, "method": "x" * 70000}),
    "no content": archive(meta=described(META)),
    "another permutation": archive(
        meta={**META, "content": store._hash({"partner": FIVE})},
        partner=npy(FIVE[::-1].copy()),
    ),
    "another format": archive(meta={**META, "format": "antithetic table 3"}),
    "no format": archive(meta={key: value for key, value in META.items() if key != "format"}),
    "no method": archive(meta={key: value for key, value in META.items() if key != "method"}),
    "loss of one number": archive(meta={**META, "matching_loss": [1.0]}),
    "loss of a number": archive(meta={**META, "matching_loss": 1.0}),
    "loss of text": archive(meta={**META, "matching_loss": ["a", "b"]}),
    "loss beyond float64": archive(meta={**META, "matching_loss": [10**400, 1]}),
    "infinite width": archive(meta={**META, "width": float("inf")}),
    "width of NaN": archive(meta={**META, "width": float("nan")}),
    "width of a list": archive(meta={**META, "width": [2]}),
    "values of text": archive(meta={**META, "values": "many"}),
}


def test_an_older_file_is_refused_with_how_to_make_it_again(tmp_path):
    """A table of an earlier version says that antithetic.pair makes it again."""
    (tmp_path / "table.npz").write_bytes(archive(meta={**META, "format": "antithetic table 1"}))
    with pytest.raises(ValueError, match=r"make the table again with antithetic\.pair"):
        AntitheticTable.load(tmp_path / "table.npz")


def test_the_archive_that_hostile_files_are_made_of_is_a_table(tmp_path):
    """Each hostile file differs from this one in one thing."""
    (tmp_path / "table.npz").write_bytes(archive(labels=npy(np.zeros(5, dtype=np.uint64))))
    assert AntitheticTable.load(tmp_path / "table.npz").partner.tolist() == CYCLE


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_an_error_that_names_it(content, tmp_path):
    """Any file is read as a table or refused by a ValueError with its name, without a warning."""
    path = tmp_path / "hostile.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"hostile\.npz is not a table file"):
        AntitheticTable.load(path)


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("member", ["meta", "partner", "labels"])
def test_nothing_is_ever_unpickled(member, tmp_path):
    """An array of pickled objects, in whichever place, is refused and not run."""
    sprung = tmp_path / "sprung"
    file = io.BytesIO()
    np.save(file, np.array([Trap(sprung)] * 5, dtype=object), allow_pickle=True)
    path = tmp_path / "hostile.npz"
    path.write_bytes(archive(**{member: file.getvalue()}))
    with pytest.raises(ValueError, match=r"hostile\.npz is not a table file"):
        AntitheticTable.load(path)
    assert not sprung.exists()
    np.load(io.BytesIO(file.getvalue()), allow_pickle=True)  # the trap works
    assert sprung.exists()


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_is_an_error_or_does_no_harm(flip, tmp_path):
    """With bits flipped in any byte, the partners are the same or a ValueError names the file."""
    path, whole = tmp_path / "hostile.npz", archive()
    harm = {}
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
        try:
            if AntitheticTable.load(path).partner.tolist() != CYCLE:
                harm[place] = "other partners"
        except Exception as error:
            if not isinstance(error, ValueError) or "hostile.npz is not a table file" not in str(
                error
            ):
                harm[place] = repr(error)
    assert harm == {}
