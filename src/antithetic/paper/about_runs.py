"""Claims about what the paper's two methods do: convergence, stability, steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from antithetic.paper.claim import (
    BOTH,
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
from antithetic.paper.extensions import last_quarter
from antithetic.paper.parts import Part
from antithetic.paper.settings import PAPER

_LEVEL = 2.0  # factor within which a variance counts as level


def mean_gap(part: Part, method: str) -> float:
    """Gap after the run with the shared eta0, mean of many runs."""
    return float(part.end_gap(method).mean())


def best_gap(part: Part, method: str) -> float:
    """Gap after the run with the method's own best eta0 of the grid, mean of many runs."""
    return float(part.end_gap(method, own=True).mean())


def converges_faster(parts: Sequence[Part]) -> Claim:
    """(4) A smaller gap after the run."""
    rows = []
    for part in parts:
        pairs, alone = part.gap("SGD-as"), part.gap("SGD")
        outcome = compare(part.end_gap("SGD-as"), part.end_gap("SGD"))
        reached = np.flatnonzero(pairs.mean(axis=0) <= alone[:, -1].mean())
        values = {
            "gap_SGD": mean_gap(part, "SGD"),
            "gap_SGD-as": mean_gap(part, "SGD-as"),
            "ratio": divide(mean_gap(part, "SGD-as"), mean_gap(part, "SGD")),
            "share_of_epochs": float((pairs.mean(axis=0) < alone.mean(axis=0))[1:].mean()),
            "ratio_after_one_epoch": divide(float(pairs[:, 1].mean()), float(alone[:, 1].mean())),
            "ratio_best_eta0": divide(best_gap(part, "SGD-as"), best_gap(part, "SGD")),
            "epochs_to_reach_SGD": float(reached[0]) if len(reached) else float("nan"),
            "runs": len(part.end_gap("SGD")),
        }
        rows.append(case_of_runs(part, outcome, **values))
    return make_claim_of_runs(
        4,
        "SGD-as converges faster than SGD: it ends lower.",
        rows,
        rule=(
            "the mean gap of SGD-as after the run is clearly below that of SGD, both with the eta0"
            " that is best for SGD, over `runs` runs of each"
        ),
        key="ratio",
        measured=lambda found: (
            f"gap ratio {span(found, 'ratio')}; below in"
            f" {100 * column(found, 'share_of_epochs').mean():.0f} % of all epochs; SGD's last gap"
            f" reached {_epochs(column(found, 'epochs_to_reach_SGD'))}; each with its own"
            f" best eta0: median ratio {middle(found, 'ratio_best_eta0')}"
        ),
        remark=(
            "epochs_to_reach_SGD is the first epoch at which the mean gap of SGD-as is at most"
            " SGD's last one (nan: never), of the few runs whose curves are kept."
        ),
    )


def _epochs(reached: NDArray[np.float64]) -> str:
    known = reached[np.isfinite(reached)]
    return (
        f"after {np.median(known):.3g} epochs (median of the {len(known)} that reach it)"
        if len(known)
        else "never"
    )


def more_stable(parts: Sequence[Part]) -> Claim:
    """(5) Less spread over seeds, less jitter."""
    rows = []
    for part in parts:
        late = last_quarter(part.settings["epochs"])
        spread = divide(*(float(part.ends[method]["objective"].std()) for method in PAPER[::-1]))
        shaken = {method: part.jitter[method][:, -late:].mean(axis=1) for method in PAPER}
        jitter = divide(float(shaken["SGD-as"].mean()), float(shaken["SGD"].mean()))
        early = divide(*(float(part.jitter[method][:, 0].mean()) for method in PAPER[::-1]))
        apart = {method: _from_the_median(part.ends[method]["objective"]) for method in PAPER}
        outcomes = {
            "spread": compare(apart["SGD-as"], apart["SGD"]),
            "jitter": compare(shaken["SGD-as"], shaken["SGD"]),
        }
        values = {"spread_ratio": spread, "jitter_ratio": jitter, "jitter_ratio_first_epoch": early}
        values |= {"runs": len(apart["SGD"]), "runs_with_jitter": len(shaken["SGD"])}
        rows.append(case_of_runs(part, both(*outcomes.values()), **values, **outcomes))
    return make_claim_of_runs(
        5,
        "SGD-as is more stable than SGD.",
        rows,
        rule=(
            "both its spread (distance of the objective after a run from the median of `runs` runs)"
            " and its jitter (mean absolute change of the objective between 8 points of an epoch,"
            " minus the mean change of that epoch; over the last quarter of the epochs) are clearly"
            " below SGD's"
        ),
        key="jitter_ratio",
        measured=lambda found: (
            f"spread clearly less in {_how_many(found, 'spread')}, ratio"
            f" {span(found, 'spread_ratio')}; jitter clearly less in {_how_many(found, 'jitter')},"
            f" ratio {span(found, 'jitter_ratio')}"
        ),
        remark=f"{BOTH} spread_ratio is that of standard deviations. {_uncertain(parts)}",
    )


