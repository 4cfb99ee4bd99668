"""Solver for benchopt's ``benchmark_linear_svm_binary_classif_no_intercept``.

Copy it into the ``solvers`` folder of that benchmark.

That objective is ``C sum_i max(0, 1 - y_i <x_i, w>) + 1/2 |w|^2``; ours, the mean plus alpha / 2
|w|^2, is that divided by ``C n``, so alpha is ``1 / (C n)``.
"""

from __future__ import annotations

import numpy as np
from benchopt import BaseSolver

from antithetic import SGDClassifier
from antithetic.orders import Balanced


class Solver(BaseSolver):
    """SGD with antithetic tables and balanced orders, or SDCA; tables are made inside ``run``."""

    name = "antithetic"
    sampling_strategy = "iteration"
    install_cmd = "conda"
    requirements = ["pip::antithetic"]  # noqa: RUF012 - as benchopt reads it
    parameters = {  # noqa: RUF012
        # weights of a loss with a kink are averaged for SGD; "auto" makes no table, pairs="tree"
        # makes one, and its seconds count
        "solver, order, average": [
            ("sgd", "auto", "linear"),
            ("sgd", Balanced(pairs="tree"), "linear"),
            ("sdca", "auto", False),
        ],
        "random_state": [0],
    }

    def set_objective(self, X, y, C):
        """Take over the problem; nothing is computed here."""
        self.X, self.y, self.C = X, y, C

    def warm_up(self):
        """Fit once, so that imports are not timed."""
        self.run_once(3)

    def run(self, n_iter):
        """Fit from scratch for so many epochs."""
        self.coef = np.zeros(self.X.shape[1])
        if n_iter == 0:
            return
        model = SGDClassifier(
            loss="hinge",
            alpha=1.0 / (self.C * self.X.shape[0]),
            fit_intercept=False,
            solver=self.solver,
            order=self.order,
            average=self.average,
            max_iter=n_iter,
            tol=None,
            random_state=self.random_state,
        )
        self.coef = model.fit(self.X, self.y).coef_[0]

    def get_result(self):
        """Weights."""
        return {"beta": self.coef}
