"""Batches of groups for a DataLoader: sources, reproducibility, weights, and refusals."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from data import needs_data
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from test_torch_order import every_order

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Subset, TensorDataset  # noqa: E402

from antithetic import AntitheticTable, GroupTable, datasets, pair, pair_rows  # noqa: E402
from antithetic.pairing.rows import Rows  # noqa: E402
from antithetic.torch import AntitheticBatchSampler  # noqa: E402
from antithetic.torch.sampler import _row_weights  # noqa: E402
from antithetic.torch.source import chances_of  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 6)).astype(np.float32)
Y = RNG.integers(0, 4, size=50)
TABLE = GroupTable(np.arange(50)[::-1].copy(), 4)


def sampler(features=X, labels=Y, batch_size=8, **given):
    return AntitheticBatchSampler(features, labels, batch_size, **given)


def flat(batches):
    return [row for batch in batches for row in batch]


def test_the_package_works_without_torch():
    """It is imported by those who ask for antithetic.torch, and no one else."""
    code = (
        "import sys, antithetic; antithetic.pair([[1.0], [2.0]], [0, 1]); sys.exit('torch' in"
        " sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@given(st.integers(1, 12), st.booleans(), st.sampled_from([1, 2, 4, 8]), st.integers(0, 3))
def test_each_row_once_per_epoch(batch_size, drop_last, size, epoch):
    """Each row occurs once, and only the last batch is short, unless drop_last drops it.

    The length is right before, during and after.
    """
    found = sampler(
        None,
        None,
        batch_size,
        drop_last=drop_last,
        table=GroupTable(np.arange(50)[::-1].copy(), size),
    )
    found.set_epoch(epoch)
    batches, lengths = [], {len(found)}
    for batch in found:
        batches.append(batch)
        lengths.add(len(found))
    assert lengths == {len(batches)}
    assert {type(row) for batch in batches for row in batch} <= {int}
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    rows = flat(batches)
    assert len(set(rows)) == len(rows)
    assert len(rows) == (50 // batch_size * batch_size if drop_last else 50)


@pytest.mark.parametrize(
    ("batch_size", "nest", "size"),
    [
        (64, True, 32),
        (24, True, 8),
        (8, True, 8),
        (6, True, 2),
        (7, True, 2),
        (8, False, 2),
        (20, 16, 16),
    ],
)
def test_the_largest_groups_that_fit_into_a_batch(batch_size, nest, size):
    """A power of two that divides the batch and is no more than the rows."""
    assert sampler(batch_size=batch_size, nest=nest, method="random").table.size == size


def test_groups_are_those_of_pair():
    """Made from the same gradients: of classes, of numbers, or of vectors given as they are."""
    options = {"nest": 8, "random_state": 3}
    by_class = pair(X, Y, fit_intercept=True, **options)
    np.testing.assert_array_equal(sampler(seed=3).table.order, by_class.order)
    numbers = RNG.normal(size=50)
    by_number = pair(X, numbers, loss="squared_error", **options)
    np.testing.assert_array_equal(
        sampler(labels=numbers, seed=3, fit_intercept=False).table.order, by_number.order
    )
    np.testing.assert_array_equal(
        sampler(labels=None, seed=3).table.order, pair_rows(X, **options).order
    )


@pytest.mark.parametrize(
    "form",
    ["tensor", "list", "float64", "sparse", "images", "needs grad", "memory map", "bfloat16"],
)
def test_features_of_any_form(form, tmp_path):
    """Features and labels give the same groups as a tensor, an array or a list."""
    exact = np.round(X * 8.0) / 8.0  # few digits, which bfloat16 has as well
    expected = sampler(exact).table.order
    np.save(tmp_path / "X.npy", exact)
    features = {
        "tensor": lambda: torch.from_numpy(exact),
        "list": lambda: exact.tolist(),
        "float64": lambda: exact.astype(np.float64),
        "sparse": lambda: sparse.csr_array(exact),
        "images": lambda: torch.from_numpy(exact).reshape(50, 1, 2, 3),
        "needs grad": lambda: torch.from_numpy(exact).requires_grad_(),
        "memory map": lambda: np.load(tmp_path / "X.npy", mmap_mode="r"),
        "bfloat16": lambda: torch.from_numpy(exact).bfloat16(),
    }[form]()
    for labels in (Y, torch.from_numpy(Y), Y.tolist(), Y[:, None]):
        np.testing.assert_array_equal(sampler(features, labels).table.order, expected)


def test_bytes_are_pixels():
    """They lie in [0, 1], beside the constant feature of the intercept."""
    pixels = RNG.integers(0, 256, size=(50, 2, 3), dtype=np.uint8)
    want = sampler(pixels.reshape(50, 6) * np.float32(1.0 / 255.0)).table.order
    np.testing.assert_array_equal(sampler(pixels).table.order, want)
    np.testing.assert_array_equal(sampler(torch.from_numpy(pixels)).table.order, want)


def test_the_type_of_labels_says_what_they_are():
    """Unless the task is given: numbers with a point are a regression's."""
    classes = sampler(labels=Y).table.order
    np.testing.assert_array_equal(
        sampler(labels=Y.astype(float), task="classification").table.order, classes
    )
    np.testing.assert_array_equal(sampler(labels=np.array(list("abcd"))[Y]).table.order, classes)
    assert not np.array_equal(sampler(labels=Y.astype(float)).table.order, classes)
    np.testing.assert_array_equal(
        sampler(labels=Y, task="regression").table.order,
        sampler(labels=Y.astype(np.float32)).table.order,
    )


