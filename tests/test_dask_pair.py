"""Tables of blocks: each equals that of one machine, and the quality is that of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask
import dask.array as da
from dask_cases import in_blocks, labelled

import antithetic
from antithetic.dask import BlockTable, pair

X, Y = labelled(240)


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.mark.parametrize("method", ["auto", "greedy", "optimal", "tree", "random"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_one_block_gives_the_table_of_one_machine(method, form):
    """One block gives the partners of one machine, from the same seed."""
    rows = (
        da.from_array(X, chunks=-1).map_blocks(form)
        if form is not np.asarray
        else da.from_array(X, chunks=-1)
    )
    table = pair(rows, da.from_array(Y, chunks=-1), method, random_state=3)
    assert (
        table.compute().partner.tolist()
        == antithetic.pair(form(X), Y, method, random_state=3).partner.tolist()
    )


def test_nothing_but_the_labels_is_read_before_it_is_asked_for():
    """A block that cannot be read is an error of the block, later."""

    def fail(_block):
        raise OSError("gone")

    broken = da.from_array(X, chunks=(60, -1)).map_blocks(fail, dtype=float, meta=np.empty((0, 0)))
    table = pair(broken, da.from_array(Y, chunks=60))
    assert len(table) == 240
    with pytest.raises(OSError, match="gone"):
        table.partner.compute()


@pytest.mark.parametrize(
    "lengths", [[60] * 4, [100, 0, 33, 7, 100], [240]], ids=["equal", "unequal", "one"]
)
def test_partners_are_a_permutation_of_all_rows(lengths):
    """Partners are rows of the same block."""
    table = pair(*in_blocks(X, Y, lengths))
    partner = table.partner.compute()
    assert sorted(partner.tolist()) == list(range(240))
    block = np.repeat(np.arange(len(lengths)), lengths)
    np.testing.assert_array_equal(block[partner], block)
    np.testing.assert_array_equal(table.compute().partner, partner)
    assert sum(table.lengths) == len(table) == 240


@pytest.mark.parametrize(
    "labels",
    [Y, labelled(240, classes=3)[1], X @ np.arange(5.0)],
    ids=["two", "three", "regression"],
)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])
def test_quality_is_that_of_one_table_of_all_rows(labels, fit_intercept):
    """Sums over blocks give the exact variance ratio, mean product and shares."""
    loss = "squared_error" if labels.dtype.kind == "f" else "log_loss"
    about = {"loss": loss, "fit_intercept": fit_intercept}
    table = pair(*in_blocks(X, labels, [100, 0, 37, 103]), "tree", **about)
    whole, found = table.compute(), table.quality()
    expected = whole.quality(X, labels, **about)
    assert found.variance_ratio == pytest.approx(expected.variance_ratio, rel=1e-10)
    assert table.variance_ratio() == pytest.approx(expected.variance_ratio, rel=1e-10)
    assert found.mean_product == pytest.approx(expected.mean_product, rel=1e-10)
    assert found.negative_share == pytest.approx(expected.negative_share, rel=1e-12)
    assert found.opposite_share == (
        None if expected.opposite_share is None else pytest.approx(expected.opposite_share)
    )
    # tables within blocks are fewer than all tables, and the best of them is found here
    assert expected.best_ratio * (1.0 - 1e-9) <= found.best_ratio <= found.variance_ratio
    if loss != "log_loss" or len(np.unique(labels)) == 2:
        coef = np.linspace(-0.5, 0.5, 5)
        assert table.variance_ratio(coef=coef) == pytest.approx(
            whole.variance_ratio(X, labels, coef=coef, **about), rel=1e-10
        )


def test_quality_of_one_block_is_that_of_one_machine():
    """The quality of one block is that of one machine, in every entry."""
    found = pair(*in_blocks(X, Y, [240]), "greedy").quality()
    expected = antithetic.pair(X, Y, "greedy").quality(X, Y)
    for name in (
        "variance_ratio",
        "mean_product",
        "negative_share",
        "opposite_share",
        "best_ratio",
    ):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-10), name
    assert found.best_by == expected.best_by


def test_weights_scale_the_gradients():
    """Weights scale the gradients as on one machine."""
    weight = np.linspace(0.0, 2.0, 240)
    table = pair(*in_blocks(X, Y, [240]), sample_weight=weight)
    assert (
        table.compute().partner.tolist()
        == antithetic.pair(X, Y, sample_weight=weight).partner.tolist()
    )


def test_tables_can_be_kept():
    """``persist`` computes tables only once."""
    made = []

    def neighbours(rows):
        made.append(len(rows))
        return np.arange(len(rows)) ^ 1

    kept = pair(*in_blocks(X, Y, [60] * 4), neighbours).persist()
    assert isinstance(kept, BlockTable)
    for _ in range(2):
        np.testing.assert_array_equal(kept.partner.compute(), np.arange(240) ^ 1)
    assert made == [60] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "best"}, "method 'best' is not known"),
        ({"random_state": -1}, "random_state"),
        ({"y": np.zeros(240)}, "one class only"),
        ({"y": labelled(240, classes=3)[1], "coef": np.zeros(5)}, "3 classes"),
    ],
    ids=["method", "seed", "one class", "coef"],
)
def test_bad_arguments_are_refused(change, message):
    """Bad arguments are refused before any block is read."""
    arguments = {"X": da.from_array(X, chunks=(60, -1)), "y": Y} | change
    with pytest.raises(ValueError, match=message):
        pair(**arguments)
