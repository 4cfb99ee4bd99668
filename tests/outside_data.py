"""Data sets that are not in the package, for tests that skip where they are not at hand."""

from __future__ import annotations

import os

import pytest

from antithetic import datasets


def load_or_skip(name):
    """Return ``(X, y)`` of a set from the folder ANTITHETIC_DATA, or skip the test."""
    if not os.environ.get("ANTITHETIC_DATA"):
        pytest.skip(f"{name} is not in the package, and the environment variable ANTITHETIC_DATA names no folder that holds it")
    return datasets.load(name, return_X_y=True)
