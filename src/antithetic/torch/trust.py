"""The test of the arms on the model: squared norms of batch gradients, compared within blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from antithetic.torch.data import to_numpy
from antithetic.torch.rounds import ARMS, IMPORTANCE, SHUFFLED
from antithetic.torch.shards import sum_over_processes

ON, OFF = 3.0, 1.0  # standard errors at which an arm is switched on, and off again
FEWEST, ENOUGH = 30, 400  # blocks before an arm is judged; blocks after which it is resolved
SMALL_SHARE = 0.05  # of the batches are spent on the test when all is resolved
_FADE = 0.5  # what counts are multiplied by from epoch to epoch
Numbers = NDArray[np.float64]
_SUMS = ("weight", "squares", "difference", "spread", "norm", "base", "batches")


@dataclass(frozen=True, slots=True)
class TrustReport:
    """What the test has measured for each arm; prints as a table.

    Attributes
    ----------
    arms : tuple of str
        The arms, shuffled batches first.
    batches : tuple of int
        Number of test batches of each arm.
    ratios : tuple of float
        Mean of :math:`|g_B|^2`, the squared norm of a batch's gradient (all parameters), divided
        by that of shuffled batches. Both include the squared norm of the full gradient, so the
        ratio of the variances is further from 1.
    errors : tuple of float
        Their standard errors.
    in_use : tuple of bool
        Whether the arm is used for the batches outside the test.
    left_out : int
        Batches that were left out because their gradients contained NaN or infinity.
    note : str
        A remark, if there is one.
    """

    arms: tuple[str, ...]
    batches: tuple[int, ...]
    ratios: tuple[float, ...]
    errors: tuple[float, ...]
    in_use: tuple[bool, ...]
    left_out: int = 0
    note: str = ""

    def __str__(self) -> str:
        lines = [f"{'arm':<12}{'batches':>9}{'ratio':>18}   in use"]
        for name, count, ratio, error, used in zip(
            self.arms, self.batches, self.ratios, self.errors, self.in_use, strict=True
        ):
            figure = "not measured" if np.isnan(ratio) else f"{ratio:.3f} ± {error:.3f}"
            lines.append(f"{name:<12}{count:>9}{figure:>18}   {'yes' if used else 'no'}")
        if self.left_out:
            lines.append(f"{self.left_out} batches left out: NaN or infinity in their gradients")
        return "\n".join([*lines, self.note] if self.note else lines)

    __repr__ = __str__


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What follows from the sums over blocks, for each arm.

    Attributes
    ----------
    blocks : ndarray
        How many blocks the faded sums are worth.
    ratios : ndarray
        Mean squared norms relative to shuffled batches; NaN where nothing was measured.
    errors : ndarray
        Standard errors of these.
    advantages : ndarray
        Mean differences from shuffled batches in standard errors; positive is better.
    """

    blocks: Numbers
    ratios: Numbers
    errors: Numbers
    advantages: Numbers

    @classmethod
    def of(cls, sums: Numbers) -> Figures:
        """Compute them."""
        weight, squares, total, spread, norm, base, _ = sums
        blocks = _quotient(weight**2, squares, 0.0)
        mean = _quotient(total, weight, 0.0)
        variance = np.maximum(_quotient(spread, weight, 0.0) - mean**2, 0.0)
        errors = np.sqrt(variance / np.maximum(blocks - 1.0, 1.0))
        return cls(
            blocks,
            _quotient(norm, base, np.nan),
            _quotient(errors * weight, base, np.nan),
            _quotient(mean, errors, 0.0),
        )


def _quotient(above: Numbers, below: Numbers, otherwise: float) -> Numbers:
    return np.divide(above, below, out=np.full_like(above, otherwise), where=below > 0.0)