def test_each_iteration_is_the_next_epoch():
    """Each iteration is the next epoch, as with shuffle=True.

    Set_epoch chooses one, and the same number gives the same batches in any sampler of this seed.
    """
    found = sampler()
    assert found.epoch == 0
    first, second = list(found), list(found)
    assert first != second
    assert found.epoch == 2
    other = sampler()
    other.set_epoch(1)
    assert list(other) == second
    other.set_epoch(0)
    assert list(other) == first
    assert list(other) == second
    assert list(sampler(seed=1)) != first


def test_an_iteration_that_is_broken_off_counts():
    """The next one is another epoch, and iterators that were made and not used do not count."""
    found, other = sampler(), sampler()
    iter(found)
    assert list(islice(found, 2)) == list(islice(other, 2))
    other.set_epoch(1)
    assert list(found) == list(other)


def test_no_global_generator_is_used():
    """No global generator is used, and only the seed of a given one is taken."""
    generator = torch.Generator().manual_seed(7)
    before = (
        torch.get_rng_state(),
        np.random.get_state()[1].copy(),  # noqa: NPY002 - the one that must not be used
        generator.get_state(),
    )
    assert list(sampler(generator=generator)) == list(sampler(seed=7))
    after = torch.get_rng_state(), np.random.get_state()[1], generator.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_data_loader_gives_these_batches():
    """A DataLoader gives these batches, also with workers."""
    data, expected = TensorDataset(torch.arange(50)), [sorted(batch) for batch in sampler()]
    for workers in (0, 2):
        loader = DataLoader(data, batch_sampler=sampler(), num_workers=workers)
        assert [sorted(rows.tolist()) for (rows,) in loader] == expected
        assert len(loader) == 7


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda found: pickle.loads(pickle.dumps(found))],
    ids=["deepcopy", "pickle"],
)
def test_copies_go_on_by_themselves(copied):
    """A copy keeps what was observed, but is not observed: the hook belongs to the original."""
    found, head = sampler(), torch.nn.Linear(6, 4)
    with found.observing(head):
        for batch in found:
            head(torch.from_numpy(X[batch]))
        other = copied(found)
        assert list(other) == list(found)
        assert not np.array_equal(other.table.order, sampler().table.order)
        # A third epoch, with no observer that would miss a batch.
        assert len(list(other)) == len(other)


