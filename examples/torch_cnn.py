"""Train a small CNN in PyTorch with batches that follow its last layer.

The exact variance of the batch gradients is measured.

The data are 1000 digits of MNIST, or scikit-learn's small digits where MNIST is not at hand. The
batches of the first epoch are made from the pixels. While the network learns, its last layer is
observed, and each epoch's batches are made of what was seen in the one before. The variance counts
the gradients of all parameters, convolutions too, which nobody observes; 1 is what random batches
have on average.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader, TensorDataset

import antithetic
from antithetic.torch import AntitheticBatchSampler

ROWS, BATCH, EPOCHS, SHOWN = 1000, 64, 6, (0, 1, 2, 5)


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
        nn.Conv2d(1, 4, 3, stride), nn.ReLU(), nn.Conv2d(4, 8, 3, stride), nn.ReLU(), nn.Flatten()
    )
    return nn.Sequential(body, nn.Linear(body(X[:1]).shape[1], 10))


def row_gradients(model, X, y):
    """Gradients of each row's loss by all parameters, one row each."""
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(weights, x, target):
        return nn.functional.cross_entropy(
            functional_call(model, weights, (x[None],)), target[None]
        )

    model.eval()  # so that nobody observes this
    found = vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=500)(weights, X, y)
    model.train()
    return torch.cat([part.flatten(1) for part in found.values()], dim=1)


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


def train(X, y, loader, sampler=None):
    """Train for some epochs; return the ratios of those to be shown, and the loss at the end."""
    model = make_model(X)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    ratios = []
    with sampler.observing(model[-1]) if sampler else nullcontext():
        for epoch in range(EPOCHS):
            gradients, batches = row_gradients(model, X, y) if epoch in SHOWN else None, []
            for inputs, targets, rows in loader:
                batches.append(rows)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
            if gradients is not None:
                ratios.append(variance_ratio(gradients, batches))
    with torch.no_grad():
        return ratios, float(nn.functional.cross_entropy(model(X), y))


def main():
    name, X, y = load()
    dataset = TensorDataset(X, y, torch.arange(len(y)))
    sampler = AntitheticBatchSampler(X, y, BATCH)
    results = {
        "shuffle=True": train(
            X,
            y,
            DataLoader(dataset, BATCH, shuffle=True, generator=torch.Generator().manual_seed(0)),
        ),
        "antithetic, observed": train(X, y, DataLoader(dataset, batch_sampler=sampler), sampler),
    }
    print(
        f"{name}, {len(y)} pictures: a CNN with"
        f" {sum(p.numel() for p in make_model(X).parameters())} parameters, batches of {BATCH}\n"
    )
    print(
        f"{'variance of batch gradients in epoch':<38}"
        + "".join(f"{epoch:>7}" for epoch in SHOWN)
        + "   loss at the end"
    )
    for label, (ratios, loss) in results.items():
        print(f"{label:<38}" + "".join(f"{ratio:>7.2f}" for ratio in ratios) + f"   {loss:.4f}")


if __name__ == "__main__":
    main()
