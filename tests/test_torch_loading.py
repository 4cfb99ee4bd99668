"""Which rows a training pass has: never guessed wrongly, and exact if batches are announced."""

from __future__ import annotations

from collections import UserDict
from itertools import islice, pairwise
from types import MappingProxyType

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import (  # noqa: E402
    ChainDataset,
    DataLoader,
    Dataset,
    TensorDataset,
    default_collate,
    get_worker_info,
)
from torch_process import CLASSES, INPUTS, K, N, model  # noqa: E402

from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler  # noqa: E402
from antithetic.torch.coordinates import products  # noqa: E402

DATA = TensorDataset(torch.arange(N), INPUTS, CLASSES)


def sampler(**given):
    return AntitheticBatchSampler(None, CLASSES, 8, **given)


def losses_of(net, inputs, targets):
    return cross_entropy(net(inputs), targets, reduction="none")


def true_gradients(net):
    """Gradients of the last layer's weights and bias, row by row, as autograd has them."""
    gradients = []
    for row in range(N):
        loss = losses_of(net, INPUTS[row : row + 1], CLASSES[row : row + 1]).sum()
        weight, bias = torch.autograd.grad(loss, (net[2].weight, net[2].bias))
        gradients.append(torch.cat([weight, bias[:, None]], dim=1).ravel())
    return torch.stack(gradients)


def check_learnt(found, net):
    """What the sampler has learnt of each row is the gradient of this row."""
    expected, memory = true_gradients(net), found._memory
    assert (memory.ever | memory.seen).all()
    np.testing.assert_allclose(
        products(memory.vectors[:, :K], memory.vectors[:, K:]), expected, atol=1e-5
    )
    norms = expected.norm(dim=1)
    np.testing.assert_allclose(found._norms.values, norms / norms.mean(), rtol=0.3)


def record(watch, handed_out):
    """Keep the batches that the sampler hands out."""
    expect = watch.expect
    watch.expect = lambda batch: (handed_out.append(batch), expect(batch))


def check_current(found, rows, handed_out):
    """The pass is of these rows, with the weights and the block that they were handed out with."""
    batch = found._watch.current.batch
    assert batch.rows.tolist() == rows.tolist()
    same = [one for one in handed_out if one.rows.tolist() == rows.tolist()]
    assert [(one.arm, one.block) for one in same] == [(batch.arm, batch.block)]
    expected = np.ones(len(rows)) if same[0].weights is None else same[0].weights
    np.testing.assert_array_equal(found.weights, expected)
    return batch.arm


# ---- without announcements: what does not match is refused before it is used


def train(found, net, loader, passes=MappingProxyType({})):
    """Train an epoch, with one pass per batch unless ``passes`` has another number for it."""
    for number, (rows, inputs, targets) in enumerate(loader):
        for _ in range(passes.get(number, 1)):
            loss = losses_of(net, inputs, targets).mean()
            assert found._watch.current.batch.rows.tolist() == rows.tolist()
            loss.backward()


MAKERS = {"antithetic": sampler, "balanced": lambda: BalancedBatchSampler(N, 8)}


@pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 1}, {"num_workers": 2}, {"num_workers": 2, "prefetch_factor": 3}],
    ids=["no workers", "2 ahead", "4 ahead", "all ahead"],
)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_pass_is_of_the_batch_that_was_yielded_or_refused(make, options):
    """A pass for each batch is accepted, however many batches the loader fetches ahead.

    A second pass of the same batch and a pass after a skipped batch are refused at once.
    """
    found, net = make(), model()
    loader = DataLoader(DATA, batch_sampler=found, **options)
    with found.observing(net):
        for _ in range(2):
            train(found, net, loader)
        for times, message in ((2, "more training passes"), (0, "2 batches were taken")):
            for place in (0, 1, 3):
                with pytest.raises(ValueError, match=f"{message}.*may belong to other rows"):
                    train(found, net, loader, {place: times})


def test_a_batch_that_is_skipped_at_the_end_is_refused_when_the_next_epoch_begins():
    found, net = sampler(), model()
    loader = DataLoader(DATA, batch_sampler=found)
    with found.observing(net):
        train(found, net, loader, {3: 0, 4: 0})
        with pytest.raises(ValueError, match="did not see the last 2 batches"):
            next(iter(loader))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_leaving_an_epoch_at_any_batch_is_no_error(workers):
    found, net = sampler(), model()
    loader = DataLoader(DATA, batch_sampler=found, num_workers=workers)
    with found.observing(net):
        for stop in range(5):
            for number, (_, inputs, targets) in enumerate(loader):
                if number == stop:
                    break
                losses_of(net, inputs, targets).mean().backward()
        assert found._norms.ever.any()