def test_tables_made_before():
    """Tables of pairs and of groups are accepted without features.

    And a permutation that must be cut into pairs first.
    """
    assert sampler(table=TABLE).table is TABLE
    assert len(flat(sampler(None, None, table=TABLE))) == 50
    mates = pair(X, Y, "tree", fit_intercept=True)
    assert sampler(table=mates).table.size == 2
    rotation = AntitheticTable(np.roll(np.arange(50), 1))
    assert sampler(table=rotation).table.size == 2
    with pytest.raises(ValueError, match="to_matching"):
        sampler(None, None, table=rotation)
    with pytest.raises(ValueError, match="other labels"):
        sampler(labels=(Y + 1) % 4, table=mates)
    with pytest.raises(ValueError, match="50 rows and features has 49"):
        sampler(X[:49], None, table=TABLE)


@pytest.mark.parametrize(("n", "size"), [(8, 2), (9, 2), (12, 4), (14, 4)])
def test_importance_counts_every_row_once_on_average(monkeypatch, n, size):
    """The expected sum of a row's weights over an epoch is 1, by enumeration of all draws.

    Rows that came have these weights.
    """
    table = GroupTable(np.random.default_rng(1).permutation(n), size)
    vectors = np.random.default_rng(2).normal(size=(n, 2))
    chances = chances_of(Rows(vectors), table, True)
    assert chances.sum() == pytest.approx(1.0, rel=1e-12)
    assert chances.min() >= 0.3 / len(chances)
    # The points where the draw changes.
    cells = np.unique(np.concatenate([[0.0, 1.0], len(chances) * np.cumsum(chances) % 1.0]))
    counted = np.zeros(n)
    for probability, order in every_order(monkeypatch, table, False, chances, cells):
        rows = order.rows_at(np.arange(n))
        np.add.at(counted, rows, probability * _row_weights(order, chances)[rows])
    np.testing.assert_allclose(counted, 1.0, rtol=1e-6)  # weights are float32


def test_weights():
    """One, unless groups are drawn by importance.

    Then those of the epoch, the same from its beginning to its end.
    """
    plain = sampler()
    np.testing.assert_array_equal(plain.weights([3, 4, 3]), torch.ones(3))
    assert plain.weights([0]).dtype == torch.float32
    for importance in (True, "gradients", np.linspace(0.0, 1.0, 50)):
        drawn = sampler(importance=importance, batch_size=4)
        chances = drawn._chances
        rows = flat(drawn)
        assert len(rows) == 50
        assert len(set(rows)) < 50
        weights = drawn.weights(torch.arange(50))
        np.testing.assert_allclose(
            weights[torch.from_numpy(drawn.table.groups[3].copy())].numpy().max(),
            1.0 / (len(chances) * chances[3]),
            1e-6,
        )
    assert len(set(sampler(importance=np.ones(50)).weights(np.arange(50)).tolist())) == 1


def test_a_constant_importance_is_none():
    """Constant importance draws every group once."""
    assert sorted(flat(sampler(importance=np.ones(50)))) == list(range(50))


