"""Redraw the pictures of the documentation: ``python docs/make_pictures.py [NAME ...]``.

Each picture is written to ``docs/pictures/NAME.svg``.

Every line and point comes from the package itself, on the data sets that it brings; figure-2 and
figure-3, which ``paper`` draws too, need all six of the paper (``ANTITHETIC_DATA``). The ground is
transparent and the colours are of middle brightness, so that one file serves light and dark pages.
The same versions give the same bytes.
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import antithetic
from antithetic.orders import Balanced, Pairs, Shuffle, Uniform
from antithetic.paper.report.sheets import SHEET_COLOURS, TITLES, draw_sheet
from antithetic.paper.reproduction import reproduce
from antithetic.stopping import Target

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "benchmarks")]

from make_peers import KEPT, shown_rows  # noqa: E402
from races.sklearn_peers import is_ours  # noqa: E402
from races.summary import profile as solved_within  # noqa: E402

FOLDER = Path(__file__).parent / "pictures"
INK = "#747b85"
BLUE, ORANGE, GREEN, PURPLE, RED = "#3f8fd2", "#e07b39", "#3aa76d", "#9b6fd0", "#d9534f"
STYLE = {
    "svg.fonttype": "none",  # text stays text: small files, and the reader's own fonts
    "svg.hashsalt": "antithetic",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "axes.grid": True,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "figure.constrained_layout.use": True,
}
L2 = 1e-2


def gradients(X, y, coef):
    """Gradient of the logistic loss of each row, and the signs of the labels."""
    signs = np.where(y == y.max(), 1.0, -1.0)
    return -(signs / (1.0 + np.exp(signs * (X @ coef))))[:, None] * X


def least(X, y):
    """Solution and least objective, by a solver that goes on to the last digit."""
    exact = antithetic.minimize(
        X, y, l2=L2, solver="saga", epochs=500, stop=Target("gradient", 1e-12), trace="objective"
    )
    return exact.coef, exact.trace["objective"][-1]


def pairs():
    """Mean gradients of batches of 2, independent and antithetic, on the two widest directions."""
    X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    table = antithetic.pair(X, y)
    G = gradients(X, y, np.zeros(X.shape[1]))
    mean = G.mean(axis=0)
    axes = np.linalg.svd(G - mean, full_matrices=False)[2][:2]
    draw = np.random.default_rng(0).integers(len(y), size=(len(y), 2))
    figure = Figure(figsize=(7.6, 3.0))
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    iid, paired = (G[draw[:, 0]] + G[draw[:, 1]]) / 2, (G + G[table.partner]) / 2
    ratio = table.variance_ratio(X, y)
    for ax, points, colour, title in (
        (panels[0], iid, ORANGE, "two independent rows"),
        (panels[1], paired, BLUE, f"antithetic pairs: {ratio:.2f} of the variance"),
    ):
        flat = (points - mean) @ axes.T
        ax.plot(*flat.T, "o", ms=4, mew=0, alpha=0.6, color=colour)
        ax.plot(0, 0, "+", ms=13, mew=2.2, color=INK)
        ax.set(title=title, xticks=[], yticks=[], aspect="equal")
        ax.grid(visible=False)
        ax.spines[["left", "bottom"]].set_visible(False)
    return figure


def partners():
    """Rows in the plane, with lines to the partners, and the two gradients of a few pairs."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2)) * [1.2, 0.8] + [0.5, 0.3]
    y = np.where(X @ [1.0, 0.6] + 0.7 * rng.normal(size=40) > 0.4, 1, -1)
    table = antithetic.pair(X, y).to_matching(X, y)
    G = gradients(X, y, np.zeros(2))
    figure = Figure(figsize=(7.6, 3.6))
    left, right = figure.subplots(1, 2)
    for i, j in table.pairs:
        left.plot(*X[[i, j]].T, color=INK, lw=0.8, alpha=0.7, zorder=1)
    for label, colour in ((1, BLUE), (-1, ORANGE)):
        left.plot(*X[y == label].T, "o", ms=5.5, mew=0, color=colour, label=f"label {label:+d}")
    left.set(
        title="rows, each joined to its partner",
        aspect="equal",
        xlabel="feature 1",
        ylabel="feature 2",
    )
    left.legend(loc="upper right", fontsize=8.5, handletextpad=0.1, borderaxespad=0)
    longest = table.pairs[np.argsort(-np.linalg.norm(G[table.pairs[:, 0]], axis=1))[:7]]
    for k, (i, j) in enumerate(longest):
        colour = (BLUE, ORANGE, GREEN, PURPLE, RED, "#c29a2b", INK)[k]
        for row in (i, j):
            right.annotate(
                "",
                G[row],
                (0, 0),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": colour,
                    "lw": 1.5,
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
            )
    right.plot(*G.T, " ")
    right.plot(*G.mean(axis=0), "P", ms=9, mew=0, color=INK, label="mean of all 40")
    right.set(title="their gradients, one colour a pair", aspect="equal")
    right.legend(loc="lower right", fontsize=8.5, handletextpad=0.1, borderaxespad=0)
    return figure


