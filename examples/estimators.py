"""Fit scikit-learn's SGDClassifier and ours, and print how far each is from the minimum.

Both use their defaults, so neither learning rate is tuned. If matplotlib is installed, a picture of
our runs is saved.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import SGDClassifier as ScikitLearns

import antithetic
from antithetic import ConvergenceDisplay, SGDClassifier

ALPHAS = {
    "sonar_scale": 1e-2,
    "breast-cancer_scale": 1e-2,
    "splice_scale": 1e-3,
    "diabetes_scale": 1e-2,
}
EPOCHS = (1, 5, 20)
SEEDS = range(5)
PICTURE = Path("estimators.png")


def objective(coef, X, signs, alpha):
    """Mean logistic loss plus penalty."""
    return np.logaddexp(0.0, -signs * (X @ coef)).mean() + 0.5 * alpha * coef @ coef


def mean_objective(estimator, X, y, signs, alpha, epochs):
    """Objective after a number of epochs, as the mean over the seeds."""
    settings = {
        "loss": "log_loss",
        "alpha": alpha,
        "fit_intercept": False,
        "max_iter": epochs,
        "tol": None,
    }
    return np.mean(
        [
            objective(estimator(random_state=seed, **settings).fit(X, y).coef_[0], X, signs, alpha)
            for seed in SEEDS
        ]
    )


def compare(name, alpha):
    """Print one line; return the name, the data and the least objective, for the picture."""
    X, y = antithetic.datasets.load(name, return_X_y=True)
    signs = np.where(y == y.max(), 1.0, -1.0)
    exact = LogisticRegression(
        C=1.0 / (alpha * len(y)), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(X, y)
    least = objective(exact.coef_[0], X, signs, alpha)
    whole = np.log(2.0) - least
    gaps = [
        (mean_objective(estimator, X, y, signs, alpha, epochs) - least) / whole
        for epochs in EPOCHS
        for estimator in (SGDClassifier, ScikitLearns)
    ]
    print(
        f"{name:<22}"
        + "".join(
            f"{ours:>11.1e}{theirs:>9.1e}"
            for ours, theirs in zip(gaps[::2], gaps[1::2], strict=True)
        )
    )
    return name, X, y, least


def draw(name, X, y, least):
    """Save the distance to the least objective, epoch by epoch, for some batch sizes."""
    ax = None
    for batch_size in (1, 2, 8):
        settings = {
            "loss": "log_loss",
            "alpha": ALPHAS[name],
            "fit_intercept": False,
            "max_iter": 20,
            "tol": None,
            "trace": "objective",  # exact, of all rows after each epoch
            "random_state": 0,
        }
        model = SGDClassifier(batch_size=batch_size, **settings).fit(X, y)
        ax = ConvergenceDisplay.from_estimator(
            model, optimum=least, name=f"batch_size={batch_size}", ax=ax
        ).ax_
    ax.set_title(f"{name}, logistic loss")
    ax.figure.savefig(PICTURE, dpi=120)
    print(f"\n{PICTURE} shows our runs on {name}")


def main():
    print(
        f"share of the way from zero weights to the optimum still to go, means over {len(SEEDS)}"
        " seeds; above 1 is worse than zero\n"
    )
    print(f"{'epochs':<22}" + "".join(f"{epochs:>20}" for epochs in EPOCHS))
    print(f"{'':<22}" + f"{'ours':>11}{'sklearn':>9}" * len(EPOCHS))
    outcomes = [compare(name, alpha) for name, alpha in ALPHAS.items()]
    try:
        import matplotlib as mpl
    except ImportError:
        print('\nno picture: drawing needs matplotlib, pip install ".[cli]"', file=sys.stderr)
        return
    mpl.use("Agg")  # a file, no window
    draw(*outcomes[-1])


if __name__ == "__main__":
    main()