def test_few_rows():
    """One row, two rows, and fewer rows than a batch work."""
    assert list(sampler([[1.0]], [1.0], 4)) == [[0]]
    assert [sorted(batch) for batch in sampler([[1.0], [2.0]], [0, 1], 4)] == [[0, 1]]
    assert list(sampler([[1.0], [2.0]], [0, 1], 4, drop_last=True)) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number, at least 1"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"labels": Y[:-1]}, r"labels must have shape \(50,\)"),
        ({"labels": np.zeros((50, 2))}, "several targets"),
        ({"labels": np.zeros(50, int)}, "one class only"),
        ({"labels": np.full(50, np.nan)}, "labels has NaN"),
        ({"features": np.full((50, 2), np.inf)}, "features has NaN or infinity, first in row 0"),
        ({"features": np.empty((0, 2))}, "at least one row"),
        ({"features": torch.eye(50).to_sparse()}, "layout"),
        ({"features": None}, "give features, or a table="),
        (
            {"features": TensorDataset(torch.from_numpy(X))},
            "got a TensorDataset. Give what it reads",
        ),
        ({"features": Subset(TensorDataset(torch.from_numpy(X)), range(50))}, "subset.indices"),
        ({"features": DataLoader(TensorDataset(torch.from_numpy(X)))}, "got a DataLoader"),
        (
            {"labels": TensorDataset(torch.from_numpy(Y))},
            "labels must be an array or a tensor with one for each row; got a TensorDataset",
        ),
        ({"task": "ranking"}, "task 'ranking' is not known"),
        ({"method": "best"}, "method 'best' is not known"),
        ({"nest": 6}, "power of two"),
        ({"nest": 1}, "nest"),
        ({"seed": -1}, "seed"),
        ({"seed": 1, "generator": torch.Generator()}, "not both"),
        ({"generator": np.random.default_rng(0)}, "torch.Generator"),
        ({"num_replicas": 2}, "needs rank="),
        ({"num_replicas": 2, "rank": 2}, "rank must be below num_replicas"),
        ({"num_replicas": 0, "rank": 0}, "num_replicas"),
        ({"rank": 1}, "rank must be below"),
        ({"table": np.arange(50)}, "AntitheticTable or a GroupTable"),
        ({"refresh": 0}, "refresh"),
        ({"importance": "norms"}, "importance 'norms' is not known"),
        ({"importance": -np.ones(50)}, "at least 0"),
        ({"features": None, "labels": None, "table": TABLE, "importance": True}, "needs features"),
        ({"sample_weight": -np.ones(50)}, "sample_weight"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(given, message):
    """The error says what was given and what is allowed."""
    with pytest.raises(ValueError, match=message):
        sampler(**given)


def test_indices_that_are_refused():
    """Indices that are not rows are refused."""
    for wrong, message in (
        ([50], "0..49"),
        ([-1], "0..49"),
        ([0.5], "whole numbers"),
        ([[1]], "one list"),
    ):
        with pytest.raises(ValueError, match=message):
            sampler(method="random").weights(wrong)
    with pytest.raises(ValueError, match="epoch"):
        sampler(method="random").set_epoch(-1)


def test_what_lightning_does_to_batch_samplers_is_refused():
    """It would put a sampler of its own into this one, and part the groups."""
    with pytest.raises(TypeError, match="use_distributed_sampler=False"):
        AntitheticBatchSampler(
            torch.utils.data.SequentialSampler(range(3)), batch_size=8, drop_last=False
        )


@needs_data
def test_the_variance_of_batches_on_mnist():
    """On MNIST the variance is below label-stratified batches, and below 0.4 of shuffled ones.

    Softmax regression at its start, 3000 rows, batches of 64.
    """
    mnist = datasets.load("mnist")
    rows, labels = mnist.data[:3008], mnist.target[:3008].astype(int)

    def ratio(batches):
        features = torch.from_numpy(rows / np.float32(255.0))
        slopes = torch.eye(10)[torch.from_numpy(labels)] - 0.1
        mean = slopes.T @ features / len(rows)
        spread = (slopes.square().sum(1) * features.square().sum(1)).mean() - mean.square().sum()
        apart = [
            (slopes[batch].T @ features[batch] / 64 - mean).square().sum() for batch in batches
        ]
        return float(torch.stack(apart).mean() / ((len(rows) - 64) / (len(rows) - 1) * spread / 64))

    # Each batch has one row from each of 64 equal parts of the sorted labels.
    by_label = np.argsort(labels, kind="stable").reshape(64, -1).T
    found, stratified = (
        ratio(list(sampler(rows, labels, 64, drop_last=True))),
        ratio(by_label.tolist()),
    )
    assert found <= 0.4
    assert found < stratified < 0.6
