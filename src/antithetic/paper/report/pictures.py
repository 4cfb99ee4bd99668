"""Pictures of a page: line charts by matplotlib, or any sheet of its axes, as SVG and PNG."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from antithetic._util.files import write_atomically
from antithetic.display._axes import escaped, pyplot, whole_ticks

FORMATS = ("png", "svg")
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#b87f00", "#2b8fce", "#16191d")
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
_SIZE, _DPI, _LEGEND_ROW = (4.8, 3.4), 150, 0.2  # inches
_LEGEND_WIDTH = 50  # characters of three names side by side
STYLE = {
    "svg.hashsalt": "antithetic",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_SUPERSCRIPTS = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawing with its place on a page.

    Parameters
    ----------
    id : str
        Its address within the page, and the name of its files.
    title : str
    sheet : matplotlib.figure.Figure
    caption : str, default=""
    group : str, default=""
        Pictures of one group, say of one data set, stand side by side under its name.
    """

    id: str
    title: str
    sheet: Any
    caption: str = ""
    group: str = ""

    @cached_property
    def svg(self) -> bytes:
        """The drawing as SVG."""
        return self._drawn("svg", metadata={"Date": None})

    def write(self, folder: Path, ending: str) -> Path:
        """Write ``folder/<id>.<ending>``, of one of ``FORMATS``."""
        path = folder / f"{self.id}.{ending}"
        write_atomically(path, self.svg if ending == "svg" else self._drawn(ending))
        return path

    def _drawn(self, ending: str, **given: Any) -> bytes:
        drawn = io.BytesIO()
        with pyplot().rc_context(STYLE):
            self.sheet.savefig(drawn, format=ending, dpi=_DPI, **given)
        return drawn.getvalue()


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One curve of a figure, with a band around it if there is ``low`` and ``high``.

    A name has the same colour, dashes and marker in all figures that are drawn together. NaN and
    infinity are gaps.
    """

    name: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """Curves over one axis.

    Parameters
    ----------
    id : str
        The name of its files, and its address within a page.
    title : str
    series : sequence of Series
    caption, x_label, y_label : str, default=""
    log_x, log_y : bool, default=False
        What is not positive is a gap on a logarithmic axis.
    from_zero : bool, default=False
        Whether an axis of y that is not logarithmic starts at 0, so that heights can be compared
        between figures.
    group : str, default=""
        As of a :class:`Picture`.
    """

    id: str
    title: str
    series: Sequence[Series]
    caption: str = ""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False
    group: str = ""


def draw_figures(figures: Iterable[Figure]) -> list[Picture]:
    """Draw figures; a name has the same look in all of them."""
    figures = list(figures)
    names = dict.fromkeys(series.name for figure in figures for series in figure.series)
    looks = {name: place for place, name in enumerate(names)}
    return [
        Picture(figure.id, figure.title, _draw(figure, looks), figure.caption, figure.group)
        for figure in figures
    ]


def write_pictures(
    pictures: Iterable[Picture], folder: str | Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write each picture to ``folder/<id>.<format>``; the folder is made if it is not there."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    return [picture.write(home, ending) for picture in pictures for ending in formats]


def _draw(figure: Figure, looks: Mapping[str, int]) -> Any:
    plt, lengths = pyplot(), sorted(len(series.name) for series in figure.series)
    columns = 3 if sum(lengths[-3:]) <= _LEGEND_WIDTH else 2
    rows = -(-len(figure.series) // columns) + bool(figure.group)
    height = _SIZE[1] + _LEGEND_ROW * rows
    with plt.rc_context(STYLE):
        sheet = plt.Figure(figsize=(_SIZE[0], height))  # without pyplot's windows: no screen
        ax = sheet.subplots()
        # Automatic layouts take twice as long.
        top = 1.0 - (0.27 + _LEGEND_ROW * rows) / height
        sheet.subplots_adjust(left=0.14, right=0.97, top=top, bottom=0.47 / height)
        for series in figure.series:
            _draw_series(ax, series, looks[series.name], log=figure.log_y)
        if figure.log_x:
            ax.set_xscale("log")
        elif figure.x_label == "epoch":
            whole_ticks(ax)
        if figure.log_y and any((np.asarray(series.y) > 0).any() for series in figure.series):
            ax.set_yscale("log")
            power_ticks(ax)
        elif figure.from_zero:
            ax.set_ylim(bottom=0.0)
        ax.set(xlabel=escaped(figure.x_label), ylabel=escaped(figure.y_label))
        ax.grid(visible=True, alpha=0.25)
        titles = [escaped(text) for text in (figure.group, figure.title) if text]
        sheet.suptitle("\n".join(titles), fontsize=9, x=0.02, y=0.985, ha="left", wrap=True)
        # Above the axes: it hides no curve, and names at the ends of curves would collide.
        sheet.legend(
            fontsize=8,
            frameon=False,
            ncols=columns,
            loc="lower left",
            bbox_to_anchor=(0.1, top),
            borderaxespad=0.2,
        )
    return sheet


def _draw_series(ax: Any, series: Series, place: int, *, log: bool) -> None:
    colour, turn = COLOURS[place % len(COLOURS)], place + place // len(COLOURS)
    ax.plot(
        series.x,
        drawable(series.y, log),
        color=colour,
        linestyle=_DASHES[turn % len(_DASHES)],
        marker=_MARKERS[turn % len(_MARKERS)] if len(series.x) <= _MARKED_POINTS else None,
        markersize=3.5,
        linewidth=1.6,
        label=escaped(series.name),
    )
    if series.low is not None:
        band = (drawable(series.low, log), drawable(series.high, log))
        ax.fill_between(series.x, *band, color=colour, alpha=0.15, linewidth=0)


def power_ticks(ax: Any) -> None:
    """Label powers of ten as text: matplotlib's formulae take most of the time of a figure."""
    low, high = ax.get_ylim()
    if high > 10.0 * low:
        ax.yaxis.set_major_formatter(
            lambda value, _place: f"10{str(round(np.log10(value))).translate(_SUPERSCRIPTS)}"
        )
        ax.yaxis.set_minor_formatter(lambda _value, _place: "")


def drawable(values: Any, log: bool) -> Any:
    """Values, masked where they have no place on the axis."""
    values = np.asarray(values, dtype=np.float64)
    return np.ma.masked_where(~np.isfinite(values) | ((values <= 0) & log), values)
