"""Batches that follow the model: gradients of a linear head, sketches, hooks and processes."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import (  # noqa: E402
    binary_cross_entropy_with_logits,
    cross_entropy,
    mse_loss,
)
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch_process import CLASSES, INPUTS, K, N, differ, model, train  # noqa: E402

from antithetic import pair_rows  # noqa: E402
from antithetic.torch import (  # noqa: E402
    AntitheticBatchSampler,
    BalancedBatchSampler,
    gradients,
    head_factors,
    head_gradients,
    observe,
)
from antithetic.torch.coordinates import products, tensor_coordinates  # noqa: E402
from antithetic.torch.norms import GradientNorms  # noqa: E402

GENERATOR = torch.Generator().manual_seed(1)


def sampler(**given):
    return AntitheticBatchSampler(None, CLASSES, 8, **given)


def step(found, net, batch, *, wrapped=True):
    """A forward and a backward pass."""
    losses = cross_entropy(net(INPUTS[batch]), CLASSES[batch], reduction="none")
    loss = found.batch_loss(losses) if wrapped else losses.mean()
    loss.backward()
    return loss


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
    """Products are exact for few coordinates, else up to the directions left out."""
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


@pytest.mark.parametrize(
    ("indices", "vectors", "message"),
    [
        ([0, N], np.zeros((2, 3)), f"0..{N - 1}"),
        ([0, 1], np.zeros((3, 3)), "one row for each of the 2 indices"),
        ([0, 1], np.zeros(2), "one row for each"),
        ([0, 1], np.full((2, 3), np.nan), "vectors has NaN or infinity"),
        ([0, 1], np.zeros((2, 4)), "vectors with 4 numbers were observed after vectors with 3"),
    ],
    ids=["no row", "too many", "numbers", "NaN", "another length"],
)
def test_observations_that_are_refused(indices, vectors, message):
    """The error says what was expected."""
    found = BalancedBatchSampler(N, 8)
    found.observe([2, 3], np.ones((2, 3)))
    with pytest.raises(ValueError, match=message):
        found.observe(indices, vectors)
    with pytest.raises(ValueError, match="numbers were observed after"):
        found.observe([0], np.ones((1, 3)), np.ones((1, 2)))


def loader(found, workers=0):
    return DataLoader(TensorDataset(INPUTS, CLASSES), batch_sampler=found, num_workers=workers)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_hook_sees_what_autograd_finds(workers, wrapped):
    """Each row's gradient at the last layer, also where workers ask for batches ahead of time.

    Passes of validation do not count, and the loss may be divided or scaled.
    """
    found, net = sampler(arms=["groups"]), model()
    with found.observing(net):
        for inputs, targets in loader(found, workers):
            losses = cross_entropy(net(inputs), targets, reduction="none")
            (1024.0 * found.batch_loss(losses) if wrapped else losses.mean()).backward()
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
    norms = expected.norm(dim=1)
    np.testing.assert_allclose(found._norms.values, norms / norms.mean(), rtol=0.2)
    assert memory.seen.all()
    net(INPUTS[:3])  # nothing is watched any more


def epochs_of(found, net, count, *, wrapped=True, rate=0.0):
    """Batches of some epochs of training, with their arms."""
    optimiser = torch.optim.SGD(net.parameters(), lr=rate)
    epochs = []
    for _ in range(count):
        epochs.append([])
        for batch in found:
            optimiser.zero_grad()
            step(found, net, batch, wrapped=wrapped)
            optimiser.step()
            epochs[-1].append((batch, found._watch.current.batch.arm))
    return epochs


def test_groups_have_lower_variance():
    """At a fixed model, made of the gradients of the epoch before; a single row has none."""
    found, net = sampler(arms=["groups"], seed=1), model()
    with found.observing(net):
        first, second = epochs_of(found, net, 2)
    assert {arm for _, arm in first} == {0}
    grouped = [batch for batch, arm in second if arm == 2]
    assert len(grouped) == 2
    points = found._memory.points(np.sort(np.concatenate(grouped)), 0)
    rows = np.sort(np.concatenate(grouped))
    expected = rows[pair_rows(points, nest=8).order].reshape(-1, 8)
    assert {frozenset(batch) for batch in grouped} != set()
    gradients = true_gradients(net[2], cross_entropy, net[:2](INPUTS).detach(), CLASSES)
    gradients = gradients - gradients.mean(dim=0)

    def spread(batches):
        return np.mean([float(gradients[list(b)].mean(dim=0).square().sum()) for b in batches])

    assert spread(grouped) == pytest.approx(spread(expected.tolist()), rel=0.5)
    assert spread(grouped) < 0.6 * float(gradients.square().sum(dim=1).mean()) / 8


def test_importance_needs_the_wrapper():
    """It is used only if every loss goes through batch_loss; then others are refused."""
    found, net = sampler(), model()
    with found.observing(net):
        epochs = epochs_of(found, net, 3, wrapped=False)
        assert {arm for epoch in epochs for _, arm in epoch} <= {0, 1}
        assert "importance has not been tested yet" in str(found.report())
    found, net = sampler(), model()
    with found.observing(net):
        (first, second) = epochs_of(found, net, 2)
        assert {arm for _, arm in first} == {1}
        assert {arm for _, arm in second} == {0, 1, 3}
        drawn = next(batch for batch, arm in second if arm == 3)
        assert len(set(drawn)) == 8
        with pytest.raises(ValueError, match="did not go through"):
            epochs_of(found, net, 3, wrapped=False)


def test_the_loss_of_a_drawn_batch_is_weighted():
    """The weights are b / (n pi), the sum is divided by b, and wrong losses are refused."""
    found, net = sampler(), model()
    with found.observing(net):
        epochs_of(found, net, 1)
        for batch in found:
            losses = cross_entropy(net(INPUTS[batch]), CLASSES[batch], reduction="none")
            with pytest.raises(ValueError, match="got 3 losses for a batch of"):
                found.batch_loss(losses[:3])
            loss = found.batch_loss(losses)
            loss.backward()
            weights = found.weights
            torch.testing.assert_close(loss, (weights * losses).sum() / 8)
            if found._watch.current.batch.arm == 3:
                norms = found._norms.values
                assert weights.argmax() == norms[batch].argmin()
                assert len(weights.unique()) > 1
                assert weights.max() <= 1 / 0.3 + 1e-6
            else:
                assert weights.unique().tolist() == [1.0]


@pytest.mark.parametrize("gradients", ["fresh", "zeros", "accumulated"])
def test_the_squared_norm_is_that_of_the_batch_gradient(gradients):
    """It includes all parameters, before scaling, clipping and accumulation, as weighted.

    The first batch to which the gradient of another is added is not measured.
    """
    found, net, twin = sampler(), model(), model()
    twin.load_state_dict(net.state_dict())
    measured, expected = {}, {}
    found.compare = lambda batch, square: measured.update({tuple(batch.rows): square})
    with found.observing(net):
        epochs_of(found, net, 1)
        net.zero_grad()
        for number, batch in enumerate(found):
            if gradients == "fresh" or (gradients == "accumulated" and number % 3 == 2):
                net.zero_grad()
            elif gradients == "zeros":
                net.zero_grad(set_to_none=False)
            losses = cross_entropy(net(INPUTS[batch]), CLASSES[batch], reduction="none")
            (found.batch_loss(losses) * 256.0 / 2.0).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3)
            if found._watch.current.batch.block >= 0:
                losses = cross_entropy(twin(INPUTS[batch]), CLASSES[batch], reduction="none")
                parts = torch.autograd.grad(
                    (found.weights * losses).sum() / 8, list(twin.parameters())
                )
                expected[tuple(batch)] = sum(float(part.square().sum()) for part in parts)
    assert len(expected) - len(measured) == (gradients != "fresh")
    assert len(measured) > 1
    for rows, square in measured.items():
        assert square == pytest.approx(expected[rows], rel=1e-5)


def begun(norms, output):
    """Begin to measure as an observer does: the output keeps its gradient, or has a hook."""
    if norms.needs_hooks:
        norms.begin(None)
        output.register_hook(lambda _gradient: norms.reach_head())
    else:
        output.retain_grad()
        norms.begin(output)
    return output


@pytest.mark.parametrize("accumulates", [False, True])
@pytest.mark.parametrize("other", ["penalty", "adversarial inputs"])
def test_backward_passes_of_something_else_are_not_counted(other, accumulates):
    """A penalty of its own, or a gradient in the inputs, does not come through the output."""

    def measured(other):
        net, found, compared = model(), sampler(), []
        found.compare = lambda *given: compared.append(given[1])
        with found.observing(net):
            for number, batch in enumerate(batch for _ in range(3) for batch in found):
                if other == "adversarial inputs":
                    net.eval()
                    net(INPUTS[batch].clone().requires_grad_()).square().sum().backward()
                    net.train()
                if not accumulates or number % 2 == 0:
                    net.zero_grad()
                step(found, net, batch)
                if other == "penalty":
                    net[-1].weight.square().sum().backward()
        return [float(square) for squares in compared for square in np.ravel(squares)]

    expected = measured("nothing else")
    assert len(expected) > 0
    np.testing.assert_allclose(measured(other), expected, rtol=1e-6)


def test_norms_of_sparse_and_half_precision_gradients_are_those_of_their_values():
    net = nn.Sequential(nn.EmbeddingBag(9, 4, sparse=True), nn.Linear(4, 2)).bfloat16()
    norms = GradientNorms(net, net[1])
    output = begun(norms, net(torch.tensor([[1, 2], [3, 3]])))
    output.sum().backward()
    parts = [one.grad.to_dense().float() for one in net.parameters()]
    for norm, part in zip(norms.take(), parts, strict=True):
        assert norm.dtype is torch.float32
        assert float(norm) == pytest.approx(float(part.norm()), rel=1e-5)


def test_gradients_that_are_used_up_in_the_backward_pass_are_measured_from_the_second_on():
    """This happens if optimisers step during the backward pass."""
    net, measured = nn.Linear(3, 2), []
    for one in net.parameters():
        one.register_post_accumulate_grad_hook(lambda one: setattr(one, "grad", None))
    norms = GradientNorms(net, net)
    for _ in range(2):
        output = begun(norms, net(torch.ones(1, 3)))
        output.sum().backward()
        measured.append([float(norm) for norm in norms.take()])
    norms.close()
    assert measured == [[], [pytest.approx(2**0.5), pytest.approx(6**0.5)]]  # bias first
    assert norms.take() == []


@pytest.mark.parametrize("zeroed", ["before the forward pass", "after it"])
def test_norms_of_fresh_gradients_need_no_hook_on_each_parameter(zeroed):
    """Gradients are read once, at the end of the pass, wherever ``zero_grad`` is called."""
    net = model()
    norms = GradientNorms(net, net[-1])
    for _ in range(3):
        if zeroed.startswith("before"):
            net.zero_grad()
        loss = begun(norms, net(INPUTS[:8])).square().sum()
        if zeroed.startswith("after"):
            net.zero_grad()
        loss.backward()
        expected = sum(float(one.grad.square().sum()) for one in net.parameters())
        assert norms.take() == pytest.approx(expected, rel=1e-5)
    norms.close()


def test_a_head_whose_weight_is_computed_is_measured():
    """With a parametrisation the weight is no leaf, and the output says when it is reached."""
    found, net = sampler(), model()
    nn.utils.parametrizations.weight_norm(net[-1])
    compared = []
    found.compare = lambda *given: compared.append(given[1])
    with found.observing(net):
        for _ in range(2):
            for batch in found:
                net.zero_grad()
                step(found, net, batch)
                squares = sum(float(one.grad.square().sum()) for one in net.parameters())
                if found._watch.current.batch.block >= 0:
                    last = squares
    assert compared
    assert compared[-1] == pytest.approx(last, rel=1e-5)


def test_in_batch_negatives_are_warned_of_once():
    """The loss of a row that depends on the outputs of others is found out at the first batch."""
    found, net = sampler(), model()

    def contrast(batch):
        outputs = net(INPUTS[batch])
        similar = outputs @ outputs.T
        losses = cross_entropy(similar, torch.arange(len(batch)), reduction="none")
        found.batch_loss(losses).backward()
        assert found._watch.current.output.grad.shape == outputs.shape

    with found.observing(net):
        batches = iter(found)
        with pytest.warns(UserWarning, match="in-batch negatives"):
            contrast(next(batches))
        for batch in batches:
            contrast(batch)
    alone = sampler()
    with alone.observing(net):
        step(alone, net, next(iter(alone)))
        assert alone._watch._checked


@pytest.mark.parametrize("hooked", [False, True])
def test_a_second_backward_pass_of_the_same_loss_changes_nothing(hooked):
    """Slopes and what the loss was multiplied by are those of the first, or of both together."""
    found, net = sampler(), model()
    with found.observing(net) as watch:
        watch._hooked = hooked
        batch = next(iter(found))
        losses = cross_entropy(net(INPUTS[batch]), CLASSES[batch], reduction="none")
        loss = found.batch_loss(losses) * 4.0
        loss.backward(retain_graph=True)
        loss.backward()
        seen = found._watch.current
    outputs = net(INPUTS[batch]).detach().requires_grad_()
    cross_entropy(outputs, CLASSES[batch]).backward()
    torch.testing.assert_close(seen.slopes / seen.scale, outputs.grad)


def test_outputs_that_are_changed_in_place():
    """Once such a change is noticed, gradients are taken during the backward pass."""
    found, other, net = sampler(), sampler(), model()
    for one in (found, other):
        with one.observing(net):
            for batch in one:
                outputs = net(INPUTS[batch])
                outputs = outputs.mul_(3.0) if one is found else outputs * 3.0
                one.batch_loss(cross_entropy(outputs, CLASSES[batch], reduction="none")).backward()
    assert found._norms.ever.sum() == N - 8
    seen = found._norms.ever
    expected = other._norms.values[seen] * other._norms.mean
    np.testing.assert_allclose(found._norms.values[seen] * found._norms.mean, expected, rtol=0.2)


def test_passes_that_share_a_backward_pass_are_not_compared():
    """Their gradients cannot be told apart; what is seen of the rows counts all the same."""
    found, net = sampler(), model()
    compared = []
    found.compare = lambda *given: compared.append(given)
    with found.observing(net):
        for _ in range(2):
            total = 0.0
            for number, batch in enumerate(found):
                losses = cross_entropy(net(INPUTS[batch]), CLASSES[batch], reduction="none")
                total = total + found.batch_loss(losses)
                if number % 2 or number == len(found) - 1:
                    total.backward()
                    total = 0.0
    assert found._norms.share == 1.0
    assert len(compared) <= 2  # the last batch of an epoch is alone


def test_gradients_with_nan_are_left_out_and_counted():
    """Rows keep what was known of them, the block does not count, and the report says so."""
    found, net = sampler(), model()
    with found.observing(net):
        epochs_of(found, net, 1)
        found._watch.flush()
        before = found._norms.values.copy()
        counted, elsewhere = 0, set()
        for number, batch in enumerate(found):
            losses = cross_entropy(net(INPUTS[batch]), CLASSES[batch], reduction="none")
            factor = float("nan") if number == 1 else 1.0
            counted += number == 1
            (found.batch_loss(losses) * factor).backward()
            if number == 1:
                spoilt = set(batch)
            else:
                elsewhere |= set(batch)
    assert found.left_out == counted == 1
    assert np.isfinite(found._norms.values).all()
    only_there = list(spoilt - elsewhere)
    np.testing.assert_array_equal(found._norms.values[only_there], before[only_there])
    assert "1 batches left out" in str(found.report())


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("kind", ["graph", "float64"])
def test_gradients_with_a_graph_and_in_double_precision_are_measured(monkeypatch, kind, small):
    """Norms are those of the gradients, and no graph outlives its batch."""
    monkeypatch.setattr("antithetic.torch.norms._SMALL", 1 << 13 if small else 0)
    found, net = sampler(), model()
    inputs = INPUTS.double() if kind == "float64" else INPUTS
    net = net.double() if kind == "float64" else net
    compared, true = [], []
    found.compare = lambda _, square: compared.append(square)
    with found.observing(net):
        found.set_epoch(1)
        for batch in found:
            net.zero_grad()
            losses = cross_entropy(net(inputs[batch]), CLASSES[batch], reduction="none")
            found.batch_loss(losses).backward(create_graph=kind == "graph")
            if found._watch.current.batch.block >= 0:
                true.append(
                    sum(float(one.grad.detach().square().sum()) for one in net.parameters())
                )
            assert not any(seen.slopes.requires_grad for seen in found._watch._kept)
    np.testing.assert_allclose(compared, true, rtol=1e-5)
    assert len(true) > 0
    assert found._norms.share == 1.0


def test_a_reduced_loss_is_refused_while_observing():
    found, net = sampler(), model()
    with found.observing(net):
        batch = next(iter(found))
        loss = cross_entropy(net(INPUTS[batch]), CLASSES[batch])
        with pytest.raises(ValueError, match='reduction="none"; got one number'):
            found.batch_loss(loss)


def test_sparse_gradients_count():
    """Gradients of an EmbeddingBag with sparse=True are part of the norm."""
    words, measured = torch.randint(0, 20, (N, 4), generator=GENERATOR), []
    for sparse in (False, True):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.EmbeddingBag(20, 6, sparse=sparse), torch.nn.Linear(6, K)
        )
        found, squares = sampler(), []
        found.compare = lambda *given, kept=squares: kept.append(given[1])
        with found.observing(net):
            for _ in range(2):
                for batch in found:
                    losses = cross_entropy(net(words[batch]), CLASSES[batch], reduction="none")
                    found.batch_loss(losses).backward()
        measured.append(squares)
    assert measured[0]
    np.testing.assert_allclose(*measured, rtol=1e-5)


def test_an_arm_that_helps_is_switched_on():
    """A few rows have all of the gradient, at a fixed model: importance is used from then on."""
    torch.manual_seed(0)
    n = 2000
    inputs = torch.ones(n, 3)
    inputs[::10] *= 10.0
    targets = torch.randn(n, generator=GENERATOR)
    found = AntitheticBatchSampler(None, targets, 4, arms=["importance"])
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    with found.observing(net):
        for _ in range(3):
            for batch in found:
                losses = mse_loss(net(inputs[batch])[:, 0], targets[batch], reduction="none")
                found.batch_loss(losses).backward()
        report = found.report()
    assert report.arms == ("shuffled", "importance")
    assert report.in_use == (False, True)
    assert report.ratios[1] + report.errors[1] < 1.0
    shares = np.bincount(found._rounds[-1].arms, minlength=4)
    assert shares[3] > 0.9 * shares.sum()


def test_what_the_hook_refuses():
    """The hook refuses passes that do not match the batches."""
    net = model()
    found = sampler()
    with found.observing(net):
        with pytest.raises(ValueError, match="more training passes"):
            net(INPUTS)
        next(iter(found))
        with pytest.raises(ValueError, match="given 40 rows, but the next batch has 8"):
            net(INPUTS)
        with pytest.raises(ValueError, match="already observing"), found.observing(net):
            pass
    found = sampler()
    batches = iter(found)
    rows = next(batches)
    with found.observing(net), pytest.raises(ValueError, match="in the middle of an epoch"):
        net(INPUTS[rows])


class Unused(torch.nn.Module):
    """A model with a linear layer that it does not use."""

    def __init__(self):
        super().__init__()
        self.used, self.idle = torch.nn.Linear(5, K), torch.nn.Linear(5, K)

    def forward(self, inputs):
        return self.used(inputs)


def test_layers_that_cannot_be_observed():
    """Not there, not linear, frozen, shared or not used: the error says which, and what to do."""
    frozen = model()
    frozen[2].requires_grad_(False)
    tied = torch.nn.ModuleDict({"words": torch.nn.Embedding(9, 4), "head": torch.nn.Linear(4, 9)})
    tied["head"].weight = tied["words"].weight
    for net, head, message in (
        (lambda x: x, None, "an nn.Module; got function"),
        (torch.nn.ReLU(), None, r"\(ReLU\) has no nn.Linear"),
        (model(), torch.nn.ReLU(), "last nn.Linear layer; got ReLU"),
        (model(), torch.nn.Linear(6, K), "not a layer of the observed model"),
        (frozen, None, "frozen"),
        (tied, None, "shares its weights with 'words'"),
    ):
        with pytest.raises(ValueError, match=message):
            sampler().observing(net, head)
    assert sampler().observing(frozen, frozen[0]).head is frozen[0]
    found, net = sampler(), Unused()
    with found.observing(net):
        epoch = list(found)
        net(INPUTS[epoch[0]])
        with pytest.raises(ValueError, match="not used in any training pass"):
            next(iter(found))
    found, layer = sampler(), torch.nn.Linear(5, 5)
    shared = torch.nn.Sequential(layer, layer)
    with found.observing(shared):
        batch = next(iter(found))
        with pytest.raises(ValueError, match="a layer that is used several times"):
            shared(INPUTS[batch])
    found, head = sampler(), torch.nn.Linear(5, K)
    with found.observing(head):
        next(iter(found))
        with pytest.raises(ValueError, match=r"output of shape \(2, 4, 3\)"):
            head(INPUTS[:8].reshape(2, 4, 5))
    with pytest.raises(ValueError, match="n_sketch"):
        sampler().observing(model(), n_sketch=0)


def test_batch_norm_is_warned_of_once():
    """Rows of a batch act on each other there, unless it is in eval mode."""
    net = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, K))
    found = sampler()
    watch = found.observing(net)
    with pytest.warns(UserWarning, match=r"batch norm \(1\), so the gradient of a row"), watch:
        pass
    with watch:
        pass
    net[1].eval()
    with sampler().observing(net):
        pass


@pytest.mark.parametrize(
    "make", [sampler, lambda: BalancedBatchSampler(N, 8)], ids=["antithetic", "balanced"]
)
def test_what_may_be_of_other_rows_is_given_up(make):
    """Nothing of the epoch is learnt once a pass does not match the batches."""
    found, net = make(), model()
    with found.observing(net) as watch:
        batches = iter(loader(found))
        for inputs, targets in islice(batches, 3):
            cross_entropy(net(inputs), targets).backward()
        watch.flush()
        seen = found._norms.ever if make is sampler else found.placed
        assert seen.sum() == 24
        next(batches)
        with pytest.raises(ValueError, match="may belong to other rows"):
            net(INPUTS[:3])
        seen = found._norms.ever if make is sampler else found.placed
        assert not seen.any()


def test_an_observer_may_be_used_again():
    """A reused observer starts fresh: it does not wait for batches of its earlier use."""
    found, net = sampler(), model()
    watch = found.observing(net)
    for _ in range(2):
        with watch:
            for number, (inputs, _) in enumerate(loader(found)):
                net(inputs)
                if number == 1:
                    break


def test_the_first_mistake_is_the_one_that_is_told():
    """The first error is raised, even if the batch in the model was not weighed."""
    found, net = sampler(), model()

    def interrupted():
        with found.observing(net):
            epochs_of(found, net, 1)
            for batch in found:
                cross_entropy(net(INPUTS[batch]), CLASSES[batch]).backward()
                if found._watch.current.batch.arm == 3:
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


def test_mixed_precision_does_not_disturb():
    """Under autocast, with a scaled loss, the norms are those of float32 up to its digits."""
    found, plainly, net = sampler(), sampler(), model()
    for one, enabled in ((found, True), (plainly, False)):
        with one.observing(net):
            for batch in one:
                with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                    losses = cross_entropy(net(INPUTS[batch]), CLASSES[batch], reduction="none")
                (one.batch_loss(losses) * 1024.0).backward()
    np.testing.assert_allclose(found._norms.values, plainly._norms.values, rtol=0.05)


def test_wide_inputs_are_not_kept_for_long(monkeypatch):
    """Batches are shown earlier where many numbers would be kept."""
    monkeypatch.setattr(observe, "_MOST_KEPT", 2 * 8 * 6)
    found, net = sampler(), model()
    with found.observing(net) as watch:
        for batch in found:
            step(found, net, batch)
            assert len(watch._kept) <= 2
            assert len(watch._inputs) <= 2


def test_a_loop_that_is_open_when_the_program_ends_does_no_harm():
    """The observer is left then, and must not call PyTorch any more, which would abort."""
    program = """
