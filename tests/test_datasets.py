"""Data sets: the embedded ones from the package, the others from a folder."""

from __future__ import annotations

import bz2

import numpy as np
import pytest
from data import needs_data
from scipy import sparse

from antithetic import datasets

EMBEDDED = ["sonar_scale", "breast-cancer", "breast-cancer_scale", "splice", "splice_scale", "splice.t", "diabetes", "diabetes_scale"]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_need_no_folder(name, monkeypatch):
    """They come with the package."""
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    bunch = datasets.load(name)
    assert bunch.data.shape[0] == bunch.target.shape[0]
    assert len(np.unique(bunch.target)) == 2
    assert name in bunch.DESCR


@pytest.mark.parametrize("name", [name for name in datasets.names() if name not in EMBEDDED])
@needs_data
def test_the_others_are_found_through_the_environment(name):
    """In the folder itself, in bench, in mnist."""
    X, y = datasets.load(name, return_X_y=True)
    assert X.shape[0] == len(y)
    assert sparse.issparse(X) == (name in {"a9a", "w8a", "mushrooms", "farm-ads"})


@pytest.mark.parametrize("name", EMBEDDED)
@needs_data
def test_embedded_sets_equal_those_of_the_collection(name, monkeypatch):
    """To the rounding of the printed digits, with the same labels in the same order."""
    monkeypatch.setitem(datasets._load._SETS, name, datasets._load._Set(*datasets.load(name).data.shape, "the collection"))
    theirs = datasets.load(name)
    monkeypatch.undo()
    ours = datasets.load(name)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=1e-6, atol=2e-6)
    np.testing.assert_array_equal(ours.target, theirs.target)


def test_an_unknown_name_lists_the_known_ones():
    """So that a typing error is seen at once."""
    with pytest.raises(ValueError, match=r"sonar_scale.*ijcnn1\.tr"):
        datasets.load("sonar")


def test_a_missing_file_says_where_it_was_looked_for(tmp_path, monkeypatch):
    """And which variable to set."""
    monkeypatch.delenv("ANTITHETIC_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="ANTITHETIC_DATA"):
        datasets.load("a9a")
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        datasets.load("a9a", data_home=tmp_path)


@pytest.mark.parametrize(
    "content", [b"no archive", bz2.compress(b"1 1:0.5 2:x\n"), bz2.compress(b"1 1:0.5\n-1 2:0.25\n"), bz2.compress(b"1 9:1\n")]
)
def test_a_damaged_or_other_file_is_refused(content, tmp_path):
    """Not an archive, not SVMlight, another number of rows, more features than the set has."""
    (tmp_path / "fourclass.bz2").write_bytes(content)
    with pytest.raises(ValueError, match="fourclass"):
        datasets.load("fourclass", data_home=tmp_path)
