"""Which table a run has, what is drawn from it, and when it is made anew from the gradients of the moment."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_count
from antithetic.orders import (
    ONCE_PER_EPOCH,
    Batches,
    Draws,
    Sampler,
    Units,
    allocate,
    make_sampler,
    make_strata,
    unit_probabilities,
)
from antithetic.orders.batches import cut
from antithetic.orders.importance import PRIOR_SHARE
from antithetic.pairing import AntitheticTable, GroupTable, pair
from antithetic.pairing._pair import METHODS, Method, pair_slopes
from antithetic.pairing.table import matched, pair_ratio
from antithetic.problem import Problem
from antithetic.problem.smoothness import row_squares, squared_norms
from antithetic.solvers import SgdState, Solver, safe_step
from antithetic.solvers.steps import Schedule

_MOST_ROWS_STEP_BY_STEP = 2000
_WORTH_KEEPING = 0.7  # share of the reduction it had when it was made that a table must still have
Table = AntitheticTable | GroupTable


@dataclass(slots=True, eq=False)
class Tables:
    """The tables of one run.

    Attributes
    ----------
    problem : Problem
    y : array-like
        The labels as given, which the table's fingerprint is of.
    pairing : str, callable, AntitheticTable, GroupTable or None
        How tables are made, or the first one.
    sampling : str or callable
    batch_size : int
    seed : int
    nest : int, True or None
        Groups of a power of two, or an order to the top.
    refresh : int, collection of int, "auto" or None
        Epochs before which the table is made anew: every so many, these, or those where it pays.
    table : AntitheticTable, GroupTable or None
        The present one.
    draws : Draws
    """

    problem: Problem
    y: Any
    pairing: Method | Table | None
    sampling: str | Callable[[int], Any]
    batch_size: int
    seed: int
    nest: int | bool | None = None
    refresh: int | Collection[int] | str | None = None
    table: Table | None = None
    draws: Draws = field(default_factory=Draws)
    _strata: NDArray[np.intp] | None = field(default=None, init=False)
    _squares: NDArray[np.float64] | None = field(default=None, init=False)
    _made_at: float = field(default=1.0, init=False)
    _n_made: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.table is None:
            self.table = self._make(None)

    def sampler(self, state: SgdState | None = None) -> Sampler:
        """Return what draws from the present table.

        Where draws follow gradients, those at a state.
        """
        to_the_top = isinstance(self.nest, bool) and self.nest
        chances = self.chances(None if state is None else self.followed(state))
        return make_sampler(
            self.sampling,
            self.problem.n,
            self.batch_size,
            self.seed,
            self.table,
            to_the_top=to_the_top,
            **chances,
        )

    def renew(self, state: SgdState) -> Sampler | None:
        """Make the table anew if it is time to.

        Return what draws from it, or None where nothing changed.
        """
        if (
            self.table is not None
            and self.refresh not in (None, "step")
            and state.epochs > 0
            and self._is_due(state)
        ):
            self.table = self._make(state)
            return self.sampler(state)
        return self.sampler(state) if self.draws.follow(self.sampling) else None

    def followed(self, state: SgdState) -> NDArray[np.float64]:
        """Slopes of the gradients that the solver steps along at a state: less what it remembers of each row, if it does."""
        slopes = self.problem.slopes(state.coef, state.intercept)
        if state.memory is None or len(state.memory) != len(slopes):
            return slopes
        return (
            slopes + state.memory if state.is_dual else slopes - state.memory
        )  # dual variables are slopes with a minus

    def chances(self, slopes: NDArray[np.float64] | None = None) -> dict[str, Any]:
        """Return what a sampler is to be given besides the table: probabilities, or strata and the units of a batch that each gives."""
        draws = self.draws
        if self.sampling == "importance":
            if self._squares is None:
                self._squares = squared_norms(self.problem)
            chances = unit_probabilities(
                self.problem,
                self.table,
                draws.importance,
                slopes,
                smooth=draws.corrected,
                squares=self._squares,
            )
            return {"probabilities": chances}
        if self.sampling != "stratified":
            return {}
        if (
            self._strata is None
            # from signed rows, whatever the state, so that a run that is looked at or resumed has the
            # same
        ):
            self._strata = make_strata(
                self.problem,
                self.table,
                draws.strata,
                draws.n_strata,
                None,
                self.seed,
                batch_size=self.batch_size,
            )
        n_units = Units.of_table(self.problem.n, self.table).in_batch(self.batch_size)
        return {
            "strata": self._strata,
            "counts": allocate(
                self.problem, self.table, self._strata, n_units, draws.allocation, slopes
            ),
        }

    def safe_step(self, solver: str) -> float:
        """Constant step size of SVRG and SAGA.

        Members of a pair or group may lie on one line: their gradients cancel, but their curvatures
        add up. So a unit counts as one row.
        """
        together = (
            1
            if self.table is None
            else 2
            if isinstance(self.table, AntitheticTable)
            else self.table.size
        )
        return safe_step(
            self.problem, max(1, self.batch_size // together), self._drawn_squares(), solver
        )

    def _drawn_squares(self) -> NDArray[np.float64]:
        """Weighted squares of rows or units, each times the largest factor that its draw can give it."""
        squares = row_squares(self.problem)
        if self.sampling not in ("importance", "stratified"):
            return squares
        units = Units.of_table(self.problem.n, self.table)
        means = units.means(squares)
        if self.sampling == "importance":
            if self.draws.follow(
                self.sampling
            ):  # at most so much more variance than with uniform draws
                return means / (1.0 - PRIOR_SHARE)
            factors = np.divide(
                units.prior,
                self.chances()["probabilities"],
                out=np.zeros(len(units)),
                where=means > 0.0,
            )
        else:
            strata, counts = self.chances().values()
            least = np.ones_like(counts) if self.draws.follow(self.sampling) else counts
            factors = (np.bincount(strata, weights=units.prior) * counts.sum() / least)[strata]
        drawn: NDArray[np.float64] = means * factors
        return drawn

    def made_from(self, state: SgdState) -> AntitheticTable:
        """Return a table made from the gradients at a state, whatever the one there is."""
        return cast("AntitheticTable", self._make(state))

    def _is_due(self, state: SgdState) -> bool:
        if self.refresh == "auto":
            return state.epochs == 1 or (
                self._made_at > 0.0 and self._reduction(state) < _WORTH_KEEPING * self._made_at
            )
        if isinstance(self.refresh, (int, np.integer)):
            return state.epochs % int(self.refresh) == 0
        return (
            not isinstance(self.refresh, str)
            and self.refresh is not None
            and state.epochs in self.refresh
        )  # a collection

    def _make(self, state: SgdState | None) -> Table | None:
        """Make a table from the signed rows, or from the gradients at a state.

        The first may have been given.
        """
        if self.pairing is None:
            return None
        if state is None and isinstance(self.pairing, (AntitheticTable, GroupTable)):
            found: Table = self.pairing
        else:
            method = self.pairing
            if isinstance(method, (AntitheticTable, GroupTable)):
                method = method.method if method.method in METHODS else "auto"
            found = self._pair_signed(method) if state is None else self._pair_at(state, method)
        if isinstance(found, AntitheticTable) and self.sampling in ONCE_PER_EPOCH:
            found = matched(found, self.problem, None if state is None else self._opposed(state))
        self.table, self._strata = found, None
        if state is not None and self.refresh == "auto":
            self._made_at = self._reduction(state)
        return found

    def _pair_signed(self, method: Method) -> Table:
        problem = self.problem
        return pair(
            problem.X,
            self.y,
            method,
            loss=problem.loss,
            fit_intercept=problem.fit_intercept,
            sample_weight=problem.weight,
            nest=self.nest,
            random_state=self.seed,
        )

    def _pair_at(self, state: SgdState, method: Method) -> Table:
        """Make a table from the gradients that the solver steps along, by polishing the present one where it has changed little."""
        polish = (
            state.epochs > 1
            and self.refresh != "step"
            and self.nest is None
            and state.memory is None
            and method in ("auto", "tree")
        )
        init = self.table if polish and isinstance(self.table, AntitheticTable) else None
        return pair_slopes(
            self.problem,
            self.y,
            self._opposed(state),
            method,
            init=init,
            nest=self.nest,
            random_state=self.seed,
        )

    def _opposed(self, state: SgdState) -> NDArray[np.float64]:
        """Slopes of the gradients that partners should oppose: those that are stepped along, unless all of them are zero."""
        followed = self.followed(state)
        return followed if followed.any() else self.problem.slopes(state.coef, state.intercept)

    def _reduction(self, state: SgdState) -> float:
        """By how much the pairs of the present table lower the variance at a state."""
        partner = (
            self.table.partner
            if isinstance(self.table, AntitheticTable)
            else _neighbours(self.table)
        )
        return 1.0 - pair_ratio(self.problem, self._opposed(state), partner)


def _neighbours(groups: GroupTable | None) -> Any:
    """Partners of the lowest level: rows that follow each other."""
    assert groups is not None
    rows = groups.order[: len(groups) // 2 * 2].reshape(-1, 2)
    partner = np.arange(len(groups))
    partner[rows] = rows[:, ::-1]
    return partner


def check_nest(nest: Any) -> int | bool | None:
    """Return a power of two, True or None."""
    if nest is None or nest is False:
        return None
    if nest is True:
        return True
    if check_count(nest, "nest", least=2) & (nest - 1):
        raise ValueError(f"nest must be a power of two, True (to the top) or None; got {nest!r}")
    return int(nest)


def check_refresh(refresh: Any) -> int | Collection[int] | str | None:
    """Return every how many epochs, which epochs, or a word."""
    if refresh is None or (isinstance(refresh, str) and refresh in ("auto", "step")):
        return refresh
    if isinstance(refresh, str):
        raise ValueError(
            f'refresh {refresh!r} is not known; use "auto", "step", a number of epochs, some'
            " epochs, or None"
        )
    if isinstance(refresh, (set, frozenset)) or np.ndim(refresh) == 1:
        return frozenset(check_count(epoch, "refresh", least=0) for epoch in refresh)
    return check_count(refresh, "refresh", least=1)


def refuse_nested_table(nest: Any, pairing: Any) -> None:
    """Groups are made by a method, which a table of pairs that was given is not."""
    if nest is not None and isinstance(pairing, AntitheticTable):
        raise ValueError(
            "nest= makes groups by a method, and a given table is one of pairs; name a method, or"
            " leave nest out"
        )


@dataclass(frozen=True, slots=True, eq=False)
class StepByStep:
    """Algorithm 2 to the letter: each step has a table of its own, made from the gradients of the moment.

    It takes the place of a solver; of the batches it is given, each first row of a pair is kept and
    its partner looked up anew.
    """

    solver: Solver
    tables: Tables

    @property
    def problem(self) -> Problem:
        """The solver's."""
        return self.solver.problem

    @property
    def watch(self) -> bool:
        """Not over a whole epoch."""
        return False

    def init(self, coef: Any = None, intercept: float = 0.0) -> SgdState:
        """State before the first step."""
        return self.solver.init(coef, intercept)

    def take_up(self, state: SgdState) -> SgdState:
        """State of an earlier run."""
        return self.solver.take_up(state)

    def epoch(self, state: SgdState, batches: Batches, schedule: Schedule) -> SgdState:
        """State after the batches of one more epoch."""
        epochs = state.epochs
        for rows in np.split(batches.rows, batches.starts[1:-1]):
            table = self.tables.made_from(state)
            drawn = rows.copy()
            drawn[1::2] = table.partner[drawn[: len(rows) // 2 * 2 : 2]]
            state = self.solver.epoch(state, cut(drawn, batches.size), schedule)
        return state._replace(epochs=epochs + 1)


def check_step_by_step(
    n: int, sampling: Any, solver: str, batch_size: int, nest: Any, tol: float | None, average: Any
) -> None:
    """Raise ValueError where the oracle cannot be had."""
    if (
        sampling != "uniform"
        or solver != "sgd"
        or nest is not None
        or batch_size < 2
        or tol is not None
        or average == "epoch"
    ):
        raise ValueError(
            'refresh="step" is Algorithm 2: it needs sampling="uniform", solver="sgd", batch_size'
            ' of at least 2, no nest=, and goes without tol= and average="epoch"'
        )
    if n > _MOST_ROWS_STEP_BY_STEP:
        raise ValueError(
            f'refresh="step" makes a table in every step, so at most {_MOST_ROWS_STEP_BY_STEP} rows'
            f' are allowed; X has {n}. Use refresh="auto" or some epochs instead'
        )
