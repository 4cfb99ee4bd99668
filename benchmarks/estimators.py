"""Print the figures of the estimators against scikit-learn's, each with its bar.

The figures are the gap to the optimum, the seconds of ``fit`` and the zeros of L1.

A gap is ``(f - f*) / (f(0) - f*)``, f the objective at the weights of a fit, f* its least value;
the mean over seeds. Both classes have all defaults but loss, alpha, ``fit_intercept=False``,
``max_iter``, ``tol=None`` and ``random_state``. "Gap ratio" is ours divided by scikit-learn's. All
seconds are CPU time, the least of repeats that take turns, with everything that ``fit`` does; both
classes use one thread.

Run ``python benchmarks/estimators.py`` on a quiet machine; ``--quick`` takes fewer seeds, sets and
repeats. The exit status is 1 if a bar is missed. Nine of the thirteen sets need the environment
variable ANTITHETIC_DATA and are left out, with a line that says so, without it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from common import Figure, best_seconds, close, load, machine, report
from scipy import sparse
from scipy.optimize import minimize as lbfgs
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

import antithetic
from antithetic.problem import Problem

ALPHAS = {
    "sonar_scale": 1e-2,
    "breast-cancer_scale": 1e-2,
    "splice_scale": 1e-3,
    "fourclass_scale": 1e-2,
    "diabetes_scale": 1e-2,
    "ijcnn1.tr": 1e-4,
    "a9a": 1e-4,
    "w8a": 1e-4,
    "phishing": 1e-4,
    "mushrooms": 1e-4,
    "cod-rna_scale": 1e-4,
    "farm-ads": 1e-4,
    "skin_nonskin": 1e-4,
}
QUICK = ("sonar_scale", "breast-cancer_scale", "splice_scale", "diabetes_scale", "a9a")
OURS, PEER = antithetic.SGDClassifier, SGDClassifier
DENSE_FEATURES = 2000  # up to which a Hessian is formed
LEAST_ERROR = 1e-16  # of the smallest objective: more digits are not possible


# ---- data and least objectives


@cache
def data(name: str) -> tuple | None:
    """Rows, dense where a third of the entries or more is stored, and labels."""
    loaded = load(name)
    if loaded is None or name != "skin_nonskin":
        return loaded
    X, y = loaded
    low, high = X.min(axis=0), X.max(axis=0)
    return 2.0 * (X - low) / (high - low) - 1.0, y


@cache
def problem(name: str, loss: str) -> Problem:
    return Problem.build(*data(name), loss=loss, l2=ALPHAS[name])


@cache
def optimum(name: str, loss: str) -> tuple[float, float]:
    """Minimum of the objective, and an upper bound on its error (nan where none is known)."""
    return (least_logistic if loss == "log_loss" else least_hinge)(problem(name, loss))


def least_logistic(given: Problem) -> tuple[float, float]:
    """L-BFGS, then Newton's method; |gradient|^2 / (2 l2) bounds the error."""
    options = {"maxcor": 10, "ftol": 1e-16, "gtol": 1e-4, "maxiter": 20_000, "maxfun": 40_000}
    w = lbfgs(
        lambda w: (given.objective(w), given.gradient(w)[0]),
        np.zeros(given.d),
        jac=True,
        method="L-BFGS-B",
        options=options,
    ).x
    norm = np.linalg.norm(given.gradient(w)[0])
    while (error := norm**2 / (2.0 * given.penalty.l2)) > LEAST_ERROR:
        nearer = w - newton_step(given, w)
        shorter = np.linalg.norm(given.gradient(nearer)[0])
        if not shorter < norm:
            break
        w, norm = nearer, shorter
    return given.objective(w), error


def newton_step(given: Problem, w: np.ndarray) -> np.ndarray:
    """Solve with the Hessian of the logistic loss, which is formed where the features are few."""
    share = expit(given.predictions(w))
    curvature = share * (1.0 - share) / given.n
    gradient, l2 = given.gradient(w)[0], given.penalty.l2
    if given.d > DENSE_FEATURES:
        product = LinearOperator(
            (given.d, given.d), matvec=lambda v: given.X.T @ (curvature * (given.X @ v)) + l2 * v
        )
        return cg(product, gradient, rtol=1e-2)[0]
    weighed = (
        given.X.multiply(curvature[:, None])
        if sparse.issparse(given.X)
        else given.X * curvature[:, None]
    )
    square = given.X.T @ weighed
    return np.linalg.solve(
        (square.toarray() if sparse.issparse(square) else square) + l2 * np.eye(given.d), gradient
    )


