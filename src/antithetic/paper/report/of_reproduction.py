"""The page of a reproduction: what was found in a sentence, pair explorer, claims and pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from antithetic.paper.claims import (
    OVERALL,
    OVERALL_MEASURES,
    OVERALL_RUNS,
    compare,
    compared_ratio,
    divide,
    headline,
)
from antithetic.paper.experiments import MEASURES, STEPS, Experiment
from antithetic.paper.report.explorer import explorer_of
from antithetic.paper.report.page import Content, Table
from antithetic.paper.report.pictures import Figure, Series, draw_figures
from antithetic.paper.report.sheets import TITLES, draw_sheets
from antithetic.paper.reproduction import Reproduction
from antithetic.paper.workbench import METHODS, Array

CITATION = """\
The method:
  J. Liu and L. Xu. Accelerating Stochastic Gradient Descent Using Antithetic Sampling.
  arXiv:1810.03124, 2018. https://arxiv.org/abs/1810.03124

The rule of balanced orders:
  Y. Lu, W. Guo and C. De Sa. GraB: Finding Provably Better Data Permutations than Random
  Reshuffling. arXiv:2205.10733, 2022. https://arxiv.org/abs/2205.10733
  A. F. Cooper and others. Coordinating Distributed Example Orders for Provably Accelerated
  Training (CD-GraB). arXiv:2302.00845, 2023. https://arxiv.org/abs/2302.00845

This page:
  antithetic {version}, the command `antithetic {command}`.

@article{{liu2018antithetic,
  title   = {{Accelerating Stochastic Gradient Descent Using Antithetic Sampling}},
  author  = {{Liu, Jingchang and Xu, Linli}},
  journal = {{arXiv preprint arXiv:1810.03124}},
  year    = {{2018}}
}}
"""
_LAMBDA, _ETA0, _MINUS = (
    "\N{GREEK SMALL LETTER LAMDA}",
    "\N{GREEK SMALL LETTER ETA}\N{SUBSCRIPT ZERO}",
    "\N{MINUS SIGN}",
)
UNFINISHED = "**This run was interrupted: the page shows the parts that were finished.**"
_SMALLER_VARIANCE = 2  # the number of this claim


def reproduction_content(found: Reproduction, *, unfinished: bool = False) -> Content:
    """Make the page's content of what was found, as far as it was finished."""
    versions = ("antithetic", "python", "numpy", "scipy", "scikit-learn")
    machine = ("system", "machine", "cores")
    left_out = {"left out": ", ".join(found.left_out)} if found.left_out else {}
    settings = {
        name.replace("_", " "): value
        for name, value in found.settings.items()
        if name not in (*versions, *machine, "step")
    }
    experiments = [one for loss in TITLES for one in found.experiments if one.loss == loss]
    figures = [figure for one in experiments for figure in (_variance(one), _orders(one))]
    tables = (_measures, _variances, _gaps, _sets) if found.experiments else ()
    summary = list(_summary(found))
    return Content(
        "Antithetic sampling: the paper's experiments, run again",
        "Accelerating Stochastic Gradient Descent Using Antithetic Sampling (Liu and Xu, 2018):"
        " what it claims, and what this run measured.",
        [*summary[:1], *([UNFINISHED] if unfinished else []), *summary[1:]],
        draw_sheets(experiments),
        [explorer_of(one) for one in _one_of_each_set(found.experiments)],
        found.claims,
        draw_figures(figures),
        [*(table(found.experiments) for table in tables), _rules(found)],
        settings | left_out | {"seconds": f"{found.seconds:.0f}"},
        {name: found.settings[name] for name in versions if name in found.settings},
        {name: found.settings[name] for name in machine if name in found.settings},
        CITATION.format(version=found.settings.get("antithetic", ""), command="reproduce"),
    )


def _one_of_each_set(experiments: Sequence[Experiment]) -> list[Experiment]:
    first: dict[str, Experiment] = {}
    for one in experiments:
        first.setdefault(one.name, one)
    return list(first.values())


def _summary(found: Reproduction) -> Iterator[str]:
    experiments = found.experiments
    if not experiments:
        yield "No experiment was finished, so there is nothing to show yet."
        return
    lower = sum(bool(case["held"]) for case in found.claims[_SMALLER_VARIANCE - 1].cases)
    counts = [
        _outcomes(experiments, "SGD-as", other).count(outcome)
        for other in ("SGD", "reshuffled")
        for outcome in ("better", "worse")
    ]
    cases = f"{len(experiments)} case{'s' if len(experiments) > 1 else ''}"
    yield (
        f"Antithetic pairs lower the variance of the gradient in {lower} of {cases}; SGD with them"
        f" ends clearly nearer the optimum than with random pairs in {counts[0]} and clearly"
        f" farther in {counts[1]}, and clearly nearer than plain reshuffling in {counts[2]} and"
        f" clearly farther in {counts[3]}."
    )
    if found.first_look:
        yield f"**{found.first_look}**"
    sets = len(_one_of_each_set(experiments))
    yield (
        f"A case is a data set with a loss. On {sets} data set{'s' if sets > 1 else ''},"
        f" {headline(found.claims)}. The last two claims are not the paper's."
    )
    ratios = np.array([one.variance_ratio().mean(axis=0) for one in experiments])
    yield (
        f"Two antithetic samples have {_span(ratios[:, 0])} of the gradient variance of two"
        f" independent ones before the first step, and {_span(ratios[:, -1])} after the last."
    )
    yield (
        "The paper does not compare with plain reshuffling, which needs no table. Compared with it,"
        " our nested order ends clearly nearer"
        f" **{_wins(experiments, 'nested order', 'reshuffled')}**, and a balanced order, which"
        " follows the rule of GraB and CD-GraB and needs no table either,"
        f" **{_wins(experiments, 'balanced', 'reshuffled')}**. Clearly means by more than two"
        " standard errors over the runs."
    )
    if found.left_out:
        yield f"Left out, since they are not on this computer: {', '.join(found.left_out)}."


