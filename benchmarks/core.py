"""Print the figures of the core, each with its bar: speed, memory, variance, compilation, import.

"Epoch ratio" and "import ratio" are seconds of ours divided by those of scikit-learn:
``SGDClassifier(loss="log_loss", max_iter=1, tol=None).fit`` and ``import sklearn.linear_model``.
All seconds are the least of repeats that take turns.

Run ``python benchmarks/core.py`` on a quiet machine; ``--quick`` repeats less. The exit status is 1
if a bar is missed. Figures on ijcnn1.tr, fourclass_scale and a9a need the environment variable
ANTITHETIC_DATA and are left out, with a line that says so, without it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from common import Figure, best_seconds, close, load, machine, next_epoch, report
from scipy import sparse
from sklearn.linear_model import SGDClassifier

import antithetic
from antithetic.orders import Shuffle

VARIANCE_RATIOS = {
    "sonar_scale": 0.346,
    "breast-cancer_scale": 0.698,
    "splice": 0.165,
    "fourclass_scale": 0.277,
    "diabetes_scale": 0.395,
    "ijcnn1.tr": 0.684,
}


# ---- seconds per epoch


def speed(name: str, X, y, most: float, repeats: int) -> Iterator[Figure]:
    """Seconds per epoch of rows, and of antithetic pairs, divided by those of scikit-learn."""
    rows, pairs = (next_epoch(X, y, Shuffle(pairs=pairs)) for pairs in (None, "random"))
    rows(), pairs()  # compile
    peer = SGDClassifier(loss="log_loss", max_iter=1, tol=None)
    peer_seconds, *ours = best_seconds([lambda: peer.fit(X, y), rows, pairs], repeats)
    for kind, seconds, bar in zip(("rows", "pairs"), ours, (most, None), strict=True):
        remark = f"{seconds * 1e3:.2f} ms against {peer_seconds * 1e3:.2f} ms"
        yield Figure(
            f"epoch ratio: {name}, {kind}", seconds / peer_seconds, most=bar, remark=remark
        )


def random_dense(dtype) -> tuple:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 50))
    y = np.sign(X[:, 0] + rng.normal(size=len(X)))
    return X.astype(dtype), y


def random_csr() -> tuple:
    """Return 100000 x 10000 rows of density 0.005: exactly 50 entries a row, in random columns."""
    n, d, stored = 100_000, 10_000, 50
    rng = np.random.default_rng(0)
    columns = np.empty((n, stored), dtype=np.int32)
    redraw = np.arange(n)
    while len(redraw):
        columns[redraw] = np.sort(rng.integers(d, size=(len(redraw), stored)), axis=1)
        redraw = redraw[(np.diff(columns[redraw], axis=1) == 0).any(axis=1)]
    starts = np.arange(0, n * stored + 1, stored, dtype=np.int32)
    X = sparse.csr_array((rng.random(n * stored), columns.ravel(), starts), shape=(n, d))
    return X, np.sign(rng.normal(size=n))


def speeds(repeats: int) -> Iterator[Figure]:
    yield from speed("dense 200000 x 50 float64", *random_dense(np.float64), 0.25, repeats)
    yield from speed("dense 200000 x 50 float32", *random_dense(np.float32), 0.25, repeats)
    yield from speed("CSR 100000 x 10000", *random_csr(), 0.45, repeats)
    for name, form, most in (("ijcnn1.tr", "dense", 0.35), ("a9a", "CSR", 0.5)):
        if (data := load(name)) is not None:
            yield from speed(f"{name} {form}", *data, most, repeats)


# ---- tables


def greedy_cost(repeats: int) -> Iterator[Figure]:
    """Seconds and peak memory of the greedy table of ijcnn1.tr."""
    if (data := load("ijcnn1.tr")) is None:
        return
    X, y = data
    antithetic.pair(X[:500], y[:500], "greedy")  # compile
    yield Figure(
        "greedy table of ijcnn1.tr, seconds",
        *best_seconds([lambda: antithetic.pair(X, y, "greedy")], repeats),
        most=1.5,
    )
    if not Path("/proc/self/status").exists():
        print("left out: peak memory, which is read from /proc")
        return
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", X=X, y=y)
        megabytes = float(child(MEMORY, str(Path(folder) / "data.npz")))
    yield Figure("greedy table of ijcnn1.tr, MB beyond the data", megabytes, most=300.0)


# The peak of the whole process minus what it held just before: at least what the table needed,
# since an earlier peak counts as well. Taken from /proc, as getrusage in a child process begins
# with the peak of its parent.
MEMORY = """
import sys
import numpy as np
import antithetic

def megabytes(field):
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))

data = np.load(sys.argv[1])
X, y = data["X"], data["y"]
antithetic.pair(X[:500], y[:500], "greedy")
before = megabytes("VmRSS")
antithetic.pair(X, y, "greedy")
print(megabytes("VmHWM") - before)
"""


def variance_ratios() -> Iterator[Figure]:
    """Exact variance of greedy pairs at zero weights, divided by that of two independent rows."""
    for name, expected in VARIANCE_RATIOS.items():
        if (data := load(name)) is not None:
            value = antithetic.pair(*data, "greedy").variance_ratio(*data)
            yield Figure(
                f"variance ratio at w = 0: {name}", value, expected - 0.01, expected + 0.01
            )


# ---- processes


def import_time(repeats: int) -> Iterator[Figure]:
    """Import seconds of ``antithetic`` divided by those of ``sklearn.linear_model``.

    Each import runs in a fresh process.
    """
    best = {"antithetic": np.inf, "sklearn.linear_model": np.inf}
    for _ in range(repeats):
        for module in best:
            seconds = float(
                child(
                    f"import time; t = time.perf_counter(); import {module};"
                    " print(time.perf_counter() - t)"
                )
            )
            best[module] = min(best[module], seconds)
    ours, peer = best.values()
    yield Figure("import ratio", ours / peer, most=1.2, remark=f"{ours:.2f} s against {peer:.2f} s")


def child(code: str, *arguments: str, **environment: str) -> str:
    """Run code in a fresh process and return what it printed."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    ).stdout


# ---- the whole


def figures(quick: bool) -> Iterator[Figure]:
    yield from speeds(5 if quick else 21)
    yield from greedy_cost(1 if quick else 3)
    yield from variance_ratios()
    yield from import_time(3 if quick else 7)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats, less to be trusted")
    quick = parser.parse_args().quick
    print(machine())
    return close(report(figures(quick)))


if __name__ == "__main__":
    sys.exit(main())
