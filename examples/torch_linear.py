"""Train a softmax classifier on fixed features, where groups of cancelling rows help at once.

The first epoch's batches are made from the data alone: at the start, the gradient of each row is
known. Later ones follow what is observed. The example also stops in the middle of an epoch and goes
on from the saved state, with the same batches as if it had not stopped.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from antithetic.torch import AntitheticBatchSampler

BATCH, EPOCHS = 32, 4


def first_loss(X, y, arms):
    """The loss after one epoch, with an arm or without."""
    torch.manual_seed(0)
    model, sampler = nn.Linear(X.shape[1], 10), AntitheticBatchSampler(X, y, BATCH, arms=arms)
    with sampler.observing(model):
        train(X, y, model, sampler, [])
    return float(nn.functional.cross_entropy(model(X), y).detach())


def train(X, y, model, sampler, seen, stop=None):
    """One epoch, or what is left of it; after ``stop`` batches in all it is broken off."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for batch in sampler:
        optimizer.zero_grad()
        losses = nn.functional.cross_entropy(model(X[batch]), y[batch], reduction="none")
        sampler.batch_loss(losses).backward()
        optimizer.step()
        seen.append(batch)
        if len(seen) == stop:
            return


def go_on(X, y, stop):
    """Train with an interruption, or with none; return all batches and the report."""
    torch.manual_seed(0)
    model, sampler, seen = nn.Linear(X.shape[1], 10), AntitheticBatchSampler(X, y, BATCH), []
    with sampler.observing(model):
        while len(seen) < EPOCHS * len(sampler) and len(seen) != stop:
            train(X, y, model, sampler, seen, stop)
    if stop is not None:
        state = sampler.state_dict()
        sampler = AntitheticBatchSampler(X, y, BATCH)  # as in another process
        sampler.load_state_dict(state)
        with sampler.observing(model):
            while len(seen) < EPOCHS * len(sampler):
                train(X, y, model, sampler, seen)
    return seen, sampler.report()


def main():
    X, y = load_digits(return_X_y=True)
    X = torch.from_numpy((X / 16.0).astype(np.float32))
    y = torch.from_numpy(y)
    print(f"loss after the first epoch, shuffled: {first_loss(X, y, ()):.4f}")
    print(f"loss after the first epoch, groups:   {first_loss(X, y, ['groups']):.4f}")
    whole, report = go_on(X, y, None)
    again, _ = go_on(X, y, 150)
    print(f"the same batches after an interruption: {whole == again}\n")
    print(report)


if __name__ == "__main__":
    main()
