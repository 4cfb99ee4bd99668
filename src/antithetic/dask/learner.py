"""The beginning of every fit on a cluster: blocks, a first look at them, and their labels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from antithetic.dask.block_table import BlockTable
from antithetic.dask.blocks import Blocks
from antithetic.dask.mark import mark_settings
from antithetic.dask.scan import Glance

# parameters that may differ between a checkpoint and the fit that resumes from it
_NOT_OF_THE_PROBLEM = ("client", "checkpoint", "verbose", "max_iter", "random_state", "trace")


@dataclass(frozen=True, slots=True, eq=False)
class BlockData:
    """What is known of a collection before the first round.

    Attributes
    ----------
    blocks : Blocks
    glances : list of Glance
        What was seen of each block.
    table : BlockTable or None
        The table that was passed to ``fit``.
    """

    blocks: Blocks
    glances: list[Glance]
    table: BlockTable | None = None

    @property
    def rows(self) -> int:
        """Rows of all blocks."""
        return sum(one.rows for one in self.glances)

    @property
    def real(self) -> np.dtype[Any]:
        """Float type of the rows."""
        return np.dtype(next(one.kind for one in self.glances if one.rows).split()[0])


class BlockLearner:
    """What estimators of blocks share: features and labels from a first look, and checkpoints."""

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

    def _settings(self, **changes: Any) -> dict[str, str]:
        """Parameters that a fit depends on, as text."""
        given = self.get_params(deep=False) | changes  # type: ignore[attr-defined]
        return mark_settings(
            {name: value for name, value in given.items() if name not in _NOT_OF_THE_PROBLEM}
        )

    def _after_loss(self) -> str:
        """What to do after the cluster was lost."""
        path: Any = self.checkpoint  # type: ignore[attr-defined]
        if path is None:
            return "fit again; with checkpoint='fit.npz', fit would resume after the last iteration"
        return f"fit again with client= set to it: the fit resumes from {os.fspath(path)!r}"


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
