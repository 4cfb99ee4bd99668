"""The paper's Figures 2 and 3: a sheet per loss, a row per data set, points inside epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from antithetic.display._axes import escaped, pyplot
from antithetic.paper.experiments import Experiment
from antithetic.paper.report.pictures import COLOURS, STYLE, Picture, drawable, power_ticks
from antithetic.paper.workbench import BATCH_SIZE, PAPER, POINTS, SHEET_EPOCHS, Array

TITLES = {"log_loss": "Figure 2, logistic regression", "hinge": "Figure 3, SVM"}
SHEET_COLOURS = {"SGD": COLOURS[0], "SGD-as": COLOURS[1], "reshuffled": "#9aa1ab"}
_NAMES = {"SGD": "SGD", "SGD-as": "SGD-as (pairs)", "reshuffled": "reshuffled SGD"}
_MINUS, _ETA0 = "\N{MINUS SIGN}", "\N{GREEK SMALL LETTER ETA}\N{SUBSCRIPT ZERO}"
# Inches. A sheet is as narrow as the screen of a phone, so that its labels need no zoom there.
_WIDTH, _LEFT, _RIGHT, _GAP = 4.6, 0.43, 0.17, 0.46
_AXES, _BETWEEN, _TITLE, _HEADER, _HEADING, _FOOTER = 0.82, 0.38, 0.2, 0.66, 0.27, 0.4
_SMALL, _NORMAL, _LABELS = 7.5, 8.5, 6  # points, and labels of a logarithmic axis
_ROOM_BELOW, _ROOM_ABOVE = 0.6, 1.4  # of a logarithmic axis, beyond the mean curves


def draw_sheets(experiments: Sequence[Experiment]) -> list[Picture]:
    """Draw a sheet for each loss that was run."""
    pictures = list[Picture]()
    for loss, title in TITLES.items():
        held = [one for one in experiments if one.loss == loss]
        if held:
            told = f"As {pictures[0].title.partition(',')[0]}." if pictures else _caption(held[0])
            pictures.append(_sheet_of(title, held, told))
    return pictures


def draw_sheet(
    experiments: Sequence[Experiment],
    title: str = "",
    colours: Mapping[str, str] = SHEET_COLOURS,
    *,
    axes_height: float = _AXES,
) -> Any:
    """Draw a figure of matplotlib with a row for each experiment: variance left, objective right.

    Parameters
    ----------
    experiments : sequence of Experiment
    title : str, default=""
    colours : mapping of method to str
        Of SGD, SGD-as and reshuffled SGD.
    axes_height : float
        Inches; a sheet is 4.6 wide.
    """
    top = _HEADER + (_TITLE if title else 0.0)
    height = top + len(experiments) * (axes_height + _BETWEEN) - _BETWEEN + _FOOTER
    width = (_WIDTH - _LEFT - _RIGHT - _GAP) / 2.0
    sheet = pyplot().Figure(figsize=(_WIDTH, height), layout="none")
    sheet.subplots_adjust(
        left=_LEFT / _WIDTH,
        right=1.0 - _RIGHT / _WIDTH,
        bottom=_FOOTER / height,
        top=1.0 - top / height,
        wspace=_GAP / width,
        hspace=_BETWEEN / axes_height,
    )
    rows = sheet.subplots(len(experiments), 2, squeeze=False)
    for one, (left, right) in zip(experiments, rows, strict=True):
        _draw_row(one, left, right, colours)
    for ax, heading in zip(rows[0], ("variance of the gradient", "objective (gap)"), strict=True):
        above = ax.get_position()
        y = above.y1 + _HEADING / height
        sheet.text((above.x0 + above.x1) / 2.0, y, heading, ha="center", fontsize=_NORMAL)
    for ax in rows[-1]:
        ax.set_xlabel("iteration", fontsize=_NORMAL)
    if title:
        sheet.suptitle(title, fontsize=_NORMAL + 1, x=0.5, y=1.0 - 0.06 / height, va="top")
    sheet.legend(
        *_legend(rows[0, 1]),
        loc="upper center",
        bbox_to_anchor=(0.5, 1.0 - (top - _HEADER) / height),
        borderaxespad=0.2,
        ncols=len(_NAMES),
        fontsize=_NORMAL,
        frameon=False,
        handlelength=1.4,
        columnspacing=1.4,
    )
    return sheet


def _sheet_of(title: str, experiments: Sequence[Experiment], caption: str) -> Picture:
    with pyplot().rc_context(STYLE):
        sheet = draw_sheet(experiments, title)
    name, sets = title.split(",")[0], ", ".join(one.name for one in experiments)
    return Picture(
        name.lower().replace(" ", "-"),
        f"{title}: variance and objective of SGD, SGD-as and reshuffled SGD by iteration on {sets}",
        sheet,
        f"{title}. {caption}",
    )


def _caption(one: Experiment) -> str:
    seeds, epochs = one.protocol["seeds"], one.protocol["epochs"]
    return (
        f"The first {min(epochs, SHEET_EPOCHS)} of {epochs} epochs, {POINTS} points in each; an"
        f" iteration uses {BATCH_SIZE} rows. Lines are means of {seeds} runs, bands their range."
        " Left: the exact variance of SGD and SGD-as, each along its own runs. Right: the"
        f" objective, (f {_MINUS} f*) / (f(0) {_MINUS} f*), on a logarithmic axis. All methods of a"
        f" row share the step, with the {_ETA0} that is best for SGD. Reshuffled SGD has no"
        " variance here: inside an epoch its next rows depend on those before, so its gradient is"
        " biased, and a variance would not be its whole error."
    )


def _draw_row(one: Experiment, left: Any, right: Any, colours: Mapping[str, str]) -> None:
    variance = one.inside["variance"]
    gap = {method: one.relative_gap(along) for method, along in one.inside["objective"].items()}
    for method in PAPER:
        _draw_runs(left, one, variance[method], colours[method])
    for method in reversed(gap):  # the paper's two methods above the others
        _draw_runs(right, one, gap[method], colours[method], band=method in PAPER, log=True)
    left.set_ylim(bottom=0.0)
    left.locator_params(axis="y", nbins=4)
    _log_axis(right, [along.mean(axis=0) for along in gap.values()])
    for ax in (left, right):
        ax.set_xlim(0, one.iterations[-1])
        ax.locator_params(axis="x", nbins=4)
        ax.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
        ax.tick_params(labelsize=_SMALL, length=2.5, pad=2.0)
        ax.grid(visible=True, alpha=0.25)
    title = {"fontsize": _NORMAL, "pad": 3.0}
    left.set_title(escaped(one.name), loc="left", fontweight="bold", **title)
    right.set_title(f"{_ETA0} = {one.eta0:.2g}", loc="right", **title | {"fontsize": _SMALL})


def _draw_runs(
    ax: Any, one: Experiment, runs: Array, colour: str, *, band: bool = True, log: bool = False
) -> None:
    """Draw the mean of runs of shape (S, points), and their range as a band."""
    x = one.iterations
    ax.plot(x, drawable(runs.mean(axis=0), log), color=colour, linewidth=1.0 if band else 0.8)
    if band:
        low, high = (drawable(of(axis=0), log) for of in (runs.min, runs.max))
        ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)


def _log_axis(ax: Any, means: Sequence[Array]) -> None:
    """Show all of the mean curves; a band that dips to the minimum would take most of the axis."""
    shown = np.concatenate([mean[np.isfinite(mean) & (mean > 0.0)] for mean in means])
    if len(shown):
        ax.set_yscale("log")
        ax.set_ylim(_ROOM_BELOW * shown.min(), _ROOM_ABOVE * shown.max())
        low, high = ax.get_ylim()
        if high > 10.0 * low:
            ax.yaxis.get_major_locator().set_params(numticks=_LABELS)
            power_ticks(ax)
        else:  # few epochs
            ax.yaxis.get_major_locator().set_params(subs=(1.0, 2.0, 5.0))
            ax.yaxis.set_major_formatter(lambda value, _place: f"{value:g}")
            ax.yaxis.set_minor_formatter(lambda _value, _place: "")


def _legend(ax: Any) -> tuple[list[Any], list[str]]:
    """Lines of the axes that show all methods, the paper's two first, and their names."""
    return ax.get_lines()[::-1], list(_NAMES.values())
