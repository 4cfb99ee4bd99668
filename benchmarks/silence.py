"""Say how often default SGD fits warn, and whether they are right to warn or to be silent.

``SGDClassifier()`` and ``SGDRegressor()`` are fitted to scikit-learn's toy sets and to all sets of
``antithetic.datasets``, as they are and with standardised columns (sparse rows with more columns
than rows are divided by their spread only). Where a set has classes, ``SGDRegressor`` fits their
numbers. For each fit the table shows whether it warned, its estimated gap, its true gap and the CPU
seconds of fit relative to those of scikit-learn's default fit, which takes turns with it.

The gap is (f - f*) / (f_0 - f*) with the best constant model's f_0, the largest of the one-vs-rest
problems. The optimum f* does not come from the package: an interior-point method finds the hinge's,
normal equations that of squares, both in this file. With log loss (``--loss log_loss``), it is that
of ``LogisticRegression``, proved to 1e-8.

Part *made* does the same on data that are hard in known ways: heavy tails, rare columns, collinear
columns, classes that are nearly separated or far from equal, more columns than rows. Part *short*
times 20 epochs on fewer than 1500 rows.

Run ``python benchmarks/silence.py``; the sets take an hour, most of it for the optima of MNIST,
which ``--optima FILE`` keeps; ``--quick`` leaves out sets with more than a million entries. Sets
that are not in the package need the environment variable ANTITHETIC_DATA.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Figure, best_seconds, close, load, machine, report
from scipy import linalg, sparse
from scipy.special import entr
from sklearn import datasets, linear_model
from sklearn.exceptions import ConvergenceWarning

import antithetic
from antithetic._util.threads import limit_blas
from antithetic.datasets import _sets

TOYS = ("iris", "wine", "breast_cancer", "digits")
ALPHA = 1e-4  # the default of both estimators
FEW_ENTRIES = 1_000_000
SMALL, LARGE = 0.02, 0.05  # true gaps of a fit that may be silent, and of one that has to warn


class Task(NamedTuple):
    """Rows and targets of one fit; ``loss`` is that of its estimator."""

    name: str
    loss: str
    X: Any
    y: np.ndarray

    def model(self, package: Any) -> Any:
        """Estimator with its defaults, but for the loss."""
        if self.loss == "squared_error":
            return package.SGDRegressor(random_state=0)
        return package.SGDClassifier(loss=self.loss, random_state=0)


# ---- data


def real(loss: str, quick: bool) -> Iterator[Task]:
    """Every set, as it is and standardised, for both estimators."""
    for name in TOYS:
        yield from forms(name, loss, *getattr(datasets, f"load_{name}")(return_X_y=True))
    X, y = datasets.load_diabetes(return_X_y=True)
    yield from forms("diabetes (numbers)", None, X, y)
    X, y = datasets.load_linnerud(return_X_y=True)
    for k in range(3):
        yield from forms(f"linnerud {k}", None, X, y[:, k])
    for name in _sets.SETS:
        if (found := load(name)) is None:
            continue
        X, y = found
        if quick and (X.nnz if sparse.issparse(X) else X.size) > FEW_ENTRIES:
            continue
        yield from forms(name, loss, X, y)


def forms(name: str, loss: str | None, X: Any, y: np.ndarray) -> Iterator[Task]:
    """The rows as they are and standardised, with each loss."""
    X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X, float)
    for form in ("raw", "standardised"):
        if form == "standardised":
            X = standardised(X)
        if loss is not None:
            yield Task(f"{name}, {form}", loss, X, y)
        if loss in (None, "hinge"):
            yield Task(f"{name}, {form}", "squared_error", X, np.asarray(y, float))


def standardised(X: Any) -> Any:
    """Columns of mean 0 and variance 1; wide sparse rows are not centred."""
    if sparse.issparse(X) and X.shape[1] > X.shape[0]:
        square, mean = X.power(2).mean(axis=0), X.mean(axis=0)
        spread = np.sqrt(np.asarray(square - np.square(mean)).ravel())
        return sparse.csr_array(X @ sparse.diags_array(1.0 / np.where(spread > 0.0, spread, 1.0)))
    X = X.toarray() if sparse.issparse(X) else X
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def made(loss: str, quick: bool) -> Iterator[Task]:
    """Made data that are hard in known ways."""
    for seed in range(1 if quick else 3):
        for name, make in MADE.items():
            rng = np.random.default_rng(seed)
            X, scores, noise = make(rng)
            y = (scores + noise * rng.logistic(size=len(X)) > 0.0).astype(float)
            if name == "rare class":
                y = (scores + noise * rng.logistic(size=len(X)) > 4.0 * scores.std()).astype(float)
            if len(np.unique(y)) > 1:
                yield Task(f"{name} {seed}", loss, X, y)
            if loss == "hinge":
                numbers = scores + noise * rng.normal(size=len(X))
                yield Task(f"{name} {seed}", "squared_error", X, numbers)


def _columns(rng: Any, n: int, d: int) -> tuple:
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) / np.sqrt(d), 0.5


def _heavy(rng: Any, n: int, d: int) -> tuple:
    X = rng.standard_t(2.0, size=(n, d))
    return X, X @ rng.normal(size=d) / np.sqrt(d), 0.5


def _skewed(rng: Any) -> tuple:
    X = rng.lognormal(sigma=2.0, size=(3000, 10))
    return X, np.log(X) @ rng.normal(size=10) / 6.0, 0.5


def _rare(rng: Any, n: int, d: int) -> tuple:
    X = (rng.random((n, d)) < np.geomspace(1e-3, 0.5, d)).astype(float)
    return X, X @ rng.normal(size=d), 0.5


def _collinear(rng: Any, n: int, d: int, condition: float) -> tuple:
    X, _, noise = _columns(rng, n, d)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X = X * np.geomspace(1.0, condition**-0.5, d) @ axes
    w = axes.T @ rng.normal(size=d)
    return X, X @ w / (X @ w).std(), noise


def _far_off(rng: Any) -> tuple:
    X, scores, noise = _columns(rng, 1000, 10)
    return X * np.geomspace(1e-3, 1e3, 10) + 1e3 * rng.normal(size=10), scores, noise


def _separated(rng: Any) -> tuple:
    X, scores, _ = _columns(rng, 2000, 10)
    return X, scores, 0.02


MADE: dict[str, Callable[[Any], tuple]] = {
    "independent columns": lambda rng: _columns(rng, 5000, 20),
    "few rows": lambda rng: _columns(rng, 150, 20),
    "heavy tails": lambda rng: _heavy(rng, 3000, 10),
    "skewed": _skewed,
    "rare columns": lambda rng: _rare(rng, 10_000, 50),
    "rare columns, standardised": lambda rng: (lambda X, s, e: (standardised(X), s, e))(
        *_rare(rng, 10_000, 50)
    ),
    "collinear": lambda rng: _collinear(rng, 2000, 30, 1e4),
    "nearly singular": lambda rng: _collinear(rng, 2000, 10, 1e8),
    "any units": _far_off,
    "nearly separated": _separated,
    "rare class": lambda rng: _columns(rng, 5000, 10),
    "as many columns as rows": lambda rng: _columns(rng, 200, 200),
    "more columns than rows": lambda rng: _columns(rng, 100, 500),
    "noise alone": lambda rng: (lambda X, s, e: (X, 0.0 * s, e))(*_columns(rng, 1000, 10)),
}


# ---- optima


def gaps(task: Task, model: Any, optima: dict[str, Any]) -> np.ndarray:
    """True gap of each problem of a fitted model."""
    coef, intercept = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
    targets = [task.y]
    if task.loss != "squared_error":
        classes = np.unique(task.y)
        some = classes[1:] if len(classes) == 2 else classes
        targets = [np.where(task.y == one, 1.0, -1.0) for one in some]
    key = f"{task.name} | {task.loss} | {task.X.shape}"
    if key not in optima:
        optima[key] = [_optimum(task, y) for y in targets]
    found = []
    for y, w, b, (first, least) in zip(targets, coef, intercept, optima[key], strict=True):
        found.append((objective(task, y, w, b) - least) / max(first - least, 1e-5 * first))
    return np.array(found)


def objective(task: Task, y: np.ndarray, w: np.ndarray, b: float) -> float:
    """Mean loss plus penalty."""
    p = task.X @ w + b
    return float(LOSSES[task.loss](y, p).mean() + 0.5 * ALPHA * w @ w)


LOSSES: dict[str, Callable] = {
    "hinge": lambda y, p: np.maximum(0.0, 1.0 - y * p),
    "log_loss": lambda y, p: np.logaddexp(0.0, -y * p),
    "squared_error": lambda y, p: 0.5 * np.square(y - p),
}


def _optimum(task: Task, y: np.ndarray) -> tuple[float, float]:
    """Objective of the best constant and of the best model."""
    share = np.mean(y == y.max())
    if task.loss == "squared_error":
        return 0.5 * float(y.var()), _least_squares(task, y)
    if task.loss == "hinge":
        return 2.0 * float(min(share, 1.0 - share)), _least_hinge(task, y)
    exact = antithetic.LogisticRegression(C=1.0 / (ALPHA * len(y)), tol=1e-8).fit(task.X, y)
    at = objective(task, y, exact.coef_.ravel(), exact.intercept_[0])
    return float(entr(share) + entr(1.0 - share)), at


def _least_squares(task: Task, y: np.ndarray) -> float:
    X, n, d = task.X, *task.X.shape
    mean, target = np.asarray(X.mean(axis=0)).ravel(), y - y.mean()
    if d > n:  # weights are a combination of the rows
        inner = _centred_products(X, mean)
        w = _transposed(X, mean, linalg.solve(inner + n * ALPHA * np.eye(n), target))
    else:
        Z = (X.toarray() if sparse.issparse(X) else X) - mean
        w = linalg.solve(Z.T @ Z / n + ALPHA * np.eye(d), Z.T @ target / n, assume_a="pos")
    return objective(task, y, w, float(y.mean() - mean @ w))


def _centred_products(X: Any, mean: np.ndarray) -> np.ndarray:
    inner = X @ X.T
    inner = inner.toarray() if sparse.issparse(inner) else inner
    off = X @ mean
    return inner - off[:, None] - off + mean @ mean


def _transposed(X: Any, mean: np.ndarray, shares: np.ndarray) -> np.ndarray:
    return X.T @ shares - mean * shares.sum()


def _least_hinge(task: Task, y: np.ndarray) -> float:
    """Minimum by Mehrotra's predictor and corrector; columns are centred, which changes nothing.

    Dual variables a of the rows lie between 0 and 1, lower and upper are their bounds' multipliers:
    w = Z'a / (n alpha), y'a = 0, Zw + yb - 1 = lower - upper.
    """
    X, n, d = task.X, *task.X.shape
    mean = np.asarray(X.mean(axis=0)).ravel()
    wide = d > n
    if wide:
        inner = _centred_products(X, mean) * np.outer(y, y) / (n * ALPHA)
    else:
        Z = ((X.toarray() if sparse.issparse(X) else X) - mean) * y[:, None]
        bordered = np.column_stack([Z, y])
    a, b = np.where(y > 0.0, 0.5 / np.mean(y > 0.0), 0.5 / np.mean(y < 0.0)), 0.0
    a *= 0.5 / a.max()
    # both equations of the dual hold from here on, so its objective is a lower bound
    w = None if wide else Z.T @ a / (n * ALPHA)
    margins = inner @ a if wide else Z @ w  # without the intercept
    lower, upper = np.ones(n), np.ones(n)
    best = np.inf

    def step_to(mu: float, more: tuple, factor: tuple, units: Any) -> tuple:
        scale = lower / a + upper / (1.0 - a)
        wrong = 1.0 - margins - y * b + lower - upper
        rhs = wrong + (mu - more[0]) / a - lower - ((mu - more[1]) / (1.0 - a) - upper)
        if wide:  # margins = inner a; (inner + scale) da + y db = rhs
            both = linalg.cho_solve(factor, np.column_stack([rhs, y]))
            db = (y @ both[:, 0] + y @ a) / (y @ both[:, 1])
            da = both[:, 0] - db * both[:, 1]
            dm = inner @ da
            dw = None
        else:
            right = bordered.T @ (rhs / scale)
            right[:d] -= n * ALPHA * w - Z.T @ a
            right[d] += y @ a
            both = units * linalg.cho_solve(factor, units * right)
            dw, db = both[:d], both[d]
            dm = Z @ dw
            da = (rhs - dm - y * db) / scale
        dl = (mu - more[0]) / a - lower - lower / a * da
        du = (mu - more[1]) / (1.0 - a) - upper + upper / (1.0 - a) * da
        return da, db, dw, dm, dl, du

    def longest(values: np.ndarray, moves: np.ndarray) -> float:
        down = moves < 0.0
        return min(1.0, float((-values[down] / moves[down]).min(initial=np.inf)))

    for _ in range(100):
        scale = lower / a + upper / (1.0 - a)
        units = None
        if wide:
            factor = linalg.cho_factor(inner + np.diag(scale), overwrite_a=True)
        else:
            hessian = bordered.T @ (bordered / scale[:, None])
            hessian[np.diag_indices(d)] += n * ALPHA
            units = 1.0 / np.sqrt(hessian.diagonal())
            scaled = hessian * np.outer(units, units)
            scaled[np.diag_indices(d + 1)] += 1e-15
            factor = linalg.cho_factor(scaled)

        mu = float(lower @ a + upper @ (1.0 - a)) / (2 * n)
        da, db, dw, dm, dl, du = step_to(0.0, (0.0, 0.0), factor, units)
        primal = min(longest(lower, dl), longest(upper, du))
        dual = min(longest(a, da), longest(1.0 - a, -da))
        after = (lower + primal * dl) @ (a + dual * da)
        after += (upper + primal * du) @ (1.0 - a - dual * da)
        centred = (after / (2 * n) / mu) ** 3 * mu
        da, db, dw, dm, dl, du = step_to(centred, (da * dl, -da * du), factor, units)
        t = 0.995 * min(
            longest(lower, dl), longest(upper, du), longest(a, da), longest(1.0 - a, -da)
        )
        a, b, lower, upper, margins = (
            a + t * da,
            b + t * db,
            lower + t * dl,
            upper + t * du,
            (margins + t * dm),
        )
        if wide:
            square = float(a @ margins) * n * ALPHA
        else:
            w = w + t * dw
            square = float(w @ w) * (n * ALPHA) ** 2
        # the best intercept for these margins may be better than the present one
        value = np.maximum(0.0, 1.0 - margins - y * b).mean() + 0.5 * square / (n * n * ALPHA)
        best = min(best, float(value))
        lowest = a.mean() - 0.5 * square / (n * n * ALPHA)
        if best - lowest <= 1e-6 * best:
            break
    else:
        print(f"{task.name}: the optimum is known to {best - lowest:.1e} of {best:.3g} only")
    return best


# ---- fits


class Found(NamedTuple):
    """What is known of one fit."""

    task: str
    warned: bool
    epochs: int
    estimate: float
    gap: float
    ratio: float
    seconds: float
    peer_warned: bool
    said: str = ""

    def line(self) -> str:
        """Format it as a line of the table."""
        words = ("warned" if self.warned else "", "theirs" if self.peer_warned else "")
        return (
            f"{self.task:<56}{words[0]:>7}{words[1]:>7}{self.epochs:>6}{self.estimate:>10.2g}"
            f"{self.gap:>10.2g}{self.ratio:>8.2f}{1e3 * self.seconds:>10.1f}"
        )


HEAD = f"{'set':<56}{'ours':>7}{'':>7}{'epochs':>6}{'gap_':>10}{'true':>10}{'ratio':>8}{'ms':>10}"


def fitted(task: Task, package: Any) -> tuple[Any, list[str], float]:
    """Return a fitted model, what it said, and its CPU seconds."""
    model = task.model(package)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        began = time.process_time()
        model.fit(task.X, task.y)
        seconds = time.process_time() - began
    return model, [str(one.message) for one in said if one.category is ConvergenceWarning], seconds


def measured(task: Task, optima: dict[str, Any], timed: bool = True) -> Found:
    """Fit ours and theirs, in turns if that takes little time."""
    ours, said, mine = fitted(task, antithetic)
    peer_said, theirs = [], np.nan
    if timed:
        _, peer_said, theirs = fitted(task, linear_model)
        if mine + theirs < 4.0:
            jobs = [lambda: fitted(task, antithetic), lambda: fitted(task, linear_model)]
            again = best_seconds(jobs, 3, time.process_time)
            mine, theirs = min(mine, again[0]), min(theirs, again[1])
    estimate = float(np.max(ours.gap_))
    gap = float(gaps(task, ours, optima).max())
    name = f"{task.name} ({task.loss})"
    flags = bool(said), int(ours.n_iter_), estimate, gap, mine / theirs, mine, bool(peer_said)
    return Found(name, *flags, said[0] if said else "")


def figures(found: list[Found], bars: bool) -> Iterator[Figure]:
    """Shares of silent fits and of right ones, and seconds."""
    silent = [one for one in found if not one.warned]
    yield Figure(
        "share without a warning",
        len(silent) / len(found),
        least=0.88 if bars else None,
        remark=f"{len(silent)} of {len(found)}",
    )
    near = sum(one.gap <= SMALL for one in silent)
    yield Figure(
        f"of these, share with a true gap of at most {SMALL:g}",
        near / max(1, len(silent)),
        least=0.95,
        remark=f"{near} of {len(silent)}",
    )
    missed = [one.task for one in silent if not one.gap <= LARGE]
    yield Figure(
        f"fits without a warning whose true gap is above {LARGE:g}",
        len(missed),
        most=0,
        remark="; ".join(missed),
    )
    vain = [one.task for one in found if one.warned and one.gap <= 0.01]
    yield Figure("fits with a warning whose true gap is at most 0.01", len(vain))
    for loss in sorted({one.task.rpartition("(")[2][:-1] for one in found}):
        some = [one for one in found if one.task.endswith(f"({loss})")]
        quiet = sum(not one.warned for one in some)
        yield Figure(
            f"share without a warning, {loss}", quiet / len(some), remark=f"of {len(some)}"
        )
    ratios = [one.ratio for one in found if one.ratio == one.ratio]
    if ratios:
        most = 1.0 if bars else None
        yield Figure("seconds / scikit-learn's, median", float(np.median(ratios)), most=most)
        yield Figure("seconds / scikit-learn's, 90th percentile", float(np.quantile(ratios, 0.9)))
        yield Figure("seconds / scikit-learn's, largest", max(ratios))


def short() -> Iterator[Figure]:
    """Seconds of 20 epochs on fewer than 1500 rows, relative to scikit-learn's."""
    few = {"breast_cancer": datasets.load_breast_cancer(return_X_y=True)}
    few["wine"] = datasets.load_wine(return_X_y=True)
    few["diabetes (numbers)"] = datasets.load_diabetes(return_X_y=True)
    rng = np.random.default_rng(0)
    for n, d in ((100, 5), (500, 20), (1400, 10)):
        X = rng.normal(size=(n, d))
        few[f"made {n} x {d}"] = X, (X[:, 0] + rng.normal(size=n) > 0.0).astype(int)
    given = {"max_iter": 20, "tol": None, "random_state": 0}
    for name, (X, y) in few.items():
        Z = standardised(X)
        numbers = len(np.unique(y)) > 10
        kinds = ["SGDRegressor"] if numbers else ["SGDClassifier", "SGDRegressor"]
        for kind in kinds:
            models = [getattr(one, kind)(**given) for one in (antithetic, linear_model)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                jobs = [partial(model.fit, Z, y) for model in models]
                mine, theirs = best_seconds(jobs, 30, time.process_time)
            yield Figure(f"20 epochs: {name}, {kind}", mine / theirs, most=1.3)


def main() -> int:
    """Print the tables and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="some of real, made, short; all if none is named")
    parser.add_argument("--quick", action="store_true", help="leave out large sets and seeds")
    parser.add_argument("--loss", default="hinge", help="of the classifier: hinge or log_loss")
    parser.add_argument("--optima", metavar="FILE", type=Path, help="keep optima in this file")
    parser.add_argument("--only", default="", help="sets whose name contains this")
    parser.add_argument("--untimed", action="store_true", help="leave scikit-learn's fits out")
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the table as JSON")
    asked = parser.parse_args()
    print(machine())
    missed, parts = 0, asked.parts or ["real", "made", "short"]
    optima = {}
    if asked.optima and asked.optima.exists():
        optima = json.loads(asked.optima.read_text(encoding="utf-8"))
    kept = []
    with limit_blas(1):
        for part, tasks in (("real", real), ("made", made)):
            if part not in parts:
                continue
            found = []
            print(f"{HEAD}", flush=True)
            for task in tasks(asked.loss, asked.quick):
                if asked.only not in task.name:
                    continue
                known = len(optima)
                found.append(measured(task, optima, not asked.untimed))
                print(found[-1].line(), flush=True)
                if asked.optima and len(optima) > known:
                    asked.optima.write_text(json.dumps(optima), encoding="utf-8")
            print()
            if found:
                missed += report(figures(found, part == "real"))
            kept += [one._asdict() for one in found]
        if "short" in parts:
            missed += report(short())
    if asked.save:
        asked.save.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return close(missed)


if __name__ == "__main__":
    raise SystemExit(main())
