"""The PyTorch benchmark's gradient factors, variance and plain GraB equal plain versions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from reference import grab_order

torch = pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
N, SIZE = 24, 4


@pytest.fixture(scope="module")
def gradients():
    """The module of that name."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import torch_gradients

        yield torch_gradients
    finally:
        sys.path.remove(str(BENCHMARKS))
        del sys.modules["torch_gradients"]


@pytest.fixture
def network():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(50, 5),
        torch.nn.ReLU(),
        torch.nn.Linear(5, 3),
    ).double()
    return model, torch.randn(N, 1, 5, 5, dtype=torch.float64), torch.arange(N) % 3


def single_gradients(model, X, y):
    """Gradients of the rows by all parameters, one backward pass each."""
    rows = []
    for i in range(len(y)):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(X[i : i + 1]), y[i : i + 1]).backward()
        rows.append(torch.cat([p.grad.flatten() for p in model.parameters()]).numpy())
    return np.array(rows)


def test_the_ratio_is_that_of_single_gradients(gradients, network):
    G = single_gradients(*network)
    batches = np.random.default_rng(1).permutation(N).reshape(-1, SIZE)
    found = gradients.variance_ratio(gradients.all_factors(*network), batches.tolist(), SIZE)
    error = np.square(G[batches].mean(axis=1) - G.mean(axis=0)).sum(axis=1).mean()
    closed = (N - SIZE) / (N - 1) * np.square(G - G.mean(axis=0)).sum(axis=1).mean() / SIZE
    assert found == pytest.approx(error / closed, rel=1e-9)


def test_plain_grab_is_that_of_the_reference(gradients, network):
    G = single_gradients(*network)
    factors = gradients.all_factors(*network)
    grab, mean = gradients.PlainGrab(N, SIZE, seed=0), np.zeros(G.shape[1])
    order = np.concatenate(grab.batches())
    for _ in range(3):
        for batch in order.reshape(-1, SIZE):
            grab.observe(batch.tolist(), [(S[batch], A[batch]) for S, A in factors])
        order, mean = grab_order(order, G, mean)
        np.testing.assert_array_equal(np.concatenate(grab.batches()), order)
