"""Print the figures of the batch samplers for PyTorch, each with its bar.

The figures are the variance of batch gradients, the training, and the cost of the samplers.

MNIST, batches of 64. Three models: softmax regression, a network with one hidden layer of 128, and
a CNN with two strided convolutions. A variance ratio is the mean of |g_B - g|^2 over the full
batches of the epoch to come, for the gradients of all parameters at the weights at its beginning,
divided by the mean over all batches of 64 rows, (n - b)/(n - 1) Var/b, which is what reshuffling
has. Nothing in it is estimated. Each sampler trains a model of its own, from the same first weights
for the same seed, by SGD with lr=0.05, momentum=0.9.

Run ``python benchmarks/torch_batches.py``, some twenty minutes on one core, or only some parts:
``python benchmarks/torch_batches.py a``. ``--quick`` takes fewer rows, models, seeds and epochs.
The exit status is 1 if a bar is missed. It needs MNIST, from ANTITHETIC_DATA. Where the package
grab-sampler is installed it takes part.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from common import Figure, load, run_parts
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from torch.utils.data import BatchSampler, RandomSampler
from torch_gradients import PlainGrab, all_factors, as_tensors, factors_of, variance_ratio, watched
from torch_speed import iterating, observing

import antithetic
from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler

SIZE, RATE, MOMENTUM = 64, 0.05, 0.9
SEEDS = {"softmax": 5, "MLP": 5, "CNN": 2}  # the CNN takes a minute for each
OBSERVED = "groups, observed"
SCHEMES = (
    "shuffle",
    "label-stratified",
    "pairs",
    "groups",
    OBSERVED,
    "balanced",
    "plain GraB",
    "grab-sampler",
)


def make_model(name: str, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == "softmax":
            return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
        if name == "MLP":
            return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
        convolutions = (
            nn.Conv2d(1, 8, 5, stride=2),
            nn.ReLU(),
            nn.Conv2d(8, 16, 5, stride=2),
            nn.ReLU(),
        )
        return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(256, 10))


# ---- data and tables


@cache
def digits(name: str, rows: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    X, y = load(name)
    return torch.from_numpy(
        X[:rows].reshape(-1, 1, 28, 28).astype(np.float32) / 255.0
    ), torch.from_numpy(y[:rows].astype(np.int64))


@cache
def table(rows: int | None, nest: bool):
    """Groups from the data alone, which no model and no seed changes."""
    X, y = digits("mnist", rows)
    start = time.perf_counter()
    found = AntitheticBatchSampler(X, y, SIZE, nest=nest).table
    print(
        f"{'groups' if nest else 'pairs'} of {len(y)} rows from the data:"
        f" {time.perf_counter() - start:.1f} s",
        flush=True,
    )
    return found


# ---- samplers


@dataclass
class Scheme:
    """How rows get into batches.

    A scheme gives the batches of the next epoch, what surrounds training, and what follows each
    backward pass.
    """

    batches: Callable[[], list[list[int]]]
    around: AbstractContextManager = field(default_factory=nullcontext)
    after: Callable[[list[int]], None] | None = None


def make_scheme(
    name: str, model: nn.Module, rows: int | None, seed: int, around: ExitStack
) -> Scheme:
    _, y = digits("mnist", rows)
    n, head = len(y), model[-1]
    if name == "shuffle":
        generator = torch.Generator().manual_seed(seed)
        reshuffled = BatchSampler(
            RandomSampler(range(n), generator=generator), SIZE, drop_last=False
        )
        return Scheme(lambda: list(reshuffled))
    if name == "label-stratified":
        rng = np.random.default_rng(seed)
        return Scheme(lambda: stratified(y.numpy(), rng))
    if name in ("pairs", "groups", OBSERVED):
        antithetic_batches = AntitheticBatchSampler(
            None, y, SIZE, table=table(rows, name != "pairs"), seed=seed
        )
        return Scheme(
            lambda: list(antithetic_batches),
            antithetic_batches.observing(head) if name == OBSERVED else nullcontext(),
        )
    if name == "balanced":
        balanced = BalancedBatchSampler(n, SIZE, seed=seed)
        return Scheme(lambda: list(balanced), balanced.observing(head, targets=y))
    kept = around.enter_context(watched(model))
    if name == "plain GraB":
        grab = PlainGrab(n, SIZE, seed)
        return Scheme(
            grab.batches, after=lambda batch: grab.observe(batch, factors_of(kept, len(batch)))
        )
    return grab_package(model, n, seed, kept)


def stratified(y: np.ndarray, rng: np.random.Generator) -> list[list[int]]:
    """Each class evenly over the epoch, its rows in random order."""
    places = np.empty(len(y))
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        places[rows] = (rng.permutation(len(rows)) + rng.random()) / len(rows)
    return [part.tolist() for part in np.split(np.argsort(places), range(SIZE, len(y), SIZE))]


def grab_package(model: nn.Module, n: int, seed: int, kept) -> Scheme:
    from grabsampler import GraBSampler

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sampler = GraBSampler(range(n), dict(model.named_parameters()), device="cpu")
    batches = BatchSampler(sampler, SIZE, drop_last=False)
    return Scheme(
        lambda: list(batches),
        after=lambda batch: sampler.step(as_tensors(factors_of(kept, len(batch)))),
    )


# ---- training


@dataclass
class Run:
    """The record of one training run.

    After each epoch: the mean loss of the training rows, the test accuracy and the seconds. Ratios
    are by epoch.
    """

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    ratios: dict[int, float] = field(default_factory=dict)


@cache
def run(name: str, scheme_name: str, seed: int, rows: int | None, epochs: int) -> Run:
    """Train for some epochs, and measure batches before the first, after it, and after the last."""
    X, y = digits("mnist", rows)
    model, result = make_model(name, seed), Run()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    with ExitStack() as around:
        scheme = make_scheme(scheme_name, model, rows, seed, around)
        around.enter_context(scheme.around)
        for epoch in range(epochs + 1):
            start = time.perf_counter()
            batches = scheme.batches()
            making = time.perf_counter() - start
            if epoch in (0, 1, epochs):
                model.eval()  # so that nobody observes this
                result.ratios[epoch] = variance_ratio(all_factors(model, X, y), batches, SIZE)
            if epoch == epochs:
                break
            result.seconds.append(making + train_epoch(model, optimizer, scheme, batches, X, y))
            result.losses.append(evaluate(model, X, y)[0])
            result.accuracies.append(evaluate(model, *digits("mnist.t", None))[1])
    print(
        f"  {name}, {scheme_name}, seed {seed}: {sum(result.seconds):.1f} s",
        file=sys.stderr,
        flush=True,
    )
    return result


def train_epoch(model, optimizer, scheme: Scheme, batches, X, y) -> float:
    """Take one step for each batch; return the seconds."""
    model.train()
    start = time.perf_counter()
    for batch in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(X[batch]), y[batch]).backward()
        if scheme.after is not None:
            scheme.after(batch)
        optimizer.step()
    return time.perf_counter() - start


@torch.no_grad()
def evaluate(model: nn.Module, X, y) -> tuple[float, float]:
    """Mean loss and accuracy."""
    model.eval()
    outputs = torch.cat([model(part) for part in X.split(2000)])
    return float(F.cross_entropy(outputs, y)), float((outputs.argmax(1) == y).double().mean())


# ---- parts


def plan(quick: bool) -> tuple[int | None, int, dict[str, int]]:
    """Rows, epochs, and the seeds of each model."""
    return (12_000, 2, {"softmax": 2, "MLP": 1}) if quick else (None, 5, SEEDS)


def runs(name: str, scheme: str, quick: bool) -> list[Run]:
    rows, epochs, seeds = plan(quick)
    return [run(name, scheme, seed, rows, epochs) for seed in range(seeds[name])]


def schemes() -> list[str]:
    missing = find_spec("grabsampler") is None
    if missing:
        print("grab-sampler: not installed")
    return [name for name in SCHEMES if name != "grab-sampler" or not missing]


def ratios(quick: bool) -> Iterator[Figure]:
    """Exact variance of batch gradients relative to reshuffling, at the start and after epochs."""
    if load("mnist") is None or load("mnist.t") is None:
        return
    _, epochs, seeds = plan(quick)
    start: dict[str, float] = {}
    for name in seeds:
        for scheme in schemes():
            for epoch in dict.fromkeys((0, 1, epochs)):
                found = [done.ratios[epoch] for done in runs(name, scheme, quick)]
                value = max(found) if scheme == OBSERVED else float(np.mean(found))
                start.setdefault(f"{name} {scheme}", value)
                most = {OBSERVED: 1.0}.get(scheme)
                if (name, scheme, epoch) == ("softmax", "groups", 0):
                    most = min(0.4, start["softmax label-stratified"])
                remark = (
                    f"{len(found)} seeds, {min(found):.3f} to {max(found):.3f}"
                    + ", the largest counts" * (scheme == OBSERVED)
                )
                yield Figure(
                    f"{name}, {scheme}, after {epoch} epochs", value, most=most, remark=remark
                )


def training(quick: bool) -> Iterator[Figure]:
    """Training loss and test accuracy after each epoch, mean and standard deviation over seeds.

    Then the last loss over reshuffling's.
    """
    if load("mnist") is None or load("mnist.t") is None:
        return
    _, _, seeds = plan(quick)
    for name in seeds:
        taking_part = schemes()
        for scheme in taking_part:
            done = runs(name, scheme, quick)
            print(f"{name}, {scheme}")
            print("  training loss  ", spread([one.losses for one in done], 4))
            print(
                "  test accuracy %",
                spread([[100.0 * a for a in one.accuracies] for one in done], 2),
            )
            print("  seconds        ", spread([one.seconds for one in done], 1), flush=True)
        for scheme in taking_part[1:]:
            quotients = [
                a.losses[-1] / b.losses[-1]
                for a, b in zip(
                    runs(name, scheme, quick), runs(name, "shuffle", quick), strict=True
                )
            ]
            remark = f"by seed {', '.join(f'{q:.2f}' for q in quotients)}"
            yield Figure(
                f"{name}, {scheme}: last training loss / shuffle's",
                float(np.mean(quotients)),
                remark=remark,
            )


def spread(values: list[list[float]], digits_after: int) -> str:
    array = np.array(values)
    deviation = array.std(axis=0, ddof=1) if len(array) > 1 else np.full(array.shape[1], np.nan)
    cells = zip(array.mean(axis=0), deviation, strict=True)
    return "   ".join(
        f"{mean:.{digits_after}f} ±{deviation:.{digits_after}f}" for mean, deviation in cells
    )


if __name__ == "__main__":
    torch.set_num_threads(1)  # batches of 64 gain nothing from more, and seconds can be compared
    print(f"torch {torch.__version__}, one thread; antithetic {antithetic.__version__}")
    sys.exit(run_parts(__doc__, {"a": ratios, "b": training, "c": iterating, "d": observing}))
