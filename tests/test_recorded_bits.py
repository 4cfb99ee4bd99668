"""Default fits and the paper's runs keep the weights that version 0.1 gave on the embedded sets.

Bits depend on the CPU and on the versions of numpy and numba, so they are compared on the machine
that they were recorded on, and to nine digits on others.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest
from scipy import sparse

import antithetic
from antithetic.orders import Uniform

RECORDED = json.loads((Path(__file__).parent / "recorded_bits.json").read_text())
L2 = {
    "sonar_scale": 1e-2,
    "breast-cancer_scale": 1e-2,
    "splice_scale": 1e-3,
    "diabetes_scale": 1e-2,
}


def this_machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{cpu}, numpy {np.__version__}, numba {numba.__version__}"


def assert_recorded(key, coef, intercept):
    recorded = np.array([float.fromhex(text) for text in RECORDED["weights"][key]])
    found = np.append(np.ravel(coef), np.ravel(intercept))
    if this_machine() == RECORDED["machine"]:
        np.testing.assert_array_equal(found, recorded)
    else:
        np.testing.assert_allclose(found, recorded, rtol=1e-9, atol=1e-9 * np.abs(recorded).max())


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("name", L2)
def test_default_fits_keep_their_weights(name, form):
    """Both estimators with all defaults, the classifier with two losses."""
    X, y = antithetic.datasets.load(name, return_X_y=True)
    rows = X if form == "dense" else sparse.csr_array(X)
    numbers = np.where(y == y.max(), 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for loss in ("hinge", "log_loss"):
            model = antithetic.SGDClassifier(loss, random_state=0).fit(rows, y)
            key = f"{name} {form} SGDClassifier {loss}"
            assert_recorded(key, model.coef_, model.intercept_)
        model = antithetic.SGDRegressor(random_state=0).fit(rows, numbers)
    assert_recorded(f"{name} {form} SGDRegressor", model.coef_, model.intercept_)


@pytest.mark.parametrize(("label", "pairs"), [("SGD", None), ("SGD-as", "greedy")])
@pytest.mark.parametrize("name", L2)
def test_the_papers_runs_keep_their_weights(name, label, pairs):
    """SGD and SGD-as, five epochs from the first step size 0.1."""
    X, y = antithetic.datasets.load(name, return_X_y=True)
    run = antithetic.minimize(X, y, l2=L2[name], order=Uniform(pairs=pairs), steps=0.1, epochs=5)
    assert_recorded(f"{name} {label}", run.coef, run.intercept)
