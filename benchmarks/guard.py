"""Say which hot kernels got slower since their ratios were recorded.

A ratio is the seconds of a kernel of ours divided by those of something fixed in the same process:
an epoch of scikit-learn's SGD on the same rows, or a matrix product of NumPy. Both take turns, over
and over, and the smallest CPU time of each counts, not the wall clock, so
that a slow or busy machine changes little. ``recorded.json`` beside this file holds the ratios,
with the machine and the versions. A kernel is slower where its ratio is above the recorded one by
more than the margin, in two measurements; faster ones are listed too, so that they can be recorded
again.

Run ``python benchmarks/guard.py``; ``--record`` writes the ratios of this machine; ``--quick``
repeats less. The exit status is 1 if something is slower.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
from common import Figure, close, machine, next_epoch, report
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

import antithetic
from antithetic.bench.rows import cpu_name
from antithetic.orders import Balanced, Shuffle

RECORDED = Path(__file__).with_name("recorded.json")
MARGIN = 0.25  # noise of the least of many repeats that take turns, on a machine with neighbours
OTHER_MACHINE = 0.6  # ratios of different kernels differ by this between processors
N, D, STORED = 20_000, 50, 30
Job = Callable[[], object]


# ---- what is timed


def dense_rows(n: int = N) -> tuple:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    return X, np.sign(X[:, 0] + rng.normal(size=n))


def csr_rows() -> tuple:
    """STORED entries a row in 60 STORED columns, one of each 60."""
    rng = np.random.default_rng(0)
    columns = 60 * np.arange(STORED) + rng.integers(60, size=(N, STORED))
    starts = np.arange(0, N * STORED + 1, STORED)
    X = sparse.csr_array(
        (rng.random(N * STORED), columns.ravel().astype(np.int32), starts.astype(np.int32)),
        shape=(N, 60 * STORED),
    )
    return X, np.sign(rng.normal(size=N))


def solve(X, y, solver: str) -> Job:
    """Five epochs of another solver, without a record of objectives."""
    given = {
        "l2": 1e-4,
        "solver": solver,
        "order": "shuffle",
        "batch_size": 1,
        "epochs": 5,
        "trace": (),
    }
    if solver != "sdca":
        given["steps"] = 1e-3
    return lambda: antithetic.minimize(X, y, **given)


def sklearn_epoch(X, y, epochs: int = 1) -> Job:
    model = SGDClassifier(loss="log_loss", max_iter=epochs, tol=None, random_state=0)
    return lambda: model.fit(X, y)


def kernels() -> dict[str, tuple[Job, Job]]:
    """What is timed, and what it is compared with."""
    dense, csr = dense_rows(), csr_rows()
    # From 8 rows per feature, the estimator returns the mean of an epoch by default.
    small, few = (dense_rows(8 * D), dense_rows(3000))
    ours, theirs = (
        estimator(loss="log_loss", max_iter=5, tol=None, random_state=0)
        for estimator in (antithetic.SGDClassifier, SGDClassifier)
    )
    square = np.random.default_rng(0).normal(size=(600, 600))
    product: Job = lambda: square @ square  # noqa: E731
    made = {}
    for form, rows in (("dense", dense), ("CSR", csr)):
        made |= {
            f"SGD epoch, {form}, {name}": (next_epoch(*rows, order), sklearn_epoch(*rows))
            for name, order in (("shuffle", Shuffle()), ("balanced", Balanced()))
        }
        mean = next_epoch(*rows, Balanced(), average="epoch")
        made[f"SGD epoch, {form}, mean"] = (mean, sklearn_epoch(*rows))
    made |= {
        f"{solver} 5 epochs, dense": (solve(*dense, solver), sklearn_epoch(*dense, 5))
        for solver in ("svrg", "saga", "sdca")
    }
    made |= {
        "fit of 400 x 50 by the estimator": (lambda: ours.fit(*small), lambda: theirs.fit(*small))
    }
    for method in ("greedy", "tree"):
        made[f"{method} table of 3000 x 50 / matrix product"] = (
            lambda m=method: antithetic.pair(*few, m, random_state=0),
            product,
        )
    return made


# ---- measuring and judging


def best_seconds(jobs: tuple[Job, ...], repeats: int) -> list[float]:
    """Run the jobs in turn, over and over.

    Return the least seconds of the processor that each takes.
    """
    best = [np.inf] * len(jobs)
    for _ in range(repeats):
        for place, job in enumerate(jobs):
            start = time.process_time()
            job()
            best[place] = min(best[place], time.process_time() - start)
    return best


def measure(repeats: int, names: list[str] | None = None) -> dict[str, float]:
    """Ratios of the kernels named, all if none."""
    found = {}
    with threadpool_limits(1):
        for name, jobs in kernels().items():
            if names is None or name in names:
                for job in jobs * 2:  # warm up, and let a balanced order become one
                    job()
                ours, theirs = best_seconds(jobs, repeats)
                found[name] = ours / theirs
    return found


def judge(
    recorded: dict,
    measured: dict[str, float],
    again: Callable[[list[str]], dict[str, float]],
    margin: float,
) -> Iterator[Figure]:
    """Compare ratios with the recorded ones.

    What seems slower is measured once more, and the lower ratio counts.
    """
    ratios = recorded["ratios"]
    slower = [
        name
        for name, ratio in measured.items()
        if name in ratios and ratio > (1.0 + margin) * ratios[name]
    ]
    second = again(slower) if slower else {}
    for name, ratio in measured.items():
        ratio = min(ratio, second.get(name, np.inf))
        if name not in ratios:
            yield Figure(name, ratio, remark="not recorded yet: --record")
            continue
        change = ratio / ratios[name]
        words = (
            "faster: --record keeps it"
            if change < 1.0 / (1.0 + margin)
            else "SLOWER"
            if change > 1.0 + margin
            else ""
        )
        yield Figure(
            name,
            ratio,
            most=(1.0 + margin) * ratios[name],
            remark=f"{change:.2f} of {ratios[name]:.3f}. {words}".rstrip(". ") or "",
        )
    for name in ratios.keys() - measured.keys():
        yield Figure(f"no longer measured: {name}", np.nan)


def environment() -> dict[str, str]:
    packages = ("antithetic", "numpy", "scipy", "scikit-learn")
    return {
        "cpu": cpu_name(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def record(path: Path, ratios: dict[str, float]) -> None:
    path.write_text(
        json.dumps(
            {
                "environment": environment(),
                "ratios": {name: round(r, 4) for name, r in ratios.items()},
            },
            indent=1,
        )
        + "\n"
    )


def figures(recorded: dict, repeats: int) -> Iterator[Figure]:
    now, before = environment(), recorded["environment"]
    changed = [
        f"{name} {before.get(name)} then, {value} now"
        for name, value in now.items()
        if before.get(name) != value
    ]
    same = before.get("cpu") == now["cpu"]
    print("; ".join(changed) or "the machine and versions of the record")
    if not same:
        print(
            f"another processor than that of the record: a margin of {OTHER_MACHINE:.0%} in place"
            f" of {MARGIN:.0%}"
        )
    yield from judge(
        recorded,
        measure(repeats),
        lambda names: measure(2 * repeats, names),
        MARGIN if same else OTHER_MACHINE,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats, less to be trusted")
    parser.add_argument(
        "--record", action="store_true", help=f"write the ratios of this machine to {RECORDED.name}"
    )
    options = parser.parse_args()
    repeats = 9 if options.quick else 41
    print(machine())
    if options.record:
        record(RECORDED, measure(repeats))
        print(f"recorded in {RECORDED.name}")
        return 0
    if not RECORDED.exists():
        print(
            f"there is no {RECORDED.name} to compare with: run with --record first", file=sys.stderr
        )
        return 1
    return close(report(figures(json.loads(RECORDED.read_text()), repeats)))


if __name__ == "__main__":
    sys.exit(main())
