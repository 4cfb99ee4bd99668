"""Print the figures of orders, each with its bar: gaps, seconds, and what `advise` says.

The gaps are those of reshuffled, balanced and nested epochs.

A gap is ``(f - f*) / (f(0) - f*)``, f the objective, f* its least value; the mean over seeds. No
intercept, batches of 2. Where it says "best eta0", the step is ``eta0 / (1 + eta0 lambda t)`` with
the eta0 of ``4^k / L``, ``L = mean |x|^2 / 4``, that ends with the least mean gap; a run that
overflows counts as infinite. All seconds are the least of repeats that take turns.

Run ``python benchmarks/orders.py`` on a quiet machine, some ten minutes, or only some parts of it:
``python benchmarks/orders.py a c``. ``--quick`` takes fewer seeds, sets and repeats. The exit
status is 1 if a bar is missed. Most sets need the environment variable ANTITHETIC_DATA and are left
out, with a line that says so, without it.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from functools import cache

import numpy as np
from common import Figure, best_seconds, load, next_epoch, run_parts
from core import random_csr, random_dense
from estimators import ALPHAS, OURS, PEER, data, mean_gap, optimum, problem
from scipy.optimize import lsq_linear
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import antithetic
from antithetic.orders import Balanced, Pairs, Shuffle
from antithetic.orders.order import name_order
from antithetic.problem import Problem
from antithetic.steps import InverseTime
from antithetic.stochastic import DivergenceError
from antithetic.stochastic.loop import begin, train
from antithetic.stochastic.plan import is_worth_averaging
from antithetic.stochastic.spec import make_spec

BEST_BEFORE = {  # of the prototype, over all orders, after 20 epochs
    "sonar_scale": 3.8e-4,
    "breast-cancer_scale": 3.8e-7,
    "splice_scale": 8.0e-5,
    "fourclass_scale": 1.7e-9,
    "diabetes_scale": 5.3e-7,
    "ijcnn1.tr": 1.4e-7,
}
LARGE = "ijcnn1.tr"
QUICK = ("sonar_scale", "breast-cancer_scale", "diabetes_scale")
REFRESH = (1, 2, 3, 5, 8, 13, 17)
ORDERS = {
    "reshuffled": Shuffle(),
    "pairs": Shuffle(pairs="tree"),
    "nested": Shuffle(pairs=Pairs("tree", nest=True)),
    "nested, refreshed": Shuffle(pairs=Pairs("tree", nest=True, refresh=REFRESH)),
    "balanced": Balanced(),
    "balanced pairs": Balanced(pairs="tree"),
}
NEAR = 1e-4  # the gap to be reached in the race
SECONDS_AT_MOST = 20.0


# ---- gaps at the best first step


@cache
def first_table(name: str, nest: bool | None):
    """Table of the signed rows, which no step and no seed changes."""
    X, y = data(name)
    return antithetic.pair(X, y, "tree", nest=nest, random_state=0)


def gap_of(name: str, loss: str, value: float) -> float:
    least, at_zero = (
        least_of(name, loss),
        problem(name, loss).objective(np.zeros(problem(name, loss).d)),
    )
    return (value - least) / (at_zero - least)


def least_of(name: str, loss: str) -> float:
    return (least_hinge(name) if loss == "hinge" else optimum(name, loss))[0]


def objective_after(
    name: str, called: str, eta0: float, epochs: int, seed: int, loss: str, average: str | bool
) -> float:
    """Run an order as `minimize` does, with a first table that is shared.

    Return the objective at its end.
    """
    given, order = problem(name, loss), ORDERS[called]
    if order.pairs is not None:
        order = order.but(pairs=order.pairs.but(method=first_table(name, order.pairs.nest)))
    spec = make_spec(
        given,
        data(name)[1],
        order=order,
        solver="sgd",
        steps=InverseTime(eta0, ALPHAS[name]),
        batch_size=2,
        average=average,
        seed=seed,
    )
    try:
        *_, run = train(spec, begin(spec), epochs)
    except DivergenceError:
        return np.inf
    return given.objective(*spec.solver.solution(run.state, run.own))


@cache
def best_gap(
    name: str,
    order: str,
    ks: tuple[int, ...],
    seeds: int,
    epochs: int = 20,
    loss: str = "log_loss",
    average: str | bool = False,
) -> tuple[float, int]:
    """Least mean gap over the first steps, and its k."""
    X = problem(name, loss).X
    scale = 4.0 / (X.multiply(X) if hasattr(X, "multiply") else X * X).sum(axis=1).mean()
    means = {
        k: np.mean(
            [
                objective_after(name, order, 4.0**k * scale, epochs, s, loss, average)
                for s in range(seeds)
            ]
        )
        for k in ks
    }
    best = min(means, key=means.__getitem__)
    return gap_of(name, loss, float(means[best])), best


def grid(name: str, order: str, quick: bool) -> dict:
    """First steps, seeds and epochs for an order on a set.

    Refreshing a nested table is slow, so it gets fewer of them.
    """
    if order == "nested, refreshed":
        if name == LARGE:
            return {"ks": (-1, 0, 1), "seeds": 1, "epochs": 2}
        return {"ks": (-2, -1, 0, 1, 2), "seeds": 1 if quick else 2, "epochs": 20}
    return {
        "ks": tuple(range(-3, 3) if name == LARGE else range(-4, 5)),
        "seeds": 2 if quick else 5,
        "epochs": 20,
    }


def six(quick: bool) -> list[str]:
    return [name for name in (QUICK if quick else BEST_BEFORE) if data(name) is not None]


def part_a(quick: bool) -> Iterator[Figure]:
    """20 epochs, logistic loss, best eta0: four orders, and two more that tell the gains apart."""
    print(
        "k of the best eta0 in brackets, marked ! at an end of the grid, where a wider one might do"
        " better. The grid is k = -4..4"
    )
    print(
        "(ijcnn1.tr -3..2), with 5 seeds; where nested tables are refreshed, which is slow, k ="
        " -2..2 and 2 seeds, on ijcnn1.tr"
    )
    print(
        "k = -1..1, 1 seed and only 2 epochs (*). --quick: 2 seeds, refreshed 1. Tables that are"
        " not refreshed are those of w = 0."
    )
    print(f"{'':<21}" + "".join(f"{order:>20}" for order in ORDERS))
    gaps = {}
    for name in six(quick):
        gaps[name] = {}
        print(f"{name:<21}", end="", flush=True)
        for order in ORDERS:
            settings = grid(name, order, quick)
            gaps[name][order], k = best_gap(name, order, **settings)
            marks = ("!" if k in (settings["ks"][0], settings["ks"][-1]) else "") + (
                "*" if settings["epochs"] == 2 else ""
            )
            print(f"{f'{gaps[name][order]:.1e} ({k:>2}){marks:<2}':>20}", end="", flush=True)
        print()
    print("\nwhat each change alone does: the gap is so many times smaller (below 1: larger)")
    changes = {
        "table": ("reshuffled", "pairs"),
        "nesting": ("pairs", "nested"),
        "refreshing": ("nested", "nested, refreshed"),
        "balancing": ("reshuffled", "balanced"),
        "table, if balanced": ("balanced", "balanced pairs"),
    }
    print(f"{'':<21}" + "".join(f"{change:>20}" for change in changes))
    for name, found in gaps.items():
        gains = [found[before] / found[after] for before, after in changes.values()]
        shown = [
            "" if name == LARGE and change == "refreshing" else f"{gain:.3g}"
            for change, gain in zip(changes, gains, strict=True)
        ]
        print(f"{name:<21}" + "".join(f"{gain:>20}" for gain in shown))
    for name, found in gaps.items():
        candidates = ("balanced",) if name == LARGE else ("balanced", "nested, refreshed")
        best = min(candidates, key=found.__getitem__)
        remark = f"{best}: {found[best]:.1e}, prototype {BEST_BEFORE[name]:.1e}"
        yield Figure(
            f"better of balanced and nested / prototype: {name}",
            found[best] / BEST_BEFORE[name],
            most=3.0,
            remark=remark,
        )


def part_b(quick: bool) -> Iterator[Figure]:
    """2 epochs of ijcnn1.tr, logistic loss, best eta0."""
    if data(LARGE) is None:
        return
    for order in ("reshuffled", "balanced"):
        settings = {**grid(LARGE, order, quick), "epochs": 2}
        yield Figure(
            f"gap after 2 epochs, times 10^4: {LARGE}, {order}",
            1e4 * best_gap(LARGE, order, **settings)[0],
        )
    order = "nested, refreshed"
    gap, k = best_gap(LARGE, order, **grid(LARGE, order, quick))
    yield Figure(
        f"gap after 2 epochs, times 10^4: {LARGE}, {order}",
        1e4 * gap,
        most=4.0,
        remark=f"k = {k}, one seed",
    )


# ---- gaps with all defaults


def count(title: str, ratios: list[float], most: float, least: int | None) -> Figure:
    return Figure(
        f"sets of {len(ratios)} {title} {most:g}",
        sum(ratio <= most for ratio in ratios),
        least=least,
    )


def part_c(quick: bool) -> Iterator[Figure]:
    """20 epochs, log loss: SGDClassifier's defaults against reshuffling with the best eta0."""
    ratios = []
    for name in six(quick):
        seeds = 2 if quick else 5
        given = problem(name, "log_loss")
        average = (
            "epoch" if is_worth_averaging(given.n, given.d, given.loss, given.penalty) else False
        )
        ours, shuffled = (
            mean_gap(OURS, name, "log_loss", 20, seeds),
            automatic_gap(name, "shuffle", 20, seeds, average),
        )
        last = [f"{automatic_gap(name, order, 20, seeds):.1e}" for order in ("balanced", "shuffle")]
        tuned, k = best_gap(name, "reshuffled", **grid(name, "reshuffled", quick))
        ratios.append(ours / tuned)
        remark = f"{ours:.1e} against {tuned:.1e} (k = {k}); reshuffled otherwise: {shuffled:.1e}"
        remark += f"; without averages, balanced and reshuffled: {', '.join(last)}"
        yield Figure(f"defaults / tuned reshuffling: {name}", ratios[-1], most=1.0, remark=remark)
    yield count("where it is at most", ratios, 0.1, None if quick else 4)


