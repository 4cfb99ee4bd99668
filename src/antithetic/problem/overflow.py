"""The error for weights or objectives that overflow."""

from __future__ import annotations


class DivergenceError(ValueError):
    """The weights or the objective became infinite or NaN.

    Attributes
    ----------
    result : Result or None
        The last finite result, from the epoch before.
    """

    result: object = None


def overflow_message(epoch: int, reason: str) -> str:
    """Return the message in scikit-learn's words, which programs may look for, with the reason."""
    return (
        f"Floating-point under-/overflow occurred at epoch #{epoch}: {reason}"
        "Scaling input data with StandardScaler or MinMaxScaler might help."
    )
