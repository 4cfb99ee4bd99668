"""Arguments of the SGD kernels: named tuples of arrays and numbers, which numba accepts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class DenseRows(NamedTuple):
    """Rows (n, d), labels and weights (n,), all of one float type; no weights have length 0."""

    X: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[Any]


class CsrRows(NamedTuple):
    """Entries, their features and where each row begins, then labels and weights as for dense rows.

    Indices are unsigned.
    """

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[Any]


class Epoch(NamedTuple):
    """The batches of one epoch, and how many steps and samples came before it.

    Row numbers are unsigned. Without factors, ``factors`` has length 0.
    """

    rows: NDArray[Any]
    starts: NDArray[Any]
    size: int
    factors: NDArray[np.float64]
    steps: int
    samples: int


class Balance(NamedTuple):
    """What a balanced order needs: the unit size, the next epoch's rows, and the signed sum.

    The kernel writes the rows of the next epoch.

    ``signed`` (d + 1,), zero at first, has the intercept's part last. Where the order is not
    balanced, ``unit`` is 0 and all are empty.
    """

    unit: int
    following: NDArray[Any]
    signed: NDArray[Any]


class Rule(NamedTuple):
    """How a step is made: loss, penalty, schedule, and what is averaged.

    ``average_from`` is the number of samples after which averaging begins, 0 for none; with
    ``linear``, step t has weight t. Of the weights after each step, those of every
    ``average_every``-th are averaged. Slopes beyond ``steepest`` are cut off; with ``watch``, the
    losses that are met on the way are added up.
    """

    loss: int
    epsilon: float
    l2: float
    l1: float
    schedule: int
    eta0: float
    rate: float
    start: float
    fit_intercept: bool
    average_from: int
    linear: bool
    average_every: int
    steepest: float
    watch: bool


class Model(NamedTuple):
    """Arrays that a kernel changes.

    Weights, intercept (1,), their averages in float64, the weight these have so far (1,), the sum
    of the losses met (1,), and, where there is an L1 penalty, what each weight has received of it
    and what all were charged with (1,), see ``cumulative_threshold``.
    """

    coef: NDArray[Any]
    intercept: NDArray[np.float64]
    average: NDArray[np.float64]
    average_intercept: NDArray[np.float64]
    average_weight: NDArray[np.float64]
    met: NDArray[np.float64]
    received: NDArray[np.float64]
    charged: NDArray[np.float64]


class Memory(NamedTuple):
    """What corrects a step: remembered slopes (n,) and their mean gradient (d + 1,).

    Slopes are float64. The mean gradient has the float type of the rows, and the intercept last.

    With ``keeps`` a step renews what it has used (SAGA). Slopes of length 0 mean that nothing is
    corrected.
    """

    slopes: NDArray[np.float64]
    mean: NDArray[Any]
    keeps: bool


class Groups(NamedTuple):
    """Features of a group penalty.

    Those of group g are ``members[starts[g]:starts[g + 1]]``; feature j is in group ``owner[j]``.

    Features of no group come after the last one, as owner the number of groups. All are empty where
    there are no groups.
    """

    members: NDArray[Any]
    starts: NDArray[Any]
    owner: NDArray[Any]
