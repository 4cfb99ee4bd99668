"""Figures from the rows: gaps by seconds and by passes, and a performance profile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from antithetic.paper.report.pictures import Figure, Series, draw_figures, write_pictures
from races.rows import Row
from races.summary import profile

_FACTORS = np.geomspace(1.0, 100.0, 101)


def figures(rows: Sequence[Row]) -> list[Figure]:
    """All figures of a file of rows."""
    problems = dict.fromkeys(
        (row.data, row.loss, row.l2, row.threads) for row in rows if row.part == "curve"
    )
    found = []
    for data, loss, l2, threads in problems:
        own = [row for row in rows if (row.data, row.loss, row.threads) == (data, loss, threads)]
        counted = "" if threads == 1 else f", {threads} threads"
        for axis, words in (("seconds", "seconds"), ("passes", "passes over the rows")):
            series = _curves(own, axis)
            if series:
                name = _slug(f"{data}-{loss}{counted}-{axis}")
                title = f"{data}, {loss}, lambda {l2:g}{counted}"
                found.append(
                    Figure(
                        name,
                        title,
                        series,
                        x_label=words,
                        y_label="(f - f*) / (f(0) - f*)",
                        log_x=True,
                        log_y=True,
                    )
                )
    shares = profile(rows, _FACTORS.tolist())
    if shares:
        series = [
            Series(peer, _FACTORS, share)
            for peer, share in sorted(shares.items(), key=lambda item: -item[1].mean())
        ]
        title = (
            "share of problems (set, loss, threads, target) solved within a factor of the fastest"
        )
        found.append(
            Figure(
                "profile",
                title,
                series,
                x_label="factor of the fastest",
                y_label="share of problems",
                log_x=True,
            )
        )
    return found


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw them as PNG and SVG."""
    return write_pictures(draw_figures(figures(rows)), folder)


def _curves(rows: Sequence[Row], axis: str) -> list[Series]:
    """For each peer the smallest gap of all its settings, by seconds or passes."""
    series = []
    for peer in dict.fromkeys(row.peer for row in rows if row.part == "curve"):
        own = [
            row
            for row in rows
            if row.peer == peer and row.part in ("curve", "target") and row.status == "ok"
        ]
        places = np.array([(getattr(row, axis), row.value) for row in own]).reshape(-1, 2)
        places = places[np.isfinite(places).all(axis=1)]
        if len(places):
            places = places[np.lexsort(places.T[::-1])]
            least = np.minimum.accumulate(places[:, 1])
            first = np.r_[True, (np.diff(least) < 0.0) & (np.diff(places[:, 0]) > 0.0)]
            series.append(Series(peer, places[first, 0], least[first]))
    return series


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
