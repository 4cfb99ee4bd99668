"""What the paper claims, in its order, then the comparison that it lacks: each judged by numbers.

Each function below is one claim: it makes a case of each experiment, and a sentence of the cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from antithetic.paper.experiments import MEASURES, STEPS, Experiment, last_quarter
from antithetic.paper.workbench import PAPER, Array

Verdict = Literal["holds", "does not hold", "holds in part", "not measured"]
Outcome = Literal["better", "undecided", "worse"]
Case = dict[str, Any]
Found = tuple[Sequence[Case], Callable[[Sequence[Case]], str]]
"""The cases, and a function that says in a sentence what those that count have in common."""

OVERALL = (
    "The claim holds if all cases count, holds in part if at least half of them do, and does not"
    " hold otherwise."
)
OVERALL_RUNS = (
    "Clearly means by more than two standard errors of the difference of two means over runs; a"
    " case that is neither clearly better nor clearly worse is undecided. The claim holds if most"
    " cases are clearly better and none clearly worse; it does not hold if at least half are"
    " clearly worse, none clearly better, or fewer clearly better than clearly worse; otherwise it"
    " holds in part."
)
OVERALL_MEASURES = (
    "Variances and second moments are compared in two ways: of both estimators at the same weights,"
    " those of SGD, and of each along its own runs, as the paper plots them (mean of seeds). A case"
    " counts only if it does in both ways, with the chosen step; four times that step is shown for"
    " comparison."
)
BOTH = (
    "It is clearly worse if one of the two is clearly worse and the other is not clearly better,"
    " and undecided otherwise."
)
THEOREM = "a theorem, checked"
_STANDARD_ERRORS = 2.0  # by which two means must differ to differ clearly
_UNBIASED = 1e-12
_NEARLY_ALL = 0.9  # of the opposite labels that the class sizes allow
_STRONG = 0.5  # rank correlation that counts as "lowering one lowers the other"
_LEVEL = 2.0  # factor within which a variance counts as level
_SAME = 1e-9  # relative difference below which two variance ratios are the same
_ONE_AND_MANY: dict[Verdict, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
    "not measured": ("is not measured", "are not measured"),
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim and its verdict.

    Attributes
    ----------
    number : int
        From 1.
    claim : str
        One sentence.
    verdict : {"holds", "does not hold", "holds in part", "not measured"}
    found : str
        The key numbers, short.
    by_measure : dict of step to dict of measure to str
        How many cases count, with a number, if variances or second moments are compared.
    rule : str
        When a case counts, and remarks.
    overall : str
        How the verdict follows from the cases.
    cases : tuple of dict
        One per case, usually a set with a loss; ``"held"`` says how the case was counted, None
        if it was not. If runs are compared there is also ``"outcome"``, one of "better",
        "undecided" and "worse", and only the first is held.
    by_construction : bool
        Whether it follows by arithmetic: then it is a check of the program, not a finding.
    """

    number: int
    claim: str
    verdict: Verdict
    found: str
    by_measure: dict[str, dict[str, str]]
    rule: str
    overall: str
    cases: tuple[Case, ...]
    by_construction: bool = False

    @property
    def measured(self) -> str:
        """All that was found, as a sentence."""
        by_step = [
            ", ".join(f"{measure}: {said}" for measure, said in of.items())
            for of in self.by_measure.values()
        ]
        return "; ".join(
            [self.found, *by_step[:1], *(f"four times the step: {of}" for of in by_step[1:])]
        )

    @property
    def detail(self) -> str:
        """The whole rule."""
        return f"{self.rule} {self.overall}"


_CLAIMS: list[Callable[[Sequence[Experiment]], Claim]] = []


def judge_claims(experiments: Sequence[Experiment]) -> list[Claim]:
    """Judge every claim by finished experiments; without any, none is measured."""
    # Runs that diverged are infinite, and count against their method.
    with np.errstate(all="ignore"):
        return [claim(experiments) for claim in _CLAIMS]