class Trust:
    """Sums over the blocks of the test, and what follows from them.

    A block has one batch of each arm; the differences of their :math:`|g_B|^2` from that of the
    shuffled batch do not contain the square of the full gradient, which is the same for all. They
    are divided by the mean of the blocks before, since gradients shrink in the course of training.
    """

    def __init__(self) -> None:
        self.sums = np.zeros((len(_SUMS), len(ARMS)))
        self.fresh = np.zeros_like(self.sums)  # not yet shared among the processes
        self.on = np.zeros(len(ARMS), dtype=np.bool_)
        self.settled = np.zeros(len(ARMS), dtype=np.bool_)  # arms that need no more than 5 %
        self._used = False  # whether an arm was in use
        self.scale = 0.0
        self._open: dict[tuple[int, int], dict[int, float]] = {}

    def begin_epoch(self) -> None:
        """Let old counts fade."""
        fade = np.array([_FADE, _FADE**2, _FADE, _FADE, _FADE, _FADE, 1.0])
        self.sums *= fade[:, None]

    def add(self, place: tuple[int, int], arm: int, width: int, square: float) -> None:
        """Take in the squared norm of one batch of a block that has so many."""
        values = self._open.setdefault(place, {})
        values[arm] = square
        if len(values) < width:
            return
        del self._open[place]
        found = values.values()
        if all(math.isfinite(value) for value in found) and any(found):
            self._add_block(values)

    def _add_block(self, values: dict[int, float]) -> None:
        mean = sum(values.values()) / len(values)
        scale = self.scale or mean
        self.scale = 0.95 * scale + 0.05 * mean  # the next block is divided by it, not this one
        base = values[SHUFFLED] / scale
        norms = [value / scale for value in values.values()]
        # one row per arm, in the order of _SUMS
        self.fresh[:, list(values)] += np.array(
            [(1.0, 1.0, base - norm, (base - norm) ** 2, norm, base, 1.0) for norm in norms]
        ).T

    def forget(self) -> None:
        """Give up blocks that are not complete."""
        self._open.clear()

    def decide(self, processes: int) -> None:
        """Add what the processes have found, and switch arms on and off."""
        self.sums += sum_over_processes(self.fresh) if processes > 1 else self.fresh
        self.fresh[:] = 0.0
        found = Figures.of(self.sums)
        better = (found.advantages >= ON) & (found.blocks >= FEWEST)
        self.on = np.where(self.on, found.advantages >= OFF, better)

    def choose(self, arms: Sequence[int]) -> tuple[int, float]:
        """Return the arm to use, among those available, and the share of batches in the test."""
        found = Figures.of(self.sums)
        ready = [arm for arm in arms if self.on[arm]]
        main = min(ready, key=lambda arm: float(found.ratios[arm]), default=SHUFFLED)
        best = found.ratios[main] if ready else 1.0
        # an arm that was not measured has NaN, and compares as one that may be better
        hopeless = found.ratios - ON * found.errors > best
        self.settled |= self.on | (found.blocks >= ENOUGH) | (hopeless & (found.blocks >= FEWEST))
        if not ready and self._used:  # what was found before holds no more
            self.settled[:] = False
        self._used = bool(ready)
        waiting = [arm for arm in arms if arm != SHUFFLED and not self.settled[arm]]
        return main, SMALL_SHARE if not waiting else 0.5 if ready else 1.0

    def report(self, arms: Sequence[int], main: int, left_out: int) -> TrustReport:
        """Put the figures of some arms together, shuffled batches first."""
        sums = self.sums + self.fresh
        found, note = Figures.of(sums), ""
        if IMPORTANCE in arms and not sums[-1, IMPORTANCE]:
            note = (
                "importance has not been tested yet: its test begins in the second observed epoch,"
                " provided that every loss goes through batch_loss"
            )
        return TrustReport(
            tuple(ARMS[arm] for arm in arms),
            tuple(int(sums[-1, arm]) for arm in arms),
            tuple(float(found.ratios[arm]) for arm in arms),
            tuple(float(found.errors[arm]) for arm in arms),
            tuple(arm == main for arm in arms),
            left_out,
            note,
        )

    def state(self) -> dict[str, Any]:
        """Numbers and tensors, with the blocks that are not complete."""
        open_blocks = [
            [*place, arm, square]
            for place, values in self._open.items()
            for arm, square in values.items()
        ]
        return {
            "sums": torch.from_numpy(self.sums.copy()),
            "fresh": torch.from_numpy(self.fresh.copy()),
            "on": torch.from_numpy(self.on.copy()),
            "settled": torch.from_numpy(self.settled.copy()),
            "used": self._used,
            "scale": self.scale,
            "open": torch.tensor(open_blocks, dtype=torch.float64).reshape(-1, 4),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take over a state, as a copy."""
        for name in ("sums", "fresh", "on", "settled"):
            found = to_numpy(state[name], name)
            if found.shape != getattr(self, name).shape:
                raise ValueError(f"the state's {name} of the test has shape {found.shape}")
            setattr(self, name, found.copy())
        self.scale, self._used = float(state["scale"]), bool(state["used"])
        self._open = {}
        for epoch, block, arm, square in to_numpy(state["open"], "open").tolist():
            self._open.setdefault((int(epoch), int(block)), {})[int(arm)] = square
