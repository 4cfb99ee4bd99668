"""Use the batch sampler with Lightning: one switch of the trainer, and the loss of the module."""

from __future__ import annotations

import lightning
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from antithetic.torch import AntitheticBatchSampler


class Digits(lightning.LightningModule):
    """A small network; the sampler weighs the losses of the rows of each batch."""

    def __init__(self, sampler):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        self.sampler = sampler

    def training_step(self, batch, _):
        """Return the loss of a batch."""
        inputs, targets = self.sampler.announce(batch)
        losses = nn.functional.cross_entropy(self.net(inputs), targets, reduction="none")
        return self.sampler.batch_loss(losses)

    def configure_optimizers(self):
        """Plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.2)


def main():
    torch.manual_seed(0)
    X, y = load_digits(return_X_y=True)
    X, y = torch.from_numpy((X / 16.0).astype(np.float32)), torch.from_numpy(y)
    sampler = AntitheticBatchSampler(None, y, 16)
    module = Digits(sampler)
    trainer = lightning.Trainer(
        max_epochs=5,
        accelerator="cpu",
        devices=1,
        barebones=True,
        use_distributed_sampler=False,  # the sampler deals out batches by itself
    )
    loader = DataLoader(sampler.dataset(TensorDataset(X, y)), batch_sampler=sampler)
    with sampler.observing(module):
        trainer.fit(module, loader)
    accuracy = (module.net(X).argmax(dim=1) == y).float().mean()
    print(f"training accuracy {accuracy:.3f}\n\n{sampler.report()}")


if __name__ == "__main__":
    main()
