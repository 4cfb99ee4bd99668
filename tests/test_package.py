"""The package: public names, version, imports between modules, and no compilation at run time."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import antithetic

pytestmark = pytest.mark.wheel

PACKAGE = Path(antithetic.__file__).parent
# from bottom to top: a module may import those before it, and those of its own line
LAYERS = [
    ("_core",),
    ("_util",),
    ("problem",),
    ("pairing", "exact"),
    ("orders",),
    ("stochastic", "inference"),
    ("estimators", "datasets", "display"),
    ("torch", "dask", "paper"),
    ("_cli", "cli"),
]
# the package itself, and façades that only name what is below; nothing in a layer imports them
FACADES = {"__init__", "__main__", "losses", "penalties", "steps", "stopping"}


def part_of(module):
    return module.removeprefix("antithetic").removeprefix(".").split(".")[0] or "__init__"


def layer(module):
    part = part_of(module)
    if part in FACADES:
        return len(LAYERS)
    return next(level for level, names in enumerate(LAYERS) if part in names)


def imports(path):
    """Modules of the package that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "antithetic":
            yield from (
                (f"antithetic.{name.name}" for name in node.names)
                if node.module == "antithetic"
                else [node.module]
            )
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "antithetic")


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(("antithetic", *parts)).removesuffix(".__init__")


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
def test_imports_point_one_way(path):
    """No module imports one above it, so each can be understood from those below."""
    name = module_name(path)
    above = {one for one in imports(path) if layer(one) > layer(name)}
    assert above == set()


def test_every_import_is_declared():
    """What a module imports from others is a dependency, or in the extra of its package."""
    extras = {"cli": "_cli", "dask": "dask", "torch": "torch"}  # and where each may be imported
    allowed = defaultdict(set)
    for line in importlib.metadata.requires("antithetic"):
        name, extra = re.fullmatch(r"([\w-]+)[^;]*(?:; extra == .(\w+).)?", line).groups()
        if extra is None or extra in extras:
            allowed[extras.get(extra)].add({"scikit-learn": "sklearn"}.get(name, name))
    undeclared, n_found = [], 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:  # what functions import may be optional
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            others = {name.split(".")[0] for name in names} - sys.stdlib_module_names
            others -= {"antithetic"}
            n_found += len(others)
            if others - allowed[None] - allowed[part_of(module_name(path))]:
                undeclared.append((module_name(path), others))
    assert n_found > 100
    assert undeclared == []


def test_every_package_has_a_layer():
    """The layers name exactly the packages that exist."""
    parts = {part_of(module_name(path)) for path in PACKAGE.rglob("*.py")}
    assert parts == FACADES | {name for names in LAYERS for name in names}


REGRESSIONS = ("GammaRegressor", "PoissonRegressor", "Ridge", "TweedieRegressor")


def test_no_two_classes_have_one_name():
    """A name means one thing, except for the estimators of a cluster, which share names."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module_name(path))
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert set(twice) <= {"LogisticRegression", *REGRESSIONS}, twice


def test_nothing_is_compiled_when_it_runs():
    """The kernels are compiled when the package is built: using it needs no compiler."""
    loaded = run_python("import sys; from antithetic import *; print('numba' in sys.modules)")
    assert loaded.strip() == "False"
    needed = importlib.metadata.requires("antithetic")
    assert not [name for name in needed if name.startswith(("numba", "llvmlite"))]


def test_a_part_is_imported_when_it_is_used():
    """Importing the package is quick, and an estimator loads only the solvers that it uses."""
    code = "import sys, {0}; print(*(name for name in {1} if name in sys.modules))"
    heavy = ["sklearn", "scipy.stats", "antithetic._core.kernels", "antithetic.stochastic"]
    assert run_python(code.format("antithetic", heavy)).split() == []
    others = [f"antithetic.{name}" for name in ("orders.pairs", "solvers.sdca", "solvers.softmax")]
    assert run_python(code.format("antithetic.estimators.logistic", others)).split() == []
    others = [f"antithetic.stochastic.{name}" for name in ("newton", "sdca", "softmax")]
    assert run_python(code.format("antithetic.estimators.sgd", others)).split() == []
    for package in ("antithetic", "antithetic.orders", "antithetic.pairing"):
        code = f"import {package} as p; print(set(p.__all__) <= set(dir(p)))"
        assert run_python(code).strip() == "True"
    code = "import antithetic as p; print('pairing' in dir(p), p.pairing.pair is p.pair)"
    assert run_python(code).split() == ["True", "True"]
    with pytest.raises(AttributeError, match="module 'antithetic' has no attribute 'nothing'"):
        antithetic.nothing  # noqa: B018


def test_estimators_import_early_what_scikit_learn_imports_anyway():
    """Once scikit-learn's base does without scipy.stats, our estimators should too."""
    loaded = run_python("import sys, sklearn.base; print('scipy.stats' in sys.modules)")
    assert loaded.strip() == "True"


def test_all_is_what_is_documented():
    """Every public name exists, has a docstring, and is listed in order."""
    assert antithetic.__all__ == sorted(antithetic.__all__)
    for name in antithetic.__all__:
        assert getattr(antithetic, name).__doc__, name


def test_every_parameter_is_documented():
    """numpydoc sections name exactly the parameters that public functions take."""
    import inspect

    for name in ("pair", "pair_rows", "gradient_variance", "minimize"):
        function = getattr(antithetic, name)
        section = (
            inspect.getdoc(function).split("Parameters\n----------\n")[1].split("\nReturns\n")[0]
        )
        documented = [
            part
            for line in re.findall(r"^(\w[\w, ]*?)(?: :.*)?$", section, flags=re.MULTILINE)
            for part in line.split(", ")
        ]
        assert documented == list(inspect.signature(function).parameters), name


def test_the_version_is_that_of_the_changelog():
    """The version is that of the newest changelog entry."""
    changelog = Path(__file__).parent.parent / "CHANGELOG.md"
    assert (
        re.search(r"^## (\d+\.\d+\.\d+)", changelog.read_text(), flags=re.MULTILINE).group(1)
        == antithetic.__version__
    )


def test_the_package_is_typed():
    """``py.typed`` is part of the package."""
    assert (PACKAGE / "py.typed").is_file()


def run_python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
