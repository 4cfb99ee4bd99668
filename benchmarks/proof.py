"""Say how tight the proofs are, and what they cost.

**Gaps**, **problems** and **seconds**: bounds on the gap of fits, see ``proof_gaps.py``.

**Leave-one-out** (`antithetic.inference.leave_one_out`), on 20 sets of two classes: embedded ones,
those of ANTITHETIC_DATA, raw and with standardised columns, and made ones; C = 0.01, 1 and 100.

- *Violations*: rows whose score in the fit without them is outside their interval. These fits are
  made by a Newton method of the script, of all rows up to 5000, and of random ones elsewhere.
- *Undecided*: the share of rows whose label is open, or whose score has no bound, after tier 2 and
  in the end, in settings with at least 20 rows for each column.
- *Seconds*: of tier 1 for all rows, relative to one Hessian in float64 and one triangular product;
  of the whole call relative to our own five-fold cross-validation at the same C. CPU seconds, one
  thread, each the least of several that take turns. The first is judged from 10,000 rows on: with
  fewer, calls of some ten microseconds each outweigh the products.

**The choice of C** among ten values by ``LogisticRegressionCV(cv="loo")``, from a random 70 % of
the rows:

- against brute force, which fits without each row (without random ones on larger sets);
- against five folds, ours and scikit-learn's: CPU seconds, one thread, and log loss of the rows
  that are held out.

**Standard errors** (`antithetic.inference.summary`) on twelve sets, against statsmodels: classical,
HC0, HC1 for least squares, and clustered ones.

Run ``python benchmarks/proof.py``, 40 minutes, or name parts; ``--quick`` leaves out sets and
rows.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import chain

import numpy as np
from common import Figure, best_seconds, load, run_parts
from proof_gaps import gaps, problems
from proof_gaps import seconds as seconds_against_other_code
from scipy import sparse
from sklearn import linear_model
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from standard_errors import standard_errors

import antithetic
from antithetic.exact.linear_algebra import Root
from antithetic.inference.fitted import Fitted, read_fitted
from antithetic.inference.leave_one_out import Search, leave_one_out

STRENGTHS = (0.01, 1.0, 100.0)
SMALL = ("sonar_scale", "breast-cancer_scale", "diabetes_scale", "fourclass_scale", "splice_scale")
RAW = ("breast-cancer", "diabetes")
LARGE = ("splice.t", "mushrooms", "phishing", "ijcnn1.tr", "cod-rna_scale", "a9a")
ALL_ROWS, SOME_ROWS = 5000, 1000
LARGEST_WORK = 6e8  # of n d^2 for each fit without a row: with more, fewer rows are fitted without
MANY_ROWS = 20  # per column
LARGE_ROWS = 10_000
OF_ONE = 1.5  # of a Hessian and a triangular product: what tier 1 may cost
CHOICES = np.logspace(-3, 3, 10)
MOST_FOR_A_CHOICE = 300
LARGEST_FORCE = 5e8  # of n d^2 for each of these fits without a row
HELD_OUT = 0.3
MORE = ((500, 10), (800, 30), (1000, 4), (1500, 15))  # rows and columns, so that there are 20


def made(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose columns have unequal sizes, and labels that a linear model half explains."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, d)
    scores = X @ (rng.normal(size=d) / X.std(axis=0)) * (2.0 / np.sqrt(d))
    return X, np.where(scores + rng.logistic(size=n) > 0.0, 1, 0)


def sets(*, quick: bool) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and labels: as they are and, of some, with standardised columns."""
    names = SMALL[:3] if quick else (*SMALL, *RAW, *LARGE)
    for name in names:
        if (found := load(name)) is None:
            continue
        X, y = found
        X = X.toarray() if sparse.issparse(X) else np.ascontiguousarray(X)
        yield name, X, y
        if name in ("breast-cancer", "diabetes", "phishing", "splice.t"):
            spread = X.std(axis=0)
            scaled = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
            yield f"{name}, standardised", scaled, y
    for n, d in ((300, 5), (2000, 40), (4000, 20)):
        yield f"made {n} x {d}", *made(n, d, n)


# ---- fits without a row


