"""The first fit of a fresh process: what a user waits for, importing the package included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from races.peer import EstimatorFit

# Rows are read before the clock starts; NumPy and SciPy's sparse matrices are loaded by then.
_CHILD = """
import importlib, json, sys, time
import numpy as np
from scipy import sparse
given = json.loads(sys.argv[1])
y = np.load(given["y"])
X = np.load(given["X"]) if given["dense"] else sparse.load_npz(given["X"])
clock = {"wall": time.perf_counter, "cpu": time.process_time}[given["clock"]]
start = clock()
module = importlib.import_module(given["module"])
getattr(module, given["name"])(**given["parameters"]).fit(X, y)
print("seconds", clock() - start)
"""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class FirstFit(NamedTuple):
    """What is fitted in fresh processes, and how far."""

    fit: EstimatorFit
    effort: int
    seed: int


def first_seconds(
    fits: Sequence[FirstFit], *, clock: str, threads: int, repeats: int
) -> list[float | RuntimeError]:
    """Smallest time of import and fit for each, with a new process for each repeat.

    All take turns, so that a slow spell of the machine affects all of them. An error, with the
    last line of the error stream, stands for a fit whose process failed.
    """
    environment = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(threads))
    with tempfile.TemporaryDirectory(prefix="antithetic-bench-") as folder:
        commands = [
            _command(one, Path(folder, str(place)), clock) for place, one in enumerate(fits)
        ]
        found: list[float | RuntimeError] = [np.inf] * len(fits)
        for _ in range(repeats):
            for place, command in enumerate(commands):
                best = found[place]
                if not isinstance(best, RuntimeError):
                    found[place] = _outcome(command, environment, best)
    return found


def _outcome(command: list[str], environment: dict[str, str], best: float) -> float | RuntimeError:
    try:
        return min(best, _run(command, environment))
    except RuntimeError as error:
        return error


def _command(one: FirstFit, folder: Path, clock: str) -> list[str]:
    """Write rows and labels into a new folder, and return what to run."""
    folder.mkdir()
    given = _written(one.fit, folder) | {
        "parameters": one.fit.parameters(one.effort, one.seed),
        "module": one.fit.module,
        "name": one.fit.name,
        "clock": clock,
    }
    return [sys.executable, "-W", "ignore", "-c", _CHILD, json.dumps(given)]


def _written(fit: EstimatorFit, folder: Path) -> dict[str, Any]:
    """Write rows and labels into a folder; return the names of the files."""
    dense = not sparse.issparse(fit.X)
    names = {"X": str(folder / ("X.npy" if dense else "X.npz")), "y": str(folder / "y.npy")}
    if dense:
        np.save(names["X"], fit.X)
    else:
        sparse.save_npz(names["X"], fit.X, compressed=False)
    np.save(names["y"], fit.y)
    return {**names, "dense": dense}


def _run(command: list[str], environment: dict[str, str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    said = [line for line in done.stdout.splitlines() if line.startswith("seconds ")]
    if done.returncode or not said:
        raise RuntimeError(
            (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        )
    return float(said[-1].split()[1])
