"""The pair explorer: the paper's Figure 1 on real rows, with both algorithms at work.

Rows, gradients and decisions are shown in a plane; ``explorer.js`` draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.paper.experiments import Experiment
from antithetic.paper.measures import products
from antithetic.paper.workbench import PAPER, POINTS, Array, Workbench, objectives
from antithetic.stochastic.steps import InverseTime

MAX_ROWS = 1500
_FRAMES_WITH_GRADIENTS = 4
_NOTE = (
    "The rows, projected onto the plane of their first two principal components; the dashed line is"
    " where the decision boundary cuts that plane, if that is inside the picture. Both methods"
    " start at zero weights, with the same steps and the first seed."
)


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """A plane through ``centre`` with orthonormal ``axes``.

    Rows, gradients and decisions all have an image in it.

    Attributes
    ----------
    centre : ndarray of shape (d,)
    axes : ndarray of shape (2, d)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [4.0, 1.0, 1.0], [6.0, -1.0, 1.0]])
    >>> Plane.of(X).points(X).shape
    (4, 2)
    """

    centre: Array
    axes: Array

    @classmethod
    def of(cls, X: Any) -> Self:
        """Plane of the first two principal components.

        Of two features, the features themselves, and of one, that and a zero.
        """
        X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        d = X.shape[1]
        if d <= 2:
            return cls(np.zeros(d), np.eye(2, d))
        centre = X.mean(axis=0)
        _, vectors = np.linalg.eigh((X - centre).T @ (X - centre))
        axes = vectors[:, :-3:-1].T
        # Eigenvectors have no sign: choose one.
        signs = np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])
        return cls(centre, axes * signs[:, np.newaxis])

    def points(self, X: Any) -> Array:
        """Images of rows, (n, 2)."""
        return self.directions(X) - self.axes @ self.centre

    def directions(self, G: Any) -> Array:
        """Images of gradients, which have a direction and no place: (n, 2)."""
        return np.asarray(G @ self.axes.T, dtype=np.float64)

    def line(self, coef: Any, intercept: float = 0.0) -> tuple[float, float, float] | None:
        """Line ``a x + b y + c = 0`` in which ``<coef, x> + intercept = 0`` cuts the plane.

        Its normal (a, b) has length 1; None if there is no line.
        """
        line = np.array([*self.axes @ coef, coef @ self.centre + intercept], dtype=np.float64)
        with np.errstate(all="ignore"):
            line = line / np.hypot(line[0], line[1])
        return (line[0], line[1], line[2]) if np.isfinite(line).all() else None


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """A panel of the explorer: one method at each of the frames.

    Attributes
    ----------
    name : str
    boundaries : sequence of (a, b, c) or None
        The decision: the line ``a x + b y + c = 0`` with a normal of length 1; None if there is
        none.
    objective : array-like of shape (frames,)
    gradients : sequence of ndarray of shape (n, 2) or None
        Gradient of each row's loss in the plane. A frame with None shows those of the last frame
        that has some.
    product : sequence of ndarray of shape (n,) or None
        Inner product of each row's gradient with its partner's, in all features.
    """

    name: str
    boundaries: Sequence[tuple[float, float, float] | None]
    objective: Any
    gradients: Sequence[Array | None]
    product: Sequence[Array | None]


@dataclass(frozen=True, slots=True, eq=False)
class Explorer:
    """A data set in the plane, its antithetic table and its training.

    Attributes
    ----------
    name : str
    points : array-like of shape (n, 2)
    labels, partner : array-like of shape (n,)
        -1 and +1; a permutation.
    frames : sequence of float
        The epochs at which the methods are shown.
    methods : sequence of Training
    optimum : (a, b, c) or None
        The decision at the optimum.
    axis_labels : (str, str)
    note : str
        A sentence under the panels.
    """

    name: str
    points: Any
    labels: Any
    partner: Any
    frames: Sequence[float]
    methods: Sequence[Training]
    optimum: tuple[float, float, float] | None = None
    axis_labels: tuple[str, str] = ("first principal component", "second principal component")
    note: str = ""

    def payload(self) -> dict[str, Any]:
        """What the script reads: lists, strings, finite numbers and None, of ``MAX_ROWS`` rows."""
        partner = np.asarray(self.partner)
        rows = thin_rows(partner, MAX_ROWS)
        place = np.full(len(partner), -1)  # of a row among those drawn
        place[rows] = np.arange(len(rows))
        return {
            "name": self.name,
            "size": len(partner),
            "rows": rows.tolist(),
            "points": _numbers(np.asarray(self.points)[rows]),
            "labels": np.asarray(self.labels)[rows].tolist(),
            "partner": place[partner[rows]].tolist(),
            "partnerRows": partner[rows].tolist(),
            "frames": list(self.frames),
            "axisLabels": list(self.axis_labels),
            "optimum": self.optimum,
            "note": self.note,
            "methods": [
                {
                    "name": method.name,
                    "boundaries": list(method.boundaries),
                    "objective": _numbers(np.asarray(method.objective)),
                    "gradients": [
                        of if of is None else _numbers(of[rows]) for of in method.gradients
                    ],
                    "product": [of if of is None else _numbers(of[rows]) for of in method.product],
                }
                for method in self.methods
            ],
        }


def _numbers(array: NDArray[Any]) -> list[Any]:
    """Nested lists of numbers with five digits, None for what JSON cannot hold."""
    if array.ndim > 1:
        return [_numbers(part) for part in array]
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in array.tolist()]


def explorer_of(one: Experiment) -> Explorer:
    """Train both algorithms as the experiment's first seed did, and show where they go.

    The first epoch, in which most happens, is shown in eight pieces.
    """
    workbench = Workbench.of(one.name, one.loss)
    problem, table = workbench.problem, workbench.paper_table()
    epochs, plane = one.protocol["epochs"], Plane.of(problem.X)
    frames = np.concatenate([np.arange(POINTS) / POINTS, np.arange(1, epochs + 1)])
    shown = {int(at) for at in np.linspace(0, len(frames) - 1, _FRAMES_WITH_GRADIENTS)}
    shown |= {min(len(frames) - 1, POINTS)}
    bounds = products(problem, np.arange(problem.n), table.partner)
    bounds = bounds * problem.y * problem.y[table.partner]
    methods = []
    for name in PAPER:
        weights = training(workbench, name, one.eta0, epochs)
        slopes = [
            problem.slopes(coef) if place in shown else None for place, coef in enumerate(weights)
        ]
        gradients = [of if of is None else _gradients(problem.X, of) for of in slopes]
        methods.append(
            Training(
                name,
                [plane.line(coef) for coef in weights],
                objectives(problem, weights),
                [of if of is None else plane.directions(of) for of in gradients],
                [of if of is None else of * of[table.partner] * bounds for of in slopes],
            )
        )
    explorer = Explorer(
        one.name,
        plane.points(problem.X),
        problem.y.astype(int),
        table.partner,
        frames.tolist(),
        methods,
        plane.line(one.w_star),
        note=_NOTE,
    )
    if problem.d > 2:
        return explorer
    return replace(explorer, axis_labels=("first feature", "second feature"), note="")


def training(workbench: Workbench, method: str, eta0: float, epochs: int) -> Array:
    """Weights of the first seed at the start, at points of the first epoch, after each epoch."""
    inside = workbench.inside(method, InverseTime(eta0), seeds=1, epochs=epochs)[0]
    found: Array = np.concatenate([inside[:POINTS], inside[POINTS::POINTS]])
    return found


def _gradients(X: Any, slopes: Array) -> Any:
    """Gradient of each row's loss."""
    return X.multiply(slopes[:, None]).tocsr() if sparse.issparse(X) else slopes[:, None] * X


def thin_rows(partner: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """Rows to draw, sorted, at most ``limit``.

    They are whole cycles of the table in a random order, so that partners stay together.

    Of a matching that leaves out whole pairs. If a table has a cycle too long to fit, a piece of it
    is taken, and only the piece's last row is without its partner.
    """
    n = len(partner)
    if n <= limit:
        return np.arange(n)
    taken = np.zeros(n, dtype=bool)
    left, misses = limit, 0
    for start in np.random.default_rng(0).permutation(n):
        if left < 2 or misses == 100:
            break
        if taken[start]:
            continue
        cycle = _cycle(partner, int(start), limit)
        if left < len(cycle) < limit:
            # a cycle that would fit on an empty page is not cut: a shorter one may fill the room
            misses += 1
            continue
        taken[cycle[:left]] = True
        left = limit - int(taken.sum())
    return np.flatnonzero(taken)


def _cycle(partner: NDArray[np.intp], start: int, limit: int) -> list[int]:
    """Rows met from ``start`` on until it comes back, or until there are ``limit``."""
    rows = [start]
    while len(rows) < limit and (row := int(partner[rows[-1]])) != start:
        rows.append(row)
    return rows
