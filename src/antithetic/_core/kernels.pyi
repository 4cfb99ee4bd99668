from typing import Any

import numpy as np
from numpy.typing import NDArray

isa: str

def available() -> tuple[str, ...]: ...

_Column = NDArray[np.float64]
_Index = NDArray[np.intp]
_Reals = NDArray[Any]  # of the rows' float type

class Targets:
    def __init__(self, y: _Column, weight: _Column) -> None: ...

class ClassTargets:
    def __init__(self, codes: _Index, weight: _Column, n_classes: int) -> None: ...

class Batches:
    counted: int
    def __init__(
        self, rows: _Index, starts: _Index, size: int, factors: _Column, steps: int, samples: int
    ) -> None: ...

class StepRule:
    def __init__(
        self,
        loss: int,
        epsilon: float,
        l2: float,
        l1: float,
        schedule: tuple[int, float, float, float],
        fit_intercept: bool,
        steepest: float,
        watch: bool,
    ) -> None: ...

class Averaging:
    def __init__(self, start: int, linear: bool, every: int) -> None: ...

class Preconditioner:
    def __init__(self, centre: _Reals, metric: _Reals, products: _Column) -> None: ...

class Restoration:
    def __init__(
        self,
        factor: float = 1.0,
        shift: float = 0.0,
        up: float = 1.0,
        down: float = 1.0,
        kept: float = 1.0,
        side: int = 0,
    ) -> None: ...

class Rows:
    @staticmethod
    def dense(X: _Reals) -> Rows: ...
    @staticmethod
    def csr(data: _Reals, indices: NDArray[Any], indptr: NDArray[Any], d: int) -> Rows: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    def sgd_epoch(
        self,
        targets: Targets,
        batches: Batches,
        rule: StepRule,
        averaging: Averaging,
        coef: _Reals,
        intercept: float,
        average: _Column,
        average_intercept: float,
        average_weight: float,
        received: _Column,
        charged: float,
        unit: int,
        following: _Index,
        preconditioner: Preconditioner | None = None,
    ) -> tuple[float, float, float, float, float]: ...
    def softmax_epoch(
        self,
        targets: ClassTargets,
        batches: Batches,
        rule: StepRule,
        averaging: Averaging,
        coef: _Reals,
        intercept: _Column,
        average: _Column,
        average_intercept: _Column,
        average_weight: float,
        unit: int,
        sketch_bytes: int,
        following: _Index,
        threads: int,
        preconditioner: Preconditioner | None = None,
    ) -> tuple[float, float]: ...
    def column_sums(
        self,
        weight: _Column,
        shift: _Column,
        total: _Column,
        square: _Column,
        least: _Column,
        greatest: _Column,
    ) -> None: ...
    def corrected_epoch(
        self,
        targets: Targets,
        batches: Batches,
        rule: StepRule,
        coef: _Reals,
        intercept: float,
        slopes: _Column,
        mean: _Reals,
        keeps: bool,
        members: _Index,
        starts: _Index,
        owner: _Index,
        multiples: _Column,
    ) -> tuple[float, float]: ...
    def dual_epoch(
        self,
        targets: Targets,
        order: _Index,
        squares: _Column,
        loss: int,
        share: float,
        watch: bool,
        gone: float,
        gone_at_least: float,
        coef: _Reals,
        duals: _Column,
        signed_margins: _Column,
        limits: _Column,
    ) -> tuple[float, int, int]: ...
    def balance(
        self, order: _Index, multiples: _Column, fit_intercept: bool, unit: int, following: _Index
    ) -> None: ...
    def losses_at(
        self,
        targets: Targets,
        loss: int,
        epsilon: float,
        coef: _Reals,
        intercept: float,
        other: _Reals,
        other_intercept: float,
    ) -> tuple[float, float]: ...
    def evaluate(
        self,
        targets: Targets,
        loss: int,
        epsilon: float,
        coef: _Column,
        intercept: float,
        slopes: _Column,
        curvatures: _Column,
        predictions: _Column,
        gradient: _Column,
        threads: int,
    ) -> tuple[float, float, float, float]: ...
    def visit_after_step(
        self,
        targets: Targets,
        loss: int,
        epsilon: float,
        coef: _Column,
        intercept: float,
        before: _Column,
        after: _Column,
        sums: _Column,
        threads: int,
    ) -> tuple[float, float, float, float, float, float]: ...
    def reach(self, centre: _Column, scale: _Column, out: _Column) -> None: ...
    def combine(self, factors: _Column, total: _Column, threads: int) -> None: ...
    def gram_product(
        self, weight: _Column, vector: _Column, constant: float, total: _Column, threads: int
    ) -> float: ...
    def weighted_squares(self, weight: _Column, total: _Column) -> None: ...
    def weigh_rows(
        self, roots: _Column, centre: _Column, start: int, table: _Reals, threads: int
    ) -> None: ...
    def gram(self, weight: _Column, gram: _Column) -> None: ...
    def squares(
        self,
        y: _Column,
        weight: _Column,
        centre: _Column,
        target_centre: float,
        has_intercept: bool,
        is_single: bool,
        products: _Column,
        threads: int,
    ) -> bool: ...
    def solve_buckets(
        self,
        scale: _Reals,
        codes: _Index,
        share: float,
        constant: float,
        order: _Index,
        partners: _Index,
        starts: _Index,
        partner: _Index,
    ) -> None: ...

