"""Print the figures of solvers, draws and pairings combined, each with its bar.

The figures are gradient evaluations, sparse solutions, seconds and exact variances.

A gap is ``(f - f*) / (f(0) - f*)``, f the objective, f* its least value: that of the logistic loss
by Newton's method, that of the hinge by a long run of SDCA and its duality gap. No intercept,
batches of 2, default steps. All seconds are the least of repeats that take turns, with one thread
of BLAS and everything that a call does, for the least number of epochs that gets there.

Run ``python benchmarks/composition.py`` on a quiet machine, some eight minutes, or only some parts
of it: ``python benchmarks/composition.py a c``. ``--quick`` takes fewer seeds, sets and repeats.
The exit status is 1 if a bar is missed. Most sets need the environment variable ANTITHETIC_DATA and
are left out, with a line that says so, without it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from common import Figure, best_seconds, run_parts
from estimators import ALPHAS, data, newton_step, optimum, problem
from orders import first_table, gap_of, six
from scipy import sparse
from scipy.optimize import minimize as lbfgs
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import antithetic
from antithetic.exact.optimality import duality_gap, gradient_mapping_norm
from antithetic.orders import Importance, Order, Pairs, Shuffle, Stratified, Uniform
from antithetic.orders.order import ORDERS
from antithetic.penalties import GroupLasso
from antithetic.problem import Problem
from antithetic.problem.smoothness import row_squares
from antithetic.problem.variance import group_variance
from antithetic.stopping import Target

TIMED = ("ijcnn1.tr", "a9a", "w8a")
LONG_AND_SHORT = "w8a"  # rows of 1 to 114 entries


def names_of(wanted: tuple[str, ...]) -> list[str]:
    return [name for name in wanted if data(name) is not None]


# ---- evaluations


def first_epoch(name: str, near: float, epochs: int, **settings) -> float:
    """Epochs until the gap is ``near``, infinite if it never is.

    The duality gap, which is no less, ends the run.
    """
    scale = np.log(2.0) - optimum(name, "log_loss")[0]
    found = antithetic.minimize(
        *data(name),
        l2=ALPHAS[name],
        epochs=epochs,
        stop=Target("gap", near * scale),
        trace="objective",
        **settings,
    )
    return first_below(
        [gap_of(name, "log_loss", value) for value in found.trace["objective"]], near
    )


def first_below(values, most: float) -> float:
    reached = np.asarray(values) <= most
    return float(np.argmax(reached)) if reached.any() else np.inf


def evaluations(solver: str, epochs: float) -> float:
    """Gradients per row of a run.

    SVRG computes the gradients of all rows before each epoch except the first, which starts from
    zero weights.
    """
    return 2.0 * epochs - 1.0 if solver == "svrg" else epochs


PAIRED = {"rows": None, "pairs": Pairs("tree"), "rebuilt": Pairs("tree", refresh=1)}


def part_a(quick: bool) -> Iterator[Figure]:
    """Gradient evaluations per row to a gap of 1e-10, log loss: SAGA and SVRG, rows and pairs."""
    seeds, names = 1 if quick else 3, six(quick)
    print(
        f"mean of {seeds} seeds; inf: not within 400 epochs. pairs: the tree's table of w = 0;"
        " rebuilt: one of the corrected gradients, made"
    )
    print("before each epoch. How far f* may be off in the last column")
    columns = [
        (solver, order, paired)
        for solver in ("saga", "svrg")
        for order in ("shuffle", "uniform")
        for paired in PAIRED
    ]
    columns.append(("svrg", "balanced", "rows"))
    print(f"{'':<21}" + "".join(f"{f'{solver} {order}':>14}" for solver, order, _ in columns))
    print(f"{'':<21}" + "".join(f"{paired:>14}" for *_, paired in columns))
    means, missed = {}, 0
    for name in names:
        print(f"{name:<21}", end="", flush=True)
        for solver, order, paired in columns:
            settings = {"solver": solver, "order": ORDERS[order](pairs=PAIRED[paired])}
            epochs = [first_epoch(name, 1e-10, 400, seed=seed, **settings) for seed in range(seeds)]
            missed += sum(map(np.isinf, epochs))
            means[name, solver, order, paired] = np.mean(
                [evaluations(solver, many) for many in epochs]
            )
            print(f"{means[name, solver, order, paired]:>14.1f}", end="", flush=True)
        print(f"{optimum(name, 'log_loss')[1]:>12.0e}")
    yield Figure("runs that are not within 400 epochs", missed, most=0.0)
    for solver, order, paired in columns:
        if paired != "rows":
            good = sum(
                means[name, solver, order, paired] <= means[name, solver, order, "rows"]
                for name in names
            )
            bar = 4 if (order, paired) == ("shuffle", "rebuilt") and len(names) == 6 else None
            yield Figure(
                f"sets of {len(names)} with no more than rows: {solver}, {order}, {paired}",
                good,
                least=bar,
            )


# ---- sparse solutions


def subgradient(given: Problem, w: np.ndarray) -> float:
    """Largest entry of the least subgradient."""
    smooth, l1 = given.gradient(w)[0], given.penalty.l1
    return float(
        np.abs(
            np.where(w != 0.0, smooth + l1 * np.sign(w), np.maximum(np.abs(smooth) - l1, 0.0))
        ).max()
    )


def part_b(quick: bool) -> Iterator[Figure]:
    """L1 and elastic net, log loss: objective, optimality and support against scikit-learn's SAGA.

    The reference is a long run of scikit-learn's SAGA.
    """
    for name, alpha in (("splice_scale", 1e-3), ("a9a", 1e-4)):
        if data(name) is None or (quick and name == "a9a"):
            continue
        for ratio in (1.0, 0.5):
            X, y = data(name)
            strengths = {"l1": ratio * alpha, "l2": (1.0 - ratio) * alpha}
            given = Problem.build(X, y, **strengths)
            peer = LogisticRegression(
                solver="saga",
                l1_ratio=ratio,
                C=1.0 / (alpha * given.n),
                fit_intercept=False,
                tol=1e-12,
                max_iter=5000,
                random_state=0,
            ).fit(X, y)
            theirs = peer.coef_[0]
            print(
                f"  {name}, l1_ratio {ratio:g}: scikit-learn, {peer.n_iter_[0]} epochs, objective"
                f" {given.objective(theirs):.14f}, {np.count_nonzero(theirs)} of {given.d} weights,"
                f" subgradient {subgradient(given, theirs):.0e}"
            )
            for solver in ("saga", "svrg"):
                yield from sparse_figures(
                    f"{name}, l1_ratio {ratio:g}, {solver}",
                    given,
                    theirs,
                    solver,
                    same=name == "splice_scale",
                )
    yield from group_lasso("splice_scale")


def sparse_figures(
    title: str, given: Problem, theirs: np.ndarray, solver: str, same: bool
) -> Iterator[Figure]:
    strengths = {"l1": given.penalty.l1, "l2": given.penalty.l2}
    found = antithetic.minimize(
        given.X,
        given.y,
        solver=solver,
        order="shuffle",
        epochs=1000,
        stop=Target("gradient", 1e-10),
        **strengths,
    )
    ours, least = found.coef, given.objective(theirs)
    beyond = (given.objective(ours) - least) / least
    remark = f"{found.epochs} epochs, {beyond:+.1e}"
    yield Figure(f"objective off, times 10^8: {title}", 1e8 * abs(beyond), most=1.0, remark=remark)
    rest = subgradient(given, ours)
    yield Figure(f"subgradient, times 10^6: {title}", 1e6 * rest, most=1.0, remark=f"{rest:.0e}")
    differ = np.flatnonzero((ours != 0.0) != (theirs != 0.0))
    largest = max(np.abs(ours[differ]).max(initial=0.0), np.abs(theirs[differ]).max(initial=0.0))
    remark = f"{np.count_nonzero(ours)} weights" + (
        f", the largest that differs {largest:.0e}" if len(differ) else ""
    )
    yield Figure(
        f"weights zero in one only: {title}", len(differ), most=0.0 if same else None, remark=remark
    )


def group_lasso(name: str) -> Iterator[Figure]:
    """Groups of three features."""
    X, y = data(name)
    for l1 in (1e-3, 1e-2):
        settings = {"penalty": GroupLasso(np.arange(X.shape[1]) // 3), "l1": l1}
        found = antithetic.minimize(
            X,
            y,
            solver="saga",
            order="shuffle",
            epochs=1000,
            stop=Target("gradient", 1e-10),
            **settings,
        )
        norm = gradient_mapping_norm(Problem.build(X, y, **settings), found.coef)
        zero = int((~found.coef.reshape(-1, 3).any(axis=1)).sum())
        remark = f"{norm:.0e}, {found.epochs} epochs, {zero} of {X.shape[1] // 3} groups zero"
        yield Figure(
            f"gradient mapping, times 10^6: {name}, group lasso {l1:g}",
            1e6 * norm,
            most=1.0,
            remark=remark,
        )


# ---- seconds


def least_count(reaches: Callable[[int], bool], most: int = 3000) -> int | None:
    """Least number of epochs that gets there, one by one up to 40 and then by twentieths.

    None if none does.
    """
    many = 1
    while many <= most:
        if reaches(many):
            return many
        many += max(1, many // 20 if many >= 40 else 1)
    return None


def ratio_of_seconds(
    title: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    repeats: int,
    most: float | None,
    epochs,
) -> Figure:
    ours()  # once before it is timed
    own, peer = best_seconds([ours, theirs], repeats)
    remark = f"{own * 1e3:.1f} ms ({epochs[0]} epochs) against {peer * 1e3:.1f} ms ({epochs[1]})"
    return Figure(title, own / peer, most=most, remark=remark)


def part_c(quick: bool) -> Iterator[Figure]:
    """Seconds until the gap is 1e-6, logistic loss, lambda 1e-4: SAGA against scikit-learn's."""
    for name in names_of(("a9a",) if quick else TIMED):
        X, y = data(name)
        forms = {"CSR": X, "dense": X.toarray()} if sparse.issparse(X) else {"dense": X}
        for form, rows in forms.items():
            with threadpool_limits(1), warnings.catch_warnings():
                # Peers warn if they are stopped early.
                warnings.simplefilter("ignore", ConvergenceWarning)
                yield race_of_saga(
                    name, form, rows, y, 3 if quick else 7, most=0.7 if rows is X else None
                )