def tutorial():
    """Variance and objective along SGD and SGD-as, as in the tutorial."""
    X, y = antithetic.datasets.load("sonar_scale", return_X_y=True)
    settings = {"l2": L2, "eta0": 0.1, "epochs": 20, "trace": ["variance", "objective"]}
    table = antithetic.pair(X, y)
    independent = antithetic.minimize(X, y, **settings)
    paired = antithetic.minimize(X, y, table=table, **settings)
    figure = Figure(figsize=(7.6, 3.0))
    for ax, name in zip(figure.subplots(1, 2), ("variance", "objective"), strict=True):
        for run, label, colour in (
            (independent, "two independent rows", ORANGE),
            (paired, "antithetic pairs", BLUE),
        ):
            ax.plot(run.trace["epoch"], run.trace[name], ".-", color=colour, label=label)
        ax.set(xlabel="epoch", ylabel=f"{name} of the gradient" if name == "variance" else name)
        ax.set_ylim(bottom=0 if name == "variance" else None)
    figure.axes[0].legend()
    return figure


def fading():
    """Variance ratio of a table that is kept, and of one that is rebuilt."""
    X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    figure = Figure(figsize=(6.4, 3.2))
    ax = figure.subplots()
    for refresh, label, colour in (
        (None, "made once, at w = 0", ORANGE),
        (5, "rebuilt every 5 epochs", PURPLE),
        ("auto", 'refresh="auto"', BLUE),
    ):
        run = antithetic.minimize(
            X,
            y,
            l2=L2,
            order=Uniform(pairs=Pairs("optimal", refresh=refresh)),
            steps=0.5,
            epochs=20,
            trace="variance_ratio",
        )
        ax.plot(run.trace["epoch"], run.trace["variance_ratio"], ".-", color=colour, label=label)
    ax.axhline(1.0, ls=":", color=INK)
    ax.annotate(
        "two independent rows",
        (20, 1.0),
        (0, -12),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
    )
    ax.set(
        xlabel="epoch",
        ylabel="variance / that of two rows",
        ylim=(0, 1.35),
        xticks=np.arange(0, 21, 5),
    )
    ax.legend(loc="upper right", ncols=3, fontsize=8.5, columnspacing=1.2)
    return figure


def partial_sums():
    """Norm of the partial sums of centred gradients over an epoch at the solution, three orders."""
    X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    coef, _ = least(X, y)
    G = gradients(X, y, coef)
    G -= G.mean(axis=0)
    orders = {
        # A typical order: its largest sum is near the median of many.
        "reshuffled": (np.random.default_rng(7).permutation(len(y)), ORANGE),
        "nested, table of the solution": (
            antithetic.pair(X, y, coef=coef, nest=True).order,
            PURPLE,
        ),
        "balanced, after 20 epochs": (
            antithetic.minimize(X, y, l2=L2, order="balanced", epochs=20).run.order,
            BLUE,
        ),
    }
    figure = Figure(figsize=(6.8, 3.2))
    ax = figure.subplots()
    for label, (order, colour) in orders.items():
        sums = np.linalg.norm(np.cumsum(G[order], axis=0), axis=1)[1::2]
        ax.plot(np.arange(2, len(y) + 1, 2), sums, color=colour, label=label, lw=1.2)
    ax.set(xlabel="rows visited in the epoch", ylabel="|partial sum|", ylim=(0, None))
    ax.legend(loc="upper right")
    return figure


