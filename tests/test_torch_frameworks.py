"""Training with Lightning and accelerate: epochs differ, and each row comes once.

What would split groups is refused, or keeps them whole.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch_process import CLASSES, INPUTS, N, model  # noqa: E402

from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler  # noqa: E402

# The frameworks warn about loggers, workers and each other.
pytestmark = pytest.mark.filterwarnings("ignore")


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
    """If Lightning replaces the sampler, our error names the switch that prevents it.

    It does so with several processes unless told not to.
    """
    utilities = pytest.importorskip("lightning.pytorch.utilities.data")
    from lightning.pytorch.trainer.states import RunningStage

    loader = DataLoader(data(), batch_sampler=AntitheticBatchSampler(INPUTS, CLASSES, 8))
    sampler = torch.utils.data.DistributedSampler(data(), num_replicas=2, rank=0)
    with pytest.raises(TypeError, match="use_distributed_sampler=False"):
        utilities._update_dataloader(loader, sampler, mode=RunningStage.TRAINING)


def test_accelerate():
    """The hook follows a prepared loader, which sets the epoch and is one batch ahead."""
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
    """Batches that accelerate splits between processes are all batches of the sampler.

    The sampler is told of one process.
    """
    shard = pytest.importorskip("accelerate.data_loader").BatchSamplerShard

    def sampler():
        return AntitheticBatchSampler(INPUTS, CLASSES, 4, num_replicas=1, rank=0, drop_last=True)

    whole = list(sampler())
    parts = [list(shard(sampler(), num_processes=2, process_index=rank)) for rank in range(2)]
    assert [len(part) for part in parts] == [5, 5]
    assert sorted(parts[0] + parts[1]) == sorted(whole)
