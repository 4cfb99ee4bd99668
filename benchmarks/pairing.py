"""Print the figures of large-scale pairing, each with its bar.

The figures are quality, seconds, memory, growth, polishing, groups and shards.

"Captured" is ``(1 - ratio of the table) / (1 - ratio of the best table)``, where a ratio is the
exact variance of a pair's gradient divided by that of two independent rows
(``table.variance_ratio``), for the logistic loss without intercept. Seconds are the least of
repeats that take turns. The synthetic rows are ``normal * linspace(1, 0.2, 50) + 0.3 + 0.5 *
exponential``, float32.

Run ``python benchmarks/pairing.py`` on a quiet machine, some six minutes; ``--quick`` repeats less
and leaves out the tables at the end. The exit status is 1 if a bar is missed. Sets that are not in
the package need the environment variable ANTITHETIC_DATA; without it they are left out, with a line
that says so. So is the comparison with faiss where that is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from common import Figure, best_seconds, close, load, machine, report
from scipy.optimize import minimize as scipy_minimize

import antithetic
from antithetic.pairing.tree import count_rounds
from antithetic.problem import Problem

L2 = {  # the paper's
    "sonar_scale": 1e-2,
    "breast-cancer_scale": 1e-2,
    "splice_scale": 1e-3,
    "fourclass_scale": 1e-2,
    "diabetes_scale": 1e-2,
    "splice": 1e-3,
}
SHARD_ROWS = (1000, 3000, 10_000)


# ---- small sets: against the best table


def captured(X, y, table, best, coef=None) -> float:
    """Share of the best table's reduction of the variance that a table reaches."""
    return (1.0 - table.variance_ratio(X, y, coef=coef)) / (
        1.0 - best.variance_ratio(X, y, coef=coef)
    )


def optimum(X, y, l2: float):
    """Weights at the minimum of the regularised logistic loss."""
    problem = Problem.build(X, y, l2=l2)
    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 30}
    found = scipy_minimize(
        problem.objective,
        np.zeros(problem.d),
        jac=lambda w: problem.gradient(w)[0],
        method="L-BFGS-B",
        options=options,
    )
    return found.x


def small_sets() -> Iterator[Figure]:
    """Captured share at zero weights, and after a refresh at the optimum."""
    for name, l2 in L2.items():
        if (data := load(name)) is None:
            continue
        X, y = data
        best, tree, greedy = (
            antithetic.pair(X, y, method) for method in ("optimal", "tree", "greedy")
        )
        by_tree, by_greedy = captured(X, y, tree, best), captured(X, y, greedy, best)
        ratios = (
            f"ratio {tree.variance_ratio(X, y):.3f}, best {best.variance_ratio(X, y):.3f}, greedy"
            f" captures {by_greedy:.3f}"
        )
        yield Figure(
            f"captured at w = 0: {name}", by_tree, least=max(0.95, by_greedy), remark=ratios
        )
        coef = optimum(X, y, l2)
        best, fresh = (antithetic.pair(X, y, method, coef=coef) for method in ("optimal", "tree"))
        ratios = ", ".join(
            f"{word} {table.variance_ratio(X, y, coef=coef):.3f}"
            for word, table in (("ratio", fresh), ("best", best), ("the old table", tree))
        )
        yield Figure(
            f"captured after a refresh at the optimum: {name}",
            captured(X, y, fresh, best, coef),
            least=0.90,
            remark=ratios,
        )


def tree_proper() -> Iterator[Figure]:
    """Captured share where the tree really cuts.

    The small sets run without the one-bucket rule, the larger ones as they are.
    """
    for name in L2:
        if (data := load(name)) is not None:
            best = antithetic.pair(*data, "optimal")
            with patch("antithetic.pairing.tree.ONE_LEAF", 0):
                table = antithetic.pair(*data, "tree")
            yield Figure(
                f"captured at w = 0, not in one bucket: {name}", captured(*data, table, best)
            )
    for name in ("splice.t", "ijcnn1.tr", "a9a"):
        if (data := load(name)) is not None:
            X, y = some(*data, 4000)
            best, tree, greedy = (
                antithetic.pair(X, y, method) for method in ("optimal", "tree", "greedy")
            )
            remark = f"greedy captures {captured(X, y, greedy, best):.3f}"
            yield Figure(
                f"captured at w = 0: {X.shape[0]} rows of {name}",
                captured(X, y, tree, best),
                remark=remark,
            )


# ---- larger sets: against Algorithm 1


