"""Train with each order of the rows on the same data and compare the gaps epoch by epoch.

All have the same number of gradients per epoch and steps found from the data, so what differs is
which rows are used together and in which order. If matplotlib is installed, a picture is saved.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import antithetic
from antithetic.orders import Balanced, Pairs, Shuffle, Uniform
from antithetic.stopping import Target

L2, EPOCHS, SEEDS = 1e-2, 20, range(2)
SHOWN = (1, 2, 5, 10, 20)
PICTURE = Path("comparing_orders.png")


def orders(table):
    """Orders by name.

    Pairs come from a table that is made once, except for the nested order, which makes its own. The
    balanced order needs none; its rule is that of GraB (Lu et al. 2022, Cooper et al. 2023).
    """
    return {
        "independent rows": Uniform(),
        "antithetic pairs, drawn": Uniform(pairs=table),
        "reshuffled rows": Shuffle(),
        "reshuffled pairs": Shuffle(pairs=table),
        "nested order, refreshed": Shuffle(pairs=Pairs("tree", nest=True, refresh=[1, 3])),
        "balanced rows": Balanced(),
    }


def least_objective(X, y):
    """Objective at the solution, by a solver that converges to the last digit."""
    exact = antithetic.minimize(
        X, y, l2=L2, solver="saga", epochs=500, stop=Target("gradient", 1e-12), trace="objective"
    )
    return exact.trace["objective"][-1]


def gaps(X, y, least, order):
    """Share of the way from zero weights to the optimum that is left after each epoch.

    The mean over the seeds.
    """
    runs = [
        antithetic.minimize(X, y, l2=L2, order=order, epochs=EPOCHS, seed=seed, trace="objective")
        for seed in SEEDS
    ]
    objective = np.mean([run.trace["objective"] for run in runs], axis=0)
    return (objective - least) / (objective[0] - least)


def draw(curves):
    import matplotlib as mpl

    mpl.use("Agg")  # a file, no window
    from antithetic import ConvergenceDisplay

    display = ConvergenceDisplay(
        {name: (np.arange(EPOCHS + 1), gap) for name, gap in curves.items()},
        y_label="gap",
        log=True,
    ).plot()
    display.figure_.savefig(PICTURE, dpi=110, bbox_inches="tight")


def main():
    X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    least = least_objective(X, y)
    table = antithetic.pair(X, y)
    curves = {name: gaps(X, y, least, order) for name, order in orders(table).items()}
    print(
        f"diabetes_scale, {X.shape[0]} x {X.shape[1]}, logistic loss, batches of 2: gap after"
        f" some epochs, means of {len(SEEDS)} seeds\n"
    )
    print(f"{'':<26}" + "".join(f"{epoch:>10}" for epoch in SHOWN))
    for name, gap in curves.items():
        print(f"{name:<26}" + "".join(f"{gap[epoch]:>10.1e}" for epoch in SHOWN))
    try:
        draw(curves)
    except ImportError:
        print('\nno picture: drawing needs matplotlib, pip install ".[cli]"', file=sys.stderr)


if __name__ == "__main__":
    main()
