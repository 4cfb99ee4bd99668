"""Groups that follow the model: gradients of a linear head, sketches, hook and processes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.nn.functional import (  # noqa: E402
    binary_cross_entropy_with_logits,
    cross_entropy,
    mse_loss,
)
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch_process import CLASSES, INPUTS, K, N, model, train  # noqa: E402

from antithetic import GroupTable, pair_rows  # noqa: E402
from antithetic.torch import (  # noqa: E402
    AntitheticBatchSampler,
    BalancedBatchSampler,
    gradients,
    head_factors,
    head_gradients,
    observe,
)
from antithetic.torch.coordinates import products, tensor_coordinates  # noqa: E402

GENERATOR = torch.Generator().manual_seed(1)


def sampler(**given):
    return AntitheticBatchSampler(INPUTS, CLASSES, 8, method="random", **given)


def true_gradients(head, loss, inputs, targets):
    """Gradients of the weights and the bias, row by row, as autograd has them."""
    rows = []
    for row, target in zip(inputs, targets, strict=True):
        head.zero_grad()
        loss(head(row[None]), target[None]).backward()
        rows.append(torch.cat([head.weight.grad, head.bias.grad[:, None]], dim=1).ravel().clone())
    return torch.stack(rows)


CASES = {
    "cross_entropy": (3, cross_entropy, torch.tensor([0, 2, 1, 1])),
    "bce": (1, binary_cross_entropy_with_logits, torch.tensor([[0.0], [1.0], [1.0], [0.0]])),
    "mse": (
        2,
        lambda given, wanted: mse_loss(given, wanted, reduction="sum") / 2,
        torch.randn(4, 2, generator=GENERATOR),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_factors_are_those_of_the_gradient(name):
    """Their product is what autograd finds, where nothing need be reduced."""
    outputs, loss, targets = CASES[name]
    torch.manual_seed(0)
    head, inputs = torch.nn.Linear(5, outputs), INPUTS[:4]
    slopes, features = head_factors(head(inputs), targets, inputs, loss=name)
    assert not slopes.requires_grad
    np.testing.assert_allclose(
        products(slopes.numpy(), features.numpy()),
        true_gradients(head, loss, inputs, targets),
        atol=1e-6,
    )


def test_sketches_have_the_products_of_the_gradients_on_average(monkeypatch):
    """Over all signs, sketches have the products of the gradients on average.

    Two classes, two inputs and the bias, one coordinate.
    """
    logits, targets, inputs = (
        torch.tensor([[0.3, -0.2], [1.0, 0.5]]),
        torch.tensor([0, 1]),
        torch.tensor([[1.0, -2.0], [0.5, 3.0]]),
    )
    slopes, features = head_factors(logits, targets, inputs)
    expected = (slopes[0] @ slopes[1]) * (features[0] @ features[1])
    whole, halves = [], []
    for signs in product([-1.0, 1.0], repeat=5):
        left, right = torch.tensor(signs[:2])[:, None], torch.tensor(signs[2:])[:, None]
        monkeypatch.setattr(
            gradients,
            "_signs",
            lambda *given, a=left, b=right: (b[:-1], b[-1]) if given[3] else (a, a[0]),
        )
        first, second = head_gradients(logits, targets, inputs, n_sketch=1)
        whole.append(first @ second)
        slopes, mixed = head_factors(logits, targets, inputs, n_sketch=1)
        halves.append((slopes[0] @ slopes[1]) * (mixed[0] @ mixed[1]))
    assert torch.stack(whole).mean().item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.stack(halves).mean().item() == pytest.approx(expected.item(), rel=1e-5)


def test_many_outputs_and_inputs_are_reduced():
    """Slopes to 32 and inputs to as many as asked for; the same seed, the same signs."""
    logits, targets, inputs = torch.randn(6, 100), torch.arange(6), torch.randn(6, 50)
    slopes, features = head_factors(logits, targets, inputs, n_sketch=7)
    assert (slopes.shape, features.shape) == ((6, 32), (6, 7))
    again = head_factors(logits, targets, inputs, n_sketch=7)
    assert torch.equal(features, again[1])
    assert not torch.equal(features, head_factors(logits, targets, inputs, n_sketch=7, seed=1)[1])
    assert set(
        gradients._signs(50, 7, 0, 1, "cpu")[0].mul(7**0.5).round(decimals=5).unique().tolist()
    ) == {-1.0, 1.0}


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 20), st.integers(0, 9))
def test_coordinates_keep_products(n, k, d, seed):
    """Exactly for few, and for more up to what lies in the directions that are left out."""
    rng = np.random.default_rng(seed)
    slopes, inputs = (
        rng.normal(size=(n, k)).astype(np.float32),
        rng.normal(size=(n, d)).astype(np.float32),
    )
    points, whole = tensor_coordinates(slopes, inputs, 0), products(slopes, inputs)
    assert points.shape[1] <= 64
    if k * d <= 64 or n <= 64:
        np.testing.assert_allclose(points @ points.T, whole @ whole.T, atol=1e-3)


def test_wide_products_are_reduced_first():
    """32 outputs and 64 inputs of which 3 directions matter: nothing is lost."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(200, 32)).astype(np.float32)
    inputs = (rng.normal(size=(200, 1)) @ rng.normal(size=(1, 64))).astype(np.float32)
    points, whole = tensor_coordinates(slopes, inputs, 0), products(slopes, inputs)
    np.testing.assert_allclose(points @ points.T, whole @ whole.T, rtol=1e-3, atol=1e-2)