def _claim(
    sentence: str,
    rule: str,
    *,
    remark: str = "",
    of_runs: bool = False,
    two_measures: tuple[str, Callable[[Array], str]] | None = None,
    by_construction: bool = False,
) -> Callable[[Callable[[Sequence[Experiment]], Found]], None]:
    """Number a claim.

    ``rule`` says when a case counts, or is clearly better if it is of runs; ``two_measures`` which
    numbers are told of each measure, and how.
    """

    def register(find: Callable[[Sequence[Experiment]], Found]) -> None:
        number = len(_CLAIMS) + 1

        def judged(experiments: Sequence[Experiment]) -> Claim:
            cases, sum_up = find(experiments)
            counted = [case for case in cases if case["held"] is not None]
            measured = "no case to measure it on"
            if counted:
                measured = f"{(count_outcomes if of_runs else count)(counted)}; {sum_up(counted)}"
                measured += f" ({THEOREM})" if by_construction else ""
            if of_runs:
                verdict = judge_outcomes(case["outcome"] for case in counted)
            else:
                verdict = judge(case["held"] for case in counted)
            counts = "is clearly better" if of_runs else "counts"
            said = f"A case {counts} if {rule}. {remark}".strip()
            overall = OVERALL_RUNS if of_runs else OVERALL
            by_measure = {}
            if two_measures is not None:
                overall = f"{OVERALL_MEASURES} {overall}"
                by_measure = _tell_measures(counted, *two_measures)
            return Claim(
                number,
                sentence,
                verdict,
                measured,
                by_measure,
                said,
                overall,
                tuple(cases),
                by_construction,
            )

        _CLAIMS.append(judged)

    return register


def judge(held: Iterable[bool | None]) -> Verdict:
    """Verdict over all cases; None is a case that does not count.

    Examples
    --------
    >>> judge([True, True]), judge([True, False]), judge([True, False, False]), judge([None])
    ('holds', 'holds in part', 'does not hold', 'not measured')
    """
    counted = [case for case in held if case is not None]
    if not counted:
        return "not measured"
    if all(counted):
        return "holds"
    return "holds in part" if 2 * sum(counted) >= len(counted) else "does not hold"


def judge_outcomes(outcomes: Iterable[Outcome]) -> Verdict:
    """Verdict over cases in which runs were compared: what may be noise counts for neither side.

    Examples
    --------
    >>> judge_outcomes(["better", "better", "undecided"])
    'holds'
    >>> judge_outcomes(["better", "undecided"])
    'holds in part'
    >>> judge_outcomes(["undecided"])
    'does not hold'
    """
    found = list(outcomes)
    if not found:
        return "not measured"
    better, worse = found.count("better"), found.count("worse")
    if 2 * better > len(found) and not worse:
        return "holds"
    if 2 * worse >= len(found) or not better or better < worse:
        return "does not hold"
    return "holds in part"


def headline(claims: Sequence[Claim]) -> str:
    """Summary of the verdicts: those that hold by construction, then the others."""
    theorems = [claim.verdict for claim in claims if claim.by_construction]
    findings = [claim.verdict for claim in claims if not claim.by_construction]
    sure = f"{theorems.count('holds')} of {len(claims)} claims hold by construction"
    for verdict in _ONE_AND_MANY:
        if verdict != "holds" and verdict in theorems:
            sure += f", {_count_verdict(theorems, verdict, ' that should')}"
    shown = [each for each in _ONE_AND_MANY if each in findings or each != "not measured"]
    *first, last = [_count_verdict(findings, each) for each in shown]
    return f"{sure}; of the other {len(findings)}, {', '.join(first)} and {last}"


def _count_verdict(verdicts: Sequence[Verdict], verdict: Verdict, which: str = "") -> str:
    number = verdicts.count(verdict)
    one, many = _ONE_AND_MANY[verdict]
    return f"{number}{which} {one if number == 1 else many}"


# ---- cases and their statistics


def _case(one: Experiment, held: object, **values: Any) -> Case:
    held = None if held is None else bool(held)
    return {"set": one.name, "loss": one.loss, "held": held} | values


def _case_of_runs(one: Experiment, outcome: Outcome, **values: Any) -> Case:
    return _case(one, outcome == "better", outcome=outcome, **values)


def _by_measure(judged: Callable[[str, str], tuple[object, dict[str, float]]]) -> Case:
    """Judge by each measure with each step; only the chosen one decides."""
    values: Case = {"held": True}
    for step in STEPS:
        for measure in MEASURES:
            held, numbers = judged(measure, step)
            values["held"] &= bool(held) or step != "chosen"
            values |= {_column(name, measure, step): value for name, value in numbers.items()}
            values[_column("held", measure, step)] = bool(held)
    return values


def _column(name: str, measure: str, step: str = "chosen") -> str:
    return f"{name}, {measure}" + ("" if step == "chosen" else f", {step} the step")


def _tell_measures(
    cases: Sequence[Case], name: str, tell: Callable[[Array], str]
) -> dict[str, dict[str, str]]:
    """By step and measure, tell how many cases count, and a column of numbers."""
    return {
        step: {
            measure: f"{count(cases, _column('held', measure, step))},"
            f" {tell(column(cases, _column(name, measure, step)))}"
            for measure in MEASURES
        }
        for step in (STEPS if cases else ())
    }


