"""Resuming within an epoch: states of the samplers, alone and in torchdata's loader."""

from __future__ import annotations

import copy
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.utils.data import TensorDataset  # noqa: E402

from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler  # noqa: E402

N = 37
INPUTS = torch.randn(N, 3, generator=torch.Generator().manual_seed(0))
CLASSES = torch.arange(N) % 3


def antithetic(**given):
    return AntitheticBatchSampler(INPUTS, CLASSES, 4, **given)


def grouped(**given):
    return AntitheticBatchSampler(None, CLASSES, 4, arms=["groups", "importance"], **given)


def balanced(**given):
    return BalancedBatchSampler(N, 4, **given)


SAMPLERS = [antithetic, grouped, balanced]


def walk(sampler, steps, observe):
    """Batches of so many steps, epoch after epoch, with their epochs."""
    if not observe:
        return taken(sampler, steps)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 3))
    with sampler.observing(model):
        return taken(sampler, steps, model)


def taken(sampler, steps, model=None):
    found = []
    while len(found) < steps:
        for batch in sampler:
            found.append((sampler.epoch, batch))
            if model is not None:
                # what is seen changes from epoch to epoch, and a resumed run has the same model
                outputs = model(INPUTS[batch] * (1.0 + sampler.epoch))
                losses = torch.nn.functional.cross_entropy(
                    outputs, CLASSES[batch], reduction="none"
                )
                wrapped = isinstance(sampler, AntitheticBatchSampler)
                loss = sampler.batch_loss(losses) if wrapped else losses.mean()
                loss.backward()
            if len(found) == steps:
                return found
    return found


def through_a_file(state, path):
    torch.save(state, path)
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("make", SAMPLERS)
@pytest.mark.parametrize("observe", [False, True])
def test_resuming_equals_not_having_stopped(make, observe, tmp_path):
    """Resuming anywhere in four epochs gives the same batches, with what the test had found.

    The state goes through a file that holds only numbers and tensors.
    """
    whole = walk(make(), 40, observe)
    for stop in (1, 2, 3, 7, 8, 9, 15, 16, 17, 26, 32):  # also around the ends of epochs
        before = make()
        walk(before, stop, observe)
        after = make()
        after.load_state_dict(through_a_file(before.state_dict(), tmp_path / "state"))
        assert walk(after, 40 - stop, observe) == whole[stop:]


def test_a_state_at_the_end_of_an_epoch():
    """After the last batch the rest of its epoch is empty.

    Once the iteration is over, the next epoch follows.
    """
    sampler = antithetic()
    batches = iter(sampler)
    list(islice(batches, len(sampler)))
    again = antithetic()
    again.load_state_dict(sampler.state_dict())
    assert list(again) == []
    assert next(batches, None) is None
    third = antithetic()
    third.load_state_dict(sampler.state_dict())
    assert list(third) == list(again) == list(sampler)


def test_batches_that_were_trained_on():
    """A loader with workers has asked for more; the state can say how many count."""
    sampler, again = antithetic(), antithetic()
    expected = list(antithetic())
    list(islice(sampler, 7))
    again.load_state_dict(sampler.state_dict(batches=2))
    again.set_epoch(0)  # trainers say so, and it changes nothing
    assert list(again) == expected[2:]
    again.load_state_dict(sampler.state_dict(batches=2))
    again.set_epoch(1)  # this does
    other = antithetic()
    other.set_epoch(1)
    assert list(again) == list(other)
    with pytest.raises(ValueError, match="at most 10"):
        sampler.state_dict(batches=11)


