"""The examples in the docstrings of the package run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import antithetic

NAMES = [
    module.name
    for module in pkgutil.walk_packages(antithetic.__path__, "antithetic.")
    if not module.name.endswith("__main__") and "._core._" not in module.name
]


@pytest.mark.parametrize("name", ["antithetic", *NAMES])
def test_the_examples_of_a_module_run(name):
    """Each example gives what its docstring says."""
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