def score_without(fitted: Fitted, rows: np.ndarray, row: int) -> float:
    """Score of a row in the optimum without it: Newton's method, to the last digits."""
    s = fitted.weight.copy()
    s[row] = 0.0
    theta, scores = fitted.theta.copy(), fitted.scores.copy()

    def height(theta: np.ndarray, scores: np.ndarray) -> float:
        losses = np.logaddexp(0.0, -fitted.y * scores)
        return float(s @ losses + 0.5 * fitted.penalty @ theta**2)

    before = height(theta, scores)
    for _ in range(60):
        chances = 1.0 / (1.0 + np.exp(np.clip(fitted.y * scores, -700.0, 700.0)))
        gradient = rows.T @ (-s * fitted.y * chances) + fitted.penalty * theta
        hessian = (rows * (s * chances * (1.0 - chances))[:, None]).T @ rows
        hessian[np.diag_indices_from(hessian)] += fitted.penalty
        root = Root(hessian)
        step, length = root.solve(gradient), 1.0
        along = rows @ step
        while length > 1e-9:
            after = height(theta - length * step, scores - length * along)
            if after <= before + 1e-13 * abs(before):
                break
            length /= 2.0
        theta, scores, before = theta - length * step, scores - length * along, after
        if root.norm(gradient) < 1e-10:
            break
    return float(rows[row] @ theta)


def chosen_rows(n: int, d: int, *, quick: bool) -> np.ndarray:
    """Rows that are fitted without: all of few, else some at random."""
    most = n if n <= ALL_ROWS else SOME_ROWS
    most = min(most, max(30, int(LARGEST_WORK * 60 / (n * d * d))))
    most = min(most, 50) if quick else most
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


# ---- parts


def leave_one_out_part(quick: bool) -> Iterator[Figure]:
    """Leave-one-out: violations, undecided rows, seconds."""
    violations = fits = 0
    after_two, in_the_end, of_tier_one, of_all = [], [], [], []
    for name, X, y in sets(quick=quick):
        for C in STRENGTHS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = antithetic.LogisticRegression(C=C, n_jobs=1).fit(X, y)
                result = leave_one_out(model, X, y)
                wrong, count = violated(model, X, y, result, quick=quick)
                violations, fits = violations + wrong, fits + count
                tiers = Search.of(read_fitted(model, X, y))
                for tier in (1, 2):
                    tiers.improve(tier, tiers.undecided())
                undecided = len(np.concatenate(tiers.undecided())) / len(y)
                end = float(np.mean(result.is_open | ~np.isfinite(result.loss[:, 1])))
                if len(y) >= MANY_ROWS * X.shape[1]:
                    after_two.append(undecided)
                    in_the_end.append(end)
                first, whole = seconds(model, X, y, repeats=2 if quick else 3)
                of_tier_one.append((len(y), first))
                of_all.append(whole)
            print(
                f"{name[:30]:<32}C={C:<6g}{len(y):>6} x {X.shape[1]:<4} outside {wrong} of"
                f" {count:<6} undecided {100 * undecided:.2f} %, {100 * end:.2f} %  tier 1"
                f" {first:.2f}  all {whole:.2f} of five folds"
            )
    yield Figure("scores outside their intervals", violations, most=0, remark=f"of {fits} fits")
    few, much = np.mean(np.array(after_two) <= 0.01), max(after_two)
    yield Figure("share of settings with 1 % undecided or less", float(few), least=0.85)
    yield Figure("largest share undecided after tier 2", float(much), most=0.1)
    yield Figure("largest share undecided in the end", float(max(in_the_end)), most=0.0)
    for name, chosen, most in (
        ("from 10,000 rows on", [ratio for n, ratio in of_tier_one if n >= LARGE_ROWS], OF_ONE),
        ("of fewer rows", [ratio for n, ratio in of_tier_one if n < LARGE_ROWS], None),
    ):
        if chosen:
            value = float(np.median(chosen))
            yield Figure(f"tier 1 / (Hessian + product), {name}, median", value, most=most)
            yield Figure(f"tier 1 / (Hessian + product), {name}, worst", max(chosen))
    yield Figure("seconds / five folds at one C, median", float(np.median(of_all)), most=1.0)
    yield Figure("seconds / five folds at one C, worst", float(max(of_all)))


def violated(model, X, y, result, *, quick: bool) -> tuple[int, int]:
    """Count the rows whose score in a fit without them is outside the interval, and the fits."""
    fitted = read_fitted(model, X, y)
    rows = np.concatenate([block for _, block in fitted.blocks()])
    chosen = chosen_rows(*rows.shape, quick=quick)
    scores = np.array([score_without(fitted, rows, row) for row in chosen])
    slack = 1e-9 * (1.0 + np.abs(scores))  # digits of these fits
    inside = (result.lower[chosen] <= scores + slack) & (scores - slack <= result.upper[chosen])
    return int(np.count_nonzero(~inside)), len(chosen)