def values(loss: int, epsilon: float, y: _Column, p: _Column, out: _Column) -> None: ...
def slopes(loss: int, epsilon: float, y: _Column, p: _Column, out: _Column) -> None: ...
def curvatures(loss: int, epsilon: float, y: _Column, p: _Column, out: _Column) -> None: ...
def bend_predictions(
    targets: Targets,
    loss: int,
    epsilon: float,
    predictions: _Column,
    slopes: _Column,
    curvatures: _Column,
) -> None: ...
def loss_along(
    targets: Targets,
    loss: int,
    epsilon: float,
    predictions: _Column,
    after: _Column,
    step: float,
) -> tuple[float, float]: ...
def dual_cost(
    targets: Targets,
    loss: int,
    epsilon: float,
    predictions: _Column,
    after: _Column,
    restoration: Restoration,
    slopes: _Column,
) -> float: ...
def newton_on_table(
    table: NDArray[np.float64],
    targets: Targets,
    loss: int,
    epsilon: float,
    offset: _Column,
    ridge: _Column,
    steps: int,
    enough: float,
    least_ridge: float,
    point: _Column,
    hessian: NDArray[np.float64],
) -> None: ...
def minimise_products(
    products: NDArray[np.float64], l2: float, has_intercept: bool, rounding: float, point: _Column
) -> tuple[float, float, float] | None: ...
def along_axes(matrix: NDArray[np.float64], values: _Column, components: _Column) -> bool: ...
def descend(
    hessian: _Column,
    l1: _Column,
    start: _Column,
    slopes: _Column,
    step: _Column,
    enough: float,
    most_sweeps: int,
) -> None: ...
def softmax_slopes(
    scores: _Reals, labels: _Index, weight: _Column, sums: _Column
) -> tuple[float, float, float]: ...
def softmax_chances(scores: _Reals, curvatures: _Reals) -> None: ...
def softmax_step(
    before: _Reals, after: _Reals, labels: _Index, weight: _Column, both: _Reals, sums: _Column
) -> tuple[float, float, float, float]: ...
def softmax_along(
    before: _Reals, after: _Reals, labels: _Index, weight: _Column, step: float
) -> tuple[float, float]: ...
def softmax_step_cost(
    before: _Reals,
    after: _Reals,
    labels: _Index,
    weight: _Column,
    kept: _Column,
    given: _Column,
    share: float,
) -> float: ...
def conjugates(loss: int, epsilon: float, y: _Column, p: _Column, out: _Column) -> None: ...
def columns_rise(indices: NDArray[Any], indptr: NDArray[Any]) -> bool: ...
def are_finite(numbers: _Reals) -> bool: ...
def two_values(y: NDArray[np.float64] | NDArray[np.int64]) -> tuple[float, float]: ...
def sum_of_losses(loss: int, epsilon: float, y: _Column, p: _Column, weight: _Column) -> float: ...
def dual_step(loss: int, y: float, weight: float, a: float, p: float, q: float) -> float: ...
def rest_limits(
    loss: int,
    targets: Targets,
    squares: _Column,
    duals: _Column,
    predictions: _Column,
    margins: _Column,
    limits: _Column,
) -> None: ...
def draw_order(order: _Index, seed: NDArray[np.uint64]) -> None: ...
def draw_by_hash(share: _Column, size: float, seed: int, first: int) -> _Index: ...
def invert(sums: _Column, numbers: _Column, drawn: _Index) -> None: ...
def balance_observed(
    rows: _Index,
    vectors: NDArray[np.float32],
    slopes: NDArray[np.float32],
    placed: NDArray[np.bool_],
    following: _Index,
    marks: NDArray[np.int64],
    signed_sum: _Column,
    held: _Column,
) -> None: ...
def offer(products: _Reals, first: int, values: _Reals, positions: _Index) -> None: ...
def offer_panels(
    rows: NDArray[np.float32],
    panels: NDArray[np.float32],
    values: NDArray[np.float32],
    positions: _Index,
) -> None: ...
def sharpen(
    rows: NDArray[np.float64],
    vectors: NDArray[np.float64],
    rounded: NDArray[np.float32],
    slack: _Column,
    scale: float,
    positions: _Index,
) -> None: ...
def choose(positions: _Index, n_free: int) -> _Index: ...
def choose_pairs(positions: _Index, n_free: int) -> _Index: ...
def alternate_links(partner: _Index, products: _Column) -> _Index: ...
def skip_missing(partner: _Index, kept: _Index, place: _Index) -> _Index: ...
def buckets(
    points: NDArray[np.float32], low: int, high: int, leaf: int, rows: _Index, others: _Index
) -> _Index: ...
def assign(cost: _Column) -> tuple[_Index, _Column]: ...
