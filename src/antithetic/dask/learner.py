"""A fit on a cluster: a first look at the blocks, Newton's method, and attributes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from antithetic._util.threads import limit_blas
from antithetic._util.warnings import warn
from antithetic.dask.blocks import Blocks
from antithetic.dask.checkpoint import load, mark_data, save
from antithetic.dask.class_sums import ClassBlockSums
from antithetic.dask.cluster import ClusterLostError, client_of
from antithetic.dask.common import Common
from antithetic.dask.moments import Census
from antithetic.dask.newton import HISTORY, First, Reached, iterate_over
from antithetic.dask.reading import read_blocks
from antithetic.dask.scan import Glance, Look, census_of, look
from antithetic.dask.sums import BlockSums
from antithetic.estimators.exact_fit import judgement_of, seed_of
from antithetic.estimators.linear import LinearEstimator
from antithetic.exact.path import LEAST_TOL, Solved
from antithetic.problem.losses import Loss


@dataclass(frozen=True, slots=True, eq=False)
class BlockData:
    """What is known of a collection before the first round.

    Attributes
    ----------
    blocks : Blocks
    glances : list of Glance
        What was seen of each block.
    census : Census
        The same of all rows.
    """

    blocks: Blocks
    glances: list[Glance]
    census: Census

    @property
    def rows(self) -> int:
        """Rows of all blocks."""
        return sum(one.rows for one in self.glances)

    @property
    def real(self) -> np.dtype[Any]:
        """Float type of the rows."""
        return np.dtype(next(one.kind for one in self.glances if one.rows).split()[0])


class BlockLearner(LinearEstimator):
    """A fit by Newton's method; the classes that inherit from it say of which problem."""

    def _learn_labels(self, glances: list[Glance]) -> None:
        """Set the attributes that describe the labels."""
        raise NotImplementedError

    def _learn(self, blocks: Blocks, glances: list[Glance]) -> None:
        """Set the attributes of features and labels after checking that the blocks agree."""
        _check_alike(glances)
        self._learn_labels(glances)
        self.n_features_in_ = glances[0].width
        self.__dict__.pop("feature_names_in_", None)
        if blocks.names is not None:
            self.feature_names_in_ = blocks.names

    def _after_loss(self) -> str:
        """What to do after the cluster was lost."""
        path: Any = self.checkpoint
        if path is None:
            return "fit again; with checkpoint='fit.npz', fit would resume from the last iteration"
        return f"fit again with client= set to it: the fit resumes from {os.fspath(path)!r}"

    def _start(self) -> First | None:
        """Return the weights to start from; None to start from samples."""
        raise NotImplementedError

    def _as_attributes(self, fit: Solved, real: np.dtype[Any]) -> dict[str, Any]:
        """Return the weights and the number of iterations in the form of the attributes."""
        raise NotImplementedError

    def _fit_blocks(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        loss: Loss,
        common: Callable[[Census], Common],
    ) -> tuple[Solved, BlockData]:
        """Look at the blocks, fit the model to them, and set the attributes.

        ``common`` returns the problem, once the rows are counted.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} needs labels: y is None")
        with self._unchanged_on_errors(), client_of(self.client) as client:
            blocks = read_blocks(X, y, sample_weight, client=client)
            aim = Look(loss, marks=self.checkpoint is not None)
            glances = look(client, blocks, aim, after_loss=self._after_loss())
            self._learn(blocks, glances)
            census = census_of(glances, getattr(self, "classes_", None), loss)
            seen = BlockData(blocks, glances, census)
            problem = common(census)
            kind = ClassBlockSums if problem.is_classed else BlockSums
            seed = seed_of(getattr(self, "random_state", None))
            about = (client, blocks, problem, census, 0, self._after_loss())
            return self._run(kind(*about), seen, seed), seen

    def _most_iterations(self) -> int:
        return int(self.max_iter)

    def _run(self, sums: BlockSums | ClassBlockSums, seen: BlockData, seed: int) -> Solved:
        """Fit and keep the result; on errors, keep the last complete iteration."""
        tol, most = max(float(self.tol), LEAST_TOL), self._most_iterations()
        path = self.checkpoint if most else None  # without iterations, there is nothing to resume
        mark = mark_data(type(self).__name__, seen.glances)
        rows = sums.classes if isinstance(sums, ClassBlockSums) else 1
        start = load(path, mark, self.n_features_in_, rows) or self._start()
        reached: Reached | None = None
        began = time.perf_counter()
        if self.verbose:
            print(f"{type(self).__name__}: {len(seen.blocks)} blocks of {seen.rows} rows in all")
        try:
            # very large rows end by rounding; matrix products here are those of one thread
            with np.errstate(over="ignore", invalid="ignore"), limit_blas(1):
                for reached in iterate_over(sums, tol, most, seed, start):
                    save(path, mark, _weights(reached.fit))
                    if self.verbose:
                        _print_round(reached, time.perf_counter() - began)
        except (KeyboardInterrupt, ClusterLostError):
            if reached is not None:
                self._adopt(reached, seen)
            raise
        assert reached is not None
        return self._adopt(reached, seen)

    def _adopt(self, reached: Reached, seen: BlockData) -> Solved:
        """Set the attributes to those of a fit."""
        fit = reached.fit
        table = np.array(reached.history).reshape(-1, len(HISTORY))
        history = {name: table[:, place] for place, name in enumerate(HISTORY)}
        attributes = {
            "n_rounds_": reached.rounds,
            "history_": {"epoch": np.arange(1, len(table) + 1), **history},
            **judgement_of(fit, 1),
        }
        self.__dict__.update(attributes | self._as_attributes(fit, seen.real))
        return fit

    def _warn_if_short(self, fit: Solved) -> None:
        """Warn if the gap is above the tolerance."""
        if not fit.is_short_of(float(self.tol)):
            return
        by, advice = f"max_iter={self._most_iterations()}", "Increase max_iter"
        if fit.ended == "rounding":
            by = "rounding"
            advice = "Increase tol, or scale columns that are far from zero or very large"
        warn(
            f"{by} ended the fit: the gap to the optimum is {fit.gap:.1e}, above"
            f" tol={self.tol:g}. {advice}.",
            ConvergenceWarning,
        )


def _print_round(reached: Reached, seconds: float) -> None:
    text = f"round {reached.rounds}: {seconds:.2f} s, objective {reached.objective:.10g}"
    print(text, flush=True)


def _weights(fit: Solved) -> First:
    """Weights and intercepts; with two classes, one row and one number."""
    return (fit.coef, fit.intercept) if len(fit.coef) > 1 else (fit.coef[0], fit.intercept[0])


def _check_alike(glances: list[Glance]) -> None:
    """Raise ValueError if blocks differ, or if there is nothing to learn from."""
    first = glances[0].width if glances else 0
    other = next((k for k, one in enumerate(glances) if one.width != first), None)
    if other is not None:
        raise ValueError(
            f"the blocks of X differ in their number of features: block 0 has {first}, and block"
            f" {other} has {glances[other].width}"
        )
    if first == 0:
        raise ValueError("X has no features")
    if not any(one.rows for one in glances):
        raise ValueError("X has no rows: all its blocks are empty")
    kinds = {one.kind: k for k, one in reversed(list(enumerate(glances))) if one.rows}
    if len(kinds) > 1:
        named = ", ".join(f"block {k} is {kind}" for kind, k in sorted(kinds.items()))
        raise ValueError(
            f"the blocks of X must all be dense or all sparse, with one float type: {named}"
        )
    if not any(one.weighted > 0.0 for one in glances):
        raise ValueError("sample_weight is zero for every row; at least one must be positive")
