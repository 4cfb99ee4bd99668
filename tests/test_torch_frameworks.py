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
@pytest.mark.parametrize("announced", [False, True])
def test_lightning(make, announced):
    """Its trainer sets the epoch; what the model is given follows the sampler."""
    lightning = pytest.importorskip("lightning")
    sampler, net, epochs = make(), model(), [[]]
    weighed = getattr(sampler, "batch_loss", torch.mean)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, _):
            rows, inputs, targets = sampler.announce(batch) if announced else batch
            epochs[-1].append(rows.tolist())
            self.log("size", float(len(rows)))
            return weighed(cross_entropy(self.net(inputs), targets, reduction="none"))

        def on_train_epoch_end(self):
            epochs.append([])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", devices=1, barebones=True, use_distributed_sampler=False
    )
    loader = DataLoader(
        sampler.dataset(data()) if announced else data(), batch_sampler=sampler, num_workers=1
    )
    with sampler.observing(net):
        trainer.fit(Module(), loader)
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
    """Batches are announced as they leave a prepared loader, which is one batch ahead."""
    accelerate = pytest.importorskip("accelerate")
    sampler, net = AntitheticBatchSampler(INPUTS, CLASSES, 8), model()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    loader = DataLoader(sampler.dataset(data()), batch_sampler=sampler)
    net, optimiser, loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=0.1), loader
    )
    epochs = []
    with sampler.observing(net) as watch:
        for _ in range(3):
            epochs.append([])
            for batch in loader:
                rows, inputs, targets = sampler.announce(batch)
                epochs[-1].append(rows.tolist())
                with accelerator.accumulate(net):
                    losses = cross_entropy(net(inputs), targets, reduction="none")
                    assert watch.current.batch.rows.tolist() == rows.tolist()
                    accelerator.backward(sampler.batch_loss(losses))
                    optimiser.step()
                    optimiser.zero_grad()
    check(sampler, epochs)


def test_a_prepared_loader_is_refused_without_announcements():
    """It takes a batch before the one it yields is used, as a loop does that skips a batch."""
    accelerate = pytest.importorskip("accelerate")
    sampler, net = AntitheticBatchSampler(INPUTS, CLASSES, 8), model()
    loader = accelerate.Accelerator(cpu=True).prepare(DataLoader(data(), batch_sampler=sampler))
    with sampler.observing(net):
        _, inputs, _ = next(iter(loader))
        with pytest.raises(ValueError, match=r"2 batches were taken.*sampler\.dataset"):
            net(inputs)


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


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("announced", [False, True])
def test_trainer_of_transformers(tmp_path, steps, announced):
    """An override of get_train_dataloader, and of compute_loss for importance, is all it takes.

    If it accumulates gradients, it collects batches first, which therefore must be announced.
    """
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
            if not announced:
                return DataLoader(
                    self.train_dataset, batch_sampler=sampler, collate_fn=self.data_collator
                )
            return DataLoader(
                sampler.dataset(self.train_dataset),
                batch_sampler=sampler,
                collate_fn=sampler.collate(self.data_collator),
            )

        def compute_loss(self, model, inputs, return_outputs=False, **_):
            inputs = sampler.announce(inputs) if announced else inputs
            seen.append(inputs.pop("row").tolist())
            targets = inputs.pop("labels")
            outputs = model(**inputs)
            loss = sampler.batch_loss(cross_entropy(outputs.logits, targets, reduction="none"))
            return (loss, outputs) if return_outputs else loss

    options = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=3, per_device_train_batch_size=8, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        learning_rate=1e-2, gradient_accumulation_steps=steps,
        eval_strategy="epoch" if announced else "no",
    )  # fmt: skip
    trainer = AntitheticTrainer(net, options, train_dataset=rows, eval_dataset=rows[:1])
    with sampler.observing(net):
        if steps > 1 and not announced:
            with pytest.raises(ValueError, match="2 batches were taken"):
                trainer.train()
            return
        trainer.train()
    seen = [batch for batch in seen if len(batch) > 1]  # without those of evaluation
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
