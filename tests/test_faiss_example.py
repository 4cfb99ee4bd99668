"""The example that plugs a nearest-neighbour index into `pair`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import antithetic

EXAMPLE = Path(__file__).parents[1] / "examples" / "faiss_pairing.py"


@pytest.fixture(scope="module")
def example():
    """Load the example as a module.

    Without faiss it fails, and its message names the extra to install.
    """
    spec = importlib.util.spec_from_file_location("faiss_pairing", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        pytest.fail(str(error))
    return module


@pytest.mark.parametrize("n", [1, 2, 7, 300])
@pytest.mark.parametrize("k", [1, 64])
def test_every_row_has_a_partner_of_its_own(example, n, k):
    rows = np.random.default_rng(n).normal(size=(n, 3))
    assert sorted(example.faiss_pairs(rows, k=k)) == list(range(n))


def test_rows_that_all_want_the_same_partner_share_the_rest(example):
    rows = np.array([[1.0, 0.0]] * 9 + [[-9.0, 0.0]])
    assert sorted(example.faiss_pairs(rows, k=2)) == list(range(10))


def test_an_approximate_index_will_do(example):
    rows = np.random.default_rng(0).normal(size=(2000, 5))
    assert sorted(example.faiss_pairs(rows, k=4, index="IVF16,Flat")) == list(range(2000))


def test_its_pairs_are_about_as_good_as_those_of_algorithm_1(example):
    X, y = antithetic.datasets.load("splice_scale", return_X_y=True)
    table = antithetic.pair(X, y, method=example.faiss_pairs)
    found, greedy = table.variance_ratio(X, y), antithetic.pair(X, y, "greedy").variance_ratio(X, y)
    assert table.method == "faiss_pairs"
    assert found < 1.0
    assert found == pytest.approx(greedy, abs=0.03)


def test_sparse_rows_are_refused(example):
    with pytest.raises(TypeError, match="TruncatedSVD"):
        example.faiss_pairs(sparse.eye_array(4, format="csr"))


def test_the_example_runs(example, capsys):
    example.main()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "faiss_pairs",
        "greedy",
        "tree",
        "random",
    ]
