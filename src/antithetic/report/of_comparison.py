"""The page of a comparison on a user's data: what each order gains and costs.

It also recommends one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.words import name_order
from antithetic.report.content import Content, Figure, PageTable, Series
from antithetic.report.of_reproduction import CITATION
from antithetic.training.compare import Comparison, Measured

COLUMNS = (
    "order",
    "gap",
    "against reshuffled",
    "variance at first",
    "variance at the end",
    "table [s]",
    "training [s]",
    "same gap [s]",
)


def comparison_rows(found: Comparison) -> list[list[object]]:
    """One line for each order; the columns are ``COLUMNS``.

    Gap is the mean over seeds after the last epoch, variances are ratios to independent rows, and
    the last column is the time to reshuffling's last gap.
    """
    goal = float(found.gap(found.measured[0])[:, -1].mean())
    rows: list[list[object]] = []
    for one in found.measured:
        gap = float(found.gap(one)[:, -1].mean())
        needed = found.seconds_to(one, goal)
        cost = [one.table_seconds, one.run_seconds, needed if np.isfinite(needed) else float("nan")]
        rows.append(
            [
                one.name,
                gap,
                gap / goal if goal > 0.0 else float("nan"),
                float(one.ratio[0]),
                float(one.ratio[-1]),
                *cost,
            ]
        )
    return rows


def gain(found: Comparison) -> str:
    """Say in a sentence which order is recommended, and what it gains."""
    best, baseline = found.recommended, found.measured[0]
    if best is baseline:
        return (
            "Plain reshuffling is the best choice here: no other order reached its last gap clearly"
            " sooner."
        )
    goal = float(found.gap(baseline)[:, -1].mean())
    own, plain = float(found.gap(best)[:, -1].mean()), found.seconds_to(baseline, goal)
    return (
        f"The best choice here is {best.name}: it reaches the last gap of reshuffling in"
        f" {found.seconds_to(best, goal):.3g} s instead of {plain:.3g} s, and ends with"
        f" {own / goal if goal > 0.0 else 1.0:.3g} times its gap."
    )


def advice_beside(found: Comparison) -> str:
    """Give the advice where the measurement agrees with it.

    Else say that it is a guess, and what the guess is.
    """
    advice = found.advice
    if found.recommended.order == advice.order:
        return str(advice)
    return (
        "Without measuring, the size of the data would have suggested"
        f" order={name_order(advice.order)!r}; what was measured counts."
    )


def comparison_content(
    found: Comparison, name: str, *, settings: Mapping[str, object], versions: Mapping[str, object]
) -> Content:
    """Make the page's content of what was found on a file called ``name``."""
    machine = {key: versions[key] for key in ("system", "machine", "cores") if key in versions}
    return Content(
        f"Which order for {name}?",
        f"{found.n} rows, {found.d} features, {found.loss}: ways to choose which samples travel"
        " together, trained and measured.",
        [
            gain(found),
            advice_beside(found),
            "train.py, beside this page, trains the estimator that is recommended.",
        ],
        _figures(found),
        tables=[PageTable("What each order gains and costs", COLUMNS, comparison_rows(found))],
        settings=settings,
        versions={key: value for key, value in versions.items() if key not in machine},
        machine=machine,
        citation=CITATION.format(version=versions.get("antithetic", ""), command="compare"),
    )


def _figures(found: Comparison) -> list[Figure]:
    epochs = np.arange(float(found.measured[0].objective.shape[1]))
    gap = (
        "(f \N{MINUS SIGN} f*) / (f(0) \N{MINUS SIGN} f*), f* the smallest objective that any run"
        " found; mean and range of the seeds."
    )
    return [
        Figure(
            "gap-by-epoch",
            "Gap by epoch",
            [_series(found, one, epochs) for one in found.measured],
            gap,
            "epoch",
            "relative gap",
            log_y=True,
        ),
        Figure(
            "gap-by-seconds",
            "Gap by seconds",
            [_series(found, one, _seconds(one, epochs)) for one in found.measured],
            "The same over time measured in one process; a curve begins when its table is made.",
            "seconds",
            "relative gap",
            log_x=True,
            log_y=True,
        ),
        Figure(
            "variance-ratio",
            "Variance against independent rows",
            [Series(one.name, epochs, one.ratio) for one in found.measured],
            "Exact variance of a batch's gradient along the first run, divided by that of"
            " independent rows. Of an order without a draw, the mean over its batches.",
            "epoch",
            "variance ratio",
            from_zero=True,
        ),
    ]


def _seconds(one: Measured, epochs: NDArray[np.float64]) -> NDArray[np.float64]:
    return one.table_seconds + one.run_seconds * epochs / max(1, len(epochs) - 1)


def _series(found: Comparison, one: Measured, x: NDArray[np.float64]) -> Series:
    gap = found.gap(one)
    return Series(one.name, x, gap.mean(axis=0), gap.min(axis=0), gap.max(axis=0), list(gap))
