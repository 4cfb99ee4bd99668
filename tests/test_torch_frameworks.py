"""Training with Lightning, accelerate, Trainer and sentence-transformers.

Epochs differ, arms are tested on the model, and what would split batches is refused.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch_process import CLASSES, INPUTS, N, model  # noqa: E402

from antithetic.torch import (  # noqa: E402
    AntitheticBatchSampler,
    BalancedBatchSampler,
    sentence_batch_sampler,
)

# The frameworks warn about loggers, workers and each other.
pytestmark = pytest.mark.filterwarnings("ignore")


def data():
    return TensorDataset(torch.arange(N), INPUTS, CLASSES)


def check(sampler, epochs):
    """The first epoch has each row once, all are of one length, and all arms were tried."""
    assert len(epochs) == 3
    assert len({str(epoch) for epoch in epochs}) == 3
    assert sorted(row for batch in epochs[0] for row in batch) == list(range(N))
    assert [[len(batch) for batch in epoch] for epoch in epochs] == [[8] * 5] * 3
    if isinstance(sampler, AntitheticBatchSampler):
        report = sampler.report()
        assert report.arms == ("shuffled", "stratified", "importance")
        assert min(report.batches) >= 1
        assert sampler._norms.share == 1.0


@pytest.mark.parametrize(
    "make",
    [lambda: AntitheticBatchSampler(INPUTS, CLASSES, 8), lambda: BalancedBatchSampler(N, 8)],
    ids=["antithetic", "balanced"],
)
def test_lightning(make):
    """Its trainer sets the epoch; what the model is given follows the sampler."""
    lightning = pytest.importorskip("lightning")
    sampler, net, epochs = make(), model(), [[]]
    weighed = getattr(sampler, "batch_loss", torch.mean)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, _):
            rows, inputs, targets = batch
            epochs[-1].append(rows.tolist())
            return weighed(cross_entropy(self.net(inputs), targets, reduction="none"))

        def on_train_epoch_end(self):
            epochs.append([])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", devices=1, barebones=True, use_distributed_sampler=False
    )
    with sampler.observing(net):
        trainer.fit(Module(), DataLoader(data(), batch_sampler=sampler))
    epochs.pop()
    check(sampler, epochs)
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
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    net, optimiser, loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=0.1), DataLoader(data(), batch_sampler=sampler)
    )
    epochs = []
    with sampler.observing(net):
        for _ in range(3):
            epochs.append([])
            for rows, inputs, targets in loader:
                epochs[-1].append(rows.tolist())
                with accelerator.accumulate(net):
                    losses = cross_entropy(net(inputs), targets, reduction="none")
                    accelerator.backward(sampler.batch_loss(losses))
                    optimiser.step()
                    optimiser.zero_grad()
    check(sampler, epochs)


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


def test_trainer_of_transformers(tmp_path):
    """An override of get_train_dataloader, and of compute_loss for importance, is all it takes."""
    transformers = pytest.importorskip("transformers")
    words = torch.randint(1, 50, (N, 6), generator=torch.Generator().manual_seed(0))
    rows = [{"input_ids": words[i], "labels": CLASSES[i], "row": torch.tensor(i)} for i in range(N)]
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, num_labels=3,
    )  # fmt: skip
    net = transformers.BertForSequenceClassification(config)
    sampler, seen = AntitheticBatchSampler(None, CLASSES, 8), []

    class AntitheticTrainer(transformers.Trainer):
        def get_train_dataloader(self):
            return DataLoader(
                self.train_dataset, batch_sampler=sampler, collate_fn=self.data_collator
            )

        def compute_loss(self, model, inputs, **_):
            seen.append(inputs.pop("row").tolist())
            targets = inputs.pop("labels")
            logits = model(**inputs).logits
            return sampler.batch_loss(cross_entropy(logits, targets, reduction="none"))

    options = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=3, per_device_train_batch_size=8, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        learning_rate=1e-2,
    )  # fmt: skip
    with sampler.observing(net):
        AntitheticTrainer(net, options, train_dataset=rows).train()
    check(sampler, [seen[:5], seen[5:10], seen[10:]])


class Columns(dict):
    """What the adapter needs of a data set of sentence-transformers."""

    column_names = property(list)

    def __len__(self):
        return N


def trainer_sampler(columns):
    """What their trainer gets from its batch_sampler argument, through its own method."""
    kind = pytest.importorskip("sentence_transformers").SentenceTransformerTrainer
    trainer = SimpleNamespace(args=SimpleNamespace(batch_sampler=sentence_batch_sampler))
    generator = torch.Generator().manual_seed(5)
    return kind.get_batch_sampler(
        trainer, Columns(columns), 8, False, ["label", "score"], generator, 5
    )


def test_sentence_transformers_get_stratified_batches():
    """Their trainer's own method calls the adapter; each class has its proportion."""
    labels = np.repeat([0, 1], N // 2)
    sampler = trainer_sampler({"sentence": ["a"] * N, "label": labels.tolist()})
    assert isinstance(sampler, AntitheticBatchSampler)
    epochs = [list(sampler) for _ in range(2)]
    assert epochs[0] != epochs[1]
    for batch in epochs[0] + epochs[1]:
        assert abs(int(labels[batch].sum()) - 4) <= 1
    scores = trainer_sampler({"score": np.linspace(0.0, 1.0, N).tolist(), "sentence": ["a"] * N})
    assert sorted(row for batch in scores for row in batch) == list(range(N))


def test_in_batch_negatives_are_warned_of():
    """A data set without labels is trained against the other rows of a batch."""
    with pytest.warns(UserWarning, match="other rows of a batch as negatives"):
        sampler = trainer_sampler({"anchor": ["a"] * N, "positive": ["b"] * N})
    assert sorted(row for batch in sampler for row in batch) == list(range(N))
    assert sampler.report().arms == ("shuffled",)