def part_d(quick: bool) -> Iterator[Figure]:
    """5 epochs, logistic loss: SGDClassifier against scikit-learn's, both with all defaults."""
    ratios = []
    for name in [name for name in ((*QUICK, "a9a") if quick else ALPHAS) if data(name) is not None]:
        ours, peer = (
            mean_gap(estimator, name, "log_loss", 5, 2 if quick else 8)
            for estimator in (OURS, PEER)
        )
        ratios.append(ours / peer)
        yield Figure(
            f"defaults, gap ratio: {name}",
            ratios[-1],
            most=1.0,
            remark=f"{ours:.2e} against {peer:.2e}",
        )
    yield count("where it is at most", ratios, 0.2, None if quick else 9)


# ---- hinge loss


@cache
def least_hinge(name: str) -> tuple[float, float]:
    """Minimum by liblinear's dual method, and the duality gap, which bounds its error."""
    given, l2 = problem(name, "hinge"), ALPHAS[name]
    exact = LinearSVC(
        loss="hinge",
        C=1.0 / (l2 * given.n),
        fit_intercept=False,
        tol=1e-9,
        max_iter=200_000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        w = exact.fit(given.X, given.y).coef_[0]
    value = given.objective(w)
    return value, value - max(dual_value(given, w, width) for width in 10.0 ** np.arange(-8.0, 0.0))


def dual_value(given: Problem, w: np.ndarray, width: float) -> float:
    r"""Dual value for given weights: a is 1 below the margin, 0 above, least squares at it.

    Any a in [0, 1] is a bound from below: :math:`\bar a - l_2 |v|^2 / 2` with :math:`v = \sum_i a_i
    z_i / (l_2 n)`.
    """
    Z, l2 = given.X * given.y[:, None], given.penalty.l2
    slack = 1.0 - Z @ w
    a, at_margin = (slack > width).astype(float), np.abs(slack) <= width
    if at_margin.any():
        rest = l2 * given.n * w - Z.T @ a
        a[at_margin] = np.clip(
            lsq_linear(Z[at_margin].T, rest, bounds=(0.0, 1.0), tol=1e-15).x, 0.0, 1.0
        )
    v = Z.T @ a / (l2 * given.n)
    return float(a.mean() - l2 / 2.0 * (v @ v))


def part_e(quick: bool) -> Iterator[Figure]:
    """20 epochs, hinge, average="linear", best eta0 of k = -5..3: balanced against reshuffled."""
    ratios = []
    for name in six(quick):
        settings = {
            "ks": tuple(range(-5, 4)),
            "seeds": 2 if quick else 5,
            "loss": "hinge",
            "average": "linear",
        }
        (balanced, k), (shuffled, j) = (
            best_gap(name, order, **settings) for order in ("balanced", "reshuffled")
        )
        unsure = gap_of(name, "hinge", least_hinge(name)[0] + least_hinge(name)[1])
        ratios.append(balanced / shuffled)
        remark = (
            f"{balanced:.2e} (k = {k}) against {shuffled:.2e} (k = {j}), f* known to {unsure:.0e}"
        )
        yield Figure(f"hinge, balanced / reshuffled: {name}", ratios[-1], most=1.05, remark=remark)
    yield count("where it is at most", ratios, 0.5, None if quick else 4)


# ---- seconds


def epoch_seconds(X, y, repeats: int) -> tuple[float, float]:
    """Seconds per epoch, reshuffled and balanced."""
    jobs = [next_epoch(X, y, order) for order in (Shuffle(), Balanced())]
    for job in jobs * 2:  # warm up, and let the balanced order become one
        job()
    shuffled, balanced = best_seconds(jobs, repeats)
    return shuffled, balanced


def part_f(quick: bool) -> Iterator[Figure]:
    """Seconds per epoch, ordering included: balanced against reshuffled."""
    sets = {
        "dense 200000 x 50 float64": (lambda: random_dense(np.float64), 1.5),
        "dense 200000 x 50 float32": (lambda: random_dense(np.float32), 1.5),
        "CSR 100000 x 10000": (random_csr, 2.0),
        "ijcnn1.tr dense": (lambda: load("ijcnn1.tr"), 1.5),
        "a9a CSR": (lambda: load("a9a"), 2.0),
    }
    for name, (make, most) in sets.items():
        if (known := make()) is not None:
            shuffled, balanced = epoch_seconds(*known, 5 if quick else 21)
            remark = f"{balanced * 1e3:.2f} ms against {shuffled * 1e3:.2f} ms"
            yield Figure(
                f"epoch, balanced / reshuffled: {name}",
                balanced / shuffled,
                most=most,
                remark=remark,
            )
            if name == "ijcnn1.tr dense":
                yield from table_cost(*known, shuffled, 1 if quick else 3)


def table_cost(X, y, epoch: float, repeats: int) -> Iterator[Figure]:
    """Seconds to make a table, and a nested one, in reshuffled epochs."""
    for title, nest in (("table", None), ("nested table", True)):
        (seconds,) = best_seconds(
            [lambda nest=nest: antithetic.pair(X, y, "tree", nest=nest, random_state=0)], repeats
        )
        yield Figure(
            f"{title} of {LARGE}, in reshuffled epochs", seconds / epoch, remark=f"{seconds:.2f} s"
        )


def part_g(quick: bool) -> Iterator[Figure]:
    """Seconds to a gap of 1e-4, one thread: our SGDClassifier against scikit-learn's fastest.

    Our SGDClassifier has all its defaults.
    """
    ratios = []
    for name in [
        name
        for name in (
            ("a9a",) if quick else ("ijcnn1.tr", "a9a", "w8a", "cod-rna_scale", "phishing")
        )
        if data(name) is not None
    ]:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peers that are stopped early say so
            yield race(name, 3 if quick else 5, ratios)
    yield Figure(
        f"sets of {len(ratios)} where ours is the fastest",
        sum(ratio <= 1.0 for ratio in ratios),
        least=None if quick else 4,
    )


def race(name: str, repeats: int, ratios: list[float]) -> Figure:
    """Time all that get there, and print them."""
    X, y = data(name)
    ours = [nearest(name, variants_of_sgd(OURS, name, seed)) for seed in (0, 1)]
    peers = {title: nearest(name, variants) for title, variants in peer_variants(name).items()}
    print(
        f"  {name}: not within {SECONDS_AT_MOST:.0f} s:"
        f" {', '.join(t for t, p in peers.items() if p is None) or 'none'}"
    )
    peers = {title: found for title, found in peers.items() if found is not None}
    if None in ours or not peers:
        ratios.append(np.inf)
        return Figure(
            f"seconds to 1e-4, ours / fastest: {name}", np.inf, most=1.5, remark="did not get there"
        )
    every = [*ours, *peers.values()]
    seconds = best_seconds([lambda model=model: model.fit(X, y) for model in every], repeats)
    own, titled = float(np.median(seconds[:2])), dict(zip(peers, seconds[2:], strict=True))
    for title, taken in titled.items():
        used = {
            key: peers[title].get_params()[key]
            for key in (("max_iter",) if title == "SGDClassifier" else ("tol",))
        }
        print(f"    {title:<18}{taken * 1e3:>9.2f} ms   {used}", flush=True)
    fastest = min(titled, key=titled.__getitem__)
    ratios.append(own / titled[fastest])
    epochs = ", ".join(str(model.max_iter) for model in ours)
    remark = (
        f"{own * 1e3:.2f} ms ({epochs} epochs) against {titled[fastest] * 1e3:.2f} ms of {fastest}"
    )
    return Figure(f"seconds to 1e-4, ours / fastest: {name}", ratios[-1], most=1.5, remark=remark)


def variants_of_sgd(estimator: type, name: str, seed: int) -> list:
    """More and more epochs."""
    epochs = [*range(1, 21), *range(22, 41, 2), *(int(40 * 1.25**k) for k in range(1, 20))]
    fixed = {
        "loss": "log_loss",
        "alpha": ALPHAS[name],
        "fit_intercept": False,
        "tol": None,
        "random_state": seed,
    }
    return [estimator(max_iter=many, **fixed) for many in epochs]


def peer_variants(name: str) -> dict[str, list]:
    """Ever tighter tolerances of scikit-learn's solvers."""
    fixed = {
        "C": 1.0 / (ALPHAS[name] * data(name)[0].shape[0]),
        "fit_intercept": False,
        "max_iter": 5000,
        "random_state": 0,
    }
    tolerances = [base * 10.0**-k for k in range(8) for base in (1.0, 0.3)]
    solvers = {
        solver: [LogisticRegression(solver=solver, tol=tol, **fixed) for tol in tolerances]
        for solver in ("lbfgs", "liblinear", "newton-cholesky", "sag", "saga")
    }
    return {**solvers, "SGDClassifier": variants_of_sgd(SGDClassifier, name, 0)}


def nearest(name: str, variants: list):
    """First variant that gets there, None if none does or a fit takes too long."""
    X, y = data(name)
    for model in variants:
        start = time.perf_counter()
        model.fit(X, y)
        if gap_of(name, "log_loss", problem(name, "log_loss").objective(model.coef_[0])) <= NEAR:
            return model
        if time.perf_counter() - start > SECONDS_AT_MOST:
            return None
    return None


# ---- advice


def part_h(quick: bool) -> Iterator[Figure]:
    """Whether `advise` names the order with the lower objective after equal time.

    The steps are automatic, and each order gets the seconds of 10 reshuffled epochs.
    """
    right, names = 0, [name for name in (QUICK if quick else ALPHAS) if data(name) is not None]
    for name in names:
        X, y = data(name)
        said = name_order(antithetic.advise(X, y, loss="log_loss").order)
        shuffled_seconds, balanced_seconds = epoch_seconds(X, y, 5 if X.shape[0] > 100_000 else 15)
        epochs = max(1, min(10, int(10 * shuffled_seconds / balanced_seconds)))
        gaps = {
            s: automatic_gap(name, s, e, 2 if quick else 5)
            for s, e in (("shuffle", 10), ("balanced", epochs))
        }
        better = min(gaps, key=gaps.__getitem__)
        good = said == better or max(gaps.values()) <= 1.05 * min(gaps.values())
        right += good
        found = (
            f"balanced {gaps['balanced']:.1e} ({epochs} epochs), reshuffled {gaps['shuffle']:.1e}"
            " (10)"
        )
        print(f"  {name:<22}advice {said:<10}{'right' if good else 'WRONG':<7}{found}", flush=True)
    yield Figure(
        f"sets of {len(names)} where the advice is right", right, least=None if quick else 11
    )


def automatic_gap(
    name: str, order: str, epochs: int, seeds: int, average: str | bool = False
) -> float:
    X, y = data(name)
    settings = {
        "l2": ALPHAS[name],
        "order": order,
        "epochs": epochs,
        "average": average,
    }
    reached = [
        problem(name, "log_loss").objective(antithetic.minimize(X, y, seed=seed, **settings).coef)
        for seed in range(seeds)
    ]
    return gap_of(name, "log_loss", float(np.mean(reached)))


# ---- the whole


PARTS = {
    "a": part_a,
    "b": part_b,
    "c": part_c,
    "d": part_d,
    "e": part_e,
    "f": part_f,
    "g": part_g,
    "h": part_h,
}


if __name__ == "__main__":
    sys.exit(run_parts(__doc__, PARTS))
