"""Batches for a DataLoader: sources, reproducibility, weights, and refusals."""

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

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Subset, TensorDataset  # noqa: E402

from antithetic import AntitheticTable, GroupTable, datasets, pair  # noqa: E402
from antithetic.torch import AntitheticBatchSampler  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 6)).astype(np.float32)
Y = RNG.integers(0, 4, size=50)
TABLE = GroupTable(np.arange(50)[::-1].copy(), 4)


def sampler(features=X, labels=Y, batch_size=8, **given):
    return AntitheticBatchSampler(features, labels, batch_size, **given)


def flat(batches):
    return [row for batch in batches for row in batch]


def test_the_package_works_without_torch():
    """PyTorch is imported only by antithetic.torch."""
    code = (
        "import sys, antithetic; antithetic.pair([[1.0], [2.0]], [0, 1]); sys.exit('torch' in"
        " sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def first_epoch(found, model=None):
    """Batches of the first epoch while a linear model is observed."""
    model = torch.nn.Linear(6, 4) if model is None else model
    with found.observing(model):
        batches = []
        for batch in found:
            model(torch.zeros(len(batch), model.in_features)).sum().backward()
            batches.append(batch)
    return batches


@given(
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from(["labels", "numbers", "table"]),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_each_row_once_per_epoch(batch_size, drop_last, kind, epoch, replicas):
    """Each row occurs once, and only the last batch is short, unless drop_last drops it.

    The length is right before, during and after. Processes have the same number of rows.
    """
    given = {
        "labels": {"labels": Y},
        "numbers": {"labels": Y.astype(float)},
        "table": {"labels": None, "table": TABLE},
    }[kind]
    everything = []
    for rank in range(replicas):
        found = sampler(
            None,
            batch_size=batch_size,
            drop_last=drop_last,
            num_replicas=replicas,
            rank=rank,
            **given,
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
        per_process = (
            50 // (batch_size * replicas) * batch_size if drop_last else -(-50 // replicas)
        )
        assert len(rows) == per_process
        everything += rows
    assert len(everything) - len(set(everything)) == max(0, per_process * replicas - 50)


def test_the_first_epoch_of_a_linear_model_has_the_groups_of_pair():
    """Made of the gradients at its start, of classes or of numbers, with or without a bias."""
    for labels, loss in ((Y, "log_loss"), (RNG.normal(size=50), "squared_error")):
        for bias in (False, True):
            found = sampler(labels=labels, seed=3)
            model = torch.nn.Linear(6, 4, bias=bias)
            batches = first_epoch(found, model)
            options = {"nest": 8, "random_state": 3, "fit_intercept": bias}
            groups = pair(X, labels, loss=loss, **options).groups
            assert {frozenset(batch) for batch in batches[:-1]} == set(
                map(frozenset, groups.tolist())
            )


def test_other_models_begin_with_stratified_batches():
    """Each class has its expected number of rows, up to one; a regression is shuffled."""
    labels = np.repeat([0, 1], [30, 20])
    body = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 2))
    for found in (sampler(labels=labels, batch_size=10), sampler(None, labels, 10)):
        with found.observing(body):
            for batch in found:
                body(torch.from_numpy(X[batch])).sum().backward()
                assert abs(int(labels[batch].sum()) - 4) <= 1
    free = [labels[batch].sum() for batch in sampler(None, labels.astype(float), 10)]
    assert len(set(free)) > 1
    chosen = [labels[batch].sum() for batch in sampler(None, labels, 10, arms=["importance"])]
    assert len(set(chosen)) > 1


@pytest.mark.parametrize(
    "form",
    ["tensor", "list", "float64", "sparse", "images", "needs grad", "memory map", "bfloat16"],
)
def test_features_of_any_form(form, tmp_path):
    """Features and labels give the same groups as a tensor, an array or a list."""
    exact = np.round(X * 8.0) / 8.0  # few digits, which bfloat16 has as well
    expected = first_epoch(sampler(exact))
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
        assert first_epoch(sampler(features, labels)) == expected


def test_bytes_are_pixels():
    """They lie in [0, 1], beside the constant feature of the intercept."""
    pixels = RNG.integers(0, 256, size=(50, 2, 3), dtype=np.uint8)
    want = first_epoch(sampler(pixels.reshape(50, 6) * np.float32(1.0 / 255.0)))
    assert first_epoch(sampler(pixels)) == want
    assert first_epoch(sampler(torch.from_numpy(pixels))) == want


def test_the_type_of_labels_says_what_they_are():
    """Unless the task is given: numbers with a point are a regression's."""
    classes = list(sampler(labels=Y))
    assert list(sampler(labels=Y.astype(float), task="classification")) == classes
    assert list(sampler(labels=np.array(list("abcd"))[Y])) == classes
    numbers = list(sampler(labels=Y.astype(float)))
    assert numbers != classes
    assert list(sampler(labels=Y, task="regression")) == numbers


def test_each_iteration_is_the_next_epoch():
    """Each iteration is the next epoch, as with shuffle=True.

    ``set_epoch`` chooses one; the same number and seed give the same batches in any sampler.
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
def test_copies_are_independent(copied):
    """A copy keeps what was observed, but is not observed: the hook belongs to the original."""
    found, head = sampler(), torch.nn.Linear(6, 4)
    with found.observing(head):
        for batch in found:
            head(torch.from_numpy(X[batch])).sum().backward()
        other = copied(found)
        np.testing.assert_array_equal(other._norms.values, found._norms.values)
        assert found._norms.share == 1.0
        # Later epochs, with no observer that would miss a batch.
        assert len(list(other)) == len(list(other)) == len(other)


def test_given_tables_are_used_in_the_first_epoch():
    """Tables of pairs and of groups; later epochs do not use them, unless the test finds groups."""
    found = sampler(None, None, table=TABLE)
    first, second = list(found), list(found)
    groups = set(map(frozenset, TABLE.groups.tolist()))
    halves = [frozenset(half) for batch in first[:-1] for half in (batch[:4], batch[4:])]
    assert set(halves) <= groups
    assert not groups & {frozenset(half) for b in second for half in (b[:4], b[4:])}
    mates = pair(X, Y, "tree", fit_intercept=True)
    partner = mates.partner
    for batch in list(sampler(table=mates))[:-1]:
        assert partner[batch[::2]].tolist() == batch[1::2]
    with pytest.raises(ValueError, match="to_matching"):
        sampler(table=AntitheticTable(np.roll(np.arange(50), 1)))
    with pytest.raises(ValueError, match="other labels"):
        sampler(labels=(Y + 1) % 4, table=mates)
    with pytest.raises(ValueError, match="50 rows and the data have 49"):
        sampler(X[:49], None, table=TABLE)


def test_batch_loss_without_importance_is_the_mean():
    """Divided by the batch size, also where a batch is short; of several numbers the mean."""
    found = sampler()
    losses = torch.arange(8.0, requires_grad=True)
    assert found.batch_loss(losses).item() == losses.mean().item()
    assert found.batch_loss(losses[:4]).item() == losses[:4].sum().item() / 8
    assert found.batch_loss(losses[:, None].expand(8, 3)).item() == losses.mean().item()
    assert found.batch_loss(torch.ones(3)).item() == 1.0  # validation
    for wrong, what in ((losses.mean(), "one number"), (3.0, "float")):
        with pytest.raises(ValueError, match=rf'reduction="none"; got {what}'):
            found.batch_loss(wrong)
    with pytest.raises(ValueError, match="only after the forward pass"):
        found.weights  # noqa: B018


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
        ({"labels": np.zeros(50, int)}, "only one class"),
        ({"labels": np.full(50, np.nan)}, "labels has NaN"),
        ({"features": np.full((50, 2), np.inf)}, "features has NaN or infinity, first in row 0"),
        ({"features": np.empty((0, 2))}, "at least one row"),
        ({"features": torch.eye(50).to_sparse()}, "layout"),
        ({"features": None, "labels": None}, "give at least one of features, labels and table="),
        ({"features": None, "labels": []}, "one label per row; got none"),
        (
            {"features": TensorDataset(torch.from_numpy(X))},
            "got a TensorDataset. Pass its underlying data",
        ),
        ({"features": Subset(TensorDataset(torch.from_numpy(X)), range(50))}, "subset.indices"),
        ({"features": DataLoader(TensorDataset(torch.from_numpy(X)))}, "got a DataLoader"),
        (
            {"labels": TensorDataset(torch.from_numpy(Y))},
            "labels must be an array or a tensor with one label per row; got a TensorDataset",
        ),
        ({"task": "ranking"}, "task 'ranking' is not known"),
        ({"seed": -1}, "seed"),
        ({"seed": 1, "generator": torch.Generator()}, "not both"),
        ({"generator": np.random.default_rng(0)}, "torch.Generator"),
        ({"num_replicas": 2}, "needs rank="),
        ({"num_replicas": 2, "rank": 2}, "rank must be below num_replicas"),
        ({"num_replicas": 0, "rank": 0}, "num_replicas"),
        ({"rank": 1}, "rank must be below"),
        ({"table": np.arange(50)}, "AntitheticTable or a GroupTable"),
        ({"arms": "norms"}, "arm 'norms' is not known; use some of stratified, groups"),
        ({"arms": ["stratified"], "labels": Y.astype(float)}, "need labels that are classes"),
        ({"arms": ["groups"], "batch_size": 1}, "batch_size of at least 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(given, message):
    """The error says what was given and what is allowed."""
    with pytest.raises(ValueError, match=message):
        sampler(**given)


def test_epochs_that_are_refused():
    with pytest.raises(ValueError, match="epoch"):
        sampler().set_epoch(-1)


def test_what_lightning_does_to_batch_samplers_is_refused():
    """Lightning would replace this sampler by its own and break up the groups."""
    with pytest.raises(TypeError, match="use_distributed_sampler=False"):
        AntitheticBatchSampler(
            torch.utils.data.SequentialSampler(range(3)), batch_size=8, drop_last=False
        )


@needs_data
def test_the_variance_of_batches_on_mnist():
    """On MNIST the variance is below label-stratified batches, and below 0.4 of shuffled ones.

    Softmax regression in its first epoch, 3000 rows, batches of 64.
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
    found, stratified, by_default = (
        ratio(first_epoch(sampler(rows, labels, 64, drop_last=True), torch.nn.Linear(784, 10))),
        ratio(by_label.tolist()),
        ratio(list(sampler(None, labels, 64, drop_last=True))),
    )
    assert found <= 0.4
    assert found < stratified < 0.6
    assert by_default < 0.6  # if nobody observes