def _span(values: Array) -> str:
    low, high = np.nanmin(values), np.nanmax(values)
    return f"{low:.2f}" if round(low, 2) == round(high, 2) else f"{low:.2f} to {high:.2f}"


def _outcomes(experiments: Sequence[Experiment], method: str, other: str) -> list[str]:
    return [compare(one.end_gap(method), one.end_gap(other)) for one in experiments]


def _wins(experiments: Sequence[Experiment], method: str, other: str) -> str:
    outcomes = _outcomes(experiments, method, other)
    better, worse = outcomes.count("better"), outcomes.count("worse")
    rest = len(outcomes) - better - worse
    unclear = f", and too close to tell in {rest}" if rest else ""
    return f"in {better} of {len(outcomes)} cases, farther in {worse}{unclear}"


def _variance(one: Experiment) -> Figure:
    at_sgd, alone = one.variances("same weights")
    return Figure(
        f"{_slug(one)}-variance",
        "Variance of the stochastic gradient",
        [
            _series("SGD", alone),
            _series("SGD-as", one.variances("own runs")[0]),
            _series("SGD-as at SGD's weights", at_sgd),
        ],
        "Exact, by enumeration, of batches of 2 along each method's own runs, and of SGD-as at"
        f" the weights of SGD. Mean and range of {one.protocol['seeds']} seeds.",
        "epoch",
        "variance",
        from_zero=True,
        group=_group(one),
    )


def _orders(one: Experiment) -> Figure:
    return Figure(
        f"{_slug(one)}-orders",
        "Objective, also with other orders",
        [_series(method, one.gap(method)) for method in METHODS],
        f"(f {_MINUS} f*) / (f(0) {_MINUS} f*), mean and range of {one.protocol['seeds']} seeds;"
        f" {_LAMBDA} = {one.decay:g}, {_ETA0} = {one.eta0:.3g} for all, the best of SGD.",
        "epoch",
        "relative gap",
        log_y=True,
        group=_group(one),
    )


def _group(one: Experiment) -> str:
    return f"{one.name}, {TITLES[one.loss].partition(', ')[2]}"


def _series(name: str, runs: Array) -> Series:
    epochs = np.arange(float(runs.shape[1]))
    return Series(name, epochs, runs.mean(axis=0), runs.min(axis=0), runs.max(axis=0))


def _slug(one: Experiment) -> str:
    return re.sub(r"[^a-z0-9]+", "-", one.key.lower()).strip("-") or "x"


def _measures(experiments: Sequence[Experiment]) -> Table:
    """Worst variance ratio and ratio of the largest second moments, by measure and step."""
    rows: list[list[Any]] = []
    for one in experiments:
        row: list[Any] = [one.name, one.loss]
        for step in STEPS:
            row += [float(compared_ratio(one, measure, step).max()) for measure in MEASURES]
        for step in STEPS:
            for measure in MEASURES:
                moments = one.second_moments(measure, step)
                row.append(divide(*(float(each.max(axis=1).mean()) for each in moments)))
        rows.append(row)
    heads = [
        f"{quantity}, {measure}{'' if step == 'chosen' else f', {step} the step'}"
        for quantity in ("variance", "second moment")
        for step in STEPS
        for measure in MEASURES
    ]
    return Table(
        "SGD-as relative to SGD: the worst variance ratio of all epochs, and the ratio of the"
        " largest second moments; below 1 the claims hold",
        ["data", "loss", *heads],
        rows,
    )


def _variances(experiments: Sequence[Experiment]) -> Table:
    rows: list[list[Any]] = []
    for one in experiments:
        pairs, alone = one.variances("same weights")
        for epoch in (0, one.protocol["epochs"]):
            values = [float(of[0, epoch]) for of in (alone, pairs, one.variance_ratio())]
            rows.append([one.name, one.loss, epoch, *values])
    columns = ["data", "loss", "epoch", "independent rows", "antithetic pairs", "ratio"]
    return Table("Exact variance of the gradient at the weights of SGD, first seed", columns, rows)


def _gaps(experiments: Sequence[Experiment]) -> Table:
    rows = [
        [one.name, one.loss, *(float(one.end_gap(method).mean()) for method in METHODS)]
        for one in experiments
    ]
    return Table(
        "Relative gap after the last epoch, mean of many runs with the same first step",
        ["data", "loss", *METHODS],
        rows,
    )


def _sets(experiments: Sequence[Experiment]) -> Table:
    columns = {
        "rows": "n",
        "features": "d",
        _LAMBDA: "decay",
        _ETA0: "eta0",
        "L": "curvature",
        "f(0)": "at_zero",
        "f*": "optimum",
        "error of f*": "optimum_error",
        "seconds": "seconds",
    }
    rows = [
        [one.name, one.loss, *(getattr(one, name) for name in columns.values())]
        for one in experiments
    ]
    return Table("Data and steps", ["data", "loss", *columns], rows)


def _rules(found: Reproduction) -> Table:
    rows = [
        ["steps", found.settings.get("step", "")],
        ["a claim on variances or second moments", OVERALL_MEASURES],
        ["a claim on which runs are compared", OVERALL_RUNS],
        ["any other claim", OVERALL],
    ]
    return Table("How it was decided", ["what", "rule"], rows)
