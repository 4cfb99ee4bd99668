r"""Stochastic dual coordinate ascent (Shalev-Shwartz and Zhang, 2013): `init` and one transition, `epoch`.

Each row has a dual variable :math:`a_i`, and the weights are :math:`w(a) = \frac{1}{l_2 n} \sum_i
a_i x_i`. At the optimum :math:`a_i` is minus the weighted slope of row i. A visit maximises the
dual over one variable exactly, so there is no step size to choose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.dual_arguments import DualModel, DualRows, DualRule, Entries
from antithetic._core.losses import HINGE, SQUARED_ERROR, SQUARED_HINGE, has_dual_step
from antithetic._util.validation import check_coef, check_number
from antithetic.orders.batches import Batches
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.smoothness import squared_norms
from antithetic.solvers.sgd import SgdState
from antithetic.solvers.steps import Schedule

# share of the rows that moved in an epoch, up to which a reference is worth its pass over the data
_FEW = 0.1
_WASTE = 1.0  # visits that changed nothing, per row, after which a new reference is
_ROUNDING = 1e4  # what sums may have lost, in units of the last place


class _Resting(NamedTuple):
    r"""What spares the hinges a visit: rows whose dual variable is at a bound, and would be left there.

    A margin differs from that at a reference v by at most :math:`|x_i| |w - v|`. So while the
    distance of the weights from v is less than ``limits[i]``, a visit of row i would change
    nothing, and is left out: the result has the same bits with and without this. ``signed`` is the
    margin at v less 1, divided by :math:`|x_i|`. The dual variables that all this is about are
    ``duals``; ``wasted`` counts the visits since the reference was taken that changed nothing.
    """

    duals: NDArray[np.float64]
    reference: NDArray[Any]
    signed: NDArray[np.float64]
    limits: NDArray[np.float64]
    wasted: int


@dataclass(frozen=True, slots=True, eq=False)
class Sdca:
    r"""Stochastic dual coordinate ascent, for a problem with an L2 penalty and nothing else.

    A visit of row i replaces :math:`a_i` by the maximiser of :math:`-s_i \phi^*(-a_i / s_i) -
    \frac{l_2 n}{2} |w(a)|^2` over it, and the weights by those that belong to it, which costs as
    much as a step of SGD. Batches are an order of visits here: where they end, and what factors
    they have, does not matter.

    Attributes
    ----------
    problem : Problem
    squares : ndarray of shape (n,)
        Squared norms of the rows.
    watch : bool, default=False
        Whether to record the mean loss that an epoch meets.
    """

    problem: Problem
    squares: NDArray[np.float64]
    watch: bool = False
    _kept: list[_Resting] = field(
        default_factory=list, init=False, repr=False
    )  # at most one; a cache, no state

    def init(self, coef: Any = None, intercept: float = 0.0) -> SgdState:
        """State before a visit: dual variables zero, or minus the weighted slopes at ``coef``, and the weights that go with them."""
        if check_number(intercept, "intercept_init") != 0.0:
            raise ValueError(
                f'solver="sdca" has no intercept, so intercept_init must be 0; got {intercept!r}'
            )
        weights = check_coef(coef, self.problem.d, "coef_init")
        duals = -self.problem.slopes(weights)
        if (
            not weights.any()
        ):  # rows of zeros have their optimum there, the others a better start at zero
            duals[self.squares > 0.0] = 0.0
        return SgdState(self._weights(duals), 0.0, None, 0.0, 0.0, 0, 0, 0, memory=duals)

    def take_up(self, state: SgdState) -> SgdState:
        """State of an earlier run, made to fit this one: with dual variables that are allowed here, and the weights that go with them."""
        is_dual = state.memory is not None and state.is_dual and len(state.memory) == self.problem.n
        duals = (
            self._allowed(state.memory)
            if is_dual and state.memory is not None
            else -self.problem.slopes(state.coef)
        )
        coef, kept = self._weights(duals), state.coef.astype(self.problem.X.dtype)
        # a run that goes on gives the bits of one that was never interrupted: its weights differ
        # from the sum by rounding only
        near = float(np.finfo(coef.dtype).eps) ** 0.5 * max(
            float(np.abs(coef).max()), float(np.finfo(coef.dtype).tiny)
        )
        same = is_dual and bool((np.abs(coef - kept) <= near).all())
        empty: dict[str, Any] = {
            "intercept": 0.0,
            "average": None,
            "average_intercept": 0.0,
            "average_weight": 0.0,
        }
        return state._replace(
            coef=kept if same else coef, memory=duals, mean=None, received=None, **empty
        )

    def epoch(self, state: SgdState, batches: Batches, schedule: Schedule) -> SgdState:  # noqa: ARG002  # there is no step size
        """State after a visit of each of the rows, in the order of the batches."""
        state = state if state.memory is not None else self.take_up(state)
        assert state.memory is not None
        coef, duals = state.coef.copy(), state.memory.copy()
        resting = self._rest(state.memory, coef)
        visits, gone, least = len(batches.rows), 0.0, 0.0
        if len(resting.limits):
            apart = coef.astype(np.float64) - resting.reference
            least = _ROUNDING * float(np.finfo(coef.dtype).eps) * float(coef @ coef)
            gone = max(least, float(apart @ apart))
        rule = DualRule(self.problem.loss.code, self._share, self.watch, gone, least)
        model = DualModel(coef, duals, resting.signed, resting.limits)
        met, seen, moved = _run_kernel(self.problem, batches.rows, self.squares, rule, model)
        if (
            moved <= _FEW * visits
            and not self.watch
            and self.problem.loss.code in (HINGE, SQUARED_HINGE)
        ):
            self._kept[:] = [resting._replace(duals=duals, wasted=resting.wasted + seen - moved)]
        return state._replace(
            coef=coef,
            epochs=state.epochs + 1,
            steps=state.steps + visits,
            samples=state.samples + visits,
            loss=met / visits if self.watch else np.nan,
            order=None,
            memory=duals,
        )

    def _rest(self, duals: NDArray[np.float64], coef: NDArray[Any]) -> _Resting:
        """What is known of the rows that rest, from a new reference if the old one has served its time."""
        nothing = np.empty(0)
        try:
            kept = self._kept.pop()
        except IndexError:
            kept = None
        if kept is None or kept.duals is not duals:
            return _Resting(duals, nothing, nothing, nothing, self.problem.n)
        if kept.wasted <= _WASTE * self.problem.n:
            return kept
        from antithetic._core.sdca_dense import rest_limits

        code, rows = (
            self.problem.loss.code,
            _dual_rows(self.problem, np.empty(0, np.intp), self.squares),
        )
        signed, limits = rest_limits(code, rows, duals, self.problem.predictions(coef))
        return _Resting(duals, coef.copy(), signed, limits, 0)

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
        """Dual variables, brought back to where the conjugate is finite: an earlier run may have had other labels and weights."""
        code, y = self.problem.loss.code, self.problem.y
        weight = np.ones(self.problem.n) if self.problem.weight is None else self.problem.weight
        if code == SQUARED_ERROR:
            return np.where(weight > 0.0, duals, 0.0)
        most = np.where(weight > 0.0, np.inf, 0.0) if code == SQUARED_HINGE else weight
        return y * np.clip(y * duals, 0.0, most)


def make_sdca(problem: Problem, *, watch: bool = False) -> Sdca:
    """Return SDCA on a problem, or say what it needs that the problem has not.

    Raises
    ------
    ValueError
        If the problem has a loss other than the four that SDCA knows, an intercept, an L1 penalty
        or no L2 penalty, or rows so long that their squares overflow. The message says what to use
        instead.

    Examples
    --------
    >>> from antithetic.problem import Problem
    >>> problem = Problem.build([[1.0], [-2.0]], [1, -1], loss="hinge", l2=0.1)
    >>> make_sdca(problem).init().memory
    array([0., 0.])
    """
    loss, penalty = problem.loss, problem.penalty
    if not has_dual_step(loss.code):
        known = ", ".join(
            f'"{name}"' for name, other in LOSSES.items() if has_dual_step(other.code)
        )
        raise ValueError(
            f'solver="sdca" knows the losses {known}; got "{loss.name}": use'
            f' solver="{_instead(problem)}"'
        )
    if problem.fit_intercept:
        raise ValueError(
            'solver="sdca" has no intercept that is not penalised: use fit_intercept=False, or add'
            f' a column of ones, or solver="{_instead(problem)}"'
        )
    if not isinstance(penalty, ElasticNet) or penalty.l1 > 0.0:
        raise ValueError(
            f'solver="sdca" takes an L2 penalty alone; use l1=0, or solver="{_instead(problem)}"'
        )
    if penalty.l2 == 0.0:
        raise ValueError(f'solver="sdca" needs l2 above 0; use "{_instead(problem)}"')
    squares = squared_norms(problem)
    heaviest = 1.0 if problem.weight is None else max(1.0, float(problem.weight.max()))
    with np.errstate(over="ignore"):
        longest = float(np.max(squares, initial=0.0)) / (penalty.l2 * problem.n) * heaviest * 4.0
    if not np.isfinite(longest):
        raise ValueError(
            'solver="sdca": the squared norm of a row, divided by l2 * n, overflows; scale the'
            " rows, or use a larger l2"
        )
    return Sdca(problem, squares, watch)


def _instead(problem: Problem) -> str:
    """Solver to use where SDCA cannot be: SAGA needs slopes that change smoothly."""
    return "saga" if np.isfinite(problem.loss.curvature) else "sgd"


def _run_kernel(
    problem: Problem,
    order: NDArray[np.intp],
    squares: NDArray[np.float64],
    rule: DualRule,
    model: DualModel,
) -> tuple[float, int, int]:
    """Visit the rows.

    Return the sum of the losses met, and how many rows were looked at and how many moved.
    """
    from antithetic._core.jit import read_only, unsigned

    rows = _dual_rows(problem, order, squares)
    if sparse.issparse(problem.X):
        from antithetic._core.sdca_csr import csr_dual_epoch

        X = problem.X
        entries = Entries(
            read_only(X.data), unsigned(read_only(X.indices)), unsigned(read_only(X.indptr))
        )
        return csr_dual_epoch(entries, rows, rule, model)
    from antithetic._core.sdca_dense import dense_dual_epoch

    return dense_dual_epoch(read_only(problem.X), rows, rule, model)


def _dual_rows(problem: Problem, order: NDArray[np.intp], squares: NDArray[np.float64]) -> DualRows:
    from antithetic._core.jit import read_only, unsigned

    weight = np.empty(0) if problem.weight is None else problem.weight
    columns = (read_only(np.ascontiguousarray(column)) for column in (problem.y, weight, squares))
    return DualRows(unsigned(read_only(np.ascontiguousarray(order))), *columns)
