"""Train models with the batch samplers for PyTorch, and print figures with their bars.

MNIST, 20,000 rows, pixels divided by 255, batches of 16, plain SGD. "Defaults" means
``AntitheticBatchSampler(features, labels, 16)`` with ``observing`` and ``batch_loss``; shuffling is
the same sampler without arms, which does what ``shuffle=True`` does. Learning rates are chosen on a
seed of their own, for each method where it says so, by the training loss after 5 epochs. Losses are
those of all training rows at the end of an epoch; "on the way" is the mean of the batch losses of
the last epoch, which a single jump of the loss at its end does not change much. Seconds are CPU
time of one thread, evaluation left out.

Run ``python benchmarks/torch_training.py``, about half an hour on an idle core, or only some parts:
``python benchmarks/torch_training.py a b``. Each finished run prints a line. ``--keep FILE`` writes
every finished run into a file and reads those that are there, so that an interrupted benchmark goes
on; several processes may share it.
``--quick`` takes fewer rows, seeds and epochs. The exit status is 1 if a bar is missed. It needs
MNIST, from ANTITHETIC_DATA.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from common import Figure, load, run_parts
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from torch_decay import decaying
from torch_speed import handing_out, observing

import antithetic
from antithetic.torch import AntitheticBatchSampler, BalancedBatchSampler

SIZE, TUNED_ON, EPOCHS = 16, 100, 5
RATES = (0.05, 0.1, 0.2, 0.4)
METHODS = ("shuffling", "defaults")
MODELS = ("CNN", "MLP", "linear", "regression net", "EmbeddingBag")


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    rows: int
    seeds: int
    many_seeds: int
    epochs: int  # of the runs to a given loss


def plan(quick: bool) -> Plan:
    return Plan(3000, 2, 3, 8) if quick else Plan(20_000, 3, 10, 10)


# ---- models and data


def make_model(name: str, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == "CNN":
            return nn.Sequential(
                nn.Conv2d(1, 8, 5, stride=2),
                nn.ReLU(),
                nn.Conv2d(8, 16, 5, stride=2),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(256, 10),
            )
        if name == "MLP":
            return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
        if name == "linear":
            return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
        if name == "regression net":
            return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 1))
        return BagOfPixels()


class BagOfPixels(nn.Module):
    """A text classifier whose words are the pixels that are dark."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(785, 32, padding_idx=784), nn.Linear(32, 10)

    def forward(self, words: Tensor) -> Tensor:
        """Logits of bags of words."""
        return self.head(self.bag(words))


@cache
def digits(rows: int) -> tuple[Tensor, Tensor]:
    X, y = load("mnist")
    pixels = torch.from_numpy(X[:rows].astype(np.float32) / 255.0).reshape(-1, 1, 28, 28)
    return pixels, torch.from_numpy(y[:rows].astype(np.int64))


@cache
def data(name: str, rows: int) -> tuple[Tensor, Tensor]:
    """What a model is given, and its targets."""
    pixels, y = digits(rows)
    if name == "regression net":
        return pixels, (y - 4.5) / 3.0
    if name == "EmbeddingBag":
        dark = pixels.flatten(1) > 0.5
        words = torch.where(dark, torch.arange(784), 784).sort(dim=1).values
        return words[:, : int(dark.sum(dim=1).max())], y
    return pixels, y


def row_losses(name: str, outputs: Tensor, targets: Tensor) -> Tensor:
    if name == "regression net":
        return (outputs[:, 0] - targets).square() / 2.0
    return F.cross_entropy(outputs, targets, reduction="none")


# ---- training


