"""The page of a comparison on a user's data: what each order gains and costs.

It also recommends one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.order import name_order
from antithetic.paper.compare import Comparison, Measured
from antithetic.paper.report.of_reproduction import CITATION
from antithetic.paper.report.page import Content, Table
from antithetic.paper.report.pictures import Figure, Series, draw_figures
from antithetic.stochastic import exact_name

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
_LONG = 1e6  # from which on numbers are written with an exponent


def comparison_rows(found: Comparison) -> list[list[object]]:
    """One line for each order; the columns are ``COLUMNS``.

    Gap is the mean over seeds after the last epoch, variances are ratios to independent rows, and
    the last column is the time to reshuffling's last gap, unless that is far from the minimum.
    """
    goal = float(found.gap(found.measured[0])[:, -1].mean())
    rows: list[list[object]] = []
    for one in found.measured:
        gap = float(found.gap(one)[:, -1].mean())
        needed = np.inf if found.is_far else found.seconds_to(one, goal)
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
    if found.is_far:
        nearest, left = found.nearest
        ends = f"ends with {left:.0%} of the way still to go" if np.isfinite(left) else "diverges"
        instead = "Compare again with more epochs."
        if found.scales_cost:
            newton = (
                f", and so does {exact_name(found.loss)}, which has no steps"
                if found.minimum.newton
                else ""
            )
            instead = (
                "To see which order helps, scale the columns (StandardScaler of scikit-learn, or"
                " MaxAbsScaler for sparse rows) and compare again. To fit the data as they are, no"
                " scaling is needed: the estimators' automatic steps follow the scales of the"
                f" columns{newton}."
            )
        return (
            "No order came near the minimum, so none can be recommended: the best,"
            f" {nearest.name}, {ends}. {instead}"
        )
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


def advice_beside(found: Comparison) -> list[str]:
    """Return the advice, if the measurement agrees with it.

    Otherwise say that it is a guess, and what it is; nothing if no order came near the minimum.
    """
    advice = found.advice
    if found.is_far:
        return []
    if found.recommended.order == advice.order:
        return [str(advice)]
    return [
        "Without measuring, the size of the data would have suggested"
        f" order={name_order(advice.order)!r}; what was measured counts."
    ]


def about_minimum(found: Comparison) -> str:
    """Say what gaps are measured from: a minimum that is certified, or a bound."""
    minimum = found.minimum
    if found.certified:
        return (
            f"Gaps are measured from the minimum, {minimum.value:.6g}, which Newton's method found"
            f" in {minimum.seconds:.2g} s; it is certified to {minimum.error:.0e}."
        )
    why = (
        "alpha is 0"
        if minimum.newton and np.isinf(minimum.error)
        else "it is known too roughly for gaps as small as these"
        if minimum.newton
        else f"{found.loss} has a kink"
    )
    return (
        f"Gaps are lower bounds: they are measured from {minimum.value:.6g}, the smallest objective"
        f" that was found, and the minimum is not certified here ({why}). The true gaps may be"
        " larger."
    )


def about_scales(found: Comparison, names: Sequence[str] | None = None) -> list[str]:
    """Say, if columns are of very different scales, what that costs and what to do."""
    if found.scales is None:
        return []
    scales, ends = found.scales.scales, float(found.gap(found.measured[0])[:, -1].mean())
    small, large = (
        names[column] if names is not None else f"column {column}"
        for column in (scales.smallest, scales.largest)
    )
    rescaled = found.scales.gap_rescaled
    alike = f"with a gap of {rescaled:.2g} if all columns are scaled alike"
    gaps = f"reshuffling ends with a gap of {ends:.2g}, and {alike}"
    if not np.isfinite(ends):
        gaps = f"all steps diverge; reshuffling ends {alike}"
    cost = f"The cost: {gaps}." if found.scales_cost else f"Here that costs little: {gaps}."
    if found.scales_cost and not found.is_far:
        instead = f", or use {exact_name(found.loss)}" if found.minimum.newton else ""
        cost += (
            " Scale them (StandardScaler of scikit-learn, or MaxAbsScaler for sparse rows)"
            f"{instead}."
        )
    return [
        f"Columns have very different scales: {large} is {_many(scales.ratio)} times as large as"
        f" {small}. The orders were compared in these units. {cost}"
    ]


def _many(ratio: float) -> str:
    """Write a large number with two digits that count, and without an exponent if it is short."""
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio < _LONG else f"{ratio:.0e}"


def comparison_content(
    found: Comparison,
    name: str,
    *,
    settings: Mapping[str, object],
    versions: Mapping[str, object],
    columns: Sequence[str] | None = None,
) -> Content:
    """Make the page's content of what was found on a file called ``name`` with these columns."""
    machine = {key: versions[key] for key in ("system", "machine", "cores") if key in versions}
    return Content(
        f"Which order for {name}?",
        f"{found.n} rows, {found.d} features, {found.loss}: ways to choose which samples are"
        " used together, trained and measured.",
        [
            *about_scales(found, columns),
            gain(found),
            about_minimum(found),
            *advice_beside(found),
            "train.py, in the same folder, trains the recommended estimator.",
        ],
        pictures=draw_figures(_figures(found)),
        tables=[Table("What each order gains and costs", COLUMNS, comparison_rows(found))],
        settings=settings,
        versions={key: value for key, value in versions.items() if key not in machine},
        machine=machine,
        citation=CITATION.format(version=versions.get("antithetic", ""), command="compare"),
    )


def _figures(found: Comparison) -> list[Figure]:
    epochs = np.arange(float(found.measured[0].objective.shape[1]))
    least = "the certified minimum" if found.certified else "the smallest objective that was found"
    gap = (
        f"(f \N{MINUS SIGN} f*) / (f(0) \N{MINUS SIGN} f*), f* {least}; mean and range of the"
        " seeds."
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
            " independent rows. For an order that is not random, the mean over its batches.",
            "epoch",
            "variance ratio",
            from_zero=True,
        ),
    ]


def _seconds(one: Measured, epochs: NDArray[np.float64]) -> NDArray[np.float64]:
    return one.table_seconds + one.run_seconds * epochs / max(1, len(epochs) - 1)


def _series(found: Comparison, one: Measured, x: NDArray[np.float64]) -> Series:
    gap = found.gap(one)
    return Series(one.name, x, gap.mean(axis=0), gap.min(axis=0), gap.max(axis=0))
