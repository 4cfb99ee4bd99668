"""One web page that shows a study: summary, claims, interactive figures and a pair explorer.

The page is a single file without a link to anywhere: it opens from a disk, in any browser, and
nothing in it that comes from data can run. Describe the study by a :class:`Content`, then write it.

>>> from antithetic.paper.report import Content, Figure, Series, render
>>> curve = Series("SGD-as", x=[0, 1, 2], y=[0.69, 0.52, 0.48])
>>> figure = Figure("objective", "Objective", [curve], log_y=True)
>>> page = render(Content("A study", figures=[figure]))
>>> page.startswith("<!doctype html>")
True
"""

from antithetic.paper.report.content import (
    Content,
    Explorer,
    Figure,
    PageClaim,
    PageTable,
    Series,
    TrainingFrames,
    Verdict,
)
from antithetic.paper.report.page import render, write_page
from antithetic.paper.report.plane import Plane

__all__ = [
    "Content",
    "Explorer",
    "Figure",
    "PageClaim",
    "PageTable",
    "Plane",
    "Series",
    "TrainingFrames",
    "Verdict",
    "render",
    "write_page",
]
