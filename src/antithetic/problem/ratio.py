"""Ratios of variances."""

from __future__ import annotations

import numpy as np


def ratio(variance: float, reference: float) -> float:
    """``variance / reference``, with 0 / 0 = 1: neither varies, so neither is better."""
    if reference == 0.0:
        return 1.0 if variance == 0.0 else np.inf
    return variance / reference
