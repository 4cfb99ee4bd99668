"""Hypothesis profiles: the same examples in every run, unless told to search for new ones.

``--hypothesis-profile=searching`` tries more examples, and new ones in each run.

``few`` is for kernels that run with sanitizers, and for instruction sets after the first.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from pathlib import Path

from hypothesis import settings

# Workers share the cores already: more threads would wait for each other. Set before NumPy and
# torch are imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

import antithetic

# processes that tests start have this package too; one that is installed they find anyway
HOME = str(Path(antithetic.__file__).parents[1])
if not HOME.startswith(sys.prefix):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HOME, os.environ.get("PYTHONPATH")]))

# machines are shared and noisy, so no deadline
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, max_examples=60
)
settings.register_profile("few", settings.get_profile("repeatable"), max_examples=15)
settings.register_profile("searching", deadline=None, max_examples=200)
settings.load_profile("repeatable")


def pytest_ignore_collect(collection_path, config):
    """Do not import test files that mention none of the markers that ``-m`` asks for."""
    wanted = config.getoption("markexpr")
    if not wanted or collection_path.suffix != ".py" or eval(wanted, {}, defaultdict(bool)):
        return None  # "not kernel" also selects tests without a marker
    text = collection_path.read_text(encoding="utf-8")
    return None if any(f"mark.{name}" in text for name in re.findall(r"\w+", wanted)) else True
