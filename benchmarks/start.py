"""Print what a new user waits for, each figure with its bar: installed size, import, first fit.

Everything is measured in a fresh virtual environment, into which the package of this repository is
installed, and each repeat in a process of its own. Seconds are the least of repeats that take
turns.

Run ``python benchmarks/start.py`` on a quiet machine; ``--quick`` repeats less. It needs what
``pip install .`` needs. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

from common import Figure, close, machine, report

REPOSITORY = Path(__file__).parents[1]
KINDS = {"ours": "antithetic", "scikit-learn": "sklearn.linear_model"}
# What is fitted: the class, and its targets from numbers y.
ESTIMATORS = {
    "SGDClassifier": ("SGDClassifier", "np.sign(y)"),
    "SGDRegressor": ("SGDRegressor", "y"),
    "LogisticRegression": ("LogisticRegression", "np.sign(y)"),
    "LogisticRegression, 10 classes": (
        "LogisticRegression",
        "np.digitize(y, np.linspace(-2, 2, 9))",
    ),
}

# Seconds of import and first fit together, of that fit, and of the next.
FITS = """
import json, sys, time
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 20))
y = X[:, 0] + rng.normal(size=len(X))
y = {targets}
start = time.perf_counter()
from {module} import {estimator} as Estimator
imported = time.perf_counter()
Estimator().fit(X, y)
fitted = time.perf_counter()
Estimator().fit(X, y)
print(json.dumps([fitted - start, fitted - imported, time.perf_counter() - fitted]))
"""

# Megabytes of the files of the packages that are installed, by name.
SIZES = """
import json
from importlib.metadata import distributions
sizes = {}
for one in distributions():
    files = [file.locate() for file in one.files or ()]
    sizes[one.name.lower()] = sum(f.stat().st_size for f in files if f.is_file()) / 2**20
print(json.dumps(sizes))
"""


def run(python: Path, code: str):
    """Run code in a fresh process; return what it printed as JSON."""
    command = [str(python), "-W", "ignore", "-c", code]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def environment(folder: Path, *packages: str) -> Path:
    """Make a virtual environment with packages in it; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def installed(python: Path, before: dict[str, float]) -> Figure:
    """Megabytes that came with the package, beyond NumPy, SciPy and scikit-learn."""
    added = {name: size for name, size in run(python, SIZES).items() if name not in before}
    remark = ", ".join(f"{name} {size:.1f}" for name, size in added.items())
    return Figure("installed size, MB", sum(added.values()), most=15.0, remark=remark)


def waits(python: Path, repeats: int) -> Iterator[Figure]:
    """Seconds of import and fits beyond those of scikit-learn."""
    for name, (estimator, targets) in ESTIMATORS.items():
        best = dict.fromkeys(KINDS, (float("inf"),) * 3)
        for _ in range(repeats + 1):  # the first compiles Python's own files
            for kind, module in KINDS.items():
                code = FITS.format(module=module, estimator=estimator, targets=targets)
                seconds = run(python, code)
                best[kind] = tuple(map(min, best[kind], seconds))
        (start, first, second), (peer_start, peer_first, peer_second) = best.values()
        yield Figure(
            f"import and first fit, seconds beyond scikit-learn: {name}",
            start - peer_start,
            most=0.15,
            remark=f"{start:.3f} s against {peer_start:.3f} s",
        )
        ours, theirs = 1e3 * (first - second), 1e3 * (peer_first - peer_second)
        yield Figure(
            f"first fit beyond the second, ms more than scikit-learn: {name}",
            ours - theirs,
            most=5.0 if name == "SGDClassifier" else None,
            remark=f"{ours:.1f} ms against {theirs:.1f} ms",
        )


def figures(quick: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder) / "env", "numpy", "scipy", "scikit-learn")
        before = run(python, SIZES)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", str(REPOSITORY)], check=True
        )
        yield installed(python, before)
        yield from waits(python, 5 if quick else 15)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats, less to be trusted")
    quick = parser.parse_args().quick
    print(machine())
    return close(report(figures(quick)))


if __name__ == "__main__":
    sys.exit(main())
