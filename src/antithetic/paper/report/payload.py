"""The numbers of a page as the script reads them: valid JSON, thinned.

The reader downloads the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.paper.report.content import Content, Explorer, Figure, Frames, Numbers, Series
from antithetic.paper.report.thin import thin_curve, thin_rows

MAX_POINTS = 2000  # of a curve
MAX_ROWS = 1500  # of an explorer
# rows times frames of one method, about a megabyte: further frames show those of the last one kept
MAX_GRADIENTS = 60_000
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def to_json(value: object) -> str:
    """JSON that may stand in a ``<script>``: ASCII, without characters special to HTML."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def payload(content: Content) -> dict[str, Any]:
    """Everything a page shows, as dicts, lists, strings, finite numbers and None."""
    return {
        "title": content.title,
        "subtitle": content.subtitle,
        "summary": list(content.summary),
        "figures": [_figure(figure) for figure in content.figures],
        "claims": [
            {
                "claim": claim.claim,
                "verdict": claim.verdict,
                "measured": claim.measured,
                "detail": claim.detail,
            }
            for claim in content.claims
        ],
        "tables": [
            {
                "title": table.title,
                "columns": list(table.columns),
                "rows": [[_cell(cell) for cell in row] for row in table.rows],
            }
            for table in content.tables
        ],
        "explorer": [_explorer(explorer) for explorer in content.explorer],
        "settings": _texts(content.settings),
        "versions": _texts(content.versions),
        "machine": _texts(content.machine),
        "citation": content.citation,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "id": figure.id,
        "title": figure.title,
        "caption": figure.caption,
        "xLabel": figure.x_label,
        "yLabel": figure.y_label,
        "logX": figure.log_x,
        "logY": figure.log_y,
        "fromZero": figure.from_zero,
        "group": figure.group,
        "series": [_series(series, log=figure.log_x) for series in figure.series],
    }


def _series(series: Series, *, log: bool) -> dict[str, Any]:
    kept = thin_curve(series.x, series.y, MAX_POINTS, log=log)
    return {
        "name": series.name,
        "points": len(series.x),  # as measured: more than in x where the curve was thinned
        "x": _numbers(series.x[kept]),
        "y": _numbers(series.y[kept]),
        "low": None if series.low is None else _numbers(series.low[kept]),
        "high": None if series.high is None else _numbers(series.high[kept]),
        "runs": [_numbers(run[kept]) for run in series.runs],
    }


def _explorer(explorer: Explorer) -> dict[str, Any]:
    rows = thin_rows(explorer.partner, MAX_ROWS)
    place = np.full(len(explorer.partner), -1)  # of a row among those drawn
    place[rows] = np.arange(len(rows))
    return {
        "name": explorer.name,
        "size": len(explorer.points),
        "rows": rows.tolist(),
        "points": _numbers(explorer.points[rows], 5),
        "labels": explorer.labels[rows].tolist(),
        "partner": place[explorer.partner[rows]].tolist(),
        "partnerRows": explorer.partner[rows].tolist(),
        "frames": _numbers(np.array(explorer.frames)),
        "frameLabel": explorer.frame_label,
        "axisLabels": list(explorer.axis_labels),
        "classes": list(explorer.classes),
        "optimum": _line(
            np.full(3, np.nan)
            if explorer.optimum is None
            else np.asarray(explorer.optimum, dtype=np.float64)
        ),
        "note": explorer.note,
        "gradients": _frames(explorer.gradients, rows),
        "product": _frames(explorer.product, rows),
        "methods": [
            {
                "name": method.name,
                "boundaries": [_line(line) for line in method.boundaries],
                "objective": _numbers(method.objective),
                "gradients": _frames(method.gradients, rows),
                "product": _frames(method.product, rows),
            }
            for method in explorer.methods
        ],
    }


def _line(line: Numbers) -> list[float] | None:
    """(a, b, c) with a normal of length one, so that the script can go from one line to the next.

    None where there is no line.
    """
    length = float(np.hypot(line[0], line[1]))
    with np.errstate(all="ignore"):
        unit = line / length
    return [float(part) for part in unit] if np.isfinite(unit).all() else None


def _frames(
    frames: Sequence[Numbers | None] | None, rows: NDArray[np.intp]
) -> list[list[Any] | None] | None:
    if frames is None:
        return None
    return [
        None if frame is None else _numbers(frame[rows], 5)
        for frame in _thin_frames(tuple(frames), len(rows))
    ]


def _thin_frames(frames: Frames, n_rows: int) -> Frames:
    given = [k for k, frame in enumerate(frames) if frame is not None]
    room = max(1, MAX_GRADIENTS // max(1, n_rows))
    if len(given) <= room:
        return frames
    kept = {given[k] for k in np.linspace(0, len(given) - 1, room).astype(int)}
    return tuple(frame if k in kept else None for k, frame in enumerate(frames))


def _numbers(array: NDArray[Any], digits: int = 17) -> list[Any]:
    """Nested lists of numbers with so many digits, None for what JSON cannot hold."""
    if array.ndim > 1:
        return [_numbers(part, digits) for part in array]
    return [
        float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in array.tolist()
    ]


def _cell(cell: object) -> object:
    if isinstance(cell, bool | np.bool_) or not isinstance(
        cell, int | float | np.integer | np.floating
    ):
        return str(cell)
    if isinstance(cell, int | np.integer):
        return int(cell)
    return float(cell) if np.isfinite(cell) else None


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {str(name): str(value) for name, value in values.items()}
