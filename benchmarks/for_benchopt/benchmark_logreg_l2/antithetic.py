"""Solver for benchopt's ``benchmark_logreg_l2``: copy it into the ``solvers`` folder there.

That objective is ``sum_i log(1 + exp(-y_i <x_i, w>)) + lmbd / 2 |w|^2``; ours is its mean, so alpha
is ``lmbd / n``.
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
        # "auto" makes no table, which a linear model seldom repays; pairs="tree" makes one, and its
        # seconds count
        "solver, order": [("sgd", "auto"), ("sgd", Balanced(pairs="tree")), ("sdca", "auto")],
        "random_state": [0],
    }

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        """Take over the problem; nothing is computed here."""
        self.X, self.y, self.lmbd, self.fit_intercept = X, y, lmbd, fit_intercept

    def skip(self, X, y, lmbd, fit_intercept=False):  # noqa: ARG002 - their interface
        """SDCA has no intercept that is not penalised."""
        if self.solver == "sdca" and fit_intercept:
            return True, "sdca is for problems without an intercept"
        return False, None

    def warm_up(self):
        """Fit once, so that imports are not timed."""
        self.run_once(3)

    def run(self, n_iter):
        """Fit from scratch for so many epochs."""
        self.coef = np.zeros(self.X.shape[1] + bool(self.fit_intercept))
        if n_iter == 0:
            return
        model = SGDClassifier(
            loss="log_loss",
            alpha=self.lmbd / self.X.shape[0],
            fit_intercept=self.fit_intercept,
            solver=self.solver,
            order=self.order,
            max_iter=n_iter,
            tol=None,
            random_state=self.random_state,
        ).fit(self.X, self.y)
        self.coef = (
            np.r_[model.coef_[0], model.intercept_] if self.fit_intercept else model.coef_[0]
        )

    def get_result(self):
        """Weights, the intercept last if there is one."""
        return {"beta": self.coef}
