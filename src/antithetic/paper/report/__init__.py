"""Pages that show a study: a summary, pictures, the pair explorer, claims and tables.

A page is a single file without a link to anywhere: it opens from a disk, in any browser, and
nothing in it that comes from data can run. Describe the study by a :class:`Content`, then write it.

>>> from antithetic.paper.report.page import Content, render
>>> from antithetic.paper.report.pictures import Figure, Series, draw_figures
>>> curve = Series("SGD-as", x=[0, 1, 2], y=[0.69, 0.52, 0.48])
>>> figure = Figure("objective", "Objective", [curve], log_y=True)
>>> page = render(Content("A study", pictures=draw_figures([figure])))
>>> page.startswith("<!doctype html>")
True
"""
