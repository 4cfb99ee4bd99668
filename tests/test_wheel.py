"""An installed package: kernels for this CPU, a fit, and the command, without a compiler."""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import antithetic
from antithetic._core import kernels

pytestmark = [pytest.mark.wheel, pytest.mark.lowest]

PACKAGE = Path(antithetic.__file__).parent
DETECTOR = "antithetic._core._cpu"
IS_PLAIN = kernels.isa == "plain"
HAS_FLAGS = Path("/proc/cpuinfo").exists()
# what Linux calls the features of each x86-64 level, from the psABI
FLAGS = {
    "v2": {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"},
    "v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


def available_with(monkeypatch, detector):
    monkeypatch.setitem(sys.modules, DETECTOR, detector)
    return kernels.available()


@pytest.mark.skipif(IS_PLAIN, reason="the kernels were built for one instruction set")
def test_each_level_of_a_cpu_allows_those_below_it(monkeypatch):
    """A CPU of level k runs what was built for levels 2 to k, the best first."""
    for level, names in enumerate([(), ("v2",), ("v3", "v2"), ("v4", "v3", "v2")], 1):
        assert available_with(monkeypatch, SimpleNamespace(level=lambda k=level: k)) == names


def test_an_unknown_cpu_means_the_lowest_level(monkeypatch):
    """If the detector cannot be imported, only what runs on the oldest CPU is available."""
    assert available_with(monkeypatch, None) == ("plain" if IS_PLAIN else "v2",)


@pytest.mark.skipif(IS_PLAIN, reason="the kernels were built for one instruction set")
def test_a_cpu_below_every_level_is_refused_with_the_reason():
    """The import of the kernels fails before one of them is loaded."""
    code = (
        f"import sys, types; sys.modules[{DETECTOR!r}] = types.SimpleNamespace(level=lambda: 1)\n"
        "import antithetic._core.kernels"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: no kernels can be loaded: either the CPU lacks x86-64-v2" in done.stderr


@pytest.mark.skipif(IS_PLAIN or not HAS_FLAGS, reason="compares with the flags that Linux shows")
def test_available_instruction_sets_are_those_of_the_cpu():
    """A level is available exactly if the CPU has all of its features, on any Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = set(next(line for line in lines if line.startswith("flags")).split())
    expected, needed = [], set()
    for name, names in FLAGS.items():
        needed |= names
        if needed <= flags:
            expected.insert(0, name)
    print(f"Python {platform.python_version()}: {expected} by flags, {kernels.available()} found")
    assert DETECTOR in sys.modules
    assert kernels.available() == tuple(expected)


def test_every_module_can_be_imported():
    """Modules need only the dependencies, or their extra (PyTorch, Dask, the command)."""
    extras = {"torch", "dask", "distributed", "typer", "rich"}
    imported, lacking = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        try:
            imported.append(importlib.import_module(name))
        except ModuleNotFoundError as error:
            lacking.append(error.name)
    assert set(lacking) <= extras
    assert len(imported) > 150


def test_estimators_fit_and_predict():
    """Each estimator learns an embedded set, and predicts its rows."""
    X, y = antithetic.datasets.load("breast-cancer_scale", return_X_y=True)
    numbers = X @ np.linspace(-1.0, 1.0, X.shape[1])
    for model, target, least in (
        (antithetic.LogisticRegression(), y, 0.95),
        (antithetic.SGDClassifier(random_state=0), y, 0.95),
        (antithetic.SGDRegressor(random_state=0), numbers, 0.99),
    ):
        assert model.fit(X, target).score(X, target) > least


def test_the_command_runs():
    """The installed script and ``python -m antithetic`` run, or name the extra that they need."""
    script = Path(sysconfig.get_path("scripts"), "antithetic")
    for command in ([script], [sys.executable, "-m", "antithetic"]):
        done = subprocess.run(
            [*command, "--version"],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PATH": ""},
        )
        if find_spec("typer"):
            assert antithetic.__version__ in done.stdout
        else:
            assert 'pip install "antithetic[cli]"' in done.stderr
