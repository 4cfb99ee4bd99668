"""What ``antithetic train`` does with a fitted estimator, on one machine or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from antithetic._cli import console
from antithetic._cli.held_out import HeldOut
from antithetic._util.versions import package_version
from antithetic.estimators.exact_fit import NewtonPlan
from antithetic.estimators.model_file import LinearModel
from antithetic.orders.order import name_order
from antithetic.problem.losses import LOSSES


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A fitted estimator, and how it was trained.

    Attributes
    ----------
    estimator : estimator
    chosen : dict
        The parameters that it was given.
    rows : int
    seconds : float
        Time of the fit.
    score : float
        R2, D2 or accuracy on the rows of the fit.
    held_out : HeldOut or None
        Scores on rows that a second fit did not see.
    """

    estimator: Any
    chosen: dict[str, Any]
    rows: int
    seconds: float
    score: float
    held_out: HeldOut | None = None

    @property
    def epochs(self) -> int:
        """Epochs, or iterations over all rows."""
        return int(np.max(self.estimator.n_iter_))

    @property
    def score_name(self) -> str:
        """What the score is."""
        if hasattr(self.estimator, "classes_"):
            return "accuracy"
        return "R2" if self.chosen["loss"] in LOSSES else "D2"

    def save(self, model: Path, *, table: str | None, **features: Any) -> None:
        """Write the model with its settings; ``features`` is what it must know of the columns."""
        about = {
            "antithetic": package_version(),
            "rows": self.rows,
            "epochs": self.epochs,
            "table": table,
        }
        LinearModel.of(self.estimator, settings=self.chosen | about, **features).save(model)

    @property
    def is_exact(self) -> bool:
        """Whether the estimator is one of the exact ones, whose gap is relative."""
        return isinstance(self.estimator.plan_, NewtonPlan)

    def show(self, heading: str, notes: Sequence[str], *, model: Path) -> None:
        """Print what was done, for people."""
        passes = "iterations" if self.is_exact else "epochs"
        console.say(heading, "bold")
        for note in notes:
            console.say(note)
        console.say(
            f"{self.chosen['loss']}, {self.epochs} {passes} in {self.seconds:.2f} s;"
            f" {self.score_name} on all {self.rows} training rows {self.score:.4f}"
        )
        gap = float(np.max(getattr(self.estimator, "gap_", np.nan)))
        if self.is_exact:
            bound = "at most" if self.estimator.gap_certified_ else "about"
            console.say(f"the gap to the optimum is {bound} {gap:.1e} of what features gain")
        elif np.isfinite(gap):
            console.say(f"the gap to the optimum is about {gap:.1e} of what features gain")
        if self.held_out is not None:
            found = self.held_out
            console.say(
                f"{self.score_name} on {found.rows} held-out rows {found.score:.4f}; a constant"
                f" prediction has {found.constant:.4f}"
            )
        console.say(f"why: {self.estimator.plan_.why}", "dim")
        console.say(f"model written to {console.plain(model)}")

    def summary(self, model: Path) -> dict[str, Any]:
        """What ``--json`` prints."""
        plan = self.estimator.plan_
        if self.is_exact:
            about: dict[str, Any] = {"method": plan.method, "samples": list(plan.samples)}
        else:
            pairs = plan.order.pairs
            about = {
                "order": name_order(plan.order),
                "pairs": None if pairs is None else pairs.name,
                "batch_size": plan.batch_size,
            }
        return {
            "model": model,
            "seconds": self.seconds,
            self.score_name.lower(): self.score,
            "validation": None if self.held_out is None else asdict(self.held_out),
            "epochs": self.epochs,
            "settings": self.chosen,
            "plan": {**about, "why": plan.why},
        }