def least_hinge(given: Problem) -> tuple[float, float]:
    """The dual method of liblinear, for long."""
    exact = LinearSVC(
        loss="hinge",
        C=1.0 / (given.penalty.l2 * given.n),
        fit_intercept=False,
        tol=1e-8,
        max_iter=300_000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return given.objective(exact.fit(given.X, given.y).coef_[0]), np.nan


# ---- gaps


def mean_gap(estimator: Callable, name: str, loss: str, epochs: int, seeds: int) -> float:
    X, y = data(name)
    least, _ = optimum(name, loss)
    settings = {
        "loss": loss,
        "alpha": ALPHAS[name],
        "fit_intercept": False,
        "max_iter": epochs,
        "tol": None,
    }
    reached = [
        problem(name, loss).objective(estimator(**settings, random_state=seed).fit(X, y).coef_[0])
        for seed in range(seeds)
    ]
    at_zero = problem(name, loss).objective(np.zeros(X.shape[1]))
    return float((np.mean(reached) - least) / (at_zero - least))


def gaps(
    names: list[str], loss: str, epochs: int, seeds: int, most: float | None = None
) -> Iterator[Figure]:
    """One line per set, then the number of sets on which ours is smaller."""
    print(
        f"\n{loss}, {epochs} epochs, mean of {seeds} seeds: gap of ours divided by that of"
        " scikit-learn"
    )
    smaller = 0
    for name in names:
        ours, peer = (mean_gap(estimator, name, loss, epochs, seeds) for estimator in (OURS, PEER))
        smaller += ours < peer
        yield Figure(
            f"gap ratio: {name}", ours / peer, most=most, remark=f"{ours:.2e} against {peer:.2e}"
        )
    bar = 8 if most is not None and len(names) == len(ALPHAS) else None
    yield Figure(f"sets of {len(names)} where ours is smaller", smaller, least=bar)


def means(names: list[str], loss: str, seeds: int) -> Iterator[Figure]:
    """Gain of averaging an epoch's weights over taking the last, with the same steps and orders."""
    for epochs in (2, 5, 20):
        print(
            f"\n{loss}, {epochs} epochs, mean of {seeds} seeds: gap of average='auto' divided by"
            " that of average=False"
        )
        for name in names:
            mean, last = (
                mean_gap(partial(OURS, average=average), name, loss, epochs, seeds)
                for average in ("auto", False)
            )
            yield Figure(
                f"gap ratio, mean / last: {name}",
                mean / last,
                remark=f"{mean:.2e} against {last:.2e}",
            )


def certainty(names: list[str]) -> None:
    print("how much the least logistic objective may be too large, relative to f(0) - f*:")
    for name in names:
        least, error = optimum(name, "log_loss")
        print(f"  {name:<22}{error / (np.log(2.0) - least):.0e}")


# ---- seconds


def fit_seconds(title: str, X, y, repeats: int, most: float | None = None) -> Figure:
    """Seconds of our fit divided by those of scikit-learn, 5 epochs of the logistic loss."""
    ours, peer = (
        estimator(loss="log_loss", max_iter=5, tol=None, random_state=0)
        for estimator in (OURS, PEER)
    )
    ours_seconds, peer_seconds = best_seconds(
        [lambda: ours.fit(X, y), lambda: peer.fit(X, y)], repeats, time.process_time
    )
    remark = f"{ours_seconds * 1e3:.2f} ms against {peer_seconds * 1e3:.2f} ms"
    return Figure(f"fit ratio: {title}", ours_seconds / peer_seconds, most=most, remark=remark)


def seconds(repeats: int) -> Iterator[Figure]:
    print("\nseconds of fit, 5 epochs, divided by those of scikit-learn")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    yield fit_seconds(
        "dense 200 x 10", X, np.sign(X[:, 0] + rng.normal(size=200)), 20 * repeats, most=3.0
    )
    for name, form in (("ijcnn1.tr", "dense"), ("a9a", "CSR")):
        if (known := data(name)) is not None:
            yield fit_seconds(f"{name} {form}", *known, repeats)


# ---- L1


def sparsity(name: str, seeds: int) -> None:
    """Print non-zero weights and objective of both classes, and of the minimum."""
    if (known := data(name)) is None:
        return
    X, y = known
    print(
        f"\n{name}, log_loss, penalty='l1', mean of {seeds} seeds: weights that are not zero, of"
        f" {X.shape[1]}, and objective"
    )
    print(
        f"{'alpha':<8}{'epochs':<8}{'ours':>8}{'scikit-learn':>14}{'minimum':>9}"
        f"{'ours':>14}{'scikit-learn':>14}{'minimum':>11}"
    )
    for alpha in (1e-4, 1e-3, 1e-2):
        given = Problem.build(X, y, l1=alpha)
        exact = LogisticRegression(
            l1_ratio=1.0,
            solver="liblinear",
            C=1.0 / (alpha * given.n),
            fit_intercept=False,
            tol=1e-8,
            max_iter=2000,
            random_state=0,
        )
        minimum = exact.fit(X, y).coef_[0]
        for epochs in (5, 20):
            (ours, f_ours), (peer, f_peer) = (
                l1_outcome(estimator, given, X, y, alpha, epochs, seeds)
                for estimator in (OURS, PEER)
            )
            counts = f"{ours:>8.1f}{peer:>14.1f}{np.count_nonzero(minimum):>9}"
            print(
                f"{alpha:<8}{epochs:<8}{counts}{f_ours:>14.5f}{f_peer:>14.5f}"
                f"{given.objective(minimum):>11.5f}",
                flush=True,
            )


def l1_outcome(
    estimator: type, given: Problem, X, y, alpha: float, epochs: int, seeds: int
) -> tuple[float, float]:
    settings = {
        "loss": "log_loss",
        "penalty": "l1",
        "alpha": alpha,
        "fit_intercept": False,
        "max_iter": epochs,
        "tol": None,
    }
    weights = [estimator(**settings, random_state=seed).fit(X, y).coef_[0] for seed in range(seeds)]
    return float(np.mean([np.count_nonzero(w) for w in weights])), float(
        np.mean([given.objective(w) for w in weights])
    )


# ---- the whole


def figures(quick: bool) -> Iterator[Figure]:
    names = [name for name in (QUICK if quick else ALPHAS) if data(name) is not None]
    seeds = 2 if quick else 8
    certainty(names)
    yield from gaps(names, "log_loss", 5, seeds, most=1.5)
    yield from gaps(names, "log_loss", 20, seeds)
    yield from gaps(names, "hinge", 5, seeds)
    yield from means(names, "log_loss", seeds)
    yield from means(names, "hinge", seeds)
    yield from seconds(5 if quick else 21)
    sparsity("a9a", seeds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer seeds, sets and repeats, less to be trusted"
    )
    quick = parser.parse_args().quick
    print(machine())
    return close(report(figures(quick)))


if __name__ == "__main__":
    sys.exit(main())
