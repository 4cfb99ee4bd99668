"""Claims about the estimator: bias, variance, second moment, and the inner products behind them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from antithetic.paper.claim import (
    Claim,
    Row,
    case,
    column,
    count,
    divide,
    make_claim,
    middle,
    show,
    span,
)
from antithetic.paper.extensions import last_quarter
from antithetic.paper.parts import Part

_UNBIASED = 1e-12
_NEARLY_ALL = 0.9  # of the opposite labels that the class sizes allow
_STRONG = 0.5  # rank correlation that counts as "lowering one lowers the other"


def unbiased(parts: Sequence[Part]) -> Claim:
    """(1) The mean over all draws is the gradient."""
    rows = [
        case(part, part.bias.max() <= _UNBIASED, deviation=float(part.bias.max())) for part in parts
    ]
    return make_claim(
        1,
        "The gradient of an antithetic pair is an unbiased estimator of the full gradient.",
        rows,
        rule=(
            f"the mean over all n draws differs from the gradient by at most {_UNBIASED:g} of a"
            " row's gradient (root mean square), at w = 0 and after each epoch of the first run of"
            " SGD-as"
        ),
        key="deviation",
        measured=lambda found: f"largest relative deviation {column(found, 'deviation').max():.1e}",
        remark="Every row is the partner of exactly one row, so it follows by arithmetic.",
        by_construction=True,
    )


def smaller_variance(parts: Sequence[Part]) -> Claim:
    """(2) Below that of independent rows, at the same weights."""
    rows = []
    for part in parts:
        ratio = part.variance_ratio()
        own = part.variance["SGD-as"]["SGD-as"].mean(axis=0) < part.variance["SGD"]["SGD"].mean(
            axis=0
        )
        values = {
            "share": float((ratio < 1.0).mean()),
            "worst_ratio": float(ratio.max()),
            "ratio_at_zero": float(ratio[0, 0]),
            "ratio_at_end": float(ratio[:, -1].mean()),
            "share_along_own_runs": float(own.mean()),
        }
        rows.append(case(part, bool((ratio < 1.0).all()), **values))
    return make_claim(
        2,
        "The variance of SGD-as is below that of SGD throughout the run.",
        rows,
        rule=(
            "the exact variance of a pair is below that of two independent rows at the weights of"
            " SGD, before the first step and after each epoch of every seed"
        ),
        key="worst_ratio",
        measured=lambda found: (
            f"below in {100 * column(found, 'share').mean():.1f} % of all epochs; ratio at w = 0"
            f" {span(found, 'ratio_at_zero')}; at the end {span(found, 'ratio_at_end')}; worst"
            f" {column(found, 'worst_ratio').max():.3g}"
        ),
        remark=(
            "The paper plots each variance along its own run: share_along_own_runs is the share of"
            " epochs where SGD-as is below there."
        ),
    )


def most_at_the_beginning(parts: Sequence[Part]) -> Claim:
    """(3) The reduction fades."""
    rows = []
    for part in parts:
        ratio = part.variance_ratio().mean(axis=0)
        late = float(ratio[-last_quarter(len(ratio) - 1) :].mean())
        values = {
            "reduction_at_zero": float(1.0 - ratio[0]),
            "after_one_epoch": float(1.0 - ratio[1]),
            "reduction_late": 1.0 - late,
        }
        values |= {
            "largest_later": float(1.0 - ratio[1:].min()),
            "epoch_of_the_largest": float(np.argmin(ratio)),
        }
        rows.append(case(part, ratio[0] < ratio[1:].min(), **values))
    return make_claim(
        3,
        "The variance is reduced most at the beginning of the iterations.",
        rows,
        rule=(
            "the reduction 1 - ratio at w = 0 is larger than after any epoch (same weights, mean of"
            " seeds)"
        ),
        key="epoch_of_the_largest",
        measured=lambda found: (
            f"median reduction {middle(found, 'reduction_at_zero')} at w = 0,"
            f" {middle(found, 'after_one_epoch')} after one epoch, {middle(found, 'largest_later')}"
            f" at the best later epoch, {middle(found, 'reduction_late')} in the last quarter"
        ),
        remark=(
            "The reduction is lost later because the table is built from the rows, not from the"
            " gradients."
        ),
    )


def opposite_labels(parts: Sequence[Part]) -> Claim:
    """(7) Partners differ in label."""
    rows: dict[str, Row] = {}
    for part in parts:  # the table is that of the rows, whatever the loss
        shares = part.labels
        of_possible = divide(shares["opposite"], shares["possible"])
        held = shares["opposite"] > 0.5 or of_possible >= _NEARLY_ALL
        rows[part.name] = case(part, held, **shares, of_possible=of_possible) | {"loss": "any"}
    return make_claim(
        7,
        "Mutually antithetic samples usually have opposite labels.",
        list(rows.values()),
        rule=(
            "more than half of the rows have a partner of the other label, or, since the paper"
            f" adds 'if possible', at least {_NEARLY_ALL:g} of the largest share that the class"
            " sizes allow (a set counts once: the table does not depend on the loss)"
        ),
        key="opposite",
        measured=lambda found: (
            f"share {span(found, 'opposite')}; random partners {span(found, 'random')}; of what is"
            f" possible {span(found, 'of_possible')}"
        ),
        remark=(
            "Compare with `random`, the share of random partners. The paper's reason, positive"
            " features, is not given on sets scaled to [-1, 1]."
        ),
    )


def negative_stays_negative(parts: Sequence[Part]) -> Claim:
    """(8) The sign of a product never turns."""
    rows = []
    for part in parts:
        negative, turned = part.products["negative"], part.products["reversed"]
        held = turned.max() == 0.0 and (part.loss == "hinge" or negative.min() == 1.0)
        values = {
            "least_negative_share": float(negative.min()),
            "most_reversed_share": float(turned.max()),
        }
        rows.append(case(part, held, **values))
    return make_claim(
        8,
        "Products of partners' gradients that are negative stay negative (logistic), or at least"
        " never turn positive (hinge).",
        rows,
        rule=(
            "of the products that are negative at w = 0 none is positive after any epoch of the"
            " first run of SGD-as, and with the logistic loss all are still negative (with the"
            " hinge loss the paper allows zero)"
        ),
        key="least_negative_share",
        measured=lambda found: (
            f"reversed at most {column(found, 'most_reversed_share').max():.2g}; still negative at"
            " least "
            + ", ".join(
                f"{loss} {show(float(column(of, 'least_negative_share').min()))}"
                for loss, of in _by_loss(found).items()
            )
        ),
        remark=(
            "A theorem of the paper's, so it holds by construction; but a hinge product that has"
            " become zero no longer lowers anything."
        ),
        by_construction=True,
    )


def bounds_and_products(parts: Sequence[Part]) -> Claim:
    """(11) A smaller bound means a smaller product."""
    rows = []
    for part in parts:
        ranks = {kind: float(values.min()) for kind, values in part.ranks.items()}
        rows.append(
            case(
                part,
                ranks["all"] >= _STRONG,
                least=ranks["all"],
                least_if_negative=ranks["negative"],
                least_if_positive=ranks["positive"],
            )
        )
    return make_claim(
        11,
        "Lowering the bound y_i y_j <x_i, x_j> lowers the product of the two gradients at later"
        " weights.",
        rows,
        rule=(
            "Spearman's rank correlation of bound and product over 4000 random pairs is at least"
            f" {_STRONG:g} after every epoch of the first run of SGD-as"
        ),
        key="least",
        measured=lambda found: (
            f"least correlation {span(found, 'least')}; among negative bounds alone median"
            f" {middle(found, 'least_if_negative')}, among positive ones"
            f" {middle(found, 'least_if_positive')}"
        ),
        remark=(
            "Bound and product have the same sign, which alone gives a correlation;"
            " least_if_negative and least_if_positive exclude this effect."
        ),
    )


def smaller_second_moment(parts: Sequence[Part]) -> Claim:
    """(12) The G^2 of the analysis is smaller."""
    rows = []
    for part in parts:
        pairs, alone = (part.second_moment[method][method] for method in ("SGD-as", "SGD"))
        ratio = divide(float(pairs.max(axis=1).mean()), float(alone.max(axis=1).mean()))
        later = divide(
            float(pairs[:, 1:].max(axis=1).mean()), float(alone[:, 1:].max(axis=1).mean())
        )
        rows.append(
            case(
                part,
                ratio < 1.0,
                ratio=ratio,
                ratio_after_first_epoch=later,
                at_zero=bool((alone.argmax(axis=1) == 0).all()),
            )
        )
    return make_claim(
        12,
        "The largest second moment E|g|^2 along the run, the G^2 of the analysis, is smaller for"
        " SGD-as.",
        rows,
        rule=(
            "the largest E|g|^2 along its own run, before the first step and after each epoch, is"
            " smaller for SGD-as than for SGD (mean of seeds)"
        ),
        key="ratio",
        measured=lambda found: (
            f"ratio {span(found, 'ratio')}; without w = 0,"
            f" {span(found, 'ratio_after_first_epoch')}; SGD's is largest at w = 0 in"
            f" {count(found, 'at_zero')}"
        ),
        remark="Where the largest is the one at w = 0, G^2 says nothing of the rest of the run.",
    )


def ideal_case(parts: Sequence[Part]) -> Claim:
    """(13) If all products are negative, the variance is lower."""
    rows = []
    for part in parts:
        worst = float(np.max(part.ideal["ratio"]))
        share = float(part.products["bounds"][0])
        held = None if np.isnan(worst) else worst < 1.0
        rows.append(
            case(
                part,
                held,
                worst_ratio=worst,
                negative_bounds=share,
                all_negative=share == 1.0,
                rows=float(part.ideal["share"][0]),
            )
        )
    return make_claim(
        13,
        "Where every product of partners is negative the variance is below that of independent"
        " rows.",
        rows,
        rule=(
            "this is the case at w = 0 and after each epoch of the first run of SGD-as on the"
            " mutual pairs of the table with a negative bound (`rows` is their share of the data)"
        ),
        key="worst_ratio",
        measured=lambda found: (
            f"worst ratio {column(found, 'worst_ratio').max():.3g}; but every bound of Algorithm"
            f" 1's table is negative in only {count(found, 'all_negative')}: share"
            f" {span(found, 'negative_bounds')}"
        ),
        remark=(
            "A theorem of the paper, for any table whose products are all negative;"
            " all_negative says where Algorithm 1 finds one."
        ),
        by_construction=True,
    )


def _by_loss(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {
        loss: [row for row in rows if row["loss"] == loss]
        for loss in dict.fromkeys(row["loss"] for row in rows)
    }