def orders():
    """Gap over epochs by how rows are drawn, steps found by themselves, means of 5 seeds."""
    X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    _, lowest = least(X, y)
    ways = {
        "two independent rows": (Uniform(), ORANGE),
        "antithetic pairs, drawn (SGD-as)": (Uniform(pairs="optimal"), RED),
        "reshuffled": (Shuffle(), GREEN),
        "balanced": (Balanced(), BLUE),
    }
    figure = Figure(figsize=(6.8, 3.6))
    ax = figure.subplots()
    for label, (order, colour) in ways.items():
        runs = [
            antithetic.minimize(X, y, l2=L2, order=order, epochs=20, seed=seed, trace="objective")
            for seed in range(5)
        ]
        gaps = (np.mean([run.trace["objective"] for run in runs], axis=0) - lowest) / (
            np.log(2.0) - lowest
        )
        ax.semilogy(np.arange(21), gaps, ".-", color=colour, label=label)
    ax.set(xlabel="epoch", ylabel="gap, share of the way still to go", xticks=np.arange(0, 21, 5))
    ax.legend(fontsize=9)
    return figure


def dimensions():
    """Best variance ratio of random rows, and partial sums after balancing, by feature count."""
    n, features = 200, [1, 2, 5, 10, 20, 50, 100, 200, 400, 1000]
    rng = np.random.default_rng(0)
    ratios, sums = [], []
    for d in features:
        X, y = rng.normal(size=(n, d)), rng.integers(2, size=n)
        ratios.append(antithetic.pair(X, y, "optimal").variance_ratio(X, y))
        eta0 = 0.1 / d  # short: the gradients should hardly move
        run = antithetic.minimize(
            X, y, order="balanced", steps=eta0, l2=1e-4, epochs=12, trace="partial_sum"
        )
        sums.append(np.median(run.trace["partial_sum"][4:]))
    figure = Figure(figsize=(6.4, 3.2))
    ax = figure.subplots()
    ax.semilogx(features, ratios, "o-", color=BLUE, label="variance ratio of the best table")
    ax.semilogx(
        features,
        sums,
        "s-",
        color=GREEN,
        label="partial sums of a balanced order / of a random one",
    )
    ax.axvline(n, ls=":", color=INK)
    ax.axhline(1.0, ls=":", color=INK)
    ax.annotate(f"n = {n} rows", (n, 0.03), (4, 0), textcoords="offset points", fontsize=8.5)
    ax.set(xlabel="number of features d", ylim=(0, 1.35), yticks=np.arange(0, 1.01, 0.25))
    ax.legend(loc="upper left", fontsize=9)
    return figure


def profile():
    """Share of races that each solver ends within a factor of the fastest, from docs/peers.csv."""
    factors = np.geomspace(1.0, 20.0, 200)
    rows = [row for row in shown_rows(KEPT) if row.threads == 1]
    shares = solved_within(rows, factors.tolist())
    figure = Figure(figsize=(6.8, 5.2))
    ax = figure.subplots()
    looks = {True: {"color": ORANGE, "lw": 3.0, "zorder": 3}, False: {"lw": 1.4}}
    own_dashes = iter(("-", "--", ":", "-."))
    colours = iter((BLUE, GREEN, PURPLE, RED, INK) * 4)
    dashes = iter(("-",) * 5 + ("--",) * 5 + (":",) * 5 + ("-.",) * 5)
    for peer, share in sorted(shares.items(), key=lambda item: -item[1].mean()):
        own = is_ours(peer)
        other = {} if own else {"color": next(colours)}
        look = {**other, "ls": next(own_dashes if own else dashes), **looks[own]}
        ax.step(factors, share, where="post", label=peer, **look)
    ax.set(
        xscale="log",
        xlabel="factor of the fastest",
        ylabel="share of races",
        ylim=(-0.02, 1.02),
        xticks=[1, 2, 5, 10, 20],
    )
    ax.xaxis.set_major_formatter(mpl.ticker.ScalarFormatter())
    ax.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure


