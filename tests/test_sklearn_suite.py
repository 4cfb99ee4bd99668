"""scikit-learn's own tests, unedited, with our estimators in place of its own.

`sklearn_suite/expected.py` has the exceptions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import antithetic

INSTALLED = Path(antithetic.__file__).parents[1]
SUITE = Path(__file__).parent / "sklearn_suite"
MODULES = [
    "linear_model.tests.test_sgd",
    "tests.test_multiclass",
    "tests.test_multioutput",
    "feature_selection.tests.test_from_model",
    "model_selection.tests.test_search",
]
# a third class, which is slow to test and not ours
OTHERS = "not oneclass and not one_class and not ocsvm"
# joblib's backends, 15 s each, once each: they see how classes are dealt out, which is the same
# with either's defaults
ELSEWHERE = {"sklearn": "not loky", "ours": "not multiprocessing and not threading"}


@pytest.mark.parametrize("standin", ["sklearn", "ours"])
def test_scikit_learns_tests_pass_with_our_estimators(standin, tmp_path):
    # Keeps pytest from using our settings and conftest.
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "SKLEARN_"))
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        *f"-p standin --standin={standin} -p no:cacheprovider -q -rfE -W ignore".split(),
    ]
    # At most two processes in total.
    command += ["-n", "0" if "PYTEST_XDIST_WORKER" in os.environ else "2"]
    command += ["-k", f"{OTHERS} and {ELSEWHERE[standin]}"]
    run = subprocess.run(
        [*command, "--pyargs", *(f"sklearn.{module}" for module in MODULES)],
        cwd=tmp_path,
        env={
            **environment,
            "SKLEARN_SEED": "0",
            "PYTHONPATH": os.pathsep.join([str(SUITE), str(INSTALLED)]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
    )
    assert run.returncode == 0, run.stdout[-5000:]