import torch
from antithetic.torch import BalancedBatchSampler
model, sampler = torch.nn.Linear(3, 2), BalancedBatchSampler(40, 4)
def training():
    with sampler.observing(model):
        for batch in sampler:
            model(torch.ones(4, 3)).sum().backward()
            yield
loop = training()
for _ in range(5):
    next(loop)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_epoch_that_is_broken_off_is_not_an_error():
    """Batches that were handed out but not seen are forgotten, without an error."""
    found, net = sampler(), model()
    with found.observing(net):
        for _ in range(3):
            for number, (inputs, targets) in enumerate(loader(found, workers=1)):
                cross_entropy(net(inputs), targets).backward()
                if number == 1:
                    break
    assert found._norms.seen.any()


def spawn(function, folder, *more):
    torch.multiprocessing.start_processes(
        function, args=(str(folder), *more), nprocs=2, start_method="spawn"
    )
    return [torch.load(folder / str(rank), weights_only=True) for rank in range(2)]


def test_two_processes_follow_the_same_model(tmp_path):
    """Two processes that meet over gloo split each epoch, and test the arms together.

    What both saw is the same in each after it was gathered, bit for bit.
    """
    first, second = spawn(train, tmp_path)
    for name in ("norms", "sums", "weight", "arms"):
        assert torch.equal(first[name], second[name]), name
    assert not torch.equal(first["norms"], torch.ones(N))
    arms = first["arms"]
    assert {0, 1, 2, 3} == set(arms.unique().tolist())
    for one, other in zip(first["epochs"], second["epochs"], strict=True):
        assert [len(batch) for batch in one] == [len(batch) for batch in other] == [4] * 10
    rows = [row for part in (first, second) for batch in part["epochs"][0] for row in batch]
    assert sorted(rows) == list(range(80))
    for epoch in range(1, 3):  # rows of arms that take each at most once
        rows = [
            row
            for part in (first, second)
            for batch, arm in zip(part["epochs"][epoch], arms[epoch].tolist(), strict=True)
            if arm != 3
            for row in batch
        ]
        assert len(rows) == len(set(rows))
    for part in (first, second):
        assert "num_replicas=3, but torch.distributed has 2" in part["refused"]
        assert "before torch.distributed was initialised" in part["early"]
        assert "distributes batches for one" in part["alone"]


def test_processes_that_differ_get_the_same_error(tmp_path):
    """Seeds, rows, features, labels, kinds and observers are compared, and the error names them."""
    first, second = spawn(differ, tmp_path)
    assert first == second
    for name, expected in (
        ("seed", "seed (0, 1)"),
        ("rows", "number of rows (80, 79)"),
        ("features", "checksum of features ("),
        ("labels", "checksum of labels ("),
        ("batch_size", "batch_size (4, 5)"),
        ("observers", "observing (1, 0)"),
        ("heads", "outputs of the observed layer (3, 6)"),
        ("kinds", "samplers of different kinds"),
        ("balanced", "number of rows (80, 79)"),
    ):
        assert expected in first[name], name
    assert first["same"] == ""


def test_processes_that_cannot_meet_are_told():
    """Observing in several processes needs torch.distributed."""
    found = AntitheticBatchSampler(None, CLASSES, 4, num_replicas=2, rank=0)
    with (
        found.observing(model()),
        pytest.raises(RuntimeError, match="init_process_group"),
    ):
        next(iter(found))