def count_outcomes(cases: Sequence[Case]) -> str:
    """Say in how many cases the outcome was which."""
    outcomes = [case["outcome"] for case in cases]
    better, undecided, worse = (outcomes.count(each) for each in ("better", "undecided", "worse"))
    return (
        f"clearly better in {better}, undecided in {undecided}, clearly worse in {worse} of"
        f" {len(cases)}"
    )


def count(cases: Sequence[Case], column: str = "held") -> str:
    """Say in how many of the cases something is true."""
    return f"{sum(bool(case[column]) for case in cases)} of {len(cases)}"


def show(value: Any) -> str:
    """Show a number with three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def column(cases: Sequence[Case], name: str) -> Array:
    """Numbers of a column."""
    return np.array([case[name] for case in cases], dtype=np.float64)


def middle(cases: Sequence[Case], name: str) -> str:
    """Median of a column, for a sentence."""
    return show(float(np.median(column(cases, name))))


def span(cases: Sequence[Case], name: str) -> str:
    """Least, median and largest of a column, for a sentence."""
    low, high = (show(float(end(column(cases, name)))) for end in (np.min, np.max))
    return f"{low} to {high}, median {middle(cases, name)}"


def divide(a: float, b: float) -> float:
    """Ratio as a plain number; 0 / 0 is 1."""
    if a == b:
        return 1.0
    return float(a / b) if b != 0.0 else float("inf")


def clearly_below(a: Array, b: Array) -> bool:
    """Whether the mean of a is below that of b by more than two standard errors.

    The means are over seeds; the standard error is that of their difference.
    """
    if len(a) < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return bool(b.mean() - a.mean() > _STANDARD_ERRORS * error)


def compare(own: Array, peer: Array) -> Outcome:
    """Whether values of runs, the less the better, are clearly better or worse than others.

    Runs that diverged are worse than any.
    """
    fine, peer_fine = bool(np.isfinite(own).all()), bool(np.isfinite(peer).all())
    if fine != peer_fine:
        return "better" if fine else "worse"
    if clearly_below(own, peer):
        return "better"
    return "worse" if clearly_below(peer, own) else "undecided"


def both(first: Outcome, second: Outcome) -> Outcome:
    """Outcome of a case with two comparisons, see ``BOTH``."""
    found = (first, second)
    if found == ("better", "better"):
        return "better"
    return "worse" if "worse" in found and "better" not in found else "undecided"


def mean_gap(one: Experiment, method: str, *, own: bool = False) -> float:
    """Mean gap after many runs, with the shared eta0 or the method's own best of the grid."""
    return float(one.end_gap(method, own=own).mean())


def compared_ratio(one: Experiment, measure: str, step: str) -> Array:
    """Variance of SGD-as relative to SGD's: (S, E + 1) at the same weights, else (1, E + 1).

    Runs do not share their draws, so that along own runs the means of the seeds are compared.
    """
    if measure == "same weights":
        return one.variance_ratio(step)
    pairs, rows = (values.mean(axis=0) for values in one.variances(measure, step))
    return np.array([[divide(*ends) for ends in zip(pairs, rows, strict=True)]])


# ---- the claims


@_claim(
    "The gradient of an antithetic pair is an unbiased estimator of the full gradient.",
    f"the mean over all n draws differs from the gradient by at most {_UNBIASED:g} of a row's"
    " gradient (root mean square), at w = 0 and after each epoch of the first run of SGD-as",
    remark="Every row is the partner of exactly one row, so it follows by arithmetic.",
    by_construction=True,
)
def _unbiased(experiments: Sequence[Experiment]) -> Found:
    cases = [
        _case(one, one.bias.max() <= _UNBIASED, deviation=float(one.bias.max()))
        for one in experiments
    ]
    return cases, lambda found: f"largest relative deviation {column(found, 'deviation').max():.1e}"


