"""The sheets of the paper's figures: every set has its row, and nothing on them collides."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from antithetic.paper.experiments import Experiment, run_experiment
from antithetic.paper.report.sheets import draw_sheets
from antithetic.paper.workbench import LAMBDAS, iterations_inside

ROWS = (208, 683, 1000, 35_000, 862, 768)  # of the six sets


@pytest.fixture(scope="module")
def one() -> Experiment:
    return run_experiment("sonar_scale", "log_loss", seeds=2, epochs=1)


def six_sets(one: Experiment, loss: str, fall: float) -> list[Experiment]:
    """Twenty epochs on each of the sets, with curves that fall by a factor."""
    rng, found = np.random.default_rng(0), []
    for place, (name, n) in enumerate(zip(LAMBDAS, ROWS, strict=True)):
        points = len(iterations_inside(n, 10))
        gap = np.geomspace(1.0, fall, points) * np.exp(0.2 * rng.normal(size=(5, points)))
        gap[:, 0] = 1.0
        objective = one.optimum + gap * (one.at_zero - one.optimum)
        variance = 10.0 ** (1 - place) * (1.0 + gap)
        inside = {
            "objective": {"SGD": objective, "SGD-as": objective / 1.1, "reshuffled": objective},
            "variance": {"SGD": variance, "SGD-as": variance / 2.0},
        }
        protocol = one.protocol | {"seeds": 5, "epochs": 20}
        found.append(replace(one, name=name, loss=loss, n=n, protocol=protocol, inside=inside))
    return found


@pytest.mark.parametrize("fall", [0.5, 1e-2, 1e-6])
def test_labels_do_not_collide(one: Experiment, fall: float) -> None:
    """Names, headings, legend and labels of ticks are apart and inside the sheet."""
    for picture in draw_sheets(six_sets(one, "log_loss", fall) + six_sets(one, "hinge", fall)):
        sheet = picture.sheet
        sheet.draw_without_rendering()
        (legend,) = sheet.legends
        texts = [*sheet.texts, *legend.get_texts()]
        for ax in sheet.axes:
            texts += [ax.title, ax._left_title, ax._right_title, ax.xaxis.label]
            for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
                for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                    if low <= tick.get_loc() <= high:
                        texts.append(tick.label1)
        shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
        assert len(shown) > 6 * 2 * 4
        boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
        for text, box in boxes:
            assert box.x0 >= 0, text
            assert box.y0 >= 0, text
            assert box.x1 <= sheet.bbox.x1, text
            assert box.y1 <= sheet.bbox.y1, text
        for (first, a), (second, b) in combinations(boxes, 2):
            assert not a.overlaps(b), (first, second)


def test_a_sheet_has_a_row_for_each_set_and_one_legend(one: Experiment) -> None:
    """Variance from zero on the left, objective on the right; no variance of reshuffled SGD."""
    (picture,) = draw_sheets(six_sets(one, "hinge", 1e-3))
    assert (picture.id, picture.title.split(":")[0]) == ("figure-3", "Figure 3, SVM")
    assert all(name in picture.title for name in LAMBDAS)  # what a screen reader says
    left, right = picture.sheet.axes[::2], picture.sheet.axes[1::2]
    assert [ax.get_title("left") for ax in left] == list(LAMBDAS)
    assert [len(ax.get_lines()) for ax in left] == [2] * 6
    assert [len(ax.get_lines()) for ax in right] == [3] * 6
    assert {ax.get_ylim()[0] for ax in left} == {0.0}
    assert {ax.get_yscale() for ax in right} == {"log"}
    legend = [text.get_text() for text in picture.sheet.legends[0].get_texts()]
    assert legend == ["SGD", "SGD-as (pairs)", "reshuffled SGD"]
    colours = [line.get_color() for line in picture.sheet.legends[0].get_lines()]
    assert colours[:2] == [line.get_color() for line in left[0].get_lines()]


def test_curves_are_means_of_the_runs_with_their_range(one: Experiment) -> None:
    """Lines are the mean over the seeds at each point, and bands reach from least to largest."""
    given = six_sets(one, "log_loss", 1e-3)
    sheet = draw_sheets(given)[0].sheet
    for case, ax in zip(given, sheet.axes[::2], strict=True):
        for line, method in zip(ax.get_lines(), ("SGD", "SGD-as"), strict=True):
            runs = case.inside["variance"][method]
            np.testing.assert_array_equal(line.get_xdata(), case.iterations)
            np.testing.assert_array_equal(line.get_ydata(), runs.mean(axis=0))
        heights = [band.get_paths()[0].vertices[:, 1] for band in ax.collections]
        low, high = (of(case.inside["variance"]["SGD"]) for of in (np.min, np.max))
        assert (heights[0].min(), heights[0].max()) == (low, high)


def test_runs_that_diverged_leave_a_gap(one: Experiment) -> None:
    (case, *_) = six_sets(one, "log_loss", 1e-3)
    inside = {
        kind: {m: along.copy() for m, along in of.items()} for kind, of in case.inside.items()
    }
    inside["objective"]["SGD"][0, 40:] = np.inf
    inside["variance"]["SGD"][0, 40:] = np.inf
    sheet = draw_sheets([replace(case, inside=inside)])[0].sheet
    sheet.draw_without_rendering()
    assert np.ma.getmaskarray(sheet.axes[0].get_lines()[0].get_ydata())[40:].all()
    assert np.isfinite(sheet.axes[1].get_ylim()).all()
