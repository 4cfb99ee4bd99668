r"""Stochastic dual coordinate ascent (Shalev-Shwartz and Zhang, 2013).

Each row has a dual variable :math:`a_i`, and the weights are :math:`w(a) = \frac{1}{l_2 n} \sum_i
a_i x_i`. At the optimum :math:`a_i` is minus the weighted slope of row i. A visit maximises the
dual over one variable exactly, so there is no step size to choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._core.losses import DUAL_STEPS, HINGE, SQUARED_ERROR, SQUARED_HINGE
from antithetic._util.validation import check_coef, check_number
from antithetic.exact.dual import DualAscent
from antithetic.exact.optimality import duality_gap
from antithetic.orders.units import Batches
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.stochastic.solver import After, Choice, Solution, State
from antithetic.stochastic.steps import Auto, Schedule

# share of the rows that moved in an epoch, up to which a reference is worth its pass over the data
_FEW = 0.1
_WASTE = 1.0  # visits that changed nothing, per row, after which a new reference is
_ROUNDING = 1e4  # what sums may have lost, in units of the last place


class _Resting(NamedTuple):
    r"""Saves visits with hinge losses: rows whose dual variable is at a bound and would stay there.

    A margin differs from that at a reference v by at most :math:`|x_i| |w - v|`. So while the
    distance of the weights from v is less than ``limits[i]``, a visit of row i would change
    nothing, and is left out: the result is the same, bit for bit. ``signed`` is the
    margin at v minus 1, divided by :math:`|x_i|`; ``wasted`` counts the visits since the reference
    was taken that changed nothing.
    """

    reference: NDArray[Any]
    signed: NDArray[np.float64]
    limits: NDArray[np.float64]
    wasted: int


class Duals(NamedTuple):
    """The dual variable of each row, and which rows can be skipped for now."""

    values: NDArray[np.float64]
    resting: _Resting | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sdca:
    r"""Stochastic dual coordinate ascent, for a problem with an L2 penalty only.

    A visit of row i replaces :math:`a_i` by the maximiser of :math:`-s_i \phi^*(-a_i / s_i) -
    \frac{l_2 n}{2} |w(a)|^2` over it, and the weights by those that belong to it, which costs as
    much as a step of SGD. Only the order of the rows matters here, not where batches end, nor their
    factors.

    Attributes
    ----------
    problem : Problem
    squares : ndarray of shape (n,)
        Squared norms of the rows.
    watch : bool, default=False
        Whether to record the mean loss during an epoch.
    """

    problem: Problem
    squares: NDArray[np.float64]
    watch: bool = False

    by_epoch = averages_epochs = False  # nothing is averaged

    def init(self, coef: Any = None, intercept: float = 0.0) -> tuple[State, Duals]:
        """State before a visit.

        Dual variables are zero, or minus the weighted slopes at ``coef``, with the weights that
        belong to them.
        """
        if check_number(intercept, "intercept of init") != 0.0:
            raise ValueError(
                'solver="sdca" has no intercept, so the intercept of init must be 0; got'
                f" {intercept!r}"
            )
        weights = check_coef(coef, self.problem.d, "coef of init")
        duals = -self.problem.slopes(weights)
        # rows of zeros have their optimum there, the others a better start at zero
        if not weights.any():
            duals[self.squares > 0.0] = 0.0
        return State(self._weights(duals), 0.0), Duals(duals)

    def take_up(self, state: State, own: Any) -> tuple[State, Duals]:
        """State of an earlier run, with dual variables that are allowed here, and their weights."""
        is_dual = isinstance(own, Duals) and len(own.values) == self.problem.n
        duals = self._allowed(own.values) if is_dual else -self.problem.slopes(state.coef)
        coef, kept = self._weights(duals), state.coef.astype(self.problem.X.dtype)
        # a resumed run gives the same bits as one that was never interrupted: its weights differ
        # from the sum by rounding only
        limits = np.finfo(coef.dtype)
        near = float(limits.eps) ** 0.5 * max(float(np.abs(coef).max()), float(limits.tiny))
        same = is_dual and bool((np.abs(coef - kept) <= near).all())
        return state._replace(coef=kept if same else coef, intercept=0.0), Duals(duals)

    def solution(self, state: State, own: Duals) -> Solution:  # noqa: ARG002
        """Weights to be used: the last ones, without an intercept."""
        return state.coef, state.intercept

    def gap(self, state: State, own: Duals) -> float:
        """Duality gap of the weights and the dual variables."""
        return duality_gap(self.problem, state.coef, state.intercept, own.values)

    def followed(self, state: State, own: Duals) -> NDArray[np.float64]:
        """Slopes minus those of the dual variables, which are negative slopes."""
        return self.problem.slopes(state.coef, state.intercept) + own.values

    def epoch(
        self,
        state: State,
        own: Duals,
        batches: Batches,
        schedule: Schedule,  # noqa: ARG002
    ) -> After:
        """Visit each of the rows, in the order of the batches; there is no step size."""
        coef, duals = state.coef.copy(), own.values.copy()
        resting = self._rest(own, coef)
        visits, gone, least = len(batches.rows), 0.0, 0.0
        if len(resting.limits):
            apart = coef.astype(np.float64) - resting.reference
            least = _ROUNDING * float(np.finfo(coef.dtype).eps) * float(coef @ coef)
            gone = max(least, float(apart @ apart))
        limits = resting.limits.copy()  # which the kernel changes
        met, seen, moved = self.problem.rows.dual_epoch(
            self.problem.targets,
            batches.rows,
            self.squares,
            self.problem.loss.code,
            self._share,
            self.watch,
            gone,
            least,
            coef,
            duals,
            resting.signed,
            limits,
        )
        rests = self.problem.loss.code in (HINGE, SQUARED_HINGE) and not self.watch
        kept = resting._replace(limits=limits, wasted=resting.wasted + seen - moved)
        return After(
            State(coef, 0.0, state.steps + visits, state.samples + visits, state.epochs + 1),
            Duals(duals, kept if rests and moved <= _FEW * visits else None),
            met / visits if self.watch else np.nan,
        )

    def _rest(self, own: Duals, coef: NDArray[Any]) -> _Resting:
        """What is known about the skipped rows, from a new reference if the old one is used up."""
        nothing = np.empty(0)
        if own.resting is None:
            return _Resting(nothing, nothing, nothing, self.problem.n)
        if own.resting.wasted <= _WASTE * self.problem.n:
            return own.resting
        n, code = self.problem.n, self.problem.loss.code
        signed, limits, predictions = np.empty(n), np.empty(n), self.problem.predictions(coef)
        kernels.rest_limits(
            code, self.problem.targets, self.squares, own.values, predictions, signed, limits
        )
        return _Resting(coef.copy(), signed, limits, 0)

    @property
    def _share(self) -> float:
        return 1.0 / (self.problem.penalty.l2 * self.problem.n)

    def _weights(self, duals: NDArray[np.float64]) -> NDArray[Any]:
        """Weights that belong to dual variables, of the rows' float type."""
        real = self.problem.X.dtype
        if not duals.any():
            return np.zeros(self.problem.d, real)
        weights: NDArray[Any] = (
            self.problem.X.T @ (duals * self._share).astype(real, copy=False)
        ).astype(real, copy=False)
        return weights

    def _allowed(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Dual variables, brought back to where the conjugate is finite.

        An earlier run may have had other labels and weights.
        """
        code, y = self.problem.loss.code, self.problem.y
        weight = np.ones(self.problem.n) if self.problem.weight is None else self.problem.weight
        if code == SQUARED_ERROR:
            return np.where(weight > 0.0, duals, 0.0)
        most = np.where(weight > 0.0, np.inf, 0.0) if code == SQUARED_HINGE else weight
        return y * np.clip(y * duals, 0.0, most)


def make_sdca(problem: Problem, *, watch: bool = False) -> Sdca:
    """Return SDCA on a problem.

    Raises
    ------
    ValueError
        If the squares of the rows overflow.

    Examples
    --------
    >>> from antithetic.problem import Problem
    >>> problem = Problem.build([[1.0], [-2.0]], [1, -1], loss="hinge", l2=0.1)
    >>> make_sdca(problem).init()[1].values
    array([0., 0.])
    """
    return Sdca(problem, DualAscent.of(problem).squares, watch)


def refuses(choice: Choice) -> str | None:
    """SDCA supports an L2 penalty and four losses, and has no step size."""
    instead = "sgd" if choice.has_kink else "saga"  # SAGA needs slopes that change smoothly
    if choice.order is not None and choice.order.balances:
        return (
            'order="balanced" balances gradients, which solver="sdca" does not use; use'
            ' order="shuffle", or solver="sgd"'
        )
    if choice.penalty_name != "l2":
        return (
            'solver="sdca" supports only an L2 penalty above 0; use penalty="l2" (minimize:'
            f' l2=, without l1= and penalty=), or solver="{instead}"'
        )
    if choice.average:
        return choice.refuses_average()
    if choice.loss.code not in DUAL_STEPS:
        names = (f'"{name}"' for name, loss in LOSSES.items() if loss.code in DUAL_STEPS)
        return (
            f'solver="sdca" supports the losses {", ".join(names)}; got "{choice.loss.name}"; use'
            f' solver="{instead}"'
        )
    if choice.fit_intercept:
        return (
            'solver="sdca" cannot fit an unpenalised intercept; use fit_intercept=False, or add'
            f' a column of ones, or solver="{instead}"'
        )
    if not isinstance(choice.steps, Auto):
        return 'solver="sdca" has no step size: leave steps at "auto"'
    return None
