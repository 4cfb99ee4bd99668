"""Train with custom penalties: weights between 0 and 1, and weights near their mean.

A penalty has ``value(w)``, ``prox(w, step)``, the minimiser of ``r(v) + |v - w|^2 / (2 step)``, and
``separable``. The solution is compared with that of a general solver, L-BFGS-B, which supports
bounds and uses no stochastic gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize as general_solver

import antithetic
from antithetic.stopping import Target

L2 = 1e-2


@dataclass(frozen=True)
class Box:
    """Zero for weights between two bounds, infinite elsewhere; its prox moves them there."""

    low: float = 0.0
    high: float = 1.0
    separable = True

    def value(self, w):
        """0 inside."""
        inside = (w >= self.low).all() and (w <= self.high).all()
        return 0.0 if inside else np.inf

    def prox(self, w, step):  # noqa: ARG002 - a projection is the same for every step
        """Nearest point of the box."""
        return np.clip(w, self.low, self.high)


@dataclass(frozen=True)
class NearTheMean:
    """``strength / 2`` times the squared distance of the weights from their mean.

    It is not separable, because each weight affects all others.
    """

    strength: float
    separable = False

    def value(self, w):
        """Value of the penalty."""
        return 0.5 * self.strength * float(np.square(w - w.mean()).sum())

    def prox(self, w, step):
        """Shrink towards the mean."""
        centre = w.mean()  # the mean stays where it is, the rest shrinks
        return centre + (w - centre) / (1.0 + step * self.strength)


def train(X, y, penalty):
    """Train until the gradient mapping is small.

    The prox is called from Python, once a step, so batches are large.
    """
    return antithetic.minimize(
        X,
        y,
        l2=L2,
        penalty=penalty,
        solver="saga",
        batch_size=32,
        epochs=2000,
        stop=Target("gradient", 1e-8),
        trace="objective",
    )


def main():
    X, y = antithetic.datasets.load("diabetes_scale", return_X_y=True)
    signs = np.where(y > 0, 1.0, -1.0)

    def objective(w):
        return np.logaddexp(0.0, -signs * (X @ w)).mean() + 0.5 * L2 * w @ w

    boxed = train(X, y, Box())
    general = general_solver(
        objective,
        np.full(8, 0.5),
        bounds=[(0.0, 1.0)] * 8,
        method="L-BFGS-B",
        options={"ftol": 1e-14},
    )
    print(f"box:            weights {boxed.coef.round(3).tolist()}")
    print(
        f"                objective {boxed.trace['objective'][-1]:.10f} after"
        f" {len(boxed.trace['epoch']) - 1} epochs"
    )
    print(f"L-BFGS-B:       objective {general.fun:.10f}")
    for strength in (0.1, 1.0, 100.0):
        run = train(X, y, NearTheMean(strength))
        print(
            f"near the mean:  strength {strength:>5}, standard deviation of the weights"
            f" {run.coef.std():.4f}"
        )


if __name__ == "__main__":
    main()
