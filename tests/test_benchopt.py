"""The solver files for benchopt: each minimises the objective of its benchmark.

Each runs in a small benchmark that has the interface of the real one.

With benchopt installed they run in benchopt itself; without it, in a class that has the few methods
it asks of a solver.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import antithetic
from antithetic.orders import Balanced

FOLDER = Path(__file__).parents[1] / "benchmarks" / "for_benchopt"
BENCHMARKS = ("benchmark_logreg_l2", "benchmark_linear_svm_binary_classif_no_intercept")
DATA = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5))
y = np.sign(X[:, 0] - X[:, 1] + rng.normal(size=400))
"""
OBJECTIVES = {
    BENCHMARKS[0]: (
        """
import numpy as np
from benchopt import BaseObjective

class Objective(BaseObjective):
    name = "L2 Logistic Regression"
    parameters = {"lmbd": [0.8], "fit_intercept": [True, False]}

    def set_data(self, X, y):
        self.X, self.y = X, y

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1] + self.fit_intercept)}

    def evaluate_result(self, beta):
        w, c = (beta[:-1], beta[-1]) if self.fit_intercept else (beta, 0.0)
        loss = np.logaddexp(0.0, -self.y * (self.X @ w + c)).sum()
        return {"value": loss + self.lmbd / 2 * w @ w}

    def get_objective(self):
        return {"X": self.X, "y": self.y, "lmbd": self.lmbd, "fit_intercept": self.fit_intercept}
"""
    ),
    BENCHMARKS[1]: (
        """
import numpy as np
from benchopt import BaseObjective

class Objective(BaseObjective):
    name = "SVM Binary Classification (no intercept)"
    parameters = {"C": [0.1]}

    def set_data(self, X, y):
        self.X, self.y = X, y

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1])}

    def evaluate_result(self, beta):
        loss = np.maximum(0.0, 1.0 - self.y * (self.X @ beta)).sum()
        return {"value": self.C * loss + beta @ beta / 2}

    def get_objective(self):
        return {"X": self.X, "y": self.y, "C": self.C}
"""
    ),
}
DATASET = f"""
from benchopt import BaseDataset
{DATA}

class Dataset(BaseDataset):
    name = "small"

    def get_data(self):
        return {{"X": X, "y": y}}
"""
PARAMETERS = {
    BENCHMARKS[0]: [{"lmbd": 0.8, "fit_intercept": bias} for bias in (True, False)],
    BENCHMARKS[1]: [{"C": 0.1}],
}


class StandIn:
    """What a solver needs of ``benchopt.BaseSolver``: parameters as attributes, and ``run``."""

    def __init__(self, **parameters):
        self.__dict__.update(parameters)

    def skip(self, **_objective):
        return False, None

    def run_once(self, stop_val=1):
        self.run(stop_val)


def classes_of(monkeypatch, name):
    """Solver and objective of a benchmark, on the stand-in."""
    fake = ModuleType("benchopt")
    fake.BaseSolver = fake.BaseObjective = StandIn
    monkeypatch.setitem(sys.modules, "benchopt", fake)
    spec = importlib.util.spec_from_file_location(
        f"solver_of_{name}", FOLDER / name / "antithetic.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = {}
    exec(OBJECTIVES[name], names)
    return module.Solver, names["Objective"]


def every_setting(solver):
    """All combinations of its parameters, as benchopt makes them."""
    for values in product(*solver.parameters.values()):
        setting = {}
        for names, value in zip(solver.parameters, values, strict=True):
            keys = names.split(", ")
            setting |= dict(zip(keys, value if len(keys) > 1 else (value,), strict=True))
        yield setting


def least_value(objective, d):
    """Least value of an objective, to 1e-6, by our own SDCA or, with an intercept, by L-BFGS."""
    from scipy.optimize import minimize

    if hasattr(objective, "C"):
        l2 = 1.0 / (objective.C * 400)
        w = antithetic.minimize(
            objective.X,
            objective.y,
            loss="hinge",
            l2=l2,
            solver="sdca",
            order="shuffle",
            batch_size=1,
            epochs=500,
        ).coef
        return objective.evaluate_result(w)["value"]
    start = np.zeros(d + objective.fit_intercept)
    return minimize(
        lambda w: objective.evaluate_result(w)["value"],
        start,
        method="BFGS",
        options={"gtol": 1e-7},
    ).fun


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_solver_minimises_the_objective_of_the_benchmark(monkeypatch, name):
    """In all settings the solver minimises the benchmark's objective, so the scaling is right.

    Zero iterations give zero weights.
    """
    solver, objective = classes_of(monkeypatch, name)
    rows = {}
    exec(DATA, rows)
    for parameters in PARAMETERS[name]:
        given = objective(**parameters)
        given.set_data(rows["X"], rows["y"])
        least, ran = least_value(given, 5), 0
        at_zero = given.evaluate_result(**given.get_one_result())["value"]
        for setting in every_setting(solver):
            own = solver(**setting)
            if own.skip(**given.get_objective())[0]:
                continue
            own.set_objective(**given.get_objective())
            own.warm_up()
            own.run(0)
            assert not own.get_result()["beta"].any()
            own.run(150)
            gap = (given.evaluate_result(**own.get_result())["value"] - least) / (at_zero - least)
            assert -1e-6 < gap < 2e-3, (setting, parameters)
            ran += 1
        assert ran >= 2


def test_tables_are_made_inside_run(monkeypatch):
    """Pairing happens inside ``run``, so that its time is counted."""
    solver, _ = classes_of(monkeypatch, BENCHMARKS[0])
    rows, paired = {}, []
    exec(DATA, rows)
    own = solver(
        solver="sgd",
        order=Balanced(pairs=lambda Z: paired.append(len(Z)) or np.arange(len(Z))[::-1]),
        random_state=0,
    )
    own.set_objective(X=rows["X"], y=rows["y"], lmbd=0.8)
    assert paired == []
    own.run(1)
    assert paired == [400]


def write_benchmark(folder, name):
    """A benchmark folder as benchopt wants it, with our solver file in it."""
    for part in ("datasets", "solvers"):
        (folder / part).mkdir(parents=True)
    (folder / "objective.py").write_text(OBJECTIVES[name])
    (folder / "datasets" / "small.py").write_text(DATASET)
    shutil.copy(FOLDER / name / "antithetic.py", folder / "solvers" / "antithetic.py")


if importlib.util.find_spec("benchopt") is not None:

    @pytest.mark.parametrize("name", BENCHMARKS)
    def test_benchopt_itself_runs_it(tmp_path, name):
        """Its command, in a process of its own: every setting converges, none fails."""
        import pandas as pd

        folder = tmp_path / name
        write_benchmark(folder, name)
        command = [
            sys.executable,
            "-m",
            "benchopt",
            "run",
            str(folder),
            "-n",
            "8",
            "-r",
            "1",
            "--no-plot",
            "--no-cache",
            "--output",
            "found",
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (path,) = [path for path in folder.rglob("found*") if path.suffix in (".parquet", ".csv")]
        found = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        assert found["solver_name"].str.startswith("antithetic").all()
        ends = (
            found.sort_values("stop_val")
            .groupby(["objective_name", "solver_name"])["objective_value"]
            .agg(["first", "last"])
        )
        assert len(ends) == (5 if name == BENCHMARKS[0] else 3)
        assert (ends["last"] < ends["first"]).all()
        for _, group in ends.groupby("objective_name"):
            assert group["last"].max() < 1.02 * group["last"].min()