def test_a_loader_that_changes_the_order_of_batches_is_refused():
    """One worker cannot change it."""
    found, net = sampler(), model()
    with found.observing(net):
        with pytest.raises(ValueError, match=r"in_order=False.*sampler\.dataset"):
            iter(DataLoader(DATA, batch_sampler=found, num_workers=2, in_order=False))
        loader = DataLoader(DATA, batch_sampler=found, num_workers=1, in_order=False)
        train(found, net, loader)


def test_batches_that_other_code_takes_ahead_are_refused():
    """As a loader does that looks for the end, and a loop that collects batches first."""
    found, net = sampler(), model()
    with found.observing(net):
        ahead = pairwise(DataLoader(DATA, batch_sampler=found))
        (_, inputs, _), _ = next(ahead)
        with pytest.raises(ValueError, match=r"2 batches were taken.*sampler\.announce"):
            net(inputs)


# ---- with announcements: everything is exact


class Gated(Dataset):
    """Rows whose first worker waits until a batch of another worker has arrived."""

    def __init__(self, gate):
        self.gate = gate

    def __len__(self):
        return N

    def __getitem__(self, row):
        worker = get_worker_info()
        if worker is not None and worker.id == 0:
            self.gate.wait()
        return DATA[row]


def test_rows_are_right_if_batches_come_in_another_order():
    """Gradients, weights and arms are those of the rows that a worker sends, not of the queue."""
    gate, found, net = (
        torch.multiprocessing.Event(),
        sampler(arms=["groups", "importance"]),
        model(),
    )
    loader = DataLoader(
        found.dataset(Gated(gate)), batch_sampler=found, num_workers=2, in_order=False
    )
    arms = set()
    with found.observing(net) as watch:
        for _ in range(4):
            handed_out, order = [], []
            record(watch, handed_out)
            gate.clear()
            for batch in loader:
                gate.set()
                rows, inputs, targets = found.announce(batch)
                found.batch_loss(losses_of(net, inputs, targets)).backward()
                order.append(rows.tolist())
                arms.add(check_current(found, rows, handed_out))
            expected = [batch.rows.tolist() for batch in handed_out]
            assert order != expected
            assert sorted(order) == sorted(expected)
    assert arms == {0, 2, 3}
    check_learnt(found, net)


def pad(samples):
    """Sequences of different lengths, padded."""
    sequences = [inputs[: 1 + int(row) % 5] for row, inputs, _ in samples]
    return {
        "rows": torch.stack([row for row, _, _ in samples]),
        "inputs": torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True),
        "lengths": [len(one) for one in sequences],
    }


class Words(Dataset):
    """Samples that are dictionaries, fetched a batch at a time, as data sets of text have them."""

    def __getitem__(self, row):
        return {"row": row, "text": f"row {row}", "inputs": INPUTS[row].numpy()}

    def __getitems__(self, rows):
        return [self[row] for row in rows]


CASES = {
    "tuples": (DATA, None),
    "tensors": (INPUTS, None),
    "dictionaries": (Words(), None),
    "padded": (DATA, pad),
    "mapping": (Words(), lambda samples: UserDict(default_collate(samples))),
    "list": (Words(), list),
    "object": (DATA, lambda samples: frozenset(int(row) for row, _, _ in samples)),
}


