"""Claims about what the paper mentions in passing, and the comparison that it lacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from antithetic.paper.about_runs import best_gap, mean_gap
from antithetic.paper.claim import (
    BOTH,
    THEOREM,
    Claim,
    Row,
    both,
    case,
    case_of_runs,
    column,
    compare,
    count,
    divide,
    make_claim,
    make_claim_of_runs,
    middle,
    span,
)
from antithetic.paper.parts import Part, relative_gap

_SAME = 1e-9


def larger_batches(parts: Sequence[Part]) -> Claim:
    """(14) More pairs in a batch."""
    rows = []
    for part in parts:
        # At the same weights: the last of the first run of SGD.
        at_two = float(part.variance_ratio()[0, -1])
        for size, found in part.batches.items():
            alone, pairs = (
                relative_gap(found[method], part.at_zero, part.optimum)
                for method in ("SGD", "SGD-as")
            )
            variance, gap = (
                float(found["variance_ratio"][0]),
                divide(float(pairs.mean()), float(alone.mean())),
            )
            same = abs(variance - at_two) <= _SAME * at_two
            values = {"variance_ratio": variance, "same_variance_ratio": same, "gap_ratio": gap}
            rows.append(
                case_of_runs(
                    part, compare(pairs, alone) if same else "worse", batch=int(size), **values
                )
            )
    return make_claim_of_runs(
        14,
        "There is a gain with batches of 4, 8 and 16, of several pairs.",
        rows,
        rule=(
            "the mean gap of SGD-as after the run is clearly below SGD's, with the eta0 that is"
            " best for SGD at that batch size; clearly worse if it is clearly above, or if the"
            " variance ratio differs from that of batches of 2 at the same weights by more than"
            f" {_SAME:g}"
        ),
        key="gap_ratio",
        measured=lambda found: (
            f"median gap ratio {_by_batch(found)}; the same variance ratio as with batches of 2 in"
            f" {count(found, 'same_variance_ratio')} ({THEOREM})"
        ),
        remark=(
            "That the variance ratio is the same follows by arithmetic, as pairs are drawn"
            " independently of each other; the gap is the finding."
        ),
    )


def _by_batch(rows: Sequence[Row]) -> str:
    sizes = sorted({row["batch"] for row in rows})
    return ", ".join(
        f"{middle([row for row in rows if row['batch'] == size], 'gap_ratio')} (batch {size})"
        for size in sizes
    )


def non_smooth_penalty(parts: Sequence[Part]) -> Claim:
    """(15) Prox-SGD."""
    rows = []
    for part in parts:
        found = part.non_smooth
        alone, pairs = float(found["SGD"].mean()), float(found["SGD-as"].mean())
        values = {
            "excess": divide(pairs - alone, part.at_zero - alone),
            "variance_ratio": float(found["variance_ratio"].mean()),
            "l1": float(found["l1"][0]),
            "zeros": float(found["zeros"][0]),
        }
        rows.append(case_of_runs(part, compare(found["SGD-as"], found["SGD"]), **values))
    return make_claim_of_runs(
        15,
        "The gain carries over to a non-smooth penalty (L1, Prox-SGD).",
        rows,
        rule=(
            "the mean objective of SGD-as after the run is clearly below SGD's, with the eta0 that"
            " is best for SGD; the L1 strength is a tenth of that at which all weights stay zero,"
            " lambda is kept"
        ),
        key="excess",
        measured=lambda found: (
            "objective of SGD-as minus SGD's, in units of SGD's whole descent:"
            f" {span(found, 'excess')}; variance ratio there {span(found, 'variance_ratio')}"
        ),
    )


def zero_one_labels(parts: Sequence[Part]) -> Claim:
    """(16) Labels 0 and 1."""
    rows = []
    for part in parts:
        same = {name: bool(part.zero_one[name][0]) for name in ("same_table", "same_weights")}
        formula = float(part.zero_one["formula"][0]) if "formula" in part.zero_one else float("nan")
        rows.append(case(part, all(same.values()) and not formula > 1e-12, **same, formula=formula))
    return make_claim(
        16,
        "The same table serves labels 0 and 1.",
        rows,
        rule=(
            "the table and the weights after an epoch have the same bits as with labels -1 and 1,"
            " and the slopes equal mu_i - y_i to 1e-12 (logistic loss)"
        ),
        key="same_weights",
        measured=lambda found: (
            f"same table in {count(found, 'same_table')},"
            f" same weights in {count(found, 'same_weights')}"
        ),
        remark=(
            "True by construction here, since labels are turned into signs first; the slopes are"
            " compared with the paper's formula."
        ),
        by_construction=True,
    )


def against_reshuffling(parts: Sequence[Part]) -> Claim:
    """(17) The baseline that the paper does not have."""
    rows = [_against(part, "SGD-as") for part in parts]
    return make_claim_of_runs(
        17,
        "SGD-as is better than plain reshuffling, which needs no table (not in the paper, which"
        " compares with i.i.d. draws only).",
        rows,
        rule=_AGAINST.format("SGD-as"),
        key="ratio",
        measured=_measured_against,
        remark=(
            f"{BOTH} The eta0 that all share is the best for SGD; own_ratio is with each one's own"
            " best eta0 of the grid."
        ),
    )


def orders_against_reshuffling(parts: Sequence[Part]) -> Claim:
    """(18) Nested and balanced orders."""
    rows = [
        _against(part, order) | {"order": order}
        for order in ("nested order", "balanced")
        for part in parts
    ]
    pairs = [_against(part, "reshuffled pairs") for part in parts]
    return make_claim_of_runs(
        18,
        "Orders made to cancel, nested antithetic and balanced, are better than plain reshuffling"
        " (ours, not the paper's).",
        rows,
        rule=_AGAINST.format("the order"),
        key="ratio",
        measured=lambda found: "; ".join(
            f"{order}: {_measured_against(of)}"
            for order in ("nested order", "balanced")
            if (of := _of(found, order))
        ),
        remark=(
            f"{BOTH} Nested tables are made once, from the rows, and not refreshed; balanced needs"
            " no table. For comparison, reshuffled pairs of Algorithm 1's table:"
            f" {_measured_against(pairs)}."
            if pairs
            else ""
        ),
    )


_AGAINST = (
    "the mean gap of {} after the run is clearly below that of reshuffled single rows, both with"
    " the eta0 that is best for SGD, and also when each has its own best eta0 of the grid"
)


def _against(part: Part, method: str) -> Row:
    own, peer = mean_gap(part, method), mean_gap(part, "reshuffled")
    best_own, best_peer = best_gap(part, method), best_gap(part, "reshuffled")
    values = {
        "gap": own,
        "gap_reshuffled": peer,
        "ratio": divide(own, peer),
        "own_ratio": divide(best_own, best_peer),
    }
    shared, at_best = (
        compare(part.end_gap(method, own=each), part.end_gap("reshuffled", own=each))
        for each in (False, True)
    )
    return case_of_runs(part, both(shared, at_best), **values, shared_eta0=shared, own_eta0=at_best)


def _of(rows: Sequence[Row], order: str) -> list[Row]:
    return [row for row in rows if row["order"] == order]


def _measured_against(rows: Sequence[Row]) -> str:
    below = [int(np.count_nonzero(column(rows, name) < 1.0)) for name in ("ratio", "own_ratio")]
    return (
        f"median gap / reshuffled gap {middle(rows, 'ratio')} (below 1 in {below[0]} of"
        f" {len(rows)}), with own best eta0 {middle(rows, 'own_ratio')} (below 1 in {below[1]})"
    )
