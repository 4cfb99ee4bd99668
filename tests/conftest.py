"""How Hypothesis looks for examples: the same ones in every run, or, with ``--hypothesis-profile=searching``, new and more ones."""

from __future__ import annotations

from hypothesis import settings

# the first call of a kernel compiles it, so no deadline
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None, max_examples=60)
settings.register_profile("searching", deadline=None, max_examples=200)
settings.load_profile("repeatable")