def peer_of_saga(name: str, many: int) -> LogisticRegression:
    C = 1.0 / (ALPHAS[name] * data(name)[0].shape[0])
    return LogisticRegression(
        solver="saga", C=C, fit_intercept=False, tol=0.0, max_iter=many, random_state=0
    )


@cache
def epochs_of_saga(name: str) -> tuple[float, int | None]:
    """Least epochs of ours and theirs, for the rows as loaded; dense ones take the same steps."""
    given = problem(name, "log_loss")

    def reaches(many: int) -> bool:
        return (
            gap_of(
                name,
                "log_loss",
                given.objective(peer_of_saga(name, many).fit(given.X, given.y).coef_[0]),
            )
            <= 1e-6
        )

    return first_epoch(name, 1e-6, 400, solver="saga", order="shuffle"), least_count(reaches)


def race_of_saga(name: str, form: str, X, y, repeats: int, most: float | None) -> Figure:
    own, many = epochs_of_saga(name)
    title = f"seconds to 1e-6, ours / scikit-learn's: {name} {form}"
    if np.isinf(own) or many is None:
        return Figure(title, np.inf, most=most, remark=f"did not get there: {own} epochs, {many}")
    settings = {"l2": ALPHAS[name], "solver": "saga", "order": "shuffle", "epochs": int(own)}
    jobs = (
        (lambda: antithetic.minimize(X, y, **settings)),
        (lambda: peer_of_saga(name, many).fit(X, y)),
    )
    return ratio_of_seconds(title, *jobs, repeats, most, (int(own), many))


