"""Train softmax regression in PyTorch with antithetic batches.

The exact variance of the batch gradients is measured.

The data are 1000 digits of MNIST, or scikit-learn's small digits where MNIST is not at hand. Three
loaders train the same model from the same weights: one with ``shuffle=True``, one whose batches are
made of antithetic groups from the data alone, and one whose groups follow the model. The variance
of an epoch is the mean of ``|g_B - g|^2`` over its batches, at the weights with which it begins; 1
is what random batches have on average.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import antithetic
from antithetic.torch import AntitheticBatchSampler

ROWS, BATCH, EPOCHS, SHOWN = 1000, 64, 6, (0, 1, 2, 5)


def load():
    """Rows with values in [0, 1], and classes."""
    try:
        X, y = antithetic.datasets.load("mnist", return_X_y=True)
        name, X = "MNIST", X[:ROWS] / 255.0
    except FileNotFoundError:
        X, y = load_digits(return_X_y=True)
        name, X = "scikit-learn's digits", X / 16.0
    return (
        name,
        torch.from_numpy(np.asarray(X[:ROWS], dtype=np.float32)),
        torch.from_numpy(np.asarray(y[:ROWS], dtype=np.int64)),
    )


def row_gradients(model, X, y):
    """Gradients of each row's loss by weights and bias: the outer product of slopes and inputs."""
    with torch.no_grad():
        slopes = torch.softmax(model(X), dim=1) - torch.nn.functional.one_hot(y, 10)
    return torch.cat([(slopes[:, :, None] * X[:, None]).flatten(1), slopes], dim=1)


def variance_ratio(gradients, batches):
    """Variance of the full batches relative to random ones.

    The mean of |g_B - g|^2 over the full batches, divided by its mean over all possible batches, (n
    - b)/(n - 1) Var/b.
    """
    n, g = len(gradients), gradients.mean(dim=0)
    error = np.mean(
        [
            float((gradients[rows].mean(dim=0) - g).square().sum())
            for rows in batches
            if len(rows) == BATCH
        ]
    )
    variance = float((gradients - g).square().sum(dim=1).mean())
    return error / ((n - BATCH) / (n - 1) * variance / BATCH)


def train(X, y, loader, observing=None):
    """Train for some epochs; return the ratios of those to be shown, and the loss at the end."""
    torch.manual_seed(0)
    model = torch.nn.Linear(X.shape[1], 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ratios = []
    with observing(model) if observing else nullcontext():
        for epoch in range(EPOCHS):
            gradients, batches = row_gradients(model, X, y) if epoch in SHOWN else None, []
            for inputs, targets, rows in loader:
                batches.append(rows)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
            if gradients is not None:
                ratios.append(variance_ratio(gradients, batches))
    with torch.no_grad():
        return ratios, float(torch.nn.functional.cross_entropy(model(X), y))


def main():
    name, X, y = load()
    dataset = TensorDataset(X, y, torch.arange(len(y)))
    from_data = AntitheticBatchSampler(X, y, BATCH)
    following = AntitheticBatchSampler(X, y, BATCH, table=from_data.table)  # which it begins with
    results = {
        "shuffle=True": train(
            X,
            y,
            DataLoader(dataset, BATCH, shuffle=True, generator=torch.Generator().manual_seed(0)),
        ),
        "antithetic, from the data": train(X, y, DataLoader(dataset, batch_sampler=from_data)),
        "antithetic, observed": train(
            X, y, DataLoader(dataset, batch_sampler=following), following.observing
        ),
    }
    print(f"{name}, {len(y)} x {X.shape[1]}: softmax regression, batches of {BATCH}\n")
    print(
        f"{'variance of batch gradients in epoch':<38}"
        + "".join(f"{epoch:>7}" for epoch in SHOWN)
        + "   loss at the end"
    )
    for label, (ratios, loss) in results.items():
        print(f"{label:<38}" + "".join(f"{ratio:>7.2f}" for ratio in ratios) + f"   {loss:.4f}")


if __name__ == "__main__":
    main()