def seconds(model, X, y, repeats: int) -> tuple[float, float]:
    """Time of tier 1 relative to one Hessian and a product, and of all to five folds."""
    fitted = read_fitted(model, X, y)

    def one() -> None:
        root = Root(fitted.hessian(), fitted.lowered())
        fitted.leverages(root)

    folds = antithetic.LogisticRegressionCV(Cs=[model.C], n_jobs=1)
    jobs = [
        one,
        partial(Search.of, fitted),
        partial(leave_one_out, model, X, y),
        partial(folds.fit, X, y),
    ]
    least, first, whole, five = best_seconds(jobs, repeats, time.process_time)
    return first / least, whole / five


def choice_part(quick: bool) -> Iterator[Figure]:
    """C by leave-one-out: the same as by brute force, what it costs, and what it is worth."""
    same = proved = 0
    seconds, losses = [], []
    more = () if quick else ((f"made {n} x {d}", *made(n, d, n)) for n, d in MORE)
    print("| set | rows x columns | seconds: leave-one-out | five folds | scikit-learn |", end="")
    print(" held-out log loss: leave-one-out | five folds | scikit-learn | choice |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|---|")
    for name, rows, labels in chain(sets(quick=quick), more):
        if rows.shape[0] * rows.shape[1] ** 2 > (1e6 if quick else 3e7):
            continue
        X, X_out, y, y_out = train_test_split(
            rows, labels, test_size=HELD_OUT, stratify=labels, random_state=0
        )
        models = [
            antithetic.LogisticRegressionCV(Cs=CHOICES, cv="loo", n_jobs=1),
            antithetic.LogisticRegressionCV(Cs=CHOICES, n_jobs=1),
            linear_model.LogisticRegressionCV(
                Cs=CHOICES, cv=5, scoring="neg_log_loss", max_iter=1000, n_jobs=1
            ),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jobs = [partial(model.fit, X, y) for model in models]
            seconds.append(best_seconds(jobs, 2, time.process_time))
            forced = losses_by_force(X, y, models[0])
        losses.append([log_loss(y_out, model.predict_proba(X_out)) for model in models])
        choice = models[0].choice_
        is_same = float(CHOICES[forced.argmin()]) == choice.best
        same, proved = same + is_same, proved + choice.proved
        cells = [f"{one:.3g}" for one in seconds[-1]] + [f"{one:.4f}" for one in losses[-1]]
        said = f"C={choice.best:.3g}, {'proved' if choice.proved else 'not proved'}"
        said += "" if is_same else f"; by force {CHOICES[forced.argmin()]:.3g}"
        print(f"| {name} | {len(y)} x {X.shape[1]} | {' | '.join(cells)} | {said} |", flush=True)
    times, held_out = np.array(seconds), np.array(losses)
    yield Figure("share of sets with the C of brute force", same / len(times), least=1.0)
    yield Figure("share of sets where it is proved", proved / len(times))
    for k, other in ((1, "five folds"), (2, "scikit-learn's five folds")):
        ratio = float(np.median(times[:, 0] / times[:, k]))
        yield Figure(f"seconds / {other}, ten C, median", ratio)
        apart = held_out[:, 0] / held_out[:, k] - 1.0
        yield Figure(f"held-out log loss / that of {other} - 1, median", float(np.median(apart)))
        yield Figure(f"held-out log loss / that of {other} - 1, worst", float(apart.max()))


def losses_by_force(X, y, search) -> np.ndarray:
    """Mean log loss of rows in fits without them, for each C.

    On larger sets of some rows, and of the others as leave-one-out has it.
    """
    n = len(y)
    rng = np.random.default_rng(0)
    most = min(MOST_FOR_A_CHOICE, int(LARGEST_FORCE / (n * X.shape[1] ** 2)))
    rows_left = np.sort(rng.permutation(n)[: n if n <= 1000 else most])
    means = []
    for number, C in enumerate(CHOICES):
        model = antithetic.LogisticRegression(C=C, tol=1e-10, n_jobs=1).fit(X, y)
        fitted = read_fitted(model, X, y)
        rows = np.concatenate([block for _, block in fitted.blocks()])
        losses = -search.scores_[:, 0, number].copy()
        scores = np.array([score_without(fitted, rows, row) for row in rows_left])
        losses[rows_left] = np.logaddexp(0.0, -fitted.y[rows_left] * scores)
        means.append(losses.mean())
    return np.array(means)


PARTS = {
    "gaps": gaps,
    "problems": problems,
    "seconds": seconds_against_other_code,
    "leave-one-out": leave_one_out_part,
    "choice": choice_part,
    "summary": standard_errors,
}


if __name__ == "__main__":
    sys.exit(run_parts(__doc__, PARTS))