def plain(batch):
    """Return a batch as something that can be compared."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, np.ndarray):
        return [batch.dtype, batch.tolist()]
    if isinstance(batch, (dict, UserDict)):
        return type(batch), {name: plain(value) for name, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch), [plain(value) for value in batch]
    return batch


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_batches_are_those_of_a_loader_without_the_sampler(case, workers):
    """Whatever the samples and the collate function are, and as they arrive from workers."""
    data, function = case
    found, twin = sampler(), sampler()
    carried = {} if function is None else {"collate_fn": found.collate(function)}
    loader = DataLoader(found.dataset(data), batch_sampler=found, num_workers=workers, **carried)
    other = DataLoader(data, batch_sampler=twin, num_workers=workers, collate_fn=function)
    pairs = list(zip(loader, other, strict=True))
    assert len(pairs) == 5
    for batch, expected in pairs:
        assert plain(found.announce(batch)) == plain(expected)
        assert found.announced.rows.tolist() == batch[0].handed


def test_started_processes_carry_rows():
    """Workers that are not forked get the data set and the collate function by pickling."""
    found = sampler()
    loader = DataLoader(
        found.dataset(DATA), batch_sampler=found, num_workers=1,
        collate_fn=found.collate(default_collate), multiprocessing_context="spawn",
    )  # fmt: skip
    for batch in loader:
        rows, _, _ = found.announce(batch)
        assert found.announced.rows.tolist() == rows.tolist()


def skipping(found, net, loader):
    """Skip batches, and use others again later."""
    kept = []
    for number, batch in enumerate(loader):
        kept.append(batch)
        if number % 3 != 1:
            yield from one_pass(found, net, batch)
    yield from one_pass(found, net, kept[1])
    yield from one_pass(found, net, kept[0])
    yield from one_pass(found, net, kept[4])


def one_pass(found, net, batch):
    rows, inputs, targets = found.announce(batch)
    net.zero_grad()
    loss = found.batch_loss(losses_of(net, inputs, targets))
    yield rows, loss
    loss.backward()


def sharpness(found, net, loader):
    """Sharpness-aware minimisation: the gradient at the weights, and at perturbed ones."""
    for batch in loader:
        rows, inputs, targets = found.announce(batch)
        for _ in range(2):
            net.zero_grad()
            loss = found.batch_loss(losses_of(net, inputs, targets))
            yield rows, loss
            (loss * 1024.0).backward()


def regularised(found, net, loader):
    """R-Drop: two passes, one loss."""
    for batch in loader:
        rows, inputs, targets = found.announce(batch)
        net.zero_grad()
        first, second = losses_of(net, inputs, targets), losses_of(net, inputs, targets)
        loss = found.batch_loss(first + second)
        yield rows, loss
        (loss * 1024.0).backward()


def accumulated(found, net, loader):
    """Batches are collected first, then passed one after the other, as Trainer does."""
    batches = iter(loader)
    while group := list(islice(batches, 2)):
        net.zero_grad()
        for batch in group:
            rows, inputs, targets = found.announce(batch)
            loss = found.batch_loss(losses_of(net, inputs, targets))
            yield rows, loss
            (loss / 2.0).backward()


LOOPS = [skipping, sharpness, regularised, accumulated]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("loop", LOOPS)
def test_any_loop_over_announced_batches_is_exact(loop, workers):
    """Rows, weights and gradients are right, and each batch takes part in the test once."""
    found, net = sampler(arms=["groups", "importance"]), model()
    loader = DataLoader(found.dataset(DATA), batch_sampler=found, num_workers=workers)
    twin, squares, arms = model(), {}, set()
    compare = found.compare
    found.compare = lambda batch, square: (
        squares.setdefault((found.epoch, *batch.rows), []).append((batch, square)),
        compare(batch, square),
    )
    with found.observing(net) as watch:
        for _ in range(4):
            handed_out = []
            record(watch, handed_out)
            for rows, loss in loop(found, net, loader):
                arms.add(check_current(found, rows, handed_out))
                each = losses_of(twin, INPUTS[rows], CLASSES[rows])
                times = 2 if loop is regularised else 1
                torch.testing.assert_close(loss, times * (found.weights * each).sum() / 8)
        watch.flush()
    assert arms == {0, 2, 3}
    check_learnt(found, net)
    assert len(squares) > 4
    for (_, *rows), [(batch, square)] in squares.items():
        weights = 1.0 if batch.weights is None else torch.from_numpy(batch.weights)
        loss = (weights * losses_of(twin, INPUTS[rows], CLASSES[rows])).sum() / 8
        gradients = torch.autograd.grad(loss, list(twin.parameters()))
        expected = sum(float(one.square().sum()) for one in gradients)
        assert square == pytest.approx(expected * (4 if loop is regularised else 1), rel=1e-4)


def test_the_balanced_order_learns_the_first_pass_of_each_row():
    """The next order is the same as after one pass for each batch."""
    found, once, net = BalancedBatchSampler(N, 8), BalancedBatchSampler(N, 8), model()
    loader = DataLoader(found.dataset(DATA), batch_sampler=found)
    with found.observing(net):
        for batch in loader:
            _, inputs, targets = found.announce(batch)
            for _ in range(3):
                losses_of(net, inputs, targets).mean().backward()
    with once.observing(net):
        for rows in once:
            losses_of(net, INPUTS[rows], CLASSES[rows]).mean().backward()
    assert list(found) == list(once)


def test_lists_of_rows_can_be_announced_as_the_sampler_yields_them():
    """Without a loader, and with several passes of a batch; once announced, all must be."""
    found, net = sampler(arms=["groups", "importance"]), model()
    with found.observing(net):
        for _ in range(3):
            for batch in found:
                assert found.announce(batch) is batch
                for _ in range(2):
                    losses = losses_of(net, INPUTS[batch], CLASSES[batch])
                    found.batch_loss(losses).backward()
        found._watch.flush()
        check_learnt(found, model())
        next(iter(found))
        with pytest.raises(ValueError, match="was not announced; call"):
            net(INPUTS[:8])


def test_weights_of_announced_batches_need_no_observer():
    """A batch drawn by importance keeps its weights if observing ends within the epoch."""
    found, net = sampler(arms=["importance"]), model()
    loader, weighted = DataLoader(found.dataset(DATA), batch_sampler=found), 0
    with found.observing(net):
        for batch in loader:
            _, inputs, targets = found.announce(batch)
            found.batch_loss(losses_of(net, inputs, targets)).backward()
        rest = iter(loader)
        next(rest)
    for batch in rest:
        _, inputs, targets = found.announce(batch)
        losses = losses_of(net, inputs, targets)
        torch.testing.assert_close(found.batch_loss(losses), (found.weights * losses).sum() / 8)
        weighted += len(found.weights.unique()) > 1
    assert weighted > 0


def carried(found, data=DATA, **options):
    return DataLoader(found.dataset(data), batch_sampler=found, **options)


def of_another(found):
    return found.announce(next(iter(carried(sampler(seed=1)))))


def of_an_earlier_epoch(found):
    loader = carried(found)
    first = next(iter(loader))
    next(iter(loader))
    return found.announce(first)


def without_announcing(found):
    return model_of(found)(next(iter(carried(found)))[1][1])


def twice_in_one_pass(found):
    _, inputs, _ = found.announce(next(iter(carried(found))))
    return model_of(found)(torch.cat([inputs, inputs]))


def loss_before_pass(found):
    batches = iter(carried(found))
    _, inputs, targets = found.announce(next(batches))
    losses = losses_of(model_of(found), inputs, targets)
    found.announce(next(batches))
    return found.batch_loss(losses)


def model_of(found):
    return found._watch._model


@pytest.mark.parametrize(
    ("kind", "use", "message"),
    [
        (TypeError, lambda s: next(iter(carried(s, collate_fn=pad))), "row numbers would be lost"),
        (
            TypeError,
            lambda s: next(iter(DataLoader(DATA, batch_sampler=s, collate_fn=s.collate(pad)))),
            r"samples without row numbers.*sampler\.dataset\(dataset\)",
        ),
        (
            TypeError,
            lambda s: next(iter(DataLoader(s.dataset(DATA), 8, collate_fn=s.collate(pad)))),
            "batch_sampler=sampler",
        ),
        (
            ValueError,
            lambda s: s.announce(next(iter(DataLoader(DATA, batch_sampler=s)))),
            r"no row numbers.*sampler\.dataset",
        ),
        (ValueError, lambda s: s.announce(list(range(8))), "no row numbers"),
        (ValueError, of_another, "batch 0 of epoch 0 was announced, which this sampler did not"),
        (ValueError, of_an_earlier_epoch, "batch 0 of epoch 0 .* in its current epoch, 1"),
        (ValueError, without_announcing, "was not announced"),
        (ValueError, twice_in_one_pass, "given 16 rows, but the batch that was announced has 8"),
        (ValueError, loss_before_pass, "before the forward pass of the batch"),
        (ValueError, lambda s: s.dataset(INPUTS[1:]), "39 samples and the sampler 40 rows"),
        (ValueError, lambda s: s.dataset(ChainDataset([])), "got ChainDataset"),
        (ValueError, lambda s: s.collate(None), "needs a collate function; got NoneType"),
    ],
)
def test_what_would_lose_row_numbers_is_refused(kind, use, message):
    """The error says what to do instead."""
    found = sampler()
    with found.observing(model()), pytest.raises(kind, match=message):
        use(found)


def test_batches_of_other_loaders_are_returned_as_they_are():
    """Validation batches while the model is in evaluation mode, and any batch without observing."""
    found, net = sampler(), model()
    batch = INPUTS[:3]
    assert found.announce(batch) is batch
    with found.observing(net):
        found.announce(next(iter(carried(found))))
        net.eval()
        assert found.announce(batch) is batch
        net(batch)
    assert len(found.dataset(DATA)) == N
    assert torch.equal(found.dataset(DATA)[3][1], INPUTS[3])
    rows, _, _ = next(iter(DataLoader(found.dataset(DATA), 8)))  # a loader of its own
    assert rows.tolist() == list(range(8))