@_claim(
    "The variance of SGD-as is below that of SGD throughout the run.",
    "the exact variance of a pair is below that of two independent rows before the first step and"
    " after each epoch: at the weights of SGD for every seed, and along own runs",
    two_measures=("worst ratio", lambda values: f"worst ratio {values.max():.3g}"),
)
def _smaller_variance(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:

        def judged(
            measure: str, step: str, one: Experiment = one
        ) -> tuple[object, dict[str, float]]:
            ratio = compared_ratio(one, measure, step)
            return (ratio < 1.0).all(), {
                "share of epochs below": float((ratio < 1.0).mean()),
                "worst ratio": float(ratio.max()),
                "worst ratio of a seed": float(one.variance_ratio(step, measure).max()),
                "ratio at zero": float(ratio[0, 0]),
                "ratio at the end": float(ratio[:, -1].mean()),
            }

        cases.append(_case(one, None) | _by_measure(judged))
    return (
        cases,
        lambda found: (
            f"variance ratio {span(found, 'ratio at zero, same weights')} at w = 0 and"
            f" {span(found, 'ratio at the end, same weights')} at the end; of single seeds along"
            f" own runs at most {show(column(found, 'worst ratio of a seed, own runs').max())}"
        ),
    )


@_claim(
    "The variance is reduced most at the beginning of the iterations.",
    "the reduction 1 - ratio at w = 0 is larger than after any epoch (mean of seeds)",
    remark="The reduction is lost later because the table is built from the rows, not from the"
    " gradients.",
    two_measures=(
        "largest later",
        lambda values: f"largest later reduction {np.median(values):.3g} in the median",
    ),
)
def _most_at_the_beginning(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:

        def judged(
            measure: str, step: str, one: Experiment = one
        ) -> tuple[object, dict[str, float]]:
            ratio = compared_ratio(one, measure, step).mean(axis=0)
            late = float(ratio[-last_quarter(len(ratio) - 1) :].mean())
            return ratio[0] < ratio[1:].min(), {
                "reduction at zero": float(1.0 - ratio[0]),
                "after one epoch": float(1.0 - ratio[1]),
                "reduction late": 1.0 - late,
                "largest later": float(1.0 - ratio[1:].min()),
                "epoch of the largest": float(np.argmin(ratio)),
            }

        cases.append(_case(one, None) | _by_measure(judged))
    return (
        cases,
        lambda found: (
            f"median reduction {middle(found, 'reduction at zero, same weights')} at w = 0, then at"
            f" the same weights {middle(found, 'after one epoch, same weights')} after one epoch"
            f" and {middle(found, 'reduction late, same weights')} in the last quarter"
        ),
    )


@_claim(
    "SGD-as converges faster than SGD: it ends lower.",
    "the mean gap of SGD-as after many runs is clearly below that of SGD, both with the eta0 that"
    " is best for SGD",
    remark="The epoch at which the mean gap of SGD-as is at most SGD's last one is found from the"
    " few runs whose curves are kept.",
    of_runs=True,
)
def _converges_faster(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        pairs, alone = one.gap("SGD-as").mean(axis=0), one.gap("SGD").mean(axis=0)
        reached = np.flatnonzero(pairs <= alone[-1])
        best = divide(mean_gap(one, "SGD-as", own=True), mean_gap(one, "SGD", own=True))
        values = {
            "gap of SGD": mean_gap(one, "SGD"),
            "gap of SGD-as": mean_gap(one, "SGD-as"),
            "ratio": divide(mean_gap(one, "SGD-as"), mean_gap(one, "SGD")),
            "share of epochs below": float((pairs < alone)[1:].mean()),
            "ratio after one epoch": divide(float(pairs[1]), float(alone[1])),
            "ratio with own best eta0": best,
            "epochs to reach SGD": float(reached[0]) if len(reached) else float("nan"),
            "number of runs": len(one.end_gap("SGD")),
        }
        outcome = compare(one.end_gap("SGD-as"), one.end_gap("SGD"))
        cases.append(_case_of_runs(one, outcome, **values))
    return (
        cases,
        lambda found: (
            f"gap ratio {span(found, 'ratio')}; below in"
            f" {100 * column(found, 'share of epochs below').mean():.0f} % of all epochs; SGD's"
            f" last gap reached {_epochs(column(found, 'epochs to reach SGD'))}; each with its own"
            f" best eta0: median ratio {middle(found, 'ratio with own best eta0')}"
        ),
    )


def _epochs(reached: Array) -> str:
    known = reached[np.isfinite(reached)]
    if not len(known):
        return "never"
    return f"after {np.median(known):.3g} epochs (median of the {len(known)} that reach it)"


@_claim(
    "SGD-as is more stable than SGD.",
    "both its spread (distance of the objective after a run from the median of many runs) and its"
    " jitter (mean absolute change of the objective between 8 points of an epoch, minus the mean"
    " change of that epoch; over the last quarter of the epochs) are clearly below SGD's",
    remark=f"{BOTH} The ratio of spreads is that of standard deviations, which are themselves"
    " uncertain: by 11 % with 40 runs, by more if the tails are long.",
    of_runs=True,
)
def _more_stable(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        late = last_quarter(one.protocol["epochs"])
        objective = {method: one.ends[method]["objective"] for method in PAPER}
        apart = {method: _from_the_median(objective[method]) for method in PAPER}
        shaken = {method: one.jitter[method][:, -late:].mean(axis=1) for method in PAPER}
        outcomes = {
            name: compare(of["SGD-as"], of["SGD"])
            for name, of in (("spread", apart), ("jitter", shaken))
        }
        values = {
            "spread ratio": divide(*(float(objective[each].std()) for each in PAPER[::-1])),
            "jitter ratio": divide(*(float(shaken[each].mean()) for each in PAPER[::-1])),
            "jitter ratio in the first epoch": divide(
                *(float(one.jitter[each][:, 0].mean()) for each in PAPER[::-1])
            ),
            "number of runs": len(apart["SGD"]),
            "number of runs with jitter": len(shaken["SGD"]),
        }
        cases.append(_case_of_runs(one, both(*outcomes.values()), **values, **outcomes))
    return (
        cases,
        lambda found: (
            f"spread clearly less in {_less_and_more(found, 'spread')}, ratio"
            f" {span(found, 'spread ratio')}; jitter clearly less in"
            f" {_less_and_more(found, 'jitter')}, ratio {span(found, 'jitter ratio')}"
        ),
    )


def _from_the_median(ends: Array) -> Array:
    return np.abs(ends - np.median(ends)) if np.isfinite(ends).all() else np.full_like(ends, np.inf)


def _less_and_more(cases: Sequence[Case], name: str) -> str:
    outcomes = [case[name] for case in cases]
    return f"{outcomes.count('better')}, clearly more in {outcomes.count('worse')} of {len(cases)}"


@_claim(
    "The variance stays level while the jitter falls with the step.",
    "for both methods, with the first epoch left out, the mean variance of the last quarter of the"
    f" epochs is within a factor of {_LEVEL:g} of that of the first quarter, and the mean jitter is"
    " lower",
    remark="Jitter is measured with the chosen step only.",
    two_measures=(
        "variance of SGD-as",
        lambda values: f"variance of SGD-as {values.min():.3g} to {values.max():.3g}",
    ),
)
def _level_variance_falling_jitter(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        epochs, late = one.protocol["epochs"], last_quarter(one.protocol["epochs"])
        if epochs < 3:  # an early and a late epoch besides the first
            continue

        def late_to_early(values: Array, late: int = late) -> float:
            mean = np.atleast_2d(values).mean(axis=0)
            return divide(float(mean[-late:].mean()), float(mean[1 : 1 + late].mean()))

        def judged(
            measure: str, step: str, one: Experiment = one
        ) -> tuple[object, dict[str, float]]:
            pairs, rows = map(late_to_early, one.variances(measure, step))
            level = all(1.0 / _LEVEL <= ratio <= _LEVEL for ratio in (pairs, rows))
            return level, {"variance of SGD-as": pairs, "variance of SGD": rows}

        found = _by_measure(judged)
        fallen = {method: late_to_early(one.jitter[method]) for method in PAPER}
        found["jitter falls"] = max(fallen.values()) < 1.0
        found["held"] &= found["jitter falls"]
        found |= {f"jitter of {method}": ratio for method, ratio in fallen.items()}
        cases.append(_case(one, None) | found | {"step": late_to_early(one.steps)})
    return (
        cases,
        lambda found: (
            f"last / first quarter: jitter {span(found, 'jitter of SGD-as')} (SGD-as), falls in"
            f" {count(found, 'jitter falls')}; step {span(found, 'step')}"
        ),
    )


@_claim(
    "Mutually antithetic samples usually have opposite labels.",
    "more than half of the rows have a partner of the other label, or, since the paper adds 'if"
    f" possible', at least {_NEARLY_ALL:g} of the largest share that the class sizes allow (a set"
    " counts once: the table does not depend on the loss)",
    remark="The paper's reason, positive features, does not apply to sets scaled to [-1, 1].",
)
def _opposite_labels(experiments: Sequence[Experiment]) -> Found:
    cases: dict[str, Case] = {}
    for one in experiments:  # the table is that of the rows, whatever the loss
        shares = one.labels
        of_possible = divide(shares["opposite"], shares["possible"])
        held = shares["opposite"] > 0.5 or of_possible >= _NEARLY_ALL
        values = shares | {"of what is possible": of_possible, "loss": "any"}
        cases[one.name] = _case(one, held) | values
    return (
        list(cases.values()),
        lambda found: (
            f"share {span(found, 'opposite')}; random partners {span(found, 'random')}; of what is"
            f" possible {span(found, 'of what is possible')}"
        ),
    )


@_claim(
    "Products of partners' gradients that are negative stay negative (logistic), or at least never"
    " turn positive (hinge).",
    "of the products that are negative at w = 0 none is positive after any epoch of the first run"
    " of SGD-as, and with the logistic loss all are still negative (with the hinge loss the paper"
    " allows zero)",
    remark="This is a theorem of the paper, so it holds by construction; but a hinge product that"
    " has become zero no longer lowers anything.",
    by_construction=True,
)
def _negative_stays_negative(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        negative, turned = one.products["negative"], one.products["reversed"]
        held = turned.max() == 0.0 and (one.loss == "hinge" or negative.min() == 1.0)
        values = {"still negative": float(negative.min()), "reversed": float(turned.max())}
        cases.append(_case(one, held, **values))

    def sum_up(found: Sequence[Case]) -> str:
        least = [
            f"{show(min(case['still negative'] for case in found if case['loss'] == loss))}"
            f" ({'logistic' if loss == 'log_loss' else loss})"
            for loss in dict.fromkeys(case["loss"] for case in found)
        ]
        return (
            f"share that turned positive at most {column(found, 'reversed').max():.2g}; share that"
            f" stayed negative at least {', '.join(least)}"
        )

    return cases, sum_up


def largest_stable(eta0: Array, ends: Array, at_zero: float) -> float:
    """Largest step of a grid up to which the mean objective over seeds stays below that at zero.

    NaN if the first is not.
    """
    unstable = np.flatnonzero(~(ends.mean(axis=1) < at_zero))
    last = (unstable[0] if len(unstable) else len(eta0)) - 1
    return float(eta0[last]) if last >= 0 else float("nan")


@_claim(
    "A smaller variance allows a larger step.",
    "the largest stable constant step of SGD-as is larger than SGD's; a step is stable if it and"
    " all smaller ones of the grid (a factor of the square root of 2 apart, from 1/256 to 128 times"
    " 1/L) have a mean objective, over seeds and the last quarter of at most 8 epochs, below that"
    " at w = 0",
    remark="A step that is stable in this sense may be far from good, so the constant steps that"
    " end lowest are compared, too.",
)
def _larger_step(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        grid, ends = one.constant_steps["eta0"], one.constant_steps
        alone, pairs = (largest_stable(grid, ends[method], one.at_zero) for method in PAPER)
        best = {each: float(grid[int(np.argmin(ends[each].mean(axis=1)))]) for each in PAPER}
        values = {
            "stable step of SGD": alone,
            "stable step of SGD-as": pairs,
            "ratio": pairs / alone,
            "ratio of the best": best["SGD-as"] / best["SGD"],
            "at the end of the grid": max(alone, pairs) == grid[-1],
        }
        cases.append(_case(one, pairs > alone, **values))
    return (
        cases,
        lambda found: (
            f"largest stable step, SGD-as / SGD: {span(found, 'ratio')}; step with the lowest"
            f" objective: {span(found, 'ratio of the best')}"
        ),
    )


@_claim(
    "The distance to the optimal point falls faster with SGD-as.",
    "the mean distance to w* is clearly smaller than SGD's after the run, and smaller after more"
    " than half of the epochs, both with the eta0 that is best for SGD; clearly worse if it is"
    " clearly larger after the run",
    of_runs=True,
)
def _nearer(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        pairs, alone = (one.distance[each].mean(axis=0)[1:] for each in PAPER[::-1])
        ends = [one.ends[method]["distance"] for method in PAPER[::-1]]
        share, end = float((pairs < alone).mean()), compare(*ends)
        values = {
            "ratio": divide(*(float(each.mean()) for each in ends)),
            "share of epochs below": share,
            "after the run": end,
        }
        outcome = end if end != "better" or share > 0.5 else "undecided"
        cases.append(_case_of_runs(one, outcome, **values))
    return (
        cases,
        lambda found: (
            f"ratio {span(found, 'ratio')}; nearer in"
            f" {100 * column(found, 'share of epochs below').mean():.0f} % of all epochs"
        ),
    )


@_claim(
    "Lowering the bound y_i y_j <x_i, x_j> lowers the product of the two gradients at later"
    " weights.",
    "Spearman's rank correlation of bound and product over 4000 random pairs is at least"
    f" {_STRONG:g} after every epoch of the first run of SGD-as",
    remark="Bound and product have the same sign, which alone gives a correlation; among bounds"
    " of one sign, this effect is excluded.",
)
def _bounds_and_products(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        least = {f"least, {kind} bounds": float(of.min()) for kind, of in one.ranks.items()}
        cases.append(_case(one, least["least, all bounds"] >= _STRONG, **least))
    return (
        cases,
        lambda found: (
            f"least correlation {span(found, 'least, all bounds')}; among negative bounds alone"
            f" median {middle(found, 'least, negative bounds')}, among positive ones"
            f" {middle(found, 'least, positive bounds')}"
        ),
    )


@_claim(
    "The largest second moment E|g|^2 along the run, the G^2 of the analysis, is smaller for"
    " SGD-as.",
    "the largest E|g|^2 before the first step and after each epoch is smaller for SGD-as than for"
    " SGD (mean of seeds)",
    remark="If the largest is the one at w = 0, G^2 says nothing about the rest of the run.",
    two_measures=("ratio", lambda values: f"worst ratio {values.max():.3g}"),
)
def _smaller_second_moment(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:

        def judged(
            measure: str, step: str, one: Experiment = one
        ) -> tuple[object, dict[str, float]]:
            moments = one.second_moments(measure, step)
            ratio, later = (
                divide(*(float(each[:, first:].max(axis=1).mean()) for each in moments))
                for first in (0, 1)
            )
            return ratio < 1.0, {"ratio": ratio, "ratio without w = 0": later}

        alone = one.second_moments("own runs")[1]
        at_zero = bool((alone.argmax(axis=1) == 0).all())
        cases.append(_case(one, None) | _by_measure(judged) | {"largest at zero": at_zero})
    return (
        cases,
        lambda found: (
            f"SGD's is largest at w = 0 in {count(found, 'largest at zero')}; without w = 0, ratio"
            f" {span(found, 'ratio without w = 0, own runs')} along own runs"
        ),
    )


@_claim(
    "If every product of partners is negative, the variance is below that of independent rows.",
    "this is the case at w = 0 and after each epoch of the first run of SGD-as on the mutual pairs"
    " of the table with a negative bound",
    remark="This is a theorem of the paper, at any weights, for any table whose products are all"
    " negative.",
    by_construction=True,
)
def _ideal_case(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        worst, share = float(np.max(one.ideal["ratio"])), float(one.products["bounds"][0])
        values = {
            "worst ratio": worst,
            "negative bounds": share,
            "all negative": share == 1.0,
            "share of rows": float(one.ideal["share"][0]),
        }
        cases.append(_case(one, None if np.isnan(worst) else worst < 1.0, **values))
    return (
        cases,
        lambda found: (
            f"worst ratio {column(found, 'worst ratio').max():.3g}; but every bound of Algorithm"
            f" 1's table is negative in only {count(found, 'all negative')}: share"
            f" {span(found, 'negative bounds')}"
        ),
    )


@_claim(
    "There is a gain with batches of 4, 8 and 16, of several pairs.",
    "the mean gap of SGD-as after the run is clearly below SGD's, with the eta0 that is best for"
    " SGD at that batch size; clearly worse if it is clearly above, or if the variance ratio"
    f" differs from that of batches of 2 at the same weights by more than {_SAME:g}",
    remark="That the variance ratio is the same follows by arithmetic, as pairs are drawn"
    " independently of each other; the gap is the finding.",
    of_runs=True,
)
def _larger_batches(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        at_two = float(one.variance_ratio()[0, -1])  # at the same weights: SGD's first run ends
        for size, found in one.batches.items():
            alone, pairs = (one.relative_gap(found[method]) for method in PAPER)
            variance = float(found["variance_ratio"][0])
            same = abs(variance - at_two) <= _SAME * at_two
            values = {
                "variance ratio": variance,
                "same variance ratio": same,
                "gap ratio": divide(float(pairs.mean()), float(alone.mean())),
            }
            outcome = compare(pairs, alone) if same else "worse"
            cases.append(_case_of_runs(one, outcome, batch=int(size), **values))

    def sum_up(found: Sequence[Case]) -> str:
        by_size = [
            f"{middle([case for case in found if case['batch'] == size], 'gap ratio')}"
            f" (batch {size})"
            for size in sorted({case["batch"] for case in found})
        ]
        return (
            f"median gap ratio {', '.join(by_size)}; the same variance ratio as with batches of 2"
            f" in {count(found, 'same variance ratio')} ({THEOREM})"
        )

    return cases, sum_up


@_claim(
    "The gain carries over to a non-smooth penalty (L1, Prox-SGD).",
    "the mean objective of SGD-as after the run is clearly below SGD's, with the eta0 that is best"
    " for SGD; the L1 strength is a tenth of that at which all weights stay zero, lambda is kept",
    of_runs=True,
)
def _non_smooth_penalty(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        found = one.non_smooth
        alone, pairs = (float(found[method].mean()) for method in PAPER)
        values = {
            "excess": divide(pairs - alone, one.at_zero - alone),
            "variance ratio": float(found["variance_ratio"].mean()),
            "l1": float(found["l1"][0]),
            "zeros": float(found["zeros"][0]),
        }
        cases.append(_case_of_runs(one, compare(found["SGD-as"], found["SGD"]), **values))
    return (
        cases,
        lambda found: (
            "objective of SGD-as minus SGD's, in units of SGD's whole descent:"
            f" {span(found, 'excess')}; variance ratio at the last weights of SGD"
            f" {span(found, 'variance ratio')}"
        ),
    )


@_claim(
    "The same table serves labels 0 and 1.",
    "the table and the weights after an epoch have the same bits as with labels -1 and 1, and the"
    " slopes equal mu_i - y_i to 1e-12 (logistic loss)",
    remark="True by construction here, since labels are turned into signs first; the slopes are"
    " compared with the paper's formula.",
    by_construction=True,
)
def _zero_one_labels(experiments: Sequence[Experiment]) -> Found:
    cases = []
    for one in experiments:
        same = {f"same {what}": bool(one.zero_one[f"same_{what}"][0]) for what in _SAME_BITS}
        formula = float(one.zero_one["formula"][0]) if "formula" in one.zero_one else float("nan")
        held = all(same.values()) and not formula > 1e-12
        cases.append(_case(one, held, **same, formula=formula))
    return cases, lambda found: ", ".join(
        f"same {what} in {count(found, f'same {what}')}" for what in _SAME_BITS
    )


_SAME_BITS = ("table", "weights")
_AGAINST = (
    "the mean gap of {} after the run is clearly below that of reshuffled single rows, both with"
    " the eta0 that is best for SGD and when each has its own best eta0 of the grid"
)


@_claim(
    "SGD-as is better than plain reshuffling, which needs no table (not in the paper, which"
    " compares with i.i.d. draws only).",
    _AGAINST.format("SGD-as"),
    remark=BOTH,
    of_runs=True,
)
def _against_reshuffling(experiments: Sequence[Experiment]) -> Found:
    return [_against(one, "SGD-as") for one in experiments], _say_against


@_claim(
    "Nested antithetic and balanced orders are better than plain reshuffling (neither is the"
    " paper's; balancing is that of GraB and CD-GraB).",
    _AGAINST.format("the order"),
    remark=f"{BOTH} Nested tables are made once, from the rows, and not refreshed; a balanced"
    " order needs no table. Reshuffled pairs of Algorithm 1's table are shown for comparison.",
    of_runs=True,
)
def _orders_against_reshuffling(experiments: Sequence[Experiment]) -> Found:
    orders = ("nested order", "balanced")
    cases = [_against(one, order) | {"order": order} for order in orders for one in experiments]
    pairs = [_against(one, "reshuffled pairs") for one in experiments]

    def sum_up(found: Sequence[Case]) -> str:
        by_order = {order: [case for case in found if case["order"] == order] for order in orders}
        said = (by_order | {"reshuffled pairs": pairs}).items()
        return "; ".join(f"{order}: {_say_against(of)}" for order, of in said)

    return cases, sum_up


def _against(one: Experiment, method: str) -> Case:
    peer, outcomes, ratios = "reshuffled", list[Outcome](), list[float]()
    for own in (False, True):
        outcomes.append(compare(one.end_gap(method, own=own), one.end_gap(peer, own=own)))
        ratios.append(divide(mean_gap(one, method, own=own), mean_gap(one, peer, own=own)))
    values = {
        "gap": mean_gap(one, method),
        "gap reshuffled": mean_gap(one, peer),
        "ratio": ratios[0],
        "ratio with own eta0": ratios[1],
        "shared eta0": outcomes[0],
        "own eta0": outcomes[1],
    }
    return _case_of_runs(one, both(outcomes[0], outcomes[1]), **values)


def _say_against(cases: Sequence[Case]) -> str:
    names = ("ratio", "ratio with own eta0")
    below = [int(np.count_nonzero(column(cases, name) < 1.0)) for name in names]
    return (
        f"median gap / reshuffled gap {middle(cases, names[0])} (below 1 in {below[0]} of"
        f" {len(cases)}), with own best eta0 {middle(cases, names[1])} (below 1 in {below[1]})"
    )
