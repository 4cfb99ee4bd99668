"""Train a small CNN in PyTorch with batches that are tested on it while it learns.

The data are 4000 digits of MNIST, or scikit-learn's small digits if MNIST is not available. Two
runs start from the same weights: one with shuffled batches, one with the defaults of
``AntitheticBatchSampler``, which stratifies the first epoch by label and then uses whatever lowers
the variance of the batch gradients on this model. Three lines of the loop change: ``observing``;
``announce``, which says which rows are trained on; and ``batch_loss``, which applies the weights of
rows that were drawn by importance.

The losses printed are means over the batches of an epoch. With a constant learning rate the loss
jumps now and then, with any sampler, so its value at one moment says little.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import antithetic
from antithetic.torch import AntitheticBatchSampler

ROWS, BATCH, EPOCHS = 4000, 16, 6


def load():
    """Pictures with values in [0, 1], and classes."""
    try:
        X, y = antithetic.datasets.load("mnist", return_X_y=True)
        name, X = "MNIST", X[:ROWS].reshape(-1, 1, 28, 28) / 255.0
    except FileNotFoundError:
        X, y = load_digits(return_X_y=True)
        name, X = "scikit-learn's digits", X.reshape(-1, 1, 8, 8) / 16.0
    return (
        name,
        torch.from_numpy(np.asarray(X[:ROWS], dtype=np.float32)),
        torch.from_numpy(np.asarray(y[:ROWS], dtype=np.int64)),
    )


def make_model(X):
    """Two convolutions and a linear layer, always with the same first weights."""
    torch.manual_seed(0)
    stride = 2 if X.shape[-1] > 8 else 1
    body = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride), nn.ReLU(), nn.Conv2d(8, 16, 3, stride), nn.ReLU(), nn.Flatten()
    )
    return nn.Sequential(body, nn.Linear(body(X[:1]).shape[1], 10))


def train(X, y, sampler):
    """Train for some epochs; return the mean loss of the batches of each."""
    loader = DataLoader(sampler.dataset(TensorDataset(X, y)), batch_sampler=sampler)
    model, losses = make_model(X), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with sampler.observing(model):
        for _ in range(EPOCHS):
            total = 0.0
            for batch in loader:
                inputs, targets = sampler.announce(batch)
                optimizer.zero_grad()
                each = nn.functional.cross_entropy(model(inputs), targets, reduction="none")
                loss = sampler.batch_loss(each)
                loss.backward()
                optimizer.step()
                total += loss.item()
            losses.append(total / len(loader))
    return losses


def main():
    torch.set_num_threads(1)
    name, X, y = load()
    shuffled = AntitheticBatchSampler(None, y, BATCH, arms=())
    sampler = AntitheticBatchSampler(None, y, BATCH)
    results = {"shuffled": train(X, y, shuffled), "defaults": train(X, y, sampler)}
    print(f"{name}, {len(y)} pictures, batches of {BATCH}: mean training loss of each epoch\n")
    for label, losses in results.items():
        print(f"{label:<12}" + "".join(f"{loss:>9.4f}" for loss in losses))
    print(f"\nwhat the sampler found on this model:\n\n{sampler.report()}")


if __name__ == "__main__":
    main()