VISITS = {"reshuffled": Shuffle(), "by importance": Importance(by="gradients")}


@cache
def hinge_run(name: str) -> tuple[float, float, dict[str, float]]:
    """Minimum of the hinge objective, its error bound, and epochs of SDCA to a gap of 1e-4.

    The epochs are counted for each way of visiting rows.
    """
    runs = {}
    for visits, order in VISITS.items():
        settings = {"loss": "hinge", "l2": ALPHAS[name], "solver": "sdca", "order": order}
        runs[visits] = antithetic.minimize(
            *data(name), epochs=300, stop=Target("gap", 1e-7), trace="objective", **settings
        )
    values = {visits: found.trace["objective"] for visits, found in runs.items()}
    least = min(each.min() for each in values.values())
    off = min(
        duality_gap(problem(name, "hinge"), found.coef, dual=found.run.own.values)
        for found in runs.values()
    )
    return (
        least,
        off,
        {
            visits: first_below((each - least) / (each[0] - least), 1e-4)
            for visits, each in values.items()
        },
    )


def part_d(quick: bool) -> Iterator[Figure]:
    """Seconds until the gap is 1e-4, hinge loss, lambda 1e-4: SDCA against LinearSVC."""
    for name in names_of(("a9a",) if quick else TIMED):
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield from race_of_sdca(name, 3 if quick else 7)


