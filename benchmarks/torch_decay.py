"""Train small CNNs with a learning rate that falls to zero: part f of ``torch_training.py``.

Most training ends so, and then noise averages out by itself. The sets are scikit-learn's digits,
4000 digits of MNIST, and synthetic pictures: shifted, mixed and noisy templates of 6 classes, with
and without 5 % wrong labels. None of them decided anything in the samplers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
import torch
from common import Figure, load
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it

from antithetic.torch import AntitheticBatchSampler

EPOCHS, SIZE = 6, 16
Rows = tuple[Tensor, Tensor]


def decaying(quick: bool) -> Iterator[Figure]:
    """A rate that falls to zero: last loss, defaults below shuffling, in standard errors."""
    sets: dict[str, tuple[Callable[[], Rows | None], float]] = {
        "digits": (digits, 0.1),
        "MNIST, 4000 rows": (mnist, 0.1),
        "synthetic pictures": (lambda: pictures(0.0), 0.1),
        "synthetic pictures, 5 % wrong labels": (lambda: pictures(0.05), 0.05),
    }
    for name, (make, rate) in sets.items():
        if (rows := make()) is None:
            continue
        seeds = range(2 if quick else 6)
        theirs, ours = (
            np.array([train(*rows, rate, seed, defaults=defaults) for seed in seeds])
            for defaults in (False, True)
        )
        (their_end, their_middle), (our_end, our_middle) = theirs.mean(axis=0), ours.mean(axis=0)
        errors = [part[:, 0].std(ddof=1) / len(seeds) ** 0.5 for part in (ours, theirs)]
        yield Figure(
            f"{name}, rate {rate}",
            float((their_end - our_end) / np.hypot(*errors)),
            remark=f"{our_end:.4f} ± {errors[0]:.4f} against {their_end:.4f} ± {errors[1]:.4f};"
            f" in the fourth of six epochs {our_middle:.4f} against {their_middle:.4f}",
        )


def train(X: Tensor, y: Tensor, rate: float, seed: int, *, defaults: bool) -> tuple[float, float]:
    """Return the last loss of all rows, and the mean of the batch losses of the fourth epoch."""
    model, met = make_model(X, y, seed), 0.0
    sampler = AntitheticBatchSampler(None, y, SIZE, seed=seed, arms=None if defaults else ())
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    steps = EPOCHS * len(sampler)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    with sampler.observing(model) if defaults else nullcontext():
        for epoch in range(EPOCHS):
            for batch in sampler:
                optimizer.zero_grad()
                losses = F.cross_entropy(model(X[batch]), y[batch], reduction="none")
                loss = sampler.batch_loss(losses)
                loss.backward()
                optimizer.step()
                schedule.step()
                met += loss.item() / len(sampler) if epoch == EPOCHS // 2 else 0.0
    with torch.no_grad():
        outputs = torch.cat([model(part) for part in X.split(250)])
        return F.cross_entropy(outputs, y).item(), met


def make_model(X: Tensor, y: Tensor, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        stride = 2 if X.shape[-1] > 12 else 1
        layers = [nn.Conv2d(1, 8, 3, stride), nn.ReLU(), nn.Conv2d(8, 16, 3, stride), nn.ReLU()]
        body = nn.Sequential(*layers, nn.Flatten())
        return nn.Sequential(body, nn.Linear(body(X[:1]).shape[1], int(y.max()) + 1))


def digits() -> Rows:
    X, y = load_digits(return_X_y=True)
    return torch.from_numpy(X.reshape(-1, 1, 8, 8).astype(np.float32) / 16.0), torch.from_numpy(y)


def mnist() -> Rows | None:
    if (found := load("mnist")) is None:
        return None
    X, y = (part[:4000] for part in found)
    pixels = X.astype(np.float32).reshape(-1, 1, 28, 28) / 255.0
    return torch.from_numpy(pixels), torch.from_numpy(y.astype(np.int64))


def pictures(wrong: float, rows: int = 4000, classes: int = 6) -> Rows:
    """Three templates of each class, shifted, scaled, mixed with another class, and noisy."""
    rng = np.random.default_rng(0)
    templates = rng.normal(size=(classes, 3, 12, 12))
    y, which = rng.integers(classes, size=rows), rng.integers(3, size=rows)
    X = templates[y, which] * rng.uniform(0.5, 1.5, size=(rows, 1, 1))
    shifts = rng.integers(-2, 3, size=(rows, 2))
    X = np.stack([np.roll(one, shift, (0, 1)) for one, shift in zip(X, shifts, strict=True)])
    other, share = rng.integers(classes, size=rows), rng.beta(0.5, 3.0, size=(rows, 1, 1))
    X = (1.0 - share) * X + share * templates[other, which] + 0.5 * rng.normal(size=X.shape)
    if wrong:
        y = np.where(rng.random(rows) < wrong, rng.integers(classes, size=rows), y)
    return torch.from_numpy(X[:, None].astype(np.float32)), torch.from_numpy(y)
