"""Training with Lightning and with accelerate: epochs differ, each row comes once, and what would part groups is refused or kept whole."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch_process import CLASSES, INPUTS, N, model  # noqa: E402

from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # of the frameworks, about loggers, workers and each other


def data():
    return TensorDataset(torch.arange(N), INPUTS, CLASSES)


@pytest.mark.parametrize(
    "make",
    [lambda: AntitheticBatchSampler(INPUTS, CLASSES, 8), lambda: BalancedBatchSampler(N, 8)],
    ids=["antithetic", "balanced"],
)
def test_lightning(make):
    """Its trainer sets the epoch; what the model is given follows the sampler, observed or not."""
    lightning = pytest.importorskip("lightning")
    sampler, net, epochs = make(), model(), [[]]

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, _):
            rows, inputs, targets = batch
            epochs[-1].append(rows.tolist())
            return cross_entropy(self.net(inputs), targets)

        def on_train_epoch_end(self):
            epochs.append([])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", devices=1, barebones=True, use_distributed_sampler=False
    )
    with sampler.observing(net[2], targets=CLASSES):
        trainer.fit(Module(), DataLoader(data(), batch_sampler=sampler))
    epochs.pop()
    assert len(epochs) == 3
    assert all(
        sorted(row for batch in epoch for row in batch) == list(range(N)) for epoch in epochs
    )
    assert len({str(epoch) for epoch in epochs}) == 3
    assert sampler.epoch in (2, 3)


def test_lightning_may_not_put_its_own_sampler_in():
    """What it does with several processes unless told not to: our message says which switch to set."""
    utilities = pytest.importorskip("lightning.pytorch.utilities.data")
    from lightning.pytorch.trainer.states import RunningStage

    loader = DataLoader(data(), batch_sampler=AntitheticBatchSampler(INPUTS, CLASSES, 8))
    sampler = torch.utils.data.DistributedSampler(data(), num_replicas=2, rank=0)
    with pytest.raises(TypeError, match="use_distributed_sampler=False"):
        utilities._update_dataloader(loader, sampler, mode=RunningStage.TRAINING)


def test_accelerate():
    """A prepared loader sets the epoch by itself and is one batch ahead of the model, which the hook follows."""
    accelerate = pytest.importorskip("accelerate")
    sampler, net = AntitheticBatchSampler(INPUTS, CLASSES, 8), model()
    accelerator = accelerate.Accelerator(cpu=True)
    net, optimiser, loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=0.1), DataLoader(data(), batch_sampler=sampler)
    )
    first, epochs = sampler.table, []
    with sampler.observing(net[2]):
        for _ in range(3):
            epochs.append([])
            for rows, inputs, targets in loader:
                epochs[-1].append(rows.tolist())
                optimiser.zero_grad()
                accelerator.backward(cross_entropy(net(inputs), targets))
                optimiser.step()
    assert all(
        sorted(row for batch in epoch for row in batch) == list(range(N)) for epoch in epochs
    )
    assert len({str(epoch) for epoch in epochs}) == 3
    assert sampler.table is not first


def test_accelerate_deals_out_whole_batches():
    """With its own splitting of a sampler that is told of one process, every batch of every process is one of the sampler's."""
    shard = pytest.importorskip("accelerate.data_loader").BatchSamplerShard

    def sampler():
        return AntitheticBatchSampler(INPUTS, CLASSES, 4, num_replicas=1, rank=0, drop_last=True)

    whole = list(sampler())
    parts = [list(shard(sampler(), num_processes=2, process_index=rank)) for rank in range(2)]
    assert [len(part) for part in parts] == [5, 5]
    assert sorted(parts[0] + parts[1]) == sorted(whole)