def race_of_sdca(name: str, repeats: int) -> Iterator[Figure]:
    X, y = data(name)
    given, (least, off, epochs) = problem(name, "hinge"), hinge_run(name)
    print(f"  {name}: f* = {least:.8f}, by the duality gap at most {off:.0e} too large")
    fixed = {
        "loss": "hinge",
        "dual": True,
        "C": 1.0 / (ALPHAS[name] * given.n),
        "fit_intercept": False,
        "tol": 1e-12,
        "random_state": 0,
    }

    def peer(many: int) -> LinearSVC:
        return LinearSVC(max_iter=many, **fixed)

    def ours(visits: str) -> None:
        antithetic.minimize(
            X,
            y,
            epochs=int(epochs[visits]),
            loss="hinge",
            l2=ALPHAS[name],
            solver="sdca",
            order=VISITS[visits],
        )

    many = least_count(
        lambda many: (
            (given.objective(peer(many).fit(X, y).coef_[0]) - least) / (1.0 - least) <= 1e-4
        )
    )
    reached = [visits for visits in VISITS if np.isfinite(epochs[visits])]
    seconds = best_seconds(
        [partial(ours, visits) for visits in reached] + [lambda: peer(many).fit(X, y)], repeats
    )
    for visits, own in zip(reached, seconds, strict=False):
        remark = (
            f"{1e3 * own:.1f} ms ({int(epochs[visits])} epochs) against {1e3 * seconds[-1]:.1f} ms"
            f" ({many})"
        )
        yield Figure(
            f"seconds to 1e-4, SDCA {visits} / LinearSVC: {name}", own / seconds[-1], remark=remark
        )
    yield Figure(f"the better of these: {name}", min(seconds[:-1]) / seconds[-1], most=1.5)


# ---- exact variances


@cache
def solution(name: str) -> np.ndarray:
    """Weights of the least logistic objective: L-BFGS, then Newton's method."""
    given = problem(name, "log_loss")
    w = lbfgs(
        lambda w: (given.objective(w), given.gradient(w)[0]),
        np.zeros(given.d),
        jac=True,
        method="L-BFGS-B",
    ).x
    for _ in range(10):
        w = w - newton_step(given, w)
    return w


