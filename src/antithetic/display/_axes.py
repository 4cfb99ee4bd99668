"""The only imports of matplotlib, made when something is drawn: axes, ticks and texts."""

from __future__ import annotations

from typing import Any


def pyplot() -> Any:
    """Import pyplot, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib; install it with pip install "antithetic[cli]"'
        ) from error
    return plt


def new_axes(**figure_kw: Any) -> Any:
    """Open a figure with one axes."""
    return pyplot().subplots(layout="constrained", **figure_kw)[1]


def whole_ticks(ax: Any) -> None:
    """Put the ticks of x on whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))


def escaped(name: Any) -> str:
    """Escape a name for matplotlib.

    A dollar would begin a formula, and a leading underscore would hide the name from the legend.
    """
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
