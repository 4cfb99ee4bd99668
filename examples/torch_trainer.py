"""Use the batch sampler with the Trainer of Hugging Face transformers: two short overrides.

``get_train_dataloader`` hands out the sampler's batches with their row numbers;
``compute_loss`` announces them and weighs the rows that were drawn by importance. The model is a
very small one with random weights, so that nothing need be downloaded; it learns whether a made
sentence has more words of the first kind than of the second.
"""

from __future__ import annotations

import tempfile

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from antithetic.torch import AntitheticBatchSampler


class AntitheticTrainer(Trainer):
    """A Trainer whose batches come from a sampler of antithetic.torch."""

    def __init__(self, *given, sampler, **options):
        super().__init__(*given, **options)
        self.sampler = sampler

    def get_train_dataloader(self):
        """Return a loader that is not prepared: the sampler deals out batches by itself."""
        return DataLoader(
            self.sampler.dataset(self.train_dataset),
            batch_sampler=self.sampler,
            collate_fn=self.sampler.collate(self.data_collator),
        )

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        """Return the loss of a batch, from the losses of its rows."""
        inputs = self.sampler.announce(inputs)
        targets = inputs.pop("labels")
        outputs = model(**inputs)
        loss = self.sampler.batch_loss(cross_entropy(outputs.logits, targets, reduction="none"))
        return (loss, outputs) if return_outputs else loss


def main():
    torch.manual_seed(0)
    words = torch.randint(1, 50, (600, 11))
    classes = ((words < 25).sum(dim=1) > 5).long()
    rows = [{"input_ids": w, "labels": c} for w, c in zip(words, classes, strict=True)]
    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    model, sampler = BertForSequenceClassification(config), AntitheticBatchSampler(None, classes, 8)
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            num_train_epochs=4,
            per_device_train_batch_size=8,
            learning_rate=3e-3,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = AntitheticTrainer(model, options, train_dataset=rows, sampler=sampler)
        with sampler.observing(model):
            trainer.train()
    model.eval()
    accuracy = (model(input_ids=words).logits.argmax(dim=1) == classes).float().mean()
    print(f"training accuracy {accuracy:.3f}\n\n{sampler.report()}")


if __name__ == "__main__":
    main()