def draws(name: str, w: np.ndarray) -> dict[str, Order]:
    """Orders that draw with replacement, for batches of 4 rows, or 2 pairs."""
    X, y = data(name)
    pairs = first_table(name, None)
    pairs_of_w = antithetic.pair(X, y, "tree", coef=w, random_state=0)
    return {
        "rows, uniform": Uniform(),
        "rows, importance, bounds": Importance(),
        "rows, importance, gradients at w": Importance(by="gradients"),
        "rows, 4 strata": Stratified(4),
        "rows, 2 strata": Stratified(2),
        "rows, 2 strata, optimal": Stratified(2, allocation="optimal"),
        "rows, classes as strata": Stratified(y),
        "rows, classes as strata, optimal": Stratified(y, allocation="optimal"),
        "pairs, uniform": Uniform(pairs=pairs),
        "pairs, uniform, table of w": Uniform(pairs=pairs_of_w),
        "pairs, importance, bounds": Importance(pairs=pairs),
        "pairs, importance, gradients at w": Importance(by="gradients", pairs=pairs),
        "pairs, 2 strata": Stratified(2, pairs=pairs),
        "groups of 4, uniform": Uniform(pairs=first_table(name, 4)),
    }


def spread(vectors: np.ndarray) -> float:
    return float(np.square(vectors - vectors.mean(axis=0)).sum(axis=1).mean())


def part_e(quick: bool) -> Iterator[Figure]:
    """Exact variance of draws, logistic loss, and of a linear control variate.

    All of 4 rows, relative to 4 uniform rows.
    """
    print(
        "batches of 4 rows, that is 2 pairs or one group of 4, relative to 4 independent uniform"
        " rows (by NumPy). Tables, where nothing"
    )
    print(
        "else is said, are the tree's of w = 0. As many strata as a batch has units leave an"
        " optimal allocation nothing to choose."
    )
    names = six(quick)
    for name in names:
        yield variances(name)
    print_legend()
    for name in [*names, *names_of(() if quick else ("a9a", "w8a"))]:
        corrections(name)


def print_legend() -> None:
    print(
        "\nlinear control variate, single rows: Var(g - h) / Var(g) with the best h = (a + b m) z"
        " at that w; multiplications of a step of"
    )
    print(
        "2 rows, d^2 + 2 d for the mean of h included (but not those that find a and b), relative"
        " to the 4 s of a plain one, s the stored"
    )
    print(
        "entries of a row; variance times multiplications, below 1 a gain at equal work. SVRG at w*"
        " with slopes remembered from w*/2:"
    )
    print(
        "variance relative to plain rows. Last, SVRG after 3 epochs with slopes of 2: antithetic"
        " pairs relative to rows, same batch of 2"
    )
    titles = (
        "control w*/2",
        "control w*",
        "mult.",
        "times, w*/2",
        "times, w*",
        "SVRG",
        "pairs / rows",
    )
    print(f"{'':<21}{'d':>4}{'s':>7}" + "".join(f"{title:>14}" for title in titles))


def variances(name: str) -> Figure:
    """Print the table of a set; the figure is how far uniform rows are from 1."""
    X, y = data(name)
    given, best = problem(name, "log_loss"), solution(name)
    columns, off = [], 0.0
    for w in (np.zeros(given.d), best / 2.0, best):
        reference = spread(given.slopes(w)[:, None] * X) / 4.0
        columns.append(
            {
                draw: antithetic.gradient_variance(X, y, w, batch_size=4, order=order) / reference
                for draw, order in draws(name, w).items()
            }
        )
        off = max(off, abs(columns[-1]["rows, uniform"] - 1.0))
    print(f"\n{name:<36}{'w = 0':>10}{'w*/2':>10}{'w*':>10}")
    for draw in columns[0]:
        print(f"  {draw:<34}" + "".join(f"{column[draw]:>10.4f}" for column in columns))
    return Figure(f"uniform rows differ from 1, times 10^9: {name}", 1e9 * off, most=1.0)


