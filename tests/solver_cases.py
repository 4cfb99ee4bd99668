"""Data and settings that the tests of solvers, orders and penalties share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from antithetic import SGDClassifier, SGDRegressor
from antithetic.orders import Importance, Stratified
from antithetic.penalties import GroupLasso

BOTH = pytest.mark.parametrize(
    "kind", [SGDClassifier, SGDRegressor], ids=["classifier", "regressor"]
)
CORRECTED = pytest.mark.parametrize("solver", ["svrg", "saga"])
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
ALPHA = 0.05
EXACT = {"alpha": ALPHA, "stopping": "gradient", "tol": 1e-9, "max_iter": 3000, "random_state": 0}
FEW = {"alpha": ALPHA, "max_iter": 4, "tol": None, "random_state": 0}
RUN = {"l2": ALPHA, "batch_size": 8}


def make_data(n=60, d=5, seed=0):
    """Rows, two classes that overlap, three classes, and numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 1.5, d)
    two = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n) > 0.2).astype(int)
    three = np.argmax(X[:, :3] + 0.5 * rng.normal(size=(n, 3)), axis=1)
    return X, two, three, X @ np.linspace(-1.0, 2.0, d) + 1.0 + 0.1 * rng.normal(size=n)


X, TWO, THREE, NUMBERS = make_data()
WEIGHTS = np.random.default_rng(5).uniform(0.5, 2.0, size=60)
C = 1.0 / (60 * ALPHA)  # scikit-learn sums the losses, we average them


def target_of(kind):
    return TWO if kind is SGDClassifier else NUMBERS


def steps_of(solver):
    """First step size for SGD; the other solvers choose their own."""
    return {"steps": 0.1} if solver == "sgd" else {}


def without_intercept(solver):
    return {"fit_intercept": False} if solver == "sdca" else {}


def assert_same_model(own, other, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.ravel(own.coef_), np.ravel(other.coef_), rtol=rtol, atol=atol)
    np.testing.assert_allclose(
        np.ravel(own.intercept_), np.ravel(other.intercept_), rtol=rtol, atol=atol
    )


class Box:
    """Weights between two bounds: zero inside, infinite outside."""

    separable = True

    def __repr__(self):  # for names of tests, which an address would change
        return "Box()"

    def __init__(self, low=0.0, high=np.inf):
        self.low, self.high = low, high

    def value(self, w):
        """0 or infinite."""
        return 0.0 if ((w >= self.low) & (w <= self.high)).all() else np.inf

    def prox(self, w, step):  # noqa: ARG002 - the step does not matter
        """Nearest point of the box, whatever the step."""
        return np.clip(w, self.low, self.high)


GROUPS = ((0, 3), (1, 2), (4,))
PENALTIES = {
    "none": {},
    "l2": {"l2": 0.1},
    "l1": {"l1": 0.1},
    "elastic net": {"l1": 0.1, "l2": 0.1},
    "group lasso": {"penalty": GroupLasso(GROUPS), "l1": 0.1},
    "own": {"penalty": Box()},
}

DRAWS = [
    {"order": Importance()},
    {"order": Importance(by="gradients")},
    {"order": Stratified()},
    {"order": Stratified(2, allocation="optimal")},
    {"order": "uniform"},
]
