"""Orders of grab-sampler, if it is installed: plain SGD in the batches that it draws.

It is a sampler for PyTorch, fed with the gradient of every row, so its seconds say little about a
linear model; its passes do. Its sorters are used as they are: ``GraBSampler`` around them hands its
data to a constructor that newer versions of PyTorch no longer have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from antithetic.bench.peer import Config, Fit, Peer, import_peer
from antithetic.bench.tasks import Task

_BATCH = 16
_STEPS = (1.0, 8.0, 64.0)  # times one over the mean curvature of a row
_MOST_CELLS = 50_000_000  # it wants dense rows


def grab_sampler(task: Task) -> Sequence[Config]:
    """Mean balance, the default, and pair balance."""
    sorters, torch = import_peer("grabsampler.sorter"), import_peer("torch")
    if task.n * task.d > _MOST_CELLS:
        raise ValueError(f"{task.n} x {task.d} dense rows are too many for a loop in Python")
    X = task.X.toarray() if sparse.issparse(task.X) else task.X
    rows, y = torch.as_tensor(np.ascontiguousarray(X, dtype=np.float64)), torch.as_tensor(task.y)
    scale = (4.0 if task.loss == "log_loss" else 1.0) / float(np.mean((X * X).sum(axis=1)))
    return [
        Config(
            f"{balance}, batch {_BATCH}, eta0={step * scale:.3g}",
            partial(_fit, sorter, torch, rows, y, task, step * scale),
            "epochs",
        )
        for balance, sorter in (
            ("mean balance", sorters.MeanBalance),
            ("pair balance", sorters.PairBalance),
        )
        for step in _STEPS
    ]


def _fit(
    sorter: Any, torch: Any, rows: Any, y: Any, task: Task, eta0: float, effort: int, seed: int
) -> Fit:
    """Take steps eta0 / (1 + eta0 lambda t) along the mean gradient of each batch.

    The sorter is shown the gradient of each row.
    """
    # Its orders come from the global generator.
    with _with_threads(torch, task.threads), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        w = torch.zeros(task.d, dtype=torch.float64)
        order = sorter(task.n, task.d, device="cpu", dtype=torch.float64)
        t = 0
        for _ in range(effort):
            order.reset_epoch()
            for batch in order.orders.clone().split(_BATCH):
                t += 1
                gradients = _gradients(torch, task.loss, rows[batch], y[batch], w)
                order.step({"w": gradients})
                w = w - eta0 / (1.0 + eta0 * task.l2 * t) * (gradients.mean(dim=0) + task.l2 * w)
    return Fit(w.numpy(), effort, effort)


@contextmanager
def _with_threads(torch: Any, threads: int) -> Iterator[None]:
    """As many as all peers have; PyTorch has threads of its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _gradients(torch: Any, loss: str, rows: Any, y: Any, w: Any) -> Any:
    """Gradient of each row's loss, without the penalty, which no order changes."""
    margin = y * (rows @ w)
    slope = -torch.sigmoid(-margin) if loss == "log_loss" else -(margin < 1.0).to(rows.dtype)
    return (slope * y)[:, None] * rows


PEERS = (
    Peer(
        "grab-sampler", "grab-sampler", grab_sampler, ("log_loss", "hinge"), rivals=True, module=""
    ),
)
