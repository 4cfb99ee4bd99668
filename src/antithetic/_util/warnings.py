"""Warnings that point at the user's line, past our frames and scikit-learn's."""

from __future__ import annotations

import sys
import warnings

_PASSED_OVER = ("antithetic", "sklearn", "joblib", "contextlib", "threading", "concurrent")


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning at the line that called into the package."""
    level, frame = 2, sys._getframe(1)
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").split(".")[0] in _PASSED_OVER
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