def logistic():
    """Gap against seconds of all solvers of logistic regression, from docs/logistic.csv."""
    with open(Path(__file__).parent / "logistic.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == "curve"]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    solvers = sorted({row["solver"] for row in rows} - {"ours"})
    looks = {
        solver: {
            "color": (BLUE, GREEN, PURPLE, RED, INK)[k % 5],
            "ls": ("-", "--", ":")[k // 5],
            "lw": 1.2,
        }
        for k, solver in enumerate(solvers)
    }
    looks["ours"] = {"color": ORANGE, "lw": 3.0, "zorder": 3}
    figure = Figure(figsize=(6.8, 4.2))
    panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    for ax, task in zip(panels, tasks, strict=True):
        for solver in ("ours", *solvers):
            points = [
                (float(row["seconds"]) * 1e3, max(float(row["gap"]), 1e-12))
                for row in rows
                if (row["task"], row["solver"]) == (task, solver)
            ]
            ax.plot(*_falling(points), drawstyle="steps-post", **looks[solver])
        ax.set(xscale="log", yscale="log", xlabel="milliseconds", ylim=(1e-11, 1.0))
        ax.set_title(task.replace("lambda", "λ").replace("0.0001", "1e-4"))
    figure.axes[0].set_ylabel("gap to the optimum")
    labels = ["LogisticRegression (ours)", *solvers]
    lines = figure.axes[0].lines
    figure.legend(lines, labels, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _falling(points):
    """Seconds, and the least gap reached by then: 1 until the first fit ends."""
    order = sorted(points)
    seconds, gaps = [one for one, _ in order], [gap for _, gap in order]
    return [*seconds[:1], *seconds], np.minimum.accumulate([1.0] * bool(gaps) + gaps)


@cache
def experiments():
    """What ``antithetic reproduce`` measures on all six sets of the paper, with both losses."""
    found = reproduce()
    if found.left_out:
        sys.exit(f"not on this computer: {', '.join(found.left_out)}; set ANTITHETIC_DATA")
    return found.experiments


SHEET = SHEET_COLOURS | {"SGD": ORANGE, "SGD-as": BLUE}


def sheet(loss):
    """Sheet of all sets with a loss."""
    return draw_sheet([one for one in experiments() if one.loss == loss], TITLES[loss], SHEET)


def figure_2():
    """The paper's Figure 2: variance and objective on its six sets, logistic regression."""
    return sheet("log_loss")


def figure_3():
    """The paper's Figure 3: the same for the SVM."""
    return sheet("hinge")


def paper():
    """The first row of Figure 2 alone: variance and objective on sonar_scale."""
    (one,) = [one for one in experiments() if one.key == "sonar_scale-log_loss"]
    return draw_sheet([one], colours=SHEET, axes_height=1.4)


OF_THE_PAPER = (paper, figure_2, figure_3)
PICTURES = (
    pairs,
    partners,
    tutorial,
    fading,
    partial_sums,
    orders,
    dimensions,
    profile,
    logistic,
    *OF_THE_PAPER,
)


def main(names):
    """Draw the pictures of these names, or all."""
    FOLDER.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        for draw in PICTURES:
            name = draw.__name__.replace("_", "-")
            if not names or name in names or ("paper" in names and draw in OF_THE_PAPER):
                draw().savefig(FOLDER / f"{name}.svg", transparent=True, metadata={"Date": None})
                print(f"docs/pictures/{name}.svg: {draw.__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