def against_greedy(
    name: str, most: float | None, most_seconds: float, repeats: int
) -> Iterator[Figure]:
    """Ratio of the tree's table, and its seconds divided by those of Algorithm 1."""
    if (data := load(name)) is None:
        return
    X, y = data
    X_few, y_few = some(X, y, 2000)
    antithetic.pair(X_few, y_few, "tree"), antithetic.pair(X_few, y_few, "greedy")  # warm up
    tables = {}
    jobs = [
        lambda m=method: tables.update({m: antithetic.pair(X, y, m)})
        for method in ("tree", "greedy")
    ]
    seconds, peer = best_seconds(jobs, repeats)
    tree, greedy = (tables[method].variance_ratio(X, y) for method in ("tree", "greedy"))
    yield Figure(
        f"ratio: {name}",
        tree,
        most=greedy + 0.005 if most is None else most,
        remark=f"greedy {greedy:.3f}",
    )
    remark = f"{seconds:.2f} s against {peer:.2f} s"
    yield Figure(
        f"seconds of the tree / of greedy: {name}", seconds / peer, most=most_seconds, remark=remark
    )


def larger_sets(repeats: int) -> Iterator[Figure]:
    yield from against_greedy("ijcnn1.tr", 0.668, 1 / 3, repeats)
    yield from against_greedy("a9a", 0.60, 1.0, repeats)
    yield from against_greedy("w8a", 0.86, 1.0, 1)
    yield from against_greedy("farm-ads", None, 1.0, repeats)


# ---- a million rows


def synthetic(n: int):
    """Return n rows of 50 skewed features whose spreads fall from 1 to 0.2, float32."""
    rng = np.random.default_rng(0)
    G = np.empty((n, 50), dtype=np.float32)
    for start in range(0, n, 50_000):
        m = min(50_000, n - start)
        G[start : start + m] = (
            rng.standard_normal((m, 50)) * np.linspace(1.0, 0.2, 50)
            + 0.3
            + 0.5 * rng.exponential(size=(m, 50))
        )
    return G


def rows_ratio(G, table) -> float:
    """Variance ratio of a table of arbitrary vectors.

    The rows are the gradients of the squared error at zero weights for targets -1.
    """
    return table.variance_ratio(G, np.full(len(G), -1.0), loss="squared_error")


def million(repeats: int) -> dict[str, float]:
    """Pair a million rows in this process.

    Return seconds, megabytes beyond the rows, and ratios.
    """
    G = synthetic(1_000_000)
    antithetic.pair_rows(G[:3000], "tree")  # warm up
    before = megabytes("VmRSS")
    (seconds,) = best_seconds([lambda: antithetic.pair_rows(G, "tree")], repeats)
    # The peak minus what was held before: an upper bound on what was needed.
    extra = megabytes("VmHWM") - before
    few = G[np.random.default_rng(1).choice(len(G), 2000, replace=False)]
    return {
        "seconds": seconds,
        "extra": extra,
        "size": G.nbytes / 2**20,
        "ratio": rows_ratio(G, antithetic.pair_rows(G, "tree")),
        "subset": rows_ratio(few, antithetic.pair_rows(few, "optimal")),
    }


def megabytes(field: str) -> float:
    """Read VmRSS or VmHWM of this process; getrusage would begin with the peak of the parent."""
    status = Path("/proc/self/status")
    if not status.exists():
        return np.nan
    return next(
        int(line.split()[1]) / 1024
        for line in status.read_text().splitlines()
        if line.startswith(field)
    )


