"""The page of a reproduction: the paper's Figures 2 and 3, claims and the pair explorer.

It also shows what the paper lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic import paper
from antithetic.paper import METHODS, Part, Reproduction
from antithetic.paper.claim import OVERALL, OVERALL_RUNS, compare, headline
from antithetic.paper.report.content import Content, Figure, PageClaim, PageTable, Series
from antithetic.paper.report.of_pairs import explorer_of

CITATION = """\
The method:
  J. Liu and L. Xu. Accelerating Stochastic Gradient Descent Using Antithetic Sampling.
  arXiv:1810.03124, 2018. https://arxiv.org/abs/1810.03124

This page:
  antithetic {version}, the command `antithetic {command}`.

@article{{liu2018antithetic,
  title   = {{Accelerating Stochastic Gradient Descent Using Antithetic Sampling}},
  author  = {{Liu, Jingchang and Xu, Linli}},
  journal = {{arXiv preprint arXiv:1810.03124}},
  year    = {{2018}}
}}
"""
_FIGURES = {"log_loss": ("Figure 2", "logistic regression"), "hinge": ("Figure 3", "SVM")}
_LAMBDA, _ETA0, _MINUS = (
    "\N{GREEK SMALL LETTER LAMDA}",
    "\N{GREEK SMALL LETTER ETA}\N{SUBSCRIPT ZERO}",
    "\N{MINUS SIGN}",
)
UNFINISHED = "**This run was interrupted: the page shows the parts that were finished.**"
_AT_SGD = "same weights"  # short enough to stand beside its curve


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
    by_loss = [[part for part in found.parts if part.loss == loss] for loss in _FIGURES]
    figures = [figure for parts in by_loss for part in parts for figure in _paper_figures(part)]
    figures += [_beyond(part) for parts in by_loss for part in parts]
    return Content(
        "Antithetic sampling: the paper's experiments, run again",
        "Accelerating Stochastic Gradient Descent Using Antithetic Sampling (Liu and Xu, 2018):"
        " what it claims, and what this run measured.",
        [*([UNFINISHED] if unfinished else []), *_summary(found)],
        figures,
        [
            PageClaim(f"{claim.number}. {claim.claim}", claim.verdict, claim.measured, _rule(claim))
            for claim in found.claims
        ],
        (
            [_variances(found.parts), _gaps(found.parts), _sets(found.parts), _rules(found)]
            if found.parts
            else []
        ),
        [explorer_of(part) for part in _one_of_each_set(found.parts)],
        settings | left_out | {"seconds": f"{found.seconds:.0f}"},
        {name: found.settings[name] for name in versions if name in found.settings},
        {name: found.settings[name] for name in machine if name in found.settings},
        CITATION.format(version=found.settings.get("antithetic", ""), command="reproduce"),
    )


def _rule(claim: paper.Claim) -> str:
    """Detail of a claim without what all claims share, and without the numbers of the cases.

    These are in ``claim_rows.csv``.
    """
    rule, _, rest = claim.detail.partition(
        OVERALL_RUNS if OVERALL_RUNS in claim.detail else OVERALL
    )
    if claim.rows:
        rest = re.sub(
            rf"\S+: {re.escape(claim.rows[0]['set'])} {re.escape(claim.rows[0]['loss'])}.*$",
            "",
            rest,
        )
    return f"{rule.strip()} {rest.strip()}".strip()


def _one_of_each_set(parts: Sequence[Part]) -> list[Part]:
    first: dict[str, Part] = {}
    for part in parts:
        first.setdefault(part.name, part)
    return list(first.values())


def _summary(found: Reproduction) -> Iterator[str]:
    parts = found.parts
    if not parts:
        yield "No part was finished, so there is nothing to show yet."
        return
    if found.first_look:
        yield f"**{found.first_look}**"
    sets = len(_one_of_each_set(parts))
    yield (
        f"On {sets} data set{'s' if sets > 1 else ''}, {headline(found.claims)}. The last two"
        " claims are not the paper's."
    )
    ratios = np.array([part.variance_ratio().mean(axis=0) for part in parts])
    yield (
        f"Two antithetic samples have {_span(ratios[:, 0])} of the gradient variance of two"
        f" independent ones before the first step, and {_span(ratios[:, -1])} after the last."
    )
    yield (
        f"SGD-as ends nearer to the optimum than SGD **{_wins(parts, 'SGD-as', 'SGD')}**. Nearer"
        " and farther mean by more than two standard errors of the runs."
    )
    yield (
        "Against plain reshuffling, which the paper does not compare with and which needs no"
        f" table, SGD-as ends nearer **{_wins(parts, 'SGD-as', 'reshuffled')}**. Our nested order"
        f" ends nearer **{_wins(parts, 'nested order', 'reshuffled')}**, and the balanced order,"
        f" which needs no table either, **{_wins(parts, 'balanced', 'reshuffled')}**."
    )
    if found.left_out:
        yield f"Left out, since they are not on this computer: {', '.join(found.left_out)}."


def _span(values: NDArray[np.float64]) -> str:
    low, high = np.nanmin(values), np.nanmax(values)
    return f"{low:.2f}" if round(low, 2) == round(high, 2) else f"{low:.2f} to {high:.2f}"


def _wins(parts: Sequence[Part], method: str, other: str) -> str:
    outcomes = [compare(part.end_gap(method), part.end_gap(other)) for part in parts]
    better, worse = outcomes.count("better"), outcomes.count("worse")
    rest = len(parts) - better - worse
    unclear = f", and too close to tell in {rest}" if rest else ""
    return f"in {better} of {len(parts)} cases, farther in {worse}{unclear}"


def _paper_figures(part: Part) -> list[Figure]:
    number, model = _FIGURES[part.loss]
    group, slug = f"{number}, {model}: {part.name}", f"{_slug(part.name)}-{_slug(part.loss)}"
    variances = [
        _series("SGD", part.variance["SGD"]["SGD"]),
        _series("SGD-as", part.variance["SGD-as"]["SGD-as"]),
        _series(_AT_SGD, part.variance["SGD-as"]["SGD"]),
    ]
    gaps = [_series(method, part.gap(method)) for method in ("SGD", "SGD-as")]
    seeds = part.settings["seeds"]
    return [
        Figure(
            f"{slug}-variance",
            "Variance of the stochastic gradient",
            variances,
            'Exact, by enumeration, of batches of 2 along each method\'s own runs; "same weights"'
            f" is that of SGD-as at the weights of SGD. Mean and range of {seeds} seeds.",
            "epoch",
            "variance",
            from_zero=True,
            group=group,
        ),
        Figure(
            f"{slug}-objective",
            "Objective, above its optimum",
            gaps,
            f"(f {_MINUS} f*) / (f(0) {_MINUS} f*), mean and range of {seeds} seeds; {_LAMBDA} ="
            f" {part.decay:g}, {_ETA0} = {part.eta0:.3g} for both, the best of SGD.",
            "epoch",
            "relative gap",
            log_y=True,
            group=group,
        ),
    ]


def _beyond(part: Part) -> Figure:
    model = _FIGURES[part.loss][1]
    return Figure(
        f"{_slug(part.name)}-{_slug(part.loss)}-orders",
        part.name,
        [_series(method, part.gap(method)) for method in METHODS],
        f"With reshuffling and our orders, all with the {_ETA0} that is best for SGD. Mean and"
        f" range of {part.settings['seeds']} seeds.",
        "epoch",
        "relative gap",
        log_y=True,
        group=f"What the paper lacks, reshuffling and orders: {model}",
    )


def _series(name: str, runs: NDArray[np.float64]) -> Series:
    return Series(
        name,
        np.arange(float(runs.shape[1])),
        runs.mean(axis=0),
        runs.min(axis=0),
        runs.max(axis=0),
        list(runs),
    )


def _slug(name: str) -> str:
    return (
        "-".join(
            "".join(
                character if character.isascii() and character.isalnum() else " "
                for character in name.lower()
            ).split()
        )
        or "x"
    )


def _variances(parts: Sequence[Part]) -> PageTable:
    rows: list[list[Any]] = []
    for part in parts:
        for epoch in (0, part.settings["epochs"]):
            alone, pairs = (
                float(part.variance[each]["SGD"][0, epoch]) for each in ("SGD", "SGD-as")
            )
            rows.append(
                [part.name, part.loss, epoch, alone, pairs, float(part.variance_ratio()[0, epoch])]
            )
    columns = ["data", "loss", "epoch", "independent rows", "antithetic pairs", "ratio"]
    return PageTable(
        "Exact variance of the gradient at the weights of SGD, first seed", columns, rows
    )


def _gaps(parts: Sequence[Part]) -> PageTable:
    rows = [
        [part.name, part.loss, *(float(part.end_gap(method).mean()) for method in METHODS)]
        for part in parts
    ]
    return PageTable(
        "Relative gap after the last epoch, mean of many runs with the same first step",
        ["data", "loss", *METHODS],
        rows,
    )


def _sets(parts: Sequence[Part]) -> PageTable:
    names = (
        "n",
        "d",
        "decay",
        "eta0",
        "curvature",
        "at_zero",
        "optimum",
        "optimum_error",
        "seconds",
    )
    columns = ["data", "loss", "rows", "features", _LAMBDA, _ETA0, "L"]
    columns += ["f(0)", "f*", "error of f*", "seconds"]
    return PageTable(
        "Data and steps",
        columns,
        [[part.name, part.loss, *(getattr(part, name) for name in names)] for part in parts],
    )


def _rules(found: Reproduction) -> PageTable:
    rows = [
        ["steps", found.settings.get("step", "")],
        ["a claim on which runs are compared", OVERALL_RUNS],
        ["any other claim", OVERALL],
    ]
    return PageTable("How it was decided", ["what", "rule"], rows)
