"""Hypothesis profiles: the same examples in every run, unless told to search for new ones.

``--hypothesis-profile=searching`` tries more examples, and new ones in each run.

``few`` is for compiled code that runs as plain Python, a hundred times slower.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings

import antithetic

# processes that tests start have this package too, and need not compile it again; one that is
# installed they find anyway
HOME = str(Path(antithetic.__file__).parents[1])
if not HOME.startswith(sys.prefix):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HOME, os.environ.get("PYTHONPATH")]))

# the first call of a kernel compiles it, so no deadline
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, max_examples=60
)
settings.register_profile("few", settings.get_profile("repeatable"), max_examples=15)
settings.register_profile("searching", deadline=None, max_examples=200)
settings.load_profile("repeatable")