@dataclass
class Run:
    """The training loss and the seconds so far, after each epoch, and what the test found."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    report: str = ""

    def when(self, target: float, numbers: list[float]) -> float:
        """Epochs or seconds to a loss, interpolated in its logarithm; all of them if not reached.

        That is too few, which shuffling, the slower one, gains by.
        """
        losses = [self.first, *self.losses]
        for k in range(1, len(losses)):
            if losses[k] <= target:
                part = np.log(losses[k - 1] / target) / np.log(losses[k - 1] / losses[k])
                before = numbers[k - 2] if k > 1 else 0.0
                return before + float(part) * (numbers[k - 1] - before)
        return numbers[-1]

    first: float = 0.0  # the loss before training
    met: list[float] = field(default_factory=list)  # mean of the batch losses of each epoch


def make_sampler(name: str, method: str, rows: int, seed: int):
    X, y = data(name, rows)
    if method == "balanced":
        return BalancedBatchSampler(rows, SIZE, seed=seed)
    features = X if name in ("linear", "MLP", "CNN", "regression net") else None
    arms = () if method == "shuffling" else None if method == "defaults" else (method,)
    return AntitheticBatchSampler(features, y, SIZE, seed=seed, arms=arms)


@dataclass
class Kept:
    """Finished runs, one line of JSON each, in memory and if there is a path in a file."""

    path: Path | None = None
    lines: list[str] = field(default_factory=list)

    def find(self, setting: list, epochs: int) -> Run | None:
        """Return the beginning of a run that was at least as long, if there is one."""
        stored = self.path.read_text().splitlines() if self.path and self.path.exists() else []
        for line in (*self.lines, *stored):
            kept = json.loads(line)
            if kept.pop("setting") == setting and len(kept["losses"]) >= epochs:
                found = Run(**kept)
                for numbers in (found.losses, found.seconds, found.met):
                    del numbers[epochs:]
                return found
        return None

    def add(self, setting: list, run: Run) -> None:
        """Keep a run."""
        self.lines.append(json.dumps({"setting": setting, **asdict(run)}))
        if self.path:
            with self.path.open("a") as file:
                file.write(self.lines[-1] + "\n")


KEPT, BEGAN = Kept(), time.monotonic()


@cache
def run(name: str, method: str, rate: float, seed: int, rows: int, epochs: int) -> Run:
    setting = [name, method, rate, seed, rows]
    if (kept := KEPT.find(setting, epochs)) is not None:
        return kept
    found = train(name, method, rate, seed, rows, epochs)
    KEPT.add(setting, found)
    losses = " ".join(f"{loss:.4f}" for loss in found.losses)
    print(
        f"  {name}, {method}, rate {rate}, seed {seed}: {losses}, {found.seconds[-1]:.1f} s;"
        f" {(time.monotonic() - BEGAN) / 60.0:.1f} min so far",
        file=sys.stderr,
        flush=True,
    )
    return found


def train(name: str, method: str, rate: float, seed: int, rows: int, epochs: int) -> Run:
    X, y = data(name, rows)
    model, sampler, found = make_model(name, seed), make_sampler(name, method, rows, seed), Run()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loss_of = getattr(sampler, "batch_loss", torch.mean)
    found.first = evaluate(name, model, X, y)
    total = 0.0
    with nullcontext() if method == "shuffling" else sampler.observing(model):
        for _ in range(epochs):
            start, met = time.process_time(), torch.zeros(())
            for batch in sampler:
                optimizer.zero_grad()
                loss = loss_of(row_losses(name, model(X[batch]), y[batch]))
                loss.backward()
                optimizer.step()
                met += loss.detach()
            total += time.process_time() - start
            found.seconds.append(total)
            found.met.append(met.item() / len(sampler))
            found.losses.append(evaluate(name, model, X, y))
        if hasattr(sampler, "report"):
            found.report = str(sampler.report())
    return found


@torch.no_grad()
def evaluate(name: str, model: nn.Module, X: Tensor, y: Tensor) -> float:
    """Mean loss of all rows."""
    model.eval()
    parts = [
        row_losses(name, model(X[k : k + 2000]), y[k : k + 2000]) for k in range(0, len(y), 2000)
    ]
    model.train()
    return float(torch.cat(parts).mean())


@cache
def tuned(name: str, method: str, rows: int) -> float:
    """The learning rate with the lowest loss after 5 epochs, on a seed that is not used again."""

    def loss(rate: float) -> float:
        return np.nan_to_num(run(name, method, rate, TUNED_ON, rows, EPOCHS).losses[-1], nan=np.inf)

    return min(RATES, key=loss)


# ---- figures


def spread(numbers: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    return float(np.mean(numbers)), float(np.std(numbers, ddof=1) / len(numbers) ** 0.5)


def to_a_loss(quick: bool) -> Iterator[Figure]:
    """Epochs and seconds to a training loss: that of shuffling after 5 epochs, rates tuned."""
    if load("mnist") is None:
        return
    how = plan(quick)
    for name in ("CNN", "MLP"):
        runs = {
            method: [
                run(name, method, tuned(name, method, how.rows), seed, how.rows, how.epochs)
                for seed in range(how.seeds)
            ]
            for method in METHODS
        }
        target = float(np.mean([one.losses[EPOCHS - 1] for one in runs["shuffling"]]))
        epochs = list(range(1, how.epochs + 1))
        found = {
            method: (
                spread([one.when(target, epochs) for one in done]),
                spread([one.when(target, one.seconds) for one in done]),
            )
            for method, done in runs.items()
        }
        for method, ((mean, error), (seconds, _)) in found.items():
            print(
                f"{name}, {method}, rate {tuned(name, method, how.rows)}: {mean:.2f} ±"
                f" {error:.2f} epochs, {seconds:.1f} s to a loss of {target:.4f}; losses"
                f" {', '.join(f'{m:.4f}' for m in mean_losses(runs[method]))}"
            )
        print(runs["defaults"][0].report)
        (theirs, their_seconds), (ours, our_seconds) = found["shuffling"], found["defaults"]
        missed = {m: sum(min(o.losses) > target for o in done) for m, done in runs.items()}
        yield Figure(
            f"{name}: epochs, defaults / shuffling",
            ours[0] / theirs[0] if not missed["defaults"] else float("inf"),
            most=0.85,
            remark=f"not reached in {how.epochs} epochs: {missed['shuffling']} runs of shuffling",
        )
        yield Figure(
            f"{name}: seconds, defaults / shuffling",
            our_seconds[0] / their_seconds[0],
            most=1.0 if name == "CNN" else None,
        )


def mean_losses(runs: list[Run]) -> list[float]:
    return np.mean([one.losses for one in runs], axis=0).tolist()


def linear(quick: bool) -> Iterator[Figure]:
    """Linear model: training loss after 4 epochs, rates tuned, in standard errors of shuffling."""
    if load("mnist") is None:
        return
    how = plan(quick)
    ends = {}
    for method in METHODS:
        rate = tuned("linear", method, how.rows)
        done = [run("linear", method, rate, seed, how.rows, 4) for seed in range(how.seeds)]
        ends[method] = spread([one.losses[-1] for one in done])
        print(
            f"linear, {method}, rate {rate}: {ends[method][0]:.4f} ± {ends[method][1]:.4f},"
            f" {np.mean([one.seconds[-1] for one in done]):.1f} s"
        )
    yield apart("linear: defaults below shuffling, in standard errors", ends, least=2.0)


def apart(title: str, ends: dict[str, tuple[float, float]], **bar: float) -> Figure:
    """How far the loss of the defaults lies below that of shuffling, in standard errors."""
    (theirs, their_error), (ours, our_error) = ends["shuffling"], ends["defaults"]
    error = float(np.hypot(their_error, our_error))
    return Figure(
        title,
        (theirs - ours) / error,
        remark=f"{ours:.4f} ± {our_error:.4f} against {theirs:.4f} ± {their_error:.4f}",
        **bar,
    )


def harmless(quick: bool) -> Iterator[Figure]:
    """Never hurts: last training loss at shuffling's learning rate, 10 seeds, standard errors."""
    if load("mnist") is None:
        return
    how = plan(quick)
    for name in MODELS:
        rate = tuned(name, "shuffling", how.rows)
        runs = {
            method: [
                run(name, method, rate, seed, how.rows, EPOCHS) for seed in range(how.many_seeds)
            ]
            for method in METHODS
        }
        ends = {method: spread([o.losses[-1] for o in done]) for method, done in runs.items()}
        print(runs["defaults"][0].report)
        yield apart(f"{name}, rate {rate}: below shuffling, standard errors", ends, least=-2.0)
        met = {method: spread([o.met[-1] for o in done]) for method, done in runs.items()}
        yield apart(f"{name}: the same on the way", met)


if __name__ == "__main__":
    torch.set_num_threads(1)  # batches of 16 gain nothing from more, and seconds can be compared
    print(f"torch {torch.__version__}, one thread; antithetic {antithetic.__version__}")
    parts = {"a": to_a_loss, "b": linear, "c": harmless, "d": observing, "e": handing_out}
    parts["f"] = decaying
    with threadpool_limits(1):  # BLAS of NumPy, too: threads that wait count as CPU time
        sys.exit(run_parts(__doc__, parts, keep=lambda path: setattr(KEPT, "path", path)))