def _from_the_median(ends: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.abs(ends - np.median(ends)) if np.isfinite(ends).all() else np.full_like(ends, np.inf)


def _how_many(rows: Sequence[Row], name: str) -> str:
    outcomes = [row[name] for row in rows]
    return f"{outcomes.count('better')}, clearly more in {outcomes.count('worse')} of {len(rows)}"


def _uncertain(parts: Sequence[Part]) -> str:
    """Say how far to trust a standard deviation of so many runs as there were."""
    numbers = sorted({len(part.ends["SGD"]["objective"]) for part in parts} - {0, 1})
    each = ", ".join(
        f"one of {runs} runs by {100 / np.sqrt(2 * (runs - 1)):.0f} %" for runs in numbers
    )
    return (
        f"A standard deviation is itself uncertain, {each}, more where the tails are long."
        if each
        else ""
    )


def level_variance_falling_jitter(parts: Sequence[Part]) -> Claim:
    """(6) The step lowers the jitter, not the variance."""
    rows = []
    for part in parts:
        epochs, late = part.settings["epochs"], last_quarter(part.settings["epochs"])
        if epochs < 3:  # an early and a late epoch besides the first
            continue
        variance, jitter = [], []
        for method in PAPER:
            own = part.variance[method][method].mean(axis=0)
            shaken = part.jitter[method].mean(axis=0)
            variance.append(divide(float(own[-late:].mean()), float(own[1 : 1 + late].mean())))
            jitter.append(divide(float(shaken[-late:].mean()), float(shaken[1 : 1 + late].mean())))
        step = divide(float(part.steps[-late:].mean()), float(part.steps[1 : 1 + late].mean()))
        level = all(1.0 / _LEVEL <= ratio <= _LEVEL for ratio in variance)
        values = {
            f"variance_{method}": ratio for method, ratio in zip(PAPER, variance, strict=True)
        }
        values |= {f"jitter_{method}": ratio for method, ratio in zip(PAPER, jitter, strict=True)}
        rows.append(
            case(
                part,
                level and max(jitter) < 1.0,
                **values,
                step=step,
                level=level,
                jitter_falls=max(jitter) < 1.0,
            )
        )
    return make_claim(
        6,
        "The variance stays level while the jitter falls with the step.",
        rows,
        rule=(
            "from the second epoch on, of both methods, the mean variance of the last quarter is"
            f" within a factor {_LEVEL:g} of that of the first quarter, and the mean jitter is"
            " lower"
        ),
        key="jitter_SGD-as",
        measured=lambda found: (
            f"last / first quarter: variance {span(found, 'variance_SGD-as')} (SGD-as), level in"
            f" {count(found, 'level')}; jitter {span(found, 'jitter_SGD-as')} (SGD-as), falls in"
            f" {count(found, 'jitter_falls')}; step {span(found, 'step')}"
        ),
    )


def largest_stable(eta0: NDArray[np.float64], ends: NDArray[np.float64], at_zero: float) -> float:
    """Largest step of a grid up to which the mean objective over seeds stays below that at zero.

    Nan where the first is not.
    """
    unstable = np.flatnonzero(~(ends.mean(axis=1) < at_zero))
    last = (unstable[0] if len(unstable) else len(eta0)) - 1
    return float(eta0[last]) if last >= 0 else float("nan")


def larger_step(parts: Sequence[Part]) -> Claim:
    """(9) A smaller variance allows a larger step."""
    rows = []
    for part in parts:
        grid = part.constant_steps["eta0"]
        alone, pairs = (
            largest_stable(grid, part.constant_steps[method], part.at_zero) for method in PAPER
        )
        best = {
            method: float(grid[int(np.argmin(part.constant_steps[method].mean(axis=1)))])
            for method in PAPER
        }
        values = {
            "stable_SGD": alone,
            "stable_SGD-as": pairs,
            "ratio": pairs / alone,
            "best_ratio": best["SGD-as"] / best["SGD"],
        }
        rows.append(case(part, pairs > alone, **values, at_the_end=max(alone, pairs) == grid[-1]))
    return make_claim(
        9,
        "A smaller variance allows a larger step.",
        rows,
        rule=(
            "the largest stable constant step of SGD-as is larger than SGD's; a step is stable if"
            " it and all smaller ones of the grid (a factor of the square root of 2 apart, from"
            " 1/256 to 128 times 1/L) have a mean objective, over seeds and the last quarter of at"
            " most 8 epochs, below that at w = 0"
        ),
        key="ratio",
        measured=lambda found: (
            f"largest stable step, SGD-as / SGD: {span(found, 'ratio')}; step with the lowest"
            f" objective: {span(found, 'best_ratio')}"
        ),
        remark=(
            "Stable in this sense is far from good: best_ratio compares the constant steps that end"
            " lowest."
        ),
    )


def nearer(parts: Sequence[Part]) -> Claim:
    """(10) The distance to the solution falls faster."""
    rows = []
    for part in parts:
        pairs, alone = part.distance["SGD-as"], part.distance["SGD"]
        ends = [part.ends[method]["distance"] for method in PAPER]
        below = pairs.mean(axis=0)[1:] < alone.mean(axis=0)[1:]
        ratio = divide(float(ends[1].mean()), float(ends[0].mean()))
        end = compare(ends[1], ends[0])
        outcome = end if end != "better" or below.mean() > 0.5 else "undecided"
        rows.append(
            case_of_runs(
                part, outcome, ratio=ratio, share_of_epochs=float(below.mean()), after_the_run=end
            )
        )
    return make_claim_of_runs(
        10,
        "The distance to the optimal point falls faster with SGD-as.",
        rows,
        rule=(
            "the mean distance to w* is clearly smaller than SGD's after the run, and smaller after"
            " more than half of the epochs, both with the eta0 that is best for SGD; clearly worse"
            " if it is clearly larger after the run"
        ),
        key="ratio",
        measured=lambda found: (
            f"ratio {span(found, 'ratio')}; nearer in"
            f" {100 * column(found, 'share_of_epochs').mean():.0f} % of all epochs"
        ),
    )
