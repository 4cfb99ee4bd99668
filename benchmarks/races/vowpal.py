"""Vowpal Wabbit, if it is installed: online steps and L-BFGS.

It reads a cache file that is written before the clock starts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from races.peer import Config, Fit, Peer, import_peer
from races.tasks import Task

_LOSSES = {"log_loss": "logistic", "hinge": "hinge"}
_ONLINE = {  # its default of three adaptations, and plain steps
    **{f"adaptive, -l {rate}": f"-l {rate}" for rate in (0.5, 0.05)},
    **{f"adaptive, power_t 1, -l {rate}": f"--power_t 1 -l {rate}" for rate in (5.0, 0.5)},
    **{f"--sgd, -l {rate}": f"--sgd -l {rate}" for rate in (8.0, 0.5)},
}


class _Folder:
    """A temporary folder that exists as long as this object."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="antithetic-bench-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def vowpal_wabbit(task: Task) -> Sequence[Config]:
    """Write the rows in a random order, and let Vowpal Wabbit turn them into its cache.

    The order is random because it takes the rows as they come.
    """
    package = import_peer("vowpalwabbit")
    folder = _Folder()
    source, cache = (os.path.join(folder.path, name) for name in ("rows.txt", "rows.cache"))
    _write_rows(task, source)
    bits = max(1, int(np.ceil(np.log2(task.d + 1))))
    common = (
        f"--quiet --noconstant --holdout_off --loss_function {_LOSSES[task.loss]} -b {bits}"
        f" --cache_file {cache}"
    )
    package.Workspace(f"{common} -d {source} --passes 1").finish()
    os.unlink(source)
    choices = {words: f"{options} --l2 {task.l2!r}" for words, options in _ONLINE.items()}
    if task.loss == "log_loss":
        choices["--bfgs"] = (  # added to the sum of losses, not to the mean
            f"--bfgs --mem 15 --termination 1e-12 --l2 {task.l2 * task.n!r}"
        )
    return [
        Config(
            words,
            partial(_fit, package, folder, f"{common} {options}", task.d),
            "passes",
            stochastic=False,
        )
        for words, options in choices.items()
    ]


def _fit(package: Any, _folder: _Folder, options: str, d: int, effort: int, _seed: int) -> Fit:
    passes = effort + ("--bfgs" in options)  # the first of which only looks
    workspace = package.Workspace(f"{options} --passes {passes}")  # which runs at once
    raw = np.array([workspace.get_weight(j) for j in range(d)])
    coef = raw * _shrinkage(workspace, raw)
    workspace.finish()
    return Fit(coef, passes, passes)


def _shrinkage(workspace: Any, raw: Any) -> float:
    """Factor for all weights, to correct the weights for a penalty that is kept apart.

    Vowpal Wabbit applies the penalty to its predictions, but not to the weights it returns.
    """
    place = int(np.argmax(np.abs(raw)))
    if raw[place] == 0.0 or not np.isfinite(raw[place]):
        return 1.0
    example = workspace.parse(f"| {place}:{1.0 / abs(float(raw[place])):.9g}")
    workspace.predict(example)
    margin = abs(float(example.get_partial_prediction()))
    workspace.finish_example(example)
    return margin


def _write_rows(task: Task, path: str) -> None:
    """Rows as it reads them, written in blocks."""
    order = np.random.default_rng(0).permutation(task.n)
    rows, y = sparse.csr_matrix(task.X)[order], task.y[order].astype(int).tolist()
    with open(path, "w", encoding="ascii") as file:
        for i in range(task.n):
            part = slice(rows.indptr[i], rows.indptr[i + 1])
            pairs = zip(rows.indices[part].tolist(), rows.data[part].tolist(), strict=True)
            file.write(f"{y[i]} | {' '.join(f'{j}:{value:.9g}' for j, value in pairs)}\n")


PEERS = (
    Peer(
        "Vowpal Wabbit",
        "vowpalwabbit",
        vowpal_wabbit,
        tuple(_LOSSES),
        one_pass="adaptive, -l 0.5",
        module="",
    ),
)
