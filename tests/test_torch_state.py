"""Resuming within an epoch: states of the samplers, alone and in torchdata's loader."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.utils.data import TensorDataset  # noqa: E402

from antithetic import GroupTable  # noqa: E402
from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler  # noqa: E402

N = 37
GRADIENTS = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
TABLE = GroupTable(np.random.default_rng(1).permutation(N), 4)


def antithetic(**given):
    return AntitheticBatchSampler(None, None, 8, table=TABLE, **given)


def drawn(**given):
    return AntitheticBatchSampler(GRADIENTS, None, 8, importance=True, **given)


def balanced(**given):
    return BalancedBatchSampler(N, 8, **given)


SAMPLERS = [antithetic, drawn, balanced]


def walk(sampler, steps, observe):
    """Batches of so many steps, epoch after epoch, with their epochs."""
    found = []
    while len(found) < steps:
        for batch in sampler:
            found.append((sampler.epoch, batch))
            if observe:  # what is seen changes from epoch to epoch
                sampler.observe(batch, GRADIENTS[batch] * (1 + np.arange(3) * sampler.epoch))
            if len(found) == steps:
                return found
    return found


def through_a_file(state, path):
    torch.save(state, path)
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("make", SAMPLERS)
@pytest.mark.parametrize("observe", [False, True])
def test_going_on_equals_not_having_stopped(make, observe, tmp_path):
    """Resuming at any batch of three epochs gives the same batches.

    The state goes through a file that holds only numbers and tensors.
    """
    whole = walk(make(), 20, observe)
    for stop in range(1, 15):
        before = make()
        walk(before, stop, observe)
        after = make()
        after.load_state_dict(through_a_file(before.state_dict(), tmp_path / "state"))
        assert walk(after, 20 - stop, observe) == whole[stop:]


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
    list(islice(sampler, 5))
    again.load_state_dict(sampler.state_dict(batches=2))
    again.set_epoch(0)  # trainers say so, and it changes nothing
    assert list(again) == expected[2:]
    again.load_state_dict(sampler.state_dict(batches=2))
    again.set_epoch(1)  # this does
    other = antithetic()
    other.set_epoch(1)
    assert list(again) == list(other)
    with pytest.raises(ValueError, match="at most 5"):
        sampler.state_dict(batches=6)


def test_states_of_others_are_refused():
    """The message names what differs."""
    state = antithetic().state_dict()
    for other, name in (
        (antithetic(seed=1), "seed"),
        (antithetic(drop_last=True), "drop_last"),
        (balanced(), "kind"),
        (drawn(), "table"),
    ):
        with pytest.raises(ValueError, match=f"saved with {name}="):
            other.load_state_dict(state)
    for wrong in ({}, None, {"format": 2}):
        with pytest.raises(ValueError, match="what state_dict"):
            antithetic().load_state_dict(wrong)
    with pytest.raises(ValueError, match="99 batches into an epoch"):
        antithetic().load_state_dict({**state, "batches": 99})
    with pytest.raises(ValueError, match="of process 0, and this is 1"):
        balanced(num_replicas=2, rank=1).load_state_dict(
            balanced(num_replicas=2, rank=0).state_dict()
        )
    state = balanced().state_dict()
    with pytest.raises(ValueError, match="not one of the rows"):
        balanced().load_state_dict({**state, "base": torch.zeros(N, dtype=torch.int64)})


def test_an_earlier_state_takes_back_what_was_learnt():
    """Groups made of what was observed are given up for those of the data."""
    sampler = antithetic()
    state = sampler.state_dict()
    first = walk(sampler, 12, True)
    assert sampler.table is not TABLE
    sampler.load_state_dict(state)
    assert walk(sampler, 12, True) == first


@given(st.integers(0, 4), st.integers(1, 3), st.integers(0, 2))
def test_parts_of_several_processes_go_on_alike(stop, replicas, epoch):
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
def test_the_stateful_loader_of_torchdata_goes_on(make, workers):
    """The stateful loader resumes within an epoch and at its end, and later epochs agree too."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    data = TensorDataset(torch.arange(N))

    def loader():
        return stateful(data, batch_sampler=make(), num_workers=workers)

    def epochs(one, count):
        return [[rows.tolist() for (rows,) in one] for _ in range(count)]

    expected = epochs(loader(), 3)
    for stop in (2, 5) if workers else (1, 2, 5):
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