def test_states_of_others_are_refused():
    """The message names what differs."""
    state = antithetic().state_dict()
    for other, name in (
        (antithetic(seed=1), "seed"),
        (antithetic(drop_last=True), "drop_last"),
        (balanced(), "kind"),
        (antithetic(arms=[]), "arms"),
        (AntitheticBatchSampler(INPUTS, (CLASSES + 1) % 3, 4), "labels"),
    ):
        with pytest.raises(ValueError, match=f"saved with {name}="):
            other.load_state_dict(state)
    for wrong in ({}, None, {"format": 1}):
        with pytest.raises(ValueError, match="what state_dict"):
            antithetic().load_state_dict(wrong)
    with pytest.raises(ValueError, match="99 batches into an epoch"):
        antithetic().load_state_dict({**state, "batches": 99})
    for make in (balanced, antithetic):
        first, second = (make(num_replicas=2, rank=rank) for rank in range(2))
        with pytest.raises(ValueError, match="to process 0, and this is process 1"):
            second.load_state_dict(first.state_dict())
    state = balanced().state_dict()
    with pytest.raises(ValueError, match="not one of the rows"):
        balanced().load_state_dict({**state, "base": torch.zeros(N, dtype=torch.int64)})


def test_an_earlier_state_replaces_what_was_learnt():
    """Norms, gradients and counts of the test are replaced by those of the state."""
    sampler = antithetic()
    state = copy.deepcopy(sampler.state_dict())
    first = walk(sampler, 30, True)
    assert sampler._norms.share == 1.0
    assert sampler.report().batches[0] > 0
    sampler.load_state_dict(state)
    assert sampler.report().batches[0] == 0
    assert walk(sampler, 30, True) == first


@given(st.integers(0, 4), st.integers(1, 3), st.integers(0, 2))
def test_each_of_several_processes_resumes(stop, replicas, epoch):
    """Each of several processes continues from its own state."""
    for rank in range(replicas):
        place = {"num_replicas": replicas, "rank": rank}
        whole, part, rest = antithetic(**place), antithetic(**place), antithetic(**place)
        for sampler in (whole, part):
            sampler.set_epoch(epoch)
        head = list(islice(part, min(stop, len(part))))
        rest.load_state_dict(part.state_dict())
        if not head:
            rest.set_epoch(epoch)
        assert head + list(rest) == list(whole)


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata's own call
@pytest.mark.parametrize("make", [antithetic, balanced])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_stateful_loader_of_torchdata_resumes(make, workers):
    """The stateful loader resumes within an epoch and at its end, and later epochs agree too."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    data = TensorDataset(torch.arange(N))

    def loader():
        return stateful(data, batch_sampler=make(), num_workers=workers)

    def epochs(one, count):
        return [[rows.tolist() for (rows,) in one] for _ in range(count)]

    expected = epochs(loader(), 3)
    for stop in (2, 10) if workers else (1, 2, 10):
        first = loader()
        batches = iter(first)
        head = [rows.tolist() for (rows,) in islice(batches, stop)]
        state = first.state_dict()
        del batches
        again = loader()
        again.load_state_dict(state)
        tail, *later = epochs(again, 3)
        assert head + tail == expected[0]
        assert later == expected[1:]
    finished = loader()
    epochs(finished, 1)
    again = loader()
    again.load_state_dict(finished.state_dict())
    assert epochs(again, 2) == expected[1:]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata's own call
@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_rows_of_a_stateful_loader_are_known_when_it_resumes(announced, workers):
    """Each pass is of the rows that the loader yields, before and after it resumes."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    model, state, rows_seen = torch.nn.Linear(3, 3), None, []
    for stop in (3, 9):
        sampler = antithetic()
        data = TensorDataset(torch.arange(N), INPUTS)
        data = sampler.dataset(data) if announced else data
        loader = stateful(data, batch_sampler=sampler, num_workers=workers)
        if state is not None:
            loader.load_state_dict(state)
        with sampler.observing(model) as watch:
            for batch in islice(loader, stop):
                rows, inputs = sampler.announce(batch) if announced else batch
                model(inputs).square().mean().backward()
                assert watch.current.batch.rows.tolist() == rows.tolist()
                rows_seen += rows.tolist()
            state = loader.state_dict()
    assert sorted(rows_seen) == list(range(N))
