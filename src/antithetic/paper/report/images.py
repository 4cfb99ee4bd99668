"""Figures of a page as pictures, for papers and slides: PNG and SVG, in the colours of the page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from antithetic._util.files import write_atomically
from antithetic.display._axes import escaped, pyplot, whole_ticks
from antithetic.paper.report.content import Figure, Series

_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#b87f00", "#2b8fce", "#16191d")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 3)),
    (0, (1, 2)),
    (0, (6, 3, 1, 3)),
    (0, (10, 4)),
    (0, (4, 2, 1, 2, 1, 2)),
)
_MARKERS = "os^DXv"
_MARKED_POINTS = 50
_BESIDE = 7  # series from which the legend has a place of its own
_SIZE, _DPI = (5.6, 3.8), 150
_STYLE = {
    "svg.hashsalt": "antithetic",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_SUPERSCRIPTS = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}⁰¹²³⁴⁵⁶⁷⁸⁹")
FORMATS = ("png", "svg")


def draw_figures(
    figures: Sequence[Figure], folder: str | Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw each figure to ``folder/<id>.<format>``; a name has the same look in all of them.

    Parameters
    ----------
    figures : sequence of Figure
    folder : path
        Made if it is not there.
    formats : sequence of str, default=("png", "svg")

    Returns
    -------
    list of Path
    """
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(series.name for figure in figures for series in figure.series)
    looks = {name: place for place, name in enumerate(names)}
    return [
        path
        for figure in figures
        for path in draw_figure(
            figure, [home / f"{figure.id}.{ending}" for ending in formats], looks
        )
    ]


def draw_figure(
    figure: Figure, paths: Sequence[Path], looks: Mapping[str, int] | None = None
) -> Sequence[Path]:
    """Draw one figure to files; their endings say which format.

    Parameters
    ----------
    figure : Figure
    paths : sequence of Path
    looks : mapping of str to int, default=None
        A number for each name, the same wherever it should look the same.

    Returns
    -------
    sequence of Path
    """
    plt = pyplot()
    looks = (
        {series.name: place for place, series in enumerate(figure.series)}
        if looks is None
        else looks
    )
    with plt.rc_context(_STYLE):
        beside = len(figure.series) >= _BESIDE
        # A figure of its own needs no screen.
        sheet = plt.Figure(figsize=(_SIZE[0] + 2.2 * beside, _SIZE[1]))
        ax = sheet.subplots()
        # Automatic layouts take twice as long.
        sheet.subplots_adjust(left=0.13, right=0.69 if beside else 0.97, top=0.91, bottom=0.13)
        for series in figure.series:
            _draw(ax, series, looks[series.name], log=figure.log_y)
        if figure.log_x:
            ax.set_xscale("log")
        elif figure.x_label == "epoch":
            whole_ticks(ax)
        if figure.log_y and any((series.y > 0).any() for series in figure.series):
            ax.set_yscale("log")
            _power_ticks(ax)
        elif figure.from_zero:
            ax.set_ylim(bottom=0.0)
        title = f"{figure.group}: {figure.title}" if figure.group else figure.title
        ax.set_title(escaped(title), fontsize=9, loc="left", wrap=True)
        ax.set(xlabel=escaped(figure.x_label), ylabel=escaped(figure.y_label))
        ax.grid(visible=True, alpha=0.25)
        if figure.series:
            ax.legend(
                fontsize=8,
                frameon=False,
                **({"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if beside else {}),
            )
        for path in paths:
            drawn = io.BytesIO()
            sheet.savefig(
                drawn,
                format=path.suffix[1:],
                dpi=_DPI,
                metadata={"Date": None} if path.suffix == ".svg" else None,
            )
            write_atomically(path, drawn.getvalue())
    return paths


def _draw(ax: Any, series: Series, place: int, *, log: bool) -> None:
    colour, turn = _COLOURS[place % len(_COLOURS)], place + place // len(_COLOURS)
    shown = {
        name: _shown(values, log)
        for name in ("y", "low", "high")
        if (values := getattr(series, name)) is not None
    }
    ax.plot(
        series.x,
        shown["y"],
        color=colour,
        linestyle=_DASHES[turn % len(_DASHES)],
        marker=_MARKERS[turn % len(_MARKERS)] if len(series.x) <= _MARKED_POINTS else None,
        markersize=3.5,
        linewidth=1.6,
        label=escaped(series.name),
    )
    if "low" in shown:
        ax.fill_between(
            series.x, shown["low"], shown["high"], color=colour, alpha=0.15, linewidth=0
        )


def _power_ticks(ax: Any) -> None:
    """Label powers of ten as text: matplotlib's formulae take most of the time of a figure."""
    low, high = ax.get_ylim()
    if high > 10.0 * low:
        ax.yaxis.set_major_formatter(
            lambda value, _place: f"10{str(round(np.log10(value))).translate(_SUPERSCRIPTS)}"
        )
        ax.yaxis.set_minor_formatter(lambda _value, _place: "")


def _shown(values: Any, log: bool) -> Any:
    """Values, masked where they have no place on the axis."""
    return np.ma.masked_where(~np.isfinite(values) | ((values <= 0) & log), values)