def corrections(name: str) -> None:
    """Print the variance left by a linear control variate, and by remembered slopes."""
    given, best = problem(name, "log_loss"), solution(name)
    root, ratios = np.sqrt(row_squares(given)), []
    for w in (best / 2.0, best):
        m, c = given.y * given.predictions(w), given.y * given.slopes(w)
        a, b = np.linalg.lstsq(
            root[:, None] * np.column_stack([np.ones_like(m), m]), root * c, rcond=None
        )[0]
        ratios.append(
            group_variance(given, given.y * (c - a - b * m))
            / group_variance(given, given.slopes(w))
        )
    remembered = group_variance(
        given, given.slopes(best) - given.slopes(best / 2.0)
    ) / group_variance(given, given.slopes(best))
    stored = given.X.nnz / given.n if sparse.issparse(given.X) else given.d
    work = 1.0 + (given.d**2 + 2.0 * given.d) / (4.0 * stored)
    shown = [
        *ratios,
        work,
        *(share * work for share in ratios),
        remembered,
        pairs_when_corrected(name),
    ]
    print(
        f"{name:<21}{given.d:>4}{stored:>7.1f}" + "".join(f"{value:>14.4g}" for value in shown),
        flush=True,
    )


def pairs_when_corrected(name: str) -> float:
    """Variance of SVRG's gradient after an epoch, with pairs relative to rows.

    Slopes remembered from 2 epochs on, seen from 3.
    """
    given, settings = (
        problem(name, "log_loss"),
        {
            "l2": ALPHAS[name],
            "solver": "svrg",
            "order": "shuffle",
        },
    )
    before, after = (
        given.slopes(antithetic.minimize(*data(name), epochs=epochs, **settings).coef)
        for epochs in (2, 3)
    )
    pairs = np.column_stack([np.arange(given.n), first_table(name, None).partner])
    return (
        2.0 * group_variance(given, after - before, pairs) / group_variance(given, after - before)
    )


# ---- draws of corrected solvers


def part_f(quick: bool) -> Iterator[Figure]:
    """Epochs of other draws, on rows of very different lengths, at most 150.

    No bars.
    """
    if data(LONG_AND_SHORT) is None:
        return
    seeds = 1 if quick else 2
    orders = {
        "uniform": Uniform(),
        "shuffle": Shuffle(),
        "bounds": Importance(),
        "gradients": Importance(by="gradients"),
        "2 strata": Stratified(),
    }
    print(
        f"{LONG_AND_SHORT}, lambda 1e-4, mean of {seeds} seeds; SAGA and SVRG to a gap of 1e-8,"
        " SDCA to a duality gap of 1e-6;"
    )
    print(
        "inf: not within 150 epochs. An epoch of SVRG evaluates twice as many gradients; bounds and"
        " gradients are importance"
    )
    print(f"{'':<21}" + "".join(f"{name:>12}" for name in orders))
    for solver, loss in (
        ("saga", "log_loss"),
        ("svrg", "log_loss"),
        ("sdca", "log_loss"),
        ("sdca", "hinge"),
    ):
        print(f"{f'{solver}, {loss}':<21}", end="", flush=True)
        for order in orders.values():
            epochs = [epochs_of(solver, loss, seed, order) for seed in range(seeds)]
            print(f"{np.mean(epochs):>12.1f}", end="", flush=True)
        print()
    yield from ()


def epochs_of(solver: str, loss: str, seed: int, order: Order) -> float:
    if solver != "sdca":
        return first_epoch(LONG_AND_SHORT, 1e-8, 150, solver=solver, seed=seed, order=order)
    given = {"loss": loss, "l2": ALPHAS[LONG_AND_SHORT], "solver": solver, "seed": seed}
    found = antithetic.minimize(
        *data(LONG_AND_SHORT), epochs=150, stop=Target("gap", 1e-6), order=order, **given
    )
    return first_below(found.trace["gap"], 1e-6)


# ---- the whole


PARTS = {"a": part_a, "b": part_b, "c": part_c, "d": part_d, "e": part_e, "f": part_f}


if __name__ == "__main__":
    sys.exit(run_parts(__doc__, PARTS))