def million_rows(repeats: int) -> Iterator[Figure]:
    command = [sys.executable, __file__, "--million", str(repeats)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield Figure("1000000 x 50 float32: seconds", found["seconds"], most=8.0)
    if np.isnan(found["extra"]):
        print("left out: peak memory, which is read from /proc")
    else:
        remark = f"{found['extra']:.0f} MB beyond X, X has {found['size']:.0f} MB"
        yield Figure(
            "1000000 x 50 float32: memory beyond X / size of X",
            found["extra"] / found["size"],
            most=1.0,
            remark=remark,
        )
    remark = f"best table of 2000 random rows: {found['subset']:.3f}"
    yield Figure(
        "1000000 x 50 float32: ratio", found["ratio"], most=1.05 * found["subset"], remark=remark
    )


def growth(repeats: int) -> Iterator[Figure]:
    """Exponent of the time in the number of rows."""
    G = synthetic(1_600_000)
    sizes = (100_000, 400_000, 1_600_000)
    seconds = dict(
        zip(
            sizes,
            best_seconds([lambda n=n: antithetic.pair_rows(G[:n], "tree") for n in sizes], repeats),
            strict=True,
        )
    )
    for first, most in ((100_000, 1.15), (400_000, None)):
        exponent = np.log(seconds[1_600_000] / seconds[first]) / np.log(1_600_000 / first)
        remark = (
            f"{seconds[first]:.2f} s to {seconds[1_600_000]:.2f} s; rounds: {count_rounds(first)}"
            f" and {count_rounds(1_600_000)}"
        )
        yield Figure(
            f"exponent of time, {first} to 1600000 rows", exponent, most=most, remark=remark
        )


# ---- polishing and groups


def polishing(repeats: int) -> Iterator[Figure]:
    """Polish a table after one more epoch of SGD, against building a new one at the new weights."""
    if (data := load("ijcnn1.tr")) is None:
        return
    X, y = data
    one, two = (
        antithetic.minimize(X, y, l2=1e-4, steps=0.5, epochs=epochs).coef for epochs in (1, 2)
    )
    for before, after, words, bars in (
        (one, two, "epoch 1 to 2", (0.2, 0.95)),
        (None, one, "w = 0 to epoch 1", (None, None)),
    ):
        old, tables = antithetic.pair(X, y, "tree", coef=before), {}

        def table(init, w=after, tables=tables) -> None:
            tables[init is None] = antithetic.pair(X, y, "tree", coef=w, init=init)

        jobs = [partial(table, None), partial(table, old)]
        build, polish = best_seconds(jobs, repeats)
        ratios = [
            table.variance_ratio(X, y, coef=after) for table in (old, tables[False], tables[True])
        ]
        remark = f"{polish * 1e3:.0f} ms against {build * 1e3:.0f} ms"
        yield Figure(
            f"seconds of polishing / of a build: {words}",
            polish / build,
            most=bars[0],
            remark=remark,
        )
        remark = "ratio {:.3f} before, {:.3f} polished, {:.3f} rebuilt".format(*ratios)
        yield Figure(
            f"reduction, polished / rebuilt: {words}",
            (1.0 - ratios[1]) / (1.0 - ratios[2]),
            least=bars[1],
            remark=remark,
        )


def nested_groups() -> Iterator[Figure]:
    """Ratio of nested groups against plain pairs with as many rows.

    Plain pairs have the ratio of one pair, however many there are.
    """
    X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    plain = antithetic.pair(X, y).variance_ratio(X, y)
    for size, most in ((4, None), (8, 0.25), (16, None)):
        nested = antithetic.pair(X, y, nest=size).variance_ratio(X, y)
        remark = f"{nested:.4f} against {plain:.4f}"
        yield Figure(
            f"ratio, groups of {size} / {size // 2} pairs: diabetes_scale",
            nested / plain,
            most=most,
            remark=remark,
        )


# ---- without bars: shards, budgets, indexes


def labelled_synthetic() -> tuple:
    G = synthetic(200_000)
    return G, np.full(len(G), -1.0)


def shards() -> None:
    """Print shard size against quality, and what ``quality`` says of the global table."""
    sets = [
        ("ijcnn1.tr", load("ijcnn1.tr"), "log_loss"),
        ("synthetic, 200000 rows", labelled_synthetic(), "squared_error"),
    ]
    for name, data, loss in sets:
        if data is None:
            continue
        X, y = data
        print(
            f"\nshard size against quality: {name}\n "
            f" {'rows of a shard':<18}{'ratio':>8}{'seconds':>10}"
        )
        for size in (*SHARD_ROWS, *((50_000,) if len(X) > 100_000 else ()), None):
            start = time.perf_counter()
            table = antithetic.pair(X, y, "tree", loss=loss, shard_rows=size)
            seconds = time.perf_counter() - start
            ratio = table.variance_ratio(X, y, loss=loss)
            print(f"  {size or 'all':<18}{ratio:>8.4f}{seconds:>10.2f}", flush=True)
        print(f"  {quality_line(table.quality(X, y, loss=loss))}")


def quality_line(quality) -> str:
    ratios = (
        f"ratio {quality.variance_ratio:.4f}, no table below {quality.best_ratio:.4f} (by"
        f" {quality.best_by})"
    )
    return (
        f"quality of the table of all: {ratios}; {quality.negative_share:.0%} of the products"
        " negative"
    )


def budgets() -> None:
    """Print what more seconds buy."""
    if (data := load("ijcnn1.tr")) is None:
        return
    X, y = data
    print(f"\nbudget against quality: ijcnn1.tr\n  {'budget, s':<12}{'taken, s':>10}{'ratio':>9}")
    for budget in (None, 0.25, 1.0, 4.0, 16.0):
        start = time.perf_counter()
        table = antithetic.pair(X, y, "tree", budget=budget)
        seconds = time.perf_counter() - start
        print(
            f"  {budget or 'none given':<12}{seconds:>10.2f}{table.variance_ratio(X, y):>9.4f}",
            flush=True,
        )


def indexes() -> None:
    """Print how nearest-neighbour indexes do on the greedy problem.

    Both one search for all rows and a whole table made from searches are measured.
    """
    try:
        import faiss
    except ImportError:
        print("\nleft out: indexes; install antithetic[ann]")
        return
    print(f"\nnearest-neighbour indexes: faiss {faiss.__version__}, float32")
    if (data := load("ijcnn1.tr")) is not None:
        X, y = data
        whole_tables("ijcnn1.tr", X.astype(np.float32), y, "log_loss")
        one_search(faiss, (X * y[:, None]).astype(np.float32))
    G = synthetic(100_000)
    whole_tables("synthetic, 100000 rows", G, np.full(len(G), -1.0), "squared_error")
    one_search(faiss, G)


def whole_tables(name: str, X, y, loss: str) -> None:
    """Print seconds and ratio of whole tables, that of the faiss example among them."""
    print(f"  {name}: whole tables")
    for method in ("greedy", "tree", faiss_example().faiss_pairs):
        start = time.perf_counter()
        table = antithetic.pair(X, y, method, loss=loss)
        print(
            f"    {table.method:<22}{time.perf_counter() - start:>8.2f} s   ratio"
            f" {table.variance_ratio(X, y, loss=loss):.4f}",
            flush=True,
        )


def faiss_example():
    path = Path(__file__).parents[1] / "examples" / "faiss_pairing.py"
    spec = importlib.util.spec_from_file_location("faiss_pairing", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one_search(faiss, Z) -> None:
    """Print seconds and recall of one search for each row's smallest product.

    It also prints how many of the answers are still free.

    The smallest product is the least distance to the negative row, once a coordinate is added that
    gives all rows the same length.
    """
    squares = np.einsum("ij,ij->i", Z, Z)
    stored = np.column_stack([Z, np.sqrt(squares.max() - squares)])
    asked = np.column_stack([-Z, np.zeros(len(Z), dtype=np.float32)])
    print("    one search for all rows, building included")
    exact = None
    for kind, option in (
        ("Flat", ""),
        ("IVF256,Flat", "nprobe=16"),
        ("HNSW16,Flat", "efSearch=64"),
    ):
        start = time.perf_counter()
        index = faiss.index_factory(stored.shape[1], kind, faiss.METRIC_L2)
        index.train(stored)
        index.add(stored)
        if option:
            faiss.ParameterSpace().set_index_parameters(index, option)
        found = index.search(asked, 1)[1][:, 0]
        seconds = time.perf_counter() - start
        exact = found if exact is None else exact
        print(
            f"    {f'{kind} {option}':<22}{seconds:>8.2f} s   recall {(found == exact).mean():.2f}",
            flush=True,
        )
    flat = faiss.IndexFlatIP(Z.shape[1])
    flat.add(Z)
    nearest = flat.search(-Z, 64)[1]
    gone = ", ".join(f"{share_without_free(nearest[:, :k]):.0%} for k = {k}" for k in (1, 8, 64))
    print(f"    rows that find their k nearest all taken when their turn comes: {gone}", flush=True)


def share_without_free(candidates) -> float:
    """Share of rows that find none of their candidates free, where rows choose in turn."""
    taken, without = np.zeros(len(candidates), dtype=bool), 0
    for row in candidates:
        free = row[~taken[row]]
        if len(free):
            taken[free[0]] = True
        else:
            without += 1
    return without / len(candidates)


# ---- the whole


def some(X, y, n: int) -> tuple:
    """Return n random rows, or all if there are fewer."""
    rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:n])
    return X[rows], y[rows]


def figures(quick: bool) -> Iterator[Figure]:
    yield from small_sets()
    yield from tree_proper()
    yield from larger_sets(1 if quick else 3)
    yield from million_rows(1 if quick else 3)
    yield from growth(1 if quick else 3)
    yield from polishing(3 if quick else 9)
    yield from nested_groups()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer repeats, less to be trusted, and no tables at the end",
    )
    parser.add_argument(
        "--million",
        type=int,
        metavar="REPEATS",
        help="only pair a million rows and print the outcome as JSON",
    )
    options = parser.parse_args()
    if options.million:
        print(json.dumps(million(options.million)))
        return 0
    print(machine())
    missed = report(figures(options.quick))
    if not options.quick:
        shards(), budgets(), indexes()
    return close(missed)


if __name__ == "__main__":
    sys.exit(main())