def test_the_next_epoch_is_made_of_what_was_observed():
    """The next epoch has the groups that pair_rows makes of what was observed.

    A row that is not seen again keeps its vector, one never seen is zero.
    """
    found = sampler()
    vectors = np.random.default_rng(1).normal(size=(N, 4)).astype(np.float32)
    next(iter(found))
    found.observe(np.arange(N - 2), vectors[:-2])
    before = found.table
    found.observe([], np.empty((0, 4)))
    assert found.table is before
    next(iter(found))
    vectors[-2:] = 0.0
    np.testing.assert_array_equal(found.table.order, pair_rows(vectors, "random", nest=8).order)
    found._method = "auto"
    found.observe(torch.tensor([0]), torch.full((1, 4), 3.0))
    vectors[0] = 3.0
    next(iter(found))
    np.testing.assert_array_equal(found.table.order, pair_rows(vectors, nest=8).order)


def test_how_often_groups_are_made():
    """Every so many epochs, never, and not before half of the rows are known."""
    for refresh, expected in (
        (1, [False, True, True, True]),
        (2, [False, True, False, True]),
        (None, [False] * 4),
    ):
        found, changed = sampler(refresh=refresh), []
        for _ in range(4):
            before = found.table
            for batch in found:
                found.observe(batch, INPUTS[batch])
            changed.append(found.table is not before)
        assert changed == expected
    found = sampler()
    found.observe(np.arange(N // 2 - 1), INPUTS[: N // 2 - 1])
    before = found.table
    next(iter(found))
    assert found.table is before


def test_importance_follows_what_was_observed():
    """Groups of small gradients are drawn less, also where groups are not rebuilt."""
    found = sampler(importance=True, refresh=None)
    vectors = np.ones((N, 1), np.float32)
    vectors[found.table.groups[0]] = 9.0
    found.observe(np.arange(N), vectors)
    next(iter(found))
    assert found._chances[0] == found._chances.max()
    assert found._chances[0] > 2 * found._chances[1]
    assert found.weights(found.table.groups[0]).max() < 0.5


@pytest.mark.parametrize(
    ("indices", "vectors", "message"),
    [
        ([0, N], np.zeros((2, 3)), f"0..{N - 1}"),
        ([0, 1], np.zeros((3, 3)), "one row for each of the 2 indices"),
        ([0, 1], np.zeros(2), "one row for each"),
        ([0, 1], np.full((2, 3), np.nan), "vectors has NaN or infinity"),
        ([0, 1], np.zeros((2, 4)), "of 4 numbers were observed after some of 3"),
    ],
    ids=["no row", "too many", "numbers", "NaN", "another length"],
)
@pytest.mark.parametrize(
    "make", [sampler, lambda: BalancedBatchSampler(N, 8)], ids=["antithetic", "balanced"]
)
def test_observations_that_are_refused(make, indices, vectors, message):
    """The error says what was expected."""
    found = make()
    found.observe([2, 3], np.ones((2, 3)))
    with pytest.raises(ValueError, match=message):
        found.observe(indices, vectors)
    with pytest.raises(ValueError, match="numbers were observed after"):
        found.observe([0], np.ones((1, 3)), np.ones((1, 2)))


def loader(found, workers=0):
    return DataLoader(TensorDataset(INPUTS, CLASSES), batch_sampler=found, num_workers=workers)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_hook_sees_what_autograd_finds(workers):
    """Each row's gradient at the last layer, also where workers ask for batches ahead of time.

    Passes of validation do not count.
    """
    found, net = sampler(refresh=None), model()
    with found.observing(net[2]):
        for inputs, targets in loader(found, workers):
            cross_entropy(net(inputs), targets).backward()
            with torch.no_grad():
                net(INPUTS[:3])
            net.eval()
            net(INPUTS[:5])
            net.train()
    memory = found._memory
    expected = true_gradients(net[2], cross_entropy, net[:2](INPUTS).detach(), CLASSES)
    np.testing.assert_allclose(
        products(memory.vectors[:, :K], memory.vectors[:, K:]), expected, atol=1e-5
    )
    assert memory.seen.all()
    net(INPUTS[:3])  # nothing is watched any more


def test_training_with_a_hook_makes_groups_of_lower_variance():
    """Groups made by the hook have a lower gradient variance than random groups.

    At a fixed model, from the gradients of the epoch before.
    """
    found, net = sampler(), model()
    found._method = "auto"
    with found.observing(net[2]):
        for inputs, _ in loader(found):
            net(inputs)
        batches = [batch for batch in found if len(batch) == 8]
    rows = true_gradients(net[2], cross_entropy, net[:2](INPUTS).detach(), CLASSES)
    rows = rows - rows.mean(dim=0)
    variance = torch.stack([rows[batch].mean(dim=0).square().sum() for batch in batches]).mean()
    assert variance < 0.3 * rows.square().sum(dim=1).mean() / 8


def test_rows_that_the_user_names():
    """The user may name rows in any order, and some twice."""
    found, net = sampler(), model()
    with found.observing(net[2]) as watch:
        for rows in ([3, 1], [7, 8, 9], [3, 1]):
            watch.batch(rows)
            net(INPUTS[rows])
        assert not found._memory.fresh
        found.state_dict()  # what was kept so far is in a state
        assert np.flatnonzero(found._memory.seen).tolist() == [1, 3, 7, 8, 9]
        with pytest.raises(ValueError, match="rows are not known"):
            net(INPUTS[:2])


def test_what_the_hook_refuses():
    """The hook refuses passes that do not match the batches, and unknown layers and losses."""
    net = model()
    found = sampler()
    with found.observing(net[2]):
        with pytest.raises(ValueError, match="more training passes"):
            net(INPUTS)
        next(iter(found))
        with pytest.raises(ValueError, match="given 40 rows, and the batch whose turn it is has 8"):
            net(INPUTS)
        with pytest.raises(ValueError, match="observing already"), found.observing(net[2]):
            pass
    found = sampler()
    with found.observing(net[2]):
        for number, (inputs, _) in enumerate(loader(found)):
            if number != 2:
                net(inputs)
        with pytest.raises(
            ValueError, match="1 batches of the last epoch were handed out and not seen"
        ):
            next(iter(found))
    found = sampler()
    batches = iter(found)
    rows = next(batches)
    with found.observing(net[2]), pytest.raises(ValueError, match="in the middle of an epoch"):
        net(INPUTS[rows])
    for head, options, message in (
        (net, {}, "last nn.Linear"),
        (net[2], {"loss": "hinge"}, "loss 'hinge' is not known"),
        (net[2], {"targets": CLASSES[:3]}, "targets must be one for each of the 40 rows"),
        (net[2], {"targets": INPUTS[:, 0]}, "must be classes"),
        (net[2], {"targets": 3}, r"one for each of the 40 rows; got shape \(\)"),
        (
            net[2],
            {"targets": np.full(N, np.nan), "loss": "mse"},
            "targets has NaN or infinity, first in row 0",
        ),
        (net[2], {"loss": "bce"}, r"must lie in 0..1; got 0..2"),
        (net[2], {"n_sketch": 0}, "n_sketch"),
    ):
        with pytest.raises(ValueError, match=message):
            sampler().observing(head, **options)
    with pytest.raises(ValueError, match="no labels"):
        BalancedBatchSampler(N).observing(net[2])
    head = torch.nn.Linear(5, 2)
    with sampler().observing(head) as watch:
        watch.batch(np.arange(N))
        head(INPUTS)
        with pytest.raises(ValueError, match="2 outputs and the labels go up to 2"):
            watch.flush()


@pytest.mark.parametrize(
    "make", [sampler, lambda: BalancedBatchSampler(N, 8)], ids=["antithetic", "balanced"]
)
def test_what_may_be_of_other_rows_is_given_up(make):
    """If a batch is skipped, nothing of the epoch is learnt.

    The length of a later pass, or the end of the epoch, reveals it.
    """
    found, net = make(), model()
    whole = make()
    with found.observing(net[2], targets=CLASSES) as watch:
        for number, (inputs, _) in enumerate(loader(found)):
            if number != 2:
                net(inputs)
        watch.flush()
        with pytest.raises(ValueError, match="may not belong together"):
            next(iter(found))
        list(whole)
        assert list(found) == list(whole)  # as if nothing had been seen
    with found.observing(net[2], targets=CLASSES):
        next(iter(found))
        with pytest.raises(ValueError, match="may not belong together"):
            net(INPUTS[:3])


def test_an_observer_may_be_used_again():
    """A reused observer starts fresh: it does not wait for batches of its earlier use."""
    found, net = sampler(), model()
    watch = found.observing(net[2])
    for _ in range(2):
        with watch:
            for number, (inputs, _) in enumerate(loader(found)):
                net(inputs)
                if number == 1:
                    break


def test_the_first_mistake_is_the_one_that_is_told():
    """The first error is raised, even if the pending observations are invalid too."""
    found, head = sampler(), torch.nn.Linear(5, 2)

    def interrupted():
        with found.observing(head) as watch:
            watch.batch(np.arange(N))
            head(INPUTS)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_mixed_precision_does_not_reach_the_sketches():
    """They are float32 inside of autocast, too: the same as outside, given the same logits."""
    logits, inputs = torch.randn(6, 40), torch.randn(6, 50)
    expected = (
        head_gradients(logits, torch.arange(6), inputs),
        *head_factors(logits, torch.arange(6), inputs),
    )
    with torch.autocast("cpu", torch.bfloat16):
        found = (
            head_gradients(logits, torch.arange(6), inputs),
            *head_factors(logits, torch.arange(6), inputs),
        )
    for have, want in zip(found, expected, strict=True):
        assert have.dtype == torch.float32
        assert torch.equal(have, want)


def test_wide_inputs_are_not_kept_for_long(monkeypatch):
    """Batches are shown earlier where many numbers would be kept."""
    monkeypatch.setattr(observe, "_MOST_KEPT", 2 * 8 * 6)
    found, net = sampler(), model()
    with found.observing(net[2]) as watch:
        for number, batch in enumerate(found):
            net(INPUTS[batch])
            assert len(watch._kept) == (number + 1) % 2


def test_an_epoch_that_is_broken_off_is_no_mistake():
    """What was handed out and not seen is forgotten."""
    found, net = sampler(), model()
    with found.observing(net[2]):
        for _ in range(3):
            for number, (inputs, _) in enumerate(loader(found, workers=1)):
                net(inputs)
                if number == 1:
                    break
    assert found._memory.seen.any()


def test_labels_of_any_kind_are_targets():
    """Strings and negative numbers are classes in order.

    Two of any kind are 0 and 1 for a single logit.
    """
    net = torch.nn.Linear(5, K)
    words = np.array(["a", "b", "c"])[CLASSES]
    found = AntitheticBatchSampler(INPUTS, words, 8, method="random")
    assert torch.equal(found.observing(net)._targets, CLASSES)
    floats = AntitheticBatchSampler(
        INPUTS, CLASSES.double(), 8, method="random", task="classification"
    )
    assert torch.equal(floats.observing(net)._targets, CLASSES)
    signs = np.where(CLASSES.numpy() == 0, -1, 1)
    found = AntitheticBatchSampler(INPUTS, signs, 8, method="random")
    assert torch.equal(
        found.observing(torch.nn.Linear(5, 1), loss="bce")._targets, (CLASSES != 0).float()
    )
    numbers = INPUTS[:, 0].double()
    found = AntitheticBatchSampler(INPUTS, numbers, 8, method="random")
    assert torch.equal(found.observing(torch.nn.Linear(5, 1), loss="mse")._targets, numbers.float())


def test_rows_of_steps_that_overflow_are_passed_over():
    """Rows of steps that overflow, which mixed precision skips, are ignored."""
    found, net = sampler(), torch.nn.Linear(5, K)
    inputs = INPUTS[:4].clone()
    inputs[1] = torch.inf
    with found.observing(net) as watch:
        watch.batch([0, 1, 2, 3])
        net(inputs)
    assert np.flatnonzero(found._memory.seen).tolist() == [0, 2, 3]


def test_two_processes_make_the_same_groups(tmp_path):
    """Two processes that meet over gloo make the same groups of what both saw, bit for bit.

    They have the same number of batches and rows.
    """
    torch.multiprocessing.start_processes(
        train, args=(str(tmp_path),), nprocs=2, start_method="spawn"
    )
    first, second = (torch.load(tmp_path / str(rank), weights_only=True) for rank in range(2))
    for name in ("order", "chances", "weight"):
        assert torch.equal(first[name], second[name])
    assert sorted(first["order"].tolist()) == list(range(N))
    assert not torch.equal(
        first["order"],
        torch.from_numpy(AntitheticBatchSampler(INPUTS, CLASSES, 4).table.order.copy()),
    )
    for one, other in zip(first["epochs"], second["epochs"], strict=True):
        assert [len(batch) for batch in one] == [len(batch) for batch in other] == [4] * 5
    assert first["alike"] == second["alike"]
    assert first["lone"] == second["lone"] != list(AntitheticBatchSampler(INPUTS, CLASSES, 4))
    for part in (first, second):
        assert "num_replicas=3, but torch.distributed has 2" in part["refused"]
        assert "before torch.distributed was initialised" in part["early"]


def test_processes_that_cannot_meet_are_told():
    """Observing in several processes needs torch.distributed."""
    found = AntitheticBatchSampler(
        None, None, 4, table=GroupTable(np.arange(N), 4), num_replicas=2, rank=0
    )
    found.observe(np.arange(N), INPUTS)
    with pytest.raises(RuntimeError, match="init_process_group"):
        next(iter(found))
