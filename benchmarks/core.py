"""Print the figures of the core, each with its bar: speed, pairing, memory, variance.

"Epoch ratio" is a fifth of the difference between fits of 6 epochs and of 1, of
``antithetic.SGDClassifier(loss="log_loss", tol=None)`` divided by that of scikit-learn's class of
the same name; "fit ratio" is that of whole fits. Pairing is measured in products of two 3000 x 3000
matrices of float32 by NumPy. All seconds are the least of repeats that take turns.

Run ``python benchmarks/core.py`` on a quiet machine, with OMP_NUM_THREADS=1; ``--quick`` repeats
less. The exit status is 1 if a bar is missed. Figures on sets that are not in the package need the
environment variable ANTITHETIC_DATA and are left out, with a line that says so, without it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from common import Figure, best_seconds, close, load, machine, report
from scipy import sparse
from sklearn.linear_model import SGDClassifier

import antithetic

VARIANCE_RATIOS = {
    "sonar_scale": 0.346,
    "breast-cancer_scale": 0.698,
    "splice": 0.165,
    "fourclass_scale": 0.277,
    "diabetes_scale": 0.395,
    "ijcnn1.tr": 0.684,
}


# What the kernels needed that a JIT compiled (numba 0.68.1, on a 2-core AMD EPYC), of which four
# fifths are allowed.
JIT_PRODUCTS = {"tree": 17.5, "greedy": 3.52}
RESHUFFLED = 0.75  # what a reshuffled epoch may take of the bar of a balanced one

# ---- seconds per epoch and per fit


def fit(kind: type, X, y, epochs: int, **parameters) -> Callable[[], object]:
    """Return a function that fits a logistic regression."""
    model = kind(loss="log_loss", max_iter=epochs, tol=None, random_state=0, **parameters)
    return lambda: model.fit(X, y)


def speed(name: str, X, y, most: float, repeats: int) -> Iterator[Figure]:
    """Seconds per epoch, balanced and reshuffled, divided by those of scikit-learn."""
    kinds = (
        (SGDClassifier, {}),
        (antithetic.SGDClassifier, {}),
        (antithetic.SGDClassifier, {"order": "shuffle"}),
    )
    jobs = [fit(kind, X, y, epochs, **given) for kind, given in kinds for epochs in (1, 6)]
    seconds = best_seconds(jobs, repeats)
    peer, *ours = ((six - one) / 5 for one, six in zip(seconds[::2], seconds[1::2], strict=True))
    for order, taken, bar in zip(("balanced", "shuffle"), ours, (1.0, RESHUFFLED), strict=True):
        remark = f"{taken * 1e3:.2f} ms against {peer * 1e3:.2f} ms"
        yield Figure(f"epoch ratio: {name}, {order}", taken / peer, most=bar * most, remark=remark)


def whole_fit(name: str, X, y, epochs: int, most: float, repeats: int) -> Figure:
    """Seconds of a whole fit divided by those of scikit-learn."""
    jobs = [fit(kind, X, y, epochs) for kind in (SGDClassifier, antithetic.SGDClassifier)]
    peer, ours = best_seconds(jobs, repeats)
    remark = f"{ours * 1e3:.2f} ms against {peer * 1e3:.2f} ms"
    return Figure(f"fit ratio: {name}, epochs: {epochs}", ours / peer, most=most, remark=remark)


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
    X, y = random_dense(np.float64)
    yield from speed("dense 200000 x 50 float64", X, y, 0.18, repeats)
    # 0.30 would do for the epoch alone; the gap that every fit ends with takes a pass more
    yield whole_fit("dense 200000 x 50 float64", X, y, 1, 0.40, repeats)
    yield from speed("dense 200000 x 50 float32", *random_dense(np.float32), 0.16, repeats)
    yield from speed("CSR 100000 x 10000", *random_csr(), 0.65, repeats)
    for name, most in (("ijcnn1.tr", 0.42), ("a9a", 0.60), ("w8a", 0.75)):
        if (data := load(name)) is not None:
            yield from speed(name, *data, most, repeats)


# ---- tables


def in_products(job: Callable[[], object], repeats: int) -> tuple[float, str]:
    """Seconds of a job divided by those of a matrix product, and both in words."""
    left, right = np.random.default_rng(0).random((2, 3000, 3000), dtype=np.float32)
    ours, product = best_seconds([job, lambda: left @ right], repeats)
    return ours / product, f"{ours:.3f} s against {product:.3f} s"


def pairing_cost(repeats: int) -> Iterator[Figure]:
    """Pairing of many rows by the default method, and by Algorithm 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000_000, 50))
    y = np.sign(X[:, 0] + rng.normal(size=len(X)))
    value, remark = in_products(lambda: antithetic.pair(X, y), repeats)
    yield Figure(
        "pairing 1000000 x 50, in products", value, most=0.8 * JIT_PRODUCTS["tree"], remark=remark
    )
    if (data := load("ijcnn1.tr")) is None:
        return
    value, remark = in_products(lambda: antithetic.pair(*data, "greedy"), repeats)
    yield Figure(
        "Algorithm 1 on ijcnn1.tr, in products",
        value,
        most=0.8 * JIT_PRODUCTS["greedy"],
        remark=remark,
    )


def greedy_memory() -> Iterator[Figure]:
    """Peak memory of the greedy table of ijcnn1.tr."""
    if (data := load("ijcnn1.tr")) is None:
        return
    X, y = data
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


def child(code: str, *arguments: str, **environment: str) -> str:
    """Run code in a fresh process and return what it printed."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    ).stdout


# ---- the whole


def figures(quick: bool) -> Iterator[Figure]:
    yield from speeds(3 if quick else 11)
    yield from pairing_cost(1 if quick else 3)
    yield from greedy_memory()
    yield from variance_ratios()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats, less to be trusted")
    quick = parser.parse_args().quick
    print(machine())
    return close(report(figures(quick)))


if __name__ == "__main__":
    sys.exit(main())
