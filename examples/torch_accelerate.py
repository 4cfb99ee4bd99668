"""Use the batch sampler with accelerate: prepare the model and the optimiser, not the loader.

With several processes (``accelerate launch``) the sampler deals out whole batches by itself, and
the processes test the arms together.
"""

from __future__ import annotations

import accelerate
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from antithetic.torch import AntitheticBatchSampler


def main():
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    X, y = load_digits(return_X_y=True)
    X, y = torch.from_numpy((X / 16.0).astype(np.float32)), torch.from_numpy(y)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    model, optimizer = accelerator.prepare(model, optimizer)
    # after the Accelerator, which knows how many processes there are
    sampler = AntitheticBatchSampler(None, y, 16)
    loader = DataLoader(sampler.dataset(TensorDataset(X, y)), batch_sampler=sampler)
    with sampler.observing(model):
        for _ in range(5):
            for batch in loader:
                inputs, targets = sampler.announce(batch)
                inputs, targets = inputs.to(accelerator.device), targets.to(accelerator.device)
                with accelerator.accumulate(model):
                    losses = nn.functional.cross_entropy(model(inputs), targets, reduction="none")
                    accelerator.backward(sampler.batch_loss(losses))
                    optimizer.step()
                    optimizer.zero_grad()
    accuracy = (model(X.to(accelerator.device)).argmax(dim=1).cpu() == y).float().mean()
    accelerator.print(f"training accuracy {accuracy:.3f}\n\n{sampler.report()}")


if __name__ == "__main__":
    main()
