"""What the user says of draws by importance and from strata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from antithetic.orders.importance import IMPORTANCES
from antithetic.orders.strata import ALLOCATIONS


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """How units are drawn by importance or from strata.

    Attributes
    ----------
    importance : {"bounds", "gradients"} or array-like of shape (units,)
        What the probabilities are in proportion to.
    strata : array-like of shape (n,) or None
        Labels of the rows.
    n_strata : int or None
        Or so many cells.
    allocation : {"proportional", "optimal"}
        How many units of a batch a stratum gives.
    corrected : bool
        Whether the solver corrects gradients, so that what counts is how fast these change.
    """

    importance: Any = "bounds"
    strata: Any = None
    n_strata: int | None = None
    allocation: str = "proportional"
    corrected: bool = False

    def check(self, sampling: Any) -> None:
        """Raise ValueError for words that are not known, and for strata where none are drawn from."""
        if isinstance(self.importance, str) and self.importance not in IMPORTANCES:
            raise ValueError(
                f"importance {self.importance!r} is not known; use one of {', '.join(IMPORTANCES)},"
                " or one number per unit"
            )
        if self.allocation not in ALLOCATIONS:
            raise ValueError(
                f"allocation {self.allocation!r} is not known; use one of {', '.join(ALLOCATIONS)}"
            )
        if sampling != "stratified" and not (self.strata is None and self.n_strata is None):
            raise ValueError(
                f'strata= and n_strata= belong to sampling="stratified"; got sampling={sampling!r}'
            )

    def follow(self, sampling: Any) -> bool:
        """Whether the draws of an epoch depend on the gradients before it."""
        if sampling == "importance":
            return isinstance(self.importance, str) and self.importance == "gradients"
        return sampling == "stratified" and self.allocation == "optimal"
