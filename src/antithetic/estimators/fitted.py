"""Attributes of a fitted linear model: weights, steps that were found, and initial weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from antithetic._util.warnings import warn
from antithetic.estimators.one_vs_rest import AllClasses, OneVsRest
from antithetic.estimators.parameters import LinearParameters
from antithetic.estimators.used_columns import Narrowed, widen_all
from antithetic.stochastic import SOLVERS
from antithetic.stochastic.solver import Solution
from antithetic.stochastic.steps import Schedule

_STEPS = ("eta0_", "decay_", "_steps_of_solver", "_noise_of_steps", "_steps_are_preconditioned")


class FittedLinearModel(LinearParameters):
    """Set the attributes of the SGD estimators, and check initial weights."""

    def _one_vs_rest(self) -> OneVsRest:
        """Return the problems that the targets are split into."""
        raise NotImplementedError

    def _n_problems(self) -> int:
        return self._one_vs_rest().n_problems

    def _shape(self, coef: NDArray[Any]) -> NDArray[Any]:
        """Shape of ``coef_``, from one row of weights per problem."""
        return coef

    def _first_weights(self, coef_init: Any, intercept_init: Any, d: int) -> list[Solution]:
        """Check the weights that a fit starts with, one pair per problem.

        With warm_start, those of the fit before.
        """
        if self.warm_start and getattr(self, "coef_", None) is not None:
            coef_init = self._dense_coef() if coef_init is None else coef_init
            intercept_init = self.intercept_ if intercept_init is None else intercept_init
        k = self._n_rows()
        coef = np.zeros((k, d)) if coef_init is None else np.asarray(coef_init, dtype=np.float64)
        intercept = (
            np.zeros(k) if intercept_init is None else np.asarray(intercept_init, dtype=np.float64)
        )
        if coef.shape != (k, d) and not (k == 1 and coef.shape == (d,)):
            raise ValueError(
                "Provided coef_init does not match dataset: it has shape"
                f" {coef.shape} and should have {(k, d)}."
            )
        if intercept.shape != (k,) and not (k == 1 and intercept.shape == ()):
            raise ValueError(
                "Provided intercept_init does not match dataset: it has shape"
                f" {intercept.shape} and should have {(k,)}."
            )
        return self._starts(coef.reshape(k, d), intercept.reshape(k))

    def _n_rows(self) -> int:
        """Rows of weights that ``coef_`` has."""
        parts = self._one_vs_rest()
        if isinstance(parts, AllClasses):
            return 1 if parts.n_classes == 2 else parts.n_classes
        return parts.n_problems

    def _starts(self, coef: NDArray[Any], intercept: NDArray[Any]) -> list[Solution]:
        """Weights and intercept of each problem, from the rows of the attributes."""
        parts = self._one_vs_rest()
        if isinstance(parts, AllClasses):
            constants = parts.private(intercept.astype(np.float64))
            return [(np.ascontiguousarray(parts.private(coef)).ravel(), constants)]
        return list(zip(coef, intercept.tolist(), strict=True))

    def _weights_of(
        self, solutions: list[Solution], narrowed: Sequence[Narrowed | None] | None = None
    ) -> dict[str, NDArray[Any]]:
        parts = self._one_vs_rest()
        if isinstance(parts, AllClasses):
            ((flat, constants),) = solutions
            coef = parts.public(flat.reshape(parts.n_classes, -1)).copy()  # the user's to change
            return {"coef_": coef, "intercept_": parts.public(constants).astype(coef.dtype)}
        coef = widen_all(narrowed or [None] * len(solutions), solutions)
        intercept = _as_type([intercept for _, intercept in solutions], coef.dtype)
        return {"coef_": self._shape(coef), "intercept_": intercept}

    def _steps_of(self, schedules: list[Schedule | None], noise: float) -> dict[str, Any]:
        """Attributes that hold the steps which were found."""
        found = [schedule for schedule in schedules if schedule is not None]
        is_found = self.learning_rate == "auto" and SOLVERS[self.solver].has_steps
        if not is_found or len(found) < len(schedules):
            return {}
        return {
            "_steps_of_solver": str(self.solver),
            "_noise_of_steps": noise,
            "eta0_": _one_or_all([schedule.eta0 for schedule in found]),
            "decay_": _one_or_all([schedule.rate for schedule in found]),
        }

    def _adopt(self, fitted: dict[str, Any]) -> None:
        for name in _STEPS:
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)

    def _is_unfinished(self) -> bool:
        """Whether a fit that ran all its epochs ended too early."""
        # by the objective, the last epoch counts as one too few, as in scikit-learn
        return self.stopping == "objective" or not self._converged

    def _warn_after_fit(self) -> None:
        if self.tol is not None and self.n_iter_ == self.max_iter and self._is_unfinished():
            warn(
                "Maximum number of iteration reached before convergence. Consider increasing"
                " max_iter to improve the fit.",
                ConvergenceWarning,
            )
        if self.power_t < 0:
            warn(
                "Negative values for `power_t` are deprecated in version 1.8 and will raise an"
                " error in 1.10. Use values in the range [0.0, inf) instead.",
                FutureWarning,
            )


def _as_type(intercepts: list[float], kind: np.dtype[Any]) -> NDArray[Any]:
    """Intercepts in the type of the rows, which may be too narrow for them."""
    found = np.array(intercepts)
    if found.dtype == kind:
        return found
    with np.errstate(over="ignore"):
        found = found.astype(kind)
    lost = np.isfinite(intercepts) & ~np.isfinite(found)
    if lost.any():
        raise ValueError(
            f"the intercept, {np.array(intercepts)[lost][0]:.3g}, is too large for {kind}, the type"
            " of X; rescale y, or pass X as float64"
        )
    return found


def _one_or_all(values: list[float]) -> Any:
    return values[0] if len(values) == 1 else np.array(values)
