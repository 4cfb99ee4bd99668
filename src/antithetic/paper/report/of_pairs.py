"""The pair explorer of a set of the paper: Figure 1 on real rows, with both algorithms at work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.paper import Part
from antithetic.paper.measures import products
from antithetic.paper.report.content import Explorer, TrainingFrames
from antithetic.paper.report.plane import Plane
from antithetic.paper.runs import POINTS, Bench, in_pieces, objectives
from antithetic.paper.settings import PAPER, load
from antithetic.problem import Problem
from antithetic.solvers import After
from antithetic.solvers.sgd import make_sgd
from antithetic.solvers.steps import InverseTime

_FRAMES_WITH_GRADIENTS = 4
_NOTE = (
    "The rows, projected onto the plane of their first two principal components; the dashed line is"
    " where the decision boundary cuts that plane. Both methods start at zero weights, with the"
    " same steps and the first seed."
)


def explorer_of(part: Part) -> Explorer:
    """Train both algorithms as the part's first seed did, and show where they go.

    The first epoch, in which most happens, is shown in eight pieces.
    """
    X, y = load(part.name)
    problem = Problem.build(X, y, loss=part.loss, l2=part.decay)
    bench = Bench(problem, y)
    table, plane = bench.paper_table(), Plane.of(problem.X)
    frames = np.concatenate([np.arange(POINTS) / POINTS, np.arange(1, part.settings["epochs"] + 1)])
    shown = _some(len(frames))
    bounds = (
        products(problem, np.arange(problem.n), table.partner)
        * problem.y
        * problem.y[table.partner]
    )
    methods = []
    for name in PAPER:
        weights = training(bench, name, part.eta0, part.settings["epochs"])
        slopes = [
            problem.slopes(weights[place]) if place in shown else None
            for place in range(len(frames))
        ]
        methods.append(
            TrainingFrames(
                name,
                np.array([plane.line(coef) for coef in weights]),
                objectives(problem, weights),
                [
                    None if slope is None else plane.directions(_scaled(problem, slope))
                    for slope in slopes
                ],
                [
                    None if slope is None else slope * slope[table.partner] * bounds
                    for slope in slopes
                ],
            )
        )
    return Explorer(
        part.name,
        plane.points(problem.X),
        problem.y.astype(int),
        table.partner,
        frames.tolist(),
        methods,
        optimum=plane.line(part.w_star),
        axis_labels=(
            ("first principal component", "second principal component")
            if problem.d > 2
            else ("first feature", "second feature")
        ),
        note=_NOTE if problem.d > 2 else "",
    )


def training(bench: Bench, method: str, eta0: float, epochs: int) -> NDArray[np.float64]:
    """Weights of the first seed at the start, at points of the first epoch, after each epoch."""
    problem, solver = bench.problem, make_sgd(bench.problem, average=False)
    schedule = InverseTime(eta0).schedule(problem.loss, problem.penalty)
    sampler, after = bench.sampler(method, 0), After(*solver.init())
    found = [np.zeros(problem.d)]
    for after in in_pieces(solver, after, sampler.batches(0), schedule):  # noqa: B020
        found.append(after.state.coef)
    for epoch in range(1, epochs):
        after = solver.epoch(after.state, after.own, sampler.batches(epoch), schedule)
        found.append(after.state.coef)
    return np.array(found)


def _some(frames: int) -> set[int]:
    """Frames with gradients: the first, the last, and a few between."""
    return {
        int(place) for place in np.linspace(0, frames - 1, min(frames, _FRAMES_WITH_GRADIENTS))
    } | {min(frames - 1, POINTS)}


def _scaled(problem: Problem, slopes: NDArray[np.float64]) -> object:
    """Gradient of each row's loss."""
    return (
        problem.X.multiply(slopes[:, None]).tocsr()
        if sparse.issparse(problem.X)
        else slopes[:, None] * problem.X
    )
