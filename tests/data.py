"""What tests need to know about the folder of data sets."""

from __future__ import annotations

import os

import pytest

# .ci/run sets the variable and fails if a test was skipped, so these always run there
needs_data = pytest.mark.skipif(
    "ANTITHETIC_DATA" not in os.environ, reason="ANTITHETIC_DATA names no folder of data sets"
)
